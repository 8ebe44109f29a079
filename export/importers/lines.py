"""JSON lines: entries of an FAQ, texts with their intents, or both in one file."""

from collections.abc import Mapping
from typing import Any

from edge.normaliser import Lang
from export.importers.material import SPLITS, Material, Said, is_text, short, side_of
from export.importers.source import Source
from export.located import parse_json_lines

_LABELS = ("label", "intent", "topic")
_FAQ_KEYS = {"question", "answer", "variants", "lang"}
_TEXT_KEYS = {"text", "split", "lang", "history", "kind", *_LABELS}


def read(source: Source) -> Material:
    """The entries and texts of a file."""
    material = Material()
    others: dict[str, str] = {}
    for line, row in parse_json_lines(source.text, source.path):
        where = f"{source.path}:{line}"
        if "question" in row:
            _faq(row, where, material)
        elif "text" in row:
            _text(row, where, material)
        else:
            material.problems.append(
                f"{where}: expected an object with 'question' (FAQ) or with 'text' and 'label' (intent), "
                f"got the keys {short(list(row))}."
            )
        for key in row.keys() - (_FAQ_KEYS if "question" in row else _TEXT_KEYS):
            others.setdefault(key, where)
    for key, where in sorted(others.items()):
        material.leave("a key that is not read", where, short(key))
    return material.whole()


def _faq(row: Mapping[str, Any], where: str, material: Material) -> None:
    question, answer, variants = row["question"], row.get("answer"), row.get("variants")
    if not is_text(question):
        material.problems.append(
            f"{where}: 'question' must be a text that is not empty, got {short(question)}."
        )
    elif answer is not None and not isinstance(answer, str):
        material.problems.append(f"{where}: 'answer' must be a text or null, got {short(answer)}.")
    elif not isinstance(variants, list | None) or not all(isinstance(text, str) for text in variants or ()):
        material.problems.append(f"{where}: 'variants' must be a list of texts, got {short(variants)}.")
    else:
        known, lang = _lang(row, where, material)
        if known:
            material.faq(question, answer, variants or (), where, lang)


def _text(row: Mapping[str, Any], where: str, material: Material) -> None:
    text, split = row["text"], row.get("split")
    label = next((row[key] for key in _LABELS if row.get(key) is not None), None)
    side = side_of(split) if isinstance(split, str) else None
    if not isinstance(text, str):
        material.problems.append(f"{where}: 'text' must be a text, got {short(text)}.")
    elif not is_text(label):
        material.problems.append(
            f"{where}: 'label' (or 'intent') must name the text's intent, or 'oos', got {short(label)}."
        )
    elif split is not None and side is None:
        material.problems.append(f"{where}: 'split' must be one of {SPLITS}, got {short(split)}.")
    elif row.get("history"):
        material.leave("a follow-up, which says nothing without its history", where, short(text))
    else:
        known, lang = _lang(row, where, material)
        if known:
            material.said.append(Said(text, material.intent(str(label)), where, side, lang))


def _lang(row: Mapping[str, Any], where: str, material: Material) -> tuple[bool, Lang | None]:
    """Whether a desk can speak the language that a row says it is in, and which it is."""
    given = row.get("lang")
    if given is None:
        return True, None
    name = given.lower().replace("_", "-").partition("-")[0] if isinstance(given, str) else ""
    if name in tuple(Lang):
        return True, Lang(name)
    if name:
        material.leave(
            "in another language than zh and en", where, short(row.get("question", row.get("text")))
        )
    else:
        material.problems.append(f"{where}: 'lang' must be zh or en, got {short(given)}.")
    return False, None
