"""Resampling: `--resampling --alg=linear --tag=axb mb2ic16_ih3oh5_iw11ow11`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

import restride as rs
from restride import DataType

from ..attr_text import wrong
from ..cases import ATTR_KNOB_NAMES
from ..compare import Tolerance, epsilon
from ..driver import Driver
from ..fill import Array
from ..formulas import finished
from ..knobs import ATTR_KNOBS, Knob, caseless, direction, parse_count, parse_tag, parse_type
from ..spatial import SpatialCase, parse_lettered
from ..work import CaseOperand, CaseWork, Formula, Values, attributes

_LETTERS = ("mb", "ic", *(f"{kind}{dim}" for kind in "io" for dim in "dhw"))
_RANGE = 16
_ALGORITHMS = ("nearest", "linear")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResamplingCase(SpatialCase):
    """A resampling. `dims` are those of the destination, `source` the spatial ones of the source."""

    driver: ClassVar[str] = "resampling"

    source: tuple[int, ...] = ()
    dir: str = "FWD_D"
    sdt: str = "f32"
    ddt: str = "f32"
    tag: str = "abx"
    alg: str = "nearest"
    mb: int = 0

    def __post_init__(self) -> None:
        if self.mb:
            object.__setattr__(self, "dims", (self.mb, *self.dims[1:]))

    @classmethod
    def order(cls) -> tuple[str, ...]:
        """Names of the knobs as a reproducer line has them."""
        return ("dir", "sdt", "ddt", "tag", "alg", "mb", *ATTR_KNOB_NAMES)

    @property
    def src_dims(self) -> tuple[int, ...]:
        """The dims of the source."""
        return (*self.dims[:2], *self.source)


def _parse(text: str) -> dict[str, Any]:
    found = parse_lettered(text, _LETTERS)
    source, result = found.each("i"), found.each("o")
    if not found.whole("ic") or not source or len(source) != len(result):
        raise wrong("the problem", text, "ic, a source and a destination are needed", "mb2ic16_ih3oh5")
    dims = found.whole("mb", 2), found.whole("ic"), *result
    return {"problem": found.text, "name": found.name, "dims": dims, "source": source}


_KNOBS = {
    "dir": direction("dir", "FWD_D", "FWD_I", "BWD_D"),
    "sdt": Knob("sdt", parse_type),
    "ddt": Knob("ddt", parse_type),
    "tag": Knob("tag", parse_tag),
    "alg": caseless("alg", *_ALGORITHMS, also={f"resampling_{alg}": alg for alg in _ALGORITHMS}),
    "mb": Knob("mb", parse_count),
    **ATTR_KNOBS,
}


def _work(case: ResamplingCase) -> CaseWork:
    attr, inputs = attributes(case)
    alg, is_forward = f"resampling_{case.alg}", case.dir != "BWD_D"
    src = rs.MemoryDesc(case.src_dims, case.sdt, case.tag if is_forward else "any")
    dst = rs.MemoryDesc(case.dims, case.ddt, "any" if is_forward else case.tag)
    if not is_forward:
        return CaseWork(
            lambda engine, _: rs.ResamplingBackward.PrimitiveDesc(engine, alg, src, dst, attr=attr),
            rs.ResamplingBackward,
            CaseOperand(rs.ARG_DIFF_DST, dst, case.tag, values=partial(_values, dst, 1)),
            CaseOperand(rs.ARG_DIFF_SRC, src),
            formula=Formula(
                partial(_gradient, case), {rs.ARG_DIFF_SRC: _tolerance(case, case.ddt, case.sdt)}
            ),
        )
    kind = "forward_inference" if case.dir == "FWD_I" else "forward_training"
    return CaseWork(
        lambda engine, _: rs.ResamplingForward.PrimitiveDesc(engine, kind, alg, src, dst, attr=attr),
        rs.ResamplingForward,
        CaseOperand(rs.ARG_SRC, src, case.tag, values=partial(_values, src, 0)),
        CaseOperand(rs.ARG_DST, dst, values=partial(_values, dst, 1)),
        tuple(inputs),
        sums=any(op.kind == "sum" for op in case.attr_post_ops),
        formula=Formula(partial(_forward, case), {rs.ARG_DST: _tolerance(case, case.sdt, case.ddt)}),
    )


def _values(md: rs.MemoryDesc, kind: int) -> Array:
    """Multiples of one and a quarter, or of a sixteenth; none is negative."""
    whole = (97 * np.arange(md.nelems, dtype=np.int64) - 19 * kind + 101) % (_RANGE + 1)
    is_plain = md.data_type is DataType.f32 or md.data_type.is_integral
    return np.asarray(whole * (1 + 4 / _RANGE) if is_plain else whole / _RANGE).reshape(md.dims)


def _looks(case: ResamplingCase) -> Iterator[tuple[Any, Array]]:
    """All that the results look at: where in the source, and with which weights."""
    along: list[list[tuple[Array, Array]]] = []
    for size, of in zip(case.dims[2:], case.source, strict=True):
        half = np.float32(0.5)
        at = (np.arange(size, dtype=np.float32) + half) * np.float32(of) / np.float32(size) - half
        if case.alg == "nearest":
            along.append([(np.clip(np.floor(at + 0.5), 0, of - 1).astype(int), np.ones(size))])
            continue
        low = np.floor(at)
        weight = (at - low).astype(np.float64)
        pair = zip((low, low + 1), (1 - weight, weight), strict=True)
        along.append([(np.clip(index, 0, of - 1).astype(int), part) for index, part in pair])
    for chosen in itertools.product(*along):
        weights = np.ones(())
        for _, part in chosen:
            weights = weights[..., None] * part
        yield (slice(None), slice(None), *np.ix_(*(index for index, _ in chosen))), weights


def _forward(case: ResamplingCase, values: Values) -> Values:
    src, result = values[rs.ARG_SRC], np.zeros(case.dims)
    for at, weights in _looks(case):
        result += src[at] * weights
    return {rs.ARG_DST: finished(case, result, values)}


def _gradient(case: ResamplingCase, values: Values) -> Values:
    gradient, result = values[rs.ARG_DIFF_DST], np.zeros(case.src_dims)
    for at, weights in _looks(case):
        np.add.at(result, at, gradient * weights)
    return {rs.ARG_DIFF_SRC: result}


def _tolerance(case: ResamplingCase, read: str, written: str) -> Tolerance:
    before, after = (epsilon(DataType.parse(name)) for name in (read, written))
    threshold = before if before > after else 7 * after
    return Tolerance(0.0 if case.alg == "nearest" else threshold, 99.0)


RESAMPLING = Driver(
    ResamplingCase,
    _KNOBS,
    _work,
    lambda case: (case.sdt, case.ddt),
    "%dir%,%sdt%,%ddt%,%tag%,%alg%,%DESC%",
    parse=_parse,
)
