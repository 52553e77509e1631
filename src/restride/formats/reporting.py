"""Verbose lines for what NumPy does here and no kernel: bits unpacked, ggml's own rounding."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..verbose import Line, flags, write


@contextmanager
def reported(primitive: str, name: str, dims: Sequence[int]) -> Iterator[None]:
    """Write a line with the time that the block took, by the implementation `numpy`, where lines are on."""
    start = time.perf_counter()
    yield
    if flags.profile_exec:
        took = (time.perf_counter() - start) * 1e3
        shown = "x".join(map(str, dims))
        write(Line("exec", "cpu", primitive, "numpy", auxiliary=name, problem_desc=shown, time_ms=took))
