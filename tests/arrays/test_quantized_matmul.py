"""Products by quantized weights are those of the real numbers that these stand for."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
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
    small = rs.QuantizedTensor(q.values, q.scale, minimum=q.scale)
    with refused("dequantize()", kind=rs.Unimplemented):
        rs.matmul(x, small)
