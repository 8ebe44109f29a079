"""A side parser of server-sent events: reads what passes, changes nothing, holds little.

It follows the WHATWG event-stream rules that a relay needs: lines end in CR, LF or CRLF, the
space after the colon is optional, and lines, events and UTF-8 sequences may be split anywhere.
"""

from collections.abc import Iterator

_CR, _LF = 13, 10
_BOM = b"\xef\xbb\xbf"  # one at the start of a stream is no part of it


class EventReader:
    """Yields the ``data`` of each event as bytes; an event over ``limit`` bytes is passed over."""

    def __init__(self, limit: int = 1 << 20) -> None:
        self._limit = limit
        self._line = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._too_long = False
        self._after_cr = False
        self._begun = False

    @property
    def mid_event(self) -> bool:
        """Whether something of an event has come that no blank line has closed yet."""
        return self._size > 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The events that this chunk completes."""
        start = 0
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk[0] == _LF:
                start = 1
        while start < len(chunk):
            end = _line_end(chunk, start)
            if end < 0:
                self._add(chunk[start:])
                return
            self._add(chunk[start:end])
            if chunk[end] == _CR:
                if end + 1 == len(chunk):
                    self._after_cr = True
                elif chunk[end + 1] == _LF:
                    end += 1
            start = end + 1
            event = self._end_line()
            if event is not None:
                yield event

    def _add(self, part: bytes) -> None:
        if not part:
            return
        self._size += len(part)
        if self._size > self._limit:
            self._too_long = True
            self._data.clear()
            self._line[:] = b"x"  # only whether the line is blank still matters
        else:
            self._line += part

    def _end_line(self) -> bytes | None:
        line = bytes(self._line)
        self._line.clear()
        if not self._begun:
            self._begun = True
            line = line.removeprefix(_BOM)
        if line:
            if line.startswith(b"data") and not self._too_long:
                if line[4:5] == b":":
                    self._data.append(line[6:] if line[5:6] == b" " else line[5:])
                elif line == b"data":
                    self._data.append(b"")
            return None
        data = None if self._too_long or not self._data else b"\n".join(self._data)
        self._data.clear()
        self._size = 0
        self._too_long = False
        return data


def _line_end(chunk: bytes, start: int) -> int:
    """The index of the first CR or LF from ``start`` on, or -1."""
    lf = chunk.find(b"\n", start)
    cr = chunk.find(b"\r", start, lf if lf >= 0 else len(chunk))
    return cr if cr >= 0 else lf
