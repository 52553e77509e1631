"""A tile as numbered elements: their source and destination offsets, and the recipe that permutes them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

from ..ir.nest import Stride, as_int
from .pack import packed_order
from .register_permutation import NOTHING, Lanes, RegisterPermutation, exchange, merge, ordered_after

# Above this many registers a power-of-two tile is never gathered register by register.
_MERGE_REGISTERS = 4


@dataclass(frozen=True, slots=True)
class TileAxis:
    """One axis of a tile: positions in the template, how many are written and read, and the strides.

    A table of offsets can replace a stride if the tile has all of an axis. `more` are the strides of the
    operands of the computation.
    """

    template: int
    count: int
    valid: int
    src: Stride
    dst: Stride
    more: tuple[Stride, ...] = ()

    @property
    def is_linear(self) -> bool:
        """True if every operand moves by a stride."""
        return all(isinstance(stride, int) for stride in (self.src, self.dst, *self.more))


@dataclass(frozen=True, slots=True)
class TileLayout:
    """Per element number: offsets in every operand, in elements, and whether it is written and read."""

    src: tuple[int, ...]
    dst: tuple[int, ...]
    written: tuple[bool, ...]
    read: tuple[bool, ...]
    more: tuple[tuple[int, ...], ...] = ()


def tile_layout(axes: tuple[TileAxis, ...], operands: int = 0) -> TileLayout:
    """Number the elements of a tile, the first axis fastest."""
    return TileLayout(
        src=_offsets(axes, [a.src for a in axes]),
        dst=_offsets(axes, [a.dst for a in axes]),
        written=_below(axes, [a.count for a in axes]),
        read=_below(axes, [min(a.count, a.valid) for a in axes]),
        more=tuple(_offsets(axes, [a.more[k] for a in axes]) for k in range(operands)),
    )


def _offsets(axes: tuple[TileAxis, ...], strides: list[Stride]) -> tuple[int, ...]:
    """Return the offset of each element, axis by axis: a tile has thousands of elements, but few axes."""
    offsets = [0]
    for axis, stride in zip(axes, strides, strict=True):
        steps = [i * stride for i in range(axis.template)] if isinstance(stride, int) else stride
        offsets = [step + offset for step in steps for offset in offsets]
    return tuple(offsets)


def _below(axes: tuple[TileAxis, ...], limits: list[int]) -> tuple[bool, ...]:
    """Return whether each element's positions are below these limits."""
    flags = [True]
    for axis, limit in zip(axes, limits, strict=True):
        count = min(max(limit, 0), axis.template)
        flags = flags * count + [False] * (len(flags) * (axis.template - count))
    return tuple(flags)


@lru_cache(maxsize=512)
def recipe(
    axes: tuple[TileAxis, ...], lanes: int, quarter_lanes: int, permute_cost: int, packs: bool = False
) -> RegisterPermutation:
    """Return the cheapest recipe for a tile in registers of `lanes`; `quarter_lanes` of them fill 16 bytes.

    With `packs`, full registers are loaded in the order of `packed_order`.
    """
    size = prod(a.template for a in axes)
    width = min(lanes, 1 << (size - 1).bit_length())
    packs = packs and width == lanes
    is_power = all(a.template & (a.template - 1) == 0 and a.is_linear for a in axes)
    if not is_power:
        return _merge(axes, width, packs)
    swapped = _exchange(axes, width, quarter_lanes, packs)
    if not swapped.shuffles or size // width > _MERGE_REGISTERS:
        return swapped
    gathered = _merge(axes, width, packs)
    return gathered if len(gathered.shuffles) * permute_cost < len(swapped.shuffles) else swapped


def _merge(axes: tuple[TileAxis, ...], width: int, packs: bool) -> RegisterPermutation:
    places = tile_layout(axes)
    gathered = merge(_chop(places.src, width), _chop(places.dst, width))
    return ordered_after(gathered, packed_order) if packs else gathered


def _chop(offsets: tuple[int, ...], width: int) -> tuple[Lanes, ...]:
    """Return registers of elements in address order."""
    order = sorted(range(len(offsets)), key=lambda e: offsets[e])
    rows = [order[i : i + width] for i in range(0, len(order), width)]
    return tuple(tuple(row + [NOTHING] * (width - len(row))) for row in rows)


