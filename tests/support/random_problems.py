"""Random problems, each a function of its number alone: the same on every machine and interpreter.

Hypothesis would draw others with another version. `problem_bits` runs them.
"""

from __future__ import annotations

import random
from math import prod

from restride.ir.conversion import PROVIDED
from support.attributes import BINARY
from support.ir_problem import COMMON, SMALL, TINY, Dims, Problem, Step, Tensor, concat

# Extents around the sizes of registers, tiles and blocks, where tails begin.
_EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 96, 129)
_BLOCKS = (2, 4, 8, 8, 16, 16, 32, 64)
_MOST = 6000
_MOST_PADDED = 24_000
_TYPES = tuple(str(kind) for kind in PROVIDED)
_WIDE = tuple(str(kind) for kind in PROVIDED if kind.bits >= 8)
# Of sums and concats, in which four bits and powers of two have no place everywhere.
_FLOATS = ("f64", "f32", "f32", "bf16", "f16", "f8_e4m3", "f8_e5m2")
_PLAIN = (*_FLOATS, "s32", "s8", "u8", "s64", "u32", "u16")
_INTEGERS = ("s32", "s8", "u8", "s4", "u4")
# Functions of a few operations, and one of the many that are computed in double.
_FUNCTIONS = ("relu", "linear", "clip", "abs", "sqrt", "square", "round", "hardswish", "exp")
_FACTORS = (0.5, 1.0, -3.7, 0.0, 2.0**-20, 300.0)
_SRC, _DST = 1, 17


def random_problem(number: int) -> Problem:
    """The problem of a number."""
    rng = random.Random(number)
    draw = rng.choice((_plain, _plain, _plain, _plain, _attributed, _attributed, _shuffle, _concat, _sum))
    return draw(rng)


def _dims(rng: random.Random, most: int = _MOST) -> Dims:
    dims = []
    for _ in range(rng.choice((1, 2, 2, 3, 3, 4, 4, 5))):
        dims.append(rng.choice([n for n in _EXTENTS if n <= most]))
        most //= dims[-1]
    rng.shuffle(dims)
    return tuple(dims)


def _tensor(rng: random.Random, dims: Dims, data_type: str, *, may_stride: bool = True) -> Tensor:
    way = rng.randrange(10)
    if way < 2 and may_stride:
        return Tensor(dims, data_type, _strides(rng, dims))
    if way < 3 and may_stride:
        return _window(rng, dims, data_type)
    return Tensor(dims, data_type, _tag(rng, dims))


def _tag(rng: random.Random, dims: Dims) -> str:
    """Axes in any order, with up to three inner blocks while padding stays small."""
    letters = [chr(ord("a") + axis) for axis in range(len(dims))]
    blocks: list[tuple[int, int]] = []
    for _ in range(rng.choice((0, 0, 1, 1, 2, 3))):
        more = [*blocks, (rng.choice(_BLOCKS), rng.randrange(len(dims)))]
        if _padded(dims, more) <= _MOST_PADDED:
            blocks = more
    for axis in {axis for _, axis in blocks}:
        letters[axis] = letters[axis].upper()
    rng.shuffle(letters)
    return "".join(letters) + "".join(f"{size}{chr(ord('a') + axis)}" for size, axis in blocks)


