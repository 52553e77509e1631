"""Reorders: `--reorder --sdt=f32 --ddt=s8 --dtag=aBx16b 2x17x3`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import restride as rs
from restride import DataType
from restride.plan.conversion import PROVIDED

from .. import fill
from ..attr_text import Factors, Flags, parse_flags, parse_scales, wrong
from ..cases import ATTR_KNOB_NAMES, NO_STRIDES, Case, Strides
from ..driver import Driver
from ..knobs import ATTR_KNOBS, Knob, caseless, of_value, parse_count, parse_tag, parse_type, strides
from ..work import CaseOperand, CaseWork, attributes

_OURS = tuple(kind.name for kind in PROVIDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReorderCase(Case):
    """A reorder."""

    driver: ClassVar[str] = "reorder"

    sdt: str = "f32"
    ddt: str = "f32"
    stag: str = "abx"
    dtag: str = "abx"
    strides: Strides = NO_STRIDES
    oflag: Flags = ()
    cross_engine: str = "none"
    runtime_dim_mask: int = 0
    def_scales: tuple[float, ...] = ()

    @classmethod
    def order(cls) -> tuple[str, ...]:
        """Names of the knobs as a reproducer line has them."""
        own = ("sdt", "ddt", "stag", "dtag", "strides", "oflag", "cross_engine", "runtime_dim_mask")
        return (*own, *ATTR_KNOB_NAMES, "def_scales")

    @classmethod
    def loops(cls) -> tuple[str, ...]:
        """The same, the outermost loop first: masks of runtime dims are the innermost one."""
        return (*(name for name in cls.order() if name != "runtime_dim_mask"), "runtime_dim_mask")


# --- knobs ---


class _PairKnob(Knob):
    """The knob `--dt=SRC:DST` of a reorder, which sets two fields; one type stands for both."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Both types."""
        return ("sdt", "ddt")

    def settings(self, knob: str, text: str) -> dict[str, tuple[Any, ...]]:
        """The values of both fields. Raises UsageError for pairs that are no product of two lists."""
        pairs = [(part.partition(":")[0], part.partition(":")[2] or part) for part in text.split(",")]
        sides = [
            tuple(dict.fromkeys(self.parse(knob, part) for part in side)) for side in zip(*pairs, strict=True)
        ]
        if len(set(pairs)) != len(sides[0]) * len(sides[1]):
            raise wrong(knob, text, "these pairs are not all combinations", "set --sdt and --ddt in turn")
        return {"sdt": sides[0], "ddt": sides[1]}


def _parse_reals(knob: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(",")) if text else ()
    except ValueError:
        raise wrong(knob, text, "it is numbers with commas between them", "") from None


def _parse_own_scales(text: str) -> Factors:
    found = parse_scales(text)
    named = next((factor for factor in found if factor.policy in ("per_oc", "per_ocic")), None)
    if named is None:
        return found
    why = f"a reorder has no {named.policy}"
    raise wrong("--attr-scales", text, why, "please use per_dim_0 or per_dim_1")


_KNOBS = {
    "sdt": Knob("sdt", parse_type),
    "ddt": Knob("ddt", parse_type),
    "dt": _PairKnob("sdt", parse_type),
    "stag": Knob("stag", parse_tag),
    "dtag": Knob("dtag", parse_tag),
    "strides": strides("SRC", "DST"),
    "oflag": Knob("oflag", of_value(parse_flags)),
    "cross-engine": caseless("cross_engine", "none", "cpu2gpu", "gpu2cpu"),
    "runtime-dim-mask": Knob("runtime_dim_mask", parse_count),
    "def-scales": Knob("def_scales", _parse_reals, is_list=False),
    **ATTR_KNOBS,
    "attr-scales": Knob("attr_scales", of_value(_parse_own_scales)),
}


# --- work ---


def _reorder(case: ReorderCase) -> CaseWork:
    src_format, dst_format = case.strides.formats(case.stag, case.dtag)
    src, dst = rs.MemoryDesc(case.dims, case.sdt, src_format), rs.MemoryDesc(case.dims, case.ddt, dst_format)
    asked = _runtime_dims(case)
    open_src, open_dst = (
        rs.MemoryDesc(asked, case.sdt, src_format),
        rs.MemoryDesc(asked, case.ddt, dst_format),
    )
    attr, inputs = attributes(case)
    flags = {flag.kind: flag.mask for flag in case.oflag}
    if flags:
        attr.set_compensation(max(flags.values()), "s8s8_comp" in flags, "zp_comp" in flags)
    return CaseWork(
        lambda here, there: rs.Reorder.PrimitiveDesc(here, open_src, there, open_dst, attr),
        rs.Reorder,
        CaseOperand(rs.ARG_FROM, src, src_format, lambda nbytes: fill.values_for(src.data_type, nbytes)),
        CaseOperand(rs.ARG_TO, dst, dst_format, lambda nbytes: fill.values_for(dst.data_type, nbytes)),
        tuple(inputs),
        tuple(_sums(case, dst)),
        any(op.kind == "sum" for op in case.attr_post_ops),
    )


def _runtime_dims(case: ReorderCase) -> tuple[int, ...]:
    """The dims, those in the mask left to the execution."""
    return tuple(rs.RUNTIME_DIM if case.runtime_dim_mask >> i & 1 else n for i, n in enumerate(case.dims))


def _sums(case: ReorderCase, dst: rs.MemoryDesc) -> list[CaseOperand]:
    """The memories for compensation, one s32 for each index of the masked padded dims."""
    args = {"s8s8_comp": rs.ARG_DST_1, "zp_comp": rs.ARG_DST_2}
    return [CaseOperand(args[flag.kind], _sums_desc(flag.mask, dst), "a") for flag in case.oflag]


def _sums_desc(mask: int, dst: rs.MemoryDesc) -> rs.MemoryDesc:
    count = prod(n for i, n in enumerate(dst.padded_dims) if mask >> i & 1)
    return rs.MemoryDesc((count,), "s32", "a")


def _invalid(case: ReorderCase) -> Iterator[str]:
    yield from case.strides.why_invalid(src=case.stag, dst=case.dtag)
    for factor in case.attr_zero_points:
        name = {"src": case.sdt, "dst": case.ddt}.get(factor.arg, "s32")
        if name in _OURS and not DataType.parse(name).is_integral:
            yield f"Invalid case: zero points of {factor.arg}, which is {name}"
    if case.oflag and case.ddt not in ("s8", "u8", "s32", "s4", "u4"):
        yield f"Invalid case: compensation of {case.ddt}"
    if len({flag.mask for flag in case.oflag}) > 1:
        yield "Case not supported: two kinds of compensation with different masks"


REORDER = Driver(
    ReorderCase,
    _KNOBS,
    _reorder,
    lambda case: (case.sdt, case.ddt),
    "%sdt%,%ddt%,%stag%,%dtag%,%flags%,%attr%,%DESC%",
    _invalid,
)
