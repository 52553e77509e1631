"""Products by quantized weights are those of the real numbers that these stand for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import restride as rs
from restride.ops import matmul
from restride.targets.cpu_kernels import lower_contraction
from restride.targets.isa import CacheSizes, Isa
from restride.targets.jit import assembly
from support.errors import refused

RNG = np.random.default_rng(5)
WAYS = [
    {"dtype": "s8", "group": 64},
    {"dtype": "u8", "group": 32, "symmetric": False},
    {"dtype": "s4", "group": 32, "scale_type": "bf16"},
    {"dtype": "u4", "group": (32, 1), "symmetric": False},
    {"dtype": "u4", "group": (32, 16), "scale_type": "f16"},
    {"dtype": "f8_e4m3", "group": (128, 128)},
    {"dtype": "mxfp4"},
    {"dtype": "mxfp8"},
    {"dtype": "nvfp4"},
]


@pytest.fixture(autouse=True)
def same_numbers():
    """The numbers of a test do not depend on which tests ran before it."""
    RNG.bit_generator.state = np.random.default_rng(5).bit_generator.state


def numbers(*dims):
    return RNG.standard_normal(dims).astype(np.float32)


@pytest.mark.parametrize("rows", [(1,), (5,), (2, 3)])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way["dtype"])
def test_the_product_is_that_of_the_numbers(way, rows):
    x, weights, bias = numbers(*rows, 256), numbers(256, 128), numbers(128)
    q = rs.quantize(weights, **way)
    wanted = x.astype(np.float64) @ q.dequantize().to_numpy() + bias
    np.testing.assert_allclose(rs.matmul(x, q, bias), wanted, atol=1e-4)
    out = np.empty((*rows, 128), np.float32)
    assert rs.matmul(x, q, bias, out=out) is out
    np.testing.assert_allclose(out, wanted, atol=1e-4)


def test_weights_of_other_scales_are_another_product():
    x, weights = numbers(4, 64), numbers(64, 32)
    for group in (16, 32):
        for factor in (1.0, 3.0):
            q = rs.quantize(factor * weights, "s8", group=group)
            np.testing.assert_allclose(rs.matmul(x, q), x @ q.dequantize().to_numpy(), atol=1e-4)


def test_tensors_of_torch_are_multiplied_too():
    torch = pytest.importorskip("torch")
    x, q = numbers(3, 64), rs.quantize(numbers(64, 32), "s8", group=32)
    found = rs.matmul(torch.from_numpy(x), q)
    assert isinstance(found, torch.Tensor)
    np.testing.assert_array_equal(found.numpy(), rs.matmul(x, q))


def test_weights_that_do_not_fit_are_refused():
    x, q = numbers(3, 64), rs.quantize(numbers(64, 32), "u8", group=32)
    with refused("dims do not fit"):
        rs.matmul(x[:, :63], q)
    other = rs.quantize(numbers(64, 32), "s8", group=16)
    with refused("dequantize()", kind=rs.Unimplemented):
        rs.matmul(x, rs.QuantizedTensor(q.values, q.scale, minimum=other.scale))
    with refused("dequantize()", kind=rs.Unimplemented):
        rs.pack_weights(q, "convolution")
    with refused("fpmath_mode"):
        rs.matmul(x, q, fpmath_mode="f16")


BY_ROWS = [
    *({"dtype": name, "axis": 0, "group": n} for name in ("s4", "u4", "s8", "u8") for n in (16, 32, 256)),
    *({"dtype": name, "axis": 0, "group": 64, "symmetric": False} for name in ("u4", "u8")),
    {"dtype": "s4", "axis": 0, "group": 48, "scale_type": "f16"},
    {"dtype": "u4", "axis": 0, "group": 0, "scale_type": "bf16"},
    {"dtype": "f8_e4m3", "axis": 0, "group": 32},
    {"dtype": "f4_e2m1", "axis": 0, "group": 32, "scale_type": "e8m0"},
    {"dtype": "f4_e3m0", "axis": 0, "group": 16, "scale_type": "f8_e4m3"},
    {"dtype": "nf4", "axis": 0, "group": 64},
]
BLOCKS = [
    "q4_0",
    "q4_1",
    "q8_0",
    "q5_0",
    "q5_1",
    "iq4_nl",
    "q2_k",
    "q3_k",
    "q4_k",
    "q5_k",
    "q6_k",
    "q8_k",
    "mxfp4",
    "mxfp8",
    "nvfp4",
]


def check_products(q, k, n):
    """Products of rows by weights (K, N), as they are and packed, in floats and in integers."""
    wanted = np.asarray(q.dequantize().to_numpy(), np.float64)
    x, bias = numbers(33, k), numbers(n)
    exact = x @ wanted + bias
    largest = np.abs(exact).max()
    for mode, error in (("strict", 1e-5), ("any", 1e-2)):
        packed = rs.pack_weights(q, fpmath_mode=mode)
        assert packed.nbytes <= 1.3 * q.nbytes * -(-n // 16) * 16 / n + 4096
        np.testing.assert_allclose(packed.dequantize().to_numpy(), wanted, rtol=1e-5, atol=1e-6)
        for rows in (1, 2, 7, 33):
            for weights in (q, packed):
                found = rs.matmul(x[:rows], weights, bias, fpmath_mode=mode)
                assert np.abs(found - exact[:rows]).max() <= error * largest
                np.testing.assert_array_equal(found, rs.matmul(x[:rows], weights, bias, fpmath_mode=mode))


@pytest.mark.parametrize("n", [8, 37])
@pytest.mark.parametrize("way", BY_ROWS, ids=lambda way: f"{way['dtype']}-{way['group']}")
def test_groups_of_rows_are_decoded_in_the_product(way, n):
    k = 768
    check_products(rs.quantize(numbers(k, n), **way), k, n)


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_of_columns_are_turned(name):
    k, n = 512, 24
    q = rs.quantize(numbers(n, k), name).T
    assert q.dims == (k, n)
    check_products(q, k, n)


def test_weights_that_are_all_the_same_keep_their_minimum():
    # Blocks of one value have a scale of 0 and that value as minimum.
    weights = np.repeat(numbers(8, 1), 256, 1)
    q = rs.quantize(weights, "q4_k").T
    x = numbers(3, 256)
    np.testing.assert_allclose(rs.matmul(x, rs.pack_weights(q)), x @ q.dequantize().to_numpy(), atol=2e-4)


def test_what_is_not_finite_stays_so_in_integers():
    q = rs.quantize(numbers(64, 16), "s4", 0, group=32)
    for value in (np.inf, -np.inf, np.nan):
        x = numbers(2, 64)
        x[0, 5] = value
        found = rs.matmul(x, q, fpmath_mode="any")
        assert not np.isfinite(found[0]).any()
        assert np.isfinite(found[1]).all()


@pytest.mark.parametrize("dtype", ["s4", "s8"])
def test_rows_near_the_smallest_floats_stay_finite_in_integers(dtype):
    q = rs.quantize(numbers(64, 16), dtype, 0, group=32)
    wanted = q.dequantize().to_numpy()
    for magnitude in (1e-30, 1e-36, 1e-37, 1e-39, 1e-44):
        for rows in (1, 5):
            x = np.float32(magnitude) * numbers(rows, 64).clip(-1, 1)
            found = rs.matmul(x, q, fpmath_mode="any")
            largest = np.abs(x).max(1, keepdims=True) + 2.0**-119
            assert (np.abs(found - x @ wanted) <= 1e-2 * largest * np.abs(wanted).sum(0)).all()


def test_rows_that_are_zero_give_zeros_in_integers():
    q = rs.quantize(numbers(64, 16), "u4", 0, group=32, symmetric=False)
    assert not rs.matmul(np.zeros((3, 64), np.float32), q, fpmath_mode="any").any()


def test_products_of_nothing_are_zeros():
    for dims in ((0, 8), (8, 0), (0, 0)):
        q = rs.QuantizedTensor(
            *(rs.Memory(rs.MemoryDesc(dims, kind), rs.Engine("cpu")) for kind in ("s8", "f32"))
        )
        np.testing.assert_array_equal(rs.matmul(np.ones((2, dims[0]), np.float32), q), np.zeros((2, dims[1])))


@pytest.mark.parametrize("kind", ["q4_0", "iq4_nl", "q8_0", "q5_0", "q4_k", "q6_k"])
def test_rows_are_those_of_the_tensor(kind):
    form = rs.formats.named(f"gguf.{kind}", (6, 512))
    blocks = np.frombuffer(RNG.bytes(form.nbytes), np.uint8) & 63
    q = form.wrap(blocks)
    for at in ([5, 0, 5, -2], np.arange(6) > 2, np.arange(0)):
        np.testing.assert_array_equal(q.rows(at).dequantize().to_numpy(), q.dequantize().to_numpy()[at])
    with pytest.raises(IndexError):
        q.rows([6])


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way["dtype"])
def test_rows_of_any_groups_and_layouts_are_those_of_the_tensor(way):
    q = rs.quantize(numbers(256, 128), **way)
    for own in (q, q.T, rs.QuantizedTensor(q.values.to("Ba16b"), q.scale, q.zero_point, q.tensor_scale)):
        wanted = own.dequantize().to_numpy()[[100, 3]]
        np.testing.assert_array_equal(own.rows([100, 3]).dequantize().to_numpy(), wanted)


def test_packed_tensors_keep_no_part_of_their_transpose():
    q = rs.quantize(numbers(4, 256), "q4_k")
    assert q.T.values is not q.T.values
    assert q.values is q.values


@pytest.mark.parametrize("dtype", ["s4", "s8", "f4_e2m1"])
def test_the_name_of_a_product_says_whether_rows_are_quantized(dtype):
    src, dst = rs.MemoryDesc((3, 64), "f32"), rs.MemoryDesc((3, 32), "f32")
    names = []
    for mode in ("strict", "any"):
        attr = rs.PrimitiveAttr()
        attr.set_fpmath_mode(mode, apply_to_int=True)
        attr.set_scales(rs.ARG_WEIGHTS, 3, None, [32, 1], "f32")
        pd = rs.Matmul.PrimitiveDesc(
            rs.Engine("cpu"), src, rs.MemoryDesc((64, 32), dtype, "any"), dst=dst, attr=attr
        )
        names.append(pd.impl_info_str.rsplit(":", 1)[1].split("+")[-1])
    assert names == ["contraction", "integer_contraction"]


def test_rows_in_another_order_are_multiplied_as_they_are_stored():
    """GPTQ's `desc_act`: each row says which scale and zero point it has."""
    rng = np.random.default_rng(0)
    codes, scales = rng.integers(0, 16, (256, 64)), rng.random((8, 64)).astype(np.float16)
    zeros, groups = rng.integers(0, 16, (8, 64)), rng.permutation(np.repeat(np.arange(8), 32))
    values = rs.Memory(rs.formats.gptq((256, 64), 32).values, rs.Engine("cpu"))
    rs.reorder(codes.astype(np.uint8), None, out=values)
    zero_points = rs.reorder(zeros.astype(np.uint8), None, dtype="u4")
    q = rs.QuantizedTensor(values, rs.Memory.from_numpy(scales), zero_points)
    ordered, order = q.in_groups(groups)
    x = numbers(3, 256)
    exact = x.astype(np.float64) @ ((codes - zeros[groups]) * scales.astype(np.float64)[groups])
    for weights in (ordered, rs.pack_weights(ordered)):
        np.testing.assert_allclose(
            rs.matmul(x[:, order], weights), exact, rtol=0, atol=1e-5 * abs(exact).max()
        )
    for wrong in (groups[:-1], groups + 1, np.zeros(256, int)):
        with refused("scales applies to the same number of rows"):
            q.in_groups(wrong)


