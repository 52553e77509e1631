"""The peers that are libraries of arrays: strided views copied, and whole-array arithmetic."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from .peer import Call, PeerMissing, PeerRefusal, PreparedCall
from .problem import Array, Bytes, PeerArithmetic, PeerProblem

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


class _ArrayPeer:
    """The common part of NumPy and torch: copies between views of every box, with the library's functions."""

    name: str
    library: Any

    def _array(self, data: Bytes, data_type: str, dtype: np.dtype[Any]) -> Any:
        raise NotImplementedError

    def _view(self, array: Any, shape: Sequence[int], strides: Sequence[int], start: int) -> Any:
        raise NotImplementedError

    def _copy(self, to: Any, of: Any) -> None:
        raise NotImplementedError

    def _round(self, values: Any, out: Any, scale: float | None) -> None:
        """`out` becomes `values`, scaled and rounded half to even."""
        raise NotImplementedError

    def prepare(self, problem: PeerProblem, src: Bytes, dst: Bytes) -> PreparedCall:
        """Views of every box, and a work array where rounding needs one."""
        given, dtype, library = problem.arithmetic, problem.dst_dtype, self.library
        values = self._array(src, problem.src_type, _dtype(problem, problem.src_dtype))
        target = self._array(dst, problem.dst_type, _dtype(problem, dtype))
        # A rounding step before the conversion.
        is_rounded = dtype.kind in "iu" and problem.src_dtype.kind not in "iu" and given.is_plain
        work = library.empty(problem.src.elements, dtype=library.float32) if is_rounded else None
        origin = values if work is None else work
        try:
            boxes = problem.boxes()
        except ValueError as error:
            raise PeerRefusal(str(error)) from None
        pairs = [
            (
                self._view(target, b.shape, b.dst_strides, b.dst_start),
                self._view(origin, b.shape, b.src_strides, b.src_start),
            )
            for b in boxes
        ]
        zeros = [self._view(target, b.shape, b.dst_strides, b.dst_start) for b in problem.padding()]
        if not given.is_plain:
            return PreparedCall(_compute(problem, pairs, library))
        scale, limits = given.scale, np.iinfo(dtype) if is_rounded else None
        if len(pairs) == 1 and work is None and scale is None and not zeros:
            return PreparedCall(functools.partial(self._copy, *pairs[0]))

        def run() -> None:
            if limits is not None:
                self._round(values, work, scale)
                library.clip(work, int(limits.min), int(limits.max), out=work)
            for to, of in pairs:
                if scale is not None and work is None:
                    library.multiply(of, scale, out=to)
                else:
                    self._copy(to, of)
            for padding in zeros:
                padding[...] = 0

        return PreparedCall(run)


class NumPy(_ArrayPeer):
    """`np.copyto` between strided views, which also converts; whole-array arithmetic to quantize."""

    name = "NumPy"
    library: Any = np

    def __init__(self, threads: int) -> None:
        self.version, self._threads = np.__version__, threads
        self._pool = ThreadPoolExecutor(threads)

    def _array(self, data: Bytes, data_type: str, dtype: np.dtype[Any]) -> Array:
        return data.view(dtype)

    def _view(self, array: Any, shape: Sequence[int], strides: Sequence[int], start: int) -> Array:
        # NumPy's as_strided knows no f8_e5m2, whose letter it takes for one of its own.
        width = array.itemsize
        return np.ndarray(shape, array.dtype, array, start * width, [step * width for step in strides])

    def _copy(self, to: Array, of: Array) -> None:
        np.copyto(to, of, casting="unsafe")

    def _round(self, values: Array, out: Array, scale: float | None) -> None:
        if scale is None:
            np.rint(values, out=out)
        else:
            np.rint(np.multiply(values, np.float32(scale), out=out), out=out)

    def copies(self, src: Bytes, dst: Bytes) -> dict[str, Call]:
        """`np.copyto` of the whole, and of one slice per thread."""
        cuts = np.linspace(0, src.size, self._threads + 1).astype(int)
        parts = [(dst[a:b], src[a:b]) for a, b in itertools.pairwise(cuts)]

        def sliced() -> None:
            waiting = [self._pool.submit(np.copyto, to, of) for to, of in parts[1:]]
            np.copyto(*parts[0])
            for part in waiting:
                part.result()

        whole: dict[str, Call] = {"NumPy": functools.partial(np.copyto, dst, src)}
        return {**whole, f"NumPy, {self._threads} threads": sliced} if self._threads > 1 else whole


class Torch(_ArrayPeer):
    """`copy_` between strided views of tensors: what `contiguous()` does, without allocating every time."""

    name = "torch"

    def __init__(self, threads: int) -> None:
        try:
            import torch
        except ImportError:
            raise PeerMissing("torch is not installed; pip install torch==2.13.0") from None
        self.torch: Any = torch
        self.library = torch
        self.version = str(torch.__version__)
        torch.set_num_threads(threads)

    def _array(self, data: Bytes, data_type: str, dtype: np.dtype[Any]) -> Any:
        return self.torch.from_numpy(data).view(
            getattr(self.torch, _TORCH_TYPES.get(data_type, f"int{8 * dtype.itemsize}"))
        )

    def _view(self, array: Any, shape: Sequence[int], strides: Sequence[int], start: int) -> Any:
        return array.as_strided(shape, strides, start)

    def _copy(self, to: Any, of: Any) -> None:
        to.copy_(of)

    def _round(self, values: Any, out: Any, scale: float | None) -> None:
        if scale is not None:
            self.torch.mul(values, scale, out=out).round_()
        elif values.dtype == out.dtype:
            self.torch.round(values, out=out)
        else:
            out.copy_(values).round_()

    def copies(self, src: Bytes, dst: Bytes) -> dict[str, Call]:
        """`copy_` of bytes."""
        to, of = self.torch.from_numpy(dst), self.torch.from_numpy(src)
        return {"torch": functools.partial(to.copy_, of)}


def _compute(problem: PeerProblem, pairs: Sequence[tuple[Any, Any]], library: Any) -> Call:
    """The formula of N1 as whole-array operations of NumPy or torch, which share these names."""
    given, dtype = problem.arithmetic, problem.dst_dtype
    is_integral = dtype.kind in "iu"
    to, of = pairs[0]
    if len(pairs) > 1 or tuple(to.shape) != problem.dims:
        raise PeerRefusal("arithmetic over blocked formats is not a few array operations")
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


def _dtype(problem: PeerProblem, own: np.dtype[Any]) -> np.dtype[Any]:
    """A pure move goes as words: NumPy is slower with types that it did not make."""
    is_move = problem.src_type == problem.dst_type and problem.arithmetic == PeerArithmetic()
    return np.dtype(f"u{own.itemsize}") if is_move else own
