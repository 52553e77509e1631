"""Shuffles of arrays that people hold: groups as oneDNN, as OpenVINO and as torch count them (1.4)."""

from __future__ import annotations

from math import prod
from time import perf_counter
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ..desc.arguments import ARG_DST, ARG_SRC
from ..desc.memory_desc import MemoryDesc
from ..desc.tags import MAX_NDIMS, Tag
from ..errors import Error, refuse
from ..foreign import is_masked
from ..model.checks import check_destination, check_memory, share_bytes
from ..model.derived import describe_operation
from ..model.implementation import Implementation
from ..model.primitive import run
from ..model.prop_kind import PropKind
from ..ops.shuffle import ShuffleProblem, find_shuffle
from ..runtime.alloc import Array
from ..runtime.describe import Subject
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from ..runtime.transfer import refuse_host_out, synchronize
from ..verbose import flags, write
from .calls.array_kinds import read_from, write_to
from .calls.binder import CallKey, cache_call, find_call
from .calls.carriers import bits_of, of_bits, own_format
from .calls.error_translation import translate_hint
from .calls.formats import target_desc
from .calls.operands import engine_of, memory_of
from .calls.tensors import as_array, as_numpy, as_target, back_to, is_foreign, written
from .groups import CHANNEL_SHUFFLE, SHUFFLE, SHUFFLE_CHANNELS, Rule

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..typing import ArrayLike, OtherArray, Owned

__all__ = ["channel_shuffle", "shuffle", "shuffle_channels"]

_CPU = Engine("cpu")


@overload
def shuffle(x: OtherArray | ArrayLike, *, group_size: int, axis: int = 1, out: Owned) -> Owned: ...
@overload
def shuffle(x: Owned, *, group_size: int, axis: int = 1) -> Owned: ...
@overload
def shuffle(x: ArrayLike, *, group_size: int, axis: int = 1) -> NDArray[Any]: ...
def shuffle(x: Any, *, group_size: int, axis: int = 1, out: Any = None) -> Any:
    """oneDNN's shuffle: `dst[u + v * C/G] = src[u * G + v]` along an axis of C, G the group size.

    x           a NumPy array of any numbers of 1, 2, 4, 8 or 16 bytes in either byte order, lists, a tensor
                of torch, what has `__dlpack__`, or a `Memory`, blocked ones included
    group_size  from 1 to C, a divisor of it; the number of groups, as others count them, is C / group_size
    axis        from 0 to the last
    out         where to write, in any layout: an array or `Memory` of the dims and the type of `x`, which
                shares no byte with it; it is returned

    Bits are moved, so that NaNs keep their payload. The result has the layout of `x`, dense: NumPy in, NumPy
    out, a tensor in, a tensor out; a `Memory` in, a `Memory` of the same format out, its padding zero.

    Raises InvalidArguments, before anything is written, for an axis that `x` has not, a group size that does
    not divide it, elements that are no numbers, and an `out` that is read-only, different or overlapping.

    >>> import numpy as np, restride as rs
    >>> rs.shuffle(np.arange(12).reshape(1, 12), group_size=4)
    array([[ 0,  4,  8,  1,  5,  9,  2,  6, 10,  3,  7, 11]])
    """
    return _shuffled(SHUFFLE, x, axis, group_size, out)


@overload
def shuffle_channels(x: OtherArray | ArrayLike, *, group: int = 1, axis: int = 1, out: Owned) -> Owned: ...
@overload
def shuffle_channels(x: Owned, *, group: int = 1, axis: int = 1) -> Owned: ...
@overload
def shuffle_channels(x: ArrayLike, *, group: int = 1, axis: int = 1) -> NDArray[Any]: ...
def shuffle_channels(x: Any, *, group: int = 1, axis: int = 1, out: Any = None) -> Any:
    """OpenVINO's ShuffleChannels-1: the axis as `group` groups, transposed.

    `group`: from 1, a divisor of C; it is C / group_size of `shuffle`. `axis` may be negative, and counts
    from the end then. The rest as in `shuffle`.

    >>> import numpy as np, restride as rs
    >>> rs.shuffle_channels(np.arange(12).reshape(1, 12), group=3)
    array([[ 0,  4,  8,  1,  5,  9,  2,  6, 10,  3,  7, 11]])
    """
    return _shuffled(SHUFFLE_CHANNELS, x, axis, group, out)


@overload
def channel_shuffle(x: Owned, groups: int) -> Owned: ...
@overload
def channel_shuffle(x: ArrayLike, groups: int) -> NDArray[Any]: ...
def channel_shuffle(x: Any, groups: int) -> Any:
    """torch's `channel_shuffle`: axis 1 in `groups` groups; `shuffle_channels(x, group=groups)`.

    >>> import numpy as np, restride as rs
    >>> rs.channel_shuffle(np.arange(12).reshape(1, 12), 3)
    array([[ 0,  4,  8,  1,  5,  9,  2,  6, 10,  3,  7, 11]])
    """
    return _shuffled(CHANNEL_SHUFFLE, x, 1, groups, None)


