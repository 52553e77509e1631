"""Plans for devices: which item does what, and when a group stages a square."""

from __future__ import annotations

import pytest

import restride as rs
from restride.ir.digits import reorder_nest
from restride.ir.nest import Compute
from restride.ir.nest_rewrites import packing, unpacking
from restride.schedule.machine import DeviceFacts
from restride.schedule.work_items import plan_items

# --- work items --------------------------------------------------------------

GPU = DeviceFacts(256, 32, 1 << 16)
NO_LOCAL, CPU = DeviceFacts(256, 64), DeviceFacts(1, 1, vector_bytes=16)


def plan_of(dims, src, dst, device=GPU, types=("f32", "f32")):
    mds = rs.MemoryDesc(dims, types[0], src), rs.MemoryDesc(dims, types[1], dst)
    return plan_items(reorder_nest(*mds, Compute()), device)


@pytest.mark.parametrize(
    ("args", "kind"),
    [
        (((4, 32, 8, 8), "nchw", "nchw"), "copy"),
        (((4, 64, 32, 32), "nchw", "nhwc"), "transpose"),
        (((4, 64, 32, 32), "nchw", "nhwc", NO_LOCAL), "strided"),
        (((4, 64, 32, 32), "nchw", "nhwc", CPU), "transpose"),
        (((4, 64, 32, 32), "nchw", "nhwc", CPU, ("f32", "f16")), "strided"),
        (((4, 3, 32, 32), "nhwc", "nchw"), "strided"),
        (((4, 64, 32, 32), "nchw", "nhwc", GPU, ("s4", "s4")), "strided"),
    ],
    ids=[
        "same",
        "turned",
        "no local memory",
        "a CPU",
        "a CPU that converts",
        "three channels",
        "halves of bytes",
    ],
)
def test_the_kind_of_a_plan(args, kind):
    assert plan_of(*args).kind == kind


def test_a_square_has_a_column_to_spare():
    plan = plan_of((4, 64, 32, 32), "nchw", "nhwc")
    (box,) = plan.boxes
    square = box.plan.square
    assert square is not None
    assert (square.src_side, square.dst_side, square.row) == (32, 32, 33)
    assert box.local_bytes == plan.local_bytes == 33 * 32 * 4
    assert box.groups(256) == 4 * 2 * 32
    assert "a group for each 32 x 32 through local memory" in str(plan)


@pytest.mark.parametrize(
    ("sub_group", "data_type", "side"),
    [(8, "f32", 16), (16, "f32", 16), (32, "f32", 32), (64, "f32", 64), (16, "u8", 64), (16, "f16", 32)],
)
def test_a_side_is_as_long_as_a_sub_group_is_wide(sub_group, data_type, side):
    device = DeviceFacts(256, sub_group, 1 << 16)
    (box,) = plan_of((4, 64, 64, 64), "nchw", "nhwc", device, (data_type, data_type)).boxes
    square = box.plan.square
    assert square is not None
    assert (square.src_side, square.dst_side) == (side, side)


def test_a_square_must_find_room():
    sides = []
    for room in (33 * 32 * 4, 33 * 32 * 4 - 1, 17 * 16 * 4 - 1):
        square = plan_of((4, 64, 32, 32), "nchw", "nhwc", DeviceFacts(256, 32, room)).boxes[0].plan.square
        sides.append(square and square.dst_side)
    assert sides == [32, 16, None]


def test_a_cpu_runs_the_tiles_of_a_thread():
    plan = plan_of((4, 64, 32, 32), "nchw", "nhwc", CPU)
    assert max(plan.boxes[0].plan.chunks) > 1
    assert plan.boxes[0].plan.steps() == plan.groups > 4
    assert "by tile of" in str(plan)
    computing = plan_of((4, 64, 32, 32), "nchw", "nhwc", CPU, ("f32", "s8"))
    assert set(computing.boxes[0].plan.chunks) == {1}
    assert computing.groups < 4 * 64 * 32 * 32 // 256
    assert "by element" in str(computing)


def test_bounds_are_checked_by_few_items_on_a_cpu():
    mds = (rs.MemoryDesc((5,) * 6, "f32", tag) for tag in ("abcdef", "ABCDef4a4b4c4d"))
    nest = reorder_nest(*mds, Compute())
    for device, items in ((CPU, 256), (GPU, 8**4 * 25)):
        plan = plan_items(nest, device)
        assert plan.kind == "guarded"
        assert plan.groups * device.group >= items
    assert plan_items(nest, CPU).guarded_axes < len(nest.axes)


def test_every_position_has_one_item():
    plan = plan_of((2, 17, 5, 3), "nchw", "nChw16c")
    assert sum(box.plan.nest.positions for box in plan.boxes) == 2 * 32 * 5 * 3
    assert plan.groups == sum(-(-box.plan.nest.positions // 256) for box in plan.boxes)


def test_many_partial_blocks_are_guarded():
    dims = (5, 5, 5, 5)
    plan = plan_items(
        reorder_nest(
            rs.MemoryDesc(dims, "f32", "abcd"), rs.MemoryDesc(dims, "f32", "ABCD4a4b4c4d"), Compute()
        ),
        GPU,
    )
    assert plan.kind == "guarded"
    assert plan.groups == -(-(8**4) // 256)


@pytest.mark.parametrize("device", [GPU, CPU], ids=["GPU", "CPU"])
@pytest.mark.parametrize("data_type", ["s4", "u4", "f4_e2m1", "f4_e3m0", "nf4"])
@pytest.mark.parametrize("change", [unpacking, packing])
def test_an_item_has_both_elements_of_a_byte(change, data_type, device):
    for count in (1, 2, 465):
        assert not plan_items(change(rs.DataType[data_type], count), device).splits_bytes
