"""The nest of a reorder moves each element to where `MemoryDesc.offset` says, computed element by element."""

from __future__ import annotations

import time
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings

from restride.desc.memory_desc import MemoryDesc
from restride.desc.tags import Tag
from restride.dtypes import DataType
from restride.ir.conversion import storage_dtype
from restride.ir.digits import index_digits, offset_at, reorder_nest
from restride.ir.interpret_nest import interpret
from restride.ir.nest import Axis, Bound, Compute, LoopNest, linear
from restride.ir.nest_rewrites import normalize, peel
from support.descriptors import crowded, pairs
from support.effort import examples
from support.kernels import elements

_POISON = 0xA5


def _strided(dims: tuple[int, ...], strides: tuple[int, ...], offset0: int = 0) -> MemoryDesc:
    return MemoryDesc.from_strides(dims, "s32", strides, offset0)


def _tagged(dims: tuple[int, ...], tag: str) -> MemoryDesc:
    return MemoryDesc(dims, "s32", tag)


def _inner(dims: tuple[int, ...], *blocks: tuple[int, int]) -> MemoryDesc:
    """Axes in order, then (size, axis) blocks."""
    order = tuple(range(len(dims)))
    return MemoryDesc(dims, "s32", Tag(order, tuple(b for b, _ in blocks), tuple(a for _, a in blocks)))


def _index_numbers(src: MemoryDesc) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """A source in which every place holds its own number, one up: no two alike, none zero."""
    return np.arange(1, elements(src) + 1, dtype=np.uint32)


def _by_offsets(src: MemoryDesc, dst: MemoryDesc) -> list[int]:
    """The destination as the descriptors alone define it: elements, zero padding, untouched gaps."""
    result = [_POISON] * elements(dst)
    for at in product(*map(range, dst.padded_dims)):
        result[dst.offset(*at)] = 0
    for at in product(*map(range, dst.dims)):
        result[dst.offset(*at)] = src.offset(*at) + 1
    return result


def _by_nest(src: MemoryDesc, dst: MemoryDesc) -> list[int]:
    result = np.full(elements(dst), _POISON, np.uint32)
    interpret(reorder_nest(src, dst, Compute()), _index_numbers(src), result)
    return [int(value) for value in result]


def _check(src: MemoryDesc, dst: MemoryDesc) -> None:
    assert _by_nest(src, dst) == _by_offsets(src, dst)


_TAGS = [
    ((7,), "a", "a"),
    ((5, 3), "ab", "ba"),
    ((2, 3, 4, 5), "nchw", "nhwc"),
    ((2, 17, 3, 2), "nchw", "nChw16c"),
    ((2, 17, 3, 2), "nChw16c", "nchw"),
    ((2, 17, 3, 2), "nChw16c", "nChw8c"),
    ((2, 17, 3, 2), "nChw8c", "nChw16c"),
    ((2, 9, 3, 1), "nhwc", "nChw4c"),
    ((33, 17, 2, 1), "oihw", "OIhw16i16o"),
    ((33, 17, 2, 1), "OIhw16i16o", "OIhw4i16o4i"),
    ((17, 33, 1, 2), "OIhw8i16o2i", "OIhw16o16i"),
    ((2, 19, 5, 1, 2), "goihw", "gOIhw4o4i"),
    ((70, 65), "ab", "BA16a64b4a"),
    ((70, 65), "BA16a64b4a", "ba"),
    ((4, 6, 5), "cab", "bCA2c3a2c"),
    ((3, 4, 5, 2, 3, 2), "abcdef", "fCdebA2c2a"),
    ((100,), "A32a", "A48a"),
    ((100, 2), "Ab32a", "Ab48a"),
    ((100, 2), "Ab48a", "Ab32a"),
    ((41, 3), "Ab8a", "Ab12a"),
    ((41, 3), "Ab12a", "Ab8a"),
    ((97, 2), "Ab12a", "Ab10a"),
    ((30, 31), "AB4a6b6a", "BA9b4a"),
    ((1, 1, 1), "abc", "aBC16b4c"),
    ((1, 35), "ab", "ba"),
]


@pytest.mark.parametrize(("dims", "src", "dst"), _TAGS)
def test_tags(dims: tuple[int, ...], src: str, dst: str) -> None:
    _check(_tagged(dims, src), _tagged(dims, dst))


_BLOCKS = [
    ((50,), [(3, 0), (4, 0)], [(2, 0), (5, 0)]),
    ((50,), [(4, 0), (3, 0)], [(3, 0), (4, 0)]),
    ((50, 3), [(2, 0), (2, 1), (3, 0)], [(3, 0), (2, 1), (2, 0)]),
    ((24, 5), [(6, 0), (5, 1)], [(4, 0)]),
    ((25, 5), [(6, 0), (4, 0)], [(16, 0), (3, 1)]),
    ((61,), [(5, 0)], [(7, 0)]),
    ((61,), [(2, 0), (5, 0)], [(7, 0), (3, 0)]),
    ((7, 7), [(2, 0), (2, 1), (2, 0), (2, 1)], [(2, 1), (2, 0), (2, 1), (2, 0)]),
]


