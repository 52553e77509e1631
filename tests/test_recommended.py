"""The blocked format that suits a machine (P11)."""

from __future__ import annotations

import pytest

import restride as rs
from restride.primitives import recommended
from restride.targets.isa import Isa
from support.errors import refused
from support.primitives import NCHW, desc


@pytest.mark.parametrize(
    ("level", "tag"), [("avx512", "nChw16c"), ("avx2", "nChw8c"), ("sse41", "nChw8c"), ("neon", "nChw8c")]
)
def test_wide_vectors_get_blocks_of_16_others_of_8(monkeypatch, level, tag):
    monkeypatch.setattr(recommended, "host_isa", lambda: Isa.for_name(level))
    for format in ("nchw", "nhwc", "any", "nChw4c"):
        md = rs.recommended_desc(desc((2, 17, 3, 5), "bf16", format))
        assert md == desc((2, 17, 3, 5), "bf16", tag)


@pytest.mark.parametrize("dims", [(2, 17), (2, 17, 4), (2, 17, 3, 5), (2, 17, 1, 3, 5), (1,) * 12], ids=len)
def test_tensors_of_every_rank_with_channels_have_one(dims):
    md = rs.recommended_desc(desc(dims, "f32", "any"))
    assert (md.dims, md.data_type, md.inner_idxs) == (dims, rs.f32, (1,))
    assert md.inner_blks[0] in (8, 16)


@pytest.mark.parametrize(
    "md",
    [
        rs.MemoryDesc(),
        desc((5,), "f32", "a"),
        desc((2, rs.RUNTIME_DIM), "f32", "ab"),
        None,
        "nchw",
        NCHW.dims,
    ],
    ids=range(6),
)
def test_without_channels_there_is_nothing_to_recommend(md):
    with refused("recommended_desc"):
        rs.recommended_desc(md)
