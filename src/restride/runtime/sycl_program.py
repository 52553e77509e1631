"""Nests ready to run on a SYCL device: planned, compiled when first wanted, submitted to a queue."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace

from ..dtypes import DataType
from ..errors import Unimplemented
from ..plan.compute import Compute
from ..plan.contract import is_wide
from ..plan.eltwise import ALGORITHMS
from ..plan.nest import LoopNest
from ..plan.nibbles import Span, Spread, line, spread, wide_type
from ..plan.work_items import ItemPlan, plan_items
from ..targets.spirv import Spirv
from .sycl import Place, Run, SyclDevice

# Below 2**31 groups of 256 items: what every driver takes.
_MOST_GROUPS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Given:
    """What a computation reads: operands, and scalars as floats."""

    operands: tuple[Place, ...] = ()
    scalars: tuple[float, ...] = ()


class SyclProgram:
    """A nest planned for a device. Immutable: threads and queues may share it.

    `name` and `why` say which kernel runs and for what reason. An empty nest submits nothing. Raises
    Unimplemented for computations in f64 on a device that has none.
    """

    def __init__(self, nest: LoopNest, device: SyclDevice, src_span: Span, dst_span: Span) -> None:
        self.device, self._spread = device, None
        nest = _with_wide_operands(nest)
        self.plan = None if nest.is_empty else plan_items(nest, device.facts)
        if self.plan is not None and self.plan.splits_bytes:
            self._spread = _SpreadSteps(nest, device, spread(nest, src_span, dst_span))
            self.plan = self._spread.plan
        _check_fits(nest, self.plan, device)
        self._real = ctypes.c_double if _is_wide(nest) else ctypes.c_float
        self.name = f"jit:spirv:{self.plan.kind}" if self.plan else "jit:nothing"
        self.why = self.plan.why if self.plan else "there are no elements"
        if self._spread:
            self.why += "; through bytes, as 4-bit elements of one byte are apart"

    @property
    def lowered(self) -> Spirv | None:
        """What is compiled; of several kernels the one that does the work."""
        return Spirv(self.plan) if self.plan else None

    @property
    def threads(self) -> int:
        """Number of work-items."""
        return self.plan.groups * self.plan.device.group if self.plan else 1

    def prepare(self) -> None:
        """Compile."""
        if self._spread:
            self._spread.prepare()
        elif self.plan:
            self.device.kernel(self.plan)

    def submit(self, run: Run, src: Place, dst: Place, given: Given) -> None:
        """Submit what the nest means, on checked memory."""
        if self._spread:
            self._spread.submit(run, src, dst, given)
        elif self.plan:
            places = (src, dst, *given.operands)
            args = [arg for place in places for arg in (place.usm, ctypes.c_int64(place.at))]
            scalars = [self._real(scalar) for scalar in given.scalars]
            run.submit(self.device.kernel(self.plan), [*args, *scalars], self.plan.groups)


class _SpreadSteps:
    """A nest on 4-bit sides in bytes of their own: spread, run, packed again."""

    def __init__(self, nest: LoopNest, device: SyclDevice, made: Spread) -> None:
        self._made, self._dst_type = made, nest.dst_type
        self._inner = _program(made.nest, device)
        self.plan = self._inner.plan
        kinds = {kind for kind in (made.reads_old, nest.dst_type if made.keeps else None) if kind}
        self._src = _Line(nest.src_type, wide_type(nest.src_type), made.src, device) if made.src else None
        self._old = {kind: _Line(kind, wide_type(kind), made.dst, device) for kind in kinds if made.dst}
        self._pack = _Line(wide_type(nest.dst_type), nest.dst_type, made.dst, device) if made.dst else None

    def prepare(self) -> None:
        """Compile."""
        for each in (self._inner, self._src, self._pack, *self._old.values()):
            if each is not None:
                each.prepare()

    def submit(self, run: Run, src: Place, dst: Place, given: Given) -> None:
        """Submit all steps, one after the other."""
        if self._src is not None:
            src = self._src.wide(run, src)
        if self._pack is None:
            self._inner.submit(run, src, dst, given)
            return
        if self._made.reads_old is not None:
            old = self._old[self._made.reads_old].wide(run, dst)
            given = Given((*given.operands, old), given.scalars)
        wide = self._old[self._dst_type].wide(run, dst) if self._made.keeps else self._pack.room(run)
        self._inner.submit(run, src, wide, given)
        self._pack.submit(run, wide, Place(dst.usm, dst.at + self._pack.byte))


class _Line:
    """A program that spreads or packs the 4-bit elements of `where`, (first, count)."""

    def __init__(self, src: DataType, dst: DataType, where: tuple[int, int], device: SyclDevice) -> None:
        first, self._count = where
        self.byte = first // 2
        self._program = _program(line(src, dst, self._count), device)

    def prepare(self) -> None:
        """Compile."""
        self._program.prepare()

    def room(self, run: Run) -> Place:
        """Bytes between, one for each element."""
        return run.room(self._count)

    def submit(self, run: Run, src: Place, dst: Place) -> None:
        """Run on the places of the first elements."""
        self._program.submit(run, src, dst, Given())

    def wide(self, run: Run, packed: Place) -> Place:
        """The elements of a packed tensor, given its offset 0, in bytes of their own."""
        room = self.room(run)
        self.submit(run, Place(packed.usm, packed.at + self.byte), room)
        return room


def spread_whole(run: Run, packed: Place, data_type: DataType) -> Place:
    """All 4-bit elements of a USM in bytes of their own, as operands are read."""
    line_of = _Line(data_type, wide_type(data_type), (0, 2 * int(packed.usm.nbytes)), run.device)
    return Place(line_of.wide(run, Place(packed.usm)).usm, 2 * packed.at)


def _with_wide_operands(nest: LoopNest) -> LoopNest:
    """The nest with operands of 4 bits in bytes of their own."""
    operands = tuple(
        replace(x, data_type=wide_type(x.data_type)) if x.data_type.bits == 4 else x for x in nest.operands
    )
    return replace(nest, operands=operands)


def _program(nest: LoopNest, device: SyclDevice) -> SyclProgram:
    """The program of a nest that needs no spreading, whatever its spans are."""
    return SyclProgram(nest, device, (0, 0), (0, 0))


def _is_wide(nest: LoopNest) -> bool:
    return is_wide(nest.src_type, nest.dst_type, nest.compute)


def _check_fits(nest: LoopNest, plan: ItemPlan | None, device: SyclDevice) -> None:
    if plan is not None and plan.groups > _MOST_GROUPS:
        raise Unimplemented(
            "reorder: too many elements for one launch",
            code="RS-D05",
            where=repr(device),
            why=f"{plan.groups} groups of work-items; devices take {_MOST_GROUPS}",
            hint="work in parts, through submemory_desc",
        )
    needs_double = _computes_in_double(nest.compute) or (_is_wide(nest) and _computes(nest))
    if needs_double and not device.has_double:
        raise Unimplemented(
            "reorder: the device has no f64",
            code="RS-D05",
            where=repr(device),
            why="f64 tensors, and post-ops such as exp and tanh, are computed in f64 (N1)",
            hint='use another device, or rs.Engine("cpu")',
        )


def _computes(nest: LoopNest) -> bool:
    return nest.src_type is not nest.dst_type or not nest.compute.is_move


def _computes_in_double(compute: Compute) -> bool:
    return any(step.is_eltwise and ALGORITHMS[step.name].in_double for step in compute.steps)
