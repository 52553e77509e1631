"""Instruction sets: the targets of code generation, and what this machine has (MAX_CPU_ISA).

Level     vector  who has it                                    LLVM cpu
avx512    64 B    x86-64 with AVX512 F, BW, DQ, VL, CD          x86-64-v4
avx2      32 B    x86-64 with AVX2, FMA, F16C, BMI              x86-64-v3
sse41     16 B    x86-64 with SSE4.2 and POPCNT                 x86-64-v2
neon      16 B    AArch64, with BF16 if available               generic
generic   16 B    anything else

The CPU model is always LLVM's generic one of the level, never the host's own: the same nest gives the same
code on every machine of a level, and a lower level cannot use a higher one's instructions by accident.
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from restride import settings
from restride.loading import load_whole

from ..errors import refuse
from ..schedule.machine import NOMINAL

# Without the second, LLVM writes most vpdpwssd as vpmaddwd and vpaddd: a shorter chain, but twice the work.
_AVX512_TUNING = "-prefer-256-bit,+fast-dpwssd"

# By level. vcvtneps2bf16 flushes subnormals, which would make bits depend on the instruction set (N3): it is
# used where there are none. bfcvtn preserves them.
_EXTRAS = {
    "avx512": ("avx512vbmi", "avx512vbmi2", "gfni", "avx512vnni", "avx512bf16"),
    "avx2": ("avxvnni",),
    "neon": ("bf16",),
}
_ALL_EXTRAS = frozenset(extra for extras in _EXTRAS.values() for extra in extras)
_NO_EXTRAS = frozenset[str]()

# Where Linux reports the features of an AArch64: an entry of the auxiliary vector, and its bits by LLVM's
# names.
_AUXV, _AUXV_ENTRY = "/proc/self/auxv", struct.Struct("@NN")
_HWCAP2, _HWCAP2_BITS = 26, {"bf16": 1 << 14}

# The features the host must have for a level, by LLVM's names.
_NEEDS = {
    "sse41": ("cx16", "popcnt", "sse4.1", "sse4.2", "ssse3"),
    "avx2": ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"),
    "avx512": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
}
_LADDER = ("generic", "sse41", "avx2", "avx512")

# oneDNN's names, and restride's own -> (level, allowed extras). A name between two levels means the next
# lower level.
_CAPS = {
    "DEFAULT": ("avx512", _ALL_EXTRAS),
    "ALL": ("avx512", _ALL_EXTRAS),
    "GENERIC": ("generic", _NO_EXTRAS),
    "SSE41": ("sse41", _NO_EXTRAS),
    "AVX": ("sse41", _NO_EXTRAS),
    "AVX2": ("avx2", _NO_EXTRAS),
    "AVX2_VNNI": ("avx2", frozenset({"avxvnni"})),
    "AVX2_VNNI_2": ("avx2", frozenset({"avxvnni"})),
    "AVX512_CORE": ("avx512", _NO_EXTRAS),
    "AVX512_CORE_VNNI": ("avx512", frozenset({"avx512vnni"})),
    "AVX512_CORE_BF16": ("avx512", frozenset({"avx512vnni", "avx512bf16"})),
    "AVX512_CORE_FP16": ("avx512", _ALL_EXTRAS),
    "AVX512_CORE_AMX": ("avx512", _ALL_EXTRAS),
    "AVX512_CORE_AMX_FP16": ("avx512", _ALL_EXTRAS),
    "AVX10_1_512": ("avx512", _ALL_EXTRAS),
    "AVX10_1_512_AMX": ("avx512", _ALL_EXTRAS),
    "AVX10_1_512_AMX_FP16": ("avx512", _ALL_EXTRAS),
    "AVX10_2_512": ("avx512", _ALL_EXTRAS),
    "AVX10_2_512_AMX_2": ("avx512", _ALL_EXTRAS),
    # Restride's own levels, as shown by `restride info`. Another machine's level is no limit here.
    "AVX512": ("avx512", _ALL_EXTRAS),
    "NEON": ("avx512", _ALL_EXTRAS),
}


@dataclass(frozen=True)
class Isa:
    """A target instruction set: level name, vector register in bytes, LLVM's three texts."""

    name: str
    vector_bytes: int
    triple: str
    cpu: str
    features: str

    @classmethod
    def for_name(cls, name: str) -> Isa:
        """Return the level `name` regardless of the host, for cross compilation and golden texts."""
        if name not in _BASE:
            raise refuse("RS-V04:unknown-instruction-set", name=name, base=", ".join(sorted(_BASE)))
        return _BASE[name]

    def has(self, feature: str) -> bool:
        """Say whether LLVM's `feature` was added to the level's base set, e.g. "avx512vbmi"."""
        return f"+{feature}" in self.features.split(",")


_X86 = "x86_64-unknown-linux-gnu"
_BASE = {
    "avx512": Isa("avx512", 64, _X86, "x86-64-v4", _AVX512_TUNING),
    "avx2": Isa("avx2", 32, _X86, "x86-64-v3", ""),
    "sse41": Isa("sse41", 16, _X86, "x86-64-v2", ""),
    "neon": Isa("neon", 16, "aarch64-unknown-linux-gnu", "generic", "+neon"),
    "generic": Isa("generic", 16, _X86, "x86-64", ""),
}


