"""Layer normalization, forward and backward."""

from __future__ import annotations

from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from ..errors import InvalidArguments
from ..plan.normalization import NormKind
from .any_format import resolved
from .forms import Args, CallArguments, NamedArgs, form_of
from .normalization import NormalizationBackwardPrimitiveDesc, NormalizationForwardPrimitiveDesc
from .parse import check_written
from .pointwise import OneStepPrimitive, check_open

__all__ = ["LayerNormalizationBackward", "LayerNormalizationForward"]


class _LayerStatistics:
    """Statistics that lie in a format of their own."""

    __slots__ = ()

    def _stat_desc(
        self, what: str, arguments: CallArguments, src: MemoryDesc, groups: int, like: MemoryDesc | None
    ) -> MemoryDesc:
        dims = src.dims[:-1]
        like = like or MemoryDesc(dims, "f32")
        if arguments.stat is None:
            return like
        stat = check_open(what, "stat", arguments.stat)
        if stat.dims == dims and stat.data_type is DataType.f32:
            chosen = resolved(stat, like)
            check_written(what, "stat", chosen)
            return chosen
        raise InvalidArguments(
            f"{what}: stat does not fit src",
            code="RS-R10",
            where=f"src {src}; stat {stat}",
            why=f"statistics are f32 of dims {dims}",
            hint="leave it out, or pass None",
        )


def _with_stat(place: int, args: Args) -> Args:
    """Without a descriptor of statistics, as C++ has it too, None stands there."""
    is_left_out = len(args) > place and not isinstance(args[place], MemoryDesc | None)
    return (*args[:place], None, *args[place:]) if is_left_out else args


class LayerNormalizationForwardPrimitiveDesc(_LayerStatistics, NormalizationForwardPrimitiveDesc):
    """Primitive descriptor of a layer normalization (`dnnl::layer_normalization_forward::primitive_desc`).

    `PrimitiveDesc(engine, prop_kind, src, dst, stat, epsilon, flags, attr=None, allow_empty=False,
    scale_shift_data_type="f32")`;
    without arguments it is empty and False. The last axis is normalized; `stat` describes the statistics, all
    other dims as f32, row-major where it is None or left out. `dst`: of format "any" it has that of the
    source. `flags`: `rs.NormalizationFlags`, or words joined by `|`. `attr`: scales, post-ops and the
    scratchpad mode. With `allow_empty`, a failure gives an empty descriptor.

    Raises InvalidArguments for what makes no sense, Unimplemented for what is not provided.
    """

    kind = "LayerNormalizationForward"
    _norm_kind = NormKind.layer
    form = form_of(
        "LayerNormalizationForward.PrimitiveDesc",
        *("engine", "prop_kind", "src", "dst", "stat", "epsilon", "flags"),
        attr=None,
        allow_empty=False,
        scale_shift_data_type="f32",
    )

    __slots__ = ()

    def _placed(self, args: Args, named: NamedArgs) -> tuple[Args, NamedArgs]:
        return _with_stat(4, args), named


class LayerNormalizationBackwardPrimitiveDesc(_LayerStatistics, NormalizationBackwardPrimitiveDesc):
    """Primitive descriptor of the gradients of a layer normalization.

    `PrimitiveDesc(engine, prop_kind, diff_src, diff_dst, src, stat, epsilon, flags, attr=None, hint_pd=None,
    allow_empty=False, scale_shift_data_type="f32", diff_scale_shift_data_type="f32")`, or with the hint
    before the attributes, as C++ has it; without arguments it is empty and False. `prop_kind`: "backward", or
    "backward_data" without the gradients of scale and shift. Gradients of format "any" have that of the
    source. `hint_pd`: the forward descriptor, of the same problem, or None. `stat` of format "any", or left
    out, is that of the hint.

    Raises InvalidArguments (a TypeError too, for a hint of another kind) and Unimplemented.
    """

    kind = "LayerNormalizationBackward"
    _norm_kind = NormKind.layer
    _hint_kind = LayerNormalizationForwardPrimitiveDesc
    form = form_of(
        "LayerNormalizationBackward.PrimitiveDesc",
        *("engine", "prop_kind", "diff_src", "diff_dst", "src", "stat", "epsilon", "flags"),
        attr=None,
        hint_pd=None,
        allow_empty=False,
        scale_shift_data_type="f32",
        diff_scale_shift_data_type="f32",
    )

    __slots__ = ()

    def _placed(self, args: Args, named: NamedArgs) -> tuple[Args, NamedArgs]:
        return _with_stat(5, args), named

    def _copied(self, **chosen: object) -> Args:
        return super()._copied(stat=self._problem_of().stats)


class LayerNormalizationForward(OneStepPrimitive):
    """The layer normalization primitive (`dnnl::layer_normalization_forward`).

    `LayerNormalizationForward(pd)`; without arguments it is empty, and executing it is an error.
    `dst = (src - mean) / sqrt(variance + epsilon) * scale + shift`, with the statistics of each row
    along the last axis.
    Executed with `ARG_SRC`, `ARG_DST`, and as flags and propagation kind ask `ARG_SCALE`, `ARG_SHIFT`,
    `ARG_MEAN`, `ARG_VARIANCE`. Source and destination may be one memory where both are alike.
    """

    PrimitiveDesc = LayerNormalizationForwardPrimitiveDesc
    kind = "LayerNormalizationForward"

    __slots__ = ()


class LayerNormalizationBackward(OneStepPrimitive):
    """The gradients of a layer normalization (`dnnl::layer_normalization_backward`).

    `LayerNormalizationBackward(pd)`; without arguments it is empty. Executed with `ARG_SRC`,
    `ARG_DIFF_DST`, `ARG_DIFF_SRC`, `ARG_MEAN`, `ARG_VARIANCE`, and as flags ask `ARG_SCALE`,
    `ARG_DIFF_SCALE`, `ARG_DIFF_SHIFT`. The gradients may be one memory.
    """

    PrimitiveDesc = LayerNormalizationBackwardPrimitiveDesc
    kind = "LayerNormalizationBackward"

    __slots__ = ()
