"""A bundle that answers whatever it takes for an answer topic: what thresholds are set by."""

from collections.abc import Sequence
from pathlib import Path

from edge.bundle import load_bundle
from edge.pipeline import Pipeline
from edge.router import Router
from edge.stages import Runtime
from export.calibrate import opened
from export.compose import compose_router
from export.desk import Desk, DeskTopic
from export.encoder import Encoder
from export.exits import exit_rules
from export.heads import Heads
from export.pack import manifest_of, write_bundle


def write_opened(folder: Path, desk: Desk, base: Encoder, heads: Sequence[Heads]) -> Pipeline:
    """Write a bundle without thresholds into an existing folder, and open it."""
    rules = exit_rules(heads, [may_leave_early(topic) for topic in desk.topics])
    router = compose_router(base.weights(), heads, rules)
    write_bundle(folder, desk, base, router, manifest_of(desk, base, opened(desk)))
    return open_folder(folder)


def open_folder(folder: Path) -> Pipeline:
    """The pipeline of a bundle as it stands, not self-tested."""
    bundle = load_bundle(folder)
    return Pipeline(Runtime(bundle, Router(bundle)))


def may_leave_early(topic: DeskTopic) -> bool:
    """Whether nothing after the router needs the topic's embedding: the cache needs those of the agent's."""
    return topic.route != "agent" or topic.volatility == "personal"
