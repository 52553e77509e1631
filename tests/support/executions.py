"""A primitive run on arrays, on any engine, in any formats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import restride as rs
from support.computed import padding_is_zero
from support.engines import allocated, memory_over, run, storage

Array = npt.NDArray[Any]
_CPU = rs.Engine("cpu")


def executed(engine: rs.Engine, name: str, inputs: Mapping[int, Array], *arguments: Any) -> dict[int, Array]:
    """What a primitive writes, by argument; `inputs` are the values of what it reads."""
    primitive = getattr(rs.onednn, name)
    pd = primitive.PrimitiveDesc(engine, *arguments)
    memories = {}
    for arg, md in pd._exec_args().items():
        memories[arg] = allocated(md, engine)
        if arg in inputs:
            on_host = rs.Memory(md, _CPU)
            rs.reorder(np.ascontiguousarray(inputs[arg]), None, out=on_host)
            memories[arg] = memory_over(md, engine, storage(on_host.data, engine))
    made = primitive(pd)
    for _ in range(2):
        run(made, engine, memories)
    results = {arg: memory for arg, memory in memories.items() if arg not in inputs}
    assert all(padding_is_zero(memory) for memory in results.values())
    return {arg: np.array(memory.to_numpy()) for arg, memory in results.items()}
