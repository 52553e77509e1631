"""Primitives bound by memory, compared with memcpy of the bytes that they must move, oneDNN, torch and JAX.

Every side works in the same format, on the same values; torch, and JAX, which is measured too, make a
new result at each call, as they do for their users. Large rows move 64 MB or more, small ones stay in the
caches. Answers are compared afterward.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import restride as rs
from restride import Error, MemoryDesc
from restride.targets.isa import host_isa

from .measure import Call
from .memory_bound_cases import CASES, TORCH_ARGUMENTS, MemoryBoundCase
from .memory_bound_jax import by_jax
from .onednn import OneDNN, OneDNNPrimitive
from .pages import mean_of, ratio, sides, table
from .peer import PreparedCall
from .study import MEMCPY, OWN, WARM, BenchRow, BenchSetup, RowPlan, Study, race

_SIZES = {"large": (84, 64, 56, 56), "small": (2, 64, 56, 56)}
_ROWS = {"large": (16384, 1024), "small": (512, 1024)}
_TOLERANCE = 1e-4
WRITTEN = (
    rs.onednn.Arg.DST,
    rs.onednn.Arg.DIFF_SRC,
    rs.onednn.Arg.DIFF_WEIGHTS,
    rs.onednn.Arg.DIFF_SCALE,
    rs.onednn.Arg.DIFF_SHIFT,
)
_NAMES = {
    getattr(rs, f"ARG_{name.upper()}"): name
    for name in (*("src", "src_1", "weights", "dst"), *("diff_src", "diff_dst", "diff_weights"))
}


def rows() -> Iterator[tuple[MemoryBoundCase, MemoryDesc, str]]:
    """Every primitive in every format and size, with its name."""
    # Blocks are those that networks have on this machine.
    lanes = 16 if host_isa().name == "avx512" else 8
    every = {"nchw": "abcd", "nhwc": "acdb", f"nChw{lanes}c": f"aBcd{lanes}b"}
    for size in _SIZES:
        for primitive in CASES:
            formats = {"ab": "ab"} if primitive.of_rows else every
            formats = formats if primitive.formats else dict([*formats.items()][:1])
            dims = _ROWS[size] if primitive.of_rows else _SIZES[size]
            for name, tag in formats.items():
                yield primitive, MemoryDesc(dims, "f32", tag), f"{primitive.name} {name} {size}"


def measure(setting: BenchSetup) -> list[BenchRow]:
    """All rows, compared with the installed peers of the bench."""
    return [measure_row(setting, *row) for row in rows()]


def measure_row(setting: BenchSetup, primitive: MemoryBoundCase, src: MemoryDesc, name: str) -> BenchRow:
    """One row."""
    engine = rs.Engine("cpu")
    kind, pd = primitive.make(engine, src)
    descs = descs_of(pd)
    memories = filled(engine, descs)
    run = partial(kind(pd).execute, rs.onednn.Stream(engine), memories)
    sides, refused = {OWN: PreparedCall(run, str(pd.impl_info_str))}, dict[str, str]()
    answers: dict[str, Callable[[], Any]] = {}
    ways: dict[str, Callable[[], tuple[Call, Callable[[], Any]]]] = {}
    if setting.onednn is not None:
        ways["oneDNN"] = partial(_by_onednn, setting.onednn.library, primitive, memories)
    if setting.torch is not None:
        ways |= {
            "torch": partial(_by_torch, primitive, memories),
            "JAX": partial(by_jax, primitive.name, memories),
        }
    for peer, way in ways.items():
        try:
            call, answers[peer] = way()
            sides[peer] = PreparedCall(call)
        except (Error, ValueError) as error:
            refused[peer] = str(error).splitlines()[0]
    is_large = sum(md.size for md in descs.values()) > WARM
    moved = sum(md.size * (1 + (is_large and arg in primitive.twice)) for arg, md in descs.items())
    check = partial(differences, memories[_result(memories)], answers)
    return race(RowPlan(name, moved, sides, check, refused=refused), setting)


# Arguments of primitives have numbers below it.
_MOST_ARGS = 320


def descs_of(pd: Any) -> dict[int, MemoryDesc]:
    """The memories that a primitive is executed with, by argument."""
    return {arg: md for arg in range(_MOST_ARGS) if (md := pd.query_md("exec_arg_md", arg))}


def filled(engine: rs.Engine, descs: Mapping[int, MemoryDesc]) -> dict[int, rs.Memory]:
    """Memories of small numbers, and of zeros where something is written."""
    memories = {arg: rs.Memory(md, engine) for arg, md in descs.items()}
    for seed, (arg, memory) in enumerate(memories.items()):
        values = np.random.default_rng(seed).uniform(0.1, 1.1, memory.desc.dims).astype(np.float32)
        rs.reorder(values if arg not in WRITTEN else values * 0, None, out=memory)
    return memories


def _result(memories: Mapping[int, rs.Memory]) -> int:
    return rs.onednn.Arg.DIFF_SRC if rs.onednn.Arg.DIFF_SRC in memories else rs.onednn.Arg.DST


def differences(result: rs.Memory, answers: Mapping[str, Callable[[], Any]]) -> dict[str, str]:
    """Whose answers are others than ours, and how far off."""
    own = result.to_numpy()
    pairs = [(name, answer()) for name, answer in answers.items()]
    return {
        name: f"off by {float(np.abs(own - other).max()):.3g}"
        for name, other in pairs
        if not np.allclose(own, other, rtol=_TOLERANCE, atol=_TOLERANCE)
    }


def _by_onednn(
    library: OneDNN, primitive: MemoryBoundCase, memories: Mapping[int, rs.Memory]
) -> tuple[Call, Callable[[], Any]]:
    """The same on the same bytes, written into storage of its own."""
    descs = {
        arg: library.desc(each.desc.dims, str(each.desc.data_type), each.desc.tag or "a")
        for arg, each in memories.items()
    }
    dst = memories[_result(memories)].desc
    pointers = {_NAMES[arg]: desc.pointer for arg, desc in descs.items() if arg in _NAMES}
    # What it needs of the statistics of rows, which restride makes by itself.
    statistics = library.desc(dst.dims[:-1], "f32", "abcde"[: dst.ndims - 1])
    pointers["statistics"] = statistics.pointer
    # Source and destination of the forward step of a gradient are like what they are gradients of.
    like = {name: pointers.get(name) or pointers.get(f"diff_{name}") for name in ("src", "dst")}

    def chosen(words: Sequence[Any], *hints: Any) -> Any:
        name, *arguments = ((pointers | like).get(w, w) if isinstance(w, str) else w for w in words)
        call = f"dnnl_{name}_primitive_desc_create"
        return library._chosen(call, library.engine, *arguments, *(hint.pointer for hint in hints), None)

    hints = [chosen(primitive.hint)] if primitive.hint else []
    pd = chosen(primitive.call, *hints)
    result = library.memory(descs[_result(memories)])
    held = {
        arg: result
        if arg == _result(memories)
        else library.memory(descs[arg], np.array(each.data) if arg in WRITTEN else np.asarray(each.data))
        for arg, each in memories.items()
    }
    workspace = library.workspace(pd)
    if workspace is not None and rs.onednn.Arg.WORKSPACE not in held:
        held[rs.onednn.Arg.WORKSPACE] = library.memory(workspace)
        ahead = {
            rs.onednn.Arg.SRC: held[rs.onednn.Arg.SRC],
            rs.onednn.Arg.DST: library.memory(descs[rs.onednn.Arg.DIFF_DST]),
        }
        ahead[rs.onednn.Arg.WORKSPACE] = held[rs.onednn.Arg.WORKSPACE]
        library._primitive(OneDNNPrimitive, hints[0]).bind_all(ahead)()
    call = library._primitive(OneDNNPrimitive, pd).bind_all(held)
    return call, lambda: rs.Memory(dst, rs.Engine("cpu"), result.bytes.view(np.float32)).to_numpy()


def _by_torch(
    primitive: MemoryBoundCase, memories: Mapping[int, rs.Memory]
) -> tuple[Call, Callable[[], Any]]:
    """torch's function on tensors over the same bytes. Raises ValueError for a blocked format."""
    import torch

    names = rs.onednn.Arg.SRC, rs.onednn.Arg.DST, rs.onednn.Arg.DIFF_DST
    source = next(memories[arg] for arg in names if arg in memories)
    if primitive.torch is None or source.desc.inner_blks:
        raise ValueError("torch has no such function, or no blocked formats")
    x = torch.from_numpy(np.asarray(source))
    w = [torch.from_numpy(np.asarray(memories[arg])) for arg in TORCH_ARGUMENTS if arg in memories]
    run = partial(primitive.torch, torch, x, w)
    return run, lambda: run().numpy()


