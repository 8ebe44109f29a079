"""Writes the encoder as ONNX in standard operators, float32 or INT8 with one activation scale per row.

A row of the batch never depends on its mates: every activation scale belongs to one token, and padding is
masked out of attention and of the pools.
"""

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from export.quantize import ACTIVATION_ZERO, ROW_TOP, SCALE_FLOOR, WEIGHT_TOP, quantize_rows
from export.weights import Affine, EncoderWeights, ExitWeights, LayerWeights, Norm, join_attention

OPSET = 20
IR_VERSION = 9  # the first that belongs to opset 20
INPUT_IDS, ATTENTION_MASK, OUTPUT = "input_ids", "attention_mask", "sentence_embedding"
_MASKED = -1e9


class GraphBuilder:
    """Collects nodes and constants; every method returns the name of a tensor."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}

    def constant(self, name: str, value: NDArray[np.generic]) -> str:
        """A tensor stored in the file under ``name``, once."""
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.asarray(value, order="C"), name)
        return name

    def number(self, name: str, value: float) -> str:
        """A float32 scalar."""
        return self.constant(name, np.asarray(value, np.float32))

    def integers(self, name: str, *values: int) -> str:
        """An int64 vector."""
        return self.constant(name, np.asarray(values, np.int64))

    def node(self, kind: str, *inputs: str, name: str, **attributes: int | float) -> str:
        """One operator with one output, which is called ``name``."""
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def branch(self, name: str, build: Callable[[], Sequence[onnx.ValueInfoProto]]) -> onnx.GraphProto:
        """A subgraph of what ``build`` adds; constants stay with the whole graph. It returns the outputs."""
        outer, self.nodes = self.nodes, []
        try:
            outputs = build()
            return helper.make_graph(self.nodes, name, [], list(outputs))
        finally:
            self.nodes = outer

    def split(self, x: str, parts: int, *, name: str) -> list[str]:
        """``x`` cut into equal parts along its last axis."""
        names = [f"{name}.{i}" for i in range(parts)]
        self.nodes.append(helper.make_node("Split", [x], names, name=name, axis=-1, num_outputs=parts))
        return names


class Encoder:
    """Adds the parts of one encoder to a builder."""

    def __init__(self, weights: EncoderWeights, *, quantized: bool) -> None:
        self.weights = weights
        self.quantized = quantized
        self.g = GraphBuilder()

    def masks(self) -> tuple[str, str]:
        """0 for tokens, −10⁹ for padding: for pools [batch, tokens], for attention [batch, 1, 1, tokens]."""
        g = self.g
        mask = g.node("Cast", ATTENTION_MASK, name="mask", to=TensorProto.FLOAT)
        hidden = g.node("Sub", mask, g.number("unit", 1.0), name="hidden")
        pool = g.node("Mul", hidden, g.number("masked", -_MASKED), name="pool_bias")
        return pool, g.node("Unsqueeze", pool, g.integers("inner_axes", 1, 2), name="attention_bias")

    def norm(self, x: str, norm: Norm, name: str) -> str:
        """LayerNormalization over the last axis."""
        gain = self.g.constant(f"{name}.weight", norm.weight)
        bias = self.g.constant(f"{name}.bias", norm.bias)
        eps = self.weights.eps
        return self.g.node("LayerNormalization", x, gain, bias, name=name, axis=-1, epsilon=eps)

    def words(self) -> str:
        """Token ids → word vectors [batch, tokens, width]; INT8 rows are scaled after they are gathered."""
        g, table = self.g, self.weights.words
        if not self.quantized:
            return g.node("Gather", g.constant("words.weight", table), INPUT_IDS, name="words", axis=0)
        rows = quantize_rows(table)
        values = g.node(
            "Gather", g.constant("words.values", rows.values), INPUT_IDS, name="words.row", axis=0
        )
        scale = g.node(
            "Gather", g.constant("words.scales", rows.scale[:, None]), INPUT_IDS, name="words.scale", axis=0
        )
        values = g.node("Cast", values, name="words.float", to=TensorProto.FLOAT)
        return g.node("Mul", values, scale, name="words")

    def embeddings(self) -> str:
        """Words plus the first rows of the position table, normalised."""
        g = self.g
        shape = g.node("Shape", INPUT_IDS, name="shape")
        tokens = g.node("Slice", shape, g.integers("one", 1), g.integers("two", 2), name="tokens")
        table = g.constant("positions.weight", self.weights.positions)
        positions = g.node(
            "Slice", table, g.integers("zero", 0), tokens, g.integers("zero", 0), name="positions"
        )
        return self.norm(
            g.node("Add", self.words(), positions, name="embedded"), self.weights.norm, "embeddings"
        )

    def linear(self, x: str, affine: Affine, name: str) -> str:
        """``x @ weight.T + bias`` over the last axis; INT8 if the encoder is quantised."""
        g = self.g
        bias = g.constant(f"{name}.bias", affine.bias)
        if not self.quantized:
            product = g.node(
                "MatMul", x, g.constant(f"{name}.weight", affine.weight.T), name=f"{name}.product"
            )
            return g.node("Add", product, bias, name=name)
        weight = quantize_rows(affine.weight, WEIGHT_TOP)
        size = g.node("Abs", x, name=f"{name}.size")
        top = g.node("ReduceMax", size, g.integers("last", -1), name=f"{name}.top", keepdims=1)
        scale = g.node("Mul", top, g.number("row_step", 1 / ROW_TOP), name=f"{name}.step")
        scale = g.node("Max", scale, g.number("scale_floor", SCALE_FLOOR), name=f"{name}.scale")
        steps = g.node("Round", g.node("Div", x, scale, name=f"{name}.ratio"), name=f"{name}.steps")
        shifted = g.node("Add", steps, g.number("shift", ACTIVATION_ZERO), name=f"{name}.shifted")
        values = g.node("Cast", shifted, name=f"{name}.values", to=TensorProto.UINT8)
        zero = g.constant("activation_zero", np.asarray(ACTIVATION_ZERO, np.uint8))
        stored = g.constant(f"{name}.weight", weight.values.T)
        product = g.node("MatMulInteger", values, stored, zero, name=f"{name}.product")
        product = g.node("Cast", product, name=f"{name}.float", to=TensorProto.FLOAT)
        product = g.node("Mul", product, scale, name=f"{name}.by_row")
        product = g.node("Mul", product, g.constant(f"{name}.scales", weight.scale), name=f"{name}.by_column")
        return g.node("Add", product, bias, name=name)

    def dense(self, x: str, affine: Affine, name: str) -> str:
        """``x @ weight.T + bias`` for one row a text, in float32.

        Its weights are stored as INT8 all the same, for their size; the runtime casts them once, at load.
        """
        g = self.g
        bias = g.constant(f"{name}.bias", affine.bias.astype(np.float32))
        if not self.quantized:
            weight = g.constant(f"{name}.weight", affine.weight.T.astype(np.float32))
            return g.node("Add", g.node("MatMul", x, weight, name=f"{name}.product"), bias, name=name)
        rows = quantize_rows(affine.weight)
        stored = g.constant(f"{name}.weight", rows.values.T)
        weight = g.node("Cast", stored, name=f"{name}.cast", to=TensorProto.FLOAT)
        product = g.node("MatMul", x, weight, name=f"{name}.product")
        scaled = g.node("Mul", product, g.constant(f"{name}.scales", rows.scale), name=f"{name}.scaled")
        return g.node("Add", scaled, bias, name=name)

    def attention(self, x: str, layer: LayerWeights, bias: str, name: str) -> str:
        """Multi-head attention; ``bias`` [batch, 1, 1, tokens] is 0 for tokens and −10⁹ for padding."""
        g, heads = self.g, self.weights.heads
        width = self.weights.words.shape[1]
        depth = width // heads
        joined = join_attention(layer, heads)
        parts = g.split(self.linear(x, joined, f"{name}.qkv"), 3, name=f"{name}.parts")
        by_head = g.integers("by_head", 0, 0, heads, depth)
        q, k, v = (g.node("Reshape", part, by_head, name=f"{part}.by_head") for part in parts)
        q = self.turn(q, (0, 2, 1, 3), f"{name}.q")
        k = self.turn(k, (0, 2, 3, 1), f"{name}.k")
        v = self.turn(v, (0, 2, 1, 3), f"{name}.v")
        scores = g.node("Add", g.node("MatMul", q, k, name=f"{name}.match"), bias, name=f"{name}.masked")
        shares = g.node("Softmax", scores, name=f"{name}.shares", axis=-1)
        mixed = self.turn(g.node("MatMul", shares, v, name=f"{name}.mixed"), (0, 2, 1, 3), f"{name}.turned")
        return g.node("Reshape", mixed, g.integers("by_token", 0, 0, width), name=f"{name}.joined")

    def turn(self, x: str, axes: tuple[int, ...], name: str) -> str:
        """Transpose."""
        self.g.nodes.append(helper.make_node("Transpose", [x], [name], name=name, perm=list(axes)))
        return name

    def layer(self, x: str, layer: LayerWeights, bias: str, name: str) -> str:
        """One layer: attention and feed-forward, each added to its input and normalised."""
        g = self.g
        mixed = self.linear(self.attention(x, layer, bias, name), layer.attended, f"{name}.attended")
        x = self.norm(
            g.node("Add", x, mixed, name=f"{name}.sum"), layer.attended_norm, f"{name}.attended_norm"
        )
        risen = g.node("Gelu", self.linear(x, layer.rise, f"{name}.rise"), name=f"{name}.gelu")
        fallen = self.linear(risen, layer.fall, f"{name}.fall")
        return self.norm(g.node("Add", x, fallen, name=f"{name}.total"), layer.norm, f"{name}.norm")

    def exit(self, x: str, pool_bias: str, weights: ExitWeights) -> str:
        """States [batch, tokens, width] → the exit's embedding [batch, width], centred, of length 1."""
        g, name = self.g, f"exit{weights.layer}"
        gate = g.constant(f"{name}.gate", weights.gate[:, None])
        scores = g.node("MatMul", x, gate, name=f"{name}.scores")
        scores = g.node("Squeeze", scores, g.integers("last", -1), name=f"{name}.score")
        shares = g.node(
            "Softmax", g.node("Add", scores, pool_bias, name=f"{name}.masked"), name=f"{name}.shares"
        )
        row = g.node("Unsqueeze", shares, g.integers("one", 1), name=f"{name}.share")
        pooled = g.node("MatMul", row, x, name=f"{name}.mean")
        pooled = g.node("Squeeze", pooled, g.integers("one", 1), name=f"{name}.pooled")
        centred = self.dense(pooled, weights.projection, f"{name}.projection")
        length = g.node("ReduceL2", centred, g.integers("last", -1), name=f"{name}.raw_length", keepdims=1)
        length = g.node("Max", length, g.number("scale_floor", SCALE_FLOOR), name=f"{name}.length")
        return g.node("Div", centred, length, name=f"{name}.embedding")

    def layers(self, x: str, attention_bias: str, first: int, end: int) -> str:
        """The layers from ``first`` up to, but without, ``end``."""
        for i in range(first, end):
            x = self.layer(x, self.weights.layers[i], attention_bias, f"layer{i}")
        return x


