"""Matmul, a product of matrices: `dst[..., m, n] = sum over k of src[..., m, k] * weights[..., k, n]`.

Batch dims of 1 are broadcast. Factors with separate scales or zero points for each row or group of `k` are
first dequantized to floats, and the products of these are summed. Dims may be known only at execution: then
each concrete shape has its own program.
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

    Executed with `ARG_SRC`, `ARG_WEIGHTS`, `ARG_DST` and, if there is a bias, `ARG_BIAS`.
    """

    operation = "matmul"
    primitive = "Matmul"
    call = "src", "weights", "bias", "dst"
    defaults = {"bias": None, "dst": None}
    prop_kinds = (PropKind.undef,)
    needs_dims = False
    arguments = """
    Positional calls can omit the bias. `src` (..., M, K), `weights` (..., K, N), `dst` (..., M, N): 2 to 12
    dims; batch dims of 1 are broadcast. `bias` has the rank of `dst`; its dims of 1 are broadcast. A tensor
    of format "any" gets the format that is fastest here. `attr`: scales, zero points, post-ops, the
    scratchpad mode. 8-bit and 4-bit integer weights and 4-bit float weights are decompressed for a float
    source, 4-bit ones also for a byte source. Their scales and zero points can have any mask and groups, as
    can those of a byte source."""

    _columns: ClassVar[int] = -1

    @classmethod
    def read(cls, call: ArgumentReader) -> MatmulProblem:
        problem = cls(*cls.read_tensors(call), kernel_block())
        problem._check_shapes(call.what)
        problem.check_types(call.what, _COMPRESSED)
        # Attributes are checked below: the types of the factors depend on them.
        problem = replace(problem, attr=call.frozen_attr())
        problem = replace(problem, pack=problem._kernel_pack())
        problem._check_open_formats(call.what)
        problem = problem.chosen()
        call.attr(*cls.attributes)
        return problem.checked(call.what)

    def checked(self, what: str) -> MatmulProblem:
        """Return the problem if the attributes fit it and the result."""
        tensors = self.operands()
        are_whole = all(tensors[arg].data_type.is_integral for arg in (ARG_SRC, ARG_WEIGHTS))
        check_attr_of(what, self.attr, tensors, shifts_floats=are_whole)
        check_narrow_sum(what, self.attr, self.dst.data_type)
        # A factor that is first dequantized to floats can have scales and zero points for each element.
        own = [arg for arg, kind in self.grown.items() if not kind.is_integral]
        rest, columns = self.attr.without_factors_of(*own), (0, 1 << self.dst.ndims - 1)
        masks = {ARG_SRC: (0,), ARG_WEIGHTS: columns}
        check_scale_masks(what, rest, masks)
        check_zero_points(what, rest, masks)
        if not self.has_runtime:
            check_written(what, "dst", self.dst)
        return self

    def concrete(self, what: str, mds: Mapping[int, MemoryDesc]) -> MatmulProblem:
        """Return the problem of one execution. `mds`: the descriptors by argument."""
        tensors, bias = (mds[ARG_SRC], mds[ARG_WEIGHTS], mds[ARG_DST]), mds.get(ARG_BIAS, MemoryDesc())
        problem = replace(self, tensors=tensors, bias=bias)
        problem = replace(problem, pack=kernel_pack(*problem.factor_types)) if problem.rounded else problem
        problem._check_shapes(what)
        return problem.checked(what)

    def _check_open_formats(self, what: str) -> None:
        """Raise InvalidArguments if both a format and dims are left open."""
        for name, md in self.named().items():
            if md.format_kind == "any" and RUNTIME_DIM in md.dims:
                raise refuse("RS-N15:any-with-runtime-dims", what=what, name=name, md=md)

    def _check_shapes(self, what: str) -> None:
        refuse_dims, bias = self.refuse_dims(what), self.bias
        src, weights, dst = self.tensors
        if not 2 <= dst.ndims == src.ndims == weights.ndims:
            refuse_dims(
                f"ranks are {src.ndims}, {weights.ndims} and {dst.ndims}",
                "give all the same rank, 2 or more; batch dims of 1 are broadcast",
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
                    "give equal sizes, or 1 to broadcast",
                )
        fits = bias.ndims == dst.ndims and all(
            a == 1 or _fit(a, b) for a, b in zip(bias.dims, dst.dims, strict=True)
        )
        if not bias.is_zero() and not fits:
            refuse_dims(f"the bias is {bias.dims}", f"give {dst.ndims} dims, each equal to that of dst or 1")

    @classmethod
    def result_dims(cls, node: Any, *tensors: Shaped) -> tuple[int, ...]:
        left, right, *bias = (tensor.dims for tensor in tensors)
        if not 2 <= len(left) == len(right) or left[-1] != right[-2]:
            raise Misfit("ranks must be equal, and src must have as many columns as weights have rows")
        dims = (*broadcast(left[:-2], right[:-2]), left[-2], right[-1])
        if bias and broadcast(dims, bias[0]) != dims:
            raise Misfit("the bias is larger than the result")
        return dims

    @property
    def has_runtime(self) -> bool:
        """True if dims or strides are known only at execution."""
        return any(md.layout.has_runtime for md in (*self.tensors, self.bias) if not md.is_zero())

    def slots(self) -> tuple[Slot, ...]:
        """Return the arguments of a program whose shapes are not yet known."""
        bias = () if self.bias.is_zero() else (Slot(ARG_BIAS),)
        own = Slot(ARG_SRC), Slot(ARG_DST, is_written=True), Slot(ARG_WEIGHTS), *bias
        return (*own, *self.computation().slots())

    @property
    def terms(self) -> int:
        return prod(self.dst.dims) * self.tensors[0].dims[-1]

    @property
    def grown(self) -> dict[int, DataType]:
        """The types that factors are converted to: 4-bit integers to bytes, others to f32.

        These are factors narrower than the floats of the other factor, and factors with scales along `k`;
        for the rest, a math mode may round.
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
        """The number of weight rows that share a scale if they are decoded in registers; else None."""
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
        """The math mode of a float source with quantized weights."""
        return self.attr.fpmath if self.attr.fpmath_int else "strict"

    @property
    def _quantizes_rows(self) -> bool:
        """True if products are of integers although the source is float."""
        (kind, k), size = (self.tensors[1].data_type, self.tensors[1].dims[-2]), self.group
        # Products of two byte vectors need a dot-product instruction.
        has_kernel = kind.bits < _BYTE or kernel_pack(DataType.s8, DataType.s8) > 1
        return size is not None and self._mode == "any" and has_kernel and are_quantized(kind, k, size)

    @property
    def _rounds_rows(self) -> bool:
        """True if products are of bf16 although the source is wider."""
        is_lower = self._mode != "strict" and self.tensors[1].data_type.bits < _BYTE
        return self.group is not None and is_lower and not self._quantizes_rows and has_dots_of_bf16()

    @property
    def _moves_columns(self) -> bool:
        """True if weights become f32 in blocks, one group of columns at a time: for enough rows of source."""
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
        """True if both factors are multiplied unconverted, by one matrix without blocks."""
        src, weights, _ = self.tensors
        if self.has_runtime or self.grown or self.is_wide or self.pack > 1 or not self.terms:
            return False
        is_integral = src.data_type.is_integral or weights.data_type.is_integral
        return not (is_integral or weights.inner_blks) and weights.nelems == prod(weights.dims[-2:])

    @property
    def _goes_by_rows(self) -> bool:
        """True if there are so few rows that weights are read in place."""
        _, weights, dst = self.tensors
        is_few = dst.dims[-2] <= MOST_BY_ROWS and weights.size >= LEAST_COLUMN_BYTES
        return is_few and self._is_plain and has_rows(weights) and weights.dims[-1] >= LEAST_COLUMNS

    @property
    def _rows_of_moved(self) -> int:
        """The number of source rows from which repacking plain weights pays off."""
        src, weights, _ = self.tensors
        if {src.data_type, weights.data_type} != {DataType.f32}:
            return LEAST_USES
        step, is_turned = weights.strides[-2], not has_rows(weights)
        if is_turned or weights.nelems >= LARGEST_WEIGHTS:
            return ROWS_OF_LARGE
        is_crowded = gcd(weights.data_type.nbytes(step), NOMINAL.page) >= CROWDED_STEP
        # A few rows fit into the cache sets that they map to.
        is_crowded = is_crowded and weights.dims[-2] >= LEAST_COLUMNS
        return ROWS_OF_CROWDED if is_crowded else maxsize

    @property
    def _sums_groups(self) -> bool:
        """True if scales or zero points of the weights are applied to sums of groups."""
        scale, zero = self.attr.scale_of(ARG_WEIGHTS), self.attr.zero_point_of(ARG_WEIGHTS)
        columns = 1 << self.dst.ndims - 1
        is_inside = zero is not None or (
            scale is not None and (scale.mask not in (0, columns) or scale.groups)
        )
        return self.group is not None and bool(is_inside)

    def chain(self) -> ProductChain:
        """The attributes applied to the products: scales and zero points, bias, post-ops."""
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
        """True if a factor has scales or zero points that vary within a row or column."""
        columns = 1 << self.dst.ndims - 1
        masks = {ARG_SRC: (0,), ARG_WEIGHTS: (0, columns)}[arg]
        value_args = self.attr.scale_of(arg), self.attr.zero_point_of(arg)
        return any(item is not None and (item.mask not in masks or item.groups) for item in value_args)

    def preferred(self) -> dict[str, MemoryDesc]:
        """The descriptors that kernels prefer: weights in blocks of columns, the others row-major."""
        src, weights, dst = self.tensors
        block = self.block if self.group is None else QUANTIZED_BLOCK
        return {
            "src": MemoryDesc(src.dims, src.data_type),
            "weights": self._in_blocks(weights.data_type, block, self.pack),
            "dst": MemoryDesc(dst.dims, dst.data_type),
        }

    def _in_blocks(self, kind: DataType, block: int, pack: int = 1) -> MemoryDesc:
        """Return the weights in blocks of columns, with `pack` rows interleaved."""
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
        # Folds by rows run along the first tensor.
        value = second * first if self._goes_by_rows else first * second
        summed = Each((k,), (fold_over("sum", "total", value),))
        return (Each(axes, (summed, dst.store(index, chain.result(Ref("total"), dst, index)))),)


def _fit(size: int, other: int) -> bool:
    """Return whether sizes match; one known only at execution matches any."""
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
        """Return the implementation for the tensors of an execution."""
        concrete, engine = problem.concrete(f"{self.kind}.execute", mds), self.get_engine()
        return find_implementation(concrete, engine, self._describe, lambda: compiled(concrete, engine))


class MatmulPrimitive(Primitive):
    """A primitive that can be compiled at execution, if its shapes are not known before."""

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
