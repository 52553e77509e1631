"""Boxes in blocks: every element at its place, wherever the destination begins, whoever shares them."""

from __future__ import annotations

import pytest

from restride.desc.memory_desc import MemoryDesc
from restride.ir.digits import reorder_nest
from restride.ir.nest import Compute, LoopNest, linear
from restride.schedule.moves.blocks import Blocks
from restride.targets import cpu
from restride.targets.isa import CacheSizes, Isa
from support.kernels import check, destination, random_source, runnable, tame

# With these caches every destination of a few kilobytes is large, and a block of some is not.
_SMALL = CacheSizes(l2=1 << 10, l3=1 << 12)


def _nest(dims: tuple[int, ...], types: str, src: str, dst: str, scaled: bool = False) -> LoopNest:
    return reorder_nest(*_descs(dims, types, src, dst), linear(scaled=scaled))


def _descs(dims: tuple[int, ...], types: str, src: str, dst: str) -> tuple[MemoryDesc, MemoryDesc]:
    src_type, dst_type = types.split()
    return MemoryDesc(dims, src_type, src), MemoryDesc(dims, dst_type, dst)


CASES = {
    "bytes": ((40, 17, 7, 7), "u8 u8", "abcd", "aBcd16b"),
    "words": ((40, 17, 7, 7), "bf16 bf16", "abcd", "aBcd16b"),
    "quantized": ((40, 17, 7, 7), "f32 s8", "abcd", "aBcd16b"),
    "two blocked dims": ((12, 21, 19, 5), "bf16 bf16", "abcd", "aBCd8b8c"),
    "blocks of blocks": ((24, 24, 40), "u8 u8", "aBc16b", "aBc32b"),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("start", [0, 1, 63])
def test_blocks_write_what_the_interpreter_writes(name: str, start: int) -> None:
    dims, types, src_tag, dst_tag = CASES[name]
    src_md, dst_md = _descs(dims, types, src_tag, dst_tag)
    src = random_source(src_md, 1)
    tame(src, src_md.data_type, 2)
    start = start * dst_md.data_type.bits // 8
    for scale in (1.0, 0.5):
        nest = _nest(*CASES[name], scaled=scale != 1.0)
        dst = destination(dst_md, start=start)
        for parts in (1, 3):
            check(
                nest, src, dst, runnable(), factors=(scale, 0.0), parts=parts, may_stream=True, caches=_SMALL
            )


@pytest.mark.parametrize("name", CASES)
def test_boxes_that_do_not_all_stream_are_flushed_in_blocks(name: str) -> None:
    lowered = cpu.lower_nest(_nest(*CASES[name]), Isa.for_name("avx512"), _SMALL)
    assert isinstance(lowered.plan, Blocks)
    assert lowered.plan.scratch_elements
    assert lowered.steps == lowered.plan.count
    assert not lowered.streams, "flushing asks for no aligned destination"
    assert "flushed as a run" in str(lowered)


def test_what_gains_nothing_is_not_flushed_in_blocks() -> None:
    isa = Isa.for_name("avx512")
    weights = _nest(*CASES["bytes"])
    assert isinstance(cpu.lower_nest(weights, isa, CacheSizes()).plan, tuple), "it stays in the caches"
    assert isinstance(cpu.lower_nest(weights, isa, _SMALL, may_stream=False).plan, tuple)
    whole = _nest((40, 32, 7, 7), "f32 f32", "abcd", "aBcd16b")
    assert isinstance(cpu.lower_nest(whole, isa, _SMALL).plan, tuple), "one box streams by itself"
    strided = _nest((40, 17, 7, 7), "f32 f32", "aBcd16b", "abcd")
    assert isinstance(cpu.lower_nest(strided, isa, _SMALL).plan, tuple), "its time is that of single elements"
    long = reorder_nest(*_descs((4, 33, 64, 64), "u8 u8", "abcd", "aBcd32b"), Compute())
    assert isinstance(cpu.lower_nest(long, isa, _SMALL).plan, tuple), "a block is no longer near"
