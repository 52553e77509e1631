"""Packed registers: the order in which packs leave the elements, and the bits that kernels make with them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from restride.desc.memory_desc import MemoryDesc
from restride.dtypes import DataType
from restride.emit.pack import can_pack, packed_order, parts_of
from restride.emit.register_permutation import NOTHING
from restride.emit.tile_shape import TileAxis, recipe
from restride.ir.digits import reorder_nest
from restride.ir.nest import Compute, linear
from support.kernels import check, destination, elements, room, runnable
from support.values import patterns

_NARROW = ("s8", "u8", "s4", "u4")


@pytest.mark.parametrize("width", [16, 32, 64])
def test_parts_are_those_that_were_packed(width: int) -> None:
    lanes = tuple(range(width))
    packed = packed_order(lanes)
    quarter = width // 4
    assert sorted(packed) == list(lanes)
    assert parts_of(packed) == [lanes[i : i + quarter] for i in range(0, width, quarter)]


def test_packs_leave_four_lanes_of_each_part_in_each_sixteen_bytes() -> None:
    # vpackssdw and vpacksswb work within 16 bytes, as Intel's manual says.
    lanes = tuple(range(32))
    assert packed_order(lanes)[:16] == (0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27)
    assert packed_order(lanes)[16:] == (4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31)


_SIDES = [(16, 64), (64, 16), (4, 64), (8, 32), (64, 1), (256, 1), (3, 64), (64, 5), (2, 128)]


@pytest.mark.parametrize("lanes", [16, 32, 64])
@pytest.mark.parametrize(("rows", "columns"), _SIDES)
def test_a_recipe_of_packed_loads_stores_every_element_in_order(rows: int, columns: int, lanes: int) -> None:
    axes = (TileAxis(rows, rows, rows, 1, columns), TileAxis(columns, columns, columns, rows, 1))
    plan = recipe(axes, lanes, 16, 1, packs=True)
    registers: list[tuple[int, ...]] = list(plan.loads)
    for step in plan.shuffles:
        both = registers[step.a] + registers[step.b]
        registers.append(tuple(NOTHING if i < 0 else both[i] for i in step.mask))
    for register, names in plan.stores:
        pairs = zip(registers[register], names, strict=True)
        assert all(name in (NOTHING, held) for held, name in pairs)
    loaded = sorted(e for names in plan.loads for e in names if e != NOTHING)
    stored = sorted(e for _, names in plan.stores for e in names if e != NOTHING)
    assert loaded == stored == list(range(rows * columns))


def test_a_transpose_of_packed_registers_takes_five_rounds_at_most() -> None:
    axes = (TileAxis(16, 16, 16, 1, 64), TileAxis(64, 64, 64, 16, 1))
    plan = recipe(axes, 64, 16, 1, packs=True)
    assert len(plan.shuffles) <= 5 * len(plan.stores)


def test_floats_and_wide_integers_are_packed_to_bytes() -> None:
    move, scaled = Compute(), linear(scaled=True)
    packed = {
        (str(src), str(dst))
        for src, dst in product(DataType, DataType)
        if src.numpy is not None and dst.numpy is not None and can_pack(src, dst, move)
    }
    assert {("f64", "s8"), ("f32", "s8"), ("bf16", "u8"), ("s32", "s8"), ("f16", "s4")} <= packed
    assert not packed & {("s8", "u8"), ("u8", "s4"), ("f64", "s32"), ("f32", "s32"), ("f32", "boolean")}
    assert can_pack(DataType.s8, DataType.u8, scaled)


def _every(kind: str) -> np.ndarray:
    """Every pattern of a narrow type; limits, ties and neighbors of a wide one."""
    data_type = DataType.parse(kind)
    if data_type.bits <= 16:
        return np.arange(1 << data_type.bits, dtype=f"u{data_type.bits // 8}")
    return patterns(data_type)


_LAYOUTS = {
    "copy": ("ab", "ab"),
    "transpose": ("ab", "ba"),
    "blocks": ("ab", "AB4b16a4b"),
    "rows": ("ba", "aB16b"),
}


_WIDE = ("f64", "f32", "s32", "bf16", "f16", "s8", "f8_e4m3")


def _combinations() -> Iterator[object]:
    """All of them; in the fast tests each pair of types in one layout, moved or scaled in turn."""
    for i, src_type in enumerate(_WIDE):
        for j, dst_type in enumerate(_NARROW):
            for k, layout in enumerate(_LAYOUTS):
                for m, scale in enumerate((1.0, 0.37)):
                    marks = [] if (5 * i + 3 * j) % 8 == 2 * k + m else [pytest.mark.slow]
                    name = f"{'scaled' if m else 'moved'}-{src_type}-{dst_type}-{layout}"
                    yield pytest.param(src_type, dst_type, layout, scale, id=name, marks=marks)


@pytest.mark.parametrize(("src_type", "dst_type", "layout", "scale"), list(_combinations()))
def test_every_pattern_saturates_rounds_and_clears_nan(
    src_type: str, dst_type: str, layout: str, scale: float
) -> None:
    values = _every(src_type)
    # Extents that no register divides: the last tiles are parts.
    rows = 83
    columns = -(-values.size // rows) + 1
    columns += columns % 2
    src_tag, dst_tag = _LAYOUTS[layout]
    src = MemoryDesc((rows, columns), src_type, src_tag)
    dst = MemoryDesc((rows, columns), dst_type, dst_tag)
    if dst_type in ("s4", "u4") and dst_tag == "ba":
        dst = MemoryDesc((rows, columns), dst_type, "ab")
    data = room(elements(src) * src.data_type.bits // 8)
    held = data.view(values.dtype)
    held[:] = np.resize(values, held.size)
    nest = reorder_nest(src, dst, linear(scaled=scale != 1.0))
    check(nest, data, destination(dst), runnable(), factors=(scale, 0.0))
