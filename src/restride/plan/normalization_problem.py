"""The problems of normalizations, forward and backward, and the programs that do them.

What is computed says `plan/normalization.py`.

Batch normalization forward is a program of three steps, where the statistics are found: pieces of each
channel, these together, and all elements. Rows of layer and group normalization are one step: a row is read
once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..desc.arguments import (
    ARG_DST,
    ARG_MEAN,
    ARG_SCALE,
    ARG_SHIFT,
    ARG_SRC,
    ARG_SRC_1,
    ARG_VARIANCE,
    ARG_WORKSPACE,
)
from ..desc.attr import Attr
from ..desc.attr_value import structure_of
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import f32_bits
from ..desc.tags import Tag
from ..dtypes import DataType
from .channel_groups import (
    ChannelAxes,
    ChannelLoops,
    has_channels_side_by_side,
    share_found,
    share_given,
)
from .computation import Computation, computation_of
from .expression import Const, Expr, Ref, apply
from .normalization import (
    NormAxes,
    NormKind,
    column_statistics,
    inverse,
    norm_axes,
    piece_loops,
    piece_sizes,
    statistics,
)
from .normalization_parts import ProgramParts
from .pointwise import moved_bytes
from .problem import ProblemBase
from .program import Program
from .tree import Each, Item, Let, Store
from .tree_steps import old_element, old_tensors, operand_loads, operand_tensors, with_steps


@dataclass(frozen=True, slots=True)
class NormFlags:
    """What a normalization does besides: oneDNN's `normalization_flags`."""

    use_global_stats: bool = False
    use_scale: bool = False
    use_shift: bool = False
    fuse_norm_relu: bool = False
    fuse_norm_add_relu: bool = False
    rms_norm: bool = False

    @property
    def has_relu(self) -> bool:
        """True where negative results become 0."""
        return self.fuse_norm_relu or self.fuse_norm_add_relu


