"""The common parts of batch, layer and group normalization: flags, statistics, problems forward and backward.

The computation is in `ops/programs/normalization.py`.

Forward batch normalization that computes its statistics is a program of three steps: partial statistics of
pieces of each channel, combining them, and normalizing all elements. Layer and group normalization take one
step: each row is read once.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, ClassVar, Self

from ..desc.arguments import (
    ARG_DIFF_DST,
    ARG_DIFF_SCALE,
    ARG_DIFF_SHIFT,
    ARG_DIFF_SRC,
    ARG_DIFF_SRC_1,
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
from ..desc.parse import f32_bits, one_of, parse_int, parse_type, short_repr
from ..desc.tags import Tag
from ..dtypes import DataType
from ..errors import LookupType, ValueLookup, refuse
from ..foreign import plain_text
from ..ir.attribute_chain import old_element, old_tensors, operand_loads, operand_tensors, with_steps
from ..ir.computation import Computation, computation_of
from ..ir.expression import Const, Expr, Ref, TreeAxis, apply
from ..ir.program import Program
from ..ir.tree import Each, Item, Let, Store, fold_over
from ..model.derived import DerivedPrimitiveDesc
from ..model.operation import GradientProblem, OperationProblem
from ..model.pointwise import check_hint_workspace
from ..model.prop_kind import PropKind
from ..model.reader import ArgumentReader
from ..model.result_dims import Misfit, Shaped
from .programs.channel_groups import (
    ChannelAxes,
    ChannelLoops,
    compute_stats,
    has_channels_side_by_side,
    share_gradients,
    sum_up_gradients,
    use_known_stats,
)
from .programs.normalization import (
    NormAxes,
    NormKind,
    RowPieces,
    column_statistics,
    inverse,
    is_provided,
    norm_axes,
    piece_loops,
    piece_sizes,
    row_pieces,
    stat_dims,
    statistics,
)
from .programs.normalization_parts import ProgramParts

_NO_DESC = MemoryDesc()
_KINDS = (PropKind.forward_inference, PropKind.forward_training)
_WEIGHT_TYPES = ("f32", "bf16", "f16")


class NormalizationFlags(ValueLookup, enum.IntFlag, metaclass=LookupType):
    """The additional work of a normalization (`dnnl::normalization_flags`); members are joined by `|`.

    Words such as "use_scale" are accepted in place of members.
    """

    none = 0
    use_global_stats = 1
    use_scale = 2
    use_shift = 4
    fuse_norm_relu = 8
    fuse_norm_add_relu = 16
    rms_norm = 32

    @classmethod
    def parse(cls, value: object, what: str) -> NormalizationFlags:
        """Return the flags for a member, a number or words joined by `|`. Raises InvalidArguments."""
        word = plain_text(value)
        if isinstance(word, str):
            names = [name.strip() for name in word.split("|")]
            if all(name in cls.__members__ for name in names):
                return cls(sum(cls[name] for name in dict.fromkeys(names)))
            hint = one_of(cls.__members__, next(name for name in names if name not in cls.__members__))
        else:
            number = parse_int(value, f"{what}: flags")
            if 0 <= number < 64:
                return cls(number)
            hint = one_of(cls.__members__)
        raise refuse("RS-V04:flags", what=what, value=short_repr(value), hint=hint)

    def values_of(self) -> NormFlags:
        """The flags as a problem holds them."""
        return NormFlags(*(bool(self & flag) for flag in _FLAGS))


_FLAGS = tuple(flag for flag in NormalizationFlags if flag)


@dataclass(frozen=True, slots=True)
class NormFlags:
    """The additional work of a normalization: oneDNN's `normalization_flags`."""

    use_global_stats: bool = False
    use_scale: bool = False
    use_shift: bool = False
    fuse_norm_relu: bool = False
    fuse_norm_add_relu: bool = False
    rms_norm: bool = False

    @property
    def has_relu(self) -> bool:
        """True if negative results become 0."""
        return self.fuse_norm_relu or self.fuse_norm_add_relu


