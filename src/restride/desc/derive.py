"""Derived layouts: submemory, reshape, permuted axes, as pure functions layout → layout.

Each takes the format kind, because `any` has dims but no strides yet.
"""

from __future__ import annotations

from itertools import pairwise
from math import gcd, prod
from typing import NamedTuple

from ..errors import Error, InvalidArguments, Unimplemented, refuse
from .inner_blocks import Blocks, canonical_blocks
from .layout import RUNTIME_DIM, BlockedLayout, axis_offset, layout_digits
from .parse import parse_bool, parse_dims, parse_ints
from .tags import MAX_NDIMS


def submemory(kind: str, parent: BlockedLayout, dims: object, offsets: object) -> BlockedLayout:
    """Return the window of `dims` elements from `offsets`."""
    size, start = parse_ints(dims, "dims"), parse_ints(offsets, "offsets")
    _require_layout("submemory_desc", kind, parent, Unimplemented)
    if RUNTIME_DIM in size or RUNTIME_DIM in start:
        raise refuse("RS-M22")
    _check_window(parent.dims, size, start)
    blocks = parent.blocks
    for d, blk in enumerate(blocks):
        _check_cut(d, blk, size[d], start[d], parent.dims[d])
    padded = tuple(
        parent.padded_dims[d] - at if at + n == parent.dims[d] else n
        for d, (n, at) in enumerate(zip(size, start, strict=True))
    )
    shift = sum(axis_offset(parent, d, at) for d, at in enumerate(start))
    return BlockedLayout(size, padded, parent.strides, *parent.inner, parent.offset0 + shift)


def refuse_no_layout(what: str, kind: str) -> None:
    """Raise InvalidArguments for the format kinds of the zero descriptor and of opaque formats."""
    if kind == "undef":
        raise refuse("RS-M15:descriptor-zero", what=what)
    if kind == "opaque":
        raise refuse("RS-M15:opaque", what=what)


def _require_layout(
    what: str, kind: str, layout: BlockedLayout, error: type[InvalidArguments | Unimplemented]
) -> None:
    refuse_no_layout(what, kind)
    if layout.has_runtime or (kind == "any" and error is Unimplemented):
        why = (
            "some dims or strides are known only at execution"
            if layout.has_runtime
            else "format 'any' has no strides"
        )
        raise error(
            f"{what}: the layout is not known yet",
            code="RS-M15",
            why=why,
            hint="use a descriptor with a tag or strides",
        )


def _check_window(parent: tuple[int, ...], size: tuple[int, ...], start: tuple[int, ...]) -> None:
    if len(size) != len(parent) or len(start) != len(parent):
        raise refuse("RS-M20:another-rank", count=len(parent), count2=len(size), count3=len(start))
    for d, (n, at, whole) in enumerate(zip(size, start, parent, strict=True)):
        if n < 0 or at < 0 or at + n > whole:
            raise refuse("RS-M20:outside", d=d, at=at, n=n, whole=whole)


def _check_cut(axis: int, blk: int, n: int, at: int, whole: int) -> None:
    """Check that a window starts on a block, and ends on one, at the border, or inside its first block."""
    ends = at + n == whole or n % blk == 0 or n < blk
    if at % blk or not ends:
        raise refuse("RS-M21:window-cuts-block", axis=axis, at=at, n=n, blk=blk, whole=whole)


def permute(kind: str, old: BlockedLayout, perm: object) -> BlockedLayout:
    """Rename axes: `new[perm[i]] = old[i]` for dims, padding, strides and blocks."""
    to = parse_ints(perm, "perm")
    _require_layout("permute_axes", kind, old, InvalidArguments)
    ndims = len(old.dims)
    if sorted(to) != list(range(ndims)):
        raise refuse("RS-M24", to=f"permute_axes: perm is {to}"[:200], last=ndims - 1)
    come_from = sorted(range(ndims), key=lambda i: to[i])
    return BlockedLayout(
        tuple(old.dims[i] for i in come_from),
        tuple(old.padded_dims[i] for i in come_from),
        tuple(old.strides[i] for i in come_from) if old.strides else (),
        old.inner_blks,
        tuple(to[i] for i in old.inner_idxs),
        old.inner_steps,
        old.offset0,
    )


class _Group(NamedTuple):
    """Axes of the old and the new shape with the same elements: old[i:j] and new[k:l]."""

    old: range
    new: range


