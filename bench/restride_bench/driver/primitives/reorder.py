"""Reorders: `--reorder --sdt=f32 --ddt=s8 --dtag=aBx16b 2x17x3`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Annotated, Any, ClassVar

import restride as rs
from restride import DataType
from restride.plan.conversion import PROVIDED

from .. import fill
from ..attr_text import Factors, Flags, parse_flags, parse_scales, wrong
from ..cases import Case
from ..knobs import (
    NO_STRIDES,
    Count,
    Knob,
    Strides,
    Tag,
    TypeName,
    caseless,
    of_value,
    parse_type,
    strides,
)
from ..operands import CaseOperand, operand

_OURS = tuple(kind.name for kind in PROVIDED)


class PairKnob(Knob):
    """The knob `--dt=SRC:DST` of a reorder, which sets two fields; one type stands for both."""

    def fields(self, own: str) -> tuple[str, ...]:
        """Both types."""
        return ("sdt", "ddt")

    def settings(self, name: str, text: str) -> dict[str, tuple[Any, ...]]:
        """The values of both fields. Raises UsageError for pairs that are no product of two lists."""
        pairs = [(part.partition(":")[0], part.partition(":")[2] or part) for part in text.split(",")]
        sides = [
            tuple(dict.fromkeys(self.parse(f"--{name}", part) for part in side))
            for side in zip(*pairs, strict=True)
        ]
        if len(set(pairs)) != len(sides[0]) * len(sides[1]):
            raise wrong(
                f"--{name}", text, "these pairs are not all combinations", "set --sdt and --ddt in turn"
            )
        return {"sdt": sides[0], "ddt": sides[1]}


def _parse_reals(knob: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(",")) if text else ()
    except ValueError:
        raise wrong(knob, text, "it is numbers with commas between them", "") from None


def _parse_own_scales(text: str) -> Factors:
    factors = parse_scales(text)
    named = next((factor for factor in factors if factor.policy in ("per_oc", "per_ocic")), None)
    if named is None:
        return factors
    why = f"a reorder has no {named.policy}"
    raise wrong("--attr-scales", text, why, "please use per_dim_0 or per_dim_1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReorderCase(Case):
    """A reorder."""

    driver: ClassVar[str] = "reorder"
    primitive: ClassVar[str] = "Reorder"
    template: ClassVar[str] = "%sdt%,%ddt%,%stag%,%dtag%,%flags%,%attr%,%DESC%"
    has_formula: ClassVar[bool] = False
    other_knobs: ClassVar[Mapping[str, Knob]] = {"dt": PairKnob(parse_type)}

    sdt: TypeName = "f32"
    ddt: TypeName = "f32"
    stag: Tag = "abx"
    dtag: Tag = "abx"
    strides: Annotated[Strides, strides("SRC", "DST")] = NO_STRIDES
    oflag: Annotated[Flags, Knob(of_value(parse_flags))] = ()
    cross_engine: Annotated[str, caseless("none", "cpu2gpu", "gpu2cpu")] = "none"
    runtime_dim_mask: Count = 0
    def_scales: Annotated[tuple[float, ...], Knob(_parse_reals, is_list=False)] = ()
    attr_scales: Annotated[Factors, Knob(of_value(_parse_own_scales))] = ()

    @classmethod
    def order(cls) -> list[str]:
        """Names of the knobs as a reproducer line has them."""
        return [*(name for name in super(ReorderCase, cls).order() if name != "def_scales"), "def_scales"]

    @classmethod
    def loops(cls) -> list[str]:
        """The same, the outermost loop first: masks of runtime dims are the innermost one."""
        return sorted(cls.order(), key="runtime_dim_mask".__eq__)

    def mds(self, mask: int = 0) -> tuple[rs.MemoryDesc, ...]:
        """Source and destination, those dims in the mask left to the execution."""
        dims = [rs.RUNTIME_DIM if mask >> i & 1 else n for i, n in enumerate(self.dims)]
        formats = self.strides.formats(self.stag, self.dtag)
        return tuple(rs.MemoryDesc(dims, *each) for each in zip(self.types, formats, strict=True))

    def prepare(self, attr: rs.PrimitiveAttr) -> None:
        """Ask for compensation."""
        flags = {flag.kind: flag.mask for flag in self.oflag}
        if flags:
            attr.set_compensation(max(flags.values()), "s8s8_comp" in flags, "zp_comp" in flags)

    def create(self, engine: rs.Engine, other: rs.Engine, attr: rs.PrimitiveAttr) -> Any:
        """The primitive descriptor on the engines of source and destination."""
        src, dst = self.mds(self.runtime_dim_mask)
        return rs.Reorder.PrimitiveDesc(
            src_engine=engine, src_md=src, dst_engine=other, dst_md=dst, attr=attr
        )

    def reads(self) -> list[CaseOperand]:
        """The source."""
        src, _ = self.mds()
        return [operand("from", src, data=partial(fill.values_for, src.data_type))]

    def writes(self) -> list[CaseOperand]:
        """The destination, and the memories for compensation: an s32 for each index of masked padded dims."""
        _, dst = self.mds()
        written = [operand("to", dst, data=partial(fill.values_for, dst.data_type))]
        for flag in self.oflag:
            count = prod(n for i, n in enumerate(dst.padded_dims) if flag.mask >> i & 1)
            name = {"s8s8_comp": "dst_1", "zp_comp": "dst_2"}[flag.kind]
            written.append(operand(name, rs.MemoryDesc((count,), "s32", "a")))
        return written

    def invalid(self) -> Iterator[str]:
        """Why the case makes no sense, or is not supported."""
        yield from self.strides.why_invalid(src=self.stag, dst=self.dtag)
        for factor in self.attr_zero_points:
            name = {"src": self.sdt, "dst": self.ddt}.get(factor.arg, "s32")
            if name in _OURS and not DataType.parse(name).is_integral:
                yield f"Invalid case: zero points of {factor.arg}, which is {name}"
        if self.oflag and self.ddt not in ("s8", "u8", "s32", "s4", "u4"):
            yield f"Invalid case: compensation of {self.ddt}"
        if len({flag.mask for flag in self.oflag}) > 1:
            yield "Case not supported: two kinds of compensation with different masks"
