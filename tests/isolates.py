"""Real workerd processes for tests: what wrangler would deploy, with other bindings or another bundle.

``make`` builds both programs: ``edge/worker/build/worker`` is the worker itself, ``build/probe`` opens its
parts one by one (edge/worker/test/probe.ts).
"""

import json
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from tempfile import NamedTemporaryFile
from typing import Any

from servers import ROOT

WORKER = ROOT / "edge/worker"
BUILD, PROBE = WORKER / "build/worker", WORKER / "build/probe"
COMPATIBILITY_DATE = "2026-04-01"
_TYPES = {".js": "esModule", ".wasm": "wasm"}  # anything else is data


class Isolate:
    """A running workerd."""

    def __init__(
        self, process: subprocess.Popen[bytes], ports: Mapping[str, int], lines: "Queue[str]"
    ) -> None:
        self.process = process
        self.port = ports["http"]
        self.inspector = ports.get("inspector", 0)
        self.url = f"http://127.0.0.1:{self.port}"
        self.lines = lines

    def event(self, request_id: str = "") -> dict[str, Any]:
        """The log's line on a request, else the next one."""
        while True:
            line = self.lines.get(timeout=10)
            event = json.loads(line) if line.startswith("{") else {}
            if event and request_id in ("", event["request_id"]):
                return dict(event)


def heap_bytes(isolate: Isolate) -> int:
    """What V8 holds for the isolate, by workerd's inspector: its heap, used or not, and buffers outside of it."""
    import httpx2
    from websockets.sync.client import connect

    listed = httpx2.get(f"http://127.0.0.1:{isolate.inspector}/json", trust_env=False).json()
    with connect(listed[0]["webSocketDebuggerUrl"], max_size=None, proxy=None) as socket:
        socket.send(json.dumps({"id": 1, "method": "Runtime.getHeapUsage"}))
        while "result" not in (message := json.loads(socket.recv(timeout=20))):
            pass
    heap = message["result"]
    return int(heap["totalSize"] + heap["embedderHeapUsedSize"] + heap["backingStorageSize"])


@contextmanager
def workerd(
    folder: Path,
    env: Mapping[str, str] = {},
    replaced: Mapping[str, Path] = {},
    inspect: bool = False,
) -> Iterator[Isolate]:
    """Run a built worker. ``env``: its variables; ``replaced``: other files for modules, by the end of a name."""
    assert folder.is_dir(), f"{folder} is not built: run make worker"
    sources = [path for name in ("src", "test") for path in (WORKER / name).rglob("*.ts")]
    stale = folder.is_relative_to(WORKER) and max(map(_changed, sources)) > _changed(WORKER / "build/.done")
    assert not stale, "the worker's sources are newer than its build: run make worker"
    with NamedTemporaryFile("w", suffix=".capnp") as config:
        config.write(config_of(folder, env, replaced))
        config.flush()
        yield from _serve(config.name, inspect)


def _serve(config: str, inspect: bool) -> Iterator[Isolate]:
    reading, writing = os.pipe()
    command = [str(binary()), "serve", config, f"--control-fd={writing}", "--import-path=/"]
    if inspect:
        command.append("--inspector-addr=127.0.0.1:0")
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, pass_fds=[writing], env={}
    )
    os.close(writing)
    lines: Queue[str] = Queue()
    said = threading.Thread(target=_read, args=(process, lines), name="workerd's log")
    said.start()
    try:
        with os.fdopen(reading) as control:
            ports = {}
            for _ in range(1 + inspect):
                line = control.readline()
                assert line, f"workerd did not start: {list(lines.queue)}"
                heard = json.loads(line)
                ports[heard.get("socket", "inspector")] = heard["port"]
            yield Isolate(process, ports, lines)
    finally:
        process.kill()
        process.wait()
        said.join()


def _read(process: subprocess.Popen[bytes], lines: "Queue[str]") -> None:
    assert process.stdout is not None
    with process.stdout as output:
        for line in output:
            lines.put(line.decode("utf-8", "replace").rstrip("\n"))


def _changed(path: Path) -> float:
    return path.stat().st_mtime


def binary() -> Path:
    """workerd itself; what npm puts into .bin is a script around it that would outlive its child."""
    [found] = (WORKER / "node_modules/@cloudflare").glob("workerd-*/bin/workerd")
    return found


def config_of(folder: Path, env: Mapping[str, str], replaced: Mapping[str, Path]) -> str:
    """The configuration that serves a built folder."""
    [main] = folder.glob("*.js")
    files = [main, *(path for path in sorted(folder.iterdir()) if path.suffix not in (".js", ".map", ".md"))]
    modules = []
    for path in files:
        other = next((other for end, other in replaced.items() if path.name.endswith(end)), path)
        modules.append(
            f"(name = {json.dumps(path.name)}, {_TYPES.get(path.suffix, 'data')} = embed {json.dumps(str(other.resolve()))})"
        )
    bindings = [f"(name = {json.dumps(name)}, text = {json.dumps(value)})" for name, value in env.items()]
    return f"""
using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = .frontdesk),
    (name = "internet", network = (allow = ["public", "private"])),
  ],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (cfBlobHeader = "cf-blob"), service = "main")],
);
const frontdesk :Workerd.Worker = (
  modules = [{", ".join(modules)}],
  bindings = [{", ".join(bindings)}],
  compatibilityDate = "{COMPATIBILITY_DATE}",
  compatibilityFlags = ["enable_request_signal"],
);
"""
