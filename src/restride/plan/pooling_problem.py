"""The problems of pooling, forward and backward, and the programs that do them.

    dst = max of a window                          the first of equal ones; workspace: its position there
    dst = sum of a window / number of positions    all of them, or those within the source
    diff_src = sum of diff_dst, of the windows that have chosen the position, or each divided likewise

A window that lies in the padding alone has the least value of the destination's type as its maximum, and an
average of 0. As f32; as f64 where a tensor is f64, or of integers that f32 does not hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod

import ml_dtypes

from ..desc.arguments import ARG_DIFF_DST, ARG_DIFF_SRC, ARG_DST, ARG_SRC, ARG_WORKSPACE
from ..desc.attr import Attr
from ..desc.attr_value import structure_of
from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from .computation import Computation, ComputationWriter, OperandSource
from .conversion import F4_MAGNITUDES, INTEGER_LIMITS
from .expression import Affine, Const, Coordinate, Expr, Ref, TreeAxis, apply
from .nest import Compute
from .pointwise import moved_bytes
from .pooling_gradient_rows import PoolingGradientRows
from .pooling_rows import PoolingRows
from .problem import ProblemBase
from .program import DST, SRC, Place, Program, Slot, TreeStep
from .reorder import TensorOperand
from .tree import Each, Fold, Guard, Item, LoopTree, Store, TreeTensor, fold_over
from .tree_steps import old_element, old_tensors, operand_loads, operand_tensors, with_steps
from .windows import WindowPhase, Windows

MAX, AVERAGE, AVERAGE_WITHIN = "max", "avg_include_padding", "avg_exclude_padding"
ALGORITHMS = (MAX, AVERAGE, AVERAGE_WITHIN)
# Below it lie the positions of a window that a byte holds, which is 255 where none is chosen.
_MOST_IN_BYTES = 256
# The argument of the counts, which no execution brings.
_COUNTS = -1
_NAMES = ("n", "c", "d", "h", "w")
# Gradients have loops for so many phases of strides at most.
_MOST_PHASES = 16


def workspace_desc(windows: Windows, dst: MemoryDesc) -> MemoryDesc:
    """What forward leaves to backward: the position that each maximum has in its window."""
    return dst.as_type(DataType.u8 if windows.positions < _MOST_IN_BYTES else DataType.s32)


@dataclass(frozen=True, slots=True)
class PoolingProblem(ProblemBase):
    """A pooling: equal problems share an executable. `leaves_positions`: it writes a workspace."""

    alg: str
    windows: Windows
    src: MemoryDesc
    dst: MemoryDesc
    leaves_positions: bool = False
    attr: Attr = field(default_factory=Attr)

    def structure(self) -> PoolingProblem:
        """The problem without the values of its attributes."""
        return replace(self, attr=structure_of(self.attr))

    @property
    def is_wide(self) -> bool:
        """True where all is computed as doubles."""
        return _is_wide(self.src, self.dst)

    def _counts(self) -> tuple[OperandSource, ...]:
        """The numbers of positions within the source, where they differ."""
        if self.alg != AVERAGE_WITHIN:
            return ()
        return (_count_operand(self.windows, self.src, self.dst),)

    def computation(self) -> Computation:
        """The counts, then the post-ops."""
        writer = ComputationWriter(self.dst.dims, is_wide=self.is_wide, sources=len(self._counts()))
        writer.finish(self.attr)
        made = writer.computation()
        return replace(made, operands=(*self._counts(), *made.operands))

    def tree(self) -> LoopTree:
        """The loop tree."""
        computed = self.computation()
        src, dst = TreeTensor.of_desc("src", self.src), TreeTensor.of_desc("dst", self.dst)
        operands = operand_tensors(computed.tensors, self.dst.dims)
        places = TreeTensor.of_desc("workspace", workspace_desc(self.windows, self.dst))
        outer = tuple(TreeAxis(name, n) for name, n in zip(_NAMES, self.dst.dims, strict=False))
        taps = self.windows.kernel_axes()
        at = self.windows.sources(outer[2:], taps)
        guards = self.windows.guards(at, self.dst.dims[2:], self.src.dims[2:])
        value = src.load(*outer[:2], *at)
        loads = operand_loads(operands, outer)
        old = old_tensors(computed.compute, dst)
        before = old_element(old, dst, outer)

        def stored(found: Expr) -> Store:
            result = with_steps(self._result(found, loads), computed.compute, loads, before)
            return dst.store(outer, result)

        rows = PoolingRows(self.windows, self.src, self.dst, self.alg == MAX)
        if rows.are_faster and not self.leaves_positions:
            loop = rows.loop(src, outer, stored)
        else:
            found = Ref("most" if self.alg == MAX else "total")
            items: list[Item] = [Each(taps, self._folds(value, taps), guards), stored(found)]
            if self.leaves_positions:
                items.append(places.store(outer, Ref("position")))
            loop = Each(outer, tuple(items))
        tensors = (src, dst, *((places,) if self.leaves_positions else ()), *operands, *old)
        return LoopTree(tensors, (loop,), computed.compute.scalars, self.is_wide).verify()

    def _folds(self, value: Expr, taps: tuple[TreeAxis, ...]) -> tuple[Fold, ...]:
        if self.alg != MAX:
            return (fold_over("sum", "total", value),)
        if not self.leaves_positions:
            return (fold_over("max", "most", value),)
        position = Coordinate(self.windows.position(taps))
        return (Fold("argmax", ("most", "position"), (value, position)),)

    def _result(self, found: Expr, loads: Sequence[Expr]) -> Expr:
        if self.alg == MAX:
            least = least_of(self.dst.data_type)
            return apply("select", apply("lt", found, least), least, found)
        return found / (loads[0] if self._counts() else float(self.windows.positions))

    def program(self) -> Program:
        """The program: one tree."""
        computed = self.computation()
        more = (Slot(ARG_WORKSPACE, is_written=True),) if self.leaves_positions else ()
        slots = (Slot(ARG_SRC), Slot(ARG_DST, is_written=True), *more, *computed.slots())
        places = (Place(SRC), Place(DST), *(Place(DST + 1 + i) for i in range(len(slots) - 2)))
        tree = self.tree()
        # The old destination, read as another type.
        places = (*places, *[Place(DST)] * (len(tree.tensors) - len(places)))
        step = TreeStep(tree, places, self.work_bytes, (0, computed.compute.scalars))
        return Program(slots, (step,), scalars=computed.compute.scalars).verify()

    def outputs(self) -> dict[int, MemoryDesc]:
        """The workspace."""
        if not self.leaves_positions:
            return {}
        return {ARG_WORKSPACE: workspace_desc(self.windows, self.dst)}

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written."""
        return moved_bytes([self.src, *self.outputs().values()], self.dst)

    @property
    def work_bytes(self) -> int:
        """How many bytes could be moved in the time that this takes: every window is read from the caches."""
        return self.moved_bytes + self.dst.nelems * self.windows.positions