def page(rows: Sequence[BenchRow]) -> str:
    """A table, and the means over its rows: of memcpy, and times faster than each peer."""
    beside = [MEMCPY, *sides(rows)] if rows else []
    lines = [
        [row.name, f"{row.rate() / 1e9:.1f}", *(ratio(row.over(side)) for side in beside)] for row in rows
    ]
    means = [mean_of(row.over(side) for row in rows) for side in beside]
    last = [f"{ratio(mean[0])} (worst {ratio(mean[1])})" if mean else "–" for mean in means]
    head = ["primitive", "GB/s", "of memcpy", *(f"times {side}" for side in beside[1:])]
    return table(head, [*lines, ["geometric mean", "", *last]] if rows else [])


STUDY = Study("Primitives bound by memory", measure, page)


# --- levels of instruction sets, in turns, in the caches ----------------------------------------------------

_LEVELS = ("generic", "sse41", "avx2", "avx512")
_OF_LEVELS = (
    *("eltwise relu", "eltwise tanh", "eltwise gelu_erf", "eltwise pow", "binary add"),
    *("batch normalization", "layer normalization", "lrn across channels", "softmax"),
    *("pooling max 3x3", "reduction sum", "resampling linear x2"),
)
_SETTING = "RESTRIDE_MAX_CPU_ISA"


