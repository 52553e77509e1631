"""What a call of ATen brings: its arguments as values, and ONNX operators on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .onnx_context import OnnxContext, Value
from .onnx_operators import made_of_onnx

_OPSET = 18
F32 = np.float32


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """An argument that is a tensor: the place of it among the inputs of the node."""

    place: int


def argument_at(context: OnnxContext, at: int, name: str = "", default: Any = None) -> Any:
    """The argument at a place or of a name, None and `default` where it is left out."""
    args = context.attribute("args")
    found = args[at] if at < len(args) else context.attribute(name, default)
    return context.value(found.place) if isinstance(found, TensorArgument) else found


def value_at(context: OnnxContext, at: int) -> Value | None:
    """An argument as a value: a number is a tensor without dims."""
    found = argument_at(context, at)
    return np.array(found, F32) if isinstance(found, int | float) else found


def by_onnx(context: OnnxContext, operator: str, *values: Value | None, **attributes: Any) -> Value:
    """The first result of an ONNX operator on these values."""
    node = replace(context.node, operator=operator, attributes=attributes, outputs=context.node.outputs[:1])
    made = made_of_onnx(replace(context, node=node, values=values, opset=_OPSET))
    return made[0] if isinstance(made, tuple) else made


def dims_of(context: OnnxContext, value: Value) -> tuple[int, ...]:
    """The dims of a value."""
    return context.builder.type(value).dims if isinstance(value, str) else value.shape


def integers(*numbers: int) -> Value:
    """Numbers as ONNX has dims and axes."""
    return np.array(numbers, np.int64)


def for_each_axis(values: Sequence[int] | int, rank: int) -> tuple[int, ...]:
    """Numbers of all axes, of which one number may stand for all."""
    found = (values,) if isinstance(values, int) else tuple(values)
    return found * rank if len(found) == 1 else found
