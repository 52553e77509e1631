"""Say what restride runs on: versions, engines, instruction sets, caches, threads, settings."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict
from importlib import metadata
from typing import Any

from .. import __version__, settings
from ..runtime.engine import Engine
from ..runtime.pool import available_processors, get_num_threads
from ..targets.isa import choose, host_caches, host_isa
from ..targets.llvm import llvm
from ..targets.store import default_store
from ..view.names import aligned
from .output import Answer
from .usage import Parser

_LEVELS = ("generic", "sse41", "avx2", "avx512")
_KINDS = ("cpu", "gpu", "reference")
_PREFIXES = ("RESTRIDE_", "ONEDNN_", "DNNL_")


def add_arguments(parser: Parser) -> None:
    """None but --json."""


def run(_: argparse.Namespace) -> Answer:
    """All facts, in groups."""
    facts: dict[str, dict[str, Any]] = {
        "versions": _versions(),
        "machine": _machine(),
        "engines": {kind: Engine.get_count(kind) for kind in _KINDS},
        "instruction set": _instruction_set(),
        "caches": asdict(host_caches()),
        "threads": {"used": get_num_threads(), "processors": available_processors()},
        "object cache": asdict(default_store().info()),
        "settings": {name: os.environ[name] for name in sorted(os.environ) if name.startswith(_PREFIXES)},
    }
    return Answer(_text(facts), {name.replace(" ", "_"): group for name, group in facts.items()})


def _versions() -> dict[str, str]:
    return {
        "restride": __version__,
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in ("numpy", "llvmlite", "ml_dtypes")},
        "llvm": ".".join(map(str, llvm().llvm_version_info)),
    }


def _machine() -> dict[str, str]:
    return {"system": f"{platform.system()} {platform.release()}", "architecture": platform.machine()}


def _instruction_set() -> dict[str, Any]:
    """The level that code is made for, and all that this machine has, lowest first."""
    chosen = host_isa()
    return {
        "chosen": chosen.name,
        "available": _available(),
        "vector_bytes": chosen.vector_bytes,
        "cpu": chosen.cpu,
        "features": chosen.features,
        "limit": settings.lookup("MAX_CPU_ISA"),
    }


def _available() -> list[str]:
    try:
        features = dict(llvm().get_host_cpu_features())
    except RuntimeError:
        features = {}
    levels = (choose(platform.machine(), "", features, level).name for level in _LEVELS)
    return list(dict.fromkeys(levels))


def _text(facts: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [
        (title if i == 0 else "", name.replace("_", " "), _words(value))
        for title, group in facts.items()
        for i, (name, value) in enumerate(group.items())
    ]
    return "\n".join(aligned(rows, "<<<"))


def _words(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "-" if value in (None, "") else str(value)
