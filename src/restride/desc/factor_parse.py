"""Parses and checks scales and zero points passed by callers.

Arrays are converted as a whole, and so are lists once their types are known to be numbers; everything else is
converted element by element, so that an error names the index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dtypes import DataType
from ..errors import InvalidArguments, refuse
from ..foreign import is_masked
from .arguments import ARG_ATTR_POST_OP_DW, ARG_DST, ARG_MULTIPLE_SRC, ARG_SRC, ARG_SRC_1, ARG_WEIGHTS
from .attr_value import (
    MOST_SOURCES,
    SCALE_TYPES,
    ZERO_POINT_TYPES,
    Array,
    Factor,
    above_one,
)
from .parse import is_scalar, parse_int, parse_ints, short_repr, to_f32
from .tags import MAX_NDIMS

RUNTIME_F32_BITS = 0x7FC000D0
RUNTIME_F32_VAL = float(np.uint32(RUNTIME_F32_BITS).view(np.float32))
"""Placeholder for scales passed at execution (`DNNL_RUNTIME_F32_VAL`): a NaN with its own bits."""

RUNTIME_S32_VAL = -(2**31)
"""Placeholder for zero points passed at execution (`DNNL_RUNTIME_S32_VAL`)."""


def parse_scales(call: str, mask: object, scales: Any, groups: object, data_type: Any) -> Factor:
    """Return scales as a factor; None and a single RUNTIME_F32_VAL leave the values to execution.

    Raises InvalidArguments for non-numbers and for values that `data_type` cannot represent.
    """
    bits, dtype = parse_mask(call, mask), _parse_type(call, data_type, SCALE_TYPES)
    shared = _parse_groups(call, groups)
    name = f"{call}: scales"
    values = None if scales is None else _flat_reals(scales, name)
    if values is None or _is_runtime(values.view(np.uint32), RUNTIME_F32_BITS, name, "RUNTIME_F32_VAL"):
        return Factor(bits, dtype, shared)
    _check_common(call, bits, values.size, "scale")
    values[np.isnan(values)] = np.nan
    content = _round_scales(values, dtype, name).astype("<f4").tobytes()
    return Factor(bits, dtype, shared, content, _shape_of(scales))


def parse_zero_points(call: str, mask: object, zero_points: Any, groups: object, data_type: Any) -> Factor:
    """Return zero points as a factor; None and a single RUNTIME_S32_VAL leave the values to execution.

    Raises InvalidArguments for non-integers and for values that `data_type` cannot represent.
    """
    bits, dtype = parse_mask(call, mask), _parse_type(call, data_type, ZERO_POINT_TYPES)
    shared = _parse_groups(call, groups)
    name = f"{call}: zero_points"
    values = None if zero_points is None else _flat_integers(zero_points, name)
    if values is None or _is_runtime(values, RUNTIME_S32_VAL, name, "RUNTIME_S32_VAL"):
        return Factor(bits, dtype, shared)
    _check_common(call, bits, values.size, "zero point")
    if dtype.is_integral:
        _check_range(values, dtype, name)
    content = values.astype("<i4" if dtype.is_integral else "<f4").tobytes()
    return Factor(bits, dtype, shared, content, _shape_of(zero_points))


def parse_arg(call: str, arg: object) -> int:
    """Return the number of an argument of any primitive."""
    hint = "rs.onednn.Arg.SRC and rs.onednn.Arg.DST are argument numbers"
    number = parse_int(arg, f"{call}: arg", hint)
    if number <= 0:
        raise refuse("RS-P14:arg", call=call, number=short_repr(number), hint=hint)
    return number


def parse_scaled(call: str, arg: object) -> int:
    """Return the number of an argument of a reorder, of weights, or of a source of a concat or a binary
    operation.

    A depthwise post-op's weights too. Others as `parse_operand`.
    """
    number = parse_arg(call, arg)
    is_source = ARG_MULTIPLE_SRC <= number < ARG_MULTIPLE_SRC + MOST_SOURCES
    own = ARG_SRC_1, ARG_WEIGHTS, ARG_ATTR_POST_OP_DW | ARG_WEIGHTS, ARG_ATTR_POST_OP_DW | ARG_DST
    return number if is_source or number in own else parse_operand(call, number)


def parse_shifted(call: str, arg: object) -> int:
    """Return the number of an argument of a reorder, or of weights. Others as `parse_operand`."""
    number = parse_arg(call, arg)
    return number if number == ARG_WEIGHTS else parse_operand(call, number)


def parse_operand(call: str, arg: object) -> int:
    """Return the number of an argument that a reorder has. Raises Unimplemented for others."""
    number = parse_arg(call, arg)
    if number in (ARG_SRC, ARG_DST):
        return number
    raise refuse("RS-R26:arg", call=call, number=short_repr(number))


def parse_mask(call: str, mask: object) -> int:
    """Return a mask of up to 12 bits."""
    hint = "0 means the whole tensor"
    bits = parse_int(mask, f"{call}: mask", hint)
    if not 0 <= bits < 1 << MAX_NDIMS:
        raise refuse(
            "RS-N10:bit-stands-dimension", call=call, bits=short_repr(bits), max_ndims=MAX_NDIMS, hint=hint
        )
    return bits


def _parse_groups(call: str, groups: object) -> tuple[int, ...]:
    sizes = parse_ints(groups, f"{call}: groups")
    if len(sizes) > MAX_NDIMS:
        raise refuse("RS-R25:groups-entries", call=call, count=len(sizes), max_ndims=MAX_NDIMS)
    for i, size in enumerate(sizes):
        if size < 1:
            what, hint = f"{call}: groups[{i}] is {short_repr(size)}", "omit groups if there are none"
            raise refuse("RS-R25:empty-group", what=what, hint=hint)
    return sizes


def _parse_type(call: str, data_type: Any, allowed: tuple[DataType, ...]) -> DataType:
    element_type = DataType.parse(data_type)
    if element_type in allowed:
        return element_type
    raise refuse(
        "RS-V04:data-type", call=call, found=element_type, allowed=", ".join(t.name for t in allowed)
    )


# --- values as one flat array ------------------------------------------------------------------------------


def _flat_reals(values: Any, name: str) -> Array:
    """Return a new flat float32 array."""
    flat = _flat(values, name)
    if not isinstance(flat, np.ndarray):
        flat = _list_of_reals(flat, name)
    elif flat.dtype.kind not in "fiu" and _kind_of(flat.dtype) not in ("float", "int", "uint"):
        raise _wrong_elements(flat, name, "real numbers")
    with np.errstate(all="ignore"):
        return np.array(flat, np.float32)


def _list_of_reals(values: Sequence[Any], name: str) -> Array:
    if _are_all(values, int | float | np.integer | np.floating):
        try:
            with np.errstate(all="ignore"):
                return np.array(values, np.float64)
        except Exception:
            pass  # an integer too large for a float, or an unusual number: found again below, with its index
    return np.array([to_f32(value, f"{name}[{i}]") for i, value in enumerate(values)])


def _flat_integers(values: Any, name: str) -> Array:
    """Return a flat array of 64-bit integers, or of the array's own width."""
    flat = _flat(values, name)
    if not isinstance(flat, np.ndarray):
        return _list_of_integers(flat, name)
    if flat.dtype.kind in "iu":
        return flat
    if _kind_of(flat.dtype) in ("int", "uint"):
        return flat.astype(np.int64)
    raise _wrong_elements(flat, name, "integers")


