"""Strategies for the property tests: JSON in any legal spelling, chat bodies, cuts, header values."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle, pairwise
from typing import Any, Literal

from hypothesis import strategies as st

# ``hold(property, strategy, examples)``: the fixture of conftest.py that runs a property.
Hold = Callable[..., None]

# --- JSON ----------------------------------------------------------------------------------------


class Raw(str):
    """JSON as it stands."""

    __slots__ = ()


class Members(list[tuple[str, Any]]):
    """An object as it is spelled: in order, a key maybe twice."""


TEXT = st.text(st.characters(), max_size=30)  # lone surrogates too: JSON has escapes for them
NUMBERS = st.sampled_from(
    [
        "0",
        "-0",
        "7",
        "-1",
        "1.50",
        "0.0e-0",
        "1e5",
        "1E+5",
        "12e-1",
        "1e308",
        "-1e-400",
        "123456789012345678901234567890",
        "0.1000000000000000001",
    ]
).map(Raw)
PLAIN = st.none() | st.booleans() | NUMBERS | TEXT
JUNK: st.SearchStrategy[Any] = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(TEXT, inner), max_size=3).map(Members),
    max_leaves=6,
)
_SHORT = dict(zip('"\\/\b\f\n\r\t', '"\\/bfnrt', strict=True))
ESCAPES = ("raw", "short", "lower", "upper")


def spell(value: Any, pads: Iterator[str], escapes: Iterator[str]) -> str:
    """A value as JSON, with the given whitespace between tokens and the given kinds of escapes."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, str):
        return '"' + "".join(_character(char, next(escapes)) for char in value) + '"'
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Members):
        inside = [
            f"{spell(k, pads, escapes)}{next(pads)}:{next(pads)}{spell(v, pads, escapes)}" for k, v in value
        ]
    else:
        inside = [spell(item, pads, escapes) for item in value]
    opened, closed = "{}" if isinstance(value, Members) else "[]"
    return opened + next(pads) + ",".join(next(pads) + part + next(pads) for part in inside) + closed


def _character(char: str, kind: str) -> str:
    if kind in ("raw", "short") and char not in '"\\' and char >= " " and not "\ud800" <= char <= "\udfff":
        return "\\/" if char == "/" and kind == "short" else char
    if kind == "short" and char in _SHORT:
        return "\\" + _SHORT[char]
    units = char.encode("utf-16-be", "surrogatepass")
    form = "\\u%02X%02x" if kind == "upper" else "\\u%02x%02x"
    return "".join(form % pair for pair in zip(units[::2], units[1::2], strict=True))


