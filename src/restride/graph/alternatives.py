"""In which formats each operation can run, and how long it takes there: what propagation chooses from.

Operations that sum products choose: the formats that their kernels want, or row-major ones. Others follow:
one alternative for each format in which their first input may come. Reshapes, transposes and slices are
views, where the format that comes can say them; they take no time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod

from ..desc.memory_desc import MemoryDesc
from ..errors import Error
from ..plan.convolution_problem import ConvolutionProblem
from ..plan.cost import KernelWork, predict
from ..plan.inner_product_problem import InnerProductProblem
from ..plan.machine import Machine
from ..plan.matmul_problem import MatmulProblem
from ..primitives.any_format import resolved, resolved_operand
from ..primitives.convolution_shapes import kernel_block
from .format_problem import Alternative, EdgeCost, FormatStep
from .graph import Graph, Node
from .operations import (
    BatchNormalizationOperation,
    BinaryOperation,
    ConcatOperation,
    ConvolutionOperation,
    DeconvolutionOperation,
    InnerProductOperation,
    LayerNormalizationOperation,
    MatmulOperation,
    PReluOperation,
    ReshapeOperation,
    SliceOperation,
    SumOperation,
    TensorType,
    TransposeOperation,
)

Descs = tuple[MemoryDesc, ...]
_NO_DESC = MemoryDesc()
# Multiply-adds of f32 that two cores of a machine with wide vectors do in a second.
_TERM_RATE = 1e11
_MACHINE = Machine(vector_bytes=64, registers=32)
_VIEWS = (ReshapeOperation, TransposeOperation, SliceOperation)
_PER_CHANNEL = (BatchNormalizationOperation, LayerNormalizationOperation)


def format_steps(graph: Graph, inputs: Mapping[str, MemoryDesc]) -> tuple[FormatStep, ...]:
    """A step for each node, with the alternatives that the formats of its inputs leave it."""
    comes: dict[str, Descs] = {name: (md,) for name, md in inputs.items()}
    steps = []
    for node in graph:
        types = [graph.tensors[name] for name in node.inputs]
        made = [graph.tensors[name] for name in node.outputs]
        found = _alternatives(node, types, made[0], [comes[name] for name in node.inputs])
        steps.append(FormatStep(node.name, node.inputs, node.outputs, found, not chooses(node)))
        for at, name in enumerate(node.outputs):
            comes[name] = tuple(dict.fromkeys(each.outputs[at] for each in found))
    return tuple(steps)


def chooses(node: Node) -> bool:
    """True for what has formats of its own choice."""
    return isinstance(node.operation, ConvolutionOperation | InnerProductOperation | MatmulOperation)


def is_view(node: Node) -> bool:
    """True for what needs no kernel: another descriptor of the same bytes."""
    return isinstance(node.operation, _VIEWS)


def plain(kind: TensorType) -> MemoryDesc:
    """A tensor in row-major order."""
    return MemoryDesc(kind.dims, kind.data_type)


def reorder_cost(src: MemoryDesc, dst: MemoryDesc) -> EdgeCost:
    """What a reorder between two formats takes."""
    moved = src.size + dst.size
    kind = "copy" if src.layout.inner == dst.layout.inner and src.strides == dst.strides else "transpose"
    return EdgeCost(predict(KernelWork(kind, moved, src.nelems), _MACHINE).seconds, moved)


def _alternatives(
    node: Node, types: Sequence[TensorType], made: TensorType, comes: Sequence[Descs]
) -> tuple[Alternative, ...]:
    operation, sources = node.operation, len(node.sources)
    if isinstance(operation, ConvolutionOperation):
        found = _convolved(operation, types[:sources], made)
    elif isinstance(operation, InnerProductOperation):
        found = _product(types[:sources], made)
    elif isinstance(operation, MatmulOperation):
        found = _matmul(types[:sources], made, comes)
    elif is_view(node):
        return _views(node, types[0], comes[0])
    else:
        found = _following(node, types[:sources], made, comes)
    return tuple(_with_operands(node, types[sources:], each) for each in dict.fromkeys(found))


def _with_operands(node: Node, types: Sequence[TensorType], alternative: Alternative) -> Alternative:
    """The same with operands of epilogues, as far as they are large in the format of the result."""
    operands = tuple(_like(kind, alternative.outputs[0]) for kind in types)
    return Alternative((*alternative.inputs, *operands), alternative.outputs, alternative.seconds)


def _like(kind: TensorType, md: MemoryDesc) -> MemoryDesc:
    """A tensor in the format of another, whose dims it has or is repeated to."""
    return resolved_operand(_open(kind), md)


def _open(kind: TensorType) -> MemoryDesc:
    return MemoryDesc(kind.dims, kind.data_type, "any")


# --- what chooses -------------------------------------------------------------------------------------------


def _chosen(
    types: Sequence[TensorType], made: TensorType, wanted: Mapping[str, MemoryDesc], terms: int
) -> list[Alternative]:
    """The formats that kernels want, and row-major ones, from and to which kernels move what they need to."""
    source, weights, result = wanted["src"], wanted["weights"], wanted["dst"]
    bias = tuple(map(plain, types[2:]))
    plain_source, plain_result = plain(types[0]), plain(made)
    moves = [(plain_source, source), (result, plain_result)]
    extra = sum(reorder_cost(*each).seconds for each in moves if each[0] != each[1])
    seconds = terms / _TERM_RATE + predict(KernelWork("copy", source.size + result.size, 0), _MACHINE).seconds
    return [
        Alternative((source, weights, *bias), (result,), seconds),
        Alternative((plain_source, weights, *bias), (plain_result,), seconds + extra),
    ]


def _convolved(
    operation: ConvolutionOperation, types: Sequence[TensorType], made: TensorType
) -> list[Alternative]:
    is_transposed = isinstance(operation, DeconvolutionOperation)
    mds = (plain(types[0]), plain(types[1]), plain(made))
    problem = ConvolutionProblem(
        "forward",
        is_transposed,
        mds,
        _NO_DESC,
        operation.strides,
        tuple(each + 1 for each in operation.dilates),
        operation.padding_l,
        kernel_block(),
    )
    preferred = problem.preferred()
    wanted = dict(zip(("src", "weights", "dst"), (preferred[name] for name in problem.names), strict=True))
    return _chosen(types, made, wanted, problem.terms)


def _product(types: Sequence[TensorType], made: TensorType) -> list[Alternative]:
    mds = (plain(types[0]), plain(types[1]), plain(made))
    wanted = InnerProductProblem("forward", mds, _NO_DESC, kernel_block()).preferred()
    return _chosen(types, made, wanted, prod(types[0].dims) * made.dims[1])


def _matmul(types: Sequence[TensorType], made: TensorType, comes: Sequence[Descs]) -> list[Alternative]:
    wanted = MatmulProblem(
        plain(types[0]), plain(types[1]), _NO_DESC, plain(made), kernel_block()
    ).preferred()
    return _chosen(types, made, wanted, made.elements * types[0].dims[-1])


# --- what follows -------------------------------------------------------------------------------------------


def _following(
    node: Node, types: Sequence[TensorType], made: TensorType, comes: Sequence[Descs]
) -> list[Alternative]:
    """Row-major, and one alternative for each format in which one of the inputs may come."""
    leader = _leader(node, types, made)
    formats = dict.fromkeys(each for at in _leaders(node, types, made) for each in comes[at])
    found = [
        _followed(node, types, made, md) for md in (*formats, plain(types[leader])) if _is_led_by(md, made)
    ]
    return [each for each in found if each is not None]


def _leader(node: Node, types: Sequence[TensorType], made: TensorType) -> int:
    """The input whose format the others take: the first of the dims of the result, where there is one."""
    if not isinstance(node.operation, BinaryOperation):
        return 0
    return next((at for at, kind in enumerate(types) if kind.dims == made.dims), 0)


def _leaders(node: Node, types: Sequence[TensorType], made: TensorType) -> Iterable[int]:
    operation = node.operation
    if isinstance(operation, BinaryOperation):
        return [at for at, kind in enumerate(types) if kind.dims == made.dims] or [0]
    return range(len(types)) if isinstance(operation, ConcatOperation | SumOperation) else (0,)


def _is_led_by(md: MemoryDesc, made: TensorType) -> bool:
    return md.ndims == len(made.dims)


def _followed(
    node: Node, types: Sequence[TensorType], made: TensorType, md: MemoryDesc
) -> Alternative | None:
    operation, leader = node.operation, _leader(node, types, made)
    if isinstance(operation, _PER_CHANNEL):
        inputs = (md, *map(plain, types[1:]))
    elif isinstance(operation, ConcatOperation):
        inputs = tuple(resolved(_open(kind), md) for kind in types)
        if any(each.padded_dims != each.dims for each in inputs):
            return None
    elif isinstance(operation, BinaryOperation | PReluOperation):
        lead = resolved(_open(types[leader]), md)
        inputs = tuple(lead if at == leader else _like(kind, lead) for at, kind in enumerate(types))
    else:
        inputs = tuple(resolved(_open(kind), md) for kind in types)
        inputs = (md, *inputs[1:]) if types[0].dims == md.dims else inputs
    result = resolved(_open(made), inputs[leader])
    moved = sum(each.size for each in inputs) + result.size
    seconds = predict(KernelWork("copy", moved, made.elements), _MACHINE).seconds
    return Alternative(inputs, (result,), seconds)


# --- views --------------------------------------------------------------------------------------------------


def _views(node: Node, kind: TensorType, comes: Descs) -> tuple[Alternative, ...]:
    view = _viewer(node)
    found = {md: _viewed(view, md) for md in (*comes, plain(kind))}
    return tuple(Alternative((md,), (made,)) for md, made in found.items() if made is not None)


def _viewer(node: Node) -> Callable[[MemoryDesc], MemoryDesc]:
    operation = node.operation
    if isinstance(operation, ReshapeOperation):
        return lambda md: md.reshape(operation.dims)
    if isinstance(operation, TransposeOperation):
        places = [operation.order.index(i) for i in range(len(operation.order))]
        return lambda md: md.permute_axes(places)
    assert isinstance(operation, SliceOperation)
    return lambda md: _sliced(operation, md)


def _sliced(operation: SliceOperation, md: MemoryDesc) -> MemoryDesc:
    if all(step == 1 for step in operation.steps):
        return md.submemory_desc(operation.sizes, operation.starts)
    spans = tuple(
        (n - 1) * step + 1 if n else 0 for n, step in zip(operation.sizes, operation.steps, strict=True)
    )
    window = md.submemory_desc(spans, operation.starts)
    if window.inner_blks:
        raise ValueError("blocks have no steps")
    strides = tuple(stride * step for stride, step in zip(window.strides, operation.steps, strict=True))
    return MemoryDesc.from_strides(operation.sizes, window.data_type, strides, window.offset0)


def _viewed(view: Callable[[MemoryDesc], MemoryDesc], md: MemoryDesc) -> MemoryDesc | None:
    """The view, where the format can say it."""
    try:
        return view(md)
    except (Error, ValueError):
        return None
