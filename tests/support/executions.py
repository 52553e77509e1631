"""A primitive run on arrays, on any engine, in any formats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import restride as rs
from support.computed import padding_is_zero
from support.engines import allocated, memory_over, run, storage

Array = npt.NDArray[Any]
_CPU = rs.Engine("cpu")
INDICES = "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"
"""The types of indices."""


def executed(engine: rs.Engine, name: str, inputs: Mapping[int, Array], *arguments: Any) -> dict[int, Array]:
    """Return the results of a primitive, by argument; `inputs`: values by argument."""
    primitive = getattr(rs.onednn, name)
    pd = primitive.PrimitiveDesc(engine, *arguments)
    memories = {}
    for arg, md in pd._exec_args().items():
        memories[arg] = allocated(md, engine)
        if arg in inputs:
            on_host = rs.Memory(md, _CPU)
            rs.reorder(np.ascontiguousarray(inputs[arg]), None, out=on_host)
            memories[arg] = memory_over(md, engine, storage(on_host.data, engine))
    made = primitive(pd)
    for _ in range(2):
        run(made, engine, memories)
    results = {arg: memory for arg, memory in memories.items() if arg not in inputs}
    assert all(padding_is_zero(memory) for memory in results.values())
    return {arg: np.array(memory.to_numpy()) for arg, memory in results.items()}


def values_of(kind: rs.DataType, dims: tuple[int, ...], seed: int = 0) -> Array:
    """Values of a type, any bits of it."""
    rng, twin = np.random.default_rng(seed), kind.numpy
    if kind is rs.DataType.boolean:
        return rng.integers(0, 2, dims).astype(bool)
    if kind.bits < 8:
        return rng.integers(0, 7, dims).astype(twin)
    return rng.integers(0, 256, (*dims, kind.bits // 8), np.uint8).view(twin)[..., 0]


def same_bits(found: Array, wanted: Array) -> None:
    """Equal, NaN and all."""
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    assert np.ascontiguousarray(found).tobytes() == np.ascontiguousarray(wanted).tobytes()


def inside(index: Array, size: int) -> Array:
    """Indices as they are documented: from the end, and then the nearer end."""
    at = index.astype(object)
    return np.clip(np.where(at < 0, at + size, at), 0, size - 1).astype(np.int64)