def output_name(weights: EncoderWeights, exit_: ExitWeights) -> str:
    """What an exit's embedding is called in the base model: the last is the sentence's."""
    return OUTPUT if exit_ is weights.exits[-1] else f"exit_{exit_.layer}"


def encoder_graph(weights: EncoderWeights, quantized: bool) -> onnx.ModelProto:
    """The encoder as a checked ONNX model; every exit's embedding is an output, float32 [batch, width]."""
    encoder = Encoder(weights, quantized=quantized)
    g = encoder.g
    pool_bias, attention_bias = encoder.masks()
    x, done, outputs = encoder.embeddings(), 0, []
    for exit_ in weights.exits:
        x, done = encoder.layers(x, attention_bias, done, exit_.layer), exit_.layer
        name = output_name(weights, exit_)
        g.node("Identity", encoder.exit(x, pool_bias, exit_), name=name)
        outputs.append(floats(name, "batch", weights.words.shape[1]))
    return finished(g, "frontdesk_base", outputs)


def floats(name: str, *shape: str | int | None) -> onnx.ValueInfoProto:
    """A float32 output."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def finished(
    g: GraphBuilder,
    name: str,
    outputs: Sequence[onnx.ValueInfoProto],
    overridable: Sequence[onnx.ValueInfoProto] = (),
) -> onnx.ModelProto:
    """The checked model. ``overridable``: constants that a caller may give other values."""
    inputs = [
        helper.make_tensor_value_info(n, TensorProto.INT64, ["batch", "tokens"])
        for n in (INPUT_IDS, ATTENTION_MASK)
    ]
    graph = helper.make_graph(g.nodes, name, [*inputs, *overridable], outputs, list(g.constants.values()))
    opset = helper.make_opsetid("", OPSET)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION, producer_name="frontdesk")
    onnx.checker.check_model(model, full_check=True)
    return model
