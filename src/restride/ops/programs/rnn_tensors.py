"""Tensors of recurrent networks: slices of them for each time step, and a builder of the programs.

A tree of one step is independent of layer, direction and time: it is written on slices, located by their
places. So all steps, layers and directions share kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from ...desc.memory_desc import MemoryDesc
from ...dtypes import DataType
from ...ir.digits import index_digits, offset_at, reorder_nest
from ...ir.expression import Load, parts_of
from ...ir.nest import Compute
from ...ir.numbers import Number
from ...ir.program import NestStep, Place, Program, RepeatStep, Slot, Step, TreeStep
from ...ir.tree import Each, LoopTree, TreeTensor
from ...schedule.contraction.pack import packed_count
from ...schedule.machine import NOMINAL

# The bytes that could be moved in the time of a gate.
_GATE_BYTES = 16


@dataclass(frozen=True, slots=True)
class StepTensor:
    """A tensor of one time step: `stride` is the number of bytes from a step to the next."""

    tensor: TreeTensor
    place: Place
    stride: int = 0

    def after(self, steps: int) -> StepTensor:
        """Return the tensor of a later step."""
        return replace(self, place=Place(self.place.buffer, self.place.offset + steps * self.stride))


@dataclass(frozen=True, slots=True)
class PlacedTensor:
    """A tensor and its place in memory."""

    md: MemoryDesc
    place: Place

    def slice(self, *at: int) -> StepTensor:
        """Return the tensor at indices of its first dims, with the other dims in order."""
        digits = [index_digits(self.md, dim) for dim in range(self.md.ndims)]
        base = self.md.offset0 + sum(offset_at(digits[dim], index) for dim, index in enumerate(at))
        sizes, padded = self.md.dims[len(at) :], self.md.padded_dims[len(at) :]
        # A place is the lowest address; all of a tensor is at or after it.
        strides = self.md.strides[len(at) :]
        lift = sum((size - 1) * -stride for size, stride in zip(sizes, strides, strict=True) if stride < 0)
        tensor = TreeTensor("", self.md.data_type, sizes, padded, tuple(digits[len(at) :]), lift)
        return StepTensor(tensor, self._behind(base - lift))

    def step(self, first: int = 0) -> StepTensor:
        """Return a time step (the first dim): number `first`, with the stride to the next."""
        stride = self.md.strides[0] * self.md.data_type.nbytes(1)
        return replace(self.slice(first), stride=stride)

    def run(self, layer: int, direction: int) -> PlacedTensor:
        """Return the tensor of one layer and direction, which are the first two dims."""
        tensor = self.slice(layer, direction)
        md = self.md
        rest = MemoryDesc.from_strides(md.dims[2:], md.data_type, md.strides[2:])
        return PlacedTensor(rest, tensor.place)

    def part(self, dim: int, start: int, size: int) -> PlacedTensor:
        """Return a range of indices of a dim."""
        dims, offsets = list(self.md.dims), [0] * self.md.ndims
        dims[dim], offsets[dim] = size, start
        return PlacedTensor(self.md.submemory_desc(dims, offsets), self.place)

    def flipped(self) -> PlacedTensor:
        """Return the tensor with its first dim reversed."""
        md, (first, *others) = self.md, self.md.strides
        start = md.offset0 + (md.dims[0] - 1) * first
        return PlacedTensor(
            MemoryDesc.from_strides(md.dims, md.data_type, (-first, *others), start), self.place
        )

    def _behind(self, elements: int) -> Place:
        return Place(self.place.buffer, self.place.offset + self.md.data_type.nbytes(elements))


Tensors = Mapping[str, StepTensor]


def named_tensors(tensors: Tensors) -> dict[str, TreeTensor]:
    """Return the tensors of trees by name."""
    return {name: replace(each.tensor, name=name) for name, each in tensors.items()}


@dataclass(slots=True)
class RnnProgramWriter:
    """A program under construction. `args`: the arguments of the slots in order, and which are written."""

    args: Mapping[int, bool]
    temporaries: list[int] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    scalars: int = 0

    def program(self, spans: Mapping[int, MemoryDesc]) -> Program:
        """Return the program; `spans`: the tensors of the arguments that are read."""
        slots = tuple(
            Slot(arg, is_written, (0, 0) if is_written or arg not in spans else spans[arg].extent_range())
            for arg, is_written in self.args.items()
        )
        steps, temporaries = tuple(self.steps), tuple(self.temporaries)
        return Program(slots, steps, temporaries, self.scalars).verify()

    def argument(self, arg: int, md: MemoryDesc, offset: int = 0) -> PlacedTensor:
        """Return the tensor of an argument."""
        return PlacedTensor(md, Place(list(self.args).index(arg), offset))

    def temporary(self, dims: Sequence[int], data_type: DataType = DataType.f32) -> PlacedTensor:
        """Allocate a row-major temporary."""
        return self.temporary_of(MemoryDesc(tuple(dims), data_type))

    def temporary_of(self, md: MemoryDesc) -> PlacedTensor:
        """Allocate a temporary of a descriptor."""
        self.temporaries.append(md.size)
        return PlacedTensor(md, Place(-len(self.temporaries)))

    def moved(self, source: PlacedTensor, md: MemoryDesc) -> PlacedTensor:
        """Return a tensor in another format: itself if it has it."""
        if source.md == md:
            return source
        target = self.temporary_of(md)
        nest = reorder_nest(source.md, md, Compute())
        spans = source.md.extent_range(), md.extent_range()
        self.steps.append(NestStep(nest, source.place, target.place, nest.moved_bytes, *spans))
        return target

    def once(self, loop: Each, tensors: Tensors) -> None:
        """Add a tree that runs once."""
        self.steps.append(self._tree(loop, tensors)[0])

    def repeated(self, turns: int, loops: Sequence[Each], tensors: Tensors) -> None:
        """Add trees that run in turn, repeatedly."""
        if turns < 1:
            return
        trees = [self._tree(loop, tensors) for loop in loops]
        if turns == 1:
            self.steps += [step for step, _ in trees]
            return
        strides = tuple(moved for _, moved in trees)
        self.steps.append(RepeatStep(turns, tuple(step for step, _ in trees), strides))

    def _tree(self, loop: Each, tensors: Tensors) -> tuple[TreeStep, tuple[int, ...]]:
        every = tuple(replace(each.tensor, name=name) for name, each in tensors.items())
        whole = LoopTree(every, (loop,), self.scalars, Number.real(is_wide=_sums_bytes(loop, tensors)))
        used = {load.tensor for load in whole.loads} | set(whole.written)
        tree = replace(whole, tensors=tuple(each for each in every if each.name in used)).verify()
        operands = [tensors[tensor.name] for tensor in tree.tensors]
        places = tuple(operand.place for operand in operands)
        step = TreeStep(tree, places, _work_of(tree), (0, self.scalars))
        return step, tuple(operand.stride for operand in operands)


def _sums_bytes(loop: Each, tensors: Tensors) -> bool:
    """Return whether a loop sums products of bytes, which are integers."""
    inner = [item for item in loop.items if isinstance(item, Each)]
    types = {tensors[load.tensor].tensor.data_type for load in _factors(inner)}
    return len(types) > 1 and all(data_type.is_integral for data_type in types)


def _factors(loops: Sequence[Each]) -> list[Load]:
    """Return what is multiplied in loops that sum products."""
    values = [value for loop in loops for fold in loop.folds for value in fold.values]
    return [part for value in values for part in parts_of(value) if isinstance(part, Load)]


def _work_of(tree: LoopTree) -> int:
    """Return the number of bytes that could be moved in the time of a tree."""
    moved = sum(tensor.data_type.nbytes(prod(tensor.padded)) for tensor in tree.tensors)
    (outer,) = tree.items
    inner = [item for item in outer.items if isinstance(item, Each)]
    summed = sum(each.positions * len(each.folds) for each in inner)
    types = [tree.tensor(load.tensor).data_type for load in _factors(inner)[:2]]
    pack = packed_count(*types) if len(types) > 1 else 1
    return moved + outer.positions * (_GATE_BYTES + summed // (NOMINAL.terms_per_byte * pack))
