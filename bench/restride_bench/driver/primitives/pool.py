"""Pooling: `--pool --alg=max --tag=axb mb2ic16_ih14oh7kh3sh2ph1`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import ml_dtypes
import numpy as np

import restride as rs
from restride import DataType

from ..cases import ATTR_KNOB_NAMES, F32_TWICE, Several
from ..compare import Tolerance, epsilon
from ..driver import Driver
from ..fill import Array, whole_numbers
from ..formulas import finished
from ..knobs import ATTR_KNOBS, Knob, caseless, direction, parse_count, parse_tag, parse_type, several
from ..spatial import SpatialCase, parse_lettered
from ..work import CaseOperand, CaseWork, Formula, Values, attributes

_NAMES = {"max": "max", "avg_np": "avg_exclude_padding", "avg_p": "avg_include_padding"}
_LETTERS = ("mb", "ic", *(f"{kind}{dim}" for kind in "iokspd" for dim in "dhw"))
_NONE = 255  # the position of windows that have none, where a byte holds it


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolCase(SpatialCase):
    """A pooling. `dims` are those of the destination, `source` the spatial ones of the source."""

    driver: ClassVar[str] = "pool"

    source: tuple[int, ...] = ()
    kernel: tuple[int, ...] = ()
    window_strides: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()
    dir: str = "FWD_D"
    dt: Several = F32_TWICE
    tag: str = "abx"
    alg: str = "max"
    mb: int = 0

    def __post_init__(self) -> None:
        if self.mb:
            object.__setattr__(self, "dims", (self.mb, *self.dims[1:]))

    @classmethod
    def order(cls) -> tuple[str, ...]:
        """Names of the knobs as a reproducer line has them."""
        return ("dir", "dt", "tag", "alg", "mb", *ATTR_KNOB_NAMES)

    @property
    def is_forward(self) -> bool:
        """True for the function itself."""
        return self.dir != "BWD_D"

    @property
    def src_dims(self) -> tuple[int, ...]:
        """The dims of the source."""
        return (*self.dims[:2], *self.source)

    @property
    def padding_r(self) -> tuple[int, ...]:
        """The padding behind, which follows from the sizes."""
        sizes = self.dims[2:], self.source, self.kernel
        parts = zip(*sizes, self.window_strides, self.dilation, self.padding, strict=True)
        return tuple((o - 1) * s - i + (k - 1) * (d + 1) + 1 - p for o, i, k, s, d, p in parts)

    @property
    def windows(self) -> tuple[tuple[int, ...], ...]:
        """The numbers that a descriptor takes, in its order."""
        return self.window_strides, self.kernel, self.dilation, self.padding, self.padding_r


def _parse(text: str) -> dict[str, Any]:
    found = parse_lettered(text, _LETTERS)
    windows = found.windows("ic")
    dims = found.whole("mb", 2), found.whole("ic"), *windows.pop("result")
    return {"problem": found.text, "name": found.name, "dims": dims, **windows}


_KNOBS = {
    "dir": direction("dir", "FWD_D", "FWD_I", "BWD_D"),
    "dt": several("dt", parse_type, least=2),
    "tag": Knob("tag", parse_tag),
    "alg": caseless("alg", *_NAMES, also={f"pooling_{name}": alg for alg, name in _NAMES.items()}),
    "mb": Knob("mb", parse_count),
    **ATTR_KNOBS,
}


def _work(case: PoolCase) -> CaseWork:
    return _forward(case) if case.is_forward else _backward(case)


def _forward_desc(case: PoolCase, engine: rs.Engine, attr: rs.PrimitiveAttr | None) -> Any:
    kind = "forward_inference" if case.dir == "FWD_I" else "forward_training"
    src = rs.MemoryDesc(case.src_dims, case.dt[0], case.tag)
    dst = rs.MemoryDesc(case.dims, case.dt[1], "any")
    alg = f"pooling_{_NAMES[case.alg]}"
    return rs.PoolingForward.PrimitiveDesc(engine, kind, alg, src, dst, *case.windows, attr)


def _forward(case: PoolCase) -> CaseWork:
    attr, inputs = attributes(case)
    src = rs.MemoryDesc(case.src_dims, case.dt[0], case.tag)
    leaves = case.alg == "max" and case.dir == "FWD_D"
    open_md = rs.MemoryDesc(case.dims, "s32", "any")
    tolerances = {rs.ARG_DST: _tolerance(case), rs.ARG_WORKSPACE: Tolerance(zeros=100.0)}
    return CaseWork(
        lambda engine, _: _forward_desc(case, engine, attr),
        rs.PoolingForward,
        CaseOperand(rs.ARG_SRC, src, case.tag, values=partial(_values, src, 1, case.alg)),
        CaseOperand(rs.ARG_DST, rs.MemoryDesc(case.dims, case.dt[1], "any")),
        tuple(inputs),
        (CaseOperand(rs.ARG_WORKSPACE, open_md),) if leaves else (),
        formula=Formula(partial(_pooled, case), tolerances),
    )


def _backward(case: PoolCase) -> CaseWork:
    src, dst = (
        rs.MemoryDesc(dims, kind, "any")
        for dims, kind in zip((case.src_dims, case.dims), case.dt, strict=True)
    )
    positions = CaseOperand(
        rs.ARG_WORKSPACE, rs.MemoryDesc(case.dims, "s32", "any"), values=partial(_positions, case)
    )

    def create(engine: rs.Engine, _: rs.Engine) -> Any:
        hint, alg = _forward_desc(case, engine, None), f"pooling_{_NAMES[case.alg]}"
        return rs.PoolingBackward.PrimitiveDesc(engine, alg, src, dst, *case.windows, hint_pd=hint)

    return CaseWork(
        create,
        rs.PoolingBackward,
        CaseOperand(rs.ARG_DIFF_DST, dst, values=partial(_values, dst, 2, case.alg)),
        CaseOperand(rs.ARG_DIFF_SRC, src),
        (positions,) if case.alg == "max" else (),
        formula=Formula(partial(_gradient, case), {rs.ARG_DIFF_SRC: _tolerance(case)}),
    )


_RANGES = {"s8": (-128, 127), "u8": (0, 255), "bf16": (-32, 32), "f16": (-32, 32)}


def _values(md: rs.MemoryDesc, seed: int, alg: str) -> Array:
    """Whole numbers; for averages none is negative, so that sums do not cancel."""
    name = md.data_type.name
    low, high = (-8, 8) if name.startswith("f8") else _RANGES.get(name, (-2048, 2048))
    return whole_numbers(md.dims, low if alg == "max" else 0, high, seed)


# --- the formula --------------------------------------------------------------------------------------------


def _taps(case: PoolCase) -> Iterator[tuple[int, Any, Array]]:
    """For each position of the kernel: its number, where it is in the source, and which windows have it."""
    for number, tap in enumerate(itertools.product(*map(range, case.kernel))):
        at, mask = list[Array](), np.ones((), np.bool_)
        for dim, size in enumerate(case.source):
            starts = np.arange(case.dims[dim + 2]) * case.window_strides[dim] - case.padding[dim]
            places = starts + tap[dim] * (case.dilation[dim] + 1)
            at.append(np.clip(places, 0, size - 1))
            mask = mask[..., None] & (places >= 0) & (places < size)
        yield number, (slice(None), slice(None), *np.ix_(*at)), mask


def _reduced(case: PoolCase, src: Array) -> tuple[Array, Array, Array]:
    """Sums, maxima and their positions."""
    none = _NONE if np.prod(case.kernel) < 256 else 2**31 - 1
    total, place = np.zeros(case.dims), np.full(case.dims, none)
    most = np.full(case.dims, _least(case.dt[1]))
    for number, at, mask in _taps(case):
        found = src[at]
        total += np.where(mask, found, 0)
        # The first of equal ones, the least value of the type among them.
        is_more = mask & ((found > most) | (place == none))
        most, place = np.where(is_more, found, most), np.where(is_more, number, place)
    return total, most, place


def _least(kind: str) -> float:
    data_type = DataType.parse(kind)
    if data_type.is_integral:
        return float(np.iinfo(data_type.numpy).min)
    return float(ml_dtypes.finfo(data_type.numpy).min)


def _summands(case: PoolCase) -> Array | float:
    if case.alg == "avg_p":
        return float(np.prod(case.kernel))
    found = np.zeros(case.dims[2:])
    for _, _, mask in _taps(case):
        found += mask
    return found


def _pooled(case: PoolCase, values: Values) -> Values:
    total, most, place = _reduced(case, values[rs.ARG_SRC])
    with np.errstate(all="ignore"):
        result = most if case.alg == "max" else total / _summands(case)
    return {rs.ARG_DST: finished(case, result, values), rs.ARG_WORKSPACE: place.astype(np.float64)}


def _positions(case: PoolCase) -> Array:
    """What forward leaves of the values that it is filled with."""
    src = rs.MemoryDesc(case.src_dims, case.dt[0], "abx")
    return _reduced(case, _values(src, 1, case.alg))[2]


def _gradient(case: PoolCase, values: Values) -> Values:
    gradient, place = values[rs.ARG_DIFF_DST], values.get(rs.ARG_WORKSPACE)
    out = np.zeros(case.src_dims)
    each = gradient if case.alg == "max" else gradient / _summands(case)
    for number, at, mask in _taps(case):
        part = np.where(mask & (place == number), each, 0) if place is not None else np.where(mask, each, 0)
        np.add.at(out, at, part)
    return {rs.ARG_DIFF_SRC: out}


def _tolerance(case: PoolCase) -> Tolerance:
    threshold = 0.0 if case.alg == "max" else 10 * epsilon(DataType.parse(case.dt[1]))
    has_nan = case.alg == "max" and bool(case.attr_post_ops)
    zeros = 99.0 if case.is_forward else 100.0
    return Tolerance(threshold, zeros, has_nan)


def _invalid(case: PoolCase) -> Iterator[str]:
    if case.alg == "avg_np" and not np.all(_summands(case)):
        yield "Invalid case: an average of windows in the padding alone"


POOL = Driver(
    PoolCase,
    _KNOBS,
    _work,
    lambda case: tuple(case.dt),
    "%dir%,%dt%,%tag%,%alg%,%DESC%",
    _invalid,
    _parse,
)
