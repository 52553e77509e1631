"""Layouts of descriptors, arrays and patterns of einops: the same elements at the same places."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import restride as rs
from restride.layouts import Layout, from_array, from_desc, from_einops, to_desc, to_einops, to_strides
from support.errors import refused
from support.layouts import layouts

TAGS = (
    *("nchw", "nhwc", "chwn", "nChw16c", "nChw4c", "NChw16n16c", "OIhw16i16o", "OIhw4i16o4i", "OIhw8o16i2o"),
    *("aBcd8b", "ABcd4a8b2a", "aB2@1b4@2bcd", "AB8@1b4@2a2b"),
)


@given(st.sampled_from(TAGS), st.lists(st.integers(1, 40), min_size=4, max_size=4))
def test_a_descriptor_and_its_layout_have_the_same_offsets(tag: str, dims: list[int]) -> None:
    try:
        md = rs.MemoryDesc(
            dims[:2] if tag.startswith("AB8@") else (*dims[:2], *(d % 3 + 1 for d in dims[2:])), "f32", tag
        )
    except rs.InvalidArguments:
        return
    layout = from_desc(md)
    back = to_desc(layout, "f32", md.dims)
    assert (back.dims, back.padded_dims, back.size) == (md.dims, md.padded_dims, md.size)
    for index in np.random.default_rng(1).integers(0, md.padded_dims, (40, md.ndims)).tolist():
        assert layout(*index) == md.offset(*index) == back.offset(*index)


def test_descriptors_of_blocks_are_known_again() -> None:
    for tag, dims in (("nChw16c", (2, 20, 3, 3)), ("OIhw16i16o", (10, 20, 3, 3)), ("nhwc", (2, 3, 4, 5))):
        md = rs.MemoryDesc(dims, "bf16", tag)
        assert to_desc(from_desc(md), "bf16", dims) == md
    assert (
        str(from_desc(rs.MemoryDesc((2, 20, 3, 3), "f32", "nChw16c"))) == "(2,(16,2),3,3):(288,(1,144),48,16)"
    )
    window = rs.MemoryDesc((6, 8), "f32").submemory_desc((2, 3), (1, 2))
    assert (str(from_desc(window)), window.offset0) == ("(2,3):(8,1)", 10)
    assert to_desc("(4,8):(8,1)", "s4").tag == "ab"


@given(layouts(is_nested=True))
def test_a_layout_is_a_descriptor_of_its_offsets_or_none(a: Layout) -> None:
    try:
        md = to_desc(a, "f32")
    except rs.Error:
        return
    grid = np.ndindex(*md.dims)
    assert [md.offset(*at) for at in grid] == a.offsets().reshape(md.dims, order="F").ravel().tolist()


def test_arrays_have_layouts_and_layouts_strides() -> None:
    x = np.arange(60.0).reshape(3, 4, 5)
    for view in (x, x.T, x[:, 1:3, ::2], x[::-1], np.broadcast_to(x[0], (2, 4, 5)), x[0, 0]):
        layout = from_array(view)
        assert to_strides(layout, view.itemsize) == (view.shape, view.strides)
    blocked = Layout("((4,2),3):((1,12),4)")
    shape, strides = to_strides(blocked.flatten(), 8)
    tiles = np.lib.stride_tricks.as_strided(x, shape, strides)
    assert tiles.ravel(order="F").tolist() == x.ravel()[blocked.offsets()].tolist()


def test_dims_of_xarray_name_the_modes() -> None:
    class DataArray:  # the attributes of xarray's
        dims = ("x", "time", "y")
        data = np.zeros((2, 3, 4)).transpose(2, 0, 1)

    layout = from_array(DataArray())
    assert (str(layout), layout.names) == ("(4,2,3):(1,12,4)", ("x", "time", "y"))
    assert layout["time", "y", "x"] == Layout((2, 3, 4), (12, 4, 1))


PATTERNS: list[tuple[str, tuple[int, ...], dict[str, int], Any]] = [
    (
        "b (h p) w -> b w h p",
        (2, 12, 5),
        {"p": 4},
        lambda x: x.reshape(2, 3, 4, 5).transpose(0, 3, 1, 2),
    ),
    ("a b c -> c (a b)", (2, 3, 4), {}, lambda x: x.reshape(6, 4).T),
    (
        "b c (h p) (w q) -> b (h w) (c p q)",
        (2, 3, 4, 6),
        {"p": 2, "q": 3},
        lambda x: x.reshape(2, 3, 2, 2, 2, 3).transpose(0, 2, 4, 1, 3, 5).reshape(2, 4, 18),
    ),
    ("... c -> c ...", (2, 3, 4), {}, lambda x: x.transpose(2, 0, 1)),
    ("a 1 b -> b 1 (a)", (2, 1, 4), {}, lambda x: x.transpose(2, 1, 0)),
    (
        "a b -> a r b (s)",
        (2, 3),
        {"r": 2, "s": 3},
        lambda x: np.broadcast_to(x[:, None, :, None], (2, 2, 3, 3)),
    ),
    ("a () -> () a", (3, 1), {}, lambda x: x.T),
    ("a b -> b a 3", (2, 4), {}, lambda x: np.broadcast_to(x.T[..., None], (4, 2, 3))),
]


@pytest.mark.parametrize(("pattern", "dims", "sizes", "read"), PATTERNS, ids=[each[0] for each in PATTERNS])
def test_a_pattern_reads_what_einops_reads(
    pattern: str, dims: tuple[int, ...], sizes: dict[str, int], read: Any
) -> None:
    x = np.arange(np.prod(dims)).reshape(dims)
    expected = read(x)
    layout = from_einops(pattern, dims, **sizes)
    assert tuple(mode.size for mode in layout) == expected.shape
    assert [layout(*at) for at in np.ndindex(expected.shape)] == expected.ravel().tolist()
    with contextlib.suppress(ImportError):
        einops = importlib.import_module("einops")
        assert (einops.repeat(x, pattern, **sizes) == expected).all()


def test_a_layout_is_a_pattern_from_its_memory() -> None:
    layout = from_desc(rs.MemoryDesc((2, 32, 3, 1), "f32", "nChw16c"))
    pattern, sizes = to_einops(layout)
    assert (pattern, sizes) == ("(a0 b1 c0 b0) -> a0 (b1 b0) c0 1", {"a0": 2, "b0": 16, "b1": 2, "c0": 3})
    assert from_einops(pattern, (192,), **sizes) == layout
    assert to_einops("1:0") == ("() -> 1", {})


OF_EINOPS = [
    *("", "a", "a->b->c", "a a -> a", "a b -> a", "a b -> a b b", "a (b -> a b", "a b ->", "a -> a b c"),
    *(
        "(a b) c -> a b c",
        "a b c -> c b a",
        "a b) -> a b",
        "a-b -> a b",
        "1 b -> b 1",
        "3 b -> b 3",
        "a (b ...) -> a b ...",
        "\x1b -> a",
        "a" * 2000,
    ),
]
REFUSED = [
    *(lambda p=p: from_einops(p, (2, 3)) for p in (*OF_EINOPS, None, 5, b"a b -> b a")),
    *(
        lambda s=s: from_einops("(a b) c -> c b a", (2, 3), **s)
        for s in ({"a": 0}, {"a": 3}, {"a": -1}, {"z": 2, "a": 1})
    ),
    *(
        lambda s=s: from_einops("(a b) c -> c b a", (2, 3), **s)
        for s in ({"a": "x"}, {"a": 1.5}, {"a": -1, "b": -2})
    ),
    lambda: from_einops("a b -> b a r", (2, 3), r=-1),
    lambda: from_einops("a b -> b a", (2, 0)),
    lambda: from_einops("a b -> b a", None),
    *(lambda x=x: from_desc(x) for x in (None, rs.MemoryDesc(), rs.MemoryDesc((2, 3), "f32", "any"))),
    *(lambda d=d: from_desc(rs.MemoryDesc(d, "f32")) for d in ((0, 3), (rs.onednn.RUNTIME_DIM, 3))),
    *(
        lambda d=d: to_desc("(20,(16,2)):(32,(1,16))", "f32", d)
        for d in ((20,), (21, 32), (20, 33), "x", (20, 0))
    ),
    *(
        lambda t=t: to_desc(t, "f32")
        for t in ("():()", "((2,2),2):((4,16),1)", "4:-1", None, "((2,2),3):((3,8),2)")
    ),
    lambda: to_desc("4", "f33"),
    lambda: to_desc((1,) * 20, "f32"),
    lambda: to_desc(Layout(2**62, 8), "f64"),
    *(lambda x=x: from_array(x) for x in (None, [1], np.zeros((0, 2)), np.zeros(4, "i1,i2")["f1"], 5)),
    lambda: to_strides("((2,2),3):((1,6),2)"),
    lambda: to_strides("4", "x"),
    lambda: to_einops("4:2"),
    lambda: to_einops(None),
]


@pytest.mark.parametrize("make", REFUSED, ids=range(len(REFUSED)))
def test_what_has_no_layout_is_refused(make: Any) -> None:
    with refused():
        make()
