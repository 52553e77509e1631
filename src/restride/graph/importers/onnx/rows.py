"""ONNX operators listed as rows in an operation of `ops/`: an algorithm with its parameters.

    onnx = {"Exp": "exp", "HardSwish": ("hardswish", 1 / 6, 0.5), "Elu": lambda alpha=1.0: ("elu", alpha)}

The parameters of a row that is a function are the operator's attributes, with their defaults. A function
whose first parameter is `call` translates the operator itself, like those of this folder.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Annotated, Any

import numpy as np

from .... import onednn
from ....dtypes import DataType
from ....model.operation import OperationProblem
from ....ops import PRIMITIVES
from ....runtime.alloc import Array
from ...nodes.layers import ReductionOperation
from ..operator_call import ONNX, Chosen, Function, Ints, Made, Operand, OperatorCall, OperatorTable, Value
from .known import axis_of

# Algorithms that return one of their input elements unchanged.
_CHOICES = ("max", "min", "relu")
# NumPy functions of reductions on known values, and their result on one element unless it is the element.
_ON_ARRAYS: Mapping[str, Callable[..., Any]] = {
    "max": lambda x, **options: np.max(x, initial=_end(x, -1), **options),
    "min": lambda x, **options: np.min(x, initial=_end(x, 1), **options),
    "mul": np.prod,
    "sum": np.sum,
}
_OF_ONE = {"norm_lp_sum": "abs", "norm_lp_power_p_sum": "square"}


def _end(x: Array, sign: int) -> Any:
    """Return the least or the largest value of a type: the extreme of no elements."""
    if x.dtype.kind not in "iu":
        return sign > 0 if x.dtype.kind == "b" else sign * np.inf
    return np.iinfo(x.dtype).max if sign > 0 else np.iinfo(x.dtype).min


def specifications() -> Iterator[type[OperationProblem]]:
    """Yield the operations of `ops/` that have primitives."""
    kinds = (getattr(onednn, name) for names in PRIMITIVES.values() for name in names.split())
    yield from dict.fromkeys(kind.PrimitiveDesc._operation for kind in kinds)


def _eltwise(parameters: Callable[..., Sequence[Any]]) -> Function:
    def run(call: OperatorCall, x: Operand, **attributes: Any) -> Value:
        return call.function(x, *parameters(**attributes))

    return run


def _binary(parameters: Callable[..., Sequence[Any]]) -> Function:
    (algorithm,) = parameters()

    def run(call: OperatorCall, *xs: Operand, axis: int | None = None, broadcast: int = 0) -> Value:
        result = xs[0]
        for x in xs[1:]:
            ranks = len(call.dims(result)), len(call.dims(x))
            if axis is not None and axis not in (ranks[0] - ranks[1], -ranks[1]):
                raise call.unimplemented(
                    f"it aligns its second input at axis {axis}, as versions before 7 do",
                    "convert the model: onnx.version_converter.convert_version",
                )
            result = call.binary(algorithm, result, x)
        return result

    return run


def _reduction(parameters: Callable[..., Sequence[Any]]) -> Function:
    algorithm, *numbers = parameters()

    def run(
        call: OperatorCall,
        x: Operand,
        axes: Annotated[Ints, "the list of axes"] | None = None,
        *,
        keepdims: bool = True,
        noop_with_empty_axes: bool = False,
    ) -> Value:
        dims = call.dims(x)
        if not axes and not noop_with_empty_axes:
            axes = tuple(range(len(dims)))
        which = tuple(sorted({axis_of(axis, len(dims)) for axis in axes or ()}))
        if not isinstance(x, str) and algorithm in _ON_ARRAYS:
            result = np.asarray(_ON_ARRAYS[algorithm](x, axis=which, keepdims=keepdims))
            return result.astype(x.dtype, copy=False)
        if not which:
            return call.function(x, _OF_ONE[algorithm]) if algorithm in _OF_ONE else call.placed(x)
        if call.type_of(x) is DataType.boolean and not prod(dims[i] for i in which):
            raise call.unimplemented("it reduces no elements to a truth value")
        folded = call.builder.add(
            ReductionOperation(f"reduction_{algorithm}", which, *numbers), call.placed(x)
        )
        return (
            folded if keepdims else call.reshaped(folded, [n for i, n in enumerate(dims) if i not in which])
        )

    return run


def _elementwise(parameters: Callable[..., Sequence[Any]]) -> Function:
    def run(call: OperatorCall, *xs: Value, **attributes: Any) -> Made:
        algorithm, *numbers = parameters(**attributes)
        return call.elements(algorithm, *xs, **dict(zip(("alpha", "beta"), numbers, strict=False)))

    return run


_KINDS = {"eltwise": _eltwise, "binary": _binary, "reduction": _reduction, "elementwise": _elementwise}


def _function_of_row(kind: str, row: Any) -> Any:
    attributes = list(inspect.signature(row).parameters.values()) if callable(row) else []
    if attributes and attributes[0].name == "call":
        return row
    parameters = row if callable(row) else lambda: _as_f32((row,) if isinstance(row, str) else row)
    function: Any = _KINDS[kind](parameters)
    if not callable(row) and kind != "elementwise" and parameters()[0] in _CHOICES:
        function.__annotations__ |= {name: Chosen for name in ("x", "xs") if name in function.__annotations__}
    params = list(inspect.signature(function).parameters.values())
    if params[-1].kind is params[-1].VAR_KEYWORD:
        params[-1:] = [
            item.replace(kind=item.KEYWORD_ONLY, default=_as_f32([item.default])[0]) for item in attributes
        ]
    function.__signature__ = inspect.Signature(params)
    return function


def enter_rows(table: OperatorTable, rows: Mapping[str, Any]) -> None:
    """Register in a table the operators that an operation lists by their equivalent ONNX operators."""
    for name, row in rows.items():
        table(name)(row if callable(row) else _by_onnx(row))


def _by_onnx(operator: str) -> Function:
    return lambda call, *xs: call.onnx(operator, *xs)


def _as_f32(numbers: Sequence[Any]) -> tuple[Any, ...]:
    """Return the numbers of a row as f32, as ONNX has them; values from a model stay unchanged."""
    return tuple(float(np.float32(number)) if isinstance(number, float) else number for number in numbers)


for _specification in specifications():
    for _name, _row in _specification.onnx.items():
        ONNX(_name)(_function_of_row(_specification.operation, _row))
    for _name, _row in _specification.integers.items():
        ONNX.of_integers[_name] = _function_of_row(_specification.operation, _row)
