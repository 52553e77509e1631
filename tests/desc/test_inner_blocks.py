"""Stepped blocks: what they mean, element by element, on everything that works on blocks."""

from __future__ import annotations

import itertools
from math import prod
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import restride as rs
from restride.desc.inner_blocks import canonical_blocks, usual_steps
from restride.desc.tags import LETTERS, Tag, parse_tag
from support.by_offset import check_reorder
from support.errors import refused

CPU, REF = rs.Engine("cpu"), rs.Engine("reference")


class Case(NamedTuple):
    """Dims, outer axes outermost first, and blocks (axis, size, step) from the outer to the inner."""

    dims: tuple[int, ...]
    order: tuple[int, ...]
    blocks: tuple[tuple[int, int, int], ...]

    @property
    def tag(self) -> Tag:
        idxs, blks, steps = zip(*self.blocks, strict=True) if self.blocks else ((), (), ())
        return Tag(self.order, blks, idxs, steps)

    def whole(self, axis: int) -> int:
        return prod(size for i, size, _ in self.blocks if i == axis)

    def offset(self, index: tuple[int, ...]) -> int:
        """Return the offset of an element, digit by digit from the innermost one."""
        offset, stride = 0, 1
        for axis, size, step in reversed(self.blocks):
            offset += index[axis] // step % size * stride
            stride *= size
        for axis in reversed(self.order):
            blocks = -(-self.dims[axis] // self.whole(axis))
            offset += index[axis] // self.whole(axis) * stride
            stride *= max(blocks, 1)
        return offset

    def offsets(self, extents: tuple[int, ...]) -> np.ndarray:
        return np.array([self.offset(i) for i in np.ndindex(*extents)], np.int64).reshape(extents)


@st.composite
def cases(draw: st.DrawFn, ndims: int | None = None) -> Case:
    """Any dims, order and blocks whose steps are a permutation of the digits of each axis."""
    ndims = ndims or draw(st.integers(1, 3))
    digits: list[tuple[int, int, int]] = []
    for axis in range(ndims):
        step = 1
        for size in draw(st.lists(st.sampled_from((2, 3, 4)), max_size=3)):
            if prod(digit[1] for digit in digits) * size <= 48:
                digits.append((axis, size, step))
                step *= size
    blocks = tuple(draw(st.permutations(digits)))[:8]
    # What is left may have gaps: the digits of an axis begin again at 1.
    steps, kept = [1] * ndims, []
    for at, (axis, size, _) in sorted(enumerate(blocks), key=lambda pair: pair[1][2]):
        kept.append((at, (axis, size, steps[axis])))
        steps[axis] *= size
    dims = tuple(draw(st.integers(1, step + max(3, min(step, 9)))) for step in steps)
    order = tuple(draw(st.permutations(range(ndims))))
    return Case(dims, order, tuple(block for _, block in sorted(kept)))


def _check(case: Case) -> None:
    md = rs.MemoryDesc(case.dims, "u8", case.tag)
    padded = tuple(-(-n // case.whole(d)) * case.whole(d) for d, n in enumerate(case.dims))
    assert md.padded_dims == padded
    wanted = case.offsets(padded)
    assert [md.offset(*i) for i in np.ndindex(*padded)] == wanted.reshape(-1).tolist()
    assert md.size == wanted.size == md.extent_range()[1]
    assert md.is_injective()
    inside = {int(wanted[i]): i for i in np.ndindex(*case.dims)}
    assert all(md.index(at) == inside.get(at) for at in range(md.size + 1))
    assert rs.MemoryDesc.from_json(md.to_json()) == md
    assert parse_tag(str(case.tag)) == case.tag
    assert rs.MemoryDesc(case.dims, "u8", str(case.tag)) == md
    assert md.tag is not None
    assert rs.MemoryDesc(case.dims, "u8", md.tag).size == md.size
    spots = np.zeros(md.size, np.int64)
    shape, strides = md.physical_shape, md.physical_strides
    spots[[sum(map(int.__mul__, at, strides)) for at in np.ndindex(*shape)]] += 1
    assert (spots == 1).all()
    assert str(md.explain())


@given(cases())
@settings(max_examples=100)
def test_elements_lie_where_their_digits_say(case: Case) -> None:
    _check(case)


@pytest.mark.slow
@given(cases())
@settings(max_examples=20_000)
def test_elements_of_very_many_layouts_lie_where_their_digits_say(case: Case) -> None:
    _check(case)


@given(cases(2), cases(2), st.sampled_from(["u8", "f32", "s4", "f4_e2m1", "f16"]), st.booleans())
@settings(max_examples=60)
def test_reorders_between_any_two_of_them(one: Case, two: Case, kind: str, is_reference: bool) -> None:
    src = rs.MemoryDesc(one.dims, kind, one.tag)
    dst = rs.MemoryDesc(one.dims, kind, two.tag)
    check_reorder(src, dst, REF if is_reference else CPU)


@given(cases(2), st.sampled_from(["s8", "f32"]))
@settings(max_examples=30)
def test_arrays_go_in_and_out(case: Case, kind: str) -> None:
    x = np.random.default_rng(0).integers(-100, 100, case.dims).astype(rs.DataType[kind].numpy)
    packed = rs.reorder(x, case.tag)
    memory = packed if isinstance(packed, rs.Memory) else rs.Memory.from_numpy(packed)
    np.testing.assert_array_equal(memory.to_numpy(), x)
    held = memory.data.reshape(-1)[case.offsets(case.dims)]
    np.testing.assert_array_equal(held, x)


@given(cases(), st.data())
@settings(max_examples=60)
def test_windows_and_renamed_axes_are_those_of_the_whole(case: Case, data: st.DataObject) -> None:
    md = rs.MemoryDesc(case.dims, "u8", case.tag)
    start = tuple(
        data.draw(st.integers(0, (n - 1) // case.whole(d))) * case.whole(d) for d, n in enumerate(case.dims)
    )
    sizes = tuple(
        data.draw(st.integers(1, min(case.whole(d), n - at)))
        for d, (n, at) in enumerate(zip(case.dims, start, strict=True))
    )
    sizes = tuple(
        n if n < case.whole(d) or at + n == case.dims[d] else case.whole(d)
        for d, (n, at) in enumerate(zip(sizes, start, strict=True))
    )
    window = md.submemory_desc(sizes, start)
    wanted = [case.offset(tuple(map(int.__add__, i, start))) for i in np.ndindex(*sizes)]
    assert [window.offset(*i) for i in np.ndindex(*sizes)] == wanted
    assert window.extent_range()[0] <= min(wanted)
    assert window.extent_range()[1] > max(wanted)
    assert rs.MemoryDesc.from_json(window.to_json()) == window
    perm = data.draw(st.permutations(range(len(case.dims))))
    turned = md.permute_axes(perm)
    for index in itertools.islice(np.ndindex(*case.dims), 50):
        moved = [0] * len(perm)
        for axis, i in enumerate(index):
            moved[perm[axis]] = i
        assert turned.offset(*moved) == case.offset(index)


def test_axes_beside_a_stepped_one_are_split_and_joined() -> None:
    md = rs.MemoryDesc((6, 32), "u8", "aB4@1b2@4b")
    split = md.reshape((2, 3, 32))
    assert (split.inner_blks, split.inner_idxs, split.inner_steps) == ((4, 2), (2, 2), (1, 4))
    assert split.offset(1, 2, 13) == md.offset(5, 13)
    assert split.reshape((6, 32)) == md
    inside = md.reshape((6, 8, 4))
    assert (inside.inner_blks, inside.inner_idxs, inside.inner_steps) == ((4, 2), (2, 1), (1, 1))
    assert inside.offset(5, 3, 1) == md.offset(5, 13)
    with refused("would be split inside a block"):
        rs.MemoryDesc((6, 24), "u8", "aB3@1b4@3b").reshape((6, 12, 2))
    with refused("cannot keep the memory"):
        md.reshape((12, 16))


@given(cases(2), st.data())
@settings(max_examples=60)
def test_an_axis_of_blocks_is_split_where_its_digits_are(case: Case, data: st.DataObject) -> None:
    dims = tuple(-(-n // case.whole(d)) * case.whole(d) for d, n in enumerate(case.dims))
    md = rs.MemoryDesc(dims, "u8", case.tag)
    steps = sorted({step for axis, _, step in case.blocks if axis == 1} | {case.whole(1)})
    inner = data.draw(st.sampled_from(steps))
    split = md.reshape((dims[0], dims[1] // inner, inner))
    for i, j in itertools.islice(np.ndindex(*dims), 200):
        assert split.offset(i, j // inner, j % inner) == md.offset(i, j)


def test_lists_of_blocks_are_formats() -> None:
    md = rs.MemoryDesc((256, 8), "u8", [(0, 32, 1), (0, 4, 32), (1, 4, 1)])
    assert md.tag == "AB32@1a4@32a4b"
    assert md == rs.MemoryDesc((256, 8), "u8", ((0, 32, 1), [0, 4, 32], (1, 4, 1)))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("aB16@1b", "aB16b"),
        ("aB4@4b4@1b2@16b", "aB16@1b2@16b"),
        ("aB1@7b2@1b4@2b", "aB2@1b4@2b"),
        ("aBx2@1b4@2b", "aBx2@1b4@2b"),
        ("AB4@8a8@1a4@32a4b", "AB32@1a4@32a4b"),
    ],
)
def test_one_layout_is_one_value(one: str, two: str) -> None:
    assert parse_tag(one) == parse_tag(two)
    assert hash(parse_tag(one)) == hash(parse_tag(two))
    assert str(parse_tag(one)) == two


def test_tags_of_onednn_keep_their_blocks() -> None:
    assert rs.MemoryDesc((2, 32), "u8", "aB4b4b").inner_blks == (4, 4)
    assert rs.MemoryDesc((2, 32), "u8", "aB4@4b4@1b") == rs.MemoryDesc((2, 32), "u8", "aB4b4b")
    assert usual_steps((4, 16, 4), (1, 0, 1)) == (4, 1, 1)
    assert canonical_blocks((4, 1, 4), (0, 1, 0)) == ((4, 4), (0, 0), (4, 1))


@pytest.mark.parametrize(
    ("tag", "why"),
    [
        ("aB16@2b", "leave a gap: a block has step 2 where 1 is expected"),
        ("aB4@1b4@1b", "overlap: a block has step 1 where 4 is expected"),
        ("aB4@1b4@2b", "overlap: a block has step 2 where 4 is expected"),
        ("aB4@1b4@8b", "leave a gap: a block has step 8 where 4 is expected"),
        ("aB4@0b", "overlap: a block has step 0 where 1 is expected"),
        ("aB4@b", "a block is a size, optionally @ and a step"),
        ("aB@4b", "a tag consists of letters, block sizes and steps"),
        ("aB4@@1b", "a block is a size, optionally @ and a step"),
        ("aB4@1", "lacks its axis letter"),
        ("a@B4b", "a tag consists of letters, block sizes and steps"),
        ("aB4@9999999999999999999999b", "leave a gap"),
    ],
)
def test_blocks_that_are_no_permutation_are_refused(tag: str, why: str) -> None:
    with refused(why):
        rs.MemoryDesc((2, 32), "u8", tag)


@pytest.mark.parametrize(
    "blocks",
    [
        [(1, 4, 2)],
        [(1, 4, 1), (1, 4, 1)],
        [(2, 4, 1)],
        [(-1, 4, 1)],
        [(1, 4)],
        [(1, 4, 1), 3],
        [(1, 0, 1)],
        [(1, 4, 1.0)],
        [(1, 2**31, 1)],
        [()],
        [(0, 2, 1)] * 13,
    ],
)
def test_lists_that_are_no_blocks_are_refused(blocks: list[object]) -> None:
    with refused():
        rs.MemoryDesc((2, 32), "u8", blocks)  # type: ignore[arg-type]


def test_stored_steps_are_checked() -> None:
    values = rs.MemoryDesc((2, 32), "u8", "aB4@1b2@4b").to_dict()
    assert rs.MemoryDesc.from_dict(values).inner_steps == (1, 4)
    with refused("inner_steps"):
        rs.MemoryDesc.from_dict({**values, "inner_steps": [1, 8]})
    with refused("must have a step"):
        rs.MemoryDesc.from_dict({**values, "inner_steps": [1]})
    usual = {key: value for key, value in values.items() if key != "inner_steps"}
    assert rs.MemoryDesc.from_dict(usual).tag == "aB4b2b"
    assert set(LETTERS) >= set("ab")
