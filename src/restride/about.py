"""The environment of restride: versions, machine, engines, instruction sets, caches, threads, settings."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import asdict
from importlib import metadata
from typing import Any

from . import settings
from .runtime.cpu.thread_pool import available_processors, get_num_threads
from .runtime.engine import Engine
from .targets.isa import choose, host_caches, host_isa
from .targets.llvm_facts import llvm_facts
from .targets.store import default_store
from .version import VERSION

__all__ = ["show_versions"]

_LEVELS = ("generic", "sse41", "avx2", "avx512")
_KINDS = ("cpu", "gpu", "reference")
# How each system and architecture is tested; see docs/platforms.md.
_TESTED = {
    ("Linux", "x86_64"): "on every change; slow tests less often",
    ("Linux", "aarch64"): "under emulation, which covers neither performance nor memory ordering",
}
_PREFIXES = ("RESTRIDE_", "ONEDNN_", "DNNL_")
_NEEDED = ("numpy", "llvmlite", "ml_dtypes")
# Only their installed versions are reported; none of them is imported.
_OTHERS = ("torch", "jax", "openvino", "onednn", "dpctl", "scikit-image")


def show_versions() -> None:
    """Print the facts that a bug report needs: versions, machine, engines, caches, threads, settings.

    Equivalent to `restride info`. Raises InvalidArguments if an environment variable has an invalid value.
    """
    print(text_of(facts()))


def facts() -> dict[str, dict[str, Any]]:
    """Return all facts, in groups."""
    return {
        "versions": _versions(),
        "machine": _machine(),
        "engines": {kind: Engine.get_count(kind) for kind in _KINDS},
        "instruction set": _instruction_set(),
        "caches": asdict(host_caches()),
        "threads": {"used": get_num_threads(), "processors": available_processors()},
        "object cache": asdict(default_store().info()),
        "settings": {name: os.environ[name] for name in sorted(os.environ) if name.startswith(_PREFIXES)},
    }


def text_of(groups: Mapping[str, Mapping[str, Any]]) -> str:
    """Format the facts as a table of three columns: group, name, value."""
    rows = [
        (title if i == 0 else "", name if name.isupper() else name.replace("_", " "), _words(value))
        for title, group in groups.items()
        for i, (name, value) in enumerate(group.items())
    ]
    wide, broad = (max(len(row[i]) for row in rows) for i in (0, 1))
    return "\n".join(f"{title:<{wide}}  {name:<{broad}}  {value}".rstrip() for title, name, value in rows)


def _versions() -> dict[str, str]:
    installed = {name: version for name in _OTHERS if (version := _installed(name))}
    return {
        "restride": VERSION,
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in _NEEDED},
        "llvm": llvm_facts().version,
        **installed,
    }


def _installed(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _machine() -> dict[str, str]:
    system, architecture = platform.system(), platform.machine()
    tested = _TESTED.get((system, architecture), "not tested")
    return {"system": f"{system} {platform.release()}", "architecture": architecture, "tested": tested}


def _instruction_set() -> dict[str, Any]:
    """Return the level that code is generated for, and all levels of this machine, lowest first."""
    isa = host_isa()
    return {
        "chosen": isa.name,
        "available": _available(),
        "vector_bytes": isa.vector_bytes,
        "cpu": isa.cpu,
        "features": isa.features,
        "limit": settings.lookup("MAX_CPU_ISA"),
    }


def _available() -> list[str]:
    features = llvm_facts().features
    levels = (choose(platform.machine(), "", features, level).name for level in _LEVELS)
    return list(dict.fromkeys(levels))


def _words(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "-" if value in (None, "") else str(value)
