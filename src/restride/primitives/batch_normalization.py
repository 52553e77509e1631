"""Batch normalization, forward and backward."""

from __future__ import annotations

from ..plan.normalization import NormKind
from .forms import form_of
from .normalization import NormalizationBackwardPrimitiveDesc, NormalizationForwardPrimitiveDesc
from .pointwise import OneStepPrimitive

__all__ = ["BatchNormalizationBackward", "BatchNormalizationForward"]


class BatchNormalizationForwardPrimitiveDesc(NormalizationForwardPrimitiveDesc):
    """Primitive descriptor of a batch normalization (`dnnl::batch_normalization_forward::primitive_desc`).

    `PrimitiveDesc(engine, prop_kind, src, dst, epsilon, flags, attr=None, allow_empty=False)`;
    without arguments it is empty and False. Channels are axis 1. `dst`: of format "any" it has that of the
    source. `flags`: `rs.NormalizationFlags`, or words joined by `|`. `attr`: scales, post-ops and the
    scratchpad mode. With `allow_empty`, a failure gives an empty descriptor.

    Raises InvalidArguments for what makes no sense, Unimplemented for what is not provided.
    """

    kind = "BatchNormalizationForward"
    _norm_kind = NormKind.batch
    form = form_of(
        "BatchNormalizationForward.PrimitiveDesc",
        *("engine", "prop_kind", "src", "dst", "epsilon", "flags"),
        attr=None,
        allow_empty=False,
    )

    __slots__ = ()


class BatchNormalizationBackwardPrimitiveDesc(NormalizationBackwardPrimitiveDesc):
    """Primitive descriptor of the gradients of a batch normalization.

    `PrimitiveDesc(engine, prop_kind, diff_src, diff_dst, src, epsilon, flags, attr=None, hint_pd=None,
    allow_empty=False)`, or with the hint before the attributes, as C++ has it; without arguments it is
    empty and False. `prop_kind`: "backward", or "backward_data" without the gradients of scale and shift.
    Gradients of format "any" have that of the source. `hint_pd`: the forward descriptor, of the same problem,
    or None.

    Raises InvalidArguments (a TypeError too, for a hint of another kind) and Unimplemented.
    """

    kind = "BatchNormalizationBackward"
    _norm_kind = NormKind.batch
    _hint_kind = BatchNormalizationForwardPrimitiveDesc
    form = form_of(
        "BatchNormalizationBackward.PrimitiveDesc",
        *("engine", "prop_kind", "diff_src", "diff_dst", "src", "epsilon", "flags"),
        attr=None,
        hint_pd=None,
        allow_empty=False,
    )

    __slots__ = ()


class BatchNormalizationForward(OneStepPrimitive):
    """The batch normalization primitive (`dnnl::batch_normalization_forward`).

    `BatchNormalizationForward(pd)`; without arguments it is empty, and executing it is an error.
    `dst = (src - mean) / sqrt(variance + epsilon) * scale + shift`, with the statistics of each channel.
    Executed with `ARG_SRC`, `ARG_DST`, and as flags and propagation kind ask `ARG_SCALE`, `ARG_SHIFT`,
    `ARG_MEAN`, `ARG_VARIANCE`, `ARG_SRC_1`, `ARG_WORKSPACE`. Source and destination may be
    one memory where both are alike.
    """

    PrimitiveDesc = BatchNormalizationForwardPrimitiveDesc
    kind = "BatchNormalizationForward"

    __slots__ = ()


class BatchNormalizationBackward(OneStepPrimitive):
    """The gradients of a batch normalization (`dnnl::batch_normalization_backward`).

    `BatchNormalizationBackward(pd)`; without arguments it is empty. Executed with `ARG_SRC`,
    `ARG_DIFF_DST`, `ARG_DIFF_SRC`, `ARG_MEAN`, `ARG_VARIANCE`, and as flags ask `ARG_SCALE`,
    `ARG_DIFF_SCALE`, `ARG_DIFF_SHIFT`, `ARG_WORKSPACE`, `ARG_DIFF_SRC_1`. The gradients may be one memory.
    """

    PrimitiveDesc = BatchNormalizationBackwardPrimitiveDesc
    kind = "BatchNormalizationBackward"

    __slots__ = ()
