"""PReLU: `--prelu --dir=BWD_DW --sdt=bf16:f32 3x64x8:1x64x1`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np

import restride as rs
from restride import DataType

from ..cases import Case
from ..compare import Tolerance, epsilon
from ..fill import Array
from ..knobs import F32_TWICE, FOLLOWING, Several, direction, parse_tag, parse_type, several
from ..operands import CaseOperand, Values, desc_of, operand
from ..problems import parse_several_dims


@dataclass(frozen=True, slots=True, kw_only=True)
class PReLUCase(Case):
    """Slopes below zero; one type stands for the source and the weights."""

    driver: ClassVar[str] = "prelu"
    primitive: ClassVar[str] = "PReLU"
    template: ClassVar[str] = "%dir%,%sdt%,%stag%,%DESC%"

    dir: Annotated[str, direction("FWD_D", "FWD_I", "BWD_DW")] = "FWD_D"
    sdt: Annotated[Several, several(parse_type, least=2)] = F32_TWICE
    stag: Annotated[Several, several(parse_tag, least=2)] = FOLLOWING

    @classmethod
    def parse(cls, text: str) -> dict[str, Any]:
        """The dims of source and weights."""
        return parse_several_dims(text)

    @property
    def mds(self) -> list[rs.MemoryDesc]:
        """Source and weights."""
        return [rs.MemoryDesc(*each) for each in zip(self.vdims, self.sdt, self.stag, strict=True)]

    def arguments(self, is_forward: bool) -> dict[str, Any]:
        """All tensors."""
        src, weights = self.mds
        like, like_weights = (desc_of(md.dims, str(md.data_type)) for md in self.mds)
        if is_forward:
            return {"src": src, "weights": weights, "dst": like}
        known = weights
        if weights.format_kind == "any":
            known = self.described(rs.Engine("cpu")).weights_desc()
        gradients = {"diff_src": like, "diff_weights": like_weights, "diff_dst": like}
        return {"src": src, "weights": known, **gradients}

    def reads(self) -> list[CaseOperand]:
        """Source, weights, and the gradient of the result."""
        src, weights = self.mds
        like = desc_of(src.dims, str(src.data_type))
        every = {"src": src, "weights": weights, **({} if self.is_forward else {"diff_dst": like})}
        return [operand(name, md, partial(_values, name, md)) for name, md in every.items()]

    def writes(self) -> list[CaseOperand]:
        """The result, or the gradients of both."""
        names = ["dst"] if self.is_forward else ["diff_src", "diff_weights"]
        likes = [desc_of(md.dims, str(md.data_type)) for md in self.mds]
        return [operand(name, md) for name, md in zip(names, likes, strict=False)]

    def formula(self, values: Values) -> Values:
        """Slopes; and their gradients, those of weights summed where these are repeated."""
        src, weights = values[rs.ARG_SRC], values[rs.ARG_WEIGHTS]
        if self.is_forward:
            return {rs.ARG_DST: np.where(src > 0, src, src * weights)}
        gradient = values[rs.ARG_DIFF_DST]
        repeated = tuple(dim for dim, (n, of) in enumerate(zip(*self.vdims, strict=True)) if n != of)
        terms = np.where(src > 0, 0.0, src * gradient)
        return {
            rs.ARG_DIFF_SRC: np.where(src > 0, gradient, gradient * weights),
            rs.ARG_DIFF_WEIGHTS: terms.sum(repeated, keepdims=True),
        }

    def tolerance(self, arg: int) -> Tolerance:
        """Two roundings."""
        is_sum = arg == rs.ARG_DIFF_WEIGHTS
        return Tolerance(2 * epsilon(DataType.parse(self.sdt[is_sum])), 99.0 if is_sum else 50.0)

    def invalid(self) -> Iterator[str]:
        """Why the case makes no sense."""
        if len(self.vdims) != 2 or len(self.sdt) != 2 or len(self.stag) != 2:
            yield "Invalid case: there are a source and weights"


def _values(name: str, md: rs.MemoryDesc) -> Array:
    """Small whole numbers, powers of two for weights, sixteenths for gradients: sums of them are exact."""
    random = np.random.default_rng(getattr(rs, f"ARG_{name.upper()}"))
    if md.data_type.is_integral:
        values = random.integers(0, 6, md.dims).astype(np.float64)
    elif name == "weights":
        values = (64 >> random.integers(0, 7, md.dims)) / 8
    else:
        values = random.integers(0, 3, md.dims) / (16 if name == "diff_dst" else 1)
    if md.data_type is DataType.u8:
        return np.asarray(values)
    return np.where(random.random(md.dims) < 0.1, -values, values)
