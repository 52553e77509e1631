"""ONNX models as networks: `rs.onnx.load(path)`. No model is executed as code; no package is needed.

>>> import restride as rs
>>> sorted(rs.onnx.operators())[:3]
['Abs', 'Add', 'And']
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .desc.parse import parse_word
from .errors import Error
from .graph.importers.onnx.checking import ModelCheck, check_model, takes_steps
from .graph.importers.onnx.divided import DividedNetwork
from .graph.importers.onnx.functions import check_functions
from .graph.importers.onnx.inputs import (
    ModelSource,
    assumed_dims,
    network_inputs,
    network_of_source,
    with_values,
)
from .graph.importers.onnx.islands import check_packages
from .graph.importers.onnx.model import read_model
from .graph.importers.onnx.operators import OPERATORS
from .graph.importers.onnx.reader import check_operators, check_order
from .graph.network.network import Network
from .graph.rewrites.fusions import fusions_off
from .graph.rewrites.precision import PRECISIONS

__all__ = ["DividedNetwork", "ModelCheck", "check", "load", "operators"]


def load(
    model: str | os.PathLike[str] | bytes | Any,
    *,
    dims: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, Any] | None = None,
    rule: str = "optimal",
    without: Iterable[str] = (),
    fallback: str | None = None,
    exact: bool = False,
    precision: str = "f32",
) -> Network:
    """The network of an ONNX model.

    model  the path of an .onnx file, its bytes, or an `onnx.ModelProto`
    dims   other dims for inputs, by name, than the model says: what was saved for one image runs on 16
    values  what inputs always are, by name: constants, which no call brings. Which branch of an `If` is taken
            may follow from them, and from the dims of the other inputs
    rule   how formats are chosen: "plain", "greedy" or "optimal"
    without  names of fusions that are off, of `rs.graph.FUSIONS`
    exact  no convolution takes Winograd's algorithm, whose results differ by some 1e-6 of the largest: the
            same as its name in `without`. Sums stay sums of f32
    fallback  "onnxruntime": nodes that restride refuses run there, and the others here, in a network
            whose `explain` says which and why. A model of which all runs here, by `check`, is a plain
            `Network`. Needs the packages onnx and onnxruntime
    precision  "f32"; "bf16" and "f16" allow tensors of that type where they are f32 in the model and it is
            faster. Sums are of f32, and inputs and outputs stay as they are; `explain` says what was done

    Where a run decides which branch of an `If` is taken, or how many steps a `Loop` or a `Scan` has, the
    network is a `DividedNetwork`: each branch and each body is planned when it is first taken. Loops of up to
    64 steps that are known before are unrolled in one plan. So it is where few numbers that a call brings
    decide on dims, such as a new shape: each of their values has a plan, and `values` spares that.

    The extents that the model leaves open are those of what a call brings. Tensors beside the model are read
    from its folder, and from nowhere else. Files are mapped, and read again for other dims: where one was
    written meanwhile, that is an error. A tensor of a GiB or more that nodes read as it lies, such as a table
    of which a run gathers some rows, stays in its file, which must not be changed while the network lives.

    Raises Unimplemented for unsupported operators, all at once, with the names of their nodes, and for an
    opset other than 1 to 28; InvalidArguments, which names the node, for an invalid model; RuntimeFailure
    where the system refuses the file or its external data, or a tensor is of a type that only the package
    onnx reads, and that is missing.
    """
    try:
        constants, own_dims = {} if values is None else values, {} if dims is None else dims
        without = fusions_off("rs.onnx.load", without, exact)
        how = rule, without, parse_word("rs.onnx.load: precision", precision, PRECISIONS)
        source = with_values(read_model(model), constants)
        if fallback is not None:
            parse_word("rs.onnx.load: fallback", fallback, ("onnxruntime",), "nodes run nowhere else")
            check_packages()
            check_functions(source)
            check_order(source)
            if not check_model(source, assumed_dims(source, own_dims)).is_whole:
                return DividedNetwork(source, own_dims, *how, has_islands=True)
        check_operators(source)
        check_order(source)
        inputs = network_inputs(source, own_dims)
        is_open = any(each.dims is None or None in each.dims for each in inputs)
        if takes_steps(source, assumed_dims(source, own_dims), is_open):
            return DividedNetwork(source, own_dims, *how, has_islands=fallback is not None)
        graphs = ModelSource(source, tuple(inputs), constants)
        return network_of_source(graphs, *how)
    except Error as error:
        error.drop_frames()
        raise


def check(
    model: str | os.PathLike[str] | bytes | Any,
    *,
    dims: Mapping[str, Sequence[int]] | None = None,
    values: Mapping[str, Any] | None = None,
) -> ModelCheck:
    """What of an ONNX model runs, and what is missing: counts and names of nodes, by operator.

    `model`, `dims`, `values` are those of `load`. Extents that stay open count as 1, and the result says of
    which inputs they are. What runs is planned with plain formats, and nothing is compiled. What is behind a
    branch or a loop that a run decides is looked at as if a branch, or one step, were taken. Raises as `load`
    does for an invalid model; what is missing is in the result.
    """
    try:
        constants = {} if values is None else values
        source = with_values(read_model(model), constants)
        check_functions(source)
        check_order(source)
        own_dims = {} if dims is None else dims
        return check_model(source, assumed_dims(source, own_dims), own_dims)
    except Error as error:
        error.drop_frames()
        raise


def operators() -> frozenset[str]:
    """The operators that a model may have. Some are there for the shapes of tensors alone, such as Range."""
    return OPERATORS


def __dir__() -> list[str]:
    """The public names, and nothing else."""
    return sorted(__all__)
