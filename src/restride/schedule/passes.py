"""Passes: rewrite a program into an equivalent one that more engines can run. They are engine-independent.

    spread_bytes      4-bit elements that tiles would separate -> bytes, and back
    unpack_operands   4-bit operands -> bytes
    split_integer_folds   folds of many elements into few -> pieces that threads share, then combined
    widen_trees       4-bit tensors that loop trees read or write -> floats, and back
    split_sums        a sum of many sources -> one step for some of them at a time
    without_grids     trees at positions of a grid -> the same in whole steps

An engine names the passes that it needs, and decides for which steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import TypeVar

from ..dtypes import DataType
from ..ir.nest import SCALAR, Axis, Compute, LoopNest, as_int, multiplied
from ..ir.nest import Step as ComputeStep
from ..ir.nest_rewrites import Span, byte_nest, byte_step, packing, unpacking, wide_type
from ..ir.program import GridStep, NestStep, Place, Program, Step, TreeStep
from ..ir.tree import LoopTree
from .trees.padding import padding_nests
from .trees.split_folds import split_folds

_T = TypeVar("_T")


class _ProgramWriter:
    """The steps and temporaries of a program that a pass builds."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.steps: list[Step] = []
        self.temporaries: list[int] = []

    @property
    def is_aliased(self) -> bool:
        """True if a source may share bytes with the destination."""
        return self._program.is_aliased

    def temporary(self, nbytes: int) -> Place:
        """Allocate a temporary."""
        self.temporaries.append(max(nbytes, 1))
        return Place(-len(self._program.temporaries) - len(self.temporaries))

    def program(self) -> Program:
        """Return the finished program."""
        return self._program.with_steps(self.steps, self.temporaries).verify()


def without_grids(program: Program) -> Program:
    """Replace grids by equivalent programs of whole steps."""
    return next((step.whole for step in program.steps if isinstance(step, GridStep)), program)


# --- 4-bit elements -----------------------------------------------------------------------------------------


def spread_bytes(program: Program, splits: Callable[[NestStep], bool]) -> Program:
    """Run nests for which `splits` is true on bytes that hold one element each.

    `s4 -> s4` becomes `s4 -> s8` (a line), `s8 -> s8` (the nest), `s8 -> s4` (a line).
    """
    if not any(step.nest.has_nibbles for step in program.nests):
        return program
    writer = _ProgramWriter(program)
    for step in program.steps:
        if isinstance(step, NestStep) and step.nest.has_nibbles and splits(step):
            _spread(writer, step)
        else:
            writer.steps.append(step)
    return writer.program()


