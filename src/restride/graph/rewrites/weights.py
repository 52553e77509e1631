"""What follows sums of products and is linear in each channel becomes other weights and another bias.

    batch norm    conv(x, w) + b, normalized   ->  conv(x, w * k) + (b - mean) * k + shift
    scale         (conv(x, w) + b) * k         ->  conv(x, w * k) + b * k
    bias          conv(x, w) + b + c           ->  conv(x, w) + (b + c)

The last two also where a batch norm is instead of the convolution: into its scale and its shift.

k of a batch norm is its scale over the deviation. k and c are constants, one for each channel or one for all.
All is computed in doubles, and rounded once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...dtypes import DataType
from ..dims import Dims
from ..graph import Constant, Node
from ..nodes.layers import BatchNormalizationOperation
from ..nodes.operations import BinaryOperation, EltwiseOperation
from ..nodes.products import ConvolutionOperation, InnerProductOperation, MatmulOperation
from .draft import Array, GraphDraft
from .scaled_constant import ScaledConstant

__all__ = ["fuse_batch_norm", "fuse_bias", "fuse_scale"]

# What becomes f32 beside its factor: of bf16 products have instructions, which read nothing else.
_WEIGHTS = (DataType.f32, DataType.f16)


@dataclass(frozen=True, eq=False)
class _ChannelAffine:
    """A factor and a term for each channel, or one for all."""

    factor: Array
    term: Array


def fuse_batch_norm(draft: GraphDraft) -> None:
    """Batch normalizations of what a convolution, or an inner product, makes for them alone."""
    for place, node in draft:
        if isinstance(node.operation, BatchNormalizationOperation) and not node.epilogues:
            values = [draft.constant(name) for name in node.sources[1:]]
            known = [each.astype(np.float64) for each in values if each is not None]
            if len(known) == 4:
                scale, shift, mean, variance = known
                with np.errstate(all="ignore"):
                    factor = scale / np.sqrt(variance + node.operation.epsilon)
                _fuse(draft, place, node, node.inputs[0], _ChannelAffine(factor, shift - mean * factor))


def fuse_scale(draft: GraphDraft) -> None:
    """Products with constants, and linear functions, of what has weights."""
    for place, node in draft:
        operation = node.operation
        if node.epilogues:
            continue
        if isinstance(operation, EltwiseOperation) and operation.algorithm == "eltwise_linear":
            _fuse(
                draft,
                place,
                node,
                node.inputs[0],
                _ChannelAffine(_one(operation.alpha), _one(operation.beta)),
            )
        elif isinstance(operation, BinaryOperation) and operation.algorithm == "binary_mul":
            for source, factor in _sides(draft, node):
                if _fuse(draft, place, node, source, _ChannelAffine(factor, _one(0.0))):
                    break


def fuse_bias(draft: GraphDraft) -> None:
    """Sums with constants of what has weights; for products of matrices one constant for each column."""
    for place, node in draft:
        operation = node.operation
        if (
            not isinstance(operation, BinaryOperation)
            or operation.algorithm != "binary_add"
            or node.epilogues
        ):
            continue
        for source, term in _sides(draft, node):
            if _fuse(draft, place, node, source, _ChannelAffine(_one(1.0), term)):
                break


def _one(value: float) -> Array:
    return np.full(1, value, np.float64)


def _sides(draft: GraphDraft, node: Node) -> list[tuple[str, Array]]:
    """What a binary operation reads, and the values of the other side, one for each channel of it."""
    found = []
    for source, other in (node.sources, node.sources[::-1]):
        values, made = draft.constant(other), draft.maker(source)
        if values is None or made is None or draft.type(source) != draft.type(node.output):
            continue
        axis = len(values.shape) - 1 if isinstance(made[1].operation, MatmulOperation) else 1
        if all(n == 1 for i, n in enumerate(values.shape) if i != axis):
            found.append((source, values.astype(np.float64).reshape(-1)))
    return found


def _fuse(draft: GraphDraft, place: int, node: Node, source: str, affine: _ChannelAffine) -> bool:
    """Bring what follows into weights and bias; False where they are not constant, or seen by others."""
    made = draft.private_maker(source)
    if made is None or made[1].epilogues:
        return False
    at, main = made
    if isinstance(main.operation, BatchNormalizationOperation):
        return _fuse_into_norm(draft, place, node, made, affine)
    if not isinstance(main.operation, ConvolutionOperation | InnerProductOperation | MatmulOperation):
        return False
    known = _weights_and_bias(draft, main)
    if known is None:
        return False
    weights, bias = known
    shape = _channel_shape(main, weights.type.dims)
    factor, term = (np.broadcast_to(each, int(np.prod(shape))) for each in (affine.factor, affine.term))
    inputs = [main.sources[0], main.sources[1]]
    if np.any(factor != 1):
        inputs[1] = draft.new_constant(ScaledConstant(weights, factor.reshape(shape)), main.sources[1])
    made_bias = bias * factor + term
    if len(main.sources) > 2 or np.any(made_bias):
        inputs.append(draft.new_constant(_bias_of(main, made_bias, weights), main.output))
    draft.fuse(place, replace(main, inputs=tuple(inputs), outputs=node.outputs), at)
    return True


def _fuse_into_norm(
    draft: GraphDraft, place: int, node: Node, made: tuple[int, Node], affine: _ChannelAffine
) -> bool:
    """Another scale and shift of a batch normalization, where both are constants."""
    at, norm = made
    scale, shift = (draft.constant(name) for name in norm.sources[1:3])
    if scale is None or shift is None or scale.dtype != np.float32:
        return False
    scaled = scale.astype(np.float64) * affine.factor
    shifted = shift.astype(np.float64) * affine.factor + affine.term
    names = [
        draft.new_constant(values.astype(np.float32), near)
        for values, near in ((scaled, norm.sources[1]), (shifted, norm.sources[2]))
    ]
    inputs = (norm.sources[0], *names, *norm.sources[3:])
    draft.fuse(place, replace(norm, inputs=inputs, outputs=node.outputs), at)
    return True


def _weights_and_bias(draft: GraphDraft, main: Node) -> tuple[Constant, Array] | None:
    """The weights as they are; the bias in doubles, one value for each channel."""
    found = [draft.known(name) for name in main.sources[1:]]
    known = [each for each in found if each is not None and each.type.data_type in _WEIGHTS]
    if len(known) < len(found):
        return None
    count = int(np.prod(_channel_shape(main, known[0].type.dims)))
    bias = known[1].values.reshape(-1).astype(np.float64) if len(known) > 1 else np.zeros(1)
    return (known[0], np.broadcast_to(bias, count)) if bias.size in (1, count) else None


def _channel_shape(main: Node, dims: Dims) -> Dims:
    """The dims of weights with only those of the channels of the result left, the others 1."""
    if isinstance(main.operation, MatmulOperation):
        return (*[1] * (len(dims) - 1), dims[-1])
    groups = isinstance(main.operation, ConvolutionOperation) and main.operation.groups > 1
    kept = 2 if groups else 1
    return (*dims[:kept], *[1] * (len(dims) - kept))


def _bias_of(main: Node, bias: Array, weights: Constant) -> Array:
    values = bias.astype(np.float32)
    if isinstance(main.operation, MatmulOperation):
        return values.reshape([*[1] * (len(weights.type.dims) - 1), -1])
    return values
