"""Plans of sums for devices: who adds what, and that every element is added once."""

from __future__ import annotations

import struct
from itertools import product

import numpy as np
import pytest

import restride as rs
from restride.plan.machine import DeviceFacts
from restride.plan.reduction import Op, interpret, reduction_of
from restride.plan.work_sums import plan_sums
from restride.targets import ptx, spirv

GPU, CPU = DeviceFacts(256, 32, 1 << 16), DeviceFacts(1, 1, vector_bytes=16)
DIMS = (20, 150, 3, 2)


def run(plan, src):
    """What the items of a plan add, one by one."""
    out = np.zeros(plan.reduction.outputs, np.int64)
    for items in plan.boxes:
        for at in product(*(range(axis.extent) for axis in items.grid)):
            place = items.box.base + sum(axis.src * i for axis, i in zip(items.grid, at, strict=True))
            to = items.box.out + sum(axis.out * i for axis, i in zip(items.grid, at, strict=True))
            for turn in product(*(range(axis.extent) for axis in items.loops)):
                out[to] += src[place + sum(a.src * i for a, i in zip(items.loops, turn, strict=True))]
    return out


@pytest.mark.parametrize("device", [GPU, CPU], ids=["GPU", "CPU"])
@pytest.mark.parametrize("mask", [0, 1, 2, 3, 15])
@pytest.mark.parametrize("tag", ["abcd", "cdba", "ABcd4b16a4b"])
def test_every_element_is_added_once(tag, mask, device):
    md = rs.MemoryDesc(DIMS, "s8", tag)
    reduction = reduction_of(md, mask, Op.total)
    src = np.random.default_rng(mask).integers(-128, 128, md.size).astype(np.int8)
    plan = plan_sums(reduction, device)
    wanted = interpret(reduction, src.view(np.uint8))[0].reshape(-1)
    assert run(plan, src).tolist() == wanted.tolist()
    assert plan.groups == sum(box.groups(device.group) for box in plan.boxes)


def test_neighbours_read_neighbours():
    plan = plan_sums(reduction_of(rs.MemoryDesc((64, 1000), "s8", "ab"), 1, Op.total), GPU)
    whole, rest = plan.boxes
    assert [(axis.extent, axis.src) for axis in whole.grid][-1] == (GPU.sub_group, 1)
    assert [(axis.extent, axis.src) for axis in whole.loops] == [(1000 // 32, 32)]
    assert [axis.extent for axis in rest.grid][-1] == 1000 % 32


@pytest.mark.parametrize("data_type", ["s8", "u8", "s32", "boolean"])
def test_sums_become_spirv_and_ptx(data_type):
    reduction = reduction_of(rs.MemoryDesc(DIMS, data_type, "abcd"), 1, Op.total)
    code = spirv.spirv_code(spirv.lower(reduction, GPU))
    assert struct.unpack("<I", code[:4]) == (0x07230203,)
    assert "atom.global.add" in ptx.ptx_text(ptx.lower(reduction, GPU)).replace("red.", "atom.")
