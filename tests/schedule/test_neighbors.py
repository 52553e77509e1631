"""Variants that a search tries change no bit of any primitive's result, including NaN and infinities."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import restride as rs
from restride.model.scheduling import launching
from restride.runtime.cpu.executable import CpuExecutable
from restride.runtime.cpu.launch import Launch
from restride.schedule.language import Schedule, schedule_text
from restride.targets.lowered import ScheduleChoice
from support.effort import examples
from support.primitive_problem import RandomProblem
from support.random_primitives import KINDS, random_primitive

_CPU = rs.Engine("cpu")
_SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40, 3e38], np.float32)
# Of each kind of primitive, with and without special numbers.
_NUMBERS = range(2 * len(KINDS))


def _values(arg: int, md: rs.MemoryDesc, number: int, positions: int) -> bytes:
    """Numbers whose sums are rounded, and here and there one that is none, or infinite; places of windows."""
    draw = np.random.default_rng((number, arg))
    if arg == rs.ARG_WORKSPACE:
        return draw.integers(0, max(positions, 1), md.size, np.uint8).tobytes()[: md.size]
    if md.data_type.is_integral:
        return draw.integers(0, 256, md.size, np.uint8).tobytes()
    values = draw.standard_normal(md.size).astype(np.float32)
    if number % 2:
        at = draw.random(md.size) < 0.02
        values[at] = draw.choice(_SPECIAL, int(at.sum()))
    flat = rs.reorder(values, None, dtype=md.data_type)
    return np.asarray(flat).tobytes()[: md.size]


def _near(choice: ScheduleChoice) -> list[Schedule]:
    """The neighbors of a schedule, and those of one of them."""
    found: dict[Schedule, None] = {}
    for base in range(2):
        start = list(found)[len(found) // 2] if base and found else choice.transforms
        for near in choice.neighbors():
            found |= dict.fromkeys(schedule for schedule in near(start) if choice.fits(schedule))
    return [schedule for schedule in found if schedule != choice.transforms]


def _changed(number: int, problem: RandomProblem) -> Iterator[str]:
    """Schedules that write other bits than the chosen one."""
    pd = problem.pd(_CPU)
    impl, mds = pd._implementation(), pd._exec_args()
    if not isinstance(impl.executable, CpuExecutable):
        return
    content = {arg: _values(arg, md, number, problem.positions) for arg, md in mds.items()}

    def written(executable: CpuExecutable) -> list[bytes]:
        held = {arg: np.frombuffer(bytearray(of), np.uint8) for arg, of in content.items()}
        memories = {arg: rs.Memory(mds[arg], _CPU, held[arg]) for arg in held}
        launching(impl, executable, memories)()
        return [each.tobytes() for each in held.values()]

    chosen = written(impl.executable)
    for launch in impl.executable.launches:
        if not isinstance(launch, Launch) or launch.lowered.choice is None:
            continue
        others = _near(launch.lowered.choice())
        for schedule in others[:: max(len(others) // examples(24), 1)]:
            if written(impl.executable.with_launch(launch, schedule)) != chosen:
                yield f"{number}: {launch.lowered} -> {schedule_text(schedule)}"


@pytest.mark.parametrize("number", _NUMBERS)
def test_no_neighbor_changes_a_bit(number: int) -> None:
    kind, problem = random_primitive(number)
    try:
        assert list(_changed(number, problem)) == [], kind
    except rs.Error as refusal:
        pytest.skip(str(refusal))
