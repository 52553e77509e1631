"""Safe access to values passed by callers, whose methods can raise anything.

Such an exception is reported as a wrong argument. Only KeyboardInterrupt and SystemExit, which are meant to
stop the program, pass through.
"""

from __future__ import annotations

import sys
from typing import Any

_TORCH_WORDS = ("dtype", "memory_format")


def plain_text(value: Any) -> Any:
    """Return a str subclass as a plain str, `torch.bfloat16` as "bfloat16", anything else unchanged.

    A subclass's own equality, hash and length are ignored. Types and memory formats of torch are recognized
    by their class, so torch is not imported.
    """
    if isinstance(value, str):
        return str.__str__(value)
    kind = type(value)
    is_torch = kind.__name__ in _TORCH_WORDS and kind.__module__ == "torch"
    return str(value).removeprefix("torch.") if is_torch else value


def attribute_of(value: object, name: str, default: Any = None) -> Any:
    """Return an attribute; the default if it is missing or reading it raises."""
    try:
        return getattr(value, name, default)
    except Exception:
        return default


def has_attribute(value: object, name: str) -> bool:
    """Return True if the value has the attribute; False if reading it raises."""
    try:
        return hasattr(value, name)
    except Exception:
        return False


def is_masked(value: object) -> bool:
    """Return True for a NumPy masked array, without loading `numpy.ma`."""
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    return masked is not None and isinstance(value, masked)


def text_of(error: BaseException) -> str:
    """Return the text of an error; its class name if the text is empty or cannot be obtained."""
    try:
        return str(error) or type(error).__name__
    except Exception:
        return type(error).__name__
