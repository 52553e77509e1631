"""Primitives that compute: memories of given values in any format, and what an execution leaves in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import restride as rs
from support.by_offset import guarded, positions
from support.engines import allocated, run

Array = npt.NDArray[Any]
FORMATS = ("abcd", "acdb", "aBcd16b", "dcba", "aBcd8b", "ABcd4b2a", (400, 20, 4, 1))
"""Formats of 4 dims: plain ones, blocks with and without padding, and strides with gaps."""


def any_like(md: rs.MemoryDesc, data_type: Any = None) -> rs.MemoryDesc:
    """A descriptor of the same dims whose format is left open."""
    return rs.MemoryDesc(md.dims, data_type or md.data_type, "any")


def memory_of(md: rs.MemoryDesc, values: Array, engine: rs.Engine) -> rs.Memory:
    """A memory with these elements; padding is zero, as it must be, and gaps are not."""
    memory = allocated(md, engine)
    assert memory.data is not None or not md.nelems
    if not md.nelems:
        return memory
    held = np.full(md.size, 0xA5, np.uint8)
    plain = np.broadcast_to(values, md.dims).astype(md.data_type.numpy)
    if md.data_type.bits < 8 or md.format_kind == "opaque":
        _move(md, plain, held)
    else:
        storage = held.view(md.data_type.numpy)
        storage[positions(md, md.padded_dims)] = 0
        storage[positions(md, md.dims)] = plain
    memory.data.view(np.uint8)[: held.size] = held
    return memory


def _move(md: rs.MemoryDesc, values: Array, storage: Array) -> None:
    cpu = rs.Engine("cpu")
    plain = rs.Memory(rs.MemoryDesc(md.dims, md.data_type), cpu, np.ascontiguousarray(values))
    target = rs.Memory(md, cpu, storage)
    rs.Reorder(plain, target).execute(rs.Stream(cpu), plain, target)


def elements(memory: rs.Memory) -> Array:
    """The elements of a memory in logical order."""
    md = memory.desc
    if md.data_type.bits < 8 or not md.nelems:
        return np.array(memory.to_numpy())
    try:
        return _storage(memory)[positions(md, md.dims)]
    except rs.InvalidArguments:
        # The bytes lie where only the device sees them.
        return np.array(memory.to_numpy())


def _storage(memory: rs.Memory) -> Array:
    assert memory.data is not None
    raw, kind = memory.data.view(np.uint8), np.dtype(memory.desc.data_type.numpy)
    return raw[: raw.size // kind.itemsize * kind.itemsize].view(kind)


def computed(
    primitive: Any, pd: Any, engine: rs.Engine, values: Mapping[int, Array], *written: int
) -> dict[int, rs.Memory]:
    """Execute with inputs of `values` by argument; what was written, with nothing written outside it."""
    descs = {arg: pd.query_md("exec_arg_md", arg) for arg in (*values, *written)}
    read = {arg: memory_of(descs[arg], value, engine) for arg, value in values.items()}
    made = {arg: guarded(descs[arg], engine, fill=0xA5) for arg in written}
    run(primitive(pd), engine, {**read, **{arg: each.memory for arg, each in made.items()}})
    for each in made.values():
        each.check_canaries()
    return {arg: each.memory for arg, each in made.items()}


def random(dims: tuple[int, ...], seed: int = 0, data_type: str = "f32") -> Array:
    """Values about 0, as the type has them."""
    found, kind = np.random.default_rng(seed).standard_normal(dims) * 3, rs.DataType.parse(data_type)
    if kind.is_integral:
        found = np.rint(found * 10).clip(0 if kind.kind == "uint" else -100, 100)
    made: Array = found.astype(kind.numpy)
    return made


def padding_is_zero(memory: rs.Memory) -> bool:
    """True where every byte of the padding is zero."""
    md = memory.desc
    if md.padded_dims == md.dims:
        return True
    if md.data_type.bits < 8:
        whole = rs.MemoryDesc(md.padded_dims, "u4", md.tag)
        assert memory.data is not None
        held = np.array(rs.Memory(whole, rs.Engine("cpu"), np.array(memory.data.view(np.uint8))).to_numpy())
    else:
        held = _storage(memory)[positions(md, md.padded_dims)]
    bits = held.view(f"u{held.itemsize}")
    bits[tuple(slice(n) for n in md.dims)] = 0
    return not bits.any()
