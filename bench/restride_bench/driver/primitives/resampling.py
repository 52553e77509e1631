"""Resampling: `--resampling --alg=linear --tag=axb mb2ic16_ih3oh5_iw11ow11`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np

import restride as rs
from restride import DataType

from ..attr_text import wrong
from ..cases import Case
from ..compare import Tolerance, epsilon
from ..fill import Array
from ..formulas import finished
from ..knobs import Count, Inference, Tag, TypeName, caseless
from ..operands import CaseOperand, Values, operand
from ..problems import Dims, parse_lettered

_LETTERS = ("mb", "ic", *(f"{kind}{dim}" for kind in "io" for dim in "dhw"))
_RANGE = 16
_NAMES = {f"resampling_{alg}": alg for alg in ("nearest", "linear")}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResamplingCase(Case):
    """A resampling. `source` are the spatial dims of the source."""

    driver: ClassVar[str] = "resampling"
    primitive: ClassVar[str] = "Resampling"
    template: ClassVar[str] = "%dir%,%sdt%,%ddt%,%tag%,%alg%,%DESC%"
    has_hint: ClassVar[bool] = False

    source: Dims = ()
    dir: Inference = "FWD_D"
    sdt: TypeName = "f32"
    ddt: TypeName = "f32"
    tag: Tag = "abx"
    alg: Annotated[str, caseless(*_NAMES.values(), also=_NAMES)] = "nearest"
    mb: Count = 0

    @classmethod
    def parse(cls, text: str) -> dict[str, Any]:
        """The dims of the result, and the sizes of the source."""
        problem = parse_lettered(text, _LETTERS)
        source, result = problem.each("i"), problem.each("o")
        if not problem.whole("ic") or not source or len(source) != len(result):
            what = "ic, a source and a destination are needed"
            raise wrong("the problem", text, what, "mb2ic16_ih3oh5")
        dims = problem.whole("mb", 2), problem.whole("ic"), *result
        return {**problem.written, "dims": dims, "source": source}

    @property
    def src_dims(self) -> Dims:
        """The dims of the source."""
        return (*self.dims[:2], *self.source)

    def mds(self) -> tuple[rs.MemoryDesc, rs.MemoryDesc]:
        """Source and result, or their gradients; what is written is in the primitive's format."""
        tags = (self.tag, "any") if self.is_forward else ("any", self.tag)
        src = rs.MemoryDesc(self.src_dims, self.sdt, tags[0])
        return src, rs.MemoryDesc(self.dims, self.ddt, tags[1])

    def arguments(self, is_forward: bool) -> dict[str, Any]:
        """Both tensors."""
        names = ("src", "dst") if is_forward else ("diff_src", "diff_dst")
        return {"algorithm": f"resampling_{self.alg}", **dict(zip(names, self.mds(), strict=True))}

    def reads(self) -> list[CaseOperand]:
        """The source, or the gradient of the result."""
        src, dst = self.mds()
        if self.is_forward:
            return [operand("src", src, partial(_values, src, 0))]
        return [operand("diff_dst", dst, partial(_values, dst, 1))]

    def writes(self) -> list[CaseOperand]:
        """The result, or the gradient of the source."""
        src, dst = self.mds()
        return [
            operand("dst", dst, partial(_values, dst, 1)) if self.is_forward else operand("diff_src", src)
        ]

    def looks(self) -> Iterator[tuple[Any, Array]]:
        """All that the results look at: where in the source, and with which weights."""
        along: list[list[tuple[Array, Array]]] = []
        for size, of in zip(self.dims[2:], self.source, strict=True):
            half = np.float32(0.5)
            at = (np.arange(size, dtype=np.float32) + half) * np.float32(of) / np.float32(size) - half
            pairs = [(np.floor(at + 0.5), np.ones(size))]
            if self.alg == "linear":
                low = np.floor(at)
                weight = (at - low).astype(np.float64)
                pairs = [(low, 1 - weight), (low + 1, weight)]
            along.append([(np.clip(index, 0, of - 1).astype(int), part) for index, part in pairs])
        for chosen in itertools.product(*along):
            weights = np.ones(())
            for _, part in chosen:
                weights = weights[..., None] * part
            yield (slice(None), slice(None), *np.ix_(*(index for index, _ in chosen))), weights

    def formula(self, values: Values) -> Values:
        """Weighted sums, or gradients added to where they come from."""
        result = np.zeros(self.dims if self.is_forward else self.src_dims)
        for at, weights in self.looks():
            if self.is_forward:
                result += values[rs.ARG_SRC][at] * weights
            else:
                np.add.at(result, at, values[rs.ARG_DIFF_DST] * weights)
        if self.is_forward:
            return {rs.ARG_DST: finished(self, result, values)}
        return {rs.ARG_DIFF_SRC: result}

    def tolerance(self, arg: int) -> Tolerance:
        """Exact where elements are copied."""
        read, written = (epsilon(DataType.parse(name)) for name in (self.sdt, self.ddt))
        before, after = (read, written) if self.is_forward else (written, read)
        threshold = before if before > after else 7 * after
        return Tolerance(0.0 if self.alg == "nearest" else threshold, 99.0)


def _values(md: rs.MemoryDesc, kind: int) -> Array:
    """Multiples of one and a quarter, or of a sixteenth; none is negative."""
    whole = (97 * np.arange(md.nelems, dtype=np.int64) - 19 * kind + 101) % (_RANGE + 1)
    is_plain = md.data_type is DataType.f32 or md.data_type.is_integral
    return np.asarray(whole * (1 + 4 / _RANGE) if is_plain else whole / _RANGE).reshape(md.dims)
