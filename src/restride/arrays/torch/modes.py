"""Contexts in which torch needs more than the result of a call: gradients, a compiler's graph, a mode, a
transform.

All private names of torch that are used are in this module; if one is missing, calls use the operators.
"""

from __future__ import annotations

from typing import Any

import torch

from ...errors import refuse

_c = torch._C
_modes = getattr(_c, "_len_torch_dispatch_stack", lambda: 1)
_innermost = getattr(getattr(_c, "_functorch", None), "peek_interpreter_stack", lambda: True)
_is_tracing = getattr(_c, "_is_tracing", lambda: True)
_forward_ad = torch.autograd.forward_ad
# Bound to names here, because each lookup inside torch costs time on every call.
_is_compiling, _is_recording, _Tensor = torch.compiler.is_compiling, torch.is_grad_enabled, torch.Tensor

_keys = _c.DispatchKeySet
NO_KEYS = _keys(_c.DispatchKey.Undefined)
_DENSE_KEYS = _keys(_c.DispatchKey.CPU) | _keys(_c.DispatchKey.AutogradCPU)

below_autograd = _c._AutoDispatchBelowAutograd
"""A context in which an operator runs its kernel and records nothing."""


def check_device(x: Any) -> None:
    """Raise InvalidArguments for a tensor on another device than the CPU; torch's own error has no hint."""
    if not x.is_cpu and not x.is_meta:
        raise refuse("RS-A04:tensor", name="restride.torch: x", device=x.device, which="x.cpu()")


def is_plain(x: Any) -> bool:
    """Return True if only the result is needed: no gradient, compiler, tracer, mode or transform."""
    if _is_compiling() or type(x) is not _Tensor or not x.is_cpu or (x.requires_grad and _is_recording()):
        return False
    if x.layout is not torch.strided or x.is_nested or x.is_quantized:
        return False
    if x.is_conj() or x.is_neg() or x._is_zerotensor():
        return False
    return not (_modes() or _innermost() is not None or _is_tracing() or _forward_ad._current_level >= 0)


def is_only_data(keys: Any, x: Any) -> bool:
    """Return the same inside autograd's kernel of an operator, where `keys` are the remaining dispatch keys.

    Modes, transforms, conjugate or negated views, zero tensors and all other kinds of storage have keys.
    """
    try:
        is_wanted = x.requires_grad and _is_recording()
    except AttributeError:  # torch accepts None as a tensor
        raise refuse("RS-A17:no-tensor", type=type(x).__name__) from None
    return keys == _DENSE_KEYS and not is_wanted and _forward_ad._current_level < 0


def is_symbol(value: Any) -> bool:
    """Return True for a symbol that represents a number while torch compiles, traces or exports."""
    if _is_compiling() or isinstance(value, torch.SymInt | torch.SymFloat):
        return True
    return hasattr(type(value), "__torch_function__") and (
        not isinstance(value, torch.Tensor) or bool(_is_tracing())
    )


def in_transform() -> bool:
    """Return True inside a torch.func transform that decomposes functions, and outside a compiler."""
    return not _is_compiling() and _transform() not in ("", "Functionalize")


def refuse_derivative(call: str, *, is_operator: bool = False) -> None:
    """Raise Unimplemented inside a derivative of torch.func: operators defined in Python cannot take part."""
    if in_transform() and _transform() != "Vmap":
        raise refuse("RS-A17:torch-ops-restride" if is_operator else "RS-A17:derivative", call=call)


def refuse_transforms(call: str, *tensors: Any) -> None:
    """Raise Unimplemented inside torch.func, and for tensors with tangents: the result would be zeros."""
    is_dual = _forward_ad._current_level >= 0 and any(
        tensor is not None and _forward_ad.unpack_dual(tensor).tangent is not None for tensor in tensors
    )
    if not is_dual and not in_transform():
        return
    raise refuse("RS-A17:transform", call=call)


def _transform() -> str:
    """Return torch's name for the innermost transform of torch.func, or an empty string."""
    innermost = _innermost()
    if innermost is None:
        return ""
    return str(innermost.key().name) if hasattr(innermost, "key") else "unknown"


def refuse_second(call: str, *tensors: Any) -> None:
    """Raise Unimplemented if a gradient, which is a function of these tensors, needs a gradient itself."""
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        raise refuse("RS-A17:second-derivative", call=call)
