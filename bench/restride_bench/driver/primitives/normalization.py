"""Normalizations: `--bnorm --flags=CHR mb2ic16ih5`, `--lnorm --flags=CH 2x30x300`, `--gnorm mb2g4ic16ih5`."""
# ruff: noqa: D102 (what every operation says, its base class explains)

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

import restride as rs
from restride import DataType

from .. import knobs
from ..attr_text import wrong
from ..cases import Case, why_no_gradient, why_not_in_place
from ..compare import Tolerance, epsilon
from ..fill import Array, whole_numbers
from ..formulas import finished, scale_of
from ..knobs import Knob, Strides
from ..operands import Values, desc_of
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
_SEEDS = {"scale": 2, "shift": 3, "src_1": 4, "dst": 7, "diff_dst": 8, "workspace": 9}


def _parse_flags(knob: str, text: str) -> str:
    letters = text.upper()
    if set(letters) <= set(_FLAGS):
        return letters
    raise wrong(knob, text, f"flags are letters of {''.join(_FLAGS)}", "--flags=CH")


@dataclass(frozen=True, slots=True, kw_only=True)
class NormCase(Case):
    """The common part of all normalizations; `flags` are benchdnn's letters."""

    template: ClassVar[str] = "%dir%,%dt%,%tag%,%flags%,%DESC%"
    channel_dim: ClassVar[int] = 1

    groups: int = 1
    eps: float = _EPSILON
    dir: Annotated[str, knobs.direction("FWD_D", "FWD_I", "BWD_D", "BWD_DW")] = "FWD_D"
    dt: knobs.TwoTypes = knobs.F32_TWICE
    tag: knobs.Tags = knobs.FOLLOWING
    stat_tag: str = "any"
    ss_dt: str = "f32"
    strides: Strides = knobs.NO_STRIDES
    flags: Annotated[str, Knob(_parse_flags)] = ""
    check_alg: str = ""
    debug_check_ws: bool = False
    mb: knobs.Count = 0
    inplace: knobs.Flag = False

    @classmethod
    def parse(cls, text: str) -> dict[str, Any]:
        """The dims, groups, and the number that keeps from dividing by 0."""
        problem = parse_lettered(text, ("mb", "ic", "id", "ih", "iw", "g"), ("eps",))
        if not problem.whole("ic"):
            raise wrong("the problem", text, "ic is needed", "mb2ic16ih5")
        dims = problem.whole("mb", 2), problem.whole("ic"), *problem.each("i")
        numbers = {"groups": problem.whole("g", 1), "eps": float(problem.numbers.get("eps", _EPSILON))}
        return {**problem.written, "dims": dims, **numbers}

    # --- what a mean is of: of a batch all but the channels ---

    @property
    def outer(self) -> Dims:
        """The dims of statistics."""
        return self.dims[1:2]

    def rows(self, x: Array) -> Array:
        """Elements as (statistic, what it is of)."""
        return x.reshape(int(np.prod(self.outer)), -1)

    def data(self, rows: Array) -> Array:
        """Rows as elements."""
        return rows.reshape(self.dims)

    def along(self, weights: Array) -> Array:
        """Values of channels, to be broadcast over elements."""
        return weights.reshape(-1, *[1] * (len(self.dims) - 1 - self.channel_dim % len(self.dims)))

    # --- tensors ---

    @property
    def types(self) -> tuple[str, ...]:
        return (*self.dt, self.ss_dt)

    @property
    def formats(self) -> tuple[Any, ...]:
        """Tags or strides of source and destination."""
        return self.strides.formats(*(*self.tag, "any")[:2])

    def has(self, letters: str) -> bool:
        """True for one of these flags."""
        return bool(set(letters) & set(self.flags))

    def parameters(self, is_forward: bool) -> dict[str, Any]:
        how = {"epsilon": self.eps, "flags": " | ".join(_FLAGS[each] for each in self.flags) or "none"}
        return (
            how if is_forward else {**how, "prop_kind": f"backward{'' if self.dir == 'BWD_DW' else '_data'}"}
        )

    def tensors(self, is_forward: bool) -> dict[str, rs.MemoryDesc]:
        """Forward the statistics are read where flags say so, and written in training. A workspace says where
        a relu was 0.
        """
        src, dst = (rs.MemoryDesc(self.dims, *each) for each in zip(self.dt, self.formats, strict=True))
        like_src, like_dst = (desc_of(self.dims, kind) for kind in self.dt)
        weights = rs.MemoryDesc((self.dims[self.channel_dim],), self.ss_dt, "a")
        flagged = {"scale": self.has("C"), "shift": self.has("H")}
        is_training = self.dir == "FWD_D"
        statistics = {name: desc_of(self.outer, "f32") for name in ("mean", "variance")[self.has("M") :]}
        workspace = {"workspace": desc_of(self.dims, "u8")} if self.has("RA") else {}
        if is_forward:
            return {
                "src": src,
                "dst": dst,
                **(statistics if self.has("G") or is_training else {}),
                **{name: weights for name, is_there in flagged.items() if is_there},
                **({"src_1": like_dst} if self.has("A") else {}),
                **(workspace if is_training else {}),
            }
        gradients = {f"diff_{name}": weights for name, is_there in flagged.items() if is_there}
        return {
            "src": src,
            "diff_dst": like_dst,
            "diff_src": like_src,
            **statistics,
            **({"scale": weights} if self.has("C") else {}),
            **(gradients if self.dir == "BWD_DW" else {}),
            **({"diff_src_1": like_src} if self.has("A") else {}),
            **workspace,
        }

    def is_written(self, name: str) -> bool:
        if self.is_forward and name in ("mean", "variance"):
            return not self.has("G")
        return super(NormCase, self).is_written(name)

    # --- values and formulas ---

    def values(self, name: str) -> Array:
        """Whole numbers about a whole mean, so that sums for mean and variance are exact in any order."""
        if name in ("mean", "variance"):
            return self.statistics()[name == "variance"]
        if name in ("scale", "shift"):
            return whole_numbers((self.dims[self.channel_dim],), -2, 2, _SEEDS[name]) / 2
        if name == "workspace":
            return whole_numbers(self.dims, 0, 1, _SEEDS[name])
        seed = _SEEDS.get(name, 1)
        count, length = self.rows(np.zeros(self.dims)).shape
        apart = whole_numbers((count, -(-length // 2)), -4, 4, seed)
        values = np.stack([apart, -apart], -1).reshape(count, -1)[:, :length]
        if length % 2:
            values[:, -1] = 0
        least = 4 if DataType.parse(self.dt[0]).kind == "uint" else -2
        return self.data(values + whole_numbers((count, 1), least, least + 4, seed + 1))

    def moments(self, x: Array) -> list[Array]:
        """Means and variances."""
        rows = self.rows(x)
        mean = np.zeros(len(rows)) if self.has("M") else rows.mean(1)
        return [mean, ((rows - mean[:, None]) ** 2).mean(1)]

    def statistics(self) -> list[Array]:
        """Mean and variance that are read."""
        if self.has("G"):
            return [whole_numbers(self.outer, -2, 2, 5) / 4, whole_numbers(self.outer, 1, 8, 6) / 4]
        moments = self.moments(self.values("src"))
        return [each.astype(np.float32).astype(np.float64).reshape(self.outer) for each in moments]

    def formula(self, values: Values) -> Values:
        """The normalization with its statistics, or the gradients of all that is read."""
        is_read = self.has("G") or not self.is_forward
        mean, variance = self.statistics() if is_read else self.moments(values["src"])
        mean = np.zeros_like(mean) if self.has("M") else mean
        inverse = 1 / np.sqrt(variance.reshape(-1, 1) + np.float32(self.eps))
        normal = self.data((self.rows(values["src"]) - mean.reshape(-1, 1)) * inverse)
        scale = self.along(values["scale"]) if "scale" in values else 1.0
        if not self.is_forward:
            dy = values["diff_dst"] * values.get("workspace", 1.0)
            rows, hat = self.rows(dy * scale), self.rows(normal)
            if not self.has("G"):
                middle = 0 if self.has("M") else rows.mean(1, keepdims=True)
                rows = rows - middle - hat * (rows * hat).mean(1, keepdims=True)
            over = tuple(dim for dim in range(dy.ndim) if dim != self.channel_dim % dy.ndim)
            return {
                "diff_src": self.data(rows * inverse),
                "diff_src_1": dy,
                "diff_scale": (dy * normal).sum(over),
                "diff_shift": dy.sum(over),
            }
        result = normal * scale + (self.along(values["shift"]) if "shift" in values else 0.0)
        result = result + values.get("src_1", 0.0)
        passed = result > 0
        result = np.where(passed, result, 0.0) if self.has("RA") else result
        return {
            "dst": finished(self, np.asarray(result * scale_of(self, "src", values)), values),
            "workspace": passed * 1.0,
            "mean": mean.reshape(self.outer),
            "variance": variance.reshape(self.outer),
        }

    def tolerance(self, name: str) -> Tolerance:
        """Some last places of f32, or one of a narrower type; as much of differences of values of size 1,
        before they are scaled.
        """
        if name == "workspace":
            # Where a result is nearly 0 its sign is nobody's.
            return Tolerance(1.0, 100.0, allows=lambda points: np.ones(points.index.shape, np.bool_))
        if name == "diff_src_1":
            return Tolerance(zeros=100.0)
        of_weights = (self.ss_dt, 64) if not self.is_forward else ("f32", 1)
        kind, factor = {"dst": (self.dt[1], 1), "diff_src": (self.dt[0], 16)}.get(name, of_weights)
        data_type = DataType.parse(kind)
        step = 0.0 if data_type.is_integral else max(epsilon(data_type), 4e-6)
        scales = {each.arg: each.value or 1.0 for each in self.attr_scales}
        limit = step * factor * max(1.0, scales.get("src", 1.0) / scales.get("dst", 1.0))
        return Tolerance(step * factor, 100.0, allows=lambda points: np.asarray(points.diff <= limit))

    def invalid(self) -> Iterator[str]:
        if len(self.dims) < 2:
            yield "Invalid case: there is no batch"
        if self.driver == "gnorm" and self.dims[1] % max(self.groups, 1):
            yield f"Invalid case: {self.groups} groups of {self.dims[1]} channels"
        if {"R", "A"} <= set(self.flags):
            yield "Invalid case: two fused functions"
        if self.driver != "bnorm" and self.has("RA"):
            yield "Case not supported: a fused relu, only batch normalization has one"
        if self.driver == "bnorm" and self.has("M"):
            yield "Case not supported: rms_norm of batches"
        yield from self.strides.why_invalid(src=self.tag[0], dst=(*self.tag, "any")[1])
        if self.inplace:
            src, dst = self.formats
            yield from why_not_in_place((self.dt[0], src), (self.dt[1], dst))
        yield from why_no_gradient(self, *self.dt)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchNormCase(NormCase):
    """A batch normalization. How benchdnn fills tensors and looks at workspaces means nothing here."""

    driver: ClassVar[str] = "bnorm"
    primitive: ClassVar[str] = "BatchNormalization"

    strides: knobs.TwoStrides = knobs.NO_STRIDES
    check_alg: Annotated[str, knobs.caseless("", "auto", "ALG_0", "ALG_1", "ALG_2", "ALG_AUTO")] = ""
    debug_check_ws: knobs.Flag = False

    def rows(self, x: Array) -> Array:
        return np.moveaxis(x, 1, 0).reshape(x.shape[1], -1)

    def data(self, rows: Array) -> Array:
        return np.moveaxis(rows.reshape(self.dims[1], self.dims[0], *self.dims[2:]), 0, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerNormCase(NormCase):
    """A layer normalization: a mean is of the last dim."""

    driver: ClassVar[str] = "lnorm"
    primitive: ClassVar[str] = "LayerNormalization"
    channel_dim: ClassVar[int] = -1

    eps: knobs.Real = _EPSILON
    stat_tag: knobs.Tag = "any"
    ss_dt: Annotated[str, Knob(knobs.of_value(lambda text: text or "f32"))] = "f32"

    @classmethod
    def parse(cls, text: str) -> dict[str, Any]:
        return parse_dims(text)

    @property
    def outer(self) -> Dims:
        return self.dims[:-1]

    def parameters(self, is_forward: bool) -> dict[str, Any]:
        """The format of statistics, and the types of weights, too."""
        kinds = ["scale_shift_data_type", *([] if is_forward else ["diff_scale_shift_data_type"])]
        own = {"stat": desc_of(self.outer, "f32", self.stat_tag), **dict.fromkeys(kinds, self.ss_dt)}
        return {**super(LayerNormCase, self).parameters(is_forward), **own}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupNormCase(NormCase):
    """A group normalization."""

    driver: ClassVar[str] = "gnorm"
    primitive: ClassVar[str] = "GroupNormalization"

    @property
    def outer(self) -> Dims:
        return self.dims[0], self.groups

    def parameters(self, is_forward: bool) -> dict[str, Any]:
        return {**super(GroupNormCase, self).parameters(is_forward), "groups": self.groups}
