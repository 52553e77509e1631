"""`rs.quantize_network`: quantizes an f32 network to bytes, as far as accuracy on samples allows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from ...desc.parse import one_of, parse_word, short_repr
from ...dtypes import DataType
from ...errors import Error, refuse
from ...loading import load_whole
from ..dims import Dims
from ..fields import parse_field
from ..graph import Graph
from ..network.inputs import check_dims, dense_input, in_order
from ..network.network import Network, NetworkParts, parts_of
from ..network.plan import PlannedGraph
from ..nodes.operations import AS_F32, DequantizeOperation, QuantizeOperation
from ..nodes.products import ConvolutionOperation, QuantizedMatmulOperation
from .calibration import METHODS, Calibration, Feed, Loss, integer_scales, losses, observe
from .equalization import balances
from .recipe import Recipe, points, prepared, products

__all__ = [
    "CALIBRATIONS",
    "REFINEMENTS",
    "LayerReport",
    "QuantizationReport",
    "QuantizedNetwork",
    "QuantizedSource",
    "quantize_network",
]

CALIBRATIONS = (*METHODS, "dynamic")
REFINEMENTS = ("bias", "equalization")


@dataclass(frozen=True, slots=True)
class LayerReport:
    """The outcome for a layer: its own `error` (None if it was not tried), and the `reason` to stay f32."""

    name: str
    operation: str
    dims: Dims
    error: float | None
    reason: str = ""

    @property
    def is_quantized(self) -> bool:
        """True if it computes with bytes."""
        return not self.reason


@dataclass(frozen=True, slots=True)
class QuantizationReport:
    """The layers that sum products, in order, and the largest relative error of an output on the samples."""

    layers: tuple[LayerReport, ...]
    error: float

    def __str__(self) -> str:
        rows = [("layer", "operation", "weights", "error", "computes with")]
        for layer in self.layers:
            error = "-" if layer.error is None else f"{100 * layer.error:.2f} %"
            kind = f"f32: {layer.reason}" if layer.reason else "bytes"
            rows.append((layer.name, layer.operation, "x".join(map(str, layer.dims)), error, kind))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(cell.ljust(n) for cell, n in zip(row, widths, strict=True)).rstrip() for row in rows
        ]
        count = sum(layer.is_quantized for layer in self.layers)
        lines += ["", f"{count} of {len(self.layers)} layers, outputs change by {100 * self.error:.2f} %"]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, eq=False)
class QuantizedSource:
    """Makes the graphs of a quantized network: those of the f32 network, changed by a recipe."""

    parts: NetworkParts
    recipe: Recipe
    report: QuantizationReport

    def __call__(self, dims: Mapping[str, Dims]) -> Graph:
        """Return the graph for inputs of these dims."""
        return self.recipe.applied(_graph(self.parts, dims))


class QuantizedNetwork(Network):
    """The result of `rs.quantize_network`: a network that also reports on its layers."""

    @property
    def report(self) -> QuantizationReport:
        """The outcome for each layer; printed as a table."""
        return self._quantized.report

    def to_onnx(self) -> Any:
        """Return the model that the network was loaded from, as a `ModelProto`, with QuantizeLinear and
        DequantizeLinear where the network is quantized.

        Raises RuntimeFailure if the package onnx is missing; Unimplemented for a network that was not loaded
        from an ONNX model, or that is equalized or dynamic.
        """
        load_whole("restride.graph.quantization.qdq")
        from .qdq import qdq_model

        source, names = self._quantized, (each.name for each in self.inputs)
        dims = dict(zip(names, parts_of(self).dims, strict=True))
        return qdq_model(source.parts, source.recipe, dims)

    @property
    def _quantized(self) -> QuantizedSource:
        source = parts_of(self).source
        if not isinstance(source, QuantizedSource):
            raise refuse("RS-G08:no-report")
        return source


def quantize_network(
    network: Network | Graph,
    samples: Iterable[Any],
    calibration: str = "minmax",
    *,
    refine: Iterable[str] = ("bias",),
    keep: Iterable[str] = (),
    layer_error: float = 0.1,
    output_error: float | None = None,
) -> QuantizedNetwork:
    """Quantize a network of f32 to bytes, which approximates its results.

    samples  inputs of calls of the network; a hundred typical ones suffice
    calibration  which part of the observed values bytes have to represent: "minmax" all, "percentile" all but
                 1 number of 10,000 at each end, "mse" the range with the least mean square error.
                 "dynamic": each row of a matrix gets its own scale in a run; convolutions stay f32
    refine  "bias": biases correct the mean of the error. "equalization": channels of a tensor between a layer
            or a norm and the layers after it are first scaled to similar magnitudes
    keep    names of layers that stay f32, as in a report; also globs, "blocks.*.fc1", and names of parts of
            a torch module, "blocks.0", for all layers in them
    layer_error  the relative error above which a layer stays f32: the root of the mean square of the change
                 in its result by quantization, over that of the result, on the samples, with all before it
                 in f32
    output_error  the relative error allowed for the outputs. If it is exceeded, the layers with the largest
                  errors stay f32, as few as possible. By default the error is only reported

    Activations become u8 or s8 with one scale, weights s8 with a scale for each output. Raises
    InvalidArguments for missing samples, and for samples that the network does not accept or that are not
    finite, and for a network that is already quantized or computes with floats other than f32; Unimplemented
    for one that was loaded from a file, or has branches that a run decides.
    """
    try:
        refinements = _words("refine", refine)
        for word in refinements:
            parse_word("quantize_network: refine", word, REFINEMENTS, "no refinement has this name")
        method = parse_word(
            "quantize_network: calibration", calibration, CALIBRATIONS, "no method has this name"
        )
        limit = parse_field("quantize_network: layer_error", float, layer_error)
        most = parse_field("quantize_network: output_error", float | None, output_error)
        for name, share in (("layer_error", limit), ("output_error", most)):
            if share is not None and not share >= 0:
                raise refuse("RS-G08:no-share", name=name, share=share)
        net = Network(network) if isinstance(network, Graph) else network
        if not isinstance(net, Network):
            raise refuse("RS-G08:no-network", type=type(net).__name__)
        parts = parts_of(net)
        seen = _calibration(parts, samples)
        reasons = _reasons(seen.graph, method, _words("keep", keep))
        layers = tuple(name for name, reason in reasons.items() if not reason)
        recipe = Recipe(tuple(reasons), layers)
        if "equalization" in refinements:
            recipe = replace(recipe, balances=balances(seen, layers))
        changed = seen.mapped(recipe.balanced)
        observed = {} if method == "dynamic" else observe(changed, points(seen.graph, layers))
        found: dict[str, Loss] = {}

        def of_layers(names: Iterable[str]) -> Recipe:
            own = tuple(name for name in layers if name in names)
            scales = integer_scales(observed, points(seen.graph, own), method) if observed else {}
            means = {name: found[name].mean for name in own if name in found and "bias" in refinements}
            return replace(recipe, layers=own, scales=scales, corrections=means)

        found = losses(changed, of_layers(layers))
        errors = {name: loss.error(is_corrected="bias" in refinements) for name, loss in found.items()}
        reasons |= {name: f"its error exceeds {limit}" for name, x in errors.items() if not x <= limit}
        order = sorted((name for name in layers if not reasons[name]), key=errors.__getitem__)
        count, error = _most_layers(lambda n: _change(seen, of_layers(order[:n])), len(order), most)
        reasons |= dict.fromkeys(order[count:], f"with it, the error of the outputs exceeds {most}")
        report = QuantizationReport(_rows(seen.graph, reasons, errors), error)
        source = QuantizedSource(parts, of_layers(order[:count]), report)
        # By default, the dims of a sample are planned and saved.
        made = QuantizedNetwork.of_source(
            *replace(parts, source=source, dims=parts.dims or next(iter(seen.graphs))).arguments
        )
        assert isinstance(made, QuantizedNetwork)
        return made
    except Error as error:
        error.drop_frames()
        raise


def _words(what: str, words: Any) -> tuple[str, ...]:
    words = (words,) if isinstance(words, str) else tuple(words) if isinstance(words, Iterable) else words
    parsed: tuple[str, ...] = parse_field(f"quantize_network: {what}", tuple[str, ...], words)
    return parsed


# --- samples and graphs -------------------------------------------------------------------------------------


def _calibration(parts: NetworkParts, samples: Iterable[Any]) -> Calibration:
    """Check the samples, and return them with the graphs for their dims."""
    feeds: dict[tuple[Dims, ...], list[Feed]] = {}
    for number, sample in enumerate(samples if isinstance(samples, Iterable) else ()):
        arrays = {}
        if isinstance(sample, list | tuple) and any(getattr(x, "shape", ()) for x in sample):
            raise refuse("RS-G08:sample-listed", number=number, count=len(sample))
        for tensor, x in zip(parts.inputs, in_order(parts.inputs, sample), strict=True):
            arrays[tensor.name] = array = dense_input(tensor, x)
            check_dims(tensor, array.shape)
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise refuse("RS-G08:sample-not-finite", number=number, name=tensor.name)
        feeds.setdefault(tuple(array.shape for array in arrays.values()), []).append(arrays)
    if not feeds:
        raise refuse("RS-G08:no-samples")
    names = [each.name for each in parts.inputs]
    return Calibration({dims: _graph(parts, dict(zip(names, dims, strict=True))) for dims in feeds}, feeds)


def _graph(parts: NetworkParts, dims: Mapping[str, Dims]) -> Graph:
    graph = parts.source(dims)
    if isinstance(graph, PlannedGraph):
        raise refuse("RS-G08:no-graph")
    for node in graph.nodes:
        if isinstance(node.operation, DequantizeOperation | QuantizeOperation | QuantizedMatmulOperation):
            raise refuse("RS-G08:has-bytes", node=node.name)
    return prepared(graph, parts.without)


def _reasons(graph: Graph, method: str, keep: tuple[str, ...]) -> dict[str, str]:
    """Return the layers that sum products, in order, with the reasons to keep them f32; "" if quantizable."""
    reasons = products(graph)
    kept: list[str] = []
    for word in keep:
        own = [name for name in reasons if name.startswith(f"{word}.") or fnmatchcase(name, word)]
        if word not in reasons and not own:
            raise refuse("RS-G08:no-layer", name=short_repr(word), advice=one_of(reasons, word))
        kept += [word] if word in reasons else own
    for node in graph.nodes:
        kinds = {graph.tensors[name].data_type for name in (*node.inputs, *node.outputs)}
        if node.name in reasons and (other := [x for x in kinds if x in AS_F32[1:]]):
            raise refuse("RS-G08:other-floats", node=node.name, kind=other[0])
        if method == "dynamic" and isinstance(node.operation, ConvolutionOperation):
            reasons[node.name] = "a convolution has no rows"
    reasons |= dict.fromkeys(kept, "it is in keep")
    if all(reasons.values()):
        lines = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        raise refuse("RS-G08:nothing", reasons=lines or "it sums no products")
    return reasons


# --- choosing layers ----------------------------------------------------------------------------------------


def _change(seen: Calibration, recipe: Recipe) -> float:
    """Return the relative error of the outputs on the samples: the largest, if there are several."""
    names = [name for name in seen.graph.outputs if seen.graph.tensors[name].data_type is DataType.f32]
    sums = {name: np.zeros(2) for name in names}
    pairs = zip(seen.values(names), seen.mapped(recipe.applied).values(names), strict=True)
    for (name, exact), (_, values) in pairs:
        change = values.astype(np.float64) - exact
        sums[name] += np.square(change).sum(), np.square(exact, dtype=np.float64).sum()
    least = np.finfo(np.float64).tiny
    return max((float(np.sqrt(square / max(size, least))) for square, size in sums.values()), default=0.0)


def _most_layers(error: Callable[[int], float], count: int, most: float | None) -> tuple[int, float]:
    """Return how many layers, those with the least errors first, can be quantized, and the outputs' error."""
    own = error(count) if count else 0.0
    if most is None or own <= most:
        return count, own
    good, bad, own = 0, count, 0.0
    while bad - good > 1:
        middle = (good + bad) // 2
        if (found := error(middle)) <= most:
            good, own = middle, found
        else:
            bad = middle
    return good, own


def _rows(graph: Graph, reasons: Mapping[str, str], errors: Mapping[str, float]) -> tuple[LayerReport, ...]:
    nodes = {node.name: node for node in graph.nodes}
    return tuple(
        LayerReport(
            name,
            nodes[name].kind,
            graph.tensors[nodes[name].inputs[1]].dims,
            errors.get(name),
            reason,
        )
        for name, reason in reasons.items()
    )