def _exchange(axes: tuple[TileAxis, ...], width: int, quarter_lanes: int, packs: bool) -> RegisterPermutation:
    src, dst = _bit_strides(axes)
    bits, lane_bits = len(src), width.bit_length() - 1
    quarter = min(quarter_lanes.bit_length() - 1, lane_bits)
    along_src, along_dst = _run_bits(src)[:lane_bits], _run_bits(dst)[:lane_bits]
    wanted = _fill(along_dst, along_src, bits, lane_bits)
    if packs:
        packed = _packed_lanes(along_src, wanted, bits, lane_bits)
        return exchange(_lowest_first(packed, wanted), tuple(wanted), bits, quarter, packed)
    lane = _source_lanes(along_src, wanted, bits, lane_bits, quarter)
    return exchange(tuple(lane), tuple(wanted), bits, quarter)


def _bit_strides(axes: tuple[TileAxis, ...]) -> tuple[list[int], list[int]]:
    src, dst = [], []
    for axis in axes:
        for bit in range(axis.template.bit_length() - 1):
            src.append(as_int(axis.src) << bit)
            dst.append(as_int(axis.dst) << bit)
    return src, dst


def _run_bits(strides: list[int]) -> list[int]:
    """Return bits of stride 1, 2, 4, ...: the longest run of consecutive elements, innermost bit first."""
    run: list[int] = []
    while (1 << len(run)) in strides:
        run.append(strides.index(1 << len(run)))
    return run


def _fill(run: list[int], preferred: list[int], bits: int, lane_bits: int) -> list[int]:
    rest = [b for b in (*preferred, *range(bits)) if b not in run]
    return (run + list(dict.fromkeys(rest)))[:lane_bits]


def _source_lanes(run: list[int], wanted: list[int], bits: int, lane_bits: int, quarter: int) -> list[int]:
    """Return lane bits to load: the source run, and above it bits that the network wants there anyway.

    Within 16 bytes interleaving pops bits from the top, so the lowest wanted bits, needed last, go on top.
    """
    lane: list[int | None] = [*run, *[None] * (lane_bits - len(run))]
    free = [b for b in wanted if b not in run]
    for place in range(quarter - 1, len(run) - 1, -1):
        lane[place] = free.pop(0) if free else None
    for place in range(quarter, lane_bits):
        if lane[place] is None and wanted[place] in free:
            lane[place] = wanted[place]
            free.remove(wanted[place])
    spare = [b for b in (*reversed(free), *range(bits)) if b not in lane]
    spare = list(dict.fromkeys(spare))
    return [spare.pop(0) if bit is None else bit for bit in lane]


def _packed_lanes(run: list[int], wanted: list[int], bits: int, lane_bits: int) -> tuple[int, ...]:
    """Return lane bits of a packed register: for a part the source run, above it bits that are wanted high;
    the part numbers are the bits wanted lowest.
    """
    part: list[int | None] = [*run, *[None] * lane_bits][: lane_bits - 2]
    free = [bit for bit in (*wanted, *range(bits)) if bit not in part]
    free = list(dict.fromkeys(free))
    number, free = free[:2], free[2:]
    for place in range(2, len(part)):
        target = wanted[place + 2]
        if part[place] is None and target in free:
            part[place] = target
            free.remove(target)
    low, high = _fill_gaps(part[:2], free), _fill_gaps(part[2:], free)
    return (*low, *number, *high)


def _fill_gaps(places: list[int | None], free: list[int]) -> list[int]:
    return [free.pop(0) if bit is None else bit for bit in places]


def _lowest_first(packed: tuple[int, ...], wanted: list[int]) -> tuple[int, ...]:
    """Move the bits wanted lowest down: a permutation within 16 bytes, which is cheap."""
    near = packed[:4]
    first: list[int] = []
    for bit in wanted[:4]:
        if bit not in near:
            break
        first.append(bit)
    return (*first, *(bit for bit in near if bit not in first), *packed[4:])


def piece(lanes: Lanes, offsets: tuple[int, ...]) -> int:
    """Return the largest power of two of lanes such that each such group holds consecutive elements."""
    size = len(lanes)
    while size > 1 and not all(_is_run(lanes[i : i + size], offsets) for i in range(0, len(lanes), size)):
        size //= 2
    return size


def _is_run(lanes: Lanes, offsets: tuple[int, ...]) -> bool:
    real = [offsets[e] for e in lanes if e != NOTHING]
    if not real or NOTHING in lanes[: len(real)]:
        return not real
    return real == list(range(real[0], real[0] + len(real)))


def prefix(flags: list[bool]) -> int | None:
    """Return the number of leading flags that are set, or None if others are set after them."""
    count = flags.index(False) if False in flags else len(flags)
    return None if any(flags[count:]) else count
