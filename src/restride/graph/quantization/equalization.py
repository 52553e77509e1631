"""Equalization: channels of a tensor are scaled to similar magnitudes, as they share one byte scale.

    y = layer(x) * 1/f, per output      z = next layer(relu y), its weights times f, per source channel

This applies after layers and norms whose result is read only by layers, possibly through functions that
commute with factors: relu, windows, reshapes. f of a channel is the root of its largest number over the
largest weight that reads it, so that both sides take half of the difference; without the root if weights have
a scale per channel anyway.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from ..dims import Dims
from ..graph import Graph, Node
from ..nodes.layers import BatchNormalizationOperation, LayerNormalizationOperation, PoolingOperation
from ..nodes.moves import ReshapeOperation
from ..nodes.operations import EltwiseOperation
from ..nodes.products import ConvolutionOperation, MatmulOperation
from ..rewrites.draft import Array
from .calibration import Calibration
from .recipe import Balances, products

__all__ = ["balances"]

_LARGEST = 100.0


class _ChannelReader(NamedTuple):
    """A layer that reads channels, and the axis of its weights with these channels."""

    node: Node
    axis: int
    is_depthwise: bool


def balances(calibration: Calibration, layers: Collection[str]) -> Balances:
    """Return the factors of weights, biases, scales and shifts, as in `Recipe.balances`."""
    graph, made = calibration.graph, dict[tuple[str, int, int], Array]()
    readers, pairs = graph.readers(), list[tuple[Node, list[_ChannelReader]]]()
    own = products(graph)
    for node in graph.nodes:
        if _output_axes(graph, node, own):
            channel = _channel(graph, node)
            found = _layers_behind(graph, readers, node.output, channel, layers)
            pairs += [(node, found)] if found else []
    largest: dict[str, Array] = {}
    axes = {node.output: _channel(graph, node) for node, _ in pairs}
    for name, values in calibration.values(axes):
        others = tuple(axis for axis in range(values.ndim) if axis != axes[name])
        sizes = np.abs(values).max(others, initial=0).astype(np.float64)
        largest[name] = np.maximum(largest.get(name, sizes), sizes)
    for node, behind in pairs:
        factors = _factors(graph, largest[node.output], behind)
        for at, axis in _output_axes(graph, node, own).items():
            _multiply(made, (node.name, at, axis), 1 / factors)
        for reader in behind:
            _multiply(made, (reader.node.name, 1, reader.axis), factors)
    return made


def _multiply(made: dict[tuple[str, int, int], Array], key: tuple[str, int, int], factors: Array) -> None:
    made[key] = made.get(key, np.ones(1)) * factors


def _factors(graph: Graph, sizes: Array, behind: list[_ChannelReader]) -> Array:
    if not all(reader.is_depthwise for reader in behind):
        weights = np.zeros_like(sizes)
        for reader in behind:
            values = np.abs(graph.constants[reader.node.inputs[1]].values)
            others = tuple(axis for axis in range(values.ndim) if axis != reader.axis)
            weights = np.maximum(weights, values.max(others))
        sizes = np.sqrt(np.divide(sizes, weights, out=np.zeros_like(sizes), where=weights > 0))
    is_live = sizes > 0
    if not is_live.any():
        return np.ones_like(sizes)
    middle = np.exp(np.log(sizes[is_live]).mean())
    return np.where(is_live, np.clip(sizes / middle, 1 / _LARGEST, _LARGEST), 1.0)


def _output_axes(graph: Graph, node: Node, own: Collection[str]) -> Mapping[int, int]:
    """Return the inputs of a layer or a norm that have its channels, with their axes; empty for others.

    `own`: the layers of the graph that sum products.
    """
    operation, inputs = node.operation, node.inputs
    if node.epilogues or any(name not in graph.constants for name in inputs[1:]):
        return {}
    if isinstance(operation, BatchNormalizationOperation | LayerNormalizationOperation):
        return {1: 0, 2: 0} if len(inputs) > 2 else {}
    if node.name not in own or node.kind == "deconvolution":
        return {}
    dims = [graph.constants[name].type.dims for name in inputs[1:]]
    is_matrix = isinstance(operation, MatmulOperation)
    if getattr(operation, "groups", 1) > 1 and dims[0][1] > 1:
        return {}
    axes = {1: len(dims[0]) - 1 if is_matrix else 0}
    return axes | ({2: len(dims[1]) - 1} if len(dims) > 1 else {})


def _channel(graph: Graph, node: Node) -> int:
    is_last = isinstance(node.operation, MatmulOperation | LayerNormalizationOperation)
    return len(graph.tensors[node.output].dims) - 1 if is_last else 1


def _layers_behind(
    graph: Graph, readers: Mapping[str, tuple[Node, ...]], name: str, channel: int, layers: Collection[str]
) -> list[_ChannelReader]:
    """Return all layers that read a tensor, possibly through functions; empty if anything else does."""
    found: list[_ChannelReader] = []
    if name in graph.outputs:
        return []
    dims = graph.tensors[name].dims
    for node in readers[name]:
        operation, made = node.operation, graph.tensors[node.output].dims
        if node.name in layers and node.inputs.count(name) == 1 and node.inputs[0] == name:
            weights = graph.constants[node.inputs[1]].type.dims
            is_matrix, groups = isinstance(operation, MatmulOperation), getattr(operation, "groups", 1)
            if channel != (len(dims) - 1 if is_matrix else 1) or (groups > 1 and weights[2] > 1):
                return []
            is_grouped = isinstance(operation, ConvolutionOperation) and groups > 1
            found.append(_ChannelReader(node, 0 if is_matrix or is_grouped else 1, is_grouped))
            continue
        is_relu = isinstance(operation, EltwiseOperation) and operation.algorithm == "eltwise_relu"
        own = _moved_channel(dims, channel, made) if isinstance(operation, ReshapeOperation) else channel
        keeps_factors = is_relu or isinstance(operation, PoolingOperation | ReshapeOperation)
        if node.epilogues or not keeps_factors or own is None:
            return []
        behind = _layers_behind(graph, readers, node.output, own, layers)
        if not behind:
            return []
        found += behind
    return found


def _moved_channel(dims: Dims, channel: int, made: Dims) -> int | None:
    """Return the axis of the channels after a reshape; None if it splits or merges them."""
    if made[: channel + 1] == dims[: channel + 1]:
        return channel
    return len(made) - 1 if channel == len(dims) - 1 and made[-1:] == dims[-1:] else None
