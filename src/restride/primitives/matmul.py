"""Matmul: a product of matrices, batches of them too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..desc.arguments import ARG_BIAS, ARG_DST, ARG_SRC, ARG_WEIGHTS
from ..desc.attr_check import check_attr_of
from ..desc.layout import RUNTIME_DIM
from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from ..errors import InvalidArguments
from ..plan.matmul_problem import MatmulProblem
from ..plan.product_problem import NAMES
from ..runtime.arguments import Executable
from ..runtime.engine import Engine
from .checks import Names, check_memory
from .convolution_shapes import (
    check_narrow_sum,
    check_scale_mask,
    check_types,
    check_zero_points,
    kernel_block,
    kernel_pack,
)
from .forms import CallArguments, form_of
from .implementation import Implementation, compiled, find_implementation
from .parse import check_written, parse_attr
from .pointwise import ProblemWithAttr, check_attributes
from .primitive import Memories, Primitive
from .products import ProductPrimitiveDesc, chosen_tensors, refuse_dims
from .runtime_shapes import check_fits, deferred_to_slots

__all__ = ["Matmul"]


_TENSORS = ARG_SRC, ARG_WEIGHTS, ARG_DST
_COMPRESSED = (*(DataType.s8, DataType.u8, DataType.s4, DataType.u4), DataType.f4_e2m1, DataType.f4_e3m0)


class MatmulPrimitiveDesc(ProductPrimitiveDesc):
    """Primitive descriptor of a product of matrices (`dnnl::matmul::primitive_desc`).

    `PrimitiveDesc(engine, src, weights, bias, dst, attr=None, allow_empty=False)`; the bias may be left out
    by place. `src` (..., M, K), `weights` (..., K, N), `dst` (..., M, N): 2 to 12 dims; batch dims of 1 are
    repeated. `bias` has the rank of `dst`, and 1 where it is repeated. Each of format "any" gets the format
    that is fastest here. `attr`: scales, zero points, post-ops, the scratchpad mode. Weights of integers of 8
    and 4 bits, and of floats of 4, are decompressed for a source of floats, those of 4 bits for one of bytes.
    Their scales and zero points may have any mask and groups, and so may those of a source of bytes.

    Raises InvalidArguments for what does not fit, Unimplemented for what is not provided.
    """

    kind = "Matmul"
    form = form_of(
        "Matmul.PrimitiveDesc", "engine", "src", "weights", bias=None, dst=None, attr=None, allow_empty=False
    )

    _needs_dims = False
    __slots__ = ()

    def _problem(self, what: str, arguments: CallArguments) -> tuple[MatmulProblem, dict[int, MemoryDesc]]:
        named, bias = self._parsed_tensors(what, arguments)
        _check_shapes(what, named, bias)
        check_types(what, self._direction, named, bias, _COMPRESSED)
        src, weights, dst = named.values()
        attr = parse_attr(what, arguments.attr)
        problem = MatmulProblem((src, weights, dst), bias, kernel_block(), attr)
        problem = replace(problem, pack=kernel_pack(*problem.factor_types))
        _check_open_formats(what, named)
        wanted = problem.preferred()
        tensors = chosen_tensors(problem.tensors, [wanted[name] for name in NAMES])
        problem = replace(problem, tensors=tensors)
        check_attributes(what, attr, "scales", "post_ops", "zero_points")
        _check_factors(what, problem)
        if not problem.has_runtime:
            check_written(what, "dst", problem.dst)
        return problem, self._by_argument(tensors, bias)

    def _executable(self, problem: ProblemWithAttr, engine: Engine) -> Executable:
        assert isinstance(problem, MatmulProblem)
        if problem.has_runtime:
            return deferred_to_slots(problem.slots(), engine)
        return compiled(problem, engine)

    def _concrete(self, problem: MatmulProblem, found: Mapping[int, MemoryDesc]) -> Implementation:
        """The implementation for the tensors of an execution."""
        what, bias = f"{self.kind}.execute", found.get(ARG_BIAS, MemoryDesc())
        src, weights, dst = (found[arg] for arg in _TENSORS)
        _check_shapes(what, {"src": src, "weights": weights, "dst": dst}, bias)
        made = replace(problem, tensors=(src, weights, dst), bias=bias)
        _check_factors(what, made)
        check_written(what, "dst", made.dst)
        engine = self._implementation().engine
        return find_implementation(made, engine, self._describe, lambda: compiled(made, engine))


def _check_factors(what: str, problem: MatmulProblem) -> None:
    attr, tensors = problem.attr, dict(zip(_TENSORS, problem.tensors, strict=True))
    are_whole = all(tensors[arg].data_type.is_integral for arg in (ARG_SRC, ARG_WEIGHTS))
    check_attr_of(what, attr, tensors, shifts_floats=are_whole)
    check_narrow_sum(what, attr, problem.dst.data_type)
    # What becomes a float first may have scales and zero points for each of its elements.
    own = [arg for arg, kind in problem.grown.items() if not kind.is_integral]
    rest = attr.without_factors_of(*own)
    columns = 0, 1 << problem.dst.ndims - 1
    check_scale_mask(what, rest, ARG_SRC, (0,))
    check_scale_mask(what, rest, ARG_WEIGHTS, columns)
    check_zero_points(what, rest, {ARG_SRC: (0,), ARG_WEIGHTS: columns})


def _check_open_formats(what: str, named: Mapping[str, MemoryDesc]) -> None:
    """Raise InvalidArguments for a format that is left open beside dims that are."""
    for name, md in named.items():
        if md.format_kind == "any" and RUNTIME_DIM in md.dims:
            raise InvalidArguments(
                f"{what}: format 'any' of {name}, whose dims are known only at execution",
                code="RS-N15",
                where=f"{name} {md}",
                why="a memory must have a format before its dims are chosen",
                hint="name a tag, such as 'ab'",
            )


def _check_shapes(what: str, named: dict[str, MemoryDesc], bias: MemoryDesc) -> None:
    refuse = refuse_dims(what, named)
    src, weights, dst = named.values()
    if not 2 <= dst.ndims == src.ndims == weights.ndims:
        refuse(
            f"ranks are {src.ndims}, {weights.ndims} and {dst.ndims}",
            "give all the same rank, 2 or more; batch dims of 1 are repeated",
        )
    (m, k), (rows, n), (height, width) = (md.dims[-2:] for md in (src, weights, dst))
    if not (_fit(m, height) and _fit(k, rows) and _fit(n, width)):
        texts = (" x ".join(map(_size_text, md.dims[-2:])) for md in (src, weights, dst))
        refuse(
            "{} times {} into {}".format(*texts),
            "src is (..., M, K), weights (..., K, N), dst (..., M, N)",
        )
    for dim, sizes in enumerate(zip(src.dims[:-2], weights.dims[:-2], dst.dims[:-2], strict=True)):
        *factors, result = sizes
        is_found = result in factors or RUNTIME_DIM in sizes
        if any(size != 1 and not _fit(size, result) for size in factors) or not is_found:
            refuse(
                f"batch dim {dim} is {sizes[0]}, {sizes[1]} and {result}", "give equal sizes, or 1 to repeat"
            )
    fits = bias.ndims == dst.ndims and all(
        a == 1 or _fit(a, b) for a, b in zip(bias.dims, dst.dims, strict=True)
    )
    if not bias.is_zero() and not fits:
        refuse(f"the bias is {bias.dims}", f"give {dst.ndims} dims, each of them that of dst or 1")


def _fit(size: int, other: int) -> bool:
    """True for equal sizes; one that is known only at execution fits all."""
    return size == other or RUNTIME_DIM in (size, other)


def _size_text(size: int) -> str:
    return "?" if size == RUNTIME_DIM else str(size)


class Matmul(Primitive):
    """The product of matrices (`dnnl::matmul`): `Matmul(pd)`; without arguments it is empty."""

    PrimitiveDesc = MatmulPrimitiveDesc
    kind = "Matmul"
    __slots__ = ()

    def _check_tensors(self, impl: Implementation, names: Names, memories: Memories) -> Implementation:
        problem, pd = impl.problem, self._pd
        assert isinstance(problem, MatmulProblem)
        assert isinstance(pd, MatmulPrimitiveDesc)
        if not problem.has_runtime:
            return super()._check_tensors(impl, names, memories)
        for arg, md in pd._tensors().items():
            name, memory = self._name_of(arg), memories[arg]
            check_memory(names.call, name, memory, getattr(memory, "desc", md), pd._engine_of(arg))
            check_fits(names.call, name, memory, md)
        return pd._concrete(problem, {arg: memories[arg].desc for arg in pd._tensors()})
