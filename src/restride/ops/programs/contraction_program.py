"""Programs that sum products: the layouts in which a kernel can use vectors, and the moves into them.

If a tree's kernel is fast on the tensors as they are, it runs on them directly. Otherwise tensors are moved
into the formats that the kernel prefers, in temporaries, and the result back: as few elements as possible.

| rate | the kernel |
| --- | --- |
| 3 | multiplies vectors of f32, or packs (`schedule/contraction/pack.py`) |
| 2 | does the same, on rows that evict each other from cache, such as multiples of 4096 bytes apart |
| 1 | uses vectors, but widens each element before it multiplies |
| 0 | processes single elements |

Floats of 16 and 8 bits become f32 in the move, since kernels would widen each of them repeatedly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from ...desc.arguments import ARG_DIFF_BIAS, ARG_DIFF_DST
from ...desc.memory_desc import MemoryDesc
from ...dtypes import DataType
from ...ir.attribute_chain import move_step, old_tensors
from ...ir.digits import IndexDigits, TensorOperand, offset_at, reorder_nest
from ...ir.expression import Ref, TreeAxis, index_of
from ...ir.numbers import Number
from ...ir.program import DST, SRC, NestStep, Place, Program, Slot, Step, TreeStep
from ...ir.tree import Each, LoopTree, TreeTensor, fold_over
from ...schedule.contraction.schedule import schedule_contraction
from ...schedule.contraction.strides import SECOND, Contraction, find_contraction
from ...schedule.fold_order import LEAST_USES, LEAST_USES_OF_CROWDED
from ...schedule.machine import NOMINAL
from ...schedule.trees.split_folds import pieces_of_folds, rewritten_steps
from .product_chain import AS_IT_IS, ProductChain

# Whether a layout allows vectors is the same on all machines with vectors; and on one that multiplies bytes.
_MACHINE = replace(NOMINAL, vector_bytes=32)
_BYTE_MACHINE = replace(_MACHINE, adds_pairs=True)
_FULL_RATE = 3
_CROWDED_RATE = 2
_FLOATS = (DataType.f32, DataType.bf16, DataType.f16, DataType.f8_e5m2, DataType.f8_e4m3)
_BYTE = 8


@dataclass(frozen=True, slots=True)
class TensorRole:
    """A tensor of a contraction: its name in trees, argument and descriptor."""

    name: str
    arg: int
    desc: MemoryDesc


Loops = Callable[[Mapping[str, TreeTensor]], tuple[Each, ...]]
"""The loops of tensors by their names."""


@dataclass(frozen=True, slots=True)
class ContractionWork:
    """A contraction: two tensors that are read, one that is written, and the loops.

    `preferred`: by name, the formats in which kernels are fast. `chain`: the attributes; `slots`: those of
    the bias; `terms`: the number of products; `work_bytes`: the bytes that could be moved in the time of the
    computation; `pack`: how many products the machine adds at once; `goes_by_rows`: whether a second tensor
    of long rows is read row by row, with sums in cache (`schedule/trees/columns.py`).
    """

    reads: tuple[TensorRole, TensorRole]
    written: TensorRole
    loops: Loops
    preferred: Mapping[str, MemoryDesc]
    chain: ProductChain
    slots: tuple[Slot, ...]
    terms: int
    work_bytes: int
    is_wide: bool = False
    pack: int = 1
    goes_by_rows: bool = False

    @property
    def roles(self) -> tuple[TensorRole, TensorRole, TensorRole]:
        """The tensors in the order of slots: the first one read, the one written, the other one read."""
        return (self.reads[0], self.written, self.reads[1])

    def program(self) -> Program:
        """The moves into the computed formats, the loops, and the moves back."""
        chosen, tree = self._chosen()
        moved = [role for role in self.roles if self._grows(role) or chosen[role.name] != role.desc]
        places = {role.name: Place((SRC, DST, DST + 1)[i]) for i, role in enumerate(self.roles)}
        held = places | {role.name: Place(~i) for i, role in enumerate(moved)}
        before = self._before(moved, places, held, chosen)
        loops = self._loops(tree or self._tree(chosen), held)
        pieces = pieces_of_folds(loops.tree) if self.goes_by_rows else ()
        summed, partial = rewritten_steps(loops, pieces, len(moved))
        steps = (*before, *summed, *self._after(moved, places, held, chosen))
        temporaries = (*(chosen[role.name].size for role in moved), *partial)
        scalars = len(self.chain.computed.scalars)
        return Program(self.all_slots(), steps, temporaries, scalars=scalars).verify()

    def all_slots(self) -> tuple[Slot, ...]:
        """The arguments of the program."""
        return (
            Slot(self.reads[0].arg, span=self.reads[0].desc.extent_range()),
            Slot(self.written.arg, is_written=True),
            Slot(self.reads[1].arg, span=self.reads[1].desc.extent_range()),
            *self.slots,
            *self.chain.computed.slots(),
        )

    def _before(
        self,
        moved: Sequence[TensorRole],
        places: Mapping[str, Place],
        held: Mapping[str, Place],
        chosen: Mapping[str, MemoryDesc],
    ) -> Iterator[Step]:
        for role in moved:
            if self._grows(role):
                yield self._growth(role, chosen[role.name], held[role.name])
            elif role is not self.written or self.chain.computed.compute.reads_destination:
                yield move_step(role.desc, chosen[role.name], places[role.name], held[role.name])

    def _after(
        self,
        moved: Sequence[TensorRole],
        places: Mapping[str, Place],
        held: Mapping[str, Place],
        chosen: Mapping[str, MemoryDesc],
    ) -> list[NestStep]:
        return [
            move_step(chosen[role.name], role.desc, held[role.name], places[role.name])
            for role in moved
            if role is self.written
        ]

    def _growth(self, role: TensorRole, dst: MemoryDesc, to: Place) -> NestStep:
        """Return the step that converts a factor, or its first columns, with its scales and zero points."""
        factor = self.chain.grown.get(role.arg, AS_IT_IS)
        own, (operands, scalars) = factor.computed, factor.before
        src = role.desc
        if src.dims != dst.dims:
            src = src.submemory_desc(dst.dims, [0] * dst.ndims)
        nest = reorder_nest(src, dst, own.compute, own.tensors)
        at = Place((SRC, DST, DST + 1)[self.roles.index(role)])
        return NestStep(
            *(nest, at, to, nest.moved_bytes, src.extent_range(), dst.extent_range()),
            operands=own.places(DST + 2 + len(self.slots) + operands),
            scalars=(scalars, len(own.scalars)),
        )

    def _loops(self, tree: LoopTree, held: Mapping[str, Place]) -> TreeStep:
        operands = {tensor.name: Place(DST + 2 + i) for i, tensor in enumerate(self.chain.operands)}
        # The operand without a name is the old destination, read as another type.
        named, old = {**held, **operands}, held[self.written.name]
        places = tuple(named.get(tensor.name, old) for tensor in tree.tensors)
        return TreeStep(tree.verify(), places, self.work_bytes, (0, len(self.chain.computed.scalars)))

    def _tree(self, chosen: Mapping[str, MemoryDesc]) -> LoopTree:
        tensors = {role.name: TreeTensor.of_desc(role.name, chosen[role.name]) for role in self.roles}
        old = old_tensors(self.chain.computed.compute, tensors[self.written.name])
        every = (*tensors.values(), *self.chain.operands, *old)
        scalars = len(self.chain.computed.scalars)
        return LoopTree(every, self.loops(tensors), scalars, Number.real(is_wide=self.is_wide))

    def _chosen(self) -> tuple[dict[str, MemoryDesc], LoopTree | None]:
        """Return the computed descriptor of each tensor: the fewest moves among those of the best rate; and
        the tree, if it was built.
        """
        own = {role.name: self._unmoved(role) for role in self.roles}
        if 0 in self.written.desc.dims:
            return own, None
        best, tree, best_rate = own, None, -1
        for descs in sorted(self._candidates(own), key=lambda descs: _moved_elements(descs, own)):
            least = LEAST_USES if best_rate < _CROWDED_RATE else LEAST_USES_OF_CROWDED
            if descs != own and _moved_elements(descs, own) * least > self.terms:
                break
            candidate = self._tree(descs)
            rate = self._rate(candidate)
            if rate > best_rate:
                best, tree, best_rate = descs, candidate, rate
            if rate == _FULL_RATE:
                break
        return best, tree

    def _candidates(self, own: Mapping[str, MemoryDesc]) -> Iterator[dict[str, MemoryDesc]]:
        """Yield combinations of tensors as they are or as preferred; also narrower factors as f32."""
        wanted = {
            role.name: self._wanted(role) if self._computed_type(role) is None else own[role.name]
            for role in self.roles
        }
        for pick in product(*(dict.fromkeys((own[name], wanted[name])) for name in own)):
            yield dict(zip(own, pick, strict=True))
        types = {own[role.name].data_type for role in self.reads}
        if types == {DataType.f32} or not types.issubset(_FLOATS):
            return
        widened = {role.name: _of_type(wanted[role.name], DataType.f32) for role in self.reads}
        for desc in dict.fromkeys((own[self.written.name], wanted[self.written.name])):
            yield {**widened, self.written.name: desc}

    def _grows(self, role: TensorRole) -> bool:
        """Return whether a factor is converted first, whatever its format."""
        return role.arg in self.chain.grown

    def _computed_type(self, role: TensorRole) -> DataType | None:
        """Return the type a tensor is computed in whatever its format; None if it stays as it is."""
        if self._grows(role):
            return self.chain.grown[role.arg].data_type
        # Loops cannot store elements narrower than a byte.
        is_narrow = role is self.written and role.desc.data_type.bits < _BYTE
        return DataType.f32 if is_narrow else None

    def _unmoved(self, role: TensorRole) -> MemoryDesc:
        kind = self._computed_type(role)
        return role.desc if kind is None else _of_type(self._wanted(role), kind)

    def _wanted(self, role: TensorRole) -> MemoryDesc:
        return self.preferred.get(role.name, role.desc)

    def _rate(self, tree: LoopTree) -> int:
        """Return the rate of the slowest part of the loops."""
        parts = (replace(tree, items=(item,)) for item in tree.items if item.folds or len(item.items) > 1)
        return min((self._part_rate(part) for part in parts), default=_FULL_RATE)

    def _part_rate(self, part: LoopTree) -> int:
        contraction = find_contraction(part)
        machine = _BYTE_MACHINE if self.pack > 1 else _MACHINE
        plan = None if contraction is None else schedule_contraction(contraction, machine)
        if contraction is None or plan is None:
            return 0
        is_real = all(access.tensor.data_type is DataType.f32 for access in contraction.accesses[:2])
        if not is_real and plan.pack is None:
            return 1
        return _CROWDED_RATE if self._is_crowded(contraction) else _FULL_RATE

    def _is_crowded(self, contraction: Contraction) -> bool:
        """Return whether rows of the weights map to too few sets of the L2 cache, so that tiles of other rows
        evict them. Measured with 1024 and 2048 columns of f32: 0.3 times as fast.
        """
        weights = contraction.accesses[SECOND].tensor
        if len(contraction.summed) != 1 or weights.name != self.reads[1].name:
            return False
        (rows,) = contraction.summed
        step = abs(rows.strides[SECOND]) * weights.data_type.bits // 8
        return _MACHINE.second_cache.overflows(rows.size, step)


def pays_to_move(terms: int, elements: int) -> bool:
    """Return whether elements are used in enough products to pay for moving or converting them."""
    return terms >= LEAST_USES * elements


def moved_place(place: Place, data_type: DataType, digits: IndexDigits, start: int) -> Place:
    """Return a place from an index on: steps for other columns are then equal and compiled once."""
    return place._replace(offset=place.offset + data_type.nbytes(offset_at(digits, start)))


def _moved_elements(descs: Mapping[str, MemoryDesc], own: Mapping[str, MemoryDesc]) -> int:
    return sum(prod(md.dims) for name, md in own.items() if descs[name] != md)


def _of_type(md: MemoryDesc, data_type: DataType) -> MemoryDesc:
    """Return the same layout with another type."""
    return MemoryDesc(md.dims, data_type, md.tag)


def channel_operand(md: MemoryDesc, ndims: int, dim: int = 1) -> TensorOperand:
    """Return one value for each index of a dim, such as a bias, as an operand of an `ndims` tensor."""
    one = TensorOperand.of_desc(MemoryDesc((1,), md.data_type, "a")).dims[0]
    own = TensorOperand.of_desc(md).dims[0]
    return TensorOperand(md.data_type, md.offset0, tuple(own if d == dim else one for d in range(ndims)))


def _bias_loops(y: TreeTensor, channels: int, bias: TreeTensor) -> tuple[Each]:
    """Return the loops that write the gradient of a bias: the sums of y for each channel."""
    c = TreeAxis("c", channels)
    n, *points = (TreeAxis(f"s{d}", size) for d, size in enumerate(y.sizes) if d != 1)
    summed = Each((n, *points), (fold_over("sum", "total", y.load(n, c, *points)),))
    return (Each((c,), (summed, bias.store(index_of(c), Ref("total")))),)


def with_bias_gradient(program: Program, result: MemoryDesc, outputs: Mapping[int, MemoryDesc]) -> Program:
    """Add to the program the sums of a gradient over all dims but channels, if they are requested."""
    if not outputs:
        return program
    source, bias = TreeTensor.of_desc("result", result), TreeTensor.of_desc("bias", outputs[ARG_DIFF_BIAS])
    is_wide = DataType.f64 in (result.data_type, outputs[ARG_DIFF_BIAS].data_type)
    loops = _bias_loops(source, result.dims[1], bias)
    tree = LoopTree((source, bias), loops, number=Number.real(is_wide=is_wide)).verify()
    read = next(i for i, slot in enumerate(program.slots) if slot.arg == ARG_DIFF_DST)
    step = TreeStep(tree, (Place(read), Place(len(program.slots))), result.size)
    slots = (*program.slots, Slot(ARG_DIFF_BIAS, is_written=True))
    return replace(program, slots=slots, steps=(*program.steps, step)).verify()
