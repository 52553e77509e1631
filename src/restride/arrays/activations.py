"""Softmax of arrays that people hold."""

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
    """`e**(x - m) / s` along an axis: m the largest there, s the sum of these powers.

    x     a NumPy array, lists, a tensor of torch, what has `__dlpack__`, or a `Memory` of any format
    axis  along which results add up to 1; negative ones count from the end
    log   the logarithm of that, `x - m - ln(s)`
    out   where to write, in any layout and type: an array or `Memory` of the dims of `x`, or `x` itself; it
          is returned

    Values are computed as f32, as f64 where `x` or `out` is f64 or of integers of 32 bits and more. The
    result has the type and the layout of `x`, dense, and is f32 where `x` has integers: NumPy in, NumPy out;
    a tensor in, a tensor out; a `Memory` in, a `Memory` of the same format out, its padding zero.

    Raises InvalidArguments, before anything is written, for an axis that `x` has not, and an `out` that is
    read-only, of other dims or overlaps `x`; Unimplemented for a type without arithmetic.

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
