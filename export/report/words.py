"""The report's words in two languages, and the escaping of everything that comes from data."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import yaml

from export.desk import OUT_OF_SCOPE

LANGS = ("en", "zh")  # the first is the one that is shown where there is no JavaScript
# Control characters that HTML has no form for are shown as their pictures.
_CONTROL = {code: 0x2400 + code for code in range(32) if code not in (9, 10, 13)} | {127: 0x2421}


class Html(str):
    """Markup that is safe to put into a page as it is."""

    __slots__ = ()


def esc(value: object) -> Html:
    """Any value as text of a page or of a quoted attribute; markup stays as it is."""
    return value if isinstance(value, Html) else Html(html.escape(str(value).translate(_CONTROL)))


def quote(text: str) -> Html:
    """What somebody typed: isolated, so that its direction does not turn the words around it."""
    return Html(f'<bdi dir="auto">{esc(text)}</bdi>')


def join(parts: Sequence[str]) -> Html:
    """Markup after markup."""
    return Html("".join(map(esc, parts)))


@cache
def texts() -> Mapping[str, Mapping[str, str]]:
    """Every text by its key and language. They are markup of our own, filled in by ``str.format``."""
    found = yaml.safe_load(Path(__file__).with_name("texts.yaml").read_text("utf-8"))
    return {f"{part}.{name}": entry for part, entries in found.items() for name, entry in entries.items()}


@dataclass(frozen=True, slots=True)
class Words:
    """The texts of one language. ``titles``: of topics, by id and language."""

    lang: str
    titles: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def __call__(self, key: str, /, **values: object) -> Html:
        """A text with its values filled in. Raises KeyError for one that is missing."""
        filled = {name: esc(value) for name, value in values.items()}
        return Html(texts()[key][self.lang].format(**filled))

    def name(self, part: str, code: str) -> Html:
        """The name of a kind, reason, guard …; the code itself where it has none."""
        return self(f"{part}.{code}") if f"{part}.{code}" in texts() else esc(code)

    def topic(self, topic: str) -> Html:
        """What people call a topic."""
        if topic == OUT_OF_SCOPE:
            return self("page.oos")
        title = self.titles.get(topic, {})
        return esc(title.get(self.lang) or next(iter(title.values()), topic))

    def quoted_topic(self, topic: str) -> Html:
        """The same within a sentence."""
        return Html(f"“{self.topic(topic)}”")

    def lang_name(self, lang: str) -> Html:
        """Chinese, English."""
        return self(f"lang.{lang}")

    def count(self, number: int) -> Html:
        """1,289."""
        return Html(f"{number:,}")

    def percent(self, share: float) -> Html:
        """57 %, 4.9 %, 0.25 %: two or three digits, as many as tell something."""
        hundredths = share * 100
        digits = 0 if hundredths >= 10 else 1 if hundredths >= 1 or not hundredths else 2
        text = f"{hundredths:.{digits}f}"
        if "." in text:
            text = text.rstrip("0").rstrip(".")
        return Html(f"{text}%" if self.lang == "zh" else f"{text}\N{NARROW NO-BREAK SPACE}%")

    def and_(self, parts: Sequence[str]) -> Html:
        """Parts in a row: a, b and c."""
        if self.lang == "zh":
            return Html("、".join(map(esc, parts)))
        if len(parts) < 2:
            return join(parts)
        return Html(f"{', '.join(map(esc, parts[:-1]))} and {esc(parts[-1])}")

    def sentences(self, parts: Sequence[str]) -> Html:
        """Sentences one after the other; empty ones are left out."""
        return Html(("" if self.lang == "zh" else " ").join(esc(part) for part in parts if part))