# --- chat bodies ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat body and what is known of it by the way it was made.

    ``open``: nothing is known. ``local``: a listed question and nothing that speaks against its answer.
    """

    body: bytes
    verdict: Literal["valid", "invalid", "open", "local"]


def _part(kind: str, *more: tuple[str, Any]) -> Members:
    return Members([("type", kind), *more])


ROLES = (
    st.sampled_from(["user", "assistant", "system", "developer", "tool", "function", "oracle", "User"])
    | PLAIN
)
PARTS = st.one_of(
    TEXT.map(lambda text: _part("text", ("text", text))),
    JUNK.map(lambda junk: _part("image_url", ("image_url", Members([("url", junk)])))),
    JUNK.map(lambda junk: _part("hologram", ("text", junk))),
    JUNK,
)
EXTRAS = st.tuples(st.sampled_from(["name", "tool_calls", "function_call", "refusal", "audio"]) | TEXT, JUNK)
MESSAGES = st.builds(
    lambda role, content, extra: [*role, *content, *extra],
    st.lists(st.tuples(st.just("role"), ROLES), min_size=1, max_size=2) | st.just([]),
    st.lists(st.tuples(st.just("content"), TEXT | st.lists(PARTS, max_size=3) | JUNK), max_size=2),
    st.lists(EXTRAS, max_size=2),
).map(Members)
KNOWN = st.sampled_from(
    [
        "model",
        "stream",
        "stream_options",
        "temperature",
        "top_p",
        "seed",
        "user",
        "metadata",
        "store",
        "max_tokens",
        "n",
        "stop",
        "tools",
        "max_completion_tokens",
        "tool_choice",
        "response_format",
        "logprobs",
        "reasoning_effort",
    ]
)
OPTIONS = st.lists(st.tuples(KNOWN | TEXT.filter(lambda key: key != "messages"), JUNK), max_size=4)
BAD_MESSAGES = st.one_of(
    PLAIN,
    st.just([]),
    st.lists(PLAIN | st.lists(JUNK, max_size=2), min_size=1, max_size=3),
    st.tuples(MESSAGES, PLAIN).map(list),
    MESSAGES,
)
CLEAN: dict[str, st.SearchStrategy[Any]] = {
    "model": TEXT,
    "temperature": NUMBERS,
    "top_p": NUMBERS,
    "seed": st.sampled_from([Raw("0"), Raw("-12345678901234567890")]),
    "user": TEXT,
    "metadata": st.lists(st.tuples(TEXT, JUNK), max_size=2).map(Members),
    "store": st.booleans(),
    "max_completion_tokens": st.just(Raw("100000")),
    "tools": st.none() | st.just([]),
    "response_format": st.none(),
}
CLEAN_OPTIONS = st.lists(
    st.sampled_from(sorted(CLEAN)).flatmap(lambda name: st.tuples(st.just(name), CLEAN[name])), max_size=4
)
STREAMS: st.SearchStrategy[list[tuple[str, Any]]] = st.sampled_from(
    [
        [],
        [("stream", False)],
        [("stream", True)],
        [("stream", True), ("stream_options", Members([("include_usage", True)]))],
        [("stream", True), ("stream_options", Members([("include_usage", False)]))],
    ]
)


@st.composite
def _spelled(draw: st.DrawFn, tree: Any) -> str:
    """A tree in some spelling."""
    pads = draw(st.lists(st.sampled_from(["", " ", "\n", " \t\r\n"]), min_size=1, max_size=4))
    escapes = draw(st.lists(st.sampled_from(ESCAPES), min_size=1, max_size=4))
    return spell(tree, cycle(pads), cycle(escapes))


@st.composite
def _body(draw: st.DrawFn, tree: Any) -> bytes:
    around = st.sampled_from(["", "", " ", "\r\n\t"])
    text = draw(around) + draw(_spelled(tree)) + draw(around)
    return text.encode("utf-8-sig" if draw(st.integers(0, 7)) == 7 else "utf-8")


@st.composite
def _valid(draw: st.DrawFn) -> Members:
    """Any options, and last of all ``messages`` the messages: twice at times, and then the last counts."""
    options = draw(OPTIONS)
    messages = ("messages", draw(st.lists(MESSAGES, min_size=1, max_size=4)))
    place = draw(st.integers(0, len(options)))
    options.insert(place, messages)
    if draw(st.integers(0, 5)) == 5:
        options.insert(draw(st.integers(0, place)), ("messages", draw(BAD_MESSAGES)))
    return Members(options)


@st.composite
def chats(draw: st.DrawFn, questions: st.SearchStrategy[str]) -> Chat:
    """Any chat body."""
    kind = draw(st.sampled_from(["local", "local", "spoilt", "valid", "messages", "json", "deep", "open"]))
    if kind in ("local", "spoilt"):
        return draw(_asked(questions, kind == "spoilt"))
    tree = draw(_valid())
    if kind == "messages":
        bad = [("messages", draw(BAD_MESSAGES))] if draw(st.booleans()) else []
        return Chat(draw(_body(Members([m for m in tree if m[0] != "messages"] + bad))), "invalid")
    if kind == "json":
        return Chat(draw(_broken(tree)), "invalid")
    if kind == "deep":
        depth = draw(st.sampled_from([20, 300, 900, 990, 5000, 50_000]))
        one, other = draw(st.sampled_from([("[", "]"), ('{"a":', "}")]))
        nested = Raw(one * depth + "0" * (one != "[") + other * depth)
        tree.insert(draw(st.integers(0, len(tree))), ("x", nested))
        return Chat(draw(_body(tree)), "valid" if depth < 500 else "invalid" if depth > 1000 else "open")
    body = draw(_body(tree))
    if kind == "open":
        at = draw(st.integers(0, len(body) - 1))
        return Chat(body[:at] + draw(st.binary(max_size=2)) + body[at + 1 :], "open")
    return Chat(body, "valid")


@st.composite
def _asked(draw: st.DrawFn, questions: st.SearchStrategy[str], spoilt: bool) -> Chat:
    """A listed question in a clean body, or in one that has something against an answer."""
    text = draw(questions)
    text = draw(st.sampled_from([text, text.upper(), f"  {text}？", f"\ufeff{text}\n"]))
    content: Any = text if draw(st.booleans()) else [_part("text", ("text", text))]
    messages = [Members([("role", "user"), ("content", content)])]
    if draw(st.integers(0, 3)) == 3:
        messages.insert(0, Members([("content", draw(TEXT)), ("role", "system")]))
    options: list[tuple[str, Any]] = draw(CLEAN_OPTIONS) + draw(STREAMS)
    if spoilt:
        spoil = draw(st.sampled_from(["option", "tools", "tokens", "kind", "attachment", "last"]))
        if spoil == "attachment":
            messages[-1].append(("images", [Raw("1")]))
        elif spoil == "last":
            messages.append(Members([("role", "assistant"), ("content", text)]))
        else:
            options.append(
                {
                    "option": ("n", Raw("2")),
                    "tools": ("tools", [Members()]),
                    "tokens": ("max_tokens", Raw("1")),
                    "kind": ("temperature", "0"),
                }[spoil]
            )
    options.insert(draw(st.integers(0, len(options))), ("messages", messages))
    return Chat(draw(_body(Members(options))), "valid" if spoilt else "local")


@st.composite
def _broken(draw: st.DrawFn, tree: Members) -> bytes:
    """What is no JSON object of finite numbers in UTF-8."""
    how = draw(st.sampled_from(["cut", "token", "number", "number", "junk", "bytes", "utf-16", "no object"]))
    if how in ("token", "number"):
        tokens = ["NaN", "-Infinity", "1e999", "-1e400", "9" * 5000]
        if how == "token":
            tokens = ["01", "+1", ".5", "1.", "0x1", "'a'", "nul", "undefined", "", "1 2", '{"a"}', "{1:2}"]
            tokens += ['"\n"', '"\\x"', '"\\u12"', '"', "[1,]", '{"a":1,}', "/**/1"]
        tree.insert(draw(st.integers(0, len(tree))), ("x", Raw(draw(st.sampled_from(tokens)))))
    text = draw(_spelled(tree))
    if how == "cut":
        return text.encode()[: draw(st.integers(0, len(text.encode()) - 1))]
    if how == "junk":
        return (text + draw(st.sampled_from(["x", "{}", ",", "\x00", "}", "\ufeff", "\u00a0"]))).encode()
    if how == "bytes":
        bad = draw(st.sampled_from([b"\xff", b"\xed\xa0\x80", b"\xc0\xaf", b"\xe4\xbd"]))
        return text.encode().replace(b"{", b'{"' + bad + b'":0,', 1)
    if how == "utf-16":
        return text.encode(draw(st.sampled_from(["utf-16", "utf-16-le", "utf-32"])))
    if how == "no object":
        return draw(_body(draw(PLAIN | st.lists(JUNK, max_size=3).map(lambda items: [*items, tree]))))
    return text.encode()


# --- bytes ---------------------------------------------------------------------------------------

PLACES = st.lists(st.integers(0, 1 << 30), max_size=6)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """The data in pieces; none is empty."""
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in pairwise(edges) if a < b]
