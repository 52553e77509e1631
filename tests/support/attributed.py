"""Reorders with attributes, run by the primitive between canaries and held against `support.attributes`."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Iterator
from math import prod

import numpy as np
import pytest

import restride as rs
from restride.dtypes import DataType
from restride.targets.isa import host_isa
from support.attributes import Binary, Bytes, Eltwise, Factor, Given, Shape, group_of, written
from support.engines import memory_over, run, storage
from support.packed import bytes_of, elements_of

_CANARY, _POISON, _MARGIN = 0xA5, 0xFF, 128
_X86 = {"avx512": "AVX512_CORE", "avx2": "AVX2", "generic": "GENERIC"}
LEVELS = {"neon": "NEON"} if platform.machine() in ("aarch64", "arm64") else _X86
"""Instruction sets of this architecture, the best first: the names of levels, and those that cap them."""
BEST = next(iter(LEVELS))
"""The best of them."""


@contextlib.contextmanager
def capped(level: str) -> Iterator[None]:
    """Kernels are compiled for a level, and none that is there already is taken."""
    before = rs.get_primitive_cache_capacity()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RESTRIDE_MAX_CPU_ISA", LEVELS.get(level, "DEFAULT"))
        if host_isa().name != level:
            pytest.skip(f"this machine has no {level}")
        rs.set_primitive_cache_capacity(0)
        try:
            yield
        finally:
            rs.set_primitive_cache_capacity(before)


def filled(rng: np.random.Generator, data_type: DataType, count: int) -> Bytes:
    """Bytes of `count` elements: half of the floats moderate numbers and ties, the rest random bits."""
    raw = rng.integers(0, 256, data_type.nbytes(count), np.uint8)
    if data_type.kind != "float" or data_type.bits < 8 or data_type is DataType.e8m0:
        return raw
    numbers = np.round(rng.standard_normal(count) * rng.choice([1, 30, 300], count) * 2) / 2
    words = elements_of(raw, data_type)
    moderate = numbers.astype(data_type.numpy).view(words.dtype)
    kept = rng.random(count) < 0.6
    words[kept] = moderate[kept]
    return raw


class Some:
    """Random attributes for tensors of `dims`."""

    def __init__(self, seed: int, dims: Shape) -> None:
        self.rng, self.dims = np.random.default_rng(seed), dims

    def factor(self, mask: int, kind: str, groups: Shape = (), known: bool = False) -> Factor:
        """Scales or zero points that bring results into every range."""
        data_type, ndims = DataType[kind], len(self.dims)
        masked = [d for d in range(ndims) if mask >> d & 1]
        count = prod(self.dims[d] // group_of(groups, d, ndims) for d in masked)
        bits = self._shifts(data_type, count) if data_type.is_integral else self._scales(data_type, count)
        return Factor(mask, data_type, bits.view(f"u{max(data_type.bits // 8, 1)}"), groups, known)

    def _shifts(self, data_type: DataType, count: int) -> Bytes:
        low = 0 if data_type.kind == "uint" else -8
        numbers = self.rng.integers(low, 8, count)
        return numbers.astype(np.uint8) & 15 if data_type.bits == 4 else numbers.astype(data_type.numpy)

    def _scales(self, data_type: DataType, count: int) -> Bytes:
        powers = [0.25, 2.0, 1.0, 4.0]
        choices = powers if data_type is DataType.e8m0 else [*powers, -0.25, 0.1, 3.7]
        return self.rng.choice(choices, count).astype(data_type.numpy)

    def binary(self, alg: str, md: rs.MemoryDesc) -> Binary:
        """A binary post-op with an operand of `md`."""
        return Binary(alg, md, filled(self.rng, md.data_type, room_of(md)))


def attr_of(given: Given) -> tuple[rs.PrimitiveAttr, dict[int, tuple[rs.MemoryDesc, Bytes]]]:
    """The attributes, and what an execution must pass in addition to them."""
    attr, brought = rs.PrimitiveAttr(), {}
    for made, arg, name in factors_of(given):
        values = made.values() if made.known else None
        if name == "output":
            attr.set_output_scales(made.mask, [rs.RUNTIME_F32_VAL] if values is None else values)
        else:
            getattr(attr, name)(arg & 31, made.mask, values, made.groups, made.data_type)
        if values is None:
            md = rs.MemoryDesc((made.bits.size,), made.data_type, "a")
            brought[arg] = md, bytes_of(made.bits, made.data_type)
    ops = rs.PostOps()
    for index, op in enumerate(given.ops):
        if isinstance(op, Binary):
            ops.append_binary(op.alg, op.desc)
            brought[rs.arg_attr_multiple_post_op(index) | rs.ARG_SRC_1] = op.desc, op.data
        elif isinstance(op, Eltwise):
            ops.append_eltwise(op.alg, op.alpha, op.beta, op.scale)
        else:
            ops.append_sum(op.scale, op.zero_point, op.data_type)
    attr.set_post_ops(ops)
    return attr, brought


def factors_of(given: Given) -> Iterator[tuple[Factor, int, str]]:
    scale, zero = rs.ARG_ATTR_SCALES, rs.ARG_ATTR_ZERO_POINTS
    named = (
        (given.output, rs.ARG_ATTR_OUTPUT_SCALES, "output"),
        (given.src_scale, scale | rs.ARG_SRC, "set_scales"),
        (given.src_zero, zero | rs.ARG_SRC, "set_zero_points"),
        (given.dst_scale, scale | rs.ARG_DST, "set_scales"),
        (given.dst_zero, zero | rs.ARG_DST, "set_zero_points"),
    )
    return ((made, arg, name) for made, arg, name in named if made is not None)


def check(
    src_md: rs.MemoryDesc, dst_md: rs.MemoryDesc, given: Given, engine: rs.Engine, seed: int = 0
) -> str:
    """An engine writes what N1 says, zero into padding, and nothing else; its kernel by name."""
    rng = np.random.default_rng(seed)
    src, old = (filled(rng, md.data_type, room_of(md)) for md in (src_md, dst_md))
    wanted = bytes_of(written(src, src_md, old, dst_md, given), dst_md.data_type)
    attr, brought = attr_of(given)
    found = {1: (src_md, src), 17: (dst_md, old), **brought}
    held = {arg: _Guarded(data, engine) for arg, (_, data) in found.items()}
    pd = rs.Reorder.PrimitiveDesc(engine, src_md, engine, dst_md, attr)
    memories = {
        arg: memory_over(pd.query_md("exec_arg_md", arg), engine, one.inside) for arg, one in held.items()
    }
    run(rs.Reorder(pd), engine, memories)
    for arg, one in held.items():
        one.check(wanted if arg == rs.ARG_DST else None, dst_md.data_type, f"{pd.impl_info_str} arg {arg}")
    return pd.impl_info_str


class _Guarded:
    """A copy of some bytes in the midst of canaries."""

    def __init__(self, data: Bytes, engine: rs.Engine) -> None:
        self._before = data
        self._whole = storage(np.full(data.size + 2 * _MARGIN, _CANARY, np.uint8), engine)
        self.inside = self._whole[_MARGIN : _MARGIN + data.size]
        self.inside[:] = data

    def check(self, wanted: Bytes | None, data_type: DataType, name: str) -> None:
        """The bytes are `wanted`, or as they were; the canaries live."""
        assert (self._whole[:_MARGIN] == _CANARY).all(), name
        assert (self._whole[_MARGIN + self.inside.size :] == _CANARY).all(), name
        got, right = self.inside, self._before if wanted is None else wanted
        if not np.array_equal(got, right):
            ours, theirs = (elements_of(data, data_type) for data in (got, right))
            bad = np.flatnonzero(ours != theirs)
            shown = ", ".join(f"[{i}] {int(ours[i]):#x} for {int(theirs[i]):#x}" for i in bad[:6])
            raise AssertionError(f"{name}: {bad.size} of {ours.size} elements differ: {shown}")


def room_of(md: rs.MemoryDesc) -> int:
    """Elements of a buffer, from offset 0 on."""
    if not md.nelems:
        return 0
    low, high = md.extent_range()
    return max(high, low + md.size * 8 // md.data_type.bits)
