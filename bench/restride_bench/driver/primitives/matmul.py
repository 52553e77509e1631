"""Products of matrices: `--matmul --dt=u8:s8:f32 --wtag=ba --bia-dt=f32 --bia-mask=2 77x133:133x117`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

import restride as rs
from restride import DataType

from ..attr_text import FactorText, wrong
from ..cases import Case
from ..compare import Tolerance
from ..fill import Array
from ..formulas import finished
from ..knobs import (
    F32_THRICE,
    NO_STRIDES_OF_THREE,
    Count,
    Knob,
    Several,
    Strides,
    Tag,
    TypeName,
    matching,
    parse_count,
    parse_type,
    several,
    strides,
)
from ..operands import CaseOperand, Values
from ..problems import Dims, parse_several_dims
from ..products import invalid_attributes, of_numbers, sums_of

_ENCODINGS = r"((csr|coo|packed)?(\+[0-9.]+)?(:(csr|coo|packed)?(\+[0-9.]+)?){2})?"
_GROUPED = r"([01]:[0-9]{1,9}:[0-9]{1,18}(\+[0-9]{1,18})*(:[0-9]{1,18})?)?"

_NO_MASKS = Several()


def _parse_masks(knob: str, text: str) -> Several:
    return Several(parse_count(knob, part) for part in text.split(":")) if text else _NO_MASKS


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulCase(Case):
    """A product. `vdims` are those of both factors, or of all three tensors."""

    driver: ClassVar[str] = "matmul"
    primitive: ClassVar[str] = "Matmul"
    template: ClassVar[str] = "%dt%,%stag%,%dtag%,%DESC%"

    dt: Annotated[Several, several(parse_type, least=3)] = F32_THRICE
    stag: Tag = "any"
    wtag: Tag = "any"
    dtag: Tag = "any"
    strides: Annotated[Strides, strides("SRC", "WEI", "DST")] = NO_STRIDES_OF_THREE
    encoding: Annotated[str, matching(_ENCODINGS, "it is SRC:WEI:DST of csr, coo or packed[+SPARSITY]")] = ""
    grouped: Annotated[str, matching(_GROUPED, "it is DIM:COUNT:SIZE+SIZE…[:LARGEST]")] = ""
    runtime_dims_masks: Annotated[Several, Knob(_parse_masks)] = _NO_MASKS
    bia_dt: TypeName = "undef"
    bia_mask: Count = 2

    @classmethod
    def parse(cls, text: str) -> dict[str, Any]:
        """The dims of the factors, and of the result."""
        problem = parse_several_dims(text)
        first, *others = problem["vdims"]
        if not others or len(first) < 2:
            raise wrong("the problem", text, "it has two factors of 2 dims or more", "77x133:133x117")
        batch = (max(sizes) for sizes in zip(first[:-2], others[0][:-2], strict=True))
        return {**problem, "dims": others[1] if others[1:] else (*batch, first[-2], others[0][-1])}

    @property
    def types(self) -> tuple[str, ...]:
        """The types of all tensors."""
        return (*self.dt, *([] if self.bia_dt == "undef" else [self.bia_dt]))

    @property
    def formats(self) -> tuple[Any, ...]:
        """Tags or strides of source, weights and result."""
        return self.strides.formats(self.stag, self.wtag, self.dtag)

    def attr_dims(self, arg: str) -> Dims:
        """The dims of the tensor that scales and zero points of an argument are of."""
        return {"src": self.vdims[0], "wei": self.vdims[1]}.get(arg, self.dims)

    def attr_mask(self, factor: FactorText) -> int:
        """Bit i where dim i has values of its own: columns are the last dim, rows the one before."""
        columns = 1 << len(self.dims) - 1
        masks = {"per_oc": columns, "per_ocic": columns | columns >> 1}
        return masks.get(factor.policy, factor.mask(len(self.dims)))

    def masks(self) -> dict[str, int]:
        """For each tensor the dims that are left to the execution."""
        of_src, of_weights = (*self.runtime_dims_masks, 0, 0)[:2]
        columns = 1 << len(self.dims) - 1
        batch = (1 << len(self.dims) - 2) - 1
        of_dst = (of_src | of_weights) & batch | of_src & columns >> 1 | of_weights & columns
        return {"src": of_src, "weights": of_weights, "dst": of_dst, "bias": of_dst & self.bia_mask}

    def mds(self, is_open: bool = False) -> dict[str, rs.MemoryDesc]:
        """All tensors, with all dims, or with those that are known before the execution."""
        bias = [n if self.bia_mask >> i & 1 else 1 for i, n in enumerate(self.dims)]
        dims, tags = (*self.vdims[:2], self.dims, bias), (*self.formats, "abx")
        masks = self.masks() if is_open else dict.fromkeys(self.masks(), 0)
        return {
            name: rs.MemoryDesc(
                [rs.RUNTIME_DIM if mask >> i & 1 else n for i, n in enumerate(each)], kind, tag
            )
            for (name, mask), each, kind, tag in zip(masks.items(), dims, self.types, tags, strict=False)
        }

    def arguments(self, is_forward: bool) -> dict[str, Any]:
        """All tensors."""
        return self.mds(is_open=any(self.runtime_dims_masks))

    def operands(self) -> list[CaseOperand]:
        """Source, weights, result, and the bias where there is one."""
        terms = self.vdims[0][-1]
        return [
            of_numbers(name, md, 1 if name == "bias" else terms, seed)
            for seed, (name, md) in enumerate(self.mds().items(), 1)
        ]

    def reads(self) -> list[CaseOperand]:
        """The factors, and the bias."""
        src, weights, _, *bias = self.operands()
        return [src, weights, *bias]

    def writes(self) -> list[CaseOperand]:
        """The result."""
        return self.operands()[2:3]

    def formula(self, values: Values) -> Values:
        """The product, the bias, and what attributes make of them."""

        def product(a: Array, b: Array) -> Array:
            # Of matrices that lie otherwise NumPy makes no call of BLAS.
            return np.asarray(np.matmul(np.ascontiguousarray(a), np.ascontiguousarray(b)))

        total = sums_of(self, values, product) + values.get(rs.ARG_BIAS, 0.0)
        return {rs.ARG_DST: finished(self, np.asarray(total), values)}

    def tolerance(self, arg: int) -> Tolerance:
        """Sums are exact: what is left is the rounding of the result, and of post-ops."""
        return Tolerance(0.0, 70.0)

    def invalid(self) -> Iterator[str]:
        """Why the case makes no sense, or is not supported."""
        for name in ("encoding", "grouped"):
            if getattr(self, name).strip(":"):
                yield f"Case not supported: --{name}={getattr(self, name)}"
                return
        if len(self.vdims) > 3:
            yield "Invalid case: there are two factors and a result"
            return
        yield from self.strides.why_invalid(src=self.stag, wei=self.wtag, dst=self.dtag)
        are_whole = all(DataType.parse(kind).is_integral for kind in self.dt[:2])
        yield from invalid_attributes(self, self.dt[2], shifts_floats=are_whole)
        source = DataType.parse(self.dt[0])
        if source.is_integral and source.bits < 8:
            yield f"Case not supported: a source of {source}; integers of 4 bits are weights alone"
        src, weights = self.vdims[:2]
        if src[-1] != weights[-2]:
            yield f"Invalid case: {src[-1]} columns times {weights[-2]} rows"
        if any(a != b and 1 not in (a, b) for a, b in zip(src[:-2], weights[:-2], strict=True)):
            yield "Invalid case: batch dims that differ, and are not 1"
        if self.bia_dt != "undef" and self.bia_mask >> len(self.dims):
            yield f"Invalid case: the mask {self.bia_mask} of the bias names dims that are not there"
        if any(self.runtime_dims_masks) and "any" in self.formats:
            yield "Invalid case: dims that are known only at execution, and a tag that is any"
        for factor in (*self.attr_scales, *self.attr_zero_points):
            if factor.arg in ("src", "wei") and factor.groups:
                dims = self.attr_dims(factor.arg)[-len(factor.groups) :]
                if any(n % size for n, size in zip(dims, factor.groups, strict=True)):
                    yield f"Invalid case: groups of {factor} do not divide {self.desc}"
