"""Run the tests on an emulated AArch64, and compare its results with those of this machine.

    python tests/arm/run.py FOLDER [--part] [--only=NAME,...] [--seconds=LIMIT]

FOLDER is what `build.sh` made. Jobs run side by side, one more than processors: groups of test files, and the
problems of `support.problem_bits`, whose lines must be those that this machine prints. ARM_CPU names the
model that is emulated, as qemu knows it. A job that fails is told with the end of what it printed; all of it
is in FOLDER/logs. With --part little is run, for a look at every change; with --only the jobs of some names.
The status is 0 where all jobs passed, 1 where one failed, 3 where none failed but the limit stopped some, and
130 after Ctrl-C. A job that the limit stops has failed where what it had printed tells of a failure.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from with_compiler import compiler

_ROOT = Path(__file__).parents[2]
_GROUPS = {
    "far": "far",
    "operations": "operations",
    "kernels": "kernel convert pack neon blocks interleaved nibble_operands ranges fused_sums large",
    "targets": "cpu_target isa jit objects",
    "reorder": "reorder_primitive reorder_fuzz arrays flushed_reorder",
    "shuffle": "shuffle_primitive shuffles",
    "concat": "concat concat_and_sum",
    "sum": "sum several ordered_sums",
    "numerics": "eltwise compute arithmetic same_bits",
    "attributes": "attributes attribute_kernels attributes_fuzz post_ops groups",
    "arithmetic": "scale_and_beta warm_arithmetic",
    "compensation": "compensation quantization",
    "cache": "cache object_store",
    "pool": "pool launch stream",
    "trees": "tree_kernels contraction",
    "pointwise": "binary eltwise_primitive prelu",
    "folds": "softmax normalization reduction_primitive lrn",
    "windows": "pooling resampling",
    "products": "matmul inner_product convolution winograd quantized_matmul",
    "recurrent": "rnn rnn_bytes",
    "formats": "block_scales formats stored_formats",
}
# Of these the slow tests too.
_WITH_SLOW = ("far",)
# The second device of the tests runs the same kernels as the first.
_ENGINES = "not [second and not -second"
_PART = {"kernels": "kernel neon", "reorder": "reorder_fuzz"}
# The frozen problems are the first; after them come as many random ones.
_RANDOM, _PART_OF_PROBLEMS, _SHARDS = 3000, 24, 8
_TEST_S = 300
# How long this machine may take for what the emulated one had printed before it was stopped.
_TWIN_S = 20
_SHOWN_LINES = 30
# The status where a limit was reached: what had been run by then passed, and that is not all.
_STOPPED = 3


@dataclass(frozen=True)
class Job:
    """A command that ends with status 0; where `twin` is a command too, both must print the same."""

    name: str
    command: tuple[str, ...]
    twin: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """The exit of a job, and its output."""

    job: Job
    status: str
    text: str
    seconds: float


class Emulation:
    """Commands of an emulated machine in a folder, until a moment."""

    def __init__(self, folder: Path, more: dict[str, str], end: float) -> None:
        self.folder, self.end = folder, end
        self._running: set[int] = set()
        self._is_over = False
        kernels = folder / "kernels"
        kernels.mkdir(mode=0o700, exist_ok=True)
        (folder / "logs").mkdir(exist_ok=True)
        path = os.pathsep.join(map(str, (_ROOT / "src", _ROOT / "bench", _ROOT / "tests")))
        # Nothing is gained by workers that compile: the compiler is a process of its own.
        self._variables = os.environ | more
        self._variables |= {
            "PYTHONPATH": path,
            "PYTHONUNBUFFERED": "1",
            "RESTRIDE_COMPILE_LIMIT": "0",
            "RESTRIDE_CACHE_DIR": str(kernels),
            "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
        }
        # An emulated Python takes five seconds more to compile what each job imports.
        self._variables.pop("PYTHONDONTWRITEBYTECODE", None)

    def run(self, job: Job) -> Outcome:
        """Run a job to its end, or as long as there is time."""
        start = time.monotonic()
        status, text = self._finish(job)
        return Outcome(job, status, text, time.monotonic() - start)

    def stop(self) -> None:
        """End all that runs, and begin no more."""
        self._is_over = True
        for group in tuple(self._running):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)

    def _finish(self, job: Job) -> tuple[str, str]:
        """Wait for a job; return its exit and output. A stopped job has failed if that is known."""
        code, text = self._output(job.command, self.folder / "logs" / f"{job.name}.log", self.end)
        if code or (code is None and _has_failure(text)):
            return "FAILED", text
        if not job.twin:
            return ("stopped", "") if code is None else ("ok", text)
        # What was stopped printed some lines of its twin's: a moment is enough for these.
        end = time.monotonic() + _TWIN_S if code is None else self.end
        done, other = self._output(job.twin, self.folder / "logs" / f"{job.name}, here.log", end)
        lines, others = ([*map(str, each.splitlines(keepends=True))] for each in (text, other))
        if code is None or done is None:
            both = min(len(lines), len(others)) - 1
            lines, others = lines[: max(both, 0)], others[: max(both, 0)]
        differing = [line for line, its in zip(lines, others, strict=False) if line != its]
        if differing or len(lines) != len(others):
            head = f"{len(differing)} of {len(lines)} differ from this machine, which has {len(others)}:\n"
            return "FAILED", head + "".join(differing)
        status = "stopped" if code is None or done is None else "ok"
        return status, f"{len(lines)} problems with equal bits"

    def _output(self, command: tuple[str, ...], log: Path, end: float) -> tuple[int | None, str]:
        """The status of a command, None where it is stopped, and what it printed up to there."""
        left = end - time.monotonic()
        if left <= 0 or self._is_over:
            return None, ""
        with log.open("wb") as out:
            process = subprocess.Popen(
                command,
                env=self._variables,
                cwd=_ROOT,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._running.add(process.pid)
            if self._is_over:
                self.stop()
            code: int | None = None
            try:
                code = process.wait(timeout=left)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            self._running.discard(process.pid)
        return None if self._is_over else code, log.read_text(errors="replace")


def _has_failure(text: str) -> bool:
    """True if pytest told of a failure before it was stopped, by a letter in a line of its progress."""
    return re.search(r"^[.sxXFE]*[FE][.sxXFE]*( +\[ *\d+%\])?$", text, re.MULTILINE) is not None


def jobs(python: str, *, is_part: bool) -> Iterator[Job]:
    """Sort jobs so that those in equal shards come last, and no processor waits long at the end."""
    yield Job("check", (python, "-m", "restride", "check"))
    for name, words in (_PART if is_part else _GROUPS).items():
        paths = (next(_ROOT.glob(f"tests/*/test_{word}.py")) for word in words.split())
        files = [path.relative_to(_ROOT).as_posix() for path in paths]
        options = ("-p", "no:cacheprovider", "--tb=short", f"--timeout={_TEST_S}", "-k", _ENGINES)
        marks = ("-m", "slow or not slow") if name in _WITH_SLOW and not is_part else ()
        yield Job(name, (python, "-m", "pytest", *options, *marks, *files))
    step = _SHARDS * _PART_OF_PROBLEMS if is_part else _SHARDS
    for shard in range(1 if is_part else _SHARDS):
        command = ("-m", "support.problem_bits", str(shard), str(step), str(_RANDOM))
        yield Job(f"bits {shard + 1}", (python, *command), (sys.executable, *command))


def _told(outcome: Outcome) -> str:
    lines = outcome.text.strip().splitlines() or ["not finished"]
    head = f"{outcome.status:8}{outcome.job.name:12}{outcome.seconds:6.0f} s  {lines[-1]}"
    return "\n".join([head, *lines[-_SHOWN_LINES:]]) if outcome.status == "FAILED" else head


def main() -> int:
    """Run the jobs, and say how each of them ended."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--part", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=3600)
    options = parser.parse_args()
    folder, names = options.folder.resolve(), set(filter(None, options.only.split(",")))
    if not (folder / "python").is_file():
        parser.error(f"{folder} has no emulated Python: make it with tests/arm/build.sh")
    if not (options.seconds > 0 and math.isfinite(options.seconds)):
        parser.error(f"--seconds={options.seconds}: wanted a number above 0")
    chosen = [
        job for job in jobs(str(folder / "python"), is_part=options.part) if not names or job.name in names
    ]
    if not chosen or names.difference(job.name for job in chosen):
        parser.error(f"--only={options.only}: there is no such job")
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with compiler() as variables:
        return _run_all(Emulation(folder, variables, time.monotonic() + options.seconds), chosen)


def _run_all(emulation: Emulation, chosen: list[Job]) -> int:
    ends = []
    # Each job waits for the compiler now and then: one more than processors keeps these at work.
    pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)) + 1)
    try:
        for outcome in pool.map(emulation.run, chosen):
            print(_told(outcome), flush=True)
            ends.append(outcome.status)
    except KeyboardInterrupt:
        # Some send it more than once.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("interrupted")
        return 130
    finally:
        emulation.stop()
        pool.shutdown(cancel_futures=True)
    stopped = ends.count("stopped")
    print(f"{ends.count('ok')} of {len(ends)} jobs passed, {stopped} were stopped by the limit")
    return 1 if "FAILED" in ends else _STOPPED if stopped else 0


if __name__ == "__main__":
    sys.exit(main())
