"""A file that somebody brings along, as text."""

from dataclasses import dataclass
from pathlib import Path

from edge.errors import DeskError

_CONTAINERS = {
    b"PK\x03\x04": "an Excel workbook or a zip file; save the sheet as CSV (UTF-8), or unpack it",
    b"\xd0\xcf\x11\xe0": "an old Excel or Word file; save the sheet as CSV (UTF-8)",
    b"\x1f\x8b": "gzipped; unpack it first (gunzip)",
}
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class Source:
    """The text of a file, without a byte order mark."""

    path: Path
    text: str


def open_source(path: Path, encoding: str | None = None) -> Source:
    """The text of a file. Raises DeskError, which names --encoding where that would help."""
    try:
        data = path.read_bytes()
    except FileNotFoundError as exc:
        raise DeskError([f"{path}: there is no such file."]) from exc
    except OSError as exc:
        raise DeskError([f"{path}: cannot be read ({exc.strerror}); expected a file here."]) from exc
    for magic, what in _CONTAINERS.items():
        if data.startswith(magic):
            raise DeskError([f"{path}: this is {what}."])
    if not data.strip():
        raise DeskError([f"{path}:1: the file is empty."])
    try:
        text = data.decode(encoding or "utf-8-sig").removeprefix("\ufeff")
    except UnicodeError as exc:
        raise DeskError([_undecodable(path, data, encoding, exc)]) from exc
    for number, line in enumerate(text.split("\n"), 1):
        if any("\ud800" <= char <= "\udfff" for char in line):
            raise DeskError([f"{path}:{number}: half of a character; is --encoding {encoding} right?"])
    return Source(path, text)


def _undecodable(path: Path, data: bytes, encoding: str | None, exc: UnicodeError) -> str:
    """What is wrong, and with which encoding to try it again."""
    start = exc.start if isinstance(exc, UnicodeDecodeError) else 0
    line = data.count(b"\n", 0, start) + 1
    if encoding:
        return f"{path}:{line}: not {encoding} (byte {start}); name the right one with --encoding."
    if data.startswith(_UTF16):
        return f"{path}:{line}: this is UTF-16, not UTF-8; add --encoding utf-16."
    try:
        data.decode("gb18030")
    except UnicodeError:
        likely = "name its encoding with --encoding, such as --encoding gb18030 or --encoding cp1252"
    else:
        likely = "if it is Chinese text out of Excel (GBK), add --encoding gb18030; else name its encoding"
    return f"{path}:{line}: not UTF-8 (byte {start}); {likely}, or save the file as UTF-8."
