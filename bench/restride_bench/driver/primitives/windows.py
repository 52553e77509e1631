"""Windows over spatial dims and channels: `--pool`, `--lrn`, `--resampling`."""
# ruff: noqa: D102 (what every operation says, its base class explains)

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import ml_dtypes
import numpy as np

import restride as rs
from restride import DataType

from .. import knobs
from ..attr_text import wrong
from ..cases import Case
from ..compare import Points, Tolerance, epsilon
from ..fill import Array, whole_numbers
from ..formulas import finished, taps
from ..knobs import caseless
from ..operands import Values, desc_of
from ..problems import LETTERS_OF_WINDOWS, Dims, padding_behind, parse_lettered

# --- pooling ------------------------------------------------------------------------------------------------

_POOLINGS = {"max": "max", "avg_np": "avg_exclude_padding", "avg_p": "avg_include_padding"}
_NONE = 255  # the position of windows that have none, where a byte holds it
_RANGES = {"s8": (-128, 127), "u8": (0, 255), "bf16": (-32, 32), "f16": (-32, 32)}
_WINDOWS = ("strides", "kernel", "dilation", "padding_l", "padding_r")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolCase(Case):
    """A pooling: `--pool --alg=max --tag=axb mb2ic16_ih14oh7kh3sh2ph1`. `source` are the spatial dims of the
    source.
    """

    driver: ClassVar[str] = "pool"
    primitive: ClassVar[str] = "Pooling"
    template: ClassVar[str] = "%dir%,%dt%,%tag%,%alg%,%DESC%"

    source: Dims = ()
    kernel: Dims = ()
    window_strides: Dims = ()
    dilation: Dims = ()
    padding: Dims = ()
    dir: knobs.Inference = "FWD_D"
    dt: knobs.TwoTypes = knobs.F32_TWICE
    tag: knobs.Tag = "abx"
    alg: Annotated[
        str, caseless(*_POOLINGS, also={f"pooling_{name}": alg for alg, name in _POOLINGS.items()})
    ] = "max"
    mb: knobs.Count = 0

    @classmethod
    def parse(cls, text: str) -> dict[str, Any]:
        """The dims of the result, and the windows."""
        problem = parse_lettered(text, ("mb", "ic", *LETTERS_OF_WINDOWS))
        windows = problem.windows("ic")
        dims = problem.whole("mb", 2), problem.whole("ic"), *windows.pop("result")
        return {**problem.written, "dims": dims, **windows}

    @property
    def src_dims(self) -> Dims:
        """The dims of the source."""
        return (*self.dims[:2], *self.source)

    @property
    def windows(self) -> tuple[Dims, ...]:
        """The numbers that a descriptor takes, in its order."""
        sizes = self.dims[2:], self.source, self.kernel, self.window_strides, self.dilation, self.padding
        return self.window_strides, self.kernel, self.dilation, self.padding, padding_behind(*sizes)

    def parameters(self, is_forward: bool) -> dict[str, Any]:
        return {
            "algorithm": f"pooling_{_POOLINGS[self.alg]}",
            **dict(zip(_WINDOWS, self.windows, strict=True)),
        }

    def tensors(self, is_forward: bool) -> dict[str, rs.MemoryDesc]:
        """The positions of maxima are written in training, and read backward."""
        src, dst = (self.src_dims, self.dt[0]), (self.dims, self.dt[1])
        if is_forward:
            found = {"src": rs.MemoryDesc(*src, self.tag), "dst": desc_of(*dst)}
        else:
            found = {"diff_dst": desc_of(*dst), "diff_src": desc_of(*src)}
        has_positions = self.alg == "max" and self.dir != "FWD_I"
        return {**found, **({"workspace": desc_of(self.dims, "s32")} if has_positions else {})}

    def values(self, name: str) -> Array:
        """Whole numbers; for averages none is negative, so that sums do not cancel."""
        if name == "workspace":
            # What forward leaves of the values that it is filled with.
            return self.reduced(self.values("src"))[2]
        kind, dims = (self.dt[0], self.src_dims) if name == "src" else (self.dt[1], self.dims)
        low, high = (-8, 8) if kind.startswith("f8") else _RANGES.get(kind, (-2048, 2048))
        return whole_numbers(dims, low if self.alg == "max" else 0, high, 1 if name == "src" else 2)

    def taps(self) -> Iterator[tuple[int, Any, Any]]:
        """For each position of the kernel: its number, the elements that are there, and their windows."""
        sizes = self.dims[2:], self.source, self.kernel, self.window_strides, self.dilation, self.padding
        for number, (_, elements, windows) in enumerate(taps(*sizes)):
            yield number, (..., *elements), (..., *windows)

    def reduced(self, src: Array) -> tuple[Array, Array, Array]:
        """Sums, maxima and their positions."""
        none = _NONE if np.prod(self.kernel) < 256 else 2**31 - 1
        total, place = np.zeros(self.dims), np.full(self.dims, none)
        kind = DataType.parse(self.dt[1])
        limits = np.iinfo(kind.numpy) if kind.is_integral else ml_dtypes.finfo(kind.numpy)
        most = np.full(self.dims, float(limits.min))
        for number, elements, windows in self.taps():
            under = src[elements]
            total[windows] += under
            # The first of equal ones, the least value of the type among them.
            is_more = (under > most[windows]) | (place[windows] == none)
            most[windows] = np.where(is_more, under, most[windows])
            place[windows] = np.where(is_more, number, place[windows])
        return total, most, place

    def summands(self) -> Array | float:
        """The divisor of sums."""
        if self.alg == "avg_p":
            return float(np.prod(self.kernel))
        count = np.zeros(self.dims[2:])
        for _, _, windows in self.taps():
            count[windows] += 1
        return count

    def formula(self, values: Values) -> Values:
        """Maxima with their positions, or averages; or gradients added to what they come from."""
        if self.is_forward:
            total, most, place = self.reduced(values["src"])
            with np.errstate(all="ignore"):
                result = most if self.alg == "max" else total / self.summands()
            return {"dst": finished(self, result, values), "workspace": place.astype(np.float64)}
        gradient, out = values["diff_dst"], np.zeros(self.src_dims)
        each = gradient if self.alg == "max" else gradient / self.summands()
        for number, elements, windows in self.taps():
            is_from = values["workspace"][windows] == number if self.alg == "max" else True
            out[elements] += np.where(is_from, each[windows], 0)
        return {"diff_src": out}

    def tolerance(self, name: str) -> Tolerance:
        """Maxima are exact."""
        if name == "workspace":
            return Tolerance(zeros=100.0)
        is_max = self.alg == "max"
        threshold = 0.0 if is_max else 10 * epsilon(DataType.parse(self.dt[1]))
        return Tolerance(threshold, 99.0 if self.is_forward else 100.0, is_max and bool(self.attr_post_ops))

    def invalid(self) -> Iterator[str]:
        if self.alg == "avg_np" and not np.all(self.summands()):
            yield "Invalid case: an average of windows in the padding alone"


