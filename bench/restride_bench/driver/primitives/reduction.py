"""Reductions: `--reduction --alg=norm_lp_sum --p=2 --eps=0.5 5x3x2x9:1x3x2x9`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np

import restride as rs
from restride import DataType

from ..cases import Case
from ..compare import Tolerance, epsilon
from ..fill import Array, whole_numbers
from ..formulas import finished
from ..knobs import Real, Tag, TypeName, caseless
from ..operands import CaseOperand, Values, desc_of, operand
from ..problems import parse_several_dims

_FOLDS: dict[str, Callable[..., Array]] = {
    "sum": np.sum,
    "mul": np.prod,
    "max": np.max,
    "min": np.min,
    "mean": np.mean,
}
_NORMS = ("norm_lp_max", "norm_lp_sum", "norm_lp_power_p_max", "norm_lp_power_p_sum")
_NAMES = {f"reduction_{alg}": alg for alg in (*_FOLDS, *_NORMS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionCase(Case):
    """A reduction."""

    driver: ClassVar[str] = "reduction"
    primitive: ClassVar[str] = "Reduction"
    template: ClassVar[str] = "%sdt%,%ddt%,%stag%,%dtag%,%alg%,%DESC%"

    sdt: TypeName = "f32"
    ddt: TypeName = "f32"
    stag: Tag = "abx"
    dtag: Tag = "any"
    alg: Annotated[str, caseless(*_NAMES.values(), also=_NAMES)] = "sum"
    p: Real = 1.0
    eps: Real = 0.0

    def __post_init__(self) -> None:
        if len(self.vdims) == 2:
            object.__setattr__(self, "dims", self.vdims[1])

    @classmethod
    def parse(cls, text: str) -> dict[str, Any]:
        """The dims of source and destination."""
        return parse_several_dims(text)

    def arguments(self, is_forward: bool) -> dict[str, Any]:
        """Both tensors, and the numbers of a norm."""
        src, dst = self.reads()[0].md, self.writes()[0].md
        return {"algorithm": self.alg, "src": src, "dst": dst, "p": self.p, "eps": self.eps}

    def reads(self) -> list[CaseOperand]:
        """The source."""
        return [operand("src", rs.MemoryDesc(self.vdims[0], self.sdt, self.stag), self.source)]

    def writes(self) -> list[CaseOperand]:
        """The destination."""
        old = partial(whole_numbers, self.dims, 0, 4, 2)
        return [operand("dst", desc_of(self.dims, self.ddt, self.dtag), old)]

    def source(self) -> Array:
        """Small whole numbers; for products ones, and a few twos."""
        is_unsigned = DataType.parse(self.sdt).kind == "uint"
        if self.alg != "mul":
            return whole_numbers(self.vdims[0], 0 if is_unsigned else -4, 4, 1)
        ones = np.ones(self.vdims[0])
        ones.reshape(-1)[::37] = 2
        return ones if is_unsigned else ones * np.where(whole_numbers(self.vdims[0], 0, 1, 1), 1, -1)

    def formula(self, values: Values) -> Values:
        """The fold of the dims that differ."""
        x = values[rs.ARG_SRC]
        over = tuple(i for i, (n, out) in enumerate(zip(*self.vdims, strict=True)) if n != out)
        if self.alg in _FOLDS:
            total = _FOLDS[self.alg](x, over, keepdims=True) if over else x
        else:
            total = (np.abs(x) ** self.p).sum(over, keepdims=True) if over else np.abs(x) ** self.p
            total = np.maximum(total, self.eps) if self.alg.endswith("_max") else total + self.eps
            total = total if "power" in self.alg else total ** (1 / self.p)
        return {rs.ARG_DST: finished(self, np.asarray(total), values)}

    def tolerance(self, arg: int) -> Tolerance:
        """A rounding; some more of norms."""
        return Tolerance((5 if self.alg in _NORMS else 1) * epsilon(DataType.parse(self.ddt)), 100.0)

    def invalid(self) -> Iterator[str]:
        """Why the case makes no sense."""
        if len(self.vdims) != 2:
            yield "Invalid case: there are a source and a destination"
        elif any(out not in (1, n) for n, out in zip(*self.vdims, strict=True)):
            yield "Invalid case: a dim of the destination is neither that of the source nor 1"
        if self.alg in _NORMS and self.p < 1:
            yield f"Invalid case: a norm of p {self.p:g}"
