"""Topic ids out of names and questions in any script."""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping

from export.desk import OUT_OF_SCOPE, TOPIC_ID

_LONGEST = 64
_READABLE = 48  # a question's id ends with a word before this; more is not read anyway


def topic_ids(titles: Mapping[str, str]) -> dict[str, str]:
    """Topic key → id, each once. A name that is an id already keeps it; of others the later is numbered."""
    taken = {OUT_OF_SCOPE}
    ids = {}
    for key, title in titles.items():
        if TOPIC_ID.fullmatch(title) and title not in taken:
            ids[key] = title
            taken.add(title)
    for key, title in titles.items():
        if key not in ids:
            ids[key] = _free(slug(title), taken)
            taken.add(ids[key])
    return {key: ids[key] for key in titles}


def slug(title: str) -> str:
    """An id for a title: its Latin words, and where others stand between them a hash of all of it."""
    name = unicodedata.normalize("NFKD", re.sub("['’]", "", title))
    name = "".join(char for char in name if not unicodedata.combining(char)).lower()
    if "/" in name and not re.search(r"\s", name):  # Rasa's retrieval intents: faq/ask_name
        name = name.replace("/", ".")
    gap = r"[^a-z0-9_.]+" if not re.search(r"\s", name) else r"[^a-z0-9]+"
    words = _cut(re.sub(gap, "-", name).strip("-_."))
    if words and not any(char.isalnum() and not char.isascii() for char in name):
        return words
    digest = hashlib.sha256(title.encode()).hexdigest()[:8]
    return f"{words or 'topic'}-{digest}"


def _cut(words: str) -> str:
    if len(words) <= _READABLE:
        return words
    head = words[: _READABLE + 1]
    return (head.rpartition("-")[0] or head[:_READABLE]).rstrip("-_.")


def _free(name: str, taken: Iterable[str]) -> str:
    number, candidate = 1, name
    while candidate in taken:
        number += 1
        end = f"-{number}"
        candidate = name[: _LONGEST - len(end)] + end
    return candidate
