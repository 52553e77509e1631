"""What operations of sums of products share: whole numbers so small that sums are exact in any order, and
what becomes of a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np

import restride as rs
from restride import DataType

from .attr_text import FactorText
from .cases import Case, bits_of
from .compare import Tolerance
from .fill import Array, rounded
from .formulas import finished, scale_of, zero_point_of
from .knobs import (
    F32_THRICE,
    NO_STRIDES_OF_THREE,
    Count,
    Several,
    Strides,
    Tag,
    TypeName,
    caseless,
    parse_type,
    several,
    strides,
)
from .operands import CaseOperand, Values, operand
from .problems import Dims

EXACT = 1 << 24
"""Sums below it are exact as f32, whatever their order."""
LARGEST = 4
"""The largest factor of most types."""
_LARGEST_OF = {"f64": 32, "f32": 32, "u8": 8, "s8": 5}
_READ = {
    "forward": ("src", "weights", "bias"),
    "backward_data": ("weights", "dst"),
    "backward_weights": ("src", "dst"),
}
_WRITTEN = {"forward": "dst", "backward_data": "src", "backward_weights": "weights"}
_GRADIENTS = {"forward": (), "backward_data": ("src", "dst"), "backward_weights": ("weights", "bias", "dst")}


def numbers(data_type: DataType, dims: Sequence[int], terms: int, seed: int) -> Array:
    """Whole numbers for one of two tensors of which so many products are summed."""
    most = min(_LARGEST_OF.get(data_type.name, LARGEST), int((EXACT / max(terms, 1)) ** 0.5))
    low = 0 if data_type.kind == "uint" else -max(most, 1)
    values: Array = np.random.default_rng(seed).integers(low, max(most, 1), dims, np.int8, endpoint=True)
    # Of one value that were zero, all sums would be.
    values.reshape(-1)[:1] = 1
    if data_type.bits >= 8:
        # Every such type holds them.
        return values.astype(data_type.numpy)
    return np.asarray(rounded(values.astype(np.float64), data_type).astype(np.float64))


def of_numbers(arg: str | int, md: rs.MemoryDesc, terms: int, seed: int) -> CaseOperand:
    """A tensor of such numbers."""
    return operand(arg, md, partial(numbers, md.data_type, md.dims, terms, seed))


def sums_of(case: Case, values: Values, product: Callable[[Array, Array], Array]) -> Array:
    """Sums of products of what scales and zero points make of the factors."""
    factors = []
    for name, arg in (("src", rs.ARG_SRC), ("wei", rs.ARG_WEIGHTS)):
        zero_point, scale = zero_point_of(case, name, values), scale_of(case, name, values)
        # A copy of large weights that nothing changes is a copy too many.
        moved = values[arg] if isinstance(zero_point, float) and not zero_point else values[arg] - zero_point
        factors.append(moved if isinstance(scale, float) and scale == 1.0 else moved * scale)
    return product(*factors)


def invalid_attributes(case: Case, dst_type: str, *, shifts_floats: bool = False) -> Iterator[str]:
    """Why attributes make no sense beside a result of this type; `shifts_floats`: floats have zero points."""
    dst = DataType.parse(dst_type)
    for factor in case.attr_zero_points:
        if factor.arg == "dst" and not dst.is_integral and not shifts_floats:
            yield f"Invalid case: zero points of dst, which is {dst}"
    for op in case.attr_post_ops:
        kind = op.fields[2] if op.kind == "sum" and len(op.fields) > 2 else dst_type
        if bits_of(kind) != dst.bits:
            yield f"Invalid case: {op} reads {dst} as a type of another size"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductCase(Case):
    """What convolutions and inner products share."""

    dir: Annotated[str, caseless("FWD_D", "FWD_B", "FWD_I", "BWD_D", "BWD_W", "BWD_WB")] = "FWD_B"
    dt: Annotated[Several, several(parse_type, least=3)] = F32_THRICE
    bia_dt: TypeName = "undef"
    stag: Tag = "any"
    wtag: Tag = "any"
    dtag: Tag = "any"
    strides: Annotated[Strides, strides("SRC", "WEI", "DST")] = NO_STRIDES_OF_THREE
    alg: str = "direct"
    mb: Count = 0

    @property
    def src_dims(self) -> Dims:
        """The dims of the source."""
        raise NotImplementedError

    @property
    def weight_dims(self) -> Dims:
        """The dims of the weights."""
        raise NotImplementedError

    @property
    def terms(self) -> int:
        """How many products a sum of this direction has, at most."""
        raise NotImplementedError

    def product(self, first: Array, second: Array) -> Array:
        """By direction, sums of source times weights, of result times weights, or of source times result."""
        raise NotImplementedError

    def finish(self, total: Array, values: Values) -> Array:
        """What becomes of sums."""
        return finished(self, total, values)

    @property
    def zeros(self) -> float:
        """How many percent of a result may be zero."""
        return 70.0

    @property
    def propagation(self) -> str:
        """`forward`, `backward_data` or `backward_weights`."""
        if self.dir.startswith("FWD"):
            return "forward"
        return "backward_data" if self.dir == "BWD_D" else "backward_weights"

    @property
    def bias_type(self) -> str:
        """The type of the bias, undef for none; with a direction that names a bias, f32, or f64 of f64."""
        if self.dir in ("FWD_B", "BWD_WB"):
            return "f64" if self.dt[1] == "f64" else "f32"
        return self.bia_dt

    @property
    def types(self) -> tuple[str, ...]:
        """The types of all tensors."""
        return (*self.dt, *({self.bias_type} - {"undef"}))

    @property
    def mds(self) -> dict[str, rs.MemoryDesc]:
        """Source, weights, result, and the bias where there is one."""
        formats = self.strides.formats(self.stag, self.wtag, self.dtag)
        every = zip((self.src_dims, self.weight_dims, self.dims), self.dt, formats, strict=True)
        mds = {
            name: rs.MemoryDesc(*each) for name, each in zip(("src", "weights", "dst"), every, strict=True)
        }
        if self.bias_type != "undef" and self.propagation != "backward_data":
            mds["bias"] = rs.MemoryDesc(self.dims[1:2], self.bias_type, "a")
        return mds

    @property
    def written(self) -> rs.MemoryDesc:
        """What forward writes."""
        return self.mds["dst"]

    def attr_dims(self, arg: str) -> Dims:
        """The dims of the tensor that scales and zero points of an argument are of."""
        return {"src": self.src_dims, "wei": self.weight_dims}.get(arg, self.dims)

    def attr_mask(self, factor: FactorText) -> int:
        """Bit i where dim i has values of its own; outputs are the first dims of weights."""
        ndims = len(self.attr_dims(factor.arg))
        if not factor.arg.endswith("wei") or factor.policy not in ("per_oc", "per_ocic"):
            return factor.mask(ndims)
        outputs = 2 if ndims > len(self.src_dims) else 1
        return (1 << outputs + (factor.policy == "per_ocic")) - 1

    def named(self, name: str, is_forward: bool = False) -> str:
        """A tensor by the name that it has in this direction: `diff_src`."""
        return f"diff_{name}" if name in _GRADIENTS["forward" if is_forward else self.propagation] else name

    def arguments(self, is_forward: bool) -> dict[str, Any]:
        """All tensors."""
        return {self.named(name, is_forward): md for name, md in self.mds.items()}

    def operands(self, *names: str) -> list[CaseOperand]:
        """Those of these tensors that there are."""
        mds = {**self.mds, **({"dst": self.written} if self.is_forward else {})}
        return [
            of_numbers(self.named(name), mds[name], self.terms, 1 + list(mds).index(name))
            for name in names
            if name in mds
        ]

    def reads(self) -> list[CaseOperand]:
        """Two factors, and forward the bias."""
        return self.operands(*_READ[self.propagation])

    def writes(self) -> list[CaseOperand]:
        """The third, and with the gradient of weights that of the bias."""
        more = ["bias"] if self.propagation == "backward_weights" else []
        return self.operands(_WRITTEN[self.propagation], *more)

    def formula(self, values: Values) -> Values:
        """Sums of products with the bias, or gradients."""
        if self.is_forward:
            bias = values.get(rs.ARG_BIAS)
            spread = 0.0 if bias is None else bias.reshape(-1, *[1] * (len(self.dims) - 2))
            return {rs.ARG_DST: self.finish(np.asarray(sums_of(self, values, self.product) + spread), values)}
        gradient = values[rs.ARG_DIFF_DST]
        if self.propagation == "backward_data":
            return {rs.ARG_DIFF_SRC: self.product(gradient, values[rs.ARG_WEIGHTS])}
        bias = gradient.sum((0, *range(2, gradient.ndim)))
        return {rs.ARG_DIFF_WEIGHTS: self.product(values[rs.ARG_SRC], gradient), rs.ARG_DIFF_BIAS: bias}

    def tolerance(self, arg: int) -> Tolerance:
        """Sums are exact: what is left is the rounding of the result, and of post-ops."""
        return Tolerance(0.0, 70.0 if arg == rs.ARG_DIFF_BIAS else self.zeros)

    def invalid(self) -> Iterator[str]:
        """Why the case makes no sense."""
        yield from self.strides.why_invalid(src=self.stag, wei=self.wtag, dst=self.dtag)
        yield from invalid_attributes(self, self.dt[2])
        if not self.is_forward and any(DataType.parse(kind).is_integral for kind in self.dt):
            yield "Invalid case: a gradient of integers"
