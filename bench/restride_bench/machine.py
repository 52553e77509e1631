"""The machine of a measurement: processor, caches, system and versions."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

from restride.runtime.cpu.thread_pool import available_processors
from restride.targets.isa import host_isa

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_BUSY_LOAD = 0.5
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def describe() -> dict[str, str]:
    """The machine in words."""
    cache, name = last_level_cache(), platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
        name = names[0] if names else platform.machine()
    except OSError:
        pass  # the system has no such file
    try:
        memory = f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / (1 << 30):.0f} GiB"
    except (ValueError, OSError):
        memory = "unknown"
    return {
        "processor": name,
        "instructions": host_isa().name,
        "cores": str(available_processors()),
        "last-level cache": "unknown" if cache is None else f"{cache / (1 << 20):.0f} MiB",
        "memory": memory,
        "system": f"{platform.system()} {platform.release()}",
        "load before the run": " ".join(f"{load:.2f}" for load in os.getloadavg()),
    }


def is_busy() -> bool:
    """True if other processes have lately kept half a core or more at work."""
    return os.getloadavg()[0] > _BUSY_LOAD


def versions() -> dict[str, str]:
    """Python and the packages that the core needs."""
    return {"Python": platform.python_version(), "llvmlite": metadata.version("llvmlite")}


def last_level_cache() -> int | None:
    """Bytes of the largest cache that the first core sees, where the system tells."""
    texts = [path.read_text().strip() for path in _CACHES.glob("index*/size")]
    return max((int(text.rstrip("KMG")) * _UNITS.get(text[-1:], 1) for text in texts), default=None)
