"""Pooling on arrays: maximum and average of windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..desc.arguments import ARG_DST, ARG_SRC
from ..desc.parse import parse_int, short_repr
from ..errors import refuse
from ..model.parse import check_written
from ..model.pointwise import check_known, parse_algorithm
from ..ops.pooling import PoolingProblem, check_windows
from ..ops.programs.windows import Windows
from ..runtime.memory import Memory
from .calls.binder import CallKey
from .calls.function import ArrayFunction, Parameters, plain_key
from .calls.operands import engine_of

__all__ = ["pool"]

_POOL = ArrayFunction("pool", may_be_in_place=False)
# What `avg` means elsewhere: torch and oneDNN have the same two under other names.
_SHORT = {"avg": "avg_include_padding"}
Dims = tuple[int, ...]


def pool(
    x: Any,
    kernel: Any = None,
    *,
    alg: str = "max",
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    out: Any = None,
) -> Any:
    """Return the maximum or the average of each window of an image.

    x         of dims (N, C, W), (N, C, H, W) or (N, C, D, H, W): a NumPy array, a torch tensor, any object
              with `__dlpack__`, or a `Memory` of any format
    kernel    window size for each spatial dim, or one number for all; None: the whole image, which leaves one
              element for each channel
    alg       "max", "avg_include_padding" ("avg" for short) or "avg_exclude_padding"
    stride    distance between windows; by default the size of the kernel
    padding   number of positions added at both ends; a pair for a spatial dim whose ends differ
    dilation  distance between the positions of a window; 1 is dense
    out       destination of any layout and type; it is returned

    Only windows entirely inside image and padding count. A maximum is never below the lowest finite value of
    the type, as in oneDNN, even if all elements are -inf.

    The result has the type and the layout of `x`, dense: NumPy in, NumPy out; a tensor in, a tensor out; a
    `Memory` in, a `Memory` of the same format out, with zero padding.

    Raises InvalidArguments, before anything is written, for invalid windows, and for an `out` that is
    read-only, has other dims or overlaps `x`; Unimplemented for a type without arithmetic.

    >>> import numpy as np, restride as rs
    >>> image = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    >>> rs.pool(image, 2).tolist()
    [[[[5.0, 7.0], [13.0, 15.0]]]]
    >>> rs.pool(image, alg="avg").ravel().tolist()
    [7.5]
    """
    parameters = alg, kernel, stride, padding, dilation
    key = plain_key(tuple([tuple(item) if type(item) is list else item for item in parameters]))
    return _POOL.call(_pooled, parameters, key, x, out)


def _pooled(x: Any, out: Any, _: object, parameters: Parameters, signed: CallKey | None) -> Memory:
    alg, *numbers = parameters
    engine = engine_of(x, out, None)
    source = _POOL.source(x, engine)
    src = check_known("pool", "x", source.desc)
    algorithm, pooled_dims = parse_alg(alg), parse_windows(src.dims, *numbers)
    target = _POOL.target(out, src, pooled_dims.dims, engine)
    check_windows("pool", pooled_dims.windows, ("x", src), ("out", target.desc))
    check_written("pool", "out", target.desc)
    problem = PoolingProblem(algorithm, pooled_dims.windows, src, target.desc)
    _POOL.run(problem, engine, {ARG_SRC: source, ARG_DST: target}, signed)
    return target


def parse_alg(alg: Any) -> str:
    """Return an algorithm from its long or short name. Raises InvalidArguments."""
    return parse_algorithm(
        "pool", _SHORT.get(alg, alg) if isinstance(alg, str) else alg, "pooling_", PoolingProblem.algorithms
    )


class PooledDims(NamedTuple):
    """Windows over a tensor, and the dims of the result."""

    windows: Windows
    dims: Dims


def parse_windows(dims: Sequence[int], kernel: Any, stride: Any, padding: Any, dilation: Any) -> PooledDims:
    """Return the windows of a call over these dims. Raises InvalidArguments if they do not fit."""
    count = len(dims) - 2
    if not 1 <= count <= 3:
        raise refuse("RS-R10:x-no-spatial" if count < 1 else "RS-R10:x-too-many", dims=tuple(dims))
    if kernel is None and 0 in dims[2:]:
        raise refuse("RS-R10:x-no-positions", dims=tuple(dims))
    sizes = tuple(dims[2:]) if kernel is None else _numbers("kernel", kernel, count, 1)
    apart = _numbers("dilation", dilation, count, 1)
    # Without a stride, windows are adjacent and do not overlap.
    steps = sizes if stride is None else _numbers("stride", stride, count, 1)
    left, right = _ends(padding, count)
    windows = Windows(steps, sizes, tuple(distance - 1 for distance in apart), left, right)
    extents = tuple(windows.output(d, dims[d + 2]) for d in range(count))
    if any(extent < 1 and size for extent, size in zip(extents, dims[2:], strict=True)):
        raise refuse(
            "RS-R10:window-larger-image", dims=tuple(dims), sizes=sizes, apart=apart, left=left, right=right
        )
    return PooledDims(windows, (*dims[:2], *(max(extent, 0) for extent in extents)))


def _numbers(name: str, value: Any, count: int, least: int) -> Dims:
    """Return one integer for each spatial dim; a single one applies to all."""
    value = value.tolist() if isinstance(value, np.ndarray) else value
    many = tuple(value) if isinstance(value, list | tuple) else (value,) * count
    numbers = tuple(parse_int(number, f"pool: {name}") for number in many)
    if len(numbers) == count and all(least <= number < 2**31 for number in numbers):
        return numbers
    raise refuse("RS-V02:whole-number-more", name=name, value=short_repr(value), least=least, count=count)


def _ends(padding: Any, count: int) -> tuple[Dims, Dims]:
    """Return the padding before each spatial dim, and after it."""
    padding = padding.tolist() if isinstance(padding, np.ndarray) else padding
    if isinstance(padding, list | tuple) and any(isinstance(pad, list | tuple) for pad in padding):
        pairs = [pad if isinstance(pad, list | tuple) else (pad, pad) for pad in padding]
        if len(pairs) != count or any(len(pair) != 2 for pair in pairs):
            raise refuse("RS-V02:padding", padding=short_repr(padding), count=count)
        left, right = zip(*pairs, strict=True)
        return _numbers("padding", left, count, 0), _numbers("padding", right, count, 0)
    both = _numbers("padding", padding, count, 0)
    return both, both