@dataclass(frozen=True, slots=True)
class NormForwardProblem(ProblemBase):
    """What to normalize: equal problems share an executable.

    `stats` is what mean and variance are like, `weights` what scale and shift are. In training without given
    statistics these are written. `groups` are of a group normalization.
    """

    kind: NormKind
    src: MemoryDesc
    dst: MemoryDesc
    stats: MemoryDesc
    weights: MemoryDesc
    flags: NormFlags
    is_training: bool
    groups: int = 1
    epsilon: float = field(default=0.0, compare=False)
    attr: Attr = field(default_factory=Attr)
    bits: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bits", f32_bits(self.epsilon))

    def structure(self) -> NormForwardProblem:
        """The problem without its numbers."""
        return replace(self, epsilon=0.0, attr=structure_of(self.attr))

    def computation(self) -> Computation:
        """The epsilon, and then what is done to the result."""
        after = computation_of(self.attr, self.src, self.dst)
        return replace(after, scalars=(self.epsilon, *after.scalars), origins=((0, 0), *after.origins))

    def reads(self) -> dict[int, MemoryDesc]:
        """What is read, by argument."""
        flags = self.flags
        wanted = (
            (ARG_SRC, self.src, True),
            (ARG_MEAN, self.stats, flags.use_global_stats and not flags.rms_norm),
            (ARG_VARIANCE, self.stats, flags.use_global_stats),
            (ARG_SCALE, self.weights, flags.use_scale),
            (ARG_SHIFT, self.weights, flags.use_shift),
            (ARG_SRC_1, self.dst, flags.fuse_norm_add_relu),
        )
        return {arg: md for arg, md, is_read in wanted if is_read}

    def outputs(self) -> dict[int, MemoryDesc]:
        """What is written beside the destination, by argument."""
        found: dict[int, MemoryDesc] = {}
        if self.is_training and not self.flags.use_global_stats:
            found = {} if self.flags.rms_norm else {ARG_MEAN: self.stats}
            found[ARG_VARIANCE] = self.stats
        if self.is_training and self.flags.has_relu:
            found[ARG_WORKSPACE] = workspace_desc(self.dst)
        return found

    def program(self) -> Program:
        """The program."""
        computed, outputs = self.computation(), self.outputs()
        args = {**self.reads(), ARG_DST: self.dst, **outputs}
        scalars, is_wide = len(computed.scalars), DataType.f64 in (self.src.data_type, self.dst.data_type)
        parts = ProgramParts(args, (ARG_DST, *outputs), (ARG_SRC, ARG_DST), scalars, is_wide=is_wide)
        parts.operands(operand_tensors(computed.tensors, self.dst.dims), computed.slots())
        for old in old_tensors(computed.compute, parts.tensors["dst"]):
            parts.tensors[old.name], parts.places[old.name] = old, parts.places["dst"]
        axes = norm_axes(self.kind, self.src.dims, self.groups)
        if 0 in self.src.dims:
            parts.zeros(outputs)
            return parts.program()
        if self.kind is NormKind.batch:
            self._batch(parts, axes)
        elif self.kind is NormKind.group and has_channels_side_by_side(self.src):
            self._channels(parts, axes)
        else:
            self._rows(parts, axes)
        return parts.program()

    def _batch(self, parts: ProgramParts, axes: NormAxes) -> None:
        """Statistics of channels, the factor of each, and then all elements."""
        factor = parts.temporary("factor", self.stats.dims)
        items: tuple[Item, ...] = self._given(parts, axes)
        if not self.flags.use_global_stats:
            for name in ("variance",) if self.flags.rms_norm else ("mean", "variance"):
                parts.temporary(name, self.stats.dims)
            items = self._found(parts, axes)
            items = (*items, *self._stored(parts, axes))
        value = inverse(Ref("variance"))
        if self.flags.use_scale:
            value = value * parts.tensors["scale"].load(*axes.channel)
        parts.step(Each(axes.outer, (*items, factor.store(axes.stats, value))), self.work_bytes // 2)
        mean = Const(0.0) if self.flags.rms_norm else parts.tensors["mean"].load(*axes.stats)
        normal = (parts.tensors["src"].load(*axes.at) - mean) * factor.load(*axes.stats)
        parts.step(
            Each((*axes.outer, *axes.inner), self._result(parts, axes, normal, is_scaled=True)),
            self.work_bytes,
            backwards=not self.flags.use_global_stats,
        )

    def _found(self, parts: ProgramParts, axes: NormAxes) -> tuple[Item, ...]:
        """Items that find mean and variance, of pieces where there are some."""
        src, sizes = parts.tensors["src"], piece_sizes(axes)
        if not sizes or self.flags.rms_norm:
            return statistics(axes, src.load(*axes.at), is_rms=self.flags.rms_norm)
        means, squares = (parts.temporary(name, sizes) for name in ("means", "squares.pieces"))
        pieces, together = piece_loops(axes, src, means, squares)
        parts.step(pieces, self.work_bytes)
        return together

    def _rows(self, parts: ProgramParts, axes: NormAxes) -> None:
        """Rows, each with its statistics."""
        src = parts.tensors["src"].load(*axes.at)
        items = self._given(parts, axes)
        if not self.flags.use_global_stats:
            find = column_statistics if self._has_columns else statistics
            items = (*find(axes, src, is_rms=self.flags.rms_norm), *self._stored(parts, axes))
        normal = (src - Ref("mean")) * Ref("inverse")
        body = (
            *items,
            Let("inverse", inverse(Ref("variance"))),
            Each(axes.inner, self._result(parts, axes, normal, is_scaled=False)),
        )
        parts.step(Each(axes.outer, body), self.work_bytes)

    @property
    def _has_columns(self) -> bool:
        """True where the neighbour of an element is not of its row."""
        return self.src.layout.blocks[-1] == 1 and self.src.layout.outer_order[-1] != self.src.ndims - 1

    def _channels(self, parts: ProgramParts, axes: NormAxes) -> None:
        """Groups of channels that lie side by side."""
        loops, tensors = ChannelLoops(parts, ChannelAxes.of(axes, self.src)), parts.tensors
        elements, scale, is_rms = loops.axes.elements, tensors.get("scale"), self.flags.rms_norm
        src = tensors["src"].load(*elements.at)
        if self.flags.use_global_stats:
            mean = None if is_rms else tensors["mean"].load(*axes.stats)
            share_given(loops, scale, mean, tensors["variance"].load(*axes.stats), "factor", "centre")
        else:
            share_found(loops, scale, src, self._stored(parts, axes), is_rms=is_rms)
        distance: Expr = src if is_rms else src - loops.of_channel("centre")
        normal = distance * loops.of_channel("factor")
        loops.each_element(self._result(parts, elements, normal, is_scaled=True))
        loops.write(self.work_bytes)

    def _given(self, parts: ProgramParts, axes: NormAxes) -> tuple[Item, ...]:
        if not self.flags.use_global_stats:
            return ()
        mean: Expr = Const(0.0) if self.flags.rms_norm else parts.tensors["mean"].load(*axes.stats)
        return Let("mean", mean), Let("variance", parts.tensors["variance"].load(*axes.stats))

    def _stored(self, parts: ProgramParts, axes: NormAxes) -> tuple[Store, ...]:
        names = (name for name in ("mean", "variance") if name in parts.tensors)
        return tuple(parts.tensors[name].store(axes.stats, Ref(name)) for name in names)

    def _result(
        self, parts: ProgramParts, axes: NormAxes, normal: Expr, *, is_scaled: bool
    ) -> tuple[Item, ...]:
        """The items that make a result of a normalized element; `is_scaled`: its scale is in it."""
        flags, tensors, computed = self.flags, parts.tensors, self.computation()
        if flags.use_scale and not is_scaled:
            normal = normal * tensors["scale"].load(*axes.channel)
        if flags.use_shift:
            normal = normal + tensors["shift"].load(*axes.channel)
        if flags.fuse_norm_add_relu:
            normal = normal + tensors["added"].load(*axes.at)
        items: tuple[Item, ...] = (Let("result", normal),)
        result: Expr = Ref("result")
        if flags.has_relu:
            positive = apply("gt", Ref("result"), 0.0)
            result = apply("select", positive, Ref("result"), 0.0)
            if "workspace" in tensors:
                items = (*items, tensors["workspace"].store(axes.at, positive))
        operands = [tensors[f"x{i}"] for i in range(len(computed.operands))]
        old = [tensors["old"]] if "old" in tensors else []
        before = old_element(old, tensors["dst"], axes.at)
        made = with_steps(result, computed.compute, operand_loads(operands, axes.at), before, 1)
        return (*items, tensors["dst"].store(axes.at, made))

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written, each tensor once."""
        read = [md for arg, md in self.reads().items() if arg != ARG_SRC]
        return moved_bytes([self.src, *read, *self.outputs().values()], self.dst)

    @property
    def work_bytes(self) -> int:
        """How many bytes could be moved in the time that this takes."""
        return self.moved_bytes


def workspace_desc(like: MemoryDesc) -> MemoryDesc:
    """What a fused relu leaves to the backward step: a byte for each element, 1 where it was above 0."""
    tag = Tag(like.outer_order, like.inner_blks, like.inner_idxs)
    return MemoryDesc(like.dims, DataType.u8, tag)