def levels() -> tuple[str, ...]:
    """The levels of this machine, the least first; one where it has no others."""
    name = host_isa().name
    return _LEVELS[: _LEVELS.index(name) + 1] if name in _LEVELS else (name,)


def measure_levels(setting: BenchSetup) -> list[BenchRow]:
    """Some primitives in formats whose channels, or rows, are neighbors; the levels are the sides."""
    ends = (" nhwc small", " ab small", "eltwise tanh nchw small", "_erf nchw small", "pow nchw small")
    wanted = {primitive.name: (primitive, md) for primitive, md, name in rows() if name.endswith(ends)}
    found, setting = list[BenchRow](), replace(setting, copiers=[])
    for name in _OF_LEVELS:
        primitive, src = wanted[name]
        sides, moved = dict[str, PreparedCall](), 0
        for level in levels():
            with _limited_to(level):
                engine = rs.Engine("cpu")
                kind, pd = primitive.make(engine, src)
                memories = filled(engine, descs_of(pd))
                sides[level] = PreparedCall(partial(kind(pd).execute, rs.onednn.Stream(engine), memories))
                sides[level].call()
            moved = sum(memory.desc.size for memory in memories.values())
        found.append(race(RowPlan(name, moved, sides), setting))
    return found


@contextmanager
def _limited_to(level: str) -> Iterator[None]:
    """Plan for a level: nothing that was planned before is found."""
    before, kept = os.environ.get(_SETTING), rs.onednn.get_primitive_cache_capacity()
    os.environ[_SETTING] = level
    rs.onednn.set_primitive_cache_capacity(0)
    try:
        yield
    finally:
        rs.onednn.set_primitive_cache_capacity(kept)
        if before is None:
            del os.environ[_SETTING]
        else:
            os.environ[_SETTING] = before


def page_of_levels(rows: Sequence[BenchRow]) -> str:
    """GB/s at each level, and how many times faster the best is than each of the others."""
    names = list(rows[0].times) if rows else []
    lines = [[row.name, *(f"{row.rate(level) / 1e9:.1f}" for level in names)] for row in rows]
    means = [mean_of(row.over(level, names[-1]) for row in rows) for level in names]
    last = [f"{names[-1]} is times as fast", *(ratio(mean and mean[0]) for mean in means)] if rows else []
    return table(["GB/s in the caches", *names], [*lines, last] if rows else [])


STUDY_OF_LEVELS = Study("Levels of instruction sets", measure_levels, page_of_levels)
