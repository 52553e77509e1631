"""A quantized network as an ONNX model: the one that it was loaded from, with QuantizeLinear and
DequantizeLinear around its layers.

    conv(x, w, b)   ->   conv(dequantized quantized x, dequantized w of s8, dequantized b of s32)

The same is done to tensors that other nodes read as bytes, if the model has a name for them. Biases correct
the mean of the error as in the network, before anything was folded into weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import prod
from typing import Any

import numpy as np

from ...dtypes import DataType
from ...errors import Error, refuse
from ..dims import Dims
from ..graph import Graph, Node
from ..importers.onnx.inputs import ModelSource
from ..importers.onnx.islands import IslandInput, model_bytes
from ..importers.onnx.model import OnnxModel, OnnxNode
from ..importers.onnx.reader import translated_tensors
from ..importers.operator_call import Value
from ..network.network import NetworkParts
from ..nodes.moves import ReshapeOperation
from ..rewrites.affine import channel_axes
from ..rewrites.draft import Array
from ..rewrites.integer_chains import IntegerType
from .recipe import Recipe, prepared, weights_of

__all__ = ["qdq_model"]

_LEAST_OPSET, _NORM = 13, "BatchNormalization"
_READERS = (
    *("Add", "Sum", "Mul", "MaxPool", "AveragePool", "GlobalAveragePool", "ReduceMean", "Concat", "Reshape"),
    *("Flatten", "Transpose", "Slice", "Squeeze", "Unsqueeze", "Relu", "Clip"),
)


def qdq_model(parts: NetworkParts, recipe: Recipe, dims: Mapping[str, Dims]) -> Any:
    """Return the `ModelProto`; `dims`: of the model's inputs. Raises as `QuantizedNetwork.to_onnx` does."""
    source = parts.source
    if not isinstance(source, ModelSource) or source.model.functions is None:
        raise _refusal("network", "it was not loaded by rs.onnx.load", "save it with net.save")
    if recipe.balances or (recipe.layers and not recipe.scales):
        why = "it is equalized" if recipe.balances else "its scales are computed in a run"
        raise _refusal("network", why, "quantize it with static scales, and without equalization")
    if find_spec("onnx") is None:
        raise refuse("RS-G04:onnx-writer")
    model = source.model.unpacked
    if model.opset < _LEAST_OPSET:
        hint = f"onnx.version_converter.convert_version(model, {_LEAST_OPSET}) converts it to a later version"
        raise _refusal(f"version {model.opset}", "scales of channels need version 13", hint)
    graph, values = translated_tensors(model, dims)
    export = _Export(model, recipe, graph, prepared(graph, parts.without), values)
    return export.model_proto()


def _refusal(where: str, why: str, hint: str) -> Error:
    return refuse("RS-G08:no-model", where=where, why=why, hint=hint)


