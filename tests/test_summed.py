"""A reorder and the sums of what it writes in one pass: every byte of both, in whatever blocks and shares."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass

import numpy as np
import pytest

import restride as rs
from restride.desc.memory_desc import MemoryDesc
from restride.plan.compute import linear
from restride.plan.nest import LoopNest
from restride.plan.reduction import Op, reduction_of
from restride.plan.reorder import reorder_nest
from restride.runtime.cpu import Params
from restride.targets import cpu, jit
from restride.targets.isa import CacheSizes, Isa
from restride.targets.summed import LoweredSums, lower_sums
from support.by_offset import positions
from support.kernels import (
    COMMON,
    destination,
    difference,
    expected,
    factors_of,
    isa_id,
    random_source,
    room,
    runnable,
    tame,
)

# A last cache in which the destination of every case is large, so that whole runs are poured.
_SMALL = CacheSizes(l2=1 << 10, l3=1 << 12)


@dataclass(frozen=True)
class Case:
    """Two descriptors, and the mask of the dims whose indices have sums of their own."""

    dims: tuple[int, ...]
    src: str
    dst: str
    mask: int
    types: str = "f32 s8"
    scale: float = 1.0

    @property
    def descs(self) -> tuple[MemoryDesc, MemoryDesc]:
        src_type, dst_type = self.types.split()
        return MemoryDesc(self.dims, src_type, self.src), MemoryDesc(self.dims, dst_type, self.dst)

    @property
    def nest(self) -> LoopNest:
        return reorder_nest(*self.descs, linear(scaled=self.scale != 1.0))

    def lowered(self, isa: Isa, caches: CacheSizes = COMMON) -> LoweredSums | None:
        return lower_sums(self.nest, reduction_of(self.descs[1], self.mask, Op.total), isa, caches)


CASES = {
    "weights": Case((64, 32, 3, 3), "abcd", "ABcd4b16a4b", 1),
    "scaled weights": Case((64, 32, 3, 3), "abcd", "ABcd4b16a4b", 1, scale=0.37),
    "outputs that fill no block": Case((41, 19, 3, 3), "abcd", "ABcd4b16a4b", 1),
    "one block": Case((7, 300, 3, 3), "abcd", "ABcd4b16a4b", 1),
    "groups": Case((3, 20, 18, 3, 3), "abcde", "aBCde4c16b4c", 3),
    "plain": Case((24, 40, 3, 3), "abcd", "acdb", 1),
    "sums of the last dim": Case((24, 96, 3, 3), "abcd", "cdba", 1),
    "matmul": Case((192, 160), "ab", "BA16a64b4a", 2),
    "matmul with tails": Case((190, 150), "ab", "BA16a64b4a", 2),
    "integers": Case((64, 32, 3, 3), "abcd", "ABcd4b16a4b", 1, "s32 u8"),
    "bytes": Case((64, 32, 5), "abc", "ABc16b16a4b", 1, "s8 s8"),
    "wide sums": Case((64, 48), "ab", "ba", 1, "f32 s32"),
    "one sum of all": Case((64, 64, 9), "abc", "acb", 0),
    "rows that are padding": Case((7, 300), "ab", "AB16a300b", 1),
}
_each = pytest.mark.parametrize("name", CASES)


def _run(lowered: LoweredSums, case: Case, buffers: tuple[np.ndarray, np.ndarray], parts: int) -> np.ndarray:
    """Run all shares, the last one first; the sums of all planes together."""
    src, dst = buffers
    library = jit.load(jit.compile_ir(lowered.ir(), lowered.isa))
    pointer, count = ctypes.c_void_p, ctypes.c_int64
    entry = ctypes.CFUNCTYPE(None, pointer, pointer, pointer, count, count)(library.address(cpu.ENTRY))
    params = Params(factors_of(case.nest.compute, case.scale, 0.0))
    planes = np.zeros((parts if lowered.summed.is_shared else 1, lowered.summed.reduction.outputs), np.int32)
    words = np.frombuffer(struct.pack("=QQq", params.address, planes.ctypes.data, -128), np.uint8).copy()
    for part in reversed(range(parts)):
        entry(src.ctypes.data, dst.ctypes.data, words.ctypes.data, part, parts)
    return planes.sum(axis=0, dtype=np.int32)


def _sums(case: Case, written: np.ndarray) -> np.ndarray:
    """The sums of a destination, each element where its descriptor says."""
    md = case.descs[1]
    places = positions(md, md.padded_dims)
    over = tuple(d for d in range(md.ndims) if not case.mask >> d & 1)
    values = written.view(md.data_type.numpy)[places].astype(np.int64)
    return (values.sum(over) * -128).astype(np.int32).reshape(-1)


@_each
@pytest.mark.parametrize("isa", runnable(), ids=isa_id)
@pytest.mark.parametrize("caches", [COMMON, _SMALL], ids=["near", "poured"])
def test_one_pass_writes_the_reorder_and_its_sums(name: str, isa: Isa, caches: CacheSizes) -> None:
    case = CASES[name]
    src_md, dst_md = case.descs
    src = random_source(src_md, 1)
    tame(src, src_md.data_type, 2)
    lowered = case.lowered(isa, caches)
    assert lowered is not None
    for parts, start in ((1, 0), (3, 5)):
        dst = destination(dst_md, start=start)
        wanted = expected(case.nest, src, dst, case.scale)
        got = room(dst.size, start)
        got[:] = dst
        sums = _run(lowered, case, (src, got), parts)
        assert not difference(got, wanted, dst_md.data_type), f"{parts} parts\n{lowered.summed}"
        np.testing.assert_array_equal(sums, _sums(case, wanted))


def test_a_destination_larger_than_the_caches_is_poured_where_it_is_unbroken() -> None:
    isa = runnable()[-1]
    assert {name for name, case in CASES.items() if not _poured(case.lowered(isa, _SMALL))} == {"wide sums"}
    assert not any(_poured(case.lowered(isa)) for case in CASES.values())


def _poured(lowered: LoweredSums | None) -> int:
    return lowered.summed.blocks.poured if lowered else 0


def test_outputs_that_fill_no_block_are_a_section_of_their_own() -> None:
    lowered = CASES["outputs that fill no block"].lowered(runnable()[-1])
    assert lowered is not None
    assert [(s.first, s.end) for s in lowered.summed.blocks.sections] == [(0, 2), (2, 3)]


def test_blocks_of_padding_read_nothing() -> None:
    lowered = CASES["rows that are padding"].lowered(runnable()[-1])
    assert lowered is not None
    sections = lowered.summed.blocks.sections
    assert [(s.first, s.end, all(p.nest.is_zero for p in s.plans)) for s in sections] == [
        (0, 7, False),
        (7, 16, True),
    ]


def test_blocks_of_a_long_prime_axis_are_looked_for_at_once() -> None:
    # To try every length up to a prime would take minutes here.
    prime = 2**31 - 1
    assert Case((prime,), "a", "a", 0).lowered(runnable()[-1]) is None
    poured = reorder_nest(
        MemoryDesc((prime, 17), "u8", "ab"), MemoryDesc((prime, 17), "u8", "aB16b"), linear()
    )
    assert cpu.lower(poured, runnable()[-1], COMMON).blocks is None


def test_blocks_read_runs_of_a_kilobyte() -> None:
    case = Case((2048, 2048), "ab", "BA16a64b4a", 2)
    lowered = case.lowered(runnable()[-1])
    assert lowered is not None
    assert lowered.summed.blocks.src * 4 == 1024


def test_what_falls_into_no_blocks_takes_two_passes() -> None:
    isa = runnable()[-1]
    assert Case((4, 4), "ab", "ab", 1, "s4 s8").lowered(isa) is None
    assert Case((0, 4), "ab", "ba", 1).lowered(isa) is None
    # Three rows are too few for threads to share.
    assert Case((3, 50_000), "ab", "ab", 1).lowered(isa) is None


@_each
def test_sums_of_an_execution_are_those_of_the_reference_engine(name: str) -> None:
    case = CASES[name]
    found = []
    for kind in ("cpu", "reference"):
        engine = rs.Engine(kind)
        src_md, dst_md = case.descs
        src, dst = rs.Memory(src_md, engine), rs.Memory(dst_md, engine)
        data = random_source(src_md, 1)
        tame(data, src_md.data_type, 2)
        src.data.view(np.uint8)[:] = data[: src.data.nbytes]
        attr = rs.PrimitiveAttr()
        attr.set_compensation(case.mask, s8s8=True, zero_point=True)
        pd = rs.Reorder.PrimitiveDesc(engine, src_md, engine, dst_md, attr)
        count = reduction_of(dst_md, case.mask, Op.total).outputs
        outs = [rs.Memory(rs.MemoryDesc((count,), "s32", "a"), engine) for _ in range(2)]
        args = {rs.ARG_FROM: src, rs.ARG_TO: dst, rs.ARG_DST_1: outs[0], rs.ARG_DST_2: outs[1]}
        primitive = rs.Reorder(pd)
        for _ in range(2):
            primitive.execute(rs.Stream(engine), args)
        found.append([memory.data.tobytes() for memory in (dst, *outs)])
    assert found[0] == found[1]


def test_sums_that_threads_share_are_put_together() -> None:
    # Large enough for several parts on one thread too, each with sums of its own.
    engine = rs.Engine("cpu")
    x = np.random.default_rng(1).integers(-128, 128, (600, 400, 9)).astype(np.float32)
    attr = rs.PrimitiveAttr()
    attr.set_compensation(0, s8s8=False, zero_point=True)
    src, dst = rs.Memory.from_numpy(x), rs.Memory(rs.MemoryDesc(x.shape, "s8", "acb"), engine)
    around = np.full(64, 7, np.int32)
    out = rs.Memory(rs.MemoryDesc((1,), "s32", "a"), engine, around[:1])
    reorder = rs.Reorder(rs.Reorder.PrimitiveDesc(src, dst, attr))
    reorder.execute(rs.Stream(engine), {rs.ARG_FROM: src, rs.ARG_TO: dst, rs.ARG_DST_2: out})
    assert int(around[0]) == -int(x.sum(dtype=np.int64))
    assert (around[1:] == 7).all()
