"""Caller's choices for the inputs of an ONNX model: constant values, and extents of open dims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ....desc.parse import parse_ints, short_repr
from ....dtypes import DataType
from ....errors import InvalidArguments, refuse
from ....runtime.alloc import Array
from ...dims import Dims, by
from ...fields import parse_field
from ...graph import Graph
from ...network.inputs import NetworkInput
from ...network.network import Network
from ..operator_call import ONNX, Made, OperatorCall
from .model import OnnxInput, OnnxModel
from .reader import Translator, check_order, data_type_of, follows_batch, translated
from .tensors import ELEMENTS


def with_values(model: OnnxModel, values: Mapping[str, object]) -> OnnxModel:
    """Return the model with some inputs turned into constants, which calls no longer pass.

    Raises InvalidArguments for an unknown input, and for values that do not fit.
    """
    if not isinstance(values, Mapping):
        raise refuse("RS-G17:values", values=short_repr(values), type=type(values).__name__)
    by_name = {tensor.name: tensor for tensor in model.inputs}
    _check_names("values", values, list(by_name))
    constants = {name: _constant_input(by_name[name], value) for name, value in values.items()}
    inputs = tuple(tensor for tensor in model.inputs if tensor.name not in constants)
    return replace(model, inputs=inputs, tensors={**model.tensors, **constants})


def _constant_input(tensor: OnnxInput, value: object) -> Array:
    """Return the values of an input, in its type and dims; a single value is broadcast to any dims of 1."""
    try:
        array = np.asarray(value)
        constant = array.astype(ELEMENTS[tensor.element])
        is_same = bool(np.all((constant == array) | (array != array)))
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise refuse("RS-G17:value-input-not", name=tensor.name, reason=str(error)[:200]) from None
    if not is_same:
        raise refuse("RS-G17:no", name=tensor.name, value=short_repr(value), dtype=constant.dtype)
    dims = tensor.dims
    if dims is None:
        return constant
    if constant.size == 1 and all(n in (None, 1) or isinstance(n, str) for n in dims):
        return constant.reshape((1,) * len(dims))
    if len(dims) != constant.ndim or any(
        isinstance(n, int) and n != m for n, m in zip(dims, constant.shape, strict=True)
    ):
        raise refuse("RS-G17:dims-model", name=tensor.name, shape=constant.shape, dims=dims)
    return constant


def _check_names(what: str, names: Iterable[str], inputs: Sequence[str]) -> None:
    unknown = [name for name in names if name not in inputs]
    if unknown:
        raise refuse(
            "RS-G17:no-such-input", what=what, unknown=short_repr(unknown[0]), inputs=", ".join(inputs)
        )


def network_inputs(
    model: OnnxModel,
    dims: Mapping[str, Sequence[int]],
    type_of: Callable[[str, int], DataType] = data_type_of,
) -> list[NetworkInput]:
    """Return the inputs of a model, with `dims` replacing some; `type_of`: the type by name and number."""
    dims = parse_field("dims", Mapping[str, Any], dims)
    _check_names("dims", dims, [model_input.name for model_input in model.inputs])
    return [_input(each, dims.get(each.name), type_of(each.name, each.element)) for each in model.inputs]


def assumed_dims(model: OnnxModel, dims: Mapping[str, Sequence[int]]) -> dict[str, Dims]:
    """Return the dims of all inputs of a model; extents that neither it nor the caller gives are 1."""
    dims = parse_field("dims", Mapping[str, Any], dims)
    _check_names("dims", dims, [model_input.name for model_input in model.inputs])
    found = {
        item.name: tuple(n if isinstance(n, int) else 1 for n in item.dims or ()) for item in model.inputs
    }
    return {**found, **{name: tuple(parse_ints(each, f"dims of {name}")) for name, each in dims.items()}}


def _input(model_input: OnnxInput, extents: Sequence[int] | None, kind: DataType) -> NetworkInput:
    if extents is not None:
        return NetworkInput(model_input.name, tuple(parse_ints(extents, f"dims of {model_input.name}")), kind)
    dims = model_input.dims
    open_dims = None if dims is None else tuple(n if isinstance(n, int) else None for n in dims)
    return NetworkInput(model_input.name, open_dims, kind)


def translate_node(call: OperatorCall) -> Made:
    """Translate a node by ONNX's operators; a named function, so that it can be pickled."""
    return ONNX.translate(call)


@dataclass(frozen=True, slots=True)
class ModelSource:
    """The source of a model's graphs, for dims of its inputs: a value, so that its networks can be pickled.

    `inputs`: those of the network, `values`: those that are known.
    """

    model: OnnxModel
    inputs: tuple[NetworkInput, ...]
    values: Mapping[str, object] = field(default_factory=dict)
    translate: Translator = translate_node

    def __call__(self, dims: Mapping[str, Dims]) -> Graph:
        """Return the graph for the dims of a caller's inputs.

        Raises as `translated` does, and RuntimeFailure if a file of the model has changed. If a node does not
        fit and the caller had a choice, the error lists the inputs and values, with the node's error as its
        reason.
        """
        self.model.check_files()
        try:
            return translated(self.model, dims, self.translate)
        except InvalidArguments as error:
            is_open = any(each.dims is None or None in each.dims for each in self.inputs)
            if not (is_open or self.values):
                raise
            shapes = [f"{name} {by(extents)}" for name, extents in dims.items()]
            constants = [f"{name} = {short_repr(value)}" for name, value in self.values.items()]
            raise refuse(
                "RS-G03:model-not-take", where=", ".join([*shapes, *constants]), reason=error
            ) from None

    def is_linear(self, batches: Sequence[Mapping[str, Dims]]) -> bool:
        """True if the model makes the same decisions for all these dims, which differ only in the batch."""
        return follows_batch(self.model, batches, self.translate)


def network_of(
    model: OnnxModel,
    translate: Translator,
    dims: Mapping[str, Sequence[int]] | None,
    rule: str,
    without: Iterable[str],
    precision: str = "f32",
) -> Network:
    """Return the network of a model of another library, translated by `translate`; see `rs.onnx.load`."""
    check_order(model)
    inputs = network_inputs(model, {} if dims is None else dims)
    return network_of_source(ModelSource(model, tuple(inputs), {}, translate), rule, without, precision)


def network_of_source(source: ModelSource, rule: str, without: Iterable[str], precision: str) -> Network:
    """Return the network of a source of graphs."""
    ends, is_linear = (source.inputs, source.model.outputs), source.is_linear
    return Network.of_source(*ends, source, rule, without, is_linear=is_linear, precision=precision)
