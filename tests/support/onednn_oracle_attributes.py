"""Attributes for a real oneDNN: what it provides of them, and what may differ, kernel by kernel (3.13).

Its JIT kernels do what N1 says, to the last bit, but: s32 to s32 with nothing but zero points is computed as
integers; transposes of 8 by 8 forget zero points where there is nothing else; and of zero points for each
index of a dim the first alone is read. Its reference divides by the scale of the destination, where the
others multiply by its inverse; subtracts zero points as integers; and reads a scale that is a single one as
f32, whatever type it is of. No case here has that last fault.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

import restride as rs
from restride.dtypes import DataType
from restride_bench.onednn import OneDNN, OneDNNMemory
from support.attributed import Some, attr_of, factors_of, filled, room_of
from support.attributes import Bytes, Factor, Given, Sum, each_of, places, value_of
from support.onednn_api import OneDNNAttributes, reorder
from support.onednn_oracle import excused
from support.packed import bytes_of, elements_of
from support.rounding import Bits, Reals, bits_of, reals_of

_TYPES = ("f32", "bf16", "f16", "s32", "s8", "u8", "f8_e5m2", "f8_e4m3")
_NIBBLES = ("s4", "u4")
_EXTENTS = (1, 2, 3, 4, 5, 8, 16, 17, 24, 32, 33)
_PLAIN = {2: ("ab", "ba"), 3: ("abc", "cab", "acb", "bca"), 4: ("abcd", "acdb", "bcda")}
_BLOCKED = {
    2: ("Ab16a", "BA16a16b", "BA16a64b2a", "aB8b"),
    3: ("aBc16b", "aBc8b"),
    4: ("aBcd16b", "aBcd8b", "ABcd16b16a"),
}
# The library reads whole vectors of scales and of 4-bit elements.
_BEHIND = 64


@dataclass(frozen=True)
class AttributeCase:
    """A reorder with attributes, in words that both libraries share."""

    dims: tuple[int, ...]
    types: tuple[str, str]
    tags: tuple[str, str]
    given: Given
    seed: int

    @property
    def mds(self) -> tuple[rs.MemoryDesc, rs.MemoryDesc]:
        """Our descriptors."""
        src, dst = (rs.MemoryDesc(self.dims, *pair) for pair in zip(self.types, self.tags, strict=True))
        return src, dst

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.mds[0]} to {self.mds[1]}, {attr_of(self.given)[0]}"


def case_of(seed: int) -> AttributeCase:
    """A random case; most of them oneDNN provides."""
    rng = np.random.default_rng(seed)
    ndims = int(rng.integers(2, 5))
    dims = tuple(int(n) for n in rng.choice(_EXTENTS[: 11 if ndims < 4 else 7], ndims))
    types = str(rng.choice((*_TYPES, *_NIBBLES * 2))), str(rng.choice(_TYPES))
    tags = _PLAIN[ndims] + _BLOCKED[ndims]
    if types[0] in _NIBBLES:  # even, dense rows, and real numbers out of them (2.3)
        dims, types = tuple(n + n % 2 for n in dims), (types[0], str(rng.choice(("f32", "bf16", "f16"))))
        tags = _PLAIN[ndims]
    some = Some(seed, dims)
    given = _given(some, rng, types)
    return AttributeCase(dims, types, (str(rng.choice(tags)), str(rng.choice(tags))), given, seed)


def _given(some: Some, rng: np.random.Generator, types: tuple[str, str]) -> Given:
    src, dst = (DataType[name] for name in types)
    scale = _scale(some, rng, src) if rng.random() < 0.6 else None
    divisor = some.factor(scale.mask if scale and not scale.groups else 0, "f32")
    return Given(
        src_scale=scale,
        src_zero=_zero(some, rng, scale) if src.is_integral and rng.random() < 0.5 else None,
        dst_scale=divisor if rng.random() < 0.35 else None,
        dst_zero=some.factor(0, "s32") if dst.is_integral and rng.random() < 0.4 else None,
        ops=(Sum(float(rng.choice([1, 1, 0.5, -2]))),) if rng.random() < 0.3 else (),
    )


def _scale(some: Some, rng: np.random.Generator, src: DataType) -> Factor:
    ndims, groups = len(some.dims), ()
    mask = int(rng.choice([0, 0, 1, 2, 3, 1 << ndims - 1, (1 << ndims) - 1]))
    if src.bits <= 8 and src.is_integral and rng.random() < 0.4:
        mask |= 3 << ndims - 2
        groups = tuple(int(rng.choice([g for g in range(1, n + 1) if n % g == 0])) for n in some.dims[-2:])
    mask = mask or int(src.bits == 4)
    made = some.factor(mask, str(rng.choice(("f32", "f32", "bf16", "f16"))), groups)
    return made if made.bits.size > 1 else some.factor(mask, "f32", groups)


def _zero(some: Some, rng: np.random.Generator, scale: Factor | None) -> Factor:
    if scale is None or rng.random() < 0.5:
        return some.factor(0, "s32")
    return some.factor(scale.mask, str(rng.choice(("s32", "s8", "u8"))), scale.groups)


def fill(case: AttributeCase) -> tuple[Bytes, Bytes]:
    """Source and old destination, zero in the padding of the source."""
    rng, (src_md, dst_md) = np.random.default_rng(case.seed), case.mds
    src, old = (filled(rng, md.data_type, room_of(md)) for md in (src_md, dst_md))
    elements = elements_of(src, src_md.data_type)
    at = places(src_md, case.dims)
    clean = np.zeros_like(elements)
    clean[at] = elements[at]
    return bytes_of(clean, src_md.data_type)[: src.size], old


def run_onednn(library: OneDNN, case: AttributeCase, src: Bytes, old: Bytes) -> tuple[str, Bytes]:
    """The name of oneDNN's kernel, and the destination. Raises OneDNNError where it provides none."""
    attr, held = OneDNNAttributes.new(library), {}
    for factor, arg, name in factors_of(case.given):
        kind = "zero_points" if "zero" in name else "scales"
        attr.set(kind, arg & 31, factor.mask, factor.groups, factor.data_type)
        desc = library.desc((factor.bits.size,), str(factor.data_type), "a")
        held[arg] = _memory(library, desc, bytes_of(factor.bits, factor.data_type))
    for op in case.given.ops:
        assert isinstance(op, Sum)
        attr.set_sum(op.scale, op.zero_point, op.data_type)
    source, target = (library.desc(case.dims, *pair) for pair in zip(case.types, case.tags, strict=True))
    primitive = reorder(library, source, target, attr)
    held[1], held[17] = _memory(library, source, src), _memory(library, target, old)
    primitive.run(held)
    return primitive.impl, held[17].bytes[: old.size]


