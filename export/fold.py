"""The tables of the normaliser: traditional to simplified Chinese, one character to one."""

import json
from pathlib import Path

from edge.normaliser import NORMALISER_VERSION, Normaliser

_HAN = (range(0x3400, 0x4DC0), range(0x4E00, 0xA000))


def fold_tables() -> tuple[str, str]:
    """Traditional characters and what each becomes, by OpenCC's ``t2s`` on single characters.

    OpenCC decides what is ambiguous: it folds 後 and 乾 and leaves 著 alone. Chains are followed to their
    end, so that folding twice changes nothing.
    """
    from opencc import OpenCC  # an offline need only

    convert = OpenCC("t2s").convert
    folded = {char: convert(char) for block in _HAN for char in map(chr, block)}
    kept = {a: folded.get(b, b) for a, b in folded.items() if a != b and len(b) == 1}
    return "".join(kept), "".join(kept.values())


def write_normaliser(path: Path) -> Normaliser:
    """Writes normaliser.json and returns the normaliser made from it."""
    traditional, simplified = fold_tables()
    tables = {"version": NORMALISER_VERSION, "traditional": traditional, "simplified": simplified}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(tables, ensure_ascii=False) + "\n", encoding="utf-8")
    return Normaliser(traditional, simplified)
