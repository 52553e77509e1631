"""Converts layouts from and to memory descriptors, NumPy strides, and einops patterns.

Axis d is mode d. For a blocked axis the mode is hierarchical, its inner digits first: the channels of
`nChw16c` are (16,C/16):(1,16*H*W).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..desc.build import check_range
from ..desc.layout import layout_digits
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_dims, parse_int, parse_type, short_repr
from ..errors import raises_at_the_call, refuse
from .layout import Layout, as_layout

if TYPE_CHECKING:
    from ..desc.literals import TypeLike

_PARENTHESES = re.compile(r"\([^)]*\)")
_GROUP = re.compile(r"\(([\w\s]*)\)|(\w+)")
_LONGEST = 1000


# --- descriptors -------------------------------------------------------------


@raises_at_the_call
def from_desc(md: MemoryDesc) -> Layout:
    """Return the layout of a descriptor, padding included: `layout(*index) + md.offset0` is
    `md.offset(*index)`.

    Raises InvalidArguments for descriptors without a layout, and for empty tensors.
    """
    if not isinstance(md, MemoryDesc) or md.format_kind != "blocked" or md.layout.has_runtime:
        raise refuse("RS-A18:desc", md=short_repr(md))
    modes: list[list[tuple[int, int, int]]] = [[] for _ in md.dims]
    for axis, extent, weight, stride in layout_digits(md.layout):
        modes[axis].append((weight, extent, stride))
    pairs = [[(n, d) for _, n, d in sorted(mode) if n != 1] or [(1, 0)] for mode in modes]
    if any(n == 0 for mode in pairs for n, _ in mode):
        raise refuse("RS-A18:desc", md=short_repr(md))
    return Layout.of(*(Layout(*_nested(mode)) for mode in pairs))


def _nested(pairs: Sequence[tuple[int, int]]) -> tuple[Any, Any]:
    return pairs[0] if len(pairs) == 1 else tuple(zip(*pairs, strict=True))  # type: ignore[return-value]


@raises_at_the_call
def to_desc(layout: Layout | str, dtype: TypeLike, dims: Sequence[int] | None = None) -> MemoryDesc:
    """Return the descriptor of a layout: plain, or blocked if a mode is hierarchical.

    `dims`: the extents without the padding of the last blocks. Raises InvalidArguments if inner digits are
    not dense, as blocks are, or strides are negative.
    """
    layout = as_layout(layout)
    modes = [mode.coalesce()._flat() for mode in layout.modes]
    padded = tuple(mode.size for mode in layout.modes)
    shape = padded if dims is None else parse_dims(dims)
    for mode, n, most in zip(modes, shape, padded, strict=False):
        block = prod(extent for extent, _ in mode[:-1])
        if -(-n // block) * block != most:
            mode.append((1, 0))  # the whole axis is one block, padded
    blocks = _inner_blocks(modes)
    if blocks is None or not modes:
        raise refuse("RS-A18:no-desc", layout=layout)
    strides = [mode[-1][1] for mode in modes]
    for d in reversed(range(len(modes))):
        # A single block: its stride is arbitrary, so it is that of a dense tensor in the order of its axes.
        if modes[d][-1][0] == 1 and any(axis == d for axis, _, _ in blocks):
            after = [n * mode[-1][0] for n, mode in zip(strides[d + 1 :], modes[d + 1 :], strict=True)]
            strides[d] = max([prod(size for _, size, _ in blocks), *after])
    whole = MemoryDesc.from_strides(padded, dtype, strides, 0, blocks)
    found = replace(whole.layout, dims=shape)
    sizes = zip(shape, padded, found.blocks, strict=False)
    if len(shape) != len(padded) or any(n < 1 or -(-n // block) * block != most for n, most, block in sizes):
        raise refuse("RS-A18:dims", dims=shape, padded=padded, blocks=found.blocks)
    check_range(found, parse_type(dtype))
    return MemoryDesc._make("blocked", whole.data_type, found)


def _inner_blocks(modes: list[list[tuple[int, int]]]) -> list[tuple[int, int, int]] | None:
    """Return the inner blocks (axis, size, step), outer to inner, or None if digits are not dense.

    All digits of a mode but the last are inner; if one is missing between two strides, it is the first part
    of another mode's last. What remains in `modes` steps over blocks.
    """
    blocks: list[tuple[int, int, int]] = []
    steps, end = [1] * len(modes), 1
    while inner := [(mode[0][1], d) for d, mode in enumerate(modes) if len(mode) > 1]:
        stride, axis = min(inner)
        if stride != end:
            # The rest of the block up to that stride: the last digit of an axis that begins here.
            found = [d for d, mode in enumerate(modes) if len(mode) == 1 and mode[0][1] == end]
            axis = next(
                (
                    d
                    for d in found
                    if stride > end and stride % end == 0 and modes[d][0][0] % (stride // end) == 0
                ),
                -1,
            )
            if axis < 0:
                return None
            n = modes[axis][0][0]
            modes[axis] = [(stride // end, end), (n * end // stride, stride)]
        size = modes[axis].pop(0)[0]
        blocks.insert(0, (axis, size, steps[axis]))
        steps[axis] *= size
        end *= size
    return blocks


# --- arrays ------------------------------------------------------------------


@raises_at_the_call
def from_array(array: Any) -> Layout:
    """Return the strides of a NumPy array in elements. For xarray's DataArray, dims become names of modes.

    Raises InvalidArguments for other arrays, and if strides are not multiples of the element size.
    """
    data = getattr(array, "data", None) if hasattr(array, "dims") else array
    if not isinstance(data, np.ndarray) or 0 in data.shape or any(d % data.itemsize for d in data.strides):
        raise refuse("RS-A18:array", value=short_repr(array))
    return Layout(data.shape, [d // data.itemsize for d in data.strides], getattr(array, "dims", ()))


@raises_at_the_call
def to_strides(layout: Layout | str, itemsize: int = 1) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return shape and strides for NumPy's `as_strided`, in bytes if `itemsize` is passed.

    Raises InvalidArguments if a mode has several strides: `layout.flatten()` makes each an axis.
    """
    layout = as_layout(layout)
    modes = [mode.coalesce() for mode in layout.modes]
    if any(mode.rank > 1 for mode in modes):
        raise refuse("RS-A18:strides", layout=layout)
    size = parse_int(itemsize, "itemsize")
    return tuple(mode.size for mode in modes), tuple(mode._flat()[0][1] * size for mode in modes)


