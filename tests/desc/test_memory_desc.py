"""Descriptors: what they accept, where elements lie, sizes, equality."""

from __future__ import annotations

import itertools
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restride.desc.build import RUNTIME_SIZE
from restride.desc.layout import RUNTIME_DIM
from restride.desc.memory_desc import MemoryDesc
from restride.desc.tags import FormatTag, Tag, parse_tag
from restride.dtypes import DataType
from restride.errors import InvalidArguments, Unimplemented

# Construction


def test_zero_descriptor_describes_no_memory() -> None:
    for md in (
        MemoryDesc(),
        MemoryDesc((), "f32", "a"),
        MemoryDesc((2, 3), "f32", "undef"),
        MemoryDesc((), "f32", ()),
    ):
        assert md.is_zero()
        assert not md
        assert (md.ndims, md.size, md.nelems, md.data_type) == (0, 0, 0, DataType.undef)
        assert md.dims == md.strides == md.padded_dims == md.inner_blks == md.inner_idxs == ()
        assert md.format_kind == "undef"
        assert md.tag is None
        assert md == MemoryDesc()


@pytest.mark.parametrize(
    ("dims", "word"),
    [
        ((2, -3), r"dims\[1\] is -3"),
        ((-1,), r"dims\[0\] is -1"),
        ((2, True), r"dims\[1\] is True"),
        ((np.bool_(True), 2), r"dims\[0\]"),
        ((2.0, 3), r"dims\[0\] is 2.0"),
        ((2, np.float32(3)), r"dims\[1\]"),
        ((2, "3"), r"dims\[1\] is '3'"),
        ((2, None), r"dims\[1\] is None"),
        ((2, np.array([3])), r"dims\[1\]"),
        ((2, 2**63), r"dims\[1\]"),
        ("23", "dims is '23'"),
        (7, "dims is 7"),
        ({2, 3}, "sequence"),
        (itertools.repeat(2), "more than"),
        ((1,) * 13, "13 axes"),
    ],
)
def test_bad_dims_are_refused_by_index(dims: Any, word: str) -> None:
    with pytest.raises(InvalidArguments, match=word):
        MemoryDesc(dims, "f32", None)
    assert MemoryDesc(dims, "f32", None, allow_empty=True).is_zero()


def test_numpy_integers_are_dims_and_strides() -> None:
    md = MemoryDesc(np.array([2, 3]), "f32", (np.int64(3), np.uint8(1)))  # type: ignore[arg-type]
    assert md == MemoryDesc([2, 3], "f32", "ab")
    assert all(type(n) is int for n in (*md.dims, *md.strides, md.offset(np.int32(1), np.int64(2))))


@pytest.mark.parametrize("data_type", ["undef", DataType.undef, "f31", None, object(), np.complex64])
def test_bad_data_type_is_refused(data_type: Any) -> None:
    with pytest.raises(InvalidArguments):
        MemoryDesc((2, 3), data_type, "ab")
    assert MemoryDesc((2, 3), data_type, "ab", allow_empty=True).is_zero()


@pytest.mark.parametrize(
    "format", ["nc", FormatTag.nc, Tag((0, 1)), (1, 2, 3), "bogus", 7, b"abcd", (1, 2, 3.0, 4)]
)
def test_format_of_another_rank_or_kind_is_refused(format: Any) -> None:
    with pytest.raises(InvalidArguments):
        MemoryDesc((2, 16, 8, 8), "f32", format)
    assert MemoryDesc((2, 16, 8, 8), "f32", format, allow_empty=True).is_zero()


@pytest.mark.parametrize(
    "format", ["acdb", "nhwc", "axb", FormatTag.nhwc, parse_tag("nhwc"), (105, 1, 21, 3)]
)
def test_one_format_has_many_names(format: Any) -> None:
    md = MemoryDesc((2, 3, 5, 7), "f32", format)
    assert md.strides == (5 * 7 * 3, 1, 7 * 3, 3)
    assert md == MemoryDesc((2, 3, 5, 7), np.float32, "nhwc")
    assert md.tag == "acdb"


