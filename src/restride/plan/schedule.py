"""Loop nest + machine facts -> scheduled nest: which elements make a register tile, and in what order tiles run.

A tile is a small box of positions that is loaded, permuted in registers and stored at once. It takes as many
consecutive elements of the destination as fill a register, and as many of the source as fill a cache line. Around it,
the loop that goes on along the source is innermost (whole lines, and several of them, before moving on), then the one
that goes on along the destination, then the rest in destination order. The outer ones are the grid, which threads share.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from ..dtypes import DataType
from .machine import Machine
from .nest import LoopNest, Stride, slice_axis

# Bytes of a row that are moved before the next row's turn: on the side whose rows lie farther apart, and on the
# other when that is the destination. Measured; flat within a factor of two.
_FAR_BYTES = 1024
_NEAR_BYTES = 256
# How far ahead of a source row a transpose asks for data: two lines. Measured; 64 to 512 differ little.
_AHEAD_BYTES = 128
# Copies keep this many registers in flight.
_COPY_REGISTERS = 4
# Work below this many bytes is one grid step.
_SMALL_BYTES = 1 << 15
# Bytes of one grid step where an axis must be cut to make steps.
_STEP_BYTES = 1 << 16
# As many grid steps as make an even split among the threads of a large machine.
_ENOUGH_STEPS = 64
# Extents up to this are permuted whole, even when they are no power of two.
_SMALL_EXTENT = 8


@dataclass(frozen=True, slots=True)
class Grid:
    """One loop of the grid: an axis, and how many tiles of it make one step (0: every tile of it)."""

    axis: int
    tiles: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """A nest without bounds and how to run it: `chunks[i]` positions of axis i in a tile, loops, and why.

    `inner` are the axes of the loops inside a grid step, outermost first. `prefetch` is how many bytes ahead of a
    source row to ask for.
    """

    nest: LoopNest
    chunks: tuple[int, ...]
    grid: tuple[Grid, ...]
    inner: tuple[int, ...]
    mid_type: DataType
    kind: str
    why: str
    streams: bool = False
    prefetch: int = 0

    def without_streams(self) -> Schedule:
        """The same schedule with ordinary stores, for a destination that is not aligned to cache lines."""
        return replace(self, streams=False)

    def steps(self) -> int:
        """Number of grid steps, the finest that threads can share."""
        return prod(self.grid_extent(g) for g in self.grid)

    def tiles(self, axis: int) -> int:
        """Number of tiles along an axis, a partial last one included."""
        return -(-self.nest.axes[axis].extent // self.chunks[axis])

    def grid_extent(self, grid: Grid) -> int:
        """Number of steps of one grid loop."""
        return -(-self.tiles(grid.axis) // grid.tiles)

    def __str__(self) -> str:
        tile = " x ".join(f"{c} of {a.extent}" for c, a in zip(self.chunks, self.nest.axes, strict=True) if c > 1)
        grid = ", ".join(f"axis {g.axis} by {g.tiles * self.chunks[g.axis]}" for g in self.grid)
        order = ", ".join(map(str, self.inner))
        notes = ", streaming stores" * self.streams + f", prefetch {self.prefetch} bytes ahead" * bool(self.prefetch)
        return f"{self.kind} ({self.why}): tile {tile or '1'}; grid [{grid}]; inner axes [{order}]{notes}"


def schedule(nest: LoopNest, machine: Machine) -> tuple[Schedule, ...]:
    """Schedule a normalised nest without bounds; an axis read in part that is no part of a tile splits the nest."""
    mid = middle_type(nest)
    chunks, kind, why = _tile(nest, mid, machine)
    for index, axis in enumerate(nest.axes):
        if not axis.is_whole and not nest.is_zero and chunks[index] == 1:
            return _split_partial(nest, index, machine)
    order = _inner_order(nest, chunks)
    grid, inner = _grid(nest, chunks, order, machine)
    plan = Schedule(nest, chunks, grid, inner, mid, kind, why)
    ahead = _AHEAD_BYTES if kind == "transpose" and _bytes(nest) > machine.l3 else 0
    return (replace(plan, streams=_streams(plan, machine), prefetch=ahead),)


def middle_type(nest: LoopNest) -> DataType:
    """The type that a tile is permuted in: the narrower side, so that fewer bytes move between registers.

    With a sum, the source type: the value is finished where the old destination is at hand.
    """
    if nest.compute.summed or nest.dst_type.bits > nest.src_type.bits:
        return nest.src_type
    return nest.dst_type


def _split_partial(nest: LoopNest, index: int, machine: Machine) -> tuple[Schedule, ...]:
    axis = nest.axes[index]
    read = slice_axis(nest, index, 0, axis.valid)
    zero = slice_axis(nest, index, axis.valid, axis.extent - axis.valid, 0)
    return (*schedule(read, machine), *schedule(zero, machine))


# --- the tile -------------------------------------------------------------------------------------------------

Chunks = tuple[int, ...]


def _tile(nest: LoopNest, mid: DataType, machine: Machine) -> tuple[Chunks, str, str]:
    lanes = machine.vector_bytes * 8 // mid.bits
    along_dst = contiguous(nest, "dst")
    along_src = contiguous(nest, "src")
    if nest.is_zero:
        return _copy_chunks(nest, along_dst, lanes), "zero", "padding"
    if not along_dst or not along_src:
        return _strided(nest, along_dst, along_src, lanes)
    first = along_dst[0]
    shared = nest.axes[first].extent * mid.bits // 8
    is_shared = first == along_src[0]
    if is_shared and (shared >= min(32, machine.vector_bytes) or len(along_dst) == len(along_src) == 1):
        return _copy_chunks(nest, along_dst, lanes), "copy", "one axis is contiguous on both sides"
    chunks = _permute_chunks(nest, along_dst, along_src, lanes, mid, machine)
    return chunks, "transpose", "the contiguous axes of the two sides differ"


def contiguous(nest: LoopNest, side: str) -> list[int]:
    """Axes that follow each other without a gap on one side ("src" or "dst"), innermost first."""
    chain: list[int] = []
    expected = 1
    while True:
        found = _axis_of_stride(nest, side, expected, chain)
        if found is None:
            return chain
        chain.append(found)
        expected *= nest.axes[found].extent


def _axis_of_stride(nest: LoopNest, side: str, stride: int, taken: list[int]) -> int | None:
    for index, axis in enumerate(nest.axes):
        if index not in taken and axis.extent > 1 and getattr(axis, side) == stride and axis.is_linear:
            return index
    return None


def _copy_chunks(nest: LoopNest, along: list[int], lanes: int) -> Chunks:
    """A run of registers along the contiguous axis; where it is short, several rows of it."""
    chunks = [1] * len(nest.axes)
    if not along:
        return tuple(chunks)
    goal = _COPY_REGISTERS * lanes
    extent = nest.axes[along[0]].extent
    chunks[along[0]] = min(goal, extent)
    rows = goal // max(extent, 1)
    second = _next_in_destination(nest, along[0])
    if rows > 1 and second is not None:
        chunks[second] = min(_floor_power(rows), _floor_power(nest.axes[second].extent))
    return tuple(chunks)


def _next_in_destination(nest: LoopNest, index: int) -> int | None:
    others = [i for i, a in enumerate(nest.axes) if i != index and a.is_linear and (a.is_whole or nest.is_zero)]
    return min(others, key=lambda i: abs(int(nest.axes[i].dst)), default=None)  # type: ignore[arg-type]


def _strided(nest: LoopNest, along_dst: list[int], along_src: list[int], lanes: int) -> tuple[Chunks, str, str]:
    """No contiguous axis on one side: lanes are loaded or stored one by one, computed as vectors."""
    chunks = [1] * len(nest.axes)
    linear = [i for i, a in enumerate(nest.axes) if a.is_linear and a.is_whole]
    chosen = (along_dst or along_src or sorted(linear, key=lambda i: -nest.axes[i].extent))[:1]
    for index in chosen:
        chunks[index] = min(max(lanes // 2, 4), nest.axes[index].extent)
    sides = [side for side, along in (("source", along_src), ("destination", along_dst)) if not along]
    return tuple(chunks), "strided", f"no axis of the {' and '.join(sides)} is contiguous"


def _permute_chunks(
    nest: LoopNest, along_dst: list[int], along_src: list[int], lanes: int, mid: DataType, machine: Machine
) -> Chunks:
    chunks = _take(nest, along_dst, lanes, {})
    rows = prod(chunks.values())
    registers = 16 if machine.registers > 16 else 8
    quarter = 128 // mid.bits
    wanted = max(quarter, min(registers * lanes // _floor_power(rows), lanes))
    chunks = _take(nest, along_src, wanted, chunks)
    _shrink_odd(chunks, _SMALL_EXTENT * lanes)
    return tuple(chunks.get(i, 1) for i in range(len(nest.axes)))


def _shrink_odd(chunks: dict[int, int], most: int) -> None:
    """Halve a tile with an odd extent until it has at most `most` elements: each register of it is gathered."""
    while prod(chunks.values()) > most and not all(map(_is_power, chunks.values())):
        largest = max(chunks, key=lambda i: (_is_power(chunks[i]), chunks[i]))
        chunks[largest] = chunks[largest] // 2 if chunks[largest] > 2 else 1


def _take(nest: LoopNest, along: list[int], wanted: int, chunks: dict[int, int]) -> dict[int, int]:
    """Grow `chunks` along a contiguous chain until `wanted` consecutive elements are in the tile.

    A small odd extent, such as 3 channels, is taken whole once: then the tile is as many full registers of it.
    """
    chunks = dict(chunks)
    for index in along:
        extent = nest.axes[index].extent
        have = chunks.get(index, 1)
        has_odd = any(not _is_power(chunk) for i, chunk in chunks.items() if i != index)
        is_whole = _is_power(extent) or (extent <= _SMALL_EXTENT and not has_odd)
        if extent > wanted or not is_whole:
            chunks[index] = max(have, min(wanted, _ceil_power(extent)))
            return chunks
        chunks[index] = max(have, extent)
        wanted //= extent if _is_power(extent) else 1
        if wanted <= 1:
            return chunks
    return chunks


def _is_power(n: int) -> bool:
    return n & (n - 1) == 0


def _floor_power(n: int) -> int:
    return 1 << (max(n, 1).bit_length() - 1)


def _ceil_power(n: int) -> int:
    return 1 << (max(n, 1) - 1).bit_length()


# --- the loops ------------------------------------------------------------------------------------------------


def _inner_order(nest: LoopNest, chunks: Chunks) -> list[int]:
    """Axes that still need a loop, outermost first; along the source last, along the destination before it."""
    loops = [i for i, a in enumerate(nest.axes) if a.extent > chunks[i]]
    last = _continuation(nest, chunks, "src", loops)
    before = _continuation(nest, chunks, "dst", loops)
    tail = [i for i in dict.fromkeys((before, last)) if i is not None]
    if before == last and before is not None:
        tail = [before]
    return [i for i in loops if i not in tail] + tail


def _continuation(nest: LoopNest, chunks: Chunks, side: str, loops: list[int]) -> int | None:
    for index in contiguous(nest, side):
        if index in loops:
            return index
    strides = {i: abs(s) for i in loops if isinstance(s := getattr(nest.axes[i], side), int)}
    return min(strides, key=lambda i: strides[i], default=None)


def _grid(
    nest: LoopNest, chunks: Chunks, order: list[int], machine: Machine
) -> tuple[tuple[Grid, ...], tuple[int, ...]]:
    """Outer loops for the grid; inner loops, cut into blocks where they are long, below it."""
    if _bytes(nest) <= _SMALL_BYTES or not order:
        return (), tuple(order)
    inner = order[-2:]
    outer = [Grid(i, 1) for i in order[:-2]]
    blocks = {index: _tiles(nest, chunks, index) for index in inner}
    if len(inner) > 1:
        inner = _block(nest, chunks, inner, blocks, machine)
    for index in inner:
        steps = prod(-(-_tiles(nest, chunks, g.axis) // g.tiles) for g in outer)
        steps *= prod(-(-_tiles(nest, chunks, i) // blocks[i]) for i in inner)
        if steps < _ENOUGH_STEPS:
            step_bytes = _bytes(nest) // steps
            pieces = min(-(-_ENOUGH_STEPS // steps), max(step_bytes // _STEP_BYTES, 1))
            blocks[index] = max(-(-blocks[index] // pieces), 1)
    cuts = [Grid(i, blocks[i]) for i in inner if blocks[i] < _tiles(nest, chunks, i)]
    return (*outer, *cuts), tuple(inner)


def _block(
    nest: LoopNest, chunks: Chunks, inner: list[int], blocks: dict[int, int], machine: Machine
) -> list[int]:
    """Cut the two inner loops so that both sides see runs, and order them: the farther side's runs go innermost.

    Rows that lie pages apart cost most to leave (translation, open memory pages), so they are gone along first. Where
    all of it is in the cache, and a tile reads only part of a line, the rest of the line comes next.
    """
    across, along = inner
    src_row = _reach(nest.axes[across].src) * nest.src_type.bits
    dst_row = _reach(nest.axes[along].dst) * nest.dst_type.bits
    is_part = chunks[along] * nest.src_type.bits < machine.line * 8 and _reach(nest.axes[along].src) == 1
    by_source = src_row > dst_row or (is_part and _bytes(nest) <= machine.l3)
    run = _NEAR_BYTES if by_source else _FAR_BYTES
    blocks[along] = _even(blocks[along], _run_tiles(nest.axes[along].src, chunks[along], nest.src_type, _FAR_BYTES))
    blocks[across] = _even(blocks[across], _run_tiles(nest.axes[across].dst, chunks[across], nest.dst_type, run))
    return [across, along] if by_source else [along, across]


def _tiles(nest: LoopNest, chunks: Chunks, index: int) -> int:
    return -(-nest.axes[index].extent // chunks[index])


def _run_tiles(stride: Stride, chunk: int, data_type: DataType, nbytes: int) -> int:
    return max(nbytes * 8 // max(_reach(stride) * chunk * data_type.bits, 1), 1)


def _reach(stride: Stride) -> int:
    return abs(stride) if isinstance(stride, int) else 1


def _even(tiles: int, block: int) -> int:
    """A block size near `block` that cuts `tiles` evenly: 17 by 16 -> 9."""
    pieces = max(round(tiles / block), 1)
    return -(-tiles // pieces)


def _bytes(nest: LoopNest) -> int:
    return nest.positions * (nest.src_type.bits + nest.dst_type.bits) // 8


# --- streaming ------------------------------------------------------------------------------------------------


def _streams(plan: Schedule, machine: Machine) -> bool:
    """Streaming stores pay when the destination outgrows the last cache and whole lines are written.

    Each unbroken run that a tile writes must begin at a line: so must every step to another run.
    """
    nest = plan.nest
    if nest.compute.summed or _bytes(nest) < machine.l3 or plan.kind == "strided":
        return False
    width = nest.dst_type.bits // 8
    run, last = _run(plan)
    steps = [nest.dst_base]
    for index, axis in enumerate(nest.axes):
        if not isinstance(axis.dst, int):
            return False
        if index not in run and axis.extent > 1:
            steps.append(axis.dst)
        if index == last and axis.extent > plan.chunks[index]:
            steps.append(axis.dst * plan.chunks[index])
    run_bytes = prod(min(plan.chunks[i], nest.axes[i].extent) for i in run) * width
    return run_bytes % machine.line == 0 and all(step * width % machine.line == 0 for step in steps)


def _run(plan: Schedule) -> tuple[list[int], int | None]:
    """Axes along which one unbroken run of a tile goes, and the one where it ends: cut, or rounded up to lanes."""
    run: list[int] = []
    for index in contiguous(plan.nest, "dst"):
        run.append(index)
        if plan.chunks[index] != plan.nest.axes[index].extent:
            return run, index
    return run, run[-1] if run else None