class Normalization:
    """The arguments that all problems of one kind of normalization read, forward and backward."""

    norm_kind: ClassVar[NormKind]

    __slots__ = ()

    @classmethod
    def read_groups(cls, call: ArgumentReader, src: MemoryDesc) -> int:
        """Read the number of groups; 1 if there are none."""
        return 1

    @classmethod
    def read_stats(
        cls, call: ArgumentReader, src: MemoryDesc, groups: int, like: MemoryDesc | None
    ) -> MemoryDesc:
        """Return the descriptor of the statistics. `like`: that of a hint."""
        dims = stat_dims(cls.norm_kind, src.dims, groups)
        return MemoryDesc(dims, "f32") if dims else MemoryDesc((1,), "f32")

    @classmethod
    def read_flags(cls, call: ArgumentReader, src: MemoryDesc) -> tuple[NormFlags, float, int]:
        """Read flags, epsilon and the number of groups."""
        flags = NormalizationFlags.parse(call.flags, call.what)
        epsilon = call.number("epsilon")
        if not (isfinite(epsilon) and epsilon >= 0):
            why, hint = "it is added to a variance under the root", "pass a small number, such as 1e-5"
            raise refuse("RS-P06:epsilon", what=call.what, small=epsilon, why=why, hint=hint)
        check_data(call.what, src)
        _check_flags(call.what, flags, cls.norm_kind)
        return flags.values_of(), epsilon, cls.read_groups(call, src)

    @classmethod
    def read_weights(cls, call: ArgumentReader, src: MemoryDesc, name: str) -> MemoryDesc:
        """Return the descriptor of scale and shift, whose type is given by argument `name`."""
        kind = parse_type(getattr(call, name, "f32"))
        if kind.name not in _WEIGHT_TYPES:
            raise refuse(
                "RS-L02:scale-shift",
                what=call.what,
                name=name,
                kind=kind,
                weight_types=", ".join(_WEIGHT_TYPES),
            )
        return MemoryDesc((src.dims[-1 if cls.norm_kind is NormKind.layer else 1],), kind, "a")


