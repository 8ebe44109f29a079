"""What a question asks, word by word: the parts in which two questions can differ.

The longest term wins; what is no term, no number and no filler is content by itself. A word that is read
wrongly in one question is read wrongly in its repetition too, and only differences count.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from edge.amounts import english_number
from edge.guards import han_number
from edge.words import CORE, FIGURE, IS_LATIN, Words, longest, stem, tokens_of

CONNECTOR = ""

_HAN = re.compile("[\u3400-\u9fff]")
_NUMERALS = frozenset("零〇一二两三四五六七八九十百千万半")
_MAGNITUDES = frozenset("十百千万")
_MULTIPLIERS = {"k": 1000, "千": 1000, "万": 10000}
_ORDINAL_ENDS = frozenset({"st", "nd", "rd", "th"})
_ENDS_SENTENCE = frozenset(".!?:\"'(「『《“")
_QUOTES = {'"': '"', "「": "」", "『": "』", "《": "》", "“": "”"}
_SELF = frozenset({"I", "I'm", "I'd", "I've", "I'll"})
_FIRST_YEAR, _LAST_YEAR = 1900, 2100
_LONGEST = 15  # digits that are a number and no code
_EMPTY: frozenset[str] = frozenset()
_RELATIVE = frozenset({"ask:when", "ask:where", "ask:who"})


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as far as it was read.

    ``parts`` holds the core items as they stand, "kind:value", Han characters one by one, and CONNECTOR for
    words between which two values may change places; in ``order`` Han characters that stand together are one
    item. ``kinds[kind]``: the values of a kind. ``names``: items that are typed as names are, of whatever
    kind. ``roles[word]``: the core items that stand right after "from", "to", "than" ….
    """

    text: str
    negations: int
    parts: tuple[str, ...]
    order: tuple[str, ...]
    kinds: Mapping[str, frozenset[str]]
    names: frozenset[str]
    roles: Mapping[str, frozenset[str]]
    core: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "core", frozenset(self.parts) - {CONNECTOR})

    def of(self, kind: str) -> frozenset[str]:
        """The values of a kind."""
        return self.kinds.get(kind, _EMPTY)


def read(text: str, words: Words) -> Asked:
    """What a text asks; ``text`` as ``Normaliser.typed`` gives it. In reading form its capitals are lost."""
    scan = _Scan(words, text)
    scan.run()
    kinds: dict[str, set[str]] = {}
    for item in scan.items:
        kind, _, value = item.partition(":")
        kinds.setdefault(kind, set()).add(value)
    return Asked(
        text=text,
        negations=scan.items.count("not"),
        parts=tuple(scan.parts),
        order=tuple(scan.order),
        kinds={kind: frozenset(values) for kind, values in kinds.items()},
        names=frozenset(scan.names),
        roles={role: frozenset(items) for role, items in scan.roles.items()},
    )


