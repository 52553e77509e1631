"""The SYCL device that tests run on, and the reason for skipping them where there is none."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from restride.errors import InvalidArguments


def sycl_engine() -> rs.Engine:
    """The first SYCL engine; the test is skipped, with the reason, where there is none."""
    try:
        return rs.Engine("sycl")
    except InvalidArguments as error:
        pytest.skip(error.message.replace("\n", "; "))


def skip_where_the_compiler_crashes(engine: rs.Engine) -> None:
    """Skip on SYCL what its compiler does not survive: maxima of windows, gradients of PReLU's weights."""
    if "sycl" in type(engine.device).__module__:
        pytest.skip("intel-opencl-rt 2026.2.0 ends the process while it builds this kernel")


def on_device(memory: rs.Memory, engine: rs.Engine) -> rs.Memory:
    """The same bytes in a memory of a SYCL engine, gaps and padding too."""
    made = rs.Memory(memory.desc, engine)
    mapped = made.map_data()
    if mapped is not None:
        mapped.view(np.uint8)[...] = memory.data.view(np.uint8)[: mapped.nbytes]
        made.unmap_data(mapped)
    return made


def raw_bytes(memory: rs.Memory) -> np.ndarray:
    """All bytes of a memory, wherever it is."""
    mapped = memory.map_data()
    copied = np.array(mapped).view(np.uint8)
    memory.unmap_data(mapped)
    return copied


def filled(md: rs.MemoryDesc, seed: int) -> rs.Memory:
    """A memory of the host with any bytes: every exponent, subnormals and NaN among them."""
    memory = rs.Memory(md, rs.Engine("cpu"))
    held = memory.data.view(np.uint8)
    held[...] = np.random.default_rng(seed).integers(0, 256, held.size, dtype=np.uint8)
    return memory


def host(memory: rs.Memory, kind: str = "reference") -> rs.Memory:
    """The same bytes in a memory of a host engine of their own."""
    return rs.Memory(memory.desc, rs.Engine(kind), memory.data.view(np.uint8).copy())
