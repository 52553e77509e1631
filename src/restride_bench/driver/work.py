"""A case as restride's objects: descriptors, attributes, and what an execution is passed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

import restride as rs
from restride import DataType

from . import fill
from .attr_text import FactorText, PostOpText
from .cases import Case, ReorderCase, ShuffleCase
from .fill import Bytes

_ARGS = {"src": rs.ARG_SRC, "dst": rs.ARG_DST, "wei": rs.ARG_WEIGHTS, "bia": rs.ARG_BIAS}


@dataclass(frozen=True, slots=True)
class CaseOperand:
    """A memory of an execution: its argument and descriptor, and the `format` that the descriptor is made of.

    `data` fills the storage of an input with so many bytes.
    """

    arg: int
    md: rs.MemoryDesc
    format: Any = None
    data: Callable[[int], Bytes] | None = None


@dataclass(frozen=True, slots=True)
class CaseWork:
    """What a case runs. `create` makes the primitive descriptor, given the engines of source and destination,
    `primitive` the primitive.

    `sums` is true where the old destination is read. `more` are the further outputs.
    `scratchpads` is the one that an execution is passed, or none.
    """

    create: Callable[[rs.Engine, rs.Engine], Any]
    primitive: Callable[[Any], Any]
    src: CaseOperand
    dst: CaseOperand
    inputs: tuple[CaseOperand, ...] = ()
    more: tuple[CaseOperand, ...] = ()
    sums: bool = False
    scratchpads: tuple[CaseOperand, ...] = ()

    def with_scratchpad(self, pd: Any) -> CaseWork:
        """This work with the scratchpad that a primitive descriptor asks for, if it does (R33)."""
        md = pd.scratchpad_desc()
        if md.is_zero():
            return replace(self, scratchpads=())
        pad = CaseOperand(rs.ARG_SCRATCHPAD, md, "a", lambda nbytes: np.full(nbytes, fill.POISON, np.uint8))
        return replace(self, scratchpads=(pad,))

    @property
    def nbytes(self) -> int:
        """Bytes of source and destination, padding included."""
        return int(self.src.md.size + self.dst.md.size)


def make_work(case: Case) -> CaseWork:
    """The work of a case. Raises rs.Error where descriptors or attributes cannot be made."""
    if isinstance(case, ReorderCase):
        return _reorder(case)
    assert isinstance(case, ShuffleCase)
    return _shuffle(case)


# --- reorder -----------------------------------------------------------------------------------------------


def _reorder(case: ReorderCase) -> CaseWork:
    src_format, dst_format = case.strides.src or case.stag, case.strides.dst or case.dtag
    src, dst = rs.MemoryDesc(case.dims, case.sdt, src_format), rs.MemoryDesc(case.dims, case.ddt, dst_format)
    asked = _runtime_dims(case)
    open_src, open_dst = (
        rs.MemoryDesc(asked, case.sdt, src_format),
        rs.MemoryDesc(asked, case.ddt, dst_format),
    )
    attr, inputs = _attr(case)
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


def _attr(case: Case) -> tuple[rs.PrimitiveAttr, list[CaseOperand]]:
    attr, inputs = rs.PrimitiveAttr(), list[CaseOperand]()
    attr.set_scratchpad_mode(case.attr_scratchpad)
    for factor in case.attr_scales:
        inputs += _set_scales(attr, factor, case)
    for factor in case.attr_zero_points:
        inputs += _set_zero_points(attr, factor, case)
    post_ops = rs.PostOps()
    for index, op in enumerate(case.attr_post_ops):
        inputs += _append(post_ops, index, op, case)
    attr.set_post_ops(post_ops)
    flags = {flag.kind: flag.mask for flag in getattr(case, "oflag", ())}
    if flags:
        attr.set_compensation(max(flags.values()), "s8s8_comp" in flags, "zp_comp" in flags)
    return attr, inputs


def _set_scales(attr: rs.PrimitiveAttr, factor: FactorText, case: Case) -> list[CaseOperand]:
    arg, mask, data_type = _arg(factor), factor.mask(len(case.dims)), factor.data_type or "f32"
    if factor.value is not None:
        attr.set_scales(arg, mask, [factor.value], factor.groups, data_type)
        return []
    attr.set_scales(arg, mask, None, factor.groups, data_type)
    kind, given = DataType.parse(data_type), getattr(case, "def_scales", ())
    return [_values(rs.ARG_ATTR_SCALES | arg, factor, case, kind, lambda n: fill.scales_for(n, kind, given))]


def _set_zero_points(attr: rs.PrimitiveAttr, factor: FactorText, case: Case) -> list[CaseOperand]:
    arg, mask, data_type = _arg(factor), factor.mask(len(case.dims)), factor.data_type or "s32"
    if factor.value is not None:
        attr.set_zero_points(arg, mask, [int(factor.value)], factor.groups, data_type)
        return []
    attr.set_zero_points(arg, mask, None, factor.groups, data_type)
    kind = DataType.parse(data_type)
    return [
        _values(rs.ARG_ATTR_ZERO_POINTS | arg, factor, case, kind, lambda n: fill.zero_points_for(n, kind))
    ]


def _values(
    arg: int, factor: FactorText, case: Case, kind: DataType, make: Callable[[int], Bytes]
) -> CaseOperand:
    """One value for each index, or each group of indices, of the masked dims."""
    shared = (1,) * (len(case.dims) - len(factor.groups)) + factor.groups
    mask = factor.mask(len(case.dims))
    extents = [
        n // size if mask >> i & 1 else 1 for i, (n, size) in enumerate(zip(case.dims, shared, strict=True))
    ]
    count = prod(extents)
    return CaseOperand(arg, rs.MemoryDesc((count,), kind, "a"), "a", lambda _: make(count))


def _arg(factor: FactorText) -> int:
    """The number of an argument; restride says itself which of them a reorder has."""
    if factor.arg in _ARGS:
        return _ARGS[factor.arg]
    number = int(factor.arg.lstrip("abcdefghijklmnopqrstuvwxyz_"))
    if factor.arg.startswith("msrc"):
        return rs.ARG_MULTIPLE_SRC + number
    return rs.ARG_SRC + number if factor.arg.startswith("src") else rs.ARG_ATTR_POST_OP_DW + number


def _append(post_ops: rs.PostOps, index: int, op: PostOpText, case: Case) -> list[CaseOperand]:
    """Append one post-op; the operand that it reads, if any."""
    if op.kind == "sum":
        data_type = op.fields[2] if len(op.fields) > 2 else None
        post_ops.append_sum(op.number(0, 1.0), int(op.number(1, 0)), data_type)
        return []
    if op.kind == "eltwise":
        post_ops.append_eltwise(op.name, op.number(0, 0.0), op.number(1, 0.0), op.number(2, 1.0))
        return []
    policy, tag = (*op.fields[1:], "common", "abx")[:2] if len(op.fields) < 3 else op.fields[1:]
    mask = FactorText("dst", policy.lower()).mask(len(case.dims))
    dims = tuple(n if mask >> i & 1 else 1 for i, n in enumerate(case.dims))
    md = rs.MemoryDesc(dims, op.fields[0], "abx" if tag in ("any", "common") else tag)
    post_ops.append_binary(op.name, md)
    return [
        CaseOperand(
            rs.arg_attr_multiple_post_op(index) | rs.ARG_SRC_1, md, tag, lambda _: fill.operand_for(md)
        )
    ]


def _sums(case: ReorderCase, dst: rs.MemoryDesc) -> list[CaseOperand]:
    """The memories for compensation, one s32 for each index of the masked padded dims."""
    args = {"s8s8_comp": rs.ARG_DST_1, "zp_comp": rs.ARG_DST_2}
    return [CaseOperand(args[flag.kind], _sums_desc(flag.mask, dst), "a") for flag in case.oflag]


def _sums_desc(mask: int, dst: rs.MemoryDesc) -> rs.MemoryDesc:
    count = prod(n for i, n in enumerate(dst.padded_dims) if mask >> i & 1)
    return rs.MemoryDesc((count,), "s32", "a")


# --- shuffle -----------------------------------------------------------------------------------------------


def _shuffle(case: ShuffleCase) -> CaseWork:
    md = rs.MemoryDesc(case.dims, case.dt, case.tag)
    attr, _ = _attr(case)
    is_forward = case.dir != "BWD_D"
    reads, writes = (rs.ARG_SRC, rs.ARG_DST) if is_forward else (rs.ARG_DIFF_DST, rs.ARG_DIFF_SRC)

    def create(engine: rs.Engine, _: rs.Engine) -> Any:
        kind = "forward_inference" if case.dir == "FWD_I" else "forward_training"
        # What no forward shuffle can be, such as one of format any, is none to go back from.
        forward = rs.ShuffleForward.Desc(kind, md, case.axis, case.group)
        if is_forward:
            return rs.ShuffleForward.PrimitiveDesc(forward, engine, attr)
        desc = rs.ShuffleBackward.Desc(md, case.axis, case.group)
        return rs.ShuffleBackward.PrimitiveDesc(desc, engine, None, attr)

    return CaseWork(
        create,
        lambda pd: (rs.ShuffleForward if is_forward else rs.ShuffleBackward)(pd),
        CaseOperand(reads, md, case.tag, lambda nbytes: fill.bits_for(md.data_type, nbytes)),
        CaseOperand(writes, md, case.tag),
    )
