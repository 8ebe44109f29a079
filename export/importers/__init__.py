"""Desks out of what people have already: one module a format, and this registry of them."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from edge.errors import ConfigError, DeskError
from export.importers import clinc, lines, rasa, table
from export.importers.material import Material
from export.importers.source import Source, open_source

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Format:
    """How a kind of file is called, and what reads it. ``endings``: of file names that are of no other."""

    title: str
    endings: tuple[str, ...]
    read: Callable[[Source], Material]


FORMATS: Mapping[str, Format] = {
    "rasa": Format("Rasa NLU YAML", (".yml", ".yaml"), rasa.read),
    "csv": Format("CSV or TSV with question, answer, variants", (".csv", ".tsv"), table.read),
    "jsonl": Format("JSON lines, FAQ or intents", (".jsonl", ".ndjson"), lines.read),
    "clinc": Format("JSON in the shape of CLINC150", (), clinc.read),
}


def read_material(
    path: Path, kind: str = AUTO, encoding: str | None = None, answers: Path | None = None
) -> Material:
    """What a file says. ``answers``: a Rasa file with the responses. Raises DeskError and ConfigError."""
    source = open_source(path, encoding)
    kind = format_of(source) if kind == AUTO else kind
    if answers is not None and kind != "rasa":
        raise ConfigError(f"--answers goes with Rasa files; {path} is read as {FORMATS[kind].title}.")
    material = FORMATS[kind].read(source)
    if answers is not None:
        rasa.add_answers(material, open_source(answers, encoding))
    return material


def format_of(source: Source) -> str:
    """The format of a file, by its name's ending; JSON is told from JSON lines by its first line."""
    ending = source.path.suffix.lower()
    for name, found in FORMATS.items():
        if ending in found.endings:
            return name
    if not source.text.lstrip().startswith(("{", "[")):
        raise DeskError(
            [f"{source.path}: what kind of file is this? Say it with --format {'|'.join(FORMATS)}."]
        )
    try:
        first = json.loads(source.text.strip().partition("\n")[0])
    except (ValueError, RecursionError):
        return "clinc"
    return "jsonl" if isinstance(first, dict) and first.keys() & {"question", "text"} else "clinc"
