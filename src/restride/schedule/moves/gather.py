"""Tiles that take all of an axis that moves by a table, such as channels cut apart by groups and blocks.

Only a table describes how such an axis moves, so no network of exchanges fits it. But each line of the
destination has its elements from few lines of the source: from at most 16 in blocks of 16 channels. Two of
them at a time are permuted into place in registers. Shuffled in groups of 12, 144 channels of bytes in
`nChw16c` are a tile of 144 channels of 4 pixels: 9 registers are read, 9 are written.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

from ...ir.nest import Axis, LoopNest, as_int
from ..machine import SHORTEST_VECTOR, Machine


def gather_chunks(nest: LoopNest, lanes: int, machine: Machine) -> tuple[int, ...] | None:
    """Return the tile of a move in which one axis moves by a table; None if it would not pay.

    It has all of that axis, all of the axis within it, and as many positions of the next one as fill a
    register of `lanes` elements.
    """
    tables = [i for i, axis in enumerate(nest.axes) if not axis.is_linear]
    if len(tables) != 1 or not _is_move(nest) or not _is_near(nest.axes[tables[0]], lanes):
        return None
    linear = [i for i in range(len(nest.axes)) if i not in tables]
    order = sorted(linear, key=lambda i: abs(as_int(nest.axes[i].dst)))
    within = [i for i in order if as_int(nest.axes[i].dst) == 1]
    along = next((i for i in order if i not in within), None)
    if along is None or not _is_permutable(nest.src_type.bits, nest.axes[along], machine):
        return None
    whole = [nest.axes[i] for i in (*tables, *within)]
    positions = _positions(nest.axes[along], lanes)
    if not positions or not _pays(whole, nest.axes[along], positions, lanes, nest.dst_type.bits, machine):
        return None
    chunks = dict.fromkeys((*tables, *within), 0) | {along: positions}
    return tuple(chunks.get(i, 1) or axis.extent for i, axis in enumerate(nest.axes))


def fills_lines(nest: LoopNest, chunks: tuple[int, ...], line: int) -> bool:
    """Return whether each tile of these chunks writes whole lines of `line` bytes, and nothing else."""
    width, cut = nest.dst_type.bits // 8, list(zip(nest.axes, chunks, strict=True))
    steps = [nest.dst_base, *(as_int(axis.dst) * chunk for axis, chunk in cut if axis.extent > chunk)]
    if any(step * width % line for step in steps) or any(axis.extent % chunk for axis, chunk in cut):
        return False
    parts = [replace(axis, extent=chunk, valid=chunk) if axis.is_linear else axis for axis, chunk in cut]
    lines = Counter(written * width // line for _, written in _offsets(parts))
    return all(count * width == line for count in lines.values())


def _is_move(nest: LoopNest) -> bool:
    """Return whether whole bytes move unconverted."""
    is_move = nest.compute.is_move and nest.src_type is nest.dst_type and not nest.operands
    return is_move and nest.src_type.bits >= 8 and all(axis.is_whole for axis in nest.axes)


def _is_permutable(bits: int, along: Axis, machine: Machine) -> bool:
    """Return whether any two registers can be permuted at once, or all their lanes alike (one per position).

    By lanes, it is 1.2 to 2.0 times as fast as stages if a position is a lane, or half of one; if it is two
    lanes, it is slower.
    """
    if bits >= machine.permuted_bits:
        return True
    src, dst = (as_int(step) * bits // 8 for step in (along.src, along.dst))
    return 0 < src == dst <= machine.permuted_lane and machine.permuted_lane % src == 0


def _is_near(table: Axis, lanes: int) -> bool:
    """Return whether adjacent entries of a table share a register on some side; rows of an image that is
    stretched do not.
    """
    return any(
        0 < abs(of(i + 1) - of(i)) < lanes
        for of in (table.src_offset, table.dst_offset)
        for i in range(table.extent - 1)
    )


def _positions(along: Axis, lanes: int) -> int:
    """Return how many positions fill a register; 0 if their distance is not a fraction of one."""
    src, dst = as_int(along.src), as_int(along.dst)
    if src <= 0 or dst <= 0 or (lanes % dst and dst % lanes):
        return 0
    wanted = max(lanes // dst, 1)
    return min(wanted, 1 << (along.extent.bit_length() - 1))


def _pays(whole: list[Axis], along: Axis, positions: int, lanes: int, bits: int, machine: Machine) -> bool:
    """Return whether registers are loaded and stored in long pieces, and the code is not too long."""
    src, dst = (as_int(step) if positions > 1 else lanes for step in (along.src, along.dst))
    if min(src, dst) * positions * bits < 8 * SHORTEST_VECTOR:
        return False
    # Source registers for each register of the destination, over all positions.
    sources: dict[int, set[int]] = defaultdict(set)
    for read, written in _offsets(whole):
        sources[written // dst].add(read // src)
    each = -(-src * positions // lanes)
    # Each pair of registers is permuted into one, and merged with the result of the others.
    return sum(each * len(read) - 1 or 1 for read in sources.values()) <= machine.permutations


def _offsets(axes: list[Axis]) -> list[tuple[int, int]]:
    """Return the offsets of all positions of some axes, in the source and in the destination."""
    offsets = [(0, 0)]
    for axis in axes:
        moves = [(axis.src_offset(i), axis.dst_offset(i)) for i in range(axis.extent)]
        offsets = [(a + src, b + dst) for a, b in offsets for src, dst in moves]
    return offsets