def _spread(writer: _ProgramWriter, step: NestStep) -> None:
    nest = step.nest
    bytes_nest = byte_nest(nest, step.read, step.written)
    notes = (step.note, "through bytes, as 4-bit elements of one byte are apart")
    inner = replace(step, nest=bytes_nest.nest, staged=None, note="; ".join(filter(None, notes)))
    if bytes_nest.src is not None:
        inner = replace(inner, src=_unpacked(writer, step.src, nest.src_type, bytes_nest.src))
    if bytes_nest.dst is None:
        writer.steps.append(inner)
        return
    first, count = bytes_nest.dst
    if bytes_nest.reads_old is not None:
        old = _unpacked(writer, step.dst, bytes_nest.reads_old, bytes_nest.dst)
        inner = replace(inner, operands=(*inner.operands, old))
    wide = (
        _unpacked(writer, step.dst, nest.dst_type, bytes_nest.dst)
        if bytes_nest.keeps_gaps
        else writer.temporary(count)
    )
    writer.steps.append(replace(inner, dst=wide))
    packed = Place(step.dst.buffer, step.dst.offset + first // 2)
    writer.steps.append(_line_step(packing(nest.dst_type, count), wide, packed))


def _unpacked(writer: _ProgramWriter, packed: Place, data_type: DataType, span: tuple[int, int]) -> Place:
    """Unpack the 4-bit elements (first, count) of a place to bytes in a new temporary."""
    first, count = span
    wide = writer.temporary(count)
    start = Place(packed.buffer, packed.offset + first // 2)
    writer.steps.append(_line_step(unpacking(data_type, count), start, wide))
    return wide


def _line_step(nest: LoopNest, read: Place, written: Place) -> NestStep:
    """Return the step that unpacks elements to bytes, or packs them."""
    (axis,) = nest.axes
    count = axis.extent
    spans = (0, count * as_int(axis.src)), (0, count * as_int(axis.dst))
    return NestStep(nest, read, written, count + count // 2, *spans, is_named=False)


def unpack_operands(program: Program, needs: Callable[[NestStep, int], bool]) -> Program:
    """Unpack 4-bit operands for which `needs(step, index)` is true to bytes."""
    writer = _ProgramWriter(program)
    wide: dict[Place, tuple[Place, int]] = {}
    for step in program.steps:
        if isinstance(step, NestStep):
            for index, operand in enumerate(step.nest.operands):
                if operand.data_type.bits == 4 and needs(step, index):
                    step = _with_wide_operand(writer, program, wide, step, index)
        writer.steps.append(step)
    return writer.program() if wide else program


def _with_wide_operand(
    writer: _ProgramWriter, program: Program, wide: dict[Place, tuple[Place, int]], step: NestStep, index: int
) -> NestStep:
    place, operand = step.operands[index], step.nest.operands[index]
    if place not in wide:
        low, high = program.slots[place.buffer].span
        first = low - low % 2
        wide[place] = _unpacked(writer, place, operand.data_type, (first, high - first)), first
    moved, first = wide[place]
    each = byte_step(operand.data_type)
    wide_operand = replace(
        operand, data_type=wide_type(operand.data_type), base=(operand.base - first) * each
    )
    axes = tuple(
        replace(axis, more=_with(axis.more, index, multiplied(axis.more[index], each)))
        for axis in step.nest.axes
    )
    nest = replace(step.nest, operands=_with(step.nest.operands, index, wide_operand), axes=axes)
    return replace(step, nest=nest, operands=_with(step.operands, index, moved))


def _with(values: tuple[_T, ...], index: int, value: _T) -> tuple[_T, ...]:
    """Return the values with the one at `index` replaced."""
    return (*values[:index], value, *values[index + 1 :])


def widen_trees(program: Program, stays: Callable[[LoopTree], bool] = lambda _: False) -> Program:
    """Let loop trees compute on floats in place of 4-bit elements, unless a tree `stays` because its kernels
    access them in whole bytes.

    The floats have the type that the tree computes in, so that each result is rounded once.
    """
    trees = [step for step in program.steps if isinstance(step, TreeStep)]
    if not any(tensor.data_type.bits < 8 for step in trees for tensor in step.tree.tensors):
        return program
    writer = _ProgramWriter(program)
    for step in program.steps:
        if isinstance(step, TreeStep) and not stays(step.tree):
            _widen(writer, step)
        else:
            writer.steps.append(step)
    return writer.program()


def _widen(writer: _ProgramWriter, step: TreeStep) -> None:
    tree, real = step.tree, step.tree.number.storage
    read, packed = {load.tensor for load in tree.loads}, list[NestStep]()
    tensors, places = list(tree.tensors), list(step.places)
    for i, (tensor, place) in enumerate(zip(tree.tensors, step.places, strict=True)):
        low, high = tensor.span
        first, count = low - low % 2, high - low + low % 2
        if tensor.data_type.bits >= 8 or not count:
            continue
        kind = wide_type(tensor.data_type) if tree.number.is_integer else real
        wide, start = writer.temporary(kind.nbytes(count)), Place(place.buffer, place.offset + first // 2)
        is_written = tensor.name in tree.written
        # Elements between those that are written must be preserved.
        if tensor.name in read or not is_written or count != prod(tensor.padded):
            writer.steps.append(_line_step(_line(tensor.data_type, kind, count), start, wide))
        if is_written:
            packed.append(_line_step(_line(kind, tensor.data_type, count), wide, start))
            if tensor.data_type is DataType.nf4:  # its bits 0 do not represent zero
                packed += [
                    NestStep(nest, place, place, count, (0, 0), tensor.span, is_named=False)
                    for nest in padding_nests(tensor)
                ]
        tensors[i], places[i] = replace(tensor, data_type=kind, base=tensor.base - first), wide
    note = "; ".join(filter(None, (step.note, "through floats, as 4-bit elements have no addresses")))
    result = replace(tree, tensors=tuple(tensors)).verify()
    writer.steps += [replace(step, tree=result, places=tuple(places), note=note), *packed]


def _line(read: DataType, written: DataType, count: int) -> LoopNest:
    return LoopNest(read, written, (Axis(count, 1, 1),))


# --- integer folds ------------------------------------------------------------------------------------------


def split_integer_folds(program: Program, stays: Callable[[Step, TreeStep], bool]) -> Program:
    """Split folds of integers, which do not depend on the order, into pieces that threads share.

    `stays(step, fold)`: whether the fold of the preceding step's output is fused with that step.
    """
    steps: list[Step] = []
    temporaries: tuple[int, ...] = ()
    for step in program.steps:
        is_fold = isinstance(step, TreeStep) and step.tree.number.is_integer
        if isinstance(step, TreeStep) and is_fold and not (steps and stays(steps[-1], step)):
            parts, more = split_folds(step, len(program.temporaries) + len(temporaries))
            steps += parts
            temporaries += more
        else:
            steps.append(step)
    return program.with_steps(steps, temporaries).verify()


# --- sums of many sources -----------------------------------------------------------------------------------


def split_sums(program: Program, most: int) -> Program:
    """Read at most `most` sources at once in steps that add many; partial sums pass from one to the next.

    They are kept in the type of the computation, so that the bits are those of one step: in the destination
    if it has this type and no later step reads it as a source, else in a temporary.
    """
    if not any(_adds_more(step, most) for step in program.nests):
        return program
    writer = _ProgramWriter(program)
    for step in program.steps:
        if isinstance(step, NestStep) and _adds_more(step, most):
            writer.steps += _partial_sums(writer, step, most)
        else:
            writer.steps.append(step)
    return writer.program()


def _adds_more(step: NestStep, most: int) -> bool:
    return _added(step) >= most


def _added(step: NestStep) -> int:
    return sum(each.is_accumulation for each in step.nest.compute.steps)


def _partial_sums(writer: _ProgramWriter, step: NestStep, most: int) -> list[NestStep]:
    count = _added(step) + 1
    starts = range(0, count, most)
    so_far = _sum_so_far(writer, step)
    steps = [_partial_sum(step, (start, min(start + most, count)), count, so_far) for start in starts]
    return [replace(steps[0], note=f"{len(starts)} passes for {count} sources"), *steps[1:]]


def _sum_so_far(writer: _ProgramWriter, step: NestStep) -> tuple[Place, DataType, int]:
    """Return the place of the partial sum, its type, and how many elements before offset 0 it begins."""
    nest = step.nest
    real = DataType.f64 if nest.compute.wide else DataType.f32
    if nest.dst_type is real and not writer.is_aliased:
        return step.dst, real, 0
    low, high = step.written
    return writer.temporary(real.nbytes(high - low)), real, low


def _partial_sum(
    step: NestStep, part: tuple[int, int], count: int, so_far: tuple[Place, DataType, int]
) -> NestStep:
    """Return the step for the sources `part`, from the first to one past the last, after the partial sum."""
    (start, stop), (place, real, below), nest = part, so_far, step.nest
    first = start - 1 if start else 0
    chosen = range(first, stop - 1)
    axes = tuple(
        replace(axis, src=axis.dst if start else axis.src, more=tuple(axis.more[i] for i in chosen))
        for axis in nest.axes
    )
    before = () if start else tuple(each for each in nest.compute.steps if not each.is_accumulation)
    added = tuple(ComputeStep("add", operand=i, factor=SCALAR) for i in range(len(chosen)))
    result = replace(
        nest,
        axes=axes,
        compute=Compute((*before, *added), nest.compute.wide),
        operands=tuple(nest.operands[i] for i in chosen),
    )
    if start:
        result = replace(result, src_type=real, src_base=nest.dst_base - below)
    if stop < count:
        result = replace(result, dst_type=real, dst_base=nest.dst_base - below)
    return replace(
        step,
        nest=result.verify(),
        src=place if start else step.src,
        dst=place if stop < count else step.dst,
        read=_moved(step.written, below) if start else step.read,
        written=_moved(step.written, below) if stop < count else step.written,
        operands=tuple(step.operands[i] for i in chosen),
        scalars=(step.scalars[0] + start, stop - start),
        work_bytes=step.work_bytes * (stop - start + 1) // (count + 1),
        is_named=not start,
    )


def _moved(span: Span, below: int) -> Span:
    return span[0] - below, span[1] - below
