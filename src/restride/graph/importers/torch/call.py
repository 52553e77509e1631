"""A call of ATen as a node of a model: its arguments, torch's result types, and computation types.

A node has all arguments of the call as attributes, with tensors as `TensorArgument`s. Functions take the
first ones by position, since overloads name them differently, and others by their names in the schema. Shapes
are numbers, as programs of torch are exported for inputs of known dims. A call that reads only constants is
computed by torch and becomes a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from ....desc.parse import short_repr
from ....errors import Unimplemented
from ....runtime.alloc import Array
from ....runtime.free_memory import check_room
from ...dims import by
from ..onnx.tensors import ELEMENTS
from ..operator_call import ATEN, Function, Made, OperatorCall, Value

__all__ = [
    "CALL",
    "AtenCall",
    "TensorArgument",
    "axes_of",
    "cast_to",
    "common_type",
    "numpy_of",
    "of_one_type",
    "promoted",
    "reads_more",
    "result_of",
    "translate_aten",
]

CALL = ""
"""The attribute of a node that holds its `AtenCall`."""
_NUMBERS = {dtype: number for number, dtype in ELEMENTS.items()}
# Categories in ascending order, from bool to float; the highest one determines the result.
_CATEGORIES = "biuf"


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """An argument that is a tensor: its index among the inputs of the node."""

    place: int


@dataclass(frozen=True, slots=True)
class AtenCall:
    """The schema and results of a call by torch: the names of its arguments by position; the names of all
    arguments that are not defaults, so that they must be read; dims and data type of each result.

    `computed`: torch's results on known arguments, by name. `reads_more`: results after the first are read.
    """

    positional: tuple[str, ...]
    marked: frozenset[str]
    results: tuple[tuple[tuple[int, ...], str], ...]
    computed: Callable[[Mapping[str, Any]], tuple[Array, ...]] | None = None
    reads_more: bool = False


def translate_aten(call: OperatorCall) -> Made:
    """Return the values and tensors that stand for a call. Raises Unimplemented, naming it, for arguments
    that its function does not have, and if the result types differ from torch's.
    """
    arguments = dict(call.node.attributes)
    aten: AtenCall = arguments.pop(CALL)
    arguments = {name: _argument(call, value) for name, value in arguments.items()}
    if aten.computed is not None and not any(isinstance(value, str) for value in call.values):
        if not call.values:
            check_room(sum(8 * prod(dims) for dims, _ in aten.results))
        return aten.computed(arguments)
    arguments, is_row = _with_axis(call, arguments)
    inputs = [arguments[name] for name in aten.positional]
    # Known input values would not help: torch has already exported the program.
    own = replace(call.with_outputs(1), origins=frozenset())
    try:
        result = ATEN.run(own, inputs, arguments, aten.positional, aten.marked)
    except Unimplemented as error:
        raise error.with_context(f"node {call.node}") from None
    values = result if isinstance(result, tuple) else (result,)
    if is_row:
        values = tuple(call.reshaped(x, dims) for x, (dims, _) in zip(values, aten.results, strict=False))
    if any(call.node.outputs[len(values) :]):
        raise call.unimplemented("results after its first one are read")
    for value, (dims, data_type) in zip(values, aten.results, strict=False):
        if value is None:
            continue
        kind = call.builder.type(value) if isinstance(value, str) else None
        if call.dims(value) != dims or (kind and str(kind.data_type.numpy) != data_type):
            raise call.unimplemented(
                f"its result would be {kind or call.dims(value)}, but torch makes {data_type} {by(dims)}"
            )
    return values


def _with_axis(call: OperatorCall, arguments: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """For a call with an axis on a scalar tensor, which torch treats as one-dimensional, make it a row."""
    tensors = [name for name, value in call.node.attributes.items() if isinstance(value, TensorArgument)]
    points = {name: arguments[name] for name in tensors if not call.dims(arguments[name])}
    names_axis = any(arguments.get(name) not in (None, ()) for name in ("dim", "dims"))
    if not names_axis or next(iter(arguments), "") not in points:
        return arguments, False
    return {**arguments, **{name: call.reshaped(x, (1,)) for name, x in points.items()}}, True


def _argument(call: OperatorCall, value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_argument(call, item) for item in value)
    return call.values[value.place] if isinstance(value, TensorArgument) else value


def result_of(call: OperatorCall) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the dims and the type of the first result, according to torch."""
    dims, word = call.node.attributes[CALL].results[0]
    return dims, numpy_of(word)


