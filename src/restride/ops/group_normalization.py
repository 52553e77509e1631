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
        """The groups of the arguments."""
        groups = call.integer("groups")
        if groups > 0 and src.dims[1] % groups == 0:
            return groups
        raise refuse("RS-S05:groups", what=call.what, groups=groups, src=src, dims=src.dims[1])


class GroupNormalizationProblem(_Groups, NormForwardProblem):
    """The group normalization primitive (`dnnl::group_normalization_forward`).

    `dst = (src - mean) / sqrt(variance + epsilon) * scale + shift`, with the statistics of each group of
    channels in each element of the batch. Executed with `ARG_SRC`, `ARG_DST`, and as flags and propagation
    kind ask `ARG_SCALE`, `ARG_SHIFT`, `ARG_MEAN`, `ARG_VARIANCE`. Source and destination may be one memory
    where both are alike.
    """

    operation = "group_normalization"
    primitive = "GroupNormalizationForward"
    call = "prop_kind", "src", "dst", "groups", "epsilon", "flags"
    norm_kind = NormKind.group
    node_reads = "src", "scale", "shift"
    node_values: ClassVar = {"flags": lambda node, dst: "use_scale|use_shift"}
    arguments = """
    Channels are axis 1, which `groups` divides. `dst`: of format "any" it has that of the source. `flags`:
    `NormalizationFlags`, or words joined by `|`. `attr`: scales, post-ops and the scratchpad mode."""

    __slots__ = ()


class GroupNormalizationBackwardProblem(_Groups, NormBackwardProblem):
    """The gradients of a group normalization (`dnnl::group_normalization_backward`).

    Executed with `ARG_SRC`, `ARG_DIFF_DST`, `ARG_DIFF_SRC`, `ARG_MEAN`, `ARG_VARIANCE`, and as flags ask
    `ARG_SCALE`, `ARG_DIFF_SCALE`, `ARG_DIFF_SHIFT`. The gradients may be one memory.
    """

    operation = "group_normalization"
    primitive = "GroupNormalizationBackward"
    call = "prop_kind", "diff_src", "diff_dst", "src", "groups", "epsilon", "flags"
    norm_kind = NormKind.group
    arguments = """
    `prop_kind`: "backward", or "backward_data" without the gradients of scale and shift. Gradients of format
    "any" have that of the source. `hint_pd`: the forward descriptor, of the same problem, or None."""

    __slots__ = ()


GroupNormalizationForward = make_primitive(GroupNormalizationProblem, None, NormalizationPrimitiveDesc)
GroupNormalizationBackward = make_primitive(
    GroupNormalizationBackwardProblem, GroupNormalizationForward, desc=NormalizationPrimitiveDesc
)
