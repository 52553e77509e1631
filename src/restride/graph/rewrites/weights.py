"""Steps after sums of products that are linear in each channel are folded into weights and bias.

    batch norm    conv(x, w) + b, normalized   ->  conv(x, w * k) + (b - mean) * k + shift
    scale         (conv(x, w) + b) * k         ->  conv(x, w * k) + b * k
    bias          conv(x, w) + b + c           ->  conv(x, w) + (b + c)

The last two also apply to a batch norm in place of the convolution: they go into its scale and its shift.

k of a batch norm is its scale over the deviation. k and c are constants, one for each channel or one for all.
All is computed in doubles, and rounded once.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from ...dtypes import DataType
from ..graph import Node
from ..nodes.layers import BatchNormalizationOperation
from ..nodes.products import ConvolutionOperation, InnerProductOperation, MatmulOperation
from .affine import AffineStep, channel_axes
from .draft import Array, GraphDraft
from .patterns import Match, Pattern, binary, function, rewrite
from .scaled_constant import ScaledConstant

__all__ = ["fuse_batch_norm", "fuse_bias", "fuse_scale"]

# Types of weights that can be scaled, becoming f32; not bf16, whose product instructions read only bf16.
_WEIGHTS = (DataType.f32, DataType.f16)


def fuse_batch_norm(draft: GraphDraft) -> None:
    """Fold batch normalizations of convolutions and inner products without other readers."""
    rewrite(draft, [(Pattern(BatchNormalizationOperation, (_MAIN, ...)), _normalized)])


def fuse_scale(draft: GraphDraft) -> None:
    """Fold products with constants, and linear functions, into operations with weights."""
    rewrite(draft, [(function("linear", _MAIN), _linear), (binary("mul", _MAIN, "other"), _multiplied)])


def fuse_bias(draft: GraphDraft) -> None:
    """Fold sums with constants into operations with weights; for matrix products one constant per column."""
    rewrite(draft, [(binary("add", _MAIN, "other"), _added)])


_MAIN = Pattern(
    (BatchNormalizationOperation, ConvolutionOperation, InnerProductOperation, MatmulOperation), name="main"
)


def _normalized(match: Match) -> bool:
    values = [match.draft.constant(name) for name in match.node.sources[1:]]
    return _fuse(match, AffineStep.of_norm(values, match.of().epsilon))


def _linear(match: Match) -> bool:
    return _fuse(match, AffineStep.of(match.of().alpha, match.of().beta))


def _multiplied(match: Match) -> bool:
    factor = _channels(match)
    return _fuse(match, None if factor is None else AffineStep.of(factor, 0.0))


def _added(match: Match) -> bool:
    term = _channels(match)
    return _fuse(match, None if term is None else AffineStep.of(1.0, term))


def _channels(match: Match) -> Array | None:
    """Return the values of the other operand, one per channel of the result; None if they are not."""
    draft, values = match.draft, match.draft.constant(match["other"])
    if values is None or draft.type(match["main"]) != draft.type(match.node.output):
        return None
    axis = values.ndim - 1 if isinstance(match.of("main"), MatmulOperation) else 1
    return values.reshape(-1) if all(n == 1 for i, n in enumerate(values.shape) if i != axis) else None


def _fuse(match: Match, affine: AffineStep | None) -> bool:
    """Fold a step into weights and bias; False if it, or they, are not constant, or it converts."""
    draft, main = match.draft, match.nodes["main"]
    if draft.type(main.output).data_type is not draft.type(match.node.output).data_type:
        return False  # to bytes, for the next layer
    find = _norm_inputs if isinstance(main.operation, BatchNormalizationOperation) else _product_inputs
    inputs = None if affine is None else find(draft, main, affine)
    if inputs is None:
        return False
    draft.fuse(match.place, replace(main, inputs=inputs, outputs=match.node.outputs), *match.places)
    return True


def _product_inputs(draft: GraphDraft, main: Node, affine: AffineStep) -> tuple[str, ...] | None:
    """Return scaled weights, if there is a factor, and a new bias; None if these are not constants."""
    constants = [draft.known(name) for name in main.sources[1:]]
    parameters = [item for item in constants if item is not None and item.type.data_type in _WEIGHTS]
    if len(parameters) < len(constants):
        return None
    dims = parameters[0].type.dims
    channels = channel_axes(main.operation, len(dims))
    shape = tuple(n if axis in channels else 1 for axis, n in enumerate(dims))
    bias = parameters[1].values.reshape(-1).astype(np.float64) if len(parameters) > 1 else np.zeros(1)
    if bias.size not in (1, prod(shape)):
        return None
    bias, factor, term = (np.broadcast_to(x, prod(shape)) for x in (bias, affine.factor, affine.term))
    inputs = [main.sources[0], main.sources[1]]
    if np.any(factor != 1):
        inputs[1] = draft.new_constant(ScaledConstant(parameters[0], factor.reshape(shape)), main.sources[1])
    made_bias = bias * factor + term
    if len(main.sources) > 2 or np.any(made_bias):
        values = made_bias.astype(np.float32)
        if isinstance(main.operation, MatmulOperation):
            values = values.reshape([*[1] * (len(dims) - 1), -1])
        inputs.append(draft.new_constant(values, main.output))
    return tuple(inputs)


def _norm_inputs(draft: GraphDraft, norm: Node, affine: AffineStep) -> tuple[str, ...] | None:
    """Return the new scale and shift of a batch normalization, if both are constants."""
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
