"""A file that is written whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from edge.errors import FrontdeskError


@contextmanager
def written_whole(path: Path) -> Iterator[IO[str]]:
    """A text file to write, which takes the place of ``path`` when the block ends well.

    Raises FrontdeskError at once where it cannot be written, before anything else is done.
    """
    if path.suffix.lower() not in (".html", ".htm"):  # a slip would replace questions or a bundle's file
        raise FrontdeskError(f"{path} does not end in .html; name a file such as report.html.")
    target = path.resolve()
    if target.exists() and not target.is_file():
        raise FrontdeskError(f"{path} is a folder or a device; name a file, such as report.html.")
    if not target.parent.is_dir():
        raise FrontdeskError(f"{path} cannot be written: there is no folder {path.parent}; make it first.")
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name[:100]}.", dir=target.parent)
    except OSError as exc:
        raise FrontdeskError(f"{path} cannot be written: {exc.strerror}.") from exc
    try:
        # What cannot be encoded is half of a character that somebody's JSON cut in two.
        with open(descriptor, "w", encoding="utf-8", errors="replace", newline="\n") as file:  # noqa: PTH123
            yield file
        os.chmod(name, 0o666 & ~_umask())  # noqa: PTH101 - mkstemp lets nobody else read
        os.replace(name, target)  # noqa: PTH105
    except OSError as exc:
        raise FrontdeskError(f"{path} cannot be written: {exc.strerror}.") from exc
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name)  # noqa: PTH108


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
