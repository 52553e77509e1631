"""Format problem of a graph: the formats in which each node can run, and the time that takes.

| nodes | alternatives |
| --- | --- |
| convolution, deconvolution | the formats that "any" gives; every pair of row-major, channels last, blocked |
| gradients of these | the same |
| inner product, matmul | row-major, with weights as "any" gives them; and the incoming format |
| recurrent layers | row-major, and any strides of the source; weights as "any" gives them |
| strided operations, such as attention | any strides, independently for each tensor |
| reshape, transpose, slice | the incoming format, if the result is another descriptor of the same memory |
| all others | the incoming format, and the result like it, as "any" gives it |

Incoming formats are those that earlier nodes can produce, row-major, and the formats of images if a reader of
the tensor, or a node after it, is faster with them; at most eight per tensor. So a reorder can be placed
anywhere: after a pooling that shrinks a tensor as well as before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

from ...desc.memory_desc import MemoryDesc
from ...desc.parse import short_repr
from ...errors import Error, refuse
from ...ir.digits import reorder_nest
from ...ir.nest import Compute, LoopNest
from ...ir.pointwise import moved_bytes
from ...model.any_format import resolved, resolved_operand
from ...ops.convolution import ConvolutionProblem
from ...ops.product import BACKWARD_DATA, FORWARD, ProductProblem, kernel_block, kernel_pack
from ...ops.programs.rnn_descs import RnnTensors
from ...ops.rnn import RnnProblem
from ...runtime.cpu.kernel import is_small
from ...runtime.engine import Engine
from ...schedule.cost import KernelWork, predict
from ...schedule.machine import RATES
from ...targets.cpu import lower_nest, machine_of
from ...targets.isa import CacheSizes, host_isa
from ..graph import Graph, Node
from ..lowering import lower_node
from ..network.concat_windows import free_concats, part_windows
from ..nodes.moves import (
    ReshapeOperation,
    ShuffleOperation,
    SliceOperation,
    TransposeOperation,
)
from ..nodes.operations import Operation, TensorType, row_major
from ..nodes.products import (
    ConvolutionOperation,
    InnerProductOperation,
    MatmulOperation,
    QuantizedMatmulOperation,
    WinogradConvolutionOperation,
)
from ..nodes.recurrent import RecurrentOperation
from .problem import Alternative, EdgeCost, FormatProblem, FormatStep
from .step_cost import EDGES, NOMINAL_THREADS, CostModel, gains_by_channels

__all__ = ["VIEWS", "chosen_problem", "format_problem", "is_same_memory", "view_of"]

# Operations whose result is the same memory with another descriptor, if a descriptor can express it.
VIEWS = (ReshapeOperation, TransposeOperation, SliceOperation)

_MOST_FORMATS = 8
# Maximum number of formats that the views of a tensor request.
_MOST_WANTED = 2
# Maximum number of formats of each source of an operation that reads any strides.
_MOST_STRIDED = 3
# Nodes whose results can differ in format from their sources: they write rows and elements anywhere.
_TO_ANY_FORMAT = ("layer_normalization", "binary", "eltwise")
_LETTERS = "abcdefghijkl"
_NO_DESC = MemoryDesc()


def format_problem(
    graph: Graph,
    formats: Mapping[str, MemoryDesc] | None = None,
    costs: CostModel | None = None,
) -> FormatProblem:
    """Return the format problem of a graph: one step per node, in the same order.

    `formats`: the descriptors of inputs and outputs that are not row-major; of format "any" are outputs that
    stay as they are written. `costs`: what steps take; where it is left out, on the nominal
    machine of this instruction set.
    """
    edges = formats or {}
    costs = costs or CostModel(machine_of(host_isa(), CacheSizes()), NOMINAL_THREADS)
    writer = _AlternativesWriter(graph, costs, _edge_formats(graph, edges))
    return _problem(graph, writer.steps(), edges)


def chosen_problem(graph: Graph, ways: Sequence[Alternative]) -> FormatProblem:
    """Return the problem of a graph with one alternative per step, chosen earlier.

    Input from a file is checked: every format must have the dims and the type of its tensor, and a view of
    another tensor must be at its place in it. Raises InvalidArguments otherwise.
    """
    if len(ways) != len(graph.nodes):
        raise refuse("RS-F10:graph-nodes", count=short_repr(f"{len(ways)} steps"), count2=len(graph.nodes))
    for node, way in zip(graph.nodes, ways, strict=True):
        pairs = [*zip(node.inputs, way.inputs, strict=False), *zip(node.outputs, way.outputs, strict=False)]
        for name, md in pairs:
            kind = graph.tensors[name]
            is_known = md.format_kind == "blocked" or (md.format_kind == "opaque" and name in graph.constants)
            if (md.dims, md.data_type) != (kind.desc_dims, kind.data_type) or not is_known:
                raise refuse("RS-F10:formats-were-chosen", name=short_repr(f"{name!r} as {md}"), kind=kind)
        if isinstance(node.operation, VIEWS):
            view = view_of(node.operation, way.inputs[0], graph.tensors[node.output])
            if way.outputs != (view,):
                text = short_repr(f"{node.output!r} as {way.outputs}")
                raise refuse("RS-F10:view-another-tensor", output=text)
    steps = (
        FormatStep(node.name, node.inputs, node.outputs, (way,))
        for node, way in zip(graph.nodes, ways, strict=True)
    )
    return _problem(graph, steps, {})


def _problem(graph: Graph, steps: Iterator[FormatStep], edges: Mapping[str, MemoryDesc]) -> FormatProblem:
    ends = {name: edges.get(name, row_major(graph.tensors[name])) for name in graph.outputs}
    return FormatProblem(
        tuple(steps),
        tuple(_edge_formats(graph, edges).items()),
        tuple((name, md) for name, md in ends.items() if md.format_kind != "any"),
        _edge_cost,
        frozenset(graph.constants),
    )


def _edge_formats(graph: Graph, edges: Mapping[str, MemoryDesc]) -> dict[str, MemoryDesc]:
    """Return the formats of the tensors that no node makes."""
    plain = {name: row_major(graph.tensors[name]) for name in (*graph.inputs, *graph.constants)}
    return {name: edges.get(name, md) if name in graph.inputs else md for name, md in plain.items()}


def is_same_memory(src: MemoryDesc, dst: MemoryDesc) -> bool:
    """True if two formats put every element, and all zeros of padding, in the same place.

    Example: `nChw16c` and `nchw` of one pixel with 32 channels.
    """
    if (src.dims, src.data_type) != (dst.dims, dst.data_type):
        return False
    return _moves_nothing(src, dst, reorder_nest(src, dst, Compute()))


def _moves_nothing(src: MemoryDesc, dst: MemoryDesc, nest: LoopNest) -> bool:
    return (
        src.size == dst.size
        and src.padded_dims == dst.padded_dims
        and nest.src_base == nest.dst_base
        and all(axis.src == axis.dst for axis in nest.axes if axis.extent != 1)
    )


@lru_cache(maxsize=4096)
def _edge_cost(src: MemoryDesc, dst: MemoryDesc) -> EdgeCost:
    """The cost that a kernel is predicted to have on the nominal machine of this instruction set."""
    nest = reorder_nest(src, dst, Compute())
    if _moves_nothing(src, dst, nest):
        return EdgeCost(0.0, 0)
    nbytes = moved_bytes([src], dst)
    if nest.is_empty or nest.has_nibbles:
        return EdgeCost(EDGES * nbytes / RATES.memory, nbytes)
    isa, caches = host_isa(), CacheSizes()
    lowered = lower_nest(nest, isa, caches)
    shared = 1 if is_small(lowered.steps, nbytes) else min(NOMINAL_THREADS, lowered.steps)
    read_first = 0 if lowered.streams else dst.data_type.nbytes(prod(dst.padded_dims))
    work = KernelWork(lowered.kind, nbytes, nest.positions, shared, read_first=read_first)
    return EdgeCost(EDGES * predict(work, machine_of(isa, caches)).seconds, nbytes)


def view_of(operation: Operation, source: MemoryDesc, result: TensorType) -> MemoryDesc | None:
    """Return the result of a reshape, transpose or slice as a descriptor of its source, or None."""
    if isinstance(operation, TransposeOperation):
        places = sorted(range(len(operation.order)), key=operation.order.__getitem__)
        return source.permute_axes(places) if operation.order else source
    if isinstance(operation, ReshapeOperation):
        if source == MemoryDesc(source.dims, source.data_type):
            return row_major(result)
        kept = source.reshape(result.desc_dims, allow_empty=True)
        blocked = kept or source.reshape(result.desc_dims, allow_empty=True, new_blocks=True)
        # Blocks of scattered elements are slower than a copy.
        return blocked if kept or (blocked and _row(blocked) == blocked.ndims - 1) else None
    return _sliced(operation, source) if isinstance(operation, SliceOperation) else None


def _sliced(operation: SliceOperation, source: MemoryDesc) -> MemoryDesc | None:
    """Return a slice as a descriptor; blocks allow no steps other than 1."""
    if not operation.sizes:
        return source
    counted = list(zip(operation.starts, operation.sizes, operation.steps, strict=True))
    spans = tuple((n - 1) * abs(step) + 1 if n else 0 for _, n, step in counted)
    lows = tuple(start + min((n - 1) * step, 0) if n else 0 for start, n, step in counted)
    try:
        window = source.submemory_desc(spans, lows)
    except Error:
        return None
    if set(operation.steps) <= {1}:
        return window
    if window.inner_blks:
        return None
    strides = tuple(stride * step for stride, step in zip(window.strides, operation.steps, strict=True))
    firsts = zip(operation.starts, lows, window.strides, strict=True)
    start = window.offset0 + sum((first - low) * stride for first, low, stride in firsts)
    return MemoryDesc.from_strides(operation.sizes, window.data_type, strides, start)


def _families(tensor: TensorType) -> list[MemoryDesc]:
    """Return the row-major format, and for images channels last and blocked channels too."""
    dims, data_type = tensor.desc_dims, tensor.data_type
    if len(dims) < 3 or not prod(dims):
        return [MemoryDesc(dims, data_type)]
    letters = _LETTERS[: len(dims)]
    tags = (letters, f"a{letters[2:]}b", f"aB{letters[2:]}{kernel_block()}b")
    return list(dict.fromkeys(MemoryDesc(dims, data_type, tag) for tag in tags))


def _is_strided(operation: Operation) -> bool:
    return operation._spec is not None and operation._spec.is_strided


def _is_gradient(operation: Operation) -> bool:
    spec = operation._spec
    return spec is not None and issubclass(spec, ConvolutionProblem) and spec.direction is not FORWARD


def _images(graph: Graph) -> set[str]:
    """Return the tensors whose image format matters to a reader, or to a node to which that passes it on."""
    found = set[str]()
    for node in reversed(graph.nodes):
        has_gain = isinstance(node.operation, ConvolutionOperation) or gains_by_channels(node.kind)
        has_gain = has_gain or _is_gradient(node.operation)
        is_end = isinstance(node.operation, (*_CHOOSERS, ReshapeOperation, TransposeOperation))
        is_end = is_end or _is_strided(node.operation)
        if has_gain or (not is_end and found.intersection(node.outputs)):
            found.update(node.inputs)
    return found


def _row(md: MemoryDesc) -> int:
    """Return the axis along which enough elements are adjacent for vector moves; -1 if there is none."""
    if md.inner_blks:
        axis, run = md.inner_idxs[-1], md.inner_blks[-1] * (md.layout.inner_steps[-1] == 1)
    else:
        runs = [(n, axis) for axis, n in enumerate(md.dims) if md.strides[axis] == 1]
        run, axis = max(runs, default=(0, -1))
    return axis if run >= kernel_block() else -1


def _before_views(graph: Graph) -> dict[str, list[MemoryDesc]]:
    """Return, by tensor, the formats that views turn into row-major ones: heads or windows side by side."""
    found: dict[str, list[MemoryDesc]] = {}
    for node in reversed(graph.nodes):
        operation = node.operation
        if not isinstance(operation, ReshapeOperation | TransposeOperation):
            continue
        source = graph.tensors[node.sources[0]]
        wanted = found.setdefault(node.sources[0], [])
        for md in (row_major(graph.tensors[node.output]), *found.get(node.output, ())):
            if isinstance(operation, TransposeOperation):
                own = md.permute_axes(operation.order) if operation.order else md
            else:
                own = md.reshape(source.desc_dims, allow_empty=True, new_blocks=True)
            if own and own not in (*wanted, row_major(source)) and len(wanted) < _MOST_WANTED:
                wanted.append(own)
    return found


def is_dense(md: MemoryDesc) -> bool:
    """True without gaps and repetition: it can be written, and rebuilt from the order of its axes."""
    return md.offset0 == 0 and resolved(MemoryDesc(md.dims, md.data_type, "any"), md) == md


class _AlternativesWriter:
    """Goes through the nodes of a graph and collects the formats in which each tensor can arrive."""

    def __init__(self, graph: Graph, costs: CostModel, formats: Mapping[str, MemoryDesc]) -> None:
        self._graph, self._types, self._costs = graph, graph.tensors, costs
        self._free_concats, self._images = free_concats(graph), _images(graph)
        self._before_views = _before_views(graph)
        self._homes: dict[str, tuple[MemoryDesc, ...]] = {name: (md,) for name, md in formats.items()}

    def steps(self) -> Iterator[FormatStep]:
        for node in self._graph.nodes:
            operation, cls = node.operation, type(self)
            choose = next((rule for kind, rule in _CHOOSERS.items() if isinstance(operation, kind)), None)
            choose = cls._strided if _is_strided(operation) else choose
            choose = cls._gradient if _is_gradient(operation) else choose
            find = choose or (cls._view if isinstance(operation, VIEWS) else cls._following)
            try:
                alternatives = tuple(dict.fromkeys(find(self, node)))
            except Error as error:
                # Most errors do not name their node.
                name = f"node {node.name!r} ({node.kind}): "
                raise error.with_context(name + error.what.removeprefix(name)) from None
            for i, name in enumerate(node.outputs):
                self._homes[name] = tuple(dict.fromkeys(way.outputs[i] for way in alternatives))
            yield FormatStep(node.name, node.inputs, node.outputs, alternatives, choose is None)

    def _formats(self, name: str) -> list[MemoryDesc]:
        """Return the formats in which the tensor can arrive, row-major, and the formats of images."""
        others = _families(self._types[name]) if name in self._images else [self._plain(name)]
        return list(dict.fromkeys([*self._homes[name], *others]))[:_MOST_FORMATS]

    def _unblocked(self, name: str) -> list[MemoryDesc]:
        """Return row-major, and incoming formats without blocks."""
        mds = [self._plain(name), *(md for md in self._homes[name] if not md.inner_blks)]
        return list(dict.fromkeys(mds))[:_MOST_FORMATS]

    def _plain(self, name: str) -> MemoryDesc:
        return row_major(self._types[name])

    def _any(self, name: str) -> MemoryDesc:
        return MemoryDesc(self._types[name].desc_dims, self._types[name].data_type, "any")

    # --- choosers -------------------------------------------------------------------------------------------

    def _problem(self, node: Node, **numbers: Any) -> ProductProblem:
        """Return the problem of a product with open formats."""
        spec = node.operation._spec
        assert spec is not None
        assert issubclass(spec, ProductProblem)
        descs = self._any(node.sources[0]), self._any(node.sources[1]), self._any(node.output)
        pack = kernel_pack(descs[0].data_type, descs[1].data_type)
        return spec(tensors=descs, bias=_NO_DESC, block=kernel_block(), pack=pack, **numbers)

    def _of_product(self, node: Node, src: MemoryDesc, weights: MemoryDesc, dst: MemoryDesc) -> Alternative:
        """Return the formats of a product: row-major bias, operands of epilogues like the result."""
        bias = map(self._plain, node.sources[2:])
        operands = (resolved_operand(self._any(name), dst) for name in node.operands)
        return Alternative((src, weights, *bias, *operands), (dst,))

    def _gradient(self, node: Node) -> Iterator[Alternative]:
        """Yield alternatives of a gradient of a convolution, with source and result as in the forward one."""
        spec, operation = node.operation._spec, node.operation
        assert spec is not None
        assert issubclass(spec, ConvolutionProblem)
        named = dict(zip((*spec.node_reads, *spec.node_writes), (*node.sources, *node.outputs), strict=False))
        source, weights, result = (named[name] for name in spec.direction.names)
        window = {name: getattr(operation, name) for name in ("strides", "dilates", "padding_l")}
        descs = self._any(source), self._any(weights), self._any(result)
        problem = spec(tensors=descs, bias=_NO_DESC, block=kernel_block(), **window)
        first, second, third = (problem.preferred()[name] for name in problem.names)
        is_data, groups = spec.direction is BACKWARD_DATA, problem.relation.groups
        sources = _families(self._types[source]) if is_data else self._formats(source)
        results = self._formats(result) if is_data else _families(self._types[result])
        for src, dst in dict.fromkeys([(first, third), *product(sources, results)]):
            is_transposed = problem.is_transposed != is_data
            seconds = (
                self._costs.convolution(problem.terms, groups, dst, second, src, is_transposed)
                if is_data
                else self._costs.weights_gradient(problem.terms, groups, src, second, dst)
            )
            mds = {source: src, weights: second, result: dst}
            inputs, outputs = (
                tuple(mds.get(name) or self._plain(name) for name in own)
                for own in (node.sources, node.outputs)
            )
            yield Alternative(inputs, outputs, seconds)

    def _convolution(self, node: Node) -> Iterator[Alternative]:
        operation = node.operation
        assert isinstance(operation, ConvolutionOperation)
        window = {name: getattr(operation, name) for name in ("strides", "dilates", "padding_l")}
        problem = self._problem(node, **window)
        assert isinstance(problem, ConvolutionProblem)
        if isinstance(operation, WinogradConvolutionOperation):
            problem = replace(problem, tile=problem.best_tile(may_be_direct=False))
        source, weights, result = (problem.preferred()[name] for name in problem.names)
        pairs = [(source, result)]
        results = _families(self._types[node.output])
        pairs += [(src, dst) for src in self._formats(node.sources[0]) for dst in results]
        for src, dst in pairs:
            seconds = self._costs.convolution(
                problem.terms, operation.groups, src, weights, dst, problem.is_transposed
            )
            yield replace(self._of_product(node, src, weights, dst), seconds=seconds)

    def _product(self, node: Node) -> Iterator[Alternative]:
        left, right = node.sources[:2]
        problem = self._problem(node)
        formats, is_packed = problem.preferred(), right in self._graph.constants
        if isinstance(node.operation, QuantizedMatmulOperation):
            # The best packing also depends on scales and zero points.
            reads = [self._any(x) if x == right else self._plain(x) for x in node.inputs]
            lowered = lower_node(node, reads, [self._plain(node.output)], Engine("cpu"))
            formats["weights"] = lowered.pd.weights_desc()
        rights = [formats["weights"]] if is_packed else self._unblocked(right)
        # Tiles of products can be written to strides; into blocks of rows they would have to be copied.
        strided = (md for md in self._before_views.get(node.output, ()) if not md.inner_blks)
        results = dict.fromkeys([formats["dst"], *strided])
        for src, weights, dst in product(self._unblocked(left), rights, results):
            seconds = self._costs.product(problem.terms, src, weights, dst, is_packed)
            yield replace(self._of_product(node, src, weights, dst), seconds=seconds)

    def _recurrent(self, node: Node) -> Iterator[Alternative]:
        operation = node.operation
        assert isinstance(operation, RecurrentOperation)
        sources, results = ([*map(self._plain, names)] for names in (node.sources, node.outputs))
        reads = zip(RnnProblem.node_reads, sources, strict=False)
        writes = zip(RnnProblem.node_writes, results, strict=False)
        descs = {name.removesuffix("?").removesuffix("_desc"): md for name, md in (*reads, *writes)}
        tensors = RnnTensors.of(descs)
        problem = RnnProblem(operation.rnn_cell, operation.direction, False, tensors, kernel_block())
        formats = problem.preferred()
        packed = [name in self._graph.constants for name in node.sources[1:3]]
        for place, name in enumerate(("weights_layer", "weights_iter"), 1):
            sources[place] = formats[name] if packed[place - 1] else sources[place]
        terms = sources[0].dims[0] * sources[0].dims[1] * sum(prod(md.dims) for md in sources[1:3])
        for source in self._unblocked(node.sources[0]):
            seconds = self._costs.product(terms, source, sources[1], results[0], all(packed))
            yield Alternative((source, *sources[1:]), tuple(results), seconds)

    def _strided(self, node: Node) -> Iterator[Alternative]:
        sources = [self._unblocked(name)[:_MOST_STRIDED] for name in node.sources]
        strided = (md for md in self._before_views.get(node.output, ()) if not md.inner_blks)
        results = [[*dict.fromkeys([self._plain(node.output), *strided])]]
        results += [[self._plain(name)] for name in node.outputs[1:]]
        for mds in product(*sources, *results):
            inputs, outputs = mds[: len(sources)], mds[len(sources) :]
            yield Alternative(inputs, outputs, self._costs.strided(node.kind, inputs, outputs))

    # --- followers ------------------------------------------------------------------------------------------

    def _view(self, node: Node) -> Iterator[Alternative]:
        (source,) = node.sources
        # Row-major tensors support every view.
        for md in dict.fromkeys([*self._formats(source), self._plain(source)]):
            view = view_of(node.operation, md, self._types[node.output])
            if view is not None:
                yield Alternative((md,), (view,), 0.0)

    def _following(self, node: Node) -> Iterator[Alternative]:
        if not node.inputs:
            yield Alternative((), tuple(map(self._plain, node.outputs)))
            return
        lead = self._leading(node)
        for md in self._formats(lead):
            if isinstance(node.operation, ShuffleOperation) and not is_dense(md):
                # Its result has the format of its source.
                continue
            inputs = tuple(md if name == lead else self._like(name, md) for name in node.inputs)
            outputs = tuple(self._result_like(name, md) for name in node.outputs)
            # A concat does not run if the producers of its parts write them into the whole.
            is_free = node.output in self._free_concats and part_windows(self._graph, node, outputs[0])
            seconds = 0.0 if is_free else self._costs.moving(node.kind, inputs, outputs)
            yield Alternative(inputs, outputs, seconds)
            if node.kind in _TO_ANY_FORMAT:
                yield from self._mixed(node, inputs, outputs)

    def _mixed(
        self, node: Node, inputs: tuple[MemoryDesc, ...], outputs: tuple[MemoryDesc, ...]
    ) -> Iterator[Alternative]:
        """Yield results in formats that views request, and other inputs as they arrive, if rows agree."""
        result, *others = outputs
        row = _row(result)
        found = [(inputs, md) for md in self._before_views.get(node.output, ())]
        for i, name in enumerate(node.inputs[1:], 1):
            own = (md for md in self._homes[name] if md.dims == result.dims)
            found += [((*inputs[:i], md, *inputs[i + 1 :]), result) for md in own]
        for mds, dst in found:
            rows = {_row(md) for md in (*mds, dst) if md.dims == dst.dims}
            if (mds, dst) != (inputs, result) and rows == {row} and row >= 0:
                written = dst, *others
                yield Alternative(mds, written, self._costs.moving(node.kind, mds, written))

    def _leading(self, node: Node) -> str:
        """Return the input that gives the result its format: the first non-constant one as large as it."""
        moving = [name for name in node.sources if name not in self._graph.constants] or list(node.inputs)
        dims = self._types[node.output].dims
        return next((name for name in moving if self._types[name].dims == dims), moving[0])

    def _like(self, name: str, md: MemoryDesc) -> MemoryDesc:
        """Return another input's format in a follower: the same order of axes, with blocks where they fit."""
        if len(self._types[name].desc_dims) != md.ndims:
            return self._plain(name)
        operand = resolved_operand(self._any(name), md)
        # A copy does not need the gaps of a view.
        return operand if operand in self._homes[name] or is_dense(operand) else self._plain(name)

    def _result_like(self, name: str, md: MemoryDesc) -> MemoryDesc:
        """Return the dense format of a follower's result; without blocks if a dim has become 1."""
        like = resolved(self._any(name), md)
        return MemoryDesc(md.dims, md.data_type) if like == md and not is_dense(md) else like


_CHOOSERS: Mapping[type[Operation], Callable[[_AlternativesWriter, Node], Iterator[Alternative]]] = {
    ConvolutionOperation: _AlternativesWriter._convolution,
    InnerProductOperation: _AlternativesWriter._product,
    MatmulOperation: _AlternativesWriter._product,
    RecurrentOperation: _AlternativesWriter._recurrent,
}
