"""The syntax of templates: a text with fields in braces, parsed once into frozen values.

    {get_order.state}                                      a field, by dotted path; whole numbers index lists
    {slots.order_id}                                       a filled slot
    {get_order.eta ? not known yet}                        what stands where it is missing, null or blank
    {get_order.state = shipped: on its way; paid: packed}  words for values, true and false among them
    {each get_free_rooms.rooms}{item.name}{else}none{end}  a list
    {{ and }}                                              braces

The text around them is the operator's, and may hold Markdown in which values can be made safe: no code, no
HTML, no value in a link's address.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from edge.markdown import is_in_address, makes_link, unsafe

MAX_TEMPLATE = 4000  # characters, far more than an answer of a few lines needs: it bounds the work
ITEM = "item"  # the first name of what a row reads of its own item
_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_PATH = r"([\w-]+(?:\.[\w-]+)*)"
_FIELD = re.compile(rf"{_PATH}\s*(?:([?=])(.*))?", re.DOTALL)
_EACH = re.compile(rf"each\s+{_PATH}")
_COLON = re.compile("[:：]")
_FORMS = "{tool.field}, {tool.field ? text}, {tool.field = value: text; …}, {each tool.field}…{else}…{end}"

Path: TypeAlias = tuple[str, ...]
Piece: TypeAlias = "str | Value | Choice | Each"


@dataclass(frozen=True, slots=True)
class Value:
    """A field whose value is shown; ``fallback`` where it is missing, None where it must not be."""

    path: Path
    fallback: str | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """A field for whose values the template has words."""

    path: Path
    words: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Each:
    """A list: ``row`` for each of its items, ``empty`` where it has none."""

    path: Path
    row: tuple[Piece, ...]
    empty: tuple[Piece, ...]


def parse(text: str) -> tuple[tuple[Piece, ...], frozenset[Path]]:
    """The pieces of a template, and the paths that it reads but for those of a list's items.

    Raises ValueError, which says where, what is wrong, and the fix.
    """
    if len(text) > MAX_TEMPLATE:
        raise ValueError(f"it has {len(text):,} characters; {MAX_TEMPLATE:,} is the most")
    parser = _Parser(text)
    pieces, _ = parser.pieces()
    return pieces, frozenset(path for path in parser.paths if path[0] != ITEM)


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.paths: set[Path] = set()
        self._tokens = _TOKEN.finditer(text)
        self._start = self._at = 0  # of the token that is read: where it begins, and where the text goes on
        self._literal = ""  # the template's own text since the last field
        self._before = ""  # and since the last value
        self._in_row = False

    def pieces(self, ends: tuple[str, ...] = ()) -> tuple[tuple[Piece, ...], str]:
        """The pieces up to one of the tags ``ends``, and that tag."""
        found: list[Piece] = []
        for match in self._tokens:
            self._literal += self.text[self._at : match.start()]
            self._start, self._at = match.span()
            token, inner = match.group(), (match[1] or "").strip()
            if token in ("{{", "}}"):
                self._literal += token[0]
            elif match[1] is None:
                self._fail(f"a single {token}; write {token * 2} for a brace")
            elif inner in ("else", "end") or _EACH.fullmatch(inner):
                self._leave_out_its_line()
                found += self._own_text()
                if is_in_address(self._before):
                    self._fail("a list cannot be a part of a link; put ) before it")
                if inner in ends:
                    return tuple(found), inner
                found.append(self._each(inner, is_within=bool(ends)))
            else:
                found += self._field(inner)
        self._literal += self.text[self._at :]
        self._start = len(self.text)
        if ends:
            self._fail("a list has no end; write {end} after its row")
        self._checked(self._literal + " ")  # what it ends with stands beside no value
        return (*found, *([self._literal] if self._literal else [])), ""

    def _each(self, tag: str, *, is_within: bool) -> Each:
        if tag in ("else", "end"):
            self._fail(f"{{{tag}}} belongs to no list; write {{each tool.field}} before it")
        if is_within:
            self._fail("a list within a list; write {end} before it")
        path = self._path(tag.split(None, 1)[1])
        self._in_row = True
        row, end = self.pieces(("else", "end"))
        self._in_row = False
        return Each(path, row, self.pieces(("end",))[0] if end == "else" else ())

    def _field(self, inner: str) -> Iterator[Piece]:
        field = _FIELD.fullmatch(inner)
        if field is None:
            self._fail(f"{inner[:40]!r} is no field; there are {_FORMS}")
        path, (kind, rest) = self._path(field[1]), field.group(2, 3)
        before, after = self._literal, self.text[self._at :].partition("{")[0]
        yield from self._own_text()
        if kind == "=":
            yield Choice(path, self._choice(rest))
            return
        if is_in_address(self._before) or makes_link(before, "x", after):
            self._fail("a value cannot be a part of a link; put a space between them")
        yield Value(path, None if kind is None else self._inner(rest.strip()))
        self._before = ""

    def _choice(self, listed: str) -> dict[str, str]:
        words: dict[str, str] = {}
        for entry in listed.split(";"):
            value, colon, text = map(str.strip, entry.partition(":"))
            if not colon or not value or value in words or _COLON.search(text.partition("；")[2]):
                why = "has a value that is there already" if value in words else "is not one value and text"
                self._fail(f"{entry.strip()[:40]!r} {why}; write value: text; value: text, not ： and ；")
            words[value] = self._inner(text)
        return words

    def _inner(self, text: str) -> str:
        """A text within braces: safe by itself, whatever follows."""
        if is_in_address(text):
            self._fail("a link's address has no end; write [text](address)")
        return self._checked(text)

    def _leave_out_its_line(self) -> None:
        """A tag alone on its line takes the line with it."""
        first = self.text.rfind("\n", 0, self._start) + 1
        last = self.text.find("\n", self._at) + 1 or len(self.text)
        if not self.text[first : self._start].strip() and not self.text[self._at : last].strip():
            self._literal, self._at = self._literal.rstrip(" \t"), last

    def _path(self, dotted: str) -> Path:
        path = tuple(dotted.split("."))
        if path[0] == ITEM and not self._in_row:
            self._fail("item belongs to the row of a list; write {each tool.field} before it")
        self.paths.add(path)
        return path

    def _own_text(self) -> list[str]:
        text, self._literal = self._literal, ""
        self._before += text
        return [self._checked(text)] if text else []

    def _checked(self, text: str) -> str:
        if why := unsafe(text):
            self._fail(why)
        return text

    def _fail(self, what: str) -> NoReturn:
        raise ValueError(f"at character {self._start + 1}: {what}")
