"""What a node of a graph computes: frozen values, and the shapes that follow from those of the inputs.

Operations are the primitives, with their parameters and words, and moves: reshape, transpose, slice, pad.
None knows a memory format. Tensors are in logical dims: activations (N, C, ...), weights (O, I, ...) or with
groups (G, O, I, ...).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, prod
from typing import ClassVar

from ...dtypes import DataType
from ...errors import Error, refuse
from ..dims import Dims, by
from ..fields import check_fields

_LEAST_DIVISOR = 2.0**-126
AS_F32 = (DataType.f32, DataType.bf16, DataType.f16)
"""Types whose arithmetic is that of f32: sums of integers are exact, and doubles have more places."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """What is known of a tensor before it has a format: its dims and its data type."""

    dims: Dims
    data_type: DataType = DataType.f32

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def desc_dims(self) -> Dims:
        """The dims of its descriptors, which have one at least: a scalar is of one element there."""
        return self.dims or (1,)

    @property
    def elements(self) -> int:
        """How many elements there are."""
        return prod(self.dims)

    @property
    def nbytes(self) -> int:
        """How many bytes the elements take without padding."""
        return self.data_type.nbytes(self.elements)

    def __str__(self) -> str:
        return f"{self.data_type} {by(self.dims)}"


@dataclass(frozen=True, slots=True)
class Operation:
    """What all operations share.

    `kind` is the word of the operation. `inputs` is how many tensors it reads at least and at most. Raises
    InvalidArguments for an attribute of another type than its field.
    """

    kind: ClassVar[str] = ""
    inputs: ClassVar[tuple[int, int]] = (1, 1)

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def count_of_results(self) -> int:
        """How many tensors it makes."""
        return 1

    def result(self, *tensors: TensorType) -> TensorType:
        """The first tensor that it makes of these. Raises InvalidArguments where they do not fit."""
        raise NotImplementedError

    def results(self, tensors: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """All that it makes, after the number of inputs has been checked: one tensor, for most."""
        least, most = self.inputs
        if not least <= len(tensors) <= most:
            wanted = f"{least}" if least == most else f"{least} to {most}"
            raise unfit(f"{self.kind} reads {wanted} tensors, not {len(tensors)}", tensors)
        return (self.result(*tensors),)


def unfit(why: str, tensors: Sequence[TensorType], hint: str = "") -> Error:
    """The error of tensors that an operation cannot take."""
    where = ", ".join(map(str, tensors))
    hint = hint or "the dims of inputs and attributes must agree"
    return refuse("RS-G01:tensors-not-fit", where=where, why=why, hint=hint)


# --- elements -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EltwiseOperation(Operation):
    """`rs.EltwiseForward`: `algorithm` is "eltwise_relu" or its like."""

    algorithm: str
    alpha: float = 0.0
    beta: float = 0.0

    kind: ClassVar[str] = "eltwise"

    def result(self, *tensors: TensorType) -> TensorType:
        """The type of the source."""
        return tensors[0]


@dataclass(frozen=True, slots=True)
class BinaryOperation(Operation):
    """`rs.Binary` of two tensors of equal rank, repeated along dims of 1; "binary_select" has a condition.

    The condition of a select comes last, as `rs.Binary` has it.
    """

    algorithm: str

    kind: ClassVar[str] = "binary"
    inputs: ClassVar[tuple[int, int]] = (2, 3)

    def result(self, *tensors: TensorType) -> TensorType:
        """The dims of both, the larger where one is 1."""
        if len(tensors) != 2 + (self.algorithm == "binary_select"):
            raise unfit(f"{self.algorithm} reads another number of tensors", tensors)
        return TensorType(broadcast([each.dims for each in tensors], tensors), tensors[0].data_type)


@dataclass(frozen=True, slots=True)
class PReluOperation(Operation):
    """`rs.PReLUForward`: a source and slopes of its rank, repeated along their dims of 1."""

    kind: ClassVar[str] = "prelu"
    inputs: ClassVar[tuple[int, int]] = (2, 2)

    def result(self, *tensors: TensorType) -> TensorType:
        """The type of the source."""
        if broadcast([each.dims for each in tensors], tensors) != tensors[0].dims:
            raise unfit("the slopes are larger than the source", tensors)
        return tensors[0]


@dataclass(frozen=True, slots=True)
class SumOperation(Operation):
    """`rs.Sum`: any number of tensors of equal dims, each times its scale."""

    scales: tuple[float, ...]

    kind: ClassVar[str] = "sum"
    inputs: ClassVar[tuple[int, int]] = (1, 1024)

    def result(self, *tensors: TensorType) -> TensorType:
        """The type of the first."""
        if len(self.scales) != len(tensors) or len({each.dims for each in tensors}) > 1:
            raise unfit("all have equal dims, and a scale each", tensors)
        return tensors[0]


# --- integers that stand for numbers ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QuantizeOperation(Operation):
    """`saturate(round(x / scale) + zero)` of x, scale and zero point, which are repeated along dims of x."""

    data_type: DataType

    kind: ClassVar[str] = "quantize"
    inputs: ClassVar[tuple[int, int]] = (3, 3)

    def result(self, *tensors: TensorType) -> TensorType:
        """The dims of the source, in the type."""
        return TensorType(_scaled_dims(tensors), self.data_type)


@dataclass(frozen=True, slots=True)
class DequantizeOperation(Operation):
    """`(q - zero) * scale` of q, scale and zero point, which are repeated along dims of q."""

    kind: ClassVar[str] = "dequantize"
    inputs: ClassVar[tuple[int, int]] = (3, 3)

    def result(self, *tensors: TensorType) -> TensorType:
        """The dims of the source, as f32."""
        return TensorType(_scaled_dims(tensors), DataType.f32)


def _scaled_dims(tensors: Sequence[TensorType]) -> Dims:
    if broadcast([each.dims for each in tensors], tensors) != tensors[0].dims:
        raise unfit("scales and zero points are larger than the source", tensors)
    return tensors[0].dims


# --- dims ---------------------------------------------------------------------------------------------------


def check_axis(axis: int, tensors: Sequence[TensorType]) -> None:
    """Raise InvalidArguments for an axis that the first tensor has not."""
    if not 0 <= axis < len(tensors[0].dims):
        raise unfit(f"there is no axis {axis}", tensors, "axes count from 0")


def broadcast(dims: Sequence[Dims], tensors: Sequence[TensorType]) -> Dims:
    """The common dims of tensors of equal rank, whose dims of 1 are repeated."""
    if len({len(each) for each in dims}) != 1:
        raise unfit("the ranks differ", tensors, "reshape the smaller one: dims of 1 are repeated")
    sizes = [set(each) - {1} for each in zip(*dims, strict=True)]
    if any(len(each) > 1 for each in sizes):
        raise unfit("dims that differ are not 1", tensors)
    return tuple(next(iter(each), 1) for each in sizes)


def function_of(algorithm: str, value: float, is_left: bool) -> EltwiseOperation | None:
    """`x op value`, or `value op x` where x is not on the left, as a function of f32 numbers; None for none.

    A divisor has one where its reciprocal is a normal f32.
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
