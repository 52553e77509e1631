"""Random descriptors and windows: small extents, blocks whose vectors are padding, strides with gaps."""

from __future__ import annotations

import random

import restride as rs

Dims = tuple[int, ...]
_NAMES = "abcdef"
_CHANNELS = (3, 5, 8, 16, 17, 31, 33)
_SIZES = (1, 2, 5, 6, 7, 9, 13)
_MOST_BYTES = 300_000


def _tag(rng: random.Random, ndims: int) -> str:
    order = list(_NAMES[:ndims])
    draw = rng.random()
    if draw > 0.7:
        rng.shuffle(order)
    elif draw > 0.4:
        order = [*order[:1], *order[2:], *order[1:2]]
    blocks = [
        (rng.choice((2, 4, 8, 16, 16, 32)), rng.choice(_NAMES[:ndims]) if rng.random() < 0.5 else order[-1])
        for _ in range(rng.choice((0, 0, 1, 1, 1, 2)))
    ]
    blocked = {name for _, name in blocks}
    outer = "".join(name.upper() if name in blocked else name for name in order)
    return outer + "".join(f"{size}{name}" for size, name in blocks)


def random_desc(rng: random.Random, dims: Dims, data_type: str) -> rs.MemoryDesc:
    """A descriptor of any format, at times one of strides with gaps."""
    if rng.random() < 0.12:
        return rs.MemoryDesc(dims, data_type, _strides(rng, dims))
    for _ in range(20):
        made = rs.MemoryDesc(dims, data_type, _tag(rng, len(dims)))
        if made.size < _MOST_BYTES:
            return made
    return rs.MemoryDesc(dims, data_type, _NAMES[: len(dims)])


def _strides(rng: random.Random, dims: Dims) -> Dims:
    strides, room = [0] * len(dims), rng.choice((1, 1, 2))
    for dim in rng.sample(range(len(dims)), len(dims)):
        strides[dim] = room
        room = room * dims[dim] + rng.choice((0, 0, 1, 5))
    return tuple(strides)


def open_desc(rng: random.Random, dims: Dims, data_type: str) -> rs.MemoryDesc:
    """A descriptor whose format is left open at times."""
    return rs.MemoryDesc(dims, data_type, "any") if rng.random() < 0.35 else random_desc(rng, dims, data_type)


def random_dims(rng: random.Random, ndims: int = 0) -> Dims:
    """A batch, channels, and sizes."""
    ndims = ndims or rng.choice((3, 4, 4, 4, 5))
    few = (rng.choice((1, 2, 3)), rng.choice(_CHANNELS))
    return (*few, *(rng.choice(_SIZES) for _ in range(ndims - 2)))[:ndims]


def broadcast_dims(rng: random.Random, dims: Dims) -> Dims:
    """The same dims, some of them 1."""
    return tuple(n if rng.random() < 0.5 else 1 for n in dims)


def random_windows(rng: random.Random, sizes: Dims) -> tuple[tuple[Dims, ...], Dims]:
    """Strides, kernel, dilation, padding before and after; and the sizes of the result."""
    found = [_window(rng, size) for size in sizes]
    *windows, results = zip(*found, strict=True)
    return tuple(windows), results


def _window(rng: random.Random, size: int) -> tuple[int, ...]:
    for _ in range(50):
        kernel, dilation, stride = (
            rng.choice((1, 2, 3, 4)),
            rng.choice((0, 0, 0, 1)),
            rng.choice((1, 1, 2, 3)),
        )
        front, behind = (rng.randrange(kernel) if rng.random() < 0.6 else 0 for _ in range(2))
        span = (kernel - 1) * (dilation + 1) + 1
        if size + front + behind >= span:
            return stride, kernel, dilation, front, behind, (size + front + behind - span) // stride + 1
    return 1, 1, 0, 0, 0, size
