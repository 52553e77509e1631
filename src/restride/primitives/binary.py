"""Binary: an operation of two tensors, or a choice between them by a third."""

from __future__ import annotations

from collections.abc import Sequence

from ..desc.arguments import ARG_DST, ARG_SRC_0, ARG_SRC_1
from ..desc.attr_check import check_attr_of
from ..desc.memory_desc import MemoryDesc
from ..desc.post_op_values import BINARY
from ..errors import InvalidArguments
from ..plan.binary_problem import BinaryProblem
from .any_format import resolved, resolved_operand
from .forms import Args, CallArguments, NamedArgs, WrongCall, form_of
from .parse import check_written, parse_attr
from .pointwise import (
    OneStepPrimitive,
    OneStepPrimitiveDesc,
    check_attributes,
    check_known,
    check_open,
    parse_algorithm,
)

__all__ = ["Binary"]

_ALGORITHMS = (*BINARY, "select")


class BinaryPrimitiveDesc(OneStepPrimitiveDesc):
    """Primitive descriptor of an operation of two tensors (`dnnl::binary::primitive_desc`).

    `PrimitiveDesc(engine, algorithm, src0, src1, dst, attr=None, allow_empty=False)`; a select has a third
    source, `PrimitiveDesc(engine, "binary_select", src0, src1, src2, dst, ...)`. Without arguments it is
    empty and False. `algorithm`: "binary_add" or "add", and so on. Each dim of a source is that of the
    destination, or 1, which is repeated. `src1`, `src2`: of format "any" they follow `src0`; `dst` follows
    the first source of its dims. `attr`: scales of `ARG_SRC_0` and `ARG_SRC_1`, post-ops, the scratchpad
    mode. With `allow_empty`, a failure gives an empty descriptor.

    Raises InvalidArguments for what does not fit, Unimplemented for what is not provided.
    """

    kind = "Binary"
    form = form_of(
        "Binary.PrimitiveDesc",
        *("engine", "algorithm", "src0", "src1", "dst"),
        attr=None,
        allow_empty=False,
    )
    _of_three = form_of(
        "Binary.PrimitiveDesc",
        *("engine", "algorithm", "src0", "src1", "src2", "dst"),
        attr=None,
        allow_empty=False,
    )

    __slots__ = ("_alg",)
    _alg: str

    def _arguments(self, args: Args, named: NamedArgs) -> CallArguments:
        is_ternary = "src2" in named or (len(args) > 5 and isinstance(args[5], MemoryDesc))
        return (self._of_three if is_ternary else self.form).of(args, named)

    def _empty(self) -> None:
        super()._empty()
        self._alg = ""

    def get_algorithm(self) -> str:
        """The algorithm as oneDNN calls it: `binary_add`."""
        self._implementation()
        return f"binary_{self._alg}"

    def _how(self) -> str:
        return f"alg:{self._alg}"

    def _problem(self, what: str, arguments: CallArguments) -> tuple[BinaryProblem, dict[int, MemoryDesc]]:
        self._alg = parse_algorithm(what, arguments.algorithm, "binary_", _ALGORITHMS)
        third = getattr(arguments, "src2", None)
        if (self._alg == "select") != (third is not None):
            raise _wrong_sources(what, self._alg)
        first = check_known(what, "src0", arguments.src0)
        others = {"src1": arguments.src1} | ({"src2": third} if self._alg == "select" else {})
        named = [("src0", first)]
        for name, md in others.items():
            checked = check_open(what, name, md)
            _check_rank(what, name, checked, first)
            named.append((name, resolved_operand(checked, first)))
        dims = _joint_dims(what, named)
        dst = check_open(what, "dst", arguments.dst)
        _check_dst(what, dst, dims)
        like = next((md for _, md in named if md.dims == dims), first)
        dst = resolved(dst, like) if like.dims == dims else resolved_operand(dst, like)
        check_written(what, "dst", dst)
        attr = check_attributes(what, parse_attr(what, arguments.attr), "scales", "post_ops")
        srcs = tuple(md for _, md in named)
        check_attr_of(what, attr, {ARG_SRC_0: srcs[0], ARG_SRC_1: srcs[1], ARG_DST: dst})
        problem = BinaryProblem(self._alg, srcs, dst, attr)
        return problem, {**problem.sources, ARG_DST: dst}


def _wrong_sources(what: str, alg: str) -> WrongCall:
    is_ternary = alg == "select"
    form = BinaryPrimitiveDesc._of_three if is_ternary else BinaryPrimitiveDesc.form
    return WrongCall(
        f"{what}: wrong number of sources",
        code="RS-V07",
        why=f"{alg} has {'three' if is_ternary else 'two'}",
        hint=f"call {what}{form.shown}",
    )


def _check_rank(what: str, name: str, md: MemoryDesc, first: MemoryDesc) -> None:
    if md.ndims == first.ndims:
        return
    raise InvalidArguments(
        f"{what}: tensors of different ranks",
        code="RS-R10",
        where=f"src0 {first}; {name} {md}",
        why=f"src0 has {first.ndims} dims, {name} {md.ndims}",
        hint="put dims of 1 where a tensor is to be repeated, with md.reshape",
    )


def _joint_dims(what: str, named: Sequence[tuple[str, MemoryDesc]]) -> tuple[int, ...]:
    """The dims of the result: each that of all sources that have not 1 there."""
    found: list[int] = []
    for dim, extents in enumerate(zip(*(md.dims for _, md in named), strict=True)):
        wanted = sorted({n for n in extents if n != 1})
        if len(wanted) > 1:
            raise InvalidArguments(
                f"{what}: tensors whose shapes do not fit",
                code="RS-R10",
                where="; ".join(f"{name} {md}" for name, md in named),
                why=f"dim {dim} is {' and '.join(map(str, extents))}",
                hint="each dim is the same in all sources, or 1, which is repeated",
            )
        found.append(wanted[0] if wanted else 1)
    return tuple(found)


def _check_dst(what: str, dst: MemoryDesc, dims: tuple[int, ...]) -> None:
    if dst.dims == dims:
        return
    raise InvalidArguments(
        f"{what}: dst has other dims",
        code="RS-R10",
        where=str(dst),
        why=f"the sources make {dims}, dst is {dst.dims}",
        hint="a destination is never repeated",
    )


class Binary(OneStepPrimitive):
    """An operation of two tensors (`dnnl::binary`): `dst = op(src0, src1)`, or `src2 ? src0 : src1`.

    `Binary(pd)`; without arguments it is empty, and executing it is an error. Executed with `ARG_SRC_0`,
    `ARG_SRC_1`, for a select `ARG_SRC_2`, and `ARG_DST`, which may be a source that is alike.
    """

    PrimitiveDesc = BinaryPrimitiveDesc
    kind = "Binary"

    __slots__ = ()
