"""The operation of a graph's node: a frozen value, and shape inference for it.

Operations are the primitives, whose specifications in `ops/` describe inputs and results, and moves: reshape,
transpose, slice, pad. They are independent of memory formats. Tensors have logical dims: activations (N, C,
...), weights (O, I, ...) or with groups (G, O, I, ...).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import isfinite, prod
from typing import Any, ClassVar

from ... import onednn
from ...desc.memory_desc import MemoryDesc
from ...desc.parse import one_of, short_repr
from ...dtypes import DataType
from ...errors import Error, refuse
from ...model.operation import OperationProblem
from ...model.result_dims import Misfit, broadcast
from ...ops import PRIMITIVES
from ...ops.binary import BinaryProblem
from ...ops.eltwise import EltwiseProblem
from ...ops.prelu import PReLUProblem
from ...ops.sum import SumProblem
from ...runtime.alloc import Array
from ..dims import Dims, by
from ..fields import check_fields

_LEAST_DIVISOR = 2.0**-126
_MOST_SOURCES = 1024
AS_F32 = (DataType.f32, DataType.bf16, DataType.f16)
"""Types whose arithmetic is that of f32: integer sums are exact, and doubles are more precise."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """The type of a tensor before it has a format: its dims and its data type."""

    dims: Dims
    data_type: DataType = DataType.f32

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def desc_dims(self) -> Dims:
        """The dims of its descriptors, at least one: a scalar has one element there."""
        return self.dims or (1,)

    @property
    def elements(self) -> int:
        """The number of elements."""
        return prod(self.dims)

    @property
    def nbytes(self) -> int:
        """The number of bytes of the elements without padding."""
        return self.data_type.nbytes(self.elements)

    def __str__(self) -> str:
        return f"{self.data_type} {by(self.dims)}"


def row_major(tensor: TensorType) -> MemoryDesc:
    """Return the plain descriptor of a tensor."""
    return MemoryDesc(tensor.desc_dims, tensor.data_type)


@dataclass(frozen=True, slots=True)
class Operation:
    """The base of all operations.

    `kind` is the word of the operation. `inputs` is the minimum and maximum number of its inputs. Raises
    InvalidArguments for an attribute whose type differs from its field's.
    """

    kind: ClassVar[str] = ""
    inputs: ClassVar[tuple[int, int]] = (1, 1)
    _spec: ClassVar[type[OperationProblem] | None] = None

    def __init_subclass__(cls) -> None:
        spec = cls._spec
        if isinstance(spec, type):
            own = vars(cls)
            cls.kind, cls.inputs = (
                own.get("kind", spec.operation),
                own.get("inputs") or _counts_of_inputs(spec),
            )

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def count_of_results(self) -> int:
        """The number of results."""
        return 1

    def result(self, *tensors: TensorType) -> TensorType:
        """Return the type of the first result of these inputs. Raises InvalidArguments if they do not fit."""
        return self._results(tensors)[0]

    def results(self, tensors: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Return the types of all results, after checking the number of inputs."""
        least, most = self.inputs
        if not least <= len(tensors) <= most:
            counts = f"{least}" if least == most else f"{least} to {most}"
            raise unfit(f"{self.kind} reads {counts} tensors, not {len(tensors)}", tensors)
        # Operations defined outside restride can define just `result`.
        is_own = type(self).result is not Operation.result
        return (self.result(*tensors),) if is_own else self._results(tensors)

    def _results(self, tensors: Sequence[TensorType]) -> tuple[TensorType, ...]:
        try:
            return self._result_types(tensors)
        except Misfit as misfit:
            raise unfit(misfit.why, tensors, misfit.hint) from None

    def _result_types(self, tensors: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """Return the types of the results, by the rules of its specification. Raises Misfit."""
        results = self._dims(tensors)
        if self._spec is None:
            kinds: tuple[DataType, ...] = (tensors[0].data_type,)
        else:
            kinds = self._spec.results_types(self, *tensors)
        kinds = (*kinds, *kinds[-1:] * (len(results) - len(kinds)))
        return tuple(TensorType(*pair) for pair in zip(results, kinds, strict=True))

    def _dims(self, tensors: Sequence[TensorType]) -> tuple[Dims, ...]:
        """Return the dims of the results, by the rules of its specification. Raises Misfit."""
        if self._spec is None:
            raise NotImplementedError
        return self._spec.results_dims(self, *tensors)


def _counts_of_inputs(spec: type[OperationProblem]) -> tuple[int, int]:
    """Return the minimum and maximum number of inputs of a node."""
    reads = spec.node_reads
    least = sum(not name.endswith("?") for name in reads)
    return (1, _MOST_SOURCES) if reads == ("srcs",) else (least, len(reads))


def unfit(why: str, tensors: Sequence[TensorType], hint: str = "") -> Error:
    """Return the error of tensors that an operation does not accept."""
    where = ", ".join(map(str, tensors))
    hint = hint or "the dims of inputs and attributes must agree"
    return refuse("RS-G01:tensors-not-fit", where=where, why=why, hint=hint)


# --- any primitive ------------------------------------------------------------------------------------------


@cache
def _specification(primitive: str) -> type[OperationProblem] | None:
    """Return the specification of a primitive, or None."""
    if primitive not in " ".join(PRIMITIVES.values()).split():
        return None
    spec: type[OperationProblem] = getattr(onednn, primitive).PrimitiveDesc._operation
    return spec


@dataclass(frozen=True, slots=True)
class PrimitiveOperation(Operation):
    """A primitive of `onednn` by name, with its named parameters, which are readable as attributes.

    Its specification defines inputs and results. `parameters`: pairs of a name and a number, a text, a data
    type, or a tuple of these. Raises InvalidArguments for an unknown primitive.
    """

    primitive: str
    parameters: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)
        pairs = tuple((name, _parameter(name, value)) for name, value in self.parameters)
        object.__setattr__(self, "parameters", pairs)
        if _specification(self.primitive) is None:
            names = " ".join(PRIMITIVES.values()).split()
            raise refuse(
                "RS-V04:primitive", word=short_repr(self.primitive), advice=one_of(names, self.primitive)
            )

    @property
    def _spec(self) -> type[OperationProblem]:  # type: ignore[override]
        spec = _specification(self.primitive)
        assert spec is not None
        return spec

    @property
    def kind(self) -> str:  # type: ignore[override]
        """The word of the operation."""
        return self._spec.operation

    @property
    def inputs(self) -> tuple[int, int]:  # type: ignore[override]
        """The minimum and maximum number of inputs."""
        return _counts_of_inputs(self._spec)

    @property
    def count_of_results(self) -> int:
        """The number of results."""
        return self._spec.count_of_results(self)

    def __getattr__(self, name: str) -> Any:
        for own, value in () if name in ("primitive", "parameters") else self.parameters:
            if own == name:
                return value
        what = f"{type(self).__name__} has no parameter {name!r}"
        raise AttributeError(what, name=name, obj=self)


