"""What the translation of one ONNX node sees: its inputs, known or not, and the graph that grows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..dtypes import DataType
from ..errors import Unimplemented
from ..runtime.alloc import Array
from .build import GraphBuilder
from .move_operations import ReshapeOperation, TransposeOperation
from .onnx_model import OnnxNode
from .operations import BinaryOperation, Operation

# Integers of 64 bits are refused where they are placed.
_INTEGERS = tuple(map(np.dtype, ("i1", "u1", "i4")))

Value = Array | str
"""A tensor whose values are known, or the name of one in the graph."""


@dataclass(frozen=True, slots=True)
class OnnxContext:
    """A node, the values that it reads, None for those left out, and where its operations go.

    `origins`: the inputs of the model that these values follow from, where only a run knows them.
    """

    node: OnnxNode
    values: Sequence[Value | None]
    builder: GraphBuilder
    opset: int
    origins: frozenset[str] = frozenset()

    # --- what is read ---------------------------------------------------------------------------------------

    def has(self, at: int) -> bool:
        """True where there is such an input."""
        return at < len(self.values) and self.values[at] is not None

    def value(self, at: int) -> Value:
        """An input. Raises ValueError where it is left out."""
        found = self.values[at] if at < len(self.values) else None
        if found is None:
            raise ValueError(f"input {at} is missing")
        return found

    def known(self, at: int) -> Array | None:
        """The values of an input, where they are known."""
        found = self.values[at] if at < len(self.values) else None
        return found if isinstance(found, np.ndarray) else None

    def needed(self, at: int, what: str) -> Array:
        """The values of an input that must be known. Raises Unimplemented where only a run knows them."""
        found = self.known(at)
        if found is None:
            raise self.unimplemented(f"{what} is known only in a run", "make it a constant of the model")
        return found

    def tensor(self, at: int) -> str:
        """An input as a tensor of the graph."""
        return self.placed(self.value(at))

    def placed(self, value: Value) -> str:
        """A value as a tensor of the graph; doubles and halves that are known become f32."""
        if isinstance(value, str):
            return value
        if value.dtype.kind == "f" and value.dtype != np.float32:
            value = value.astype(np.float32)
        if value.dtype.kind in "iu" and value.dtype.itemsize == 8:
            raise self.unimplemented(
                "it computes with integers of 64 bits",
                "only the shapes of tensors may be integers of 64 bits",
            )
        return self.builder.constant(value)

    def dims(self, at: int) -> tuple[int, ...]:
        """The dims of an input."""
        value = self.value(at)
        return self.builder.type(value).dims if isinstance(value, str) else value.shape

    def types(self) -> tuple[DataType, ...]:
        """The types of the first input, and of those that only a run knows."""
        first = self.known(0)
        known = () if first is None or first.dtype not in _INTEGERS else (DataType.parse(first.dtype),)
        return (*known, *(self.builder.type(each).data_type for each in self.values if isinstance(each, str)))

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute, or its default."""
        return self.node.attributes.get(name, default)

    @property
    def attributes(self) -> Mapping[str, Any]:
        """All attributes."""
        return self.node.attributes

    # --- what is made ---------------------------------------------------------------------------------------

    def add(self, operation: Operation, *inputs: str) -> str:
        """A node of the graph; it has the ONNX node's name where that is free."""
        name = self.node.outputs[0] if self.node.outputs else ""
        return self.builder.add(operation, *inputs, name=name if self.builder.is_free(name) else "")

    def reshaped(self, name: str, dims: Sequence[int]) -> str:
        """A tensor in other dims; itself where it has them."""
        if self.builder.type(name).dims == tuple(dims):
            return name
        return self.builder.add(ReshapeOperation(tuple(dims)), name)

    def transposed(self, name: str, order: Sequence[int]) -> str:
        """A tensor with its dims in another order; itself where they stay."""
        if tuple(order) == tuple(range(len(self.builder.type(name).dims))):
            return name
        return self.builder.add(TransposeOperation(tuple(order)), name)

    def of_rank(self, value: Value, rank: int) -> str:
        """A tensor with dims of 1 in front, up to a rank."""
        if isinstance(value, str):
            dims = self.builder.type(value).dims
            return self.reshaped(value, (*(1,) * (rank - len(dims)), *dims))
        return self.placed(value.reshape((*(1,) * (rank - value.ndim), *value.shape)))

    def binary(self, algorithm: str, left: Value, right: Value) -> str:
        """A binary operation on tensors of any ranks."""
        ranks = [self._rank(left), self._rank(right)]
        axis = self.attribute("axis")
        if axis is not None and axis not in (ranks[0] - ranks[1], -ranks[1]):
            raise self.unimplemented(
                f"it aligns its second input at axis {axis}, as before version 7",
                "convert the model: onnx.version_converter.convert_version",
            )
        names = [self.of_rank(each, max(ranks)) for each in (left, right)]
        return self.add(BinaryOperation(f"binary_{algorithm}"), *names)

    def _rank(self, value: Value) -> int:
        return len(self.builder.type(value).dims) if isinstance(value, str) else value.ndim

    def known_later(self, why: str) -> Unimplemented:
        """The error of what must be known before a run, and follows from inputs."""
        names = sorted(self.origins)
        values = ", ".join(f'"{name}": ...' for name in names)
        return Unimplemented(
            f"node {self.node}",
            code="RS-G02",
            where=f"it follows from {', '.join(map(repr, names))}" if names else "",
            why=why,
            hint=f"say what inputs always are: rs.onnx.load(model, values={{{values}}}); dims are "
            "known, and what follows from them",
        )

    def unimplemented(self, why: str, hint: str = "") -> Unimplemented:
        """The error of a form of the operator that restride has not."""
        hint = hint or "another form of the operator may do; restride explain tells which operators there are"
        return Unimplemented(f"node {self.node}", code="RS-G02", why=why, hint=hint)


Made = Value | tuple[Value, ...]
Translator = Callable[[OnnxContext], Made]
"""What becomes of a node of one operator."""
