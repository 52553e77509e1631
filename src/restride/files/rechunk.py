"""`rs.rechunk`: a Zarr array into other chunks, in bounded memory, resumable."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from math import prod
from typing import Any

from ..desc.parse import parse_bool, short_repr
from ..errors import InvalidArguments
from .convert import _bytes
from .places import Workspace
from .report import ConversionProgress
from .tiles import Ints, TileGrid
from .work import Tally, do_tiles

__all__ = ["rechunk"]

_ATTRIBUTE = "restride_rechunk"
_LEAST_MEMORY = 1 << 20


def rechunk(
    src: Any,
    dst: Any,
    *,
    memory: str | int = "1GiB",
    resume: bool = False,
    progress: Callable[[ConversionProgress], None] | None = None,
) -> None:
    """Copy a Zarr array into another one of the same shape and type, and other chunks or codecs.

    src, dst  arrays of Zarr, or what `zarr.open_array` opens; `dst` is there, as `zarr.create_array` makes it
    memory    what boxes of the arrays may take at a time: bytes, or text such as "512MiB"
    resume    go on with what an earlier call has left in the attributes of `dst`
    progress  a function that is called with a `ConversionProgress` several times a second

    Boxes are whole chunks of `dst`, and as large as the memory allows, so that chunks of `src` are read as
    few times as can be. Needs Zarr 3: pip install 'restride[zarr]'. Raises InvalidArguments for arrays that
    do not fit each other, and where there is nothing to go on with.
    """
    source, target = _opened(src, "src", "r"), _opened(dst, "dst", "r+")
    if source.shape != target.shape or source.dtype != target.dtype:
        raise InvalidArguments(
            "rechunk: dst is another array",
            code="RS-F07",
            where=f"src {source.dtype} {source.shape}; dst {target.dtype} {target.shape}",
            why="only chunks and codecs may differ",
            hint="create it with the shape and the dtype of src",
        )
    grid = plan_boxes(source.shape, source.chunks, _unit(target), source.dtype.itemsize, _memory(memory))
    facts = repr((source.shape, str(source.dtype), source.chunks, _unit(target), grid.box))
    plan = hashlib.sha256(facts.encode()).hexdigest()
    first = _done(target, plan) if parse_bool("rechunk: resume", resume) else 0
    total = len(grid) if prod(source.shape) else 0
    started = time.perf_counter()

    def run(tile: int, space: Workspace) -> int:
        start = grid.start(tile)
        box = tuple(slice(at, at + n) for at, n in zip(start, grid.size(start), strict=True))
        target[box] = source[box]
        return prod(grid.size(start)) * int(source.dtype.itemsize)

    def note(done: int, is_safe: bool) -> None:
        target.update_attributes({_ATTRIBUTE: json.dumps({"plan": plan, "done": done})})

    def watch(tally: Tally) -> None:
        if progress is not None:
            seconds = time.perf_counter() - started
            progress(ConversionProgress("rechunking", tally.weight, source.nbytes, seconds, str(dst)))

    note(first, False)
    do_tiles(total, first, 1, run, note, watch)
    del target.attrs[_ATTRIBUTE]


def plan_boxes(shape: Ints, read: Ints, written: Ints, itemsize: int, memory: int) -> TileGrid:
    """Boxes of whole chunks that are written, of at most about `memory` bytes, that cut few that are read.

    A box grows along the axis where that spares most of what is read twice.
    """
    box = tuple(max(min(n, w), 1) for n, w in zip(shape, written, strict=True))
    while True:
        choices = [
            (*box[:d], min(max(n, 1), 2 * b), *box[d + 1 :])
            for d, (n, b) in enumerate(zip(shape, box, strict=True))
            if b < n
        ]
        fitting = [choice for choice in choices if prod(choice) * itemsize <= memory]
        if not fitting:
            return TileGrid(tuple(shape), box)
        box = min(fitting, key=lambda choice: (_excess(choice, read, shape), choice))


def _excess(box: Ints, read: Ints, shape: Ints) -> float:
    """How many times more than the box its reads are, about."""
    return prod(
        1.0 if b % r == 0 or b >= n else (b + r) / b for b, r, n in zip(box, read, shape, strict=True)
    )


def _unit(array: Any) -> Ints:
    """What is written at a time: a shard, where there are some, else a chunk."""
    return tuple(getattr(array, "shards", None) or array.chunks)


def _done(target: Any, plan: str) -> int:
    """How many boxes an earlier call has done."""
    try:
        found = json.loads(target.attrs.get(_ATTRIBUTE, ""))
        done = found["done"] if found["plan"] == plan else -1
    except (ValueError, KeyError, TypeError):
        done = -1
    if type(done) is int and done >= 0:
        return done
    raise InvalidArguments(
        "rechunk: there is nothing to go on with",
        code="RS-F08",
        why="dst has no note of an earlier call with the same arrays and memory",
        hint="leave resume out to start anew",
    )


def _memory(memory: str | int) -> int:
    found = _bytes(memory)
    if found >= _LEAST_MEMORY:
        # A box as it is read, and as its chunks are encoded.
        return found // 3
    raise InvalidArguments(
        f"rechunk: memory is {found} bytes",
        code="RS-V08",
        why=f"less than {_LEAST_MEMORY} is not enough for chunks",
        hint='allow more, as "1GiB"',
    )


def _opened(value: Any, name: str, mode: str) -> Any:
    try:
        import zarr
    except ImportError:
        raise InvalidArguments(
            "rechunk: there is no Zarr",
            code="RS-C04",
            why="arrays of Zarr are read by its own library",
            hint="pip install 'restride[zarr]'",
        ) from None
    if isinstance(value, zarr.Array):
        return value
    try:
        return zarr.open_array(value, mode=mode)
    except Exception as error:  # of any store
        raise InvalidArguments(
            f"rechunk: {name} is no array of Zarr",
            code="RS-F01",
            where=short_repr(value),
            why=str(error)[:200] or type(error).__name__,
            hint="pass a zarr.Array, or the path of one",
        ) from None
