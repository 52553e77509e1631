"""Movement of elements: `--reorder --sdt=f32 --ddt=s8 --dtag=aBx16b 2x17x3`, shuffles, concats, sums."""
# ruff: noqa: D102 (what every operation says, its base class explains)

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Annotated, Any, ClassVar

import numpy as np

import restride as rs
from restride import DataType
from restride.ir.conversion import PROVIDED

from .. import fill, knobs
from ..attr_text import Factors, Flags, parse_flags, parse_scales, wrong
from ..cases import Case, why_not_in_place
from ..compare import Tolerance, epsilon
from ..fill import Array
from ..formulas import scale_of
from ..knobs import Knob, Several, of_value, several
from ..operands import CaseOperand, Values, desc_of
from ..problems import parse_several_dims

_OURS = tuple(kind.name for kind in PROVIDED)
_RANGE = 16
_ONE = Several((1.0,))


class PairKnob(Knob):
    """The knob `--dt=SRC:DST` of a reorder, which sets two fields; one type stands for both."""

    def fields(self, own: str) -> tuple[str, ...]:
        return ("sdt", "ddt")

    def settings(self, name: str, text: str) -> dict[str, tuple[Any, ...]]:
        """The values of both fields. Raises UsageError for pairs that are no product of two lists."""
        pairs = [(part.partition(":")[0], part.partition(":")[2] or part) for part in text.split(",")]
        src, dst = (
            tuple(dict.fromkeys(self.parse(f"--{name}", part) for part in side))
            for side in zip(*pairs, strict=True)
        )
        if len(set(pairs)) != len(src) * len(dst):
            why = "these pairs are not all combinations"
            raise wrong(f"--{name}", text, why, "set --sdt and --ddt in turn")
        return {"sdt": src, "ddt": dst}


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
    other_knobs: ClassVar[Mapping[str, Knob]] = {"dt": PairKnob(knobs.parse_type)}
    last_knob: ClassVar[str] = "def_scales"
    innermost_knob: ClassVar[str] = "runtime_dim_mask"

    sdt: knobs.TypeName = "f32"
    ddt: knobs.TypeName = "f32"
    stag: knobs.Tag = "abx"
    dtag: knobs.Tag = "abx"
    strides: knobs.TwoStrides = knobs.NO_STRIDES
    oflag: Annotated[Flags, Knob(of_value(parse_flags))] = ()
    cross_engine: Annotated[str, knobs.caseless("none", "cpu2gpu", "gpu2cpu")] = "none"
    runtime_dim_mask: knobs.Count = 0
    def_scales: Annotated[tuple[float, ...], Knob(_parse_reals, is_list=False)] = ()
    attr_scales: Annotated[Factors, Knob(of_value(_parse_own_scales))] = ()

    def mds(self, mask: int = 0) -> tuple[rs.MemoryDesc, ...]:
        """Source and destination, those dims in the mask left to the execution."""
        dims = [rs.onednn.RUNTIME_DIM if mask >> i & 1 else n for i, n in enumerate(self.dims)]
        formats = self.strides.formats(self.stag, self.dtag)
        return tuple(rs.MemoryDesc(dims, *each) for each in zip(self.types, formats, strict=True))

    def tensors(self, is_forward: bool) -> dict[str, rs.MemoryDesc]:
        src, dst = self.mds()
        found = {"src": src, "dst": dst}
        for flag in self.oflag:
            # Compensation is an s32 for each index of masked padded dims.
            count = prod(n for i, n in enumerate(dst.padded_dims) if flag.mask >> i & 1)
            found[{"s8s8_comp": "dst_1", "zp_comp": "dst_2"}[flag.kind]] = rs.MemoryDesc((count,), "s32", "a")
        return found

    def operand(self, name: str, md: rs.MemoryDesc) -> CaseOperand:
        return CaseOperand(name, md, data=partial(fill.values_for, md.data_type))

    def prepare(self, attr: rs.onednn.PrimitiveAttr) -> None:
        flags = {flag.kind: flag.mask for flag in self.oflag}
        if flags:
            attr.set_compensation(max(flags.values()), "s8s8_comp" in flags, "zp_comp" in flags)

    def create(self, engine: rs.Engine, other: rs.Engine, attr: rs.onednn.PrimitiveAttr) -> Any:
        src, dst = self.mds(self.runtime_dim_mask)
        return rs.onednn.Reorder.PrimitiveDesc(
            src_engine=engine, src_md=src, dst_engine=other, dst_md=dst, attr=attr
        )

    def invalid(self) -> Iterator[str]:
        yield from self.strides.why_invalid(src=self.stag, dst=self.dtag)
        for factor in self.attr_zero_points:
            name = {"src": self.sdt, "dst": self.ddt}.get(factor.arg, "s32")
            if name in _OURS and not DataType.parse(name).is_integral:
                yield f"Invalid case: zero points of {factor.arg}, which is {name}"
        if self.oflag and self.ddt not in ("s8", "u8", "s32", "s4", "u4"):
            yield f"Invalid case: compensation of {self.ddt}"
        if len({flag.mask for flag in self.oflag}) > 1:
            yield "Case not supported: two kinds of compensation with different masks"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffleCase(Case):
    """A shuffle, forward or backward: `--shuffle --dir=BWD_D --tag=axb --group=4 2x12x3`."""

    driver: ClassVar[str] = "shuffle"
    primitive: ClassVar[str] = "Shuffle"
    template: ClassVar[str] = "%dir%,%dt%,%tag%,%group%,%axis%,%DESC%"
    has_formula: ClassVar[bool] = False
    other_knobs: ClassVar[Mapping[str, Knob]] = {"fmt": Knob(knobs.parse_tag, field="tag")}

    dir: knobs.Inference = "FWD_D"
    dt: knobs.TypeName = "f32"
    tag: knobs.Tag = "abx"
    axis: knobs.Axis = 1
    group: knobs.Count = 1

    @property
    def md(self) -> rs.MemoryDesc:
        """Source and destination."""
        return rs.MemoryDesc(self.dims, self.dt, self.tag)

    def tensors(self, is_forward: bool) -> dict[str, rs.MemoryDesc]:
        return dict.fromkeys(("src", "dst") if is_forward else ("diff_dst", "diff_src"), self.md)

    def operand(self, name: str, md: rs.MemoryDesc) -> CaseOperand:
        return CaseOperand(name, md, data=partial(fill.bits_for, md.data_type))

    def create(self, engine: rs.Engine, other: rs.Engine, attr: rs.onednn.PrimitiveAttr) -> Any:
        kind = "forward_inference" if self.dir == "FWD_I" else "forward_training"
        # What no forward shuffle can be, such as one of format any, is none to go back from.
        forward = rs.onednn.ShuffleForward.Desc(kind, self.md, self.axis, self.group)
        if self.is_forward:
            return rs.onednn.ShuffleForward.PrimitiveDesc(forward, engine, attr)
        backward = rs.onednn.ShuffleBackward.Desc(self.md, self.axis, self.group)
        return rs.onednn.ShuffleBackward.PrimitiveDesc(backward, engine, None, attr)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcatCase(Case):
    """A concat: `--concat --stag=abx:axb --axis=1 2x16x3x4:2x16x3x4`."""

    driver: ClassVar[str] = "concat"
    primitive: ClassVar[str] = "Concat"
    template: ClassVar[str] = "%sdt%,%ddt%,%stag%,%dtag%,%axis%,%DESC%"

    sdt: knobs.TypeName = "f32"
    ddt: knobs.TypeName = "f32"
    stag: knobs.Tags = knobs.ROW_MAJOR
    dtag: knobs.Tag = "undef"
    axis: knobs.Axis = 1

    @classmethod
    def parse(cls, text: str) -> dict[str, Any]:
        return parse_several_dims(text)

    @property
    def types(self) -> tuple[str, ...]:
        return self.sdt, self.sdt if self.dtag == "undef" else self.ddt

    @property
    def tags(self) -> tuple[str, ...]:
        """The tag of each source."""
        return self.stag * (len(self.vdims) if len(self.stag) == 1 else 1)

    def tensors(self, is_forward: bool) -> dict[str, rs.MemoryDesc]:
        pairs = enumerate(zip(self.vdims, self.tags, strict=True))
        srcs = {f"msrc{i}": rs.MemoryDesc(dims, self.sdt, tag) for i, (dims, tag) in pairs}
        total = sum(dims[self.axis] for dims in self.vdims)
        dims = tuple(total if i == self.axis else n for i, n in enumerate(self.vdims[0]))
        return {**srcs, "dst": desc_of(dims, self.types[1], self.dtag)}

    def arguments(self, is_forward: bool) -> dict[str, Any]:
        return {"axis": self.axis, **_several(self.tensors(True), self.dtag)}

    def values(self, name: str) -> Array:
        """Whole numbers that both types hold."""
        low, high = 0 if "u8" in self.types else -128, 127 if "s8" in self.types else 255
        index = int(name.removeprefix("msrc"))
        return fill.whole_numbers(self.vdims[index], low, high, index)

    def formula(self, values: Values) -> Values:
        names = [f"msrc{i}" for i in range(len(self.vdims))]
        parts = [values[name] * scale_of(self, name, values) for name in names]
        return {"dst": np.concatenate(parts, self.axis)}

    def tolerance(self, name: str) -> Tolerance:
        return Tolerance(has_nan=True)

    def invalid(self) -> Iterator[str]:
        axis, (first, *others) = self.axis, self.vdims
        if not 0 <= axis < len(first):
            yield f"Invalid case: axis {axis} of {len(first)} dims"
        elif any((*dims[:axis], *dims[axis + 1 :]) != (*first[:axis], *first[axis + 1 :]) for dims in others):
            yield "Invalid case: dims that differ elsewhere than along the axis"
        if len(self.tags) != len(self.vdims):
            yield f"Invalid case: {len(self.tags)} tags for {len(self.vdims)} sources"


