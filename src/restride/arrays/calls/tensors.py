"""Arrays of other frameworks as NumPy arrays over the same bytes, and back, without importing them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import ml_dtypes
import numpy as np

from ...errors import Error, refuse
from ...foreign import attribute_of, has_attribute, text_of
from ...runtime.alloc import Array
from ...runtime.capsules import Exported, imported, not_imported
from ...runtime.memory import Memory
from ..jax.arrays import is_jax, of_jax, to_jax

# torch types that NumPy cannot export: the type that their bits are moved as, and their NumPy equivalent.
_CARRIED = {
    "bfloat16": ("int16", np.dtype(ml_dtypes.bfloat16)),
    "float8_e5m2": ("uint8", np.dtype(ml_dtypes.float8_e5m2)),
    "float8_e4m3fn": ("uint8", np.dtype(ml_dtypes.float8_e4m3fn)),
    "float8_e5m2fnuz": ("uint8", np.dtype(ml_dtypes.float8_e5m2fnuz)),
    "float8_e4m3fnuz": ("uint8", np.dtype(ml_dtypes.float8_e4m3fnuz)),
    "float8_e8m0fnu": ("uint8", np.dtype(ml_dtypes.float8_e8m0fnu)),
}
_LONGEST = 200
ErrorT = TypeVar("ErrorT", bound=Error)
# Hints in terms of the array's own library: `x.float()` for a torch tensor.
_WORDS_OF_TORCH = (
    ("np.stack([x.real, x.imag], axis=-1)", "torch.view_as_real(x)"),
    ("np.ascontiguousarray(x)", "x.contiguous()"),
    ("x.astype(np.float32)", "x.float()"),
    ("x.astype(np.int8)", "x.to(torch.int8)"),
    ("x.astype('float32')", "x.float()"),
    ("x.astype('int64')", "x.long()"),
    ("x.astype('int32')", "x.int()"),
    ("np.empty(dims, np.float32)", "torch.empty(dims)"),
    ("out=np.empty((", "out=torch.empty(("),
    ("), x.dtype)", "), dtype=x.dtype)"),
    ("out.transpose(", "out.permute("),
    ("a NumPy array", "a tensor"),
)
_WORDS_OF_JAX = (("x.astype(np.", "x.astype(jnp."), ("np.stack(", "jnp.stack("))
# Functions on arrays that `restride.torch` provides with gradients, by their names there.
_GRADED = {
    name: name
    for name in ("channel_shuffle", "layer_norm", "pool", "reorder", "shuffle", "shuffle_channels", "softmax")
} | {"attention": "scaled_dot_product_attention"}
_CARRIERS = {twin: (carrier, name) for name, (carrier, twin) in _CARRIED.items()}


def is_torch(x: object) -> bool:
    """Return True for a torch tensor, without importing torch."""
    kind = getattr(sys.modules.get("torch"), "Tensor", None)
    return kind is not None and isinstance(x, kind)


def is_foreign(x: object) -> bool:
    """Return True for arrays of other libraries: with DLPack, but neither NumPy's nor a `Memory`."""
    is_ours = isinstance(x, np.ndarray | np.generic | Memory)
    return (has_attribute(x, "__dlpack__") and not is_ours) or is_jax(x)


def as_array(x: Any, name: str) -> Any:
    """Convert lists, numbers and objects with `__array__` as `np.asarray` does; return anything else as is.

    Raises InvalidArguments if NumPy cannot create an array, for example from rows of different lengths.
    """
    if isinstance(x, np.ndarray | Memory | str | bytes) or is_foreign(x):
        return x
    is_listed = isinstance(x, list | tuple | int | float | complex | np.generic)
    if not is_listed and not has_attribute(x, "__array__") and not has_attribute(x, "__array_interface__"):
        return x
    if callable(graph := attribute_of(x, "__dask_graph__")) and graph() is not None:
        raise refuse("RS-A04:not-computed", name=name)
    try:
        return np.asarray(x)
    except Exception as error:  # a foreign object can raise anything
        why = f"NumPy cannot convert it to an array: {text_of(error)[:_LONGEST]}".splitlines()[0]
        raise refuse("RS-A01:ragged-list", name=name, why=why) from None


def numpy_of(x: Any, name: str) -> Array:
    """Return an array, a list or a number as a NumPy array. Raises InvalidArguments otherwise."""
    array = x.to_numpy() if isinstance(x, Memory) else as_array(as_numpy(x, name), name)
    if isinstance(array, np.ndarray):
        return array
    raise refuse("RS-A04:no-array", name=name, type=type(x).__name__)


def narrowed(x: Any) -> Any:
    """Return the integers of a list, which NumPy has made int64, as s32 if possible; anything else as is."""
    if not isinstance(x, np.ndarray) or x.dtype != np.int64 or not x.size:
        return x
    limits = np.iinfo(np.int32)
    return x.astype(np.int32) if limits.min <= x.min() and x.max() <= limits.max else x


def back_to(x: Any, result: Any) -> Any:
    """Return a result as an array of the library of `x`, over the same bytes; a `Memory` as is.

    Libraries that follow the Array API read it through their `from_dlpack`; for others the NumPy array is
    returned.
    """
    if not isinstance(result, np.ndarray):
        return result
    if is_torch(x):
        return to_torch(result)
    if is_jax(x):
        return to_jax(result, x)
    space = getattr(x, "__array_namespace__", None)
    read = getattr(space(), "from_dlpack", None) if callable(space) else None
    return result if read is None else read(Exported(result))


