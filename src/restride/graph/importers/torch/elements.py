"""ATen's elementwise operators and reductions, translated through ONNX's."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, isfinite, isnan, log, prod
from typing import Any

import numpy as np

from ....dtypes import DataType
from ....ops.reduction import ReductionProblem
from ....ops.scan import ScanProblem
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
    """Without a rounding mode, a quotient of integers is a float."""
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
    """True if no operand is floating-point."""
    kinds = [call.type_of(x) if isinstance(x, str | np.ndarray) else type(x) for x in xs]
    return not any(kind is float if isinstance(kind, type) else kind.kind == "float" for kind in kinds)


def _extreme(call: OperatorCall, operator: str, x: Any, y: Any) -> Made:
    """Between a number and NaN, return the number."""
    x, y = promoted(call, x, y)
    made = call.onnx(operator, x, y)
    if _is_integral(call, x):
        return made
    made = call.onnx("Where", call.onnx("IsNaN", x), y, made)
    return call.onnx("Where", call.onnx("IsNaN", y), x, made)


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
    """Return whether elements are nonzero."""
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
    """Copy the second tensor with the dims and the type of the first."""
    dims, dtype = result_of(call)
    return call.onnx("Expand", cast_to(call, source, dtype), dims)


@ATEN("full_like", "new_full")
def _full(call: OperatorCall, x: Any, *values: Any) -> Made:
    """Fill with one number: only the dims of the tensor, which are known, are read."""
    dims, dtype = result_of(call)
    if isinstance(values[-1], str):
        return call.onnx("Expand", cast_to(call, values[-1], dtype), dims)
    return np.broadcast_to(cast_to(call, values[-1], dtype), dims)


# --- of one -------------------------------------------------------------------------------------------------


@ATEN("clamp", "clamp_max", "clamp_min")
def _clamp(call: OperatorCall, x: Any, *limits: Any) -> Made:
    """Apply limits that are tensors, or of integers, separately."""
    low, high = (None, limits[0]) if _word(call) == "clamp_max" else (*limits, None)[:2]
    if any(isinstance(limit, float) and isnan(limit) for limit in (low, high)):
        raise call.unimplemented("a limit is not a number")
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
    """A numeric exponent makes this a function."""
    if isinstance(y, int | float) and call.type_of(x).kind == "float":
        return call.onnx("Pow", x, float(y))
    return call.onnx("Pow", *promoted(call, x, y))


@ATEN("prelu")
def _prelu(call: OperatorCall, x: Any, slopes: Any) -> Made:
    rank = len(call.dims(x))
    return call.onnx(
        "PRelu", x, call.onnx("Reshape", slopes, (1, -1, *(1,) * (rank - 2)) if rank > 1 else (-1,))
    )


@ATEN("_prelu_kernel")
def _prelu_of_slopes(call: OperatorCall, x: Any, slopes: Any) -> Made:
    return call.onnx("PRelu", x, slopes)


@ATEN("round")
def _round(call: OperatorCall, x: Any, *, decimals: int = 0) -> Made:
    """Integers need no rounding."""
    if _is_integral(call, x):
        if decimals < 0:
            raise call.unimplemented(f"it rounds integers to {decimals} decimals")
        return cast_to(call, x, call.numpy_type(x))
    if not decimals:
        return call.onnx("Round", x)
    factor = 10.0 ** abs(decimals)
    before, behind = ("Mul", "Div") if decimals > 0 else ("Div", "Mul")
    return call.onnx(behind, call.onnx("Round", call.onnx(before, x, factor)), factor)


@ATEN("softplus")
def _softplus(call: OperatorCall, x: Any, beta: float = 1, threshold: float = 20) -> Made:
    """Above the threshold it is the identity."""
    scaled = x if beta == 1 else call.onnx("Mul", x, float(beta))
    result = call.onnx("Softplus", scaled)
    result = result if beta == 1 else call.onnx("Div", result, float(beta))
    if threshold >= 20:
        return result
    return call.onnx("Where", call.elements("gt", *promoted(call, scaled, float(threshold))), x, result)


@ATEN("rrelu_with_noise_functional")
def _random_relu(
    call: OperatorCall,
    x: Any,
    noise: Any,
    *,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
) -> Made:
    """In evaluation mode there is no noise: the slope is the mean."""
    if training:
        raise call.unimplemented("it trains", "call eval() of the module")
    return call.onnx("LeakyRelu", x, alpha=(lower + upper) / 2)


def _real(call: OperatorCall, x: Any) -> Value:
    """Return an operand of a function of floats, converted from integers."""
    return cast_to(call, x, result_of(call)[1])


_ROWS: Mapping[str, Function | str] = {
    "exp2": lambda call, x: call.onnx("Exp", call.onnx("Mul", _real(call, x), log(2.0))),
    "fmax": lambda call, x, y: _extreme(call, "Max", x, y),
    "fmin": lambda call, x, y: _extreme(call, "Min", x, y),
    "hardtanh": lambda call, x, low=-1.0, high=1.0: _clamp(call, x, float(low), float(high)),
    "log10": lambda call, x: call.onnx("Mul", call.onnx("Log", _real(call, x)), 1 / log(10.0)),
    "log2": lambda call, x: call.onnx("Mul", call.onnx("Log", _real(call, x)), 1 / log(2.0)),
    "relu6": lambda call, x: _clamp(call, x, 0.0, 6.0),
    "rsqrt": lambda call, x: call.onnx("Reciprocal", call.onnx("Sqrt", _real(call, x))),
    "silu": lambda call, x: call.onnx("Mul", x, call.onnx("Sigmoid", x)),
}
enter_rows(ATEN, _ROWS)

# --- reductions ---------------------------------------------------------------------------------------------

_SCANS: Mapping[str, Any] = {word: ScanProblem.aten[word] for word in ("cumprod", "cumsum")}
_TRUTHS = {"all": "ReduceMin", "any": "ReduceMax"}


def _axes(dim: Any) -> Any:
    return (dim,) if isinstance(dim, int) else tuple(dim or ()) or None


@ATEN(*ReductionProblem.aten, "prod")
def _reduction(call: OperatorCall, x: Any, dim: Any = None, *, keepdim: bool = False) -> Made:
    """Sums and products have the type of the result."""
    word = _word(call)
    if word in ("mean", "prod", "sum"):
        x = cast_to(call, x, result_of(call)[1])
    operator = {"prod": "ReduceProd", **ReductionProblem.aten}[word]
    return call.onnx(str(operator), x, _axes(dim), keepdims=keepdim)


@ATEN(*_TRUTHS)
def _all_or_any(call: OperatorCall, x: Any, dim: Any = None, *, keepdim: bool = False) -> Made:
    own, axes = call.dims(x), _axes(dim)
    if 0 in (own if axes is None else [own[axis] for axis in axes if own]):
        return np.full(result_of(call)[0], _word(call) == "all")
    return call.onnx(_TRUTHS[_word(call)], _truth(call, x), axes, keepdims=keepdim)


@ATEN("linalg_vector_norm")
def _norm(call: OperatorCall, x: Any, ord: float = 2, dim: Any = None, *, keepdim: bool = False) -> Made:
    """The root of the sum of powers; order 0 counts nonzeros, infinite orders are extremes."""
    x = cast_to(call, x, result_of(call)[1])
    options: dict[str, Any] = {"keepdims": keepdim}
    if ord in (1, 2):
        return call.onnx(f"ReduceL{int(ord)}", x, _axes(dim), **options)
    if not ord:
        return call.onnx(
            "ReduceSum", cast_to(call, _truth(call, x), call.numpy_type(x)), _axes(dim), **options
        )
    sizes = call.onnx("Abs", x)
    if abs(ord) == inf:
        return call.onnx("ReduceMax" if ord > 0 else "ReduceMin", sizes, _axes(dim), **options)
    powers = call.onnx("Pow", sizes, float(ord))
    return call.onnx("Pow", call.onnx("ReduceSum", powers, _axes(dim), **options), 1 / ord)


@ATEN("_cdist_forward")
def _distances(call: OperatorCall, x: Any, y: Any, p: float, mode: Any = None) -> Made:
    """Return the distances between all pairs of rows of two tensors: norms of differences."""
    rows, others = call.onnx("Unsqueeze", x, (-2,)), call.onnx("Unsqueeze", y, (-3,))
    return _norm(call, call.onnx("Sub", rows, others), p, -1)


@ATEN("_pdist_forward")
def _distances_of_pairs(call: OperatorCall, x: Any, p: float = 2.0) -> Made:
    pairs = np.triu_indices(call.dims(x)[0], 1)
    return _norm(call, call.onnx("Sub", *(call.onnx("Gather", x, at, axis=0) for at in pairs)), p, -1)


@ATEN("dist")
def _distance(call: OperatorCall, x: Any, y: Any, p: float = 2) -> Made:
    return _norm(call, call.onnx("Sub", *promoted(call, x, y)), p)


@ATEN(*_SCANS)
def _scan(call: OperatorCall, x: Any, dim: int) -> Made:
    dtype = result_of(call)[1]
    made: Made = _SCANS[_word(call)](call, x if dtype.kind == "i" else cast_to(call, x, dtype), dim)
    return made


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
