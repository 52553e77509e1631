"""The operands of an execution: checked, and their addresses put where kernels read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..desc.factor import above_one, fits_extents
from ..desc.layout import Layout
from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from ..errors import InvalidArguments
from ..plan.contract import storage_dtype
from ..plan.interpret import gather, scatter
from ..plan.nest import Axis, LoopNest
from ..runtime.alloc import Array, address_of
from ..runtime.cpu import Params
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from ..runtime.reference import storage
from ..runtime.spread import Runner, make_program
from .args import name_of
from .base import check_memory
from .chain import Chain, Feed

__all__ = ["check_feeds", "fill_params", "operand_arrays"]

Extras = Mapping[int, Memory]


def _no_outputs(src: int, dst: int, params: int, outputs: Sequence[int]) -> None:
    """There is nothing to write beside the destination."""


class Entry(NamedTuple):
    """What a run on addresses needs: `call(src, dst, params)`; with `outputs`, the arguments that are written
    beside the destination, `write(src, dst, params, outputs)` instead.

    `params` is the address of parameters that are all known, good while `owner` lives; where the chain reads
    memories they are put together for each run.
    """

    call: Callable[[int, int, int], None]
    chain: Chain
    params: int
    outputs: tuple[int, ...] = ()
    write: Callable[[int, int, int, Sequence[int]], None] = _no_outputs
    owner: object = None


def check_feeds(call: str, chain: Chain, extras: Extras, engine: Engine, dst: Memory) -> None:
    """Raise InvalidArguments unless every memory of `extras` is what the chain reads (N10, R25 to R27)."""
    for feed in chain.feeds:
        if feed.values is None:
            _check_feed(call, feed, extras[feed.arg], engine, dst)


def _check_feed(call: str, feed: Feed, memory: Memory, engine: Engine, dst: Memory) -> None:
    name = f"argument {name_of(feed.arg)}"
    wanted = feed.desc if feed.desc is not None else getattr(memory, "desc", MemoryDesc())
    check_memory(call, name, memory, wanted, engine)
    if feed.desc is None:
        _check_values(call, name, feed, memory.desc)
    if memory._lo < dst._hi and dst._lo < memory._hi:
        raise InvalidArguments(
            f"{call}: {name} overlaps the destination",
            code="RS-N09",
            where=f"{name} {memory.desc}; dst {dst.desc}",
            why="it would be overwritten while it is read (N9)",
            hint="use another buffer",
        )


def _check_values(call: str, name: str, feed: Feed, md: MemoryDesc) -> None:
    """Scales and zero points: so many, of this shape and type, one after the other."""
    if md.nelems != feed.count:
        why = f"the mask stands for {feed.count} values, it has {md.nelems}"
    elif md.data_type is not feed.data_type:
        why = f"its values are {md.data_type}, the attribute says {feed.data_type}"
    elif not _is_dense(md.layout):
        why = "its values do not follow each other row by row"
    elif not fits_extents(md.dims, feed.extents):
        why = f"it is {_times(md.dims)}, the masked dims are {_times(above_one(feed.extents))}"
    else:
        return
    raise InvalidArguments(
        f"{call}: {name} will not do",
        code="RS-R07",
        where=f"{name} {md}",
        why=why,
        hint=f"pass a dense memory: rs.MemoryDesc(({feed.count},), {str(feed.data_type)!r}, 'a'), "
        "with the values in the logical order of the masked dims",
    )


def _times(dims: Sequence[int]) -> str:
    return " x ".join(map(str, dims))


def _is_dense(layout: Layout) -> bool:
    expected = 1
    for extent, stride in zip(reversed(layout.dims), reversed(layout.strides), strict=True):
        if extent > 1 and stride != expected:
            return False
        expected *= extent
    return not layout.inner_blks


def fill_params(chain: Chain, extras: Extras, held: list[object]) -> Params:
    """What kernels read; `held` keeps alive what has been made for this run."""
    return Params(chain.scalars, [_address(feed, extras, held) for feed in chain.feeds])


def _address(feed: Feed, extras: Extras, held: list[object]) -> int:
    if feed.values is not None:
        return address_of(feed.values)
    memory = extras[feed.arg]
    held.append(memory._buffer)
    at = memory._address + skipped_bytes(feed, memory.desc)
    if feed.desc is not None or not memory.desc.offset0 * memory.desc.data_type.bits % 8:
        return at
    moved = np.empty(memory.desc.data_type.nbytes(feed.count), np.uint8)
    held.append(moved)
    _half_on(feed.data_type, feed.count).run(at, address_of(moved), 0)
    return address_of(moved)


def skipped_bytes(feed: Feed, md: MemoryDesc) -> int:
    """How far behind element offset 0 of a memory its kernel begins, in whole bytes.

    Offsets of a binary operand are in the nest; scales and zero points begin at their first value.
    """
    return 0 if feed.desc is not None else md.offset0 * md.data_type.bits // 8


@lru_cache(maxsize=64)
def _half_on(data_type: DataType, count: int) -> Runner:
    """Moves `count` 4-bit elements that begin in the midst of a byte to where they begin at one."""
    nest = LoopNest(data_type, data_type, (Axis(count, 1, 1),), src_base=1)
    return make_program(nest, count, (1, count + 1), (0, count))


def operand_arrays(feeds: Sequence[Feed], extras: Extras) -> list[Array]:
    """The operands as flat arrays of storage dtypes, for the interpreter; offset 0 is the first of each."""
    return [_array(feed, extras) for feed in feeds]


def _array(feed: Feed, extras: Extras) -> Array:
    if feed.values is not None:
        return feed.values.view(storage_dtype(feed.tensor.data_type))
    held, md = storage(extras[feed.arg]), extras[feed.arg].desc
    if feed.desc is not None or not md.offset0:
        return held
    if md.data_type.bits >= 8:
        return held[md.offset0 :]
    moved = np.empty(md.data_type.nbytes(md.nelems), np.uint8)
    bits = gather(held, md.data_type, np.arange(md.offset0, md.offset0 + md.nelems))
    scatter(moved, md.data_type, np.arange(md.nelems), bits)
    return moved