def host_isa() -> Isa:
    """Return the best instruction set of this machine that MAX_CPU_ISA allows.

    Raises InvalidArguments, naming the variable and the valid values, if it is not one of them.
    """
    return _host_isa(*(settings.find("MAX_CPU_ISA") or ("", "")))


@functools.cache
def _host_isa(variable: str, text: str) -> Isa:
    level, extras = _parse_cap(variable, text)
    load_whole("restride.targets.llvm_facts")
    from restride.targets.llvm_facts import llvm_facts

    facts = llvm_facts()
    features = {**facts.features, **_kernel_features()}
    return choose(platform.machine(), _host_triple(facts.triple), features, level, extras)


def choose(
    machine: str,
    triple: str,
    features: Mapping[str, bool],
    level: str = "avx512",
    extras: Collection[str] = _ALL_EXTRAS,
) -> Isa:
    """Return the best level, at most `level`, for a machine of this name, LLVM triple and feature set.

    `extras`: the features that code can use beyond the level, if the machine has them.
    """
    machine = machine.lower()
    if machine in ("aarch64", "arm64"):
        return _with_extras(replace(_BASE["neon"], triple=triple), features, extras)
    if machine not in ("x86_64", "amd64"):
        return Isa("generic", 16, triple, "generic", _flatten(features))
    name = _climb(features, level)
    return _with_extras(replace(_BASE[name], triple=triple), features, extras)


def _with_extras(base: Isa, features: Mapping[str, bool], extras: Collection[str]) -> Isa:
    flags = [f"+{e}" for e in _EXTRAS.get(base.name, ()) if e in extras and features.get(e)]
    return replace(base, features=",".join([*filter(None, [base.features]), *flags]))


def _climb(features: Mapping[str, bool], level: str) -> str:
    """Return the highest level up to `level` such that the host has all features of it and those below."""
    best = "generic"
    for name in _LADDER[1 : _LADDER.index(level) + 1]:
        if not all(features.get(need) for need in _NEEDS[name]):
            break
        best = name
    return best


def _parse_cap(variable: str, text: str) -> tuple[str, frozenset[str]]:
    cap = _CAPS.get(text.strip().upper() or "DEFAULT")
    if cap is None:
        raise refuse("RS-P17:names-no-instruction", variable=variable, text=text[:80], caps=", ".join(_CAPS))
    return cap


def _host_triple(triple: str) -> str:
    # LLVM's run-time loader accepts only ELF objects on Windows.
    return f"{triple}-elf" if os.name == "nt" and not triple.endswith("-elf") else triple


def _kernel_features() -> dict[str, bool]:
    """Return the AArch64 features that Linux reports: LLVM reads a text that emulators do not write."""
    if platform.machine() != "aarch64":
        return {}
    try:
        with open(_AUXV, "rb") as file:
            entries = dict(_AUXV_ENTRY.iter_unpack(file.read()))
    except (OSError, struct.error):
        return {}
    return {name: bool(entries.get(_HWCAP2, 0) & bit) for name, bit in _HWCAP2_BITS.items()}


def _flatten(features: Mapping[str, bool]) -> str:
    return ",".join(("+" if on else "-") + name for name, on in sorted(features.items()))


@dataclass(frozen=True)
class CacheSizes:
    """Data cache sizes in bytes as one core sees them, and the length of a cache line in bytes."""

    l1d: int = NOMINAL.l1
    l2: int = NOMINAL.l2
    l3: int = NOMINAL.l3
    line: int = NOMINAL.line


@functools.cache
def host_caches() -> CacheSizes:
    """Return this machine's cache sizes; if the system does not report them, the defaults of `CacheSizes`."""
    return read_caches("/sys/devices/system/cpu/cpu0/cache")


@functools.cache
def host_processor() -> str:
    """Return the name of this machine's processor, as far as the system reports it."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def read_caches(folder: str) -> CacheSizes:
    """Return the cache sizes in a Linux sysfs folder of `index*/{level,type,size}`."""
    sizes = {}
    for index in range(8):
        entry = os.path.join(folder, f"index{index}")
        level, kind = _read(entry, "level"), _read(entry, "type")
        size = _parse_size(_read(entry, "size"))
        if kind in ("Data", "Unified") and size:
            sizes[level] = size
    usual = CacheSizes()
    l1d, l2 = sizes.get("1", usual.l1d), sizes.get("2", usual.l2)
    line = _parse_size(_read(os.path.join(folder, "index0"), "coherency_line_size")) or usual.line
    # Without a third level, or if a hypervisor hides it, the second is the last.
    return CacheSizes(l1d, l2, sizes.get("3", l2 if sizes else usual.l3), line)


def _read(folder: str, name: str) -> str:
    try:
        # Not "ascii": Python loads that codec late, and a signal handler might find it half initialized.
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            return file.read(64).strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _parse_size(text: str) -> int:
    """Return the bytes of "32K", "1M" or "64"; 0 for anything else."""
    unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
    digits = text[:-1] if unit > 1 else text
    return int(digits) * unit if digits.isascii() and digits.isdecimal() else 0
