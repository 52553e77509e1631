"""The peers that are libraries of arrays: strided views copied, and whole-array arithmetic."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from .arithmetic import PeerArithmetic
from .dense import GridBox
from .peer import Call, PeerMissing, PeerRefusal, PreparedCall
from .problem import Array, Bytes, PeerProblem

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


class NumPy:
    """`np.copyto` between strided views, which also converts; whole-array arithmetic to quantise."""

    name = "NumPy"

    def __init__(self, threads: int) -> None:
        self.version, self._threads = np.__version__, threads
        self._pool = ThreadPoolExecutor(threads)

    def prepare(self, problem: PeerProblem, src: Bytes, dst: Bytes) -> PreparedCall:
        """Views of every box, and a work array where rounding needs one."""
        values, target = _typed(problem, src, dst)
        rounded = np.empty(values.size, np.float32) if _rounds(problem) else None
        moves = [(_view(target, b.shape, b.dst_strides, b.dst_start), b) for b in _boxes(problem)]
        origin = values if rounded is None else rounded
        pairs = [(to, _view(origin, b.shape, b.src_strides, b.src_start)) for to, b in moves]
        zeros = [_view(target, b.shape, b.dst_strides, b.dst_start) for b in problem.padding()]
        given = problem.arithmetic
        if not given.is_plain:
            return PreparedCall(_compute(problem, pairs, np))
        scale = None if given.scale is None else np.float32(given.scale)
        if len(pairs) == 1 and rounded is None and scale is None and not zeros:
            return PreparedCall(functools.partial(np.copyto, *pairs[0], casting="unsafe"))

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

        return PreparedCall(run)

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
            raise PeerMissing("torch is not installed; pip install torch==2.13.0") from None
        self.torch: Any = torch
        self.version = str(torch.__version__)
        torch.set_num_threads(threads)

    def prepare(self, problem: PeerProblem, src: Bytes, dst: Bytes) -> PreparedCall:
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
            return PreparedCall(_compute(problem, pairs, self.torch))
        scale, multiply = problem.arithmetic.scale, self.torch.mul
        if len(pairs) == 1 and rounded is None and scale is None and not zeros:
            return PreparedCall(functools.partial(pairs[0][0].copy_, pairs[0][1]))

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

        return PreparedCall(run)

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


def _boxes(problem: PeerProblem) -> list[GridBox]:
    try:
        return problem.boxes()
    except ValueError as error:
        raise PeerRefusal(str(error)) from None


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


def _rounds(problem: PeerProblem) -> bool:
    """True where the arithmetic needs a rounding step before the conversion."""
    is_quantised = problem.dst_dtype.kind in "iu" and problem.src_dtype.kind not in "iu"
    return is_quantised and problem.arithmetic.is_plain


def _typed(problem: PeerProblem, src: Bytes, dst: Bytes) -> tuple[Array, Array]:
    """Both storages as arrays; a pure move goes as words: NumPy is slower with types that it did not make."""
    word = np.dtype(f"u{problem.src_dtype.itemsize}")
    if problem.src_type == problem.dst_type and problem.arithmetic == PeerArithmetic():
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
