"""The real curl binary against the real server: README's commands, and the corners of HTTP that curl reaches."""

import gzip
import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from servers import (
    DONE,
    LAST_CHUNK,
    PATIENCE,
    ROOT,
    SSE_HEAD,
    Desk,
    Do,
    Relay,
    ScriptedUpstream,
    chunk,
    completion,
    delta,
    head,
    json_answer,
)

JSON = ["-H", "content-type: application/json"]
CHAT = "/v1/chat/completions"


def command(*args: str) -> list[str]:
    """curl without the developer's configuration and proxies."""
    return ["curl", "-q", "--noproxy", "*", "--max-time", str(int(3 * PATIENCE)), "-sS", *args]


def curl(*args: str, stdin: bytes = b"") -> bytes:
    """What curl writes to stdout. It must succeed; an HTTP error status is no failure for it."""
    done = subprocess.run(command(*args), input=stdin, capture_output=True, timeout=4 * PATIENCE)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


class Answer:
    """The last response that ``curl -i`` printed; ``interim`` are those before it, such as 100."""

    def __init__(self, printed: bytes) -> None:
        self.interim: list[str] = []
        top, _, self.body = printed.partition(b"\r\n\r\n")
        while re.match(rb"HTTP/1\.1 1\d\d", top):
            self.interim.append(top.decode())
            top, _, self.body = self.body.partition(b"\r\n\r\n")
        first, *fields = top.decode("latin-1").split("\r\n")
        self.version, status, *_ = first.split(" ")
        self.status = int(status)
        self.headers = {n.lower(): v.strip() for n, _, v in (field.partition(":") for field in fields)}

    def json(self) -> Any:
        return json.loads(self.body)

    def error(self) -> tuple[int, str]:
        """Status and code of an error of ours, which must be OpenAI-shaped."""
        assert self.headers["content-type"] == "application/json"
        assert self.headers["x-frontdesk-path"] == "error"
        error = self.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        return self.status, error["code"]


@pytest.fixture(scope="module")
def local(desk: Desk) -> Iterator[Relay]:
    """Without an upstream: whatever succeeds was answered here."""
    with desk() as relay:
        yield relay


def asking(text: str = "hi", **options: Any) -> str:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": text}], **options})


# --- README ------------------------------------------------------------------------------------


def readme() -> list[str]:
    """README's curl commands, as a shell reads them."""
    text = (ROOT / "README.md").read_text("utf-8")
    found = re.findall(r"^(curl (?:.*\\\n)*.*)$", text, re.MULTILINE)
    assert found
    return [line for line in found if CHAT in line]


