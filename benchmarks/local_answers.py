"""Local answers a second, against a POST route that reads its body and returns a constant, in one run.

    python benchmarks/local_answers.py [--bundle models/demo] [--seconds 3] [--rounds 5] [-o FILE]

Each set-up is its own uvicorn process with one worker, without access log. One client process keeps
CONNECTIONS keep-alive connections busy, one request in flight on each. Rounds are interleaved (A B C
A B C …); medians over rounds and ratios to the constant route are what counts, the machine being noisy.
"""

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CONNECTIONS = 8
EXACT = "what time do we start"
THROUGH_ROUTER = "at what hour must i be in the office"

CONSTANT = """
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

BODY = {body!r}

async def constant(request: Request) -> Response:
    await request.body()
    return Response(BODY, media_type="application/json")

app = Starlette(routes=[Route("/v1/chat/completions", constant, methods=["POST"])])
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bundle", default="models/demo")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-o", "--out", type=Path)
    args = parser.parse_args()

    with frontdesk(args.bundle) as desk:
        for text, reason in ((EXACT, "exact"), (THROUGH_ROUTER, "matched")):
            found = decision(desk, text)
            if found != reason:
                sys.exit(f"{text!r} should be answered as {reason}, the bundle says {found}.")
        body = post(desk, request_bytes(EXACT)).partition(b"\r\n\r\n")[2]
        with constant(body) as route:
            setups = {
                "constant route": (route, request_bytes(EXACT)),
                "exact": (desk, request_bytes(EXACT)),
                "through the router": (desk, request_bytes(THROUGH_ROUTER)),
            }
            rates: dict[str, list[float]] = {name: [] for name in setups}
            for _ in range(args.rounds):
                for name, (port, request) in setups.items():
                    rates[name].append(asyncio.run(load(port, request, args.seconds)))
    base = statistics.median(rates["constant route"])
    result = {
        name: {"per_second": round(statistics.median(r)), "ratio": round(statistics.median(r) / base, 3)}
        for name, r in rates.items()
    }
    for name, row in result.items():
        print(f"{name:<20}{row['per_second']:>8} /s   {row['ratio']:.2f} × the constant route")
    if args.out:
        args.out.write_text(
            json.dumps({"cpus": os.cpu_count(), "connections": CONNECTIONS, **result}, indent=1) + "\n"
        )


def request_bytes(text: str) -> bytes:
    body = json.dumps({"model": "frontdesk", "messages": [{"role": "user", "content": text}]}).encode()
    lines = ["POST /v1/chat/completions HTTP/1.1", "host: x", "content-type: application/json"]
    lines += [f"content-length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


async def load(port: int, request: bytes, seconds: float) -> float:
    """Answers a second over CONNECTIONS keep-alive connections."""
    end = time.perf_counter() + seconds
    start = time.perf_counter()
    counts = await asyncio.gather(*(connection(port, request, end) for _ in range(CONNECTIONS)))
    return sum(counts) / (time.perf_counter() - start)


async def connection(port: int, request: bytes, end: float) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    count = 0
    while time.perf_counter() < end:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            sys.exit(f"The server answered {head[:60]!r}.")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        await reader.readexactly(length)
        count += 1
    writer.close()
    return count


def post(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port)) as conn:
        conn.sendall(request.replace(b"host: x", b"host: x\r\nconnection: close"))
        return b"".join(iter(lambda: conn.recv(65536), b""))


def decision(port: int, text: str) -> str:
    head = post(port, request_bytes(text)).partition(b"\r\n\r\n")[0].decode()
    return dict(line.split(": ", 1) for line in head.split("\r\n")[1:]).get("x-frontdesk-reason", "nothing")


@contextmanager
def frontdesk(bundle: str) -> Iterator[int]:
    env = os.environ | {"FRONTDESK_BUNDLE": bundle, "FRONTDESK_LOG": "off"}
    with server(["--factory", "edge.app:create_app"], env, "/health/readiness") as port:
        yield port


@contextmanager
def constant(body: bytes) -> Iterator[int]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "constant_route.py").write_text(CONSTANT.format(body=body))
        with server(["--app-dir", folder, "constant_route:app"], dict(os.environ), "/") as port:
            yield port


@contextmanager
def server(arguments: list[str], env: dict[str, str], ready: str) -> Iterator[int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "--port", str(port), "--http", "httptools"]
    command += ["--no-access-log", "--log-level", "warning", *arguments]
    process = subprocess.Popen(command, env=env)
    try:
        request = f"GET {ready} HTTP/1.1\r\nhost: x\r\n\r\n".encode()
        deadline = time.monotonic() + 30
        while True:
            try:
                head = post(port, request)
                if ready == "/" or head.startswith(b"HTTP/1.1 200"):
                    break
            except OSError:
                pass
            if time.monotonic() > deadline:
                sys.exit("The server did not start.")
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
