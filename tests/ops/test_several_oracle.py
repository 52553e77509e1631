"""Concat and sum beside a real oneDNN: the same bits wherever it implements the case."""

from __future__ import annotations

from collections import Counter

import hypothesis
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import restride as rs
from restride.errors import Status
from restride_bench.onednn_library import OneDNNError
from support.by_offset import positions
from support.onednn_several import Several, SeveralOneDNN

pytestmark = pytest.mark.peer

_TYPES = ("f32", "bf16", "f16", "s32", "s8", "u8")
_TAGS = ("abcd", "acdb", "aBcd8b", "aBcd16b", "bacd", "ABcd16a16b")
_SCALES = (1.0, 0.5, -2.0, 3.7, 0.1)
_calm = settings(max_examples=150, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def library() -> SeveralOneDNN:
    try:
        return SeveralOneDNN()
    except OneDNNError as error:
        pytest.skip(str(error))


@st.composite
def _concats(draw):
    axis = draw(st.integers(0, 3))
    dims = [draw(st.sampled_from((1, 2, 3, 5, 16, 17))) for _ in range(4)]
    parts = draw(st.lists(st.sampled_from((1, 3, 5, 8, 16, 32, 33)), min_size=1, max_size=4))
    shapes = [(*dims[:axis], n, *dims[axis + 1 :]) for n in parts]
    whole = (*dims[:axis], sum(parts), *dims[axis + 1 :])
    kind = draw(st.sampled_from(_TYPES))
    srcs = [(shape, kind, draw(st.sampled_from(_TAGS))) for shape in shapes]
    to = draw(st.sampled_from((kind, kind, "f32", "s8")))
    scales = [draw(st.sampled_from(_SCALES)) for _ in srcs] if draw(st.booleans()) else []
    return axis, srcs, (whole, to, draw(st.sampled_from(_TAGS))), scales


@st.composite
def _sums(draw):
    dims = tuple(draw(st.sampled_from((1, 2, 3, 5, 16, 17, 33))) for _ in range(4))
    kind, count = draw(st.sampled_from(_TYPES)), draw(st.integers(1, 6))
    tag = draw(st.sampled_from(_TAGS))
    srcs = [(dims, kind, tag if draw(st.booleans()) else draw(st.sampled_from(_TAGS))) for _ in range(count)]
    to = draw(st.sampled_from((kind, kind, "f32")))
    return srcs, (dims, to, tag), [draw(st.sampled_from(_SCALES)) for _ in srcs]


def test_concat_equals_onednn(library, capsys):
    count: Counter[str] = Counter()

    @hypothesis.seed(1)
    @_calm
    @given(_concats())
    def check(case):
        axis, srcs, dst, scales = case
        made = _made(count, lambda: library.concat(axis, *_theirs(library, srcs, dst), scales))
        if made is None:
            return
        attr = rs.PrimitiveAttr()
        for i, scale in enumerate(scales):
            attr.set_scales(rs.ARG_MULTIPLE_SRC + i, 0, [scale])
        pd = rs.Concat.PrimitiveDesc(rs.Engine("cpu"), axis, *_ours(srcs, dst), attr)
        _compare(library, made, rs.Concat(pd), srcs, dst)

    check()
    with capsys.disabled():
        print(f"\nconcat: {dict(count)}")
    assert count.total() - count["unimplemented"] >= 50


def test_sum_equals_onednn(library, capsys):
    count: Counter[str] = Counter()

    @hypothesis.seed(2)
    @_calm
    @given(_sums())
    def check(case):
        srcs, dst, scales = case
        theirs, target = _theirs(library, srcs, dst)
        made = _made(count, lambda: library.sum(scales, theirs, target))
        if made is None:
            return
        ours, ours_dst = _ours(srcs, dst)
        pd = rs.Sum.PrimitiveDesc(rs.Engine("cpu"), scales, ours, ours_dst)
        _compare(library, made, rs.Sum(pd), srcs, dst)

    check()
    with capsys.disabled():
        print(f"\nsum: {dict(count)}")
    assert count.total() - count["unimplemented"] >= 50


def _made(count, make) -> Several | None:
    try:
        made = make()
    except OneDNNError as error:
        if error.status is not Status.unimplemented:
            raise
        count["unimplemented"] += 1
        return None
    count[made.impl] += 1
    return made


def _theirs(library, srcs, dst):
    return [library.desc(*src) for src in srcs], library.desc(*dst)


def _ours(srcs, dst):
    return [rs.MemoryDesc(*src) for src in srcs], rs.MemoryDesc(*dst)


def _compare(library, made, ours, srcs, dst) -> None:
    rng, engine = np.random.default_rng(7), rs.Engine("cpu")
    mds, target = _ours(srcs, dst)
    sources = [_filled(md, rng) for md in mds]
    wanted, got = (np.full(target.size, 0xFF, np.uint8) for _ in range(2))
    places = positions(target, target.dims)
    memories = [library.memory(library.desc(*src), data) for src, data in zip(srcs, sources, strict=True)]
    made.bind(memories, library.memory(library.desc(*dst), wanted))()
    memories = [rs.Memory(md, engine, data) for md, data in zip(mds, sources, strict=True)]
    ours.execute(rs.Stream(engine), memories, rs.Memory(target, engine, got))
    # Elements alone: oneDNN multiplies its padding by a negative scale, to -0.0 (N14).
    values = [data.view(target.data_type.numpy)[places] for data in (got, wanted)]
    np.testing.assert_array_equal(*values, err_msg=made.impl, strict=True)


def _filled(md: rs.MemoryDesc, rng: np.random.Generator) -> np.ndarray:
    """Small numbers, some of them ties and beyond the range of bytes; zero padding."""
    data = np.zeros(md.size, np.uint8)
    view = data.view(md.data_type.numpy)
    values = rng.integers(-600, 600, md.nelems) / (1 if md.data_type.is_integral else 4)
    places = positions(md, md.dims).ravel()
    limits = np.iinfo(view.dtype) if md.data_type.is_integral else None
    view[places] = np.clip(values, limits.min, limits.max) if limits else values
    return data


_CHOICES = (
    "abcd:32 acdb:32",
    "acdb:32 abcd:32 abcd:32",
    "aBcd16b:32 abcd:32 abcd:32",
    "aBcd8b:32 aBcd16b:32 aBcd16b:32",
    "aBcd16b:5 aBcd16b:16 acdb:4",
    "aBcd16b:16 aBcd8b:5 acdb:4",
    "aBcd16b:5 aBcd16b:16 aBcd16b:4",
    "acdb:4 abcd:3 aBcd16b:5",
    "bacd:5 acdb:4",
    "ABcd16a16b:16 abcd:3",
)


@pytest.mark.parametrize("case", _CHOICES)
def test_formats_are_those_that_onednn_chooses(library, case):
    tags, extents = zip(*(part.split(":") for part in case.split()), strict=True)
    engine, ones = rs.Engine("cpu"), [1.0] * len(tags)
    parts = [((32, int(n), 5, 7), "f32", tag) for n, tag in zip(extents, tags, strict=True)]
    joined = library.concat(1, [library.desc(*part) for part in parts], None)
    mine = rs.Concat.PrimitiveDesc(engine, 1, [rs.MemoryDesc(*part) for part in parts])
    _check_same(joined, mine.dst_desc())
    parts = [((32, 17, 5, 7), "f32", tag) for tag in tags]
    added = library.sum(ones, [library.desc(*part) for part in parts], None)
    mine = rs.Sum.PrimitiveDesc(engine, ones, [rs.MemoryDesc(*part) for part in parts])
    _check_same(added, mine.dst_desc())


def _check_same(made: Several, md: rs.MemoryDesc) -> None:
    they = made.dst.blocking
    theirs = they.dims, they.strides, they.inner_blks, they.inner_idxs
    assert theirs == (md.dims, md.strides, md.inner_blks, md.inner_idxs)
