"""Values that callers pass, whose methods may raise anything, asked for what is needed of them.

Where they raise, the caller is told of a wrong argument. Only what is meant to stop a program passes:
KeyboardInterrupt, SystemExit.
"""

from __future__ import annotations

import sys
from typing import Any

_TORCH_WORDS = ("dtype", "memory_format")


def plain_text(value: Any) -> Any:
    """A str of a subclass as the str that it holds, `torch.bfloat16` as "bfloat16"; all else as it is.

    What a subclass says of equality, hash and length does not count. Types and memory formats of torch are
    known by their class, so that torch is not imported.
    """
    if isinstance(value, str):
        return str.__str__(value)
    kind = type(value)
    is_torch = kind.__name__ in _TORCH_WORDS and kind.__module__ == "torch"
    return str(value).removeprefix("torch.") if is_torch else value


def attribute_of(value: object, name: str, default: Any = None) -> Any:
    """The attribute of a value; the default where it has none, or raises when it is asked."""
    try:
        return getattr(value, name, default)
    except Exception:
        return default


def has_attribute(value: object, name: str) -> bool:
    """True for a value with such an attribute; False where it raises when it is asked."""
    try:
        return hasattr(value, name)
    except Exception:
        return False


def is_masked(value: object) -> bool:
    """True for a masked array of NumPy's, which loads that module only for those who use it."""
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    return masked is not None and isinstance(value, masked)


def text_of(error: BaseException) -> str:
    """The text of an error; the name of its class where that is nothing, or where it fails to say it."""
    try:
        return str(error) or type(error).__name__
    except Exception:
        return type(error).__name__
