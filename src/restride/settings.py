"""Environment settings: RESTRIDE_<NAME>, else ONEDNN_<NAME>, else DNNL_<NAME>.

Values are read when needed, not at import, so that a program can set them before its first call.
"""

from __future__ import annotations

import os
import re

from .errors import refuse

_PREFIXES = ("RESTRIDE_", "ONEDNN_", "DNNL_")


def lookup(name: str) -> str | None:
    """Return the text of setting `name` (without prefix), or None if no spelling of it is set.

    An empty value counts as set: `RESTRIDE_CACHE_DIR=` is not the same as no RESTRIDE_CACHE_DIR.
    """
    setting = find(name)
    return setting[1] if setting else None


def lookup_int(name: str, default: int, *, low: int, high: int = 2**31 - 1) -> int:
    """Return setting `name` as a decimal integer in low..high; `default` if unset or blank.

    Raises InvalidArguments naming the variable that is set.
    """
    setting = find(name)
    if setting is None or not setting[1].strip():
        return default
    variable, text = setting
    value = _parse_int(text)
    if value is None or not low <= value <= high:
        raise refuse("RS-P17:integer-expected", variable=variable, text=text[:80], low=low, high=high)
    return value


def find(name: str) -> tuple[str, str] | None:
    """Return (variable, text) of the first spelling that is set, or None."""
    for prefix in _PREFIXES:
        text = os.environ.get(prefix + name)
        if text is not None:
            return prefix + name, text
    return None


def _parse_int(text: str) -> int | None:
    # int() would also accept "1_0", digits of other scripts, and thousands of digits.
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,20}", text.strip()) else None
