"""Models of ONNX whose operators read quantized tensors, made of models of floats by static scales."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

__all__ = ["QUANTIZED", "quantized_model", "with_norms_in_weights"]

Array = np.ndarray
QUANTIZED = ("Conv", "Sum", "Add", "MaxPool", "AveragePool", "GlobalAveragePool", "Gemm", "MatMul", "Concat")
"""The operators whose inputs are quantized."""


def with_norms_in_weights(made: Any) -> Any:
    """The model with each batch normalization in the weights of the convolution before it."""
    graph = made.graph
    known = {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}
    makers = {name: each for each in graph.node for name in each.output}
    nodes = []
    for each in graph.node:
        before = makers.get(each.input[0]) if each.op_type == "BatchNormalization" else None
        if before is None or before.op_type != "Conv":
            nodes.append(each)
            continue
        scale, shift, mean, variance = (known[name] for name in each.input[1:5])
        epsilon = next((a.f for a in each.attribute if a.name == "epsilon"), 1e-5)
        factor = scale / np.sqrt(variance + epsilon)
        weights, bias = before.input[1], known[before.input[2]] if len(before.input) > 2 else 0.0
        folded = known[weights] * factor.reshape(-1, *(1,) * (known[weights].ndim - 1))
        names = [f"{before.output[0]}.{word}" for word in ("weights", "bias")]
        for name, values in zip(names, (folded, (bias - mean) * factor + shift), strict=True):
            known[name] = values.astype(np.float32)
            graph.initializer.append(onnx.numpy_helper.from_array(known[name], name))
        del before.input[1:]
        before.input.extend(names)
        before.output[0] = each.output[0]
    _replace_nodes(graph, nodes)
    return made


def quantized_model(made: Any, ranges: dict[str, tuple[float, float]], kind: str = "u8") -> Any:
    """The model whose operators of `QUANTIZED` read integers, by the least and the largest value of each.

    `kind` "u8": from the least value to the largest; "s8": as far below zero as above. Weights are s8, with a
    scale for each output; a bias is s32, with the scale of its products.
    """
    graph, nodes, done = made.graph, [], dict[str, str]()
    known = {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}
    scales: dict[str, Array] = {}

    def constant(name: str, values: Array) -> str:
        graph.initializer.append(onnx.numpy_helper.from_array(values, name))
        return name

    def add(operator: str, source: str, result: str, scale: Array, zero: Array, **attributes: int) -> str:
        names = [constant(f"{result}.s", scale), constant(f"{result}.z", zero)]
        nodes.append(onnx.helper.make_node(operator, [source, *names], [result], **attributes))
        return result

    def of_activation(name: str) -> str:
        if name not in done:
            least, largest = ranges[name]
            low, high = min(least, 0.0), max(largest, 0.0, 1e-6)
            steps = (high - low) / 255 if kind == "u8" else max(-low, high) / 127
            scale = np.float32(steps)
            zero = np.uint8(np.rint(-low / steps)) if kind == "u8" else np.int8(0)
            add("QuantizeLinear", name, f"{name}.q", scale, zero)
            done[name] = add("DequantizeLinear", f"{name}.q", f"{name}.d", scale, zero)
            scales[done[name]] = scale
        return done[name]

    def of_weights(name: str, axis: int) -> str:
        values = np.moveaxis(known[name], axis, 0)
        steps = np.maximum(np.abs(values).reshape(len(values), -1).max(1), 1e-8) / 127
        integers = np.rint(values / steps.reshape(-1, *(1,) * (values.ndim - 1))).astype(np.int8)
        stored = constant(f"{name}.q", np.ascontiguousarray(np.moveaxis(integers, 0, axis)))
        zeros = np.zeros(len(values), np.int8)
        scales[f"{name}.d"] = steps.astype(np.float32)
        return add("DequantizeLinear", stored, f"{name}.d", scales[f"{name}.d"], zeros, axis=axis)

    def of_bias(name: str, scale: Array) -> str:
        integers = np.rint(known[name] / scale).astype(np.int32)
        stored = constant(f"{name}.q", integers)
        return add("DequantizeLinear", stored, f"{name}.d", scale, np.zeros(len(scale), np.int32), axis=0)

    for each in list(graph.node):
        if each.op_type in QUANTIZED:
            is_product = each.op_type in ("Conv", "Gemm", "MatMul")
            for at, name in enumerate(each.input[: 1 if is_product else None]):
                each.input[at] = of_activation(name)
            if is_product:
                transposed = any(a.name == "transB" and a.i for a in each.attribute)
                each.input[1] = of_weights(each.input[1], 0 if each.op_type == "Conv" or transposed else 1)
            if is_product and len(each.input) > 2:
                each.input[2] = of_bias(each.input[2], scales[each.input[0]] * scales[each.input[1]])
        nodes.append(each)
    _replace_nodes(graph, nodes)
    made.opset_import[0].version = 13
    return made


def _replace_nodes(graph: Any, nodes: list[Any]) -> None:
    del graph.node[:]
    graph.node.extend(nodes)
    used = {name for each in nodes for name in each.input}
    stored = [each for each in graph.initializer if each.name in used]
    known = {each.name for each in graph.initializer}
    inputs = [each for each in graph.input if each.name not in known]
    del graph.input[:]
    graph.input.extend(inputs)
    del graph.initializer[:]
    graph.initializer.extend(stored)
