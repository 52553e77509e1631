"""The engines that a test of what an engine does runs on, and bytes that both Python and the engine see."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import restride as rs
from restride.runtime.alloc import extent
from support.second_device import SECOND
from support.sycl import sycl_engine

Array = npt.NDArray[Any]
KINDS = ("reference", "cpu", "second", pytest.param("sycl", marks=pytest.mark.sycl))


def open_engine(kind: str) -> rs.Engine:
    """The first engine of a kind; without a SYCL device the test is skipped, with the reason."""
    return sycl_engine() if kind == "sycl" else rs.Engine(kind)


def storage(data: Array, engine: rs.Engine) -> Array:
    """A copy of an array in memory that `memory_over` can use: shared USM on a SYCL engine."""
    if not engine.is_sycl:
        return data.copy()
    usm = rs.sycl_interop.make_memory(rs.MemoryDesc((max(data.nbytes, 1),), "u8", "a"), engine, "shared")
    held = usm.data
    assert held is not None
    made = held[: data.nbytes].view(data.dtype).reshape(data.shape)
    made[...] = data
    return made


def memory_over(md: rs.MemoryDesc, engine: rs.Engine, part: Array) -> rs.Memory:
    """A memory over an array, or over a part of one, that `storage` made. Nothing is copied."""
    if engine.device is SECOND:
        return rs.Memory(md, engine, SECOND.adopt(part))
    return rs.Memory(md, engine, _Usm(part, engine) if engine.is_sycl else part)


def from_numpy(x: Array, engine: rs.Engine) -> rs.Memory:
    """A memory of the elements of an array, in its layout."""
    md = rs.Memory.from_numpy(x).desc
    return memory_over(md, engine, storage(x.reshape(-1), engine))


def allocated(md: rs.MemoryDesc, engine: rs.Engine) -> rs.Memory:
    """New memory that Python sees in place."""
    if engine.device is SECOND:
        return memory_over(md, engine, np.zeros(extent(md).needed, np.uint8))
    return rs.sycl_interop.make_memory(md, engine, "shared") if engine.is_sycl else rs.Memory(md, engine)


def run(primitive: Any, engine: rs.Engine, *args: Any) -> None:
    """Execute, and wait for the end."""
    stream = rs.Stream(engine)
    primitive.execute(stream, *args)
    stream.wait()


class _Usm:
    """Bytes of shared USM as dpctl takes them; they live as long as this."""

    def __init__(self, part: Array, engine: rs.Engine) -> None:
        self._part = part
        self.__sycl_usm_array_interface__ = {
            "version": 1,
            "typestr": "|u1",
            "shape": (part.nbytes,),
            "strides": None,
            "data": (part.ctypes.data, not part.flags.writeable),
            "syclobj": rs.sycl_interop.get_context(engine),
        }
