"""Attention compared with torch's: prompts, and one query after many keys, as in a step of a language model.

Both sides read the same bytes. Heads lie apart, (batch, heads, positions, width), or side by side in rows of
positions; torch gets a view of these, and where few heads of keys serve many queries, `enable_gqa`. A row's
ratio is how many times longer torch took.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

import restride as rs

from .array_peers import Torch
from .layers import TORCH_TYPES
from .measure import Call
from .pages import mean_of, ratio, table
from .peer import PreparedCall
from .study import OWN, BenchRow, BenchSetup, RowPlan, Study, race

_TYPES = ("f32", "bf16")
_HEADS = 8
_LENGTHS, _WIDTHS = (128, 512, 1024, 4096), (64, 128)
_CACHED = (256, 1024, 4096, 8192)
_APART, _SIDE_BY_SIDE = "abcd", "acbd"
_TOLERANCE = {"f32": 1e-4, "bf16": 3e-2}


@dataclass(frozen=True)
class AttentionRow:
    """Queries, keys and the width of heads; how many heads of keys there are, and how tensors lie."""

    data_type: str
    queries: int
    keys: int
    width: int
    key_heads: int = _HEADS
    causal: bool = False
    tag: str = _APART

    @property
    def kind(self) -> str:
        """The name of the group whose mean is taken."""
        return f"{'prompt' if self.queries > 1 else 'one query'} {self.data_type}"

    @property
    def name(self) -> str:
        """The row as the table has it."""
        more = [" causal"] * self.causal + [" heads side by side"] * (self.tag == _SIDE_BY_SIDE)
        more += [f" {self.key_heads} heads of keys"] * (self.key_heads != _HEADS)
        return f"{self.kind} {self.keys} keys of {self.width}{''.join(more)}"

    @property
    def operations(self) -> int:
        """Two for each product that is added; of a causal mask half."""
        return 4 * _HEADS * self.queries * self.keys * self.width // (1 + self.causal)


def rows() -> Iterator[AttentionRow]:
    """Prompts in each form at 1024 positions, alone at the others; caches of keys in both forms."""
    for kind in _TYPES:
        for width in _WIDTHS:
            for length in _LENGTHS:
                whole = partial(AttentionRow, kind, length, length, width)
                yield from (whole(), whole(causal=True))
                if length == 1024:
                    yield from (whole(tag=_SIDE_BY_SIDE), whole(key_heads=2), whole(key_heads=2, causal=True))
            for keys in _CACHED:
                one = partial(AttentionRow, kind, 1, keys, width)
                yield from (one(), one(key_heads=2), one(tag=_SIDE_BY_SIDE))


def measure(setting: BenchSetup) -> list[BenchRow]:
    """All rows, compared with torch if it is installed."""
    return [measure_row(setting, row) for row in rows()]


def measure_row(setting: BenchSetup, row: AttentionRow) -> BenchRow:
    """One row."""
    engine = rs.Engine("cpu")
    query, key = ((1, heads, n, row.width) for heads, n in ((_HEADS, row.queries), (row.key_heads, row.keys)))
    descs = [rs.MemoryDesc(dims, row.data_type, row.tag) for dims in (query, key, key, query)]
    kind = rs.onednn.ScaledDotProductAttention
    pd = kind.PrimitiveDesc(engine, *descs, causal="top_left" if row.causal else "none")
    arguments = rs.onednn.Arg.SRC, rs.onednn.Arg.SRC_1, rs.onednn.Arg.SRC_2, rs.onednn.Arg.DST
    memories = {arg: rs.Memory(md, engine) for arg, md in zip(arguments, descs, strict=True)}
    for seed, memory in enumerate(memories.values()):
        values = np.random.default_rng(seed).standard_normal(memory.desc.dims).astype(np.float32)
        rs.reorder(values, None, out=memory)
    run = partial(kind(pd).execute, rs.onednn.Stream(engine), memories)
    run()
    sides = {OWN: PreparedCall(run, str(pd.impl_info_str))}
    result = memories[rs.onednn.Arg.DST]
    answers: dict[str, Callable[[], Any]] = {}
    if setting.torch is not None:
        call = _by_torch(setting.torch, row, list(memories.values())[:3])
        sides["torch"], answers["torch"] = PreparedCall(call), call

    def check() -> dict[str, str]:
        own = result.to_numpy().astype(np.float32)
        off = {name: float(np.abs(answer().float().numpy() - own).max()) for name, answer in answers.items()}
        return {name: f"off by {n:.3g}" for name, n in off.items() if n > _TOLERANCE[row.data_type]}

    moved = sum(md.size for md in descs)
    plan = RowPlan(row.name, moved, sides, check, row.operations, about={"kind": row.kind})
    # A copy is no roof of products.
    return race(plan, replace(setting, copiers=[]))


def _by_torch(peer: Torch, row: AttentionRow, memories: Sequence[rs.Memory]) -> Call:
    """torch's function on tensors over the same bytes."""
    torch: Any = peer.torch
    kind = getattr(torch, TORCH_TYPES[row.data_type])
    tensors = []
    for memory in memories:
        held = torch.from_numpy(np.asarray(memory.data).view(np.uint8)).view(kind)
        dims = memory.desc.dims
        if row.tag == _SIDE_BY_SIDE:
            tensors.append(held.view(dims[0], dims[2], dims[1], dims[3]).transpose(1, 2))
        else:
            tensors.append(held.view(dims))
    more = {"is_causal": row.causal, "enable_gqa": row.key_heads != _HEADS}
    inferring: Any = torch.inference_mode()
    call: Call = inferring(partial(torch.nn.functional.scaled_dot_product_attention, *tensors, **more))
    return call


def page(rows: Sequence[BenchRow]) -> str:
    """Times and speeds, and the means of each kind."""
    lines = [
        [
            row.name,
            f"{row.seconds() * 1e3:.3f}",
            f"{row.operations / row.seconds() / 1e9:.0f}",
            ratio(row.over("torch")),
        ]
        for row in rows
    ]
    for kind in dict.fromkeys(row.about["kind"] for row in rows):
        mean = mean_of(row.over("torch") for row in rows if row.about["kind"] == kind)
        said = f"{ratio(mean[0])} (worst {ratio(mean[1])})" if mean else "–"
        lines.append([f"geometric mean, {kind}", "", "", said])
    return table(["attention", "ms", "Gflop/s", "times torch"], lines)


STUDY = Study("Attention", measure, page)
