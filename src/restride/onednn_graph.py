"""oneDNN graphs as networks: `rs.onednn_graph.load(path)` reads the JSON of oneDNN's graph driver.

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
    """Load a oneDNN graph as a network, from the path of its .json file or from an open file.

    Inputs and outputs are named by the numbers of their logical tensors: "0", "59". Inputs have the order of
    `input_ports` and any strides. `dims`, `rule`, `without`, `precision` and the errors are those of
    `rs.onnx.load`.
    """
    try:
        return network_of(read_graph(source), translate_operation, dims, rule, without, precision)
    except Error as error:
        error.drop_frames()
        raise


def __dir__() -> list[str]:
    return sorted(__all__)
