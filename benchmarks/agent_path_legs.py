"""Network legs for agent_path.py: TCP relays that hold every chunk back for half a round trip, each way.

    python benchmarks/agent_path_legs.py LEGS.json

LEGS.json: [{"name", "port", "to", "round_trip_ms"}]. Opening a connection takes no time, as if every one
were already open. Writes JSON lines to stdout: {"ready"} once it listens, the GET requests that pass, and at
the end how late chunks went on, beyond what the leg is meant to hold them back.
"""

import asyncio
import json
import re
import signal
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_GET = re.compile(rb"(?:^|\r\n\r\n)GET (\S+) HTTP/1\.1\r\n((?:.+\r\n)*)")
# The event loop wakes up to 1 ms late: asked for half of that earlier, it is early as often as late.
_EARLY = 0.0005
_REQUEST_ID = re.compile(rb"(?i)^x-request-id: (\S+)\r$", re.MULTILINE)


@dataclass(slots=True)
class Leg:
    """``late``: of each chunk, by how many milliseconds it went on later than it should."""

    name: str
    port: int
    to: int
    round_trip_ms: float
    late: list[float] = field(default_factory=list)


class _End(asyncio.Protocol):
    """One end of a connection; what it hears is written to the other end, later and in order."""

    def __init__(self, leg: Leg, other: "_End | None" = None) -> None:
        self.leg, self.loop = leg, asyncio.get_running_loop()
        self.other = other
        self.transport: asyncio.Transport | None = None
        self._waiting: deque[tuple[float, bytes | None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if self.other is None:
            other = self.other = _End(self.leg, self)
            connecting = self.loop.create_connection(lambda: other, "127.0.0.1", self.leg.to)
            self._connecting = asyncio.ensure_future(connecting)
            self._connecting.add_done_callback(self._connected)
        elif self._waiting or self.other._waiting:
            self.other._send_due()

    def _connected(self, connecting: "asyncio.Future[Any]") -> None:
        if connecting.exception() is not None and self.transport is not None:
            self.transport.abort()  # nobody listens there

    def data_received(self, data: bytes) -> None:
        self._hold(data)
        for match in _GET.finditer(data):
            request_id = _REQUEST_ID.search(match[2])
            told = {"leg": self.leg.name, "target": match[1].decode("latin-1")}
            print(json.dumps({**told, "request_id": request_id[1].decode() if request_id else None}))

    def connection_lost(self, exc: Exception | None) -> None:
        self._hold(None)

    def _hold(self, data: bytes | None) -> None:
        """``None``: this end closed."""
        self._waiting.append((self.loop.time() + self.leg.round_trip_ms / 2000, data))
        if self._timer is None:
            self._wake()

    def _wake(self) -> None:
        self._timer = self.loop.call_at(self._waiting[0][0] - _EARLY, self._send_due)

    def _send_due(self) -> None:
        assert self.other is not None
        self._timer, out = None, self.other.transport
        if out is None:
            return  # still connecting: connection_made calls again
        now = self.loop.time() + _EARLY
        while self._waiting and self._waiting[0][0] <= now:
            due, data = self._waiting.popleft()
            if data is None:
                out.close()
            elif not out.is_closing():
                out.write(data)
                self.leg.late.append(1000 * (self.loop.time() - due))
        if self._waiting:
            self._wake()


async def relay(legs: Sequence[Leg], stop: asyncio.Event) -> None:
    """Serve the legs until told to stop."""
    loop = asyncio.get_running_loop()
    servers = [
        await loop.create_server(lambda leg=leg: _End(leg), "127.0.0.1", leg.port)  # type: ignore[misc]
        for leg in legs
    ]
    print(json.dumps({"ready": [leg.name for leg in legs]}), flush=True)
    await stop.wait()
    for server in servers:
        server.close()


async def _main(legs: Sequence[Leg]) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await relay(legs, stop)
    for leg in legs:
        late = sorted(leg.late)
        shown = {f"p{p}": round(late[int(len(late) * p / 100)], 2) for p in (50, 95, 99)} if late else {}
        print(json.dumps({"leg": leg.name, "chunks": len(late), "late_ms": shown}), flush=True)


if __name__ == "__main__":
    asyncio.run(_main([Leg(**entry) for entry in json.loads(Path(sys.argv[1]).read_text("utf-8"))]))
