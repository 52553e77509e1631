"""SPIR-V of plans for devices: made without a device, and sound each time that LLVM makes it."""

from __future__ import annotations

import struct

import pytest

import restride as rs
from restride.ir.digits import reorder_nest
from restride.ir.nest import Compute, Step, linear
from restride.schedule.machine import DeviceFacts
from restride.schedule.work_items import plan_items
from restride.targets.spirv import has_unique_numbers, lower_plan, renumber, spirv_code

MAGIC = 0x07230203
DIMS = (2, 17, 33, 40)


def nest_of(src, src_format, dst, dst_format, compute=None):
    mds = rs.MemoryDesc(DIMS, src, src_format), rs.MemoryDesc(DIMS, dst, dst_format)
    return reorder_nest(*mds, compute or Compute())


NESTS = {
    "copy": nest_of("f32", "nchw", "bf16", "nchw"),
    "blocks": nest_of("f64", "nchw", "s32", "nChw16c", linear(scaled=True)),
    "transpose": nest_of("s8", "nchw", "f16", "nhwc", linear(scaled=True, summed=True)),
    "function": nest_of("f32", "nchw", "f32", "nChw8c", Compute((Step("tanh"), Step("sqrt")))),
    "halves": nest_of("s4", "nchw", "u4", "nchw"),
}


@pytest.mark.parametrize("local_bytes", [0, 1 << 15])
@pytest.mark.parametrize("name", NESTS)
def test_a_plan_becomes_spirv(name, local_bytes):
    code = spirv_code(lower_plan(plan_items(NESTS[name], DeviceFacts(64, 16, local_bytes))))
    assert struct.unpack("<I", code[:4]) == (MAGIC,)


def test_every_module_has_a_number_for_each_thing():
    lowered = lower_plan(plan_items(NESTS["blocks"], DeviceFacts(64, 16)))
    assert all(has_unique_numbers(spirv_code(lowered)) for _ in range(30))


def module(*instructions, bound=9):
    words = [MAGIC, 0, 0, bound, 0]
    for op, *operands in instructions:
        words += [len(operands) + 1 << 16 | op, *operands]
    return struct.pack(f"<{len(words)}I", *words)


@pytest.mark.parametrize(
    ("instructions", "is_sound"),
    [
        ([(21, 2, 32, 0), (43, 2, 3, 7), (248, 4)], True),
        ([(21, 2, 32, 0), (248, 2)], False),
        ([(21, 2, 32, 0), (43, 2, 3, 7), (248, 3)], False),
        ([(248, 5), (248, 5)], False),
    ],
    ids=["sound", "type", "constant", "twice"],
)
def test_clashing_numbers_are_seen(instructions, is_sound):
    assert has_unique_numbers(module(*instructions)) is is_sound


def test_blocks_get_numbers_of_their_own():
    clashing = module((5, 2, 7), (21, 2, 32, 0), (248, 2), (250, 6, 2, 3), (248, 3), (249, 2))
    mended = renumber(clashing)
    assert has_unique_numbers(mended)
    assert mended == module((21, 2, 32, 0), (248, 9), (250, 6, 9, 10), (248, 10), (249, 9), bound=11)
