"""Binary: an operation on two tensors, or a choice between them by a third.

    t = op(scale_0 * src_0, scale_1 * src_1)       select: src_2 ? src_0 : src_1
    dst = saturate(post-ops of t)

Sources are broadcast along their dims of 1. Computed in f32, or in f64 if any tensor is f64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..desc.arguments import ARG_ATTR_SCALES, ARG_DST, ARG_SRC_0, ARG_SRC_1, ARG_SRC_2
from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..desc.post_op_values import BINARY
from ..errors import refuse
from ..ir.computation import Computation, ComputationWriter
from ..ir.nest import Step, has_wide
from ..ir.pointwise import function_bytes
from ..model.any_format import resolved, resolved_operand
from ..model.derived import make_primitive
from ..model.forms import Args, CallArguments, Form, NamedArgs, WrongCall, form_of
from ..model.operation import PointwiseProblem
from ..model.prop_kind import PropKind
from ..model.reader import ArgumentReader
from ..model.result_dims import Misfit, Shaped, broadcast, broadcast_extent

_SOURCES = "src0", "src1", "src2"
_TERNARY = form_of(
    "Binary.PrimitiveDesc", "engine", "algorithm", *_SOURCES, "dst", attr=None, allow_empty=False
)


@dataclass(frozen=True, slots=True)
class BinaryProblem(PointwiseProblem):
    """An operation on two tensors (`dnnl::binary`): `dst = op(src0, src1)`, or `src2 ? src0 : src1`.

    Executed with `ARG_SRC_0`, `ARG_SRC_1`, `ARG_DST` and, for a select, `ARG_SRC_2`. `ARG_DST` can share
    memory with a source of the same descriptor.
    """

    operation = "binary"
    primitive = "Binary"
    call = "algorithm", "src0", "src1", "dst"
    prop_kinds = (PropKind.undef,)
    node_reads = "src0", "src1", "src2?"
    algorithms = (*BINARY, "select")
    onnx = {name: name.lower() for name in ("Add", "Div", "Max", "Min", "Mul", "Sub")}
    aten = {"maximum": "Max", "minimum": "Min", "mul": "Mul"}
    openvino = {
        "Add": "Add",
        "Maximum": "Max",
        "Minimum": "Min",
        "Multiply": "Mul",
        "Power": "Pow",
        "Select": "Where",
        "Subtract": "Sub",
    }
    arguments = """
    A select has a third source, `PrimitiveDesc(engine, "binary_select", src0, src1, src2, dst, ...)`.
    `algorithm`: "binary_add" or "add", and so on. Each dim of a source is that of the destination, or 1,
    which is broadcast. `src1`, `src2`: format "any" follows `src0`; `dst` follows the first source that has
    its dims. `attr`: scales of `ARG_SRC_0` and `ARG_SRC_1`, post-ops, the scratchpad mode."""

    algorithm: str
    srcs: tuple[MemoryDesc, ...]
    dst: MemoryDesc
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def other_form(cls, args: Args, named: NamedArgs) -> Form[CallArguments] | None:
        is_ternary = "src2" in named or (len(args) > 5 and isinstance(args[5], MemoryDesc))
        return _TERNARY if is_ternary else None

    @classmethod
    def read(cls, call: ArgumentReader) -> BinaryProblem:
        what, algorithm = call.what, call.algorithm()
        count = 3 if algorithm == "select" else 2
        if count != 2 + (getattr(call, "src2", None) is not None):
            form = (_TERNARY if count == 3 else Binary.PrimitiveDesc.form).shown
            raise refuse(
                "RS-V07:wrong-number-sources",
                error=WrongCall,
                what=what,
                algorithm=algorithm,
                which="three" if count == 3 else "two",
                shown=form,
            )
        srcs, dst = broadcast_descs(call, _SOURCES[:count])
        attr = call.attr("scales", "post_ops", of={ARG_SRC_0: srcs[0], ARG_SRC_1: srcs[1], ARG_DST: dst})
        return cls(algorithm, srcs, dst, attr)

    @classmethod
    def result_dims(cls, node: Any, *tensors: Shaped) -> tuple[int, ...]:
        if len(tensors) != 2 + (node.algorithm == "binary_select"):
            raise Misfit(f"{node.algorithm} takes a different number of tensors")
        return broadcast(*(tensor.dims for tensor in tensors))

    @property
    def verbose_aux(self) -> str:
        return f"alg:{self.algorithm}"

    def sources(self) -> dict[int, MemoryDesc]:
        return dict(zip((ARG_SRC_0, ARG_SRC_1, ARG_SRC_2), self.srcs, strict=False))

    def computation(self) -> Computation:
        is_wide = has_wide(*(md.data_type for md in (*self.srcs, self.dst)))
        writer = ComputationWriter(self.dst.dims, is_wide=is_wide, sources=len(self.srcs) - 1)
        scales = [
            (self.attr.scale_of(arg), ARG_ATTR_SCALES | arg, md.dims) for arg, md in self.sources().items()
        ]
        writer.factor("mul", *scales[0])
        condition = 1 if self.algorithm == "select" else -1
        writer.combine(Step(self.algorithm, operand=0, condition=condition), *scales[1])
        writer.finish(self.attr)
        return writer.computation()

    @property
    def work_bytes(self) -> int:
        return self.moved_bytes + function_bytes(self.attr) * self.dst.nelems


def broadcast_descs(
    call: ArgumentReader, names: Sequence[str], result: str = "dst"
) -> tuple[tuple[MemoryDesc, ...], MemoryDesc]:
    """Return the descriptors of the named sources, broadcast along their dims of 1, and of the result.

    A source of format "any" follows the first source; the destination, or its gradient, follows the first
    source that has its dims.
    """
    what, first = call.what, call.known(names[0])
    pairs = [(names[0], first)]
    for name in names[1:]:
        md = call.open(name)
        _check_rank(what, name, md, first)
        pairs.append((name, resolved_operand(md, first)))
    dims = _joint_dims(what, pairs)
    dst = call.open(result)
    _check_dst(what, dst, dims)
    like = next((md for _, md in pairs if md.dims == dims), first)
    dst = resolved(dst, like) if like.dims == dims else resolved_operand(dst, like)
    call.check_written(result, dst)
    return tuple(md for _, md in pairs), dst


def _check_rank(what: str, name: str, md: MemoryDesc, first: MemoryDesc) -> None:
    if md.ndims == first.ndims:
        return
    raise refuse("RS-R10:tensors-different-ranks", what=what, first=first, name=name, md=md)


def _joint_dims(what: str, pairs: Sequence[tuple[str, MemoryDesc]]) -> tuple[int, ...]:
    """Return the dims of the result: each is that of all sources whose dim is not 1."""
    dims: list[int] = []
    for dim, extents in enumerate(zip(*(md.dims for _, md in pairs), strict=True)):
        extent = broadcast_extent(extents)
        if extent is None:
            raise refuse(
                "RS-R10:no-broadcast",
                what=what,
                named="; ".join((f"{name} {md}" for name, md in pairs)),
                dim=dim,
                extents=" and ".join(map(str, extents)),
            )
        dims.append(extent)
    return tuple(dims)


def _check_dst(what: str, dst: MemoryDesc, dims: tuple[int, ...]) -> None:
    if dst.dims == dims:
        return
    raise refuse("RS-R10:dst-other-dims", what=what, dst=dst, dims=dims)


Binary = make_primitive(BinaryProblem)
