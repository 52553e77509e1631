"""Facts about this process, with which verbose output begins."""

from __future__ import annotations

from collections.abc import Iterator

from ..targets.isa import host_isa
from ..version import VERSION
from .cpu.thread_pool import get_num_threads


def header() -> Iterator[str]:
    """Yield version, threads and instruction set, one text per line."""
    yield f"restride v{VERSION}"
    yield f"cpu,runtime:threads,nthr:{get_num_threads()}"
    yield f"cpu,isa:{host_isa().name}"