def _shuffled(rule: Rule, x: Any, axis: Any, number: Any, out: Any) -> Any:
    if type(axis) is not int or type(number) is not int:
        axis, number = rule.parse(axis, number)
    signed, source, target = None, read_from(x), None if out is None else write_to(out)
    if source is not None and (out is None or target is not None):
        signature = rule.call, source[0], target and target[0], axis, number
        call = find_call(signature)
        if call is None:
            signed = CallKey(signature, (source,), target)
        elif target is None:
            return call.into_new(source)
        elif call.into(source, target):
            return out
    try:
        return _general(rule, x, axis, number, out, signed)
    except Error as error:
        error.drop_frames()
        raise


# --- the general path: any array or Memory, any engine ------------------------------------------------------


def _general(rule: Rule, x: Any, axis: int, number: int, out: Any, signed: CallKey | None) -> Any:
    if is_foreign(x) or is_foreign(out):
        source_array = as_numpy(x, f"{rule.call}: x")
        target_array = None if out is None else as_target(out, f"{rule.call}: out")
        try:
            made = _shuffled(rule, source_array, axis, number, target_array)
        except Error as error:
            raise translate_hint(x if is_foreign(x) else out, error) from None
        return back_to(x, made) if out is None else written(out)
    x = as_array(x, f"{rule.call}: x")
    if _is_array(x) and x.ndim > MAX_NDIMS:
        return _of_many_axes(rule, x, axis, number, out)
    engine = engine_of(x, out, None)
    # A memory has one of our types: bits of others have no place there.
    has_bits = _is_array(x) and (out is None or _is_array(out))
    source = memory_of(_bits(x) if has_bits else x, engine, Subject.source(rule.call))
    split = rule.split(x.shape if has_bits else source.desc.dims, axis, number)
    target = _target(rule, source.desc, own_format(x) if has_bits else None, out, engine, has_bits)
    if has_bits and out is not None and x.dtype != out.dtype:
        raise refuse(
            "RS-S11:x-out-different", call=rule.call, dtype=str(x.dtype)[:60], dtype2=str(out.dtype)[:60]
        )
    problem = ShuffleProblem(source.desc, target.desc, *split)
    impl = find_shuffle(rule.call, problem, engine)
    _run(rule, impl, source, target)
    dtype = None if isinstance(x, Memory) else x.dtype
    if signed is not None:
        cache_call(signed, impl, [source], target, dtype=dtype, is_memory=dtype is None)
    if out is not None:
        return out
    return target if dtype is None else of_bits(np.asarray(target), dtype)


def _of_many_axes(rule: Rule, x: Array, axis: int, number: int, out: Any) -> Any:
    """An array of more axes than a descriptor has: those before the axis as one, and those after it."""
    at, _ = rule.split(x.shape, axis, number)
    rows = prod(x.shape[:at]), x.shape[at], prod(x.shape[at + 1 :])
    made = _shuffled(rule, np.asarray(x).reshape(rows), 1, number, None).reshape(x.shape)
    if out is None:
        return made
    if not _is_array(out) or out.shape != x.shape or out.dtype != x.dtype or not out.flags.writeable:
        raise refuse("RS-A07:beyond-axes-writable", call=rule.call, x=x, max_ndims=MAX_NDIMS)
    out[...] = made
    return out


def _is_array(value: object) -> bool:
    """True for NumPy arrays of any class whose bytes are all there is to them."""
    return isinstance(value, np.ndarray) and not is_masked(value)


def _bits(array: Array) -> Array:
    """An array as of the type that its bits are moved as."""
    return bits_of(np.asarray(array))


def _target(
    rule: Rule, source: MemoryDesc, own: Tag | None, out: Any, engine: Engine, has_bits: bool
) -> Memory:
    """What is written; `own`: the format of the result, where that of the source does not say it."""
    if out is None:
        return Memory(target_desc(source, own, None), engine)
    subject = Subject.target(rule.call)
    refuse_host_out(subject.refused, out, engine)
    return memory_of(_bits(out) if has_bits else out, engine, subject)


def _run(rule: Rule, impl: Implementation, source: Memory, target: Memory) -> None:
    """Check, and run to the end."""
    engine = impl.engine
    for name, memory in (("x", source), ("out", target)):
        check_memory(rule.call, name, memory, memory.desc, engine)
    check_destination(rule.call, target, "out")
    if share_bytes(source, target):
        raise refuse("RS-S18:x-out-overlap", call=rule.call, desc=source.desc, target_desc=target.desc)
    synchronize(source, target)
    impl.executable.prepare()
    start = perf_counter()
    run(impl, {ARG_SRC: source, ARG_DST: target})
    if flags.profile_exec:
        ms = (perf_counter() - start) * 1e3
        write(describe_operation("exec", impl, ms, PropKind.forward_inference))
