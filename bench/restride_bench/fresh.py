"""The plain call, as most programs write it: its result is new each time, and dropped before the next."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import restride as rs

from .peer import Call, PeerRefusal, PreparedCall
from .problem import Bytes, PeerProblem


class FreshResult:
    """`rs.reorder(x, dst)` and `rs.shuffle(x, ...)` without `out`."""

    name = "fresh result"
    version = ""  # restride's own

    def __init__(self, threads: int) -> None:
        rs.set_num_threads(threads)

    def prepare(self, problem: PeerProblem, src: Bytes, dst: Bytes) -> PreparedCall:
        """The call on an array, on a memory where the source is blocked; its last result goes to `dst`."""
        call, last = _call(problem, _source(problem, src)), list[Any]()

        def run() -> None:
            last.clear()
            last.append(call())

        def finish() -> None:
            made = last[-1]
            memory = made if isinstance(made, rs.Memory) else rs.Memory.from_numpy(made)
            dst[...] = np.asarray(memory.data).view(np.uint8)

        return PreparedCall(run, finish=finish)

    def copies(self, src: Bytes, dst: Bytes) -> dict[str, Call]:
        """None: a copy into new memory is no roof."""
        return {}


def _source(problem: PeerProblem, src: Bytes) -> Any:
    desc = rs.MemoryDesc(problem.src.whole, problem.src_type, problem.src_tag)
    if problem.margin:
        desc = desc.submemory_desc(problem.dims, problem.margin)
    memory = rs.Memory(desc, rs.Engine("cpu"), src.view(problem.src_dtype))
    return memory if desc.inner_blks else np.asarray(memory)


def _call(problem: PeerProblem, x: Any) -> Call:
    given = problem.arithmetic
    if problem.group_size is not None:
        return functools.partial(rs.shuffle, x, group_size=problem.group_size)
    if given.dst_axis is not None or given.beta:
        raise PeerRefusal("a new result has no scale of its own, and nothing to add to")
    words: dict[str, Any] = {"dtype": problem.dst_type}
    if given.scale is not None:
        words["scale"] = given.scales(problem.dims).ravel() if given.axis is not None else given.scale
        words |= {"axis": given.axis} if given.axis is not None else {}
    if given.zero_point:
        words["zero_point"] = given.zero_point
    return functools.partial(rs.reorder, x, problem.dst_tag, **words)
