"""Quantization in groups as a loop tree: for each group the largest finite magnitude, or both ends of its
range, a scale from it (`ir/scale_rule.py`), and every value divided by the scale.

Several groups are processed together: first their ranges, then their scales, then their elements, which are
still in cache. The scale of one group is a chain of dependent operations; those of many groups are computed
in parallel::

    each r 64, g.block 2:
      local largest[64]
      local over[64]
      each g.place 64 in i32:
        each k 32:
          let bits = and(src[r, 64 * g.block + g.place, k], 2147483647)
          largest.key = max(bits + 8388608)
        largest[g.place] = max(largest.key, 8388608) - 8388608
      each g.place 64:
        let s = max(1.1754943508222875e-38, binade(largest[g.place]) * 0.25)
        scale[r, 64 * g.block + g.place] = s
        over[g.place] = 1 / s
      each g.place 64, k 32:
        dst[r, 64 * g.block + g.place, k] = src[r, 64 * g.block + g.place, k] * over[g.place]
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ...desc.memory_desc import MemoryDesc
from ...dtypes import DataType
from ...ir.expression import Ref, TreeAxis
from ...ir.numbers import Number
from ...ir.program import SRC, Place, Program, Slot, TreeStep
from ...ir.ranges import magnitude_keys, signed_keys
from ...ir.scale_rule import ScaleRule
from ...ir.tree import Each, Guard, Let, LoopTree, TreeTensor, fold_over
from ...schedule.trees.pieces import AxisPieces, pieces_with_a_rest

# Bytes of the source whose groups are processed together, a part of the L1 cache; and the least length of a
# row across groups for which it pays to keep a row of ranges in memory.
_TOGETHER, _ROW = 1 << 13, 1 << 9


def group_program(src: MemoryDesc, dst: MemoryDesc, scale: MemoryDesc, rule: ScaleRule) -> Program:
    """Return the program: slot 0 is the source; the written tensors follow."""
    tree = group_tree(src, dst, scale, rule)
    places = tuple(Place(SRC + slot) for slot in range(len(tree.tensors)))
    slots = tuple(Slot(place.buffer, is_written=place.buffer != SRC) for place in places)
    work = sum(md.data_type.nbytes(md.nelems) for md in (src, dst, scale))
    step = TreeStep(tree, places, work, (0, tree.scalars))
    return Program(slots, (step,), scalars=tree.scalars).verify()


def group_tree(src: MemoryDesc, dst: MemoryDesc, scale: MemoryDesc, rule: ScaleRule) -> LoopTree:
    """Return the tree of `src`, `dst`, `scale` and, if groups have zero points, `zero`, in bytes.

    The tensors have equal dims, except that `scale` has 1 along those within a group. With two levels, the
    scale of the whole tensor is scalar 0.
    """
    axes = {dim: TreeAxis(f"d{dim}", n) for dim, n in enumerate(src.dims) if n > 1}
    within = tuple(axis for dim, axis in axes.items() if scale.dims[dim] == 1)
    across = sorted((dim for dim in axes if scale.dims[dim] > 1), key=lambda dim: -dst.strides[dim])
    nbytes = src.data_type.nbytes(1)
    most = max(_TOGETHER // (nbytes * prod(axis.extent for axis in within)), 1)
    if across and src.strides[across[-1]] == dst.strides[across[-1]] == 1:
        most = max(most, _ROW // nbytes)
    cut = pieces_with_a_rest([axes[dim] for dim in across], most) if across else AxisPieces((), (), ())
    near = cut.inside
    index = tuple(cut.moved.get(f"d{dim}", axes.get(dim, 0)) for dim in range(len(src.dims)))
    x, y, s = (TreeTensor.of_desc(n, md) for n, md in (("src", src), ("dst", dst), ("scale", scale)))
    zeros = [TreeTensor.of_desc("zero", MemoryDesc(scale.dims, rule.zero_type))] if rule.has_zeros else []
    sizes = tuple(axis.extent for axis in near)
    ends = [TreeTensor.row_major(name, sizes, src.data_type) for name in rule.ends]
    over = TreeTensor.row_major("over", sizes, DataType.f32)
    found, divisor = [end.load(*near) for end in ends], over.load(*near)

    keys = (signed_keys if rule.has_zeros else magnitude_keys)(src.data_type)
    folds = [
        fold_over("max", f"{name}.key", key)
        for name, key in zip(rule.ends, keys.folded(Ref("bits")), strict=True)
    ]
    stores = [end.store(near, keys.bits(Ref(f"{end.name}.key"))) for end in ends]
    ranges = Each(within, (Let("bits", keys.of(x.load(*index))), *folds))
    loops = [Each(near, (ranges, *stores), number=Number.integer(src.data_type.bits))]
    if zeros:
        low, high = 0.0 - found[0], found[1]
        loops += [
            Each(near, (over.store(near, rule.extent(low, high)),), number=Number.f64),
            Each(near, (s.store(index, rule.storable(divisor)), over.store(near, s.load(*index)))),
            Each(near, (zeros[0].store(index, rule.zero_point(low, divisor)),), number=Number.f64),
        ]
    else:
        stored = Ref("s") if rule.is_power else s.load(*index)
        parts = Let("s", rule.scale(*found)), s.store(index, Ref("s")), over.store(near, rule.divisor(stored))
        loops.append(Each(near, parts))
    value = rule.element(x.load(*index), divisor, *(zero.load(*index) for zero in zeros))
    is_wide = src.data_type is DataType.f64
    loops.append(Each((*near, *within), (y.store(index, value),), number=Number.f64 if is_wide else None))
    extents = {axis.name: axis.extent for axis in axes.values()}
    guards = tuple(Guard(cut.moved[name], extents[name]) for name, n in cut.cuts if extents[name] % n)
    outer = Each(cut.outside, tuple(replace(loop, guards=guards) for loop in loops), locals=(*ends, over))
    # With two levels, the largest value was just computed: the end of the tensor is in cache.
    return LoopTree((x, y, s, *zeros), (outer,), int(rule.is_two_level), backwards=rule.is_two_level).verify()
