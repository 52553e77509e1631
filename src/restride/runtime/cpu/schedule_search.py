"""Search for faster schedules of a program's kernels, timing each in the whole program.

Results are stored (`targets/schedule_store.py`), and used by programs that are compiled from then on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf

from ...errors import RuntimeFailure
from ...schedule.language import Schedule
from ...schedule.search import fastest
from ...targets.schedule_store import schedule_store
from ..timing import time_call
from .executable import CpuExecutable
from .launch import Launch
from .program_launches import look_for_schedules
from .thread_pool import default_pool

# After about this long, compiling included, no further schedule is tried.
_SECONDS = 1.0
_ROUNDS = 3


def search_schedules(
    executable: CpuExecutable, call_of: Callable[[CpuExecutable], Callable[[], object]]
) -> bool:
    """Search the fastest schedule of each kernel not searched before, starting with the longest-running.

    `call_of`: returns a function that runs an executable of the same program once. False if all were searched
    before.
    """
    store, threads = schedule_store(executable.isa, executable.caches), default_pool().threads
    deadline, is_new = time.monotonic() + _SECONDS, False
    work = [launch for launch in executable.launches if isinstance(launch, Launch) and launch.is_named]
    for launch in sorted(work, key=lambda each: -each.work_bytes):
        choose = launch.lowered.choice
        if choose is None or store.find(launch.work_bytes, threads, choose) is not None:
            continue
        choice = choose()

        def seconds_of(transforms: Schedule, launch: Launch = launch) -> float:
            try:
                return min(time_call(call_of(executable.with_launch(launch, transforms)), _ROUNDS))
            except RuntimeFailure:  # compiling takes too long
                return inf

        found = fastest(
            choice.transforms,
            choice.neighbors(),
            choice.fits,
            seconds_of,
            lambda: time.monotonic() > deadline,
        )
        store.keep(launch.work_bytes, threads, choice, found)
        look_for_schedules()
        is_new = True
    return is_new
