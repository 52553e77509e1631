"""Products of matrices: `--matmul --dt=u8:s8:f32 --wtag=ba --bia-dt=f32 --bia-mask=2 77x133:133x117`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import restride as rs
from restride import DataType

from ..attr_text import FactorText, wrong
from ..cases import ATTR_KNOB_NAMES, NO_STRIDES_OF_THREE, Several, SeveralCase, Strides
from ..driver import Driver
from ..fill import Array
from ..knobs import (
    ATTR_KNOBS,
    Knob,
    matching,
    parse_count,
    parse_several_dims,
    parse_tag,
    parse_type,
    several,
    strides,
)
from ..products import F32_THRICE, invalid_attributes, operand, result_of, tolerance
from ..work import CaseOperand, CaseWork, Formula, Values, attributes

_ENCODINGS = r"((csr|coo|packed)?(\+[0-9.]+)?(:(csr|coo|packed)?(\+[0-9.]+)?){2})?"
_GROUPED = r"([01]:[0-9]{1,9}:[0-9]{1,18}(\+[0-9]{1,18})*(:[0-9]{1,18})?)?"
_NO_MASKS = Several(())
_BYTE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulCase(SeveralCase):
    """A product. `dims` are those of the result; `vdims` those of both factors, or of all three tensors."""

    driver: ClassVar[str] = "matmul"

    dt: Several = F32_THRICE
    stag: str = "any"
    wtag: str = "any"
    dtag: str = "any"
    strides: Strides = NO_STRIDES_OF_THREE
    encoding: str = ""
    grouped: str = ""
    runtime_dims_masks: Several = _NO_MASKS
    bia_dt: str = "undef"
    bia_mask: int = 2

    @classmethod
    def order(cls) -> tuple[str, ...]:
        """Names of the knobs as a reproducer line has them."""
        own = ("dt", "stag", "wtag", "dtag", "strides", "encoding", "grouped", "runtime_dims_masks")
        return (*own, "bia_dt", "bia_mask", *ATTR_KNOB_NAMES)

    @property
    def formats(self) -> tuple[Any, ...]:
        """Tags or strides of source, weights and result."""
        return self.strides.formats(self.stag, self.wtag, self.dtag)

    @property
    def bias_dims(self) -> tuple[int, ...]:
        """The dims of the bias: 1 where it is repeated."""
        return tuple(n if self.bia_mask >> i & 1 else 1 for i, n in enumerate(self.dims))

    def attr_dims(self, arg: str) -> tuple[int, ...]:
        """The dims of the tensor that scales and zero points of an argument are of."""
        return {"src": self.vdims[0], "wei": self.vdims[1]}.get(arg, self.dims)

    def attr_mask(self, factor: FactorText) -> int:
        """Bit i where dim i has values of its own: columns are the last dim, rows the one before."""
        columns = 1 << len(self.dims) - 1
        masks = {"per_oc": columns, "per_ocic": columns | columns >> 1}
        return masks.get(factor.policy, factor.mask(len(self.dims)))


def _parse(text: str) -> dict[str, Any]:
    found = parse_several_dims(text)
    first, *others = found["vdims"]
    if not others or len(first) < 2:
        raise wrong("the problem", text, "it has two factors of 2 dims or more", "77x133:133x117")
    batch = (max(sizes) for sizes in zip(first[:-2], others[0][:-2], strict=True))
    return {**found, "dims": others[1] if others[1:] else (*batch, first[-2], others[0][-1])}


def _parse_masks(knob: str, text: str) -> Several:
    return Several(parse_count(knob, part) for part in text.split(":")) if text else _NO_MASKS


_KNOBS = {
    "dt": several("dt", parse_type, least=3),
    "stag": Knob("stag", parse_tag),
    "wtag": Knob("wtag", parse_tag),
    "dtag": Knob("dtag", parse_tag),
    "strides": strides("SRC", "WEI", "DST"),
    "encoding": Knob("encoding", matching(_ENCODINGS, "it is SRC:WEI:DST of csr, coo or packed[+SPARSITY]")),
    "grouped": Knob("grouped", matching(_GROUPED, "it is DIM:COUNT:SIZE+SIZE…[:LARGEST]")),
    "runtime-dims-masks": Knob("runtime_dims_masks", _parse_masks),
    "bia-dt": Knob("bia_dt", parse_type),
    "bia-mask": Knob("bia_mask", parse_count),
    **ATTR_KNOBS,
}


def _work(case: MatmulCase) -> CaseWork:
    attr, inputs = attributes(case)
    dims = (*case.vdims[:2], case.dims)
    tags, args = case.formats, (rs.ARG_SRC, rs.ARG_WEIGHTS, rs.ARG_DST)
    src, weights, dst = (rs.MemoryDesc(*each) for each in zip(dims, case.dt, tags, strict=True))
    reads: list[CaseOperand] = []
    bias: rs.MemoryDesc | None = None
    if case.bia_dt != "undef":
        bias = rs.MemoryDesc(case.bias_dims, case.bia_dt, "abx")
        reads.append(operand(rs.ARG_BIAS, bias, "abx", 1, 4))
    operands = [
        operand(arg, md, tag, case.vdims[0][-1], seed)
        for seed, (arg, md, tag) in enumerate(zip(args, (src, weights, dst), tags, strict=True), 1)
    ]

    def formula(values: Values) -> Values:
        return result_of(case, values, _product, values.get(rs.ARG_BIAS, 0.0))

    return CaseWork(
        lambda engine, _: rs.Matmul.PrimitiveDesc(engine, *_left_open(case, src, weights, bias, dst), attr),
        rs.Matmul,
        operands[0],
        operands[2],
        (operands[1], *reads, *inputs),
        sums=any(op.kind == "sum" for op in case.attr_post_ops),
        formula=Formula(formula, {rs.ARG_DST: tolerance(case)}),
    )


def _left_open(case: MatmulCase, *mds: rs.MemoryDesc | None) -> list[rs.MemoryDesc | None]:
    """Source, weights, bias and result, with the dims of the masks left to the execution."""
    if not any(case.runtime_dims_masks):
        return list(mds)
    of_src, of_weights = (*case.runtime_dims_masks, 0)[:2]
    columns = 1 << len(case.dims) - 1
    batch = (1 << len(case.dims) - 2) - 1
    of_dst = (of_src | of_weights) & batch | of_src & columns >> 1 | of_weights & columns
    masks = of_src, of_weights, of_dst & case.bia_mask, of_dst
    tags = *case.formats[:2], "abx", case.formats[2]
    return [
        None if md is None else rs.MemoryDesc(_open_dims(md.dims, mask), md.data_type, tag)
        for md, mask, tag in zip(mds, masks, tags, strict=True)
    ]


def _open_dims(dims: tuple[int, ...], mask: int) -> tuple[int, ...]:
    return tuple(rs.RUNTIME_DIM if mask >> i & 1 else n for i, n in enumerate(dims))


def _product(a: Array, b: Array) -> Array:
    # Of matrices that lie otherwise NumPy makes no call of BLAS.
    return np.asarray(np.matmul(np.ascontiguousarray(a), np.ascontiguousarray(b)))


def _invalid(case: MatmulCase) -> Iterator[str]:
    for name in ("encoding", "grouped"):
        if getattr(case, name).strip(":"):
            yield f"Case not supported: --{name}={getattr(case, name)}"
            return
    if len(case.vdims) > 3:
        yield "Invalid case: there are two factors and a result"
        return
    yield from case.strides.why_invalid(src=case.stag, wei=case.wtag, dst=case.dtag)
    are_whole = all(DataType.parse(kind).is_integral for kind in case.dt[:2])
    yield from invalid_attributes(case, case.dt[2], shifts_floats=are_whole)
    source = DataType.parse(case.dt[0])
    if source.is_integral and source.bits < _BYTE:
        yield f"Case not supported: a source of {source}; integers of 4 bits are weights alone"
    src, weights = case.vdims[:2]
    if src[-1] != weights[-2]:
        yield f"Invalid case: {src[-1]} columns times {weights[-2]} rows"
    if any(a != b and 1 not in (a, b) for a, b in zip(src[:-2], weights[:-2], strict=True)):
        yield "Invalid case: batch dims that differ, and are not 1"
    if case.bia_dt != "undef" and case.bia_mask >> len(case.dims):
        yield f"Invalid case: the mask {case.bia_mask} of the bias names dims that are not there"
    if any(case.runtime_dims_masks) and "any" in case.formats:
        yield "Invalid case: dims that are known only at execution, and a tag that is any"
    for name in ("src", "wei"):
        for factor in (*case.attr_scales, *case.attr_zero_points):
            if factor.arg == name and factor.groups:
                yield from _of_groups(case, factor)


def _of_groups(case: MatmulCase, factor: FactorText) -> Iterator[str]:
    dims = case.attr_dims(factor.arg)[-len(factor.groups) :]
    if any(n % size for n, size in zip(dims, factor.groups, strict=True)):
        yield f"Invalid case: groups of {factor} do not divide {case.desc}"


MATMUL = Driver(
    MatmulCase,
    _KNOBS,
    _work,
    lambda case: (*case.dt, *([] if case.bia_dt == "undef" else [case.bia_dt])),
    "%dt%,%stag%,%dtag%,%DESC%",
    _invalid,
    _parse,
)
