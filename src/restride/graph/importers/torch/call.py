"""A call of ATen as a node of a model: its arguments, what torch makes of it, the types that it computes in.

A node has all arguments of the call as attributes, tensors among them as `TensorArgument`s. Functions take
the first ones by position, as overloads name them differently, and others by their names in the schema.
Shapes are numbers: a program of torch is exported for inputs of known dims. A call that reads constants alone
is one: torch itself computes it.
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
"""The attribute of a node that has its `AtenCall`."""
_NUMBERS = {dtype: number for number, dtype in ELEMENTS.items()}
# From truth values to floats: what a later one meets is of its kind.
_CATEGORIES = "biuf"


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """An argument that is a tensor: the place of it among the inputs of the node."""

    place: int


@dataclass(frozen=True, slots=True)
class AtenCall:
    """The schema and results of a call by torch: the names of its arguments by position; those of all
    arguments that are not their defaults, so that they must be read; dims and data type of each result.

    `computed`: what torch makes of known arguments, by name. `reads_more`: others read more than its first
    result.
    """

    positional: tuple[str, ...]
    marked: frozenset[str]
    results: tuple[tuple[tuple[int, ...], str], ...]
    computed: Callable[[Mapping[str, Any]], tuple[Array, ...]] | None = None
    reads_more: bool = False


def translate_aten(call: OperatorCall) -> Made:
    """The values and tensors that stand for a call. Raises Unimplemented, which names it, for arguments that
    its function has not, and where the result is not what torch says.
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
    # No value of an input could make known what is not: torch has exported the program.
    own = replace(call.with_outputs(1), origins=frozenset())
    try:
        result = ATEN.run(own, inputs, arguments, aten.positional, aten.marked)
    except Unimplemented as error:
        raise error.with_context(f"node {call.node}") from None
    values = result if isinstance(result, tuple) else (result,)
    if is_row:
        values = tuple(call.reshaped(x, dims) for x, (dims, _) in zip(values, aten.results, strict=False))
    if any(call.node.outputs[len(values) :]):
        raise call.unimplemented("more of its results are read than its first one")
    for value, (dims, data_type) in zip(values, aten.results, strict=False):
        if value is None:
            continue
        kind = call.builder.type(value) if isinstance(value, str) else None
        if call.dims(value) != dims or (kind and str(kind.data_type.numpy) != data_type):
            raise call.unimplemented(
                f"its result would be {kind or call.dims(value)}, torch makes {data_type} {by(dims)}"
            )
    return values


def _with_axis(call: OperatorCall, arguments: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Where a call names an axis of a tensor without dims, which torch takes as of one: it is a row then."""
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
    """The dims and the type of the first result, as torch says."""
    dims, word = call.node.attributes[CALL].results[0]
    return dims, numpy_of(word)


def numpy_of(word: str) -> np.dtype[Any]:
    """The type of NumPy that torch has a word for."""
    return np.dtype(ml_dtypes.bfloat16 if word == "bfloat16" else word)


def reads_more(call: OperatorCall) -> bool:
    """True where not the first result alone is read."""
    return bool(call.node.attributes[CALL].reads_more)


# --- types --------------------------------------------------------------------------------------------------


def cast_to(call: OperatorCall, x: Any, dtype: np.dtype[Any]) -> Value:
    """A number, an array or a tensor of the graph in a type."""
    if not isinstance(x, str):
        return np.asarray(x, dtype)
    is_cast = call.numpy_type(x) != dtype
    return call.with_outputs(0).onnx("Cast", x, to=_NUMBERS[dtype]) if is_cast else x


def common_type(call: OperatorCall, *xs: Any, least: np.dtype[Any] | None = None) -> np.dtype[Any]:
    """The type that torch computes in: numbers, and tensors without dims, only say its kind.

    `least`: a type that it is at least.
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
    """Operands in their common type; of 16 bits numbers stay f32, in which torch computes too."""
    common = common_type(call, *xs, least=least)
    is_half = _category(common) == "f" and common.itemsize == 2
    return [
        np.asarray(x, np.float32)
        if is_half and not isinstance(x, str) and _rank(call, x)
        else cast_to(call, x, common)
        for x in xs
    ]


def of_one_type(row: Function | str) -> Function:
    """A function of elements, or ONNX's operator of a name, on operands in their common type."""

    def run(call: OperatorCall, *xs: Any) -> Made:
        are_numbers = all(isinstance(x, str | np.ndarray | int | float) for x in xs)
        _, dtype = result_of(call)
        least = dtype if _category(dtype) == "f" else None
        values = promoted(call, *xs, least=least) if are_numbers else xs
        return call.onnx(row, *values) if isinstance(row, str) else row(call, *values)

    return run


def _category(dtype: np.dtype[Any]) -> str:
    """The letter of a kind; that of floats for those that are no types of NumPy's own."""
    return "i" if dtype.kind == "u" else dtype.kind if dtype.kind in _CATEGORIES else "f"


def _rank(call: OperatorCall, x: Any) -> int:
    """How much the type of an operand counts: 0 for tensors with dims, 1 for those without, 2 for numbers."""
    return int(not call.dims(x)) if isinstance(x, str | np.ndarray) else 2


def _dtype(call: OperatorCall, x: Any) -> np.dtype[Any]:
    if isinstance(x, str):
        return call.numpy_type(x)
    if isinstance(x, np.ndarray):
        dtype: np.dtype[Any] = x.dtype
        return dtype
    if not isinstance(x, int | float):
        raise call.unimplemented(f"{short_repr(x)} is no real number")
    return np.dtype(np.bool_ if isinstance(x, bool) else np.int64 if isinstance(x, int) else np.float32)


def axes_of(values: Sequence[int] | int, rank: int) -> tuple[int, ...]:
    """Numbers of all axes, of which one number may stand for all."""
    numbers = (values,) if isinstance(values, int) else tuple(values)
    return numbers * rank if len(numbers) == 1 else numbers