def _padded(dims: Dims, blocks: list[tuple[int, int]]) -> int:
    whole = [prod(size for size, axis in blocks if axis == d) for d in range(len(dims))]
    return prod(-(-n // block) * block for n, block in zip(dims, whole, strict=True))


def _strides(rng: random.Random, dims: Dims) -> Dims:
    """Axes in any order with gaps between them, some reversed: no two elements share a place."""
    strides, stride = [0] * len(dims), rng.choice((1, 1, 2, 3))
    for axis in rng.sample(range(len(dims)), len(dims)):
        strides[axis] = stride * rng.choice((1, 1, 1, -1))
        stride = stride * dims[axis] + rng.choice((0, 0, 1, 3, 16))
    return tuple(strides)


def _window(rng: random.Random, dims: Dims, data_type: str) -> Tensor:
    letters = [chr(ord("a") + axis) for axis in range(len(dims))]
    rng.shuffle(letters)
    at = tuple(rng.choice((0, 0, 1, 5)) for _ in dims)
    whole = tuple(start + n + rng.choice((0, 0, 3)) for start, n in zip(at, dims, strict=True))
    return Tensor(dims, data_type, "".join(letters), whole, at)


def _caches(rng: random.Random) -> tuple[int, int]:
    first, last = rng.choice((COMMON, COMMON, SMALL, TINY))
    return first, last


def _plain(rng: random.Random) -> Problem:
    """A reorder of any types, moved, scaled or added to what is there."""
    dims = _dims(rng)
    ends = tuple(_tensor(rng, dims, rng.choice(_TYPES)) for _ in range(2))
    steps: list[Step] = []
    if rng.random() < 0.4:
        steps.append(("scales", _SRC, 0, rng.choice(_FACTORS)))
    if rng.random() < 0.2:
        steps.append(("sum", rng.choice(_FACTORS)))
    return Problem("reorder", ends, (), tuple(steps), _caches(rng))


def _attributed(rng: random.Random) -> Problem:
    """A reorder with scales and zero points of any mask that an execution brings, and post-ops."""
    dims = _dims(rng, 1500)
    src, dst = ends = tuple(_tensor(rng, dims, rng.choice(_WIDE)) for _ in range(2))
    steps: list[Step] = []
    for arg, end in ((_SRC, src), (_DST, dst)):
        if rng.random() < 0.5:
            steps.append(("scales_mask", arg, rng.randrange(1 << len(dims))))
        if end.data_type in _INTEGERS and rng.random() < 0.5:
            steps.append(("zero_points_mask", arg, rng.randrange(1 << len(dims))))
    for _ in range(rng.choice((0, 1, 2, 3))):
        steps.append(_post_op(rng, dims))
    return Problem("reorder", ends, (), tuple(steps), _caches(rng))


def _post_op(rng: random.Random, dims: Dims) -> Step:
    if rng.random() < 0.5:
        return ("eltwise", rng.choice(_FUNCTIONS), rng.choice((-0.5, 0.0, 0.1)), 1.5, rng.choice((1.0, 0.3)))
    operand = Tensor(tuple(rng.choice((n, 1)) for n in dims), rng.choice(_PLAIN), _tag(rng, dims))
    return ("binary", rng.choice(BINARY), operand)


def _shuffle(rng: random.Random) -> Problem:
    dims = _dims(rng)
    axis = rng.randrange(len(dims))
    group = rng.choice([n for n in range(1, dims[axis] + 1) if dims[axis] % n == 0])
    tensor = _tensor(rng, dims, rng.choice(_TYPES), may_stride=False)
    kind = rng.choice(("shuffle_forward", "shuffle_backward"))
    return Problem(kind, (tensor, tensor), (axis, group), (), _caches(rng))


def _concat(rng: random.Random) -> Problem:
    dims = _dims(rng, 1500)
    axis, count = rng.randrange(len(dims)), rng.choice((1, 2, 3, 5))
    shapes = [(*dims[:axis], rng.choice((1, 2, 5, 16, dims[axis])), *dims[axis + 1 :]) for _ in range(count)]
    types = " ".join(rng.choice(_PLAIN) for _ in range(count + 1))
    tags = " ".join(_tag(rng, dims) for _ in range(count + 1))
    return concat(shapes, types, tags, axis, caches=_caches(rng))


def _sum(rng: random.Random) -> Problem:
    dims, count = _dims(rng, 1500), rng.choice((1, 2, 3, 5))
    tensors = tuple(_tensor(rng, dims, rng.choice(_PLAIN)) for _ in range(count + 1))
    return Problem("sum", tensors, tuple(rng.choice(_FACTORS) for _ in range(count)), (), _caches(rng))