def reshape(kind: str, old: BlockedLayout, dims: object, new_blocks: object = False) -> BlockedLayout:
    """Return the same elements under new dims, if strides and blocks can express it; `new_blocks` allows
    blocks that the old layout does not have.
    """
    may_block = parse_bool("new_blocks", new_blocks)
    shape = parse_dims(dims)
    _require_layout("reshape", kind, old, InvalidArguments)
    if not shape or RUNTIME_DIM in shape:
        raise refuse("RS-M26:dims-known", max_ndims=MAX_NDIMS)
    if _volume(shape) != _volume(old.dims):
        raise refuse(
            "RS-M26:elements-not",
            dims=old.dims,
            shape=shape,
            volume=_volume(old.dims),
            volume2=_volume(shape),
        )
    if kind == "any":
        return BlockedLayout(shape, shape, ())
    try:
        return _regroup(old, shape, _groups(old, shape))
    except Error:
        blocked = _in_blocks(old, shape) if may_block else None
        if blocked is None:
            raise
        return blocked


def _in_blocks(old: BlockedLayout, shape: tuple[int, ...]) -> BlockedLayout | None:
    """Return the new axes as digits of the old ones: the first of each has a stride, the others are blocks.

    For example, windows of 7 x 7 pixels of an image are `aBCD7b7c96d` of the whole. None if a digit would be
    split unevenly, if blocks would have gaps, or if there is padding.
    """
    if old.padded_dims != old.dims or 0 in shape:
        return None
    rest = sorted(layout_digits(old), key=lambda digit: (-digit.axis, digit.weight))
    rest = [digit for digit in rest if digit.extent > 1]
    axes = list[list[tuple[int, int]]]()
    for size in reversed(shape):
        digits = list[tuple[int, int]]()
        while size > 1:
            digit = rest.pop(0)
            taken = gcd(size, digit.extent)
            if taken != min(size, digit.extent):
                return None
            size //= taken
            if taken < digit.extent:
                left = digit.extent // taken
                rest.insert(0, digit._replace(extent=left, stride=digit.stride * taken))
            if digits and digit.stride == digits[-1][0] * digits[-1][1]:
                digits[-1] = digits[-1][0], digits[-1][1] * taken
            else:
                digits.append((digit.stride, taken))
        axes.insert(0, digits or [(0, 1)])
    return _of_digits(shape, axes, old.offset0)


def _of_digits(
    shape: tuple[int, ...], axes: list[list[tuple[int, int]]], offset0: int
) -> BlockedLayout | None:
    """Return the layout whose axes have digits of these strides and extents, the innermost first."""
    inner = {(stride, n, axis, i) for axis, of in enumerate(axes) for i, (stride, n) in enumerate(of[:-1])}
    found, reached = list[tuple[int, int, int, int]](), 1
    while inner:
        # Any digit inside a block is a block too, even a whole axis.
        outer = {(of[-1][0], of[-1][1], axis, len(of) - 1) for axis, of in enumerate(axes)}
        following = next((each for each in inner | outer if each[0] == reached and each[1] > 1), None)
        if following is None:
            return None
        found.append(following)
        inner.discard(following)
        reached *= following[1]
    strides = [of[-1][0] for of in axes]
    blocks = list[tuple[int, int, int]]()
    for _, extent, axis, place in reversed(found):
        blocks.append((extent, axis, prod(n for _, n in axes[axis][:place])))
        if place == len(axes[axis]) - 1:
            strides[axis] = reached
    for axis in reversed(range(len(shape))):
        if not strides[axis]:
            strides[axis] = reached if axis == len(shape) - 1 else strides[axis + 1]
    inner_blocks = canonical_blocks(*(tuple(block[i] for block in blocks) for i in range(3)))
    return BlockedLayout(shape, shape, tuple(strides), *inner_blocks, offset0)


def _volume(dims: tuple[int, ...]) -> int:
    """Return the number of elements; zero dims count as 1."""
    return prod(n or 1 for n in dims)


def _groups(old: BlockedLayout, shape: tuple[int, ...]) -> list[_Group]:
    """Match old and new axes from the innermost outwards, in the smallest groups of equal volume."""
    groups = []
    i, k = len(old.dims), len(shape)
    while i or k:
        group = _next_group(old, shape, i, k)
        i, k = group.old.start, group.new.start
        groups.append(group)
    return groups