# --- patterns of einops ------------------------------------------------------


@raises_at_the_call
def from_einops(pattern: str, dims: Sequence[int], /, **sizes: int) -> Layout:
    """Return the layout with which `rearrange` or `repeat` reads a row-major tensor of `dims`; each axis of
    the result is a mode.

    `from_einops("b (h p) w -> b w h p", (2, 12, 5), p=4)`. Repeated axes have stride 0; numbers, as in
    `"h -> h 3"`, are axes of these sizes. Raises InvalidArguments for a pattern that cannot be read or does
    not match.
    """
    shape = parse_dims(dims)
    if not isinstance(pattern, str) or len(pattern) > _LONGEST or pattern.count("->") != 1 or 0 in shape:
        raise refuse("RS-A18:pattern", pattern=short_repr(pattern), why="it must have the form 'a b -> b a'")
    left, right = pattern.split("->")
    if any("..." in group for group in _PARENTHESES.findall(left)):
        raise refuse("RS-A18:pattern", pattern=short_repr(pattern), why="'...' cannot be split into factors")
    count = len(shape) - len(_groups(left.replace("...", " "), pattern))
    dots = " ".join(f"_{i}" for i in range(count))
    before, after = (_groups(side.replace("...", dots), pattern) for side in (left, right))
    known = {name: parse_int(n, name) for name, n in sizes.items()}
    known |= {name: int(name) for group in (*before, *after) for name in group if name.isdecimal()}
    digits = _digits(before, shape, known, pattern)
    given = [name for group in before for name in group]
    result = [name for group in after for name in group]
    strange = {name for name in known if name not in {*given, *result}}
    for names, why in (
        (strange, "sizes are given for names that the pattern does not contain"),
        ([name for name in given if name not in result], "an axis is omitted, which is a reduction"),
        ([name for name in result if name not in digits and name not in known], "an axis has no size"),
        (["="] * (len(result) != len(set(result)) or len(given) != len(set(given))), "an axis occurs twice"),
    ):
        if names:
            raise refuse("RS-A18:pattern", pattern=short_repr(pattern), why=why)
    modes = [[digits.get(name) or (known[name], 0) for name in reversed(group)] for group in after]
    names = [" ".join(group) or "1" for group in after]
    return replace(Layout.of(*(Layout(*_nested(mode or [(1, 0)])) for mode in modes)), names=tuple(names))


def _groups(side: str, pattern: str) -> list[list[str]]:
    """Return the names of each axis; an axis of extent 1 has none."""
    if _GROUP.sub("", side).strip():
        raise refuse("RS-A18:pattern", pattern=short_repr(pattern), why="axes are names, 1, (a b) or ...")
    groups = [(found[1] if found[2] is None else found[2]).split() for found in _GROUP.finditer(side)]
    return [[name for name in group if name != "1"] for group in groups]


def _digits(
    groups: list[list[str]], shape: tuple[int, ...], sizes: Mapping[str, int], pattern: str
) -> dict[str, tuple[int, int]]:
    """Return extent and stride of each name in a row-major tensor."""
    digits: dict[str, tuple[int, int]] = {}
    stride = 1
    for group, extent in zip(reversed(groups), reversed(shape), strict=False):
        unknown = [name for name in group if name not in sizes]
        rest = prod(sizes[name] for name in group if name in sizes)
        is_fit = len(groups) == len(shape) and rest > 0 and extent % rest == 0
        if not is_fit or len(unknown) > 1 or (not unknown and rest != extent):
            raise refuse("RS-A18:pattern", pattern=short_repr(pattern), why=f"it does not match dims {shape}")
        for name in reversed(group):
            digits[name] = (sizes.get(name, extent // rest), stride)
            stride *= digits[name][0]
    return digits


@raises_at_the_call
def to_einops(layout: Layout | str) -> tuple[str, dict[str, int]]:
    """Return the pattern and sizes with which einops creates the tensor from its memory, a vector:
    `rearrange(memory, pattern, **sizes)`.

    Raises InvalidArguments unless the offsets are 0 to size - 1, each once.
    """
    layout = as_layout(layout)
    layout.inverse()
    names: list[tuple[int, str, int]] = []
    axes = []
    for i, mode in enumerate(layout.modes):
        own = [(d, f"{_letter(i)}{j}", n) for j, (n, d) in enumerate(mode.coalesce()._flat()) if n > 1]
        names += own
        axes.append(" ".join(name for _, name, _ in reversed(own)) if own else "1")
    memory = " ".join(name for _, name, _ in sorted(names, reverse=True))
    result = " ".join(f"({axis})" if " " in axis else axis for axis in axes)
    return f"({memory}) -> {result}", {name: n for _, name, n in names}


def _letter(axis: int) -> str:
    return "abcdefghijklmnopqrstuvwxyz"[axis % 26] * (axis // 26 + 1)
