"""From a graph to a problem of formats: in which formats each node can run, and how long that takes.

| nodes | alternatives |
| --- | --- |
| convolution, deconvolution | the formats that "any" gives; every pair of row-major, channels last, blocked |
| inner product, matmul | row-major, with weights as "any" gives them; and what comes |
| recurrent layers | row-major, and any strides of the source; weights as "any" gives them |
| reshape, transpose, slice | what comes, where its result is the same memory with another descriptor |
| all others | what comes, and the result like it, as "any" gives it |

What comes is what the nodes before can give, and the three formats of images; a tensor has at most eight. So
reorders may stand anywhere, behind a pooling that makes a tensor small as well as in front of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import prod

from ...desc.memory_desc import MemoryDesc
from ...dtypes import DataType
from ...errors import Error
from ...loading import load_whole
from ...model.any_format import resolved, resolved_operand
from ...ops.convolution import ConvolutionProblem, DeconvolutionProblem
from ...ops.inner_product import InnerProductProblem
from ...ops.matmul import MatmulProblem
from ...ops.product import ProductProblem, kernel_block, kernel_pack
from ...plan.cost import MEMORY_RATE
from ...plan.nest import Compute
from ...plan.reorder import reorder_nest
from ...runtime.cpu.thread_pool import get_num_threads
from ...runtime.engine import Engine
from ...targets.cpu import machine_of
from ...targets.isa import host_caches, host_isa
from ..graph import Graph, Node
from ..network.concat_windows import FreeParts, part_windows
from ..nodes.moves import (
    ConcatOperation,
    ReshapeOperation,
    ShuffleOperation,
    SliceOperation,
    TransposeOperation,
)
from ..nodes.operations import Operation, TensorType
from ..nodes.products import (
    ConvolutionOperation,
    DeconvolutionOperation,
    InnerProductOperation,
    MatmulOperation,
)
from ..nodes.recurrent import RecurrentOperation, preferred_weights
from .problem import Alternative, EdgeCost, FormatProblem, FormatStep
from .step_cost import EDGES, CostModel

__all__ = ["VIEWS", "edge_costs", "format_problem", "host_costs", "is_same_memory", "view_of"]

# Operations whose result is the same memory with another descriptor, wherever a descriptor can say so.
VIEWS = (ReshapeOperation, TransposeOperation, SliceOperation)

_MOST_FORMATS = 8
_LETTERS = "abcdefghijkl"
_NO_DESC = MemoryDesc()


def host_costs() -> CostModel:
    """The costs of steps on this machine, with as many threads as share work now."""
    return CostModel(machine_of(host_isa(), host_caches()), get_num_threads())


def format_problem(
    graph: Graph,
    engine: Engine,
    formats: Mapping[str, MemoryDesc] | None = None,
    costs: CostModel | None = None,
) -> FormatProblem:
    """What propagation decides about in a graph: a step for each node, in the same order.

    `formats`: the descriptors of inputs and outputs that are not row-major. `costs`: what steps take; as on
    this machine where it is left out.
    """
    edges = {name: _row_major(graph.tensors[name]) for name in (*graph.inputs, *graph.outputs)}
    edges |= formats or {}
    writer = _AlternativesWriter(graph, costs or host_costs())
    known = {name: edges[name] for name in graph.inputs}
    known |= {name: _row_major(each.type) for name, each in graph.constants.items()}
    return FormatProblem(
        tuple(writer.steps(known)),
        tuple(known.items()),
        tuple((name, edges[name]) for name in dict.fromkeys(graph.outputs)),
        edge_costs(engine),
        frozenset(graph.constants),
    )


def edge_costs(engine: Engine) -> Callable[[MemoryDesc, MemoryDesc], EdgeCost]:
    """What a reorder costs with as many threads as share work now."""
    threads = get_num_threads()
    return lambda src, dst: _edge_cost(engine, threads, src, dst)


def is_same_memory(src: MemoryDesc, dst: MemoryDesc) -> bool:
    """True where two formats have every element in the same place, and all zeros of padding too.

    As `nChw16c` and `nchw` have it of one pixel with 32 channels: nothing has to move.
    """
    if (src.dims, src.data_type) != (dst.dims, dst.data_type):
        return False
    nest = reorder_nest(src, dst, Compute())
    return (
        src.size == dst.size
        and src.padded_dims == dst.padded_dims
        and nest.src_base == nest.dst_base
        and all(axis.src == axis.dst for axis in nest.axes if axis.extent != 1)
    )


@lru_cache(maxsize=4096)
def _edge_cost(engine: Engine, threads: int, src: MemoryDesc, dst: MemoryDesc) -> EdgeCost:
    """What `rs.plan` predicts with so many threads; by its bytes where it predicts nothing."""
    if is_same_memory(src, dst):
        return EdgeCost(0.0, 0)
    load_whole("restride.arrays.reorder_plan")
    from ...arrays.reorder_plan import plan

    found = plan(src, dst, engine=engine)
    predicted = found.predicted
    seconds = predicted.seconds if predicted else found.bytes_moved / MEMORY_RATE
    return EdgeCost(EDGES * seconds, found.bytes_moved)


def view_of(operation: Operation, source: MemoryDesc, result: TensorType) -> MemoryDesc | None:
    """The result of a reshape, transpose or slice as another descriptor of its source; None where none is."""
    if isinstance(operation, TransposeOperation):
        places = sorted(range(len(operation.order)), key=operation.order.__getitem__)
        return source.permute_axes(places) if operation.order else source
    if isinstance(operation, ReshapeOperation):
        if source == _row_major(TensorType(source.dims, source.data_type)):
            return _row_major(result)
        return source.reshape(result.desc_dims, allow_empty=True) or None
    return _sliced(operation, source) if isinstance(operation, SliceOperation) else None


def _sliced(operation: SliceOperation, source: MemoryDesc) -> MemoryDesc | None:
    """A window; with longer or negative strides where elements are left out or go backwards, which blocks
    cannot say.
    """
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


def _row_major(tensor: TensorType) -> MemoryDesc:
    return MemoryDesc(tensor.desc_dims, tensor.data_type)


def _families(dims: tuple[int, ...], data_type: DataType) -> list[MemoryDesc]:
    """Row-major; of images channels last and channels in blocks too."""
    if len(dims) < 3 or not prod(dims):
        return [MemoryDesc(dims, data_type)]
    letters = _LETTERS[: len(dims)]
    tags = (letters, f"a{letters[2:]}b", f"aB{letters[2:]}{kernel_block()}b")
    return list(dict.fromkeys(MemoryDesc(dims, data_type, tag) for tag in tags))


def _dense(md: MemoryDesc) -> bool:
    """No gaps and no repetition: what can be written, and made again from the order of its axes."""
    return md.offset0 == 0 and resolved(MemoryDesc(md.dims, md.data_type, "any"), md) == md


class _AlternativesWriter:
    """The nodes of a graph in turn, and the formats in which each tensor may come."""

    def __init__(self, graph: Graph, costs: CostModel) -> None:
        self._graph, self._costs, self._free_parts = graph, costs, FreeParts(graph)
        self._homes: dict[str, tuple[MemoryDesc, ...]] = {}

    def steps(self, known: Mapping[str, MemoryDesc]) -> Iterator[FormatStep]:
        self._homes = {name: (md,) for name, md in known.items()}
        for node in self._graph.nodes:
            try:
                alternatives = tuple(dict.fromkeys(self._alternatives(node)))
            except Error as error:
                # Most do not know which node they are of.
                name = f"node {node.name!r} ({node.kind}): "
                raise error.with_context(name + error.what.removeprefix(name)) from None
            for i, name in enumerate(node.outputs):
                self._homes[name] = tuple(dict.fromkeys(each.outputs[i] for each in alternatives))
            follows = not isinstance(node.operation, _CHOOSERS)
            yield FormatStep(node.name, node.inputs, node.outputs, alternatives, follows)

    def _alternatives(self, node: Node) -> Iterator[Alternative]:
        if isinstance(node.operation, ConvolutionOperation):
            return self._convolution(node, node.operation)
        if isinstance(node.operation, InnerProductOperation | MatmulOperation):
            return self._product(node)
        if isinstance(node.operation, RecurrentOperation):
            return self._recurrent(node, node.operation)
        if isinstance(node.operation, VIEWS):
            return self._view(node)
        return self._following(node)

    def _formats(self, name: str) -> list[MemoryDesc]:
        """What comes, then the formats of images."""
        made = _families(self._graph.tensors[name].desc_dims, self._graph.tensors[name].data_type)
        return list(dict.fromkeys([*self._homes[name], *made]))[:_MOST_FORMATS]

    def _dims(self, name: str) -> TensorType:
        return self._graph.tensors[name]

    def _any(self, name: str) -> MemoryDesc:
        return MemoryDesc(self._dims(name).desc_dims, self._dims(name).data_type, "any")

    def _operands(self, node: Node, result: MemoryDesc) -> tuple[MemoryDesc, ...]:
        """The operands of epilogues, which lie like the result."""
        return tuple(resolved_operand(self._any(name), result) for name in node.operands)

    # --- choosers -------------------------------------------------------------------------------------------

    def _convolution(self, node: Node, operation: ConvolutionOperation) -> Iterator[Alternative]:
        source, weights, *bias = node.sources
        descs = self._any(source), self._any(weights), self._any(node.output)
        is_transposed = isinstance(operation, DeconvolutionOperation)
        problem = (DeconvolutionProblem if is_transposed else ConvolutionProblem)(
            *(descs, _NO_DESC, kernel_block()),
            pack=kernel_pack(descs[0].data_type, descs[1].data_type),
            strides=operation.strides,
            dilates=operation.dilates,
            padding_l=operation.padding_l,
        )
        wanted = [problem.preferred()[name] for name in problem.names]
        results = _families(descs[2].dims, descs[2].data_type)
        pairs = [(wanted[0], wanted[2])]
        pairs += [(src, dst) for src in self._formats(source) for dst in results]
        for src, dst in pairs:
            seconds = self._costs.convolution(
                problem.terms, operation.groups, src, wanted[1], dst, is_transposed
            )
            inputs = (src, wanted[1], *map(self._plain, bias), *self._operands(node, dst))
            yield Alternative(inputs, (dst,), seconds)

    def _product(self, node: Node) -> Iterator[Alternative]:
        left, right, *bias = node.sources
        descs = self._any(left), self._any(right), self._any(node.output)
        is_inner = isinstance(node.operation, InnerProductOperation)
        kind: type[ProductProblem] = InnerProductProblem if is_inner else MatmulProblem
        pack = kernel_pack(descs[0].data_type, descs[1].data_type)
        problem = kind(descs, _NO_DESC, kernel_block(), pack=pack)
        wanted = problem.preferred()
        is_packed = right in self._graph.constants
        lefts = self._products_of(left)
        rights = [wanted["weights"]] if is_packed else self._products_of(right)
        for src, weights in ((src, weights) for src in lefts for weights in rights):
            seconds = self._costs.product(problem.terms, src, weights, wanted["dst"], is_packed)
            inputs = (src, weights, *map(self._plain, bias), *self._operands(node, wanted["dst"]))
            yield Alternative(inputs, (wanted["dst"],), seconds)

    def _recurrent(self, node: Node, operation: RecurrentOperation) -> Iterator[Alternative]:
        sources, results = ([*map(self._plain, names)] for names in (node.sources, node.outputs))
        weights = preferred_weights(operation, sources, results)
        packed = [name in self._graph.constants for name in node.sources[1:3]]
        for place, (md, is_packed) in enumerate(zip(weights, packed, strict=True), 1):
            sources[place] = md if is_packed else sources[place]
        terms = sources[0].dims[0] * sources[0].dims[1] * sum(prod(md.dims) for md in sources[1:3])
        for source in self._products_of(node.sources[0]):
            inputs = (source, *sources[1:])
            seconds = self._costs.product(terms, source, sources[1], results[0], all(packed))
            yield Alternative(inputs, tuple(results), seconds)

    def _products_of(self, name: str) -> list[MemoryDesc]:
        """Row-major, and what comes without blocks."""
        made = [self._plain(name), *(md for md in self._homes[name] if not md.inner_blks)]
        return list(dict.fromkeys(made))[:_MOST_FORMATS]

    def _plain(self, name: str) -> MemoryDesc:
        return _row_major(self._dims(name))

    # --- followers ------------------------------------------------------------------------------------------

    def _view(self, node: Node) -> Iterator[Alternative]:
        (source,) = node.sources
        # Row-major tensors have every view.
        for md in dict.fromkeys([*self._formats(source), self._plain(source)]):
            view = view_of(node.operation, md, self._dims(node.output))
            if view is not None:
                yield Alternative((md,), (view,), 0.0)

    def _following(self, node: Node) -> Iterator[Alternative]:
        if not node.inputs:
            yield Alternative((), tuple(map(self._plain, node.outputs)))
            return
        lead = self._leading(node)
        for md in self._formats(lead):
            if isinstance(node.operation, ShuffleOperation) and not _dense(md):
                # Its result has the format of its source.
                continue
            inputs = tuple(md if name == lead else self._like(name, md) for name in node.inputs)
            outputs = tuple(self._result_like(name, md) for name in node.outputs)
            seconds = (
                0.0 if self._is_written_in_parts(node, outputs[0]) else self._moving(node, inputs, outputs)
            )
            yield Alternative(inputs, outputs, seconds)

    def _moving(self, node: Node, inputs: Sequence[MemoryDesc], outputs: Sequence[MemoryDesc]) -> float:
        return self._costs.moving(node.kind, inputs, outputs)

    def _is_written_in_parts(self, node: Node, whole: MemoryDesc) -> bool:
        """True for a concat that need not run, as what makes its parts writes them into the whole."""
        if not isinstance(node.operation, ConcatOperation) or node.epilogues:
            return False
        return self._free_parts.is_free(node) and bool(part_windows(self._graph, node, whole))

    def _leading(self, node: Node) -> str:
        """The input whose format the result takes: as large as it, no constant, the first of these."""
        moving = [name for name in node.sources if name not in self._graph.constants] or list(node.inputs)
        dims = self._dims(node.output).dims
        return next((name for name in moving if self._dims(name).dims == dims), moving[0])

    def _like(self, name: str, md: MemoryDesc) -> MemoryDesc:
        """Another input of a follower: in the same order of axes, with blocks where they fit."""
        if len(self._dims(name).desc_dims) != md.ndims:
            return self._plain(name)
        found = resolved_operand(self._any(name), md)
        # A copy need not have the gaps of a view.
        return found if found in self._homes[name] or _dense(found) else self._plain(name)

    def _result_like(self, name: str, md: MemoryDesc) -> MemoryDesc:
        """The result of a follower, dense; without blocks where a dim has become 1."""
        like = resolved(self._any(name), md)
        if like == md and not _dense(md):
            like = MemoryDesc(md.dims, md.data_type)
        return like


_CHOOSERS = (ConvolutionOperation, InnerProductOperation, MatmulOperation, RecurrentOperation)
