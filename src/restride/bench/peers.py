"""The peers that restride is measured beside, each used the best way it offers for the work.

All of them read the same source and write storage that the harness allocated in one way, on the same number
of threads (NumPy has one only). `prepare` returns a function of no arguments to be timed; it raises `Refused`
with the reason where the peer cannot do the work.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import numpy as np

import restride as rs

from ..dtypes import DataType
from ..errors import Error
from .arithmetic import Arithmetic, mask_of
from .dense import Box
from .onednn import Desc, OneDNN
from .onednn_attr import Attributes
from .onednn_library import INSTALL
from .problem import Array, Bytes, Problem

Call = Callable[[], object]

_TORCH_TYPES = {
    "f64": "float64",
    "f32": "float32",
    "bf16": "bfloat16",
    "f16": "float16",
    "f8_e5m2": "float8_e5m2",
    "f8_e4m3": "float8_e4m3fn",
    "s32": "int32",
    "s8": "int8",
    "u8": "uint8",
}


class Refused(Exception):
    """The peer cannot do this work; the text says why."""


class Missing(Exception):
    """The peer is not installed; the text says how to get it."""


class Prepared(NamedTuple):
    """A function to be timed, and the name of the kernel behind it ("" where the peer has no names)."""

    call: Call
    kernel: str = ""


class Peer(Protocol):
    """One side of a comparison."""

    name: str
    version: str

    def prepare(self, problem: Problem, src: Bytes, dst: Bytes) -> Prepared:
        """A function that does the work from `src` into `dst`."""

    def copies(self, src: Bytes, dst: Bytes) -> dict[str, Call]:
        """The ways in which this peer copies bytes, by name: candidates for the memory roof."""


class Restride:
    """restride's primitives: one reorder or shuffle made before, executed on a stream."""

    name = "restride"

    def __init__(self, threads: int) -> None:
        self.version = rs.__version__
        self.engine = rs.Engine("cpu")
        self.stream = rs.Stream(self.engine)
        rs.set_num_threads(threads)

    def prepare(self, problem: Problem, src: Bytes, dst: Bytes) -> Prepared:
        """Make the primitive and its memories."""
        source = rs.MemoryDesc(problem.src.whole, problem.src_type, problem.src_tag)
        if problem.margin:
            source = source.submemory_desc(problem.dims, problem.margin)
        target = rs.MemoryDesc(problem.dims, problem.dst_type, problem.dst_tag)
        if problem.group_size is not None:
            return self._shuffle(source, problem.group_size, src, dst)
        return self._bound(
            source, target, _attr(problem), src.view(problem.src_dtype), dst.view(problem.dst_dtype)
        )

    def copies(self, src: Bytes, dst: Bytes) -> dict[str, Call]:
        """A reorder between equal descriptors."""
        desc = rs.MemoryDesc((src.size,), "u8", "a")
        return {"restride": self._bound(desc, desc, None, src, dst).call}

    def _shuffle(self, desc: rs.MemoryDesc, group_size: int, src: Bytes, dst: Bytes) -> Prepared:
        what = rs.ShuffleForward.Desc("forward_inference", desc, 1, group_size)
        pd = rs.ShuffleForward.PrimitiveDesc(what, self.engine)
        a, b = (rs.Memory(desc, self.engine, held) for held in (src, dst))
        run = functools.partial(rs.ShuffleForward(pd).execute, self.stream, a, b)
        return Prepared(run, pd.impl_info_str)

    def _bound(self, source: Any, target: Any, attr: Any, src: Array, dst: Array) -> Prepared:
        try:
            pd = rs.Reorder.PrimitiveDesc(self.engine, source, self.engine, target, attr)
            primitive = rs.Reorder(pd)
        except NotImplementedError as error:
            raise Refused(str(error)) from None
        a, b = rs.Memory(source, self.engine, src), rs.Memory(target, self.engine, dst)
        return Prepared(functools.partial(primitive.execute, self.stream, a, b), str(pd.impl_info_str))