@dataclass(frozen=True, slots=True)
class PoolingBackwardProblem(ProblemBase):
    """The gradient of the source: equal problems share an executable."""

    alg: str
    windows: Windows
    diff_src: MemoryDesc
    diff_dst: MemoryDesc
    attr: Attr = field(default_factory=Attr)

    @property
    def dst(self) -> MemoryDesc:
        """What is written."""
        return self.diff_src

    @property
    def workspace(self) -> MemoryDesc:
        """The positions that forward has left, of a maximum."""
        return workspace_desc(self.windows, self.diff_dst)

    def computation(self) -> Computation:
        """The counts, where they differ."""
        if self.alg != AVERAGE_WITHIN:
            return Computation(Compute(), (), ())
        return Computation(Compute(), (), (_count_operand(self.windows, self.diff_src, self.diff_dst),))

    def tree(self) -> LoopTree:
        """The loop tree: for each source position the windows that have it."""
        gradient, out = (
            TreeTensor.of_desc("diff_dst", self.diff_dst),
            TreeTensor.of_desc("diff_src", self.diff_src),
        )
        has_phases = prod(self.windows.strides) <= _MOST_PHASES
        is_wide = _is_wide(self.diff_dst, self.diff_src)
        more = self._further_tensors()
        rows = PoolingGradientRows(self.windows, self.diff_src, self.diff_dst, self.alg == MAX)
        if has_phases and rows.are_faster:
            loop = self._by_rows(rows, gradient, out, more)
        else:
            loop = (self._by_phases if has_phases else self._by_positions)(gradient, out, more)
        return LoopTree((gradient, out, *more), (loop,), wide=is_wide).verify()

    def _further_tensors(self) -> tuple[TreeTensor, ...]:
        """What says, beside the gradient, what a window adds: positions, or counts."""
        if self.alg == MAX:
            return (TreeTensor.of_desc("workspace", self.workspace),)
        return tuple(operand_tensors(self.computation().tensors, self.diff_dst.dims))

    def _by_rows(
        self, rows: PoolingGradientRows, gradient: TreeTensor, out: TreeTensor, more: tuple[TreeTensor, ...]
    ) -> Each:
        """Rows of windows, then rows of the source."""
        outer = [TreeAxis(name, n) for name, n in zip(_NAMES, self.diff_src.dims[:2], strict=False)]

        def term(index: tuple[Affine | TreeAxis, ...], taps: Sequence[Affine]) -> Expr:
            return self._term(gradient.load(*index), index, taps, more)

        return rows.loop(out, outer, term, self._result)

    def _by_phases(self, gradient: TreeTensor, out: TreeTensor, more: tuple[TreeTensor, ...]) -> Each:
        """Positions that are multiples of the strides, and those that follow: no window takes a division."""
        sizes, outputs = self.diff_src.dims[2:], self.diff_dst.dims[2:]
        found = [self.windows.phases(dim, *both) for dim, both in enumerate(zip(sizes, outputs, strict=True))]
        outer = [TreeAxis(name, n) for name, n in zip(_NAMES, self.diff_src.dims[:2], strict=False)]
        items: list[Item] = []
        for number, phases in enumerate(product(*(phases for _, phases in found))):
            made = self._phase(number, outer, phases, (gradient, out, *more))
            inside = tuple(guard for phase in phases for guard in phase.inside)
            items += [Each((), made, inside)] if inside else made
        # Stores last: so that what several phases read is read once.
        items.sort(key=lambda item: isinstance(item, Store))
        return Each((*outer, *(axis for axis, _ in found)), tuple(items))

    def _phase(
        self,
        number: int,
        outer: Sequence[TreeAxis],
        phases: Sequence[WindowPhase],
        tensors: Sequence[TreeTensor],
    ) -> tuple[Item, ...]:
        """The items that write the positions of a phase. `tensors`: both gradients, and the further ones."""
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
        return total / float(self.windows.positions) if self.alg == AVERAGE else total

    def _by_positions(self, gradient: TreeTensor, out: TreeTensor, more: tuple[TreeTensor, ...]) -> Each:
        """Every position looks at all that may have it."""
        windows = self.windows
        outer = tuple(TreeAxis(name, n) for name, n in zip(_NAMES, self.diff_src.dims, strict=False))
        taps = windows.kernel_axes()
        at = windows.outputs(outer[2:], taps)
        index: tuple[Affine | TreeAxis, ...] = (*outer[:2], *at)
        sizes = self.diff_dst.dims[2:]
        term = self._term(gradient.load(*index), index, taps, more)
        total = Each(taps, (fold_over("sum", "total", term),), tuple(map(Guard, at, sizes)))
        return Each(outer, (total, out.store(outer, self._result(Ref("total")))))

    def _term(
        self,
        gradient: Expr,
        index: tuple[Affine | TreeAxis, ...],
        taps: Sequence[TreeAxis | Affine],
        more: Sequence[TreeTensor],
    ) -> Expr:
        """What a window adds."""
        if self.alg == AVERAGE:
            return gradient
        (further,) = more
        if self.alg == AVERAGE_WITHIN:
            return gradient / further.load(*index)
        is_chosen = apply("eq", further.load(*index), Coordinate(self.windows.position(taps)))
        return apply("select", is_chosen, gradient, 0.0)

    def program(self) -> Program:
        """The program: one tree."""
        positions = (Slot(ARG_WORKSPACE),) if self.alg == MAX else ()
        slots = (
            Slot(ARG_DIFF_DST),
            Slot(ARG_DIFF_SRC, is_written=True),
            *positions,
            *self.computation().slots(),
        )
        work = self.moved_bytes + self.diff_src.nelems * self.windows.positions
        step = TreeStep(self.tree(), tuple(map(Place, range(len(slots)))), work)
        return Program(slots, (step,)).verify()

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written."""
        read = [self.diff_dst, *((self.workspace,) if self.alg == MAX else ())]
        return moved_bytes(read, self.diff_src)


def least_of(data_type: DataType) -> float:
    """The least finite value of a type."""
    if data_type in INTEGER_LIMITS:
        return float(INTEGER_LIMITS[data_type][0])
    if data_type in F4_MAGNITUDES:
        return -F4_MAGNITUDES[data_type][-1]
    return 0.0 if data_type is DataType.boolean else float(ml_dtypes.finfo(data_type.numpy).min)


def _is_wide(*mds: MemoryDesc) -> bool:
    return any(md.data_type in (DataType.f64, DataType.s32) for md in mds)


def _count_operand(windows: Windows, src: MemoryDesc, dst: MemoryDesc) -> OperandSource:
    """The counts as an operand that is repeated along batch and channels."""
    values = windows.counts(dst.dims[2:], src.dims[2:])
    extents = (1, 1, *values.shape)
    tensor = TensorOperand.of_groups(DataType.f32, extents, dst.dims)
    return OperandSource(tensor, _COUNTS, values.reshape(-1), None, values.size, DataType.f32, extents)
