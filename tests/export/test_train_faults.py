"""``frontdesk train`` on odd desks, full disks and broken bases: a right bundle, or a clear error and none."""

import errno
import io
import json
import multiprocessing
import resource
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from tiny_base import base_weights, constant_exits, few_pools, write_base, write_desk
from tiny_encoder import EXITS

from edge.bundle import MANIFEST, ROUTER_FILE, load_bundle
from edge.cli import main
from edge.errors import BundleError
from edge.host import open_pipeline
from edge.normaliser import Lang
from edge.pipeline import Pipeline
from edge.query import Query
from export.desk_reader import load_desk
from export.encoder import Encoder
from export.pack import seal
from export.train import train_desk

Topics = dict[str, dict[str, Any]]
TOPICS: Topics = {
    "hours": {"examples": {"en": ["when do you open", "opening hours"], "zh": ["几点开门", "营业时间"]}},
    "returns": {"examples": {"en": ["how do i return this", "money back"], "zh": ["怎么退货", "可以退吗"]}},
    "chat": {"route": "agent", "examples": {"en": ["write me a letter"], "zh": ["帮我写封邮件"]}},
}
ONE: Topics = {"only": {"examples": {"en": ["when do you open"]}}}


@pytest.fixture(autouse=True)
def _few_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    """An eighth of the pools: they take longer than these desks."""
    monkeypatch.setattr("export.pools.load_pools", few_pools)


def trained(desk: Path, base: Path, out: Path, *more: str) -> Pipeline:
    assert main(["train", str(desk), "-o", str(out), "--base", str(base), *more]) == 0
    return open_pipeline(out)


def judge(pipeline: Pipeline, text: str) -> tuple[str, str, str | None]:
    decision = pipeline.judge(Query.of_text(text, pipeline.runtime.bundle.normaliser))
    return decision.path, decision.reason, decision.topic


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


# --- odd desks -------------------------------------------------------------------------------------


def test_the_bundle_holds_a_router_with_every_exit(tiny_base: Path, tmp_path: Path) -> None:
    pipeline = trained(write_desk(tmp_path / "desk", TOPICS), tiny_base, tmp_path / "out")
    assert judge(pipeline, "When do you open?") == ("faq", "exact", "hours")
    reading = pipeline.runtime.router.read("when do you open")
    assert reading is not None
    assert reading.exit in EXITS
    report = json.loads((tmp_path / "out/evaluation.json").read_text("utf-8"))
    assert [exit_["exit"] for exit_ in report["exits"]] == list(EXITS)


