"""Products whose weights are decoded in registers: narrow integers and floats, with scales for groups.

    each m, n:
      each g:
        each j 32:
          part = sum(src[m, 32 * g + j] * weights[32 * g + j, n])
        total = sum((part - zero[g, n] * sums[m, g]) * scale[g, n])

`sums`, over the elements of a row in each group, are computed beforehand if there are zero points. **In
integers**, rows are also quantized, to s8 with a scale for each row and group; sums of groups are then exact.
**In bf16**, they are rounded, as are the numbers of nf4; those of other types are exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd, lcm, prod

from ...desc.attr_value import Factor
from ...desc.memory_desc import MemoryDesc
from ...dtypes import DataType
from ...ir.attribute_chain import old_tensors
from ...ir.digits import IndexDigit, TensorOperand
from ...ir.expression import Affine, Const, Expr, Ref, Scalar, TreeAxis, apply, index_of
from ...ir.nest_rewrites import wide_type
from ...ir.program import DST, SRC, NestStep, Place, Program, Step, TreeStep
from ...ir.tree import Each, Item, Let, LoopTree, TreeTensor, fold_over
from ...schedule.contraction.strides import has_integers
from .contraction_program import ContractionWork, moved_place
from .product_chain import AS_IT_IS, FactorPlace

NIBBLES = 8
"""The 4-bit elements in a 32-bit word."""
QUANTIZED_BLOCK = 16
"""The columns in a block of quantized weights: equal on all machines, so that files can hold them."""

_SPREAD = "spread_"
# Rows that are quantized together if a column has one scale, and those of 4 bits whose products are added
# in 16 bits.
_ACTIVATIONS, _AT_ONCE = 32, 32
# Rows of integer groups: floats represent the sums of this many products exactly.
_LARGEST_GROUP = 512
_LARGEST = 127.0
# Rows with only smaller magnitudes are quantized as if one had this, so that its inverse is not infinity.
_LEAST = 2.0**-119
_LEAST_PART = 16
_FEW_ROWS = 2
# The bytes that weights in other formats are moved in, with columns in multiples of this.
_MOVED_BYTES, _COLUMNS = 1 << 19, 64
# The offset that makes 4-bit elements nonnegative.
_MOVED = {DataType.s4: 8.0, DataType.f4_e2m1: 6.0}


def group_size(weights: MemoryDesc, scale: Factor | None, zero: Factor | None) -> int:
    """Return the rows of weights that share a scale and a zero point; all without groups."""
    rows = weights.dims[-2]
    sizes = [rows]
    for factor in (scale, zero):
        if factor is not None and factor.mask >> weights.ndims - 2 & 1:
            of_rows, _ = factor.groups[-2:] or (1, 1)
            sizes.append(of_rows)
    return gcd(*sizes)


def are_quantized(weights: DataType, rows: int, group: int) -> bool:
    """Return whether the source is quantized for groups of this many rows of the weights."""
    if not has_integers(weights):
        return False
    part = _rows_at_once(group)
    return part % 4 == 0 and (part == group or (group == rows and part >= _LEAST_PART))


def _rows_at_once(group: int) -> int:
    """Return the rows of weights for which a source is quantized, given how many share a scale."""
    return group if group <= _LARGEST_GROUP else gcd(group, _ACTIVATIONS)


@dataclass(frozen=True, slots=True)
class QuantizedWork(ContractionWork):
    """A product whose weights are read in place, in the preferred format, or moved there unconverted; or
    converted to floats first, some columns at a time, if many rows read them.

    `group`: the rows of weights that share a scale; `in_integers`: rows are quantized; `in_bf16`: rounded.
    """

    group: int = 0
    in_integers: bool = False
    in_bf16: bool = False

    def program(self) -> Program:
        chosen, (src, _, weights) = self._formats(), self.roles
        moved = [role for role in self.roles if chosen[role.name] != role.desc]
        places = {role.name: Place((SRC, DST, DST + 1)[i]) for i, role in enumerate(self.roles)}
        held = places | {role.name: Place(~i) for i, role in enumerate(moved)}
        tensors = {role.name: TreeTensor.of_desc(role.name, chosen[role.name]) for role in self.roles}
        spread = self._spread(tensors[weights.name])
        made = {tensor.name: tensor for tensor in self._made(tensors[src.name])}
        made |= {name: tensor for name, (_, tensor) in spread.items()}
        held |= {name: Place(~(len(moved) + i)) for i, name in enumerate(made)}
        sizes = {role.name: chosen[role.name].size for role in moved}
        sizes |= {name: tensor.data_type.nbytes(prod(tensor.padded)) for name, tensor in made.items()}
        whole = [role for role in moved if role is not weights]
        steps: list[Step] = [*self._before(whole, places, held, chosen)]
        steps += [self._spreading(*each, held) for each in spread.values()]
        if "sums" in made:
            steps.append(self._preparing(tensors[src.name], made, held))
        if weights in moved:
            parts = list(self._columns(chosen[weights.name]))
            sizes[weights.name] = max(md.size for _, md in parts)
            of_size = dict[MemoryDesc, tuple[NestStep, TreeStep]]()
            for start, md in parts:
                if md not in of_size:
                    tensors[weights.name] = TreeTensor.of_desc(weights.name, md)
                    product = self._loops(self._product(tensors, made), held)
                    of_size[md] = self._growth(weights, md, held[weights.name]), product
                steps += self._from_column(start, *of_size[md])
        else:
            steps.append(self._loops(self._product(tensors, made), held))
        steps += self._after(moved, places, held, chosen)
        scalars = len(self.chain.computed.scalars)
        return Program(self.all_slots(), tuple(steps), tuple(sizes.values()), scalars=scalars).verify()

    def _columns(self, wanted: MemoryDesc) -> Iterator[tuple[int, MemoryDesc]]:
        """Yield weight columns that are moved together, so that they stay in cache, with their start."""
        role, columns = self.reads[1], wanted.dims[-1]
        factors = self.chain.grown[role.arg].computed.tensors if role.arg in self.chain.grown else []
        digits = *(each.dims[-1] for each in factors), *(each.digits[-1] for each in self.chain.operands)
        least = lcm(_COLUMNS, role.desc.layout.blocks[-1], *(each[-1].step for each in digits))
        nbytes = wanted.data_type.nbytes(prod(wanted.dims[:-1]) * least)
        count = max(_MOVED_BYTES // max(nbytes, 1), 1) * least
        for start in range(0, columns, count):
            dims = (*wanted.dims[:-1], min(count, columns - start))
            yield start, MemoryDesc(dims, wanted.data_type, wanted.tag)

    def _formats(self) -> dict[str, MemoryDesc]:
        """The descriptors that are computed in."""
        src, dst, _ = self.roles
        chosen = {role.name: self._wanted(role) for role in self.roles}
        kind = DataType.bf16 if self.in_bf16 else DataType.f32
        is_ready = has_rows(src.desc) and src.desc.data_type is kind
        chosen[src.name] = src.desc if self.in_integers or is_ready else MemoryDesc(src.desc.dims, kind)
        if dst.desc.data_type.bits < 8:
            chosen[dst.name] = MemoryDesc(dst.desc.dims, DataType.f32)
        return chosen

    # --- preparing rows

    @property
    def _part(self) -> int:
        """The rows of weights whose products are summed before scaling."""
        return _rows_at_once(self.group) if self.in_integers else self.group

    @property
    def _is_moved(self) -> bool:
        """True if signed 4-bit elements are shifted to begin at 0: required to multiply bytes, and faster for
        few rows of floats.
        """
        is_few = self._kind is DataType.s4 and self.written.desc.dims[-2] <= _FEW_ROWS
        return self._kind in _MOVED and (self.in_integers or is_few)

    @property
    def _kind(self) -> DataType:
        """The type of the weights."""
        return self.reads[1].desc.data_type

    def _made(self, src: TreeTensor) -> tuple[TreeTensor, ...]:
        *rows, k = src.sizes
        counts = (*rows, k // self._part)
        sums = TreeTensor.row_major("sums", counts)
        if not self.in_integers:
            return (sums,) if self._is_moved or self.chain.of_groups[1] is not None else ()
        codes = TreeTensor.row_major("codes", src.sizes, DataType.s8)
        if self._kind.bits < 8:
            digits = (IndexDigit(1, 4), IndexDigit(2, 1), IndexDigit(8, 8))
            codes = replace(codes, digits=(*codes.digits[:-1], digits))
        return codes, TreeTensor.row_major("scales", counts), sums

    def _preparing(
        self, src: TreeTensor, made: Mapping[str, TreeTensor], held: Mapping[str, Place]
    ) -> TreeStep:
        """Return the step that computes sums of groups, and the bytes that represent rows."""
        (*rows, k), part = src.sizes, self._part
        outer = tuple(TreeAxis(f"d{i}", n) for i, n in enumerate(rows))
        g, j = TreeAxis("g", k // part), TreeAxis("j", part)
        value: Expr = src.load(*outer, g * part + j)
        items: list[Item] = []
        if self.in_integers:
            items.append(Each((j,), (fold_over("max", "largest", apply("abs", value)),)))
            is_small = apply("lt", Ref("largest"), _LEAST)
            items.append(Let("end", apply("select", is_small, _LEAST, Ref("largest"))))
            items.append(Let("inverse", apply("div", _LARGEST, Ref("end"))))
            items.append(made["scales"].store((*outer, g), Ref("end") * (1.0 / _LARGEST)))
            code = Each(
                (j,),
                (
                    Let("code", apply("round", value * Ref("inverse"))),
                    made["codes"].store((*outer, g * part + j), Ref("code")),
                    fold_over("sum", "total", Ref("code")),
                ),
            )
            items.append(code)
        else:
            items.append(Each((j,), (fold_over("sum", "total", value),)))
        items.append(made["sums"].store((*outer, g), Ref("total")))
        written = [tensor for name, tensor in made.items() if not name.startswith(_SPREAD)]
        tree = LoopTree((src, *written), (Each((*outer, g), tuple(items)),)).verify()
        places = (held[src.name], *(held[tensor.name] for tensor in written))
        return TreeStep(tree, places, src.data_type.nbytes(prod(src.sizes)), is_named=False)

    # --- the product

    def _from_column(self, start: int, growth: NestStep, product: TreeStep) -> tuple[Step, Step]:
        """Return the same steps for the columns from `start` on. They are compiled once."""
        first, second = self.reads
        of_rows = {first.name, second.name, "codes", "scales", "sums"}
        of_growth = self.chain.grown.get(second.arg, AS_IT_IS).computed.tensors
        read = TensorOperand.of_desc(second.desc), *of_growth
        src, *operands = (
            moved_place(place, own.data_type, own.dims[-1], start)
            for place, own in zip((growth.src, *growth.operands), read, strict=True)
        )
        places = (
            place if own.name in of_rows else moved_place(place, own.data_type, own.digits[-1], start)
            for own, place in zip(product.tree.tensors, product.places, strict=True)
        )
        return replace(growth, src=src, operands=tuple(operands)), replace(product, places=tuple(places))

    def _product(self, tensors: Mapping[str, TreeTensor], made: Mapping[str, TreeTensor]) -> LoopTree:
        """Return the loops over the first columns, as many as the weights have."""
        src, dst, weights = (tensors[role.name] for role in self.roles)
        src = made.get("codes", src)
        *batch, m, _ = (TreeAxis(f"d{i}", size) for i, size in enumerate(dst.sizes))
        n = TreeAxis(f"d{len(batch) + 1}", weights.sizes[-1])
        part = self._part
        g, (*blocks, j) = TreeAxis("g", src.sizes[-1] // part), self._parts(part)
        of_group = g if part == self.group else 0
        scale, zero = (self._factor(p, made, of_group, (batch, n)) for p in self.chain.of_groups)
        if self._is_moved:
            moved = _MOVED[self._kind]
            zero = Const(moved) if zero is None else zero + moved
        value: Expr = Ref("part")
        if zero is not None:
            value = value - zero * made["sums"].load(*batch, m, g)
        if self.in_integers:
            own = made["scales"].load(*batch, m, g)
            scale = own if scale is None else scale * own
        value = value if scale is None else value * scale
        has_groups = value != Ref("part")
        at: Affine = sum((axis * j.extent for axis in blocks), g * part + j if has_groups else index_of(j)[0])
        first, second = src.load(*batch, m, at), weights.load(*batch, at, n)
        product = fold_over(
            "sum", "part", first * (second - -_MOVED[self._kind] if self._is_moved else second)
        )
        summed, total = Each((*blocks, j), (product,)), "part"
        if has_groups:
            summed, total = Each((g,), (summed, fold_over("sum", "total", value))), "total"
        index: tuple[Affine | TreeAxis | int, ...] = (*batch, m, n)
        store = dst.store(index, self.chain.result(Ref(total), dst, index))
        old = old_tensors(self.chain.computed.compute, tensors[self.written.name])
        every = (
            src,
            dst,
            weights,
            *(tensor for name, tensor in made.items() if name != "codes"),
            *self.chain.operands,
            *old,
        )
        return LoopTree(every, (Each((*batch, m, n), (summed, store)),), len(self.chain.computed.scalars))

    def _parts(self, part: int) -> tuple[TreeAxis, ...]:
        """Return the loops over a group."""
        most = _AT_ONCE if self._kind.is_integral else _AT_ONCE // 2
        at_once = gcd(part, most) if self.in_integers and self._kind.bits < 8 else part
        blocks = (TreeAxis("h", part // at_once),) if part > at_once else ()
        return (*blocks, TreeAxis("j", at_once))

    def _factor(
        self,
        place: FactorPlace | None,
        made: Mapping[str, TreeTensor],
        group: Affine | TreeAxis | int,
        index: tuple[Sequence[TreeAxis], TreeAxis],
    ) -> Expr | None:
        """Return a scale or zero point of a group, for a column of a batch."""
        if place is None:
            return None
        if place.operand < 0:
            return Scalar(place.scalar)
        own, (batch, column) = self.chain.operands[place.operand], index
        if _SPREAD + own.name in made:
            return made[_SPREAD + own.name].load(*batch, group, column)
        return own.load(*batch, group * self.group, column)

    # --- factors that are not vectors of columns

    def _spread(self, weights: TreeTensor) -> dict[str, tuple[TreeTensor, TreeTensor]]:
        """Return operands that kernels do not read in place, and what they become: a value for each group and
        column.
        """
        found: dict[str, tuple[TreeTensor, TreeTensor]] = {}
        for place in self.chain.of_groups:
            if place is None or place.operand < 0:
                continue
            own = self.chain.operands[place.operand]
            *_, of_rows, of_columns = own.digits
            if own.data_type.bits < 8 or len(of_columns) > 1 or of_rows[-1].step not in (1, self.group):
                counts = (*own.sizes[:-2], weights.sizes[-2] // self.group, weights.sizes[-1])
                kind = wide_type(own.data_type) if own.data_type.bits < 8 else DataType.f32
                made = TreeTensor.row_major(_SPREAD + own.name, counts, kind)
                found[made.name] = own, made
        return found

    def _spreading(self, own: TreeTensor, made: TreeTensor, held: Mapping[str, Place]) -> TreeStep:
        *batch, g, n = (TreeAxis(f"d{i}", size) for i, size in enumerate(made.sizes))
        store = made.store((*batch, g, n), own.load(*batch, g * self.group, n))
        tree = LoopTree((own, made), (Each((*batch, g, n), (store,)),)).verify()
        place = Place(DST + 2 + self.chain.operands.index(own))
        return TreeStep(tree, (place, held[made.name]), prod(made.sizes), is_named=False)


def has_rows(md: MemoryDesc) -> bool:
    """Return whether rows of a matrix are contiguous."""
    return md.dims[-1] == 1 or (not md.inner_blks and md.strides[-1] == 1)
