"""Facts about LLVM and this machine, kept on disk: if all kernels are there, LLVM is not loaded.

LLVM takes 40 MB of a process and 25 ms. Its answers are kept under a key that includes its library and
Linux's description of the processor; elsewhere LLVM is queried each time.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from restride.loading import load_whole
from restride.targets.llvm import llvm
from restride.targets.object_store import default_store
from restride.version import VERSION

__all__ = ["LlvmFacts", "llvm_facts"]

_PROCESSOR, _PROCESSOR_BYTES = "/proc/cpuinfo", 1 << 14
# Fields that change from moment to moment, or between processors.
_CHANGING = ("processor", "cpu mhz", "bogomips", "core id", "apicid", "initial apicid", "physical id")


@dataclass(frozen=True)
class LlvmFacts:
    """The versions of llvmlite and LLVM, the triple of this process, and the processor's features."""

    llvmlite: str
    version: str
    triple: str
    features: Mapping[str, bool]


@functools.cache
def llvm_facts() -> LlvmFacts:
    """Return the facts about LLVM: from the store, else queried now and stored."""
    key = _key()
    content = default_store().get(key) if key and "llvmlite.binding" not in sys.modules else None
    if content is not None:
        return LlvmFacts(**json.loads(content))
    facts = _ask_llvm()
    if key:
        default_store().put(key, json.dumps(asdict(facts)).encode())
    return facts


def _ask_llvm() -> LlvmFacts:
    binding = llvm()
    features: Mapping[str, bool] = {}
    with contextlib.suppress(RuntimeError):  # LLVM does not know on this system
        features = dict(binding.get_host_cpu_features())
    version = ".".join(map(str, binding.llvm_version_info))
    return LlvmFacts(_llvmlite_version(), version, binding.get_process_triple(), features)


def _llvmlite_version() -> str:
    return str(load_whole("llvmlite").__version__)


def _key() -> str:
    """Return the digest of what the facts depend on; empty if that is unknown."""
    package = load_whole("llvmlite")
    library = os.path.join(os.path.dirname(package.__file__ or ""), "binding", "libllvmlite.so")
    try:
        size = os.stat(library).st_size
        with open(_PROCESSOR, encoding="utf-8", errors="replace") as file:
            text = file.read(_PROCESSOR_BYTES)
    except OSError:
        return ""
    lines = text.partition("\n\n")[0].splitlines()
    rest = [line for line in lines if line.partition(":")[0].strip().lower() not in _CHANGING]
    return hashlib.sha256(repr(("llvm facts", VERSION, _llvmlite_version(), size, rest)).encode()).hexdigest()