@dataclass(slots=True)
class _Export:
    """The model, its graph as read, and the prepared graph, to which the recipe refers. `values`: the result
    of each tensor of the model. `made`: the new tensors by name.
    """

    model: OnnxModel
    recipe: Recipe
    read: Graph
    graph: Graph
    values: Mapping[str, Value]
    nodes: list[Any] = field(default_factory=list)
    tensors: dict[str, Array] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)

    def model_proto(self) -> Any:
        import onnx
        from onnx import helper, numpy_helper

        types = {each.name: IslandInput(None, None, each.content) for each in self.model.inputs}
        proto = onnx.ModelProto.FromString(model_bytes(self.model, types))
        layers = dict(self._layers())
        shared = {name: self.recipe.scales[own] for own, name in self._named_tensors()}
        shared |= {node.inputs[0]: self.recipe.scales[layer.inputs[0]] for node, layer, _ in layers.values()}
        norms = {norm.outputs[0] for _, _, norm in layers.values() if norm is not None}
        for node in proto.graph.node:
            layer = layers.get(next(iter(node.output), ""))
            if layer is not None:
                self._quantize(node, *layer)
                continue
            if {*node.output} & norms:
                continue
            if node.op_type in _READERS:
                for at, name in enumerate(node.input):
                    if name in shared:
                        node.input[at] = self._through_bytes(name, shared[name])
            self.nodes.append(node)
        nodes = list(self.nodes)
        del proto.graph.node[:]
        proto.graph.node.extend(nodes)
        proto.graph.name = "quantized"
        del proto.graph.output[:]
        for name in self.model.outputs:
            kind = self.read.tensors[name]
            number = helper.np_dtype_to_tensor_dtype(np.dtype(kind.data_type.numpy))
            proto.graph.output.append(helper.make_tensor_value_info(name, number, [None] * len(kind.dims)))
        proto.graph.initializer.extend(numpy_helper.from_array(x, name) for name, x in self.tensors.items())
        read = {name for node in nodes for name in node.input} | set(self.model.outputs)
        read |= {x for node in self.model.nodes if node.outputs[0] not in layers for x in node.reads()}
        kept = [each for each in proto.graph.initializer if each.name in read]
        del proto.graph.initializer[:]
        proto.graph.initializer.extend(kept)
        return proto

    # --- nodes and tensors of the model ---------------------------------------------------------------------

    def _layers(self) -> Iterator[tuple[str, tuple[OnnxNode, Node, OnnxNode | None]]]:
        """Yield the nodes of the model that are quantized layers, by their outputs, with the nodes of the
        graph, and the batch norms folded into their weights.
        """
        names = {value: name for name, value in self.values.items() if isinstance(value, str)}
        makers = {name: node for node in self.model.nodes for name in node.outputs}
        readers = self.read.readers()
        for layer in self.graph.nodes:
            if layer.name not in self.recipe.layers:
                continue
            name = layer.name
            while name not in names and len(readers[name]) == 1:
                (reader,) = readers[name]
                if not isinstance(reader.operation, ReshapeOperation):
                    break
                name = reader.output
            node = makers.get(names.get(name, ""))
            is_product = node is not None and node.operator in ("Conv", "MatMul", "Gemm")
            if node is None or not is_product or not isinstance(self.values.get(node.inputs[1]), np.ndarray):
                raise _refusal(
                    f"layer {layer.name!r}", "no node of the model corresponds to this layer", "keep it f32"
                )
            norm = makers.get(names.get(layer.output, ""))
            has_norm = norm is not None and norm.operator == _NORM and norm.inputs[0] == node.outputs[0]
            yield node.outputs[0], (node, layer, norm if has_norm else None)

    def _named_tensors(self) -> Iterator[tuple[str, str]]:
        """Yield the quantized tensors that also exist in the model, with their names there.

        Tensors renamed by a fusion are excluded: their original producer writes another tensor now.
        """
        now = {node.name: node.output for node in self.graph.nodes}
        makers = {node.output: node.name for node in self.read.nodes}
        for name, value in self.values.items():
            if not isinstance(value, str) or value not in self.recipe.scales:
                continue
            if now.get(makers.get(value, ""), value) == value:
                yield value, name

    # --- writing --------------------------------------------------------------------------------------------

    def _quantize(self, proto: Any, node: OnnxNode, layer: Node, norm: OnnxNode | None) -> None:
        """Write the node with quantized source, weights and bias."""
        from onnx import helper

        integers = self.recipe.scales[layer.inputs[0]]
        weights = np.asarray(self.values[node.inputs[1]], np.float32)
        known = self.values.get(node.inputs[2]) if len(node.inputs) > 2 else None
        if norm is not None:
            constants = [self.graph.constants[name].values for name in layer.inputs[1:]]
            weights, known = constants[0].reshape(weights.shape), next(iter(constants[1:]), None)
            proto.output[0] = norm.outputs[0]
        has_rows = node.operator == "Conv" or (node.operator == "Gemm" and node.attributes.get("transB"))
        axis = 0 if has_rows else weights.ndim - 1
        quantized, scales = weights_of(weights, (axis,))
        scale = scales.reshape(-1)
        proto.input[0] = self._through_bytes(node.inputs[0], integers)
        proto.input[1] = self._dequantized(f"{layer.name}.weights", quantized, scale, axis)
        change, after = self._correction(layer, self.graph if norm is not None else self.read), list[Any]()
        has_bias = isinstance(known, np.ndarray) and node.attributes.get("beta", 1.0) == 1.0
        if node.operator == "Conv" or has_bias:
            before = 0 if known is None else np.asarray(known).reshape(-1)
            bias = np.broadcast_to(before, scale.shape) + change
            whole = scale.astype(np.float64) * integers.scale
            words = np.clip(np.rint(bias / whole), -(2**31), 2**31 - 1).astype(np.int32)
            name = self._dequantized(f"{layer.name}.bias", words, whole.astype(np.float32), 0)
            del proto.input[2:]
            proto.input.append(name)
        elif np.any(change):
            result, proto.output[0] = proto.output[0], f"{layer.name}.uncorrected"
            self.tensors[f"{layer.name}.correction"] = np.asarray(change, np.float32)
            after.append(helper.make_node("Add", [proto.output[0], f"{layer.name}.correction"], [result]))
        self.nodes += [proto, *after]

    def _correction(self, layer: Node, graph: Graph) -> Array:
        """Return the correction of the layer's result in `graph`, before folding into its weights."""
        change = self.recipe.corrections.get(layer.name, np.zeros(1))
        before = next(node for node in graph.nodes if node.name == layer.name)
        old, new = _largest(graph, before), _largest(self.graph, layer)
        return change * np.divide(old, new, out=np.zeros_like(new), where=new != 0)

    def _through_bytes(self, name: str, integers: IntegerType) -> str:
        quantized, result = f"{name}.bytes", f"{name}.dequantized"
        if result not in self.made:
            kind = np.uint8 if integers.data_type is DataType.u8 else np.int8
            numbers = self._numbers(
                name, np.asarray(integers.scale, np.float32), np.asarray(integers.zero, kind)
            )
            self._add("QuantizeLinear", [name, *numbers], quantized)
            self._add("DequantizeLinear", [quantized, *numbers], result)
        return result

    def _dequantized(self, name: str, values: Array, scale: Array, axis: int) -> str:
        self.tensors[name] = values
        numbers = self._numbers(name, scale, np.zeros(scale.shape, values.dtype))
        return self._add("DequantizeLinear", [name, *numbers], f"{name}.dequantized", axis=axis)

    def _numbers(self, name: str, scale: Array, zero: Array) -> list[str]:
        self.tensors |= {f"{name}.scale": scale, f"{name}.zero": zero}
        return [f"{name}.scale", f"{name}.zero"]

    def _add(self, operator: str, inputs: list[str], output: str, **attributes: int) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        self.made.add(output)
        return output


def _largest(graph: Graph, node: Node) -> Array:
    """Return the largest weight of each output, with its sign: ratios of these are factors of outputs."""
    values = graph.constants[node.inputs[1]].values
    channels = channel_axes(node.operation, values.ndim)
    rows = np.moveaxis(values, channels, range(len(channels)))
    rows = rows.reshape(prod(rows.shape[: len(channels)]), -1)
    largest: Array = rows[np.arange(len(rows)), np.abs(rows).argmax(1)].astype(np.float64)
    return largest
