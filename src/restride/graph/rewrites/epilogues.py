"""Elementwise functions that a node applies to its result before it is stored.

    y = conv(x); z = relu(y)        ->  z = conv(x) + relu
    y = conv(x); z = y + w          ->  z = conv(x) + w
    y = conv(x); z = sum(w, y, v)   ->  z = conv(x) + w + v

y must have no other reader. The fused node is placed where z was made, after all its inputs, so the other
operand always exists. Propagation gives that the format of the result.
"""

from __future__ import annotations

from dataclasses import replace

from ...dtypes import DataType
from ..graph import Epilogue, Node
from ..nodes.layers import (
    BatchNormalizationOperation,
    LayerNormalizationOperation,
    PoolingOperation,
    ReductionOperation,
    ResamplingOperation,
    SoftmaxOperation,
)
from ..nodes.operations import AS_F32, BinaryOperation, EltwiseOperation, SumOperation
from ..nodes.products import (
    ConvolutionOperation,
    InnerProductOperation,
    MatmulOperation,
    QuantizedMatmulOperation,
)
from .draft import GraphDraft

__all__ = ["fuse_epilogues"]

_PRODUCTS = (ConvolutionOperation, InnerProductOperation, MatmulOperation)
# Other operations that support post-ops.
_OTHERS = (
    BatchNormalizationOperation,
    LayerNormalizationOperation,
    PoolingOperation,
    ResamplingOperation,
    ReductionOperation,
    SoftmaxOperation,
    BinaryOperation,
    EltwiseOperation,
)
_SYMMETRIC = ("binary_add", "binary_mul", "binary_max", "binary_min")
_FROM_THE_LEFT = ("binary_sub", "binary_div")
_ADD, _NEGATIVE = BinaryOperation("binary_add"), EltwiseOperation("eltwise_linear", -1.0, 0.0)
_MOST_EPILOGUES = 32


def fuse_epilogues(draft: GraphDraft) -> None:
    """Fuse functions, combinations with another tensor, and sums into the node before them."""
    for place, node in draft:
        for source in _candidates(draft, node) if draft.is_computed_as_f32(node) else ():
            added = _epilogues(node, source)
            main = draft.private_maker(source)
            if main is None or len(main[1].epilogues) + len(added) + len(node.epilogues) > _MOST_EPILOGUES:
                continue
            others = list(node.sources)
            others.remove(source)
            draft.fuse(
                place,
                replace(
                    main[1],
                    inputs=(*main[1].inputs, *others, *node.operands),
                    outputs=node.outputs,
                    epilogues=(*main[1].epilogues, *added, *node.epilogues),
                ),
                main[0],
            )
            break


def _candidates(draft: GraphDraft, node: Node) -> list[str]:
    """Return the inputs whose producer could take this as an epilogue: products first, latest first."""
    candidates = [
        (isinstance(maker[1].operation, _PRODUCTS), maker[0], source)
        for source in node.sources
        if (maker := draft.private_maker(source)) is not None
        and isinstance(maker[1].operation, (*_PRODUCTS, *_OTHERS))
        and len(maker[1].outputs) == 1
        and (_is_of_floats(draft, maker[1]) or maker[1].data_type is DataType.f32)
        and draft.type(source) == draft.type(node.output)
        and _epilogues(node, source)
    ]
    return [source for *_, source in sorted(candidates, reverse=True)]


def _is_of_floats(draft: GraphDraft, node: Node) -> bool:
    """True if a node computes as f32; those with quantized weights do."""
    if isinstance(node.operation, QuantizedMatmulOperation):
        return draft.type(node.sources[0]).data_type in AS_F32
    return draft.is_computed_as_f32(node)


def _epilogues(node: Node, source: str) -> tuple[Epilogue, ...]:
    """Return the work of a node as epilogues of the node that makes `source`; empty if impossible."""
    operation = node.operation
    if isinstance(operation, EltwiseOperation):
        return (Epilogue(operation),)
    if isinstance(operation, SumOperation) and set(operation.scales) == {1.0}:
        return (Epilogue(_ADD),) * (len(node.sources) - 1)
    if not isinstance(operation, BinaryOperation) or len(node.sources) != 2:
        return ()
    is_left = node.sources[0] == source
    if operation.algorithm in _SYMMETRIC or (is_left and operation.algorithm in _FROM_THE_LEFT):
        return (Epilogue(operation),)
    if operation.algorithm == "binary_sub":
        return Epilogue(_NEGATIVE), Epilogue(_ADD)
    return ()