@dataclass(frozen=True, slots=True, kw_only=True)
class SumCase(Case):
    """A sum: `--sum --sdt=f32:s8 --ddt=s8 --scales=0.25:2 3x17x5x7`. There are as many sources as types; one
    tag, and one scale, stands for all of them.
    """

    driver: ClassVar[str] = "sum"
    primitive: ClassVar[str] = "Sum"
    template: ClassVar[str] = "%sdt%,%ddt%,%stag%,%dtag%,%DESC%"

    sdt: Annotated[Several, several(knobs.parse_type)] = knobs.F32_TWICE
    ddt: knobs.TypeName = "f32"
    stag: knobs.Tags = knobs.ROW_MAJOR
    dtag: knobs.Tag = "undef"
    scales: Annotated[Several, several(knobs.parse_real)] = _ONE
    inplace: knobs.Flag = False

    @property
    def types(self) -> tuple[str, ...]:
        return (*self.sdt, str(self.sdt[0]) if self.dtag == "undef" else self.ddt)

    def each(self, values: Several) -> tuple[Any, ...]:
        """The tag, or the scale, of each source."""
        return tuple(values) * (len(self.sdt) if len(values) == 1 else 1)

    def tensors(self, is_forward: bool) -> dict[str, rs.MemoryDesc]:
        pairs = enumerate(zip(self.sdt, self.each(self.stag), strict=True))
        srcs = {f"msrc{i}": rs.MemoryDesc(self.dims, kind, tag) for i, (kind, tag) in pairs}
        return {**srcs, "dst": desc_of(self.dims, self.types[-1], self.dtag)}

    def arguments(self, is_forward: bool) -> dict[str, Any]:
        return {"scales": self.each(self.scales), **_several(self.tensors(True), self.dtag)}

    def values(self, name: str) -> Array:
        """Multiples of a sixteenth, or of one and a quarter, which types of 16 bits and integers round."""
        index = int(name.removeprefix("msrc"))
        kind = DataType.parse(self.sdt[index])
        places = np.arange(prod(self.dims), dtype=np.int64)
        least = 0 if kind is DataType.u8 else -_RANGE // 2
        whole = least + (97 * places - 17 * (rs.onednn.Arg.MULTIPLE_SRC + index) + 101) % _RANGE
        is_short = kind in (DataType.bf16, DataType.f16)
        return np.asarray(whole / _RANGE if is_short else whole * (1 + 4 / _RANGE)).reshape(self.dims)

    def formula(self, values: Values) -> Values:
        scales = enumerate(self.each(self.scales))
        return {"dst": np.sum([values[f"msrc{i}"] * scale for i, scale in scales], axis=0)}

    def tolerance(self, name: str) -> Tolerance:
        return Tolerance(epsilon(DataType.parse(self.types[-1])) * len(self.sdt))

    def invalid(self) -> Iterator[str]:
        tags = self.each(self.stag)
        for name, count in (("tags", len(tags)), ("scales", len(self.each(self.scales)))):
            if count != len(self.sdt):
                yield f"Invalid case: {count} {name} for {len(self.sdt)} sources"
        if self.inplace:
            dtag = tags[0] if self.dtag == "undef" else self.dtag
            yield from why_not_in_place((self.sdt[0], tags[0]), (self.types[-1], dtag))


def _several(tensors: Mapping[str, rs.MemoryDesc], dtag: str) -> dict[str, Any]:
    """The sources, and the destination unless it is the primitive's to choose."""
    *srcs, dst = tensors.values()
    return {"srcs": srcs, **({} if dtag == "undef" else {"dst": dst})}
