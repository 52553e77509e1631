"""Group normalization, forward and backward."""

from __future__ import annotations

from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_int
from ..errors import InvalidArguments
from ..plan.normalization import NormKind
from .forms import CallArguments, form_of
from .normalization import NormalizationBackwardPrimitiveDesc, NormalizationForwardPrimitiveDesc
from .pointwise import OneStepPrimitive

__all__ = ["GroupNormalizationBackward", "GroupNormalizationForward"]


class _Groups:
    """Channels in groups."""

    __slots__ = ()

    def _groups(self, what: str, arguments: CallArguments, src: MemoryDesc) -> int:
        groups = parse_int(arguments.groups, f"{what}: groups")
        if groups > 0 and src.dims[1] % groups == 0:
            return groups
        raise InvalidArguments(
            f"{what}: groups is {groups}",
            code="RS-S05",
            where=str(src),
            why=f"it does not divide the {src.dims[1]} channels",
            hint="1 takes all channels together, as many as there are each by itself",
        )


class GroupNormalizationForwardPrimitiveDesc(_Groups, NormalizationForwardPrimitiveDesc):
    """Primitive descriptor of a group normalization (`dnnl::group_normalization_forward::primitive_desc`).

    `PrimitiveDesc(engine, prop_kind, src, dst, groups, epsilon, flags, attr=None, allow_empty=False)`;
    without arguments it is empty and False. Channels are axis 1, which `groups` divides. `dst`: of format
    "any" it has that of the source. `flags`: `rs.NormalizationFlags`, or words joined by `|`. `attr`: scales,
    post-ops and the scratchpad mode. With `allow_empty`, a failure gives an empty descriptor.

    Raises InvalidArguments for what makes no sense, Unimplemented for what is not provided.
    """

    kind = "GroupNormalizationForward"
    _norm_kind = NormKind.group
    form = form_of(
        "GroupNormalizationForward.PrimitiveDesc",
        *("engine", "prop_kind", "src", "dst", "groups", "epsilon", "flags"),
        attr=None,
        allow_empty=False,
    )

    __slots__ = ()


class GroupNormalizationBackwardPrimitiveDesc(_Groups, NormalizationBackwardPrimitiveDesc):
    """Primitive descriptor of the gradients of a group normalization.

    `PrimitiveDesc(engine, prop_kind, diff_src, diff_dst, src, groups, epsilon, flags, attr=None,
    hint_pd=None, allow_empty=False)`, or with the hint before the attributes, as C++ has it; without
    arguments it is empty and False. `prop_kind`: "backward", or "backward_data" without the gradients of
    scale and shift. Gradients of format "any" have that of the source. `hint_pd`: the forward descriptor, of
    the same problem, or None.

    Raises InvalidArguments (a TypeError too, for a hint of another kind) and Unimplemented.
    """

    kind = "GroupNormalizationBackward"
    _norm_kind = NormKind.group
    _hint_kind = GroupNormalizationForwardPrimitiveDesc
    form = form_of(
        "GroupNormalizationBackward.PrimitiveDesc",
        *("engine", "prop_kind", "diff_src", "diff_dst", "src", "groups", "epsilon", "flags"),
        attr=None,
        hint_pd=None,
        allow_empty=False,
    )

    __slots__ = ()


class GroupNormalizationForward(OneStepPrimitive):
    """The group normalization primitive (`dnnl::group_normalization_forward`).

    `GroupNormalizationForward(pd)`; without arguments it is empty, and executing it is an error.
    `dst = (src - mean) / sqrt(variance + epsilon) * scale + shift`, with the statistics of each
    group of channels in each element of the batch.
    Executed with `ARG_SRC`, `ARG_DST`, and as flags and propagation kind ask `ARG_SCALE`, `ARG_SHIFT`,
    `ARG_MEAN`, `ARG_VARIANCE`. Source and destination may be one memory where both are alike.
    """

    PrimitiveDesc = GroupNormalizationForwardPrimitiveDesc
    kind = "GroupNormalizationForward"

    __slots__ = ()


class GroupNormalizationBackward(OneStepPrimitive):
    """The gradients of a group normalization (`dnnl::group_normalization_backward`).

    `GroupNormalizationBackward(pd)`; without arguments it is empty. Executed with `ARG_SRC`,
    `ARG_DIFF_DST`, `ARG_DIFF_SRC`, `ARG_MEAN`, `ARG_VARIANCE`, and as flags ask `ARG_SCALE`,
    `ARG_DIFF_SCALE`, `ARG_DIFF_SHIFT`. The gradients may be one memory.
    """

    PrimitiveDesc = GroupNormalizationBackwardPrimitiveDesc
    kind = "GroupNormalizationBackward"

    __slots__ = ()
