"""Check in a second that restride works here: a few reorders and a shuffle, compared with NumPy.

Status 1 where a check fails; `restride info` tells what to report then.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from ..arrays.reorders import reorder
from ..arrays.shuffles import channel_shuffle
from ..errors import Error
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from ..targets.isa import host_isa
from ..version import VERSION
from .output import CommandResult
from .usage import Parser

__all__ = ["add_arguments", "run"]

_DIMS = (2, 17, 9, 7)


def add_arguments(parser: Parser) -> None:
    """None but --json."""


def run(_: argparse.Namespace) -> CommandResult:
    """Every check with its time; as values the checks and what went wrong."""
    found = [_tried(name, check) for name, check in _CHECKS.items()]
    lines = [f"{'ok' if not wrong else 'FAILED':<8}{name}{wrong and ': '}{wrong}" for name, wrong, _ in found]
    failed = sum(bool(wrong) for _, wrong, _ in found)
    seconds = sum(spent for *_, spent in found)
    said = "all is well" if not failed else f"{failed} of {len(found)} failed: see restride info"
    heading = f"restride {VERSION}, {_level()}"
    values = {
        "ok": not failed,
        "seconds": round(seconds, 6),
        "checks": {name: wrong or "ok" for name, wrong, _ in found},
    }
    lines = [heading, *lines, f"{said} ({seconds:.2f} s)"]
    return CommandResult("\n".join(lines), values, status=int(failed > 0))


def _level() -> str:
    try:
        return f"code for {host_isa().name}"
    except Error:
        return "no instruction set chosen"


def _tried(name: str, check: Callable[[], bool]) -> tuple[str, str, float]:
    """The name of a check, what is wrong ("" for nothing), and the seconds that it took."""
    start = time.perf_counter()
    try:
        wrong = "" if check() else "the result is wrong"
    except Exception as error:
        # Whatever goes wrong on a strange machine is what this command is there to tell.
        wrong = str(error).splitlines()[0] if str(error) else type(error).__name__
    return name, wrong, time.perf_counter() - start


def _images() -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.arange(np.prod(_DIMS), dtype=np.float32).reshape(_DIMS)


def _transposed() -> bool:
    x = _images()
    made = reorder(x, "nhwc")
    return bool((np.ascontiguousarray(made.transpose(0, 2, 3, 1)) == x.transpose(0, 2, 3, 1)).all())


def _blocked_and_back() -> bool:
    x = _images()
    blocked = reorder(x, "nChw16c")
    padding = blocked.physical()[:, 1, :, :, 1:]
    return bool((reorder(blocked, "nchw") == x).all() and not padding.any())


def _quantised() -> bool:
    x = _images()
    wanted = np.clip(np.rint(x * np.float32(0.125)), -128, 127).astype(np.int8)
    return bool((reorder(x, "nhwc", dtype="s8", scale=0.125) == wanted).all())


def _shuffled() -> bool:
    x = _images()[:, :12]
    wanted = x.reshape(2, 3, 4, 9, 7).swapaxes(1, 2).reshape(x.shape)
    return bool((channel_shuffle(x, 3) == wanted).all())


def _as_the_reference_says() -> bool:
    x = _images()
    slow = reorder(Memory.from_numpy(x), "nChw16c", dtype="bf16", engine=Engine("reference"))
    return bool(
        (reorder(x, "nChw16c", dtype="bf16").physical().view("u2") == slow.physical().view("u2")).all()
    )


def _in_parallel() -> bool:
    x = np.arange(1 << 21, dtype=np.float32).reshape(8, 64, 64, 64)
    return bool((reorder(x, "nhwc") == x).all())


_CHECKS: dict[str, Callable[[], bool]] = {
    "nchw to nhwc": _transposed,
    "nchw to nChw16c and back, padding zero": _blocked_and_back,
    "f32 to s8, scaled and rounded": _quantised,
    "channel shuffle": _shuffled,
    "the compiled kernel and the reference engine agree": _as_the_reference_says,
    "8 MB on all threads": _in_parallel,
}