# --- local response normalization ---------------------------------------------------------------------------

_LRN = {"ACROSS": "lrn_across_channels", "WITHIN": "lrn_within_channel"}
_NUMBERS = {"alpha": 1 / 8192, "beta": 0.75, "k": 1.0}
_RANGE = 16
# The numbers that tensors are filled by.
_STEPS = {"src": (1091, 1637), "diff_dst": (1279, 1009)}


@dataclass(frozen=True, slots=True, kw_only=True)
class LrnCase(Case):
    """A local response normalization: `--lrn --alg=WITHIN --tag=axb mb2ic16_ih5_ls7beta1.0`."""

    driver: ClassVar[str] = "lrn"
    primitive: ClassVar[str] = "LRN"
    template: ClassVar[str] = "%dir%,%dt%,%tag%,%alg%,%DESC%"

    local_size: int = 5
    alpha: float = _NUMBERS["alpha"]
    beta: float = _NUMBERS["beta"]
    k: float = _NUMBERS["k"]
    dir: knobs.Inference = "FWD_D"
    dt: knobs.TypeName = "f32"
    tag: knobs.Tag = "abx"
    alg: Annotated[str, caseless(*_LRN)] = "ACROSS"
    mb: knobs.Count = 0

    @classmethod
    def parse(cls, text: str) -> dict[str, Any]:
        """The dims, and the numbers."""
        problem = parse_lettered(text, ("mb", "ic", "id", "ih", "iw", "ls"), tuple(_NUMBERS))
        if not problem.whole("ic"):
            raise wrong("the problem", text, "ic is needed", "mb2ic16_ih5")
        dims = problem.whole("mb", 2), problem.whole("ic"), *problem.each("i")
        numbers = {name: problem.numbers.get(name, default) for name, default in _NUMBERS.items()}
        return {**problem.written, "dims": dims, "local_size": problem.whole("ls", 5), **numbers}

    @property
    def numbers(self) -> tuple[float, ...]:
        """The numbers that a descriptor takes, in its order."""
        return self.local_size, self.alpha, self.beta, self.k

    @property
    def window_dims(self) -> range:
        """The dims along which a window reaches."""
        return range(1, 2) if self.alg == "ACROSS" else range(2, len(self.dims))

    @property
    def summands(self) -> int:
        """The number of positions of a window."""
        return int(self.local_size ** len(self.window_dims))

    def parameters(self, is_forward: bool) -> dict[str, Any]:
        numbers = dict(zip(("local_size", *_NUMBERS), self.numbers, strict=True))
        return {"algorithm": _LRN[self.alg], **numbers}

    def tensors(self, is_forward: bool) -> dict[str, rs.MemoryDesc]:
        src, like = rs.MemoryDesc(self.dims, self.dt, self.tag), desc_of(self.dims, self.dt)
        return {"src": src, **({"dst": like} if is_forward else {"diff_dst": like, "diff_src": like})}

    def values(self, name: str) -> Array:
        """Whole numbers about 0."""
        (step, first), least = _STEPS[name], 0 if self.dt == "u8" else -_RANGE // 2
        places = np.arange(np.prod(self.dims), dtype=np.int64)
        return np.asarray(least + (step * places + first) % _RANGE, np.float64).reshape(self.dims)

    def window_sums(self, x: Array) -> Array:
        """The sum of each window."""
        half = (self.local_size - 1) // 2
        for dim in self.window_dims:
            padded = np.pad(x, [(half, half) if of == dim else (0, 0) for of in range(x.ndim)])
            x = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1, dim).sum(-1)
        return x

    def omega(self, src: Array) -> Array:
        """The divisor of the source, before its exponent."""
        return self.k + self.alpha * self.window_sums(src * src) / self.summands

    def terms(self, src: Array, gradient: Array) -> tuple[Array, Array]:
        """The two terms that the gradient of the source is the difference of."""
        omega = self.omega(src)
        part = gradient * omega**-self.beta
        total = self.window_sums(part / omega * src)
        return part, 2 * self.alpha * self.beta * src * total / self.summands

    def formula(self, values: Values) -> Values:
        if self.is_forward:
            return {"dst": values["src"] * self.omega(values["src"]) ** -self.beta}
        return {"diff_src": np.subtract(*self.terms(values["src"], values["diff_dst"]))}

    def tolerance(self, name: str) -> Tolerance:
        """Some roundings for each position of a window."""
        near = Tolerance(self.summands * 3 * epsilon(DataType.parse(self.dt)))
        return near if self.is_forward else replace(near, allows=self.is_near)

    def is_near(self, points: Points) -> Array:
        """True if the error is small relative to the terms of the difference.

        Each term is rounded as f32. Where they cancel, what is left of them is as far off as they are, and no
        sum of f32 has a small relative difference.
        """
        terms = np.add(*self.terms(*(np.abs(self.values(name)) for name in _STEPS)))
        limit = self.summands * 3 * epsilon(DataType.f32) * terms.reshape(-1)[points.index]
        return np.asarray(points.diff <= limit)


