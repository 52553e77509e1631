"""The facts of this process that verbose lines begin with."""

from __future__ import annotations

from collections.abc import Iterator

from ..targets.isa import host_isa
from ..version import VERSION
from .cpu.thread_pool import get_num_threads


def header() -> Iterator[str]:
    """Version, threads and instruction set, one text a line."""
    yield f"restride v{VERSION}"
    yield f"cpu,runtime:threads,nthr:{get_num_threads()}"
    yield f"cpu,isa:{host_isa().name}"