def numpy_of(word: str) -> np.dtype[Any]:
    """Return NumPy's type of a torch word."""
    return np.dtype(ml_dtypes.bfloat16 if word == "bfloat16" else word)


def reads_more(call: OperatorCall) -> bool:
    """True if results after the first are read."""
    return bool(call.node.attributes[CALL].reads_more)


# --- types --------------------------------------------------------------------------------------------------


def cast_to(call: OperatorCall, x: Any, dtype: np.dtype[Any]) -> Value:
    """Cast a number, an array or a tensor of the graph to a type."""
    if not isinstance(x, str):
        return np.asarray(x, dtype)
    is_cast = call.numpy_type(x) != dtype
    return call.with_outputs(0).onnx("Cast", x, to=_NUMBERS[dtype]) if is_cast else x


def common_type(call: OperatorCall, *xs: Any, least: np.dtype[Any] | None = None) -> np.dtype[Any]:
    """Return the type in which torch computes; of numbers and scalar tensors only the category counts.

    `least`: a lower bound on the type.
    """
    common = least
    for group in (0, 1, 2):
        kinds = [_dtype(call, x) for x in xs if _rank(call, x) == group]
        category = max(map(_category, kinds), key=_CATEGORIES.index, default="")
        if kinds and (common is None or _CATEGORIES.index(category) > _CATEGORIES.index(_category(common))):
            same = [kind for kind in kinds if _category(kind) == category]
            common = same[0]
            for kind in same[1:]:
                common = np.promote_types(common, kind)
    assert common is not None
    return common


def promoted(call: OperatorCall, *xs: Any, least: np.dtype[Any] | None = None) -> list[Any]:
    """Promote operands to their common type; with 16 bits, numbers stay f32, as in torch."""
    common = common_type(call, *xs, least=least)
    is_half = _category(common) == "f" and common.itemsize == 2
    return [
        np.asarray(x, np.float32)
        if is_half and not isinstance(x, str) and _rank(call, x)
        else cast_to(call, x, common)
        for x in xs
    ]


def of_one_type(row: Function | str) -> Function:
    """Wrap an elementwise function, or ONNX's operator of a name, to promote its operands first."""

    def run(call: OperatorCall, *xs: Any) -> Made:
        are_numbers = all(isinstance(x, str | np.ndarray | int | float) for x in xs)
        _, dtype = result_of(call)
        least = dtype if _category(dtype) == "f" else None
        values = promoted(call, *xs, least=least) if are_numbers else xs
        return call.onnx(row, *values) if isinstance(row, str) else row(call, *values)

    return run


def _category(dtype: np.dtype[Any]) -> str:
    """Return the letter of a kind; types that NumPy lacks count as floats."""
    return "i" if dtype.kind == "u" else dtype.kind if dtype.kind in _CATEGORIES else "f"


def _rank(call: OperatorCall, x: Any) -> int:
    """Return the promotion priority of an operand: 0 for tensors with dims, 1 for scalars, 2 for numbers."""
    return int(not call.dims(x)) if isinstance(x, str | np.ndarray) else 2


def _dtype(call: OperatorCall, x: Any) -> np.dtype[Any]:
    if isinstance(x, str):
        return call.numpy_type(x)
    if isinstance(x, np.ndarray):
        dtype: np.dtype[Any] = x.dtype
        return dtype
    if not isinstance(x, int | float):
        raise call.unimplemented(f"{short_repr(x)} is not a real number")
    return np.dtype(np.bool_ if isinstance(x, bool) else np.int64 if isinstance(x, int) else np.float32)


def axes_of(values: Sequence[int] | int, rank: int) -> tuple[int, ...]:
    """Return one number per axis, repeating a single one."""
    numbers = (values,) if isinstance(values, int) else tuple(values)
    return numbers * rank if len(numbers) == 1 else numbers
