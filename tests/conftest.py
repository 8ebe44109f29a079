"""Fixtures for tests against real servers."""

import queue
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from servers import DEMO, Desk, Relay, ScriptedUpstream, Start, open_client, serve

from edge.app import create_app
from edge.bundle import Bundle
from edge.config import Answering, Settings, Upstream
from edge.host import Host, open_pipeline
from edge.pipeline import Pipeline
from edge.telemetry import Served as Event
from edge.transport import upstream_transport


@pytest.fixture(autouse=True, scope="session")
def _clean_environment() -> Iterator[None]:
    """No proxy of the machine between two servers on the loopback, and no key of the developer's."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            patch.delenv(name, raising=False)
            patch.delenv(name.lower(), raising=False)
        for name in ("BASE_URL", "API_KEY", "MODEL_NAME", "OPENAI_BASE_URL", "OPENAI_API_KEY", "PORT"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture
def closed_port() -> int:
    """A port where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Start:
    """Starts a relay: ``with start(upstream_url, http="h11", first_byte_timeout=0.3, …) as relay``."""
    empty = tmp_path_factory.mktemp("no-bundle")

    @contextmanager
    def started(
        base_url: str = "",
        http: str = "httptools",
        settings: Settings = Settings(),
        transport: Any = None,
        **upstream: Any,
    ) -> Iterator[Relay]:
        settings = replace(
            settings, bundle=Path(empty), upstream=Upstream(base_url=base_url, **upstream), log="off"
        )
        events: queue.Queue[Event] = queue.Queue()
        transport = transport or upstream_transport(settings.upstream)
        with serve(create_app(settings, transport, [events.put]), http) as served:
            relay = Relay(served, transport, events)
            yield relay
            relay.wait_idle()

    return started


@pytest.fixture(scope="module")
def shared_upstream() -> Iterator[ScriptedUpstream]:
    with ScriptedUpstream() as upstream:
        yield upstream


@pytest.fixture(scope="module", params=["httptools"])
def shared_relay(
    request: pytest.FixtureRequest, start: Start, shared_upstream: ScriptedUpstream
) -> Iterator[Relay]:
    """One server a module; ask for both HTTP parsers with ``indirect`` parametrisation."""
    with start(shared_upstream.url, http=request.param) as relay:
        yield relay


@pytest.fixture
def upstream(shared_upstream: ScriptedUpstream) -> ScriptedUpstream:
    shared_upstream.reset()
    return shared_upstream


@pytest.fixture
def relay(shared_relay: Relay, upstream: ScriptedUpstream) -> Iterator[Relay]:
    """The module's server; after each test nothing of the test may be left in it."""
    shared_relay.forget()
    yield shared_relay
    shared_relay.wait_idle()


@pytest.fixture
def client(relay: Relay) -> Iterator[httpx2.Client]:
    with open_client(relay.url) as client:
        yield client


@pytest.fixture(scope="session")
def demo() -> Pipeline:
    """The committed demo bundle, loaded once."""
    return open_pipeline(DEMO)


@pytest.fixture(scope="session")
def desk(demo: Pipeline) -> Desk:
    """Starts Frontdesk with the demo bundle: ``with desk(upstream_url, answering=…) as relay``."""

    @contextmanager
    def started(
        base_url: str = "",
        answering: Answering = Answering(),
        public: bool = True,
        api_key: str = "",
        change: Callable[[Bundle], Bundle] = lambda bundle: bundle,
        **settings: Any,
    ) -> Iterator[Relay]:
        configured = replace(
            Settings(),
            bundle=DEMO,
            upstream=Upstream(base_url=base_url, api_key=api_key),
            answering=answering,
            log="off",
            **settings,
        )
        events: queue.Queue[Event] = queue.Queue()
        transport = upstream_transport(configured.upstream)
        bundle = change(replace(demo.runtime.bundle, public=public))
        host = Host(Pipeline(replace(demo.runtime, bundle=bundle), answering))
        with serve(create_app(configured, transport, [events.put], host)) as served:
            relay = Relay(served, transport, events)
            yield relay
            relay.wait_idle()

    return started
