"""The cache in a file, so that a restart does not begin with nothing."""

import asyncio
import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from edge.cache.entry import Entry
from edge.cache.memory import Memory

logger = logging.getLogger("frontdesk")

FORMAT = 1


class Snapshot:
    """Keeps the entries of a memory in a file: one line says what follows, then one entry a line.

    A file is written beside its place and renamed, so there is never half of one. What is forgotten on
    somebody's demand is gone from the file at once, because the file goes; a later one takes its place.
    """

    def __init__(self, path: Path, memory: Memory) -> None:
        self._path = path
        self._memory = memory
        self._saved = memory.changes
        self._forgotten = 0

    async def load(self, *, bundle: str, data_version: str, stamp: str = "") -> int:
        """Take in the entries that can still be served; their number.

        ``stamp``: the state of what several servers share; a file of another state may hold what was purged
        since. A file that cannot be used is left out, and the log says why.
        """
        try:
            found = await asyncio.to_thread(read_snapshot, self._path, stamp)
        except FileNotFoundError:
            return 0
        except (OSError, ValueError, RecursionError) as exc:
            logger.warning("The cache begins empty: %s cannot be used (%s).", self._path, exc)
            return 0
        known = [e for e in found if (e.bundle, e.data_version) == (bundle, data_version)]
        # What was stored since the start is newer.
        return sum(self._memory.get(e.id) is None and self._memory.put(e) for e in known)

    async def save(self, stamp: str = "") -> None:
        """Write the file, if anything has changed since. A file that cannot be written is told in the log."""
        changes, forgotten = self._memory.changes, self._forgotten
        if changes == self._saved:
            return
        try:
            entries = list(self._memory.entries())
            written = await asyncio.to_thread(_write_beside, self._path, entries, stamp)
            if forgotten != self._forgotten:  # what is written holds what was to be forgotten
                written.unlink()
                return
            written.replace(self._path)
            self._saved = changes
        except OSError as exc:
            logger.warning("The cache cannot be written to %s (%s).", self._path, exc)

    def forget(self) -> None:
        """Remove the file. Raises OSError: whoever purges must know that it is still there."""
        self._forgotten += 1
        self._saved = -1
        self._path.unlink(missing_ok=True)


def read_snapshot(path: Path, stamp: str = "") -> list[Entry]:
    """The entries of a file. Raises OSError, and ValueError for what is no whole file of this format."""
    head, _, body = path.read_bytes().partition(b"\n")
    for left in path.parent.glob(f".{path.name}-*"):  # of a process that was killed while it wrote
        left.unlink()
    told = json.loads(head)
    if not isinstance(told, dict) or told.get("frontdesk_cache") != FORMAT:
        raise ValueError("it is of another format")
    if told.get("stamp") != stamp:
        raise ValueError("entries were purged since")
    if told.get("sha256") != hashlib.sha256(body).hexdigest():
        raise ValueError("it is not whole")
    return [Entry.of_record(json.loads(line)) for line in body.splitlines()]


def _write_beside(path: Path, entries: Sequence[Entry], stamp: str) -> Path:
    """Write the file under another name in its folder, for its owner's eyes alone."""
    body = b"".join(_lines(entries))
    told = {"frontdesk_cache": FORMAT, "stamp": stamp, "sha256": hashlib.sha256(body).hexdigest()}
    number, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(json.dumps(told).encode() + b"\n" + body)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)


def _lines(entries: Iterable[Entry]) -> Iterable[bytes]:
    for entry in entries:
        yield json.dumps(entry.record(), separators=(",", ":")).encode() + b"\n"
