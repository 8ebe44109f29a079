"""The turns of agent_path.py: drawn from held-out questions to the stated shares, a function of the seed.

Each turn knows what is right: its topic, and the tool calls that it needs. Histories are made of other
questions with the desk's own answers, or with words of an agent.
"""

import itertools
import json
import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from edge.bundle import Bundle
from edge.normaliser import Lang

HERE = Path(__file__).parent
AGENT = HERE.parent / "examples/agent"
sys.path.append(str(AGENT))
from tokens import split  # noqa: E402 - the scripted LLM's own tokens are what is counted here

KINDS = {"faq": 0.38, "one_tool": 0.25, "two_tools": 0.07, "agent": 0.30}
HISTORY = {"follow_up": 0.15, "short": 0.06, "long": 0.06}  # of all turns; together those with a history
AGENT_WORK = {"in_scope": 0.4, "near_miss": 0.3, "out_of_scope": 0.3}
LONG_TOKENS = (2000, 8000)  # of a long history
TURNS_OF_A_LONG_CONVERSATION = 3
ANSWER_TOKENS = (40, 200)
PEOPLE = ("ana", "bo", "chen", "dana", "eva", "feng", "gao", "hana", "ivan", "jin")
JOINED = {
    "en": ("{}, and {}", "{}. Also, {}", "two things: {}, and {}"),
    "zh": ("{},另外{}", "{},还有{}", "{},再帮我看下{}"),
}
MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]

