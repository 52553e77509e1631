"""Check that restride works here, or that an ONNX model runs.

Without a model a few reorders and a shuffle are compared with NumPy in a second. With one, its nodes are
checked separately: how many run, which operators are unsupported, and why a node is rejected.

  restride check
  restride check detector.onnx --dims x=1x3x640x480

Status 1 if a check fails, or a part of the model does not run; then report the output of `restride info`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from .. import onnx
from ..arrays.reorders import reorder
from ..arrays.shuffles import channel_shuffle
from ..errors import Error
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from ..targets.isa import host_isa
from ..version import VERSION
from .network_inputs import add_inputs
from .output import CommandResult
from .usage import Parser

__all__ = ["add_arguments", "run"]


def add_arguments(parser: Parser) -> None:
    """Add the model, and extents that it leaves open."""
    parser.add_argument("model", nargs="?", metavar="MODEL.onnx", help="a model whose nodes are checked")
    add_inputs(
        parser,
        dims="extents of an input: x=1x3x224x224; default: those of the model, else 1",
        value="the constant value of an input: sr=16000",
    )


def run(args: argparse.Namespace) -> CommandResult:
    """Run every check and report its time; as values the checks and errors."""
    return _self_test() if args.model is None else _of_model(args)


def _of_model(args: argparse.Namespace) -> CommandResult:
    found = onnx.check(args.model, dims=dict(args.dims), values=dict(args.value))
    values = {
        "ok": found.is_whole,
        "runs": dict(found.runs),
        "missing": {name: list(nodes) for name, nodes in found.missing.items()},
        "refused": [{"operator": n.operator, "name": n.name, "why": n.why} for n in found.refused],
        "dependent": list(found.dependent),
    }
    return CommandResult(str(found), values, status=int(not found.is_whole))


def _self_test() -> CommandResult:
    start = time.perf_counter()
    wrongs = {name: _fault(check) for name, check in _CHECKS.items()}
    seconds, failed = time.perf_counter() - start, sum(bool(wrong) for wrong in wrongs.values())
    try:
        heading = f"restride {VERSION}, code for {host_isa().name}"
    except Error:
        heading = f"restride {VERSION}, no instruction set chosen"
    lines = [
        f"{'ok' if not wrong else 'FAILED':<8}{name}{wrong and ': '}{wrong}" for name, wrong in wrongs.items()
    ]
    verdict = "all is well" if not failed else f"{failed} of {len(wrongs)} failed: see restride info"
    values = {
        "ok": not failed,
        "seconds": round(seconds, 6),
        "checks": {name: wrong or "ok" for name, wrong in wrongs.items()},
    }
    lines = [heading, *lines, f"{verdict} ({seconds:.2f} s)"]
    return CommandResult("\n".join(lines), values, status=int(failed > 0))


def _fault(check: Callable[[], bool]) -> str:
    """Return the error that a check finds, or an empty string."""
    try:
        return "" if check() else "the result is wrong"
    except Exception as error:
        # Report any exception: that is the purpose of this command.
        return str(error).splitlines()[0] if str(error) else type(error).__name__


_X = np.arange(2 * 17 * 9 * 7, dtype=np.float32).reshape(2, 17, 9, 7)


def _transposed() -> bool:
    nhwc = np.ascontiguousarray(reorder(_X, "nhwc").transpose(0, 2, 3, 1))
    return bool((nhwc == _X.transpose(0, 2, 3, 1)).all())


def _blocked_and_back() -> bool:
    blocked = reorder(_X, "nChw16c")
    padding = blocked.physical()[:, 1, :, :, 1:]
    return bool((reorder(blocked, "nchw") == _X).all() and not padding.any())


def _quantized() -> bool:
    expected = np.clip(np.rint(_X * np.float32(0.125)), -128, 127).astype(np.int8)
    return bool((reorder(_X, "nhwc", dtype="s8", scale=0.125) == expected).all())


def _shuffled() -> bool:
    x = _X[:, :12]
    expected = x.reshape(2, 3, 4, 9, 7).swapaxes(1, 2).reshape(x.shape)
    return bool((channel_shuffle(x, 3) == expected).all())


def _same_as_reference() -> bool:
    slow = reorder(Memory.from_numpy(_X), "nChw16c", dtype="bf16", engine=Engine("reference"))
    fast = reorder(_X, "nChw16c", dtype="bf16")
    return bool((fast.physical().view("u2") == slow.physical().view("u2")).all())


def _in_parallel() -> bool:
    x = np.arange(1 << 21, dtype=np.float32).reshape(8, 64, 64, 64)
    return bool((reorder(x, "nhwc") == x).all())


_CHECKS: dict[str, Callable[[], bool]] = {
    "nchw to nhwc": _transposed,
    "nchw to nChw16c and back, padding zero": _blocked_and_back,
    "f32 to s8, scaled and rounded": _quantized,
    "channel shuffle": _shuffled,
    "the compiled kernel and the reference engine agree": _same_as_reference,
    "8 MB on all threads": _in_parallel,
}
