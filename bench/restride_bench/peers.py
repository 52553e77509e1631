"""The peers of restride in measurements, each used the best way it offers for the work."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import restride as rs
from restride import DataType, Error

from .array_peers import NumPy, Torch
from .onednn import OneDNN, OneDNNAttributes, OneDNNDesc
from .onednn_library import INSTALL
from .peer import Call, Peer, PeerMissing, PeerRefusal, PreparedCall
from .problem import Array, Bytes, PeerProblem, mask_of


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
        return functools.partial(rs.shuffle, x, axis=problem.axis, group_size=problem.group_size)
    if given.dst_axis is not None or given.beta:
        raise PeerRefusal("a new result has no scale of its own, and nothing to add to")
    words: dict[str, Any] = {"dtype": problem.dst_type}
    if given.scale is not None:
        words["scale"] = given.scales(problem.dims).ravel() if given.axis is not None else given.scale
        words |= {"axis": given.axis} if given.axis is not None else {}
    if given.zero_point:
        words["zero_point"] = given.zero_point
    return functools.partial(rs.reorder, x, problem.dst_tag, **words)


class Restride:
    """restride's primitives: one reorder or shuffle made before, executed on a stream."""

    name = "restride"

    def __init__(self, threads: int) -> None:
        self.version = rs.__version__
        self.engine = rs.Engine("cpu")
        self.stream = rs.onednn.Stream(self.engine)
        rs.set_num_threads(threads)

    def prepare(self, problem: PeerProblem, src: Bytes, dst: Bytes) -> PreparedCall:
        """Make the primitive and its memories."""
        source = rs.MemoryDesc(problem.src.whole, problem.src_type, problem.src_tag)
        if problem.margin:
            source = source.submemory_desc(problem.dims, problem.margin)
        target = rs.MemoryDesc(problem.dims, problem.dst_type, problem.dst_tag)
        if problem.group_size is not None:
            desc = rs.onednn.ShuffleForward.Desc(
                "forward_inference", source, problem.axis, problem.group_size
            )
            pd = rs.onednn.ShuffleForward.PrimitiveDesc(desc, self.engine)
            a, b = (rs.Memory(source, self.engine, held) for held in (src, dst))
            run = functools.partial(rs.onednn.ShuffleForward(pd).execute, self.stream, a, b)
            return PreparedCall(run, pd.impl_info_str)
        return self._bound(
            source, target, _attr(problem), src.view(problem.src_dtype), dst.view(problem.dst_dtype)
        )

    def copies(self, src: Bytes, dst: Bytes) -> dict[str, Call]:
        """A reorder between equal descriptors."""
        desc = rs.MemoryDesc((src.size,), "u8", "a")
        return {"restride": self._bound(desc, desc, None, src, dst).call}

    def _bound(self, source: Any, target: Any, attr: Any, src: Array, dst: Array) -> PreparedCall:
        try:
            pd = rs.onednn.Reorder.PrimitiveDesc(self.engine, source, self.engine, target, attr)
            primitive = rs.onednn.Reorder(pd)
        except NotImplementedError as error:
            raise PeerRefusal(str(error)) from None
        a, b = rs.Memory(source, self.engine, src), rs.Memory(target, self.engine, dst)
        return PreparedCall(functools.partial(primitive.execute, self.stream, a, b), str(pd.impl_info_str))