@pytest.mark.parametrize(("dims", "src", "dst"), _BLOCKS)
def test_blocks_that_do_not_nest(
    dims: tuple[int, ...], src: list[tuple[int, int]], dst: list[tuple[int, int]]
) -> None:
    _check(_inner(dims, *src), _inner(dims, *dst))
    _check(_inner(dims, *dst), _inner(dims, *src))


_STRIDED = [
    ("gaps in the source", _strided((4, 5), (9, 1)), _tagged((4, 5), "ba")),
    ("gaps in the destination", _tagged((4, 5), "ba"), _strided((4, 5), (9, 1))),
    ("gaps everywhere", _strided((4, 5), (2, 11)), _strided((4, 5), (20, 3))),
    ("a reversed source", _strided((4, 5), (-5, -1), 19), _tagged((4, 5), "ab")),
    ("a reversed destination", _tagged((4, 5), "ab"), _strided((4, 5), (5, -1), 4)),
    ("a broadcast axis", _strided((4, 5), (0, 1)), _tagged((4, 5), "ba")),
    ("a broadcast element", _strided((3, 17), (0, 0), 2), _tagged((3, 17), "aB16b")),
    ("a sliding window", _strided((6, 3), (1, 1)), _tagged((6, 3), "ab")),
    ("an axis of one with a wild stride", _strided((1, 6), (1000, 1)), _tagged((1, 6), "ab")),
    ("a window", _tagged((9, 40), "ab").submemory_desc((4, 17), (5, 20)), _tagged((4, 17), "ba")),
    ("into a window", _tagged((4, 17), "ba"), _tagged((9, 40), "ab").submemory_desc((4, 17), (5, 20))),
    ("a blocked window", _tagged((9, 40), "aB8b").submemory_desc((4, 16), (5, 8)), _tagged((4, 16), "ab")),
    ("into blocks", _tagged((4, 16), "ab"), _tagged((9, 40), "aB8b").submemory_desc((4, 16), (5, 8))),
    ("into the last block", _tagged((4, 5), "ab"), _tagged((4, 21), "aB8b").submemory_desc((4, 5), (0, 16))),
    ("into part of a block", _tagged((4, 5), "ab"), _tagged((4, 40), "aB8b").submemory_desc((4, 5), (0, 8))),
    ("part of a block", _tagged((4, 40), "aB8b").submemory_desc((4, 5), (0, 8)), _tagged((4, 5), "aB16b")),
]


@pytest.mark.parametrize(("src", "dst"), [pair[1:] for pair in _STRIDED], ids=[pair[0] for pair in _STRIDED])
def test_strides_and_windows(src: MemoryDesc, dst: MemoryDesc) -> None:
    _check(src, dst)


def test_twelve_axes() -> None:
    dims = (2, 1, 2, 1, 3, 1, 2, 1, 2, 1, 1, 3)
    letters = "abcdefghijkl"
    plain = _tagged(dims, letters)
    _check(plain, _tagged(dims, letters[::-1]))
    _check(_tagged(dims, letters[::-1]), _inner(dims, (2, 4), (4, 11), (2, 0)))
    _check(_inner(dims, *((2, d) for d in (0, 2, 4, 6, 8, 11))), plain)


@settings(max_examples=examples(60))
@given(pairs(max_ndims=5, most=400))
def test_random_descriptors(pair: tuple[MemoryDesc, MemoryDesc]) -> None:
    src, dst = (_in_s32(md) for md in pair)
    if np.prod(dst.padded_dims) <= 4000:
        _check(src, dst)


@settings(max_examples=20)
@given(crowded())
def test_many_blocked_axes(pair: tuple[MemoryDesc, MemoryDesc]) -> None:
    src, dst = (_in_s32(md) for md in pair)
    if np.prod(dst.padded_dims) <= 4000:
        _check(src, dst)


def _in_s32(md: MemoryDesc) -> MemoryDesc:
    """The same layout for 32-bit elements, which can carry an index number."""
    return MemoryDesc.from_dict({**md.to_dict(), "data_type": "s32"})


# --- the form of the nest -----------------------------------------------------------------------------------


def _nest(dims: tuple[int, ...], src: str, dst: str) -> LoopNest:
    return reorder_nest(_tagged(dims, src), _tagged(dims, dst), Compute())


def test_types_bases_and_compute_are_carried() -> None:
    src = MemoryDesc((6, 8), "bf16", "ab").submemory_desc((2, 3), (1, 2))
    dst = MemoryDesc((2, 3), "u8", "ba")
    nest = reorder_nest(src, dst, linear(scaled=True))
    assert (nest.src_type, nest.dst_type) == (DataType.bf16, DataType.u8)
    assert (nest.src_base, nest.dst_base) == (10, 0)
    assert nest.compute == linear(scaled=True)


