"""Pooling: `--pool --alg=max --tag=axb mb2ic16_ih14oh7kh3sh2ph1`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import ml_dtypes
import numpy as np

import restride as rs
from restride import DataType

from ..cases import Case
from ..compare import Tolerance, epsilon
from ..fill import Array, whole_numbers
from ..formulas import finished
from ..knobs import F32_TWICE, Count, Inference, Several, Tag, caseless, parse_type, several
from ..operands import CaseOperand, Values, desc_of, operand
from ..problems import Dims, padding_behind, parse_lettered

_NAMES = {"max": "max", "avg_np": "avg_exclude_padding", "avg_p": "avg_include_padding"}
_LETTERS = ("mb", "ic", *(f"{kind}{dim}" for kind in "iokspd" for dim in "dhw"))
_NONE = 255  # the position of windows that have none, where a byte holds it
_RANGES = {"s8": (-128, 127), "u8": (0, 255), "bf16": (-32, 32), "f16": (-32, 32)}
_WINDOWS = ("strides", "kernel", "dilation", "padding_l", "padding_r")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolCase(Case):
    """A pooling. `source` are the spatial dims of the source."""

    driver: ClassVar[str] = "pool"
    primitive: ClassVar[str] = "Pooling"
    template: ClassVar[str] = "%dir%,%dt%,%tag%,%alg%,%DESC%"

    source: Dims = ()
    kernel: Dims = ()
    window_strides: Dims = ()
    dilation: Dims = ()
    padding: Dims = ()
    dir: Inference = "FWD_D"
    dt: Annotated[Several, several(parse_type, least=2)] = F32_TWICE
    tag: Tag = "abx"
    alg: Annotated[str, caseless(*_NAMES, also={f"pooling_{name}": alg for alg, name in _NAMES.items()})] = (
        "max"
    )
    mb: Count = 0

    @classmethod
    def parse(cls, text: str) -> dict[str, Any]:
        """The dims of the result, and the windows."""
        problem = parse_lettered(text, _LETTERS)
        windows = problem.windows("ic")
        dims = problem.whole("mb", 2), problem.whole("ic"), *windows.pop("result")
        return {**problem.written, "dims": dims, **windows}

    @property
    def src_dims(self) -> Dims:
        """The dims of the source."""
        return (*self.dims[:2], *self.source)

    @property
    def padding_r(self) -> Dims:
        """The padding behind."""
        sizes = self.dims[2:], self.source, self.kernel
        return padding_behind(*sizes, self.window_strides, self.dilation, self.padding)

    @property
    def windows(self) -> tuple[Dims, ...]:
        """The numbers that a descriptor takes, in its order."""
        return self.window_strides, self.kernel, self.dilation, self.padding, self.padding_r

    def arguments(self, is_forward: bool) -> dict[str, Any]:
        """Tensors and windows."""
        how = {"algorithm": f"pooling_{_NAMES[self.alg]}", **dict(zip(_WINDOWS, self.windows, strict=True))}
        src, dst = (self.src_dims, self.dt[0]), (self.dims, self.dt[1])
        if is_forward:
            return {**how, "src": rs.MemoryDesc(*src, self.tag), "dst": desc_of(*dst)}
        return {**how, "diff_src": desc_of(*src), "diff_dst": desc_of(*dst)}

    def reads(self) -> list[CaseOperand]:
        """The source; or the gradient of the result, and the positions of maxima."""
        name, seed = ("src", 1) if self.is_forward else ("diff_dst", 2)
        md = self.arguments(self.is_forward)[name]
        positions = operand("workspace", desc_of(self.dims, "s32"), self.positions)
        is_read = self.alg == "max" and not self.is_forward
        return [operand(name, md, partial(self.values, md, seed)), *([positions] if is_read else [])]

    def writes(self) -> list[CaseOperand]:
        """The result, and in training the positions of maxima; or the gradient of the source."""
        name = "dst" if self.is_forward else "diff_src"
        positions = operand("workspace", desc_of(self.dims, "s32"))
        is_written = self.alg == "max" and self.dir == "FWD_D"
        md = self.arguments(self.is_forward)[name]
        return [operand(name, md), *([positions] if is_written else [])]

    def values(self, md: rs.MemoryDesc, seed: int) -> Array:
        """Whole numbers; for averages none is negative, so that sums do not cancel."""
        name = md.data_type.name
        low, high = (-8, 8) if name.startswith("f8") else _RANGES.get(name, (-2048, 2048))
        return whole_numbers(md.dims, low if self.alg == "max" else 0, high, seed)

    def positions(self) -> Array:
        """What forward leaves of the values that it is filled with."""
        return self.reduced(self.values(rs.MemoryDesc(self.src_dims, self.dt[0], "abx"), 1))[2]

    def taps(self) -> Iterator[tuple[int, Any, Array]]:
        """For each position of the kernel: its number, places in the source, and which windows have it."""
        for number, tap in enumerate(itertools.product(*map(range, self.kernel))):
            at, mask = list[Array](), np.ones((), np.bool_)
            for dim, size in enumerate(self.source):
                starts = np.arange(self.dims[dim + 2]) * self.window_strides[dim] - self.padding[dim]
                places = starts + tap[dim] * (self.dilation[dim] + 1)
                at.append(np.clip(places, 0, size - 1))
                mask = mask[..., None] & (places >= 0) & (places < size)
            yield number, (slice(None), slice(None), *np.ix_(*at)), mask

    def reduced(self, src: Array) -> tuple[Array, Array, Array]:
        """Sums, maxima and their positions."""
        none = _NONE if np.prod(self.kernel) < 256 else 2**31 - 1
        total, place = np.zeros(self.dims), np.full(self.dims, none)
        kind = DataType.parse(self.dt[1])
        limits = np.iinfo(kind.numpy) if kind.is_integral else ml_dtypes.finfo(kind.numpy)
        most = np.full(self.dims, float(limits.min))
        for number, at, mask in self.taps():
            under = src[at]
            total += np.where(mask, under, 0)
            # The first of equal ones, the least value of the type among them.
            is_more = mask & ((under > most) | (place == none))
            most, place = np.where(is_more, under, most), np.where(is_more, number, place)
        return total, most, place

    def summands(self) -> Array | float:
        """What sums are divided by."""
        if self.alg == "avg_p":
            return float(np.prod(self.kernel))
        return sum((mask * 1.0 for _, _, mask in self.taps()), start=np.zeros(self.dims[2:]))

    def formula(self, values: Values) -> Values:
        """Maxima with their positions, or averages; or gradients added to what they come from."""
        if self.is_forward:
            total, most, at_most = self.reduced(values[rs.ARG_SRC])
            with np.errstate(all="ignore"):
                result = most if self.alg == "max" else total / self.summands()
            return {rs.ARG_DST: finished(self, result, values), rs.ARG_WORKSPACE: at_most.astype(np.float64)}
        gradient, place, out = values[rs.ARG_DIFF_DST], values.get(rs.ARG_WORKSPACE), np.zeros(self.src_dims)
        each = gradient if self.alg == "max" else gradient / self.summands()
        for number, at, mask in self.taps():
            np.add.at(out, at, np.where(mask if place is None else mask & (place == number), each, 0))
        return {rs.ARG_DIFF_SRC: out}

    def tolerance(self, arg: int) -> Tolerance:
        """Maxima are exact."""
        if arg == rs.ARG_WORKSPACE:
            return Tolerance(zeros=100.0)
        is_max = self.alg == "max"
        threshold = 0.0 if is_max else 10 * epsilon(DataType.parse(self.dt[1]))
        return Tolerance(threshold, 99.0 if self.is_forward else 100.0, is_max and bool(self.attr_post_ops))

    def invalid(self) -> Iterator[str]:
        """Why the case makes no sense."""
        if self.alg == "avg_np" and not np.all(self.summands()):
            yield "Invalid case: an average of windows in the padding alone"
