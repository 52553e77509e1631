"""Matmul: a product of matrices, batches of them too (X1)."""

from __future__ import annotations

from dataclasses import replace

from ..desc.arguments import ARG_DST, ARG_SRC, ARG_WEIGHTS
from ..desc.attr import Attr
from ..desc.attr_check import check_attr_of
from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from ..plan.matmul_problem import MatmulProblem
from .convolution_shapes import check_scale_mask, check_types, check_zero_points, kernel_block, kernel_pack
from .forms import CallArguments, form_of
from .parse import parse_attr
from .pointwise import check_attributes, check_written
from .primitive import Primitive
from .products import ProductPrimitiveDesc, chosen_tensors, refuse_dims

__all__ = ["Matmul"]


_COMPRESSED = (*(DataType.s8, DataType.u8, DataType.s4, DataType.u4), DataType.f4_e2m1, DataType.f4_e3m0)


class MatmulPrimitiveDesc(ProductPrimitiveDesc):
    """Primitive descriptor of a product of matrices (`dnnl::matmul::primitive_desc`).

    `PrimitiveDesc(engine, src, weights, bias, dst, attr=None, allow_empty=False)`; the bias may be left out
    by place. `src` (..., M, K), `weights` (..., K, N), `dst` (..., M, N): 2 to 12 dims; batch dims of 1 are
    repeated. `bias` has the rank of `dst`, and 1 where it is repeated. Each of format "any" gets the format
    that is fastest here. `attr`: scales, zero points, post-ops, the scratchpad mode. Weights of integers of 8
    and 4 bits, and of floats of 4, are decompressed for a source of floats; their scales and zero points may
    have any mask and groups.

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
        check_types(what, self._direction, named, bias, _COMPRESSED)
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
    check_attr_of(what, attr, {ARG_SRC: problem.src, ARG_WEIGHTS: problem.weights, ARG_DST: problem.dst})
    check_scale_mask(what, attr, ARG_SRC, (0,))
    if replace(problem, attr=attr).decompresses:
        # What is done to elements of weights may be different for each of them.
        check_zero_points(what, attr.without_factors_of(ARG_WEIGHTS), {ARG_SRC: (0,)})
        return attr
    columns = 0, 1 << problem.dst.ndims - 1
    check_scale_mask(what, attr, ARG_WEIGHTS, columns)
    check_zero_points(what, attr, {ARG_SRC: (0,), ARG_WEIGHTS: columns})
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
