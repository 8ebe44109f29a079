"""The agent is an example, not a package: its folder goes on the path, as uvicorn's --app-dir does it."""

import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "agent"))

from agent import create_app
from settings import Settings
from tools import Tool

FAST = Settings(prefill_ms_per_token=0, first_token_ms=0, tokens_per_second=float("inf"))


@contextmanager
def serve(settings: Settings, tools: Sequence[Tool] | None = None, port: int = 0) -> Iterator[str]:
    """A real server on ``port``, or a free one: in-process transports collect a stream before they hand it out."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", port))
        config = uvicorn.Config(
            create_app(settings, tools=tools), log_config=None, access_log=False, lifespan="on"
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            deadline = time.monotonic() + 10
            while not server.started:
                assert thread.is_alive()
                assert time.monotonic() < deadline
                time.sleep(0.005)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(10)
        assert not thread.is_alive()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy of the machine between two servers on the loopback, and no key of the developer's."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in ("BASE_URL", "API_KEY", "MODEL_NAME", "OPENAI_BASE_URL", "OPENAI_API_KEY", "AGENT_TOOLS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run_agent() -> Callable[..., AbstractContextManager[str]]:
    return serve


@pytest.fixture
def fast() -> Iterator[str]:
    """A scripted agent that answers at once."""
    with serve(FAST) as url:
        yield url


@pytest.fixture(autouse=True)
def log_lines(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[dict[str, Any]]]:
    """Wait until so many log lines were written; a line comes after its answer, so it may be late.

    Not capfd: it loses what another thread writes while it is being read.
    """
    written: list[str] = []
    monkeypatch.setattr("requestlog.write_line", written.append)

    def read(count: int, within_s: float = 10) -> list[dict[str, Any]]:
        deadline = time.monotonic() + within_s
        while len(written) < count:
            assert time.monotonic() < deadline, f"{len(written)} of {count} lines: {written}"
            time.sleep(0.01)
        return [json.loads(line) for line in written]

    return read
