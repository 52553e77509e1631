"""Tiles of an axis that moves by a table: what is in one, for which machines, what it writes."""

from __future__ import annotations

import pytest

from restride.desc.memory_desc import MemoryDesc
from restride.ir.conversion import storage_dtype
from restride.ir.nest import LoopNest
from restride.ir.nest_rewrites import normalize, peel
from restride.ops.programs.shuffle import shuffle_nest
from restride.ops.resampling import ResamplingProblem
from restride.schedule.machine import LINE, Machine
from restride.schedule.moves.gather import fills_lines, gather_chunks
from restride.targets import cpu
from restride.targets.isa import Isa
from support.kernels import COMMON, TINY, destination, isa_id, random_source, runnable
from support.shuffles import ChosenKernel, ShuffleCase, by_offset

_WIDE = Machine(vector_bytes=64, registers=32, permuted_bits=8)


def _whole_box(dims: tuple[int, ...], data_type: str, src: str, dst: str, group: int) -> LoopNest:
    """The nest of a shuffle of dim 1 without its padding."""
    sides = (MemoryDesc(dims, data_type, tag) for tag in (src, dst))
    return normalize(peel(shuffle_nest(*sides, 1, group))[0])


def _chunks(dims: tuple[int, ...], data_type: str, tag: str, group: int, machine: Machine = _WIDE) -> object:
    nest = _whole_box(dims, data_type, tag, tag, group)
    found = gather_chunks(nest, machine.vector_bytes * 8 // nest.src_type.bits, machine)
    return None if found is None else dict(zip((axis.extent for axis in nest.axes), found, strict=True))


@pytest.mark.parametrize(("data_type", "positions"), [("u8", 4), ("bf16", 2), ("f32", 1), ("f64", 1)])
def test_a_tile_has_all_channels_of_as_many_pixels_as_fill_a_register(data_type: str, positions: int) -> None:
    assert _chunks((2, 144, 7, 7), data_type, "aBcd16b", 12) == {2: 1, 49: positions, 144: 144}


def test_channels_that_stay_together_are_taken_whole() -> None:
    assert _chunks((3, 244, 5, 5), "u8", "aBcd16b", 2) == {3: 1, 25: 4, 122: 122, 2: 2}


def test_none_where_a_machine_has_no_permutation_of_such_elements() -> None:
    wide = Machine(vector_bytes=64, registers=32, permuted_bits=16)
    assert _chunks((2, 144, 7, 7), "u8", "aBcd16b", 12, wide) is None
    assert _chunks((2, 144, 7, 7), "bf16", "aBcd16b", 12, wide) is not None
    assert _chunks((2, 144, 7, 7), "f32", "aBcd16b", 12, Machine()) is None


@pytest.mark.parametrize(
    ("data_type", "tag", "positions"),
    [
        ("u8", "aBcd16b", 2),
        ("u8", "aBcd8b", 4),
        ("bf16", "aBcd8b", 2),
        ("u8", "aBcd32b", 0),
        ("f32", "aBcd8b", 0),
    ],
)
def test_lanes_are_permuted_alike_where_each_holds_whole_positions(
    data_type: str, tag: str, positions: int
) -> None:
    by_lanes = Machine(vector_bytes=32, permuted_lane=16)
    found = _chunks((2, 96, 7, 7), data_type, tag, 12, by_lanes)
    assert found == ({2: 1, 49: positions, 96: 96} if positions else None)


def test_lanes_are_not_permuted_where_positions_differ() -> None:
    nest = _whole_box((2, 48, 7, 7), "u8", "aBcd8b", "aBcd16b", 12)
    assert gather_chunks(nest, 32, Machine(vector_bytes=32, permuted_lane=16)) is None


def test_none_where_the_code_would_be_too_long() -> None:
    assert _chunks((2, 2400, 7, 7), "u8", "aBcd16b", 48) is None


def test_none_from_a_plain_layout_whose_channels_lie_apart() -> None:
    nest = _whole_box((2, 36, 7, 7), "u8", "abcd", "aBcd16b", 4)
    assert gather_chunks(nest, 64, _WIDE) is None


def test_rows_that_lie_apart_are_no_tile() -> None:
    """Positions of a stretched image: each is read for several rows, far from each other."""
    src, dst = MemoryDesc((2, 3, 24, 24), "f32", "nchw"), MemoryDesc((2, 3, 48, 48), "f32", "nchw")
    (step,) = ResamplingProblem("nearest", src, dst).program().nests
    assert any(not axis.is_linear for axis in step.nest.axes)
    assert gather_chunks(normalize(step.nest), 16, _WIDE) is None


@pytest.mark.parametrize(
    ("dims", "tag", "whole"),
    [
        ((2, 144, 8, 8), "aBcd16b", True),
        ((2, 144, 7, 7), "aBcd16b", False),  # the last tile has one pixel
        ((2, 244, 8, 8), "aBcd16b", False),  # the last block has zeros, which another box writes
    ],
)
def test_lines_are_whole_where_tiles_and_blocks_are(dims: tuple[int, ...], tag: str, whole: bool) -> None:
    nest = _whole_box(dims, "u8", tag, tag, 12 if dims[1] == 144 else 2)
    chunks = gather_chunks(nest, 64, _WIDE)
    assert chunks is not None
    assert fills_lines(nest, chunks, LINE) is whole


@pytest.mark.parametrize("level", ["generic", "sse41", "avx2", "neon"])
def test_only_wide_registers_gather_rows_longer_than_a_lane(level: str) -> None:
    md = MemoryDesc((2, 144, 56, 56), "f32", "aBcd16b")
    assert cpu.lower_nest(shuffle_nest(md, md, 1, 12), Isa.for_name(level), COMMON).kind != "gather"


@pytest.mark.parametrize(
    ("level", "gathers"), [("generic", False), ("sse41", True), ("avx2", True), ("neon", False)]
)
def test_levels_with_byte_shuffles_gather_rows_of_a_lane(level: str, gathers: bool) -> None:
    md = MemoryDesc((2, 144, 28, 28), "u8", "aBcd16b")
    lowered = cpu.lower_nest(shuffle_nest(md, md, 1, 12), Isa.for_name(level), COMMON)
    assert (lowered.kind == "gather") is gathers


def _into(dims: tuple[int, ...], data_type: str, src: str, dst: str, group: int) -> ShuffleCase:
    sides = (MemoryDesc(dims, data_type, tag) for tag in (src, dst))
    return ShuffleCase(f"{src} into {dst}, {data_type}", *sides, 1, group)


_CASES = [
    *(_into((2, 144, 7, 7), t, "aBcd16b", "aBcd16b", 12) for t in ("u8", "bf16", "f32", "f64")),
    *(_into((2, 244, 3, 5), t, "aBcd16b", "aBcd16b", 2) for t in ("u8", "f16", "s32")),
    *(_into((2, 42, 3, 5), t, "aBcd8b", "aBcd8b", 7) for t in ("s8", "f32")),
    _into((3, 40, 4, 4), "u8", "aBcd16b", "aBcd8b", 8),
    _into((3, 40, 4, 4), "bf16", "aBcd8b", "aBcd16b", 8),
    _into((1, 246, 1, 3), "u8", "aBcd32b", "aBcd32b", 3),
    _into((2, 48, 8, 8), "u8", "aBcd16b", "aBcd16b", 12),
    _into((16, 36, 3, 3), "f32", "ABcd16b16a", "ABcd16b16a", 4),
    _into((2, 36, 9, 1), "u8", "aBcd4b", "aBcd4b", 6),
    *(
        _into((2, 144, 7, 7), t, f"aBcd{n}b", f"aBcd{n}b", 12)
        for t, n in (("u8", 8), ("bf16", 8), ("s32", 4))
    ),
    _into((3, 58, 5, 3), "f16", "aBcd4b", "aBcd4b", 2),
]


@pytest.mark.parametrize("isa", [isa for isa in runnable() if isa.name != "generic"], ids=isa_id)
@pytest.mark.parametrize("streams", [False, True], ids=["stored", "streamed"])
@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.name)
def test_kernels_write_what_offsets_say_and_nothing_else(case: ShuffleCase, streams: bool, isa: Isa) -> None:
    src, dst = random_source(case.src, 1), destination(case.dst)
    word = storage_dtype(case.dst.data_type)
    wanted = by_offset(src.view(word), case.src, dst.view(word), case.dst, case.axis, case.group_size)
    kernel = ChosenKernel(case, isa, TINY if streams else COMMON, may_stream=streams)
    kernel(src.ctypes.data, dst.ctypes.data, parts=3)
    assert (dst.view(word) == wanted).all(), str(kernel.lowered)
