"""Programs for devices of work-items, compiled without one: passes, names, what a device must have."""

from __future__ import annotations

import pytest

import restride as rs
from restride.errors import Unimplemented
from restride.ir.program import Program
from restride.ops.concat import ConcatProblem
from restride.ops.reorder import ReorderProblem
from restride.ops.shuffle import ShuffleProblem
from restride.ops.sum import SumProblem
from restride.runtime.sycl.executable import SyclExecutable
from restride.schedule.machine import DeviceFacts


class NoDevice:
    """The facts of a device, and the texts of its kernels."""

    facts = DeviceFacts(group=256, sub_group=32, local_bytes=1 << 16)

    def __init__(self, *, has_double: bool = True) -> None:
        self.has_double, self.texts = has_double, list[str]()

    def kernel(self, lowered):
        self.texts.append(lowered.ir())


def compiled(program: Program, device: NoDevice) -> SyclExecutable:
    made = SyclExecutable(program, device)
    made.prepare()
    return made


def test_a_shuffle_moves_blocks_as_f64_on_a_device_that_has_none():
    md, device = rs.MemoryDesc((16, 16, 3), "f32", "ABc8a2b"), NoDevice(has_double=False)
    made = compiled(ShuffleProblem(md, md, 0, 4).program(), device)
    assert "f64" in str(made.program)
    assert len(device.texts) == 1
    assert "double" not in device.texts[0]


def test_a_device_without_f64_does_not_compute_in_it():
    src, dst = rs.MemoryDesc((4, 6), "f64", "ab"), rs.MemoryDesc((4, 6), "f32", "ba")
    with pytest.raises(Unimplemented, match="the device has no f64"):
        SyclExecutable(ReorderProblem(src, dst).program(), NoDevice(has_double=False))
    same = ReorderProblem(src, rs.MemoryDesc((4, 6), "f64", "ba")).program()
    assert SyclExecutable(same, NoDevice(has_double=False)).name == "jit:spirv:strided"


def test_half_bytes_that_items_would_tear_apart_go_through_bytes():
    src, dst = rs.MemoryDesc((5, 6), "s4", "ab"), rs.MemoryDesc((5, 6), "s4", "ba")
    made = compiled(ReorderProblem(src, dst).program(), NoDevice())
    assert len(made.launches) == 3
    assert len(made.program.temporaries) == 2
    assert "through bytes" in made.why
    assert made.scratch_bytes == 0


def test_sources_of_one_shape_share_a_kernel():
    md, device = rs.MemoryDesc((2, 5), "f32", "ab"), NoDevice()
    made = compiled(
        ConcatProblem(
            (md,) * 3, rs.MemoryDesc((2, 15), "f32", "ab"), 1, rs.PrimitiveAttr().freeze()
        ).program(),
        device,
    )
    assert len(made.launches) == 3
    assert len(set(device.texts)) == 1


def test_many_sources_are_added_in_passes():
    md = rs.MemoryDesc((2, 5), "f32", "ab")
    factors = b"\0\0\x80\x3f" * 40
    made = compiled(SumProblem((md,) * 40, md, factors, rs.PrimitiveAttr().freeze()).program(), NoDevice())
    assert len(made.launches) == 3
    assert made.why.endswith("3 passes for 40 sources")
    assert made.program.temporaries == ()


def test_without_elements_there_is_nothing_to_do():
    md = rs.MemoryDesc((0, 5), "f32", "ab")
    made = compiled(ReorderProblem(md, md).program(), NoDevice())
    assert (made.name, made.why, made.launches) == ("jit:nothing", "there are no elements", ())
    assert (made.threads, made.lowered) == (1, None)
