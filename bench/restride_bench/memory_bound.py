"""Primitives that are bound by memory, beside memcpy of the bytes that they must move, oneDNN, torch and JAX.

Every side works in the same format, on the same values; torch, and JAX, which is measured beside it, make a
new result at each call, as they do for their users. Large rows move 64 MB or more, small ones stay in the
caches. Answers are compared afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import restride as rs
from restride import Error, MemoryDesc
from restride.targets.isa import host_isa

from .array_peers import Torch
from .figures import BenchSetup
from .measure import Call, Quartiles, alternate, batch_size
from .memory_bound_cases import CASES, TORCH_ARGUMENTS, MemoryBoundCase
from .memory_bound_jax import by_jax
from .onednn import OneDNN, OneDNNPrimitive
from .peers import OneDNNPeer
from .problem import storage

_SIZES = {"large": (84, 64, 56, 56), "small": (2, 64, 56, 56)}
_ROWS = {"large": (16384, 1024), "small": (512, 1024)}
_TOLERANCE = 1e-4
WRITTEN = (rs.ARG_DST, rs.ARG_DIFF_SRC, rs.ARG_DIFF_WEIGHTS, rs.ARG_DIFF_SCALE, rs.ARG_DIFF_SHIFT)
MEMCPY = "memcpy"
_NAMES = {
    getattr(rs, f"ARG_{name.upper()}"): name
    for name in (*("src", "src_1", "weights", "dst"), *("diff_src", "diff_dst", "diff_weights"))
}


@dataclass(frozen=True)
class BoundRow:
    """What was measured of one primitive in one format: bytes that it must move, seconds of each side."""

    name: str
    moved: int
    seconds: dict[str, Quartiles]
    kernel: str = ""
    wrong: str = ""
    refused: dict[str, str] = field(default_factory=dict)

    def rate(self, side: str) -> float:
        """Bytes per second."""
        return self.moved / self.seconds[side].median

    def over(self, side: str) -> float | None:
        """How many times faster restride was; None where there is no such side."""
        return self.seconds[side].median / self.seconds["restride"].median if side in self.seconds else None


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


def measure(setting: BenchSetup) -> list[BoundRow]:
    """All rows beside the peers of the bench that are there."""
    return [measure_row(setting, *row) for row in rows()]


def measure_row(setting: BenchSetup, primitive: MemoryBoundCase, src: MemoryDesc, name: str) -> BoundRow:
    """One row."""
    engine = rs.Engine("cpu")
    kind, pd = primitive.make(engine, src)
    descs = descs_of(pd)
    memories = filled(engine, descs)
    run = partial(kind(pd).execute, rs.Stream(engine), memories)
    calls: dict[str, Call] = {"restride": run}
    refused: dict[str, str] = {}
    answers: dict[str, Callable[[], Any]] = {}
    for peer in setting.peers:
        try:
            if isinstance(peer, OneDNNPeer):
                calls[peer.name], answers[peer.name] = _by_onednn(peer.library, primitive, memories)
            elif isinstance(peer, Torch):
                calls[peer.name], answers[peer.name] = _by_torch(primitive, memories)
        except (Error, ValueError) as error:
            refused[peer.name] = str(error).splitlines()[0]
    if "torch" in calls or "torch" in refused:
        try:
            calls["JAX"], answers["JAX"] = by_jax(primitive.name, memories)
        except ValueError as error:
            refused["JAX"] = str(error)
    is_large = sum(md.size for md in descs.values()) > _WARM
    moved = sum(md.size * (1 + (is_large and arg in primitive.twice)) for arg, md in descs.items())
    source, target = storage(moved // 2), storage(moved // 2)
    # Pages that nobody has written are one page of zeros, and stay in the caches.
    source[:], target[:] = 1, 2
    copies = [call for peer in setting.copiers for call in peer.copies(source, target).values()]
    calls |= {f"{MEMCPY} {i}": call for i, call in enumerate(copies)}
    number = 1 if is_large else batch_size(run)
    times = {
        each: timing.spread for each, timing in alternate(calls, rounds=setting.rounds, number=number).items()
    }
    best = min((each for each in times if each.startswith(MEMCPY)), key=lambda each: times[each].median)
    seconds = {each: found for each, found in times.items() if not each.startswith(MEMCPY)}
    wrong = _difference(memories[_result(memories)].to_numpy(), answers)
    return BoundRow(name, moved, {**seconds, MEMCPY: times[best]}, str(pd.impl_info_str), wrong, refused)


# Arguments of primitives have numbers below it.
_MOST_ARGS = 320
_WARM = 16 << 20


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
    return rs.ARG_DIFF_SRC if rs.ARG_DIFF_SRC in memories else rs.ARG_DST


def _difference(found: Any, answers: Mapping[str, Callable[[], Any]]) -> str:
    for name, answer in answers.items():
        wanted = answer()
        if not np.allclose(found, wanted, rtol=_TOLERANCE, atol=_TOLERANCE):
            return f"off by {float(np.abs(found - wanted).max()):.3g} from {name}"
    return ""


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
    if workspace is not None and rs.ARG_WORKSPACE not in held:
        held[rs.ARG_WORKSPACE] = library.memory(workspace)
        ahead = {rs.ARG_SRC: held[rs.ARG_SRC], rs.ARG_DST: library.memory(descs[rs.ARG_DIFF_DST])}
        ahead[rs.ARG_WORKSPACE] = held[rs.ARG_WORKSPACE]
        library._primitive(OneDNNPrimitive, hints[0]).bind_all(ahead)()
    call = library._primitive(OneDNNPrimitive, pd).bind_all(held)
    return call, lambda: rs.Memory(dst, rs.Engine("cpu"), result.bytes.view(np.float32)).to_numpy()


def _by_torch(
    primitive: MemoryBoundCase, memories: Mapping[int, rs.Memory]
) -> tuple[Call, Callable[[], Any]]:
    """torch's function on tensors over the same bytes. Raises ValueError for a blocked format."""
    import torch

    names = rs.ARG_SRC, rs.ARG_DST, rs.ARG_DIFF_DST
    source = next(memories[arg] for arg in names if arg in memories)
    if primitive.torch is None or source.desc.inner_blks:
        raise ValueError("torch has no such function, or no blocked formats")
    x = torch.from_numpy(np.asarray(source))
    w = [torch.from_numpy(np.asarray(memories[arg])) for arg in TORCH_ARGUMENTS if arg in memories]
    run = partial(primitive.torch, torch, x, w)
    return run, lambda: run().numpy()
