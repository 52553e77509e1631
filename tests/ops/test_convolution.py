"""Convolution and deconvolution: every direction in every format, attributes, and what is refused."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import restride as rs
from restride.ops.programs.convolution import Taps, _residues
from support.computed import any_like, computed, elements
from support.convolved import Case, backward_data
from support.errors import refused

CPU = rs.Engine("cpu")
DIRECT = "convolution_direct"
SMALL = Case(2, 1, 20, 24, (6, 7), (3, 3), (1, 1), (0, 0), (1, 1))
OPEN = ("any", "any", "any")
PLAIN = (None, None, None)


def whole(dims: tuple[int, ...], seed: int) -> np.ndarray:
    """Small whole numbers, whose sums of products are exact."""
    return np.random.default_rng(seed).integers(-3, 4, dims).astype(np.float32)


def _forward_pd(case, formats, engine=CPU, bias=None, attr=None, kind=rs.ConvolutionForward):
    src, weights, dst = case.descs(formats)
    alg = DIRECT if kind is rs.ConvolutionForward else f"de{DIRECT}"
    return kind.PrimitiveDesc(engine, "forward_training", alg, src, weights, bias, dst, *case.window, attr)


# --- formats and attributes ---------------------------------------------------------------------------------


def test_any_becomes_the_format_that_kernels_want():
    pd = _forward_pd(SMALL, OPEN)
    block = pd.src_desc().inner_blks[0]
    assert block in (8, 16)
    assert pd.src_desc().tag == pd.dst_desc().tag == f"aBcd{block}b"
    assert pd.weights_desc().tag == f"ABcd{block}b{block}a"
    assert pd.impl_info_str.endswith(":contraction")
    assert "tiles of" in pd._implementation().why


def test_plain_tensors_are_moved_into_formats_with_vectors_and_back():
    pd = _forward_pd(SMALL, PLAIN)
    assert pd.src_desc().tag == "abcd"
    assert pd.impl_info_str.endswith("+contraction")
    assert pd.query_s64("memory_consumption_s64") > 0


@pytest.mark.parametrize(("inputs", "outputs"), [(3, 16), (20, 30), (32, 20), (64, 64)])
@pytest.mark.parametrize("data_type", ["f32", "bf16"])
def test_gradients_of_weights_are_sums_in_registers_whatever_the_channels(inputs, outputs, data_type):
    case = Case(2, 1, inputs, outputs, (9, 11), (3, 3), (2, 1), (0, 0), (1, 1))
    descs = case.descs(OPEN, data_type)
    pd = rs.ConvolutionBackwardWeights.PrimitiveDesc(CPU, DIRECT, *descs, *case.window)
    assert pd.impl_info_str.endswith("contraction")


# --- what is refused ----------------------------------------------------------------------------------------

SRC, WEIGHTS, DST = SMALL.descs(OPEN)


def _call(
    src=SRC, weights=WEIGHTS, dst=DST, strides=(1, 1), dilates=None, before=(1, 1), behind=(1, 1), **more
):
    args = ("forward_training", DIRECT, src, weights, None, dst, strides, dilates, before, behind)
    return rs.ConvolutionForward.PrimitiveDesc(CPU, *args, **more)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ({"strides": (1,)}, "2 spatial dims"),
        ({"strides": (0, 1)}, "below 1"),
        ({"dilates": (-1, 0)}, "below 0"),
        ({"before": "ab"}, "2 spatial dims"),
        ({"before": (0, 1)}, "give 5 windows, not 6"),
        ({"dst": rs.MemoryDesc((2, 24, 6, 8), "f32", "any")}, "not 8"),
        ({"dst": rs.MemoryDesc((3, 24, 6, 7), "f32", "any")}, "batches are 2 and 3"),
        ({"dst": rs.MemoryDesc((2, 25, 6, 7), "f32", "any")}, "produce 24, not 20 and 25"),
        ({"src": rs.MemoryDesc((2, 21, 6, 7), "f32", "any")}, "take 20 channels"),
        ({"src": rs.MemoryDesc((2, 20), "f32", "any")}, "one to three spatial dims"),
        ({"weights": rs.MemoryDesc((24, 20), "f32", "any")}, "ranks are 4, 2 and 4"),
        ({"weights": rs.MemoryDesc((3, 8, 5, 3, 3), "f32", "any")}, "take 15 channels and produce 24"),
        ({"weights": rs.MemoryDesc((4, 8, 5, 3, 3), "f32", "any")}, "take 20 channels and produce 32"),
        ({"before": (1 << 62, 1)}, "windows, not 6"),
        ({"strides": (1 << 62, 1)}, "give 1 windows, not 6"),
        ({"dilates": (1 << 62, 0)}, "give 0 windows, not 6"),
    ],
    ids=str,
)
def test_dims_that_do_not_fit_are_refused(call, words):
    mds = call.get("src", SRC), call.get("weights", WEIGHTS), call.get("dst", DST)
    # What is no window for any tensor names none.
    is_about_window = "spatial dims" in words or words.startswith("below")
    with refused(words, where=() if is_about_window else mds):
        _call(**call)


def test_results_past_what_can_be_addressed_are_refused():
    mds = [
        rs.MemoryDesc(dims, "f32", "any")
        for dims in ((1 << 20, 1 << 20, 1, 1), (1 << 30, 1 << 20, 1, 1), (1 << 20, 1 << 30, (1 << 14) + 1, 1))
    ]
    with refused("below 2**63 bytes"):
        _call(*mds, before=(1 << 13, 0), behind=(1 << 13, 0))


@pytest.mark.parametrize("format", ["OIhw4i16o4i", "any", None])
def test_bytes_with_signs_need_no_compensation_of_the_caller(format):
    """The lowest bytes, which an instruction for bytes without a sign would take for others."""
    dims = (1, 16, 5, 9), (16, 16, 3, 3), (1, 16, 5, 9)
    mds = [
        rs.MemoryDesc(each, kind, tag)
        for each, kind, tag in zip(dims, ("s8", "s8", "s32"), (None, format, None), strict=True)
    ]
    window = (1, 1), (0, 0), (1, 1), (1, 1)
    pd = rs.ConvolutionForward.PrimitiveDesc(CPU, "forward_inference", DIRECT, *mds, *window)
    values = {
        arg: np.full(each, -128.0) for arg, each in zip((rs.ARG_SRC, rs.ARG_WEIGHTS), dims[:2], strict=True)
    }
    made = elements(computed(rs.ConvolutionForward, pd, CPU, values, rs.ARG_DST)[rs.ARG_DST])
    rows, columns = (np.minimum(np.minimum(np.arange(n) + 2, n - np.arange(n) + 1), 3) for n in (5, 9))
    taps = rows[:, None] * columns
    np.testing.assert_array_equal(made, np.broadcast_to(16 * 128 * 128 * taps, dims[2]))


def test_types_attributes_and_hints_that_do_not_fit_are_refused():
    with refused("bytes by bytes in forward steps", kind=rs.Unimplemented):
        _call(src=rs.MemoryDesc(SRC.dims, "u8", "any"))
    with refused("bias is"):
        _forward_pd(SMALL, OPEN, bias=rs.MemoryDesc((25,), "f32", "a"))
    attr = rs.PrimitiveAttr()
    attr.set_scales(rs.ARG_WEIGHTS, 2, np.ones(20, np.float32))
    with refused("masks must be 0 or 1", kind=rs.Unimplemented):
        _call(attr=attr)
    attr = rs.PrimitiveAttr()
    attr.set_zero_points(rs.ARG_SRC, 0, [3])
    with refused("zero points of src, which is f32"):
        _call(attr=attr)
    other = _forward_pd(SMALL._replace(batch=3), OPEN)
    with refused("hint is for another problem"):
        rs.ConvolutionBackwardData.PrimitiveDesc(CPU, DIRECT, SRC, WEIGHTS, DST, *SMALL.window, other)
    with refused("no such algorithm"):
        rs.ConvolutionForward.PrimitiveDesc(
            CPU, "forward", "convolution_fft", SRC, WEIGHTS, DST, *SMALL.window
        )
    assert not _call(strides=(7, 7), allow_empty=True)


def test_a_gradient_of_a_format_of_its_own_is_written_there():
    y, w = whole(SMALL.dims[2], 1), whole(SMALL.dims[1], 2)
    strides = (2000, 90, 13, 1)
    md = rs.MemoryDesc(SMALL.dims[0], "f32", strides)
    pd = rs.ConvolutionBackwardData.PrimitiveDesc(
        CPU, DIRECT, md, any_like(WEIGHTS), any_like(DST), *SMALL.window
    )
    values = {rs.ARG_DIFF_DST: y, rs.ARG_WEIGHTS: w}
    made = computed(rs.ConvolutionBackwardData, pd, CPU, values, rs.ARG_DIFF_SRC)
    assert made[rs.ARG_DIFF_SRC].desc == md
    np.testing.assert_array_equal(elements(made[rs.ARG_DIFF_SRC]), backward_data(SMALL, y, w))


def test_a_source_is_never_the_destination():
    md = rs.MemoryDesc((1, 16, 5, 5), "f32", "nhwc")
    weights = rs.MemoryDesc((16, 16, 3, 3), "f32", "any")
    pd = rs.ConvolutionForward.PrimitiveDesc(
        CPU, "forward_inference", DIRECT, md, weights, md, [1, 1], [1, 1], [1, 1]
    )
    both, held = rs.Memory(md, CPU), rs.Memory(pd.weights_desc(), CPU)
    both.data[:] = 1.0
    with refused("source and destination overlap"):
        rs.ConvolutionForward(pd).execute(
            rs.Stream(CPU), {rs.ARG_SRC: both, rs.ARG_WEIGHTS: held, rs.ARG_DST: both}
        )
    assert (both.data == 1.0).all()
    square = rs.MemoryDesc((8, 8), "f32", "ab")
    product = rs.Matmul(rs.Matmul.PrimitiveDesc(CPU, square, square, square))
    first, second = rs.Memory(square, CPU), rs.Memory(square, CPU)
    with refused("source and destination overlap"):
        product.execute(rs.Stream(CPU), {rs.ARG_SRC: first, rs.ARG_WEIGHTS: second, rs.ARG_DST: second})


def _by_definition(dim):
    """The taps of each position of x along a dim, one after the other."""
    for at in range(dim.window):
        yield [k for k in range(dim.kernel) if (at + dim.padding - k * dim.dilation) % dim.stride == 0]


def test_residues_of_strides_have_their_taps_and_runs_without_are_one():
    for stride, window, kernel, padding, dilation in product(
        range(1, 7), (0, 1, 5, 13), (1, 3), (0, 2), (1, 3)
    ):
        dim = Taps(window, 1, kernel, stride, dilation, padding)
        found = [[] for _ in range(window)]
        for residue in _residues(dim):
            for first in range(residue.first, residue.first + residue.count):
                assert residue.positions == len(range(first, window, stride))
                for at in range(first, window, stride):
                    found[at] = [residue.tap - t * residue.tap_step for t in range(residue.taps)][::-1]
        assert found == list(_by_definition(dim))
    assert len(list(_residues(Taps(2**41, 2, 2, 2**40, 1, 0)))) == 3
