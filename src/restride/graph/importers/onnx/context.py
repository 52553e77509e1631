"""What the translation of one ONNX node sees: its inputs, known or not, and the graph that grows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....dtypes import DataType
from ....errors import Error, refuse
from ....runtime.alloc import Array
from ...build import GraphBuilder
from ...nodes.moves import ReorderOperation, ReshapeOperation, TransposeOperation
from ...nodes.operations import AS_F32, BinaryOperation, EltwiseOperation, Operation, function_of
from .model import OnnxNode

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

    def parameter(self, value: Value) -> str:
        """A scale or its like of a normalization as a tensor of the graph: f32, beside 16 bits too."""
        kind = self.type_of(value)
        if kind is DataType.f64:
            raise self.unimplemented("it normalizes f64", "cast to f32 before")
        if kind not in AS_F32[1:]:
            return self.placed(value)
        if isinstance(value, str):
            return self.builder.add(ReorderOperation(DataType.f32), value)
        return self.placed(value.astype(np.float32))

    def placed(self, value: Value) -> str:
        """A value as a tensor of the graph, of its own type."""
        if isinstance(value, str):
            return value
        if value.dtype.kind in "iu" and value.dtype.itemsize == 8:
            raise self.unimplemented(
                "it computes with integers of 64 bits",
                "only the shapes of tensors may be integers of 64 bits",
            )
        return self.builder.constant(value)

    def dims(self, at: int) -> tuple[int, ...]:
        """The dims of an input."""
        return self.dims_of(self.value(at))

    def dims_of(self, value: Value) -> tuple[int, ...]:
        """The dims of a value."""
        return self.builder.type(value).dims if isinstance(value, str) else value.shape

    def type_of(self, value: Value) -> DataType:
        """The type of a value; undef for one that no tensor of a graph has, as integers of 64 bits."""
        if isinstance(value, str):
            return self.builder.type(value).data_type
        twins = (each for each in DataType if each.numpy is not None and each.numpy == value.dtype)
        return next(twins, DataType.undef)

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute, or its default."""
        return self.node.attributes.get(name, default)

    @property
    def attributes(self) -> Mapping[str, Any]:
        """All attributes."""
        return self.node.attributes

    # --- what is made ---------------------------------------------------------------------------------------

    def function(self, algorithm: str, alpha: float = 0.0, beta: float = 0.0) -> str:
        """A function of the first input. Raises Unimplemented where that is f64, and numbers are no f32."""
        if self.type_of(self.value(0)) is DataType.f64:
            for number in (alpha, beta):
                if float(np.float32(number)) != number:
                    raise self.unimplemented(
                        f"its number {number} is no f32, as numbers of functions are",
                        "cast to f32 before",
                    )
        return self.add(EltwiseOperation(f"eltwise_{algorithm}", alpha, beta), self.tensor(0))

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
        """A binary operation on tensors of any ranks; with a known number a function of the other."""
        ranks = [len(self.dims_of(each)) for each in (left, right)]
        axis = self.attribute("axis")
        if axis is not None and axis not in (ranks[0] - ranks[1], -ranks[1]):
            raise self.unimplemented(
                f"it aligns its second input at axis {axis}, as before version 7",
                "convert the model: onnx.version_converter.convert_version",
            )
        operation = BinaryOperation(f"binary_{algorithm}")
        for number, other, is_left in ((right, left, True), (left, right, False)):
            if isinstance(number, str) or number.size != 1 or number.ndim > len(self.dims_of(other)):
                continue
            function = function_of(operation.algorithm, float(number.reshape(())), is_left)
            if function is not None and self.type_of(other) in AS_F32:
                return self.add(function, self.placed(other))
        return self.add(operation, *(self.of_rank(each, max(ranks)) for each in (left, right)))

    def known_later(self, why: str) -> Error:
        """The error of what must be known before a run, and follows from inputs."""
        names = sorted(self.origins)
        values = ", ".join(f'"{name}": ...' for name in names)
        return refuse(
            "RS-G02:node-say-inputs",
            node=self.node,
            where=f"it follows from {', '.join(map(repr, names))}" if names else "",
            why=why,
            values=values,
        )

    def unimplemented(self, why: str, hint: str = "") -> Error:
        """The error of a form of the operator that restride has not."""
        hint = hint or "another form of the operator may do; restride explain tells which operators there are"
        return refuse("RS-G02:node", node=self.node, why=why, hint=hint)


Made = Value | tuple[Value, ...]
Translator = Callable[[OnnxContext], Made]
"""What becomes of a node of one operator."""
