"""Local response normalization: `--lrn --alg=WITHIN --tag=axb mb2ic16_ih5_ls7beta1.0`."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

import restride as rs
from restride import DataType

from ..attr_text import wrong
from ..cases import ATTR_KNOB_NAMES
from ..compare import Points, Tolerance, epsilon
from ..driver import Driver
from ..fill import Array
from ..knobs import ATTR_KNOBS, Knob, caseless, direction, parse_count, parse_tag, parse_type
from ..spatial import SpatialCase, parse_lettered
from ..work import CaseOperand, CaseWork, Formula, Values, attributes

_LETTERS = ("mb", "ic", "id", "ih", "iw", "ls")
_ALGORITHMS = {"ACROSS": "lrn_across_channels", "WITHIN": "lrn_within_channel"}
_ALPHA = 1 / 8192
_RANGE = 16
# The numbers that tensors are filled by.
_SRC, _DIFF_DST = (1091, 1637), (1279, 1009)


@dataclass(frozen=True, slots=True, kw_only=True)
class LrnCase(SpatialCase):
    """A normalization with its numbers."""

    driver: ClassVar[str] = "lrn"

    local_size: int = 5
    alpha: float = _ALPHA
    beta: float = 0.75
    k: float = 1.0
    dir: str = "FWD_D"
    dt: str = "f32"
    tag: str = "abx"
    alg: str = "ACROSS"
    mb: int = 0

    def __post_init__(self) -> None:
        if self.mb:
            object.__setattr__(self, "dims", (self.mb, *self.dims[1:]))

    @classmethod
    def order(cls) -> tuple[str, ...]:
        """Names of the knobs as a reproducer line has them."""
        return ("dir", "dt", "tag", "alg", "mb", *ATTR_KNOB_NAMES)

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
        """How many positions a window has."""
        return int(self.local_size ** len(self.window_dims))


def _parse(text: str) -> dict[str, Any]:
    found = parse_lettered(text, _LETTERS, ("alpha", "beta", "k"))
    if not found.whole("ic"):
        raise wrong("the problem", text, "ic is needed", "mb2ic16_ih5")
    return {
        "problem": found.text,
        "name": found.name,
        "dims": (found.whole("mb", 2), found.whole("ic"), *found.each("i")),
        "local_size": found.whole("ls", 5),
        "alpha": found.numbers.get("alpha", _ALPHA),
        "beta": found.numbers.get("beta", 0.75),
        "k": found.numbers.get("k", 1.0),
    }


_KNOBS = {
    "dir": direction("dir", "FWD_D", "FWD_I", "BWD_D"),
    "dt": Knob("dt", parse_type),
    "tag": Knob("tag", parse_tag),
    "alg": caseless("alg", *_ALGORITHMS),
    "mb": Knob("mb", parse_count),
    **ATTR_KNOBS,
}


def _work(case: LrnCase) -> CaseWork:
    attr, _ = attributes(case)
    src, like = rs.MemoryDesc(case.dims, case.dt, case.tag), rs.MemoryDesc(case.dims, case.dt, "any")
    alg, kind = _ALGORITHMS[case.alg], "forward_inference" if case.dir == "FWD_I" else "forward_training"
    tolerance = Tolerance(case.summands * 3 * epsilon(DataType.parse(case.dt)))
    source = CaseOperand(rs.ARG_SRC, src, case.tag, values=partial(_values, case, *_SRC))

    def forward(engine: rs.Engine, _: rs.Engine) -> Any:
        own = None if case.dir == "BWD_D" else attr
        return rs.LRNForward.PrimitiveDesc(engine, kind, alg, src, like, *case.numbers, own)

    def backward(engine: rs.Engine, other: rs.Engine) -> Any:
        hint = forward(engine, other)
        return rs.LRNBackward.PrimitiveDesc(engine, alg, like, like, src, *case.numbers, attr, hint_pd=hint)

    if case.dir != "BWD_D":
        formula = Formula(partial(_forward, case), {rs.ARG_DST: tolerance})
        return CaseWork(forward, rs.LRNForward, source, CaseOperand(rs.ARG_DST, like), formula=formula)
    return CaseWork(
        backward,
        rs.LRNBackward,
        source,
        CaseOperand(rs.ARG_DIFF_SRC, like),
        (CaseOperand(rs.ARG_DIFF_DST, like, values=partial(_values, case, *_DIFF_DST)),),
        formula=Formula(
            partial(_backward, case), {rs.ARG_DIFF_SRC: replace(tolerance, allows=partial(_allows, case))}
        ),
    )


def _values(case: LrnCase, step: int, first: int) -> Array:
    """Whole numbers about 0."""
    places = np.arange(np.prod(case.dims), dtype=np.int64)
    least = 0 if case.dt == "u8" else -_RANGE // 2
    return np.asarray(least + (step * places + first) % _RANGE, np.float64).reshape(case.dims)


def _summed(case: LrnCase, x: Array) -> Array:
    """The sum of each window."""
    half, total = (case.local_size - 1) // 2, np.zeros(x.shape)
    dims = case.window_dims
    padded = np.pad(x, [(half, half) if dim in dims else (0, 0) for dim in range(x.ndim)])
    for shift in itertools.product(range(2 * half + 1), repeat=len(dims)):
        starts = dict(zip(dims, shift, strict=True))
        total += padded[tuple(slice(starts.get(d, 0), starts.get(d, 0) + n) for d, n in enumerate(x.shape))]
    return total


def _omega(case: LrnCase, src: Array) -> Array:
    return case.k + case.alpha * _summed(case, src * src) / case.summands


def _forward(case: LrnCase, values: Values) -> Values:
    src = values[rs.ARG_SRC]
    return {rs.ARG_DST: src * _omega(case, src) ** -case.beta}


def _backward(case: LrnCase, values: Values) -> Values:
    src, gradient = values[rs.ARG_SRC], values[rs.ARG_DIFF_DST]
    omega = _omega(case, src)
    part = gradient * omega**-case.beta
    total = _summed(case, part / omega * src)
    return {rs.ARG_DIFF_SRC: part - 2 * case.alpha * case.beta * src * total / case.summands}


def _allows(case: LrnCase, points: Points) -> Array:
    """True for what is near beside the terms that it is the difference of.

    Each term is rounded as f32. Where they cancel, what is left of them is as far off as they are, and no
    sum of f32 has a small relative difference.
    """
    src, gradient = (np.abs(_values(case, *numbers)) for numbers in (_SRC, _DIFF_DST))
    omega = _omega(case, src)
    part = gradient * omega**-case.beta
    terms = part + 2 * case.alpha * case.beta * src * _summed(case, part / omega * src) / case.summands
    limit = case.summands * 3 * epsilon(DataType.f32) * terms.reshape(-1)[points.index]
    return np.asarray(points.diff <= limit)


LRN = Driver(LrnCase, _KNOBS, _work, lambda case: (case.dt,), "%dir%,%dt%,%tag%,%alg%,%DESC%", parse=_parse)