class OneDNNPeer:
    """oneDNN's reorder or shuffle primitive, executed and waited for."""

    name = "oneDNN"

    def __init__(self, threads: int) -> None:
        try:
            self.library = OneDNN()
            self.library.set_num_threads(threads)
        except Error as error:
            raise PeerMissing(f"{error.what}; {INSTALL}") from None
        self.version = self.library.version

    def prepare(self, problem: PeerProblem, src: Bytes, dst: Bytes) -> PreparedCall:
        """Make the primitive and its memories."""
        library = self.library
        try:
            source = library.desc(problem.src.whole, problem.src_type, problem.src_tag)
            if problem.margin:
                source = source.submemory(problem.dims, problem.margin)
            target = library.desc(problem.dims, problem.dst_type, problem.dst_tag)
            if problem.group_size is not None:
                shuffle = library.shuffle(source, problem.axis, problem.group_size)
                held = {
                    rs.onednn.Arg.SRC: library.memory(source, src),
                    rs.onednn.Arg.DST: library.memory(source, dst),
                }
                return PreparedCall(shuffle.bind_all(held), shuffle.impl)
            if not problem.arithmetic.is_plain:
                return self._compute(
                    problem, source, target, {rs.onednn.Arg.SRC: src, rs.onednn.Arg.DST: dst}
                )
            primitive = library.reorder(source, target, alpha=problem.scale)
        except Error as error:
            raise PeerRefusal(error.why or error.what) from None
        call = primitive.bind(library.memory(source, src), library.memory(target, dst))
        return PreparedCall(call, primitive.impl)

    def _compute(
        self, problem: PeerProblem, src: OneDNNDesc, dst: OneDNNDesc, held: dict[int, Bytes]
    ) -> PreparedCall:
        library, attr, given = self.library, OneDNNAttributes.new(self.library), problem.arithmetic
        memories = {
            arg: library.memory(md, held[arg])
            for arg, md in ((rs.onednn.Arg.SRC, src), (rs.onednn.Arg.DST, dst))
        }
        scales = (
            [(rs.onednn.Arg.SRC, given.axis, given.scales(problem.dims))] if given.scale is not None else []
        )
        if given.dst_axis is not None:
            scales.append((rs.onednn.Arg.DST, given.dst_axis, given.dst_scales(problem.dims)))
        for arg, axis, values in scales:
            attr.set("scales", arg, mask_of(axis), (), DataType.f32)
            memories[rs.onednn.Arg.ATTR_SCALES | arg] = self._held(values, "f32")
        if given.zero_point:
            arg = rs.onednn.Arg.DST if problem.dst_dtype.kind in "iu" else rs.onednn.Arg.SRC
            attr.set("zero_points", arg, 0, (), DataType.s32)
            zero_point = np.array([given.zero_point], np.int32)
            memories[rs.onednn.Arg.ATTR_ZERO_POINTS | arg] = self._held(zero_point, "s32")
        if given.beta:
            attr.set_sum(given.beta, 0, None)
        primitive = library.reorder(src, dst, attr=attr)
        return PreparedCall(primitive.bind_all(memories), primitive.impl)

    def _held(self, values: Array, data_type: str) -> Any:
        memory = self.library.memory(self.library.desc((values.size,), data_type, "a"))
        memory.bytes[...] = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        return memory

    def copies(self, src: Bytes, dst: Bytes) -> dict[str, Call]:
        """None: oneDNN is no candidate for the roof, it is the peer to beat."""
        return {}


PEERS: dict[str, Callable[[int], Peer]] = {
    "restride": Restride,
    "fresh result": FreshResult,
    "oneDNN": OneDNNPeer,
    "torch": Torch,
    "NumPy": NumPy,
}


def open_peers(names: Sequence[str], threads: int) -> tuple[list[Peer], dict[str, str]]:
    """The peers of those `names` that are installed, and for the others how to get them."""
    found, missing = [], {}
    for name in names:
        try:
            found.append(PEERS[name](threads))
        except PeerMissing as reason:
            missing[name] = str(reason)
    return found, missing


def _attr(problem: PeerProblem) -> rs.onednn.PrimitiveAttr:
    attr, given = rs.onednn.PrimitiveAttr(), problem.arithmetic
    if given.scale is not None:
        attr.set_scales(rs.onednn.Arg.SRC, mask_of(given.axis), given.scales(problem.dims).ravel())
    if given.dst_axis is not None:
        attr.set_scales(rs.onednn.Arg.DST, mask_of(given.dst_axis), given.dst_scales(problem.dims).ravel())
    if given.zero_point:
        side = rs.onednn.Arg.DST if problem.dst_dtype.kind in "iu" else rs.onednn.Arg.SRC
        attr.set_zero_points(side, 0, [given.zero_point])
    if given.beta:
        chain = rs.onednn.PostOps()
        chain.append_sum(given.beta)
        attr.set_post_ops(chain)
    return attr
