"""The kernels of a problem as LLVM IR, by the library's own way from problem to kernel.

A primitive is made and executed as everyone does it. Only the last step is another: where a kernel would be
compiled its text is kept, and a function that does nothing runs in its place. So what is found here is what
would run, whatever decides on it: stages, blocks, sums in the same pass, bytes in place of 4-bit elements,
several passes. No kernel is compiled, and nothing depends on the machine: instruction set and cache sizes are
fixed.

To compare the texts of two revisions, write them into two folders:

    PYTHONPATH=src:tests python -m support.ir_texts FOLDER [WORD ...]

The words choose the lines of tests/golden/ir that have all of them; without words all texts are written.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import restride as rs
from restride.emit import entry
from restride.emit.python_call import call_ir
from restride.emit.thread_pool_ir import pool_ir
from restride.emit.xla_handler import xla_handler_ir
from restride.ir.program import Program
from restride.runtime.alloc import Buffer
from restride.runtime.cpu import ranges
from restride.runtime.sycl.executable import SyclExecutable
from restride.schedule.machine import DeviceFacts
from restride.targets import isa as isa_module
from restride.targets import jit, objects
from restride.targets.isa import CacheSizes, Isa, host_isa
from restride.targets.lowered import Lowered
from support.ir_problem import Problem
from support.ir_problems import ON_CPU, ON_DEVICE
from support.problem_primitives import PRIMITIVES, arguments_of, desc_of, primitive_desc_of

Texts = tuple[str, ...]
# Which kernels, by name.
Share = Callable[[str], bool]

_LEVELS = ("avx512", "avx2", "sse41", "generic", "neon")
_TABLES = "avx512+vbmi"
_GPU = DeviceFacts(group=256, sub_group=32, local_bytes=1 << 16)
_DEVICES = {
    "spirv": _GPU,
    "spirv:wave64": DeviceFacts(group=256, sub_group=64),
    "spirv:cpu": DeviceFacts(group=1, sub_group=1, vector_bytes=16),
}
_TRIPLES = (
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "arm64-apple-darwin",
    "riscv64-linux-gnu",
)
_LINE = 64


def every(name: str) -> bool:
    """Every kernel."""
    return True


def a_third(name: str) -> bool:
    """A third of the kernels, whose names decide: at every change."""
    return zlib.crc32(name.encode()) % 3 == 0


@dataclass(frozen=True)
class Kernels:
    """The kernels of one problem for one target."""

    name: str
    texts: Texts

    @property
    def line(self) -> str:
        """The lines of a golden file: the name, lines of IR, a hash for each kernel."""
        hashes = [hashlib.sha256(text.encode()).hexdigest()[:16] for text in self.texts]
        lines = sum(text.count("\n") for text in self.texts)
        return " | ".join((self.name, f"{lines} lines", " ".join(hashes)))


def group_names() -> tuple[str, ...]:
    """The groups of problems: each has a golden file of its own."""
    return (*ON_CPU, *ON_DEVICE, "runtime")


def kernels_of(group: str, share: Share = every) -> list[Kernels]:
    """The kernels of a group whose names are in the share, sorted by name."""
    return [Kernels(name, make()) for name, make in sorted(_makers_of(group).items()) if share(name)]


def _makers_of(group: str) -> dict[str, Callable[[], Texts]]:
    """The functions that produce the texts of a group, by the names of the kernels."""
    if group not in ON_CPU and group not in ON_DEVICE:
        return {name: _alone(make) for name, make in _runtime_texts().items()}
    on_cpu = group in ON_CPU
    texts_of, targets = (cpu_texts, (*_LEVELS, _TABLES)) if on_cpu else (device_texts, tuple(_DEVICES))
    pairs = [(problem, target) for problem in (ON_CPU if on_cpu else ON_DEVICE)[group] for target in targets]
    made = {
        f"{problem.name} @ {target}": functools.partial(texts_of, problem, target)
        for problem, target in pairs
    }
    assert len(made) == len(pairs), f"two problems of one name in {group}"
    return made


def _alone(make: Callable[[], str]) -> Callable[[], Texts]:
    return lambda: (make(),)


# --- on a CPU -----------------------------------------------------------------------------------------------


def cpu_texts(problem: Problem, level: str) -> Texts:
    """The kernels that a CPU of this level compiles for a problem, wherever its destination begins."""
    _load_native_calls()
    with _recording(_isa(level), CacheSizes(l2=problem.caches[0], l3=problem.caches[1])) as texts:
        if problem.kind in ("amax", "min_max"):
            _find_range(problem)
        else:
            pd = primitive_desc_of(problem, rs.Engine("cpu"))
            descs = {arg: pd.query_md("exec_arg_md", arg) for arg in arguments_of(len(problem.tensors))}
            for start in (0, 1):
                _execute(problem, pd, descs, start)
    return tuple(sorted(texts))


def _isa(level: str) -> Isa:
    if level != _TABLES:
        return Isa.for_name(level)
    plain = Isa.for_name("avx512")
    return replace(plain, features=f"{plain.features},+avx512vbmi")


@contextlib.contextmanager
def _recording(isa: Isa, caches: CacheSizes) -> Iterator[set[str]]:
    """The machine is one with this instruction set and these caches; the texts that it compiles."""
    texts: set[str] = set()
    library, capacity = _empty_kernel(), rs.get_primitive_cache_capacity()

    def record(lowered: Any, _: str = "") -> bytes:
        texts.add(lowered.ir())
        return b""

    # Without caches every problem is planned for this machine, and every kernel seen.
    rs.set_primitive_cache_capacity(0)
    with (
        mock.patch.object(isa_module, "_host_isa", _always(isa)),
        mock.patch.object(isa_module, "read_caches", _always(caches)),
        mock.patch.object(objects, "object_code", record),
        mock.patch.object(objects, "load", _always(library)),
        mock.patch.object(objects, "name_for_perf", _always(None)),
    ):
        isa_module.host_caches.cache_clear()
        try:
            yield texts
        finally:
            isa_module.host_caches.cache_clear()
            rs.set_primitive_cache_capacity(capacity)


def _always(value: object) -> Callable[..., object]:
    """A function that gives this, whatever it is called with; made much faster than a mock."""
    return lambda *args: value


@functools.cache
def _empty_kernel() -> jit.Library:
    """Machine code of a kernel that does nothing."""
    text = f"""
