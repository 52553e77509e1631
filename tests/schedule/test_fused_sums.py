"""A reorder and the sums of what it writes in one pass: every byte of both, in whatever blocks and shares."""

from __future__ import annotations

import math

import numpy as np
import pytest

import restride as rs
from restride.desc.memory_desc import MemoryDesc
from restride.ir.digits import reorder_nest
from restride.ir.nest import linear
from restride.targets import cpu
from restride.targets.isa import CacheSizes, Isa
from restride.targets.lowered import Lowered
from support.fused_sums import CASES, SMALL, Case, compiled, sums_of
from support.kernels import (
    COMMON,
    destination,
    difference,
    expected,
    isa_id,
    random_source,
    room,
    runnable,
    tame,
)

_each = pytest.mark.parametrize("name", CASES)


@pytest.mark.sweep(1)
@_each
@pytest.mark.parametrize("isa", runnable(), ids=isa_id)
@pytest.mark.parametrize("caches", [COMMON, SMALL], ids=["near", "flushed"])
def test_one_pass_writes_the_reorder_and_its_sums(name: str, isa: Isa, caches: CacheSizes) -> None:
    case = CASES[name]
    src_md, dst_md = case.descs
    src = random_source(src_md, 1)
    tame(src, src_md.data_type, 2)
    kernel = compiled(case, isa, caches)
    for parts, start in ((1, 0), (3, 5)):
        dst = destination(dst_md, start=start)
        wanted = expected(case.nest, src, dst, case.scale)
        got = room(dst.size, start)
        got[:] = dst
        sums = kernel(src, got, parts)
        assert not difference(got, wanted, dst_md.data_type), f"{parts} parts\n{kernel.lowered.plan}"
        np.testing.assert_array_equal(sums, sums_of(case, wanted))


def test_parts_that_share_outputs_add_to_sums_of_their_own() -> None:
    case = CASES["one sum of all"]
    kernel = compiled(case, runnable()[-1], COMMON)
    src, dst = random_source(case.descs[0], 1), destination(case.descs[1])
    tame(src, case.descs[0].data_type, 2)
    planes = kernel.planes(3)
    kernel.part(src.ctypes.data, dst.ctypes.data, [plane.ctypes.data for plane in planes], (1, 3))
    assert planes[:, 1].any()
    assert not planes[:, [0, 2]].any()


def test_a_destination_larger_than_the_caches_is_poured_where_it_is_unbroken() -> None:
    isa = runnable()[-1]
    assert {name for name, case in CASES.items() if not _poured(case.lowered(isa, SMALL))} == {"wide sums"}
    assert not any(_poured(case.lowered(isa)) for case in CASES.values())


def _poured(lowered: Lowered | None) -> int:
    return lowered.plan.blocks.scratch_elements if lowered else 0


def test_outputs_that_fill_no_block_are_a_section_of_their_own() -> None:
    lowered = CASES["outputs that fill no block"].lowered(runnable()[-1])
    assert lowered is not None
    assert [(s.first, s.end) for s in lowered.plan.blocks.sections] == [(0, 2), (2, 3)]


def test_blocks_of_padding_read_nothing() -> None:
    lowered = CASES["rows that are padding"].lowered(runnable()[-1])
    assert lowered is not None
    sections = lowered.plan.blocks.sections
    assert [(s.first, s.end, all(p.nest.is_zero for p in s.plans)) for s in sections] == [
        (0, 7, False),
        (7, 16, True),
    ]


def test_blocks_of_a_long_prime_axis_are_looked_for_at_once() -> None:
    # To try every length up to a prime would take minutes here.
    prime = 2**31 - 1
    assert Case((prime,), "a", "a", 0).lowered(runnable()[-1]) is None
    flushed = reorder_nest(
        MemoryDesc((prime, 17), "u8", "ab"), MemoryDesc((prime, 17), "u8", "aB16b"), linear()
    )
    assert isinstance(cpu.lower_nest(flushed, runnable()[-1], COMMON).plan, tuple)


def test_blocks_read_runs_of_a_kilobyte() -> None:
    case = Case((2048, 2048), "ab", "BA16a64b4a", 2)
    lowered = case.lowered(runnable()[-1])
    assert lowered is not None
    assert lowered.plan.blocks.src * 4 == 1024


@pytest.mark.parametrize("mask", [0, 1, 2, 3])
@pytest.mark.parametrize(
    ("dims", "src", "dst"),
    [
        ((4096, 4096), "ab", "ba"),
        ((4096, 4096), "ba", "ab"),
        ((1000, 1000), "ab", "ba"),
        ((4096, 512, 3, 3), "abcd", "cdba"),
        ((16, 4096, 1024), "abc", "acb"),
    ],
    ids=str,
)
def test_no_block_writes_a_column_at_a_time(dims: tuple[int, ...], src: str, dst: str, mask: int) -> None:
    lowered = Case(dims, src, dst, mask).lowered(runnable()[-1])
    assert lowered is None or lowered.plan.blocks.dst >= 1024


def test_blocks_write_runs_of_a_kilobyte() -> None:
    lowered = CASES["wide sums"].lowered(runnable()[-1])
    assert lowered is not None
    assert lowered.plan.blocks.dst * 4 == 1024


def test_what_falls_into_no_blocks_takes_two_passes() -> None:
    isa = runnable()[-1]
    assert Case((4, 4), "ab", "ab", 1, "s4 s8").lowered(isa) is None
    assert Case((0, 4), "ab", "ba", 1).lowered(isa) is None
    # Three rows are too few for threads to share.
    assert Case((3, 50_000), "ab", "ab", 1).lowered(isa) is None
    # Blocks of many megabytes are not near, and are too long to be left between two.
    assert Case((16, 1 << 21), "ab", "ab", 1).lowered(isa) is None


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
        count = math.prod(n for d, n in enumerate(dst_md.padded_dims) if case.mask >> d & 1)
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
