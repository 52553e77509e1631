"""Normalizations: `--bnorm --flags=CHR mb2ic16ih5`, `--lnorm --flags=CH 2x30x300`, `--gnorm mb2g4ic16ih5`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np

import restride as rs
from restride import DataType

from ..attr_text import wrong
from ..cases import Case, why_not_in_place
from ..compare import Tolerance, epsilon
from ..fill import Array, whole_numbers
from ..formulas import finished, scale_of
from ..knobs import (
    F32_TWICE,
    FOLLOWING,
    NO_STRIDES,
    Count,
    Flag,
    Knob,
    Several,
    Strides,
    Tag,
    Tags,
    caseless,
    direction,
    of_value,
    parse_real,
    parse_type,
    several,
    strides,
)
from ..operands import CaseOperand, Values, desc_of, operand
from ..problems import Dims, parse_dims, parse_lettered

_FLAGS = {
    "G": "use_global_stats",
    "C": "use_scale",
    "H": "use_shift",
    "R": "fuse_norm_relu",
    "A": "fuse_norm_add_relu",
    "M": "rms_norm",
}
_EPSILON = 1.0 / 16


def _parse_flags(knob: str, text: str) -> str:
    letters = text.upper()
    if set(letters) <= set(_FLAGS):
        return letters
    raise wrong(knob, text, f"flags are letters of {''.join(_FLAGS)}", "--flags=CH")


@dataclass(frozen=True, slots=True, kw_only=True)
class NormCase(Case):
    """What all normalizations have; `flags` are benchdnn's letters."""

    template: ClassVar[str] = "%dir%,%dt%,%tag%,%flags%,%DESC%"
    channel_dim: ClassVar[int] = 1

    groups: int = 1
    eps: float = _EPSILON
    dir: Annotated[str, direction("FWD_D", "FWD_I", "BWD_D", "BWD_DW")] = "FWD_D"
    dt: Annotated[Several, several(parse_type, least=2)] = F32_TWICE
    tag: Tags = FOLLOWING
    stat_tag: str = "any"
    ss_dt: str = "f32"
    strides: Strides = NO_STRIDES
    flags: Annotated[str, Knob(_parse_flags)] = ""
    check_alg: str = ""
    debug_check_ws: bool = False
    mb: Count = 0
    inplace: Flag = False

    @classmethod
    def parse(cls, text: str) -> dict[str, Any]:
        """The dims, groups, and the number that keeps from dividing by 0."""
        problem = parse_lettered(text, ("mb", "ic", "id", "ih", "iw", "g"), ("eps",))
        if not problem.whole("ic"):
            raise wrong("the problem", text, "ic is needed", "mb2ic16ih5")
        dims = problem.whole("mb", 2), problem.whole("ic"), *problem.each("i")
        numbers = {"groups": problem.whole("g", 1), "eps": float(problem.numbers.get("eps", _EPSILON))}
        return {**problem.written, "dims": dims, **numbers}

    # --- what depends on what a mean is of; that of a batch is of all but the channels ---

    @property
    def outer(self) -> Dims:
        """The dims of statistics."""
        return self.dims[1:2]

    @property
    def channels(self) -> int:
        """How many values scale and shift have."""
        return self.dims[self.channel_dim]

    def own(self, is_forward: bool) -> dict[str, Any]:
        """What the descriptor of this kind takes beside the others."""
        return {}

    def rows(self, x: Array) -> Array:
        """Elements as (statistic, what it is of)."""
        return x.reshape(int(np.prod(self.outer)), -1)

    def data(self, rows: Array) -> Array:
        """Rows as elements."""
        return rows.reshape(self.dims)

    def along(self, weights: Array) -> Array:
        """Values of channels, to be broadcast over elements."""
        return weights.reshape(-1, *[1] * (len(self.dims) - 2))

    # --- descriptors ---

    @property
    def types(self) -> tuple[str, ...]:
        """The types of tensors and weights."""
        return (*self.dt, self.ss_dt)

    @property
    def formats(self) -> tuple[Any, ...]:
        """Tags or strides of source and destination."""
        return self.strides.formats(*(*self.tag, "any")[:2])

    @property
    def is_fused(self) -> bool:
        """True for a relu behind."""
        return bool({"R", "A"} & set(self.flags))

    def arguments(self, is_forward: bool) -> dict[str, Any]:
        """Tensors, the epsilon and flags."""
        flags = " | ".join(_FLAGS[letter] for letter in self.flags) or "none"
        how = {"epsilon": self.eps, "flags": flags, **self.own(is_forward)}
        src, dst = (rs.MemoryDesc(self.dims, *each) for each in zip(self.dt, self.formats, strict=True))
        if is_forward:
            return {**how, "src": src, "dst": dst}
        diff_src, diff_dst = (desc_of(self.dims, kind) for kind in self.dt)
        prop_kind = "backward" if self.dir == "BWD_DW" else "backward_data"
        return {**how, "prop_kind": prop_kind, "src": src, "diff_src": diff_src, "diff_dst": diff_dst}

    def statistics(self) -> list[CaseOperand]:
        """Mean and variance."""
        values = dict(zip(("mean", "variance"), self.given(), strict=True))
        names = ("variance",) if "M" in self.flags else ("mean", "variance")
        return [operand(name, desc_of(self.outer, "f32"), partial(np.copy, values[name])) for name in names]

    def weights(self, prefix: str) -> list[CaseOperand]:
        """Scale and shift, or their gradients, those of them that flags name."""
        md = rs.MemoryDesc((self.channels,), self.ss_dt, "a")
        seeds = {"scale": 2 * ("C" in self.flags), "shift": 3 * ("H" in self.flags)}

        def values(seed: int) -> Array:
            return whole_numbers(md.dims, -2, 2, seed) / 2

        return [operand(prefix + name, md, partial(values, seed)) for name, seed in seeds.items() if seed]

    def reads(self) -> list[CaseOperand]:
        """Source, statistics and weights; and what is added, or the gradient and where the relu was 0."""
        src = operand("src", self.arguments(True)["src"], self.source)
        if self.is_forward:
            given = self.statistics() if "G" in self.flags else []
            other = operand("src_1", desc_of(self.dims, self.dt[1]), partial(self.source, 4))
            return [src, *given, *self.weights(""), *([other] if "A" in self.flags else [])]
        gradient = operand("diff_dst", desc_of(self.dims, self.dt[1]), partial(self.source, 8))
        passed = operand("workspace", desc_of(self.dims, "u8"), partial(whole_numbers, self.dims, 0, 1, 9))
        scale = [one for one in self.weights("") if one.arg == rs.ARG_SCALE]
        return [src, gradient, *self.statistics(), *scale, *([passed] if self.is_fused else [])]

    def writes(self) -> list[CaseOperand]:
        """The result, and in training statistics and where the relu is 0; or all gradients."""
        if not self.is_forward:
            weights = self.weights("diff_") if self.dir == "BWD_DW" else []
            other = [operand("diff_src_1", desc_of(self.dims, self.dt[0]))] if "A" in self.flags else []
            return [operand("diff_src", desc_of(self.dims, self.dt[0])), *weights, *other]
        written = [operand("dst", self.arguments(True)["dst"], partial(self.source, 7))]
        is_training = self.dir == "FWD_D"
        if is_training and "G" not in self.flags:
            written += [replace(one, values=None) for one in self.statistics()]
        if is_training and self.is_fused:
            written.append(operand("workspace", desc_of(self.dims, "u8")))
        return written

    # --- values and formulas ---

    def source(self, seed: int = 1) -> Array:
        """Whole numbers about a whole mean, so that sums for mean and variance are exact in any order."""
        count, length = self.rows(np.zeros(self.dims)).shape
        apart = whole_numbers((count, -(-length // 2)), -4, 4, seed)
        values = np.stack([apart, -apart], -1).reshape(count, -1)[:, :length]
        if length % 2:
            values[:, -1] = 0
        least = 4 if DataType.parse(self.dt[0]).kind == "uint" else -2
        return self.data(values + whole_numbers((count, 1), least, least + 4, seed + 1))

    def moments(self, x: Array) -> tuple[Array, Array]:
        """Means and variances."""
        rows = self.rows(x)
        mean = np.zeros(len(rows)) if "M" in self.flags else rows.mean(1)
        return mean, ((rows - mean[:, None]) ** 2).mean(1)

    def given(self) -> list[Array]:
        """Statistics that are read."""
        if "G" in self.flags:
            return [whole_numbers(self.outer, -2, 2, 5) / 4, whole_numbers(self.outer, 1, 8, 6) / 4]
        moments = self.moments(self.source())
        return [each.astype(np.float32).astype(np.float64).reshape(self.outer) for each in moments]

    def normal(self, x: Array, mean: Array, variance: Array) -> Array:
        """Elements less their means, over their deviations."""
        inverse = 1 / np.sqrt(variance.reshape(-1, 1) + np.float32(self.eps))
        return self.data((self.rows(x) - mean.reshape(-1, 1)) * inverse)

    def formula(self, values: Values) -> Values:
        """The normalization with its statistics, or gradients."""
        x = values[rs.ARG_SRC]
        is_read = "G" in self.flags or not self.is_forward
        mean, variance = self.given() if is_read else self.moments(x)
        mean = np.zeros_like(mean) if "M" in self.flags else mean
        normal = self.normal(x, mean, variance)
        if not self.is_forward:
            return self.gradients(values, normal, variance)
        result = normal
        if rs.ARG_SCALE in values:
            result = result * self.along(values[rs.ARG_SCALE])
        if rs.ARG_SHIFT in values:
            result = result + self.along(values[rs.ARG_SHIFT])
        if rs.ARG_SRC_1 in values:
            result = result + values[rs.ARG_SRC_1]
        passed = result > 0
        if self.is_fused:
            result = np.where(passed, result, 0.0)
        return {
            rs.ARG_DST: finished(self, np.asarray(result * scale_of(self, "src", values)), values),
            rs.ARG_WORKSPACE: passed * 1.0,
            rs.ARG_MEAN: mean.reshape(self.outer),
            rs.ARG_VARIANCE: variance.reshape(self.outer),
        }

    def gradients(self, values: Values, normal: Array, variance: Array) -> Values:
        """The gradients of source, of what was added to it, and of weights."""
        dy = values[rs.ARG_DIFF_DST] * values.get(rs.ARG_WORKSPACE, np.ones(()))
        scaled = dy * self.along(values[rs.ARG_SCALE]) if rs.ARG_SCALE in values else dy
        rows, hat = self.rows(scaled), self.rows(normal)
        if "G" not in self.flags:
            middle = 0 if "M" in self.flags else rows.mean(1, keepdims=True)
            rows = rows - middle - hat * (rows * hat).mean(1, keepdims=True)
        over = tuple(dim for dim in range(dy.ndim) if dim != self.channel_dim % dy.ndim)
        return {
            rs.ARG_DIFF_SRC: self.data(rows / np.sqrt(variance.reshape(-1, 1) + np.float32(self.eps))),
            rs.ARG_DIFF_SRC_1: dy,
            rs.ARG_DIFF_SCALE: (dy * normal).sum(over),
            rs.ARG_DIFF_SHIFT: dy.sum(over),
        }

    def tolerance(self, arg: int) -> Tolerance:
        """Some last places of f32, or one of a narrower type; as much of differences of values of size 1,
        before they are scaled.
        """
        if arg == rs.ARG_WORKSPACE:
            # Where a result is nearly 0 its sign is nobody's.
            return Tolerance(1.0, 100.0, allows=lambda points: np.ones(points.index.shape, np.bool_))
        if arg == rs.ARG_DIFF_SRC_1:
            return Tolerance(zeros=100.0)
        kinds = {rs.ARG_DST: (self.dt[1], 1), rs.ARG_DIFF_SRC: (self.dt[0], 16)}
        of_weights = (self.ss_dt, 64) if not self.is_forward else ("f32", 1)
        kind, factor = kinds.get(arg, of_weights)
        data_type = DataType.parse(kind)
        step = 0.0 if data_type.is_integral else max(epsilon(data_type), 4e-6)
        scales = {each.arg: each.value or 1.0 for each in self.attr_scales}
        size = max(1.0, scales.get("src", 1.0) / scales.get("dst", 1.0))
        limit = step * factor * size
        return Tolerance(step * factor, 100.0, allows=lambda points: np.asarray(points.diff <= limit))

    def invalid(self) -> Iterator[str]:
        """Why the case makes no sense, or is not supported."""
        if len(self.dims) < 2:
            yield "Invalid case: there is no batch"
        if self.driver == "gnorm" and self.dims[1] % max(self.groups, 1):
            yield f"Invalid case: {self.groups} groups of {self.dims[1]} channels"
        if {"R", "A"} <= set(self.flags):
            yield "Invalid case: two fused functions"
        if self.driver != "bnorm" and self.is_fused:
            yield "Case not supported: a fused relu, batch normalization alone has one"
        if self.driver == "bnorm" and "M" in self.flags:
            yield "Case not supported: rms_norm of batches"
        yield from self.strides.why_invalid(src=self.tag[0], dst=(*self.tag, "any")[1])
        if self.inplace:
            src, dst = self.formats
            yield from why_not_in_place((self.dt[0], src), (self.dt[1], dst))
        if not self.is_forward and any(DataType.parse(kind).is_integral for kind in self.dt):
            yield "Invalid case: a gradient of integers"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchNormCase(NormCase):
    """A batch normalization. How benchdnn fills tensors and looks at workspaces means nothing here."""

    driver: ClassVar[str] = "bnorm"
    primitive: ClassVar[str] = "BatchNormalization"

    strides: Annotated[Strides, strides("SRC", "DST")] = NO_STRIDES
    check_alg: Annotated[str, caseless("", "auto", "ALG_0", "ALG_1", "ALG_2", "ALG_AUTO")] = ""
    debug_check_ws: Flag = False

    def rows(self, x: Array) -> Array:
        """Elements as (channel, what it is of)."""
        return np.moveaxis(x, 1, 0).reshape(x.shape[1], -1)

    def data(self, rows: Array) -> Array:
        """Rows as elements."""
        return np.moveaxis(rows.reshape(self.dims[1], self.dims[0], *self.dims[2:]), 0, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerNormCase(NormCase):
    """A layer normalization: a mean is of the last dim."""

    driver: ClassVar[str] = "lnorm"
    primitive: ClassVar[str] = "LayerNormalization"
    other_knobs: ClassVar[Mapping[str, Knob]] = {"eps": Knob(parse_real)}
    channel_dim: ClassVar[int] = -1

    stat_tag: Tag = "any"
    ss_dt: Annotated[str, Knob(of_value(lambda text: text or "f32"))] = "f32"

    @classmethod
    def parse(cls, text: str) -> dict[str, Any]:
        """The dims."""
        return parse_dims(text)

    @property
    def outer(self) -> Dims:
        """The dims of statistics."""
        return self.dims[:-1]

    def own(self, is_forward: bool) -> dict[str, Any]:
        """The format of statistics, and the types of weights."""
        tag = "any" if self.stat_tag == "undef" else self.stat_tag
        kinds = (
            ("scale_shift_data_type",)
            if is_forward
            else ("scale_shift_data_type", "diff_scale_shift_data_type")
        )
        return {"stat": rs.MemoryDesc(self.outer, "f32", tag), **dict.fromkeys(kinds, self.ss_dt)}

    def along(self, weights: Array) -> Array:
        """Values of channels, to be broadcast over elements."""
        return weights


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupNormCase(NormCase):
    """A group normalization."""

    driver: ClassVar[str] = "gnorm"
    primitive: ClassVar[str] = "GroupNormalization"

    @property
    def outer(self) -> Dims:
        """The dims of statistics."""
        return self.dims[0], self.groups

    def own(self, is_forward: bool) -> dict[str, Any]:
        """How many groups."""
        return {"groups": self.groups}
