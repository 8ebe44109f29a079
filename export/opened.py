"""A bundle that answers, and calls for, whatever its desk allows: what thresholds and gates are set by."""

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
from export.tool_gates import opened_gates


def write_opened(folder: Path, desk: Desk, base: Encoder, heads: Sequence[Heads]) -> Pipeline:
    """Write a bundle without thresholds and gates into an existing folder, and open it."""
    rules = exit_rules(heads, [may_leave_early(topic) for topic in desk.topics])
    router = compose_router(base.weights(), heads, rules)
    manifest = manifest_of(desk, base, opened(desk), opened_gates(desk))
    write_bundle(folder, desk, base, router, manifest)
    return open_folder(folder)


def open_folder(folder: Path) -> Pipeline:
    """The pipeline of a bundle as it stands, not self-tested; it may call what the bundle lets be called."""
    bundle = load_bundle(folder)
    return Pipeline(Runtime(bundle, Router(bundle), bundle.called))


def may_leave_early(topic: DeskTopic) -> bool:
    """Whether nothing after the router needs the topic's embedding: the cache needs those of the agent's."""
    return topic.route != "agent" or topic.volatility == "personal"
