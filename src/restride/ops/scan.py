"""Scans: each element along an axis combined with all elements before it.

    dst[k] = op(src[0], ..., src[k])       exclusive: without src[k]; reverse: starting at the end

op: sum, mul, max, min. Computed sequentially, in f32, f64 if a tensor is f64, or integers that wrap: so the
bits do not depend on the number of threads, and 16-bit floats are rounded only when written. For both maxima
and minima, NaN is the extreme.

The gradient goes the other way, with a number `held` from element to element, and for mul the product before:

    held += diff_dst[k]                                          exclusive: after the two other lines
    diff_src[k] = held;  for mul before[k] * held;  for max, min held where src[k] is the extreme, else 0
    for mul held *= src[k];  for max, min held = 0 at the extreme

There are no divisions: products with zeros are exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from ..desc.arguments import ARG_DIFF_DST, ARG_SRC
from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from ..ir.expression import Affine, Const, Expr, Ref, TreeAxis, apply
from ..ir.numbers import Number
from ..ir.tree import Each, Let, LoopTree, TreeTensor
from ..model.derived import make_primitive
from ..model.operation import GradientProblem, OperationProblem, is_computed_wide
from ..model.prop_kind import PropKind
from ..model.reader import ArgumentReader
from ..model.result_dims import Shaped, check_axis, from_end
from ..runtime.alloc import Array
from .gather import Place
from .scatter import combined, number_of_values
from .softmax import axes_of

_OPERATIONS = {"sum": "add", "mul": "mul", "max": "max", "min": "min"}
_FIRST = {"sum": 0.0, "mul": 1.0, "max": -float("inf"), "min": float("inf")}
_ON_ARRAYS: Mapping[str, Any] = {"sum": np.cumsum, "mul": np.cumprod}


def _scan(algorithm: str) -> Any:
    def run(
        call: Any,
        x: Array | str,
        axis: Annotated[int, "the axis"],
        *,
        exclusive: bool = False,
        reverse: bool = False,
    ) -> Any:
        axis = from_end(axis, len(call.dims(x)))
        if not isinstance(x, str) and not exclusive and not reverse:
            return np.asarray(_ON_ARRAYS[algorithm](x, axis), x.dtype)
        return call.primitive("Scan", x, algorithm=algorithm, axis=axis, exclusive=exclusive, reverse=reverse)

    return run


def _aten(algorithm: str) -> Any:
    def run(call: Any, x: Any, dim: int) -> Any:
        kind, dims = call.type_of(x), call.dims(x)
        if not dims:
            return x
        result = kind if kind.kind == "float" else DataType.s64
        return call.primitive("Scan", x, algorithm=algorithm, axis=from_end(dim, len(dims)), data_type=result)

    return run


def _aten_extreme(algorithm: str) -> Any:
    """Return the running extreme and the last position that has it; from a NaN on, NaN is the extreme."""

    def run(call: Any, x: Any, dim: int) -> Any:
        kind, dims = call.type_of(x), call.dims(x)
        if not dims:
            return x, np.zeros((), np.int64)
        axis, x, apart = from_end(dim, len(dims)), call.placed(x), call.with_outputs(0)
        found = apart.primitive("Scan", x, algorithm=algorithm, axis=axis, data_type=kind)
        is_new = apart.elements("eq", x, found)
        if kind.kind == "float":
            is_new = apart.elements("or", is_new, apart.elements("is_nan", x))
        places = np.arange(dims[axis]).reshape(-1, *(1,) * (len(dims) - axis - 1))
        at = apart.onnx("Where", is_new, places, np.zeros((), np.int64))
        return found, apart.primitive("Scan", at, algorithm="max", axis=axis, data_type=DataType.s64)

    return run


@dataclass(frozen=True, slots=True)
class ScanProblem(OperationProblem):
    """The scan primitive: cumulative sums, products, maxima or minima along an axis.

    Executed with `ARG_SRC` and `ARG_DST`, which can share memory if their descriptors are equal.
    """

    operation = "scan"
    primitive = "Scan"
    call = "algorithm", "src", "dst", "axis", "exclusive", "reverse"
    defaults = {"exclusive": False, "reverse": False}
    prop_kinds = (PropKind.undef,)
    algorithms = tuple(_OPERATIONS)
    onnx = {"CumProd": _scan("mul"), "CumSum": _scan("sum")}
    aten = {
        "cummax": _aten_extreme("max"),
        "cummin": _aten_extreme("min"),
        "cumprod": _aten("mul"),
        "cumsum": _aten("sum"),
    }
    openvino = {
        "CumSum": lambda call, x, axis=None, *, exclusive=False, reverse=False: call.onnx(
            "CumSum", x, (0,) if axis is None else axis, exclusive=exclusive, reverse=reverse
        )
    }
    arguments = """
    `algorithm`: "scan_sum", "scan_mul", "scan_max" or "scan_min". `exclusive`: without the element itself;
    the first result is that of no elements. `reverse`: starting at the end. `dst`: format "any" takes that of
    the source."""

    algorithm: str
    src: MemoryDesc
    dst: MemoryDesc
    axis: int
    exclusive: bool
    reverse: bool
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def read(cls, call: ArgumentReader) -> ScanProblem:
        algorithm, (src, dst) = call.algorithm(), call.forward()
        return cls(
            algorithm, src, dst, call.axis(src), call.flag("exclusive"), call.flag("reverse"), call.attr()
        )

    @classmethod
    def result_dims(cls, node: Any, *tensors: Shaped) -> tuple[int, ...]:
        check_axis(node.axis, tensors[0])
        return tensors[0].dims

    @classmethod
    def results_types(cls, node: Any, *tensors: Shaped) -> tuple[DataType, ...]:
        """`node.data_type`: the type of the result, if it is not that of the source."""
        return (getattr(node, "data_type", tensors[0].data_type),)

    @property
    def verbose_aux(self) -> str:
        words = f"{' exclusive' * self.exclusive}{' reverse' * self.reverse}"
        return f"alg:scan_{self.algorithm} axis:{self.axis}{words}"

    def tree(self) -> LoopTree:
        """The loop tree: the running value stays in a local."""
        src, dst = TreeTensor.of_desc("src", self.src), TreeTensor.of_desc("dst", self.dst)
        kinds = self.src.data_type, self.dst.data_type
        number = max(map(number_of_values, kinds), key=lambda each: each.bits)
        if any(kind.kind == "float" for kind in kinds):
            number = Number.real(is_wide=is_computed_wide(self.src, self.dst))
        held = TreeTensor.row_major("so_far", (1,), number.storage if number.is_integer else DataType.f32)
        at, outer, along = _places(self.src.dims, self.axis, is_reverse=self.reverse)
        found = held.load(0)
        is_ordered = self.src.data_type is DataType.u64 and number is Number.i64
        kind = DataType.u64 if is_ordered else number.storage
        more = held.store((0,), combined(_OPERATIONS[self.algorithm], found, src.load(*at), kind))
        items = (dst.store(at, found), more) if self.exclusive else (more, dst.store(at, found))
        first = _FIRST[self.algorithm]
        if is_ordered and self.algorithm in ("max", "min"):
            first = 0.0 if self.algorithm == "max" else -1.0
        body = (held.store((0,), Const(first)), Each((along,), items, in_order=True))
        return LoopTree((src, dst), (Each(outer, body, locals=(held,)),), number=number).verify()


def _places(
    dims: Sequence[int], axis: int, *, is_reverse: bool
) -> tuple[Place, tuple[TreeAxis, ...], TreeAxis]:
    """Return the index of elements, reversed if `is_reverse`; the outer axes, and that of the scan."""
    index, outer, along = axes_of(dims, axis)
    place = Affine(((along.name, -1),), along.extent - 1) if is_reverse else along + 0
    return (*index[:axis], place, *index[axis + 1 :]), outer, along


@dataclass(frozen=True, slots=True)
class ScanBackwardProblem(GradientProblem):
    """The gradient of the source of a scan.

    Executed with `ARG_DIFF_DST`, `ARG_SRC` (unless it is a sum), and `ARG_DIFF_SRC`, which can share memory
    with either. Of equal extremes, the last one gets the gradient, and each NaN does, as in torch.
    """

    operation = "scan"
    primitive = "ScanBackward"
    call = "algorithm", "src", "diff_src", "diff_dst", "axis", "exclusive", "reverse"
    defaults = ScanProblem.defaults
    algorithms = ScanProblem.algorithms
    reads = {ARG_DIFF_DST: "diff_dst", ARG_SRC: "src"}
    arguments = """
    Parameters are as in the forward step. Gradients of format "any" take that of the source. Floats only."""

    algorithm: str
    src: MemoryDesc
    diff_src: MemoryDesc
    diff_dst: MemoryDesc
    axis: int
    exclusive: bool
    reverse: bool
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def read(cls, call: ArgumentReader) -> ScanBackwardProblem:
        algorithm, src = call.algorithm(), call.known("src")
        tensors = (src, *call.gradients(src=src))
        return cls(
            algorithm, *tensors, call.axis(src), call.flag("exclusive"), call.flag("reverse"), call.attr()
        )

    def sources(self) -> dict[int, MemoryDesc]:
        return {ARG_DIFF_DST: self.diff_dst} | ({} if self.algorithm == "sum" else {ARG_SRC: self.src})

    @property
    def verbose_aux(self) -> str:
        words = f"{' exclusive' * self.exclusive}{' reverse' * self.reverse}"
        return f"alg:scan_{self.algorithm} axis:{self.axis}{words}"

    def tree(self) -> LoopTree:
        """The loop tree: unless it is a sum, first the scan; then the opposite direction."""
        gradient, out = (TreeTensor.of_desc(name, getattr(self, name)) for name in ("diff_dst", "diff_src"))
        number = Number.real(is_wide=is_computed_wide(self.src, self.diff_src, self.diff_dst))
        held = TreeTensor.row_major("held", (1,))
        at, outer, along = _places(self.src.dims, self.axis, is_reverse=not self.reverse)
        new, old = gradient.load(*at), held.load(0)
        total: Expr = old if self.exclusive else old + new
        value = rest = total
        before: tuple[Each, ...] = ()
        tensors: tuple[TreeTensor, ...] = ()
        if self.algorithm != "sum":
            so_far = MemoryDesc(self.src.dims, DataType.f64 if number is Number.f64 else DataType.f32)
            is_product = self.algorithm == "mul"
            forward = ScanProblem(
                self.algorithm, self.src, so_far, self.axis, is_product, self.reverse
            ).tree()
            tensors, before = forward.tensors, forward.items
            x, found = (tensor.load(*at) for tensor in tensors)
            is_extreme = apply("max", apply("eq", x, found), apply("ne", x, x))
            value, rest = apply("select", is_extreme, total, 0), apply("select", is_extreme, 0, total)
            if is_product:
                value, rest = found * total, x * total
        more = held.store((0,), rest + new if self.exclusive else rest)
        step = Each((along,), (Let("found", value), more, out.store(at, Ref("found"))), in_order=True)
        loop = Each(outer, (held.store((0,), Const(0.0)), step), locals=(held,))
        return LoopTree((gradient, *tensors, out), (*before, loop), number=number).verify()


Scan = make_primitive(ScanProblem)
ScanBackward = make_primitive(ScanBackwardProblem)
