"""Reduction: a tensor folded along the dims in which the destination is 1.

max, min, sum, mul, mean      of the elements
norm_lp_max, norm_lp_sum      max(sum(|x|**p), eps)**(1/p), (sum(|x|**p) + eps)**(1/p)
norm_lp_power_p_max, ..._sum  the same without the root

The gradient of an extreme is shared evenly by the elements equal to it, as in torch's amax.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import isfinite, prod
from typing import Annotated, Any, ClassVar

import numpy as np

from ..desc.arguments import ARG_DIFF_DST, ARG_DST, ARG_SRC
from ..desc.attr import Attr
from ..desc.attr_value import structure_of
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import f32_bits
from ..dtypes import DataType
from ..errors import refuse
from ..ir.attribute_chain import AttributeChain
from ..ir.computation import Computation, computation_of
from ..ir.expression import Const, Expr, Ref, Scalar, TreeAxis, apply
from ..ir.numbers import Number
from ..ir.tree import Each, Fold, LoopTree, TreeTensor, fold_over
from ..model.any_format import resolved_operand
from ..model.derived import make_primitive
from ..model.operation import GradientProblem, OperationProblem, is_computed_wide
from ..model.prop_kind import PropKind
from ..model.reader import ArgumentReader
from ..model.result_dims import Shaped, check_axis, from_end
from ..runtime.alloc import Array
from ..schedule.trees.split_folds import pieces_of_folds

NORMS = ("norm_lp_max", "norm_lp_sum", "norm_lp_power_p_max", "norm_lp_power_p_sum")
"""The algorithms with p and eps."""
_FOLDS = {"max": "max", "min": "min", "mul": "mul"}
# Integers whose folds are exact and wrap around: they are computed in their own type.
_EXACT = (DataType.s64, DataType.u64, DataType.u32)
_UNSIGNED = -(2.0**63)
_ONNX_S64 = 7
Dims = tuple[int, ...]
Value = Array | str
# A power takes as long as moving this many bytes.
_POWER_BYTES = 64


def _of_integers(algorithm: str, of: Callable[[Any, Value], Value] = lambda call, x: x) -> Any:
    """Return an ONNX operator that folds integers, or `of` applied to them, in 64 bits."""

    def run(
        call: Any,
        x: Value,
        axes: Annotated[Dims, "the list of axes"] | None = None,
        *,
        keepdims: bool = True,
        noop_with_empty_axes: bool = False,
    ) -> Any:
        dims, apart, is_exact = call.dims(x), call.with_outputs(0), call.type_of(x) in _EXACT
        axes = axes or (() if noop_with_empty_axes else tuple(range(len(dims))))
        which = tuple(sorted({from_end(axis, len(dims)) for axis in axes}))
        if not which:
            return of(call, x)
        wide = of(apart, x if is_exact else apart.onnx("Cast", x, to=_ONNX_S64))
        word = "sum" if algorithm == "mean" else algorithm
        folded = apart.primitive(
            "Reduction", wide, algorithm=f"reduction_{word}", axes=which, p=0.0, epsilon=0.0
        )
        if algorithm == "mean":
            count = np.array(prod(dims[axis] for axis in which), call.numpy_type(wide))
            folded = apart.onnx("Div", folded, count)
        if not keepdims:
            folded = call.reshaped(folded, tuple(n for i, n in enumerate(dims) if i not in which))
        return folded if is_exact else call.onnx("CastLike", folded, x)

    return run


@dataclass(frozen=True, slots=True)
class ReductionProblem(OperationProblem):
    """The reduction primitive (`dnnl::reduction`): a fold over the dims in which the destination is 1.

    Executed with `ARG_SRC` and `ARG_DST`. Sums are in f32, or in f64 if a tensor is f64 or an integer of 32
    bits or more; their order depends on shape and format, never on threads. max, min, sum and mul from s64,
    u64 or u32 to the same type, without attributes, are computed in integers, which wrap around.
    """

    operation = "reduction"
    primitive = "Reduction"
    call = "algorithm", "src", "dst", "p", "eps"
    defaults = {"p": 0.0, "eps": 0.0}
    prop_kinds = (PropKind.undef,)
    algorithms = ("max", "min", "sum", "mul", "mean", *NORMS)
    onnx = {
        "ReduceL1": ("norm_lp_sum", 1.0),
        "ReduceL2": ("norm_lp_sum", 2.0),
        "ReduceMax": "max",
        "ReduceMean": "mean",
        "ReduceMin": "min",
        "ReduceProd": "mul",
        "ReduceSum": "sum",
        "ReduceSumSquare": ("norm_lp_power_p_sum", 2.0),
    }
    integers = {
        "ReduceL1": _of_integers("sum", lambda call, x: call.onnx("Abs", x)),
        "ReduceMax": _of_integers("max"),
        "ReduceMean": _of_integers("mean"),
        "ReduceMin": _of_integers("min"),
        "ReduceProd": _of_integers("mul"),
        "ReduceSum": _of_integers("sum"),
        "ReduceSumSquare": _of_integers("sum", lambda call, x: call.onnx("Mul", x, x)),
    }
    aten = {"amax": "ReduceMax", "amin": "ReduceMin", "mean": "ReduceMean", "sum": "ReduceSum"}
    openvino = {name: name for name in onnx if name != "ReduceSumSquare"}
    rewrites = staticmethod(pieces_of_folds)
    node_values: ClassVar = {"eps": lambda node, dst: node.epsilon}
    arguments = """
    `algorithm`: a oneDNN name, "reduction_sum" or "sum". `dst` has 1 where the source is folded, else the
    dims of the source; format "any" takes that of the source. `p` (1 or more) and `eps` apply to norms.
    `attr`: post-ops and the scratchpad mode."""

    algorithm: str
    src: MemoryDesc
    dst: MemoryDesc
    # f32 values, for norms only; equality compares their bits.
    p: float = field(default=0.0, compare=False)
    eps: float = field(default=0.0, compare=False)
    attr: Attr = field(default_factory=Attr)
    bits: tuple[int, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bits", (f32_bits(self.p), f32_bits(self.eps)))

    @classmethod
    def read(cls, call: ArgumentReader) -> ReductionProblem:
        algorithm, p, eps = call.algorithm(), call.number("p"), call.number("eps")
        src, dst = call.known("src"), call.open("dst")
        _check_folded(call, src, dst)
        dst = resolved_operand(dst, src)
        call.check_written("dst", dst)
        numbers = _norm_numbers(call, algorithm, p, eps)
        return cls(algorithm, src, dst, *numbers, call.attr("post_ops", of={ARG_DST: dst}))

    @classmethod
    def result_dims(cls, node: Any, *tensors: Shaped) -> tuple[int, ...]:
        for axis in node.axes:
            check_axis(axis, tensors[0])
        return tuple(1 if i in node.axes else n for i, n in enumerate(tensors[0].dims))

    @property
    def verbose_aux(self) -> str:
        numbers = f" p:{self.p:g} eps:{self.eps:g}" if self.is_norm else ""
        return f"alg:reduction_{self.algorithm}{numbers}"

    def structure(self) -> ReductionProblem:
        # Powers of 1 and 2 need no function call.
        p = self.p if self.p in (1.0, 2.0) else 3.0
        return replace(self, p=p if self.is_norm else 0.0, eps=0.0, attr=structure_of(self.attr))

    @property
    def is_norm(self) -> bool:
        """True if the algorithm has p and eps."""
        return self.algorithm in NORMS

    def computation(self) -> Computation:
        """p, eps and 1 / p, or the count, followed by the steps on the result."""
        after = computation_of(self.attr, self.dst, self.dst)
        own = self._numbers()
        origins = tuple((0, i) for i in range(len(own)))
        return replace(after, scalars=(*own, *after.scalars), origins=(*origins, *after.origins))

    def _numbers(self) -> tuple[float, ...]:
        if self.is_norm:
            return self.p, self.eps, 1.0 / self.p if self.p else 0.0
        folded = prod(n for n, out in zip(self.src.dims, self.dst.dims, strict=True) if out == 1)
        return (float(folded),) if self.algorithm == "mean" else ()

    def tree(self) -> LoopTree:
        """The loop tree."""
        src, dst = TreeTensor.of_desc("src", self.src), TreeTensor.of_desc("dst", self.dst)
        chain = AttributeChain(self.computation(), dst, self.dst.dims, len(self._numbers()))
        index = tuple(TreeAxis(f"d{i}", n) for i, n in enumerate(self.src.dims))
        is_folded = [out == 1 for out in self.dst.dims]
        inner = tuple(axis for axis, folded in zip(index, is_folded, strict=True) if folded)
        outer = tuple(axis for axis, folded in zip(index, is_folded, strict=True) if not folded)
        at = tuple(0 if folded else axis for axis, folded in zip(index, is_folded, strict=True))
        op = _FOLDS.get(self.algorithm, "sum")
        fold = Each(inner, (fold_over(op, "found", self._term(src.load(*index))),))
        loop = Each(outer, (fold, chain.store(at, self._finished(Ref("found")))))
        tensors = (src, dst, *chain.tensors)
        return LoopTree(tensors, (loop,), chain.scalars, self._number).verify()

    @property
    def _number(self) -> Number:
        """The type of the computation: 64-bit integers if it is only a fold."""
        is_exact = self.src.data_type is self.dst.data_type and self.src.data_type in _EXACT
        if is_exact and self.algorithm in (*_FOLDS, "sum") and self.attr.is_default:
            return Number.i64
        return Number.real(is_wide=is_computed_wide(self.src, self.dst))

    @property
    def _is_shifted(self) -> bool:
        """True if the extreme of unsigned integers is found by comparing signed ones."""
        is_order = self.algorithm in ("max", "min")
        return is_order and self._number.is_integer and self.src.data_type is DataType.u64

    def _term(self, value: Expr) -> Expr:
        if not self.is_norm:
            return value + _UNSIGNED if self._is_shifted else value
        if self.p == 2.0:
            return value * value
        size = apply("abs", value)
        return size if self.p == 1.0 else apply("pow", size, 1.0, Scalar(0))

    def _finished(self, folded: Expr) -> Expr:
        if self.algorithm == "mean":
            return folded / Scalar(0)
        if not self.is_norm:
            return folded + _UNSIGNED if self._is_shifted else folded
        total = apply("max", folded, Scalar(1)) if self.algorithm.endswith("_max") else folded + Scalar(1)
        if "power" in self.algorithm or self.p == 1.0:
            return total
        return apply("sqrt", total) if self.p == 2.0 else apply("pow", total, Const(1.0), Scalar(2))

    @property
    def work_bytes(self) -> int:
        is_costly = self.is_norm and self.p not in (1.0, 2.0)
        return self.moved_bytes + _POWER_BYTES * is_costly * self.src.nelems


@dataclass(frozen=True, slots=True)
class ReductionBackwardProblem(GradientProblem):
    """The gradient of the source of a reduction.

    Executed with `ARG_DIFF_DST`, `ARG_SRC` (unless it is a sum or a mean), and `ARG_DIFF_SRC`. The folds of
    the forward step are computed again.
    """

    operation = "reduction"
    primitive = "ReductionBackward"
    call = "algorithm", "src", "diff_src", "diff_dst", "p", "eps"
    defaults = ReductionProblem.defaults
    algorithms = ReductionProblem.algorithms
    reads = {ARG_DIFF_DST: "diff_dst", ARG_SRC: "src"}
    in_place = False
    arguments = """
    Parameters are as in the forward step. `diff_src`: format "any" takes that of the source. Floats only."""

    algorithm: str
    src: MemoryDesc
    diff_src: MemoryDesc
    diff_dst: MemoryDesc
    p: float = 0.0
    eps: float = 0.0
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def read(cls, call: ArgumentReader) -> ReductionBackwardProblem:
        algorithm, src, diff_dst = call.algorithm(), call.known("src"), call.known("diff_dst")
        numbers = _norm_numbers(call, algorithm, call.number("p"), call.number("eps"))
        diff_src = call.written("diff_src", src)
        call.check_dims(diff_src, lambda: src.dims, src, name="diff_src")
        _check_folded(call, src, diff_dst)
        return cls(algorithm, src, diff_src, diff_dst, *numbers, call.attr())

    def sources(self) -> dict[int, MemoryDesc]:
        is_linear = self.algorithm in ("sum", "mean")
        return {ARG_DIFF_DST: self.diff_dst} | ({} if is_linear else {ARG_SRC: self.src})

    @property
    def verbose_aux(self) -> str:
        numbers = f" p:{self.p:g} eps:{self.eps:g}" if self.algorithm in NORMS else ""
        return f"alg:reduction_{self.algorithm}{numbers}"

    def tree(self) -> LoopTree:
        """The loop tree: the folds of each group of elements, then the gradient of each of its elements."""
        gradient, out = (TreeTensor.of_desc(name, getattr(self, name)) for name in ("diff_dst", "diff_src"))
        src = TreeTensor.of_desc("src", self.src)
        index = tuple(TreeAxis(f"d{i}", n) for i, n in enumerate(self.src.dims))
        pairs = tuple(zip(index, self.diff_dst.dims, strict=True))
        inner = tuple(axis for axis, n in pairs if n == 1)
        outer = tuple(axis for axis, n in pairs if n != 1)
        folds, slope = self._slope(src.load(*index))
        value = gradient.load(*(0 if n == 1 else axis for axis, n in pairs)) * slope
        items = (*(Each(inner, (fold,)) for fold in folds), Each(inner, (out.store(index, value),)))
        number = Number.real(is_wide=is_computed_wide(self.src, self.diff_src, self.diff_dst))
        tensors = (gradient, src, out) if folds else (gradient, out)
        return LoopTree(tensors, (Each(outer, items),), number=number).verify()

    def _slope(self, x: Expr) -> tuple[tuple[Fold, ...], Expr]:
        """Return the folds of the source, and the factor of the gradient for an element of it."""
        count = prod(n for n, out in zip(self.src.dims, self.diff_dst.dims, strict=True) if out == 1)
        if self.algorithm in ("sum", "mean"):
            return (), Const(1.0 if self.algorithm == "sum" else 1.0 / max(count, 1))
        if self.algorithm in ("max", "min"):
            is_found = apply("eq", x, Ref("found"))
            folds = fold_over(self.algorithm, "found", x), fold_over("sum", "count", is_found)
            return folds, is_found * (1.0 / Ref("count"))
        is_zero = apply("eq", x, 0)
        if self.algorithm == "mul":
            rest, zeros = Ref("rest"), Ref("zeros")
            folds = (
                fold_over("sum", "zeros", is_zero),
                fold_over("mul", "rest", apply("select", is_zero, 1, x)),
            )
            of_one = apply("select", apply("min", is_zero, apply("eq", zeros, 1)), rest, 0)
            return folds, apply("select", apply("eq", zeros, 0), rest / x, of_one)
        size, sign = apply("abs", x), apply("gt", x, 0) - apply("lt", x, 0)
        power = sign if self.p == 1.0 else x if self.p == 2.0 else sign * apply("pow", size, 1.0, self.p - 1)
        term = size if self.p == 1.0 else x * x if self.p == 2.0 else apply("pow", size, 1.0, self.p)
        total = Ref("found")
        folded = apply("max", total, self.eps) if self.algorithm.endswith("_max") else total + self.eps
        slope: Expr = power * self.p
        if "power" not in self.algorithm:
            slope = power * apply("pow", folded, 1.0, 1.0 / self.p - 1)
            # A norm is not differentiable where it is zero.
            slope = apply("select", apply("eq", folded, 0), 0, slope)
        if self.algorithm.endswith("_max"):
            slope = apply("select", apply("lt", total, self.eps), 0, slope)
        return (fold_over("sum", "found", term),), slope


def _check_folded(call: ArgumentReader, src: MemoryDesc, dst: MemoryDesc) -> None:
    """Raise InvalidArguments unless each dim is that of the source, or 1."""
    if src.ndims != dst.ndims or any(out not in (1, n) for n, out in zip(src.dims, dst.dims, strict=True)):
        raise refuse("RS-R10:dst-not-fit", what=call.what, src=src, dst=dst)


def _norm_numbers(call: ArgumentReader, algorithm: str, p: float, eps: float) -> tuple[float, float]:
    """Return p and eps of a norm, else zeros. Raises InvalidArguments for invalid values."""
    if algorithm not in NORMS:
        return 0.0, 0.0
    if not (isfinite(p) and p >= 1.0 and isfinite(eps)):
        raise refuse("RS-P06:norm-numbers", what=call.what, algorithm=algorithm, p=p, eps=eps)
    return p, eps


Reduction = make_primitive(ReductionProblem)
ReductionBackward = make_primitive(ReductionBackwardProblem)
