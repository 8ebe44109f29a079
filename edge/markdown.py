"""Values in a page of Markdown: whatever they hold, they are shown and do nothing.

Held against CommonMark and GFM, and against what chat pages add: links of bare addresses, mathematics, HTML.
"""

import re
import unicodedata

_BREAKS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
# Letters written from right to left move what stands beside them, unless they are isolated (UAX 9).
_RIGHT_TO_LEFT = re.compile(
    "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001eeff]"
)
_ISOLATE, _POP = "\u2068", "\u2069"
# References where a backslash is not enough: many chat pages take \[ for mathematics, and a page that knows
# no backslashes takes \< for a tag.
_ESCAPES = str.maketrans(
    {char: f"&#{ord(char)};" for char in "\\`[]"}
    | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
    | {char: "\\" + char for char in "*_~|!$"}
)
# What begins a block at the start of a line; its last character gets a backslash.
_OPENS = re.compile(r"[#=:]|[-+](?!\w)|[0-9]*[.)](?!\S)")

# Pages make links of bare addresses, some of them (remark-gfm) after the backslashes are gone. So a run of
# such characters becomes code. The domains are those that linkify-it takes for one by default.
_RUN_CHARACTERS = "".join(char for char in map(chr, range(33, 127)) if char not in "\\`|<>[]$") + "рфРФ"
_RUN = re.compile(f"([{re.escape(_RUN_CHARACTERS)}]+)")
_LINK = re.compile(
    r"//|www\.|[^@]@|@[^@]|\.xn--|\.(?:[a-z]{2}|biz|com|edu|gov|net|org|pro|web|xxx|aero|asia|coop|info|museum"
    r"|name|shop|[рР][фФ])(?![a-z0-9])",
    re.IGNORECASE | re.ASCII,
)
_SENTENCE_ENDS = ".,;:!?)'\""

_ESCAPED = re.compile(r"\\[!-/:-@\[-`{-~]")
_UNSAFE = (
    (re.compile("`"), "a value could not be kept out of code; leave ` out, or write \\`"),
    (re.compile(r"<(?=[A-Za-z/!?]|\Z)"), "a value could not be kept out of HTML; leave < out, or write \\<"),
    (re.compile(r"\]:"), "]: gives a link its address; write ]\\: for the characters"),
    (re.compile(r"\]\Z"), "a value after ] could become a link's address; put a space between them"),
    (re.compile(r"\\\Z"), "a backslash before a value would undo its escaping; leave it out ({{ is a brace)"),
)


def clean(text: str) -> str:
    """A text on one line, without what is not seen: bidi controls, zero-width and other format characters."""
    if not text.isprintable():
        text = "".join(map(_shown, _BREAKS.sub(" ", text)))
    return text.strip()


def escape(text: str, before: str = "", after: str = "") -> str:
    """A clean text as Markdown that shows it. ``before`` and ``after`` are the Markdown beside it.

    Words, numbers, dates and CJK come out as they are; an address of a page or of mail becomes code.
    """
    shown = text.translate(_ESCAPES)
    if makes_link(before, text, after):
        parts = _RUN.split(text)  # others and runs by turns
        for place, part in enumerate(parts):
            left = before if place == 1 and not parts[0] else ""
            right = after if place == len(parts) - 2 and not parts[-1] else ""
            is_link = place % 2 and makes_link(left, part, right)
            parts[place] = _code(part) if is_link else part.translate(_ESCAPES)
        shown = "".join(parts)
    opens = _OPENS.match(text)
    if opens and shown.startswith(opens.group()):
        shown = f"{shown[: opens.end() - 1]}\\{shown[opens.end() - 1 :]}"
    if shown.endswith("#") and text.rstrip("#")[-1:].isspace():  # a heading would end before it
        shown = f"{shown[:-1]}\\#"
    return f"{_ISOLATE}{shown}{_POP}" if _RIGHT_TO_LEFT.search(text) else shown


def makes_link(before: str, text: str, after: str) -> bool:
    """Whether pages make a link of a text, bare as it is, together with what stands beside it."""
    before = before[len(before.rstrip(_RUN_CHARACTERS)) :]
    after = after[: len(after) - len(after.lstrip(_RUN_CHARACTERS))]
    return _LINK.search(before + text + after) is not None


def unsafe(text: str) -> str | None:
    """Why no value can be kept safe beside a text of the operator's, and the fix; None where it can."""
    plain = _ESCAPED.sub("  ", text)
    return next((why for pattern, why in _UNSAFE if pattern.search(plain)), None)


def is_in_address(text: str) -> bool:
    """Whether a text ends within a link's address or title: ``[track](https://…``."""
    depth, last = 0, ""
    for char in _ESCAPED.sub("  ", text):
        if char == "(" and (depth or last == "]"):
            depth += 1
        elif char == ")" and depth:
            depth -= 1
        last = char
    return depth > 0


def _shown(char: str) -> str:
    category = unicodedata.category(char)
    # A lone surrogate, for which JSON has an escape, cannot be sent.
    return "" if category == "Cf" else "\ufffd" if category == "Cs" else char


def _code(run: str) -> str:
    """A run as code, without the signs that end a sentence."""
    code = run.rstrip(_SENTENCE_ENDS) or run
    return f"`{code}`{run[len(code) :].translate(_ESCAPES)}"
