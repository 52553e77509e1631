"""What drivers of sums of products share: whole numbers so small that sums are exact in any order, what
becomes of a sum, and how near to it an answer has to be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import restride as rs
from restride import DataType

from .attr_text import FactorText
from .cases import ATTR_KNOB_NAMES, NO_STRIDES_OF_THREE, Case, Several, Strides
from .compare import Tolerance
from .fill import Array, rounded
from .formulas import finished, scale_of, zero_point_of
from .knobs import ATTR_KNOBS, Knob, caseless, parse_count, parse_tag, parse_type, several, strides
from .spatial import SpatialCase
from .work import AppendDepthwise, CaseOperand, CaseWork, Formula, Values, attributes

Finish = Callable[[Any, Array, Values], Array]
"""What makes a result of sums, given the case and what is read."""

F32_THRICE = Several(("f32", "f32", "f32"))
"""The types of source, weights and result by default."""

EXACT = 1 << 24
"""Sums below it are exact as f32, whatever their order."""
_LARGEST_OF = {"f64": 32, "f32": 32, "u8": 8, "s8": 5}
_BYTE = 8
LARGEST = 4
"""The largest factor of most types."""
_READ = {
    "forward": ("src", "weights", "bias"),
    "backward_data": ("weights", "dst"),
    "backward_weights": ("src", "dst"),
}


def numbers(data_type: DataType, dims: Sequence[int], terms: int, seed: int) -> Array:
    """Whole numbers for one of two tensors of which so many products are summed."""
    most = min(_LARGEST_OF.get(data_type.name, LARGEST), int((EXACT / max(terms, 1)) ** 0.5))
    low = 0 if data_type.kind == "uint" else -max(most, 1)
    found: Array = np.random.default_rng(seed).integers(low, max(most, 1), dims, np.int8, endpoint=True)
    # Of one value that were zero, all sums would be.
    found.reshape(-1)[:1] = 1
    if data_type.bits >= _BYTE:
        # Every such type holds them.
        return found.astype(data_type.numpy)
    return np.asarray(rounded(found.astype(np.float64), data_type).astype(np.float64))


def operand(arg: int, md: rs.MemoryDesc, tag: Any, terms: int, seed: int) -> CaseOperand:
    """A tensor of such numbers."""
    return CaseOperand(arg, md, tag, values=partial(numbers, md.data_type, md.dims, terms, seed))


def result_of(
    case: Case,
    values: Values,
    product: Callable[[Array, Array], Array],
    bias: Array | float,
    finish: Finish = finished,
) -> Values:
    """What forward writes: sums of products of what scales and zero points make of the factors, the bias,
    the post-ops, and scales and zero points of the result.
    """
    src, weights = (
        _multiplied(values[arg], zero_point_of(case, name, values), scale_of(case, name, values))
        for name, arg in (("src", rs.ARG_SRC), ("wei", rs.ARG_WEIGHTS))
    )
    return {rs.ARG_DST: finish(case, np.asarray(product(src, weights) + bias), values)}


def _multiplied(factor: Array, zero_point: Array | float, scale: Array | float) -> Array:
    """A factor less its zero points, times its scales."""
    moved = factor if isinstance(zero_point, float) and zero_point == 0.0 else factor - zero_point
    return moved if isinstance(scale, float) and scale == 1.0 else moved * scale


def tolerance(case: Case, zeros: float = 70.0) -> Tolerance:
    """Sums are exact: what is left is the rounding of the result, and of post-ops.

    `zeros` is how many percent of the result may be zero.
    """
    return Tolerance(0.0, zeros)


# --- problems in letters ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductCase(SpatialCase):
    """What convolutions and inner products share. `dims` are those of the result."""

    dir: str = "FWD_B"
    dt: Several = F32_THRICE
    stag: str = "any"
    wtag: str = "any"
    dtag: str = "any"
    strides: Strides = NO_STRIDES_OF_THREE
    bia_dt: str = "undef"
    mb: int = 0

    def __post_init__(self) -> None:
        if self.mb:
            object.__setattr__(self, "dims", (self.mb, *self.dims[1:]))

    @classmethod
    def order(cls) -> tuple[str, ...]:
        """Names of the knobs as a reproducer line has them."""
        return ("dir", "dt", "bia_dt", "stag", "wtag", "dtag", "strides", "mb", *ATTR_KNOB_NAMES)

    @property
    def src_dims(self) -> tuple[int, ...]:
        """The dims of the source."""
        raise NotImplementedError

    @property
    def weight_dims(self) -> tuple[int, ...]:
        """The dims of the weights."""
        raise NotImplementedError

    @property
    def terms(self) -> int:
        """How many products a sum of this direction has, at most."""
        raise NotImplementedError

    @property
    def zeros(self) -> float:
        """How many percent of a result may be zero."""
        return 70.0

    @property
    def direction(self) -> str:
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
        every = zip((self.src_dims, self.weight_dims, self.dims), self.dt, self.formats, strict=True)
        found = {
            name: rs.MemoryDesc(*each) for name, each in zip(("src", "weights", "dst"), every, strict=True)
        }
        if self.bias_type != "undef" and self.direction != "backward_data":
            found["bias"] = rs.MemoryDesc(self.dims[1:2], self.bias_type, "a")
        return found

    @property
    def formats(self) -> tuple[Any, ...]:
        """Tags or strides of source, weights and result."""
        return self.strides.formats(self.stag, self.wtag, self.dtag)

    @property
    def written(self) -> rs.MemoryDesc:
        """What forward writes."""
        return self.mds["dst"]

    def attr_dims(self, arg: str) -> tuple[int, ...]:
        """The dims of the tensor that scales and zero points of an argument are of."""
        return {"src": self.src_dims, "wei": self.weight_dims}.get(arg, self.dims)

    def attr_mask(self, factor: FactorText) -> int:
        """Bit i where dim i has values of its own; outputs are the first dims of weights."""
        ndims = len(self.attr_dims(factor.arg))
        if not factor.arg.endswith("wei") or factor.policy not in ("per_oc", "per_ocic"):
            return factor.mask(ndims)
        outputs = 2 if ndims > len(self.src_dims) else 1
        return (1 << outputs + (factor.policy == "per_ocic")) - 1


PRODUCT_KNOBS = {
    "dir": caseless("dir", "FWD_D", "FWD_B", "FWD_I", "BWD_D", "BWD_W", "BWD_WB"),
    "dt": several("dt", parse_type, least=3),
    "stag": Knob("stag", parse_tag),
    "wtag": Knob("wtag", parse_tag),
    "dtag": Knob("dtag", parse_tag),
    "strides": strides("SRC", "WEI", "DST"),
    "bia-dt": Knob("bia_dt", parse_type),
    "mb": Knob("mb", parse_count),
    **ATTR_KNOBS,
}
_ARGS = {
    "forward": {
        "src": rs.ARG_SRC,
        "weights": rs.ARG_WEIGHTS,
        "bias": rs.ARG_BIAS,
        "dst": rs.ARG_DST,
    },
    "backward_data": {
        "src": rs.ARG_DIFF_SRC,
        "weights": rs.ARG_WEIGHTS,
        "dst": rs.ARG_DIFF_DST,
    },
    "backward_weights": {
        "src": rs.ARG_SRC,
        "weights": rs.ARG_DIFF_WEIGHTS,
        "bias": rs.ARG_DIFF_BIAS,
        "dst": rs.ARG_DIFF_DST,
    },
}
_WRITTEN = {"forward": "dst", "backward_data": "src", "backward_weights": "weights"}
Products = Mapping[str, Callable[[Array, Array], Array]]
"""By direction, the sums of source times weights, of result times weights, or of source times result."""


def product_work(
    case: ProductCase,
    create: Callable[[rs.Engine, rs.PrimitiveAttr], Any],
    primitive: Callable[[Any], Any],
    products: Products,
    finish: Finish = finished,
    depthwise: AppendDepthwise | None = None,
) -> CaseWork:
    """The work of a case, whose primitive descriptor `create` makes; `finish` is what becomes of sums, and
    `depthwise` appends a depthwise convolution to post-ops.
    """
    attr, inputs = attributes(case, depthwise)
    found, direction = _operands(case), case.direction
    reads = [found[name] for name in _READ[direction] if name in found]
    written = found[_WRITTEN[direction]]
    has_sums = direction == "backward_weights" and "bias" in found
    return CaseWork(
        lambda engine, _: create(engine, attr),
        primitive,
        reads[0],
        written,
        (*reads[1:], *inputs),
        (found["bias"],) if has_sums else (),
        sums=any(op.kind == "sum" for op in case.attr_post_ops),
        formula=Formula(
            partial(_formula, case, products, finish),
            {written.arg: tolerance(case, case.zeros), rs.ARG_DIFF_BIAS: tolerance(case)},
        ),
    )


def _operands(case: ProductCase) -> dict[str, CaseOperand]:
    args, tags = _ARGS[case.direction], dict(zip(("src", "weights", "dst"), case.formats, strict=True))
    mds = case.mds
    if case.direction == "forward":
        mds["dst"] = case.written
    return {
        name: operand(args[name], md, tags.get(name, "a"), case.terms, seed)
        for seed, (name, md) in enumerate(mds.items(), 1)
    }


def _formula(case: ProductCase, products: Products, finish: Finish, values: Values) -> Values:
    product, direction = products[case.direction], case.direction
    if direction == "forward":
        bias = values.get(rs.ARG_BIAS)
        spread = 0.0 if bias is None else bias.reshape(-1, *[1] * (len(case.dims) - 2))
        return result_of(case, values, product, spread, finish)
    gradient = values[rs.ARG_DIFF_DST]
    if direction == "backward_data":
        return {rs.ARG_DIFF_SRC: product(gradient, values[rs.ARG_WEIGHTS])}
    return {
        rs.ARG_DIFF_WEIGHTS: product(values[rs.ARG_SRC], gradient),
        rs.ARG_DIFF_BIAS: gradient.sum((0, *range(2, gradient.ndim))),
    }


def invalid_attributes(case: Case, dst_type: str, *, shifts_floats: bool = False) -> Iterator[str]:
    """Why attributes make no sense beside a result of this type; `shifts_floats`: floats have zero points."""
    dst = DataType.parse(dst_type)
    for factor in case.attr_zero_points:
        if factor.arg == "dst" and not dst.is_integral and not shifts_floats:
            yield f"Invalid case: zero points of dst, which is {dst}"
    for op in case.attr_post_ops:
        kind = op.fields[2] if op.kind == "sum" and len(op.fields) > 2 else dst_type
        if DataType.parse(kind).bits != dst.bits:
            yield f"Invalid case: {op} reads {dst} as a type of another size"


def invalid_product(case: ProductCase) -> Iterator[str]:
    """Why a case makes no sense."""
    yield from case.strides.why_invalid(src=case.stag, wei=case.wtag, dst=case.dtag)
    yield from invalid_attributes(case, case.dt[2])
    if case.direction != "forward" and any(DataType.parse(kind).is_integral for kind in case.dt):
        yield "Invalid case: a gradient of integers"
