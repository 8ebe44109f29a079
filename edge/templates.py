"""Templates: a topic's answer with values of its tools' results in it.

edge/template_syntax.py has the language. The template is the operator's and may hold Markdown. Values are
anybody's: whatever they hold, the page has the links, headings and lists of the template and no others.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from operator import itemgetter

from edge.decision import SlotValue
from edge.errors import TemplateError
from edge.markdown import clean, escape
from edge.template_syntax import ITEM, Choice, Path, Piece, Value, parse

MAX_TEXT = 500  # characters of one value
MAX_ROWS = 20
MAX_ANSWER = 10_000  # characters before they are escaped: rows and fields multiply
_MAX_INTEGER = 10**30  # numbers of orders have about 20 digits
_MAX_NUMBER, _MIN_NUMBER = 1e15, 1e-12  # beyond them a number is a row of zeros
_DIGITS = 15  # a double keeps every decimal of so many digits (DBL_DIG) and shows noise beyond them


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template. ``paths``: the fields that it reads, without those of a list's items."""

    pieces: tuple[Piece, ...]
    paths: frozenset[Path]

    @classmethod
    def parse(cls, text: str) -> "Template":
        """The template of a text. Raises ValueError, which says where, what is wrong, and the fix."""
        return cls(*parse(text))

    @property
    def fields(self) -> frozenset[str]:
        """The first names: tools, and ``slots`` where one is used."""
        return frozenset(path[0] for path in self.paths)

    def fill(self, results: Mapping[str, object], slots: Mapping[str, SlotValue]) -> str:
        """The answer, Markdown. ``results``: the JSON of each tool, by its name.

        Raises TemplateError, which names the field and never its value.
        """
        parts = [part for part in _parts(self.pieces, {**results, "slots": slots}) if part[1]]
        # The template's words and values by turns. Values that touch become one before they are escaped,
        # so that two cannot make what neither is.
        texts = [
            "".join(map(itemgetter(1), group))
            for _, group in groupby([(False, ""), *parts], key=itemgetter(0))
        ]
        if sum(map(len, texts)) > MAX_ANSWER:
            raise TemplateError(f"The answer has over {MAX_ANSWER} characters.")
        texts.append("")
        for place in range(1, len(texts) - 1, 2):
            texts[place] = escape(texts[place], texts[place - 1], texts[place + 1])
        answer = "".join(texts).strip()
        if not answer:
            raise TemplateError("The answer is empty.")
        return answer


def _parts(pieces: tuple[Piece, ...], scope: Mapping[str, object]) -> Iterator[tuple[bool, str]]:
    """(Whether it is a value, text) of each piece."""
    for piece in pieces:
        if isinstance(piece, str):
            yield False, piece
        elif isinstance(piece, Value):
            text = _text(_find(piece.path, scope), piece.path)
            if not text and piece.fallback is None:
                raise _error(piece.path, "is missing")
            yield (True, text) if text else (False, piece.fallback or "")
        elif isinstance(piece, Choice):
            yield False, _words(piece, _find(piece.path, scope))
        else:
            rows = _rows(piece.path, _find(piece.path, scope))
            for row in rows:
                yield from _parts(piece.row, {**scope, ITEM: row})
            if not rows:
                yield from _parts(piece.empty, scope)


def _find(path: Path, scope: Mapping[str, object]) -> object:
    """The JSON at a path, None where it is missing. Nothing but keys and indices of JSON is followed."""
    if path[0] not in scope:
        raise _error(path, "is of a tool without a result")
    value = scope[path[0]]
    for name in path[1:]:
        if isinstance(value, Mapping):
            value = value.get(name)
        elif isinstance(value, list) and name.isascii() and name.isdecimal():
            value = value[int(name)] if int(name) < len(value) else None
        elif value is None:
            return None
        else:  # not the result that the template was written for
            raise _error(path, f"is looked for in what has no {name!r}")
    return value


def _text(value: object, path: Path) -> str:
    """A text or number on one line; empty where there is none."""
    if value is None:
        return ""
    if isinstance(value, str):
        if len(value) > MAX_TEXT:
            raise _error(path, f"has over {MAX_TEXT} characters")
        return clean(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MAX_INTEGER:
        return str(value)
    if isinstance(value, float) and (value == 0 or _MIN_NUMBER < abs(value) < _MAX_NUMBER):
        text = f"{value + 0.0:.{_DIGITS}g}"
        return f"{Decimal(text):f}" if "e" in text else text
    raise _error(path, "is no text and no number that can be shown")


def _words(choice: Choice, value: object) -> str:
    key = str(value).lower() if isinstance(value, bool) else _text(value, choice.path)
    if key not in choice.words:
        raise _error(choice.path, "has a value without words")
    return choice.words[key]


def _rows(path: Path, value: object) -> list[object]:
    if not isinstance(value, list):
        raise _error(path, "is no list")
    if len(value) > MAX_ROWS:
        raise _error(path, f"has over {MAX_ROWS} rows")
    return value


def _error(path: Path, what: str) -> TemplateError:
    return TemplateError(f"{'.'.join(path)} {what}.")
