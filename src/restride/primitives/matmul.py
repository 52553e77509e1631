"""Matmul: a product of matrices, batches of them too (X1)."""

from __future__ import annotations

from dataclasses import replace

from ..desc.arguments import ARG_DST, ARG_SRC, ARG_WEIGHTS
from ..desc.attr import Attr
from ..desc.attr_check import check_attr_of
from ..desc.memory_desc import MemoryDesc
from ..plan.matmul_problem import MatmulProblem
from .convolution_shapes import check_no_zero_points, check_scale_mask, check_types, kernel_block, kernel_pack
from .forms import CallArguments, form_of
from .parse import parse_attr
from .pointwise import check_attributes, check_written
from .primitive import Primitive
from .products import ProductPrimitiveDesc, chosen_tensors, refuse_dims

__all__ = ["Matmul"]


class MatmulPrimitiveDesc(ProductPrimitiveDesc):
    """Primitive descriptor of a product of matrices (`dnnl::matmul::primitive_desc`).

    `PrimitiveDesc(engine, src, weights, bias, dst, attr=None, allow_empty=False)`; the bias may be left out
    by place. `src` (..., M, K), `weights` (..., K, N), `dst` (..., M, N): 2 to 12 dims; batch dims of 1 are
    repeated. `bias` has the rank of `dst`, and 1 where it is repeated. Each of format "any" gets the format
    that is fastest here. `attr`: scales, post-ops, zero points of the result, the scratchpad mode.

    Raises InvalidArguments for what does not fit, Unimplemented for what is not provided.
    """

    kind = "Matmul"
    form = form_of(
        "Matmul.PrimitiveDesc", "engine", "src", "weights", bias=None, dst=None, attr=None, allow_empty=False
    )

    __slots__ = ()

    def _problem(self, what: str, arguments: CallArguments) -> tuple[MatmulProblem, dict[int, MemoryDesc]]:
        named, bias = self._parsed_tensors(what, arguments)
        _check_shapes(what, named, bias)
        check_types(what, self._direction, named, bias)
        src, weights, dst = named.values()
        pack = kernel_pack(src.data_type, weights.data_type)
        problem = MatmulProblem(src, weights, bias, dst, kernel_block(), pack=pack)
        wanted = problem.preferred()
        tensors = chosen_tensors((src, weights, dst), [wanted[name] for name in named])
        problem = replace(problem, src=tensors[0], weights=tensors[1], dst=tensors[2])
        problem = replace(problem, attr=_checked_attr(what, arguments.attr, problem))
        check_written(what, "dst", problem.dst)
        return problem, self._by_argument(tensors, bias)


def _checked_attr(what: str, given: object, problem: MatmulProblem) -> Attr:
    attr = check_attributes(what, parse_attr(what, given), "scales", "post_ops", "zero_points")
    check_no_zero_points(what, attr)
    check_attr_of(what, attr, {ARG_SRC: problem.src, ARG_WEIGHTS: problem.weights, ARG_DST: problem.dst})
    last = problem.dst.ndims - 1
    for arg, masks in ((ARG_SRC, (0,)), (ARG_WEIGHTS, (0, 1 << last))):
        check_scale_mask(what, attr, arg, masks)
    return attr


def _check_shapes(what: str, named: dict[str, MemoryDesc], bias: MemoryDesc) -> None:
    refuse = refuse_dims(what, named)
    src, weights, dst = named.values()
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