class OneDNNPeer:
    """oneDNN's reorder or shuffle primitive, executed and waited for."""

    name = "oneDNN"

    def __init__(self, threads: int) -> None:
        try:
            self.library = OneDNN()
            self.library.set_num_threads(threads)
        except Error as error:
            raise Missing(f"{error.what}; {INSTALL}") from None
        self.version = self.library.version

    def prepare(self, problem: Problem, src: Bytes, dst: Bytes) -> Prepared:
        """Make the primitive and its memories."""
        library = self.library
        try:
            source = library.desc(problem.src.whole, problem.src_type, problem.src_tag)
            if problem.margin:
                source = source.submemory(problem.dims, problem.margin)
            target = library.desc(problem.dims, problem.dst_type, problem.dst_tag)
            if problem.group_size is not None:
                return self._shuffle(source, problem.group_size, src, dst)
            if not problem.arithmetic.is_plain:
                return self._compute(problem, source, target, {rs.ARG_SRC: src, rs.ARG_DST: dst})
            primitive = library.reorder(source, target, alpha=problem.scale)
        except Error as error:
            raise Refused(error.why or error.what) from None
        call = primitive.bind(library.memory(source, src), library.memory(target, dst))
        return Prepared(call, primitive.impl)

    def _compute(self, problem: Problem, src: Desc, dst: Desc, held: dict[int, Bytes]) -> Prepared:
        library, attr, given = self.library, Attributes.new(self.library), problem.arithmetic
        memories = {arg: library.memory(md, held[arg]) for arg, md in ((rs.ARG_SRC, src), (rs.ARG_DST, dst))}
        scales = [(rs.ARG_SRC, given.axis, given.scales(problem.dims))] if given.scale is not None else []
        if given.dst_axis is not None:
            scales.append((rs.ARG_DST, given.dst_axis, given.dst_scales(problem.dims)))
        for arg, axis, values in scales:
            attr.set("scales", arg, mask_of(axis), (), DataType.f32)
            memories[rs.ARG_ATTR_SCALES | arg] = self._held(values, "f32")
        if given.zero_point:
            arg = rs.ARG_DST if problem.dst_dtype.kind in "iu" else rs.ARG_SRC
            attr.set("zero_points", arg, 0, (), DataType.s32)
            zero_point = np.array([given.zero_point], np.int32)
            memories[rs.ARG_ATTR_ZERO_POINTS | arg] = self._held(zero_point, "s32")
        if given.beta:
            attr.set_sum(given.beta, 0, None)
        primitive = library.reorder(src, dst, attr=attr)
        return Prepared(primitive.bind_all(memories), primitive.impl)

    def _held(self, values: Array, data_type: str) -> Any:
        memory = self.library.memory(self.library.desc((values.size,), data_type, "a"))
        memory.bytes[...] = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        return memory

    def _shuffle(self, desc: Desc, group_size: int, src: Bytes, dst: Bytes) -> Prepared:
        library = self.library
        primitive = library.shuffle(desc, 1, group_size)
        call = primitive.bind_all(
            {rs.ARG_SRC: library.memory(desc, src), rs.ARG_DST: library.memory(desc, dst)}
        )
        return Prepared(call, primitive.impl)

    def copies(self, src: Bytes, dst: Bytes) -> dict[str, Call]:
        """None: oneDNN is no candidate for the roof, it is the peer to beat."""
        return {}


