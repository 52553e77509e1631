"""The problem of a reduction: a tensor folded along the dims that the destination has not.

max, min, sum, mul, mean      of the elements
norm_lp_max, norm_lp_sum      max(sum(|x|**p), eps)**(1/p), (sum(|x|**p) + eps)**(1/p)
norm_lp_power_p_max, ..._sum  the same without the root
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

from ..desc.arguments import ARG_DST, ARG_SRC
from ..desc.attr import Attr
from ..desc.attr_value import structure_of
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import f32_bits
from ..dtypes import DataType
from .computation import Computation, computation_of
from .expression import Const, Expr, Ref, Scalar, TreeAxis, apply
from .pointwise import moved_bytes as bytes_of
from .problem import ProblemBase
from .program import DST, SRC, Place, Program, Slot, TreeStep
from .tree import Each, LoopTree, TreeTensor, fold_over
from .tree_split import split_folds
from .tree_steps import old_element, old_tensors, operand_loads, operand_tensors, with_steps

NORMS = ("norm_lp_max", "norm_lp_sum", "norm_lp_power_p_max", "norm_lp_power_p_sum")
"""The algorithms that have p and eps."""
ALGORITHMS = ("max", "min", "sum", "mul", "mean", *NORMS)
"""The algorithms by oneDNN's names, without `reduction_`."""

_FOLDS = {"max": "max", "min": "min", "mul": "mul"}
# A power takes as long as to move so many bytes.
_POWER_BYTES = 64


@dataclass(frozen=True, slots=True)
class ReductionProblem(ProblemBase):
    """What to reduce: dims of 1 in `dst` are folded. Equal problems share an executable.

    `p` and `eps` are f32 values, of norms alone; equality compares their bits.
    """

    alg: str
    src: MemoryDesc
    dst: MemoryDesc
    p: float = field(default=0.0, compare=False)
    eps: float = field(default=0.0, compare=False)
    attr: Attr = field(default_factory=Attr)
    bits: tuple[int, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bits", (f32_bits(self.p), f32_bits(self.eps)))

    def structure(self) -> ReductionProblem:
        """The problem without its numbers; but powers of 1 and 2 are no calls of a function."""
        p = self.p if self.p in (1.0, 2.0) else 3.0
        return replace(self, p=p if self.is_norm else 0.0, eps=0.0, attr=structure_of(self.attr))

    @property
    def is_norm(self) -> bool:
        """True for an algorithm that has p and eps."""
        return self.alg in NORMS

    def computation(self) -> Computation:
        """p, eps and 1 / p, or 1 / count, and then what is done to the result."""
        after = computation_of(self.attr, self.dst, self.dst)
        own = self._numbers()
        origins = tuple((0, i) for i in range(len(own)))
        return replace(after, scalars=(*own, *after.scalars), origins=(*origins, *after.origins))

    def _numbers(self) -> tuple[float, ...]:
        if self.is_norm:
            return self.p, self.eps, 1.0 / self.p if self.p else 0.0
        return (float(self.folded),) if self.alg == "mean" else ()

    @property
    def folded(self) -> int:
        """How many elements each result is of."""
        return prod(n for n, out in zip(self.src.dims, self.dst.dims, strict=True) if out == 1)

    def tree(self) -> LoopTree:
        """The loop tree."""
        computed, first = self.computation(), len(self._numbers())
        src, dst = TreeTensor.of_desc("src", self.src), TreeTensor.of_desc("dst", self.dst)
        operands = operand_tensors(computed.tensors, self.dst.dims)
        index = tuple(TreeAxis(f"d{i}", n) for i, n in enumerate(self.src.dims))
        is_folded = [out == 1 for out in self.dst.dims]
        inner = tuple(axis for axis, folded in zip(index, is_folded, strict=True) if folded)
        outer = tuple(axis for axis, folded in zip(index, is_folded, strict=True) if not folded)
        at = tuple(0 if folded else axis for axis, folded in zip(index, is_folded, strict=True))
        op = _FOLDS.get(self.alg, "sum")
        result = self._finished(Ref("found"))
        old = old_tensors(computed.compute, dst)
        before = old_element(old, dst, at)
        made = with_steps(result, computed.compute, operand_loads(operands, at), before, first)
        fold = Each(inner, (fold_over(op, "found", self._term(src.load(*index))),))
        loop = Each(outer, (fold, dst.store(at, made)))
        wide = any(md.data_type in (DataType.f64, DataType.s32) for md in (self.src, self.dst))
        return LoopTree((src, dst, *operands, *old), (loop,), first + computed.compute.scalars, wide).verify()

    def _term(self, value: Expr) -> Expr:
        if not self.is_norm:
            return value
        if self.p == 2.0:
            return value * value
        size = apply("abs", value)
        return size if self.p == 1.0 else apply("pow", size, 1.0, Scalar(0))

    def _finished(self, found: Expr) -> Expr:
        if self.alg == "mean":
            return found / Scalar(0)
        if not self.is_norm:
            return found
        total = apply("max", found, Scalar(1)) if self.alg.endswith("_max") else found + Scalar(1)
        if "power" in self.alg or self.p == 1.0:
            return total
        return apply("sqrt", total) if self.p == 2.0 else apply("pow", total, Const(1.0), Scalar(2))

    def program(self) -> Program:
        """The program: one tree, or two where few results are of many elements each."""
        computed = self.computation()
        tree, places = self.tree(), (Place(SRC), Place(DST), *computed.places(DST + 1))
        # The old destination, read as another type.
        places = (*places, *[Place(DST)] * (len(tree.tensors) - len(places)))
        step = TreeStep(tree, places, self.work_bytes, (0, len(computed.scalars)))
        slots = (Slot(ARG_SRC), Slot(ARG_DST, is_written=True), *computed.slots())
        steps, temporaries = split_folds(step)
        return Program(slots, steps, temporaries, len(computed.scalars)).verify()

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written."""
        return bytes_of([self.src], self.dst)

    @property
    def work_bytes(self) -> int:
        """How many bytes could be moved in the time that this takes."""
        is_costly = self.is_norm and self.p not in (1.0, 2.0)
        return self.moved_bytes + _POWER_BYTES * is_costly * self.src.nelems
