"""The router of a bundle: the encoder with a desk's heads at every exit, and the exits inside the graph.

A row stops at the first exit where its best topic's confidence reaches ``exit_thresholds[exit, topic]``
and in-scope and needs-context probability keep that exit's limits. Rows that go on are gathered before
the deeper layers and scattered back after them, so the work is done for them alone, in any batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper

from export.graph import INPUT_IDS, OUTPUT, Encoder, finished, floats
from export.heads import GAMMA, Heads
from export.vocabulary import BOS, EOS, PAD
from export.weights import Affine, EncoderWeights

EXIT_THRESHOLDS = "exit_thresholds"
NEVER = 2.0  # a threshold that no confidence reaches
_OUTPUTS = ("logits", "in_scope", "needs_context", OUTPUT, "exit")


@dataclass(frozen=True, slots=True)
class ExitRules:
    """When a row may leave: ``confidence`` float32 ``[exits - 1, topics]``, the limits ``[exits - 1]``."""

    confidence: np.ndarray
    min_in_scope: np.ndarray
    max_needs_context: np.ndarray


def never_early(exits: int, topics: int) -> ExitRules:
    """Rules under which every row goes to the last exit."""
    return ExitRules(
        np.full((exits - 1, topics), NEVER, np.float32),
        np.full(exits - 1, 0.5, np.float32),
        np.full(exits - 1, 0.5, np.float32),
    )


def compose_router(
    weights: EncoderWeights, heads: Sequence[Heads], rules: ExitRules, *, quantized: bool = True
) -> onnx.ModelProto:
    """The router graph: ``logits``, ``in_scope``, ``needs_context``, ``sentence_embedding``, ``exit``.

    ``heads``: one set for each exit. ``exit_thresholds`` can be overridden by a caller in Python.
    """
    composer = _Composer(weights, heads, rules, quantized)
    return composer.build()


class _Composer:
    def __init__(
        self, weights: EncoderWeights, heads: Sequence[Heads], rules: ExitRules, quantized: bool
    ) -> None:
        self.weights, self.heads, self.rules = weights, heads, rules
        self.encoder = Encoder(weights, quantized=quantized)
        self.g = self.encoder.g
        self.topics = len(heads[0].topics.bias)

    def build(self) -> onnx.ModelProto:
        pool_bias, attention_bias = self.encoder.masks()
        self.g.constant(EXIT_THRESHOLDS, self.rules.confidence.astype(np.float32))
        found = self.from_exit(0, self.encoder.embeddings(), self.novelty(), [], pool_bias, attention_bias)
        for name, value in zip(_OUTPUTS, found, strict=True):
            self.g.node("Identity", value, name=name)
        shape = list(self.rules.confidence.shape)
        overridable = [helper.make_tensor_value_info(EXIT_THRESHOLDS, TensorProto.FLOAT, shape)]
        return finished(self.g, "frontdesk_router", self.outputs(_OUTPUTS), overridable)

    def from_exit(
        self, place: int, x: str, novelty: str, before: Sequence[str], pool_bias: str, attention_bias: str
    ) -> list[str]:
        """The five results of the rows that reach exit ``place`` with the states ``x`` after its layers.

        ``before``: what the exits before it saw of these rows, embeddings [rows, width].
        """
        g, e = self.g, self.weights.exits[place].layer
        z = self.encoder.exit(x, pool_bias, self.weights.exits[place])
        seen = [*before, z]
        logits, in_scope, needs_context = self.read(seen, novelty, place)
        if place == len(self.weights.exits) - 1:
            return [logits, in_scope, needs_context, z, self.exit_number(in_scope, e)]
        stays = g.node("Not", self.leaves(logits, in_scope, needs_context, place), name=f"exit{e}.stays")
        places = g.node("NonZero", stays, name=f"exit{e}.places")
        rows = g.node("Squeeze", places, g.integers("first", 0), name=f"exit{e}.rows")
        count = g.node("Size", rows, name=f"exit{e}.count")
        some = g.node("Greater", count, g.constant("none", np.asarray(0, np.int64)), name=f"exit{e}.some")
        empty = g.node(
            "Mul", z, g.number("nothing", 0.0), name=f"exit{e}.empty"
        )  # only rows at the last exit share one space
        here = [logits, in_scope, needs_context, empty, self.exit_number(in_scope, e)]
        deeper, shallow = (
            g.branch(f"exit{e}.{name}", build)
            for name, build in (
                (
                    "deeper",
                    lambda: self.deeper(place, here, rows, x, novelty, seen, pool_bias, attention_bias),
                ),
                ("shallow", lambda: self.shallow(here, e)),
            )
        )
        names = [f"exit{e}.{name}" for name in _OUTPUTS]
        g.nodes.append(
            helper.make_node("If", [some], names, name=f"exit{e}.if", then_branch=deeper, else_branch=shallow)
        )
        return names

    def deeper(
        self,
        place: int,
        here: list[str],
        rows: str,
        x: str,
        novelty: str,
        seen: Sequence[str],
        pool_bias: str,
        attention_bias: str,
    ) -> list[onnx.ValueInfoProto]:
        """The branch of rows that go on: gathered, read deeper, scattered back over what was read here."""
        g, e = self.g, self.weights.exits[place].layer
        x, novelty, pool_bias, attention_bias, *before = (
            g.node("Gather", value, rows, name=f"exit{e}.on.{i}", axis=0)
            for i, value in enumerate((x, novelty, pool_bias, attention_bias, *seen))
        )
        x = self.encoder.layers(x, attention_bias, e, self.weights.exits[place + 1].layer)
        found = self.from_exit(place + 1, x, novelty, before, pool_bias, attention_bias)
        indices = g.node("Unsqueeze", rows, g.integers("last", -1), name=f"exit{e}.indices")
        names = [f"exit{e}.merged.{name}" for name in _OUTPUTS]
        for name, old, new in zip(names, here, found, strict=True):
            g.node("ScatterND", old, indices, new, name=name)
        return self.outputs(names)

    def shallow(self, here: list[str], e: int) -> list[onnx.ValueInfoProto]:
        """The branch in which every row has left."""
        names = [f"exit{e}.left.{name}" for name in _OUTPUTS]
        for name, value in zip(names, here, strict=True):
            self.g.node("Identity", value, name=name)
        return self.outputs(names)

    def novelty(self) -> str:
        """The share of each row's tokens that a topic has nowhere, [batch, topics], as heads.novelty_of.

        One bit a token and topic, eight topics a byte: 16,000 tokens, 150 topics: 0.3 MB. No topic
        lacks the two special tokens around a text, or the padding after it.
        """
        g, vocabulary = self.g, self.heads[0].vocabulary
        lacks = np.packbits(~vocabulary, axis=1, bitorder="little")
        lacks[[BOS, EOS, PAD]] = 0
        bytes_ = g.node("Gather", g.constant("novelty.bits", lacks), INPUT_IDS, name="novelty.bytes", axis=0)
        column = g.node("Unsqueeze", bytes_, g.integers("last", -1), name="novelty.column")
        powers = g.constant("novelty.powers", np.asarray([1 << bit for bit in range(8)], np.uint8))
        bits = g.node("BitwiseAnd", column, powers, name="novelty.masked")
        flags = g.node("Cast", bits, name="novelty.set", to=TensorProto.BOOL)
        ones = g.node("Cast", flags, name="novelty.ones", to=TensorProto.FLOAT)
        rows = g.node("Reshape", ones, g.integers("novelty.shape", 0, 0, -1), name="novelty.rows")
        # Only what is no padding counts, whatever ids stand there.
        row = g.node("Unsqueeze", "mask", g.integers("one", 1), name="novelty.mask")
        counts = g.node("MatMul", row, rows, name="novelty.counts")
        lacking = g.node("Squeeze", counts, g.integers("one", 1), name="novelty.lacking")
        ends = g.integers("novelty.topics", self.topics)
        lacking = g.node(
            "Slice", lacking, g.integers("first", 0), ends, g.integers("one", 1), name="novelty.sum"
        )
        tokens = g.node("ReduceSum", "mask", g.integers("one", 1), name="novelty.tokens", keepdims=1)
        inner = g.node("Sub", tokens, g.number("novelty.special", 2.0), name="novelty.inner")
        count = g.node("Max", inner, g.number("unit", 1.0), name="novelty.count")
        return g.node("Div", lacking, count, name="novelty.share")

    def read(self, seen: Sequence[str], novelty: str, place: int) -> tuple[str, str, str]:
        """Embeddings [rows, width] of all exits so far → logits [rows, topics], two probabilities [rows]."""
        g, e = self.g, self.weights.exits[place].layer
        heads, scope, z = self.heads[place], self.heads[place].in_scope, seen[-1]
        # A topic head reads its exit or all so far. It was fitted on features of length 1
        # (heads.features_of), so the scale is in its weights.
        read = seen[-(len(heads.topics.weight) // self.weights.words.shape[1]) :]
        features = z if len(read) == 1 else g.node("Concat", *read, name=f"read{e}.features", axis=-1)
        topics = _affine(heads.topics.weight / len(read) ** 0.5, heads.topics.bias)
        logits = self.encoder.dense(features, topics, f"read{e}.topics")
        # exp(2 γ (x · centre − 1)) as one product and one exponential.
        offset = np.full(len(scope.centres), -2 * GAMMA, np.float32)
        nearness = Affine(np.asarray(2 * GAMMA * scope.centres, np.float32), offset)
        near = g.node("Exp", self.encoder.dense(z, nearness, f"read{e}.nearness"), name=f"read{e}.near")
        energy = g.node("ReduceLogSumExp", logits, g.integers("last", -1), name=f"read{e}.energy", keepdims=1)
        best = g.node("ArgMax", logits, name=f"read{e}.best", axis=-1, keepdims=1)
        lacking = g.node("GatherElements", novelty, best, name=f"read{e}.novelty", axis=1)
        seen_of_scope = g.node("Concat", near, energy, lacking, name=f"read{e}.scope", axis=-1)
        weight = np.append(scope.head.weight, [[scope.energy], [scope.novelty]], axis=0)
        in_scope = self.probability(seen_of_scope, _affine(weight, scope.head.bias), f"read{e}.in_scope")
        needs = _affine(heads.needs_context.weight, heads.needs_context.bias)
        return logits, in_scope, self.probability(z, needs, f"read{e}.needs_context")

    def probability(self, x: str, affine: Affine, name: str) -> str:
        g = self.g
        weight = g.constant(f"{name}.weight", affine.weight.T.astype(np.float32))
        bias = g.constant(f"{name}.bias", affine.bias.astype(np.float32))
        score = g.node("Gemm", x, weight, bias, name=f"{name}.score")
        share = g.node("Sigmoid", score, name=f"{name}.column")
        return g.node("Squeeze", share, g.integers("last", -1), name=f"{name}.share")

    def leaves(self, logits: str, in_scope: str, needs_context: str, place: int) -> str:
        """Which rows leave at this exit, bool [rows]."""
        g, e = self.g, self.weights.exits[place].layer
        shares = g.node("Softmax", logits, name=f"leave{e}.shares", axis=-1)
        top = g.node("ReduceMax", shares, g.integers("last", -1), name=f"leave{e}.top", keepdims=0)
        confidence = g.node("Mul", top, in_scope, name=f"leave{e}.confidence")
        topic = g.node("ArgMax", logits, name=f"leave{e}.topic", axis=-1, keepdims=0)
        number = g.constant(f"leave{e}.place", np.asarray(place, np.int64))
        row = g.node("Gather", EXIT_THRESHOLDS, number, name=f"leave{e}.row", axis=0)
        needed = g.node("Gather", row, topic, name=f"leave{e}.needed", axis=0)
        sure = g.node("GreaterOrEqual", confidence, needed, name=f"leave{e}.sure")
        least = g.number(f"leave{e}.min_in_scope", float(self.rules.min_in_scope[place]))
        inside = g.node("GreaterOrEqual", in_scope, least, name=f"leave{e}.inside")
        most = g.number(f"leave{e}.max_needs_context", float(self.rules.max_needs_context[place]))
        alone = g.node("LessOrEqual", needs_context, most, name=f"leave{e}.alone")
        both = g.node("And", sure, inside, name=f"leave{e}.both")
        return g.node("And", both, alone, name=f"leave{e}.leaves")

    def exit_number(self, in_scope: str, e: int) -> str:
        """The exit's number for each row, int64 [rows]."""
        value = helper.make_tensor("value", TensorProto.INT64, [1], [e])
        shape = self.g.node("Shape", in_scope, name=f"exit{e}.shape")
        self.g.nodes.append(
            helper.make_node(
                "ConstantOfShape", [shape], [f"exit{e}.number"], name=f"exit{e}.number", value=value
            )
        )
        return f"exit{e}.number"

    def outputs(self, names: Sequence[str]) -> list[onnx.ValueInfoProto]:
        logits, in_scope, needs_context, embedding, exit_ = names
        batch = "batch" if logits == "logits" else None
        return [
            floats(logits, batch, self.topics),
            floats(in_scope, batch),
            floats(needs_context, batch),
            floats(embedding, batch, self.weights.words.shape[1]),
            helper.make_tensor_value_info(exit_, TensorProto.INT64, [batch]),
        ]


def _affine(weight: np.ndarray, bias: np.ndarray) -> Affine:
    """A head's ``x @ weight + bias`` as an affine map."""
    return Affine(np.ascontiguousarray(weight.T, np.float32), bias.astype(np.float32))
