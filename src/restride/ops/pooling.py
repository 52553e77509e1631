"""Pooling: maxima and averages of windows, forward and backward.

    dst = max of a window                          the first of equal ones; workspace: its position there
    dst = sum of a window / number of positions    all of them, or only those within the source
    diff_src = sum of diff_dst of the windows whose maximum is here, or of all windows, divided as above

For a window entirely in the padding, the maximum is the least value of the destination's type, and the
average is 0. Computed in f32, or in f64 if a tensor is f64 or an integer type that f32 cannot represent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import Any, ClassVar

import ml_dtypes

from ..desc.arguments import ARG_DIFF_DST, ARG_DST, ARG_DST_1, ARG_WORKSPACE, short_name
from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_int, short_repr
from ..dtypes import DataType
from ..errors import refuse
from ..ir.attribute_chain import AttributeChain, operand_tensors
from ..ir.computation import Computation, ComputationWriter, OperandSource
from ..ir.conversion import CODE_VALUES, INTEGER_LIMITS
from ..ir.digits import TensorOperand
from ..ir.expression import Affine, Const, Coordinate, Expr, Ref, TreeAxis, apply
from ..ir.nest import Compute
from ..ir.numbers import Number
from ..ir.tree import Each, Fold, Guard, Item, LoopTree, Store, TreeTensor, fold_over
from ..model.any_format import resolved
from ..model.derived import make_primitive
from ..model.operation import GradientProblem, OperationProblem, is_computed_wide
from ..model.pointwise import check_hint_workspace
from ..model.prop_kind import PropKind
from ..model.reader import ArgumentReader
from ..model.result_dims import Misfit, Shaped, check_indices
from ..schedule.trees.windows import rows_of_windows
from .programs.pooling_gradient_rows import PoolingGradientRows
from .programs.windows import WindowPhase, Windows, spatial_names

MAX, AVERAGE, AVERAGE_WITHIN = "max", "avg_include_padding", "avg_exclude_padding"
_ALGORITHMS = (MAX, AVERAGE, AVERAGE_WITHIN)
# A byte can hold window positions below this; 255 means that none was chosen.
_MOST_IN_BYTES = 256
# f32 represents all integers below this.
_MOST_IN_F32 = 1 << 24
# The argument of the counts, which is not passed by executions.
_COUNTS = -1
# Gradients have loops for at most this many stride phases.
_MOST_PHASES = 16
# Windows of more positions than this, and than this multiple of those of an image, are mostly padding: no
# network has them, and a corrupt file with one would compute for hours.
_MOST_POSITIONS, _MOST_OUTSIDE = 1 << 22, 64


def workspace_desc(windows: Windows, dst: MemoryDesc) -> MemoryDesc:
    """Return the workspace of the forward step: the position of each maximum in its window."""
    return dst.as_type(DataType.u8 if windows.positions < _MOST_IN_BYTES else DataType.s32)


_WINDOWS = ("strides", "kernel", "dilation", "padding_l", "padding_r")


@dataclass(frozen=True, slots=True)
class PoolingProblem(OperationProblem):
    """Maxima or averages of windows (`dnnl::pooling_forward`).

    Executed with `ARG_SRC`, `ARG_DST` and, if the descriptor has one, `ARG_WORKSPACE`.
    """

    operation = "pooling"
    primitive = "PoolingForward"
    call = ("prop_kind", "algorithm", "src", "dst", *_WINDOWS)
    algorithms = _ALGORITHMS
    parts = ("windows",)
    in_place = False
    rewrites = staticmethod(rows_of_windows)
    node_values: ClassVar = {"dilation": lambda node, dst: node.dilates}
    arguments = """
    `algorithm`: "pooling_max", "pooling_avg_include_padding" or "pooling_avg_exclude_padding". Tensors have a
    batch, channels and 1 to 3 spatial dims; the parameters have one number for each of these. A dilation of 0
    is dense. `dst`: format "any" takes that of the source. A maximum in training has a workspace. `attr`:
    post-ops and the scratchpad mode."""

    algorithm: str
    windows: Windows
    src: MemoryDesc
    dst: MemoryDesc
    leaves_positions: bool = False
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def read(cls, call: ArgumentReader) -> PoolingProblem:
        algorithm, src = call.algorithm(), call.known("src")
        dst = call.open("dst", src)
        windows = _read_windows(call, ("src", src), ("dst", dst))
        call.check_written("dst", dst)
        leaves = algorithm == MAX and call.prop_kind is PropKind.forward_training
        return cls(algorithm, windows, src, dst, leaves, call.attr("post_ops", of={ARG_DST: dst}))

    @classmethod
    def result_dims(cls, node: Any, *tensors: Shaped) -> tuple[int, ...]:
        (source,) = tensors
        windows = Windows(node.strides, node.kernel, node.dilates, node.padding_l, node.padding_r)
        ranks = {len(getattr(windows, name)) for name in _WINDOWS}
        if ranks != {len(source.dims) - 2} or len(source.dims) < 3:
            raise Misfit(f"the window has {len(node.kernel)} spatial dims")
        if min((*node.kernel, *node.strides)) < 1 or min(node.dilates) < 0:
            raise Misfit("a kernel and a stride must be at least 1, a dilation at least 0")
        spatial = tuple(windows.output(dim, n) for dim, n in enumerate(source.dims[2:]))
        if min(spatial) < 1:
            raise Misfit("the window is larger than the padded source")
        return (*source.dims[:2], *spatial)

    @property
    def verbose_aux(self) -> str:
        return f"alg:{self.algorithm} {_verbose_fields(self.windows)}"

    def _counts(self) -> tuple[OperandSource, ...]:
        """The numbers of window positions within the source, if they differ."""
        if self.algorithm != AVERAGE_WITHIN:
            return ()
        return (_count_operand(self.windows, self.src, self.dst),)

    def computation(self) -> Computation:
        """The counts, then the post-ops."""
        writer = ComputationWriter(
            self.dst.dims, is_wide=is_computed_wide(self.src, self.dst), sources=len(self._counts())
        )
        writer.finish(self.attr)
        total_computation = writer.computation()
        return replace(total_computation, operands=(*self._counts(), *total_computation.operands))

    def tree(self) -> LoopTree:
        """The loop tree."""
        src, dst = TreeTensor.of_desc("src", self.src), TreeTensor.of_desc("dst", self.dst)
        chain = AttributeChain(self.computation(), dst, self.dst.dims)
        outer = _axes(self.dst.dims)
        axes, taps = self.windows.taps_within(self.dst.dims[2:], self.src.dims[2:])
        at = self.windows.sources(outer[2:], taps)
        guards = self.windows.guards(at, self.dst.dims[2:], self.src.dims[2:])
        value = src.load(*outer[:2], *at)

        total = Ref("most" if self.algorithm == MAX else "total")
        loads = [operand.load(*outer) for operand in chain.operands]
        items: list[Item] = [
            Each(axes, self._folds(value, self._position((*outer[:2], *at), taps)), guards),
            chain.store(outer, self._result(total, loads)),
        ]
        places = [TreeTensor.of_desc(short_name(arg), md) for arg, md in self.outputs().items()]
        items += [each.store(outer, Ref("position")) for each in places]
        loop = Each(outer, tuple(items))
        tensors = (src, dst, *places, *chain.tensors)
        return LoopTree(tensors, (loop,), chain.scalars, Number.real(is_wide=self._is_wide)).verify()

    def _folds(self, value: Expr, position: Affine) -> tuple[Fold, ...]:
        if self.algorithm != MAX:
            return (fold_over("sum", "total", value),)
        if not self.outputs():
            return (fold_over("max", "most", value),)
        return (Fold("argmax", ("most", "position"), (value, Coordinate(position))),)

    def _position(self, source: Sequence[Affine | TreeAxis], taps: Sequence[Affine]) -> Affine:
        """Return the position of a maximum in its window from `source`, its position in the source."""
        return self.windows.position(taps)

    @property
    def _is_wide(self) -> bool:
        return is_computed_wide(self.src, self.dst)

    def _result(self, total: Expr, loads: Sequence[Expr]) -> Expr:
        if self.algorithm == MAX:
            least = least_of(self.dst.data_type)
            return apply("select", apply("lt", total, least), least, total)
        return total / (loads[0] if self._counts() else float(self.windows.positions))

    def outputs(self) -> dict[int, MemoryDesc]:
        """The workspace."""
        if not self.leaves_positions:
            return {}
        return {ARG_WORKSPACE: workspace_desc(self.windows, self.dst)}

    @property
    def work_bytes(self) -> int:
        # All windows are read from cache.
        return self.moved_bytes + self.dst.nelems * self.windows.positions


@dataclass(frozen=True, slots=True)
class MaxPoolingProblem(PoolingProblem):
    """Maxima of windows with their indices: the dot product of source coordinates and strides.

    Executed with `ARG_SRC`, `ARG_DST` and `ARG_DST_1` (the indices).
    """

    operation = "max_pooling"
    primitive = "MaxPooling"
    call = ("src", "dst", "indices", "index_strides", *_WINDOWS)
    prop_kinds = (PropKind.undef,)
    also_writes: ClassVar = {ARG_DST_1: "indices"}
    node_writes = "dst", "indices"
    arguments = """
    Tensors and window parameters are those of a pooling. `indices`: integers of 8 bits or more, with the dims
    of `dst`. `index_strides`: one for each dim of the source; those of a row-major tensor give flat element
    indices. `attr`: the scratchpad mode."""

    indices: MemoryDesc = field(default_factory=MemoryDesc)
    index_strides: tuple[int, ...] = ()

    @classmethod
    def read(cls, call: ArgumentReader) -> MaxPoolingProblem:
        src = call.known("src")
        dst = call.written("dst", src)
        indices = call.written("indices", dst)
        call.same_dims(dst=dst, indices=indices)
        windows = _read_windows(call, ("src", src), ("dst", dst))
        call.check_dims(indices, lambda: _of_indices(indices), src, name="indices")
        strides = _parse_numbers(call.what, "index_strides", call.index_strides, src.ndims)
        return cls(MAX, windows, src, dst, False, call.attr(), indices, strides)

    @classmethod
    def results_dims(cls, node: Any, *tensors: Shaped) -> tuple[tuple[int, ...], ...]:
        return (cls.result_dims(node, *tensors),) * 2

    @classmethod
    def results_types(cls, node: Any, *tensors: Shaped) -> tuple[DataType, ...]:
        return tensors[0].data_type, DataType.s64

    @property
    def verbose_aux(self) -> str:
        return _verbose_fields(self.windows)

    def outputs(self) -> dict[int, MemoryDesc]:
        """The indices."""
        return {ARG_DST_1: self.indices}

    def _position(self, source: Sequence[Affine | TreeAxis], taps: Sequence[Affine]) -> Affine:
        index = Affine()
        for at, stride in zip(source, self.index_strides, strict=True):
            index = index + at * stride
        return index

    @property
    def _is_wide(self) -> bool:
        last = sum((n - 1) * stride for n, stride in zip(self.src.dims, self.index_strides, strict=True))
        return is_computed_wide(self.src, self.dst) or last >= _MOST_IN_F32


def _of_indices(md: MemoryDesc) -> tuple[int, ...]:
    check_indices(md)
    return md.dims


@dataclass(frozen=True, slots=True)
class PoolingBackwardProblem(GradientProblem):
    """The gradient of the source of a pooling (`dnnl::pooling_backward`).

    Executed with `ARG_DIFF_DST`, `ARG_DIFF_SRC` and, for a maximum, the `ARG_WORKSPACE` of the forward step.
    """

    operation = "pooling"
    primitive = "PoolingBackward"
    call = ("algorithm", "diff_src", "diff_dst", *_WINDOWS)
    algorithms = _ALGORITHMS
    parts = ("windows",)
    in_place = False
    node_reads = "diff_dst", "workspace?"
    node_values = PoolingProblem.node_values
    arguments = """
    `hint_pd`: the forward descriptor of the same problem; gradients of format "any" take its formats, and
    are row-major without it. The workspace of a maximum has the layout of `diff_dst` and must come from a
    destination of that format."""

    algorithm: str
    windows: Windows
    diff_src: MemoryDesc
    diff_dst: MemoryDesc
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def read(cls, call: ArgumentReader) -> PoolingBackwardProblem:
        algorithm, hint = call.algorithm(), call.hint(PoolingProblem)
        diff_src, diff_dst = call.open("diff_src"), call.open("diff_dst")
        diff_src = resolved(diff_src, hint.src if hint else MemoryDesc(diff_src.dims, diff_src.data_type))
        diff_dst = resolved(diff_dst, hint.dst if hint else MemoryDesc(diff_dst.dims, diff_dst.data_type))
        windows = _read_windows(call, ("diff_src", diff_src), ("diff_dst", diff_dst))
        call.check_written("diff_src", diff_src)
        problem = cls(algorithm, windows, diff_src, diff_dst, call.attr())
        if hint is not None:
            pairs = {"algorithm": (hint.algorithm, algorithm), "windows": (hint.windows, windows)}
            call.check_hint(**pairs, dims=(hint.src.dims, diff_src.dims))
            if algorithm == MAX:
                check_hint_workspace(
                    call.what, hint.outputs().get(ARG_WORKSPACE, MemoryDesc()), problem.workspace
                )
        return problem

    @property
    def verbose_aux(self) -> str:
        return f"alg:{self.algorithm} {_verbose_fields(self.windows)}"

    def sources(self) -> dict[int, MemoryDesc]:
        return {ARG_DIFF_DST: self.diff_dst} | (
            {ARG_WORKSPACE: self.workspace} if self.algorithm == MAX else {}
        )

    @property
    def work_bytes(self) -> int:
        return self.moved_bytes + self.diff_src.nelems * self.windows.positions

    @property
    def workspace(self) -> MemoryDesc:
        """The positions stored by the forward step, for a maximum."""
        return workspace_desc(self.windows, self.diff_dst)

    def computation(self) -> Computation:
        """The counts, if they differ."""
        if self.algorithm != AVERAGE_WITHIN:
            return Computation(Compute(), (), ())
        return Computation(Compute(), (), (_count_operand(self.windows, self.diff_src, self.diff_dst),))

    def tree(self) -> LoopTree:
        """The loop tree: for each source position, the windows that contain it."""
        gradient, out = (
            TreeTensor.of_desc("diff_dst", self.diff_dst),
            TreeTensor.of_desc("diff_src", self.diff_src),
        )
        has_phases = prod(self.windows.strides) <= _MOST_PHASES
        is_wide = is_computed_wide(self.diff_dst, self.diff_src)
        more = self._further_tensors()
        rows = PoolingGradientRows(self.windows, self.diff_src, self.diff_dst, self.algorithm == MAX)
        if has_phases and rows.are_faster:
            loop = self._by_rows(rows, gradient, out, more)
        else:
            loop = (self._by_phases if has_phases else self._by_positions)(gradient, out, more)
        return LoopTree((gradient, out, *more), (loop,), number=Number.real(is_wide=is_wide)).verify()

    def _further_tensors(self) -> tuple[TreeTensor, ...]:
        """The tensors that determine what a window contributes: positions, or counts."""
        if self.algorithm == MAX:
            return (TreeTensor.of_desc("workspace", self.workspace),)
        return tuple(operand_tensors(self.computation().tensors, self.diff_dst.dims))

    def _by_rows(
        self, rows: PoolingGradientRows, gradient: TreeTensor, out: TreeTensor, more: tuple[TreeTensor, ...]
    ) -> Each:
        """Return the loop over rows of windows, then rows of the source."""
        outer = _axes(self.diff_src.dims)[:2]

        def term(index: tuple[Affine | TreeAxis, ...], taps: Sequence[Affine]) -> Expr:
            return self._term(gradient.load(*index), index, taps, more)

        return rows.loop(out, outer, term, self._result)

    def _by_phases(self, gradient: TreeTensor, out: TreeTensor, more: tuple[TreeTensor, ...]) -> Each:
        """Return loops over the multiples of the strides and the offsets from them: this avoids divisions."""
        sizes, outputs = self.diff_src.dims[2:], self.diff_dst.dims[2:]
        dim_phases = [
            self.windows.phases(dim, *both) for dim, both in enumerate(zip(sizes, outputs, strict=True))
        ]
        outer = _axes(self.diff_src.dims)[:2]
        items: list[Item] = []
        for number, phases in enumerate(product(*(phases for _, phases in dim_phases))):
            phase_items = self._phase(number, outer, phases, (gradient, out, *more))
            inside = tuple(guard for phase in phases for guard in phase.inside)
            items += [Each((), phase_items, inside)] if inside else phase_items
        # Stores come last, so that what several phases read is read once.
        items.sort(key=lambda item: isinstance(item, Store))
        return Each((*outer, *(axis for axis, _ in dim_phases)), tuple(items))

    def _phase(
        self,
        number: int,
        outer: Sequence[TreeAxis],
        phases: Sequence[WindowPhase],
        tensors: Sequence[TreeTensor],
    ) -> tuple[Item, ...]:
        """Return the items that write the positions of a phase. `tensors`: both gradients and the rest."""
        gradient, out, *more = tensors
        index: tuple[Affine | TreeAxis, ...] = (*outer, *(phase.output for phase in phases))
        term = self._term(gradient.load(*index), index, [phase.tap for phase in phases], more)
        at: tuple[Affine | TreeAxis, ...] = (*outer, *(phase.source for phase in phases))
        name = f"total{number}"
        if not all(phase.taps for phase in phases):
            return (out.store(at, Const(0.0)),)
        taps = tuple(axis for phase in phases for axis in phase.taps)
        guards = tuple(guard for phase in phases for guard in phase.guards)
        total = Each(taps, (fold_over("sum", name, term),), guards)
        return total, out.store(at, self._result(Ref(name)))

    def _result(self, total: Expr) -> Expr:
        return total / float(self.windows.positions) if self.algorithm == AVERAGE else total

    def _by_positions(self, gradient: TreeTensor, out: TreeTensor, more: tuple[TreeTensor, ...]) -> Each:
        """Return a loop in which each position examines all windows that can contain it."""
        windows = self.windows
        outer = _axes(self.diff_src.dims)
        axes, taps = windows.taps_within(self.diff_dst.dims[2:], self.diff_src.dims[2:])
        at = windows.outputs(outer[2:], taps)
        index: tuple[Affine | TreeAxis, ...] = (*outer[:2], *at)
        sizes = self.diff_dst.dims[2:]
        term = self._term(gradient.load(*index), index, taps, more)
        total = Each(axes, (fold_over("sum", "total", term),), tuple(map(Guard, at, sizes)))
        return Each(outer, (total, out.store(outer, self._result(Ref("total")))))

    def _term(
        self,
        gradient: Expr,
        index: tuple[Affine | TreeAxis, ...],
        taps: Sequence[TreeAxis | Affine],
        more: Sequence[TreeTensor],
    ) -> Expr:
        """Return what a window contributes."""
        if self.algorithm == AVERAGE:
            return gradient
        (further,) = more
        if self.algorithm == AVERAGE_WITHIN:
            return gradient / further.load(*index)
        is_chosen = apply("eq", further.load(*index), Coordinate(self.windows.position(taps)))
        return apply("select", is_chosen, gradient, 0.0)


def _axes(dims: tuple[int, ...]) -> tuple[TreeAxis, ...]:
    """Return loops over all elements of a tensor."""
    return tuple(map(TreeAxis, ("n", "c", *spatial_names(len(dims) - 2)), dims))


def _verbose_fields(windows: Windows) -> str:
    """Return the windows as shown in a verbose line."""
    numbers = ("kernel", windows.kernel), ("strides", windows.strides), ("dilation", windows.dilation)
    parts = (*numbers, ("padding", windows.padding_l))
    return " ".join(f"{name}:{'x'.join(map(str, value))}" for name, value in parts)


def _read_windows(
    call: ArgumentReader, source: tuple[str, MemoryDesc], result: tuple[str, MemoryDesc]
) -> Windows:
    """Read the windows of a call. Raises InvalidArguments if they or the dims do not fit."""
    _check_dims(call.what, source, result)
    count = source[1].ndims - 2
    windows = Windows(*(_parse_numbers(call.what, name, getattr(call, name), count) for name in _WINDOWS))
    check_windows(call.what, windows, source, result)
    (name, md), (_, dst) = source, result
    positions = prod(map(len, windows.spans_within(dst.dims[2:], md.dims[2:])))
    if positions > max(_MOST_POSITIONS, _MOST_OUTSIDE * prod(md.dims[2:])):
        raise refuse("RS-R10:windows-of-padding", what=call.what, positions=positions, name=name, md=md)
    return windows


def check_windows(
    what: str, windows: Windows, source: tuple[str, MemoryDesc], result: tuple[str, MemoryDesc]
) -> None:
    """Raise InvalidArguments unless the result has one element for each window."""
    _check_dims(what, source, result)
    (name, src), (other, dst) = source, result
    for dim in range(src.ndims - 2):
        extent = max(windows.output(dim, src.dims[dim + 2]), 0)
        if dst.dims[dim + 2] != extent:
            raise refuse(
                "RS-R10:destination-another-size",
                what=what,
                name=name,
                src=src,
                other=other,
                dst=dst,
                dim=dim,
                wanted=extent,
                dims=dst.dims[dim + 2],
            )


def _check_dims(what: str, source: tuple[str, MemoryDesc], result: tuple[str, MemoryDesc]) -> None:
    (name, src), (other, dst) = source, result
    if not 3 <= src.ndims <= 5 or dst.ndims != src.ndims or src.dims[:2] != dst.dims[:2]:
        raise refuse("RS-R10:batch-and-channels", what=what, name=name, src=src, other=other, dst=dst)


_LEAST = {"index_strides": 0, "strides": 1, "kernel": 1, "dilation": 0, "padding_l": 0, "padding_r": -(2**31)}


def _parse_numbers(what: str, name: str, value: object, count: int) -> tuple[int, ...]:
    """Return one integer for each spatial dim."""
    try:
        items = tuple[object, ...](value)  # type: ignore[arg-type]
    except Exception:  # iterating can raise anything
        items = ()
    numbers = tuple(parse_int(item, f"{what}: {name}") for item in items)
    if len(numbers) == count and all(_LEAST[name] <= number < 2**31 for number in numbers):
        return numbers
    least = _LEAST[name]
    raise refuse(
        "RS-V02:whole-numbers",
        what=what,
        name=name,
        value=short_repr(value),
        count=count,
        least=f" of {least} or more" if name != "padding_r" else "",
    )


def least_of(data_type: DataType) -> float:
    """Return the least finite value of a type."""
    if data_type in INTEGER_LIMITS:
        return float(INTEGER_LIMITS[data_type][0])
    if data_type in CODE_VALUES:
        return min(CODE_VALUES[data_type])
    return 0.0 if data_type is DataType.boolean else float(ml_dtypes.finfo(data_type.numpy).min)


def _count_operand(windows: Windows, src: MemoryDesc, dst: MemoryDesc) -> OperandSource:
    """Return the counts as an operand broadcast along batch and channels."""
    values = windows.counts(dst.dims[2:], src.dims[2:])
    extents = (1, 1, *values.shape)
    tensor = TensorOperand.of_groups(DataType.f32, extents, dst.dims)
    return OperandSource(tensor, _COUNTS, values.reshape(-1), None, values.size, DataType.f32, extents)


MaxPooling = make_primitive(MaxPoolingProblem)
PoolingForward = make_primitive(PoolingProblem)
PoolingBackward = make_primitive(PoolingBackwardProblem, PoolingForward)
