"""Submemory, reshape, permuted axes: every element stays where it was."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restride.desc.layout import RUNTIME_DIM
from restride.desc.memory_desc import MemoryDesc
from restride.desc.tags import Tag
from restride.errors import Error, InvalidArguments, Status, Unimplemented


def offsets(md: MemoryDesc) -> list[int]:
    """The offset of every element, in logical row-major order."""
    return [md.offset(*index) for index in np.ndindex(*md.dims)]


def refused(status: Status, md: MemoryDesc, method: str, *args: Any) -> None:
    """The call fails with `status`, and gives the zero descriptor where errors are not wanted."""
    with pytest.raises(Error) as caught:
        getattr(md, method)(*args)
    assert caught.value.status == status
    assert str(md) in caught.value.where
    assert getattr(md, method)(*args, allow_empty=True).is_zero()


@st.composite
def descriptors(draw: st.DrawFn) -> MemoryDesc:
    ndims = draw(st.integers(1, 4))
    dims = tuple(draw(st.integers(1, 6)) for _ in range(ndims))
    idxs = tuple(draw(st.lists(st.integers(0, ndims - 1), max_size=2)))
    tag = Tag(tuple(draw(st.permutations(range(ndims)))), tuple(draw(st.integers(2, 4)) for _ in idxs), idxs)
    return MemoryDesc(dims, "f32", tag)


# Submemory


def test_submemory_inherits_strides_and_adds_up_offsets() -> None:
    parent = MemoryDesc((8, 10, 6), "f32", "acb")
    assert parent.strides == (60, 1, 10)
    one = parent.submemory_desc((4, 5, 3), (2, 3, 1))
    assert (one.dims, one.strides, one.offset0) == ((4, 5, 3), (60, 1, 10), 2 * 60 + 3 + 10)
    two = one.submemory_desc((1, 2, 1), (3, 1, 2))
    assert two.offset0 == one.offset0 + 3 * 60 + 1 + 2 * 10
    assert two == parent.submemory_desc((1, 2, 1), (5, 4, 3))
    assert parent.submemory_desc(parent.dims, (0, 0, 0)) == parent


def test_submemory_of_the_whole_of_one_element_of_a_row() -> None:
    md = MemoryDesc((2,), "f32", "a").submemory_desc((1,), (1,))
    assert (md.offset0, md.size, md.extent_range()) == (1, 4, (1, 2))


@pytest.mark.parametrize(
    ("dims", "at", "padded", "offset0"),
    [
        ((2, 16, 3), (0, 0, 0), (2, 16, 3), 0),
        ((2, 16, 3), (0, 16, 0), (2, 16, 3), 16 * 3),
        ((2, 8, 3), (0, 32, 0), (2, 16, 3), 32 * 3),
        ((1, 24, 2), (1, 16, 1), (1, 32, 2), 48 * 3 + 16 * 3 + 16),
        ((2, 3, 3), (0, 16, 0), (2, 3, 3), 16 * 3),
        ((2, 0, 3), (0, 16, 0), (2, 0, 3), 16 * 3),
    ],
)
def test_submemory_of_blocks(dims: Any, at: Any, padded: Any, offset0: int) -> None:
    parent = MemoryDesc((2, 40, 3), "f32", "aBc16b")
    md = parent.submemory_desc(dims, at)
    assert (md.padded_dims, md.offset0, md.strides) == (padded, offset0, parent.strides)
    for index in np.ndindex(*dims):
        assert md.offset(*index) == parent.offset(*(i + a for i, a in zip(index, at, strict=True)))


@pytest.mark.parametrize(
    ("dims", "at"),
    [((2, 16, 3), (0, 8, 0)), ((2, 17, 3), (0, 0, 0)), ((2, 39, 3), (0, 1, 0)), ((2, 24, 3), (0, 0, 0))],
)
def test_submemory_that_cuts_blocks_is_unimplemented(dims: Any, at: Any) -> None:
    refused(Status.unimplemented, MemoryDesc((2, 40, 3), "f32", "aBc16b"), "submemory_desc", dims, at)


@pytest.mark.parametrize(
    ("dims", "at"),
    [
        ((3, 3), (0, 0)),
        ((2, 3), (1, 0)),
        ((1, 3), (2, 0)),
        ((-1, 3), (0, 0)),
        ((1, 3), (-1, 0)),
        ((1,), (0,)),
        ((1, 3), (0,)),
        ((1, 3, 1), (0, 0, 0)),
        ((1, 2**70), (0, 0)),
        ((1, 1.0), (0, 0)),
        ((1, True), (0, 0)),
        ("11", (0, 0)),
        (None, (0, 0)),
    ],
)
def test_submemory_outside_its_parent_is_invalid(dims: Any, at: Any) -> None:
    refused(Status.invalid_arguments, MemoryDesc((2, 3), "f32", "ab"), "submemory_desc", dims, at)


def test_submemory_of_what_has_no_layout() -> None:
    refused(Status.unimplemented, MemoryDesc((2, 3), "f32", "any"), "submemory_desc", (1, 1), (0, 0))
    refused(Status.unimplemented, MemoryDesc((2, RUNTIME_DIM), "f32", "ab"), "submemory_desc", (1, 1), (0, 0))
    refused(Status.unimplemented, MemoryDesc((2, 3), "f32", "ab"), "submemory_desc", (1, RUNTIME_DIM), (0, 0))
    refused(Status.invalid_arguments, MemoryDesc(), "submemory_desc", (), ())


def test_two_submemories_concatenate_in_place() -> None:
    whole = MemoryDesc((2, 5), "s32", "ab")
    store = np.full(10, -1)
    for width, at in ((2, 0), (3, 2)):
        part = whole.submemory_desc((2, width), (0, at))
        for i, j in np.ndindex(2, width):
            store[part.offset(i, j)] = 100 * at + 10 * i + j
    left = 10 * np.arange(2)[:, None] + np.arange(2)
    right = 200 + 10 * np.arange(2)[:, None] + np.arange(3)
    assert np.array_equal(store.reshape(2, 5), np.concatenate([left, right], axis=1))


@given(descriptors(), st.data())
def test_submemory_keeps_elements_in_place(md: MemoryDesc, data: st.DataObject) -> None:
    at = tuple(data.draw(st.integers(0, n)) for n in md.dims)
    dims = tuple(data.draw(st.integers(0, n - a)) for n, a in zip(md.dims, at, strict=True))
    try:
        part = md.submemory_desc(dims, at)
    except Unimplemented:
        assert md.inner_blks
        return
    where = [md.offset(*(i + a for i, a in zip(index, at, strict=True))) for index in np.ndindex(*dims)]
    assert offsets(part) == where
    low, high = part.extent_range()
    assert all(low <= offset < high for offset in where)
    assert 0 <= low <= high <= md.extent_range()[1]
    assert all(part.index(offset) is not None for offset in where)


# Permuted axes


@pytest.mark.parametrize(
    ("dims", "tag", "perm", "new_dims", "new_tag"),
    [
        ((2, 3), "ab", (1, 0), (3, 2), "ba"),
        ((2, 3, 4, 5), "acdb", (0, 3, 1, 2), (2, 4, 5, 3), "abcd"),
        ((17, 23, 2, 3), "ABcd16b16a", (1, 0, 2, 3), (23, 17, 2, 3), "BAcd16a16b"),
        ((2, 3, 4), "abc", (1, 2, 0), (4, 2, 3), "bca"),
        ((2, 3), "any", (1, 0), (3, 2), "any"),
    ],
)
def test_permute_axes_renames(dims: Any, tag: str, perm: Any, new_dims: Any, new_tag: str) -> None:
    assert MemoryDesc(dims, "f32", tag).permute_axes(perm) == MemoryDesc(new_dims, "f32", new_tag)


@pytest.mark.parametrize(
    "perm", [(0, 0, 1), (0, 1, 3), (0, 1, -1), (0, 1), (0, 1, 2, 3), (0, 1, 2.0), (False, 1, 2), 3]
)
def test_permutation_that_is_none_is_invalid(perm: Any) -> None:
    refused(Status.invalid_arguments, MemoryDesc((2, 3, 4), "f32", "abc"), "permute_axes", perm)


def test_permute_axes_of_what_has_no_layout() -> None:
    refused(Status.invalid_arguments, MemoryDesc(), "permute_axes", ())
    refused(Status.invalid_arguments, MemoryDesc((2, RUNTIME_DIM), "f32", "ab"), "permute_axes", (1, 0))


@given(descriptors(), st.data())
def test_permute_axes_keeps_elements_in_place(md: MemoryDesc, data: st.DataObject) -> None:
    perm = data.draw(st.permutations(range(md.ndims)))
    new = md.permute_axes(perm)
    for index in np.ndindex(*md.dims):
        moved = [0] * md.ndims
        for i, axis in enumerate(perm):
            moved[axis] = index[i]
            assert new.dims[axis] == md.dims[i]
            assert new.padded_dims[axis] == md.padded_dims[i]
        assert new.offset(*moved) == md.offset(*index)
    back = [perm.index(i) for i in range(md.ndims)]
    assert new.permute_axes(back) == md
    assert new.size == md.size


# Reshape


@pytest.mark.parametrize(
    ("dims", "format", "new_dims", "new_format"),
    [
        ((6, 2), "ab", (3, 2, 2), "abc"),
        ((6, 2), "ba", (2, 3, 2), (3, 1, 6)),
        ((1, 15, 12), "aBc8b", (1, 15, 3, 4), "aBcd8b"),
        ((1, 15, 12), "aBc8b", (1, 15, 2, 3, 2), "aBcde8b"),
        ((3, 4, 5, 6), "ABcd16b16a", (1, 3, 4, 5, 6), "aBCde16c16b"),
        ((15, 3, 4), "abc", (3, 5, 6, 1, 2), "abcde"),
        ((15, 3, 4), "bca", (3, 5, 6, 1, 2), (5, 1, 30, 30, 15)),
        ((2, 0, 2), "abc", (2, 0, 1, 2, 1), "abcde"),
        ((31, 1, 0, 2), "Abcd16a", (1, 31, 0, 2, 1), "aBcde16b"),
        ((2, 3, 0, 2), "abcd", (6, 0, 2), "abc"),
        ((1, 1), "ab", (1,), "a"),
        ((1,), "a", (1, 1, 1), "abc"),
        ((2, 1, 3), (3, 77, 1), (6,), "a"),
        ((4, 3), (8, 2), (2, 2, 3), (16, 8, 2)),
        ((2, 3), "any", (3, 2), "any"),
        ((2, 17), "aB16b", (2, 1, 17), "abC16c"),
        ((1, 17), "Ba4a8b", (1, 17, 1), "Bac4a8b"),
        ((2**40, 2**20), "ab", (2**60,), "a"),
    ],
)
def test_reshape_succeeds(dims: Any, format: Any, new_dims: Any, new_format: Any) -> None:
    new = MemoryDesc(dims, "u8", format).reshape(new_dims)
    assert new == MemoryDesc(new_dims, "u8", new_format)
    assert new.reshape(dims) == MemoryDesc(dims, "u8", format)


@pytest.mark.parametrize(
    ("dims", "format", "new_dims"),
    [
        ((2, 3), "ab", (5,)),
        ((2, 3), "ab", (2, 3, 2)),
        ((2, 3), "any", (5,)),
        ((2, 3, 0, 2), "cdba", (6, 0, 2)),
        ((2, 0, 3), "abc", (3, 0, 2)),
        ((6, 2), "ba", (12,)),
        ((6, 2), (3, 1), (12,)),
        ((1, 17), "Ab16a", (17,)),
        ((17, 2), "Ab16a", (34,)),
        ((12, 2), "Ab16a", (3, 4, 2)),
        ((2, 8, 3, 4), "aBcd8b", (2, 96)),
        ((1, 24, 3), "aBc4b", (1, 4, 6, 3)),
        ((1, 112, 2), "aBc16b", (1, 4, 28, 2)),
        ((2, 3), "ab", ()),
        ((2, 3), "ab", (-2, -3)),
        ((2, 3), "ab", (2, 3.0)),
        ((2, 3), "ab", (RUNTIME_DIM, 3)),
        ((2, 3), "ab", (1,) * 11 + (2, 3)),
        ((2, 3), "ab", 6),
        ((2, RUNTIME_DIM), "ab", (2, 3)),
        ((), None, (1,)),
        ((2, 3), "ab", (4, 3, 0)),
    ],
)
def test_reshape_that_would_move_data_is_invalid(dims: Any, format: Any, new_dims: Any) -> None:
    refused(Status.invalid_arguments, MemoryDesc(dims, "f32", format), "reshape", new_dims)


def test_reshape_of_a_submemory_keeps_its_offset() -> None:
    part = MemoryDesc((4, 6), "f32", "ab").submemory_desc((2, 6), (1, 0))
    assert part.reshape((12,)).offset0 == 6
    assert offsets(part.reshape((2, 2, 3))) == list(range(6, 18))


def test_reshape_never_drops_part_of_a_block() -> None:
    part = MemoryDesc((3, 40), "u8", "aB8b").submemory_desc((3, 1), (0, 8))
    with pytest.raises(InvalidArguments):
        part.reshape((3,))
    assert offsets(part.reshape((1, 3, 1))) == offsets(part)


@pytest.mark.parametrize("format", ["aB4b", "aB8b", "aB2b4b", "aB4b2b", "BA4b2a", "Ba4b"])
def test_every_split_of_a_blocked_dim_keeps_elements_or_is_refused(format: str) -> None:
    kept = 0
    for n in (8, 16, 24, 48):
        md = MemoryDesc((2, n), "u8", format)
        splits = [(a, b, n // a // b) for a in range(1, n + 1) for b in range(1, n + 1) if n % (a * b) == 0]
        for split in splits:
            new = md.reshape((2, *split), allow_empty=True)
            if new:
                kept += 1
                assert offsets(new) == offsets(md)
    assert kept > 20


@given(descriptors(), st.data())
def test_reshape_keeps_elements_in_place(md: MemoryDesc, data: st.DataObject) -> None:
    new_dims = data.draw(refactored(md.dims))
    try:
        new = md.reshape(new_dims)
    except InvalidArguments:
        return
    assert new.dims == new_dims
    assert offsets(new) == offsets(md)
    assert new.size == md.size
    assert sorted(new.inner_blks) == sorted(md.inner_blks)


@given(descriptors(), st.data())
def test_reshape_into_new_blocks_keeps_elements_in_place_and_comes_back(
    md: MemoryDesc, data: st.DataObject
) -> None:
    new = md.reshape(data.draw(refactored(md.dims)), allow_empty=True, new_blocks=True)
    if not new:
        return
    assert offsets(new) == offsets(md)
    back = new.reshape(md.dims, allow_empty=True, new_blocks=True)
    assert not back or offsets(back) == offsets(md)


@pytest.mark.parametrize(
    ("dims", "order", "joined", "format"),
    [
        ((1, 8, 8, 7, 7, 96), (0, 1, 3, 2, 4, 5), (1, 56, 56, 96), "BaCD7b7c96d"),
        ((6, 2), (1, 0), (12,), "A6@1a2@6a"),
        ((2, 3, 4, 16), (0, 2, 1, 3), (2, 12, 16), "aBC3@1b4@3b16c"),
    ],
)
def test_joined_windows_are_blocks_of_an_image(dims: Any, order: Any, joined: Any, format: str) -> None:
    windows = MemoryDesc(dims, "f32").permute_axes(order)
    refused(Status.invalid_arguments, windows, "reshape", joined)
    image = windows.reshape(joined, new_blocks=True)
    assert offsets(image) == offsets(windows)
    assert str(image).split()[-1] == format


@st.composite
def refactored(draw: st.DrawFn, dims: tuple[int, ...]) -> tuple[int, ...]:
    """Dims of the same volume: ones added and dropped, neighbors joined, dims split."""
    new = list(dims)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(new) - 1))
        kind = draw(st.sampled_from(["add", "drop", "join", "split"]))
        factors = [k for k in range(1, new[at] + 1) if new[at] % k == 0]
        if kind == "add":
            new.insert(at, 1)
        elif kind == "drop" and new[at] == 1 and len(new) > 1:
            del new[at]
        elif kind == "join":
            new[at : at + 2] = [prod(new[at : at + 2])]
        elif kind == "split":
            left = draw(st.sampled_from(factors))
            new[at : at + 1] = [left, new[at] // left]
    return tuple(new)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple), st.data())
def test_reshape_of_row_major_never_fails(dims: tuple[int, ...], data: st.DataObject) -> None:
    new_dims = data.draw(refactored(dims))
    assert MemoryDesc(dims, "f32").reshape(new_dims) == MemoryDesc(new_dims, "f32")


def test_the_zero_descriptor_takes_no_type() -> None:
    with pytest.raises(InvalidArguments, match="as_type: the descriptor is zero"):
        MemoryDesc().as_type("f32")
