"""ONNX models as networks: `rs.onnx.load(path)`. The package onnx reads files; no model is executed as code.

>>> import restride as rs
>>> sorted(rs.onnx.operators())[:3]
['Abs', 'Add', 'And']
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .desc.parse import parse_ints, short_repr
from .errors import Error, InvalidArguments
from .graph.network import Network, NetworkInput
from .graph.onnx_model import OnnxInput, OnnxModel, read_model
from .graph.onnx_operators import OPERATORS
from .graph.onnx_reader import check_operators, check_order, data_type_of, translated

__all__ = ["load", "operators"]


def load(
    model: str | os.PathLike[str] | bytes | Any,
    *,
    dims: Mapping[str, Sequence[int]] | None = None,
    rule: str = "optimal",
    without: Iterable[str] = (),
) -> Network:
    """The network of an ONNX model.

    model  the path of an .onnx file, its bytes, or an `onnx.ModelProto`
    dims   other dims for inputs, by name, than the model says: what was saved for one image runs on 16
    rule   how formats are chosen: "plain", "greedy" or "optimal"
    without  names of fusions that are off, of `rs.graph.FUSIONS`

    The extents that the model leaves open are those of what a call brings. Tensors beside the model are read
    from its folder, and from nowhere else.

    Raises Unimplemented for operators that restride has not, all at once, with the names of their nodes;
    InvalidArguments, which names the node, for a model that does not hold; RuntimeFailure where the system
    refuses the file, or the package onnx is missing.
    """
    try:
        found = read_model(model)
        check_operators(found)
        check_order(found)
        inputs = _inputs(found, {} if dims is None else dims)
        return Network.of_source(
            inputs, found.outputs, lambda wanted: translated(found, wanted), rule, without
        )
    except Error as error:
        error.drop_frames()
        raise


def operators() -> frozenset[str]:
    """The operators that a model may have. Some are there for the shapes of tensors alone, such as Range."""
    return OPERATORS


def _inputs(model: OnnxModel, dims: Mapping[str, Sequence[int]]) -> list[NetworkInput]:
    unknown = [name for name in dims if name not in {each.name for each in model.inputs}]
    if unknown:
        raise InvalidArguments(
            f"onnx.load: dims of {short_repr(unknown[0])}",
            code="RS-G03",
            why="the model has no such input",
            hint=f"its inputs are {', '.join(each.name for each in model.inputs)}",
        )
    return [_input(each, dims.get(each.name)) for each in model.inputs]


def _input(each: OnnxInput, wanted: Sequence[int] | None) -> NetworkInput:
    kind = data_type_of(each.name, each.element)
    if wanted is not None:
        return NetworkInput(each.name, tuple(parse_ints(wanted, f"dims of {each.name}")), kind)
    dims = each.dims
    open_dims = None if dims is None else tuple(n if isinstance(n, int) else None for n in dims)
    return NetworkInput(each.name, open_dims, kind)
