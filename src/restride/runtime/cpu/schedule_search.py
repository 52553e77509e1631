"""The search for faster schedules of a program's kernels: each is timed in the whole program.

What is found is kept (`targets/schedule_store.py`), and programs that are compiled from then on run by it.
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

# No further schedule is tried after about so long, compiling them included.
_SECONDS = 1.0
_ROUNDS = 3


def search_schedules(
    executable: CpuExecutable, call_of: Callable[[CpuExecutable], Callable[[], object]]
) -> bool:
    """Look for the fastest schedule of each kernel that none was looked for yet, what works longest first.

    `call_of`: what runs an executable of the same program once. False where all were looked for before.
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
            except RuntimeFailure:  # it takes too long to compile
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