def test_whole_blocks_need_no_bounds() -> None:
    nest = _nest((2, 32, 3, 3), "nchw", "nChw16c")
    assert nest.bounds == ()
    assert all(axis.bound < 0 for axis in nest.axes)


def test_a_partial_block_has_a_bound() -> None:
    nest = _nest((2, 17, 3, 3), "nchw", "nChw16c")
    assert nest.bounds == (Bound(17, 32),)
    assert [(a.extent, a.step) for a in nest.axes if a.bound == 0] == [(2, 16), (16, 1)]


def test_padding_of_the_source_is_never_read() -> None:
    nest = _nest((17,), "A16a", "a")
    src = np.full(32, 9, np.uint32)
    dst = np.zeros(17, np.uint32)
    interpret(nest, src[:17], dst)
    assert dst.tolist() == [9] * 17


def test_digits_are_as_coarse_as_both_sides_allow() -> None:
    assert normalize(_nest((4, 5, 6), "abc", "abc")).axes == (Axis(120, 1, 1),)
    assert normalize(_nest((64, 6), "aB2b", "aB2b")).axes == (Axis(384, 1, 1),)
    assert len(normalize(_nest((2, 16, 4, 4), "nchw", "nhwc")).axes) == 3
    blocked = _nest((2, 64, 4, 4), "nChw16c", "nChw8c")
    assert [a.extent for a in normalize(blocked).axes] == [8, 2, 16, 8]


def test_non_nested_blocks_share_a_table_of_their_common_multiple() -> None:
    nest = _nest((960, 2), "Ab32a", "Ab48a")
    tables = [a for a in nest.axes if not a.is_linear]
    assert [axis.extent for axis in tables] == [6]
    assert all(axis.is_linear for box in peel(_nest((960, 2), "Ab32a", "Ab64a")) for axis in box.axes)


def test_equal_problems_have_equal_normal_forms() -> None:
    """One kernel serves all ways of writing the same movement."""
    forms = {
        tuple(normalize(box) for box in peel(_nest(dims, src, dst)))
        for dims, src, dst in [
            ((6, 35), "ab", "ba"),
            ((6, 5, 7), "abc", "bca"),
            ((6, 1, 35), "abc", "cab"),
            ((2, 3, 35), "abc", "cab"),
        ]
    }
    assert len(forms) == 1


@pytest.mark.parametrize(
    ("src", "dst"),
    [
        ("ab", "ba"),
        ("Ab32a", "Ab48a"),
        ("Ab48a", "ab"),
        ("AB16a16b", "BA16b64a4b"),
    ],
)
def test_planning_takes_no_longer_for_a_tensor_that_fills_the_address_space(src: str, dst: str) -> None:
    dims = (2**40, 3)
    start = time.thread_time()
    boxes = peel(_nest(dims, src, dst))
    assert time.thread_time() - start < 0.2
    assert sum(box.positions for box in boxes) >= 3 * 2**40


@pytest.mark.parametrize(("dims", "dst"), [((0, 16), "ab"), ((0, 5), "aB16b"), ((13, 0), "AB16a16b")])
def test_empty_tensors_make_empty_nests(dims: tuple[int, ...], dst: str) -> None:
    nest = _nest(dims, "ab", dst)
    assert nest.is_empty
    target = np.full(4, 7, storage_dtype(DataType.s32))
    interpret(nest, np.zeros(0, np.uint32), target)
    assert target.tolist() == [7] * 4


def test_only_blocks_that_do_not_nest_become_a_table() -> None:
    """2 and 3 meet at 6; 192, 9216 and 18432 are digits above it, as they nest."""
    src = MemoryDesc((36864, 2), "f32", Tag((0, 1), (2,), (0,)))
    dst = MemoryDesc((36864, 2), "f32", Tag((0, 1), (2, 48, 64, 3), (0, 0, 0, 0)))
    nest = reorder_nest(src, dst, Compute())
    assert [axis.extent for axis in nest.axes] == [2, 2, 48, 32, 6, 2]
    assert [axis.is_linear for axis in nest.axes] == [True, True, True, True, False, True]
    assert nest.axes[4].src == (0, 1, 4, 5, 8, 9)


@pytest.mark.parametrize("tag", ["abcd", "acdb", "aBcd16b", "ABcd4b16a4b", "BAcd5a3b"])
def test_offsets_of_an_array_of_indices_are_those_of_each(tag: str) -> None:
    md = _tagged((20, 37, 3, 4), tag)
    for dim, padded in enumerate(md.padded_dims):
        digits, indices = index_digits(md, dim), np.arange(padded)
        found = offset_at(digits, indices)
        zero = [0] * md.ndims
        for i in range(padded):
            at = (*zero[:dim], i, *zero[dim + 1 :])
            assert found[i] == offset_at(digits, i) == md.offset(*at)
        assert indices.tolist() == list(range(padded))
