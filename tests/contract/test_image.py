"""What the Dockerfile makes, built and run as a platform runs it: not root's, process 1, nothing to write to."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from image import Container, Image
from servers import PATIENCE, ScriptedUpstream, completion, json_answer, wait_until


def _can_build() -> bool:
    """Whether this machine lets us make what a container is made of."""
    tools = all(map(shutil.which, ("unshare", "nsenter", "chroot")))
    if not (sys.platform == "linux" and tools and os.geteuid() == 0):
        return False
    python = all(Path(sys.base_prefix, "bin", name).exists() for name in ("python", "pip"))
    return python and subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"]).returncode == 0


pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not _can_build(), reason="needs Linux, root, namespaces and a Python with pip"),
]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    return Image(tmp_path_factory.mktemp("image"))


@pytest.fixture
def agent(shared_upstream: ScriptedUpstream) -> ScriptedUpstream:
    shared_upstream.reset()
    shared_upstream.script = json_answer(completion("agent"))
    return shared_upstream


@pytest.fixture
def container(image: Image, agent: ScriptedUpstream, closed_port: int) -> Iterator[Container]:
    """As a platform starts it: a port, an agent, a secret, and a variable that is not meant for us."""
    variables = {"PORT": str(closed_port), "WEB_CONCURRENCY": "4", "FRONTDESK_UPSTREAM_API_KEY": "sk-secret"}
    with image.run(FRONTDESK_UPSTREAM_BASE_URL=agent.url, **variables) as container:
        yield container


def ready(container: Container, client: httpx2.Client) -> None:
    def answered() -> bool:
        assert container.process.poll() is None, container.log.read_text()
        try:
            return client.get("/health/readiness").status_code == 200
        except httpx2.TransportError:
            return False

    wait_until(answered, "readiness", 30)


def test_the_image_serves_and_ends(container: Container, agent: ScriptedUpstream, closed_port: int) -> None:
    with httpx2.Client(base_url=f"http://127.0.0.1:{closed_port}", timeout=PATIENCE) as client:
        ready(container, client)
        assert container.is_healthy()
        body = {"model": "m", "messages": [{"role": "user", "content": "what time do we start?"}]}
        local = client.post("/v1/chat/completions", json=body)
        assert (local.headers["x-frontdesk-path"], local.headers["x-frontdesk-reason"]) == ("faq", "exact")
        assert "9:30" in local.json()["choices"][0]["message"]["content"]
        body["messages"][0]["content"] = "write a poem about the sea"
        assert client.post("/v1/chat/completions", json=body).headers["x-frontdesk-path"] == "agent"
        assert "x-frontdesk-hints" in agent.last().headers
        status = Path(f"/proc/{container.first}/status").read_text()
        assert "Uid:\t10001\t10001\t10001\t10001" in status
        assert "NSpid:\t" + f"{container.first}\t1\n" in status
        os.kill(container.first, signal.SIGTERM)
        assert container.process.wait(PATIENCE) == 0
    said = container.log.read_text()
    assert "Traceback" not in said
    assert "sk-secret" not in said


def test_its_other_commands_run_without_the_checkout(image: Image) -> None:
    with image.run("ask", "--bundle", "/bundle", "what time do we start?") as container:
        assert container.process.wait(60) == 0, container.log.read_text()
        assert container.log.read_text().startswith("faq  exact  staff.working_hours")
    with image.run("train", "/bundle", "-o", "/tmp/x") as container:
        assert container.process.wait(60) == 1
        assert "needs the extra 'export'" in container.log.read_text()
