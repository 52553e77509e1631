"""Sums and ranges of a tensor over some of its dims, as loop trees of integers.

| tree | result for each kept index |
| --- | --- |
| `sum_tree` | the sum of integers times factors, modulo 2**32, as s32; a boolean that is set counts as 1 |
| `amax_tree` | the largest magnitude among the finite values |
| `min_max_tree` | the largest finite value of the negated tensor, and of the tensor |

Ranges are computed on the bits of the type: as **keys**, integers ordered like the values, biased so that
nonfinite values wrap around to below all others. So a range needs only a maximum of integers, and every
instruction set gives the same bits. If no value is finite, a range is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from ..desc.memory_desc import MemoryDesc
from ..desc.parse import short_repr
from ..dtypes import DataType
from ..errors import refuse
from .expression import Expr, Ref, TreeAxis, apply
from .numbers import Number
from .tree import Each, Let, LoopTree, TreeTensor, fold_over

# The least magnitude, as bits, of a nonfinite float.
NOT_FINITE = {
    DataType.f64: 0x7FF0000000000000,
    DataType.f32: 0x7F800000,
    DataType.bf16: 0x7F80,
    DataType.f16: 0x7C00,
    DataType.f8_e5m2: 0x7C,
    DataType.f8_e4m3: 0x7F,
}


def sum_tree(md: MemoryDesc, keep_mask: int, factors: Sequence[int]) -> LoopTree:
    """Return the sums over the dims not in `keep_mask`, times each factor: outputs `dst0`, `dst1`, ... of the
    kept padded dims, row-major. Padding is zero, and is included.
    """
    whole = MemoryDesc._make("blocked", md.data_type, replace(md.layout, dims=md.padded_dims))
    src = TreeTensor.of_desc("src", whole)
    axes, kept, folded = _axes(whole, keep_mask)
    outs = [_output(f"dst{i}", kept, DataType.s32) for i in range(len(factors))]
    inner = Each(folded, (fold_over("sum", "s", src.load(*axes)),))
    stores = (
        out.store(kept, apply("mul", Ref("s"), factor)) for out, factor in zip(outs, factors, strict=True)
    )
    return LoopTree((src, *outs), (Each(kept, (inner, *stores)),), number=Number.i32).verify()


class RangeKeys(NamedTuple):
    """The keys of a range: `of` maps an element's bits to a number, from which comes a key for each end,
    whose maximum is taken; then the largest key is mapped back to the bits of an end.
    """

    of: Callable[[Expr], Expr]
    folded: Callable[[Expr], tuple[Expr, ...]]
    bits: Callable[[Expr], Expr]


def magnitude_keys(data_type: DataType) -> RangeKeys:
    """Return the keys of the largest finite magnitude."""
    most, bias = ends_of(data_type)
    return RangeKeys(
        lambda bits: apply("and", bits, most),
        lambda number: (number + bias,),
        lambda key: apply("max", key, bias) - bias,
    )


def signed_keys(data_type: DataType) -> RangeKeys:
    """Return the keys of the largest finite values of the negated elements, and of the elements."""
    most, bias = ends_of(data_type)
    lowest = bias - NOT_FINITE[data_type]

    def ordered(bits: Expr) -> Expr:
        """Map bits to integers ordered like the floats, and back: those of negative floats count down."""
        return apply("select", apply("lt", bits, 0), apply("sub", most, bits), bits)

    return RangeKeys(
        ordered,
        lambda number: (bias - 1 - number, number + bias),
        lambda key: ordered(apply("select", apply("lt", key, lowest), 0, key - bias)),
    )


def amax_tree(md: MemoryDesc, keep_mask: int) -> LoopTree:
    """Return the tree of the largest finite magnitudes of a float tensor, in its type, for the kept dims."""
    return _range_tree(md, keep_mask, ("largest",), magnitude_keys(md.data_type))


def min_max_tree(md: MemoryDesc, keep_mask: int) -> LoopTree:
    """Return the tree of the largest finite values of the negated tensor, and of the tensor."""
    return _range_tree(md, keep_mask, ("low", "high"), signed_keys(md.data_type))


def check_range(md: MemoryDesc, keep_mask: int, name: str) -> None:
    """Raise InvalidArguments for a mask beyond the dims, Unimplemented for a type that is not float."""
    if not 0 <= keep_mask < 1 << md.ndims:
        raise refuse(
            "RS-N10:bad-mask-kept", keep_mask=short_repr(keep_mask), ndims=md.ndims, mask=(1 << md.ndims) - 1
        )
    if md.data_type not in NOT_FINITE:
        raise refuse("RS-L02:no-data-type", value=name, md=md, types=", ".join(map(str, NOT_FINITE)))


def ends_of(data_type: DataType) -> tuple[int, int]:
    """Return the bits of all but the sign, and the bias that makes a magnitude's bits negative if it is not
    finite.
    """
    end = 1 << data_type.bits - 1
    return end - 1, end - NOT_FINITE[data_type]


def _range_tree(md: MemoryDesc, keep_mask: int, ends: Sequence[str], keys: RangeKeys) -> LoopTree:
    """Return the tree for the bits of each end."""
    src = TreeTensor.of_desc("src", md)
    axes, kept, folded = _axes(md, keep_mask)
    outs = [_output(f"dst{i}", kept, md.data_type) for i in range(len(ends))]
    folds = (fold_over("max", *end) for end in zip(ends, keys.folded(Ref("key")), strict=True))
    inner = Each(folded, (Let("key", keys.of(src.load(*axes))), *folds))
    stores = (out.store(kept, keys.bits(Ref(end))) for out, end in zip(outs, ends, strict=True))
    number = Number.integer(md.data_type.bits)
    return LoopTree((src, *outs), (Each(kept, (inner, *stores)),), number=number).verify()


def _axes(
    md: MemoryDesc, keep_mask: int
) -> tuple[tuple[TreeAxis, ...], tuple[TreeAxis, ...], tuple[TreeAxis, ...]]:
    """Return an axis for each dim, the kept ones, and the others."""
    axes = tuple(TreeAxis(f"d{dim}", extent) for dim, extent in enumerate(md.dims))
    kept = tuple(axis for dim, axis in enumerate(axes) if keep_mask >> dim & 1)
    return axes, kept, tuple(axis for axis in axes if axis not in kept)


def _output(name: str, kept: Sequence[TreeAxis], data_type: DataType) -> TreeTensor:
    return TreeTensor.row_major(name, tuple(axis.extent for axis in kept), data_type)
