"""``frontdesk distill``: the student is tuned on the desk, and teachers of every kind are understood."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scripted_llm import KEY, by
from servers import ScriptedUpstream
from tiny_base import base_weights, few_pools, vocabulary, write_desk

from edge.cli import main
from edge.errors import BundleError
from edge.host import open_pipeline
from edge.query import Query
from export.desk_reader import load_desk
from export.encoder import Encoder
from export.graph import encoder_graph

pytestmark = pytest.mark.slow

WORDS = {
    "hours": "when do you open|opening hours|what time do you close|are you open late|hours please|open today",
    "returns": "how do i return this|money back please|send it back|can i return shoes|refund me|take it back",
    "chat": "write me a letter|draft an email|compose a poem|write a speech|make a toast|write my resume",
}
TOPICS: dict[str, Any] = {
    id_: {"route": "agent" if id_ == "chat" else "answer", "examples": {"en": texts.split("|")}}
    for id_, texts in WORDS.items()
}


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    return write_desk(tmp_path / "desk", TOPICS, "en")


def test_the_weights_make_the_way_to_torch_and_back() -> None:
    from export.desk_distill import student_of, weights_of

    weights = base_weights()
    again = weights_of(student_of(weights), weights)
    assert encoder_graph(again, quantized=True) == encoder_graph(weights, quantized=True)


def test_a_tuned_bundle_knows_its_examples(desk: Path, tiny_base: Path, tmp_path: Path) -> None:
    from export.desk_distill import Plan, distill_desk

    loaded, base = load_desk(desk), Encoder(tiny_base)
    plan = Plan(epochs=8, batch=16, noise=0.0)
    bundle, _ = distill_desk(loaded, base, few_pools(), tmp_path / "out", plan=plan)
    pipeline = open_pipeline(tmp_path / "out")
    assert bundle.version == pipeline.runtime.bundle.version
    texts = [(text, topic.id) for topic in loaded.topics for text in topic.examples["en"]]
    said = [pipeline.runtime.router.read(text) for text, _ in texts]
    right = [r is not None and r.topic == topic for r, (_, topic) in zip(said, texts, strict=True)]
    assert np.mean(right) > 0.8
    report = json.loads((tmp_path / "out/evaluation.json").read_text("utf-8"))
    assert [e["exit"] for e in report["exits"]] == list(base.exits)
    assert pipeline.judge(Query.of_text("opening hours", pipeline.runtime.bundle.normaliser)).path == "faq"


def test_the_same_seed_gives_the_same_weights(desk: Path, tiny_base: Path, tmp_path: Path) -> None:
    import torch

    from export.desk_distill import Plan, distill_desk

    torch.set_num_threads(1)
    versions = {
        distill_desk(
            load_desk(desk), Encoder(tiny_base), few_pools(), tmp_path / f"{i}", plan=Plan(epochs=1, batch=32)
        )[0].version
        for i in range(2)
    }
    assert len(versions) == 1


def test_every_epoch_draws_its_own_outliers(tiny_base: Path) -> None:
    from edge.normaliser import Lang
    from export.desk_distill import Plan, Texts, _batches

    texts = [f"open {i}" for i in range(60)]
    topic = np.where(np.arange(60) < 20, 0, -1)
    plan, base = Plan(batch=8, noise=0.0, outlier_share=0.5), Encoder(tiny_base)
    drawn = []
    for seed in range(3):
        seen = [
            i
            for chosen, *_ in _batches(Texts(texts, [Lang.EN] * 60, topic, None), base, plan, seed)
            for i in chosen
        ]
        assert sorted(i for i in seen if i < 20) == list(range(20))
        drawn.append(frozenset(i for i in seen if i >= 20))
        assert len(drawn[-1]) == len(seen) - 20 == 10
    assert len(set(drawn)) == 3


def test_of_no_topic_are_all_texts_kept_out() -> None:
    from export.desk_distill import _held
    from export.heads import fold_of

    texts = [hashlib.sha256(bytes([n])).hexdigest()[:12] for n in range(96)]
    topic = np.where(np.arange(96) < 40, np.arange(96), -1)  # forty topics of one example each
    for seed in range(5):
        held = _held(texts, topic, seed)
        assert held
        assert all(topic[i] == -1 for i in held)
    shared = np.zeros(96, np.int64)
    judged = {int(fold) for i, fold in enumerate(fold_of(texts, 0)) if i in _held(texts, shared, 0)}
    assert len(judged) > 2


def test_the_shipped_topic_heads_are_the_ones_that_were_tuned(
    desk: Path, tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from export import desk_distill, opened
    from export.compose import compose_router

    given: dict[str, Any] = {}

    def kept(base: Any, *args: Any) -> Any:
        given["tuned"] = tune(base, *args)
        return given["tuned"]

    def composed(weights: Any, heads: Any, rules: Any) -> Any:
        given["heads"] = heads
        return compose_router(weights, heads, rules)

    tune = desk_distill.tune
    monkeypatch.setattr(desk_distill, "tune", kept)
    monkeypatch.setattr(opened, "compose_router", composed)
    plan = desk_distill.Plan(epochs=1, batch=32)
    desk_distill.distill_desk(load_desk(desk), Encoder(tiny_base), few_pools(), tmp_path / "out", plan=plan)
    for heads, learnt in zip(given["heads"], given["tuned"][1], strict=True):
        np.testing.assert_allclose(
            heads.topics.weight * heads.temperature, learnt.weight, rtol=1e-4, atol=1e-6
        )


VERBS = ("limps", "bites", "kicks", "sleeps", "runs", "hides", "jumps", "eats")
FURTHER = tuple(f"my zebra {verb}" for verb in VERBS)


def test_what_an_llm_labelled_is_learnt_and_not_answered_by_itself(
    desk: Path, tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from export import desk_distill
    from export.traffic import Taught

    learnt: list[Any] = []

    def kept(base: Any, texts: Any, *args: Any) -> Any:
        learnt.append(texts)
        return tune(base, texts, *args)

    tune = desk_distill.tune
    monkeypatch.setattr(desk_distill, "tune", kept)
    loaded, base, pools = load_desk(desk), Encoder(tiny_base), few_pools()
    place = [topic.id for topic in loaded.topics].index("returns")
    taught = Taught(
        tuple((text, place) for text in FURTHER), ("sing of zebras", *pools.out_of_scope), "some-llm"
    )
    plan = desk_distill.Plan(epochs=8, batch=16, noise=0.0)
    bundle, _ = desk_distill.distill_desk(loaded, base, pools, tmp_path / "out", plan=plan, taught=taught)
    [texts] = learnt
    topic_of = dict(zip(texts.texts, texts.topic.tolist(), strict=True))
    assert [topic_of[text] for text in FURTHER] == [place] * len(FURTHER)
    assert topic_of["sing of zebras"] == -1
    # What was kept out to calibrate must not come back as something that was learnt.
    outside = {base.normaliser.reading(text) for text in pools.out_of_scope}
    assert len(outside - topic_of.keys()) > len(outside) / 30
    pipeline = open_pipeline(tmp_path / "out")
    reading = pipeline.runtime.router.read("my zebra snores")
    assert reading is not None
    assert reading.topic == "returns"
    normaliser = pipeline.runtime.bundle.normaliser
    assert pipeline.judge(Query.of_text("refund me", normaliser)).reason == "exact"
    assert pipeline.judge(Query.of_text(FURTHER[0], normaliser)).reason != "exact"
    assert "zebra" not in (tmp_path / "out/answers.jsonl").read_text("utf-8")
    assert "zebra" not in (tmp_path / "out/frontdesk.json").read_text("utf-8")
    report = json.loads((tmp_path / "out/evaluation.json").read_text("utf-8"))
    assert (report["taught"]["model"], report["taught"]["examples"]) == ("some-llm", len(FURTHER))
    assert "8 further examples and" in (tmp_path / "out/README.md").read_text("utf-8")
    assert bundle.version == pipeline.runtime.bundle.version


def test_the_command_labels_and_tunes(
    desk: Path,
    tiny_base: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    traffic = tmp_path / "traffic.txt"
    traffic.write_text("\n".join(FURTHER), "utf-8")
    monkeypatch.setenv("API_KEY", KEY)
    monkeypatch.setenv("MODEL_NAME", "some-llm")
    command = ["distill", str(desk), "-o", str(tmp_path / "out"), "--base", str(tiny_base), "--epochs", "1"]
    with ScriptedUpstream() as upstream:
        upstream.script = by(lambda _: "returns")
        assert main([*command, "--llm", str(traffic), "--llm-url", upstream.url, "--llm-price", "1,2"]) == 0
        assert upstream.last().headers["authorization"] == f"Bearer {KEY}"
        assert upstream.last().json()["model"] == "some-llm"
    report = json.loads((tmp_path / "out/evaluation.json").read_text("utf-8"))
    assert report["taught"] == {"model": "some-llm", "examples": len(FURTHER), "outliers": 0}
    printed = capsys.readouterr()
    assert "8 further examples and 0 outliers go into the training" in printed.err
    assert KEY not in printed.out + printed.err


def labels_of(folder: Path, topics: int = 3) -> np.ndarray:
    from export.teachers import soft_labels

    texts = [text for row in WORDS.values() for text in row.split("|")]
    topic = np.repeat(np.arange(topics), len(texts) // topics)
    return soft_labels(folder, texts, topic, list(WORDS), np.arange(len(texts)) % 3)


def test_an_onnx_encoder_teaches(tiny_base: Path) -> None:
    found = labels_of(tiny_base)
    assert found.shape == (18, 3)
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-5)


def hugging_face(folder: Path, kind: str, **config: Any) -> Path:
    """A random Hugging Face model with our tiny tokenizer."""
    import transformers

    size = len(vocabulary().pieces)
    settings = transformers.BertConfig(
        vocab_size=size, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=64, **config,
    )  # fmt: skip
    getattr(transformers, kind)(settings).save_pretrained(folder)
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=vocabulary().tokenizer(), pad_token="<pad>", unk_token="<unk>"
    ).save_pretrained(folder)
    return folder


def test_a_hugging_face_encoder_teaches(tmp_path: Path) -> None:
    found = labels_of(hugging_face(tmp_path, "BertModel"))
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-5)


def test_a_classifier_of_the_same_topics_is_taken_at_its_word(tmp_path: Path) -> None:
    import torch

    order = ["returns", "chat", "hours"]
    config = {"id2label": dict(enumerate(order)), "label2id": {name: i for i, name in enumerate(order)}}
    folder = hugging_face(tmp_path, "BertForSequenceClassification", num_labels=3, **config)
    import transformers

    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    with torch.no_grad():
        model.classifier.bias.copy_(torch.tensor([0.0, 0.0, 20.0]))
    model.save_pretrained(folder)
    found = labels_of(folder)
    assert (found.argmax(1) == 0).all()  # hours, wherever it stood in the teacher


def test_a_folder_without_a_teacher_says_so(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="no teacher"):
        labels_of(tmp_path)