class NumPy:
    """`np.copyto` between strided views, which also converts; whole-array arithmetic to quantise."""

    name = "NumPy"

    def __init__(self, threads: int) -> None:
        self.version, self._threads = np.__version__, threads
        self._pool = ThreadPoolExecutor(threads)

    def prepare(self, problem: Problem, src: Bytes, dst: Bytes) -> Prepared:
        """Views of every box, and a work array where rounding needs one."""
        values, target = _typed(problem, src, dst)
        rounded = np.empty(values.size, np.float32) if _rounds(problem) else None
        moves = [(_view(target, b.shape, b.dst_strides, b.dst_start), b) for b in _boxes(problem)]
        origin = values if rounded is None else rounded
        pairs = [(to, _view(origin, b.shape, b.src_strides, b.src_start)) for to, b in moves]
        zeros = [_view(target, b.shape, b.dst_strides, b.dst_start) for b in problem.padding()]
        given = problem.arithmetic
        if not given.is_plain:
            return Prepared(_compute(problem, pairs, np))
        scale = None if given.scale is None else np.float32(given.scale)
        if len(pairs) == 1 and rounded is None and scale is None and not zeros:
            return Prepared(functools.partial(np.copyto, *pairs[0], casting="unsafe"))

        def run() -> None:
            if rounded is not None:
                _round(values, rounded, scale, problem.dst_dtype)
            for to, of in pairs:
                if scale is not None and rounded is None:
                    np.multiply(of, scale, out=to)
                else:
                    np.copyto(to, of, casting="unsafe")
            for padding in zeros:
                padding[...] = 0

        return Prepared(run)

    def copies(self, src: Bytes, dst: Bytes) -> dict[str, Call]:
        """`np.copyto` of the whole, and of one slice per thread."""
        cuts = np.linspace(0, src.size, self._threads + 1).astype(int)
        parts = [(dst[a:b], src[a:b]) for a, b in itertools.pairwise(cuts)]
        whole: dict[str, Call] = {"NumPy": functools.partial(np.copyto, dst, src)}
        if self._threads > 1:
            whole[f"NumPy, {self._threads} threads"] = functools.partial(self._sliced, parts)
        return whole

    def _sliced(self, parts: Sequence[tuple[Bytes, Bytes]]) -> None:
        waiting = [self._pool.submit(np.copyto, to, of) for to, of in parts[1:]]
        np.copyto(*parts[0])
        for part in waiting:
            part.result()


class Torch:
    """`copy_` between strided views of tensors: what `contiguous()` does, without allocating every time."""

    name = "torch"

    def __init__(self, threads: int) -> None:
        try:
            import torch
        except ImportError:
            raise Missing("torch is not installed; pip install torch==2.13.0") from None
        self.torch: Any = torch
        self.version = str(torch.__version__)
        torch.set_num_threads(threads)

    def prepare(self, problem: Problem, src: Bytes, dst: Bytes) -> Prepared:
        """Views of every box, and a work tensor where rounding needs one."""
        values, target = self._tensor(src, problem.src_type), self._tensor(dst, problem.dst_type)
        rounded = self.torch.empty(values.numel()) if _rounds(problem) else None
        origin = values if rounded is None else rounded
        pairs = [
            (
                target.as_strided(b.shape, b.dst_strides, b.dst_start),
                origin.as_strided(b.shape, b.src_strides, b.src_start),
            )
            for b in _boxes(problem)
        ]
        zeros = [target.as_strided(b.shape, b.dst_strides, b.dst_start) for b in problem.padding()]
        if not problem.arithmetic.is_plain:
            return Prepared(_compute(problem, pairs, self.torch))
        scale, multiply = problem.arithmetic.scale, self.torch.mul
        if len(pairs) == 1 and rounded is None and scale is None and not zeros:
            return Prepared(functools.partial(pairs[0][0].copy_, pairs[0][1]))

        def run() -> None:
            if rounded is not None:
                self._round(values, rounded, scale, problem.dst_dtype)
            for to, of in pairs:
                if scale is not None and rounded is None:
                    multiply(of, scale, out=to)
                else:
                    to.copy_(of)
            for padding in zeros:
                padding.zero_()

        return Prepared(run)

    def copies(self, src: Bytes, dst: Bytes) -> dict[str, Call]:
        """`copy_` of bytes."""
        to, of = self.torch.from_numpy(dst), self.torch.from_numpy(src)
        return {"torch": functools.partial(to.copy_, of)}

    def _tensor(self, data: Bytes, data_type: str) -> Any:
        return self.torch.from_numpy(data).view(getattr(self.torch, _TORCH_TYPES[data_type]))

    def _round(self, values: Any, out: Any, scale: float | None, dtype: np.dtype[Any]) -> None:
        limits = np.iinfo(dtype)
        if scale is not None:
            self.torch.mul(values, scale, out=out).round_()
        elif values.dtype == out.dtype:
            self.torch.round(values, out=out)
        else:
            out.copy_(values).round_()
        out.clamp_(int(limits.min), int(limits.max))


