"""From a node and the formats of its tensors to a primitive, and which tensor is which argument of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..desc.arguments import (
    ARG_BIAS,
    ARG_DST,
    ARG_MEAN,
    ARG_MULTIPLE_SRC,
    ARG_SCALE,
    ARG_SHIFT,
    ARG_SRC,
    ARG_SRC_1,
    ARG_SRC_2,
    ARG_VARIANCE,
    ARG_WEIGHTS,
    arg_attr_multiple_post_op,
)
from ..desc.attr import PrimitiveAttr
from ..desc.memory_desc import MemoryDesc
from ..desc.post_ops import PostOps
from ..errors import Error
from ..onednn import (
    BatchNormalizationForward,
    Binary,
    Concat,
    ConvolutionForward,
    DeconvolutionForward,
    EltwiseForward,
    GRUForward,
    InnerProductForward,
    LayerNormalizationForward,
    LBRGRUForward,
    LRNForward,
    LSTMForward,
    Matmul,
    PoolingForward,
    PReLUForward,
    Reduction,
    ResamplingForward,
    ShuffleForward,
    SoftmaxForward,
    Sum,
    VanillaRNNForward,
)
from ..ops.normalization import NormalizationFlags
from ..ops.rnn_checks import DIRECTIONS
from ..plan.rnn_descs import NAMES
from ..primitives.base import PrimitiveDescBase
from ..primitives.primitive import Primitive
from ..primitives.reorder import Reorder
from ..runtime.engine import Engine
from .graph import Epilogue, Node
from .layer_operations import (
    BatchNormalizationOperation,
    LayerNormalizationOperation,
    LrnOperation,
    PoolingOperation,
    ReductionOperation,
    ResamplingOperation,
    SoftmaxOperation,
)
from .move_operations import ConcatOperation, ReorderOperation, ShuffleOperation
from .operations import BinaryOperation, EltwiseOperation, Operation, PReluOperation, SumOperation
from .product_operations import (
    ConvolutionOperation,
    DeconvolutionOperation,
    InnerProductOperation,
    MatmulOperation,
)
from .recurrent import RNN_READS, RNN_WRITES, RecurrentOperation

Descs = Sequence[MemoryDesc]
_INFERENCE = "forward_inference"
_GLOBAL = NormalizationFlags.use_global_stats
_AFFINE = NormalizationFlags.use_scale | NormalizationFlags.use_shift
_RNN_PRIMITIVES: Mapping[str, type[Primitive]] = {
    "vanilla_rnn": VanillaRNNForward,
    "vanilla_lstm": LSTMForward,
    "vanilla_gru": GRUForward,
    "lbr_gru": LBRGRUForward,
}
_RNN_DIRECTIONS = {name: word for word, name in DIRECTIONS.items()}


@dataclass(frozen=True)
class LoweredNode:
    """A primitive descriptor, the class of its primitive, and the argument of each tensor in order.

    `reads`: the arguments of the node's inputs, operands of epilogues last; `writes`: those of its outputs.
    """

    kind: type[Primitive]
    pd: PrimitiveDescBase
    reads: tuple[int, ...]
    writes: tuple[int, ...] = (ARG_DST,)


def lower_node(node: Node, inputs: Descs, outputs: Descs, engine: Engine) -> LoweredNode:
    """The primitive of a node that reads and writes these formats. Errors name the node."""
    sources, operands = inputs[: len(node.sources)], inputs[len(node.sources) :]
    try:
        attr, operand_args = _attributes(node.epilogues, operands)
        if isinstance(node.operation, RecurrentOperation):
            return _recurrent(node.operation, sources, outputs, engine)
        made = _LOWERINGS[type(node.operation)](node.operation, sources, outputs[0], engine, attr)
    except Error as error:
        raise error.retold(f"node {node.name!r} ({node.kind}): {error.what}") from None
    return LoweredNode(made.kind, made.pd, (*made.reads, *operand_args))


def lower_reorder(src: MemoryDesc, dst: MemoryDesc, engine: Engine) -> LoweredNode:
    """The reorder between two formats."""
    return LoweredNode(Reorder, Reorder.PrimitiveDesc(engine, src, engine, dst), (ARG_SRC,))


def _attributes(
    epilogues: Sequence[Epilogue], operands: Descs
) -> tuple[PrimitiveAttr | None, tuple[int, ...]]:
    if not epilogues:
        return None, ()
    chain, rest, args = PostOps(), iter(operands), []
    for at, epilogue in enumerate(epilogues):
        operation = epilogue.operation
        if isinstance(operation, BinaryOperation):
            chain.append_binary(operation.algorithm, next(rest))
            args.append(arg_attr_multiple_post_op(at) | ARG_SRC_1)
        else:
            chain.append_eltwise(operation.algorithm, operation.alpha, operation.beta)
    attr = PrimitiveAttr()
    attr.set_post_ops(chain)
    return attr, tuple(args)


# --- one function for each operation ------------------------------------------------------------------------

_Lowering = Callable[[Operation, Descs, MemoryDesc, Engine, PrimitiveAttr | None], LoweredNode]


def _convolution(
    operation: Operation, sources: Descs, dst: MemoryDesc, engine: Engine, attr: PrimitiveAttr | None
) -> LoweredNode:
    assert isinstance(operation, ConvolutionOperation)
    is_transposed = isinstance(operation, DeconvolutionOperation)
    kind = DeconvolutionForward if is_transposed else ConvolutionForward
    bias = sources[2] if len(sources) > 2 else None
    pd = kind.PrimitiveDesc(
        *(engine, _INFERENCE, f"{operation.kind}_direct", sources[0], sources[1], bias, dst),
        *(operation.strides, operation.dilates, operation.padding_l, operation.padding_r),
        attr=attr,
    )
    return LoweredNode(kind, pd, (ARG_SRC, ARG_WEIGHTS, ARG_BIAS)[: len(sources)])


def _inner_product(
    operation: Operation, sources: Descs, dst: MemoryDesc, engine: Engine, attr: PrimitiveAttr | None
) -> LoweredNode:
    bias = sources[2] if len(sources) > 2 else None
    pd = InnerProductForward.PrimitiveDesc(engine, _INFERENCE, *sources[:2], bias, dst, attr=attr)
    return LoweredNode(InnerProductForward, pd, (ARG_SRC, ARG_WEIGHTS, ARG_BIAS)[: len(sources)])


def _matmul(
    operation: Operation, sources: Descs, dst: MemoryDesc, engine: Engine, attr: PrimitiveAttr | None
) -> LoweredNode:
    bias = sources[2] if len(sources) > 2 else None
    pd = Matmul.PrimitiveDesc(engine, *sources[:2], bias, dst, attr=attr)
    return LoweredNode(Matmul, pd, (ARG_SRC, ARG_WEIGHTS, ARG_BIAS)[: len(sources)])


def _pooling(
    operation: Operation, sources: Descs, dst: MemoryDesc, engine: Engine, attr: PrimitiveAttr | None
) -> LoweredNode:
    assert isinstance(operation, PoolingOperation)
    pd = PoolingForward.PrimitiveDesc(
        *(engine, _INFERENCE, operation.algorithm, sources[0], dst, operation.strides, operation.kernel),
        *(operation.dilates, operation.padding_l, operation.padding_r),
        attr=attr,
    )
    return LoweredNode(PoolingForward, pd, (ARG_SRC,))


def _batch_normalization(
    operation: Operation, sources: Descs, dst: MemoryDesc, engine: Engine, attr: PrimitiveAttr | None
) -> LoweredNode:
    assert isinstance(operation, BatchNormalizationOperation)
    flags = _GLOBAL | _AFFINE
    pd = BatchNormalizationForward.PrimitiveDesc(
        engine, _INFERENCE, sources[0], dst, operation.epsilon, flags, attr=attr
    )
    return LoweredNode(BatchNormalizationForward, pd, (ARG_SRC, ARG_SCALE, ARG_SHIFT, ARG_MEAN, ARG_VARIANCE))


def _layer_normalization(
    operation: Operation, sources: Descs, dst: MemoryDesc, engine: Engine, attr: PrimitiveAttr | None
) -> LoweredNode:
    assert isinstance(operation, LayerNormalizationOperation)
    pd = LayerNormalizationForward.PrimitiveDesc(
        engine, _INFERENCE, sources[0], dst, None, operation.epsilon, _AFFINE, attr=attr
    )
    return LoweredNode(LayerNormalizationForward, pd, (ARG_SRC, ARG_SCALE, ARG_SHIFT))


def _lrn(
    operation: Operation, sources: Descs, dst: MemoryDesc, engine: Engine, attr: PrimitiveAttr | None
) -> LoweredNode:
    assert isinstance(operation, LrnOperation)
    numbers = operation.local_size, operation.alpha, operation.beta, operation.k
    pd = LRNForward.PrimitiveDesc(
        engine, _INFERENCE, operation.algorithm, sources[0], dst, *numbers, attr=attr
    )
    return LoweredNode(LRNForward, pd, (ARG_SRC,))


def _softmax(
    operation: Operation, sources: Descs, dst: MemoryDesc, engine: Engine, attr: PrimitiveAttr | None
) -> LoweredNode:
    assert isinstance(operation, SoftmaxOperation)
    pd = SoftmaxForward.PrimitiveDesc(
        engine, _INFERENCE, operation.algorithm, sources[0], dst, operation.axis, attr=attr
    )
    return LoweredNode(SoftmaxForward, pd, (ARG_SRC,))


def _reduction(
    operation: Operation, sources: Descs, dst: MemoryDesc, engine: Engine, attr: PrimitiveAttr | None
) -> LoweredNode:
    assert isinstance(operation, ReductionOperation)
    pd = Reduction.PrimitiveDesc(
        engine, operation.algorithm, sources[0], dst, operation.p, operation.epsilon, attr=attr
    )
    return LoweredNode(Reduction, pd, (ARG_SRC,))


def _resampling(
    operation: Operation, sources: Descs, dst: MemoryDesc, engine: Engine, attr: PrimitiveAttr | None
) -> LoweredNode:
    assert isinstance(operation, ResamplingOperation)
    pd = ResamplingForward.PrimitiveDesc(engine, _INFERENCE, operation.algorithm, sources[0], dst, attr=attr)
    return LoweredNode(ResamplingForward, pd, (ARG_SRC,))


def _eltwise(
    operation: Operation, sources: Descs, dst: MemoryDesc, engine: Engine, attr: PrimitiveAttr | None
) -> LoweredNode:
    assert isinstance(operation, EltwiseOperation)
    numbers = operation.alpha, operation.beta
    pd = EltwiseForward.PrimitiveDesc(
        engine, _INFERENCE, operation.algorithm, sources[0], dst, *numbers, attr=attr
    )
    return LoweredNode(EltwiseForward, pd, (ARG_SRC,))


def _binary(
    operation: Operation, sources: Descs, dst: MemoryDesc, engine: Engine, attr: PrimitiveAttr | None
) -> LoweredNode:
    assert isinstance(operation, BinaryOperation)
    pd = Binary.PrimitiveDesc(engine, operation.algorithm, *sources, dst, attr=attr)
    return LoweredNode(Binary, pd, (ARG_SRC, ARG_SRC_1, ARG_SRC_2)[: len(sources)])


def _prelu(
    operation: Operation, sources: Descs, dst: MemoryDesc, engine: Engine, attr: PrimitiveAttr | None
) -> LoweredNode:
    pd = PReLUForward.PrimitiveDesc(engine, _INFERENCE, *sources, dst, attr=attr)
    return LoweredNode(PReLUForward, pd, (ARG_SRC, ARG_WEIGHTS))


def _sum(
    operation: Operation, sources: Descs, dst: MemoryDesc, engine: Engine, attr: PrimitiveAttr | None
) -> LoweredNode:
    assert isinstance(operation, SumOperation)
    pd = Sum.PrimitiveDesc(engine, list(operation.scales), list(sources), dst, attr=attr)
    return LoweredNode(Sum, pd, _numbered(sources))


def _concat(
    operation: Operation, sources: Descs, dst: MemoryDesc, engine: Engine, attr: PrimitiveAttr | None
) -> LoweredNode:
    assert isinstance(operation, ConcatOperation)
    pd = Concat.PrimitiveDesc(engine, operation.axis, list(sources), dst, attr=attr)
    return LoweredNode(Concat, pd, _numbered(sources))


def _numbered(sources: Descs) -> tuple[int, ...]:
    return tuple(ARG_MULTIPLE_SRC + i for i in range(len(sources)))


def _shuffle(
    operation: Operation, sources: Descs, dst: MemoryDesc, engine: Engine, attr: PrimitiveAttr | None
) -> LoweredNode:
    assert isinstance(operation, ShuffleOperation)
    size = dst.dims[operation.axis] // operation.groups
    pd = ShuffleForward.PrimitiveDesc(engine, _INFERENCE, sources[0], dst, operation.axis, size, attr=attr)
    return LoweredNode(ShuffleForward, pd, (ARG_SRC,))


def _recurrent(operation: RecurrentOperation, sources: Descs, results: Descs, engine: Engine) -> LoweredNode:
    kind = _RNN_PRIMITIVES[operation.cell]
    states = operation.count_of_results - 1
    reads, writes = RNN_READS[: len(sources)], RNN_WRITES[: len(results)]
    found = dict(zip((*reads, *writes), (*sources, *results), strict=True))
    names = {arg: name for name, arg in NAMES.items()}
    wanted = (*RNN_READS[: 4 + states], *writes)
    named: dict[str, object] = {f"{names[arg]}_desc": found.get(arg) for arg in wanted}
    if operation.activation:
        named["activation"] = f"eltwise_{operation.activation}"
    pd = kind.PrimitiveDesc(engine, _INFERENCE, direction=_RNN_DIRECTIONS[operation.direction], **named)
    return LoweredNode(kind, pd, reads, writes)


def _reorder(
    operation: Operation, sources: Descs, dst: MemoryDesc, engine: Engine, attr: PrimitiveAttr | None
) -> LoweredNode:
    return LoweredNode(Reorder, Reorder.PrimitiveDesc(engine, sources[0], engine, dst, attr), (ARG_SRC,))


_LOWERINGS: Mapping[type[Operation], _Lowering] = {
    BatchNormalizationOperation: _batch_normalization,
    BinaryOperation: _binary,
    ConcatOperation: _concat,
    ConvolutionOperation: _convolution,
    DeconvolutionOperation: _convolution,
    EltwiseOperation: _eltwise,
    InnerProductOperation: _inner_product,
    LayerNormalizationOperation: _layer_normalization,
    LrnOperation: _lrn,
    MatmulOperation: _matmul,
    PReluOperation: _prelu,
    PoolingOperation: _pooling,
    ReductionOperation: _reduction,
    ReorderOperation: _reorder,
    ResamplingOperation: _resampling,
    ShuffleOperation: _shuffle,
    SoftmaxOperation: _softmax,
    SumOperation: _sum,
}
