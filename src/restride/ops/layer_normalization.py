"""Layer normalization, forward and backward."""

from __future__ import annotations

from typing import ClassVar

from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from ..errors import refuse
from ..model.any_format import resolved
from ..model.derived import make_primitive
from ..model.forms import Args, NamedArgs
from ..model.reader import ArgumentReader
from .normalization import NormalizationPrimitiveDesc, NormBackwardProblem, NormForwardProblem
from .programs.normalization import NormKind


class _LayerStatistics:
    """Statistics with a format of their own."""

    call: ClassVar[tuple[str, ...]]
    stats: MemoryDesc

    __slots__ = ()

    @property
    def stat(self) -> MemoryDesc:
        """The statistics, under the name of the argument."""
        return self.stats

    @classmethod
    def placed(cls, args: Args, named: NamedArgs) -> tuple[Args, NamedArgs]:
        # Without a statistics descriptor, its place holds None, as in the C++ API.
        place = cls.call.index("stat") + 1
        is_left_out = len(args) > place and not isinstance(args[place], MemoryDesc | None)
        return ((*args[:place], None, *args[place:]) if is_left_out else args), named

    @classmethod
    def read_stats(
        cls, call: ArgumentReader, src: MemoryDesc, groups: int, like: MemoryDesc | None
    ) -> MemoryDesc:
        """Return the descriptor of the statistics. `like`: that of a hint."""
        dims = src.dims[:-1]
        like = like or MemoryDesc(dims, "f32")
        if call.stat is None:
            return like
        stat = call.open("stat")
        if stat.dims == dims and stat.data_type is DataType.f32:
            desc = resolved(stat, like)
            call.check_written("stat", desc)
            return desc
        raise refuse("RS-R10:statistics", what=call.what, src=src, stat=stat, dims=dims)


class LayerNormalizationProblem(_LayerStatistics, NormForwardProblem):
    """The layer normalization primitive (`dnnl::layer_normalization_forward`).

    `dst = (src - mean) / sqrt(variance + epsilon) * scale + shift`, with the statistics of each row along the
    last axis. Executed with `ARG_SRC`, `ARG_DST` and, depending on flags and propagation kind, `ARG_SCALE`,
    `ARG_SHIFT`, `ARG_MEAN`, `ARG_VARIANCE`. Source and destination can share memory if they are alike.
    """

    operation = "layer_normalization"
    primitive = "LayerNormalizationForward"
    call = "prop_kind", "src", "dst", "stat", "epsilon", "flags"
    last_defaults = {"scale_shift_data_type": "f32"}
    norm_kind = NormKind.layer
    node_reads = "src", "scale", "shift"
    node_values: ClassVar = {
        "stat": lambda node, dst: None,
        "flags": lambda node, dst: getattr(node, "flags", "use_scale|use_shift"),
    }
    arguments = """
    The last axis is normalized. `stat` describes the f32 statistics over all other dims, row-major if None
    or left out. `dst`: format "any" takes that of the source. `flags`: `NormalizationFlags`, or words joined
    by `|`. `attr`: scales, post-ops and the scratchpad mode."""

    __slots__ = ()


class LayerNormalizationBackwardProblem(_LayerStatistics, NormBackwardProblem):
    """The gradients of a layer normalization (`dnnl::layer_normalization_backward`).

    Executed with `ARG_SRC`, `ARG_DIFF_DST`, `ARG_DIFF_SRC`, `ARG_MEAN`, `ARG_VARIANCE` and, depending on the
    flags, `ARG_SCALE`, `ARG_DIFF_SCALE`, `ARG_DIFF_SHIFT`. `ARG_DIFF_DST` and `ARG_DIFF_SRC` may alias.
    """

    operation = "layer_normalization"
    primitive = "LayerNormalizationBackward"
    call = "prop_kind", "diff_src", "diff_dst", "src", "stat", "epsilon", "flags"
    last_defaults = {"scale_shift_data_type": "f32", "diff_scale_shift_data_type": "f32"}
    norm_kind = NormKind.layer
    node_values: ClassVar = {**NormBackwardProblem.node_values, "stat": lambda node, dst: None}
    arguments = """
    `prop_kind`: "backward", or "backward_data" without the gradients of scale and shift. Gradients of format
    "any" take that of the source. `hint_pd`: the forward descriptor of the same problem, or None. `stat`:
    if of format "any" or left out, that of the hint."""

    __slots__ = ()


LayerNormalizationForward = make_primitive(LayerNormalizationProblem, None, NormalizationPrimitiveDesc)
LayerNormalizationBackward = make_primitive(
    LayerNormalizationBackwardProblem, LayerNormalizationForward, desc=NormalizationPrimitiveDesc
)
