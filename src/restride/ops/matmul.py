"""Matmul, a product of matrices: `dst[..., m, n] = sum over k of src[..., m, k] * weights[..., k, n]`.

Batch dims of 1 are repeated. Factors that have scales or zero points of their own for each row or group of
`k` become floats with these first: then what is summed is what they stand for. Dims may be known only at
execution: then each concrete shape has a program of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import gcd, prod
from sys import maxsize
from typing import Any, ClassVar

from ..desc.arguments import ARG_BIAS, ARG_DST, ARG_SRC, ARG_WEIGHTS
from ..desc.attr_check import check_attr_of
from ..desc.layout import RUNTIME_DIM
from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from ..errors import refuse
from ..ir.digits import TensorOperand
from ..ir.expression import Affine, Ref, TreeAxis, index_of
from ..ir.program import Slot
from ..ir.tree import Each, TreeTensor, fold_over
from ..model.checks import Names, check_memory
from ..model.derived import DerivedPrimitiveDesc, make_primitive
from ..model.implementation import Implementation, compiled, find_implementation
from ..model.operation import OperationProblem
from ..model.parse import check_written
from ..model.primitive import Memories, Primitive
from ..model.prop_kind import PropKind
from ..model.reader import ArgumentReader
from ..model.result_dims import Misfit, Shaped, broadcast
from ..model.runtime_shapes import check_fits, deferred_to_slots
from ..runtime.arguments import Executable
from ..runtime.engine import Engine
from ..schedule.fold_order import (
    CROWDED_STEP,
    LARGE_WEIGHTS,
    LARGEST_WEIGHTS,
    LEAST_COLUMN_BYTES,
    LEAST_COLUMNS,
    LEAST_DECODED,
    LEAST_USES,
    MOST_BY_ROWS,
    ROWS_OF_CROWDED,
    ROWS_OF_DECODED,
    ROWS_OF_LARGE,
)
from ..schedule.machine import NOMINAL
from .product import (
    LETTERS,
    NAMES,
    ProductProblem,
    check_narrow_sum,
    check_scale_masks,
    check_zero_points,
    has_dots_of_bf16,
    kernel_block,
    kernel_pack,
)
from .programs.contraction_program import ContractionWork
from .programs.product_chain import FACTORS, ProductChain, product_chain
from .programs.quantized_product import (
    NIBBLES,
    QUANTIZED_BLOCK,
    QuantizedWork,
    are_quantized,
    group_size,
    has_rows,
)

_INTEGRAL_PACK, _BYTE = 4, 8
_COMPRESSED = (
    *(DataType.s8, DataType.u8, DataType.s4, DataType.u4),
    *(DataType.f4_e2m1, DataType.f4_e3m0, DataType.nf4),
)


@dataclass(frozen=True, slots=True)
class MatmulProblem(ProductProblem):
    """The product of matrices (`dnnl::matmul`).

    Executed with `ARG_SRC`, `ARG_WEIGHTS`, where there is one `ARG_BIAS`, and `ARG_DST`.
    """

    operation = "matmul"
    primitive = "Matmul"
    call = "src", "weights", "bias", "dst"
    defaults = {"bias": None, "dst": None}
    prop_kinds = (PropKind.undef,)
    needs_dims = False
    arguments = """
    The bias may be left out by place. `src` (..., M, K), `weights` (..., K, N), `dst` (..., M, N): 2 to 12
    dims; batch dims of 1 are repeated. `bias` has the rank of `dst`, and 1 where it is repeated. Each of
    format "any" gets the format that is fastest here. `attr`: scales, zero points, post-ops, the scratchpad
    mode. Weights of integers of 8 and 4 bits, and of floats of 4, are decompressed for a source of floats,
    those of 4 bits for one of bytes. Their scales and zero points may have any mask and groups, and so may
    those of a source of bytes."""

    _columns: ClassVar[int] = -1

    @classmethod
    def read(cls, call: ArgumentReader) -> MatmulProblem:
        problem = cls(*cls.read_tensors(call), kernel_block())
        problem._check_shapes(call.what)
        problem.check_types(call.what, _COMPRESSED)
        # What attributes allow is checked below: the types of factors depend on them.
        problem = replace(problem, attr=call.frozen_attr())
        problem = replace(problem, pack=problem._kernel_pack())
        problem._check_open_formats(call.what)
        problem = problem.chosen()
        call.attr(*cls.attributes)
        return problem.checked(call.what)

    def checked(self, what: str) -> MatmulProblem:
        """The problem, if attributes fit it and what is written."""
        tensors = self.operands()
        are_whole = all(tensors[arg].data_type.is_integral for arg in (ARG_SRC, ARG_WEIGHTS))
        check_attr_of(what, self.attr, tensors, shifts_floats=are_whole)
        check_narrow_sum(what, self.attr, self.dst.data_type)
        # What becomes a float first may have scales and zero points for each of its elements.
        own = [arg for arg, kind in self.grown.items() if not kind.is_integral]
        rest, columns = self.attr.without_factors_of(*own), (0, 1 << self.dst.ndims - 1)
        masks = {ARG_SRC: (0,), ARG_WEIGHTS: columns}
        check_scale_masks(what, rest, masks)
        check_zero_points(what, rest, masks)
        if not self.has_runtime:
            check_written(what, "dst", self.dst)
        return self

    def concrete(self, what: str, mds: Mapping[int, MemoryDesc]) -> MatmulProblem:
        """The problem of an execution: `mds` by argument."""
        tensors, bias = (mds[ARG_SRC], mds[ARG_WEIGHTS], mds[ARG_DST]), mds.get(ARG_BIAS, MemoryDesc())
        problem = replace(self, tensors=tensors, bias=bias)
        problem = replace(problem, pack=kernel_pack(*problem.factor_types)) if problem.rounded else problem
        problem._check_shapes(what)
        return problem.checked(what)

    def _check_open_formats(self, what: str) -> None:
        """Raise InvalidArguments for a format that is left open beside dims that are."""
        for name, md in self.named().items():
            if md.format_kind == "any" and RUNTIME_DIM in md.dims:
                raise refuse("RS-N15:any-with-runtime-dims", what=what, name=name, md=md)

    def _check_shapes(self, what: str) -> None:
        refuse_dims, bias = self.refuse_dims(what), self.bias
        src, weights, dst = self.tensors
        if not 2 <= dst.ndims == src.ndims == weights.ndims:
            refuse_dims(
                f"ranks are {src.ndims}, {weights.ndims} and {dst.ndims}",
                "give all the same rank, 2 or more; batch dims of 1 are repeated",
            )
        (m, k), (rows, n), (height, width) = (md.dims[-2:] for md in self.tensors)
        if not (_fit(m, height) and _fit(k, rows) and _fit(n, width)):
            texts = (" x ".join(map(_size_text, md.dims[-2:])) for md in self.tensors)
            refuse_dims(
                "{} times {} into {}".format(*texts),
                "src is (..., M, K), weights (..., K, N), dst (..., M, N); weights stored as "
                "(outputs, inputs) are passed as w.T",
            )
        for dim, sizes in enumerate(zip(src.dims[:-2], weights.dims[:-2], dst.dims[:-2], strict=True)):
            *factors, result = sizes
            is_found = result in factors or RUNTIME_DIM in sizes
            if any(size != 1 and not _fit(size, result) for size in factors) or not is_found:
                refuse_dims(
                    f"batch dim {dim} is {sizes[0]}, {sizes[1]} and {result}",
                    "give equal sizes, or 1 to repeat",
                )
        fits = bias.ndims == dst.ndims and all(
            a == 1 or _fit(a, b) for a, b in zip(bias.dims, dst.dims, strict=True)
        )
        if not bias.is_zero() and not fits:
            refuse_dims(f"the bias is {bias.dims}", f"give {dst.ndims} dims, each of them that of dst or 1")

    @classmethod
    def result_dims(cls, node: Any, *tensors: Shaped) -> tuple[int, ...]:
        left, right, *bias = (tensor.dims for tensor in tensors)
        if not 2 <= len(left) == len(right) or left[-1] != right[-2]:
            raise Misfit("ranks are equal, and rows of the right one as many as columns of the left")
        dims = (*broadcast(left[:-2], right[:-2]), left[-2], right[-1])
        if bias and broadcast(dims, bias[0]) != dims:
            raise Misfit("the bias is larger than the result")
        return dims

    @property
    def has_runtime(self) -> bool:
        """True where dims or strides are known only at execution."""
        return any(md.layout.has_runtime for md in (*self.tensors, self.bias) if not md.is_zero())

    def slots(self) -> tuple[Slot, ...]:
        """The arguments of a program, where shapes are not known yet."""
        bias = () if self.bias.is_zero() else (Slot(ARG_BIAS),)
        own = Slot(ARG_SRC), Slot(ARG_DST, is_written=True), Slot(ARG_WEIGHTS), *bias
        return (*own, *self.computation().slots())

    @property
    def terms(self) -> int:
        return prod(self.dst.dims) * self.tensors[0].dims[-1]

    @property
    def grown(self) -> dict[int, DataType]:
        """Integers of 4 bits become bytes; all else that is not multiplied as it is becomes f32.

        That is what is narrower than the floats of the other factor, and what has factors along `k`; else
        a mode may round.
        """
        types = {arg: md.data_type for arg, md in zip((ARG_SRC, ARG_WEIGHTS), self.tensors, strict=False)}
        grouped = {arg for arg in types if self._has_groups(arg)}
        if all(data_type.is_integral for data_type in types.values()):
            if grouped:
                return dict.fromkeys(types, DataType.f32)
            return {arg: DataType.s8 for arg, kind in types.items() if kind.bits < 8}
        if not grouped and not self.has_runtime and self.rounded:
            return self.rounded
        return {arg: DataType.f32 for arg, kind in types.items() if arg in grouped or kind not in FACTORS}

    def _kernel_pack(self) -> int:
        if self.group is None:
            return kernel_pack(*self.factor_types)
        if self.tensors[1].data_type.bits < 8:
            return NIBBLES
        return _INTEGRAL_PACK if self._quantizes_rows else 1

    @property
    def group(self) -> int | None:
        """The rows of weights that share a scale, where these are decoded in registers; else None."""
        src, weights, _ = self.tensors
        kind, is_real = weights.data_type, not src.data_type.is_integral and src.data_type is not DataType.f64
        if (
            self.has_runtime
            or self.is_wide
            or not is_real
            or self._has_groups(ARG_SRC)
            or kind is DataType.f64
        ):
            return None
        is_coded = kind in _COMPRESSED or self._has_groups(ARG_WEIGHTS)
        scale, zero = self.attr.scale_of(ARG_WEIGHTS), self.attr.zero_point_of(ARG_WEIGHTS)
        size = group_size(weights, scale, zero) if is_coded and self.terms else 0
        return size if size and (kind.bits >= 8 or size % NIBBLES == 0) else None

    @property
    def _mode(self) -> str:
        """The mode of a source of floats beside weights of few bits."""
        return self.attr.fpmath if self.attr.fpmath_int else "strict"

    @property
    def _quantizes_rows(self) -> bool:
        """True where products are of integers, though the source is of floats."""
        (kind, k), size = (self.tensors[1].data_type, self.tensors[1].dims[-2]), self.group
        # Bytes by bytes need an instruction for pairs.
        has_kernel = kind.bits < _BYTE or kernel_pack(DataType.s8, DataType.s8) > 1
        return size is not None and self._mode == "any" and has_kernel and are_quantized(kind, k, size)

    @property
    def _rounds_rows(self) -> bool:
        """True where products are of bf16, though the source is of wider floats."""
        is_lower = self._mode != "strict" and self.tensors[1].data_type.bits < _BYTE
        return self.group is not None and is_lower and not self._quantizes_rows and has_dots_of_bf16()

    @property
    def _moves_columns(self) -> bool:
        """True where weights become f32 in blocks, some columns after the other: as many rows read them."""
        src, weights, dst = self.tensors
        rows, columns = dst.dims[-2], weights.dims[-1]
        if self.group is not None:
            is_quick = weights.data_type.is_integral or self._quantizes_rows or self._rounds_rows
            is_many = rows >= ROWS_OF_DECODED and weights.nelems >= LEAST_DECODED
            return src.data_type in FACTORS and not is_quick and is_many and columns >= QUANTIZED_BLOCK
        is_large = columns >= LEAST_COLUMNS and weights.nelems >= LARGE_WEIGHTS
        if self._goes_by_rows or not self._is_plain or not is_large:
            return False
        return rows >= self._rows_of_moved and has_rows(dst)

    @property
    def _is_plain(self) -> bool:
        """True for floats that are multiplied as they are, by one matrix without blocks."""
        src, weights, _ = self.tensors
        if self.has_runtime or self.grown or self.is_wide or self.pack > 1 or not self.terms:
            return False
        is_integral = src.data_type.is_integral or weights.data_type.is_integral
        return not (is_integral or weights.inner_blks) and weights.nelems == prod(weights.dims[-2:])

    @property
    def _goes_by_rows(self) -> bool:
        """True where few rows read each row of the weights as it lies."""
        _, weights, dst = self.tensors
        is_few = dst.dims[-2] <= MOST_BY_ROWS and weights.size >= LEAST_COLUMN_BYTES
        return is_few and self._is_plain and has_rows(weights) and weights.dims[-1] >= LEAST_COLUMNS

    @property
    def _rows_of_moved(self) -> int:
        """How many rows of a source are worth moving plain weights for."""
        src, weights, _ = self.tensors
        if {src.data_type, weights.data_type} != {DataType.f32}:
            return LEAST_USES
        step, is_turned = weights.strides[-2], not has_rows(weights)
        if is_turned or weights.nelems >= LARGEST_WEIGHTS:
            return ROWS_OF_LARGE
        is_crowded = gcd(weights.data_type.nbytes(step), NOMINAL.page) >= CROWDED_STEP
        # Of few rows all fit into the sets that they fall into.
        is_crowded = is_crowded and weights.dims[-2] >= LEAST_COLUMNS
        return ROWS_OF_CROWDED if is_crowded else maxsize

    @property
    def _sums_groups(self) -> bool:
        """True where scales or zero points of the weights are of sums of groups."""
        scale, zero = self.attr.scale_of(ARG_WEIGHTS), self.attr.zero_point_of(ARG_WEIGHTS)
        columns = 1 << self.dst.ndims - 1
        is_inside = zero is not None or (
            scale is not None and (scale.mask not in (0, columns) or scale.groups)
        )
        return self.group is not None and bool(is_inside)

    def chain(self) -> ProductChain:
        """The chain of the attributes: scales and zero points, bias, post-ops."""
        if self.group is None or self._moves_columns:
            return ProductProblem.chain(self)
        bias = self._bias_operand()
        return product_chain(
            self.tensors, self.attr, bias, -1, is_wide=False, grown={}, has_groups=self._sums_groups
        )

    def work(self) -> ContractionWork:
        work = ProductProblem.work(self)
        group, preferred = self.group, work.preferred
        if self._moves_columns:
            group = self.tensors[1].dims[-2]
            preferred = {**preferred, "weights": self._in_blocks(DataType.f32, QUANTIZED_BLOCK)}
        if group is None:
            return replace(work, goes_by_rows=self._goes_by_rows)
        return QuantizedWork(
            *(work.reads, work.written, work.loops, preferred, work.chain, work.slots, work.terms),
            *(work.work_bytes, work.is_wide, work.pack),
            group=group,
            in_integers=self._quantizes_rows,
            in_bf16=self._rounds_rows,
        )

    def _has_groups(self, arg: int) -> bool:
        """True where a factor has scales or zero points that are not those of all of a row or column."""
        columns = 1 << self.dst.ndims - 1
        masks = {ARG_SRC: (0,), ARG_WEIGHTS: (0, columns)}[arg]
        value_args = self.attr.scale_of(arg), self.attr.zero_point_of(arg)
        return any(item is not None and (item.mask not in masks or item.groups) for item in value_args)

    def preferred(self) -> dict[str, MemoryDesc]:
        """The descriptors that kernels want: weights in blocks of columns, the others row-major."""
        src, weights, dst = self.tensors
        block = self.block if self.group is None else QUANTIZED_BLOCK
        return {
            "src": MemoryDesc(src.dims, src.data_type),
            "weights": self._in_blocks(weights.data_type, block, self.pack),
            "dst": MemoryDesc(dst.dims, dst.data_type),
        }

    def _in_blocks(self, kind: DataType, block: int, pack: int = 1) -> MemoryDesc:
        """The weights in blocks of columns, of so many rows in turn."""
        dims = self.tensors[1].dims
        *batch, k, n = list(LETTERS[: len(dims)])
        tag = f"{n.upper()}{k}{block}{n}" if pack == 1 else f"{n.upper()}{k.upper()}{block}{n}{pack}{k}"
        return MemoryDesc(dims, kind, "".join(batch) + tag)

    def _bias_operand(self) -> TensorOperand | None:
        is_open = self.bias.is_zero() or self.has_runtime
        return None if is_open else TensorOperand.of_desc(self.bias)

    def loops(self, chain: ProductChain, output: str, tensors: Mapping[str, TreeTensor]) -> tuple[Each, ...]:
        src, weights, dst = (tensors[name] for name in NAMES)
        *batch, m, n = (TreeAxis(f"d{i}", size) for i, size in enumerate(dst.sizes))
        k, index = TreeAxis("k", src.sizes[-1]), index_of(*batch, m, n)
        axes: tuple[TreeAxis, ...] = (*batch, m, n)
        if self._goes_by_rows and m.extent == 1:
            axes, index = (*batch, n), (*index[:-2], Affine(()), index[-1])
        first = chain.shifted(src.load(*index[:-1], k), ARG_SRC, index)
        second = chain.shifted(weights.load(*batch, k, n), ARG_WEIGHTS, index)
        # Folds by rows are along the first tensor.
        value = second * first if self._goes_by_rows else first * second
        summed = Each((k,), (fold_over("sum", "total", value),))
        return (Each(axes, (summed, dst.store(index, chain.result(Ref("total"), dst, index)))),)


def _fit(size: int, other: int) -> bool:
    """True for equal sizes; one that is known only at execution fits all."""
    return size == other or RUNTIME_DIM in (size, other)


def _size_text(size: int) -> str:
    return "?" if size == RUNTIME_DIM else str(size)


class MatmulPrimitiveDesc(DerivedPrimitiveDesc):
    """A primitive descriptor whose dims may be known only at execution."""

    __slots__ = ()

    def _executable(self, problem: OperationProblem, engine: Engine) -> Executable:
        assert isinstance(problem, MatmulProblem)
        if problem.has_runtime:
            return deferred_to_slots(problem.slots(), engine)
        return compiled(problem, engine)

    def _concrete(self, problem: MatmulProblem, mds: Mapping[int, MemoryDesc]) -> Implementation:
        """The implementation for the tensors of an execution."""
        concrete, engine = problem.concrete(f"{self.kind}.execute", mds), self.get_engine()
        return find_implementation(concrete, engine, self._describe, lambda: compiled(concrete, engine))


class MatmulPrimitive(Primitive):
    """A primitive that is made for the shapes of an execution, where these are not known before."""

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


Matmul = make_primitive(MatmulProblem, desc=MatmulPrimitiveDesc, base=MatmulPrimitive)
