"""Scans: along an axis each element together with all before it.

    dst[k] = op(src[0], ..., src[k])       exclusive: without src[k]; reverse: from the end on

op: sum, mul, max, min. From one element to the next, in f32, f64 where a tensor is f64, or integers that
wrap: so the bits are the same for any number of threads, and floats of 16 bits are rounded where they are
written. Of maxima and minima NaN is the largest and the smallest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from ..ir.expression import Affine, Const
from ..ir.numbers import Number
from ..ir.tree import Each, LoopTree, TreeTensor
from ..model.derived import make_primitive
from ..model.operation import OperationProblem, is_computed_wide
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
    """The extreme of all elements so far, and the last place that has it: NaN is an extreme from there on."""

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
    """The scan primitive: sums, products, maxima or minima of all elements along an axis up to each.

    Executed with `ARG_SRC` and `ARG_DST`, which may be one memory where both are alike.
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
    the first one is that of no elements. `reverse`: from the end on. `dst`: of format "any" it has that of
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
        """`node.data_type`: that of the result, where it is not that of the source."""
        return (getattr(node, "data_type", tensors[0].data_type),)

    @property
    def verbose_aux(self) -> str:
        words = f"{' exclusive' * self.exclusive}{' reverse' * self.reverse}"
        return f"alg:scan_{self.algorithm} axis:{self.axis}{words}"

    def tree(self) -> LoopTree:
        """The loop tree: what has been found so far stays in a local."""
        src, dst = TreeTensor.of_desc("src", self.src), TreeTensor.of_desc("dst", self.dst)
        kinds = self.src.data_type, self.dst.data_type
        number = max(map(number_of_values, kinds), key=lambda each: each.bits)
        if any(kind.kind == "float" for kind in kinds):
            number = Number.real(is_wide=is_computed_wide(self.src, self.dst))
        held = TreeTensor.row_major("so_far", (1,), number.storage if number.is_integer else DataType.f32)
        index, outer, along = axes_of(self.src.dims, self.axis)
        place = Affine(((along.name, -1),), along.extent - 1) if self.reverse else along + 0
        at: Place = (*index[: self.axis], place, *index[self.axis + 1 :])
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


Scan = make_primitive(ScanProblem)
