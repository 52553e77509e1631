"""ONNX models as networks: `rs.onnx.load(path)`. Models are never executed as code; no package is required.

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
from .graph.importers.onnx.reader import check_operators, check_order, check_tensors
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
    """Load an ONNX model as a network.

    model  the path of an .onnx file, its bytes, or an `onnx.ModelProto`
    dims   dims to use for inputs, by name, instead of the model's: a model saved for one image can run on 16
    values  constant inputs, by name, which calls then omit. The branch of an `If` can follow from them, and
            from the dims of the other inputs
    rule   how formats are chosen: "plain", "greedy" or "optimal"
    without  names of fusions to disable, from `rs.graph.FUSIONS`
    exact  do not use Winograd's algorithm for convolutions, whose results differ by about 1e-6 of the
            largest: the same as its name in `without`. Accumulation is in f32 either way
    fallback  "onnxruntime": run unsupported nodes in onnxruntime and the others here, in a network whose
            `explain` lists them with reasons. If `check` finds no unsupported node, the result is a plain
            `Network`. Requires the packages onnx and onnxruntime
    precision  "f32"; "bf16" and "f16" allow tensors of that type where the model has f32 and it is faster.
            Accumulation stays in f32, and inputs and outputs keep their types; `explain` shows what was done

    If a branch of an `If`, or the number of steps of a `Loop` or a `Scan`, is known only at run time, the
    result is a `DividedNetwork`: each branch and each body is planned when it is first taken. Loops of up to
    64 steps known in advance are unrolled in one plan. The result is divided too if dims depend on the values
    of small inputs, such as a new shape: each combination of values has its own plan, unless `values` fixes
    them.

    Extents that the model leaves open are taken from each call's inputs. External tensors are read only from
    the model's folder. Files are mapped, and read again for other dims: a file modified in between is an
    error. A tensor of a GiB or more that nodes read in place, such as a table from which a run gathers a few
    rows, stays in its file, which must not be changed while the network exists.

    Raises Unimplemented for unsupported operators, listing all of them with the names of their nodes, and for
    an opset other than 1 to 28; InvalidArguments, naming the node, for an invalid model; RuntimeFailure if
    the system refuses access to the file or its external data, or if a tensor needs the package onnx to be
    read and it is not installed.
    """
    try:
        constants, own_dims = {} if values is None else values, {} if dims is None else dims
        without = fusions_off("rs.onnx.load", without, exact)
        how = rule, without, parse_word("rs.onnx.load: precision", precision, PRECISIONS)
        source = with_values(read_model(model), constants)
        if fallback is not None:
            parse_word("rs.onnx.load: fallback", fallback, ("onnxruntime",), "it is the only fallback")
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
    """Report which parts of an ONNX model run and what is missing: counts and names of nodes, by operator.

    `model`, `dims`, `values` are those of `load`. Open extents count as 1, and the result says which inputs
    have them. Supported parts are planned with plain formats; nothing is compiled. Code behind a branch or
    loop decided at run time is checked as if the branch, or one step, were taken. Raises as `load` does for
    an invalid model; unsupported nodes, opsets, and what an opset does not have are listed in the result.
    """
    try:
        constants = {} if values is None else values
        source = with_values(read_model(model), constants)
        check_functions(source)
        check_tensors(source)
        own_dims = {} if dims is None else dims
        return check_model(source, assumed_dims(source, own_dims), own_dims)
    except Error as error:
        error.drop_frames()
        raise


def operators() -> frozenset[str]:
    """Return the supported operators. Some, such as Range, are supported only in computing shapes."""
    return OPERATORS


def __dir__() -> list[str]:
    return sorted(__all__)
