"""What a hostile tester found: each as a test of its whole kind, on the demo bundle."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from servers import DEMO, ROOT, Desk, wait_until

from edge.app import create_app
from edge.config import Settings
from edge.errors import BundleError
from edge.host import Host, open_pipeline
from edge.pipeline import Pipeline
from edge.query import Query, Turn

QUESTION = "what are the office hours"


def judge(demo: Pipeline, *messages: Any) -> Any:
    turns = [m if isinstance(m, dict) else {"role": "user", "content": m} for m in messages]
    return demo.judge(Query.of_body({"messages": turns}, demo.runtime.bundle.normaliser))


def test_the_question_itself_is_answered(demo: Pipeline) -> None:
    assert judge(demo, QUESTION).reason == "exact"


@pytest.mark.parametrize(
    "before",
    [
        ["Translate the next message into French, do not answer it:"],
        ["I am asking about my other job, not about this one."],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
        ["hi", {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]}],
        ["hi", {"role": "assistant", "content": None, "function_call": {"name": "f"}}],
    ],
)
def test_what_stands_before_a_question_can_forbid_its_answer(demo: Pipeline, before: list[Any]) -> None:
    assert judge(demo, *before, QUESTION).answer is None


@pytest.mark.parametrize(
    "text",
    [
        "几点上班" + "\u3400" * 60,
        "what time do we start on M\u043enday",
        "what are the office hours 今日は何時からですか",
        "\u1230\u1232 office hours",
    ],
)
def test_letters_that_the_router_cannot_read_are_not_answered_over(demo: Pipeline, text: str) -> None:
    decision = judge(demo, text)
    assert decision.answer is None
    assert decision.reason in ("unsupported_language", "too_long")


def test_no_pattern_takes_long_on_any_repeated_text(demo: Pipeline) -> None:
    """Backtracking shows on runs of what a pattern repeats, closed or not by what would end it."""
    pieces = [
        "?",
        "㐀",
        "a",
        " ",
        "a ",
        "?a",
        "不",
        "帮我",
        "and ",
        ",",
        "1",
        "1.",
        "天",
        '"',
        "a:",
        "第一",
        "那呢",
        "a?㐀㐀",
    ]
    texts = [(p * 2048)[:2048] for p in pieces]
    texts += [("?" + p * 2048)[:2047] + q for p in pieces for q in ("", "!")]
    guards = demo.runtime.bundle.guards
    slow = {}
    for regex in [*(p.regex for p in guards.patterns), guards.terms, guards.numbers]:
        for text in texts:
            start = time.perf_counter()
            for _ in regex.finditer(text):
                pass
            took = time.perf_counter() - start
            if took > 0.2:  # the cubic ones took seconds
                slow[regex.pattern[:40], text[:8]] = took
    assert slow == {}


def write(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        path = folder / "frontdesk.json"
        manifest = json.loads(path.read_text("utf-8"))
        change(manifest)
        path.write_text(json.dumps(manifest), "utf-8")

    return apply


def answers_are_forgotten(folder: Path) -> None:
    write(lambda m: m["files"].pop("answers.jsonl"))(folder)
    (folder / "answers.jsonl").unlink()


def manifest_is_a_folder(folder: Path) -> None:
    (folder / "frontdesk.json").unlink()
    (folder / "frontdesk.json").mkdir()


@pytest.mark.parametrize(
    "change",
    [
        manifest_is_a_folder,
        write(lambda m: m["guards"].update(reasons=[])),
        write(lambda m: m["guards"].update(terms="(")),
        write(lambda m: m.update(thresholds=[])),
        write(lambda m: m.update(self_test=[{}])),
        write(lambda m: m.update(max_tokens="64")),
        answers_are_forgotten,
        lambda folder: (folder / "frontdesk.json").write_text("[" * 100_000),
    ],
)
def test_any_bad_bundle_is_one_error_and_a_forward(tmp_path: Path, change: Callable[[Path], None]) -> None:
    folder = Path(shutil.copytree(DEMO, tmp_path / "bundle"))
    change(folder)
    with pytest.raises(BundleError, match=re.escape(str(folder))):
        open_pipeline(folder)


class Broken:
    """A router that fails as nobody foresaw."""

    def __getattr__(self, name: str) -> Any:
        raise LookupError(name)


def test_a_pipeline_that_fails_forwards(desk: Desk, demo: Pipeline) -> None:
    from dataclasses import replace

    from servers import serve

    runtime = replace(demo.runtime, router=Broken())  # type: ignore[arg-type]
    app = create_app(Settings(bundle=DEMO, log="off"), host=Host(Pipeline(runtime)))
    with serve(app) as served:
        body = {"messages": [{"role": "user", "content": "how long is the lunch break then"}]}
        response = httpx2.post(f"{served.url}/v1/chat/completions", json=body)
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "upstream_unset"
    assert response.headers["x-frontdesk-reason"] == "not_ready"


def test_a_sink_that_fails_hurts_neither_client_nor_other_sinks() -> None:
    from servers import serve

    seen: list[Any] = []

    def fails(_: Any) -> None:
        raise RuntimeError("sink")

    app = create_app(Settings(bundle=DEMO), sinks=[fails, seen.append], host=Host(open_pipeline(DEMO)))
    with serve(app) as served, httpx2.Client() as client:
        for _ in range(2):
            body = {"messages": [{"role": "user", "content": QUESTION}]}
            assert client.post(f"{served.url}/v1/chat/completions", json=body).status_code == 200
        wait_until(lambda: len(seen) == 2, "both events")


def test_odd_paths_get_openai_errors(desk: Desk) -> None:
    with desk() as relay:
        for path in ("/v1/x%0d%0aX-A:1", "/%76%31/chat/completions", "/v1x", "//v1/models"):
            response = httpx2.get(relay.url + path)
            assert response.json()["error"]["code"] in (
                "not_found",
                "upstream_unset",
                "method_not_allowed",
            ), path
            assert response.headers["x-frontdesk-schema"] == "1"


def test_chat_with_a_trailing_slash_is_chat(desk: Desk) -> None:
    with desk() as relay:
        body = {"messages": [{"role": "user", "content": QUESTION}]}
        response = httpx2.post(f"{relay.url}/v1/chat/completions/", json=body)
    assert response.headers["x-frontdesk-reason"] == "exact"


def test_classify_lets_other_requests_through(desk: Desk) -> None:
    import threading

    with desk() as relay:
        texts = [f"我想知道几点上班 {i} " * 4 for i in range(256)]
        took: list[float] = []

        def classify() -> None:
            start = time.perf_counter()
            httpx2.post(f"{relay.url}/v1/classify", json={"input": texts}, timeout=60)
            took.append(time.perf_counter() - start)

        thread = threading.Thread(target=classify)
        thread.start()
        waits = []
        while thread.is_alive():
            start = time.perf_counter()
            httpx2.get(f"{relay.url}/health/liveness")
            waits.append(time.perf_counter() - start)
        thread.join()
    assert min(waits[1:-1], default=0) < took[0] / 4


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_dev_takes_its_agent_with_it(number: signal.Signals, tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-m", "edge.cli", "dev", "--agent", "examples/agent/agent.py", "--port", "0"]
    with log.open("w") as stream:
        process = subprocess.Popen(command, cwd=ROOT, stderr=stream, stdout=stream)
        try:
            wait_until(lambda: "Try it" in log.read_text(), "the banner", 30)
            [address] = [
                w for w in log.read_text().split() if w.startswith("http://127") and w.endswith("/v1")
            ][1:2]
            assert httpx2.get(address.replace("/v1", "/health/liveness")).status_code == 200
            time.sleep(0.5)  # so that uvicorn has its handlers
            process.send_signal(number)
            process.wait(20)
        finally:
            process.kill()
            process.wait()
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(address.replace("/v1", "/health/liveness"))


def test_history_is_read_as_turns(demo: Pipeline) -> None:
    normaliser = demo.runtime.bundle.normaliser
    history = (Turn("user", "and in the Shanghai office?"), Turn("assistant", "Which office do you mean?"))
    decision = demo.judge(Query.of_text(QUESTION, normaliser, history))
    assert decision.reason != "exact"
