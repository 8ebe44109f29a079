"""Slips of the keyboard: the student sees them, its target stays the clean text's."""

import random
import re

from edge.normaliser import Lang

_WORD = re.compile(r"[a-z]{4,}")
_PUNCTUATION = re.compile(r"[!?.,;:'\"…。、，！？；：“”‘’]")
_HAN = re.compile("[\u4e00-\u9fff]")


def _slip(word: str, chance: random.Random) -> str:
    """Drops, swaps or doubles one letter after the first, which people rarely miss."""
    at = chance.randrange(1, len(word) - 1)
    kind = chance.randrange(3)
    if kind == 0:
        return word[:at] + word[at + 1 :]
    if kind == 1:
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return word[:at] + word[at] + word[at:]


def noisy(text: str, lang: Lang, chance: random.Random) -> str:
    """A variant of ``text`` with a slip or without punctuation; ``text`` itself where nothing fits."""
    if chance.random() < 0.4:
        return " ".join(_PUNCTUATION.sub(" ", text).split()) or text
    places = [m.span() for m in (_HAN if lang is Lang.ZH else _WORD).finditer(text)]
    if len(places) < (5 if lang is Lang.ZH else 1):  # a short Chinese text loses its meaning with a character
        return text
    start, end = chance.choice(places)
    return text[:start] + ("" if lang is Lang.ZH else _slip(text[start:end], chance)) + text[end:]
