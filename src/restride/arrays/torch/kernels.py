"""Kernels on torch tensors: calls looked up by shapes, strides and types, run on the tensors' addresses.

Only `restride.torch` may import this module, because it imports torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from ...desc.parse import short_repr
from ...desc.tag_names import LETTERS
from ...dtypes import DataType
from ...errors import refuse
from ...runtime.cache import calls
from ...runtime.result_pool import take_bytes
from ...verbose import flags
from ..calls.arithmetic import to_factor
from ..calls.array_kinds import ArrayKind
from ..calls.binder import CompiledCall
from ..calls.carriers import carried
from ..calls.formats import plain_order
from ..calls.signature import NO_VALUES, Values, scale_values
from ..calls.tensor_calls import bind_reorder, bind_shuffle
from ..calls.tensors import as_numpy
from ..groups import CHANNEL_SHUFFLE, SHUFFLE, SHUFFLE_CHANNELS
from ..reorders import reorder as reorder_arrays
from ..shuffles import shuffle as shuffle_arrays

_FLOATS = ("float64", "float32", "bfloat16", "float16", "float8_e5m2", "float8_e4m3fn")
_INTEGERS = ("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8")
# Older torch versions lack wide unsigned integers.
_BY_NAME = {
    DataType.parse(name): getattr(torch, name)
    for name in (*_FLOATS, *_INTEGERS, "bool")
    if hasattr(torch, name)
}
_TWINS: dict[Any, np.dtype[Any]] = {kind: data_type.numpy for data_type, kind in _BY_NAME.items()}  # type: ignore[misc]

# Bound to names here: each lookup inside torch takes a tenth of a kernel's time.
_empty_strided = torch.empty_strided
_CPU = torch.device("cpu")
_HALF = 8
# From this size on, results come from the pool: torch requests large ones from the system each time.
_POOLED_BYTES = 1 << 20
RULES = {rule.call: rule for rule in (SHUFFLE, SHUFFLE_CHANNELS, CHANNEL_SHUFFLE)}


# --- types and layouts --------------------------------------------------------------------------------------


def dtype_of(data_type: Any) -> Any:
    """Return the torch type for a name or a type of NumPy, restride or torch.

    Raises InvalidArguments for types that torch does not have.
    """
    if isinstance(data_type, torch.dtype):
        return data_type
    kind = DataType.parse(data_type)
    if kind in _BY_NAME:
        return _BY_NAME[kind]
    raise refuse("RS-A17:torch-no", datatype=kind)


def order_of(dst: str, ndims: int) -> tuple[int, ...]:
    """Return the axes of a plain format, outermost first. Raises InvalidArguments for other formats."""
    return plain_order("restride.torch.reorder", dst, ndims)


def tag_of(order: Sequence[int]) -> str:
    """Return the tag of a plain format with these axes, outermost first.

    Raises InvalidArguments unless each axis occurs once.
    """
    if sorted(order) != list(range(len(order))) or len(order) > len(LETTERS):
        raise refuse("RS-A17:order-no-order", order=short_repr(list(order)), count=len("abcdefghijkl"))
    return "".join(LETTERS[d] for d in order)


def order_by_stride(x: Any) -> list[int]:
    """Return the axes of a tensor, outermost first."""
    strides = x.stride()
    return sorted(range(x.dim()), key=lambda d: (-strides[d], d))


def dense_strides(shape: Sequence[Any], order: Sequence[int]) -> tuple[Any, ...]:
    """Return the strides of a dense tensor with this order of axes; extents can be the compiler's symbols."""
    stride: Any = 1
    strides = [stride] * len(shape)
    for d in reversed(order):
        strides[d] = stride
        stride = stride * (shape[d] if shape[d] != 0 else 1)
    return tuple(strides)


def new_like(x: Any, dtype: Any = None, shape: Any = None, order: Sequence[int] | None = None) -> Any:
    """Return an uninitialized dense tensor, like `x` by default; works for fake tensors too.

    `order`: its axes, outermost first.
    """
    dims = tuple(x.shape if shape is None else shape)
    strides = dense_strides(dims, order_by_stride(x) if order is None else order)
    return torch.empty_strided(dims, strides, dtype=dtype or x.dtype, device=x.device)


def array_of(x: Any, name: str = "restride.torch") -> Any:
    """Return the numbers of a tensor, without its autograd history."""
    return as_numpy(x.detach().resolve_conj().resolve_neg(), name)


# --- calls --------------------------------------------------------------------------------------------------


class _TensorCall:
    """A call, and what it needs for tensors: the bytes of an element and of everything read, a function that
    creates the result tensor, and the same operation on arrays, which writes verbose lines.
    """

    __slots__ = ("call", "itemsize", "new_result", "on_arrays", "reach")

    def __init__(
        self,
        call: CompiledCall,
        itemsize: int,
        on_arrays: Callable[..., Any],
        shape: Any,
        strides: Any,
        dtype: Any,
    ) -> None:
        self.call, self.reach, self.itemsize, self.on_arrays = call, call.reach, itemsize, on_arrays
        # The device is explicit: `with torch.device("meta")` is not meant for our results.
        self.new_result: Callable[[], Any] = partial(_empty_strided, shape, strides, dtype=dtype, device=_CPU)
        if math.prod(shape) * dtype.itemsize >= _POOLED_BYTES:
            self.new_result = partial(_new_in_pool, math.prod(shape), shape, strides, dtype)