Message = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that a question needs."""

    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """One user turn and what is right for it.

    ``kind``: of KINDS; ``sort``: of the question in its file; ``topics``: the right ones; ``history``: why
    there is one, "" for none; ``conversation``: of the turns of one long conversation; ``answer_tokens``:
    how long the LLM's answer will be.
    """

    text: str
    kind: str
    sort: str
    lang: str
    topics: tuple[str, ...]
    calls: tuple[Call, ...] = ()
    history: str = ""
    before: Sequence[Message] = field(default=(), repr=False)
    conversation: int | None = None
    user: str = ""
    answer_tokens: int = 0

    @property
    def messages(self) -> list[Message]:
        return [*self.before, {"role": "user", "content": self.text}]

    @property
    def tools(self) -> tuple[str, ...]:
        return tuple(sorted({call.tool for call in self.calls}))

    def written(self) -> dict[str, Any]:
        """What stands in the result."""
        history = {"history": self.history, "history_tokens": tokens(self.before)} if self.history else {}
        return {
            "text": self.text,
            "kind": self.kind,
            "sort": self.sort,
            "topics": self.topics,
            "calls": [{"tool": call.tool, **call.arguments} for call in self.calls],
            "answer_tokens": self.answer_tokens,
            **history,
        }


def tokens(messages: Sequence[Message]) -> int:
    return sum(len(split(message["content"])) for message in messages)


def draw(count: int, seed: int, desk: Path, bundle: Bundle, today: date) -> list[Turn]:
    """``count`` turns in the order in which they are asked."""
    rng = random.Random(seed)
    pools = _pools(desk, bundle, today)
    past = _Past(rng, desk, bundle)
    turns: list[Turn] = []
    for (kind, share), lang in itertools.product(KINDS.items(), ("en", "zh")):
        turns += _of_kind(kind, round(count * share / 2), pools, lang, rng)
    rng.shuffle(turns)
    length = {turn.text: rng.randint(*ANSWER_TOKENS) for turn in turns}
    turns = [replace(turn, answer_tokens=length[turn.text], user=_asker(turn, rng)) for turn in turns]
    return _with_histories(turns, past)


def _of_kind(
    kind: str, count: int, pools: Mapping[tuple[str, str, str], list[Turn]], lang: str, rng: random.Random
) -> Iterator[Turn]:
    follow_ups = _Deck(pools[kind, "follow_up", lang], rng)
    own = 0 if kind == "two_tools" else round(count * HISTORY["follow_up"])
    yield from itertools.islice(follow_ups, own)
    rest = count - own
    if kind == "two_tools":
        alone = [_two(pools["one_tool", "in_scope", lang], lang, rng) for _ in range(rest)]
    elif kind == "agent":
        # Cumulated, so that rounding cannot change the sum.
        ends = [round(rest * share) for share in itertools.accumulate(AGENT_WORK.values())]
        numbers = [end - start for start, end in zip([0, *ends], ends, strict=False)]
        alone = [
            turn
            for sort, number in zip(AGENT_WORK, numbers, strict=True)
            for turn in itertools.islice(_Deck(pools[kind, sort, lang], rng), number)
        ]
    else:
        alone = list(itertools.islice(_Deck(pools[kind, "in_scope", lang], rng), rest))
    rng.shuffle(alone)
    long = round(count * HISTORY["long"])
    short = round(count * sum(HISTORY.values())) - own - long
    for place, turn in enumerate(alone):
        yield replace(turn, history="long" if place < long else "short" if place < long + short else "")


class _Deck:
    """Draws without putting back, until all were drawn."""

    def __init__(self, items: Sequence[Turn], rng: random.Random) -> None:
        self._items, self._rng, self._left = items, rng, list[Turn]()

    def __iter__(self) -> Iterator[Turn]:
        while self._items:
            if not self._left:
                self._left = self._rng.sample(self._items, len(self._items))
            yield self._left.pop()


def _pools(desk: Path, bundle: Bundle, today: date) -> dict[tuple[str, str, str], list[Turn]]:
    """The questions by kind, sort and language, but those for a tool that it could not be called with."""
    calls = {
        row["text"]: (Call(row["tool"], _dated(row["arguments"], today)),)
        for row in _rows(HERE / "agent_path_calls.jsonl")
    }
    pools = defaultdict(list)
    for row in _rows(desk / "eval/test.jsonl"):
        topic = bundle.by_id.get(row["topic"])
        kind = {"answer": "faq", "tool": "one_tool"}.get(topic.route if topic else "", "agent")
        turn = Turn(row["text"], kind, row["kind"], row["lang"], (row["topic"],), calls.get(row["text"], ()))
        if turn.sort == "follow_up":
            turn = replace(turn, history="follow_up", before=tuple(row["history"]))
        if turn.kind != "one_tool" or turn.calls:
            pools[turn.kind, turn.sort, turn.lang].append(turn)
    return pools


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def _dated(arguments: Mapping[str, Any], today: date) -> dict[str, Any]:
    """The arguments with the month that they name by words, as it is on a day."""
    word = arguments.get("month")
    if word is None:
        return dict(arguments)
    if word in MONTHS:
        number = MONTHS.index(word) + 1
        return {**arguments, "month": f"{today.year - (number > today.month)}-{number:02}"}
    back = {"this month": 0, "yesterday": 1, "monday": today.weekday(), "last week": today.weekday() + 7}
    day = today.replace(day=1) - timedelta(1) if word == "last month" else today - timedelta(back[word])
    return {**arguments, "month": f"{day:%Y-%m}"}


def _owner(turn: Turn) -> str | None:
    """Whose order or claim is asked for: the demo company goes by the last digit."""
    numbers = [value for call in turn.calls for name in ("order_id", "claim_no")
               if (value := call.arguments.get(name))]  # fmt: skip
    return PEOPLE[int(numbers[0][-1])] if numbers else None


def _asker(turn: Turn, rng: random.Random) -> str:
    """Who asks: everybody asks for their own orders and claims."""
    anybody = rng.choice(PEOPLE)
    return _owner(turn) or anybody


def _two(pool: Sequence[Turn], lang: str, rng: random.Random) -> Turn:
    """Two questions for two tools in one turn, of one person."""
    while True:
        a, b = rng.sample(pool, 2)
        if a.tools != b.tools and len({_owner(a), _owner(b)} - {None}) < 2:
            break
    first, second = (turn.text.rstrip("?？.。!") for turn in (a, b))
    text = rng.choice(JOINED[lang]).format(first, second)
    return Turn(text, "two_tools", "in_scope", lang, (*a.topics, *b.topics), (*a.calls, *b.calls))


class _Past:
    """What was said before: questions by the same shares, the desk's answers where it has one."""

    def __init__(self, rng: random.Random, desk: Path, bundle: Bundle) -> None:
        self._rng = rng
        self._asked: dict[tuple[bool, str], list[tuple[str, str]]] = defaultdict(list)
        self._sentences: dict[str, list[str]] = defaultdict(list)
        for (_, lang), answer in bundle.answers.items():
            self._sentences[lang] += [line for line in answer.text.splitlines() if line.strip()]
        for row in _rows(desk / "eval/calibrate.jsonl"):
            if row["kind"] == "in_scope":
                ours = bundle.answers.get((row["topic"], Lang(row["lang"])))
                said = ours.text if ours else ""
                self._asked[bool(said), row["lang"]].append((row["text"], said))

    def exchange(self, lang: str) -> tuple[Message, Message]:
        faq = self._rng.random() < KINDS["faq"]
        asked, said = self._rng.choice(self._asked[faq, lang])
        return {"role": "user", "content": asked}, self.reply(lang, said)

    def reply(self, lang: str, said: str = "") -> Message:
        """The desk's answer, or an agent's of as many tokens as any: sentences of the desk's, by lot."""
        length = self._rng.randint(*ANSWER_TOKENS)
        while not said or (said[-1:] == "\n" and len(split(said)) < length):
            said += self._rng.choice(self._sentences[lang]) + "\n"
        return {"role": "assistant", "content": said.rstrip("\n")}

    def some(self, lang: str) -> list[Message]:
        return [message for _ in range(self._rng.randint(1, 2)) for message in self.exchange(lang)]

    def long(self, lang: str) -> list[Message]:
        wanted = self._rng.randint(*LONG_TOKENS)
        said: list[Message] = []
        while tokens(said) < wanted:
            said += self.exchange(lang)
        return said


def _with_histories(turns: Sequence[Turn], past: _Past) -> list[Turn]:
    """Give turns their histories. Those of a long conversation follow one another, as in one window."""
    done = list(turns)
    running: dict[str, tuple[int, int, list[Message]]] = {}
    number = itertools.count()
    for place, turn in enumerate(turns):
        if turn.history == "short":
            done[place] = replace(turn, before=past.some(turn.lang))
        if turn.history != "long":
            continue
        if turn.lang not in running:
            running[turn.lang] = (next(number), 0, past.long(turn.lang))
        conversation, asked, said = running.pop(turn.lang)
        done[place] = replace(turn, before=said, conversation=conversation)
        if asked + 1 < TURNS_OF_A_LONG_CONVERSATION:
            said = [*done[place].messages, past.reply(turn.lang)]
            running[turn.lang] = (conversation, asked + 1, said)
    return done
