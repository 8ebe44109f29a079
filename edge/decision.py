"""What the router says of a query, and what is decided: path, reason, evidence."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

import numpy as np

from edge.normaliser import Lang


class Path(StrEnum):
    """Where a turn goes."""

    FAQ = "faq"
    TOOL = "tool"
    CACHE = "cache"
    AGENT = "agent"
    ERROR = "error"


class Reason(StrEnum):
    """Why a turn takes its path. They are checked in this order; the first that applies wins."""

    BYPASS = "bypass"
    ANSWERING_OFF = "answering_off"
    OBSERVE = "observe"
    CLIENT_TOOLS = "client_tools"
    CLIENT_OPTIONS = "client_options"
    ATTACHMENT = "attachment"
    SYSTEM_PROMPT = "system_prompt"
    NOT_READY = "not_ready"
    TOO_LONG = "too_long"
    EXACT = "exact"
    UNSUPPORTED_LANGUAGE = "unsupported_language"
    MULTI_REQUEST = "multi_request"
    NEEDS_CONTEXT = "needs_context"
    RE_ASK = "re_ask"
    OUT_OF_SCOPE = "out_of_scope"
    LOW_CONFIDENCE = "low_confidence"
    LOW_MARGIN = "low_margin"
    NEGATION_MISMATCH = "negation_mismatch"
    NUMBER_MISMATCH = "number_mismatch"
    ENTITY_MISMATCH = "entity_mismatch"
    UNPROVEN = "unproven"
    TOPIC_FORWARDS = "topic_forwards"
    ANSWER_EXPIRED = "answer_expired"
    NO_ANSWER_IN_LANGUAGE = "no_answer_in_language"
    SLOT_MISSING = "slot_missing"
    TOOL_FAILED = "tool_failed"
    OVER_BUDGET = "over_budget"
    UNVERIFIED_CALLER = "unverified_caller"
    CONTROL_GROUP = "control_group"
    MATCHED = "matched"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A topic and the calibrated probability that it is the right one."""

    topic: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Reading:
    """What the router says of one text. Probabilities in [0, 1]; ``embedding`` float32 ``[dim]``.

    ``unread``: the letters that it has no token for. One unknown token stands for a run of them,
    however long, so what it hides was not read.
    """

    candidates: tuple[Candidate, ...]
    in_scope: float
    needs_context: float
    exit: int
    embedding: np.ndarray
    tokens: int
    unread: str = ""

    @property
    def topic(self) -> str:
        """The best topic."""
        return self.candidates[0].topic

    @property
    def confidence(self) -> float:
        """P(the best topic is right)."""
        return self.candidates[0].confidence

    @property
    def margin(self) -> float:
        """How far the best topic's confidence lies above the second's."""
        if len(self.candidates) < 2:
            return self.confidence
        return self.confidence - self.candidates[1].confidence


@dataclass(frozen=True, slots=True)
class GuardHit:
    """A guard that spoke, and the value it saw: ``negation``, ``weekday:saturday``, …"""

    name: str
    reason: Reason
    value: str


@dataclass(frozen=True, slots=True)
class Answer:
    """A text of one topic in one language, curated or made of tools' results. ``tokens``: its router tokens.

    What tools say is the caller's, so the text has no repr.
    """

    topic: str
    lang: Lang
    text: str = field(repr=False)
    tokens: int


SlotValue = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Filled:
    """A slot's value, valid by its declaration, and what of the text said it ("" for a default).

    Both are the user's words, so that no log may show them by accident: their repr is empty.
    """

    value: SlotValue = field(repr=False)
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Missing:
    """A slot without a value.

    ``reason``: ``not_said``, ``ambiguous`` (more than one value, or one that can be read two ways),
    ``invalid`` (no such day, or not what the declaration allows), ``free_text`` (its declaration takes
    any words, which cannot be told from the rest of the question) or ``caller`` (only the caller's
    identity may fill it).
    """

    reason: str
    required: bool = True


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A tool that the topic names, and its slots as far as the query fills them. Nothing is called."""

    tool: str
    slots: Mapping[str, Filled | Missing]

    @property
    def is_complete(self) -> bool:
        """Whether the tool can be asked what the user asks.

        Missing may be what only the caller's identity fills, and what need not be said and was not. An
        optional value that can be read two ways is no value that was left out.
        """
        missing = [slot for slot in self.slots.values() if isinstance(slot, Missing)]
        return all(
            slot.reason == "caller" or (not slot.required and slot.reason in ("not_said", "free_text"))
            for slot in missing
        )

    @property
    def values(self) -> dict[str, SlotValue]:
        """The filled slots."""
        return {name: slot.value for name, slot in self.slots.items() if isinstance(slot, Filled)}


class Level(IntEnum):
    """The most that may be done with a tool. Each level needs more certainty than the one before.

    ``SUGGEST``: named in the hints, never called. ``PREFETCH``: called while the turn is forwarded, for the
    agent to collect. ``INJECT``: its result goes with the forwarded conversation. ``ANSWER``: its result
    fills the topic's template, and no LLM is asked.
    """

    SUGGEST = 0
    PREFETCH = 1
    INJECT = 2
    ANSWER = 3

    @classmethod
    def of(cls, name: str) -> "Level":
        """The level of a name such as ``prefetch``. Raises KeyError."""
        return cls[name.upper()]

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Call:
    """A tool to be called with complete slots, what its result is for, and P(it is the right one)."""

    suggestion: Suggestion
    level: Level
    confidence: float


@dataclass(frozen=True, slots=True)
class Decision:
    """Path, reason and evidence.

    ``answer`` is set where the turn is answered here and the text is there. ``calls``: the tools to be
    called; on the path ``tool`` their results are to make the answer. ``observed`` holds what would have
    been decided where answering is off, observed or withheld from this user. ``tools``: those of the topic,
    where a router read the query.
    """

    path: Path
    reason: Reason
    lang: Lang | None = None
    reading: Reading | None = None
    topic: str | None = None
    guards: tuple[GuardHit, ...] = ()
    answer: Answer | None = None
    unproven: bool = False
    tools: tuple[Suggestion, ...] = ()
    calls: tuple[Call, ...] = ()
    observed: "Decision | None" = None

    @property
    def is_local(self) -> bool:
        """Whether the turn is to be answered here."""
        return self.path in (Path.FAQ, Path.TOOL, Path.CACHE)

    @property
    def confidence(self) -> float | None:
        """The calibrated confidence; 1 for an exact match; None where nothing was read."""
        if self.reason is Reason.EXACT:
            return 1.0
        return None if self.reading is None else self.reading.confidence

    @property
    def slots(self) -> dict[str, SlotValue]:
        """The filled slots of all tools by name, without those that two of the tools read differently."""
        read: dict[str, list[Filled | Missing]] = {}
        for tool in self.tools:
            for name, slot in tool.slots.items():
                read.setdefault(name, []).append(slot)
        return {
            name: slots[0].value
            for name, slots in read.items()
            if isinstance(slots[0], Filled) and all(slot == slots[0] for slot in slots)
        }