def _parameter(name: str, value: Any) -> Any:
    """Return a parameter's value, with lists as tuples. Raises InvalidArguments if it cannot be saved."""
    if isinstance(value, tuple | list):
        return tuple(_parameter(name, part) for part in value)
    if isinstance(value, int | float | str | DataType):
        return value
    raise refuse(
        "RS-V08:not",
        what=f"PrimitiveOperation: {name}",
        value=short_repr(value),
        type=type(value).__name__,
        kinds="a number, text, a data type or a tuple of these",
    )


# --- elements -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EltwiseOperation(Operation):
    """`onednn.EltwiseForward`: `algorithm` is "eltwise_relu" or similar."""

    algorithm: str
    alpha: float = 0.0
    beta: float = 0.0

    _spec = EltwiseProblem


@dataclass(frozen=True, slots=True)
class BinaryOperation(Operation):
    """`Binary` of two tensors of equal rank, broadcast along dims of 1; "binary_select" has a condition.

    The condition of a select comes last, as in `onednn.Binary`.
    """

    algorithm: str

    _spec = BinaryProblem


@dataclass(frozen=True, slots=True)
class PReluOperation(Operation):
    """`onednn.PReLUForward`: a source and slopes of its rank, broadcast along their dims of 1."""

    _spec = PReLUProblem