_OF_BF16 = replace(Isa.for_name("avx512"), features=f"{Isa.for_name('avx512').features},+avx512bf16")


@pytest.mark.parametrize("dtype", ["s4", "u4", "f4_e2m1", "f4_e3m0", "nf4"])
def test_weights_of_four_bits_are_multiplied_as_bf16(dtype, monkeypatch):
    """Rounded on any processor; by the instruction for pairs where there is one."""
    monkeypatch.setattr(matmul, "has_dots_of_bf16", lambda: True)
    q, x = rs.quantize(numbers(64, 96), dtype, 0, group=32), numbers(5, 64)
    exact = x.astype(np.float64) @ np.asarray(rs.dequantize(q), np.float64)
    found = rs.matmul(x, rs.pack_weights(q, fpmath_mode="bf16"), fpmath_mode="bf16")
    assert 1e-5 < np.abs(found - exact).max() / np.abs(exact).max() < 4e-3
    # Numbers of few bits are exact, if the source is; those of nf4 are rounded to bf16.
    whole = np.rint(x * 8)
    exact = rs.matmul(whole, q)
    found = rs.matmul(whole, q, fpmath_mode="bf16")
    assert np.abs(found - exact).max() <= (4e-3 * np.abs(exact).max() if dtype == "nf4" else 1e-5)

    attr = rs.PrimitiveAttr()
    attr.set_fpmath_mode("bf16", apply_to_int=True)
    attr.set_scales(rs.ARG_WEIGHTS, 3, None, [32, 1], "f32")
    mds = rs.MemoryDesc((5, 64), "f32"), rs.MemoryDesc((64, 96), dtype, "any"), rs.MemoryDesc((5, 96), "f32")
    pd = rs.Matmul.PrimitiveDesc(rs.Engine("cpu"), mds[0], mds[1], dst=mds[2], attr=attr)
    assert "bf16_contraction" in pd.impl_info_str
    *_, step = pd._impl.problem.program().steps
    text = assembly(lower_contraction(step.tree, _OF_BF16, CacheSizes()).ir(), _OF_BF16)
    assert "vdpbf16ps" in text
    assert "vfmadd231ps\t(" not in text


@pytest.mark.parametrize(("rows", "columns", "is_far"), [(1, 4096, True), (64, 4096, False), (1, 64, False)])
def test_columns_that_one_row_streams_from_memory_are_asked_for_ahead(rows, columns, is_far):
    attr = rs.PrimitiveAttr()
    attr.set_scales(rs.ARG_WEIGHTS, 3, None, [32, 1], "f32")
    mds = [rs.MemoryDesc(dims, "f32") for dims in ((rows, 2048), (rows, columns))]
    weights = rs.MemoryDesc((2048, columns), "s4", "any")
    pd = rs.Matmul.PrimitiveDesc(rs.Engine("cpu"), mds[0], weights, dst=mds[1], attr=attr)
    *_, step = pd._impl.problem.program().steps
    lowered = lower_contraction(step.tree, Isa.for_name("avx2"), CacheSizes())
    assert bool(lowered.plan.prefetch.behind) == is_far
