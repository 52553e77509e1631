"""Hints in the words of the library that an array is from: `x.float()` to whoever holds a tensor of torch."""

from __future__ import annotations

from typing import TypeVar

from ...errors import Error
from ..jax.arrays import is_jax
from .tensors import is_torch

ErrorT = TypeVar("ErrorT", bound=Error)

_TORCH = (
    ("np.stack([x.real, x.imag], axis=-1)", "torch.view_as_real(x)"),
    ("np.ascontiguousarray(x)", "x.contiguous()"),
    ("x.astype(np.float32)", "x.float()"),
    ("x.astype(np.int32)", "x.int()"),
    ("x.astype(np.int8)", "x.to(torch.int8)"),
    ("np.empty(dims, np.float32)", "torch.empty(dims)"),
    ("out=np.empty((", "out=torch.empty(("),
    ("), x.dtype)", "), dtype=x.dtype)"),
    ("out.transpose(", "out.permute("),
    ("a NumPy array", "a tensor"),
)
_JAX = (("x.astype(np.", "x.astype(jnp."), ("np.stack(", "jnp.stack("))


def translate_hint(x: object, error: ErrorT) -> ErrorT:
    """The refusal with its hint in the words of the library of `x`."""
    words = _TORCH if is_torch(x) else _JAX if is_jax(x) else ()
    hint = error.hint
    for ours, theirs in words:
        hint = hint.replace(ours, theirs)
    return error if hint == error.hint else error.with_context(hint=hint)