def _list_of_integers(values: Sequence[Any], name: str) -> Array:
    if _are_all(values, int | np.integer):
        numbers = list(map(int, values))
    else:
        numbers = [parse_int(value, f"{name}[{i}]") for i, value in enumerate(values)]
    try:
        return np.array(numbers, np.int64)
    except OverflowError:
        index = next(i for i, value in enumerate(numbers) if not -(2**63) <= value < 2**63)
        raise _outside(name, index, numbers[index], DataType.s32) from None


def _flat(values: Any, name: str) -> Array | Sequence[Any]:
    """Return the values as a flat row-major array, or as a list of whatever was passed."""
    if type(values) is list or type(values) is tuple:
        return values
    if is_masked(values) or isinstance(values, str | bytes | bytearray):
        raise _no_numbers(values, name)
    try:
        if isinstance(values, list | tuple):
            return list(values)
        flat = (values,) if is_scalar(values) else np.asarray(values).ravel()
    except Exception:  # a foreign object can raise anything when read
        raise _no_numbers(values, name) from None
    return flat.tolist() if isinstance(flat, np.ndarray) and flat.dtype.kind == "O" else flat


def _shape_of(values: Any) -> tuple[int, ...]:
    """Return the extents above 1 of an array with several of them; empty for flat values."""
    shape = () if isinstance(values, list | tuple) or is_scalar(values) else above_one(np.shape(values))
    return shape if len(shape) > 1 else ()


