"""Folds in which adjacent elements belong to different results: rewritten to have results for each lane.

Vectors run along one digit. If adjacent elements alternate between a kept digit and a folded one, both short,
as channels in blocks of `OIhw4i16o4i`, the fold is split: first one result for each position within a block,
then these are combined::

    each o: (each i, h, w: s = sum(x[o, i, h, w])); y[o] = s                                       ->
    each o.block: local lanes[16, 4]
      each o, i: (each i.block, h, w: s = sum(x[16 o.block + o, 4 i.block + i, h, w])); lanes[o, i] = s
      each o: (each i: s = sum(lanes[o, i])); y[16 o.block + o] = s

Only for folds of integers, which do not depend on the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from ...ir.expression import Affine, Index, Load, TreeAxis
from ...ir.tree import Each, LoopTree, TreeTensor, loads_in
from ..language import Schedule, Transform
from ..machine import NOMINAL
from .rewrites import part_of, rewrite
from .split_folds import is_plain


class _Digit(NamedTuple):
    """A digit of an axis: `extent` positions, `step` indices and `stride` elements apart."""

    axis: TreeAxis
    step: int
    extent: int
    stride: int


def folds_in_lanes(tree: LoopTree) -> LoopTree:
    """Return the tree with folds split by lanes; unchanged if that gains nothing, or would change bits."""
    return rewrite(tree, lanes_of_folds(tree))


def lanes_of_folds(tree: LoopTree) -> Schedule:
    """Return the transforms that split folds by lanes; none if that gains nothing, or would change bits."""
    (outer,) = tree.items
    loop = outer.items[0] if outer.items else None
    if not isinstance(loop, Each) or not _can_split(outer, loop) or not tree.number.is_integer:
        return ()
    sources = list(dict.fromkeys(loads_in(loop.items)))
    if len(sources) != 1 or sources[0].elements:
        return ()
    chain = _chain(tree.tensor(sources[0].tensor), sources[0].index, (*outer.axes, *loop.axes))
    lanes = _lanes(chain, tree.number.bits, {axis.name for axis in loop.axes})
    return _transforms(outer, loop, lanes) if lanes else ()


def _can_split(outer: Each, loop: Each) -> bool:
    """Return whether a loop folds over all of its positions, at least one, and is the only one."""
    is_empty = any(not axis.extent for axis in (*outer.axes, *loop.axes))
    has_others = any(isinstance(item, Each) for item in outer.items[1:])
    is_free = is_plain(outer, loop) and not (outer.guards or loop.guards)
    return bool(loop.folds) and is_free and not (is_empty or has_others)


def _chain(tensor: TreeTensor, index: Sequence[Index], axes: Sequence[TreeAxis]) -> list[_Digit]:
    """Return the digits that are contiguous in memory, innermost first."""
    by_name = {axis.name: axis for axis in axes}
    digits: list[_Digit] = []
    for of_dim, at in zip(tensor.digits, index, strict=True):
        # For an index of several axes, the one with the smallest coefficient.
        terms = at.terms if isinstance(at, Affine) else ()
        lowest = next((name for name, factor in terms if factor == 1), None)
        if isinstance(at, Load) or lowest is None or at.constant or at.divisor > 1:
            continue
        axis = by_name[lowest]
        ends = (*(digit.step for digit in of_dim[1:]), axis.extent)
        for digit, end in zip(of_dim, (min(end, axis.extent) for end in ends), strict=True):
            if end > digit.step and axis.extent % end == 0 and end % digit.step == 0:
                digits.append(_Digit(axis, digit.step, end // digit.step, digit.stride))
    chain: list[_Digit] = []
    reach = 1
    while (found := next((d for d in digits if d.stride == reach and d.extent > 1), None)) is not None:
        # Digits of an axis are taken from the lowest on.
        taken = prod(digit.extent for digit in chain if digit.axis == found.axis)
        if found.step != taken:
            break
        chain.append(found)
        reach *= found.extent
    return chain


def _lanes(chain: list[_Digit], bits: int, folded: set[str]) -> list[_Digit]:
    """Return the digits of the lanes, innermost first; none if one digit is enough, or all are kept."""
    enough = NOMINAL.sum_bytes * 8 // bits
    most = 2 * enough
    lanes: list[_Digit] = []
    size = 1
    for digit in chain:
        if size >= enough:
            break
        extent = next(n for n in range(min(digit.extent, most // size), 0, -1) if digit.extent % n == 0)
        if extent > 1:
            lanes.append(digit._replace(extent=extent))
            size *= extent
        if extent < digit.extent:
            break
    is_mixed = len({digit.axis.name in folded for digit in lanes}) > 1
    return lanes if is_mixed else []


def _transforms(outer: Each, loop: Each, lanes: list[_Digit]) -> Schedule:
    """Return the transforms that give folds a result for each lane."""
    rest = {axis: axis.name for axis in (*outer.axes, *loop.axes)}
    found: list[Transform] = []
    folded: list[str] = []
    for digit in lanes:
        name = rest[digit.axis]
        found.append(Transform("block", (name, digit.extent)))
        rest[digit.axis] = f"{name}.block"
        if digit.axis in loop.axes:
            folded.append(f"{name}.place")
    state = loop.folds[0].names[0]
    around = tuple(rest[axis] for axis in outer.axes)
    return (
        *found,
        Transform("split_fold", (state, *folded)),
        Transform("compute_at", (part_of(state), *around)),
    )
