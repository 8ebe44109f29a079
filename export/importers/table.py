"""FAQ tables: CSV and TSV with the columns question, answer and variants."""

import csv
import io
import re
import unicodedata
from collections.abc import Iterator, Sequence

from export.importers.material import Material, short
from export.importers.source import Source

COLUMNS = {
    "question": ("question", "questions", "问题", "問題", "标准问", "标准问题"),
    "answer": ("answer", "answers", "答案", "回答"),
    "variants": ("variants", "variant", "similar questions", "相似问法", "相似問法", "相似问", "相似问题"),
}
_NAMED = {name: column for column, names in COLUMNS.items() for name in names}
_DELIMITERS = (",", "\t", ";")


def read(source: Source) -> Material:
    """The entries of a table."""
    material = Material()
    delimiter = max(_DELIMITERS, key=lambda mark: _fitness(source.text, mark))
    rows = _rows(source, delimiter, material)
    line, header = next(rows, (1, []))
    columns = _columns(header, f"{source.path}:{line}", material)
    for line, cells in rows:
        where = f"{source.path}:{line}"
        if any(cell.strip() for cell in cells[len(header) :]):
            material.problems.append(
                f"{where}: {len(cells)} cells where the header has {len(header)}: "
                "put a cell that holds the separator or a quote into double quotes."
            )
        elif columns and any(cell.strip() for cell in cells):
            found = {name: cells[at] for name, at in columns.items() if at < len(cells)}
            if found.get("question", "").strip():
                variants = split_variants(found.get("variants", ""))
                material.faq(found["question"], found.get("answer"), variants, where)
            else:
                material.leave("a row without a question", where, short(" ".join(cells).strip()))
    return material.whole()


def split_variants(cell: str) -> list[str]:
    """The texts of a cell. A line break separates them; where there is none ``|`` does, else ``;``.

    Only one of them does, so that a question may hold a semicolon.
    """
    for mark in ("[\r\n]+", r"\|", "[;；]"):
        if re.search(mark, cell):
            return [text for text in re.split(mark, cell) if text.strip()]
    return [cell] if cell.strip() else []


def _rows(source: Source, delimiter: str, material: Material) -> Iterator[tuple[int, list[str]]]:
    """(line of its beginning, cells) of each row that is not blank."""
    reader = csv.reader(io.StringIO(source.text, newline=""), delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as exc:
            material.problems.append(
                f"{source.path}:{line}: the row that begins here is not valid CSV ({exc}): put cells with "
                "quotes or line breaks into double quotes, and double the quotes in them."
            )
            return
        if any(cell.strip() for cell in cells):
            yield line, cells


def _fitness(text: str, delimiter: str) -> tuple[int, int]:
    """How well a separator reads the header: known columns, then cells."""
    try:
        header = next(csv.reader(io.StringIO(text.lstrip(), newline=""), delimiter=delimiter), [])
    except csv.Error:
        return 0, 0
    return sum(_plain(name) in _NAMED for name in header), len(header)


def _columns(header: Sequence[str], where: str, material: Material) -> dict[str, int]:
    """Which cell holds what; columns of other names are left out."""
    columns: dict[str, int] = {}
    for at, name in enumerate(header):
        column = _NAMED.get(_plain(name))
        if column is None:
            material.leave("a column that is not read", where, short(name.strip() or f"number {at + 1}"))
        elif column in columns:
            first = header[columns[column]].strip()
            material.problems.append(
                f"{where}: the columns {short(first)} and {short(name.strip())} both hold the {column}; "
                "rename or remove one."
            )
        else:
            columns[column] = at
    if "question" not in columns and not material.problems:
        shown = ", ".join(short(name.strip()) for name in header[:8])
        material.problems.append(
            f"{where}: there is no column 'question'; the first line must name the "
            f"columns question, answer and variants (问题, 答案, 相似问法), and here it has {shown}."
        )
    return columns


def _plain(name: str) -> str:
    """A column's name without case, width and the ways to write a gap."""
    return " ".join(re.split(r"[\s_-]+", unicodedata.normalize("NFKC", name).strip().lower()))
