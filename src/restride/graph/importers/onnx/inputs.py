"""What a caller says of an ONNX model's inputs: values that they always have, and dims that are open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ....desc.parse import parse_ints, short_repr
from ....errors import InvalidArguments, refuse
from ....runtime.alloc import Array
from ...dims import Dims, by
from ...fields import parse_field
from ...graph import Graph
from ...network.inputs import NetworkInput
from .model import OnnxInput, OnnxModel
from .reader import data_type_of, translated
from .tensors import ELEMENTS


def with_values(model: OnnxModel, values: Mapping[str, object]) -> OnnxModel:
    """The model with inputs that are known: constants, which no call brings.

    Raises InvalidArguments for an input that is not there, and values that do not fit.
    """
    if not isinstance(values, Mapping):
        raise refuse("RS-G03:values", values=short_repr(values), type=type(values).__name__)
    by_name = {each.name: each for each in model.inputs}
    _check_names("values", values, list(by_name))
    known = {name: _known_input(by_name[name], value) for name, value in values.items()}
    inputs = tuple(each for each in model.inputs if each.name not in known)
    return replace(model, inputs=inputs, tensors={**model.tensors, **known})


def _known_input(wanted: OnnxInput, value: object) -> Array:
    """The values of an input, in its type and dims; one value serves for any dims of 1."""
    try:
        found = np.asarray(value)
        made = found.astype(ELEMENTS[wanted.element])
        is_same = bool(np.all((made == found) | (found != found)))
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise refuse(
            "RS-G03:value-input-not", name=wanted.name, type=type(error).__name__, reason=str(error)[:200]
        ) from None
    if not is_same:
        raise refuse("RS-G03:no", name=wanted.name, value=short_repr(value), dtype=made.dtype)
    dims = wanted.dims
    if dims is None:
        return made
    if made.size == 1 and all(n in (None, 1) or isinstance(n, str) for n in dims):
        return made.reshape((1,) * len(dims))
    if len(dims) != made.ndim or any(
        isinstance(n, int) and n != m for n, m in zip(dims, made.shape, strict=True)
    ):
        raise refuse("RS-G03:dims-model", name=wanted.name, shape=made.shape, dims=dims)
    return made


def _check_names(what: str, names: Iterable[str], inputs: Sequence[str]) -> None:
    unknown = [name for name in names if name not in inputs]
    if unknown:
        raise refuse(
            "RS-G03:no-such-input", what=what, unknown=short_repr(unknown[0]), inputs=", ".join(inputs)
        )


def network_inputs(model: OnnxModel, dims: Mapping[str, Sequence[int]]) -> list[NetworkInput]:
    """The inputs of a model, some with other dims than it says."""
    dims = parse_field("dims", Mapping[str, Any], dims)
    _check_names("dims", dims, [each.name for each in model.inputs])
    return [_input(each, dims.get(each.name)) for each in model.inputs]


def _input(each: OnnxInput, wanted: Sequence[int] | None) -> NetworkInput:
    kind = data_type_of(each.name, each.element)
    if wanted is not None:
        return NetworkInput(each.name, tuple(parse_ints(wanted, f"dims of {each.name}")), kind)
    dims = each.dims
    open_dims = None if dims is None else tuple(n if isinstance(n, int) else None for n in dims)
    return NetworkInput(each.name, open_dims, kind)


def translated_for(
    model: OnnxModel, inputs: Sequence[NetworkInput], values: Mapping[str, object], dims: Mapping[str, Dims]
) -> Graph:
    """The graph for what a caller brings: `dims` of the inputs that are open, and `values` that are known.

    Raises as `translated` does. Where a node does not fit and the caller had a choice, the error tells of
    inputs and values, and of the node as its reason.
    """
    try:
        return translated(model, dims)
    except InvalidArguments as error:
        is_open = any(each.dims is None or None in each.dims for each in inputs)
        if not (is_open or values):
            raise
        brought = [f"{name} {by(extents)}" for name, extents in dims.items()]
        known = [f"{name} = {short_repr(value)}" for name, value in values.items()]
        raise refuse("RS-G03:model-not-take", where=", ".join([*brought, *known]), reason=error) from None
