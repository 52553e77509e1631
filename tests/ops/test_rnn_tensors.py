"""Slices of sequences, and programs that repeat: what a repeat means is its unrolled steps."""

from __future__ import annotations

import numpy as np
import pytest

from restride.desc.memory_desc import MemoryDesc
from restride.ir.expression import Const, TreeAxis
from restride.ir.program import DST, SRC, Place, Program, RepeatStep, Slot, TreeStep
from restride.ir.tree import Each, LoopTree, TreeTensor
from restride.ops.programs.rnn_tensors import PlacedTensor, RnnProgramWriter
from restride.runtime.alloc import NOTHING, Buffer, address_of
from restride.runtime.arguments import Arguments
from restride.runtime.cpu.executable import CpuExecutable
from restride.runtime.cpu.kernel import packed_address, packer
from restride.runtime.reference import ReferenceExecutable
from restride.targets.isa import CacheSizes, host_isa

_WIDTH, _TURNS = 8, 5


def _running_sums() -> Program:
    """Each row of the destination is the one before it and a row of the source, those twice."""
    row = [TreeTensor.row_major(name, (_WIDTH,)) for name in ("x", "before", "y")]
    i = TreeAxis("i", _WIDTH)
    x, before, y = row
    add = LoopTree((x, before, y), (Each((i,), (y.store((i,), before.load(i) + x.load(i)),)),)).verify()
    twice = LoopTree((y,), (Each((i,), (y.store((i,), y.load(i) * Const(2.0)),)),)).verify()
    nbytes = 4 * _WIDTH
    step = TreeStep(add, (Place(SRC), Place(DST), Place(DST, nbytes)), 1)
    after = TreeStep(twice, (Place(DST, nbytes),), 1)
    strides = ((-nbytes, nbytes, nbytes), (nbytes,))
    # The source is read from its last row to the first.
    step = TreeStep(add, (Place(SRC, (_TURNS - 1) * nbytes), *step.places[1:]), 1)
    repeat = RepeatStep(_TURNS, (step, after), strides)
    last = TreeStep(twice, (Place(DST, _TURNS * nbytes),), 1)
    return Program((Slot(1), Slot(17, is_written=True)), (repeat, last)).verify()


def _expected(x: np.ndarray) -> np.ndarray:
    found = [np.zeros(_WIDTH, np.float32)]
    for row in x[::-1]:
        found.append((found[-1] + row) * 2)
    found[-1] = found[-1] * 2
    return np.stack(found)


def test_a_repeat_runs_its_steps_in_turn_and_then_what_follows():
    program = _running_sums()
    x = np.random.default_rng(0).standard_normal((_TURNS, _WIDTH)).astype(np.float32)
    native, unrolled = (np.zeros((_TURNS + 1, _WIDTH), np.float32) for _ in range(2))
    executable = CpuExecutable(program, host_isa(), CacheSizes())
    executable.prepare()
    executable.call(address_of(x), address_of(native), packed_address(packer(0, 0)()))
    np.testing.assert_array_equal(native, _expected(x))
    buffers = tuple(Buffer(address_of(each), each.nbytes, False, each) for each in (x, unrolled))
    ReferenceExecutable(program).run(Arguments(buffers, (), NOTHING))
    np.testing.assert_array_equal(unrolled, native)
    assert "repeat 5" in str(program)


def test_a_repeat_is_its_turns_one_after_the_other():
    (repeat, _) = _running_sums().steps
    assert isinstance(repeat, RepeatStep)
    steps = list(repeat.unrolled())
    assert len(steps) == 2 * _TURNS
    assert [step.places[0].offset for step in steps[::2]] == [128, 96, 64, 32, 0]
    assert repeat.sources[0] == Place(SRC, 128)
    assert set(repeat.targets) == {Place(DST, 32)}


def test_a_step_is_a_slice_that_moves():
    stored = PlacedTensor(MemoryDesc((6, 2, 4), "bf16", "bac"), Place(3, 100))
    step = stored.step(1)
    assert (step.place, step.stride, step.tensor.sizes) == (Place(3, 108), 8, (2, 4))
    assert step.after(2).place == stored.step(3).place


@pytest.mark.parametrize("tag", ["abc", "bac", "cab"])
def test_a_flipped_tensor_has_its_last_step_first(tag):
    stored = PlacedTensor(MemoryDesc((6, 2, 4), "f32", tag), Place(1))
    assert stored.flipped().step(0).place == stored.step(5).place
    assert stored.flipped().step().stride == -stored.step().stride
    whole = stored.flipped().slice()
    assert whole.place.offset == 0
    assert whole.tensor.base * 4 == stored.step(5).place.offset


def test_a_repeat_of_one_turn_is_its_steps():
    writer = RnnProgramWriter({1: False, 17: True})
    loop = Each((TreeAxis("i", 4),), ())
    writer.repeated(0, (loop,), {})
    assert writer.steps == []
