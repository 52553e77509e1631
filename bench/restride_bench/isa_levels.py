"""Primitives bound by memory at each level of instruction sets of this machine, in turns, in the caches."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import restride as rs
from restride import MemoryDesc
from restride.targets.isa import host_isa

from .figures import BenchSetup
from .measure import Call, Quartiles, alternate, batch_size
from .memory_bound import descs_of, filled, rows
from .memory_bound_cases import MemoryBoundCase

_LEVELS = ("generic", "sse41", "avx2", "avx512")
_NAMES = (
    *("eltwise relu", "eltwise tanh", "eltwise gelu_erf", "eltwise pow", "binary add"),
    *("batch normalization", "layer normalization", "lrn across channels", "softmax"),
    *("pooling max 3x3", "reduction sum", "resampling linear x2"),
)
_SETTING = "RESTRIDE_MAX_CPU_ISA"


@dataclass(frozen=True)
class LevelRow:
    """Bytes that a primitive must move, and seconds at each level."""

    name: str
    moved: int
    seconds: dict[str, Quartiles]

    def rate(self, level: str) -> float:
        """Bytes per second."""
        return self.moved / self.seconds[level].median


def levels() -> tuple[str, ...]:
    """The levels of this machine, the least first; one where it has no others."""
    name = host_isa().name
    return _LEVELS[: _LEVELS.index(name) + 1] if name in _LEVELS else (name,)


def measure(setting: BenchSetup) -> list[LevelRow]:
    """Some primitives in formats whose channels, or rows, are neighbours."""
    ends = (" nhwc small", " ab small", "eltwise tanh nchw small", "_erf nchw small", "pow nchw small")
    wanted = {primitive.name: (primitive, md) for primitive, md, name in rows() if name.endswith(ends)}
    return [_measure(setting, *wanted[name]) for name in _NAMES]


def _measure(setting: BenchSetup, primitive: MemoryBoundCase, src: MemoryDesc) -> LevelRow:
    calls: dict[str, Call] = {}
    moved = 0
    for level in levels():
        with _limited_to(level):
            engine = rs.Engine("cpu")
            kind, pd = primitive.make(engine, src)
            descs = descs_of(pd)
            memories = filled(engine, descs)
            calls[level] = partial(kind(pd).execute, rs.Stream(engine), memories)
            calls[level]()
        moved = sum(md.size for md in descs.values())
    number = batch_size(next(iter(calls.values())))
    times = alternate(calls, rounds=setting.rounds, number=number)
    return LevelRow(primitive.name, moved, {level: timing.spread for level, timing in times.items()})


@contextmanager
def _limited_to(level: str) -> Iterator[None]:
    """Plan for a level: nothing that was planned before is found."""
    before, kept = os.environ.get(_SETTING), rs.get_primitive_cache_capacity()
    os.environ[_SETTING] = level
    rs.set_primitive_cache_capacity(0)
    try:
        yield
    finally:
        rs.set_primitive_cache_capacity(kept)
        if before is None:
            del os.environ[_SETTING]
        else:
            os.environ[_SETTING] = before
