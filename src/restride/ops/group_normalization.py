"""Group normalization, forward and backward."""

from __future__ import annotations

from typing import ClassVar

from ..desc.memory_desc import MemoryDesc
from ..errors import refuse
from ..model.derived import make_primitive
from ..model.reader import ArgumentReader
from .normalization import NormalizationPrimitiveDesc, NormBackwardProblem, NormForwardProblem
from .programs.normalization import NormKind


class _Groups:
    """Channels in groups."""

    __slots__ = ()

    @classmethod
    def read_groups(cls, call: ArgumentReader, src: MemoryDesc) -> int:
        """Read the number of groups."""
        groups = call.integer("groups")
        if groups > 0 and src.dims[1] % groups == 0:
            return groups
        raise refuse("RS-S05:groups", what=call.what, groups=groups, src=src, dims=src.dims[1])


class GroupNormalizationProblem(_Groups, NormForwardProblem):
    """The group normalization primitive (`dnnl::group_normalization_forward`).

    `dst = (src - mean) / sqrt(variance + epsilon) * scale + shift`, with the statistics of each group of
    channels in each batch element. Executed with `ARG_SRC`, `ARG_DST` and, depending on flags and
    propagation kind, `ARG_SCALE`, `ARG_SHIFT`, `ARG_MEAN`, `ARG_VARIANCE`. Source and destination can share
    memory if their descriptors are equal.
    """

    operation = "group_normalization"
    primitive = "GroupNormalizationForward"
    call = "prop_kind", "src", "dst", "groups", "epsilon", "flags"
    norm_kind = NormKind.group
    node_reads = "src", "scale", "shift"
    node_values: ClassVar = {"flags": lambda node, dst: "use_scale|use_shift"}
    arguments = """
    Channels are axis 1; `groups` must divide their number. `dst`: format "any" takes that of the source.
    `flags`: `NormalizationFlags`, or words joined by `|`. `attr`: scales, post-ops, the scratchpad mode."""

    __slots__ = ()


class GroupNormalizationBackwardProblem(_Groups, NormBackwardProblem):
    """The gradients of a group normalization (`dnnl::group_normalization_backward`).

    Executed with `ARG_SRC`, `ARG_DIFF_DST`, `ARG_DIFF_SRC`, `ARG_MEAN`, `ARG_VARIANCE` and, depending on the
    flags, `ARG_SCALE`, `ARG_DIFF_SCALE`, `ARG_DIFF_SHIFT`. `ARG_DIFF_DST` and `ARG_DIFF_SRC` may alias.
    """

    operation = "group_normalization"
    primitive = "GroupNormalizationBackward"
    call = "prop_kind", "diff_src", "diff_dst", "src", "groups", "epsilon", "flags"
    norm_kind = NormKind.group
    arguments = """
    `prop_kind`: "backward", or "backward_data" without the gradients of scale and shift. Gradients of format
    "any" take that of the source. `hint_pd`: the forward descriptor of the same problem, or None."""

    __slots__ = ()


GroupNormalizationForward = make_primitive(GroupNormalizationProblem, None, NormalizationPrimitiveDesc)
GroupNormalizationBackward = make_primitive(
    GroupNormalizationBackwardProblem, GroupNormalizationForward, desc=NormalizationPrimitiveDesc
)