def test_two_topics_with_one_example_in_common(
    tiny_base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topics: Topics = TOPICS | {
        "shop": {"examples": {"en": ["When do you open?", "shop hours"], "zh": ["商店时间"]}}
    }
    desk = write_desk(tmp_path / "desk", topics)
    said = "'When do you open?' is an example of hours and of shop: keep it in one of them."
    assert main(["check", str(desk)]) == 1
    assert said in capsys.readouterr().out
    assert main(["train", str(desk), "-o", str(tmp_path / "out"), "--base", str(tiny_base)]) == 1
    assert said in capsys.readouterr().err
    assert names(tmp_path) == ["desk"]


def test_a_topic_with_one_example(tiny_base: Path, tmp_path: Path) -> None:
    topics: Topics = TOPICS | {"parking": {"examples": {"en": ["is there parking"]}}}
    pipeline = trained(write_desk(tmp_path / "desk", topics), tiny_base, tmp_path / "out")
    assert judge(pipeline, "is there parking") == ("faq", "exact", "parking")


def test_a_desk_of_one_topic_with_one_example(tiny_base: Path, tmp_path: Path) -> None:
    pipeline = trained(write_desk(tmp_path / "desk", ONE, "en"), tiny_base, tmp_path / "out")
    assert judge(pipeline, "when do you open") == ("faq", "exact", "only")
    reading = pipeline.runtime.router.read("when do you open")
    assert reading is not None
    assert [candidate.topic for candidate in reading.candidates] == ["only"]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_one_language_only(tiny_base: Path, tmp_path: Path, lang: str) -> None:
    topics = {i: t | {"examples": {lang: t["examples"][lang]}} for i, t in TOPICS.items()}
    pipeline = trained(write_desk(tmp_path / "desk", topics, lang), tiny_base, tmp_path / "out")
    assert pipeline.runtime.bundle.languages == (Lang(lang),)
    assert set(pipeline.runtime.bundle.thresholds) <= {lang}  # none where nothing was right
    said, other = {"en": ("opening hours", "营业时间"), "zh": ("營業時間", "opening hours")}[lang]
    assert judge(pipeline, said)[0::2] == ("faq", "hours")
    assert judge(pipeline, other)[0] == "agent"


def test_titles_and_answers_of_han_and_emoji(tiny_base: Path, tmp_path: Path) -> None:
    title, answer = {"en": "Hours 🕘 – Café", "zh": "营业时间⏰𠮷"}, {"en": "9–18 🕘", "zh": "9 点🙂\u200d↕️"}
    topics: Topics = TOPICS | {"hours": TOPICS["hours"] | {"title": title, "answer": answer}}
    out = tmp_path / "输出 📦"
    pipeline = trained(write_desk(tmp_path / "桌 🗂", topics), tiny_base, out)
    manifest = json.loads((out / MANIFEST).read_text("utf-8"))
    assert manifest["topics"][0]["title"] == title
    decision = pipeline.judge(Query.of_text("几点开门", pipeline.runtime.bundle.normaliser))
    assert decision.answer is not None
    assert decision.answer.text == answer["zh"]


def test_emoji_and_unknown_letters_as_examples(tiny_base: Path, tmp_path: Path) -> None:
    odd = ["🕘", "🕘🕘🕘", "ⵣⵣⵣ", "?", "ꙮ" * 70]
    topics: Topics = TOPICS | {"odd": {"examples": {"en": odd}}}
    pipeline = trained(write_desk(tmp_path / "desk", topics), tiny_base, tmp_path / "out")
    assert judge(pipeline, "opening hours") == ("faq", "exact", "hours")
    assert judge(pipeline, "?")[0] == "agent"  # signs alone are no exact key


@pytest.mark.parametrize("text", ["", " ", "''"])
def test_an_empty_example_is_refused(tiny_base: Path, tmp_path: Path, text: str) -> None:
    """A text of signs alone is none that anybody can be taken to mean, but it does no harm."""
    topics: Topics = TOPICS | {"none": {"examples": {"en": [text, "something"]}}}
    status = main(
        [
            "train",
            str(write_desk(tmp_path / "desk", topics)),
            "-o",
            str(tmp_path / "out"),
            "--base",
            str(tiny_base),
        ]
    )
    assert status == (0 if text.strip() else 1)
    assert (tmp_path / "out").exists() == (status == 0)


def test_a_text_of_five_thousand_tokens_as_example_and_as_question(tiny_base: Path, tmp_path: Path) -> None:
    long = "when do you open " * 1_250
    topics: Topics = TOPICS | {"long": {"examples": {"en": [long, "a long story"]}}}
    question = {"text": long.replace("open", "close"), "topic": "hours", "lang": "en"}
    held = question | {"text": long.replace("open", "shut")}
    desk = write_desk(tmp_path / "desk", topics, test=json.dumps(question), calibrate=json.dumps(held))
    pipeline = trained(desk, tiny_base, tmp_path / "out")
    assert pipeline.runtime.router.read(question["text"]) is None
    assert judge(pipeline, question["text"])[0] == "agent"


@pytest.fixture(scope="module")
def pipeline(tiny_base: Path, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    folder = tmp_path_factory.mktemp("texts")
    desk = load_desk(write_desk(folder / "desk", TOPICS))
    train_desk(desk, Encoder(tiny_base), few_pools(), folder / "out")
    return open_pipeline(folder / "out")


@pytest.mark.parametrize(
    "text", ["", " ", "\u200b", "ⵣ", "🕘🦜", "ꙮꙮ ꙮꙮ", "\ud800", "\x00", "𠮷" * 30, "a" * 61]
)
def test_a_text_of_nothing_or_of_unknown_tokens_is_read_and_forwarded(pipeline: Pipeline, text: str) -> None:
    normal = pipeline.runtime.bundle.normaliser.reading(text)
    reading = pipeline.runtime.router.read(normal)
    assert reading is not None
    assert 0 <= reading.confidence <= reading.in_scope <= 1
    assert np.linalg.norm(reading.embedding) == (
        pytest.approx(1, abs=1e-4) if reading.exit == EXITS[-1] else 0
    )
    assert judge(pipeline, text)[0] == "agent"


@pytest.mark.parametrize(("count", "fits"), [(62, True), (63, False)])
def test_a_text_up_to_the_last_position_is_read(pipeline: Pipeline, count: int, fits: bool) -> None:
    """With its two ends it fills the 64 positions of the base."""
    text = "几" * (count - 1)  # and the sign of a space before it
    assert pipeline.runtime.router.token_count(text) == count
    assert (pipeline.runtime.router.read(text) is not None) == fits


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore:The number of unique classes")  # says scikit-learn of so few examples
def test_two_thousand_topics(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    words = [
        "open",
        "return",
        "order",
        "letter",
        "parcel",
        "garden",
        "music",
        "bicycle",
        "lamp",
        "window",
        "river",
        "stone",
        "paper",
        "glass",
    ]
    topics: Topics = {}
    for number in range(2_000):
        two = [f"{words[number % 14]} {number} {words[i]}" for i in chance.integers(0, 14, 2)]
        topics[f"t{number}"] = {"route": "agent", "examples": {"en": two}}
    base = write_base(tmp_path / "base", base_weights(16))
    began = time.monotonic()
    pipeline = trained(write_desk(tmp_path / "desk", topics, "en"), base, tmp_path / "out")
    assert time.monotonic() - began < 240
    reading = pipeline.runtime.router.read("open 14 letter")
    assert reading is not None
    assert len(reading.candidates) == 3


# --- the same again --------------------------------------------------------------------------------


def test_the_same_desk_and_seed_give_the_same_bytes(tiny_base: Path, tmp_path: Path) -> None:
    question = '{"text": "opening hours please", "topic": "hours", "lang": "en"}\n'
    other = '{"text": "money back now", "topic": "returns", "lang": "en"}\n'
    desk = write_desk(tmp_path / "desk", TOPICS, test=question, calibrate=other)
    for name, seed in (("one", "7"), ("two", "7"), ("other", "8")):
        trained(desk, tiny_base, tmp_path / name, "--seed", seed)
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert files(tmp_path / "one")[ROUTER_FILE] != files(tmp_path / "other")[ROUTER_FILE]


# --- full disks ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def old(tiny_base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("old")
    desk = load_desk(write_desk(folder / "desk", ONE, "en"))
    return train_desk(desk, Encoder(tiny_base), few_pools(), folder / "out")[0].folder


@pytest.fixture
def target(old: Path, tmp_path: Path) -> Path:
    """An old bundle where the new one shall stand."""
    return Path(shutil.copytree(old, tmp_path / "place/bundle"))


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    return write_desk(tmp_path / "desk", TOPICS)


FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    "file", ["model_quantized.onnx", "config.json", "answers.jsonl", MANIFEST, "evaluation.json", "README.md"]
)
@pytest.mark.parametrize("existing", [True, False])
def test_a_full_disk_leaves_the_old_bundle_and_no_half_of_a_new_one(
    target: Path, desk: Path, tiny_base: Path, monkeypatch: pytest.MonkeyPatch, file: str, existing: bool
) -> None:
    out = target if existing else target.with_name("new")
    before = files(target)

    def failing(write: Callable[..., int]) -> Callable[..., int]:
        def fail(path: Path, *args: str | bytes) -> int:
            if path.name != file:
                return write(path, *args)
            half = args[0][: len(args[0]) // 2]
            write(path, half, *args[1:])
            raise FULL

        return fail

    for name in ("write_bytes", "write_text"):
        monkeypatch.setattr(Path, name, failing(getattr(Path, name)))
    with pytest.raises(BundleError, match=r"could not be written \(No space left on device\); it is as"):
        train_desk(load_desk(desk), Encoder(tiny_base), few_pools(), out)
    assert names(target.parent) == ["bundle"]
    assert files(target) == before
    assert load_bundle(target).topics[0].id == "only"


def test_a_full_disk_is_told_in_one_line(
    target: Path,
    desk: Path,
    tiny_base: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object) -> int:
        raise FULL

    monkeypatch.setattr(Path, "write_bytes", fail)
    assert main(["train", str(desk), "-o", str(target), "--base", str(tiny_base)]) == 1
    assert "No space left on device" in capsys.readouterr().err


def limited(desk: Path, base: Path, out: Path, most: int) -> None:
    """A training in a process that cannot write a file of more than ``most`` bytes: a disk that is full."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    try:
        with threadpool_limits(1):
            train_desk(load_desk(desk), Encoder(base), few_pools(), out)
    except BundleError as exc:
        raise SystemExit(0 if "File too large" in str(exc) else 1) from exc
    raise SystemExit(2)


def test_a_file_that_cannot_grow(target: Path, desk: Path, tiny_base: Path) -> None:
    """The same by the kernel: the router breaks off in the middle."""
    before = files(target)
    process = multiprocessing.get_context("spawn").Process(
        target=limited, args=(desk, tiny_base, target, 100_000)
    )
    process.start()
    process.join(100)
    assert process.exitcode == 0
    assert names(target.parent) == ["bundle"]
    assert files(target) == before


# --- broken bases and broken routers ---------------------------------------------------------------


def broken_base(folder: Path, bias: float) -> Path:
    weights = base_weights()
    width = weights.words.shape[1]
    return write_base(folder, constant_exits(weights, np.full(width, bias, np.float32)))


@pytest.mark.parametrize(
    "bias", [0.0, 1.0, float("nan"), float("inf")], ids=["zeros", "constant", "nan", "inf"]
)
def test_a_base_whose_embeddings_say_nothing_is_refused(
    tmp_path: Path, desk: Path, bias: float, capsys: pytest.CaptureFixture[str]
) -> None:
    base = broken_base(tmp_path / "broken", bias)
    assert main(["train", str(desk), "-o", str(tmp_path / "out"), "--base", str(base)]) == 1
    assert str(base) in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("bias", [float("nan"), float("inf")], ids=["nan", "inf"])
def test_no_bundle_is_left_by_a_base_without_numbers(tmp_path: Path, desk: Path, bias: float) -> None:
    base = broken_base(tmp_path / "broken", bias)
    with pytest.raises(BundleError, match="are not finite"):
        train_desk(load_desk(desk), Encoder(base), few_pools(), tmp_path / "out")
    assert not [name for name in names(tmp_path) if "out" in name]


def with_tensor(folder: Path, name: str, value: float) -> None:
    """Fills a float tensor of a bundle's router and gives the bundle its right hashes."""
    model = onnx.load(io.BytesIO((folder / ROUTER_FILE).read_bytes()))
    [tensor] = [t for t in model.graph.initializer if t.name == name]
    tensor.CopyFrom(numpy_helper.from_array(np.full_like(numpy_helper.to_array(tensor), value), name))
    (folder / ROUTER_FILE).write_bytes(model.SerializeToString())
    seal(folder, json.loads((folder / MANIFEST).read_text("utf-8")))


LAST = EXITS[-1]
NAN, INF = float("nan"), float("inf")
BROKEN = [
    *((f"read{LAST}.topics.bias", value) for value in (NAN, INF)),
    (f"read{LAST}.in_scope.bias", NAN),
    (f"exit{EXITS[0]}.projection.bias", NAN),  # later topic heads on a frozen base read it, too
    *((f"exit{LAST}.projection.bias", value) for value in (NAN, INF)),
    *(("embeddings.bias", value) for value in (NAN, INF)),
    ("words.scales", NAN),
]


@pytest.fixture(scope="module")
def bundle(tiny_base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    desk = load_desk(write_desk(folder / "desk", TOPICS))
    return train_desk(desk, Encoder(tiny_base), few_pools(), folder / "out")[0].folder


@pytest.mark.parametrize(("name", "value"), BROKEN)
def test_a_router_without_numbers_is_caught_when_it_is_loaded(
    bundle: Path, tmp_path: Path, name: str, value: float
) -> None:
    out = Path(shutil.copytree(bundle, tmp_path / "out"))
    open_pipeline(out)
    with_tensor(out, name, value)
    with pytest.raises(
        BundleError, match=r"not finite|invalid value"
    ):  # pytest makes NumPy's warning an error
        open_pipeline(out)


@pytest.mark.parametrize("part", ["read{}.topics.bias", "read{}.in_scope.bias"])
def test_what_an_early_exit_cannot_read_goes_on_to_the_last(bundle: Path, tmp_path: Path, part: str) -> None:
    out = Path(shutil.copytree(bundle, tmp_path / "out"))
    for exit_ in EXITS[:-1]:
        with_tensor(out, part.format(exit_), NAN)
    for text in ("when do you open", "怎么退货", "write me a letter"):
        reading = open_pipeline(out).runtime.router.read(text)
        assert reading is not None
        assert reading.exit == LAST
        assert np.linalg.norm(reading.embedding) == pytest.approx(1, abs=1e-4)
