"""Runs the application under uvicorn, and for ``frontdesk dev`` an agent beside it."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

from edge.app import create_app
from edge.config import Settings
from edge.errors import ConfigError
from edge.hints import parse_keys

_AGENT_START_SECONDS = 30
DEMO_TOOLS_KEY = "DEMO_TOOLS_KEY"
_CURLS = """
Frontdesk      {address}      (bundle {bundle})
central agent  {upstream}

Try it:
  curl -s {address}/chat/completions -H 'content-type: application/json' -d '{{"model":"frontdesk","messages":[{{"role":"user","content":"公司几点上班？"}}]}}'; echo
  curl -si {address}/chat/completions -H 'content-type: application/json' -H 'x-frontdesk-debug: 1' -d '{{"model":"frontdesk","messages":[{{"role":"user","content":"what time do we start?"}}]}}'; echo
  curl -si {address}/chat/completions -H 'content-type: application/json' -H 'x-user: eva' -d '{{"model":"frontdesk","messages":[{{"role":"user","content":"订单 1024 到哪了"}}]}}'; echo
  curl -siN {address}/chat/completions -H 'content-type: application/json' -d '{{"model":"frontdesk","stream":true,"messages":[{{"role":"user","content":"帮我对比一下这两款手机并写一封投诉信"}}]}}'

Stop with Ctrl+C.
"""  # noqa: E501 - lines to copy


def serve(settings: Settings) -> None:
    """Serve until the process is stopped."""
    uvicorn = _uvicorn()
    _check_free(settings.host, settings.port)
    sys.stderr.write(_summary(settings))
    uvicorn.run(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        workers=1,  # else $WEB_CONCURRENCY, which some platforms set and an application object cannot have
        http=_protocol(),
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=False,  # they would hide the proxy behind the user's address
        timeout_graceful_shutdown=30,
    )


def _protocol() -> Any:  # noqa: ANN401 - a class of uvicorn's
    """httptools (h11 serves bytes behind CL + TE as a second request), without trailers.

    uvicorn appends trailer fields to the headers, so a client could name a user behind a proxy's back.
    """
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    class WithoutTrailers(HttpToolsProtocol):
        in_trailers = False

        def on_message_begin(self) -> None:
            self.in_trailers = False
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self.in_trailers = True
            super().on_headers_complete()

        def on_header(self, name: bytes, value: bytes) -> None:
            if not self.in_trailers:
                super().on_header(name, value)

    return WithoutTrailers


def _summary(settings: Settings) -> str:
    """One line that says what is about to be served, and warnings on what would surprise."""
    answering = settings.answering
    share = str(answering.share) if answering.mode == "on" and answering.share < 1 else answering.mode
    lines = [
        f"Frontdesk serves {settings.bundle} on {_address(settings)}, answering {share}, "
        f"agent {settings.upstream.base_url or 'none'}."
    ]
    if not settings.upstream.base_url:
        lines.append(
            "Warning: without FRONTDESK_UPSTREAM_BASE_URL every turn that needs the agent gets a 503."
        )
    if not settings.tools.base_url:
        lines.append(
            "Note: without FRONTDESK_TOOLS_BASE_URL ([tools] base_url) no tool whose url is a path is called."
        )
    if settings.upstream.api_key and settings.auth == "passthrough":
        lines.append(
            "Warning: with auth = passthrough the upstream key is lent to callers on this machine and to "
            "those whom a trusted proxy names; for others set auth = keys."
        )
    if 0 < answering.share < 1 and not settings.identity_header:
        lines.append("Warning: without identity_header a share goes by credential or address, not by user.")
    return "\n".join(lines) + "\n"


def _address(settings: Settings) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{settings.port}/v1"


def dev(settings: Settings, agent: Path | None) -> None:
    """Serve on this machine; start ``agent`` as the upstream where none is configured."""
    _uvicorn()
    _check_free(settings.host, settings.port)
    # uvicorn raises SIGTERM again when it is done; without a handler the agent would outlive us.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if agent is not None:
        settings = _acquainted(settings)
    with _agent(settings, agent) as upstream:
        settings = replace(settings, upstream=replace(settings.upstream, base_url=upstream))
        if agent is not None and not settings.tools.base_url:
            root = upstream.removesuffix("/v1")
            settings = replace(settings, tools=replace(settings.tools, base_url=root))
        shown = _CURLS.format(
            address=_address(settings),
            bundle=settings.bundle,
            upstream=upstream or "none configured",
        )
        sys.stderr.write(shown)
        serve(settings)


def _acquainted(settings: Settings) -> Settings:
    """The settings with what an agent that is started here has to share: keys, and who asks.

    Whatever is configured stays. Callers on this machine may say who they are in ``x-user``.
    """
    keys = settings.hints_keys or parse_keys(f"dev:{secrets.token_urlsafe(32)}")
    own = {DEMO_TOOLS_KEY: secrets.token_urlsafe(32), **settings.tools.secrets}
    return replace(
        settings,
        hints_keys=keys,
        tools=replace(settings.tools, secrets=own),
        identity_header=settings.identity_header or "x-user",
    )


def _shared(settings: Settings) -> dict[str, str]:
    """The environment of an agent that is started here."""
    return {
        "FRONTDESK_HINTS_KEYS": ",".join(f"{key.kid}:{key.secret.decode()}" for key in settings.hints_keys),
        "FRONTDESK_URL": _address(settings).removesuffix("/v1"),
        "IDENTITY_HEADER": settings.identity_header,
        DEMO_TOOLS_KEY: settings.tools.secrets[DEMO_TOOLS_KEY],
    }


@contextmanager
def _agent(settings: Settings, agent: Path | None) -> Iterator[str]:
    """The upstream's address: the agent started here, or the one configured.

    BASE_URL, API_KEY and MODEL_NAME name the LLM of an agent that is started here, not its address.
    """
    if agent is None:
        yield settings.upstream.base_url
        return
    if not agent.is_file():
        raise ConfigError(f"There is no agent at {agent}; --agent takes a Python file.")
    port = _free_port()
    command = [sys.executable, str(agent), "--host", "127.0.0.1", "--port", str(port)]
    environment = {"AGENT_TOOLS": "company", **os.environ, **_shared(settings)}
    process = subprocess.Popen(command, env=environment)  # noqa: S603 - the operator's own file
    try:
        _wait_ready(process, f"http://127.0.0.1:{port}/health/liveness")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()


def _wait_ready(process: subprocess.Popen[bytes], url: str) -> None:
    direct = build_opener(ProxyHandler({}))  # a proxy of the machine has no business between us
    deadline = time.monotonic() + _AGENT_START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise ConfigError(f"The agent ended with status {process.returncode} before it was ready.")
        try:
            with direct.open(url, timeout=1):
                return
        except (OSError, HTTPException):
            time.sleep(0.05)
    raise ConfigError(f"The agent was not ready within {_AGENT_START_SECONDS} s.")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _check_free(host: str, port: int) -> None:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as exc:
            raise ConfigError(
                f"{host}:{port} cannot be used ({exc.strerror}); choose another: --port, or PORT=… make run."
            ) from exc


def _uvicorn() -> Any:  # noqa: ANN401 - a module
    try:
        import uvicorn
    except ModuleNotFoundError as exc:
        raise ConfigError("Serving needs the extra 'server': pip install 'frontdesk[server]'.") from exc
    return uvicorn
