"""Local response normalization: `--lrn --alg=WITHIN --tag=axb mb2ic16_ih5_ls7beta1.0`."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np

import restride as rs
from restride import DataType

from ..attr_text import wrong
from ..cases import Case
from ..compare import Points, Tolerance, epsilon
from ..fill import Array
from ..knobs import Count, Inference, Tag, TypeName, caseless
from ..operands import CaseOperand, Values, desc_of, operand
from ..problems import parse_lettered

_LETTERS = ("mb", "ic", "id", "ih", "iw", "ls")
_ALGORITHMS = {"ACROSS": "lrn_across_channels", "WITHIN": "lrn_within_channel"}
_ALPHA = 1 / 8192
_RANGE = 16
# The numbers that tensors are filled by.
_SRC, _DIFF_DST = (1091, 1637), (1279, 1009)


@dataclass(frozen=True, slots=True, kw_only=True)
class LrnCase(Case):
    """A normalization with its numbers."""

    driver: ClassVar[str] = "lrn"
    primitive: ClassVar[str] = "LRN"
    template: ClassVar[str] = "%dir%,%dt%,%tag%,%alg%,%DESC%"

    local_size: int = 5
    alpha: float = _ALPHA
    beta: float = 0.75
    k: float = 1.0
    dir: Inference = "FWD_D"
    dt: TypeName = "f32"
    tag: Tag = "abx"
    alg: Annotated[str, caseless(*_ALGORITHMS)] = "ACROSS"
    mb: Count = 0

    @classmethod
    def parse(cls, text: str) -> dict[str, Any]:
        """The dims, and the numbers."""
        problem = parse_lettered(text, _LETTERS, ("alpha", "beta", "k"))
        if not problem.whole("ic"):
            raise wrong("the problem", text, "ic is needed", "mb2ic16_ih5")
        numbers = {"alpha": _ALPHA, "beta": 0.75, "k": 1.0}
        return {
            **problem.written,
            "dims": (problem.whole("mb", 2), problem.whole("ic"), *problem.each("i")),
            "local_size": problem.whole("ls", 5),
            **{name: problem.numbers.get(name, default) for name, default in numbers.items()},
        }

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

    def arguments(self, is_forward: bool) -> dict[str, Any]:
        """Tensors and numbers."""
        src, like = rs.MemoryDesc(self.dims, self.dt, self.tag), desc_of(self.dims, self.dt)
        tensors = {"src": src, **({"dst": like} if is_forward else {"diff_src": like, "diff_dst": like})}
        numbers = dict(zip(("local_size", "alpha", "beta", "k"), self.numbers, strict=True))
        return {"algorithm": _ALGORITHMS[self.alg], **tensors, **numbers}

    def reads(self) -> list[CaseOperand]:
        """The source, and the gradient of the result."""
        src, like = rs.MemoryDesc(self.dims, self.dt, self.tag), desc_of(self.dims, self.dt)
        gradient = [] if self.is_forward else [operand("diff_dst", like, partial(self.values, *_DIFF_DST))]
        return [operand("src", src, partial(self.values, *_SRC)), *gradient]

    def writes(self) -> list[CaseOperand]:
        """The result, or the gradient of the source."""
        return [operand("dst" if self.is_forward else "diff_src", desc_of(self.dims, self.dt))]

    def values(self, step: int, first: int) -> Array:
        """Whole numbers about 0."""
        places = np.arange(np.prod(self.dims), dtype=np.int64)
        least = 0 if self.dt == "u8" else -_RANGE // 2
        return np.asarray(least + (step * places + first) % _RANGE, np.float64).reshape(self.dims)

    def summed(self, x: Array) -> Array:
        """The sum of each window."""
        half, total, dims = (self.local_size - 1) // 2, np.zeros(x.shape), self.window_dims
        padded = np.pad(x, [(half, half) if dim in dims else (0, 0) for dim in range(x.ndim)])
        for shift in itertools.product(range(2 * half + 1), repeat=len(dims)):
            at = dict(zip(dims, shift, strict=True))
            total += padded[tuple(slice(at.get(d, 0), at.get(d, 0) + n) for d, n in enumerate(x.shape))]
        return total

    def omega(self, src: Array) -> Array:
        """What the source is divided by, before its exponent."""
        return self.k + self.alpha * self.summed(src * src) / self.summands

    def terms(self, src: Array, gradient: Array) -> tuple[Array, Array]:
        """The two terms that the gradient of the source is the difference of."""
        omega = self.omega(src)
        part = gradient * omega**-self.beta
        total = self.summed(part / omega * src)
        return part, 2 * self.alpha * self.beta * src * total / self.summands

    def formula(self, values: Values) -> Values:
        """The normalization, or the gradient of its source."""
        src = values[rs.ARG_SRC]
        if self.is_forward:
            return {rs.ARG_DST: src * self.omega(src) ** -self.beta}
        return {rs.ARG_DIFF_SRC: np.subtract(*self.terms(src, values[rs.ARG_DIFF_DST]))}

    def tolerance(self, arg: int) -> Tolerance:
        """Some roundings for each position of a window."""
        near = Tolerance(self.summands * 3 * epsilon(DataType.parse(self.dt)))
        return near if self.is_forward else replace(near, allows=self.is_near)

    def is_near(self, points: Points) -> Array:
        """True for what is near beside the terms that it is the difference of.

        Each term is rounded as f32. Where they cancel, what is left of them is as far off as they are, and no
        sum of f32 has a small relative difference.
        """
        terms = np.add(*self.terms(*(np.abs(self.values(*numbers)) for numbers in (_SRC, _DIFF_DST))))
        limit = self.summands * 3 * epsilon(DataType.f32) * terms.reshape(-1)[points.index]
        return np.asarray(points.diff <= limit)
