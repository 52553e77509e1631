"""A case as restride's objects: its attributes, and what an execution reads and writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

import restride as rs
from restride import DataType

from . import fill
from .attr_text import OF_DST, FactorText, PostOpText
from .cases import Case
from .compare import Tolerance
from .operands import CaseOperand, arg_of
from .problems import Dims

ARGS = {
    "src": rs.onednn.Arg.SRC,
    "src1": rs.onednn.Arg.SRC_1,
    "dst": rs.onednn.Arg.DST,
    "wei": rs.onednn.Arg.WEIGHTS,
    "bia": rs.onednn.Arg.BIAS,
    "attr_post_op_dw_wei": rs.onednn.Arg.ATTR_POST_OP_DW | rs.onednn.Arg.WEIGHTS,
    "attr_post_op_dw_dst": rs.onednn.Arg.ATTR_POST_OP_DW | rs.onednn.Arg.DST,
}
"""The arguments of attributes by their names; others have a number in them."""


@dataclass(frozen=True, slots=True)
class CaseWork:
    """The work of a case: its attributes, and all inputs and outputs, source and destination first.

    `scratchpads` is the one that an execution is passed, or none.
    """

    case: Case
    attr: rs.onednn.PrimitiveAttr
    reads: tuple[CaseOperand, ...]
    writes: tuple[CaseOperand, ...]
    scratchpads: tuple[CaseOperand, ...] = ()

    @classmethod
    def of(cls, case: Case) -> CaseWork:
        """The work of a case."""
        attr, inputs = attributes(case)
        return cls(case, attr, (*case.reads(), *inputs), tuple(case.writes()))

    @property
    def src(self) -> CaseOperand:
        """The source."""
        return self.reads[0]

    @property
    def dst(self) -> CaseOperand:
        """The destination."""
        return self.writes[0]

    @property
    def in_place(self) -> int:
        """The argument that is read where the destination is written, 0 for none."""
        if not getattr(self.case, "inplace", False):
            return 0
        return self.src.arg if self.case.is_forward else rs.onednn.Arg.DIFF_DST

    def create(self, engine: rs.Engine, other: rs.Engine) -> Any:
        """The primitive descriptor on the engines of source and destination."""
        return self.case.create(engine, other, self.attr)

    def primitive(self, pd: Any) -> Any:
        """The primitive."""
        return self.case.kind(self.case.is_forward)(pd)

    def chosen(self, pd: Any) -> CaseWork:
        """This work with the formats that a primitive descriptor has chosen, and the scratchpad that it asks
        for, if it does.
        """
        md = pd.scratchpad_desc()
        pad = CaseOperand(rs.onednn.Arg.SCRATCHPAD, md, lambda nbytes: np.full(nbytes, fill.POISON, np.uint8))
        reads, writes = (tuple(one.chosen(pd) for one in group) for group in (self.reads, self.writes))
        return replace(self, reads=reads, writes=writes, scratchpads=() if md.is_zero() else (pad,))

    def tolerance(self, one: CaseOperand) -> Tolerance:
        """The tolerance of results compared with the formula, including attributes."""
        case = self.case
        return replace(case.tolerance(str(one.name)), post_ops=case.attr_post_ops, scales=case.attr_scales)


def attributes(case: Case) -> tuple[rs.onednn.PrimitiveAttr, list[CaseOperand]]:
    """The attributes of a case, and the memories that an execution is passed for them."""
    attr, inputs = rs.onednn.PrimitiveAttr(), list[CaseOperand]()
    attr.set_scratchpad_mode(case.attr_scratchpad)
    given = getattr(case, "def_scales", ())
    for factor in case.attr_scales:
        kind = DataType.parse(factor.data_type or "f32")
        value = None if factor.value is None else [factor.value]
        attr.set_scales(_arg(factor), case.attr_mask(factor), value, factor.groups, kind)
        if value is None:
            inputs.append(
                _factors(
                    rs.onednn.Arg.ATTR_SCALES,
                    factor,
                    case,
                    partial(fill.scales_for, data_type=kind, given=given),
                )
            )
    for factor in case.attr_zero_points:
        kind = DataType.parse(factor.data_type or "s32")
        whole = None if factor.value is None else [int(factor.value)]
        attr.set_zero_points(_arg(factor), case.attr_mask(factor), whole, factor.groups, kind)
        if whole is None:
            inputs.append(
                _factors(
                    rs.onednn.Arg.ATTR_ZERO_POINTS,
                    factor,
                    case,
                    partial(fill.zero_points_for, data_type=kind),
                )
            )
    post_ops = rs.onednn.PostOps()
    for index, op in enumerate(case.attr_post_ops):
        inputs += _append(post_ops, index, op, case)
    attr.set_post_ops(post_ops)
    case.prepare(attr)
    return attr, inputs


def _factors(kind: int, factor: FactorText, case: Case, make: Callable[[int], fill.Bytes]) -> CaseOperand:
    """One value for each index, or each group of indices, of the masked dims."""
    count, default = prod(factor_extents(case, factor)), "f32" if kind == rs.onednn.Arg.ATTR_SCALES else "s32"
    md = rs.MemoryDesc((count,), factor.data_type or default, "a")
    return CaseOperand(kind | _arg(factor), md, lambda _: make(count))


def factor_extents(case: Case, factor: FactorText) -> Dims:
    """Return the number of values of scales or zero points along each dim of their tensor."""
    dims, mask = case.attr_dims(factor.arg), case.attr_mask(factor)
    shared = (1,) * (len(dims) - len(factor.groups)) + factor.groups
    return tuple(
        -(-n // size) if mask >> i & 1 else 1 for i, (n, size) in enumerate(zip(dims, shared, strict=True))
    )


def _arg(factor: FactorText) -> int:
    """The number of an argument; restride says itself which of them a reorder has."""
    if factor.arg in ARGS:
        return ARGS[factor.arg]
    is_of_many = factor.arg.startswith("msrc")
    return arg_of(factor.arg) if is_of_many else rs.onednn.Arg.SRC + int(factor.arg.removeprefix("src"))


def post_op_extents(case: Case, index: int) -> Dims:
    """The dims of the operand of a binary post-op or of a prelu: 1 where it is repeated."""
    mask = case.attr_mask(FactorText("dst", case.attr_post_ops[index].policy))
    return tuple(n if mask >> i & 1 else 1 for i, n in enumerate(case.post_op_dims(index)))


def _append(post_ops: rs.onednn.PostOps, index: int, op: PostOpText, case: Case) -> list[CaseOperand]:
    """Append one post-op; the operands that it reads."""
    if op.kind == "sum":
        data_type = op.fields[2] if len(op.fields) > 2 else None
        post_ops.append_sum(op.number(0, 1.0), int(op.number(1, 0)), data_type)
        return []
    if op.kind == "eltwise":
        name = OF_DST.get(op.name, op.name)
        post_ops.append_eltwise(name, op.number(0, 0.0), op.number(1, 0.0), op.number(2, 1.0))
        return []
    if op.kind == "dw":
        return case.append_depthwise(post_ops, op)
    dims, arg = post_op_extents(case, index), rs.onednn.arg_attr_multiple_post_op(index)
    if op.kind == "prelu":
        md = rs.MemoryDesc((prod(dims),), "f32", "a")
        post_ops.append_prelu(case.attr_mask(FactorText("dst", op.policy)))
    else:
        md = rs.MemoryDesc(dims, op.fields[0], op.format)
        post_ops.append_binary(op.name, md)
    arg |= rs.onednn.Arg.WEIGHTS if op.kind == "prelu" else rs.onednn.Arg.SRC_1
    return [CaseOperand(arg, md, lambda _: fill.operand_for(md))]