# --- resampling ---------------------------------------------------------------------------------------------

_RESAMPLINGS = {f"resampling_{alg}": alg for alg in ("nearest", "linear")}
_LETTERS = ("mb", "ic", *(f"{kind}{dim}" for kind in "io" for dim in "dhw"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ResamplingCase(Case):
    """A resampling: `--resampling --alg=linear --tag=axb mb2ic16_ih3oh5_iw11ow11`. `source` are the spatial
    dims of the source.
    """

    driver: ClassVar[str] = "resampling"
    primitive: ClassVar[str] = "Resampling"
    template: ClassVar[str] = "%dir%,%sdt%,%ddt%,%tag%,%alg%,%DESC%"
    has_hint: ClassVar[bool] = False

    source: Dims = ()
    dir: knobs.Inference = "FWD_D"
    sdt: knobs.TypeName = "f32"
    ddt: knobs.TypeName = "f32"
    tag: knobs.Tag = "abx"
    alg: Annotated[str, caseless(*_RESAMPLINGS.values(), also=_RESAMPLINGS)] = "nearest"
    mb: knobs.Count = 0

    @classmethod
    def parse(cls, text: str) -> dict[str, Any]:
        """The dims of the result, and the sizes of the source."""
        problem = parse_lettered(text, _LETTERS)
        source, result = problem.each("i"), problem.each("o")
        if not problem.whole("ic") or not source or len(source) != len(result):
            what = "ic, a source and a destination are needed"
            raise wrong("the problem", text, what, "mb2ic16_ih3oh5")
        dims = problem.whole("mb", 2), problem.whole("ic"), *result
        return {**problem.written, "dims": dims, "source": source}

    def parameters(self, is_forward: bool) -> dict[str, Any]:
        return {"algorithm": f"resampling_{self.alg}"}

    def tensors(self, is_forward: bool) -> dict[str, rs.MemoryDesc]:
        """Return the tensors; outputs are in the primitive's format."""
        src, dst = ((*self.dims[:2], *self.source), self.sdt), (self.dims, self.ddt)
        if is_forward:
            return {"src": rs.MemoryDesc(*src, self.tag), "dst": desc_of(*dst)}
        return {"diff_dst": rs.MemoryDesc(*dst, self.tag), "diff_src": desc_of(*src)}

    def values(self, name: str) -> Array:
        """Multiples of one and a quarter, or of a sixteenth; none is negative."""
        md = self.tensors(self.is_forward)[name]
        whole = (97 * np.arange(md.nelems, dtype=np.int64) - 19 * (name != "src") + 101) % (_RANGE + 1)
        is_plain = md.data_type is DataType.f32 or md.data_type.is_integral
        return np.asarray(whole * (1 + 4 / _RANGE) if is_plain else whole / _RANGE).reshape(md.dims)

    def weights(self) -> Sequence[Array]:
        """For each spatial dim the weights of the positions of the source in those of the result."""
        found = []
        for size, of in zip(self.dims[2:], self.source, strict=True):
            half, weights = np.float32(0.5), np.zeros((size, of))
            at = (np.arange(size, dtype=np.float32) + half) * np.float32(of) / np.float32(size) - half
            pairs = [(np.floor(at + 0.5), np.ones(size))]
            if self.alg == "linear":
                low = np.floor(at)
                weight = (at - low).astype(np.float64)
                pairs = [(low, 1 - weight), (low + 1, weight)]
            for index, part in pairs:
                np.add.at(weights, (np.arange(size), np.clip(index, 0, of - 1).astype(int)), part)
            found.append(weights)
        return found

    def formula(self, values: Values) -> Values:
        """Weighted sums, or gradients added to where they come from."""
        x = values["src" if self.is_forward else "diff_dst"]
        for dim, weights in enumerate(self.weights(), 2):
            matrix = weights if self.is_forward else weights.T
            x = np.moveaxis(np.tensordot(matrix, x, (1, dim)), 0, dim)
        return {"dst": finished(self, x, values)} if self.is_forward else {"diff_src": x}

    def tolerance(self, name: str) -> Tolerance:
        """Exact where elements are copied."""
        read, written = (epsilon(DataType.parse(name)) for name in (self.sdt, self.ddt))
        before, after = (read, written) if self.is_forward else (written, read)
        threshold = before if before > after else 7 * after
        return Tolerance(0.0 if self.alg == "nearest" else threshold, 99.0)