def in_shell(line: str, relay: Relay) -> bytes:
    """Run a command of README against the relay."""
    line = re.sub(r"localhost:\d+", f"127.0.0.1:{relay.port}", line)
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    done = subprocess.run(
        ["sh", "-c", line],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=4 * PATIENCE,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def test_readmes_first_question_is_answered_here(local: Relay) -> None:
    printed = in_shell(readme()[0], local)
    assert printed.endswith(b"\n")
    assert "9:30" in json.loads(printed)["choices"][0]["message"]["content"]


def test_readmes_second_question_goes_to_the_agent(desk: Desk, upstream: ScriptedUpstream) -> None:
    upstream.script = [SSE_HEAD, chunk(delta("在路上")), chunk(DONE), LAST_CHUNK]
    with desk(upstream.url) as relay:
        printed = in_shell(readme()[1], relay)
    answer = Answer(printed)
    assert (answer.version, answer.status) == ("HTTP/1.1", 200)
    assert answer.headers["x-frontdesk-path"] == "agent"
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert delta("在路上") in answer.body
    assert upstream.last().headers["x-frontdesk-hints"]


# --- streams -----------------------------------------------------------------------------------


def test_a_local_stream(local: Relay) -> None:
    answer = Answer(
        curl("-iN", f"{local.url}{CHAT}", *JSON, "-d", asking("what time do we start?", stream=True))
    )
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["x-frontdesk-path"] == "faq"
    assert answer.body.endswith(b"\n\n" + DONE)


def test_a_stream_comes_as_it_is_made(relay: Relay, upstream: ScriptedUpstream) -> None:
    """The upstream says the second word only once curl has printed the first."""
    first_is_here = threading.Event()
    upstream.script = [SSE_HEAD, chunk(delta("one")), first_is_here]
    upstream.script += [chunk(delta("two")), chunk(DONE), LAST_CHUNK]
    args = command("-N", f"{relay.url}{CHAT}", *JSON, "-d", asking(stream=True))
    with subprocess.Popen(args, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() + running.stdout.readline() == delta("one")
        first_is_here.set()
        assert running.stdout.read() == delta("two") + DONE
    assert running.returncode == 0


def test_a_stream_that_is_interrupted_closes_the_upstream(relay: Relay, upstream: ScriptedUpstream) -> None:
    upstream.script = [SSE_HEAD, chunk(delta("one")), Do.STALL]
    args = command("-N", f"{relay.url}{CHAT}", *JSON, "-d", asking(stream=True))
    with subprocess.Popen(args, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline().startswith(b"data: ")
        running.terminate()
    assert upstream.last().closed.wait(PATIENCE)
    assert relay.event().outcome == "client_left"


def test_a_whole_answer_that_breaks_fails_in_curl(relay: Relay, upstream: ScriptedUpstream) -> None:
    """18: a partial transfer. Half an answer must not look like all of it."""
    body = completion("x" * 500)
    upstream.script = [head("200 OK", "content-type: application/json", f"content-length: {len(body)}")]
    upstream.script += [body[:99], Do.CLOSE]
    args = command(f"{relay.url}{CHAT}", *JSON, "-d", asking())
    done = subprocess.run(args, stdin=subprocess.DEVNULL, capture_output=True, timeout=4 * PATIENCE)
    assert done.returncode == 18, done.stderr.decode()


# --- HTTP/1.0 ----------------------------------------------------------------------------------


def test_http_1_0_local(local: Relay) -> None:
    for stream in (False, True):
        body = asking("what time do we start?", stream=stream)
        answer = Answer(curl("-i", "--http1.0", f"{local.url}{CHAT}", *JSON, "-d", body))
        assert (answer.status, answer.headers["x-frontdesk-path"]) == (200, "faq")
        assert int(answer.headers["content-length"]) == len(answer.body)
        assert "transfer-encoding" not in answer.headers


def test_http_1_0_forwarded(relay: Relay, upstream: ScriptedUpstream) -> None:
    upstream.script = json_answer(completion("hello"))
    answer = Answer(curl("-i", "--http1.0", f"{relay.url}{CHAT}", *JSON, "-d", asking()))
    assert answer.body == completion("hello")
    assert upstream.last().head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")


def test_http_1_0_forwarded_stream(relay: Relay, upstream: ScriptedUpstream) -> None:
    upstream.script = [SSE_HEAD, chunk(delta("one")), chunk(DONE), LAST_CHUNK]
    answer = Answer(curl("-iN", "--http1.0", f"{relay.url}{CHAT}", *JSON, "-d", asking(stream=True)))
    assert answer.body == delta("one") + DONE


@pytest.mark.parametrize(
    "shared_relay",
    [
        "h11",
        pytest.param(
            "httptools",
            marks=pytest.mark.xfail(
                strict=True, reason="uvicorn's httptools sends chunks to HTTP/1.0 (RFC 9112, section 6.1)"
            ),
        ),
    ],
    indirect=True,
)
def test_http_1_0_gets_no_chunks(relay: Relay, upstream: ScriptedUpstream) -> None:
    """HTTP/1.0 does not know them: the stream ends with the connection."""
    upstream.script = [SSE_HEAD, chunk(delta("one")), chunk(DONE), LAST_CHUNK]
    answer = Answer(curl("-iN", "--http1.0", f"{relay.url}{CHAT}", *JSON, "-d", asking(stream=True)))
    assert answer.body == delta("one") + DONE
    assert "transfer-encoding" not in answer.headers


# --- uploads -----------------------------------------------------------------------------------

EXPECT = ["-H", "expect: 100-continue", "--expect100-timeout", str(int(2 * PATIENCE))]


def test_expect_100_continue(relay: Relay, upstream: ScriptedUpstream) -> None:
    upstream.script = json_answer(completion("hello"))
    body = asking("x" * 900_000).encode()
    answer = Answer(curl("-i", *EXPECT, f"{relay.url}{CHAT}", *JSON, "--data-binary", "@-", stdin=body))
    assert answer.interim == ["HTTP/1.1 100 Continue"]
    assert answer.body == completion("hello")
    assert upstream.last().body == body
    assert "expect" not in upstream.last().headers


def test_expect_100_continue_of_a_body_that_is_too_large(relay: Relay, upstream: ScriptedUpstream) -> None:
    """Refused by its length: curl sends none of it."""
    body = asking("x" * 5_000_000).encode()
    out = curl(
        *("-i", "-w", "\n%{size_upload}", *EXPECT, f"{relay.url}{CHAT}", *JSON, "--data-binary", "@-"),
        stdin=body,
    )
    printed, _, uploaded = out.rpartition(b"\n")
    answer = Answer(printed)
    assert (answer.interim, answer.error()) == ([], (413, "request_too_large"))
    assert int(uploaded) == 0
    assert not upstream.requests


def test_expect_100_continue_passed_through(relay: Relay, upstream: ScriptedUpstream) -> None:
    body = os.urandom(2_000_000)
    args = ["-i", *EXPECT, f"{relay.url}/v1/files", "--data-binary", "@-"]
    assert Answer(curl(*args, stdin=body)).interim == ["HTTP/1.1 100 Continue"]
    assert upstream.last().body == body
    assert upstream.last().headers["content-length"] == str(len(body))


CHUNKED = ["-H", "transfer-encoding: chunked", "--data-binary", "@-"]


def test_a_chunked_chat(relay: Relay, upstream: ScriptedUpstream) -> None:
    upstream.script = json_answer(completion("hello"))
    body = asking("你好" * 40_000).encode()
    answer = Answer(curl("-i", f"{relay.url}{CHAT}", *JSON, *CHUNKED, stdin=body))
    assert answer.body == completion("hello")
    assert upstream.last().body == body
    assert upstream.last().headers["content-length"] == str(len(body))


def test_a_chunked_question_that_is_answered_here(local: Relay) -> None:
    body = asking("what time do we start?").encode()
    answer = Answer(curl("-i", f"{local.url}{CHAT}", *JSON, *CHUNKED, stdin=body))
    assert (answer.status, answer.headers["x-frontdesk-path"]) == (200, "faq")


def test_a_chunked_chat_that_is_too_large(relay: Relay, upstream: ScriptedUpstream) -> None:
    body = asking("x" * 1_100_000).encode()
    answer = Answer(curl("-i", "-H", "expect:", f"{relay.url}{CHAT}", *JSON, *CHUNKED, stdin=body))
    assert answer.error() == (413, "request_too_large")
    assert not upstream.requests


def test_a_chunked_upload_passed_through(relay: Relay, upstream: ScriptedUpstream) -> None:
    body = os.urandom(300_000)
    Answer(curl("-i", f"{relay.url}/v1/files", *CHUNKED, stdin=body))
    assert upstream.last().body == body
    assert upstream.last().headers["transfer-encoding"] == "chunked"


def test_a_form_passed_through(relay: Relay, upstream: ScriptedUpstream, tmp_path: Path) -> None:
    content = bytes(range(256)) * 500
    (tmp_path / "a.bin").write_bytes(content)
    curl(f"{relay.url}/v1/files", "-F", "purpose=user_data", "-F", f"file=@{tmp_path / 'a.bin'}")
    assert upstream.last().headers["content-type"].startswith("multipart/form-data; boundary=")
    assert content in upstream.last().body


# --- gzip --------------------------------------------------------------------------------------

GZIP = ["-H", "content-encoding: gzip", "--data-binary", "@-"]


@pytest.mark.parametrize("target", ["/v1/embeddings", CHAT])
def test_a_compressed_body_goes_through_unread(relay: Relay, upstream: ScriptedUpstream, target: str) -> None:
    upstream.script = json_answer(completion("hello"))
    body = gzip.compress(asking().encode())
    answer = Answer(
        curl("-i", f"{relay.url}{target}", *JSON, *GZIP, "-H", "x-frontdesk-bypass: 1", stdin=body)
    )
    assert answer.body == completion("hello")
    assert upstream.last().body == body
    assert upstream.last().headers["content-encoding"] == "gzip"


def test_a_compressed_chat_is_forwarded(relay: Relay, upstream: ScriptedUpstream) -> None:
    upstream.script = json_answer(completion("hello"))
    body = gzip.compress(asking().encode())
    answer = Answer(curl("-i", f"{relay.url}{CHAT}", *JSON, *GZIP, stdin=body))
    assert answer.body == completion("hello")
    assert upstream.last().body == body


def test_compression_is_not_asked_of_the_upstream(relay: Relay, upstream: ScriptedUpstream) -> None:
    upstream.script = json_answer(completion("hello"))
    assert curl("--compressed", f"{relay.url}{CHAT}", *JSON, "-d", asking()) == completion("hello")
    assert upstream.last().headers["accept-encoding"] == "identity"
    packed = json_answer(gzip.compress(completion("packed")), "200 OK", "content-encoding: gzip")
    upstream.script = packed  # unasked
    assert curl("--compressed", f"{relay.url}{CHAT}", *JSON, "-d", asking()) == completion("packed")


# --- connections -------------------------------------------------------------------------------


def test_the_connection_is_kept_over_all_kinds_of_answers(relay: Relay, upstream: ScriptedUpstream) -> None:
    stream = [SSE_HEAD, chunk(delta("one")), chunk(DONE), LAST_CHUNK]
    upstream.scripts += [json_answer(completion("hello")), stream, json_answer(b"{}", "404 Not Found")]
    show = ["-o", os.devnull, "-w", "%{http_code} %{num_connects}\n"]
    urls = [
        [f"{relay.url}{CHAT}", *JSON, "-d", asking()],
        [f"{relay.url}{CHAT}", *JSON, "-d", "{"],
        [f"{relay.url}{CHAT}", *JSON, "-d", asking(stream=True)],
        [f"{relay.url}/v1/files/f-1"],
        [f"{relay.url}/v1/classify"],
        ["-I", f"{relay.url}/v1/models"],
        [f"{relay.url}/nope"],
        [f"{relay.url}/health/liveness"],
    ]
    args: list[str] = []
    for url in urls:
        args += [*(["--next", "-sS", "--noproxy", "*"] if args else []), *show, *url]
    got = curl(*args).decode().split("\n")
    assert got == ["200 1", "400 0", "200 0", "404 0", "405 0", "200 0", "404 0", "200 0", ""]


def test_the_connection_is_kept_locally(local: Relay) -> None:
    args: list[str] = []
    for stream in (False, True, False):
        args += ["--next", "-sS", "--noproxy", "*"] if args else []
        args += ["-o", os.devnull, "-w", "%{http_code} %{num_connects}\n", f"{local.url}{CHAT}", *JSON]
        args += ["-d", asking("what time do we start?", stream=stream)]
    assert curl(*args).decode() == "200 1\n200 0\n200 0\n"


# --- methods -----------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["/v1/models", "/health/liveness", "/health/readiness"])
def test_head(local: Relay, target: str) -> None:
    answer = Answer(curl("-I", f"{local.url}{target}"))
    whole = Answer(curl("-i", f"{local.url}{target}"))
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["content-length"] == whole.headers["content-length"] == str(len(whole.body))


def test_head_passed_through(relay: Relay, upstream: ScriptedUpstream) -> None:
    upstream.script = [head("200 OK", "content-type: application/octet-stream", "content-length: 99")]
    answer = Answer(curl("-I", f"{relay.url}/v1/files/f-1/content"))
    assert (answer.status, answer.headers["content-length"]) == (200, "99")
    assert upstream.last().method == "HEAD"


@pytest.mark.parametrize(
    ("method", "target", "allow"),
    [
        ("GET", "/v1/classify", "POST"),
        ("PUT", "/v1/classify", "POST"),
        ("POST", "/health/liveness", "GET"),
        ("DELETE", "/health/readiness", "GET"),
    ],
)
def test_a_wrong_method(
    relay: Relay, upstream: ScriptedUpstream, method: str, target: str, allow: str
) -> None:
    answer = Answer(curl("-i", "-X", method, f"{relay.url}{target}"))
    assert answer.error() == (405, "method_not_allowed")
    assert answer.headers["allow"] == allow
    assert not upstream.requests


def test_a_wrong_method_with_head(relay: Relay) -> None:
    answer = Answer(curl("-I", f"{relay.url}/v1/classify"))
    assert (answer.status, answer.body) == (405, b"")
    assert answer.headers["x-frontdesk-path"] == "error"


@pytest.mark.parametrize(
    ("method", "target"), [("GET", CHAT), ("DELETE", f"{CHAT}/chatcmpl-1"), ("POST", "/v1/models")]
)
def test_other_methods_are_the_agents(
    relay: Relay, upstream: ScriptedUpstream, method: str, target: str
) -> None:
    """It may list stored completions; if it knows no such thing, it says so itself."""
    upstream.script = json_answer(b'{"error":{}}', "405 Method Not Allowed", "allow: POST")
    answer = Answer(curl("-i", "-X", method, f"{relay.url}{target}?limit=2"))
    assert (answer.status, answer.headers["allow"], answer.body) == (405, "POST", b'{"error":{}}')
    assert (upstream.last().method, upstream.last().target) == (method, f"{target}?limit=2")


@pytest.mark.parametrize("body", ["", "nonsense", "[]", '{"model": "m"}'])
def test_a_body_that_is_none(relay: Relay, upstream: ScriptedUpstream, body: str) -> None:
    status, code = Answer(curl("-i", f"{relay.url}{CHAT}", *JSON, "-d", body)).error()
    assert (status, code) == (400, "missing_required_parameter" if "model" in body else "invalid_json")
    assert not upstream.requests