def _memory(library: OneDNN, desc: object, data: Bytes) -> OneDNNMemory:
    return library.memory(desc, np.concatenate([data, np.zeros(_BEHIND, np.uint8)]))


def run_restride(case: AttributeCase, src: Bytes, old: Bytes) -> tuple[str, Bytes]:
    """The name of our kernel, and the destination."""
    engine, (src_md, dst_md) = rs.Engine("cpu"), case.mds
    attr, brought = attr_of(case.given)
    pd = rs.Reorder.PrimitiveDesc(engine, src_md, engine, dst_md, attr)
    out = old.copy()
    held = {arg: rs.Memory(md, engine, data) for arg, (md, data) in brought.items()}
    held |= {rs.ARG_SRC: rs.Memory(src_md, engine, src), rs.ARG_DST: rs.Memory(dst_md, engine, out)}
    rs.Reorder(pd).execute(rs.Stream(engine), held)
    return pd.impl_info_str, out


def mismatch(case: AttributeCase, src: Bytes, old: Bytes, ours: Bytes, theirs: Bytes, kernel: str) -> str:
    """Return a difference where none is allowed, or "". Padding is zero."""
    src_md, dst_md = case.mds
    kind, at = dst_md.data_type, places(dst_md, case.dims)
    got, want, before = (elements_of(data, kind).copy() for data in (ours, theirs, old))
    read = elements_of(src, src_md.data_type)[places(src_md, case.dims)]
    want[places(dst_md, dst_md.padded_dims)] = 0
    want[at] = elements_of(theirs, kind)[at]
    values = value_of(read, src_md, before[at], dst_md, case.given)
    forgiven = _forgiven(values, got[at], want[at], kind)
    for others in _by_their_ways(case, kernel, read, before[at]):
        theirs_alone = bits_of(others, kind)
        forgiven |= (theirs_alone == want[at]) | _forgiven(others, theirs_alone, want[at], kind)
    forgiven &= got[at] == bits_of(values, kind)
    want[at[forgiven]] = got[at[forgiven]]
    wrong = np.flatnonzero(got != want)
    shown = ", ".join(f"[{i}] {int(got[i]):#x}, oneDNN {int(want[i]):#x}" for i in wrong[:4])
    return f"{wrong.size} of {got.size} differ: {shown}" if wrong.size else ""


def _forgiven(values: Reals, ours: Bits, theirs: Bits, kind: DataType) -> npt.NDArray[np.bool_]:
    """Return allowed differences of any kernel, including the sign of zeros: the reference adds 0.0."""
    mine, other = ours.view(kind.numpy), theirs.view(kind.numpy)
    zeros = (mine == 0) & (other == 0)
    return excused(values, mine, other) | zeros


def _by_their_ways(case: AttributeCase, kernel: str, read: Bits, old: Bits) -> list[Reals]:
    """The results of the formula as one kernel of oneDNN has it, before they are stored."""
    src_md, dst_md = case.mds
    if kernel.startswith("simple"):
        return [_by_reference(case, read, old)]
    zero, found = case.given.src_zero, []
    if zero is not None and zero.mask:
        first = replace(zero, mask=0, bits=zero.bits[:1], groups=())
        found.append(value_of(read, src_md, old, dst_md, replace(case.given, src_zero=first)))
    if case.given.src_scale is None and case.given.dst_scale is None and not case.given.ops:
        found.append(value_of(read, src_md, old, dst_md, Given()))
        if case.types == ("s32", "s32"):
            found.append(value_of(read, src_md, old, dst_md, case.given, np.float64))
    return found


def _by_reference(case: AttributeCase, read: Bits, old: Bits) -> Reals:
    """Zero points subtracted as integers, and a division by the scale of the destination."""
    src_md, dst_md = case.mds
    given, f32 = case.given, np.float32
    with np.errstate(all="ignore"):
        t = reals_of(read, src_md.data_type, np.float64)
        t = (t - each_of(given.src_zero, case.dims, np.float64) if given.src_zero else t).astype(f32)
        t = t * each_of(given.src_scale, case.dims, f32) if given.src_scale else t
        for op in given.ops:
            assert isinstance(op, Sum)
            t = t + f32(op.scale) * reals_of(old, dst_md.data_type, f32)
        t = t / each_of(given.dst_scale, case.dims, f32) if given.dst_scale else t
        return t + each_of(given.dst_zero, case.dims, f32) if given.dst_zero else t
