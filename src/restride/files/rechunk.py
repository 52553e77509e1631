"""`rs.rechunk`: copies a Zarr array to one with other chunks, in bounded memory, resumable."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from math import prod
from typing import Any

from ..desc.parse import check_function, parse_bool, short_repr
from ..errors import refuse
from ..runtime.cpu.thread_pool import get_num_threads
from .conversion.report import ConversionProgress
from .conversion.tile_threads import TileProgress, do_tiles
from .conversion.tiles import Ints, TileGrid, parse_memory
from .places import Workspace
from .writing.replacement import UnsafeFiles, boot_id
from .zarr.arrays import tree_state, zarr_library
from .zarr.chunk_files import (
    ChunkMover,
    array_folder,
    box_slices,
    chunk_files,
    chunk_paths,
    read_box,
    write_box,
)

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
    """Copy a Zarr array to another one of the same shape and type, with other chunks or codecs.

    src, dst  Zarr arrays, or anything that `zarr.open_array` opens; `dst` must exist, created by
              `zarr.create_array`
    memory    memory limit for boxes of the arrays: bytes, or text such as "512MiB"
    resume    continue an earlier call, whose progress is recorded in the attributes of `dst`
    progress  a function called with a `ConversionProgress` several times a second

    Boxes are whole chunks of `dst`, as large as the limit allows, to minimize repeated reads of `src` chunks.
    Chunks that are plain files, uncompressed in a local folder, are read and written directly, all others by
    the Zarr library. On return, all chunks of a local folder are on disk; after a power failure, copying
    resumes from the chunks that had reached the disk.

    Requires Zarr 3: pip install 'restride[zarr]'. Raises InvalidArguments for damaged chunks, for arrays that
    do not match, and if there is nothing to resume; RuntimeFailure if the system refuses access, or if files
    of `src` change meanwhile; OutOfMemory if `memory` is too small for one chunk of each.
    """
    check_function("rechunk: progress", progress)
    source, target = _open_array(src, "src", "r"), _open_array(dst, "dst", "r+")
    if source.shape != target.shape or source.dtype != target.dtype:
        raise refuse("RS-F07:dst-another-array", source=source, target=target)
    # The same array in both places: its chunks would be read while they are written.
    folders = {folder and os.path.realpath(folder) for folder in map(array_folder, (source, target))}
    if source.store_path == target.store_path or (len(folders) == 1 and None not in folders):
        raise refuse("RS-F08:src-dst-array", source=short_repr(source))
    room, started = parse_memory(memory, "rechunk: memory"), time.perf_counter()

    def report(tally: TileProgress) -> None:
        if progress is not None:
            seconds = time.perf_counter() - started
            progress(ConversionProgress("rechunking", tally.weight, source.nbytes, seconds, str(dst)))

    work = _Rechunking(source, target, room, (short_repr(src), short_repr(dst)))
    first = _boxes_done(target, work.plan) if parse_bool("rechunk: resume", resume) else 0
    work.copy_from(first, report)
    del target.attrs[_ATTRIBUTE]


class _Rechunking:
    """The boxes of an array, copied by several threads; the target's attributes record the progress.

    `names`: of source and target, for errors. `plan` identifies this way of copying: the progress of an
    earlier call counts only if it had the same plan.
    """

    def __init__(self, source: Any, target: Any, memory: int, names: tuple[str, str]) -> None:
        self._source, self._target, self._names = source, target, names
        src, dst = chunk_files(source), chunk_files(target)
        is_direct = src is not None and dst is not None
        room, jobs = _room(memory, source, target, is_direct)
        self._mover = None if src is None or dst is None else ChunkMover(src, dst, jobs)
        self._grid = plan_boxes(source.shape, source.chunks, _unit(target), source.dtype.itemsize, room)
        self._state = self._state_now()
        facts = (source.shape, str(source.dtype), source.chunks, _unit(target), self._grid.box, self._state)
        self.plan = hashlib.sha256(repr(facts).encode()).hexdigest()
        self._unsafe, self._safe = UnsafeFiles(), 0

    def copy_from(self, first: int, watch: Callable[[TileProgress], None]) -> None:
        """Copy all boxes from this one on. Raises RuntimeFailure if the source has changed meanwhile."""
        self._safe = first
        for tile in range(first):
            self._unsafe.add(chunk_paths(self._target, box_slices(*self._grid[tile])))
        total = len(self._grid) if prod(self._source.shape) else 0
        self._note(first, False)
        try:
            do_tiles(total, first, 1, self._run, self._note, watch)
        finally:
            if self._mover is not None:
                self._mover.close()
        self._unsafe.make_safe()
        if self._state_now() != self._state:
            raise refuse("RS-F08:src-changed-while", source=self._names[0])

    def _state_now(self) -> str:
        """Return a hash that changes with the files of the source; "" if they are not local."""
        folder = array_folder(self._source)
        return "" if folder is None else tree_state(folder)

    def _run(self, tile: int, space: Workspace) -> int:
        """Copy one box; return the number of its bytes."""
        start, size = self._grid[tile]
        box = box_slices(start, size)
        if self._mover is None:
            values = read_box(self._source, box, self._names[0])
            write_box(self._target, box, values, self._names[1])
        else:
            self._mover.move(start, size, space)
        self._unsafe.add(chunk_paths(self._target, box))
        return prod(size) * int(self._source.dtype.itemsize)

    def _note(self, done: int, is_time: bool) -> None:
        """Record how many boxes are done; at intervals, after flushing them to disk."""
        if is_time:
            self._unsafe.make_safe()
            self._safe = done
        note = {"plan": self.plan, "done": done, "safe": self._safe, "boot": boot_id()}
        self._target.update_attributes({_ATTRIBUTE: json.dumps(note)})


def plan_boxes(shape: Ints, src: Ints, dst: Ints, itemsize: int, memory: int) -> TileGrid:
    """Return boxes of whole target chunks, of at most about `memory` bytes, that split few source chunks.

    A box grows along the axis where that saves most repeated reads.
    """
    box = tuple(max(min(n, w), 1) for n, w in zip(shape, dst, strict=True))
    while True:
        choices = [
            (*box[:d], min(max(n, 1), 2 * b), *box[d + 1 :])
            for d, (n, b) in enumerate(zip(shape, box, strict=True))
            if b < n
        ]
        fitting = [choice for choice in choices if prod(choice) * itemsize <= memory]
        if not fitting:
            return TileGrid(tuple(shape), _lengthen(box, shape, src, dst, memory // itemsize))
        box = min(fitting, key=lambda choice: (_reads_per_box(choice, src, shape), choice))


def _lengthen(box: Ints, shape: Ints, src: Ints, dst: Ints, most: int) -> Ints:
    """Extend the box along the axis where that saves most, to `most` elements, keeping boxes about equal."""
    boxes = [box]
    for d, (n, b, w) in enumerate(zip(shape, box, dst, strict=True)):
        longest = most * b // max(prod(box), 1) // max(w, 1) * w
        if b < longest:
            count = -(-n // longest)
            boxes.append((*box[:d], min(-(-n // (count * w)) * w, n), *box[d + 1 :]))
    return min(boxes, key=lambda choice: (_reads_per_box(choice, src, shape), choice))


def _reads_per_box(box: Ints, read: Ints, shape: Ints) -> float:
    """Estimate the reads for a box, as a multiple of its size."""
    return prod(
        1.0 if b % r == 0 or b >= n else (b + r) / b for b, r, n in zip(box, read, shape, strict=True)
    )


def _unit(array: Any) -> Ints:
    """Return the extents of the unit of writing: a shard if there are any, else a chunk."""
    return tuple(getattr(array, "shards", None) or array.chunks)


def _boxes_done(target: Any, plan: str) -> int:
    """Return the number of boxes done by an earlier call: after a reboot, only those flushed to disk."""
    try:
        state = json.loads(target.attrs.get(_ATTRIBUTE, ""))
        count = state["done" if state["boot"] == boot_id() else "safe"]
        done = count if state["plan"] == plan else -1
    except (ValueError, KeyError, TypeError):
        done = -1
    if type(done) is int and done >= 0:
        return done
    raise refuse("RS-F08:nothing-go")


def _room(memory: int, source: Any, target: Any, is_direct: bool) -> tuple[int, int]:
    """Return the size limit of a box, and the number of reading threads, each of which may hold a chunk."""
    if memory < _LEAST_MEMORY:
        raise refuse("RS-V08:less-not-enough", memory=memory, least_memory=_LEAST_MEMORY)
    src, dst = (max(prod(n), 1) * source.dtype.itemsize for n in (source.chunks, _unit(target)))
    jobs = min(get_num_threads(), (memory - dst) // src) if is_direct else get_num_threads()
    # Through the library: a box as read, and with its chunks encoded.
    room = memory - jobs * src if is_direct else memory // 3
    if jobs >= 1 and dst <= room and src <= memory:
        return room, jobs
    raise refuse("RS-D01:chunks-not-fit", memory=memory, read=src, written=dst)


def _open_array(value: Any, name: str, mode: str) -> Any:
    zarr = zarr_library("rechunk")
    try:
        array = value if isinstance(value, zarr.Array) else zarr.open_array(value, mode=mode)
        if 0 in _unit(array) and 0 not in array.shape:
            raise ValueError("it has no regular chunks")
        return array
    except Exception as error:  # any store can raise anything
        raise refuse(
            "RS-F01:no-array-zarr",
            name=name,
            where=short_repr(value),
            reason=str(error)[:200] or type(error).__name__,
        ) from None