def test_no_format_is_row_major() -> None:
    assert MemoryDesc((2, 3, 5), "u8").strides == (15, 5, 1)
    assert MemoryDesc((2, 0, 5), "u8", None).strides == (5, 5, 1)


@pytest.mark.parametrize(
    ("dims", "strides"),
    [
        ((3, 4), (4, 1)),
        ((3, 4), (9, 1)),
        ((3, 4), (1, 3)),
        ((3, 4), (1, 8)),
        ((3, 4), (0, 1)),
        ((3, 4), (0, 0)),
        ((3, 1, 4), (4, 77, 1)),
        ((3, 1, 4), (4, 2, 1)),
        ((1, 1), (0, 5)),
        ((0, 4), (1, 1)),
        ((2, 2), (RUNTIME_DIM, 1)),
    ],
)
def test_strides_that_nest_are_accepted(dims: tuple[int, ...], strides: tuple[int, ...]) -> None:
    assert MemoryDesc(dims, "f32", strides).strides == strides


@pytest.mark.parametrize(
    ("dims", "strides"),
    [
        ((2, 2), (1, 1)),
        ((6, 2), (1, 2)),
        ((3, 4), (3, 1)),
        ((4,), (-1,)),
        ((3, 4), (4, -1)),
        ((2, 3, 4), (12, 3, 1)),
    ],
)
def test_strides_that_overlap_or_run_backwards_are_refused(
    dims: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    for strict in (False, True):
        with pytest.raises(InvalidArguments, match="M08"):
            MemoryDesc(dims, "f32", strides, strict=strict)
    assert MemoryDesc(dims, "f32", strides, allow_empty=True).is_zero()


def test_an_order_of_axes_in_place_of_strides_is_answered_with_its_tag() -> None:
    for order, tag in (((0, 2, 3, 1), "acdb"), ((3, 0, 1, 2), "dabc")):
        with pytest.raises(InvalidArguments, match="M08") as caught:
            MemoryDesc((2, 3, 4, 5), "f32", order)
        assert repr(tag) in caught.value.hint
        assert MemoryDesc((2, 3, 4, 5), "f32", tag).outer_order == order


@pytest.mark.parametrize(
    ("dims", "strides"),
    [
        ((3, 0), (7, -1)),
        ((0,), (-5,)),
        ((2, 0, 4), (-1, -1, -1)),
        ((5, 6, 0), (1, 1, 1)),
        ((0, RUNTIME_DIM), (-3, 1)),
        ((2, 0), (0, 0)),
    ],
)
def test_any_strides_will_do_for_an_empty_tensor(dims: tuple[int, ...], strides: tuple[int, ...]) -> None:
    md = MemoryDesc(dims, "f32", strides)
    assert (md.dims, md.strides) == (dims, strides)
    assert MemoryDesc.from_json(md.to_json()) == md
    assert str(md)
    assert RUNTIME_DIM in dims or md.size == 0


def test_the_literal_rule_holds_for_empty_tensors_too() -> None:
    with pytest.raises(InvalidArguments, match="M08"):
        MemoryDesc((3, 0), "f32", (7, -1), strict=True)
    with pytest.raises(InvalidArguments, match="M08"):
        MemoryDesc((5, 6, 0), "f32", (1, 1, 1), strict=True)


def literal_rule(dims: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """The seed's formula for some order that sorts the strides."""
    n = len(dims)
    return any(
        all(strides[p] >= strides[q] for p, q in itertools.pairwise(order))
        and all(
            strides[order[i]] >= strides[order[j]] * dims[order[j]] for i in range(n) for j in range(i + 1, n)
        )
        for order in itertools.permutations(range(n))
    )


shapes = st.lists(st.integers(0, 4), min_size=1, max_size=4).map(tuple)


@given(st.data())
def test_strict_is_the_formula_to_the_letter(data: st.DataObject) -> None:
    dims = data.draw(shapes)
    strides = tuple(data.draw(st.integers(0, 12)) for _ in dims)
    assert MemoryDesc(dims, "u8", strides, strict=True, allow_empty=True).is_zero() != literal_rule(
        dims, strides
    )


@given(st.data())
def test_relaxed_rule_accepts_no_overlap(data: st.DataObject) -> None:
    dims = data.draw(shapes)
    strides = tuple(data.draw(st.integers(1, 30)) for _ in dims)
    md = MemoryDesc(dims, "u8", strides, allow_empty=True)
    if md:
        assert md.is_injective()
    if literal_rule(dims, strides):
        assert md


# Runtime dims and any


def test_runtime_dims_have_a_runtime_size() -> None:
    md = MemoryDesc((2, RUNTIME_DIM, 3), "f32", "abc")
    assert md.size == RUNTIME_SIZE == 2**63
    assert md.strides == (RUNTIME_DIM, 3, 1)
    assert md.nelems == RUNTIME_DIM
    assert md == MemoryDesc((2, RUNTIME_DIM, 3), "f32", (RUNTIME_DIM, 3, 1))
    assert str(md) == "f32 2x*x3 abc strides *x3x1"
    for query in (md.extent_range, md.is_injective, lambda: md.offset(0, 0, 0), lambda: md.index(0)):
        with pytest.raises(InvalidArguments, match="no layout"):
            query()


def test_any_has_dims_but_no_layout() -> None:
    md = MemoryDesc((2, 3), "f32", "any")
    assert md == MemoryDesc((2, 3), "f32", FormatTag.any)
    assert (md.format_kind, md.size, md.strides, md.dims, md.tag) == ("any", 0, (), (2, 3), None)
    assert md != MemoryDesc((2, 3), "f32", "ab")
    assert str(md) == "f32 2x3 any"
    with pytest.raises(InvalidArguments, match="'any'"):
        md.offset(0, 0)
    with pytest.raises(InvalidArguments):
        _ = md.physical_shape


# Sizes


@pytest.mark.parametrize(
    ("dims", "format", "data_type", "size"),
    [
        ((2, 3), (6, 1), "f32", 48),
        ((1, 1, 1, 1), (8, 4, 2, 1), "f32", 4),
        ((1, 4, 1, 1), "nChw8c", "f32", 32),
        ((32, 64, 3, 3), "ABcd16a16b", "f32", 73728),
        ((2, 17, 7, 7), "nChw16c", "f32", 2 * 32 * 7 * 7 * 4),
        ((17,), None, "u8", 17),
        ((17,), None, "f64", 136),
        ((17,), None, "s4", 9),
        ((3, 3), None, "u4", 5),
        ((4, 1), (1, 7), "f32", 16),
        ((0, 16, 8, 8), "nchw", "f32", 0),
        ((13, 0, 3, 3), "nChw16c", "f32", 0),
        ((4,), (0,), "f32", 4),
        ((3, 4), (0, 1), "f32", 16),
        ((2**63 - 1,), None, "u8", 2**63 - 1),
    ],
)
def test_size_in_bytes(dims: tuple[int, ...], format: Any, data_type: str, size: int) -> None:
    md = MemoryDesc(dims, data_type, format)
    assert md.size == md.get_size() == size
    assert md.nelems == prod(dims)


@pytest.mark.parametrize(
    ("dims", "data_type", "format"),
    [
        ((2**40, 2**40), "f32", None),
        ((2**40, 2**40), "u8", "ba"),
        ((2**63 - 1,), "bf16", None),
        ((2**61,), "f32", None),
        ((2**62, 1), "u8", "Ab16a4b"),
        ((2, 2), "u8", (2**62, 1)),
    ],
)
def test_tensor_of_two_to_the_63_bytes_is_refused(dims: tuple[int, ...], data_type: str, format: Any) -> None:
    try:
        parse_tag(format) if isinstance(format, str) else None
    except InvalidArguments:
        pytest.fail("the tag itself is legal")
    with pytest.raises(InvalidArguments, match=r"2\*\*63"):
        MemoryDesc(dims, data_type, format)


# Where elements lie


def test_nhwc_nchw_and_blocked_offsets_for_every_index() -> None:
    """The offset functions of P10; CHW of the blocked one uses the padded C."""
    n_, c_, h_, w_ = 2, 13, 3, 5
    padded = 16
    nhwc, nchw, blocked = (MemoryDesc((n_, c_, h_, w_), "f32", tag) for tag in ("nhwc", "nchw", "nChw8c"))
    for n, c, h, w in itertools.product(range(n_), range(c_), range(h_), range(w_)):
        assert nhwc.offset(n, c, h, w) == n * h_ * w_ * c_ + h * w_ * c_ + w * c_ + c
        assert nchw.offset(n, c, h, w) == n * c_ * h_ * w_ + c * h_ * w_ + h * w_ + w
        expected = n * padded * h_ * w_ + (c // 8) * h_ * w_ * 8 + h * w_ * 8 + w * 8 + c % 8
        assert blocked.offset(n, c, h, w) == expected
        assert blocked.index(expected) == (n, c, h, w)


@pytest.mark.parametrize(
    ("dims", "tag", "padded", "strides", "blks", "idxs"),
    [
        ((2, 17, 7, 7), "aBcd16b", (2, 32, 7, 7), (1568, 784, 112, 16), (16,), (1,)),
        ((17, 23, 2, 3), "ABcd16b16a2b", (32, 32, 2, 3), (3072, 3072, 1536, 512), (16, 16, 2), (1, 0, 1)),
        ((32, 64, 3, 3), "ABcd16a16b", (32, 64, 3, 3), (9216, 2304, 768, 256), (16, 16), (0, 1)),
        ((64, 64, 3, 3), "OIhw4i16o4i", (64, 64, 3, 3), (9216, 2304, 768, 256), (4, 16, 4), (1, 0, 1)),
        ((17, 3), "Ab8a", (24, 3), (24, 8), (8,), (0,)),
    ],
)
def test_blocked_tags_as_the_documents_give_them(
    dims: Any, tag: str, padded: Any, strides: Any, blks: Any, idxs: Any
) -> None:
    md = MemoryDesc(dims, "f32", tag)
    assert (md.padded_dims, md.strides, md.inner_blks, md.inner_idxs) == (padded, strides, blks, idxs)


def test_channels_of_17_are_padded_to_32() -> None:
    md = MemoryDesc((1, 17, 2, 2), "f32", "nChw16c")
    assert md.padded_dims == (1, 32, 2, 2)
    assert md.size == 32 * 2 * 2 * 4
    offsets = {md.offset(0, c, h, w) for c in range(32) for h in range(2) for w in range(2)}
    assert offsets == set(range(128))
    assert md.index(md.offset(0, 16, 1, 1)) == (0, 16, 1, 1)
    assert md.index(md.offset(0, 17, 1, 1)) is None


def physical(dims: tuple[int, ...], tag: Tag) -> np.ndarray[Any, Any]:
    """Flat logical index at each place of the storage, -1 in the padding: NumPy's pad, reshape, transpose."""
    blocks = [
        prod(b for b, i in zip(tag.inner_blks, tag.inner_idxs, strict=True) if i == d)
        for d in range(len(dims))
    ]
    x = np.arange(prod(dims)).reshape(dims)
    x = np.pad(x, [(0, -n % b) for n, b in zip(dims, blocks, strict=True)], constant_values=-1)
    split: list[int] = []
    place: dict[tuple[int, int], int] = {}
    for d, n in enumerate(x.shape):
        mine = [k for k, i in enumerate(tag.inner_idxs) if i == d]
        place[d, -1] = len(split)
        split.append(n // blocks[d])
        for k in mine:
            place[d, k] = len(split)
            split.append(tag.inner_blks[k])
    axes = [place[d, -1] for d in tag.order] + [place[d, k] for k, d in enumerate(tag.inner_idxs)]
    return x.reshape(split).transpose(axes)


@st.composite
def tagged(draw: st.DrawFn) -> tuple[tuple[int, ...], Tag]:
    ndims = draw(st.integers(1, 4))
    dims = tuple(draw(st.integers(1, 5)) for _ in range(ndims))
    idxs = tuple(draw(st.lists(st.integers(0, ndims - 1), max_size=3)))
    return dims, Tag(
        tuple(draw(st.permutations(range(ndims)))), tuple(draw(st.integers(2, 4)) for _ in idxs), idxs
    )


@given(tagged())
def test_offsets_are_those_of_pad_reshape_transpose(case: tuple[tuple[int, ...], Tag]) -> None:
    dims, tag = case
    md = MemoryDesc(dims, "f32", tag)
    stored = physical(dims, tag)
    flat = stored.ravel()
    assert md.size == flat.size * 4
    assert md.extent_range() == (0, flat.size)
    for logical, index in enumerate(np.ndindex(*dims)):
        assert flat[md.offset(*index)] == logical
    for offset, logical in enumerate(flat):
        assert md.index(offset) == (None if logical < 0 else np.unravel_index(logical, dims))
    assert md.is_injective()
    assert prod(md.physical_shape) == flat.size
    view = np.lib.stride_tricks.as_strided(
        flat, md.physical_shape, [s * flat.itemsize for s in md.physical_strides]
    )
    assert np.array_equal(view.ravel(), flat)
    assert MemoryDesc(dims, "f32", md.tag) == md


@given(tagged())
def test_physical_shape_is_the_array_of_the_tag(case: tuple[tuple[int, ...], Tag]) -> None:
    dims, tag = case
    md = MemoryDesc(dims, "f32", tag)
    if 1 not in [n // b for n, b in zip(md.padded_dims, md.layout.blocks, strict=True)]:
        assert md.physical_shape == physical(dims, tag).shape


def test_offset_takes_padding_and_refuses_beyond() -> None:
    md = MemoryDesc((2, 17), "f32", "aB16b")
    assert md.offset(1, 31) == 63
    for index in ((2, 0), (0, 32), (-1, 0), (0, -1), (0,), (0, 0, 0), (0, 1.0), (True, 0), ("0", 0)):
        with pytest.raises(InvalidArguments, match="index"):
            md.offset(*index)  # type: ignore[arg-type]
    with pytest.raises(InvalidArguments, match="offset"):
        md.index("0")  # type: ignore[arg-type]


def test_gaps_and_outside_have_no_index() -> None:
    md = MemoryDesc((2, 3), "f32", (6, 1))
    assert [md.index(i) for i in range(-1, 13)] == [
        None, (0, 0), (0, 1), (0, 2), None, None, None, (1, 0), (1, 1), (1, 2), None, None, None, None,
    ]  # fmt: skip


# Sources of any strides


@given(st.data())
def test_reversed_numpy_views_are_described(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple))
    x = np.arange(prod(shape), dtype=np.int32).reshape(shape)
    steps = tuple(slice(None, None, data.draw(st.sampled_from([1, 2, -1, -2]))) for _ in shape)
    view = x[steps].transpose(data.draw(st.permutations(range(x.ndim))))
    start = (view.__array_interface__["data"][0] - x.__array_interface__["data"][0]) // 4
    md = MemoryDesc.from_strides(view.shape, np.int32, [s // 4 for s in view.strides], start)
    flat = x.ravel()
    for index in np.ndindex(*view.shape):
        assert flat[md.offset(*index)] == view[index]
        assert md.index(md.offset(*index)) == index
    low, high = md.extent_range()
    touched = [md.offset(*index) for index in np.ndindex(*view.shape)]
    assert (low, high) == (min(touched), max(touched) + 1)
    assert md.size >= (high - low) * 4
    assert md.is_injective()


def test_sliding_window_is_a_source_only() -> None:
    md = MemoryDesc.from_strides((6, 2), "f32", (1, 2))
    assert md.extent_range() == (0, 8)
    assert md.size == 8 * 4
    assert not md.is_injective()
    assert md.index(7) == (5, 1)
    assert md.index(8) is None


def test_lowest_offset_below_zero_is_refused_with_the_right_offset0() -> None:
    with pytest.raises(InvalidArguments, match="offset0=9"):
        MemoryDesc.from_strides((4,), "f32", (-3,))
    assert MemoryDesc.from_strides((4,), "f32", (-3,), 9).offset(3) == 0
    for bad in ((1.5,), ("x",), (2**63,), (1, 1), None):
        with pytest.raises(InvalidArguments):
            MemoryDesc.from_strides((4,), "f32", bad)  # type: ignore[arg-type]
    for offset0 in (-1, 2**63, True, 2**61):
        with pytest.raises(InvalidArguments):
            MemoryDesc.from_strides((4,), "f32", (1,), offset0)
    assert MemoryDesc.from_strides((), "f32", ()).is_zero()


@given(st.data())
def test_injective_is_what_counting_says(data: st.DataObject) -> None:
    dims = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=4).map(tuple))
    strides = tuple(data.draw(st.integers(-9, 30)) for _ in dims)
    offset0 = -sum(min(0, (n - 1) * s) for n, s in zip(dims, strides, strict=True) if 0 not in dims)
    md = MemoryDesc.from_strides(dims, "u8", strides, offset0)
    offsets = [md.offset(*index) for index in np.ndindex(*dims)]
    assert md.is_injective() == (len(set(offsets)) == len(offsets))
    where = dict(zip(offsets, np.ndindex(*dims), strict=True))
    for offset in range(-2, max(offsets, default=0) + 3):
        found = md.index(offset)
        assert (found is None) == (offset not in where)
        assert found is None or md.offset(*found) == offset


def test_huge_overlapping_strides_are_decided_quickly() -> None:
    assert MemoryDesc.from_strides((2**20, 2**20), "u8", (2**20 - 2, 2**20)).is_injective() is False
    assert MemoryDesc.from_strides((2**20, 2**20), "u8", (2**20 - 1, 2**20 + 1)).is_injective() is True
    assert MemoryDesc.from_strides((2**20, 2**19), "u8", (2**20 - 1, 2**20)).is_injective() is True
    coins = MemoryDesc.from_strides((2**9,) * 6, "u8", (10007, 10009, 10037, 10039, 10061, 10067))
    assert coins.is_injective() is False
    assert coins.index(10006) is None
    assert coins.index(10039 * 7) == (0, 0, 0, 7, 0, 0)


def test_search_among_overlapping_strides_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("restride.desc.layout._MAX_STEPS", 3)
    md = MemoryDesc.from_strides((9,) * 4, "u8", (7, 11, 13, 17))
    assert not md.is_injective()
    with pytest.raises(Unimplemented, match="overlapping"):
        md.index(100)


# Equality, hash, text, storage


def test_strides_of_axes_of_one_element_do_not_count() -> None:
    one, two = MemoryDesc((2, 1, 3), "f32", (3, 3, 1)), MemoryDesc((2, 1, 3), "f32", (3, 77, 1))
    assert one == two
    assert hash(one) == hash(two)
    assert MemoryDesc((1, 3, 1, 1), "f32", "nchw") == MemoryDesc((1, 3, 1, 1), "f32", "nhwc")
    padded = MemoryDesc((1, 3), "f32", "Ab8a")
    assert padded != MemoryDesc((1, 3), "f32", "ab")


def test_every_other_part_counts() -> None:
    base = MemoryDesc((2, 8, 3, 3), "f32", "nchw")
    others = [
        MemoryDesc((2, 8, 3, 3), "bf16", "nchw"),
        MemoryDesc((2, 8, 3, 3), "f32", "nhwc"),
        MemoryDesc((2, 8, 3, 3), "f32", "nChw8c"),
        MemoryDesc((2, 8, 3, 3), "f32", "any"),
        MemoryDesc((2, 8, 9), "f32", "abc"),
        MemoryDesc((2, 7, 3, 3), "f32", base.strides),
        MemoryDesc((3, 8, 3, 3), "f32", "nchw").submemory_desc((2, 8, 3, 3), (1, 0, 0, 0)),
        MemoryDesc(),
    ]
    assert len({base, *others}) == len(others) + 1
    assert base not in others
    assert base != "f32 2x8x3x3 abcd"
    assert base != None  # noqa: E711
    assert MemoryDesc((2, 8, 3, 3), "f32", "aBcd4b4b") != MemoryDesc((2, 8, 3, 3), "f32", "aBcd16b")


def test_descriptor_is_frozen() -> None:
    md = MemoryDesc((2, 3), "f32", "ab")
    for name in ("dims", "_layout", "new"):
        with pytest.raises(AttributeError):
            setattr(md, name, ())
    with pytest.raises(AttributeError):
        del md._layout


@pytest.mark.parametrize(
    ("md", "text", "verbose"),
    [
        (MemoryDesc((2, 17, 7, 7), "f32", "nchw"), "f32 2x17x7x7 abcd", "src:f32::blocked:abcd::f0"),
        (
            MemoryDesc((2, 17, 7, 7), "f32", "nChw16c"),
            "f32 2x17x7x7 aBcd16b",
            "src:f32:p:blocked:aBcd16b::f0",
        ),
        (MemoryDesc((2, 3), "u8", (6, 1)), "u8 2x3 ab strides 6x1", "src:u8::blocked:ab:6x1:f0"),
        (
            MemoryDesc((4, 3), "u8", "ab").submemory_desc((2, 3), (1, 0)),
            "u8 2x3 ab offset0 3",
            "src:u8:0:blocked:ab::f0",
        ),
        (MemoryDesc(), "zero descriptor", "src:undef::undef:::"),
        (MemoryDesc((2, 3), "s8", "any"), "s8 2x3 any", "src:s8::any:::f0"),
        (MemoryDesc((2, RUNTIME_DIM), "f32", "ab"), "f32 2x* ab strides *x1", "src:f32::blocked:*::f0"),
    ],
)
def test_text(md: MemoryDesc, text: str, verbose: str) -> None:
    assert str(md) == text
    assert text in repr(md)
    assert md.verbose_str("src") == verbose


@pytest.mark.parametrize(
    ("dims", "format", "tag"),
    [
        ((1, 3, 1, 1), "nhwc", "acdb"),
        ((1, 3, 1, 1), "nchw", "abcd"),
        ((2, 3, 1, 1), "nhwc", "acdb"),
        ((4, 1), (1, 7), "ab"),
        ((2, 1, 3), (3, 0, 1), "abc"),
        ((3, 4), (0, 1), None),
        ((3, 4), (5, 1), None),
        ((0, 3), "ab", "ab"),
        ((5, 5, 5, 5), "dbac", "dbac"),
        ((2,) * 12, "lkjihgfedcba", "lkjihgfedcba"),
    ],
)
def test_tag_is_the_best_that_builds_the_descriptor(
    dims: tuple[int, ...], format: Any, tag: str | None
) -> None:
    md = MemoryDesc(dims, "f32", format)
    assert md.tag == tag
    assert tag is None or MemoryDesc(dims, "f32", tag) == md