def as_target(out: Any, name: str) -> Any:
    """Convert as `as_numpy` does, for writing. Raises InvalidArguments for immutable arrays."""
    if is_jax(out):
        raise refuse("RS-A08:cannot-written", name=name)
    return as_numpy(out, name)


def written(out: Any) -> Any:
    """Return a written `out`. Autograd is notified, so that a backward pass does not use stale values."""
    if is_torch(out):
        sys.modules["torch"].autograd.graph.increment_version(out)
    return out


def translate_hint(x: object, error: ErrorT) -> ErrorT:
    """Return the error with its hint in terms of the library of `x`."""
    hint = error.hint
    for ours, theirs in _WORDS_OF_TORCH if is_torch(x) else _WORDS_OF_JAX if is_jax(x) else ():
        hint = hint.replace(ours, theirs)
    return error if hint == error.hint else error.with_context(hint=hint)


def for_owner(what: str, x: Any, out: Any, work: Callable[[Any, Any], Any]) -> Any:
    """Run `work(x, out)` on NumPy arrays over the same bytes; return the result in the library of `x`.

    Memory objects are passed as is. `what`: the name of `x` in messages, as "reorder: x".
    """
    source = x if isinstance(x, Memory) else as_numpy(x, what)
    is_open = out is None or isinstance(out, Memory)
    target = out if is_open else as_target(out, f"{what.partition(':')[0]}: out")
    try:
        result = work(source, target)
    except Error as error:
        raise translate_hint(x if is_foreign(x) else out, error) from None
    return back_to(x, result) if out is None else written(out)


def as_numpy(x: Any, name: str) -> Any:
    """Return a torch tensor, a JAX array, or an object with `__dlpack__`, as a NumPy array over its bytes.

    Anything else is returned as is.

    Raises InvalidArguments for arrays that are not on the CPU, are part of an autograd graph, or are traced.
    """
    if isinstance(x, np.ndarray):
        return x
    if is_torch(x):
        return _of_torch(x, name)
    if is_jax(x):
        return of_jax(x, name)
    if not has_attribute(x, "__dlpack__"):
        return x
    try:
        return imported(x)
    except Exception as error:
        raise not_imported(name, x, error) from error


def _of_torch(x: Any, name: str) -> Array:
    if x.device.type != "cpu":
        raise refuse(
            "RS-A04:tensor",
            name=name,
            device=x.device,
            which="x.cpu()"
            if x.device.type != "meta"
            else 'a tensor with values; for a trial, zeros: torch.zeros_like(x, device="cpu")',
        )
    if x.requires_grad and sys.modules["torch"].is_grad_enabled():
        function = name.partition(":")[0]
        raise refuse(
            "RS-A04:gradients",
            name=name,
            call=f", or use restride.torch.{_GRADED[function]}, which supports gradients"
            if function in _GRADED
            else "",
        )
    check_strided(x, name)
    x = x.detach() if x.requires_grad else x
    try:
        array: Array | None = None
        carrier = _CARRIED.get(str(x.dtype).removeprefix("torch."))
        if is_whole(x):
            bits = x if carrier is None else x.view(getattr(sys.modules["torch"], carrier[0]))
            array = np.asarray(bits.numpy() if carrier is None else bits.numpy().view(carrier[1]))
    except (TypeError, RuntimeError) as error:
        why = str(error).strip().splitlines()[0]
        raise refuse("RS-A04:capsule", name=name, why=why, hint_of_torch=_hint_of_torch(x)) from None
    if array is None:
        raise refuse("RS-A04:resized", name=name)
    return array


def is_whole(x: Any) -> bool:
    """Return True if a torch tensor's storage contains all its elements; torch does not check that."""
    last = sum((n - 1) * step for n, step in zip(x.shape, x.stride(), strict=True))
    reach = (x.storage_offset() + last + 1) * x.element_size() if x.numel() else 0
    return bool(reach <= x.untyped_storage().nbytes())


def _hint_of_torch(x: Any) -> str:
    if x.is_neg():
        return "pass x.resolve_neg()"
    if x.is_conj():
        return "pass x.resolve_conj()"
    if str(x.dtype) == "torch.float4_e2m1fn_x2":
        return "wrap its bytes, x.view(torch.uint8), with rs.formats or as a memory of f4_e2m1"
    return "convert it, for example x.float(); inside torch.func use restride.torch"


def check_strided(x: Any, name: str) -> None:
    """Raise InvalidArguments for a torch tensor without strides, or with an unsupported quantized type."""
    if x.is_nested:
        raise refuse("RS-A04:tensor-nested", name=name)
    if str(x.layout) != "torch.strided":
        raise refuse("RS-A04:sparse", name=name, layout=str(x.layout).removeprefix("torch."))
    if x.is_quantized:
        raise refuse("RS-A04:integers-stand-other", name=name)


def to_torch(x: Array) -> Any:
    """Return a NumPy array as a torch tensor over the same bytes."""
    torch = sys.modules["torch"]
    carrier, name = _CARRIERS.get(x.dtype, (None, None))
    if carrier is None or name is None:
        return torch.from_numpy(x)
    return torch.from_numpy(x.view(np.dtype(carrier))).view(getattr(torch, name))
