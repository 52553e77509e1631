"""Evaluation of operations on arrays known before a run, such as shapes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..dtypes import DataType
from ..runtime.alloc import Array
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from ..runtime.stream import Stream
from .graph import Node
from .lowering import lower_node
from .nodes.operations import Operation, TensorType, row_major

_BYTE = 8


def results_of_arrays(
    operation: Operation, arrays: Sequence[Array], engine: Engine, most: int
) -> tuple[Array, ...] | None:
    """Return the results of an operation, row-major; None if one of its tensors has more than `most`
    elements, or has 4-bit elements, which arrays do not store as memories do.
    """
    types = [TensorType(x.shape, DataType.parse(x.dtype)) for x in arrays]
    results = operation.results(types)
    if any(each.elements > most or each.data_type.bits < _BYTE for each in (*types, *results)):
        return None
    names = tuple(map(str, range(len(types) + len(results))))
    node = Node("", operation, names[: len(types)], names[len(types) :])
    made = [np.empty(each.desc_dims, each.data_type.numpy) for each in results]
    lowered = lower_node(node, [*map(row_major, types)], [*map(row_major, results)], engine)
    values = [
        *(np.ascontiguousarray(x).reshape(kind.desc_dims) for x, kind in zip(arrays, types, strict=True)),
        *made,
    ]
    memories = [
        Memory(row_major(kind), engine, x) for kind, x in zip((*types, *results), values, strict=True)
    ]
    if all(each.elements for each in results):
        arguments = dict(zip((*lowered.reads, *lowered.writes), memories, strict=True))
        lowered.kind(lowered.pd).execute(Stream(engine), arguments)
    return tuple(x.reshape(kind.dims) for x, kind in zip(made, results, strict=True))
