"""Random problems of primitives that read, write or find indices."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import restride as rs
from support.primitive_problem import RandomProblem
from support.random_descs import random_desc, random_dims

_TYPES = ("f32", "f32", "f16", "bf16", "f64", "s8", "u8", "s16", "s32", "s64", "boolean", "f8_e4m3", "s4")
_INDICES = ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")

Dims = tuple[int, ...]


def _indices(rng: random.Random, dims: Dims) -> rs.MemoryDesc:
    return random_desc(rng, dims, rng.choice(_INDICES)) if len(dims) > 1 else _plain(dims, rng)


def _plain(dims: Dims, rng: random.Random) -> rs.MemoryDesc:
    return rs.MemoryDesc(dims, rng.choice(_INDICES))


def _desc(rng: random.Random, dims: Dims, kind: str) -> rs.MemoryDesc:
    """A descriptor of any format; elements of few bits lie in blocks or rows, whole bytes of them."""
    while len(dims) > 1:
        made = random_desc(rng, dims, kind)
        if made.data_type.bits >= 8 or made.tag:
            return made
    return rs.MemoryDesc(dims, kind)


def _problem(name: str, *arguments: Any) -> RandomProblem:
    primitive = getattr(rs.onednn, name)
    return RandomProblem(primitive, lambda engine: primitive.PrimitiveDesc(engine, *arguments))


def _gather(rng: random.Random) -> RandomProblem:
    dims, kind = random_dims(rng, rng.choice((2, 3, 4))), rng.choice(_TYPES)
    axis, algorithm = rng.randrange(len(dims)), rng.choice(("axis", "elements", "nd", "window"))
    batch = 0
    if algorithm == "axis":
        batch = rng.randrange(axis + 1)
        own = tuple(
            rng.choice((1, 3, 17)) for _ in range(rng.choice((0, 1, 2)) if batch else rng.choice((1, 2)))
        )
        indices, result = (*dims[:batch], *own), (*dims[:axis], *own, *dims[axis + 1 :])
    elif algorithm == "elements":
        indices = result = (
            *(rng.randint(1, n) for n in dims[:axis]),
            rng.choice((1, 5, 40)),
            *dims[axis + 1 :],
        )
    elif algorithm == "nd":
        batch = rng.randrange(len(dims))
        count = rng.randint(1, len(dims) - batch)
        own = tuple(rng.choice((1, 3, 17)) for _ in range(rng.choice((1, 2))))
        indices = (*dims[:batch], *own, count)
        result = (*dims[:batch], *own, *dims[batch + count :])
    else:
        indices, result = (1,), (*dims[:axis], rng.randint(1, dims[axis]), *dims[axis + 1 :])
    mds = _desc(rng, dims, kind), _indices(rng, indices), _desc(rng, result, kind)
    return _problem("Gather", algorithm, *mds, axis, batch)


def _scatter(rng: random.Random) -> RandomProblem:
    dims, kind = random_dims(rng, rng.choice((2, 3, 4))), rng.choice(_TYPES)
    axis, algorithm = rng.randrange(len(dims)), rng.choice(("axis", "elements", "nd"))
    if algorithm == "axis":
        indices: Dims = (rng.choice((1, 5, 40)),)
        updates = (*dims[:axis], *indices, *dims[axis + 1 :])
    elif algorithm == "elements":
        indices = updates = (
            *(rng.randint(1, n) for n in dims[:axis]),
            rng.choice((1, 5, 40)),
            *dims[axis + 1 :],
        )
    else:
        count = rng.randint(1, len(dims))
        own = tuple(rng.choice((1, 3, 17)) for _ in range(rng.choice((1, 2))))
        indices, updates = (*own, count), (*own, *dims[count:])
    reduction = rng.choice(("none", "none", "add", "mul", "min", "max")) if kind != "s4" else "none"
    src, dst = (_desc(rng, dims, kind) for _ in range(2))
    mds = src, _indices(rng, indices), _desc(rng, updates, kind), dst
    return _problem("Scatter", algorithm, *mds, axis, reduction)


def _reverse_sequence(rng: random.Random) -> RandomProblem:
    dims, kind = random_dims(rng, rng.choice((2, 3, 4))), rng.choice(_TYPES)
    axis, batch_axis = rng.sample(range(len(dims)), 2)
    src, dst = (_desc(rng, dims, kind) for _ in range(2))
    return _problem("ReverseSequence", src, _plain((dims[batch_axis],), rng), dst, axis, batch_axis)


def _one_hot(rng: random.Random) -> RandomProblem:
    dims, kind = random_dims(rng, rng.choice((2, 3))), rng.choice(_TYPES)
    axis = rng.randrange(len(dims) + 1)
    dst = _desc(rng, (*dims[:axis], rng.choice((1, 4, 19)), *dims[axis:]), kind)
    return _problem("OneHot", _indices(rng, dims), rs.MemoryDesc((2,), kind), dst, axis)


def _scan(rng: random.Random) -> RandomProblem:
    dims, kind = (
        random_dims(rng, rng.choice((2, 3, 4))),
        rng.choice(("f32", "f64", "f16", "s8", "u16", "s64", "u64")),
    )
    algorithm = rng.choice(("sum", "max", "min"))
    src, dst = (_desc(rng, dims, kind) for _ in range(2))
    return _problem(
        "Scan", algorithm, src, dst, rng.randrange(len(dims)), rng.random() < 0.5, rng.random() < 0.5
    )


def _arg_reduction(rng: random.Random) -> RandomProblem:
    dims, axis = random_dims(rng, rng.choice((2, 3, 4))), 0
    axis = rng.randrange(len(dims))
    src = _desc(rng, dims, rng.choice(_TYPES))
    dst = _desc(rng, (*dims[:axis], 1, *dims[axis + 1 :]), rng.choice(("s32", "s64")))
    return _problem("ArgReduction", rng.choice(("max", "min")), src, dst, axis, rng.random() < 0.5)


def _top_k(rng: random.Random) -> RandomProblem:
    dims, kind = random_dims(rng, rng.choice((2, 3, 4))), rng.choice(_TYPES)
    axis = rng.randrange(len(dims))
    result = (*dims[:axis], rng.choice((1, dims[axis])), *dims[axis + 1 :])
    mds = _desc(rng, dims, kind), _desc(rng, result, kind), _desc(rng, result, rng.choice(("s32", "s64")))
    return _problem("TopK", rng.choice(("largest", "smallest")), *mds, axis)


def _tile(rng: random.Random) -> RandomProblem:
    dims, kind = random_dims(rng, rng.choice((2, 3, 4))), rng.choice(_TYPES)
    result = tuple(n * rng.choice((1, 1, 2, 3)) for n in dims)
    return _problem("Tile", _desc(rng, dims, kind), _desc(rng, result, kind))


def _trilu(rng: random.Random) -> RandomProblem:
    dims, kind = random_dims(rng, rng.choice((2, 3, 4))), rng.choice(_TYPES)
    src, dst = (_desc(rng, dims, kind) for _ in range(2))
    offset = rng.choice((None, _plain((1,), rng)))
    return _problem("Trilu", src, dst, offset, rng.randint(-3, 3), rng.random() < 0.5)


def _attention(rng: random.Random) -> RandomProblem:
    batch, key_heads, group = rng.choice((1, 2)), rng.choice((1, 2)), rng.choice((1, 1, 3))
    queries, keys = rng.choice((1, 2, 7, 33, 97, 130)), rng.choice((1, 5, 33, 129, 300, 700))
    width, values = rng.choice((1, 8, 20, 64)), rng.choice((1, 8, 20, 40))
    kind = rng.choice(("f32", "f32", "f32", "bf16", "f16", "f64"))
    heads = key_heads * group
    query, key, value, dst = (
        _desc(rng, dims, kind)
        for dims in (
            (batch, heads, queries, width),
            (batch, key_heads, keys, width),
            (batch, key_heads, keys, values),
            (batch, heads, queries, values),
        )
    )
    mask = tuple(rng.choice((1, n)) for n in (batch, heads, queries, keys))
    beside = (
        rng.choice((None, None, _desc(rng, mask, rng.choice(("f32", "boolean", "f16"))))),
        rng.choice((None, rs.MemoryDesc((batch,), rng.choice(("s32", "s64"))))),
        rng.choice((None, rs.MemoryDesc((heads,), "f32"))),
    )
    words = (
        rng.choice((None, 0.5, 1.0)),
        rng.choice(("none", "top_left", "bottom_right")),
        rng.choice((None, (rng.choice((-1, 0, 9)), rng.choice((-1, 0, 40))))),
        rng.choice((0.0, 0.0, 3.0)),
    )
    stats = rs.MemoryDesc((batch, heads, queries), "f32")
    if rng.random() < 0.3:
        gradients = (_desc(rng, md.dims, kind) for md in (query, key, value, dst))
        three = query, key, value, dst, stats, *gradients
        return _problem("ScaledDotProductAttentionBackward", *three, *beside, *words)
    scales = None, None, None, None
    if rng.random() < 0.3:
        key, value = (_desc(rng, md.dims, rng.choice(("s8", "f8_e4m3"))) for md in (key, value))
        scales = None, None, *(_desc(rng, (batch, key_heads, keys), "f32") for _ in range(2))
    return _problem(
        *("ScaledDotProductAttention", query, key, value, dst, *beside, rng.choice((None, stats)), *words),
        *scales,
    )


INDEXED: dict[str, Callable[[random.Random], RandomProblem]] = {
    "gather": _gather,
    "scatter": _scatter,
    "reverse sequence": _reverse_sequence,
    "one-hot": _one_hot,
    "scan": _scan,
    "arg reduction": _arg_reduction,
    "top k": _top_k,
    "tile": _tile,
    "trilu": _trilu,
    "attention": _attention,
}
