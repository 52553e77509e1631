"""Tensors of recurrent networks: slices of them that steps of time go through, and the program they make.

A tree of one step knows no layer, no direction and no time: it is written on slices, whose places say where
they lie. So all steps, layers and directions share kernels.
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

# Bytes that could be moved in the time of a gate.
_GATE_BYTES = 16


@dataclass(frozen=True, slots=True)
class StepTensor:
    """A tensor of one step of time: `stride` is how many bytes it moves from a step to the next."""

    tensor: TreeTensor
    place: Place
    stride: int = 0

    def after(self, steps: int) -> StepTensor:
        """The same so many steps later."""
        return replace(self, place=Place(self.place.buffer, self.place.offset + steps * self.stride))


@dataclass(frozen=True, slots=True)
class PlacedTensor:
    """A tensor and where its memory is."""

    md: MemoryDesc
    place: Place

    def slice(self, *at: int) -> StepTensor:
        """The tensor at indices of its first dims: the other dims in their order."""
        digits = [index_digits(self.md, dim) for dim in range(self.md.ndims)]
        base = self.md.offset0 + sum(offset_at(digits[dim], index) for dim, index in enumerate(at))
        sizes, padded = self.md.dims[len(at) :], self.md.padded_dims[len(at) :]
        # A place is the lowest address, so that all of a tensor is behind it.
        strides = self.md.strides[len(at) :]
        lift = sum((size - 1) * -stride for size, stride in zip(sizes, strides, strict=True) if stride < 0)
        tensor = TreeTensor("", self.md.data_type, sizes, padded, tuple(digits[len(at) :]), lift)
        return StepTensor(tensor, self._behind(base - lift))

    def step(self, first: int = 0) -> StepTensor:
        """One step of time, which is the first dim: number `first`, then the one behind it."""
        stride = self.md.strides[0] * self.md.data_type.nbytes(1)
        return replace(self.slice(first), stride=stride)

    def run(self, layer: int, direction: int) -> PlacedTensor:
        """The tensor of one layer and direction, which are the first two dims."""
        tensor = self.slice(layer, direction)
        md = self.md
        rest = MemoryDesc.from_strides(md.dims[2:], md.data_type, md.strides[2:])
        return PlacedTensor(rest, tensor.place)

    def part(self, dim: int, start: int, size: int) -> PlacedTensor:
        """Some indices of a dim."""
        dims, offsets = list(self.md.dims), [0] * self.md.ndims
        dims[dim], offsets[dim] = size, start
        return PlacedTensor(self.md.submemory_desc(dims, offsets), self.place)

    def flipped(self) -> PlacedTensor:
        """The same with its first dim backwards."""
        md, (first, *others) = self.md, self.md.strides
        start = md.offset0 + (md.dims[0] - 1) * first
        return PlacedTensor(
            MemoryDesc.from_strides(md.dims, md.data_type, (-first, *others), start), self.place
        )

    def _behind(self, elements: int) -> Place:
        return Place(self.place.buffer, self.place.offset + self.md.data_type.nbytes(elements))


Tensors = Mapping[str, StepTensor]


def named_tensors(tensors: Tensors) -> dict[str, TreeTensor]:
    """The tensors of trees by their names."""
    return {name: replace(each.tensor, name=name) for name, each in tensors.items()}


@dataclass(slots=True)
class RnnProgramWriter:
    """A program while it is written. `args`: the arguments of the slots in order, and which are written."""

    args: Mapping[int, bool]
    temporaries: list[int] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    scalars: int = 0

    def program(self, spans: Mapping[int, MemoryDesc]) -> Program:
        """What has been written; `spans`: the tensors of the arguments that are read."""
        slots = tuple(
            Slot(arg, is_written, (0, 0) if is_written or arg not in spans else spans[arg].extent_range())
            for arg, is_written in self.args.items()
        )
        steps, temporaries = tuple(self.steps), tuple(self.temporaries)
        return Program(slots, steps, temporaries, self.scalars).verify()

    def argument(self, arg: int, md: MemoryDesc, offset: int = 0) -> PlacedTensor:
        """The tensor of an argument."""
        return PlacedTensor(md, Place(list(self.args).index(arg), offset))

    def temporary(self, dims: Sequence[int], data_type: DataType = DataType.f32) -> PlacedTensor:
        """A row-major tensor of the program's own."""
        return self.temporary_of(MemoryDesc(tuple(dims), data_type))

    def temporary_of(self, md: MemoryDesc) -> PlacedTensor:
        """A tensor of the program's own."""
        self.temporaries.append(md.size)
        return PlacedTensor(md, Place(-len(self.temporaries)))

    def moved(self, source: PlacedTensor, md: MemoryDesc) -> PlacedTensor:
        """A tensor in another format: itself where it has it."""
        if source.md == md:
            return source
        target = self.temporary_of(md)
        nest = reorder_nest(source.md, md, Compute())
        spans = source.md.extent_range(), md.extent_range()
        self.steps.append(NestStep(nest, source.place, target.place, nest.moved_bytes, *spans))
        return target

    def once(self, loop: Each, tensors: Tensors) -> None:
        """A tree that runs once."""
        self.steps.append(self._tree(loop, tensors)[0])

    def repeated(self, turns: int, loops: Sequence[Each], tensors: Tensors) -> None:
        """Trees that run in turn, so many times."""
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
    """True for sums of products of bytes, which are integers."""
    inner = [item for item in loop.items if isinstance(item, Each)]
    types = {tensors[load.tensor].tensor.data_type for load in _factors(inner)}
    return len(types) > 1 and all(data_type.is_integral for data_type in types)


def _factors(loops: Sequence[Each]) -> list[Load]:
    """What is multiplied in loops that sum products."""
    values = [value for loop in loops for fold in loop.folds for value in fold.values]
    return [part for value in values for part in parts_of(value) if isinstance(part, Load)]


def _work_of(tree: LoopTree) -> int:
    """The number of bytes that could be moved in the time that a tree takes."""
    moved = sum(tensor.data_type.nbytes(prod(tensor.padded)) for tensor in tree.tensors)
    (outer,) = tree.items
    inner = [item for item in outer.items if isinstance(item, Each)]
    summed = sum(each.positions * len(each.folds) for each in inner)
    types = [tree.tensor(load.tensor).data_type for load in _factors(inner)[:2]]
    pack = packed_count(*types) if len(types) > 1 else 1
    return moved + outer.positions * (_GATE_BYTES + summed // (NOMINAL.terms_per_byte * pack))