@dataclass(frozen=True, slots=True)
class NormForwardProblem(Normalization, OperationProblem):
    """A normalization: equal problems share an executable.

    `stats` describes mean and variance, `weights` scale and shift. Training without given statistics writes
    them. `groups` is that of a group normalization.
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

    node_writes = "dst", "mean", "variance"

    def __post_init__(self) -> None:
        object.__setattr__(self, "bits", f32_bits(self.epsilon))

    @classmethod
    def read(cls, call: ArgumentReader) -> Self:
        src, dst = call.forward()
        flags, epsilon, groups = cls.read_flags(call, src)
        check_data(call.what, dst)
        attr = call.attr("scales", "post_ops", of={ARG_SRC: src, ARG_DST: dst})
        stats = cls.read_stats(call, src, groups, None)
        weights = cls.read_weights(call, src, "scale_shift_data_type")
        is_training = call.prop_kind is PropKind.forward_training
        return cls(cls.norm_kind, src, dst, stats, weights, flags, is_training, groups, epsilon, attr)

    @classmethod
    def result_dims(cls, node: Any, *tensors: Shaped) -> tuple[int, ...]:
        dims, *others = (tensor.dims for tensor in tensors)
        is_layer = cls.norm_kind is NormKind.layer
        channel_dims = dims[-1:] if is_layer else dims[1:2]
        types = {tensor.data_type for tensor in tensors[1:]}
        if len(dims) < 2 or set(others) != {channel_dims} or types != {DataType.f32}:
            where = "position of the last dim" if is_layer else "channel of the source"
            raise Misfit(f"the other tensors must have one f32 for each {where}")
        return dims

    @classmethod
    def results_dims(cls, node: Any, *tensors: Shaped) -> tuple[tuple[int, ...], ...]:
        dims = cls.result_dims(node, *tensors)
        stats = stat_dims(cls.norm_kind, dims, getattr(node, "groups", 1)) if trains(node) else ()
        return (dims, stats, stats)[: cls.count_of_results(node)]

    @classmethod
    def results_types(cls, node: Any, *tensors: Shaped) -> tuple[DataType, ...]:
        return (tensors[0].data_type, DataType.f32)[: cls.count_of_results(node)]

    @classmethod
    def count_of_results(cls, node: Any) -> int:
        return 3 if trains(node) else 1

    @property
    def verbose_aux(self) -> str:
        return _verbose_fields(self)

    def structure(self) -> Self:
        """The problem without its numbers."""
        return replace(self, epsilon=0.0, attr=structure_of(self.attr))

    def computation(self) -> Computation:
        """The epsilon, followed by the scales and post-ops of the result."""
        after = computation_of(self.attr, self.src, self.dst)
        return replace(after, scalars=(self.epsilon, *after.scalars), origins=((0, 0), *after.origins))

    def sources(self) -> dict[int, MemoryDesc]:
        """The tensors that are read, by argument."""
        flags = self.flags
        candidates = (
            (ARG_SRC, self.src, True),
            (ARG_MEAN, self.stats, flags.use_global_stats and not flags.rms_norm),
            (ARG_VARIANCE, self.stats, flags.use_global_stats),
            (ARG_SCALE, self.weights, flags.use_scale),
            (ARG_SHIFT, self.weights, flags.use_shift),
            (ARG_SRC_1, self.dst, flags.fuse_norm_add_relu),
        )
        return {arg: md for arg, md, is_read in candidates if is_read}

    def outputs(self) -> dict[int, MemoryDesc]:
        """The outputs other than the destination, by argument."""
        outputs: dict[int, MemoryDesc] = {}
        if self.is_training and not self.flags.use_global_stats:
            outputs = {} if self.flags.rms_norm else {ARG_MEAN: self.stats}
            outputs[ARG_VARIANCE] = self.stats
        if self.is_training and self.flags.has_relu:
            outputs[ARG_WORKSPACE] = workspace_desc(self.dst)
        return outputs

    def program(self) -> Program:
        """The program."""
        computed, outputs = self.computation(), self.outputs()
        args = {**self.sources(), ARG_DST: self.dst, **outputs}
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
        """Add the statistics of channels, the factor of each, and then all elements."""
        factor = parts.temporary("factor", self.stats.dims)
        items: tuple[Item, ...] = self._known_stats(parts, axes)
        if not self.flags.use_global_stats:
            for name in ("variance",) if self.flags.rms_norm else ("mean", "variance"):
                parts.temporary(name, self.stats.dims)
            items = self._compute_stats(parts, axes)
            items = (*items, *self._stats_stores(parts, axes))
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

    def _compute_stats(self, parts: ProgramParts, axes: NormAxes) -> tuple[Item, ...]:
        """Return the items that compute mean and variance, combining partial ones if there are any."""
        src, sizes = parts.tensors["src"], piece_sizes(axes)
        if not sizes or self.flags.rms_norm:
            return statistics(axes, src.load(*axes.at), is_rms=self.flags.rms_norm)
        means, squares = (parts.temporary(name, sizes) for name in ("means", "squares.pieces"))
        pieces, together = piece_loops(axes, src, means, squares)
        parts.step(pieces, self.work_bytes)
        return together

    def _rows(self, parts: ProgramParts, axes: NormAxes) -> None:
        """Add the rows, each with its statistics."""
        src = parts.tensors["src"].load(*axes.at)
        items = self._known_stats(parts, axes)
        if not self.flags.use_global_stats:
            find = column_statistics if self._has_columns else statistics
            items = (*find(axes, src, is_rms=self.flags.rms_norm), *self._stats_stores(parts, axes))
        normal = (src - Ref("mean")) * Ref("inverse")
        body = (
            *items,
            Let("inverse", inverse(Ref("variance"))),
            Each(axes.inner, self._result(parts, axes, normal, is_scaled=False)),
        )
        parts.step(Each(axes.outer, body), self.work_bytes)

    @property
    def _has_columns(self) -> bool:
        """True if adjacent elements belong to different rows."""
        return self.src.layout.blocks[-1] == 1 and self.src.layout.outer_order[-1] != self.src.ndims - 1

    def _channels(self, parts: ProgramParts, axes: NormAxes) -> None:
        """Add groups of channels that are adjacent in memory."""
        loops, tensors = ChannelLoops(parts, ChannelAxes.of(axes, self.src)), parts.tensors
        elements, scale, is_rms = loops.axes.elements, tensors.get("scale"), self.flags.rms_norm
        src = tensors["src"].load(*elements.at)
        if self.flags.use_global_stats:
            mean = None if is_rms else tensors["mean"].load(*axes.stats)
            use_known_stats(loops, scale, mean, tensors["variance"].load(*axes.stats), "factor", "center")
        else:
            compute_stats(loops, scale, src, self._stats_stores(parts, axes), is_rms=is_rms)
        distance: Expr = src if is_rms else src - loops.of_channel("center")
        normal = distance * loops.of_channel("factor")
        loops.each_element(self._result(parts, elements, normal, is_scaled=True))
        loops.write(self.work_bytes)

    def _known_stats(self, parts: ProgramParts, axes: NormAxes) -> tuple[Item, ...]:
        if not self.flags.use_global_stats:
            return ()
        mean: Expr = Const(0.0) if self.flags.rms_norm else parts.tensors["mean"].load(*axes.stats)
        return Let("mean", mean), Let("variance", parts.tensors["variance"].load(*axes.stats))

    def _stats_stores(self, parts: ProgramParts, axes: NormAxes) -> tuple[Store, ...]:
        names = (name for name in ("mean", "variance") if name in parts.tensors)
        return tuple(parts.tensors[name].store(axes.stats, Ref(name)) for name in names)

    def _result(
        self, parts: ProgramParts, axes: NormAxes, normal: Expr, *, is_scaled: bool
    ) -> tuple[Item, ...]:
        """Return the items from normalized element to result; `is_scaled`: the scale is already applied."""
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
        computation = with_steps(result, computed.compute, operand_loads(operands, axes.at), before, 1)
        return (*items, tensors["dst"].store(axes.at, computation))


@dataclass(frozen=True, slots=True)
class NormBackwardProblem(Normalization, GradientProblem):
    """The gradients of a normalization. `has_weights`: those of scale and shift are written too."""

    node_reads = "diff_dst", "src", "mean", "variance", "scale"
    node_writes = "diff_src", "diff_scale", "diff_shift"
    node_values: ClassVar = {"flags": lambda node, dst: getattr(node, "flags", "use_scale|use_shift")}
    prop_kinds = (PropKind.backward, PropKind.backward_data)
    prop_kind_error = (
        "a normalization gradient is backward or backward_data",
        "backward also writes the gradients of scale and shift",
    )

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

    @classmethod
    def read(cls, call: ArgumentReader) -> Self:
        src = call.known("src")
        diff_src, diff_dst = call.gradients(src=src)
        flags, epsilon, groups = cls.read_flags(call, src)
        if hint := call.hint(NormForwardProblem):
            call.check_hint(
                flags=(hint.flags, flags),
                groups=(hint.groups, groups),
                dims=(hint.src.dims, src.dims),
                epsilon=(hint.epsilon, epsilon),
                prop_kind=(
                    PropKind.forward_training if hint.is_training else PropKind.forward_inference,
                    PropKind.forward_training,
                ),
            )
        problem = cls(
            cls.norm_kind,
            src,
            diff_src,
            diff_dst,
            cls.read_stats(call, src, groups, None if hint is None else hint.stats),
            cls.read_weights(call, src, "scale_shift_data_type"),
            cls.read_weights(call, src, "diff_scale_shift_data_type"),
            flags,
            call.prop_kind is PropKind.backward,
            groups,
            epsilon,
            call.attr(),
        )
        workspace = problem.sources().get(ARG_WORKSPACE)
        if hint is not None and workspace is not None:
            check_hint_workspace(call.what, hint.outputs()[ARG_WORKSPACE], workspace)
        return problem

    @classmethod
    def results_dims(cls, node: Any, *tensors: Shaped) -> tuple[tuple[int, ...], ...]:
        source, scale = tensors[1].dims, tensors[4].dims
        return (source, scale, scale)

    @classmethod
    def results_types(cls, node: Any, *tensors: Shaped) -> tuple[DataType, ...]:
        return tensors[1].data_type, DataType.f32

    @property
    def verbose_aux(self) -> str:
        return _verbose_fields(self)

    def structure(self) -> Self:
        """The problem without its epsilon."""
        return replace(self, epsilon=0.0)

    def computation(self) -> Computation:
        """The epsilon."""
        nothing = computation_of(Attr(), self.diff_src, self.diff_src)
        return replace(nothing, scalars=(self.epsilon,), origins=((0, 0),))

    def sources(self) -> dict[int, MemoryDesc]:
        """The tensors that are read, by argument."""
        candidates = (
            (ARG_SRC, self.src, True),
            (ARG_DIFF_DST, self.diff_dst, True),
            (ARG_MEAN, self.stats, not self.flags.rms_norm),
            (ARG_VARIANCE, self.stats, True),
            (ARG_SCALE, self.weights, self.flags.use_scale),
            (ARG_WORKSPACE, workspace_desc(self.diff_dst), self.flags.has_relu),
        )
        return {arg: md for arg, md, is_read in candidates if is_read}

    def outputs(self) -> dict[int, MemoryDesc]:
        """The outputs other than the gradient of the source, by argument."""
        candidates = (
            (ARG_DIFF_SCALE, self.diff_weights, self.has_weights and self.flags.use_scale),
            (ARG_DIFF_SHIFT, self.diff_weights, self.has_weights and self.flags.use_shift),
            (ARG_DIFF_SRC_1, self.diff_src, self.flags.fuse_norm_add_relu),
        )
        return {arg: md for arg, md, is_written in candidates if is_written}

    def program(self) -> Program:
        """The program: the inverse deviations, the gradients of scale and shift, and that of the source.

        Groups, and rows that are split into pieces, are read once for all gradients.
        """
        outputs = self.outputs()
        args = {**self.sources(), ARG_DIFF_SRC: self.diff_src, **outputs}
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
        """Add groups: the gradients of scale and shift of each image contribute to that of the source."""
        loops, tensors = ChannelLoops(parts, ChannelAxes.of(axes, self.src)), parts.tensors
        elements, scale, is_rms = loops.axes.elements, tensors.get("scale"), self.flags.rms_norm
        mean = None if is_rms else tensors["mean"].load(*axes.stats)
        names = ("inverse", "factor", "center")
        use_known_stats(loops, scale, mean, tensors["variance"].load(*axes.stats), *names)
        dy, src = self._gradient(parts, elements), tensors["src"].load(*elements.at)
        distance: Expr = src if is_rms else src - loops.of_channel("center")
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
        """Add rows in pieces that stay in cache: the sums for scale and shift over the rows of each, then the
        gradient of its rows, which can overwrite memory that was read.
        """
        inner, rows = axes.inner, pieces.axes
        at = (*pieces.outside, *inner)
        names = {"shifts": Ref("shift_sum"), "scales": Ref("scale_sum")}
        temporaries = [parts.temporary(name, tuple(axis.extent for axis in at)) for name in names]
        stores = (tensor.store(at, value) for tensor, value in zip(temporaries, names.values(), strict=True))
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
        """Add the gradients of shift and scale from tensors of partial sums."""
        folds: list[Item] = []
        stores: list[Item] = []
        for target, name in zip(("diff_shift", "diff_scale"), names, strict=True):
            if target in parts.tensors:
                folds.append(fold_over("sum", name, parts.tensors[name].load(*at)))
                stores.append(parts.tensors[target].store(channel, Ref(name)))
        return (Each(over, tuple(folds)), *stores)

    @property
    def _needs_sums(self) -> bool:
        """True if the gradient of the source uses those of scale and shift."""
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
        """Add the sums of gradients, and of gradients times normalized elements, for each channel.

        A channel of a batch has one deviation: the sum is divided by it, not each term.
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
        """Return the common part of the gradients of a channel's elements, which saves their divisions."""
        count, inverse_of = Const(float(axes.count)), parts.tensors["inverse"].load(*axes.stats)
        scale = parts.tensors["scale"].load(*axes.channel) if self.flags.use_scale else Const(1.0)
        names = {"factor": inverse_of * scale, "slope": scale_sum / count * inverse_of}
        names |= {} if self.flags.rms_norm else {"offset": Ref("shift_sum") / count}
        return [
            parts.temporary(name, self.stats.dims).store(axes.channel, value) for name, value in names.items()
        ]

    def _data(self, parts: ProgramParts, axes: NormAxes, *, sums: bool) -> Each:
        """Return the loop that computes the gradient of the source."""
        count = Const(float(axes.count))
        normal = self._normal(parts, axes)
        gradient: Expr = Ref("dy")
        if self.flags.use_scale:
            gradient = gradient * parts.tensors["scale"].load(*axes.channel)
        inverses = parts.tensors["inverse"].load(*axes.stats)
        lets: tuple[Item, ...] = (Let("dy", self._gradient(parts, axes)), Let("g", gradient))
        if self.flags.use_global_stats:
            value: Expr = Ref("g") * inverses
            return self._store_loop(parts, axes, lets, value, ())
        if sums:
            shared = {
                name: parts.tensors[name].load(*axes.channel)
                for name in ("factor", "slope", "offset")
                if name in parts.tensors
            }
            rest = Ref("dy") - self._distance(parts, axes) * shared["slope"]
            rest = rest - shared["offset"] if "offset" in shared else rest
            return self._store_loop(parts, axes, lets[:1], rest * shared["factor"], ())
        folds = (fold_over("sum", "a", Ref("g")), fold_over("sum", "b", Ref("g") * normal))
        before = (
            Each(axes.inner, (*lets, *folds)),
            Let("ma", Const(0.0) if self.flags.rms_norm else Ref("a") / count),
            Let("mb", Ref("b") / count),
        )
        value = (Ref("g") - Ref("ma") - normal * Ref("mb")) * inverses
        return self._store_loop(parts, axes, lets, value, before)

    def _store_loop(
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
        """Return the stores of the gradients of one element."""
        stores: tuple[Item, ...] = (parts.tensors["diff_src"].store(axes.at, value),)
        if "diff_added" in parts.tensors:
            stores = (parts.tensors["diff_added"].store(axes.at, Ref("dy")), *stores)
        return stores


def trains(node: Any) -> bool:
    """Return whether a node computes mean and variance and returns them."""
    return getattr(node, "prop_kind", "") == PropKind.forward_training


def workspace_desc(like: MemoryDesc) -> MemoryDesc:
    """Return the workspace of a fused relu: a byte for each element, 1 where it was above 0."""
    tag = Tag(like.outer_order, like.inner_blks, like.inner_idxs)
    return MemoryDesc(like.dims, DataType.u8, tag)


# --- queries ------------------------------------------------------------------------------------------------


class NormalizationPrimitiveDesc(DerivedPrimitiveDesc):
    """Queries that descriptors of normalizations add."""

    __slots__ = ()

    def _normalization(self) -> NormForwardProblem | NormBackwardProblem:
        problem = self._implementation().problem
        assert isinstance(problem, NormForwardProblem | NormBackwardProblem)
        return problem

    def get_flags(self) -> NormalizationFlags:
        """Return the flags."""
        flags = self._normalization().flags
        return NormalizationFlags(sum(flag for flag in _FLAGS if getattr(flags, str(flag.name))))

    def mean_desc(self) -> MemoryDesc:
        """The descriptor of the means; the zero descriptor if there are none."""
        return self._exec_args().get(ARG_MEAN, _NO_DESC)

    def variance_desc(self) -> MemoryDesc:
        """The descriptor of the variances; the zero descriptor if there are none."""
        return self._exec_args().get(ARG_VARIANCE, _NO_DESC)

    def _descs_by_name(self) -> Mapping[str, MemoryDesc | tuple[MemoryDesc, ...]]:
        descs = {name: mds for name, mds in super()._descs_by_name().items() if name}
        if not self:
            return descs
        problem = self._normalization()
        if problem.flags.use_scale or problem.flags.use_shift:
            descs["weights"] = (problem.weights,)
            if isinstance(problem, NormBackwardProblem) and problem.has_weights:
                descs["diff_weights"] = (problem.diff_weights,)
        return descs


# --- checks -------------------------------------------------------------------------------------------------


def check_data(what: str, md: MemoryDesc) -> None:
    """Raise for a tensor that cannot be normalized: of an unsupported type, or of too few dims."""
    if not is_provided(md):
        raise refuse("RS-L02:not-normalized", what=what, md=md)
    if md.ndims < 2:
        raise refuse("RS-R10:tensor-too-few", what=what, md=md)


def _check_flags(what: str, flags: NormalizationFlags, kind: NormKind) -> None:
    fused = NormalizationFlags.fuse_norm_relu | NormalizationFlags.fuse_norm_add_relu
    if flags & fused == fused:
        why, hint = "fuse_norm_relu and fuse_norm_add_relu exclude each other", "pass only one of them"
        raise refuse("RS-V04:two-fused-functions", what=what, why=why, hint=hint)
    if flags & fused and kind is not NormKind.batch:
        raise refuse("RS-V04:fused-relu", what=what)
    if flags & NormalizationFlags.rms_norm and kind is NormKind.batch:
        why, hint = "only layer and group normalization support it", "leave it out"
        raise refuse("RS-V04:rms-norm", what=what, why=why, hint=hint)


def _verbose_fields(problem: NormForwardProblem | NormBackwardProblem) -> str:
    """Return the parameters as shown in a verbose line."""
    flags = "".join(letter for letter, is_set in _letters(problem.flags) if is_set)
    groups = f" groups:{problem.groups}" if problem.kind is NormKind.group else ""
    return f"flags:{flags or '-'} eps:{problem.epsilon:g}{groups}"


def _letters(flags: NormFlags) -> tuple[tuple[str, bool], ...]:
    """Return the flags by benchdnn's letters."""
    return (
        ("G", flags.use_global_stats),
        ("C", flags.use_scale),
        ("H", flags.use_shift),
        ("R", flags.fuse_norm_relu),
        ("A", flags.fuse_norm_add_relu),
        ("M", flags.rms_norm),
    )
