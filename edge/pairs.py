"""Whether two questions may share an answer: the first thing in which they differ, and how alike they are.

Cosine alone cannot tell: a question and its negation, or the same question of another city, are nearer to
each other than most paraphrases. docs/cache.md has the figures.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from edge.asked import CONNECTOR, Asked, read
from edge.moments import Calendar
from edge.normaliser import Lang, Normaliser
from edge.words import FIGURE, Words

# What only one question mentions counts where at most this share of all that they are about differs: in two
# long tellings of one trouble something is always left out.
_NEARLY_THE_SAME = 0.5
# Of the share of words that only one question has, taken off the cosine. Chosen on the tuning halves of the
# pairs in docs/cache.md, where 0.2 to 1 do as well for a frozen encoder, and a tuned one needs more.
_UNSHARED = 0.5
_CONTENT = ("word:", "side:")
_QUANTITIES = frozenset({"all", "some", "only"})
_ANY_DAY = date(2024, 1, 3)
_VAGUE = frozenset({"what", "how"})
# What nobody asks who only wants to hear whether.
_NEVER_IMPLIED = frozenset({"why", "who", "how_many"})


@dataclass(frozen=True, slots=True)
class PairGuard:
    """Compares two questions by the language data of a bundle."""

    words: Words
    calendar: Calendar
    normaliser: Normaliser

    @classmethod
    def of_data(cls, data: Mapping[str, Any], calendar: Calendar, normaliser: Normaliser) -> "PairGuard":
        """The guard of a manifest's ``pairs``. Raises KeyError, TypeError or ValueError."""
        return cls(Words.of_data(data), calendar, normaliser)

    def read(self, text: str) -> Asked:
        """A question, to be compared more than once; ``text`` as in ``differs``."""
        return read(text, self.words)

    def differs(self, a: str, b: str, lang: Lang) -> str | None:
        """The name of the first thing in which two questions of a language differ; None where nothing does.

        ``a`` and ``b``: texts as ``Normaliser.typed`` gives them (capitals tell names) or in reading form.
        ``language, polarity, number, unit, date, named_value, question_word, person, scope, direction`` or
        ``obligation``. It says nothing of whether they are alike: that is the score's part.
        """
        return self.difference(self.read(a), self.read(b), lang)

    def score(self, cosine: float, a: Asked, b: Asked) -> float:
        """How alike two questions are, in [0, 1]: their embeddings' cosine, less what they do not share."""
        return min(1.0, max(0.0, cosine - _UNSHARED * unshared(a, b)))

    def difference(self, a: Asked, b: Asked, lang: Lang) -> str | None:
        """``differs`` of questions that were read before."""
        if any(self.normaliser.lang(asked.text.lower()) != lang for asked in (a, b)):
            return "language"
        if a.text == b.text:
            return None
        near = unshared(a, b) <= _NEARLY_THE_SAME
        return (
            _polarity(a, b, near)
            or self._amounts(a, b, lang, near)
            or _names(a, b, near)
            or _question(a, b, near)
            or ("person" if _apart(a.of("person"), b.of("person"), near) else None)
            or ("scope" if _scopes(a.of("scope"), b.of("scope")) else None)
            or ("direction" if _turned(a, b) else None)
            or ("obligation" if _obliged(a, b) else None)
            or ("named_value" if _one_word_apart(a, b) else None)
        )

    def _amounts(self, a: Asked, b: Asked, lang: Lang, near: bool) -> str | None:
        numbers = _apart(a.of("number"), b.of("number"), near)
        dates = _apart(a.of("date"), b.of("date"), near)
        if not (numbers or dates) or self._same_moments(a, b, lang):
            return None
        if not numbers:
            return "date"
        same_figures = a.of(FIGURE) == b.of(FIGURE) and len(a.of("number")) == len(b.of("number"))
        return "unit" if same_figures else "number"

    def _same_moments(self, a: Asked, b: Asked, lang: Lang) -> bool:
        """Whether days and times are the same in other words (下午三点, 15:00), and other numbers as well."""
        (one, rest), (two, other) = self._moments(a, lang), self._moments(b, lang)
        return (
            bool(one) and one == two and all(rest.of(kind) == other.of(kind) for kind in ("number", "date"))
        )

    def _moments(self, asked: Asked, lang: Lang) -> tuple[list[tuple[str, str]], Asked]:
        """What moments a text tells, none where one has no value, and what is read of the rest of it."""
        text = asked.text
        found, _ = self.calendar.read(text.lower(), _ANY_DAY, month_first=lang is Lang.ZH)
        for moment in found:
            text = text[: moment.start] + " " * (moment.end - moment.start) + text[moment.end :]
        told = sorted((moment.kind, str(moment.values)) for moment in found)
        return told if all(moment.values for moment in found) else [], self.read(text)


