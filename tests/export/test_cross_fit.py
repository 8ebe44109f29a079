"""A desk's own texts as held-out questions: never judged by a bundle that knows them, never a proof."""

import json
from pathlib import Path
from typing import Any

import pytest
from tiny_base import few_pools, write_desk

from edge.decision import Reason
from edge.normaliser import Lang
from export.cross_fit import cross_fit
from export.desk import OUT_OF_SCOPE, Desk
from export.desk_reader import load_desk
from export.encoder import Encoder
from export.fit import examples_of, fit_desk
from export.heads import FOLDS
from export.pools import Pools
from export.train import train_desk

EN, ZH = Lang.EN, Lang.ZH
TOPICS: dict[str, dict[str, Any]] = {
    "hours": {
        "examples": {
            "en": ["when do you open", "when do you open then", "opening hours", "are you open on sunday"],
            "zh": ["几点开门", "营业时间", "wifi opening"],
        }
    },
    "returns": {"examples": {"en": ["how do i return this", "money back"], "zh": ["怎么退货", "可以退吗"]}},
}
POOLS = Pools(few_pools().out_of_scope[::8], few_pools().follow_ups[::4], few_pools().stand_alone[::4])


def pool_texts(base: Encoder, lang: Lang) -> list[str]:
    normaliser = base.normaliser
    return [text for text in POOLS.out_of_scope if normaliser.lang(normaliser.reading(text)) is lang]


def test_every_text_is_judged_once_by_a_bundle_that_lacks_it(
    tiny_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted: list[set[str]] = []

    def watched(desk: Desk, base: Encoder, pools: Pools, seed: int) -> Any:
        fitted.append({*(text for text, _ in examples_of(desk)), *pools.out_of_scope})
        return fit_desk(desk, base, pools, seed)

    monkeypatch.setattr("export.cross_fit.fit_desk", watched)
    desk, base = load_desk(write_desk(tmp_path, TOPICS)), Encoder(tiny_base)
    judged = cross_fit(desk, base, POOLS, [EN, ZH], seed=0)
    texts = [row.question.text for row in judged]
    every = {text for text, _ in examples_of(desk)}.union(POOLS.out_of_scope)
    assert len(fitted) == FOLDS
    assert len(texts) == len(set(texts)) == len(every)
    for known in fitted:
        unknown = every - known
        assert set(texts[: len(unknown)]) == unknown
        del texts[: len(unknown)]
        # Texts that share most of their trigrams are unknown together.
        assert len(unknown & {"when do you open", "when do you open then"}) != 1
    assert not any(row.decision.reason is Reason.EXACT for row in judged)
    assert {row.question.topic for row in judged} == {*TOPICS, OUT_OF_SCOPE}


def test_only_what_is_read_in_the_languages_counts(tiny_base: Path, tmp_path: Path) -> None:
    """A Chinese example in Latin letters is no question of English, which has enough and is proven."""
    desk, base = load_desk(write_desk(tmp_path, TOPICS)), Encoder(tiny_base)
    judged = cross_fit(desk, base, POOLS, [ZH], seed=0)
    assert {row.lang for row in judged} == {ZH}
    assert sorted(row.question.text for row in judged) == sorted(
        ["几点开门", "营业时间", "怎么退货", "可以退吗", *pool_texts(base, ZH)]
    )


def test_a_desk_of_one_example_has_nothing_to_judge_it_by(tiny_base: Path, tmp_path: Path) -> None:
    desk = load_desk(write_desk(tmp_path, {"only": {"examples": {"en": ["when do you open"]}}}, "en"))
    base = Encoder(tiny_base)
    judged = cross_fit(desk, base, POOLS, [EN], seed=0)
    assert judged
    assert {row.question.topic for row in judged} == {OUT_OF_SCOPE}


@pytest.mark.parametrize("traffic", ["", "traffic: {in_scope: 0.8, out_of_scope: 0.1, follow_up: 0.1}\n"])
def test_without_calibration_questions_a_bundle_is_guided_and_unproven(
    tiny_base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], traffic: str
) -> None:
    """Whatever the traffic, of which the desk's own texts are no sample; a rate of 99 % would be proven."""
    folder = write_desk(tmp_path / "desk", TOPICS)
    head = (folder / "desk.yaml").read_text("utf-8")
    risk = "risk: {max_wrong: 0.99, confidence: 0.75}\n"
    (folder / "desk.yaml").write_text(head + risk + traffic, "utf-8")
    bundle, _ = train_desk(load_desk(folder), Encoder(tiny_base), POOLS, tmp_path / "out")
    assert "Too few calibration questions in en and zh to prove anything" in capsys.readouterr().err
    report = json.loads((tmp_path / "out/evaluation.json").read_text("utf-8"))
    assert report["cross_fitted"] == ["en", "zh"]
    assert "en" in bundle.thresholds  # what the tiny base gets right in Chinese is up to chance
    assert not any(threshold.proven for threshold in bundle.thresholds.values())
    assert all(entry["questions"] == 0 and entry["answered"] for entry in report["thresholds"].values())


def test_a_language_with_enough_questions_is_proven_by_them_alone(tiny_base: Path, tmp_path: Path) -> None:
    texts = ["opening times", "do you open late", "your opening hours", "how to return", "cash back please"]
    asked = [
        {"text": text, "topic": "hours" if "open" in text else "returns", "lang": "en"} for text in texts
    ]
    lines = "".join(json.dumps(question) + "\n" for question in asked)
    folder = write_desk(tmp_path / "desk", TOPICS, calibrate=lines)
    head = (folder / "desk.yaml").read_text("utf-8")
    (folder / "desk.yaml").write_text(head + "risk: {max_wrong: 0.99, confidence: 0.75}\n", "utf-8")
    train_desk(load_desk(folder), Encoder(tiny_base), POOLS, tmp_path / "out")
    report = json.loads((tmp_path / "out/evaluation.json").read_text("utf-8"))
    assert report["cross_fitted"] == ["zh"]
    found = report["thresholds"]
    assert [key for key, entry in found.items() if entry["proven"]] == ["en"]
    assert found["en"]["questions"] == len(texts)
