"""Bad bundles that test_bundle and test_hostile do not have: what is said, and what the server does meanwhile."""

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from servers import (
    DEMO,
    RawClient,
    ScriptedUpstream,
    completion,
    json_answer,
    open_client,
    post,
    serve,
    wait_until,
)

from edge.app import create_app
from edge.bundle import SCHEMA_VERSION
from edge.config import Settings, Upstream
from edge.errors import BundleError
from edge.host import open_pipeline

MODEL, ANSWERS, MANIFEST = "onnx/model_quantized.onnx", "answers.jsonl", "frontdesk.json"
NAN = float("nan")
NOBODY = 65534
NEXT_LINE = (DEMO / ANSWERS).read_bytes().count(b"\n") + 1

Change = Callable[[Path], object]


@pytest.fixture
def copy() -> Iterator[Path]:
    """A copy of the demo bundle that any user may read, which pytest's own folders are not for."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(shutil.copytree(DEMO, Path(folder) / "bundle"))


def manifest(change: Callable[[dict[str, Any]], object]) -> Change:
    def apply(folder: Path) -> None:
        path = folder / MANIFEST
        data = json.loads(path.read_text("utf-8"))
        change(data)
        path.write_text(json.dumps(data), "utf-8")

    return apply


def packed(name: str, change: Callable[[bytes], bytes]) -> Change:
    """Another content of a file, with its right hash in the manifest."""

    def apply(folder: Path) -> None:
        data = change((folder / name).read_bytes())
        (folder / name).write_bytes(data)
        manifest(lambda m: m["files"].update({name: hashlib.sha256(data).hexdigest()}))(folder)

    return apply


def emptied(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def half_copied(folder: Path) -> None:
    for name in (MANIFEST, ANSWERS, MODEL):
        (folder / name).unlink()


def half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def threshold(name: str, value: object) -> Change:
    return manifest(lambda m: m["thresholds"]["en"].update({name: value}))


def limit(name: str, value: object) -> Change:
    return manifest(lambda m: m["limits"].update({name: value}))


def slot(change: Callable[[dict[str, Any]], object], tool: str = "get_order") -> Change:
    """A change of the first slot of a tool."""
    return manifest(lambda m: change(next(t for t in m["tools"] if t["name"] == tool)["slots"][0]))


def schema(version: object) -> Change:
    return manifest(lambda m: m.update(schema_version=version))


def line(text: str) -> Change:
    return packed(ANSWERS, lambda data: data + text.encode("utf-8", "surrogateescape") + b"\n")


CASES = [
    pytest.param(emptied, MANIFEST, "copy the bundle again|frontdesk train", id="empty folder"),
    pytest.param(half_copied, MANIFEST, "copy the bundle again", id="half copied"),
    pytest.param(lambda f: (f / MANIFEST).write_bytes(b""), MANIFEST, "copy the bundle again", id="empty manifest"),
    pytest.param(lambda f: (f / MANIFEST).write_bytes(b"\xff\xfe\0"), MANIFEST, "copy the bundle again", id="binary"),
    pytest.param(lambda f: (f / MANIFEST).write_text("[]"), MANIFEST, "Build the bundle", id="manifest a list"),
    *(
        pytest.param(schema(v), f"{v!r}; this Frontdesk reads {SCHEMA_VERSION}", "Build the bundle", id=f"schema {v!r}")
        for v in (0, SCHEMA_VERSION - 1, SCHEMA_VERSION + 1, 10**9, str(SCHEMA_VERSION), True, [SCHEMA_VERSION])
    ),
    pytest.param(lambda f: (f / MODEL).write_bytes(b""), MODEL, "copy the bundle again", id="model empty"),
    pytest.param(lambda f: (f / MODEL).unlink(), MODEL, "copy the bundle again", id="model missing"),
    pytest.param(lambda f: (f / "tokenizer.json").unlink(), "tokenizer.json", "copy", id="tokenizer missing"),
    pytest.param(lambda f: shutil.rmtree(f / "onnx"), MODEL, "copy the bundle again", id="folder missing"),
    pytest.param(packed(MODEL, half), MODEL, "frontdesk train", id="model packed half"),
    pytest.param(packed("tokenizer.json", half), "tokenizer.json", "train", id="tokenizer packed half"),
    pytest.param(line("{bad"), f"{ANSWERS}:{NEXT_LINE}", "frontdesk train", id="answers: no JSON"),
    pytest.param(line("[1]"), f"{ANSWERS}:{NEXT_LINE}", "frontdesk train", id="answers: no object"),
    pytest.param(line('{"topic": "x"}'), f"{ANSWERS}:{NEXT_LINE}", "train", id="answers: keys missing"),
    pytest.param(line("\udcff"), ANSWERS, "frontdesk train", id="answers: no UTF-8"),
    pytest.param(
        line('{"topic": "nope", "lang": "en", "text": "t", "tokens": 1, "exact": ["zz"]}'),
        ANSWERS, "frontdesk train", id="answers: unknown topic",
    ),
    pytest.param(
        line('{"topic": "staff.payday", "lang": "en", "text": "t", "tokens": "1", "exact": []}'),
        ANSWERS, "frontdesk train", id="answers: tokens a text",
    ),
    *(
        pytest.param(threshold(name, value), "thresholds", "train", id=f"{name} {value!r}")
        for name in ("confidence", "margin", "bound", "max_wrong")
        for value in (NAN, -1, 1.5, "0.5", True, None)
    ),
    *(
        pytest.param(limit(name, value), "limits", "train", id=f"{name} {value!r}")
        for name in ("min_in_scope", "max_needs_context", "max_needs_context_in_dialogue")
        for value in (NAN, None)
    ),
    pytest.param(threshold("proven", "no"), "thresholds", "train", id="proven a text"),
    pytest.param(threshold("proven", 1), "thresholds", "train", id="proven a number"),
    *(
        pytest.param(
            manifest(lambda m, entry=entry: m["thresholds"].update({"topic:staff.payday/en": entry})),
            MANIFEST, "frontdesk train", id=f"a topic's threshold {entry!r}",
        )
        for entry in (0.9, None, [], {}, {"confidence": 0.9, "margin": 0.1, "bound": 0.1, "max_wrong": 0.1})
    ),
    pytest.param(manifest(lambda m: m.update(thresholds=[])), "cannot be used", "frontdesk train", id="thresholds a list"),
    pytest.param(manifest(lambda m: m.pop("thresholds")), "thresholds", "frontdesk train", id="thresholds missing"),
    pytest.param(manifest(lambda m: m["limits"].clear()), "min_in_scope", "frontdesk train", id="limits missing"),
    pytest.param(manifest(lambda m: m.pop("slots")), "slots", "frontdesk train", id="no slot data"),
    pytest.param(manifest(lambda m: m["slots"]["rules"][-1].update({"as": "x"})), "rule", "train", id="unknown rule"),
    pytest.param(manifest(lambda m: m["slots"]["words"].pop("month")), "rule", "train", id="no months"),
    pytest.param(manifest(lambda m: m["slots"]["amounts"].update(regex="(a)")), "7 groups", "train", id="amounts"),
    pytest.param(manifest(lambda m: m["tools"].pop()), "get_exchange_rate", "train", id="a tool missing"),
    pytest.param(manifest(lambda m: m["tools"].append(m["tools"][0])), "two tools", "train", id="a tool twice"),
    pytest.param(manifest(lambda m: m["tools"].append("x")), "TypeError", "train", id="tool a text"),
    pytest.param(manifest(lambda m: m["tools"][0].update(url=5)), "'url'", "train", id="url a number"),
    pytest.param(manifest(lambda m: m["tools"][0].update(slots={"a": 1})), "TypeError", "train", id="slots a mapping"),
    pytest.param(slot(lambda s: s.update(name="a b")), "'a b'", "train", id="slot name"),
    pytest.param(slot(lambda s: s.update(kind="x")), "'x'", "train", id="slot kind"),
    pytest.param(slot(lambda s: s.update(type=["string"])), "TypeError", "train", id="slot type"),
    pytest.param(slot(lambda s: s.update(find="(")), "does not compile", "train", id="slot pattern"),
    pytest.param(slot(lambda s: s.update(find=None)), "lacks its pattern", "train", id="slot without pattern"),
    pytest.param(slot(lambda s: s.update(default="x")), "its own value 'x'", "train", id="slot default"),
    pytest.param(slot(lambda s: s.update(required=1)), "'required'", "train", id="slot required"),
    pytest.param(slot(lambda s: s.update(minimum="1")), "'minimum'", "train", id="slot minimum"),
    pytest.param(slot(lambda s: s.update(terms={"a": 5}), "get_stock"), "value 5", "train", id="slot terms"),
    pytest.param(slot(lambda s: s.update(terms=[1]), "get_stock"), "TypeError", "train", id="slot terms a list"),
    pytest.param(slot(lambda s: s.update(kind="caller"), "get_stock"), "scope user", "train", id="caller of a public tool"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "named", "fix"), CASES)
def test_a_bad_bundle_is_refused_with_file_and_fix(copy: Path, change: Change, named: str, fix: str) -> None:
    change(copy)
    with pytest.raises(BundleError) as caught:
        open_pipeline(copy)
    assert str(copy) in str(caught.value)
    assert named in str(caught.value)
    assert re.search(fix, str(caught.value))


@pytest.mark.parametrize("name", [".", MANIFEST, MODEL, ANSWERS])
def test_what_may_not_be_read_is_said_to_need_a_permission(copy: Path, name: str) -> None:
    (copy / name).chmod(0)
    user = os.geteuid()
    try:
        if user == 0:  # root may read everything
            os.seteuid(NOBODY)
        with pytest.raises(BundleError) as caught:
            open_pipeline(copy)
    finally:
        os.seteuid(user)
        (copy / name).chmod(0o755)
    assert str(copy / name) in str(caught.value)
    assert "Permission denied" in str(caught.value)
    assert "frontdesk train" not in str(caught.value)  # a new bundle would be no more readable


# --- the server with such a bundle ----------------------------------------------------------------

BODY = b'{ "messages": [{"role":"user","content":"what are the office hours"}], "messages_":1}'


@pytest.fixture(scope="module")
def agent() -> Iterator[ScriptedUpstream]:
    with ScriptedUpstream() as upstream:
        upstream.script = json_answer(completion("from the agent"))
        yield upstream


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(shutil.rmtree, "There is no bundle at", id="missing"),
        pytest.param(emptied, "has no frontdesk.json", id="empty"),
        pytest.param(half_copied, "has no frontdesk.json", id="half copied"),
        pytest.param(lambda f: (f / MANIFEST).write_text("{"), "is not valid JSON", id="truncated JSON"),
        pytest.param(
            lambda f: (f / MODEL).write_bytes(half((f / MODEL).read_bytes())), MODEL, id="truncated model"
        ),
        pytest.param(lambda f: (f / ANSWERS).unlink(), "lacks answers.jsonl", id="a file missing"),
        pytest.param(schema(SCHEMA_VERSION + 1), f"schema_version {SCHEMA_VERSION + 1}", id="newer"),
        pytest.param(schema(SCHEMA_VERSION - 1), f"schema_version {SCHEMA_VERSION - 1}", id="older"),
        pytest.param(line("{bad"), "is no answer", id="a bad line"),
        pytest.param(manifest(lambda m: m["self_test"][0].update(topic="x")), "self-test", id="self-test"),
    ],
)
def test_the_server_forwards_every_turn_and_readiness_says_why(
    copy: Path, agent: ScriptedUpstream, change: Change, said: str
) -> None:
    change(copy)
    agent.requests.clear()
    settings = Settings(bundle=copy, upstream=Upstream(base_url=agent.url), log="off")
    with serve(create_app(settings)) as served, open_client(served.url) as client:
        wait_until(lambda: client.get("/health/readiness").json()["status"] != "loading", "the load's end")
        ready = client.get("/health/readiness")
        assert (ready.status_code, ready.json()["status"]) == (503, "bundle_error")
        assert said in ready.json()["message"]
        assert client.get("/health/liveness").status_code == 200
        with RawClient(served.port) as raw:
            for _ in range(2):
                raw.send(post(BODY))
                status, fields, body = raw.response()
                assert (status, body) == (200, completion("from the agent"))
                assert (fields["x-frontdesk-path"], fields["x-frontdesk-reason"]) == ("agent", "not_ready")
        assert [received.body for received in agent.requests] == [BODY, BODY]
        refused = client.post("/v1/classify", json={"input": "hi"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "not_ready")


def test_a_client_of_classify_is_not_told_where_the_bundle_lies(copy: Path) -> None:
    (copy / MANIFEST).unlink()
    with serve(create_app(Settings(bundle=copy, log="off"))) as served, open_client(served.url) as client:
        wait_until(lambda: client.get("/health/readiness").json()["status"] != "loading", "the load's end")
        refused = client.post("/v1/classify", json={"input": "hi"})
        assert refused.json()["error"]["code"] == "not_ready"
        assert str(copy) not in refused.text
