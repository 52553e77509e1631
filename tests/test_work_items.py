"""Plans for devices: which item does what, and when a group stages a square."""

from __future__ import annotations

import pytest

import restride as rs
from restride.plan.compute import Compute
from restride.plan.reorder import reorder_nest
from restride.plan.work_items import Device, Square, plan_items

GPU, CPU = Device(256, 32, 1 << 16), Device(256, 64, 0)


def plan_of(dims, src, dst, device=GPU, types=("f32", "f32")):
    mds = rs.MemoryDesc(dims, types[0], src), rs.MemoryDesc(dims, types[1], dst)
    return plan_items(reorder_nest(*mds, Compute()), device)


@pytest.mark.parametrize(
    ("args", "kind"),
    [
        (((4, 32, 8, 8), "nchw", "nchw"), "copy"),
        (((4, 64, 32, 32), "nchw", "nhwc"), "transpose"),
        (((4, 64, 32, 32), "nchw", "nhwc", CPU), "strided"),
        (((4, 3, 32, 32), "nhwc", "nchw"), "strided"),
        (((4, 64, 32, 32), "nchw", "nhwc", GPU, ("s4", "s4")), "strided"),
    ],
    ids=["same", "turned", "no local memory", "three channels", "halves of bytes"],
)
def test_the_kind_of_a_plan(args, kind):
    assert plan_of(*args).kind == kind


def test_a_square_has_a_column_to_spare():
    (box,) = plan_of((4, 64, 32, 32), "nchw", "nhwc").boxes
    assert box.square is not None
    assert (box.square.src_side, box.square.dst_side, box.square.row) == (32, 32, 33)
    assert box.local_bytes == 33 * 32 * 4
    assert box.groups(256) == 4 * 2 * 32


def test_a_square_must_find_room():
    assert plan_of((4, 64, 32, 32), "nchw", "nhwc", Device(256, 32, 33 * 32 * 4 - 1)).kind == "strided"
    assert Square(0, 1, 32, 16).elements == 33 * 16


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
