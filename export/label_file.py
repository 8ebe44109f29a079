"""The labels that an LLM gave, on disk: appended by the batch, so a killed run loses none it paid for."""

import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from edge.errors import DeskError
from export.desk import OUT_OF_SCOPE, DeskTopic
from export.located import parse_json_lines, read_text
from export.traffic import Said

# Goes up when what the LLM is told changes: its labels are then another question's.
_VERSION = 1


class LabelFile:
    """A JSON lines file of ``{"key", "text", "topic"}``, locked while it is open.

    A key is a hash of the text's normal form, the topics' ids and titles, and the model: a label counts only
    for the question that was asked. Lines with other keys are kept and not used. Opening raises DeskError.
    """

    def __init__(self, path: Path, topics: Sequence[DeskTopic], model: str) -> None:
        self.path = path
        self._topics = {*(topic.id for topic in topics), OUT_OF_SCOPE}
        titles = sorted((topic.id, sorted(topic.title.items())) for topic in topics)
        self._asked = [_VERSION, model, titles]
        self._labels: dict[str, tuple[str, int]] = {}  # key → (topic, line)

    def __enter__(self) -> Self:
        try:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as exc:
            raise self._unwritable(exc) from exc
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._size = self._mend()
            self._labels = self._read()
        except BlockingIOError as exc:
            os.close(self._fd)
            raise DeskError([f"{self.path}: another run is labelling; wait until it ends."]) from exc
        except BaseException:
            os.close(self._fd)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def label(self, said: Said) -> str | None:
        """The topic's id or ``oos`` that a text was given, None where it has none. Raises DeskError."""
        topic, line = self._labels.get(self._key(said), (None, 0))
        if topic is not None and topic not in self._topics:  # written by hand
            raise DeskError([f"{self.path}:{line}: there is no topic {topic!r}; use a topic's id or 'oos'."])
        return topic

    def add(self, labels: Mapping[Said, str]) -> None:
        """Append the labels of a batch, all or none. Raises DeskError."""
        rows = [{"key": self._key(said), "text": said.text, "topic": topic} for said, topic in labels.items()]
        data = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
        try:
            if os.write(self._fd, data) < len(data):
                os.ftruncate(self._fd, self._size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._fd)
        except OSError as exc:
            raise self._unwritable(exc) from exc
        self._size += len(data)
        self._labels |= {row["key"]: (row["topic"], 0) for row in rows}

    def _key(self, said: Said) -> str:
        asked = json.dumps([*self._asked, said.key], ensure_ascii=False)
        return hashlib.sha256(asked.encode()).hexdigest()[:32]

    def _mend(self) -> int:
        """End the last line, or cut off what a crash left half written; the file's size in bytes."""
        data = self.path.read_bytes()
        end = data.rfind(b"\n") + 1
        if end == len(data):
            return end
        try:
            json.loads(data[end:])  # whole: an editor left the line break out
        except ValueError:
            os.ftruncate(self._fd, end)
            return end
        os.write(self._fd, b"\n")
        return len(data) + 1

    def _read(self) -> dict[str, tuple[str, int]]:
        found = {}
        for line, row in parse_json_lines(read_text(self.path), self.path):
            key, topic = row.get("key"), row.get("topic")
            if not isinstance(key, str) or not isinstance(topic, str):
                raise DeskError([f"{self.path}:{line}: expected 'key' and 'topic'; remove the line."])
            found[key] = topic, line
        return found

    def _unwritable(self, exc: OSError) -> DeskError:
        return DeskError(
            [
                f"{self.path}: cannot be written ({exc.strerror}), and labels are kept there: "
                "make room, or put the traffic into a folder of yours."
            ]
        )
