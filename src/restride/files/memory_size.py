"""Sizes of memory as callers say them: bytes, or text with a unit."""

from __future__ import annotations

import re

from ..desc.parse import parse_int, short_repr
from ..errors import refuse

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_UNITS |= {f"{unit}i": 1024**power for power, unit in enumerate(("k", "m", "g", "t"), 1)}


def parse_memory(memory: object, what: str) -> int:
    """The bytes of a number, or of a text such as "512MiB"; errors call it `what`."""
    if not isinstance(memory, str):
        return parse_int(memory, what)
    match = re.fullmatch(r"\s*(\d{1,15})\s*([kmgt]i?)?b?\s*", memory.lower(), re.ASCII)
    if match:
        return int(match[1]) * _UNITS[match[2] or ""]
    raise refuse("RS-V08:whole-number-bytes", what=what, memory=short_repr(memory))
