"""Graphs of oneDNN as networks: `rs.onednn_graph.load(path)` of the JSON that its graph driver reads.

>>> import io, json
>>> import numpy as np
>>> import restride as rs
>>> def tensor(id):
...     return {"id": id, "dtype": "f32", "shape": [2, 3]}
>>> relu = {"kind": "ReLU", "name": "relu", "inputs": [tensor(0)], "outputs": [tensor(1)], "attrs": {}}
>>> net = rs.onednn_graph.load(io.StringIO(json.dumps({"graph": [relu], "output_ports": [1]})))
>>> net(np.array([[1, -1, 2], [-3, 4, 0]], np.float32))
array([[1., 0., 2.],
       [0., 4., 0.]], dtype=float32)
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import IO

from .errors import Error
from .graph.importers.onednn import read_graph, translate_operation
from .graph.importers.onnx.inputs import network_of
from .graph.network.network import Network

__all__ = ["load"]


def load(
    source: str | os.PathLike[str] | IO[str] | IO[bytes],
    *,
    dims: Mapping[str, Sequence[int]] | None = None,
    rule: str = "optimal",
    without: Iterable[str] = (),
    precision: str = "f32",
) -> Network:
    """The network of a graph of oneDNN: the path of its .json file, or that file, open.

    Inputs and outputs are called by the numbers of their logical tensors: "0", "59". Inputs come in the order
    of `input_ports`, in any strides. `dims`, `rule`, `without` and `precision` are those of `rs.onnx.load`,
    and so are the errors.
    """
    try:
        return network_of(read_graph(source), translate_operation, dims, rule, without, precision)
    except Error as error:
        error.drop_frames()
        raise


def __dir__() -> list[str]:
    """The public names, and nothing else."""
    return sorted(__all__)
