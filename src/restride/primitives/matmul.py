"""Matmul: a product of matrices, batches of them too (X1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from ..desc.arguments import ARG_BIAS, ARG_DST, ARG_SRC, ARG_WEIGHTS
from ..desc.attr import Attr
from ..desc.attr_check import check_attr_of
from ..desc.memory_desc import MemoryDesc
from ..errors import InvalidArguments
from ..plan.matmul_problem import MatmulProblem
from .convolution_shapes import check_no_zero_points, check_scale_mask, check_types, kernel_block
from .forms import Form, signature
from .parse import parse_attr
from .pointwise import OneStepPrimitiveDesc, check_attributes, check_open, check_written
from .primitive import Primitive

__all__ = ["Matmul"]

_NO_DESC = MemoryDesc()


class _MatmulArguments(NamedTuple):
    """The arguments of a primitive descriptor."""

    engine: Any
    src: Any
    weights: Any
    bias: Any = None
    dst: Any = None
    attr: Any = None
    allow_empty: bool = False


class MatmulPrimitiveDesc(OneStepPrimitiveDesc):
    """Primitive descriptor of a product of matrices (`dnnl::matmul::primitive_desc`).

    `PrimitiveDesc(engine, src, weights, bias, dst, attr=None, allow_empty=False)`; the bias may be left out
    by place. `src` (..., M, K), `weights` (..., K, N), `dst` (..., M, N): 2 to 12 dims; batch dims of 1 are
    repeated. `bias` has the rank of `dst`, and 1 where it is repeated. Each of format "any" gets the format
    that is fastest here. `attr`: scales, post-ops, zero points of the result, the scratchpad mode.

    Raises InvalidArguments for what does not fit, Unimplemented for what is not provided.
    """

    kind = "Matmul"
    form = Form(
        "Matmul.PrimitiveDesc",
        signature("engine", "src", "weights", bias=None, dst=None, attr=None, allow_empty=False),
        _MatmulArguments,
    )
    __signature__ = form.shown

    __slots__ = ()

    def _arguments(self, args: tuple[Any, ...], named: dict[str, Any]) -> _MatmulArguments:
        if len(args) > 3 and not {"dst", "bias"} & set(named):
            has_dst = len(args) > 4 and isinstance(args[4], MemoryDesc)
            args = args if has_dst else (*args[:3], None, *args[3:])
        found: _MatmulArguments = self.form.of(args, named)
        return found

    def _problem(self, what: str, arguments: _MatmulArguments) -> tuple[MatmulProblem, dict[int, MemoryDesc]]:
        names = ("src", "weights", "dst")
        named = {name: check_open(what, name, getattr(arguments, name)) for name in names}
        bias = _NO_DESC if arguments.bias is None else check_open(what, "bias", arguments.bias)
        _check_shapes(what, named, bias)
        check_types(what, "forward", named, bias)
        plain = MemoryDesc(bias.dims, bias.data_type) if bias.format_kind == "any" else bias
        problem = MatmulProblem(named["src"], named["weights"], plain, named["dst"], kernel_block())
        wanted = problem.preferred()
        chosen = {name: wanted[name] if md.format_kind == "any" else md for name, md in named.items()}
        problem = replace(problem, src=chosen["src"], weights=chosen["weights"], dst=chosen["dst"])
        problem = replace(problem, attr=_checked_attr(what, arguments.attr, problem))
        check_written(what, "dst", problem.dst)
        tensors = {ARG_SRC: problem.src, ARG_WEIGHTS: problem.weights}
        tensors |= {} if plain.is_zero() else {ARG_BIAS: plain}
        return problem, {**tensors, ARG_DST: problem.dst}


def _checked_attr(what: str, given: object, problem: MatmulProblem) -> Attr:
    attr = check_attributes(what, parse_attr(what, given), "scales", "post_ops", "zero_points")
    check_no_zero_points(what, attr)
    check_attr_of(what, attr, {ARG_SRC: problem.src, ARG_WEIGHTS: problem.weights, ARG_DST: problem.dst})
    last = problem.dst.ndims - 1
    for arg, masks in ((ARG_SRC, (0,)), (ARG_WEIGHTS, (0, 1 << last))):
        check_scale_mask(what, attr, arg, masks)
    return attr


def _check_shapes(what: str, named: dict[str, MemoryDesc], bias: MemoryDesc) -> None:
    src, weights, dst = named.values()

    def refuse(why: str, hint: str) -> None:
        where = "; ".join(f"{name} {md}" for name, md in named.items())
        raise InvalidArguments(f"{what}: dims do not fit", code="RS-X01", where=where, why=why, hint=hint)

    if not 2 <= dst.ndims == src.ndims == weights.ndims:
        refuse(
            f"ranks are {src.ndims}, {weights.ndims} and {dst.ndims}",
            "give all the same rank, 2 or more; batch dims of 1 are repeated",
        )
    m, k, n = src.dims[-2], src.dims[-1], weights.dims[-1]
    if weights.dims[-2] != k or dst.dims[-2:] != (m, n):
        refuse(
            f"{m} x {k} times {weights.dims[-2]} x {n} into {dst.dims[-2]} x {dst.dims[-1]}",
            "src is (..., M, K), weights (..., K, N), dst (..., M, N)",
        )
    for dim, sizes in enumerate(zip(src.dims[:-2], weights.dims[:-2], dst.dims[:-2], strict=True)):
        *factors, result = sizes
        if any(size not in (1, result) for size in factors) or result not in factors:
            refuse(
                f"batch dim {dim} is {sizes[0]}, {sizes[1]} and {result}", "give equal sizes, or 1 to repeat"
            )
    fits = bias.ndims == dst.ndims and all(a in (1, b) for a, b in zip(bias.dims, dst.dims, strict=True))
    if not bias.is_zero() and not fits:
        refuse(f"the bias is {bias.dims}", f"give {dst.ndims} dims, each of them that of dst or 1")


class Matmul(Primitive):
    """The product of matrices (`dnnl::matmul`): `Matmul(pd)`; without arguments it is empty."""

    PrimitiveDesc = MatmulPrimitiveDesc
    kind = "Matmul"
    __slots__ = ()