def _kind_of(dtype: np.dtype[Any]) -> str:
    """Return the kind of one of our data types; empty for other elements."""
    try:
        return DataType.parse(dtype).kind
    except InvalidArguments:
        return ""


def _are_all(values: Sequence[Any], allowed: Any) -> bool:
    kinds = set(map(type, values))
    return all(issubclass(kind, allowed) and not issubclass(kind, bool) for kind in kinds)


def _wrong_elements(values: Array, name: str, kinds: str) -> InvalidArguments:
    what, why = f"{name} has elements of {short_repr(values.dtype)}", f"they must be {kinds}"
    return InvalidArguments(what, code="RS-V02", why=why, hint="convert them first")


def _no_numbers(values: object, name: str) -> InvalidArguments:
    what, why = f"{name} is {short_repr(values)}", "it must be one real number, or an array or list of them"
    return InvalidArguments(
        what, code="RS-V02", why=why, hint="pass 0.5, [0.5, 0.25], or a NumPy array without a mask"
    )


# --- range and placeholders --------------------------------------------------------------------------------


def _is_runtime(values: Array, placeholder: int, name: str, word: str) -> bool:
    """Return True if the values are the single placeholder. Among other values it has no meaning."""
    is_placeholder = values == placeholder
    if values.size > 1 and is_placeholder.any():
        raise refuse("RS-R24", name=name, found=int(is_placeholder.argmax()), word=word)
    return bool(is_placeholder.any())


def _check_common(call: str, mask: int, count: int, word: str) -> None:
    if mask or count == 1:
        return
    raise refuse("RS-R22:mask-0-stands", call=call, word=word, count=count)


def _round_scales(values: Array, dtype: DataType, name: str) -> Array:
    """Round scales to the type, half to even. Those of e8m0 must be powers of two."""
    if dtype is DataType.f32:
        return values
    with np.errstate(all="ignore"):
        rounded: Array = values.astype(dtype.numpy).astype(np.float32)
    same_kind = (np.isfinite(rounded) == np.isfinite(values)) & (np.isnan(rounded) == np.isnan(values))
    holds = (rounded == values) | np.isnan(values) if dtype is DataType.e8m0 else same_kind
    if not holds.all():
        index = int((~holds).argmax())
        raise refuse(
            "RS-R22:holds",
            name=name,
            index=index,
            values=values[index],
            dtype=dtype,
            range_texts=_RANGE_TEXTS[dtype],
        )
    return rounded


_RANGE_TEXTS = {
    DataType.bf16: "values up to 3.39e38",
    DataType.f16: "values up to 65504",
    DataType.f8_e5m2: "values up to 57344",
    DataType.f8_e4m3: "values up to 448, and no infinity",
    DataType.e8m0: "the powers of two from 2**-127 to 2**127",
}


def _check_range(values: Array, dtype: DataType, name: str) -> None:
    low, high = _limits(dtype)
    outside = (values < low) | (values > high)
    if outside.any():
        index = int(outside.argmax())
        raise _outside(name, index, int(values[index]), dtype)


def _limits(dtype: DataType) -> tuple[int, int]:
    if dtype.kind == "uint":
        return 0, 2**dtype.bits - 1
    return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1


def _outside(name: str, index: int, value: int, dtype: DataType) -> InvalidArguments:
    low, high = _limits(dtype)
    what, why = f"{name}[{index}] is {short_repr(value)}", f"{dtype} holds {low} to {high}"
    return InvalidArguments(
        what, code="RS-R27", why=why, hint="use a smaller zero point, or a wider data_type"
    )
