"""JAX arrays as NumPy arrays over the same bytes, and back, without importing JAX."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ...errors import refuse
from ...runtime.alloc import Array, address_of
from ...runtime.capsules import Exported, imported, is_named
from ...runtime.result_pool import allocate
from ...schedule.machine import LINE

# What JAX converts these to unless 64-bit types are enabled.
_NARROWED = {
    np.dtype(wide): narrow
    for wide, narrow in (("f8", "float32"), ("i8", "int32"), ("u8", "uint32"), ("c16", "complex64"))
}
_LONGEST = 200


def is_jax(x: object) -> bool:
    """Return True for a JAX array, including traced ones; JAX is not imported."""
    kind = getattr(sys.modules.get("jax"), "Array", None)
    return kind is not None and isinstance(x, kind)


def is_traced(x: object) -> bool:
    """Return True for a tracer, which represents a JAX array while a function is traced."""
    core = getattr(sys.modules.get("jax"), "core", None)
    return core is not None and isinstance(x, core.Tracer)


def of_jax(x: Any, name: str) -> Array:
    """Return a JAX array as a NumPy array, read-only because JAX arrays are immutable.

    Raises InvalidArguments for arrays that have no bytes on this machine's CPU.
    """
    if is_traced(x):
        raise refuse("RS-A04:traced-array-no", name=name)
    if not isinstance(x.dtype, np.dtype):
        raise refuse("RS-A04:elements", name=name, dtype=x.dtype)
    if x.is_deleted():
        raise refuse("RS-A04:array-was-deleted", name=name)
    if any(device.platform != "cpu" for device in x.devices()):
        raise refuse("RS-A04:array-not-cpu", name=name)
    try:
        x.block_until_ready()
        # Shards on several devices are gathered.
        return imported(x) if is_named(x.dtype) and len(x.devices()) == 1 else np.asarray(x)
    except Exception as error:
        why = f"JAX: {str(error) or type(error).__name__}".splitlines()[0]
        raise refuse("RS-A04:copy-first", name=name, why=why[:_LONGEST]) from None


def to_jax(x: Array, like: Any) -> Any:
    """Return a NumPy array that nobody else uses as a JAX array over its bytes, in its layout.

    It is copied to the device of `like` unless that is the first one. JAX has no layouts with gaps: such
    arrays become row-major. Raises Unimplemented for 64-bit types unless JAX enables them.
    """
    check_width(x.dtype)
    jax = sys.modules["jax"]
    if not x.size or not _is_dense(x) or not is_named(x.dtype):
        return jax.numpy.asarray(x)
    array = jax.dlpack.from_dlpack(Exported(_aligned(x)))
    (device,) = like.devices() if len(like.devices()) == 1 else array.devices()
    if device in array.devices():
        return array
    # Copied row-major: programs of JAX 0.10 misread arrays moved in another layout.
    there = jax.device_put(np.ascontiguousarray(x), device)
    if x.flags.c_contiguous:
        return there
    return jax.device_put(there, type(array.format)(array.format.layout, there.sharding))


def check_width(dtype: np.dtype[Any]) -> None:
    """Raise Unimplemented for 64-bit types if JAX would silently narrow them."""
    if dtype in _NARROWED and not sys.modules["jax"].config.jax_enable_x64:
        raise refuse("RS-A17:array-jax", name=dtype.name, narrowed=_NARROWED[dtype])


def _is_dense(x: Array) -> bool:
    """Return True if the elements fill their bytes in some order of axes, as in every JAX layout."""
    order = sorted(range(x.ndim), key=lambda d: -abs(x.strides[d]))
    return x.transpose(order).flags.c_contiguous


def _aligned(x: Array) -> Array:
    """Return `x` aligned to a cache line, as otherwise JAX copies it, and row-major."""
    if address_of(x) % LINE == 0:
        return x
    steps = [stride // x.itemsize for stride in x.strides]
    copied = allocate(x.nbytes).view(x.dtype, x.shape, steps)
    copied[...] = x
    return copied