define void @{entry.ENTRY}(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) {{
  ret void
}}
define void @{entry.WHOLE}(ptr %src, ptr %dst, ptr %params) {{
  ret void
}}
"""
    return jit.load(jit.compile_ir(text, host_isa()))


@functools.cache
def _load_native_calls() -> None:
    """Have all that calls kernels in this process, which is of this machine, and no kernel."""
    engine = rs.Engine("cpu")
    # Work that keeps Python's lock, that releases it, that the pool shares.
    for count in (1 << 8, 1 << 17, 1 << 22):
        md = rs.MemoryDesc((count,), "f32", "a")
        src, dst = rs.Memory(md, engine), rs.Memory(md, engine)
        rs.Reorder(src, dst).execute(rs.Stream(engine), src, dst)
    # Lists of launches, short and long ones.
    for count in (1 << 4, 1 << 16):
        rs.concat([np.zeros(count, np.uint8)] * 3)


def _execute(problem: Problem, pd: Any, descs: dict[int, rs.MemoryDesc], start: int) -> None:
    """Run a primitive on memories of `descs`; its destination begins `start` elements behind a cache line."""
    engine = pd.get_engine()
    args = {arg: rs.Memory(md, engine) for arg, md in descs.items() if not md.is_zero()}
    last = next(arg for arg in (rs.ARG_DIFF_SRC, rs.ARG_DST) if arg in args)
    args[last] = _memory_at(args[last], start)
    if problem.in_place:
        sources = [arg for arg in args if arg >= rs.ARG_MULTIPLE_SRC]
        args |= {arg: rs.Memory(args[arg].desc, engine, args[last].data) for arg in sources}
    PRIMITIVES[problem.kind](pd).execute(rs.Stream(engine), args)


def _memory_at(memory: rs.Memory, start: int) -> rs.Memory:
    """A memory of the same descriptor that begins so many elements, at least bytes, behind a cache line."""
    size = memory.data.view(np.uint8).size
    behind = start * max(memory.desc.data_type.bits // 8, 1)
    raw = np.empty(size + behind + _LINE, np.uint8)
    first = -raw.ctypes.data % _LINE + behind
    return rs.Memory(memory.desc, memory.engine, raw[first : first + size])


def _find_range(problem: Problem) -> None:
    (tensor,), (mask,) = problem.tensors, problem.parameters
    memory = rs.Memory(desc_of(tensor), rs.Engine("cpu"))
    find = ranges.amax if problem.kind == "amax" else ranges.min_max
    find(memory.desc, memory.data.ctypes.data, int(mask))


# --- on a device --------------------------------------------------------------------------------------------


def device_texts(problem: Problem, target: str) -> Texts:
    """The kernels that a device of work-items compiles when the primitive is made."""
    device, capacity = _device(target), rs.get_primitive_cache_capacity()
    device.texts.clear()
    rs.set_primitive_cache_capacity(0)
    try:
        PRIMITIVES[problem.kind](primitive_desc_of(problem, rs.Engine.of_device(device)))  # type: ignore[arg-type]
    finally:
        rs.set_primitive_cache_capacity(capacity)
    return tuple(sorted(device.texts))


class _NoDevice:
    """Stands for a device: it has facts, and keeps the texts of what it would compile."""

    name, kind, index, is_default, is_host, has_double = "sycl:none", "any", 0, True, False, True

    def __init__(self, facts: DeviceFacts) -> None:
        self.facts = facts
        self.texts: set[str] = set()

    def open_queue(self) -> None:
        """Nothing runs here."""
        raise NotImplementedError

    def compile(self, program: Program) -> SyclExecutable:
        """The program as every such device compiles it."""
        return SyclExecutable(program, self)  # type: ignore[arg-type]

    def kernel(self, lowered: Lowered) -> None:
        """Stand in for the compiler of a device."""
        self.texts.add(lowered.ir())

    def constant(self, values: Buffer) -> Buffer:
        """Stand in for the memory of a device."""
        return values


@functools.cache
def _device(target: str) -> _NoDevice:
    return _NoDevice(_DEVICES[target])


# --- what runs kernels --------------------------------------------------------------------------------------


def _runtime_texts() -> dict[str, Callable[[], str]]:
    """The texts of what runs kernels, by name."""
    made: dict[str, Callable[[], str]] = {}
    for triple in _TRIPLES:
        for futex in (True, False):
            made[f"pool futex:{futex} @ {triple}"] = functools.partial(pool_ir, triple, futex=futex)
        made[f"xla handler @ {triple}"] = functools.partial(xla_handler_ir, triple)
        for words, keep_lock in ((3, True), (3, False), (8, False)):
            name = f"call words:{words} keep_lock:{keep_lock} @ {triple}"
            made[name] = functools.partial(call_ir, triple, words, keep_lock=keep_lock)
    return made


def main(folder: str, *words: str) -> None:
    """Write the texts of all kernels whose names have these words into files of a folder."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for group in group_names():
        for kernels in kernels_of(group):
            if all(word in kernels.name for word in words):
                name = hashlib.sha256(kernels.name.encode()).hexdigest()[:12]
                text = "\n".join((f"; {kernels.name}", *kernels.texts))
                Path(folder, f"{group}-{name}.ll").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
