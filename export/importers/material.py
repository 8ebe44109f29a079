"""What a file of another tool says, before anything of it is judged: texts, topics, answers."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from edge.errors import DeskError
from edge.normaliser import Lang
from export.desk import OUT_OF_SCOPE

_SHOWN_PROBLEMS = 20


class Side(StrEnum):
    """What a text is for."""

    TRAIN = "train"
    CALIBRATE = "calibrate"
    TEST = "test"


_SPLITS = {
    **dict.fromkeys(("train", "training"), Side.TRAIN),
    **dict.fromkeys(("val", "valid", "validation", "dev", "calibrate"), Side.CALIBRATE),
    "test": Side.TEST,
}
SPLITS = ", ".join(_SPLITS)


def side_of(split: str) -> Side | None:
    """The side that a split's name stands for, or None where it is no such name."""
    return _SPLITS.get(split.strip().lower())


def is_out_of_scope(label: str) -> bool:
    """Whether an intent's name says that nothing here answers its texts."""
    return label.strip().lower() == OUT_OF_SCOPE


@dataclass(frozen=True, slots=True)
class Said:
    """A text as its file has it. ``topic`` is a key of ``Material.titles``, or ``oos``.

    ``side``: where the file puts it, if it says so. ``lang``: what the file calls its language.
    ``asked``: it is the question that its topic is named after, and so stays an example.
    """

    text: str
    topic: str
    where: str
    side: Side | None = None
    lang: Lang | None = None
    asked: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer to a topic, with the language that the file says it is in."""

    text: str
    topic: str
    where: str
    lang: Lang | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something of the file that does not become part of the desk. ``what`` is for people."""

    reason: str
    where: str
    what: str


@dataclass(slots=True)
class Material:
    """All that a file says. ``titles``: topic key → the name that people gave it, in the file's order."""

    titles: dict[str, str] = field(default_factory=dict)
    said: list[Said] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    left: list[LeftOut] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def intent(self, name: str) -> str:
        """The key of an intent."""
        name = name.strip()
        if is_out_of_scope(name):
            return OUT_OF_SCOPE
        self.titles.setdefault(name, name)
        return name

    def faq(
        self, question: str, answer: str | None, variants: Iterable[str], where: str, lang: Lang | None = None
    ) -> None:
        """An entry of an FAQ. The same question with the same answer is the same topic.

        With another answer it is another topic, so that the conflict comes to light.
        """
        question, answer = question.strip(), (answer or "").strip()
        key = f"{question.lower()}\0{answer}"
        self.titles.setdefault(key, question)
        self.said.append(Said(question, key, where, lang=lang, asked=True))
        self.said += [Said(text, key, where, lang=lang) for text in variants if text.strip()]
        if answer:
            self.replies.append(Reply(answer, key, where, lang))

    def leave(self, reason: str, where: str, what: str) -> None:
        """Say of something that it was left out."""
        self.left.append(LeftOut(reason, where, what))

    def whole(self) -> "Material":
        """This material. Raises DeskError where the file has problems."""
        if self.problems:
            more = len(self.problems) - _SHOWN_PROBLEMS
            rest = [f"… and {more} more problems like these."] if more > 0 else []
            raise DeskError([*self.problems[:_SHOWN_PROBLEMS], *rest])
        return self


def short(value: object) -> str:
    """A value for a message: one line, without control characters, not too long."""
    text = repr(value)
    return text if len(text) <= 70 else f"{text[:69]}…"


def is_text(value: object) -> bool:
    """Whether a value is a text that is not blank and can be written as UTF-8."""
    if not isinstance(value, str) or not value.strip():
        return False
    return not any("\ud800" <= char <= "\udfff" for char in value)
