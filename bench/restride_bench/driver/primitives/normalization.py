"""Normalizations: `--bnorm --flags=CHR mb2ic16ih5`, `--lnorm --flags=CH 2x30x300`, `--gnorm mb2g4ic16ih5`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

import restride as rs
from restride import DataType

from ..attr_text import wrong
from ..cases import ATTR_KNOB_NAMES, F32_TWICE, NO_STRIDES, Several, Strides
from ..compare import Tolerance, epsilon
from ..driver import Driver
from ..fill import Array, whole_numbers
from ..formulas import finished, scale_of
from ..knobs import (
    ATTR_KNOBS,
    Knob,
    caseless,
    direction,
    flag,
    of_value,
    parse_count,
    parse_dims,
    parse_real,
    parse_tag,
    parse_type,
    several,
    strides,
)
from ..spatial import SpatialCase, parse_lettered
from ..work import CaseOperand, CaseWork, Formula, Values, attributes, why_not_in_place

_FLAGS = {
    "G": "use_global_stats",
    "C": "use_scale",
    "H": "use_shift",
    "R": "fuse_norm_relu",
    "A": "fuse_norm_add_relu",
    "M": "rms_norm",
}
_KINDS = {
    "bnorm": (rs.BatchNormalizationForward, rs.BatchNormalizationBackward),
    "lnorm": (rs.LayerNormalizationForward, rs.LayerNormalizationBackward),
    "gnorm": (rs.GroupNormalizationForward, rs.GroupNormalizationBackward),
}
_EPSILON = 1.0 / 16
_FOLLOWING = Several(("abx", "any"))


@dataclass(frozen=True, slots=True, kw_only=True)
class NormCase(SpatialCase):
    """What all normalizations have; `flags` are benchdnn's letters."""

    dir: str = "FWD_D"
    dt: Several = F32_TWICE
    tag: Several = _FOLLOWING
    stat_tag: str = "any"
    ss_dt: str = "f32"
    strides: Strides = NO_STRIDES
    flags: str = ""
    mb: int = 0
    inplace: bool = False
    eps: float = _EPSILON
    groups: int = 1

    def __post_init__(self) -> None:
        if self.mb:
            object.__setattr__(self, "dims", (self.mb, *self.dims[1:]))

    @classmethod
    def order(cls) -> tuple[str, ...]:
        """Names of the knobs as a reproducer line has them."""
        return ("dir", "dt", "tag", "flags", "mb", "inplace", *ATTR_KNOB_NAMES)

    @property
    def is_forward(self) -> bool:
        """True for the function itself."""
        return self.dir.startswith("FWD")

    @property
    def words_of_flags(self) -> str:
        """The flags as restride has them."""
        return " | ".join(_FLAGS[letter] for letter in self.flags) or "none"

    @property
    def channels(self) -> int:
        """How many values scale and shift have."""
        return self.dims[-1 if self.driver == "lnorm" else 1]

    @property
    def own(self) -> tuple[Any, ...]:
        """What the descriptor of this kind takes beside the others."""
        if self.driver == "gnorm":
            return (self.groups,)
        if self.driver == "bnorm":
            return ()
        tag = "any" if self.stat_tag == "undef" else self.stat_tag
        return (rs.MemoryDesc(self.dims[:-1], "f32", tag),)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchNormCase(NormCase):
    """A batch normalization. How benchdnn fills tensors and looks at workspaces means nothing here."""

    driver: ClassVar[str] = "bnorm"

    check_alg: str = ""
    debug_check_ws: bool = False

    @classmethod
    def order(cls) -> tuple[str, ...]:
        """Names of the knobs as a reproducer line has them."""
        own = ("dir", "dt", "tag", "strides", "flags", "check_alg", "debug_check_ws", "mb", "inplace")
        return (*own, *ATTR_KNOB_NAMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerNormCase(NormCase):
    """A layer normalization."""

    driver: ClassVar[str] = "lnorm"

    @classmethod
    def order(cls) -> tuple[str, ...]:
        """Names of the knobs as a reproducer line has them."""
        return ("dir", "dt", "tag", "stat_tag", "ss_dt", "flags", "mb", "inplace", *ATTR_KNOB_NAMES)

    @property
    def shape(self) -> str:
        """The dims."""
        return "x".join(map(str, self.dims))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupNormCase(NormCase):
    """A group normalization."""

    driver: ClassVar[str] = "gnorm"


def _parse_flags(knob: str, text: str) -> str:
    letters = text.upper()
    if set(letters) <= set(_FLAGS):
        return letters
    raise wrong(knob, text, f"flags are letters of {''.join(_FLAGS)}", "--flags=CH")


def _parse_lettered(text: str) -> dict[str, Any]:
    found = parse_lettered(text, ("mb", "ic", "id", "ih", "iw", "g"), ("eps",))
    if not found.whole("ic"):
        raise wrong("the problem", text, "ic is needed", "mb2ic16ih5")
    return {
        "problem": found.text,
        "name": found.name,
        "dims": (found.whole("mb", 2), found.whole("ic"), *found.each("i")),
        "groups": found.whole("g", 1),
        "eps": float(found.numbers.get("eps", _EPSILON)),
    }


_KNOBS = {
    "dir": direction("dir", "FWD_D", "FWD_I", "BWD_D", "BWD_DW"),
    "dt": several("dt", parse_type, least=2),
    "tag": several("tag", parse_tag),
    "flags": Knob("flags", _parse_flags),
    "mb": Knob("mb", parse_count),
    "inplace": flag("inplace"),
    **ATTR_KNOBS,
}
_BATCH_KNOBS = {
    **_KNOBS,
    "strides": strides("SRC", "DST"),
    "check-alg": caseless("check_alg", "", "auto", "ALG_0", "ALG_1", "ALG_2", "ALG_AUTO"),
    "debug-check-ws": flag("debug_check_ws"),
}
_LAYER_KNOBS = {
    **_KNOBS,
    "stat_tag": Knob("stat_tag", parse_tag),
    "stat-tag": Knob("stat_tag", parse_tag),
    "ss_dt": Knob("ss_dt", of_value(lambda text: text or "f32")),
    "ss-dt": Knob("ss_dt", of_value(lambda text: text or "f32")),
    "eps": Knob("eps", parse_real),
}


# --- descriptors --------------------------------------------------------------------------------------------


def _formats(case: NormCase) -> tuple[Any, ...]:
    """Tags or strides of source and destination."""
    return case.strides.formats(*(*case.tag, "any")[:2])


def _mds(case: NormCase) -> tuple[rs.MemoryDesc, rs.MemoryDesc]:
    """Source and destination."""
    pairs = zip(case.dt, _formats(case), strict=True)
    src, dst = (rs.MemoryDesc(case.dims, kind, format) for kind, format in pairs)
    return src, dst


def _forward_desc(case: NormCase, engine: rs.Engine, attr: rs.PrimitiveAttr | None) -> Any:
    kind = "forward_inference" if case.dir == "FWD_I" else "forward_training"
    src, dst = _mds(case)
    more = {"scale_shift_data_type": case.ss_dt} if case.driver == "lnorm" else {}
    make = _KINDS[case.driver][0].PrimitiveDesc
    return make(engine, kind, src, dst, *case.own, case.eps, case.words_of_flags, attr, **more)


def _weights(case: NormCase, arg: int, seed: int) -> CaseOperand:
    md = rs.MemoryDesc((case.channels,), case.ss_dt, "a")
    return CaseOperand(arg, md, "a", values=lambda: whole_numbers((case.channels,), -2, 2, seed) / 2)


def _open(case: NormCase, arg: int, kind: str, values: Any = None) -> CaseOperand:
    """A tensor in the format that the primitive chooses."""
    return CaseOperand(arg, rs.MemoryDesc(case.dims, kind, "any"), values=values)


def _statistic(case: NormCase, arg: int, values: Any = None) -> CaseOperand:
    return CaseOperand(arg, rs.MemoryDesc(_outer(case), "f32", "any"), values=values)


def _outer(case: NormCase) -> tuple[int, ...]:
    if case.driver == "bnorm":
        return case.dims[1:2]
    return case.dims[:-1] if case.driver == "lnorm" else (case.dims[0], case.groups)


# --- formulas, in f64 ---------------------------------------------------------------------------------------


def _rows(case: NormCase, x: Array) -> Array:
    """Elements as (statistic, what it is of)."""
    if case.driver == "bnorm":
        return np.moveaxis(x, 1, 0).reshape(x.shape[1], -1)
    return x.reshape(int(np.prod(_outer(case))), -1)


def _data(case: NormCase, rows: Array) -> Array:
    if case.driver != "bnorm":
        return rows.reshape(case.dims)
    moved = (case.dims[1], case.dims[0], *case.dims[2:])
    return np.moveaxis(rows.reshape(moved), 0, 1)


def _along(case: NormCase, weights: Array) -> Array:
    return weights if case.driver == "lnorm" else weights.reshape(-1, *[1] * (len(case.dims) - 2))


def _source(case: NormCase, seed: int = 1) -> Array:
    """Whole numbers about a whole mean, so that sums for the mean and the variance are exact in any order."""
    rows = _rows(case, np.zeros(case.dims))
    count, length = rows.shape
    apart = whole_numbers((count, -(-length // 2)), -4, 4, seed)
    found = np.stack([apart, -apart], -1).reshape(count, -1)[:, :length]
    if length % 2:
        found[:, -1] = 0
    least = 4 if DataType.parse(case.dt[0]).kind == "uint" else -2
    return _data(case, found + whole_numbers((count, 1), least, least + 4, seed + 1))


def _moments(case: NormCase, x: Array) -> tuple[Array, Array]:
    rows = _rows(case, x)
    mean = np.zeros(len(rows)) if "M" in case.flags else rows.mean(1)
    return mean, ((rows - mean[:, None]) ** 2).mean(1)


def _given(case: NormCase) -> tuple[Array, Array]:
    """Statistics that are read."""
    if "G" in case.flags:
        shape = _outer(case)
        return whole_numbers(shape, -2, 2, 5) / 4, whole_numbers(shape, 1, 8, 6) / 4
    mean, variance = _moments(case, _source(case))
    return tuple(  # type: ignore[return-value]
        each.astype(np.float32).astype(np.float64).reshape(_outer(case)) for each in (mean, variance)
    )


def _normal(case: NormCase, x: Array, mean: Array, variance: Array) -> Array:
    inverse = 1 / np.sqrt(variance.reshape(-1, 1) + np.float32(case.eps))
    return _data(case, (_rows(case, x) - mean.reshape(-1, 1)) * inverse)


# --- forward ------------------------------------------------------------------------------------------------


def _forward(case: NormCase) -> CaseWork:
    attr, inputs = attributes(case)
    src, dst = _mds(case)
    reads, writes = list(inputs), list[CaseOperand]()
    is_training, is_given = case.dir == "FWD_D", "G" in case.flags
    args = [rs.ARG_VARIANCE] if "M" in case.flags else [rs.ARG_MEAN, rs.ARG_VARIANCE]
    if is_given:
        known = dict(zip((rs.ARG_MEAN, rs.ARG_VARIANCE), _given(case), strict=True))
        reads += [_statistic(case, arg, partial(np.copy, known[arg])) for arg in args]
    elif is_training:
        writes += [_statistic(case, arg) for arg in args]
    reads += [_weights(case, rs.ARG_SCALE, 2)] if "C" in case.flags else []
    reads += [_weights(case, rs.ARG_SHIFT, 3)] if "H" in case.flags else []
    reads += [_open(case, rs.ARG_SRC_1, case.dt[1], partial(_source, case, 4))] if "A" in case.flags else []
    if is_training and {"R", "A"} & set(case.flags):
        writes.append(_open(case, rs.ARG_WORKSPACE, "u8"))
    tolerances = {
        rs.ARG_DST: _tolerance(case, case.dt[1]),
        rs.ARG_MEAN: _tolerance(case, "f32"),
        rs.ARG_VARIANCE: _tolerance(case, "f32"),
        # Where a result is nearly 0 its sign is nobody's.
        rs.ARG_WORKSPACE: Tolerance(1.0, 100.0, allows=lambda points: np.ones(points.index.shape, np.bool_)),
    }
    return CaseWork(
        lambda engine, _: _forward_desc(case, engine, attr),
        _KINDS[case.driver][0],
        CaseOperand(rs.ARG_SRC, src, _formats(case)[0], values=partial(_source, case)),
        CaseOperand(rs.ARG_DST, dst, case.strides[1] or None, values=partial(_source, case, 7)),
        tuple(reads),
        tuple(writes),
        sums=any(op.kind == "sum" for op in case.attr_post_ops),
        formula=Formula(partial(_normalized, case), tolerances),
        in_place=rs.ARG_SRC if case.inplace else 0,
    )


def _normalized(case: NormCase, values: Values) -> Values:
    x = values[rs.ARG_SRC]
    mean, variance = _given(case) if "G" in case.flags else _moments(case, x)
    if "M" in case.flags:
        mean = np.zeros_like(mean)
    result = _normal(case, x, mean, variance)
    if rs.ARG_SCALE in values:
        result = result * _along(case, values[rs.ARG_SCALE])
    if rs.ARG_SHIFT in values:
        result = result + _along(case, values[rs.ARG_SHIFT])
    if rs.ARG_SRC_1 in values:
        result = result + values[rs.ARG_SRC_1]
    passed = result > 0
    if {"R", "A"} & set(case.flags):
        result = np.where(passed, result, 0.0)
    done = finished(case, np.asarray(result * scale_of(case, "src", values)), values)
    found = {rs.ARG_DST: done, rs.ARG_WORKSPACE: passed * 1.0}
    shape = _outer(case)
    return {**found, rs.ARG_MEAN: mean.reshape(shape), rs.ARG_VARIANCE: variance.reshape(shape)}


# --- backward -----------------------------------------------------------------------------------------------


def _backward(case: NormCase) -> CaseWork:
    attr, _ = attributes(case)
    src, _ = _mds(case)
    is_fused = bool({"R", "A"} & set(case.flags))
    mean, variance = _given(case)
    reads = [_open(case, rs.ARG_DIFF_DST, case.dt[1], partial(_source, case, 8))]
    reads += [] if "M" in case.flags else [_statistic(case, rs.ARG_MEAN, partial(np.copy, mean))]
    reads += [_statistic(case, rs.ARG_VARIANCE, partial(np.copy, variance))]
    reads += [_weights(case, rs.ARG_SCALE, 2)] if "C" in case.flags else []
    reads += (
        [_open(case, rs.ARG_WORKSPACE, "u8", lambda: whole_numbers(case.dims, 0, 1, 9))] if is_fused else []
    )
    has_weights = case.dir == "BWD_DW"
    writes = [_weights(case, rs.ARG_DIFF_SCALE, 0)] if has_weights and "C" in case.flags else []
    writes += [_weights(case, rs.ARG_DIFF_SHIFT, 0)] if has_weights and "H" in case.flags else []
    writes += [_open(case, rs.ARG_DIFF_SRC_1, case.dt[0])] if "A" in case.flags else []

    def create(engine: rs.Engine, _: rs.Engine) -> Any:
        gradient, diff_dst = (rs.MemoryDesc(case.dims, kind, "any") for kind in case.dt)
        kind = "backward" if has_weights else "backward_data"
        more = {}
        if case.driver == "lnorm":
            more = {"scale_shift_data_type": case.ss_dt, "diff_scale_shift_data_type": case.ss_dt}
        make = _KINDS[case.driver][1].PrimitiveDesc
        hint = _forward_desc(case, engine, None)
        flags = case.words_of_flags
        args = (engine, kind, gradient, diff_dst, src, *case.own, case.eps, flags, attr)
        return make(*args, hint_pd=hint, **more)

    rough = _tolerance(case, case.dt[0], 16)
    weights = _tolerance(case, case.ss_dt, 64)
    return CaseWork(
        create,
        _KINDS[case.driver][1],
        CaseOperand(rs.ARG_SRC, src, _formats(case)[0], values=partial(_source, case)),
        CaseOperand(rs.ARG_DIFF_SRC, rs.MemoryDesc(case.dims, case.dt[0], "any")),
        tuple(reads),
        tuple(writes),
        formula=Formula(
            partial(_gradients, case, mean, variance),
            {
                rs.ARG_DIFF_SRC: rough,
                rs.ARG_DIFF_SRC_1: Tolerance(zeros=100.0),
                rs.ARG_DIFF_SCALE: weights,
                rs.ARG_DIFF_SHIFT: weights,
            },
        ),
        in_place=rs.ARG_DIFF_DST if case.inplace else 0,
    )


def _gradients(case: NormCase, mean: Array, variance: Array, values: Values) -> Values:
    dy = values[rs.ARG_DIFF_DST] * values.get(rs.ARG_WORKSPACE, np.ones(()))
    if "M" in case.flags:
        mean = np.zeros_like(mean)
    normal = _normal(case, values[rs.ARG_SRC], mean, variance)
    scaled = dy * _along(case, values[rs.ARG_SCALE]) if rs.ARG_SCALE in values else dy
    rows, hat = _rows(case, scaled), _rows(case, normal)
    if "G" not in case.flags:
        middle = 0 if "M" in case.flags else rows.mean(1, keepdims=True)
        rows = rows - middle - hat * (rows * hat).mean(1, keepdims=True)
    over = tuple(range(dy.ndim - 1)) if case.driver == "lnorm" else (0, *range(2, dy.ndim))
    return {
        rs.ARG_DIFF_SRC: _data(case, rows / np.sqrt(variance.reshape(-1, 1) + np.float32(case.eps))),
        rs.ARG_DIFF_SRC_1: dy,
        rs.ARG_DIFF_SCALE: (dy * normal).sum(over),
        rs.ARG_DIFF_SHIFT: dy.sum(over),
    }


def _tolerance(case: NormCase, kind: str, factor: float = 1.0) -> Tolerance:
    """Some last places of f32, or one of a narrower type; as much of differences of values of size 1, before
    they are scaled.
    """
    data_type = DataType.parse(kind)
    step = 0.0 if data_type.is_integral else max(epsilon(data_type), 4e-6)
    scales = {each.arg: each.value or 1.0 for each in case.attr_scales}
    size = max(1.0, scales.get("src", 1.0) / scales.get("dst", 1.0))
    return Tolerance(
        step * factor,
        100.0,
        allows=lambda points: np.asarray(points.diff <= step * factor * size),
    )


def _invalid(case: NormCase) -> Iterator[str]:
    if len(case.dims) < 2:
        yield "Invalid case: there is no batch"
    if case.driver == "gnorm" and case.dims[1] % max(case.groups, 1):
        yield f"Invalid case: {case.groups} groups of {case.dims[1]} channels"
    if {"R", "A"} <= set(case.flags):
        yield "Invalid case: two fused functions"
    if case.driver != "bnorm" and {"R", "A"} & set(case.flags):
        yield "Case not supported: a fused relu, batch normalization alone has one"
    if case.driver == "bnorm" and "M" in case.flags:
        yield "Case not supported: rms_norm of batches"
    yield from case.strides.why_invalid(src=case.tag[0], dst=(*case.tag, "any")[1])
    if case.inplace:
        formats = _formats(case)
        yield from why_not_in_place((case.dt[0], formats[0]), (case.dt[1], formats[1]))
    if not case.is_forward and any(DataType.parse(kind).is_integral for kind in case.dt):
        yield "Invalid case: a gradient of integers"


def _work(case: NormCase) -> CaseWork:
    return _forward(case) if case.is_forward else _backward(case)


def _types(case: NormCase) -> tuple[str, ...]:
    return (*case.dt, case.ss_dt)


_TEMPLATE = "%dir%,%dt%,%tag%,%flags%,%DESC%"
BNORM = Driver(BatchNormCase, _BATCH_KNOBS, _work, _types, _TEMPLATE, _invalid, _parse_lettered)
LNORM = Driver(LayerNormCase, _LAYER_KNOBS, _work, _types, _TEMPLATE, _invalid, parse_dims)
GNORM = Driver(GroupNormCase, _KNOBS, _work, _types, _TEMPLATE, _invalid, _parse_lettered)
