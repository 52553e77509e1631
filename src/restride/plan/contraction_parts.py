"""The parts of a loop tree that sums products: what is multiplied, and what becomes of the sums.

Integers may be less a zero point each. It comes out of the sum::

    sum((a - x) * (b - y)) = sum(a * b) - x * sum(b) - y * sum(a) + x * y * count

so that a kernel multiplies what lies in memory, and the rest is of the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

from ..dtypes import DataType
from .expression import Apply, Coordinate, Expr, Load, Ref, Scalar, parts_of
from .tree import Each, Fold, Let, LoopTree, Store

TOTAL = "total"
"""The name of the sums of products."""
ROW_SUMS, COLUMN_SUMS = "sum of first", "sum of second"
"""The names of the sums of one factor, over the terms that are there."""

# By type, how far from zero bytes may be.
_LARGEST = {DataType.u8: 255, DataType.s8: 128}


class ContractionParts(NamedTuple):
    """The loops, the factors of the fold, the result with all names put in, and the store."""

    outer: Each
    inner: Each
    product: tuple[Load, Load]
    value: Expr
    store: Store


def parts_of_contraction(tree: LoopTree) -> ContractionParts | None:
    """The parts of a tree; None where it is no contraction."""
    if len(tree.items) != 1:
        return None
    outer = tree.items[0]
    if outer.guards or outer.locals or len(outer.items) < 2:
        return None
    inner, *lets, store = outer.items
    if not isinstance(inner, Each) or not isinstance(store, Store) or len(inner.items) != 1 or inner.locals:
        return None
    fold = inner.items[0]
    if (
        not isinstance(fold, Fold)
        or fold.op != "sum"
        or any(guard.index.divisor != 1 for guard in inner.guards)
    ):
        return None
    factors = _factors(fold.values[0])
    if factors is None:
        return None
    (first, first_shift), (second, second_shift) = factors
    total = _shifted_total(first_shift, second_shift, outer, inner)
    value = None if total is None else _with_names(store.value, lets, {fold.names[0]: total})
    if value is None or not _is_simple(value):
        return None
    if tree.wide and not _fits_integers(tree, (first, second), inner):
        return None
    if not tree.wide and total != Ref(TOTAL):
        return None
    return ContractionParts(outer, inner, (first, second), value, store)


_Factor = tuple[Load, Expr | None]


def _factors(value: Expr) -> tuple[_Factor, _Factor] | None:
    """What is multiplied, and what is subtracted from each before."""
    if not isinstance(value, Apply) or value.op != "mul":
        return None
    first, second = map(_factor, value.args)
    if first is None or second is None or first[0].tensor == second[0].tensor:
        return None
    return first, second


def _factor(value: Expr) -> _Factor | None:
    if isinstance(value, Load):
        return value, None
    if not isinstance(value, Apply) or value.op != "sub":
        return None
    load, shift = value.args
    return (load, shift) if isinstance(load, Load) and isinstance(shift, Load | Scalar) else None


def _shifted_total(first: Expr | None, second: Expr | None, outer: Each, inner: Each) -> Expr | None:
    """The sum of `(a - first) * (b - second)`, of the sums of a * b, a and b.

    None where what is subtracted is not the same for all terms, or their number is not known.
    """
    names = {axis.name for axis in outer.axes}
    shifts = [shift for shift in (first, second) if isinstance(shift, Load)]
    if any(name not in names for shift in shifts for at in shift.index for name, _ in at.terms):
        return None
    total: Expr = Ref(TOTAL)
    if first is not None:
        total = total - first * Ref(COLUMN_SUMS)
    if second is not None:
        total = total - second * Ref(ROW_SUMS)
    if first is None or second is None:
        return total
    return None if inner.guards else total + first * second * float(inner.positions)


def _fits_integers(tree: LoopTree, product: tuple[Load, Load], inner: Each) -> bool:
    """True where bytes are multiplied, so few that 32 bits hold their sums."""
    types = [tree.tensor(load.tensor).data_type for load in product]
    are_bytes = all(each in _LARGEST for each in types)
    return are_bytes and inner.positions * prod(_LARGEST[each] for each in types) < 1 << 31


def _with_names(value: Expr, lets: Sequence[object], names: Mapping[str, Expr]) -> Expr | None:
    """The expression with the values of names in their places; None where an item is no `Let`."""
    known = dict(names)
    for item in lets:
        if not isinstance(item, Let):
            return None
        known[item.name] = replaced(item.value, known)
    return replaced(value, known)


def replaced(value: Expr, known: Mapping[str, Expr]) -> Expr:
    """The expression with the values of names in their places."""
    if isinstance(value, Ref):
        return known.get(value.name, value)
    if isinstance(value, Apply):
        return Apply(value.op, tuple(replaced(each, known) for each in value.args))
    return value


def _is_simple(value: Expr) -> bool:
    parts = tuple(parts_of(value))
    refs = {part.name for part in parts if isinstance(part, Ref)}
    is_linear = all(at.divisor == 1 for part in parts if isinstance(part, Load) for at in part.index)
    return (
        refs <= {TOTAL, ROW_SUMS, COLUMN_SUMS}
        and is_linear
        and not any(isinstance(part, Coordinate) for part in parts)
    )