def _new_in_pool(count: int, shape: Any, strides: Any, dtype: Any) -> Any:
    """Return a tensor in the pool that is not a view of another: autograd has rules for views."""
    buffer, twin = take_bytes(count * dtype.itemsize)[1], _TWINS.get(dtype)
    if twin is None or twin.kind == "V":
        return torch.frombuffer(buffer, dtype=dtype, count=count).as_strided_(shape, strides)
    steps = tuple([stride * twin.itemsize for stride in strides])
    return torch.from_numpy(np.ndarray(shape, twin, buffer, 0, steps))


def reorder_new(x: Any, dst: str, dtype: Any = None, scale: float | None = None) -> Any:
    """Reorder a CPU tensor to a new one; one lookup if the kind of call is cached.

    Raises InvalidArguments for unsupported calls, and for storage that has been truncated.
    """
    values = NO_VALUES if scale is None else scale_values(to_factor(scale, "scale"))
    kind = _bind_reorder, x.shape, x.stride(), x.dtype, dst, dtype, values is not NO_VALUES
    return _run(kind, x, values)


def shuffle_new(call: str, x: Any, number: int = 1, axis: int = 1) -> Any:
    """Shuffle a CPU tensor to a new one of its layout; `call`: the rule for counting groups.

    Raises as `reorder_new`.
    """
    return _run((_bind_shuffle, x.shape, x.stride(), x.dtype, call, number, axis), x, NO_VALUES)


def _run(kind: tuple[Any, ...], x: Any, values: Values) -> Any:
    """Return the result of the call of a kind, whose first items say how and from what to create it."""
    tensor_call: _TensorCall | None = calls.find(kind)
    if tensor_call is None:
        tensor_call = calls.keep(kind, kind[0](*kind[1:]))
    else:
        calls.count_hit()
    if x.untyped_storage().nbytes() < x.storage_offset() * tensor_call.itemsize + tensor_call.reach:
        raise refuse("RS-A04:x-resized")
    out = tensor_call.new_result()
    if flags.profile:
        tensor_call.on_arrays(x, out, values)
    else:
        # torch strides are never negative: element offset 0 is the start of the tensor.
        tensor_call.call.run(x.data_ptr(), out.data_ptr(), values)
    return out


def _bind_reorder(
    shape: Any, strides: Any, dtype: Any, dst: str, out_dtype: Any, is_scaled: bool
) -> _TensorCall:
    kind = out_dtype or dtype
    out_strides = dense_strides(shape, order_of(dst, len(shape)))
    if dtype not in _TWINS and kind is dtype and not is_scaled:
        kinds = [_kind_of_bits(shape, steps, dtype) for steps in (strides, out_strides)]
    else:
        source = _kind(shape, strides, _twin(dtype))
        kinds = [source, _kind(shape, out_strides, _twin(kind, is_named=kind is not dtype))]

    def on_arrays(x: Any, out: Any, values: Values) -> None:
        reorder_arrays(
            array_of(x), None, scale=values.scalars[0] if values.scalars else None, out=array_of(out)
        )

    call = bind_reorder(kinds[0], kinds[1], is_scaled)
    return _TensorCall(call, dtype.itemsize, on_arrays, shape, out_strides, kind)


def _bind_shuffle(shape: Any, strides: Any, dtype: Any, call: str, number: int, axis: int) -> _TensorCall:
    out_strides = torch.empty_like(torch.empty_strided(shape, strides, device="meta")).stride()
    src, dst = (_kind_of_bits(shape, steps, dtype) for steps in (strides, out_strides))
    at, size = RULES[call].split(tuple(shape), axis, number)
    compiled_call = bind_shuffle(SHUFFLE, src, dst, at, size)

    def on_arrays(x: Any, out: Any, values: Values) -> None:
        shuffle_arrays(_bits(x), group_size=size, axis=at, out=_bits(out))

    return _TensorCall(compiled_call, dtype.itemsize, on_arrays, tuple(shape), out_strides, dtype)


def _kind(shape: Any, strides: Any, twin: np.dtype[Any]) -> ArrayKind:
    return tuple(shape), tuple([step * twin.itemsize for step in strides]), twin


def _kind_of_bits(shape: Any, strides: Any, dtype: Any) -> ArrayKind:
    """Return the kind of a tensor whose bits are moved: with 16 bytes, the halves are an additional axis.

    Unsigned integers carry the bits of any type of their width; for others the error shows the size.
    """
    if dtype.itemsize == 2 * _HALF:
        return _kind((*shape, 2), (*(2 * step for step in strides), 1), carried(np.dtype(np.uint64)))
    widths = {1: "u1", 2: "u2", 4: "u4", 8: "u8"}
    return _kind(shape, strides, carried(np.dtype(widths.get(dtype.itemsize, f"V{dtype.itemsize}"))))


def _bits(x: Any) -> Any:
    carrier = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}.get(x.element_size())
    return (x if carrier is None else x.view(getattr(torch, carrier))).detach().numpy()


def _twin(dtype: Any, *, is_named: bool = False) -> np.dtype[Any]:
    """Return the NumPy type for a torch type; `is_named`: it is the `dtype` of a call, not that of `x`."""
    if dtype in _TWINS:
        return _TWINS[dtype]
    if is_named:
        what, hint = f"dtype is {dtype}", f"use one of {', '.join(map(str, _TWINS))}"
    elif getattr(dtype, "is_complex", False):
        what, hint = f"elements of {dtype}", "make the parts an axis: torch.view_as_real(x.resolve_conj())"
    else:
        what, hint = f"elements of {dtype}", "convert, for example x.float()"
    raise refuse("RS-A17:no-such-type", what=what, hint=hint)
