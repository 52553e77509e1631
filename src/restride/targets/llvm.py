"""Where LLVM comes in: llvmlite's binding, loaded on first use, and one lock around it that forks respect."""

from __future__ import annotations

import functools
import importlib
import os
import sys
import threading
import types
from contextlib import AbstractContextManager
from typing import Any

# Taken for every use of LLVM, and before a fork: no child inherits it from a thread that it has not got.
LLVM_LOCK = threading.RLock()


@functools.cache
def llvm() -> types.ModuleType:
    """Return llvmlite's binding, imported on first use.

    Loading LLVM's 180 MB library takes about 40 ms of the 60 ms that `import restride` may cost, and a
    program that only looks at descriptors never needs it.
    """
    with LLVM_LOCK:
        return importlib.import_module("llvmlite.binding")


@functools.cache
def initialised() -> types.ModuleType:
    """Return llvmlite's binding with every target that it has ready to print code."""
    binding = llvm()
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    return binding


def inlined_module(text: str, machine: Any) -> Any:
    """Return the verified module of an IR text, with the functions that it wants inline; hold the lock."""
    binding = initialised()
    module = binding.parse_assembly(text, binding.create_context())
    module.verify()
    passes = binding.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.run(module, binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(1)))
    return module


_held_over_fork: list[AbstractContextManager[object]] = []


def _before_fork() -> None:
    """Hold our lock and llvmlite's own: collected objects, and other libraries, use LLVM without ours."""
    LLVM_LOCK.acquire()
    inner = getattr(getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None), "_lock", None)
    if isinstance(inner, AbstractContextManager):
        inner.__enter__()
        _held_over_fork.append(inner)


def _after_fork() -> None:
    while _held_over_fork:
        _held_over_fork.pop().__exit__(None, None, None)
    LLVM_LOCK.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
