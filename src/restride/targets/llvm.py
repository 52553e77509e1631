"""Access to LLVM: llvmlite's binding, loaded on first use, and a lock around it that is safe with forks."""

from __future__ import annotations

import functools
import sys
import threading
import types
from typing import Any

from .. import forks
from ..loading import load_whole

# Held for every use of LLVM.
LLVM_LOCK = threading.RLock()


@functools.cache
def llvm() -> types.ModuleType:
    """Return llvmlite's binding, imported on first use.

    Loading LLVM's 180 MB library takes about 40 ms of the 60 ms that `import restride` may cost, and a
    program that only works with descriptors never needs it.
    """
    with LLVM_LOCK:
        return load_whole("llvmlite.binding")


@functools.cache
def binding_with_host() -> types.ModuleType:
    """Return llvmlite's binding ready to link code of this machine: all targets would take 10 MB more."""
    binding = llvm()
    binding.initialize_native_target()
    return binding


@functools.cache
def binding_with_targets() -> types.ModuleType:
    """Return llvmlite's binding ready to print code for all of its targets."""
    binding = llvm()
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    return binding


def inline_module(text: str, machine: Any) -> Any:
    """Return the verified module of an IR text, with its functions inlined as marked; hold the lock."""
    binding = binding_with_targets()
    module = binding.parse_assembly(text, binding.create_context())
    module.verify()
    passes = binding.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.run(module, binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(1)))
    return module


def _inner_lock() -> forks.Lock | None:
    """Return llvmlite's own lock, once loaded: garbage collection and other libraries do not take ours."""
    outer = getattr(getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None), "_lock", None)
    return forks.reentrant(getattr(outer, "_lock", None))


# A child of a fork must not inherit them from a thread that it does not have.
forks.hold(lambda: LLVM_LOCK)
forks.hold(_inner_lock)