def unshared(a: Asked, b: Asked) -> float:
    """The share of what two questions are about that only one of them has, in [0, 1]."""
    both = a.core | b.core
    return len(a.core ^ b.core) / len(both) if both else 0.0


def _apart(one: frozenset[str], two: frozenset[str], near: bool) -> bool:
    """Whether each has what the other lacks; in nearly the same questions, whether either has."""
    return bool((one ^ two) if near else (one - two and two - one))


def _polarity(a: Asked, b: Asked, near: bool) -> str | None:
    if not near and not (a.negations and b.negations):
        return None
    denied = bool(a.negations) != bool(b.negations) or a.negations % 2 != b.negations % 2
    return "polarity" if denied else None


def _names(a: Asked, b: Asked, near: bool) -> str | None:
    mine, theirs = a.names - b.core, b.names - a.core
    typed = bool(mine or theirs) if near else bool(mine and theirs)
    return "named_value" if typed or _apart(a.of("name"), b.of("name"), near) else None


def _question(a: Asked, b: Asked, near: bool) -> str | None:
    one, two = _asks(a), _asks(b)
    if one == two:
        return None
    if one and two:
        return "question_word"
    if not near:
        return None
    asked, other = (one, b) if one else (two, a)
    if asked == {"why"} and "how" in other.of("ask"):  # 怎么 asks for either
        return None
    implied = not (asked & _NEVER_IMPLIED or other.of("ask") or other.of("yes_no"))
    return None if implied else "question_word"


def _asks(asked: Asked) -> frozenset[str]:
    """What is asked for; 费用是多少 asks for a price, and for no number."""
    asks = asked.of("ask") - _VAGUE
    return asks - {"how_many"} if "how_much" in asks else asks


def _scopes(one: frozenset[str], two: frozenset[str]) -> bool:
    return one != two and bool((one and two and (one | two) & _QUANTITIES) or "only" in one ^ two)


def _obliged(a: Asked, b: Asked) -> bool:
    """Whether the one asks what must be and the other what may be; where more is asked than that, both do."""
    one, two = a.of("modal"), b.of("modal")
    return not (a.of("ask") or b.of("ask")) and len(one) == len(two) == 1 and one != two


def _turned(a: Asked, b: Asked) -> bool:
    """Whether the one asks of the opposite, or has two values in each other's places."""
    one, two = _sides(a), _sides(b)
    if any(one[axis] != two[axis] for axis in one.keys() & two.keys()):
        return True
    for role in a.roles.keys() & b.roles.keys():
        mine, theirs = a.roles[role], b.roles[role]
        if not mine & theirs and (mine & b.core or theirs & a.core):
            return True
    if a.roles and a.roles == b.roles:
        return False
    return _swapped(a.parts, b.parts) or _swapped(a.order, b.order)


def _sides(asked: Asked) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for value in asked.of("side"):
        axis, _, side = value.partition(".")
        found.setdefault(axis, set()).add(side)
    return found


def _swapped(one: tuple[str, ...], two: tuple[str, ...]) -> bool:
    """Whether all that changed is that two items changed places, and nothing between them says they may."""
    mine, theirs = ([item for item in items if item != CONNECTOR] for items in (one, two))
    apart = [at for at, (x, y) in enumerate(zip(mine, theirs, strict=False)) if x != y]
    if len(mine) != len(theirs) or len(apart) != 2:
        return False
    first, last = apart
    swapped = (mine[first], mine[last])
    if swapped != (theirs[last], theirs[first]):
        return False
    kinds = {"word" if item.startswith(_CONTENT) else item.partition(":")[0] for item in swapped}
    # A screen that is broken is a broken screen; tomorrow in Shanghai, in Shanghai tomorrow.
    if len(kinds) > 1 or (kinds == {"word"} and last == first + 1):
        return False
    return not (_connected(one, first, last) or _connected(two, first, last))


def _connected(items: tuple[str, ...], first: int, last: int) -> bool:
    """Whether a connector stands between two core items, counted without connectors."""
    places = [at for at, item in enumerate(items) if item != CONNECTOR]
    return CONNECTOR in items[places[first] : places[last]]


def _one_word_apart(a: Asked, b: Asked) -> bool:
    """Whether each has one stretch of words that the other lacks: what is in no list is a name, too.

    Amounts and days that both tell were compared before, and may be the same in other words.
    """
    told = tuple(f"{kind}:" for kind in ("number", "date") if a.of(kind) and b.of(kind))
    return _stretch(a, b, told) and _stretch(b, a, told)


def _stretch(a: Asked, b: Asked, told: tuple[str, ...]) -> bool:
    items = [item for item in a.parts if item != CONNECTOR and not item.startswith(told)]
    places = [at for at, item in enumerate(items) if item not in b.core]
    return bool(places) and places[-1] - places[0] < len(places)
