"""ATen's operators on elements, each at its index, and reductions, by way of ONNX's."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, isfinite, isnan, log, prod
from typing import Any

import numpy as np

from ....dtypes import DataType
from ....ops.reduction import ReductionProblem
from ..onnx.rows import enter_rows
from ..operator_call import ATEN, Function, Made, OperatorCall, Value
from .call import cast_to, common_type, promoted, result_of

_F32 = np.dtype(np.float32)
_LOGICAL = {"and": "And", "or": "Or", "xor": "Xor"}

# --- of two tensors -----------------------------------------------------------------------------------------


def _word(call: OperatorCall) -> str:
    return call.node.operator.removeprefix("aten.")


@ATEN("add", "sub")
def _sum(call: OperatorCall, x: Any, y: Any, *, alpha: Any = 1) -> Made:
    x, y = promoted(call, x, y)
    if alpha != 1:
        y = call.onnx("Mul", y, promoted(call, y, alpha)[1])
    return call.onnx(_word(call).capitalize(), x, y)


@ATEN("div")
def _quotient(call: OperatorCall, x: Any, y: Any, *, rounding_mode: str | None = None) -> Made:
    """A quotient of integers has fractions, where it is not rounded."""
    if rounding_mode == "floor":
        return call.elements("floor_divide", *promoted(call, x, y))
    is_whole = _is_integral(call, x, y)
    if rounding_mode is None:
        return call.onnx("Div", *promoted(call, x, y, least=_F32 if is_whole else None))
    quotient = call.onnx("Div", *promoted(call, x, y))
    return quotient if is_whole else call.elements("trunc", quotient)


@ATEN("addcmul", "addcdiv")
def _scaled_sum(call: OperatorCall, x: Any, left: Any, right: Any, *, value: Any = 1) -> Made:
    made = call.onnx("Mul" if _word(call) == "addcmul" else "Div", *promoted(call, left, right))
    made = made if value == 1 else call.onnx("Mul", *promoted(call, made, value))
    return call.onnx("Add", *promoted(call, x, made))


def _is_integral(call: OperatorCall, *xs: Any) -> bool:
    """True where no operand has floats."""
    kinds = [call.type_of(x) if isinstance(x, str | np.ndarray) else type(x) for x in xs]
    return not any(kind is float if isinstance(kind, type) else kind.kind == "float" for kind in kinds)


@ATEN(*(f"{kind}_{word}" for kind in ("bitwise", "logical") for word in _LOGICAL))
def _logical(call: OperatorCall, x: Any, y: Any) -> Made:
    kind, word = _word(call).split("_")
    if kind == "logical":
        return call.onnx(_LOGICAL[word], _truth(call, x), _truth(call, y))
    x, y = promoted(call, x, y)
    is_truth = call.type_of(x) is DataType.boolean
    return call.onnx(_LOGICAL[word] if is_truth else f"Bitwise{_LOGICAL[word]}", x, y)


@ATEN("bitwise_not", "logical_not")
def _not(call: OperatorCall, x: Any) -> Made:
    if call.type_of(x) is DataType.boolean or _word(call) == "logical_not":
        return call.onnx("Not", _truth(call, x))
    return call.onnx("BitwiseNot", x)


def _truth(call: OperatorCall, x: Any) -> Value:
    """Whether an element is not 0."""
    if not isinstance(x, str):
        return np.asarray(x, np.bool_)
    if call.type_of(x) is DataType.boolean:
        return x
    return call.elements("ne", *promoted(call, x, 0))


@ATEN("masked_fill")
def _masked(call: OperatorCall, x: Any, mask: Any, value: Any) -> Made:
    return call.onnx("Where", mask, cast_to(call, value, result_of(call)[1]), x)


@ATEN("where")
def _where(call: OperatorCall, condition: Any, x: Any, y: Any) -> Made:
    common = common_type(call, x, y)
    return call.onnx("Where", condition, *(cast_to(call, each, common) for each in (x, y)))


@ATEN("_to_copy")
def _copy_as(call: OperatorCall, x: Any) -> Made:
    _, dtype = result_of(call)
    return _truth(call, x) if dtype == np.bool_ else cast_to(call, x, dtype)


@ATEN("copy")
def _copied(call: OperatorCall, x: Any, source: Any) -> Made:
    """The second tensor in the dims and the type of the first."""
    dims, dtype = result_of(call)
    return call.onnx("Expand", cast_to(call, source, dtype), dims)


@ATEN("full_like", "new_full")
def _full(call: OperatorCall, x: Any, *values: Any) -> Made:
    """One number everywhere: the tensor that is read has the dims alone, which are known."""
    dims, dtype = result_of(call)
    if isinstance(values[-1], str):
        return call.onnx("Expand", cast_to(call, values[-1], dtype), dims)
    return np.broadcast_to(cast_to(call, values[-1], dtype), dims)


# --- of one -------------------------------------------------------------------------------------------------


@ATEN("clamp", "clamp_max", "clamp_min")
def _clamp(call: OperatorCall, x: Any, *limits: Any) -> Made:
    """Limits that are tensors, or of integers, one after the other."""
    low, high = (None, limits[0]) if _word(call) == "clamp_max" else (*limits, None)[:2]
    if any(isinstance(limit, float) and isnan(limit) for limit in (low, high)):
        raise call.unimplemented("a limit is no number")
    if any(isinstance(limit, str | np.ndarray) for limit in limits) or _is_integral(call, x):
        result: Value = x
        for operator, limit in (("Max", low), ("Min", high)):
            result = result if limit is None else call.onnx(operator, *promoted(call, result, limit))
        return result
    low, high = (-inf if low is None else float(low)), (inf if high is None else float(high))
    if (low, high) == (0.0, inf):
        return call.onnx("Relu", x)
    return call.onnx("Clip", x, *(limit if isfinite(limit) else None for limit in (low, high)))


@ATEN("elu")
def _elu(call: OperatorCall, x: Any, *, alpha: float = 1.0, scale: float = 1.0) -> Made:
    result = call.onnx("Elu", x, alpha=float(alpha))
    return result if scale == 1 else call.onnx("Mul", result, float(scale))


@ATEN("pow")
def _power(call: OperatorCall, x: Any, y: Any) -> Made:
    """By a number it is a function."""
    if isinstance(y, int | float) and call.type_of(x).kind == "float":
        return call.onnx("Pow", x, float(y))
    return call.onnx("Pow", *promoted(call, x, y))


@ATEN("prelu")
def _prelu(call: OperatorCall, x: Any, slopes: Any) -> Made:
    rank = len(call.dims(x))
    return call.onnx(
        "PRelu", x, call.onnx("Reshape", slopes, (1, -1, *(1,) * (rank - 2)) if rank > 1 else (-1,))
    )


_ROWS: Mapping[str, Function | str] = {
    "exp2": lambda call, x: call.onnx("Exp", call.onnx("Mul", x, log(2.0))),
    "hardtanh": lambda call, x, low=-1.0, high=1.0: _clamp(call, x, float(low), float(high)),
    "log10": lambda call, x: call.onnx("Mul", call.onnx("Log", x), 1 / log(10.0)),
    "log2": lambda call, x: call.onnx("Mul", call.onnx("Log", x), 1 / log(2.0)),
    "relu6": lambda call, x: _clamp(call, x, 0.0, 6.0),
    "rsqrt": lambda call, x: call.onnx("Reciprocal", call.onnx("Sqrt", x)),
    "silu": lambda call, x: call.onnx("Mul", x, call.onnx("Sigmoid", x)),
    "softplus": lambda call, x: call.onnx("Softplus", x),
}
enter_rows(ATEN, _ROWS)

# --- reductions ---------------------------------------------------------------------------------------------

_TRUTHS = {"all": "ReduceMin", "any": "ReduceMax"}


def _axes(dim: Any) -> Any:
    return (dim,) if isinstance(dim, int) else tuple(dim or ()) or None


@ATEN(*ReductionProblem.aten, "prod")
def _reduction(call: OperatorCall, x: Any, dim: Any = None, *, keepdim: bool = False) -> Made:
    """Sums and products of integers are of the type of the result."""
    word, kind = _word(call), call.type_of(x)
    if word in ("prod", "sum") and kind.kind != "float":
        x = cast_to(call, x, result_of(call)[1])
    operator = {"prod": "ReduceProd", **ReductionProblem.aten}[word]
    return call.onnx(str(operator), x, _axes(dim), keepdims=keepdim)


@ATEN(*_TRUTHS)
def _all_or_any(call: OperatorCall, x: Any, dim: Any = None, *, keepdim: bool = False) -> Made:
    return call.onnx(_TRUTHS[_word(call)], _truth(call, x), _axes(dim), keepdims=keepdim)


@ATEN("linalg_vector_norm")
def _norm(call: OperatorCall, x: Any, ord: float = 2, dim: Any = None, *, keepdim: bool = False) -> Made:
    if ord in (1, 2):
        return call.onnx(f"ReduceL{int(ord)}", x, _axes(dim), keepdims=keepdim)
    if abs(ord) != inf:
        raise call.unimplemented(f"its order is {ord}", "1, 2 and infinity are there")
    word = "ReduceMax" if ord > 0 else "ReduceMin"
    return call.onnx(word, call.onnx("Abs", x), _axes(dim), keepdims=keepdim)


@ATEN("var", "var_mean")
def _variance(
    call: OperatorCall,
    x: Any,
    dim: Any = None,
    *,
    unbiased: bool = True,
    correction: Any = None,
    keepdim: bool = False,
) -> Made:
    dims = call.dims(x)
    axes = list(range(len(dims))) if not dim else list(dim)
    count = prod(dims[axis] for axis in axes)
    mean = call.onnx("ReduceMean", x, axes, keepdims=1)
    distance = call.onnx("Sub", x, mean)
    square = call.onnx("ReduceMean", call.onnx("Mul", distance, distance), axes, keepdims=keepdim)
    rest = count - (int(unbiased) if correction is None else correction)
    variance = call.onnx("Mul", square, float(count / rest if rest > 0 else inf))
    if _word(call) == "var":
        return variance
    return variance, mean if keepdim else call.reshaped(mean, call.dims(square))
