"""Kernels on torch's tensors: calls found by shapes, strides and types, run on the tensors' addresses.

This module imports torch; nothing does so but `restride.torch`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import torch

from ...desc.parse import short_repr
from ...desc.tag_names import LETTERS
from ...dtypes import DataType
from ...errors import refuse
from ...ops.shuffle import ShuffleProblem
from ...runtime.cache import calls
from ...runtime.result_pool import take_bytes
from ...verbose import flags
from ..calls.arithmetic import to_factor
from ..calls.array_kinds import ArrayKind
from ..calls.binder import CompiledCall
from ..calls.carriers import carried
from ..calls.formats import plain_order
from ..calls.signature import NO_VALUES, scale_values
from ..calls.tensor_calls import bind_reorder, bind_shuffle
from ..groups import CHANNEL_SHUFFLE, SHUFFLE, SHUFFLE_CHANNELS
from ..reorders import reorder as reorder_arrays
from ..shuffles import shuffle as shuffle_arrays
from .modes import is_symbol

_TWINS: dict[Any, np.dtype[Any]] = {
    torch.float64: np.dtype(np.float64),
    torch.float32: np.dtype(np.float32),
    torch.bfloat16: np.dtype(ml_dtypes.bfloat16),
    torch.float16: np.dtype(np.float16),
    torch.float8_e5m2: np.dtype(ml_dtypes.float8_e5m2),
    torch.float8_e4m3fn: np.dtype(ml_dtypes.float8_e4m3fn),
    torch.int32: np.dtype(np.int32),
    torch.int8: np.dtype(np.int8),
    torch.uint8: np.dtype(np.uint8),
    torch.bool: np.dtype(np.bool_),
}
_BY_NAME = {DataType.parse(twin): kind for kind, twin in _TWINS.items()}


# By a name of this module, as each look-up inside of torch is a tenth of what a kernel takes.
_empty_strided = torch.empty_strided
_CPU = torch.device("cpu")
_HALF = 8
# From here on results lie in the pool: torch takes large ones anew from the system each time.
_POOLED_BYTES = 1 << 20
RULES = {rule.call: rule for rule in (SHUFFLE, SHUFFLE_CHANNELS, CHANNEL_SHUFFLE)}


def dtype_of(data_type: Any) -> Any:
    """The type of torch that a name, a type of NumPy's or of restride's, or torch's own stands for.

    Raises InvalidArguments for types that torch lacks.
    """
    if isinstance(data_type, torch.dtype):
        return data_type
    found = _BY_NAME.get(DataType.parse(data_type))
    if found is not None:
        return found
    raise refuse("RS-A17:torch-no", datatype=DataType.parse(data_type))


def parse_counts(call: str, number: Any, axis: Any) -> tuple[Any, Any]:
    """How many, and the axis, as integers; what a compiler or a tracer puts in their place is left to it.

    Raises InvalidArguments for all else.
    """
    if type(number) is int and type(axis) is int:
        return number, axis
    rule = RULES[call]
    counted = number if is_symbol(number) else rule.parse(0, number)[1]
    return counted, axis if is_symbol(axis) else rule.parse(axis, 1)[0]


def parse_scale(scale: Any) -> Any:
    """A scale as operators take it. Raises InvalidArguments for what is no number."""
    if scale is None or type(scale) is float or is_symbol(scale):
        return scale
    return to_factor(scale, "scale")


def order_of(dst: str, ndims: int) -> tuple[int, ...]:
    """The axes of a plain format, outermost first. Raises InvalidArguments for other formats."""
    return plain_order("restride.torch.reorder", dst, ndims)


def tag_of(order: Sequence[int]) -> str:
    """The tag of a plain format with these axes, outermost first.

    Raises InvalidArguments unless each axis is there once.
    """
    if sorted(order) != list(range(len(order))) or len(order) > len(LETTERS):
        raise refuse("RS-A17:order-no-order", order=short_repr(list(order)), count=len("abcdefghijkl"))
    return "".join(LETTERS[d] for d in order)


def order_by_stride(x: Any) -> list[int]:
    """The axes of a tensor, outermost first."""
    strides = x.stride()
    return sorted(range(x.dim()), key=lambda d: (-strides[d], d))


def empty(x: Any, order: Sequence[int], dtype: Any) -> Any:
    """An empty tensor of the shape of `x`, dense in that order of axes; works for fake tensors too."""
    strides = dense_strides(x.shape, order)
    return torch.empty_strided(x.shape, strides, dtype=dtype or x.dtype, device=x.device)


def dense_strides(shape: Sequence[Any], order: Sequence[int]) -> tuple[Any, ...]:
    """The strides of a dense tensor whose axes lie in that order; extents may be symbols of the compiler."""
    stride: Any = 1
    strides = [stride] * len(shape)
    for d in reversed(order):
        strides[d] = stride
        stride = stride * (shape[d] if shape[d] != 0 else 1)
    return tuple(strides)


def reorder_new(x: Any, dst: str, dtype: Any, scale: float | None) -> Any:
    """Run the reorder of a tensor of the CPU into a new one; one look-up where the kind of call is warm.

    Raises InvalidArguments for what has no answer, and for storage that has been cut short.
    """
    values = NO_VALUES if scale is None else scale_values(to_factor(scale, "scale"))
    kind = _make_reorder, x.shape, x.stride(), x.dtype, dst, dtype, values is not NO_VALUES
    made: _TensorCall | None = calls.find(kind)
    if made is None:
        made = _new_call(kind)
    else:
        calls.count_hit()
    if x.untyped_storage().nbytes() < x.storage_offset() * made.itemsize + made.reach:
        raise refuse("RS-A04:x-resized")
    out = made.new_result()
    if flags.profile:
        return _reported(x, out, scale)
    # Strides of torch are never negative: element offset 0 is where the tensor starts.
    made.call.run(x.data_ptr(), out.data_ptr(), values)
    return out


def shuffle_new(call: str, x: Any, number: int, axis: int) -> Any:
    """Run a shuffle of a tensor of the CPU into a new one of its layout; `call`: which rule counts groups.

    Raises as `reorder_new`.
    """
    kind = _make_shuffle, call, x.shape, x.stride(), x.dtype, number, axis
    made: _TensorCall | None = calls.find(kind)
    if made is None:
        made = _new_call(kind)
    else:
        calls.count_hit()
    if x.untyped_storage().nbytes() < x.storage_offset() * made.itemsize + made.reach:
        raise refuse("RS-A04:x-resized")
    out = made.new_result()
    if flags.profile:
        split = made.call.impl.problem
        assert isinstance(split, ShuffleProblem)
        shuffle_arrays(_bits(x), group_size=split.group_size, axis=split.axis, out=_bits(out))
        return out
    made.call.run(x.data_ptr(), out.data_ptr())
    return out


class _TensorCall:
    """A call, and what has to be known of tensors beside it: the bytes of an element and of all that is read,
    and how a tensor for the result is made.
    """

    __slots__ = ("call", "itemsize", "new_result", "reach")

    def __init__(self, call: CompiledCall, itemsize: int, shape: Any, strides: Any, dtype: Any) -> None:
        self.call, self.reach, self.itemsize = call, call.reach, itemsize
        # The device by name: `with torch.device("meta")` is not about our results.
        self.new_result: Callable[[], Any] = partial(_empty_strided, shape, strides, dtype=dtype, device=_CPU)
        if math.prod(shape) * dtype.itemsize >= _POOLED_BYTES:
            self.new_result = _pooled(math.prod(shape), shape, strides, dtype)


def _pooled(count: int, shape: Any, strides: Any, dtype: Any) -> Callable[[], Any]:
    """What makes tensors in the pool. None is a view of another: autograd has rules for those."""
    nbytes, twin = count * dtype.itemsize, _TWINS.get(dtype)

    def over_array() -> Any:
        return torch.from_numpy(np.ndarray(shape, twin, take_bytes(nbytes)[1], 0, steps))

    def over_storage() -> Any:
        flat = torch.frombuffer(take_bytes(nbytes)[1], dtype=dtype, count=count)
        return torch.empty(0, dtype=dtype, device=_CPU).set_(flat.untyped_storage(), 0, shape, strides)

    if twin is None or twin.kind == "V":
        return over_storage
    steps = tuple(stride * twin.itemsize for stride in strides)
    return over_array


def _new_call(kind: tuple[Any, ...]) -> _TensorCall:
    """The call of a kind of tensors: what makes it, and what that takes."""
    make, *arguments = kind
    made: _TensorCall = make(*arguments)
    return calls.keep(kind, made)


def _make_reorder(
    shape: Any, strides: Any, dtype: Any, dst: str, out_dtype: Any, is_scaled: bool
) -> _TensorCall:
    kind = out_dtype or dtype
    out_strides = dense_strides(shape, order_of(dst, len(shape)))
    if dtype not in _TWINS and kind is dtype and not is_scaled:
        kinds = _kind_of_bits(shape, strides, dtype), _kind_of_bits(shape, out_strides, dtype)
    else:
        kinds = (
            _kind(shape, strides, _twin(dtype)),
            _kind(shape, out_strides, _twin(kind, is_asked=kind is not dtype)),
        )
    return _TensorCall(bind_reorder(*kinds, is_scaled), dtype.itemsize, shape, out_strides, kind)


def _make_shuffle(call: str, shape: Any, strides: Any, dtype: Any, number: int, axis: int) -> _TensorCall:
    like = torch.empty_like(torch.empty_strided(shape, strides, device="meta"))
    src, dst = (_kind_of_bits(shape, steps, dtype) for steps in (strides, like.stride()))
    at, size = RULES[call].split(tuple(shape), axis, number)
    made = bind_shuffle(SHUFFLE, src, dst, at, size)
    return _TensorCall(made, dtype.itemsize, tuple(shape), like.stride(), dtype)


def _kind(shape: Any, strides: Any, twin: np.dtype[Any]) -> ArrayKind:
    return tuple(shape), tuple(step * twin.itemsize for step in strides), twin


def _kind_of_bits(shape: Any, strides: Any, dtype: Any) -> ArrayKind:
    """The kind of a tensor whose bits are moved: of 16 bytes the halves are an axis of their own.

    Unsigned integers carry the bits of any type of their width; of others the error tells the bytes.
    """
    if dtype.itemsize == 2 * _HALF:
        return _kind((*shape, 2), (*(2 * step for step in strides), 1), carried(np.dtype(np.uint64)))
    widths = {1: "u1", 2: "u2", 4: "u4", 8: "u8"}
    return _kind(shape, strides, carried(np.dtype(widths.get(dtype.itemsize, f"V{dtype.itemsize}"))))


def _twin(dtype: Any, *, is_asked: bool = False) -> np.dtype[Any]:
    """NumPy's type of elements of torch's; `is_asked`: it is the `dtype` of a call, not that of `x`."""
    found = _TWINS.get(dtype)
    if found is not None:
        return found
    if is_asked:
        what, hint = f"dtype is {dtype}", f"use one of {', '.join(map(str, _TWINS))}"
    elif getattr(dtype, "is_complex", False):
        what, hint = f"elements of {dtype}", "make the parts an axis: torch.view_as_real(x.resolve_conj())"
    else:
        what, hint = f"elements of {dtype}", "convert, for example x.float() or x.int()"
    raise refuse("RS-A17:no-such-type", what=what, hint=hint)


def _reported(x: Any, out: Any, scale: Any) -> Any:
    """With verbose lines, which the functions on NumPy's arrays write."""
    source, target = map(_array, (x, out))
    reorder_arrays(source, None, scale=scale, out=target)
    return out


def _array(x: Any) -> Any:
    """A tensor as an array over its bytes, of the types that only ml_dtypes has too."""
    twin = _TWINS.get(x.dtype)
    return x.detach().numpy() if twin is None else _bits(x).view(twin)


def _bits(x: Any) -> Any:
    carrier = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}.get(x.element_size())
    return (x if carrier is None else x.view(getattr(torch, carrier))).detach().numpy()
