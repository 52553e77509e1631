"""Reductions of integers by ONNX's operators: exact, and modulo two to the width of the type."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import restride as rs

Array = np.ndarray
TYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")


def _mean(x: Array, **options: object) -> Array:
    total = x.astype(object).sum(**options)
    count = x.size // max(np.size(total), 1)
    return np.vectorize(lambda n: abs(n) // count * (1 if n >= 0 else -1), otypes=[object])(total)


FOLDS: dict[str, Callable[..., Array]] = {
    "ReduceMax": lambda x, **options: x.max(**options),
    "ReduceMin": lambda x, **options: x.min(**options),
    "ReduceSum": lambda x, **options: x.astype(object).sum(**options),
    "ReduceProd": lambda x, **options: x.astype(object).prod(**options),
    "ReduceL1": lambda x, **options: abs(x.astype(object)).sum(**options),
    "ReduceSumSquare": lambda x, **options: (x.astype(object) ** 2).sum(**options),
    "ReduceMean": _mean,
}


@pytest.mark.parametrize("operator", FOLDS)
@pytest.mark.parametrize("dtype", TYPES)
def test_integers_are_folded_exactly(operator: str, dtype: str) -> None:
    info = np.iinfo(dtype)
    x = np.random.default_rng(5).integers(info.min, info.max, (3, 5, 4), dtype=dtype, endpoint=True)
    if operator == "ReduceMean":  # the sum of 64 bits wraps before it is divided
        x //= np.array(60, dtype)
    for axes in ((1,), (0, -1), None):
        for keepdims in (True, False):
            found = getattr(rs.ops, operator)(x, axes, keepdims=keepdims)
            wanted = np.asarray(FOLDS[operator](x, axis=axes, keepdims=keepdims))
            rest = np.asarray(wanted.astype(object) % (1 << info.bits), object)
            wrapped = rest.astype(f"u{info.bits // 8}").view(dtype)
            assert found.dtype == x.dtype
            assert np.array_equal(found.reshape(wanted.shape), wrapped.reshape(wanted.shape))


def test_without_axes_nothing_is_folded_where_that_is_said() -> None:
    x = np.arange(6, dtype=np.int64).reshape(2, 3)
    assert np.array_equal(rs.ops.ReduceSum(x, noop_with_empty_axes=True), x)


@pytest.mark.parametrize("dtype", ["s64", "u64", "u32"])
def test_wide_integers_on_every_engine(engine: rs.Engine, dtype: str) -> None:
    from support.engines import allocated, memory_over, storage

    src_md, dst_md = rs.MemoryDesc((5, 7), dtype), rs.MemoryDesc((5, 1), dtype)
    info = np.iinfo(rs.DataType.parse(dtype).numpy)
    x = np.random.default_rng(3).integers(info.min, info.max, (5, 7), dtype=info.dtype, endpoint=True)
    for algorithm, fold in (("max", np.max), ("min", np.min), ("sum", np.sum), ("mul", np.prod)):
        pd = rs.onednn.Reduction.PrimitiveDesc(engine, f"reduction_{algorithm}", src_md, dst_md)
        dst, stream = allocated(dst_md, engine), rs.Stream(engine)
        src = memory_over(src_md, engine, storage(x, engine))
        rs.onednn.Reduction(pd).execute(stream, src, dst)
        stream.wait()
        wanted = fold(x, axis=1, keepdims=True).astype(info.dtype)
        assert np.array_equal(dst.to_numpy(), wanted)