PEERS: dict[str, Callable[[int], Peer]] = {
    "restride": Restride,
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
        except Missing as reason:
            missing[name] = str(reason)
    return found, missing


def _boxes(problem: Problem) -> list[Box]:
    try:
        return problem.boxes()
    except ValueError as error:
        raise Refused(str(error)) from None


def _attr(problem: Problem) -> rs.PrimitiveAttr:
    attr, given = rs.PrimitiveAttr(), problem.arithmetic
    if given.scale is not None:
        attr.set_scales(rs.ARG_SRC, mask_of(given.axis), given.scales(problem.dims).ravel())
    if given.dst_axis is not None:
        attr.set_scales(rs.ARG_DST, mask_of(given.dst_axis), given.dst_scales(problem.dims).ravel())
    if given.zero_point:
        side = rs.ARG_DST if problem.dst_dtype.kind in "iu" else rs.ARG_SRC
        attr.set_zero_points(side, 0, [given.zero_point])
    if given.beta:
        chain = rs.PostOps()
        chain.append_sum(given.beta)
        attr.set_post_ops(chain)
    return attr


def _compute(problem: Problem, pairs: Sequence[tuple[Any, Any]], library: Any) -> Call:
    """The formula of N1 as whole-array operations of NumPy or torch, which share these names."""
    given, dtype = problem.arithmetic, problem.dst_dtype
    is_integral = dtype.kind in "iu"
    to, of = pairs[0]
    if len(pairs) > 1 or tuple(to.shape) != problem.dims:
        raise Refused("arithmetic over blocked formats is not a few array operations")
    work, held = (library.empty(problem.dims, dtype=library.float32) for _ in range(2))
    factors = [given.scales(problem.dims)] if given.scale is not None else []
    dst_factors = [1 / given.dst_scales(problem.dims)] if given.dst_axis is not None else []
    scales, dst_scales = ([library.asarray(f) for f in fs] for fs in (factors, dst_factors))
    limits = np.iinfo(dtype) if is_integral else None

    def run() -> None:
        work[...] = of
        if given.zero_point and not is_integral:
            work[...] -= given.zero_point
        for factor in scales:
            library.multiply(work, factor, out=work)
        if given.beta:
            held[...] = to
            library.multiply(held, given.beta, out=held)
            library.add(work, held, out=work)
        for factor in dst_scales:
            library.multiply(work, factor, out=work)
        if limits is not None:
            work[...] += given.zero_point
            library.round(work, out=work)
            library.clip(work, int(limits.min), int(limits.max), out=work)
        with np.errstate(all="ignore"):
            to[...] = work

    return run


def _rounds(problem: Problem) -> bool:
    """True where the arithmetic needs a rounding step before the conversion."""
    is_quantised = problem.dst_dtype.kind in "iu" and problem.src_dtype.kind not in "iu"
    return is_quantised and problem.arithmetic.is_plain


def _typed(problem: Problem, src: Bytes, dst: Bytes) -> tuple[Array, Array]:
    """Both storages as arrays; a pure move goes as words: NumPy is slower with types that it did not make."""
    word = np.dtype(f"u{problem.src_dtype.itemsize}")
    if problem.src_type == problem.dst_type and problem.arithmetic == Arithmetic():
        return src.view(word), dst.view(word)
    return src.view(problem.src_dtype), dst.view(problem.dst_dtype)


def _view(storage: Array, shape: Sequence[int], strides: Sequence[int], start: int) -> Array:
    # NumPy's as_strided knows no f8_e5m2, whose letter it takes for one of its own.
    width = storage.itemsize
    steps = [step * width for step in strides]
    return np.ndarray(shape, storage.dtype, storage, start * width, steps)


def _round(values: Array, out: Array, scale: np.float32 | None, dtype: np.dtype[Any]) -> None:
    limits = np.iinfo(dtype)
    if scale is None:
        np.rint(values, out=out)
    else:
        np.multiply(values, scale, out=out)
        np.rint(out, out=out)
    np.clip(out, limits.min, limits.max, out=out)
