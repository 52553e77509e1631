"""From a node and the formats of its tensors to a primitive, and which tensor is which argument of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

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
from ..model.base import PrimitiveDescBase
from ..model.primitive import Primitive
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
from ..ops.reorder import Reorder
from ..ops.rnn_checks import DIRECTIONS
from ..plan.rnn_descs import NAMES
from ..runtime.engine import Engine
from .graph import Epilogue, Node
from .nodes.layers import (
    BatchNormalizationOperation,
    LayerNormalizationOperation,
    LrnOperation,
    PoolingOperation,
    ReductionOperation,
    ResamplingOperation,
    SoftmaxOperation,
)
from .nodes.moves import ConcatOperation, ReorderOperation, ShuffleOperation
from .nodes.operations import BinaryOperation, EltwiseOperation, Operation, PReluOperation, SumOperation
from .nodes.products import (
    ConvolutionOperation,
    DeconvolutionOperation,
    InnerProductOperation,
    MatmulOperation,
)
from .nodes.recurrent import RNN_READS, RNN_WRITES, RecurrentOperation

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
        made = _lowered(node.operation, sources, outputs[0], engine, attr)
    except Error as error:
        raise error.with_context(f"node {node.name!r} ({node.kind}): {error.what}") from None
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


# --- one row for each operation -----------------------------------------------------------------------------

_ARGS = {
    "src": ARG_SRC,
    "weights": ARG_WEIGHTS,
    "bias": ARG_BIAS,
    "src0": ARG_SRC,
    "src1": ARG_SRC_1,
    "src2": ARG_SRC_2,
}


class _Lowering(NamedTuple):
    """How an operation becomes a primitive.

    inputs      the names of the descriptors of inputs, in order; those left out at the end are optional
    fields      what else its descriptor takes, by its names: fields of the operation, or values
    more        arguments of further inputs, whose descriptors follow from the others
    dst         the name of the destination
    """

    primitive: type[Primitive]
    inputs: tuple[str, ...] = ("src",)
    fields: Mapping[str, object] = {}
    more: tuple[int, ...] = ()
    dst: str = "dst"


class _NodeField(NamedTuple):
    """A field of an operation, by its name there."""

    name: str


def _same(*names: str) -> dict[str, object]:
    """Fields that have the names of the arguments."""
    return {name: _NodeField(name) for name in names}


_WINDOW = "strides", "padding_l", "padding_r"
_SPATIAL = _same(*_WINDOW, "dilates")
_PRODUCT = "src", "weights", "bias"
_LOWERINGS: Mapping[type[Operation], _Lowering] = {
    BatchNormalizationOperation: _Lowering(
        BatchNormalizationForward,
        fields=_same("epsilon") | {"flags": _GLOBAL | _AFFINE},
        more=(ARG_SCALE, ARG_SHIFT, ARG_MEAN, ARG_VARIANCE),
    ),
    BinaryOperation: _Lowering(Binary, ("src0", "src1", "src2"), _same("algorithm")),
    ConvolutionOperation: _Lowering(
        ConvolutionForward, _PRODUCT, _SPATIAL | {"algorithm": "convolution_direct"}
    ),
    DeconvolutionOperation: _Lowering(
        DeconvolutionForward, _PRODUCT, _SPATIAL | {"algorithm": "deconvolution_direct"}
    ),
    EltwiseOperation: _Lowering(EltwiseForward, fields=_same("algorithm", "alpha", "beta")),
    InnerProductOperation: _Lowering(InnerProductForward, _PRODUCT),
    LayerNormalizationOperation: _Lowering(
        LayerNormalizationForward,
        fields=_same("epsilon") | {"flags": _AFFINE, "stat": None},
        more=(ARG_SCALE, ARG_SHIFT),
    ),
    LrnOperation: _Lowering(LRNForward, fields=_same("algorithm", "local_size", "alpha", "beta", "k")),
    MatmulOperation: _Lowering(Matmul, _PRODUCT),
    PReluOperation: _Lowering(PReLUForward, ("src", "weights")),
    PoolingOperation: _Lowering(
        PoolingForward, fields=_same("algorithm", "kernel", *_WINDOW) | {"dilation": _NodeField("dilates")}
    ),
    ReductionOperation: _Lowering(Reduction, fields=_same("algorithm", "p") | {"eps": _NodeField("epsilon")}),
    ResamplingOperation: _Lowering(ResamplingForward, fields=_same("algorithm")),
    ShuffleOperation: _Lowering(ShuffleForward, ("src_md",), _same("axis"), dst="dst_md"),
    SoftmaxOperation: _Lowering(SoftmaxForward, fields=_same("algorithm", "axis")),
}


def _lowered(
    operation: Operation, sources: Descs, dst: MemoryDesc, engine: Engine, attr: PrimitiveAttr | None
) -> LoweredNode:
    """The primitive of an operation with one result."""
    if isinstance(operation, ReorderOperation):
        return LoweredNode(Reorder, Reorder.PrimitiveDesc(engine, sources[0], engine, dst, attr), (ARG_SRC,))
    if isinstance(operation, SumOperation | ConcatOperation):
        kind, how = (
            (Sum, list(operation.scales)) if isinstance(operation, SumOperation) else (Concat, operation.axis)
        )
        numbered = tuple(ARG_MULTIPLE_SRC + i for i in range(len(sources)))
        return LoweredNode(kind, kind.PrimitiveDesc(engine, how, list(sources), dst, attr=attr), numbered)
    primitive, inputs, fields, more, written = _LOWERINGS[type(operation)]
    named = dict(zip(inputs, sources, strict=False))
    values: dict[str, object] = {
        name: getattr(operation, each.name) if isinstance(each, _NodeField) else each
        for name, each in fields.items()
    }
    if isinstance(operation, ShuffleOperation):
        values["group_size"] = dst.dims[operation.axis] // operation.groups
    if "prop_kind" in primitive.PrimitiveDesc.form.shown.parameters:
        values["prop_kind"] = _INFERENCE
    pd = primitive.PrimitiveDesc(engine=engine, **named, **{written: dst}, **values, attr=attr)
    return LoweredNode(primitive, pd, (*(_ARGS.get(name, ARG_SRC) for name in named), *more))


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
