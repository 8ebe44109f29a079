"""``frontdesk train``: a desk and the base student give a bundle, without torch."""

import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from edge.bundle import Bundle, load_bundle
from edge.pipeline import Pipeline
from edge.router import Router, load_router
from edge.stages import Runtime
from export.calibrate import Calibration, calibrate, opened
from export.card import bundle_card
from export.compose import compose_router
from export.desk import Desk, DeskTopic, load_desk
from export.encoder import Encoder
from export.evaluate import Evaluation, evaluate
from export.exits import exit_rules
from export.heads import Head, Heads, TrainingSet, features_of, fit_heads, fold_of, vocabulary_of
from export.judged import judge
from export.pack import Staging, check_target, manifest_of, seal, write_bundle
from export.pools import Pools, load_pools
from export.progress import Progress
from export.risk import answers_to_prove, questions_to_prove
from export.traffic import NOTHING, Taught

# A pool text nearer than this to an example may well ask what the desk answers.
_TOO_NEAR = 0.8


@dataclass(frozen=True, slots=True)
class Tuned:
    """What came of tuning the encoder on the desk: a topic head for every exit.

    ``held``: the texts that it has not seen, which calibrate the heads. Without tuning the texts are judged
    by turns, by heads that did not see them. ``taught``: texts that it learnt beside the desk's own; they
    fit heads and judge none.
    """

    topics: tuple[Head, ...]
    held: frozenset[str]
    taught: Taught = NOTHING


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
    rules = exit_rules(heads, [may_leave_early(topic) for topic in desk.topics])
    router = compose_router(base.weights(), heads, rules)
    with Staging(out) as folder:
        write_bundle(folder, desk, base, router, manifest_of(desk, base, opened(desk)))
        calibration = calibrate(desk, judge(_pipeline(folder), desk.calibrate))
        manifest = manifest_of(desk, base, calibration)
        manifest["self_test"] = _self_test(desk, base, folder)
        seal(folder, manifest)
        evaluation = evaluate(_pipeline(folder), desk.test, desk.traffic, desk.risk.confidence)
        report = _report(desk, base.exits, heads, calibration, evaluation, tuned)
        (folder / "evaluation.json").write_text(
            json.dumps(report, ensure_ascii=False, indent=1) + "\n", "utf-8"
        )
        (folder / "README.md").write_text(bundle_card(desk, report), "utf-8")
        seal(folder, manifest)
        bundle = load_bundle(folder)
        load_router(bundle)
    return replace(bundle, folder=out), evaluation


def may_leave_early(topic: DeskTopic) -> bool:
    """Whether nothing after the router needs the topic's embedding: the cache needs those of the agent's."""
    return topic.route != "agent" or topic.volatility == "personal"


def examples_of(desk: Desk) -> list[tuple[str, int]]:
    """Every example with the index of its topic."""
    return [
        (text, place)
        for place, topic in enumerate(desk.topics)
        for texts in topic.examples.values()
        for text in texts
    ]


def answered_by(desk: Desk, base: Encoder) -> np.ndarray:
    """Which tokens a topic's answer or title has, bool ``[tokens, topics]``."""
    texts = [
        (text, place)
        for place, topic in enumerate(desk.topics)
        for text in (*topic.answer.values(), *topic.title.values())
    ]
    tokens = base.tokens([text for text, _ in texts])
    return vocabulary_of(tokens, np.array([place for _, place in texts]), len(desk.topics))


def away(pool: np.ndarray, examples: np.ndarray) -> np.ndarray:
    """Which pool texts ask what no example asks: bool ``[pool]``, from embeddings of the untuned base."""
    return np.asarray((pool @ examples.T).max(1) < _TOO_NEAR)


def fit_desk(
    desk: Desk, base: Encoder, pools: Pools, seed: int, tuned: Tuned | None = None
) -> tuple[Heads, ...]:
    """The heads of every exit, the last one's last."""
    taught = NOTHING if tuned is None else tuned.taught
    examples = [*examples_of(desk), *taught.examples]
    out_of_scope = [*pools.out_of_scope, *taught.outliers]
    x = base.embed([text for text, _ in examples], "Embedding the examples")
    pool = base.embed(out_of_scope, "Embedding the out-of-scope pool")
    # An encoder that was tuned on the desk has no such measure any more; its pool was sifted before.
    kept = away(pool[-1], x[-1]) if tuned is None else np.ones(pool.shape[1], bool)
    texts = [*(text for text, _ in examples), *np.array(out_of_scope, object)[kept]]
    topic = np.array([place for _, place in examples] + [-1] * int(kept.sum()))
    context = base.embed([*pools.follow_ups, *pools.stand_alone], "Embedding the follow-up pool")
    needs_context = np.arange(context.shape[1]) < len(pools.follow_ups)
    folds = fold_of(texts, seed)
    if tuned is not None:
        folds[[text not in tuned.held for text in texts]] = -1
    own = np.concatenate([x, pool[:, kept]], axis=1)
    tokens, answered = base.tokens(texts), answered_by(desk, base)
    progress = Progress("Fitting the heads", len(base.exits))

    def fit(place: int) -> Heads:
        features = features_of(own[: place + 1]) if tuned is None else own[place]
        training = TrainingSet(own[place], features, topic, folds, tokens, answered)
        learnt = None if tuned is None else tuned.topics[place]
        heads = fit_heads(training, context[place], needs_context, seed, learnt)
        progress.add(1)
        return heads

    # The exits side by side, each on one thread: threads that wait for each other within a product make
    # these fits several times as slow.
    with threadpool_limits(1), ThreadPoolExecutor(os.cpu_count()) as threads:
        heads = tuple(threads.map(fit, reversed(range(len(base.exits)))))
    progress.end()
    return heads[::-1]


def _pipeline(folder: Path) -> Pipeline:
    bundle = load_bundle(folder)
    return Pipeline(Runtime(bundle, Router(bundle)))


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
