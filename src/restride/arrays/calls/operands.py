"""The arguments of a call as memory objects on the engine that runs it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...desc.memory_desc import MemoryDesc
from ...desc.tags import Tag
from ...errors import refuse
from ...runtime.describe import SOURCE, TARGET, Subject, describe
from ...runtime.engine import Engine
from ...runtime.memory import Memory
from ...runtime.transfer import from_host, share_with
from .formats import check_out, out_desc, wanted_of_out

_CPU = Engine("cpu")


def engine_of(x: object, out: object, engine: object) -> Engine:
    """Return the engine that runs a call: the one given, else that of a `Memory` among them, else the CPU."""
    if isinstance(engine, Engine):
        return engine
    if isinstance(engine, str):
        return Engine(engine)
    if engine is not None:
        raise refuse("RS-V08:engine-no-engine", type=type(engine).__name__)
    memories = (memory for memory in (x, out) if isinstance(memory, Memory) and memory)
    return next((memory.engine for memory in memories), _CPU)


def memory_of(value: Any, engine: Engine, subject: Subject) -> Memory:
    """Return an array or a memory as a memory on the engine, over the same bytes if possible.

    Raises InvalidArguments, under the name of `subject`, for anything that cannot be read.
    """
    if not isinstance(value, Memory):
        described = describe(value, None, subject)
        return from_host(described.desc, engine, described.buffer_of(value))
    if value:
        return value
    raise refuse("RS-M36:memory-empty-give", refused=subject.refused)


def source_of(x: Any, src: Any, engine: Engine, out: Any = None) -> Memory:
    """Return the source as a memory object on the engine, or on the host next to it.

    The dims of a physical array are padded unless `src` says otherwise: those of `out` exclude the padding.
    """
    if not isinstance(x, Memory):
        described = describe(x, src, SOURCE)
        desc, dims = described.desc, ()
        if isinstance(out, np.ndarray) or (isinstance(out, Memory) and out):
            dims = tuple(out.shape)
        is_padded = desc.inner_blks and len(dims) == desc.ndims and dims != desc.dims
        if is_padded and not isinstance(src, MemoryDesc):
            plain = MemoryDesc(dims, desc.data_type, Tag(desc.layout.outer_order, *desc.layout.inner))
            # The blocks of a physical array with the dims of `out`, if those fill as many.
            desc = plain if plain.padded_dims == desc.dims and plain.strides == desc.strides else desc
        return Memory(desc, _host_of(engine), described.buffer_of(x))
    if src is not None:
        raise refuse("RS-A14:src-memory")
    if not x:
        raise refuse("RS-M36:source-memory-empty")
    return share_with(x, engine)


def target_of(src: MemoryDesc, dst: Any, dtype: Any, out: Any, engine: Engine) -> Memory:
    """Return the destination, which must have the layout and type that `dst` and `dtype` say."""
    if isinstance(out, Memory) and out:
        check_out(out.desc, wanted_of_out(src, out.desc, dst, dtype))
        return share_with(out, engine)
    if isinstance(out, np.ndarray):
        target = out_desc(src, describe(out, None, TARGET), dst, dtype)
        if not out.flags.writeable:
            raise refuse("RS-A08:out-read-only", src=src, desc=target.desc)
        return Memory(target.desc, _host_of(engine), target.buffer_of(out))
    empty = "an empty Memory" if isinstance(out, Memory) else type(out).__name__
    raise refuse("RS-V08:out-no-array", empty=empty)


def _host_of(engine: Engine) -> Engine:
    """Return the host side of an engine, where its arrays are; a device is reached from the CPU."""
    return engine if engine.device.is_host else _CPU
