"""Gradients of normalizations as programs: of source, scale and shift."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..desc.arguments import (
    ARG_DIFF_DST,
    ARG_DIFF_SCALE,
    ARG_DIFF_SHIFT,
    ARG_DIFF_SRC,
    ARG_DIFF_SRC_1,
    ARG_MEAN,
    ARG_SCALE,
    ARG_SRC,
    ARG_VARIANCE,
    ARG_WORKSPACE,
)
from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import f32_bits
from ..dtypes import DataType
from .channel_groups import ChannelAxes, ChannelLoops, share_given, share_gradients, sum_up_gradients
from .computation import Computation, computation_of
from .expression import Const, Expr, Ref, TreeAxis
from .normalization import NormAxes, NormKind, RowPieces, inverse, norm_axes, row_pieces, stat_dims
from .normalization_parts import ProgramParts
from .normalization_problem import NormFlags, workspace_desc
from .pointwise import moved_bytes
from .problem import ProblemBase
from .program import Program
from .tree import Each, Item, Let, fold_over


@dataclass(frozen=True, slots=True)
class NormBackwardProblem(ProblemBase):
    """The gradients of a normalization. `has_weights`: those of scale and shift are written too."""

    kind: NormKind
    src: MemoryDesc
    diff_src: MemoryDesc
    diff_dst: MemoryDesc
    stats: MemoryDesc
    weights: MemoryDesc
    diff_weights: MemoryDesc
    flags: NormFlags
    has_weights: bool
    groups: int = 1
    epsilon: float = field(default=0.0, compare=False)
    attr: Attr = field(default_factory=Attr)
    bits: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bits", f32_bits(self.epsilon))

    def structure(self) -> NormBackwardProblem:
        """The problem without its epsilon."""
        return replace(self, epsilon=0.0)

    @property
    def dst(self) -> MemoryDesc:
        """What is written."""
        return self.diff_src

    def computation(self) -> Computation:
        """The epsilon."""
        nothing = computation_of(Attr(), self.diff_src, self.diff_src)
        return replace(nothing, scalars=(self.epsilon,), origins=((0, 0),))

    def reads(self) -> dict[int, MemoryDesc]:
        """What is read, by argument."""
        wanted = (
            (ARG_SRC, self.src, True),
            (ARG_DIFF_DST, self.diff_dst, True),
            (ARG_MEAN, self.stats, not self.flags.rms_norm),
            (ARG_VARIANCE, self.stats, True),
            (ARG_SCALE, self.weights, self.flags.use_scale),
            (ARG_WORKSPACE, workspace_desc(self.diff_dst), self.flags.has_relu),
        )
        return {arg: md for arg, md, is_read in wanted if is_read}

    def outputs(self) -> dict[int, MemoryDesc]:
        """What is written beside the gradient of the source, by argument."""
        wanted = (
            (ARG_DIFF_SCALE, self.diff_weights, self.has_weights and self.flags.use_scale),
            (ARG_DIFF_SHIFT, self.diff_weights, self.has_weights and self.flags.use_shift),
            (ARG_DIFF_SRC_1, self.diff_src, self.flags.fuse_norm_add_relu),
        )
        return {arg: md for arg, md, is_written in wanted if is_written}

    def program(self) -> Program:
        """The program: the inverse deviations, the gradients of scale and shift, and that of the source.

        Groups, and rows where they fall into pieces, are read once for all gradients.
        """
        outputs = self.outputs()
        args = {**self.reads(), ARG_DIFF_SRC: self.diff_src, **outputs}
        is_wide = DataType.f64 in (self.src.data_type, self.diff_src.data_type)
        parts = ProgramParts(args, (ARG_DIFF_SRC, *outputs), (ARG_SRC, ARG_DIFF_SRC), 1, is_wide=is_wide)
        axes = norm_axes(self.kind, self.src.dims, self.groups)
        if 0 in self.src.dims:
            parts.zeros(outputs)
            return parts.program()
        if self.kind is NormKind.group:
            self._channels(parts, axes)
            return parts.program()
        inverses = parts.temporary("inverse", stat_dims(self.kind, self.src.dims, self.groups))
        variance = parts.tensors["variance"].load(*axes.stats)
        parts.step(Each(axes.outer, (inverses.store(axes.outer, inverse(variance)),)), self.stats.size)
        sums, pieces = self._needs_sums, row_pieces(axes)
        if self.kind is NormKind.layer and pieces and self._writes_weights:
            self._pieces(parts, axes, pieces)
            return parts.program()
        if sums or self._writes_weights:
            self._weights(parts, axes, sums=sums)
        is_again = sums or self._writes_weights
        parts.step(self._data(parts, axes, sums=sums), self.work_bytes, backwards=is_again)
        return parts.program()

    @property
    def _writes_weights(self) -> bool:
        return bool(self.outputs().keys() & {ARG_DIFF_SCALE, ARG_DIFF_SHIFT})

    def _channels(self, parts: ProgramParts, axes: NormAxes) -> None:
        """Groups: the gradients of scale and shift of each image are part of that of the source."""
        loops, tensors = ChannelLoops(parts, ChannelAxes.of(axes, self.src)), parts.tensors
        elements, scale, is_rms = loops.axes.elements, tensors.get("scale"), self.flags.rms_norm
        mean = None if is_rms else tensors["mean"].load(*axes.stats)
        names = ("inverse", "factor", "centre")
        share_given(loops, scale, mean, tensors["variance"].load(*axes.stats), *names)
        dy, src = self._gradient(parts, elements), tensors["src"].load(*elements.at)
        distance: Expr = src if is_rms else src - loops.of_channel("centre")
        value: Expr = Ref("dy") * loops.of_channel("factor")
        if not self.flags.use_global_stats:
            share_gradients(loops, scale, dy, distance)
            value = value - distance * loops.of_channel("slope")
            value = value if is_rms else value - loops.of_channel("offset")
        elif self._writes_weights:
            sum_up_gradients(loops, dy, distance)
        loops.each_element((Let("dy", dy), *self._stores(parts, elements, value)))
        loops.write(self.work_bytes)
        if self._writes_weights:
            n, c = (loops.axes.n,), (loops.axes.c,)
            parts.step(Each(c, self._summed(parts, n, (*n, *c), c, "shifts", "scales")), self.stats.size)

    def _pieces(self, parts: ProgramParts, axes: NormAxes, pieces: RowPieces) -> None:
        """Rows in pieces that stay in the caches: the sums for scale and shift over the rows of each, and
        then the gradient of its rows, which may be written where another was read.
        """
        inner, rows = axes.inner, pieces.axes
        at = (*pieces.outside, *inner)
        names = {"shifts": Ref("shift_sum"), "scales": Ref("scale_sum")}
        kept = [parts.temporary(name, tuple(axis.extent for axis in at)) for name in names]
        stores = (tensor.store(at, value) for tensor, value in zip(kept, names.values(), strict=True))
        items = (
            Let("dy", self._gradient(parts, rows)),
            fold_over("sum", "shift_sum", Ref("dy")),
            fold_over("sum", "scale_sum", Ref("dy") * self._normal(parts, rows)),
        )
        sums = Each(inner, (Each(pieces.inside, items), *stores))
        data = self._data(parts, replace(rows, outer=pieces.inside), sums=False)
        parts.step(Each(pieces.outside, (sums, data)), self.work_bytes)
        summed = self._summed(parts, pieces.outside, at, inner, "shifts", "scales")
        parts.split_step(Each(inner, summed), self.stats.size)

    def _summed(
        self,
        parts: ProgramParts,
        over: tuple[TreeAxis, ...],
        at: tuple[TreeAxis, ...],
        channel: tuple[TreeAxis, ...],
        *names: str,
    ) -> tuple[Item, ...]:
        """The gradients of shift and scale, of tensors that hold parts of them."""
        folds: list[Item] = []
        stores: list[Item] = []
        for target, name in zip(("diff_shift", "diff_scale"), names, strict=True):
            if target in parts.tensors:
                folds.append(fold_over("sum", name, parts.tensors[name].load(*at)))
                stores.append(parts.tensors[target].store(channel, Ref(name)))
        return (Each(over, tuple(folds)), *stores)

    @property
    def _needs_sums(self) -> bool:
        """True where the gradients of scale and shift are part of that of the source."""
        return self.kind is NormKind.batch and not self.flags.use_global_stats

    def _gradient(self, parts: ProgramParts, axes: NormAxes) -> Expr:
        gradient: Expr = parts.tensors["diff_dst"].load(*axes.at)
        return gradient * parts.tensors["workspace"].load(*axes.at) if self.flags.has_relu else gradient

    def _distance(self, parts: ProgramParts, axes: NormAxes) -> Expr:
        src: Expr = parts.tensors["src"].load(*axes.at)
        return src if self.flags.rms_norm else src - parts.tensors["mean"].load(*axes.stats)

    def _normal(self, parts: ProgramParts, axes: NormAxes) -> Expr:
        return self._distance(parts, axes) * parts.tensors["inverse"].load(*axes.stats)

    def _weights(self, parts: ProgramParts, axes: NormAxes, *, sums: bool) -> None:
        """The sums of gradients, and of these times normalized elements, of each channel.

        A channel of a batch has one deviation: it divides the sum, not what is added.
        """
        distance, inverse_of = self._distance(parts, axes), parts.tensors["inverse"].load(*axes.stats)
        is_common = self.kind is NormKind.batch
        items = (
            Let("dy", self._gradient(parts, axes)),
            fold_over("sum", "shift_sum", Ref("dy")),
            fold_over("sum", "scale_sum", Ref("dy") * (distance if is_common else distance * inverse_of)),
        )
        scale_sum = Ref("scale_sum") * inverse_of if is_common else Ref("scale_sum")
        stores: list[Item] = []
        for name, value in (("diff_shift", Ref("shift_sum")), ("diff_scale", scale_sum)):
            if name in parts.tensors:
                stores.append(parts.tensors[name].store(axes.channel, value))
        if sums:
            stores += self._shared(parts, axes, scale_sum)
        parts.split_step(Each(axes.channels, (Each(axes.others, items), *stores)), self.work_bytes)

    def _shared(self, parts: ProgramParts, axes: NormAxes, scale_sum: Expr) -> list[Item]:
        """What the gradients of a channel's elements have in common, so that none takes a division."""
        count, inverse_of = Const(float(axes.count)), parts.tensors["inverse"].load(*axes.stats)
        scale = parts.tensors["scale"].load(*axes.channel) if self.flags.use_scale else Const(1.0)
        found = {"factor": inverse_of * scale, "slope": scale_sum / count * inverse_of}
        found |= {} if self.flags.rms_norm else {"offset": Ref("shift_sum") / count}
        return [
            parts.temporary(name, self.stats.dims).store(axes.channel, value) for name, value in found.items()
        ]

    def _data(self, parts: ProgramParts, axes: NormAxes, *, sums: bool) -> Each:
        """The gradient of the source."""
        count = Const(float(axes.count))
        normal = self._normal(parts, axes)
        gradient: Expr = Ref("dy")
        if self.flags.use_scale:
            gradient = gradient * parts.tensors["scale"].load(*axes.channel)
        inverses = parts.tensors["inverse"].load(*axes.stats)
        lets: tuple[Item, ...] = (Let("dy", self._gradient(parts, axes)), Let("g", gradient))
        if self.flags.use_global_stats:
            value: Expr = Ref("g") * inverses
            return self._each(parts, axes, lets, value, ())
        if sums:
            shared = {
                name: parts.tensors[name].load(*axes.channel)
                for name in ("factor", "slope", "offset")
                if name in parts.tensors
            }
            rest = Ref("dy") - self._distance(parts, axes) * shared["slope"]
            rest = rest - shared["offset"] if "offset" in shared else rest
            return self._each(parts, axes, lets[:1], rest * shared["factor"], ())
        folds = (fold_over("sum", "a", Ref("g")), fold_over("sum", "b", Ref("g") * normal))
        before = (
            Each(axes.inner, (*lets, *folds)),
            Let("ma", Const(0.0) if self.flags.rms_norm else Ref("a") / count),
            Let("mb", Ref("b") / count),
        )
        value = (Ref("g") - Ref("ma") - normal * Ref("mb")) * inverses
        return self._each(parts, axes, lets, value, before)

    def _each(
        self,
        parts: ProgramParts,
        axes: NormAxes,
        lets: tuple[Item, ...],
        value: Expr,
        before: tuple[Item, ...],
    ) -> Each:
        body = (*lets, *self._stores(parts, axes, value))
        if before:
            return Each(axes.outer, (*before, Each(axes.inner, body)))
        return Each((*axes.outer, *axes.inner), body)

    def _stores(self, parts: ProgramParts, axes: NormAxes, value: Expr) -> tuple[Item, ...]:
        """The gradients of one element."""
        stores: tuple[Item, ...] = (parts.tensors["diff_src"].store(axes.at, value),)
        if "diff_added" in parts.tensors:
            stores = (parts.tensors["diff_added"].store(axes.at, Ref("dy")), *stores)
        return stores

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written, each tensor once."""
        return moved_bytes([*self.reads().values(), *self.outputs().values()], self.diff_src)

    @property
    def work_bytes(self) -> int:
        """How many bytes could be moved in the time that this takes."""
        return self.moved_bytes
