"""What a call of ATen brings: its arguments as values, and ONNX operators on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..onnx.context import OnnxContext, Value
from ..onnx.operators import translate_node

_OPSET = 18
F32 = np.float32
ARGUMENTS = "arguments"
"""The attribute of a node that has its AtenArguments."""
RESULTS = "results"
"""The attribute of a node that has the dims and the data type of each result, as torch names it."""

# What a network decides for itself, and what counts in training alone.
_WITHOUT_EFFECT = frozenset(("dtype", "implicit", "memory_format", "momentum", "non_blocking"))


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """An argument that is a tensor: the place of it among the inputs of the node."""

    place: int


class AtenArguments:
    """All arguments of a call by their names in the operator's schema, those by position first.

    `unread` are those that matter and nobody has asked for: a translator that does not know an argument must
    not translate a call that has it.
    """

    def __init__(self, positional: Mapping[str, Any], named: Mapping[str, Any], given: Iterable[str]) -> None:
        self._values, self._positional = {**positional, **named}, tuple(positional)
        self.unread = set(given) - _WITHOUT_EFFECT

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def at(self, key: int | str, default: Any = None) -> Any:
        """The argument of a name or at a position; `default` where the operator has none."""
        if isinstance(key, int):
            if key >= len(self._positional):
                return default
            key = self._positional[key]
        self.unread.discard(key)
        return self._values.get(key, default)


def argument_at(context: OnnxContext, key: int | str, default: Any = None) -> Any:
    """The argument of a name or at a position; `default` where the operator has none, or it is None."""
    found = context.attribute(ARGUMENTS).at(key, default)
    found = context.value(found.place) if isinstance(found, TensorArgument) else found
    return default if found is None else found


def value_at(context: OnnxContext, key: int | str) -> Value:
    """An argument as a value: a number is a tensor without dims. Raises ValueError where it is left out."""
    found = argument_at(context, key)
    if isinstance(found, int | float):
        return np.array(found, F32)
    if isinstance(found, str | np.ndarray):
        return found
    raise ValueError(f"argument {key} is missing, or no tensor")


def by_onnx(context: OnnxContext, operator: str, *values: Value | None, **attributes: Any) -> Value:
    """The first result of an ONNX operator on these values."""
    node = replace(context.node, operator=operator, attributes=attributes, outputs=context.node.outputs[:1])
    made = translate_node(replace(context, node=node, values=values, opset=_OPSET))
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