def _next_group(old: BlockedLayout, shape: tuple[int, ...], i: int, k: int) -> _Group:
    """Return the innermost group of axes before `i` (old) and `k` (new): drop 1, add 1, keep, or regroup."""
    if i and old.padded_dims[i - 1] == old.blocks[i - 1] == 1:
        return _Group(range(i - 1, i), range(k, k))
    if i and k and old.dims[i - 1] == shape[k - 1]:
        return _Group(range(i - 1, i), range(k - 1, k))
    if k and shape[k - 1] == 1:
        return _Group(range(i, i), range(k - 1, k))
    first_old, first_new = i - 1, k - 1
    while first_old >= 0 and first_new >= 0:
        ours, theirs = prod(old.dims[first_old:i]), prod(shape[first_new:k])
        if ours == theirs and ours:
            return _Group(range(first_old, i), range(first_new, k))
        first_old, first_new = (first_old - 1, first_new) if ours < theirs else (first_old, first_new - 1)
    raise _cannot(old.dims, shape, "a dim of 0, or a 1 that is padded, must stay in its place")


def _cannot(old: tuple[int, ...], new: tuple[int, ...], why: str) -> Error:
    return refuse("RS-M26:cannot-keep-memory", old=old, new=new, why=why)


def _regroup(old: BlockedLayout, shape: tuple[int, ...], groups: list[_Group]) -> BlockedLayout:
    """Return strides and padding of the new axes, group by group from the innermost outwards."""
    padded, strides = list(shape), [0] * len(shape)
    become: dict[int, range] = {}
    next_stride = prod(old.inner_blks)
    for group in groups:
        if _keeps(group):
            source, target = group.old.start, group.new.start
            become[source] = group.new
            padded[target], strides[target] = old.padded_dims[source], old.strides[source]
            next_stride = old.strides[source] * max(1, old.outer_extents[source])
            continue
        if len(group.old) == 1 and group.new and old.blocks[group.old.start] > 1:
            become[group.old.start] = group.new
            next_stride = _split_strides(old, shape, group, strides)
            continue
        step = _merged_stride(old, shape, group) if group.old and group.new else next_stride
        for d in reversed(group.new):
            strides[d] = step
            step *= max(1, shape[d])
        next_stride = step if group.new else next_stride
    inner = _split_blocks(old, shape, become)
    return BlockedLayout(shape, tuple(padded), tuple(strides), *inner, old.offset0)


def _split_strides(old: BlockedLayout, shape: tuple[int, ...], group: _Group, strides: list[int]) -> int:
    """Fill in the strides of axes split from a blocked one; return the stride of the axis outside."""
    axis, weight = group.old.start, 1
    block, stride = old.blocks[axis], old.strides[axis]
    if old.padded_dims[axis] != old.dims[axis]:
        raise _cannot(old.dims, shape, f"axis {axis} is padded")
    for d in reversed(group.new):
        if weight > block and weight % block:
            raise _cannot(old.dims, shape, f"axis {axis} would be split inside a block of {block}")
        # Axes inside a block have one block, and any stride.
        strides[d] = stride * max(1, weight // block)
        weight *= shape[d]
    return stride * (weight // block)


def _split_blocks(old: BlockedLayout, shape: tuple[int, ...], become: dict[int, range]) -> Blocks:
    """Return the inner blocks after each axis has become one or more: split where an axis begins."""
    blocks: list[tuple[int, int, int]] = []
    for size, axis, step in zip(*old.inner, strict=True):
        weight, pieces = 1, []
        for d in reversed(become[axis]):
            whole = weight * shape[d] if d != become[axis].start else max(weight * shape[d], step * size)
            low, high = max(step, weight), min(step * size, whole)
            if low < high:
                if low % step or low % weight or high % low or (step * size) % high:
                    raise _cannot(old.dims, shape, f"axis {axis} would be split inside a block of {size}")
                pieces.append((high // low, d, low // weight))
            weight *= shape[d]
        blocks += reversed(pieces)
    return canonical_blocks(*(tuple(block[i] for block in blocks) for i in range(3)))


def _keeps(group: _Group) -> bool:
    return len(group.old) == 1 and len(group.new) == 1


def _merged_stride(old: BlockedLayout, shape: tuple[int, ...], group: _Group) -> int:
    """Return the innermost stride of axes that are contiguous in logical order, unpadded and unblocked."""
    blocks = old.blocks
    if any(blocks[d] != 1 or old.padded_dims[d] != old.dims[d] for d in group.old):
        raise _cannot(old.dims, shape, f"axes {[*group.old]} are blocked or padded")
    axes = [d for d in group.old if old.dims[d] != 1]
    for outer, inner in pairwise(axes):
        if old.strides[outer] != old.strides[inner] * old.dims[inner]:
            raise _cannot(old.dims, shape, f"axis {outer} does not continue axis {inner} in memory")
    return old.strides[axes[-1]]
