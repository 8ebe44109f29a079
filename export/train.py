"""``frontdesk train``: a desk and the base student give a bundle, without torch."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from edge.bundle import Bundle, load_bundle
from edge.normaliser import Lang
from edge.router import Router, load_router
from export.calibrate import Calibration, answers_of, calibrate, sample, share_of_delta
from export.card import bundle_card
from export.cross_fit import cross_fit
from export.desk import Desk
from export.desk_reader import load_desk
from export.encoder import Encoder
from export.evaluate import Evaluation, evaluate
from export.fit import Tuned, fit_desk
from export.heads import Heads
from export.judged import Judged, judge
from export.opened import open_folder, write_opened
from export.pack import Staging, check_target, manifest_of, seal
from export.pools import Pools, load_pools
from export.progress import say
from export.risk import answers_to_prove, questions_to_prove
from export.tool_gates import gates
from export.traffic import NOTHING


def train(desk_folder: Path, base_folder: Path, out: Path, seed: int = 0) -> tuple[Bundle, Evaluation]:
    """Build the bundle of a desk folder at ``out``, whole or not at all. Raises DeskError, BundleError."""
    return train_desk(load_desk(desk_folder), Encoder(base_folder), load_pools(), out, seed)


def train_desk(
    desk: Desk,
    base: Encoder,
    pools: Pools,
    out: Path,
    seed: int = 0,
    tuned: Tuned | None = None,
) -> tuple[Bundle, Evaluation]:
    """The same for loaded things; ``tuned``: what the encoder has learnt of the desk already."""
    check_target(out)
    heads = fit_desk(desk, base, pools, seed, tuned)
    with Staging(out) as folder:
        judged = judge(write_opened(folder, desk, base, heads), desk.calibrate)
        short = [lang for lang in desk.languages if tuned is None and _too_few(judged, desk, lang)]
        if short:
            say(
                f"Too few calibration questions in {' and '.join(short)} to prove anything: "
                "the examples, judged by cross-fitting, guide the threshold"
            )
            judged += cross_fit(desk, base, pools, short, seed)
        calibration = calibrate(desk, judged, guided=short)
        found = gates(desk, judged, guided=short)
        manifest = manifest_of(desk, base, calibration, found)
        manifest["self_test"] = _self_test(desk, base, folder)
        seal(folder, manifest)
        evaluation = evaluate(open_folder(folder), desk.test, desk.traffic, desk.risk.confidence)
        report = _report(desk, base.exits, heads, calibration, evaluation, tuned) | {
            "cross_fitted": short,
            "tools": [asdict(gate) for gate in found],
        }
        (folder / "evaluation.json").write_text(
            json.dumps(report, ensure_ascii=False, indent=1) + "\n", "utf-8"
        )
        (folder / "README.md").write_text(bundle_card(desk, report), "utf-8")
        seal(folder, manifest)
        bundle = load_bundle(folder)
        load_router(bundle)
    return replace(bundle, folder=out), evaluation


def _too_few(judged: Sequence[Judged], desk: Desk, lang: Lang) -> bool:
    """Whether the calibration questions of a language can prove nothing, were no answer to them wrong."""
    answers = answers_of(sample(judged, lang, desk.traffic))
    return len(answers) < answers_to_prove(desk.risk.max_wrong, 1 - share_of_delta(desk))


def _self_test(desk: Desk, base: Encoder, folder: Path) -> list[dict[str, Any]]:
    """The three examples that the router is surest of, each of another topic, with their readings."""
    router = Router(load_bundle(folder))
    sure: dict[str, tuple[float, str]] = {}
    for topic in desk.topics:
        for texts in topic.examples.values():
            for text in texts[:3]:
                normal = base.normaliser.reading(text)
                reading = router.read(normal)
                if reading is not None and reading.topic == topic.id:
                    sure[topic.id] = max(sure.get(topic.id, (0.0, "")), (reading.confidence, normal))
    ranked = sorted(sure.items(), key=lambda item: -item[1][0])[:3]
    return [{"text": text, "topic": topic, "confidence": round(conf, 6)} for topic, (conf, text) in ranked]


def _report(
    desk: Desk,
    exits: Sequence[int],
    heads: Sequence[Heads],
    calibration: Calibration,
    evaluation: Evaluation,
    tuned: Tuned | None,
) -> dict[str, Any]:
    delta = calibration.delta
    taught = NOTHING if tuned is None else tuned.taught
    return {
        "schema_version": 2,
        "tuned": tuned is not None,
        **({"taught": taught.as_dict()} if taught else {}),
        "risk": {"max_wrong": desk.risk.max_wrong, "confidence": desk.risk.confidence},
        "traffic": dict(desk.traffic),
        "delta_of_each": delta,
        "answers_to_prove": answers_to_prove(desk.risk.max_wrong, 1 - delta),
        "thresholds": {
            key: {
                **{name: getattr(threshold, name) for name in ("confidence", "bound", "proven", "max_wrong")},
                "pooled": key in calibration.pooled,
                "answered": finding.answered,
                "wrong": finding.wrong,
                "questions": finding.questions,
                "questions_to_prove": questions_to_prove(finding, threshold.max_wrong, delta),
            }
            for key, threshold in calibration.thresholds.items()
            for finding in [calibration.findings[key]]
        },
        "exits": [
            {
                "exit": exit_,
                "temperature": round(head.temperature, 4),
                "held_topic_accuracy": round(head.held.accuracy, 4),
            }
            for exit_, head in zip(exits, heads, strict=True)
        ],
        "test": _without_times(evaluation),
    }


def _without_times(evaluation: Evaluation) -> dict[str, Any]:
    """Times differ from run to run; a bundle of the same desk and seed shall not."""
    return replace(evaluation, p50_ms=0.0, p99_ms=0.0, ms=()).as_dict()
