"""Recommended formats: the same that a primitive chooses for "any"."""

from __future__ import annotations

import pytest

import restride as rs
from restride.ops import product
from restride.targets.isa import Isa
from support.errors import refused
from support.primitives import NCHW, desc


@pytest.mark.parametrize(
    ("level", "tag"), [("avx512", "nChw16c"), ("avx2", "nChw8c"), ("sse41", "nChw8c"), ("neon", "nChw8c")]
)
def test_wide_vectors_get_blocks_of_16_others_of_8(monkeypatch, level, tag):
    monkeypatch.setattr(product, "host_isa", lambda: Isa.for_name(level))
    for format in ("nchw", "nhwc", "any", "nChw4c"):
        md = rs.recommended_desc(desc((2, 17, 3, 5), "bf16", format))
        assert md == desc((2, 17, 3, 5), "bf16", tag)


def _convolution(
    types: tuple[str, str, str], source: int, outputs: int
) -> rs.ConvolutionForward.PrimitiveDesc:
    """A convolution of a network: 3 by 3, padded, with strides, all formats its own."""
    dims = (2, source, 14, 14), (outputs, source, 3, 3), (2, outputs, 7, 7)
    tensors = [rs.MemoryDesc(each, kind, "any") for each, kind in zip(dims, types, strict=True)]
    head = rs.Engine("cpu"), "forward_training", "convolution_auto", *tensors[:2], None, tensors[2]
    return rs.ConvolutionForward.PrimitiveDesc(*head, [2, 2], [0, 0], [1, 1], [1, 1])


@pytest.mark.parametrize("channels", [3, 17, 64])
@pytest.mark.parametrize(
    "types", [("f32",) * 3, ("bf16",) * 3, ("u8", "s8", "u8"), ("s8", "s8", "f32")], ids=str
)
def test_it_is_what_a_convolution_of_these_channels_chooses(types, channels):
    pd = _convolution(types, channels, 32)
    src, weights, dst = (
        rs.MemoryDesc(md.dims, md.data_type) for md in (pd.src_desc(), pd.weights_desc(), pd.dst_desc())
    )
    assert rs.recommended_desc(src) == pd.src_desc()
    assert rs.recommended_desc(dst, "convolution", "dst") == pd.dst_desc()
    # Weights of s8 are those of a source of u8 and of s8.
    assert rs.recommended_desc(weights, "convolution", "weights") == pd.weights_desc()


def test_it_is_what_an_inner_product_and_a_matmul_choose():
    engine, open_descs = (
        rs.Engine("cpu"),
        [rs.MemoryDesc(each, "bf16", "any") for each in ((4, 40), (24, 40), (4, 24))],
    )
    src, weights, dst = open_descs
    product = rs.InnerProductForward.PrimitiveDesc(engine, "forward_inference", src, weights, None, dst)
    assert rs.recommended_desc(src) == product.src_desc()
    assert rs.recommended_desc(weights, "inner_product", "weights") == product.weights_desc()
    assert rs.recommended_desc(dst, "inner_product", "dst") == product.dst_desc()
    table = rs.MemoryDesc((40, 24), "bf16", "any")
    matmul = rs.Matmul.PrimitiveDesc(engine, src, table, None, dst)
    assert rs.recommended_desc(table, "matmul", "weights") == matmul.weights_desc()
    assert rs.recommended_desc(src, "matmul") == matmul.src_desc()


@pytest.mark.parametrize("dims", [(2, 17), (2, 17, 4), (2, 17, 3, 5), (2, 17, 1, 3, 5), (1,) * 12], ids=len)
def test_tensors_of_every_rank_with_channels_have_one(dims):
    md = rs.recommended_desc(desc(dims, "f32", "any"))
    assert (md.dims, md.data_type, md.format_kind) == (dims, rs.f32, "blocked")


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


@pytest.mark.parametrize("words", [("softmax",), (5,), ("matmul", "bias"), ("matmul", None)], ids=str)
def test_words_that_name_no_primitive_or_argument_are_refused(words):
    with refused("recommended_desc"):
        rs.recommended_desc(NCHW, *words)


def test_a_type_that_the_primitive_does_not_read_is_refused_by_it():
    with pytest.raises(rs.Unimplemented):
        rs.recommended_desc(desc((2, 16, 3, 3), "s32", "any"))
    assert rs.recommended_desc(desc((2, 16, 3, 3), "s32", "any"), "convolution", "dst").inner_blks


@pytest.mark.parametrize("outputs", [0, 1, 17])
@pytest.mark.parametrize("inputs", [0, 1, 17])
def test_weights_of_no_channels_have_one_too(outputs, inputs):
    md = desc((outputs, inputs, 3, 3), "f32", "any")
    assert rs.recommended_desc(md, "convolution", "weights").dims == md.dims
