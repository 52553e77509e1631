"""Products of arrays: beside NumPy's, for weights as they are and packed, and for arrays of every kind."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import restride as rs
from restride.arrays import products
from support.convolved import Case, forward
from support.errors import refused


def _numbers(dims, seed, dtype=np.float32):
    return np.random.default_rng(seed).integers(-4, 5, dims).astype(dtype)


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((5, 33), (33, 20)),
        ((2, 3, 33), (33, 20)),
        ((2, 3, 33), (2, 33, 20)),
        ((4, 3, 5), (1, 5, 6)),
        ((0, 8), (8, 3)),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16, np.int8])
def test_matmul_is_that_of_numpy(left, right, dtype, is_packed):
    x, w = _numbers(left, 1, dtype), _numbers(right, 2, dtype)
    bias = None if dtype is np.int8 else _numbers(right[-1:], 3)
    held = rs.pack_weights(w) if is_packed else w
    made = rs.matmul(x, held, bias)
    assert isinstance(made, np.ndarray)
    assert made.dtype == (np.int32 if dtype is np.int8 else dtype)
    wanted = x.astype(np.float64) @ w.astype(np.float64) + (0 if bias is None else bias)
    np.testing.assert_array_equal(made.astype(np.float64), wanted.astype(made.dtype).astype(np.float64))


def test_matmul_reads_any_strides_and_writes_into_what_it_is_given():
    x, w = _numbers((33, 6), 1).T, _numbers((20, 33), 2).T
    out = np.full((6, 40), 7, np.float32)
    assert rs.matmul(x, w, out=out[:, ::2]) is not None
    np.testing.assert_array_equal(out[:, ::2], x @ w)
    np.testing.assert_array_equal(out[:, 1::2], 7)
    batch = np.empty((2, 3, 20), np.float32)
    y = _numbers((2, 3, 33), 3)
    assert rs.matmul(y, w, out=batch) is batch
    np.testing.assert_array_equal(batch, y @ w)
    assert rs.matmul([[1.0, 2.0]], [[3.0], [4.0]]).tolist() == [[11.0]]
    assert rs.matmul(np.array([[3]], np.uint8), np.array([[-2]], np.int8), dtype="f32").tolist() == [[-6.0]]


CASES = [
    Case(2, 1, 20, 24, (9, 11), (3, 3), (1, 1), (0, 0), (1, 1)),
    Case(1, 2, 16, 16, (8, 7), (3, 2), (2, 1), (0, 1), (1, 0)),
    Case(1, 12, 1, 1, (9,), (3,), (1,), (0,), (1,)),
    Case(1, 1, 3, 5, (4, 5, 6), (2, 2, 2), (1, 1, 1), (0, 0, 0), (0, 0, 0)),
]


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolution_is_that_of_the_definition(case, is_packed):
    x, w = _numbers(case.dims[0], 1), _numbers(case.dims[1], 2)
    flat = w.reshape(case.groups * case.outputs, case.inputs, *case.kernel)
    bias = _numbers(flat.shape[:1], 3)
    held = rs.pack_weights(flat, "convolution", groups=case.groups) if is_packed else flat
    made = rs.convolution(
        x, held, bias, stride=case.strides, padding=case.padding, groups=case.groups,
        dilation=[each + 1 for each in case.dilates],
    )  # fmt: skip
    wanted = forward(case, x, w) + bias.reshape(-1, *[1] * len(case.sizes))
    np.testing.assert_array_equal(made, wanted)


def test_results_lie_as_the_source():
    x, w = _numbers((2, 9, 8, 16), 1).transpose(0, 3, 1, 2), _numbers((24, 16, 1, 1), 2)
    made = rs.convolution(x, w)
    assert made.transpose(0, 2, 3, 1).flags.c_contiguous
    np.testing.assert_array_equal(made, np.einsum("nchw,oc->nohw", x, w[..., 0, 0]))
    blocked = rs.reorder(x, "nChw16c")
    back = rs.convolution(blocked, w)
    assert isinstance(back, rs.Memory)
    np.testing.assert_array_equal(back.to_numpy(), made)


def test_what_does_not_fit_is_refused():
    x, w = np.zeros((4, 5), np.float32), np.zeros((6, 3), np.float32)
    with refused("4 x 5 times 6 x 3"):
        rs.matmul(x, w)
    with refused("they have 2 and 3 dims"):
        rs.matmul(x, w[None])
    with refused("they have 1 and 2 dims"):
        rs.matmul(x[0], w)
    with refused("out has the wrong dims"):
        rs.matmul(x, np.zeros((5, 3), np.float32), out=np.zeros((4, 4), np.float32))
    with refused("overlap"):
        square = np.zeros((4, 4), np.float32)
        rs.matmul(square, square, out=square)
    with refused("the bias has 2 dims"):
        rs.matmul(x, np.zeros((5, 3), np.float32), np.zeros((1, 3), np.float32))
    with refused("matmul: weights", "a mask would be lost"):
        rs.matmul(x, np.ma.masked_array(np.ones((5, 3), np.float32), False))
    with refused("x of 2 dims"):
        rs.convolution(x, w)
    image, kernel = np.zeros((1, 4, 5, 5), np.float32), np.zeros((6, 2, 3, 3), np.float32)
    with refused("groups is 4"):
        rs.convolution(image, kernel, groups=4)
    with refused("stride is"):
        rs.convolution(image, kernel, groups=2, stride=(1, 1, 1))
    with refused("strides", "below 1"):
        rs.convolution(image, kernel, groups=2, stride=0)
    with refused("primitive is 'pool'"):
        rs.pack_weights(w, "pool")
    with refused("weights cannot be read", "the memory is empty"):
        rs.matmul(x, rs.Memory())


def test_arrays_of_other_libraries_come_back_as_theirs():
    torch = pytest.importorskip("torch")
    x, w = torch.arange(12.0).reshape(3, 4), torch.ones(4, 2)
    made = rs.matmul(x, w)
    assert isinstance(made, torch.Tensor)
    assert torch.equal(made, x @ w)


@pytest.fixture
def warm(monkeypatch: pytest.MonkeyPatch):
    """The result of a call for whose kind all has been checked before: it is not checked again."""

    def shut(*_: object, **__: object) -> None:
        raise AssertionError("this call checks everything")

    def call(work, *arrays):
        with monkeypatch.context() as patch:
            patch.setattr(products, "execute_product", shut)
            return work(*arrays)

    return call


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("left", [(5, 33), (2, 3, 33)])
def test_a_warm_matmul_reads_the_arrays_that_it_gets(warm, left, has_bias, is_packed):
    def numbers(seed):
        w = _numbers((33, 20), seed + 1)
        held = rs.pack_weights(w) if is_packed else w
        return _numbers(left, seed), held, _numbers((20,), seed + 2) if has_bias else None

    rs.matmul(*numbers(1))
    for seed in (4, 7):
        x, w, bias = numbers(seed)
        made = warm(rs.matmul, x, w, bias)
        wanted = x @ (w.to_numpy() if is_packed else w) + (0 if bias is None else bias)
        np.testing.assert_array_equal(made, wanted)


def test_a_warm_convolution_reads_the_arrays_that_it_gets(warm):
    def work(x, w, bias):
        return rs.convolution(x, w, bias, stride=[1, 2], padding=1)

    first, second = (
        [_numbers((2, 3, 9, 8), seed), _numbers((4, 3, 3, 3), seed + 1), _numbers((4,), seed + 2)]
        for seed in (1, 4)
    )
    wanted = rs.convolution(*[each.astype(np.float64) for each in second], stride=[1, 2], padding=1)
    work(*first)
    np.testing.assert_array_equal(warm(work, *second), wanted)


def test_a_warm_product_into_its_own_operand_is_refused_still():
    x, w, out = _numbers((8, 8), 1), _numbers((8, 8), 2), np.empty((8, 8), np.float32)
    for _ in range(2):
        assert rs.matmul(x, w, out=out) is out
        for shared in (x, w):
            with refused("overlap"):
                rs.matmul(x, w, out=shared)
        with refused("read-only"):
            out.flags.writeable = False
            rs.matmul(x, w, out=out)
        out.flags.writeable = True
    np.testing.assert_array_equal(out, x @ w)


def test_batches_of_rows_without_elements_have_sums_of_nothing() -> None:
    made = rs.matmul(np.ones((2, 3, 0), np.float32), np.ones((0, 5), np.float32))
    assert made.shape == (2, 3, 5)
    assert not made.any()
