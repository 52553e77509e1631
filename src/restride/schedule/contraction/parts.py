"""The parts of a loop tree that sums products: the factors, and the expressions of the results.

A zero point can be subtracted from each integer factor. It is moved out of the sum::

    sum((a - x) * (b - y)) = sum(a * b) - x * sum(b) - y * sum(a) + x * y * count

so that a kernel multiplies elements unchanged, and the rest is part of the result.

Sums can be over groups, each converted to a value before these are added: as for scales of quantized weights.

Several folds can share their first factor if they read adjacent parts of one second tensor, and there can be
several stores: a step of a recurrent network has a sum for each gate, and two states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

from ...dtypes import DataType
from ...ir.expression import Affine, Apply, Const, Coordinate, Expr, Load, Ref, Scalar, parts_of
from ...ir.tree import Each, Fold, Let, LoopTree, Store

TOTAL = "total"
"""The name of the sums of products."""
ROW_SUMS, COLUMN_SUMS = "sum of first", "sum of second"
"""The names of the sums of one factor, over the terms that exist."""

# The largest distance of bytes from zero, by type.
_LARGEST = {DataType.u8: 255, DataType.s8: 128}


class ContractionParts(NamedTuple):
    """The loops, the factors of each fold, and the stores with their values, with all names substituted.

    `groups`: the loop over groups and the value of the sum of each; `moved`: the offset added to elements of
    the second factor before they are multiplied.
    """

    outer: Each
    inner: Each
    products: tuple[tuple[Load, Load], ...]
    results: tuple[tuple[Store, Expr], ...]
    groups: tuple[Each, Expr] | None = None
    moved: int = 0


def total_name(number: int) -> str:
    """Return the name of the sums of a fold."""
    return f"{TOTAL} {number}" if number else TOTAL


def part_of_total(name: str) -> int:
    """Return the number of the fold whose sums have this name."""
    return int(name.removeprefix(TOTAL) or 0)


def parts_of_contraction(tree: LoopTree) -> ContractionParts | None:
    """Return the parts of a tree; None if it is not a contraction."""
    if len(tree.items) != 1:
        return None
    outer = tree.items[0]
    if outer.in_order or outer.guards or outer.locals or len(outer.items) < 2:
        return None
    inner, *others = outer.items
    if not isinstance(inner, Each) or inner.in_order or inner.locals:
        return None
    if isinstance(inner.items[0], Each):
        return _parts_of_groups(tree, outer, inner)
    if not inner.folds or len(inner.folds) != len(inner.items):
        return None
    if any(fold.op != "sum" for fold in inner.folds):
        return None
    if any(guard.index.divisor != 1 for guard in inner.guards):
        return None
    candidates = tuple(_product(fold, number, outer, inner) for number, fold in enumerate(inner.folds))
    products = tuple(product for product in candidates if product is not None)
    if len(products) < len(candidates) or not _are_side_by_side(
        tree, [product.factors for product in products]
    ):
        return None
    totals = {fold.names[0]: product.total for fold, product in zip(inner.folds, products, strict=True)}
    results = _results(others, totals)
    is_plain = all(product.total == Ref(total_name(number)) for number, product in enumerate(products))
    if not results or (tree.wide and not _fits_integers(tree, products[0].factors, inner)):
        return None
    if not is_plain and (not tree.wide or len(products) > 1):
        return None
    return ContractionParts(outer, inner, tuple(product.factors for product in products), results)


def _parts_of_groups(tree: LoopTree, outer: Each, groups: Each) -> ContractionParts | None:
    """Return the parts of a tree whose sums are over groups."""
    inner, *folds = groups.items
    if tree.wide or not isinstance(inner, Each) or len(folds) != 1 or len(inner.items) != 1:
        return None
    (total,), (part,) = folds, inner.items
    if any(not isinstance(fold, Fold) or fold.op != "sum" for fold in (part, total)):
        return None
    assert isinstance(part, Fold)
    assert isinstance(total, Fold)
    if any(each.in_order or each.locals or each.guards or each.number for each in (inner, groups)):
        return None
    factors = _factors(part.values[0])
    if factors is None:
        return None
    (first, none), (second, moved) = factors
    value = replaced(total.values[0], {part.names[0]: Ref(TOTAL)})
    results = _results(outer.items[1:], {total.names[0]: Ref(TOTAL)})
    if none is not None or not isinstance(moved, Const | None) or not results or not _is_simple(value, 1):
        return None
    by = 0 if moved is None else -int(moved.number)
    return ContractionParts(outer, inner, ((first, second),), results, (groups, value), by)


class _Product(NamedTuple):
    """The factors of a fold, and its sum in terms of the names that a kernel computes."""

    factors: tuple[Load, Load]
    total: Expr


def _product(fold: Fold, number: int, outer: Each, inner: Each) -> _Product | None:
    factors = _factors(fold.values[0])
    if factors is None:
        return None
    (first, first_shift), (second, second_shift) = factors
    total = _shifted_total(total_name(number), first_shift, second_shift, outer, inner)
    return None if total is None else _Product((first, second), total)


def _are_side_by_side(tree: LoopTree, products: Sequence[tuple[Load, Load]]) -> bool:
    """Return whether all folds share the first factor, with second ones at constant distances."""
    (first, second), *others = products
    if others and tree.wide:
        return False
    digits = tree.tensor(second.tensor).digits
    for other_first, other in others:
        if other_first != first or other.tensor != second.tensor:
            return False
        for at, there, own in zip(second.index, other.index, digits, strict=True):
            if isinstance(at, Load) or isinstance(there, Load):
                return False
            is_moved = there.constant != at.constant
            if (there.terms, there.divisor) != (at.terms, at.divisor) or (is_moved and len(own) > 1):
                return False
    return True


def _results(items: Sequence[object], names: Mapping[str, Expr]) -> tuple[tuple[Store, Expr], ...]:
    """Return the stores after a fold with substituted values; empty if there is anything else."""
    known, stores = dict(names), list[tuple[Store, Expr]]()
    for item in items:
        if isinstance(item, Let) and not stores:
            known[item.name] = replaced(item.value, known)
        elif isinstance(item, Store) and not any(isinstance(at, Load) for at in item.index):
            stores.append((item, replaced(item.value, known)))
        else:
            return ()
    return tuple(stores) if all(_is_simple(value, len(names)) for _, value in stores) else ()


_Factor = tuple[Load, Expr | None]


def _factors(value: Expr) -> tuple[_Factor, _Factor] | None:
    """Return the factors, with what is subtracted from each before."""
    if not isinstance(value, Apply) or value.op != "mul":
        return None
    first, second = map(_factor, value.args)
    if first is None or second is None or first[0].tensor == second[0].tensor:
        return None
    return first, second


def _factor(value: Expr) -> _Factor | None:
    if isinstance(value, Load):
        return None if value.elements else (value, None)
    if not isinstance(value, Apply) or value.op != "sub":
        return None
    load, shift = value.args
    if not isinstance(load, Load) or load.elements:
        return None
    return (load, shift) if isinstance(shift, Load | Scalar | Const) else None


def _shifted_total(
    name: str, first: Expr | None, second: Expr | None, outer: Each, inner: Each
) -> Expr | None:
    """Return the sum of `(a - first) * (b - second)` from the sums of a * b, a and b.

    None if what is subtracted is not the same for all terms, or their number is not known.
    """
    if isinstance(first, Const) or isinstance(second, Const):
        return None
    names = {axis.name for axis in outer.axes}
    shifts = [shift for shift in (first, second) if isinstance(shift, Load)]
    if any(not shift.axes <= names for shift in shifts):
        return None
    total: Expr = Ref(name)
    if first is not None:
        total = total - first * Ref(COLUMN_SUMS)
    if second is not None:
        total = total - second * Ref(ROW_SUMS)
    if first is None or second is None:
        return total
    return None if inner.guards else total + first * second * float(inner.positions)


def _fits_integers(tree: LoopTree, product: tuple[Load, Load], inner: Each) -> bool:
    """Return whether bytes are multiplied, few enough that their sums fit 32 bits."""
    types = [tree.tensor(load.tensor).data_type for load in product]
    are_bytes = all(data_type in _LARGEST for data_type in types)
    return are_bytes and inner.positions * prod(_LARGEST[data_type] for data_type in types) < 1 << 31


def replaced(value: Expr, known: Mapping[str, Expr]) -> Expr:
    """Return the expression with names replaced by their values."""
    if isinstance(value, Ref):
        return known.get(value.name, value)
    if isinstance(value, Apply):
        return Apply(value.op, tuple(replaced(arg, known) for arg in value.args))
    return value


def _is_simple(value: Expr, totals: int) -> bool:
    parts = tuple(parts_of(value))
    refs = {part.name for part in parts if isinstance(part, Ref)}
    indices = [at for part in parts if isinstance(part, Load) for at in part.index]
    is_linear = all(isinstance(at, Affine) and at.divisor == 1 for at in indices)
    return (
        refs <= {*map(total_name, range(totals)), ROW_SUMS, COLUMN_SUMS}
        and is_linear
        and not any(isinstance(part, Coordinate) for part in parts)
    )
