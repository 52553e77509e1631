"""Choice of the elements in a register tile.

A tile takes as many consecutive elements of the destination as fill a register, and as many of the source as
fill a cache line, so that both sides move in whole vectors and one network of shuffles connects them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod

from ...dtypes import DataType
from ...ir.nest import Axis, LoopNest, Stride
from ..machine import LINE, Machine
from .gather import gather_chunks

# The positions from which on a row takes many tiles.
_LONG_ROW = 512
# 4-bit elements that only move are two to a lane (`emit/tile_halves.py`). Their tile can be twice as large as
# all registers if rows collide: spilled registers stay in the L1 cache, but the rows' lines do not. Measured
# on rows of 8 KB to tiles of 64 rows: 1.4 times as fast as half of that, 2.0 times as a quarter.
_HALVES_MOVED = 2
_TILES_OF_HALVES = 2
# Extents up to this are permuted whole, even if they are not a power of two.
_SMALL_EXTENT = 8

# Elements this close are in the same lines, or in the next ones.
_NEAR = 32
# The distance of source elements whose neighbors are within one load.
_CLOSE = 2

Chunks = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tile:
    """`chunks[i]` positions of axis i; the kind of kernel that makes it, and why."""

    chunks: Chunks
    kind: str
    why: str


def choose_tile(nest: LoopNest, mid: DataType, machine: Machine) -> Tile:
    """Return the tile of a nest that is permuted in values of type `mid`."""
    lanes = machine.vector_bytes * 8 // max(mid.bits, 8)
    along_dst = contiguous(nest, "dst")
    along_src = contiguous(nest, "src")
    if nest.is_zero:
        return Tile(_copy_chunks(nest, along_dst, lanes, machine), "zero", "padding")
    if not nest.axes:
        return Tile((), "copy", "there is one element")
    if _is_copy(nest, along_dst, along_src, mid, machine):
        return Tile(
            _copy_chunks(nest, along_dst, lanes, machine), "copy", "one axis is contiguous on both sides"
        )
    gathered = gather_chunks(nest, lanes, machine)
    if gathered is not None:
        return Tile(gathered, "gather", "an axis moves by a table, from few registers to each")
    if not along_dst or not along_src:
        return _strided(nest, along_dst, along_src, lanes)
    chunks = _permute_chunks(nest, along_dst, along_src, lanes, mid, machine)
    return Tile(chunks, "transpose", "the contiguous axes of the two sides differ")


def _is_copy(
    nest: LoopNest, along_dst: list[int], along_src: list[int], mid: DataType, machine: Machine
) -> bool:
    """Return whether one axis is contiguous on both sides, and long enough or the only one.

    4-bit elements take a byte in registers. Short rows that are contiguous on both sides, like groups with a
    scale each, count as long ones.
    """
    if not along_dst or along_dst[:1] != along_src[:1]:
        return False
    shared = _shared_run(nest, along_dst, along_src) * max(mid.bits, 8) // 8
    return shared >= min(32, machine.vector_bytes) or len(along_dst) == len(along_src) == 1


def _shared_run(nest: LoopNest, along_dst: list[int], along_src: list[int]) -> int:
    """Return the elements in one run on both sides: of an axis, and the next if rows are a power of two."""
    run = nest.axes[along_dst[0]].extent
    is_cut = bool(nest.operands) and run > 1 and _is_power(run)
    if not is_cut or len(along_dst) == 1 or along_dst[1:2] != along_src[1:2]:
        return run
    return run * _floor_power(nest.axes[along_dst[1]].extent)


def contiguous(nest: LoopNest, side: str) -> list[int]:
    """Return the axes that are contiguous on one side ("src" or "dst"), innermost first."""
    chain: list[int] = []
    expected = 1
    while True:
        axis = _axis_of_stride(nest, side, expected, chain)
        if axis is None:
            return chain
        chain.append(axis)
        expected *= nest.axes[axis].extent


def place_of(nest: LoopNest) -> str:
    """Return how neighbors are placed on the other side: adjacent there too, a line or more, as in a "copy";
    "near", as in blocks; or "turned".
    """
    axes = [axis for axis in nest.axes if axis.extent > 1]
    if not axes:
        return "copy"
    first, last = (min(axes, key=lambda axis: _step(axis, side)) for side in ("src", "dst"))
    if first is last:
        return "copy" if first.extent * nest.dst_type.bits >= 8 * LINE else "near"
    return "near" if min(_step(first, "dst"), _step(last, "src")) <= _NEAR else "turned"


def _step(axis: Axis, side: str) -> int:
    stride = getattr(axis, side)
    return abs(stride) if isinstance(stride, int) else 1


def _axis_of_stride(nest: LoopNest, side: str, stride: int, taken: list[int]) -> int | None:
    for index, axis in enumerate(nest.axes):
        if index not in taken and axis.extent > 1 and getattr(axis, side) == stride and axis.is_linear:
            return index
    return None


def _copy_chunks(nest: LoopNest, along: list[int], lanes: int, machine: Machine) -> Chunks:
    """Return a run of registers along the contiguous axis, or several rows of it if it is short.

    Not for odd lengths: registers would straddle rows.
    """
    chunks = [1] * len(nest.axes)
    if not along:
        return tuple(chunks)
    goal = machine.copy_registers * lanes
    extent = nest.axes[along[0]].extent
    again = _axis_read_again(nest, along[0])
    if again is not None:
        chunks[along[0]] = min(lanes, extent)
        chunks[again] = min(machine.copy_registers, _floor_power(nest.axes[again].extent))
        return tuple(chunks)
    chunks[along[0]] = min(goal, extent)
    rows = goal // max(extent, 1)
    second = _next_in_destination(nest, along[0])
    if rows > 1 and second is not None and _is_power(extent):
        chunks[second] = min(_floor_power(rows), _floor_power(nest.axes[second].extent))
    return tuple(chunks)


def _axis_read_again(nest: LoopNest, index: int) -> int | None:
    """Return an axis along which elements share operands that need conversion and move along `index`, such as
    scales of columns. They are converted once for several rows.
    """
    moving = [i for i, stride in enumerate(nest.axes[index].more) if stride]
    if all(nest.operands[i].data_type is DataType.f32 for i in moving):
        return None
    rows = [
        i
        for i, axis in enumerate(nest.axes)
        if i != index and axis.is_linear and axis.is_whole and not any(axis.more[k] for k in moving)
    ]
    return max(rows, key=lambda i: nest.axes[i].extent, default=None)


def _next_in_destination(nest: LoopNest, index: int) -> int | None:
    others = [
        i for i, a in enumerate(nest.axes) if i != index and a.is_linear and (a.is_whole or nest.is_zero)
    ]
    return min(others, key=lambda i: abs(int(nest.axes[i].dst)), default=None)  # type: ignore[arg-type]


def _strided(nest: LoopNest, along_dst: list[int], along_src: list[int], lanes: int) -> Tile:
    """Return a tile without a contiguous axis on one side: lanes are accessed singly, computed as vectors."""
    chunks = [1] * len(nest.axes)
    linear = [i for i, a in enumerate(nest.axes) if a.is_linear and a.is_whole]
    chosen = (along_dst or along_src or sorted(linear, key=lambda i: -nest.axes[i].extent))[:1]
    for index in chosen:
        size = lanes if _reads_close(nest, index) else lanes // 2
        chunks[index] = min(max(size, 4), nest.axes[index].extent)
    sides = [side for side, along in (("source", along_src), ("destination", along_dst)) if not along]
    return Tile(tuple(chunks), "strided", f"no axis of the {' and '.join(sides)} is contiguous")


def _reads_close(nest: LoopNest, index: int) -> bool:
    """Return whether every second element is read, and adjacent ones are written: two loads fill a register.

    Measured with AVX2 on gradients of nearest neighbors in nchw: 1.3 to 1.5 times as fast as half as many.
    """
    axis = nest.axes[index]
    return axis.dst == 1 and isinstance(axis.src, int) and 0 < axis.src <= _CLOSE


def _permute_chunks(
    nest: LoopNest, along_dst: list[int], along_src: list[int], lanes: int, mid: DataType, machine: Machine
) -> Chunks:
    quarter = 128 // max(mid.bits, 8)
    is_half = nest.axes[along_src[0]].extent >= quarter and _is_line_of_half(nest, mid, lanes, machine)
    written = lanes // 2 if is_half else lanes
    chunks = _chunks_writing(nest, (along_dst, along_src), written, mid, machine)
    is_large = nest.dst_type.bits == 4 and nest.moved_bytes >= machine.l3
    if is_large and _run_taken(nest, along_dst, dict(enumerate(chunks))) < 2 * machine.line:
        # A register of bytes is half a line of 4-bit elements, and past the caches whole lines are written.
        return _chunks_writing(nest, (along_dst, along_src), 2 * machine.line, mid, machine)
    return chunks


def _chunks_writing(
    nest: LoopNest, along: tuple[list[int], list[int]], written: int, mid: DataType, machine: Machine
) -> Chunks:
    """Return `written` elements along the destination, and along the source as many as fit the registers."""
    along_dst, along_src = along
    lanes = machine.vector_bytes * 8 // max(mid.bits, 8)
    quarter = 128 // max(mid.bits, 8)
    is_half = written < lanes
    chunks = _take(nest, along_dst, written, {})
    rows = prod(chunks.values())
    is_small = (
        is_half or machine.registers <= 16 or _is_half_in_memory(nest, along_dst[0], along_src[0], machine)
    )
    registers = 8 if is_small else 32 if _is_bytes_in_caches(nest, along_src[0], machine) else 16
    wanted = max(quarter, min(registers * lanes // _floor_power(rows), lanes))
    apart = rows // _run_taken(nest, along_src, chunks)
    wanted = max(wanted, min(machine.line_registers * lanes // apart, lanes))
    if tile_rows_share_sets(nest, chunks, machine):
        held = lanes * _HALVES_MOVED if moves_halves(nest) else lanes
        fitting = machine.registers * held // _floor_power(apart)
        if moves_halves(nest):
            fitting *= _TILES_OF_HALVES
        wanted = max(wanted, min(held, machine.line * 8 // nest.src_type.bits, fitting))
    chunks = _take(nest, along_src, wanted, chunks)
    _shrink_odd(chunks, _SMALL_EXTENT * lanes)
    return tuple(chunks.get(i, 1) for i in range(len(nest.axes)))


def moves_halves(nest: LoopNest) -> bool:
    """Return whether 4-bit elements only move."""
    return nest.src_type.bits == 4 and nest.dst_type is nest.src_type and nest.compute.is_move


def _is_line_of_half(nest: LoopNest, mid: DataType, lanes: int, machine: Machine) -> bool:
    """Return whether half a register of permuted elements is a line of wider ones in the destination.

    That is enough to write at once, and half the registers are half the code. Measured: s8 to f32 and f8 to
    bf16 run 1.1 times as fast, and compile in three quarters of the time.
    """
    return nest.dst_type.bits > mid.bits and lanes // 2 * nest.dst_type.bits >= machine.line * 8


def _is_half_in_memory(nest: LoopNest, written: int, read: int, machine: Machine) -> bool:
    """Return whether long rows of 16 bits are moved through memory: half the tile is 1.05 times as fast
    there, measured both ways between nchw and nhwc, but slower in cache.
    """
    is_half = nest.src_type.bits == nest.dst_type.bits == 16 and nest.compute.is_move
    is_long = all(nest.axes[index].extent >= machine.line for index in (written, read))
    return is_half and is_long and nest.moved_bytes >= machine.l3


def _is_bytes_in_caches(nest: LoopNest, read: int, machine: Machine) -> bool:
    """Return whether long rows of bytes are moved within the caches: half a line of each row at a time is 1.1
    to 1.25 times as fast there as a quarter, measured both ways between nchw and nhwc; short rows lose.
    """
    is_move = nest.src_type.bits == nest.dst_type.bits == 8 and nest.compute.is_move
    return is_move and nest.axes[read].extent >= _LONG_ROW and nest.moved_bytes < machine.l3


def _run_taken(nest: LoopNest, along: list[int], chunks: dict[int, int]) -> int:
    """Return the number of consecutive elements of a chain that are already in a tile."""
    run = 1
    for index in along:
        run *= chunks.get(index, 1)
        if chunks.get(index, 1) != nest.axes[index].extent:
            break
    return run


def tile_rows_share_sets(nest: LoopNest, chunks: dict[int, int], machine: Machine) -> bool:
    """Return whether the source rows of a tile, of one axis or of all, map to the same few sets of the L1
    cache.

    Then a partly read line is evicted before its rest is read: whole lines must be read at once. Only without
    a conversion, and with many registers: such a tile is large and takes long to compile. Measured in cache,
    on images of 64 x 64: 1.4 to 1.8 times as fast.
    """
    if nest.src_type is not nest.dst_type or machine.registers <= 16:
        return False
    steps = {index: _step_bytes(nest.axes[index].src, nest.src_type) for index in chunks}
    apart = [index for index, rows in chunks.items() if rows > 1 and steps[index] >= machine.line]
    together = prod(chunks[index] for index in apart), gcd(*(steps[index] for index in apart))
    alone = ((chunks[index], steps[index]) for index in chunks)
    return any(machine.first_cache.overflows(rows, step) for rows, step in (together, *alone))


def rows_share_sets(rows: int, stride: Stride, data_type: DataType, machine: Machine) -> bool:
    """Return whether this many rows of elements, a stride apart, map to too few sets of the L1 cache."""
    return machine.first_cache.overflows(rows, _step_bytes(stride, data_type))


def _step_bytes(stride: Stride, data_type: DataType) -> int:
    """Return the bytes between positions of an axis; 0 if it moves by a table."""
    return abs(stride) * data_type.bits // 8 if isinstance(stride, int) else 0


def _shrink_odd(chunks: dict[int, int], most: int) -> None:
    """Halve a tile with an odd extent until it has at most `most` elements: its registers are gathered."""
    while prod(chunks.values()) > most and not all(map(_is_power, chunks.values())):
        largest = max(chunks, key=lambda i: (_is_power(chunks[i]), chunks[i]))
        chunks[largest] = chunks[largest] // 2 if chunks[largest] > 2 else 1


def _take(nest: LoopNest, along: list[int], wanted: int, chunks: dict[int, int]) -> dict[int, int]:
    """Grow `chunks` along a contiguous chain until `wanted` consecutive elements are in the tile.

    A small odd extent, such as 3 channels, is first included whole: then the tile is as many full registers
    of it.
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
