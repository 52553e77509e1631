"""Softmax on arrays."""

from __future__ import annotations

from typing import Any

from ..desc.arguments import ARG_DST, ARG_SRC
from ..desc.parse import parse_bool
from ..model.parse import check_written
from ..model.pointwise import check_known, check_same_dims
from ..ops.softmax import SoftmaxProblem
from ..runtime.memory import Memory
from .calls.binder import CallKey
from .calls.function import ArrayFunction, Parameters, plain_key
from .calls.operands import engine_of

__all__ = ["softmax"]

_SOFTMAX = ArrayFunction("softmax", is_real=True)


def softmax(x: Any, axis: int = -1, *, log: bool = False, out: Any = None) -> Any:
    """Return `e**(x - m) / s` along an axis, with m the maximum along the axis and s the sum of the powers.

    x     a NumPy array, lists, a torch tensor, any object with `__dlpack__`, or a `Memory` of any format
    axis  the axis along which results sum to 1; negative values count from the end
    log   return the logarithm instead, `x - m - ln(s)`
    out   destination of any layout and type: an array or `Memory` with the dims of `x`, or `x` itself; it is
          returned

    Values are computed in f32, or in f64 if `x` or `out` is f64 or has integers of 32 bits or more. The
    result has the type and the layout of `x`, dense, or f32 if `x` has integers: NumPy in, NumPy out; a
    tensor in, a tensor out; a `Memory` in, a `Memory` of the same format out, with zero padding.

    Raises InvalidArguments, before anything is written, for an axis that `x` does not have, and for an `out`
    that is read-only, has other dims or overlaps `x`; Unimplemented for a type without arithmetic.

    >>> import numpy as np, restride as rs
    >>> rs.softmax(np.array([[0.0, 0.0], [0.0, np.log(3)]], np.float32)).round(2)
    array([[0.5 , 0.5 ],
           [0.25, 0.75]], dtype=float32)
    """
    parameters = axis, int(parse_bool("log", log))
    return _SOFTMAX.call(_softmax, parameters, plain_key(parameters), x, out)


def _softmax(x: Any, out: Any, _: object, parameters: Parameters, signed: CallKey | None) -> Memory:
    (axis, is_log), engine = parameters, engine_of(x, out, None)
    source = _SOFTMAX.source(x, engine)
    src = check_known(_SOFTMAX.name, "x", source.desc)
    target = _SOFTMAX.target(out, src, src.dims, engine)
    check_same_dims(_SOFTMAX.name, [("x", src), ("out", target.desc)])
    check_written(_SOFTMAX.name, "out", target.desc)
    at = _SOFTMAX.axis(axis, src.ndims, src)
    problem = SoftmaxProblem("log" if is_log else "accurate", src, target.desc, at)
    _SOFTMAX.run(problem, engine, {ARG_SRC: source, ARG_DST: target}, signed)
    return target
