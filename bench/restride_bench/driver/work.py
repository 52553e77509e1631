"""A case as restride's objects: descriptors, attributes, and what an execution is passed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

import restride as rs
from restride import DataType
from restride.desc.layout import layout_digits
from restride.desc.tags import Tag
from restride.runtime.result_pool import allocate

from . import fill
from .attr_text import OF_DST, FactorText, PostOpText
from .cases import Case
from .compare import Tolerance
from .fill import Array, Bytes, rounded

ARGS = {
    "src": rs.ARG_SRC,
    "src1": rs.ARG_SRC_1,
    "dst": rs.ARG_DST,
    "wei": rs.ARG_WEIGHTS,
    "bia": rs.ARG_BIAS,
    "attr_post_op_dw_wei": rs.ARG_ATTR_POST_OP_DW | rs.ARG_WEIGHTS,
    "attr_post_op_dw_dst": rs.ARG_ATTR_POST_OP_DW | rs.ARG_DST,
}
"""The arguments of attributes by their names; others have a number in them."""


@dataclass(frozen=True, slots=True)
class CaseOperand:
    """A memory of an execution: its argument and descriptor, and the `format` that the descriptor is made of.

    Inputs have `data`, which fills the storage with so many bytes, or `values`, which are its elements in
    logical order, rounded to the type when they are stored. A descriptor of format "any", or none, is the
    primitive's to choose.
    """

    arg: int
    md: rs.MemoryDesc
    format: Any = None
    data: Callable[[int], Bytes] | None = None
    values: Callable[[], Array] | None = None

    def chosen(self, pd: Any) -> CaseOperand:
        """The same in the format that a primitive descriptor has chosen, or has been told."""
        if self.md.format_kind == "blocked" and self.format is not None:
            return self
        md = self.md if self.md.format_kind == "blocked" else pd.query_md("exec_arg_md", self.arg)
        # What follows strides has gaps, too.
        format = Tag(md.outer_order, *md.layout.inner) if md.layout.inner[0] else md.strides
        return replace(self, md=md, format=format)

    def filled(self) -> Bytes:
        """The bytes of an input."""
        if self.values is not None:
            return stored(self.md, self.values())
        assert self.data is not None
        return self.data(self.md.size)


Values = Mapping[int, Array]
"""Elements in logical order, by argument, as f64."""


@dataclass(frozen=True, slots=True)
class Formula:
    """What an answer has to be near to: `of` computes it in f64 of what is read, `tolerances` say how near.

    Both are by argument. An old destination that is summed is among what is read.
    """

    of: Callable[[Values], Values]
    tolerances: Mapping[int, Tolerance]


@dataclass(frozen=True, slots=True)
class CaseWork:
    """What a case runs. `create` makes the primitive descriptor, given the engines of source and destination,
    `primitive` the primitive.

    `sums` is true where the old destination is read. `inputs` and `more` are what is read and written beside
    source and destination. `formula` says what is right; without one it is what the reference engine does,
    bit by bit. `in_place`: the argument that is read where the destination is written, 0 for none.
    `scratchpads` is the one that an execution is passed, or none.
    """

    create: Callable[[rs.Engine, rs.Engine], Any]
    primitive: Callable[[Any], Any]
    src: CaseOperand
    dst: CaseOperand
    inputs: tuple[CaseOperand, ...] = ()
    more: tuple[CaseOperand, ...] = ()
    sums: bool = False
    formula: Formula | None = None
    in_place: int = 0
    scratchpads: tuple[CaseOperand, ...] = ()

    @property
    def reads(self) -> tuple[CaseOperand, ...]:
        """All that is read."""
        return (self.src, *self.inputs)

    @property
    def writes(self) -> tuple[CaseOperand, ...]:
        """All that is written, and checked."""
        return (self.dst, *self.more)

    def chosen(self, pd: Any) -> CaseWork:
        """This work with the formats that a primitive descriptor has chosen, and the scratchpad that it asks
        for, if it does.
        """
        md = pd.scratchpad_desc()
        pad = CaseOperand(rs.ARG_SCRATCHPAD, md, "a", lambda nbytes: np.full(nbytes, fill.POISON, np.uint8))
        return replace(
            self,
            src=self.src.chosen(pd),
            dst=self.dst.chosen(pd),
            inputs=tuple(one.chosen(pd) for one in self.inputs),
            more=tuple(one.chosen(pd) for one in self.more),
            scratchpads=() if md.is_zero() else (pad,),
        )


def stored(md: rs.MemoryDesc, values: Array) -> Bytes:
    """The storage of a tensor with these elements, rounded to its type."""
    engine, held = rs.Engine("cpu"), allocate(md.size).bytes()
    held[...] = 0
    if not md.nelems:
        return held
    if md.data_type.bits >= 8 and _fill(md, held, rounded(values, md.data_type)):
        return held
    # An array has no elements of 4 bits.
    kind = md.data_type if md.data_type.bits >= 8 else DataType.f32
    dense = rs.Memory(rs.MemoryDesc(md.dims, kind), engine, rounded(values, kind))
    dst = rs.Memory(md, engine, held)
    rs.Reorder(dense, dst).execute(rs.Stream(engine), dense, dst)
    return held


def _fill(md: rs.MemoryDesc, held: Bytes, values: Array) -> bool:
    """Write elements with NumPy, which needs no kernel; False where the storage ends inside a block."""
    # NumPy strides no types that it does not have itself.
    values = values.view(f"u{values.itemsize}")
    digits = sorted(layout_digits(md.layout), key=lambda level: (level.axis, -level.weight))
    shape, strides = [level.extent for level in digits], [level.stride for level in digits]
    reach = md.offset0 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True)) + 1
    if reach * values.itemsize > held.size or min(strides, default=0) < 0:
        return False
    whole = [blocks * block for blocks, block in zip(md.layout.outer_extents, md.layout.blocks, strict=True)]
    padded = np.zeros(whole, values.dtype)
    padded[tuple(slice(n) for n in md.dims)] = values.reshape(md.dims)
    elements = held[: held.size // values.itemsize * values.itemsize].view(values.dtype)[md.offset0 :]
    steps = [step * values.itemsize for step in strides]
    np.lib.stride_tricks.as_strided(elements, shape, steps)[...] = padded.reshape(shape)
    return True


def desc_of(dims: Sequence[int], data_type: str, tag: str) -> rs.MemoryDesc:
    """The descriptor of a tensor; of the tag undef, which leaves it out, one that is for the primitive."""
    return rs.MemoryDesc(dims, data_type, "any" if tag == "undef" else tag)


def why_not_in_place(src: tuple[str, Any], dst: tuple[str, Any]) -> Iterator[str]:
    """Why a tensor of this type and tag cannot lie where another one does."""
    if DataType.parse(src[0]).bits != DataType.parse(dst[0]).bits:
        yield f"Invalid case: in place with elements of two sizes, {src[0]} and {dst[0]}"
    elif dst[1] not in ("any", src[1]):
        yield f"Invalid case: in place with two tags, {src[1]} and {dst[1]}"


# --- attributes --------------------------------------------------------------------------------------------


AppendDepthwise = Callable[[rs.PostOps, PostOpText], list[CaseOperand]]
"""What appends a depthwise convolution to post-ops, and gives the operands that it reads."""


def attributes(
    case: Case, depthwise: AppendDepthwise | None = None
) -> tuple[rs.PrimitiveAttr, list[CaseOperand]]:
    """The attributes of a case, and the memories that an execution is passed for them."""
    attr, inputs = rs.PrimitiveAttr(), list[CaseOperand]()
    attr.set_scratchpad_mode(case.attr_scratchpad)
    for factor in case.attr_scales:
        inputs += _set_scales(attr, factor, case)
    for factor in case.attr_zero_points:
        inputs += _set_zero_points(attr, factor, case)
    post_ops = rs.PostOps()
    for index, op in enumerate(case.attr_post_ops):
        inputs += _append(post_ops, index, op, case, depthwise)
    attr.set_post_ops(post_ops)
    return attr, inputs


def _set_scales(attr: rs.PrimitiveAttr, factor: FactorText, case: Case) -> list[CaseOperand]:
    arg, mask, data_type = _arg(factor), case.attr_mask(factor), factor.data_type or "f32"
    if factor.value is not None:
        attr.set_scales(arg, mask, [factor.value], factor.groups, data_type)
        return []
    attr.set_scales(arg, mask, None, factor.groups, data_type)
    kind, given = DataType.parse(data_type), getattr(case, "def_scales", ())
    return [_values(rs.ARG_ATTR_SCALES | arg, factor, case, kind, lambda n: fill.scales_for(n, kind, given))]


def _set_zero_points(attr: rs.PrimitiveAttr, factor: FactorText, case: Case) -> list[CaseOperand]:
    arg, mask, data_type = _arg(factor), case.attr_mask(factor), factor.data_type or "s32"
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
    count = prod(factor_extents(case, factor))
    return CaseOperand(arg, rs.MemoryDesc((count,), kind, "a"), "a", lambda _: make(count))


def factor_extents(case: Case, factor: FactorText) -> tuple[int, ...]:
    """How many values scales or zero points have along each dim of their tensor."""
    dims, mask = case.attr_dims(factor.arg), case.attr_mask(factor)
    shared = (1,) * (len(dims) - len(factor.groups)) + factor.groups
    return tuple(
        -(-n // size) if mask >> i & 1 else 1 for i, (n, size) in enumerate(zip(dims, shared, strict=True))
    )


def _arg(factor: FactorText) -> int:
    """The number of an argument; restride says itself which of them a reorder has."""
    if factor.arg in ARGS:
        return ARGS[factor.arg]
    first = rs.ARG_MULTIPLE_SRC if factor.arg.startswith("msrc") else rs.ARG_SRC
    return first + int(factor.arg.lstrip("msrc"))


def _append(
    post_ops: rs.PostOps, index: int, op: PostOpText, case: Case, depthwise: AppendDepthwise | None
) -> list[CaseOperand]:
    """Append one post-op; the operand that it reads, if any."""
    if op.kind == "sum":
        data_type = op.fields[2] if len(op.fields) > 2 else None
        post_ops.append_sum(op.number(0, 1.0), int(op.number(1, 0)), data_type)
        return []
    if op.kind == "eltwise":
        name = OF_DST.get(op.name, op.name)
        post_ops.append_eltwise(name, op.number(0, 0.0), op.number(1, 0.0), op.number(2, 1.0))
        return []
    if op.kind == "dw":
        assert depthwise is not None
        return depthwise(post_ops, op)
    mask, arg = case.attr_mask(FactorText("dst", op.policy)), rs.arg_attr_multiple_post_op(index)
    dims = tuple(n if mask >> i & 1 else 1 for i, n in enumerate(case.post_op_dims(index)))
    if op.kind == "prelu":
        weights = rs.MemoryDesc((prod(dims),), "f32", "a")
        post_ops.append_prelu(mask)
        return [CaseOperand(arg | rs.ARG_WEIGHTS, weights, "a", lambda _: fill.operand_for(weights))]
    md = rs.MemoryDesc(dims, op.fields[0], op.format)
    post_ops.append_binary(op.name, md)
    return [CaseOperand(arg | rs.ARG_SRC_1, md, op.format, lambda _: fill.operand_for(md))]
