"""Names of formats that people use, and what is said of those that are none."""

from __future__ import annotations

import pytest

import restride as rs
from restride.desc.tag_names import WELL_KNOWN, tag_hint
from restride.desc.tags import parse_tag
from support.errors import refused


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("chw", "abc"),
        ("hwc", "bca"),
        ("hw", "ab"),
        ("cdhw", "abcd"),
        ("dhwc", "bcda"),
        ("Chw8c", "Abc8a"),
        ("nhw", "abc"),
        ("ncthw", "abcde"),
        ("nthwc", "acdeb"),
        ("ntchw", "acbde"),
        ("thwc", "bcda"),
        ("nlc", "acb"),
        ("bchw", "abcd"),
        ("bhwc", "acdb"),
        ("bthwc", "acdeb"),
        ("blc", "acb"),
        ("channels_last", "axb"),
        ("channels_first", "abx"),
        ("channels_last_3d", "acdeb"),
    ],
)
def test_names_beyond_onednns_are_formats(name: str, base: str) -> None:
    assert str(parse_tag(name)) == base


@pytest.mark.parametrize("name", ["bc", "nch", "bcd", "nhwt"])
def test_letters_that_could_mean_two_things_are_no_name(name: str) -> None:
    with refused("bad format tag"):
        parse_tag(name)


@pytest.mark.parametrize(
    ("text", "ndims", "hint"),
    [
        ("hwc", 4, "did you mean 'nhwc'?"),
        ("nhwc", 3, "did you mean 'nwc' or 'hwc'?"),
        ("nhwc", 5, "did you mean 'ndhwc' or 'nthwc'?"),
        ("hwio", 3, "did you mean 'wio'?"),
        ("nchww", None, "did you mean 'nchw'?"),
        ("n h w c", 4, "did you mean 'nhwc'?"),
        ("nhwq", None, "did you mean 'nchw' or 'nhwc'?"),
        ("chanels_last", None, "did you mean 'channels_last'?"),
        ("channels_last_3d", 4, "did you mean 'channels_last'?"),
        ("channels_lst_3d", 5, "did you mean 'channels_last_3d'?"),
        ("qqq", 3, "a tag looks like"),
    ],
)
def test_the_name_that_was_meant_is_like_it_and_of_the_rank(text: str, ndims: int | None, hint: str) -> None:
    assert tag_hint(text, ndims).startswith(hint)


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("n c h w -> n h w c", "write 'nhwc'"),
        ("b c h w -> b h w c", "write 'bhwc'"),
        ("x y z -> z x y", "write 'cab'"),
        ("rows cols -> cols rows", "write 'ba'"),
        ("n (c k) h w -> n c h w k", "write 'aBcd16b', with the size of k in place of 16"),
        ("n (c 8) h w -> n c h w 8", "write 'aBcd8b'"),
        ("(o j) (i k) -> o i k j", "write 'AB16b16a', with the sizes of k and j in place of 16"),
        ("nchw -> nhwc", "write 'nhwc'"),
        ("nchw->nhwc", "write 'nhwc'"),
        ("b c ... -> b ... c", "write 'axb'"),
        ("b (c k) ... -> b c ... k", "write 'aBx16b', with the size of k in place of 16"),
        ("... c -> c ...", "dims stay as they are"),
        ("... -> ...", "dims stay as they are"),
        ("(n c) h w -> n c h w", "dims stay as they are"),
        ("b c h w -> b (h w) c", "dims stay as they are"),
        ("b c -> b", "dims stay as they are"),
        ("a a -> a a", "dims stay as they are"),
        ("->", "dims stay as they are"),
        ("((-> a", "dims stay as they are"),
    ],
)
def test_a_pattern_of_einops_is_answered_with_the_tag_that_it_means(pattern: str, hint: str) -> None:
    assert tag_hint(pattern).startswith(hint)
    with refused("bad format tag", hint):
        rs.MemoryDesc((2, 3, 4, 5), "f32", pattern)


def test_patterns_mean_what_einops_means_by_them() -> None:
    for pattern in ("a b c d -> d a c b", "n c h w -> n h w c"):
        tag = tag_hint(pattern).split("'")[1]
        before, after = (part.split() for part in pattern.split("->"))
        assert rs.MemoryDesc((2, 3, 4, 5), "f32", tag).outer_order == tuple(map(before.index, after))


@pytest.mark.parametrize("name", [name for name in WELL_KNOWN if name != "any"])
def test_every_name_that_is_suggested_is_one(name: str) -> None:
    assert parse_tag(name)