class _Scan:
    """One pass over the tokens of a text."""

    def __init__(self, words: Words, text: str) -> None:
        self.words = words
        found = tokens_of(text)
        typed = [match.group() for match in found]
        self.tokens = [token.lower() for token in typed]
        self.stems = [stem(token, words.forms) for token in self.tokens]
        self.touches = [a.end() == b.start() for a, b in pairwise(found)] + [False]
        self.named = _named(typed)
        self.items: list[str] = []
        self.parts: list[str] = []
        self.order: list[str] = []
        self.names: set[str] = set()
        self.roles: dict[str, set[str]] = {}
        self.role = ""  # the role word that what follows directly belongs to
        self.role_filled = False
        self.begun = False  # whether anything but fillers was read
        self.currency = ""
        self.run_ends = -1  # where a run of Han content ends, to which the next character belongs

    def run(self) -> None:
        at, end = 0, len(self.tokens)
        neutral = self._neutral()
        while at < end:
            if at in neutral:
                self.items.append("yes_no")
                at += 1
            else:
                at = self._step(at)

    def _neutral(self) -> set[int]:
        """The 不 and 没 that ask and do not deny: 能不能, 好吃不, 到了没有."""
        tokens, found = self.tokens, set()
        last = len(tokens) - (1 if tokens and not tokens[-1].isalnum() else 0)
        for at in (at for at, token in enumerate(tokens) if token in ("不", "没") and at):
            if at + 1 < last and tokens[at + 1] == tokens[at - 1]:
                found |= {at, at + 1}
            elif at + 1 == last:
                found.add(at)
            elif at + 2 == last and tokens[at : at + 2] == ["没", "有"]:
                found |= {at, at + 1}
        return found

    def _step(self, at: int) -> int:
        """Read what begins at a token; the place behind it."""
        token = self.tokens[at]
        if _is_digit(token):
            return self._digits(at)
        if self._is_letter(at):
            self._add(f"name:{token}", at)
            return at + 1
        items, end = longest(self.words.terms, self.stems, at)
        if token in _NUMERALS and (numeral := self._han(at, end)):
            return numeral
        if end <= at + 1 and (numeral := self._english(at)):
            return numeral
        if items is not None:
            self._term(at, end, items)
            return end
        unit, behind = self._unit(at)
        if unit and not token.isalnum():
            self.currency = unit
            return behind
        return self._other(at)

    def _is_letter(self, at: int) -> bool:
        """Whether a letter stands for itself: A区, plan B. But I am no name, and neither is "a" plan."""
        if len(self.tokens[at]) > 1 or not IS_LATIN.match(self.tokens[at]):
            return False
        before, after = self._token(at - 1), self._token(at + 1)
        if self.touches[at] and _is_digit(after):  # x1
            return False
        return at in self.named or any(map(_HAN.match, (before, after)))

    def _token(self, at: int) -> str:
        """A token, or "" where there is none."""
        return self.tokens[at] if 0 <= at < len(self.tokens) else ""

    def _term(self, at: int, end: int, items: Sequence[str]) -> None:
        tokens = self.tokens[at:end]
        self._opens(at, end)
        for item in items:
            if item.startswith("each:"):
                self._number(1, item[5:])
            elif end == at + 1 and item in _RELATIVE and self._is_relative(at):
                self._add(f"word:{tokens[0]}", at)
            else:
                self._add(item, at)
        if not items:
            self._close_role()
        if tokens[0] in self.words.roles:
            self._open_role(tokens[0])
        if any(token in self.words.connectors for token in tokens):
            self._connect()

    def _is_relative(self, at: int) -> bool:
        """Whether "when" or "who" only joins what follows: when it arrived, people who stay."""
        if not self.begun or not self.tokens[at].isascii():
            return False
        return bool(self._token(at + 1)) and self._token(at + 1) not in self.words.first

    def _open_role(self, word: str) -> None:
        self.role, self.role_filled = word, False

    def _close_role(self) -> None:
        """What a role word governs ends at the first filler behind it: from (the) | laptop | to …."""
        if self.role_filled:
            self.role = ""

    def _connect(self) -> None:
        self._close_role()
        self.parts.append(CONNECTOR)
        self.order.append(CONNECTOR)

    def _opens(self, at: int, end: int) -> None:
        """A yes-or-no question begins with "is", "can" …; "can you" is but polite."""
        if end == at + 1 and not self.begun and self.tokens[at] in self.words.first:
            self.items.append("yes_no")

    def _other(self, at: int) -> int:
        token = self.tokens[at]
        if token in self.words.roles:
            self._open_role(token)
        elif token in self.words.connectors:
            self._connect()
        elif not token.isalnum() and not IS_LATIN.match(token):
            self._close_role()
        elif self.touches[at] and IS_LATIN.match(token) and _is_digit(self._token(at + 1)):
            return self._code(at)
        else:
            self._opens(at, at + 1)
            self._content(at)
        return at + 1

    def _content(self, at: int) -> None:
        token = self.stems[at]
        self.items.append(f"word:{token}")
        if self.run_ends == at and not IS_LATIN.match(token):
            self.parts.append(f"word:{token}")
            self.order[-1] += token
        else:
            self._place(f"word:{token}")
        self.run_ends = at + 1
        if at in self.named:
            self.names.add(f"word:{token}")

    def _code(self, at: int) -> int:
        """x1, covid19, 3d: letters and digits that touch."""
        end = at + 1
        while self.touches[end - 1] and self.tokens[end].isalnum() and self.tokens[end].isascii():
            end += 1
        self._add(f"name:{''.join(self.tokens[at:end])}", at)
        return end

    def _add(self, item: str, at: int = -1) -> None:
        self.items.append(item)
        if item.partition(":")[0] in CORE:
            self._place(item)
            if at in self.named:
                self.names.add(item)

    def _place(self, item: str) -> None:
        self.begun = True
        self.parts.append(item)
        self.order.append(item)
        if self.role:
            self.roles.setdefault(self.role, set()).add(item)
            self.role_filled = True

    def _number(self, value: float | str, unit: str) -> None:
        if isinstance(value, str) or unit in ("am", "pm"):
            kind = "date" if ":" in str(value) or unit in ("am", "pm") else "number"
            self._add(f"{kind}:{value} {unit}")
            return
        self.items.append(f"{FIGURE}:{value}")
        is_year = _FIRST_YEAR <= value <= _LAST_YEAR and unit in ("", "year")
        if unit in self.words.scale and not is_year:
            times, unit = self.words.scale[unit]
            value = round(value * times, 6)
        value = int(value) if value == int(value) else value
        item = f"date:{value}" if is_year else f"number:{value} {unit}"
        again = self.items.count(item)  # 2, 2 and 3 are not 2 and 3
        self._add(f"{item} {again}" if again else item)

    def _digits(self, at: int) -> int:
        value, end = _value(self.tokens[at]), at + 1
        letters = self._token(end) if self.touches[at] and IS_LATIN.match(self._token(end)) else ""
        if letters in _ORDINAL_ENDS:
            self._number(value, "th")
            return end + 1
        if letters and letters not in _MULTIPLIERS and not self._unit(end)[0]:
            return self._code(at)
        if self._token(end) in _MULTIPLIERS and not isinstance(value, str):
            value *= _MULTIPLIERS[self.tokens[end]]
            end += 1
        return self._measured(value, end, ordinal=self._token(at - 1) == "第")

    def _measured(self, value: float | str, at: int, ordinal: bool) -> int:
        """A number with the unit or the counter that stands behind it."""
        unit, end = self._unit(at)
        if not unit and self._token(at) in self.words.counters:
            end = at + 1
        if end > at and self._token(end) == "半" and not isinstance(value, str):
            value, end = value + 0.5, end + 1
        unit, self.currency = unit or self.currency, ""
        # One of something is said as often as not, but for a measure: a room, one room; a day.
        if ordinal or value != 1 or (unit and unit != "times"):
            self._number(value, "th" if ordinal else unit)
        return end

    def _han(self, at: int, term_end: int) -> int:
        """A Han numeral: before a unit or a counter, after 第, or with a magnitude; 0 where there is none."""
        end = at
        while end < len(self.tokens) and self.tokens[end] in _NUMERALS:
            end += 1
        if self.tokens[end - 1] == "两" and end - at > 1:  # the unit: 三两
            end -= 1
        unit, behind = self._unit(end)
        if term_end > max(end, behind):  # 一样; but 十分钟 is no 十分
            return 0
        run, before = "".join(self.tokens[at:end]), self._token(at - 1)
        value = han_number(run)
        follows = unit or self._token(end) in self.words.counters
        large = len(run) > 1 and not _MAGNITUDES.isdisjoint(run)
        if value is None or not (follows or large or before in ("第", "前")):
            return 0
        return self._measured(value, end, before == "第")

    def _english(self, at: int) -> int:
        words, tokens = self.words, self.tokens
        token = tokens[at]
        if token in words.ordinals:
            self._number(words.ordinals[token], "th")
            return at + 1
        if token in ("a", "an", "one"):
            unit, end = self._unit(at + 1)
            if not unit:
                return 0
            self._number(1, unit)
            return end
        if token not in words.numbers:
            return 0
        end = at + 1
        while self._token(end) in words.whole or self._token(end) == "and":
            end += 1
        end -= tokens[end - 1] == "and"
        value: float | None = None
        if token in words.whole:
            value = english_number(" ".join(tokens[at:end]), words.whole)
        if value is None:
            value, end = words.numbers[token], at + 1
        if self._token(end) in ("a", "an") and self._unit(end + 1)[0]:  # half a year
            end += 1
        return self._measured(value, end, ordinal=False)

    def _unit(self, at: int) -> tuple[str, int]:
        unit, end = longest(self.words.units, self.stems, at)
        return (unit, end) if unit else ("", at)


def _is_digit(token: str) -> bool:
    return "0" <= token[:1] <= "9"


def _named(typed: Sequence[str]) -> frozenset[int]:
    """The places of words that are written as names: with a capital inside a sentence, or in quotation marks.

    A text that is mostly capitals says nothing by them.
    """
    latin = [at for at, token in enumerate(typed) if IS_LATIN.match(token[0].lower())]
    capital = [at for at in latin if typed[at][0].isupper() and typed[at] not in _SELF]
    found = set()
    if len(capital) * 2 <= len(latin):
        found = {at for at in capital if at and typed[at - 1] not in _ENDS_SENTENCE}
    closing, since = "", 0
    for at, token in enumerate(typed):
        if closing and token == closing:
            found |= set(range(since, at))
            closing = ""
        elif not closing and token in _QUOTES:
            closing, since = _QUOTES[token], at + 1
    return frozenset(found)


def _value(digits: str) -> float | str:
    """1,024 is 1024; what is no number (9:30, 2025-03-01, 10.0.0.1) stays as it is."""
    plain = digits.replace(",", "")
    if any(mark in plain for mark in ":/-") or plain.count(".") > 1 or len(plain) > _LONGEST:
        return digits
    return float(plain) if "." in plain else int(plain)
