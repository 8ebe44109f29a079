"""The one text normaliser, shared by training, guards, exact match and the router.

Its tables are data in the bundle, and its rules use code points only, so that a
JavaScript host can repeat them letter for letter.
"""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

NORMALISER_VERSION = 1

# Invisible to a reader, so never part of what was asked: C0/C1 controls (but TAB, LF and CR,
# which are spaces), soft hyphen, zero-width and bidirectional marks, variation selectors, lone
# surrogates (tokenizers refuse them), byte order mark.
_INVISIBLE = re.compile(
    "[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u202a-\u202e"
    "\u2060-\u2064\u2066-\u2069\ufe00-\ufe0f\ud800-\udfff\ufeff]"
)
_SPACES = re.compile("[\t\n\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_HAN_GAP = re.compile(f"(?<=[{_HAN}]) (?=[{_HAN}])")
# Telephones type curly quotes, which NFKC leaves alone; the guards look for "can't".
_QUOTES = str.maketrans("\u2018\u2019\u02bc\u00b4\u201c\u201d", "''''\"\"")
# After NFKC, so the full-width forms of most of these are gone already.
_EDGE = " !?.,;:~'\"…。、·`^*_()[]{}“”‘’「」『』《》【】—-"
_IS_HAN = re.compile(f"[{_HAN}]")
_IS_LATIN = re.compile("[a-z\u00aa\u00ba\u00df-\u00f6\u00f8-\u024f]")


class Lang(StrEnum):
    """The two languages a desk can speak."""

    ZH = "zh"
    EN = "en"


@dataclass(frozen=True, slots=True)
class LangRule:
    """When a text is Chinese, when English, and when neither.

    ``han_share``: from this share of Han characters among Han and Latin letters on, a text is
    Chinese. One Han character says about as much as four Latin letters, hence 0.2.
    ``other_share``: above this share of letters of other scripts, the text is unsupported.
    """

    han_share: float = 0.2
    other_share: float = 0.2


class Normaliser:
    """Folds a text for reading; ``traditional[i]`` becomes ``simplified[i]``."""

    def __init__(self, traditional: str = "", simplified: str = "", lang_rule: LangRule = LangRule()) -> None:
        if len(traditional) != len(simplified):
            raise ValueError(
                f"The normaliser's tables must be of one length, got {len(traditional)} traditional "
                f"and {len(simplified)} simplified characters."
            )
        self.traditional = traditional
        self.simplified = simplified
        self.lang_rule = lang_rule
        # NFKC makes a quote of its own (of U+0149), so the quotes are folded once more.
        pairs = zip(traditional, simplified, strict=True)
        self._fold: Mapping[int, str | int] = _QUOTES | {ord(a): ord(b) for a, b in pairs}

    def reading(self, text: str) -> str:
        """The form the router and the guards read: NFKC, lower case, simplified, single spaces."""
        if text.isascii() and text.isprintable():  # nothing but case and spaces can change
            return " ".join(text.lower().split())
        text = _INVISIBLE.sub("", text)
        # Twice, because lower case composes what upper case cannot (H with a macron below).
        text = unicodedata.normalize("NFKC", text.translate(_QUOTES)).lower()
        text = unicodedata.normalize("NFKC", text).translate(self._fold)
        return _SPACES.sub(" ", _INVISIBLE.sub("", text)).strip(" ")

    def typed(self, text: str) -> str:
        """The reading form but for its case; in ``lower()`` every letter keeps its place."""
        text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text).translate(_QUOTES))
        text = text.replace("\u0130", "I").translate(self._fold)  # the one letter that grows in lower case
        return _SPACES.sub(" ", _INVISIBLE.sub("", text)).strip(" ")

    def exact(self, reading: str) -> str:
        """The key of the exact stage: the reading form without edge punctuation and Han gaps."""
        return _HAN_GAP.sub("", reading).strip(_EDGE)

    def lang(self, reading: str) -> Lang | None:
        """The language of a reading form, or None where its script is unsupported."""
        if reading.isascii():
            return Lang.EN if any("a" <= char <= "z" for char in reading) else None
        han = latin = other = 0
        for char in reading:
            if "a" <= char <= "z" or _IS_LATIN.match(char):
                latin += 1
            elif _IS_HAN.match(char):
                han += 1
            elif char.isalpha():
                other += 1
        total = han + latin + other
        if total == 0 or other > self.lang_rule.other_share * total:
            return None
        return Lang.ZH if han >= self.lang_rule.han_share * (han + latin) and han else Lang.EN