@dataclass(frozen=True, slots=True)
class SumOperation(Operation):
    """`onednn.Sum`: any number of tensors of equal dims, each multiplied by its scale."""

    scales: tuple[float, ...]

    _spec = SumProblem


# --- quantized integers -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QuantizeOperation(Operation):
    """`saturate(round(x / scale) + zero)` of x, scale and zero point, which broadcast along dims of x."""

    data_type: DataType

    kind: ClassVar[str] = "quantize"
    inputs: ClassVar[tuple[int, int]] = (3, 3)

    def _result_types(self, tensors: Sequence[TensorType]) -> tuple[TensorType, ...]:
        return (TensorType(_scaled_dims(tensors), self.data_type),)


@dataclass(frozen=True, slots=True)
class DequantizeOperation(Operation):
    """`(q - zero) * scale` of q, scale and zero point: each scale and zero point is for a group of adjacent
    elements of q, whose extents are those of q divided by its own.
    """

    kind: ClassVar[str] = "dequantize"
    inputs: ClassVar[tuple[int, int]] = (3, 3)

    def _result_types(self, tensors: Sequence[TensorType]) -> tuple[TensorType, ...]:
        check_groups(tensors[0], *tensors[1:])
        return (TensorType(tensors[0].dims),)


def check_groups(source: TensorType, *factors: TensorType) -> None:
    """Raise Misfit for scales or zero points whose extents do not divide those of their tensor."""
    for each in factors:
        pairs = zip(source.dims[::-1], each.dims[::-1], strict=False)
        if len(each.dims) > len(source.dims) or any(n != m and (not m or n % m) for n, m in pairs):
            raise Misfit("the groups of scales and zero points do not divide the dims")


def in_groups(values: Array, dims: Dims) -> Array:
    """Return scales or zero points of groups, reshaped to broadcast to the split dims of their tensor."""
    values = values.reshape((1,) * (len(dims) - values.ndim) + values.shape)
    for axis, (n, m) in enumerate(zip(dims, values.shape, strict=True)):
        values = values if m in (1, n) else values.repeat(n // m, axis)
    return values


def _scaled_dims(tensors: Sequence[TensorType]) -> Dims:
    if broadcast(*(tensor.dims for tensor in tensors)) != tensors[0].dims:
        raise Misfit("scales and zero points are larger than the source")
    return tensors[0].dims


def function_of(algorithm: str, value: float, is_left: bool) -> EltwiseOperation | None:
    """Return `x op value`, or `value op x` if not `is_left`, as a function of f32 numbers, or None.

    Division by a value is a function only if its reciprocal is a normal f32.
    """
    if not isfinite(value):
        return None
    if algorithm == "binary_max" and value == 0:
        return EltwiseOperation("eltwise_relu")
    if algorithm == "binary_div" and not is_left:
        return EltwiseOperation("eltwise_pow", value, -1.0)
    if algorithm == "binary_div" and _LEAST_DIVISOR <= abs(value) <= 1 / _LEAST_DIVISOR:
        return EltwiseOperation("eltwise_linear", 1.0 / value, 0.0)
    numbers = {
        "binary_add": (1.0, value),
        "binary_sub": (1.0, -value) if is_left else (-1.0, value),
        "binary_mul": (value, 0.0),
    }.get(algorithm)
    return EltwiseOperation("eltwise_linear", *numbers) if numbers else None
