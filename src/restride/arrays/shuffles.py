"""Shuffles of arrays, with groups counted as in oneDNN, OpenVINO and torch (1.4)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import prod
from typing import Any, NoReturn

import numpy as np

from ..desc.arguments import ARG_DST, ARG_SRC
from ..desc.tags import MAX_NDIMS
from ..errors import refuse
from ..foreign import is_masked
from ..model.implementation import Implementation
from ..ops.shuffle import ShuffleProblem, find_shuffle
from ..runtime.alloc import Array
from ..runtime.memory import Memory
from .calls.binder import CallKey
from .calls.carriers import bits_of, of_bits, own_format
from .calls.formats import target_desc
from .calls.function import ArrayFunction, Parameters
from .calls.operands import engine_of
from .groups import CHANNEL_SHUFFLE, SHUFFLE, SHUFFLE_CHANNELS, Rule

__all__ = ["channel_shuffle", "shuffle", "shuffle_channels"]


def shuffle(x: Any, *, group_size: int, axis: int = 1, out: Any = None) -> Any:
    """Apply oneDNN's shuffle, `dst[u + v * C/G] = src[u * G + v]`, along an axis of extent C; G is the group
    size.

    x           a NumPy array of numbers of 1, 2, 4, 8 or 16 bytes in either byte order, lists, a torch
                tensor, any object with `__dlpack__`, or a `Memory`, possibly blocked
    group_size  a divisor of C, from 1 to C; the number of groups, as counted elsewhere, is C / group_size
    axis        0 or greater
    out         destination of any layout: an array or `Memory` with the dims and the type of `x`, which
                shares no byte with it; it is returned

    Bits are moved, so NaNs keep their payload. The result has the layout of `x`, dense: NumPy in, NumPy out;
    a tensor in, a tensor out; a `Memory` in, a `Memory` of the same format out, with zero padding.

    Raises InvalidArguments, before anything is written, for an axis that `x` does not have, a group size that
    does not divide it, non-numeric elements, and an `out` that is read-only, does not match or overlaps `x`.

    >>> import numpy as np, restride as rs
    >>> rs.shuffle(np.arange(12).reshape(1, 12), group_size=4)
    array([[ 0,  4,  8,  1,  5,  9,  2,  6, 10,  3,  7, 11]])
    """
    if not type(axis) is type(group_size) is int:
        axis, group_size = SHUFFLE.parse(axis, group_size)
    parameters = axis, group_size
    return _SHUFFLE.call(_of_group_size, parameters, parameters, x, out)


def shuffle_channels(x: Any, *, group: int = 1, axis: int = 1, out: Any = None) -> Any:
    """Apply OpenVINO's ShuffleChannels-1: view the axis as `group` groups and transpose them.

    `group`: a divisor of C, from 1; it is C / group_size of `shuffle`. A negative `axis` counts from the end.
    Otherwise as `shuffle`.

    >>> import numpy as np, restride as rs
    >>> rs.shuffle_channels(np.arange(12).reshape(1, 12), group=3)
    array([[ 0,  4,  8,  1,  5,  9,  2,  6, 10,  3,  7, 11]])
    """
    if not type(axis) is type(group) is int:
        axis, group = SHUFFLE_CHANNELS.parse(axis, group)
    parameters = axis, group
    return _SHUFFLE_CHANNELS.call(_of_group, parameters, parameters, x, out)


def channel_shuffle(x: Any, groups: int) -> Any:
    """Apply torch's `channel_shuffle`: axis 1 in `groups` groups; `shuffle_channels(x, group=groups)`.

    >>> import numpy as np, restride as rs
    >>> rs.channel_shuffle(np.arange(12).reshape(1, 12), 3)
    array([[ 0,  4,  8,  1,  5,  9,  2,  6, 10,  3,  7, 11]])
    """
    if type(groups) is not int:
        _, groups = CHANNEL_SHUFFLE.parse(1, groups)
    parameters = 1, groups
    return _CHANNEL_SHUFFLE.call(_of_groups, parameters, parameters, x, None)


def _shuffled(rule: Rule, x: Any, out: Any, _: object, parameters: Parameters, signed: CallKey | None) -> Any:
    function, (axis, number) = _FUNCTIONS[rule.call], parameters
    if _is_array(x) and x.ndim > MAX_NDIMS:
        return _of_many_axes(rule, x, parameters, out)
    engine = engine_of(x, out, None)
    # A memory has one of our types: bits of others cannot be stored in it.
    has_bits = _is_array(x) and (out is None or _is_array(out))
    source = function.source(bits_of(np.asarray(x)) if has_bits else x, engine)
    split = rule.split(x.shape if has_bits else source.desc.dims, axis, number)
    if out is None:
        target = Memory(target_desc(source.desc, own_format(x) if has_bits else None, None), engine)
    else:
        target = function.destination(bits_of(np.asarray(out)) if has_bits else out, engine)
    if has_bits and out is not None and x.dtype != out.dtype:
        raise refuse(
            "RS-S11:x-out-different", call=rule.call, dtype=str(x.dtype)[:60], dtype2=str(out.dtype)[:60]
        )
    impl = find_shuffle(rule.call, ShuffleProblem(source.desc, target.desc, *split), engine)
    dtype = None if isinstance(x, Memory) else x.dtype
    function.execute(impl, {ARG_SRC: source, ARG_DST: target}, signed, dtype)
    return target if dtype is None or out is not None else of_bits(np.asarray(target), dtype)


def _of_many_axes(rule: Rule, x: Array, parameters: Parameters, out: Any) -> Any:
    """Shuffle an array with more axes than a descriptor can have, merging those before and after `axis`."""
    axis, number = parameters
    at, _ = rule.split(x.shape, axis, number)
    rows = prod(x.shape[:at]), x.shape[at], prod(x.shape[at + 1 :])
    array, parameters = np.asarray(x).reshape(rows), (1, number)
    compute = partial(_shuffled, rule)
    result = _FUNCTIONS[rule.call].call(compute, parameters, parameters, array, None).reshape(x.shape)
    if out is None:
        return result
    if not _is_array(out) or out.shape != x.shape or out.dtype != x.dtype or not out.flags.writeable:
        raise refuse("RS-A07:beyond-axes-writable", call=rule.call, x=x, max_ndims=MAX_NDIMS)
    out[...] = result
    return out


def _is_array(value: object) -> bool:
    """Return True for NumPy arrays of any class that are fully described by their bytes."""
    return isinstance(value, np.ndarray) and not is_masked(value)


def _refuse_overlap(call: str, impl: Implementation, memories: Mapping[int, Memory]) -> NoReturn:
    src, dst = (memories[arg].desc for arg in (ARG_SRC, ARG_DST))
    raise refuse("RS-S18:x-out-overlap", call=call, desc=src, target_desc=dst)


_RULES = SHUFFLE, SHUFFLE_CHANNELS, CHANNEL_SHUFFLE
_FUNCTIONS = {
    rule.call: ArrayFunction(rule.call, may_be_in_place=False, narrows_lists=False, overlap=_refuse_overlap)
    for rule in _RULES
}
_SHUFFLE, _SHUFFLE_CHANNELS, _CHANNEL_SHUFFLE = _FUNCTIONS.values()
_of_group_size, _of_group, _of_groups = (partial(_shuffled, rule) for rule in _RULES)
