"""Softmax: `--softmax --dir=BWD_D --alg=LOGSOFTMAX --axis=1 2x19x16x64`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Annotated, Any, ClassVar

import numpy as np

import restride as rs
from restride import DataType

from .. import fill
from ..cases import Case, why_not_in_place
from ..compare import Tolerance, epsilon
from ..fill import Array, rounded
from ..formulas import finished, scale_of
from ..knobs import Axis, Count, Flag, Inference, Tag, TypeName, caseless
from ..operands import CaseOperand, Values, desc_of, operand

_NAMES = {
    "SOFTMAX": "softmax_accurate",
    "LOGSOFTMAX": "softmax_log",
    "SOFTMAX_INF_AS_ZERO": "softmax_accurate_inf_as_zero",
}
_TOPS = ((1, 2), (2, 5), (5, 8))
_TOPS_OF_BYTES = ((1, 1), (1, 1), (0, 4))
_LARGE = 88  # an f32 holds no exp of more
_CHUNK = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftmaxCase(Case):
    """A softmax along an axis, or the gradient of its source."""

    driver: ClassVar[str] = "softmax"
    primitive: ClassVar[str] = "Softmax"
    template: ClassVar[str] = "%dir%,%sdt%,%ddt%,%stag%,%dtag%,%alg%,%axis%,%DESC%"

    dir: Inference = "FWD_D"
    sdt: TypeName = "f32"
    ddt: TypeName = "f32"
    stag: Tag = "abx"
    dtag: Tag = "any"
    alg: Annotated[str, caseless(*_NAMES, also={name: alg for alg, name in _NAMES.items()})] = "SOFTMAX"
    axis: Axis = 1
    mb: Count = 0
    inplace: Flag = False

    @property
    def is_log(self) -> bool:
        """True for the logarithm."""
        return self.alg == "LOGSOFTMAX"

    def arguments(self, is_forward: bool) -> dict[str, Any]:
        """Tensors and axis; backward the tag of the source is that of the result."""
        how = {"algorithm": _NAMES[self.alg], "axis": self.axis}
        dst = rs.MemoryDesc(self.dims, self.ddt, self.dtag if self.is_forward else self.stag)
        if is_forward:
            return {**how, "src": rs.MemoryDesc(self.dims, self.sdt, self.stag), "dst": dst}
        diff_src, diff_dst = desc_of(self.dims, self.sdt), desc_of(self.dims, self.ddt)
        return {**how, "dst": dst, "diff_src": diff_src, "diff_dst": diff_dst}

    def reads(self) -> list[CaseOperand]:
        """The source; or the result and its gradient."""
        mds = self.arguments(self.is_forward)
        if self.is_forward:
            return [operand("src", mds["src"], self.source)]
        names = {"dst": False, "diff_dst": True}
        return [operand(name, mds[name], partial(self.result, is_diff)) for name, is_diff in names.items()]

    def writes(self) -> list[CaseOperand]:
        """The result, or the gradient of the source."""
        mds = self.arguments(self.is_forward)
        if not self.is_forward:
            return [operand("diff_src", mds["diff_src"])]
        return [operand("dst", mds["dst"], partial(fill.whole_numbers, self.dims, -8, 8, 2))]

    def source(self) -> Array:
        """A few large numbers in each row, one or two of them a little larger, and next to nothing beside.

        All are positive or all negative; what is left of a row are few different results, none near another.
        """
        outer, size = prod(self.dims[: self.axis]), self.dims[self.axis]
        inner = prod(self.dims[self.axis + 1 :])
        random, rows = np.random.default_rng(1), outer * inner
        kinds = DataType.parse(self.sdt), DataType.parse(self.ddt)
        ranges = _TOPS_OF_BYTES if kinds[1].bits == 8 else _TOPS
        counts = np.stack([random.integers(low, high, rows, endpoint=True) for low, high in ranges])
        ends = np.minimum(np.cumsum(counts, 0), size)
        starts = random.integers(0, size - ends[-1], endpoint=True)
        chunks = np.repeat(np.arange(outer) // _CHUNK, inner)
        sign = np.where((chunks % 2 == 1) & (kinds[0] is not DataType.u8), -1, 1)
        places = np.arange(size)[:, None] - starts
        rank = (places >= ends[:, None]).sum(0)
        lowest = max(fill.limits(kind)[0] for kind in kinds)
        values = np.where((places >= 0) & (rank < 3), sign * _LARGE + 2 - rank, lowest)
        values = rounded(values.reshape(size, outer, inner).swapaxes(0, 1).astype(np.float64), kinds[0])
        return np.asarray(values.astype(np.float64).reshape(self.dims))

    def result(self, is_gradient: bool) -> Array:
        """A result or its gradient. One is negative, so that nothing cancels; of a logarithm the other."""
        is_negative = is_gradient == self.is_log
        span = 128 if is_negative and self.ddt != "f16" else 8
        values = (11.0 * np.arange(prod(self.dims)) + 37 + 19 * is_negative) % span
        return (values * (-1 if is_negative else 1) / (1 if is_gradient else span)).reshape(self.dims)

    def formula(self, values: Values) -> Values:
        """The softmax with its scales, or the gradient of its source."""
        if self.is_forward:
            shifted = values[rs.ARG_SRC] - values[rs.ARG_SRC].max(self.axis, keepdims=True)
            total = np.exp(shifted).sum(self.axis, keepdims=True)
            y = shifted - np.log(total) if self.is_log else np.exp(shifted) / total
            return {rs.ARG_DST: finished(self, np.asarray(y * scale_of(self, "src", values)), values)}
        y, dy = values[rs.ARG_DST], values[rs.ARG_DIFF_DST]
        if self.is_log:
            return {rs.ARG_DIFF_SRC: dy - np.exp(y) * dy.sum(self.axis, keepdims=True)}
        return {rs.ARG_DIFF_SRC: y * (dy - (y * dy).sum(self.axis, keepdims=True))}

    def tolerance(self, arg: int) -> Tolerance:
        """Floats of 16 bits are exact, unless accumulation is relaxed. A logarithm is five times, a gradient
        four times as rough.
        """
        kind = self.ddt if self.is_forward else self.sdt
        is_wide, step = kind in ("f32", "f64"), max(epsilon(DataType.parse(kind)), epsilon(DataType.f32))
        is_relaxed = kind in ("f16", "bf16") and self.attr_acc_mode not in ("strict", "f32")
        rough = (5 if self.is_log else 1) * (1 if self.is_forward else 4) * (10 if is_wide else 1)
        size, is_integral = self.dims[self.axis], DataType.parse(self.ddt).is_integral
        zeros = 100 * (size - 1 if is_integral else max(0, size - 8)) / max(size, 1)
        if self.is_log and (size == 1 or self.ddt == "u8"):
            zeros = 100
        return Tolerance(
            rough * step if is_wide or is_relaxed else 0.0,
            zeros if self.is_forward else 30.0,
            allows=lambda points: np.asarray(points.diff < epsilon(DataType.f32)),
        )

    def invalid(self) -> Iterator[str]:
        """Why the case makes no sense, or is not supported."""
        if self.alg == "SOFTMAX_INF_AS_ZERO":
            yield f"Case not supported: --alg={self.alg}"
        if not 0 <= self.axis < len(self.dims):
            yield f"Invalid case: there is no axis {self.axis}"
        if self.inplace:
            yield from why_not_in_place((self.sdt, self.stag), (self.ddt, self.dtag))
        if not self.is_forward and any(DataType.parse(kind).is_integral for kind in self.types):
            yield "Invalid case: a gradient of integers"
