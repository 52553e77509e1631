"""LRN: across channels and within them, beside NumPy, with gradients; what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from support.computed import any_like, elements, random
from support.errors import refused

CPU = rs.Engine("cpu")
_NUMBERS = (5, 0.25, 0.75, 1.0)


def _summed(alg, x, size):
    half, total = (size - 1) // 2, np.zeros(x.shape)
    dims = (1,) if alg == "across_channels" else tuple(range(2, x.ndim))
    for at in np.ndindex(*x.shape):
        window = tuple(slice(max(i - half, 0), i + half + 1) if d in dims else i for d, i in enumerate(at))
        total[at] = x[window].sum()
    return total


def _parts(alg, x, size, alpha, beta, k):
    count = size ** (1 if alg == "across_channels" else x.ndim - 2)
    return k + alpha * _summed(alg, x * x, size) / count, count


def _gradient(alg, x, d, size, alpha, beta, k):
    omega, count = _parts(alg, x, size, alpha, beta, k)
    part = d * omega**-beta
    return part - 2 * alpha * beta * x * _summed(alg, part / omega * x, size) / count


def _forward(engine, alg, dims, format, numbers=_NUMBERS, data_type="f32"):
    src = rs.MemoryDesc(dims, data_type, format)
    return rs.LRNForward.PrimitiveDesc(engine, "forward_training", f"lrn_{alg}", src, any_like(src), *numbers)


def test_a_source_that_is_repeated_has_a_gradient_of_its_own():
    src = rs.MemoryDesc((2, 3, 4), "f32", (0, 4, 1))
    dense = rs.MemoryDesc((2, 3, 4), "f32", "abc")
    pd = rs.LRNBackward.PrimitiveDesc(CPU, "across_channels", dense, dense, src, *_NUMBERS)
    x, d = random((1, 3, 4)), random((2, 3, 4), 1)
    out = rs.Memory(dense, CPU)
    rs.LRNBackward(pd).execute(
        rs.Stream(CPU),
        {
            rs.ARG_SRC: rs.Memory(src, CPU, x.reshape(-1).copy()),
            rs.ARG_DIFF_DST: rs.Memory.from_numpy(d),
            rs.ARG_DIFF_SRC: out,
        },
    )
    wanted = _gradient("across_channels", np.repeat(x, 2, 0).astype(np.float64), d, *_NUMBERS)
    np.testing.assert_allclose(elements(out), wanted, rtol=1e-5, atol=1e-5)


_MD, _LINE = rs.MemoryDesc((2, 3, 4), "f32", "abc"), rs.MemoryDesc((4,), "f32", "a")


@pytest.mark.parametrize(
    ("args", "texts"),
    [
        (("lrn_between", _MD, _MD, 5, 1.0, 0.75), ("algorithm is 'lrn_between'",)),
        (("across_channels", _MD, _MD, 0, 1.0, 0.75), ("local_size is 0",)),
        (("across_channels", _MD, _MD, 2.5, 1.0, 0.75), ("local_size",)),
        (("across_channels", _MD, _MD, 5, "x", 0.75), ("alpha",)),
        (("across_channels", _LINE, _LINE, 5, 1.0, 0.75), ("no channels",)),
        (("across_channels", _MD, rs.MemoryDesc((2, 3, 5), "f32"), 5, 1.0, 0.75), ("different shapes",)),
    ],
)
def test_what_makes_no_sense_is_refused(args, texts):
    with refused(*texts):
        rs.LRNForward.PrimitiveDesc(CPU, "forward_training", *args)


def test_a_hint_of_other_numbers_is_refused():
    hint = _forward(CPU, "across_channels", (2, 3, 4), "abc")
    with refused("the hint is for another problem", "its parameters"):
        rs.LRNBackward.PrimitiveDesc(CPU, "across_channels", _MD, _MD, _MD, 3, 0.25, 0.75, hint_pd=hint)
