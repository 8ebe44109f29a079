"""Appends a desk's heads to the base student's graph: the router of a bundle."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from export.heads import GAMMA, Head, Heads, ScopeHead

EMBEDDING = "sentence_embedding"
NEARNESS = "nearness"


def compose_router(base: Path, heads: Heads, exit_layer: int) -> onnx.ModelProto:
    """The router graph: ``logits``, ``in_scope``, ``needs_context``, ``sentence_embedding``, ``exit``."""
    model = onnx.load(str(base))
    graph = model.graph
    _add_head(graph, "logits", heads.topics, outputs=len(heads.topics.bias))
    _add_nearness(graph, heads.in_scope)
    _add_probability(graph, "in_scope", heads.in_scope.head, NEARNESS)
    _add_probability(graph, "needs_context", heads.needs_context, EMBEDDING)
    # One exit so far: a constant for every row.
    graph.node.append(helper.make_node("Shape", ["in_scope"], ["exit_shape"]))
    value = numpy_helper.from_array(np.array([exit_layer], np.int64))
    graph.node.append(helper.make_node("ConstantOfShape", ["exit_shape"], ["exit"], value=value))
    graph.output.append(helper.make_tensor_value_info("exit", TensorProto.INT64, ["batch"]))
    del model.metadata_props[:]
    onnx.checker.check_model(model, full_check=True)
    return model


def _add_head(graph: onnx.GraphProto, name: str, head: Head, outputs: int) -> None:
    _linear(graph, name, head, EMBEDDING)
    graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", outputs]))


def _add_nearness(graph: onnx.GraphProto, scope: ScopeHead) -> None:
    """exp(2 γ (x · centre - 1)) as one Gemm and one Exp."""
    weight = 2 * GAMMA * scope.centres.T
    _linear(graph, f"{NEARNESS}_score", Head(weight, np.full(weight.shape[1], -2 * GAMMA)), EMBEDDING)
    graph.node.append(helper.make_node("Exp", [f"{NEARNESS}_score"], [NEARNESS]))


def _add_probability(graph: onnx.GraphProto, name: str, head: Head, source: str) -> None:
    _linear(graph, f"{name}_score", head, source)
    graph.initializer.append(numpy_helper.from_array(np.array([-1], np.int64), f"{name}_shape"))
    graph.node.append(helper.make_node("Sigmoid", [f"{name}_score"], [f"{name}_column"]))
    graph.node.append(helper.make_node("Reshape", [f"{name}_column", f"{name}_shape"], [name]))
    graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch"]))


def _linear(graph: onnx.GraphProto, name: str, head: Head, source: str) -> None:
    graph.initializer.append(numpy_helper.from_array(head.weight.astype(np.float32), f"{name}_weight"))
    graph.initializer.append(numpy_helper.from_array(head.bias.astype(np.float32), f"{name}_bias"))
    graph.node.append(helper.make_node("Gemm", [source, f"{name}_weight", f"{name}_bias"], [name]))
