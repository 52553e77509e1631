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
from ..nodes.products import ConvolutionOperation, InnerProductOperation, MatmulOperation
from .draft import Array, GraphDraft
from .patterns import Match, Pattern, binary, function, rewrite
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
    rewrite(draft, [(Pattern(BatchNormalizationOperation, (_MAIN, ...)), _normalized)])


def fuse_scale(draft: GraphDraft) -> None:
    """Products with constants, and linear functions, of what has weights."""
    rewrite(draft, [(function("linear", _MAIN), _linear), (binary("mul", _MAIN, "other"), _multiplied)])


def fuse_bias(draft: GraphDraft) -> None:
    """Sums with constants of what has weights; for products of matrices one constant for each column."""
    rewrite(draft, [(binary("add", _MAIN, "other"), _added)])


_MAIN = Pattern(
    (BatchNormalizationOperation, ConvolutionOperation, InnerProductOperation, MatmulOperation), name="main"
)


def _normalized(match: Match) -> bool:
    values = [match.draft.constant(name) for name in match.node.sources[1:]]
    known = [each.astype(np.float64) for each in values if each is not None]
    if len(known) < len(values):
        return False
    scale, shift, mean, variance = known
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + match.of().epsilon)
    return _fuse(match, _ChannelAffine(factor, shift - mean * factor))


def _linear(match: Match) -> bool:
    return _fuse(match, _ChannelAffine(_one(match.of().alpha), _one(match.of().beta)))


def _multiplied(match: Match) -> bool:
    factor = _channels(match)
    return factor is not None and _fuse(match, _ChannelAffine(factor, _one(0.0)))


def _added(match: Match) -> bool:
    term = _channels(match)
    return term is not None and _fuse(match, _ChannelAffine(_one(1.0), term))


def _one(value: float) -> Array:
    return np.full(1, value, np.float64)


def _channels(match: Match) -> Array | None:
    """The values of the other side, one for each channel of the result; None where they are others."""
    draft, values = match.draft, match.draft.constant(match["other"])
    if values is None or draft.type(match["main"]) != draft.type(match.node.output):
        return None
    axis = len(values.shape) - 1 if isinstance(match.of("main"), MatmulOperation) else 1
    is_row = all(n == 1 for i, n in enumerate(values.shape) if i != axis)
    return values.astype(np.float64).reshape(-1) if is_row else None


def _fuse(match: Match, affine: _ChannelAffine) -> bool:
    """Bring what follows into weights and bias; False where they are not constant."""
    draft, main = match.draft, match.nodes["main"]
    found = _norm_inputs if isinstance(main.operation, BatchNormalizationOperation) else _product_inputs
    inputs = found(draft, main, affine)
    if inputs is None:
        return False
    draft.fuse(match.place, replace(main, inputs=inputs, outputs=match.node.outputs), *match.taken)
    return True


def _product_inputs(draft: GraphDraft, main: Node, affine: _ChannelAffine) -> tuple[str, ...] | None:
    known = _weights_and_bias(draft, main)
    if known is None:
        return None
    weights, bias = known
    shape = _channel_shape(main, weights.type.dims)
    factor, term = (np.broadcast_to(each, int(np.prod(shape))) for each in (affine.factor, affine.term))
    inputs = [main.sources[0], main.sources[1]]
    if np.any(factor != 1):
        inputs[1] = draft.new_constant(ScaledConstant(weights, factor.reshape(shape)), main.sources[1])
    made_bias = bias * factor + term
    if len(main.sources) > 2 or np.any(made_bias):
        values = made_bias.astype(np.float32)
        if isinstance(main.operation, MatmulOperation):
            values = values.reshape([*[1] * (len(shape) - 1), -1])
        inputs.append(draft.new_constant(values, main.output))
    return tuple(inputs)


def _norm_inputs(draft: GraphDraft, norm: Node, affine: _ChannelAffine) -> tuple[str, ...] | None:
    """Another scale and shift of a batch normalization, where both are constants."""
    scale, shift = (draft.constant(name) for name in norm.sources[1:3])
    if scale is None or shift is None or scale.dtype != np.float32:
        return None
    scaled = scale.astype(np.float64) * affine.factor
    shifted = shift.astype(np.float64) * affine.factor + affine.term
    names = [
        draft.new_constant(values.astype(np.float32), near)
        for values, near in ((scaled, norm.sources[1]), (shifted, norm.sources[2]))
    ]
    return (norm.sources[0], *names, *norm.sources[3:])


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
