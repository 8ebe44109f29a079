"""A bundle is used whole and unaltered, or not at all; and then the server forwards and says why."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from servers import DEMO

from edge.bundle import load_bundle
from edge.errors import BundleError
from edge.host import Host, open_pipeline
from edge.normaliser import Lang


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DEMO, tmp_path / "bundle"))


def truncate(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: len(data) // 2])

    return change


def flip(name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        data = bytearray((folder / name).read_bytes())
        data[len(data) // 2] ^= 1
        (folder / name).write_bytes(data)

    return change


def edit(key: str, value: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "frontdesk.json"
        path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {key: value}), "utf-8")

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (shutil.rmtree, "There is no bundle at"),
        (lambda f: (f / "frontdesk.json").unlink(), "has no frontdesk.json"),
        (lambda f: (f / "answers.jsonl").unlink(), "lacks answers.jsonl"),
        (truncate("frontdesk.json"), "is not valid JSON"),
        (truncate("onnx/model_quantized.onnx"), "is not the file that"),
        (truncate("answers.jsonl"), "is not the file that"),
        (flip("onnx/model_quantized.onnx"), "is not the file that"),
        (flip("tokenizer.json"), "is not the file that"),
        (edit("schema_version", 2), "schema_version 2; this Frontdesk reads 4. Build the bundle with"),
        (edit("schema_version", None), "schema_version None"),
        (edit("files", {}), "lists no files"),
        (edit("topics", [{}]), "cannot be read"),
        (edit("thresholds", {"en": {"confidence": 0.5}}), "cannot be read"),
        (edit("normaliser", {"version": 99}), "cannot be read"),
    ],
)
def test_a_bad_bundle_is_refused_and_named(copy: Path, change: Callable[[Path], None], message: str) -> None:
    change(copy)
    with pytest.raises(BundleError, match=message):
        load_bundle(copy)


def test_thresholds_are_looked_up_by_topic_group_and_language(copy: Path) -> None:
    manifest = json.loads((copy / "frontdesk.json").read_text("utf-8"))
    first, second, third = (topic["id"] for topic in manifest["topics"][:3])
    topics = [
        topic | {"group": {first: "finance", second: "finance", third: None}.get(topic["id"])}
        for topic in manifest["topics"]
    ]
    keys = ("en", "zh", "finance/en", f"topic:{first}/en", f"topic:{third}/zh")
    given = {
        key: {"confidence": place / 10, "margin": 0, "bound": 0, "max_wrong": 0.01, "proven": True}
        for place, key in enumerate(keys)
    }
    edit("topics", topics)(copy)
    edit("thresholds", given)(copy)
    bundle = load_bundle(copy)

    def key(topic: str, lang: Lang) -> str | None:
        found = bundle.threshold(bundle.by_id[topic], lang)
        return None if found is None else keys[round(found.confidence * 10)]

    assert [key(topic, Lang.EN) for topic in (first, second, third)] == [
        f"topic:{first}/en", "finance/en", "en",
    ]  # fmt: skip
    assert [key(topic, Lang.ZH) for topic in (first, second, third)] == [None, None, f"topic:{third}/zh"]


def test_a_router_that_reads_otherwise_fails_the_self_test(copy: Path) -> None:
    wrong = [{"text": "payday", "topic": "shop.warranty", "confidence": 0.9}]
    edit("self_test", wrong)(copy)
    with pytest.raises(BundleError, match="self-test"):
        open_pipeline(copy)


def test_topics_that_do_not_fit_the_graph_are_refused(copy: Path) -> None:
    manifest = json.loads((copy / "frontdesk.json").read_text("utf-8"))
    edit("topics", manifest["topics"][:-1])(copy)
    with pytest.raises(BundleError, match="topics"):
        open_pipeline(copy)


def test_a_host_with_a_bad_bundle_keeps_the_reason(copy: Path, caplog: pytest.LogCaptureFixture) -> None:
    from edge.config import Settings

    truncate("tokenizer.json")(copy)
    host = Host()
    host.load(Settings(bundle=copy))
    assert host.pipeline is None
    assert "tokenizer.json" in (host.error or "")
    assert "Every turn is forwarded" in caplog.text


def test_the_demo_bundle_is_small_and_holds_only_what_is_deployed() -> None:
    names = {path.relative_to(DEMO).as_posix() for path in DEMO.rglob("*") if path.is_file()}
    assert names == {
        "README.md", "answers.jsonl", "config.json", "evaluation.json", "frontdesk.json",
        "onnx/model_quantized.onnx", "tokenizer.json", "tokenizer_config.json",
    }  # fmt: skip
    assert sum(path.stat().st_size for path in DEMO.rglob("*") if path.is_file()) <= 16_000_000
