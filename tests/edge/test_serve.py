"""``frontdesk serve`` as a process of a platform: its port, its variables, its end."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
from servers import DONE, LAST_CHUNK, PATIENCE, ROOT, SSE_HEAD, ScriptedUpstream, chunk, delta, wait_until


@contextmanager
def served(port: int, folder: Path, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """``frontdesk serve`` without a bundle, once it answers."""
    variables = {"PORT": str(port), "FRONTDESK_BUNDLE": str(folder), "FRONTDESK_LOG": "off"} | variables
    environ = os.environ | {"PYTHONPATH": str(ROOT)} | variables
    command = [sys.executable, "-m", "edge.cli", "serve"]
    process = subprocess.Popen(command, cwd=folder, env=environ, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: process.poll() is not None or alive(port), "an answer", 30)
        yield process
    finally:
        process.kill()
        process.communicate()


def alive(port: int) -> bool:
    try:
        return httpx2.get(f"http://127.0.0.1:{port}/health/liveness").status_code == 200
    except httpx2.TransportError:
        return False


def test_it_serves_on_the_platforms_port_and_ends_when_told(closed_port: int, tmp_path: Path) -> None:
    with served(closed_port, tmp_path, WEB_CONCURRENCY="2", UVICORN_PORT="1") as process:
        assert alive(closed_port)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == -signal.SIGTERM


def test_what_is_being_answered_when_it_is_told_to_end_is_answered_whole(
    closed_port: int, tmp_path: Path, shared_upstream: ScriptedUpstream
) -> None:
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
    shared_upstream.reset()
    first, last = chunk(delta("one")), [chunk(delta("two")), chunk(DONE), LAST_CHUNK]
    shared_upstream.script = [SSE_HEAD, first, 1.0, *last]
    with served(closed_port, tmp_path, BASE_URL=shared_upstream.url) as process:
        url = f"http://127.0.0.1:{closed_port}/v1/chat/completions"
        with httpx2.stream("POST", url, json=body) as response:
            lines = response.iter_lines()
            assert "one" in next(lines)
            process.send_signal(signal.SIGTERM)
            rest = list(lines)
        assert any("two" in line for line in rest)
        assert rest[-2:] == ["data: [DONE]", ""]
        assert process.wait(PATIENCE) == -signal.SIGTERM
