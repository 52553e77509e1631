"""Read the verbose lines of oneDNN in a log, and report what takes time and what can be saved.

LOG is the output of a program with ONEDNN_VERBOSE=profile or all, and may contain other lines: torch,
OpenVINO, TensorFlow, oneDNN of any version since 1.0; restride's own lines are read too. The report has the
time by primitive and by format, the reorders with their speed, and how to avoid some of them. Bytes are
those that a primitive reads and writes, including padding.

  ONEDNN_VERBOSE=all python model.py > model.log
  restride verbose model.log
  restride verbose model.log --html model.html
  restride verbose model.log --replay --framework torch
  ONEDNN_VERBOSE=profile python model.py | restride verbose -

The speed of a copy is measured here unless --copy is given; reorders on GPUs are compared only with --copy.
An existing file is replaced only with --force.
"""

from __future__ import annotations

import argparse
import gzip
import zlib

import numpy as np

from ..errors import refuse
from ..files.writing.replacement import Replacement, shown
from ..runtime.timing import time_call
from ..view.verbose_log import read_verbose_log
from ..view.verbose_page import verbose_page
from ..view.verbose_report import FRAMEWORKS, report, report_text
from .named_files import PIPE, add_force, check_output, input_file, write_output
from .output import CommandResult
from .replay import replay, replay_text
from .usage import Parser, wrong_usage

__all__ = ["add_arguments", "run"]

# Larger than caches, but small enough for small machines.
_COPIED = 1 << 26
_ROUNDS = 5
_GZIP = b"\x1f\x8b"


def add_arguments(parser: Parser) -> None:
    """Add LOG and options."""
    parser.add_argument("log", metavar="LOG", help="a text file, gzipped or not; - for standard input")
    parser.add_argument("--html", metavar="FILE", help="write a page with the timeline, colored by format")
    parser.add_argument("--replay", action="store_true", help="run the primitives of the log on this machine")
    parser.add_argument(
        "--framework", choices=FRAMEWORKS, help="framework for the advice; default: the one found in the log"
    )
    parser.add_argument("--copy", type=float, metavar="GB/S", help="the speed of a copy on the log's machine")
    add_force(parser)


def run(options: argparse.Namespace) -> CommandResult:
    """Return the report; as values all rows of its tables."""
    if options.copy is not None and not 1e-3 <= options.copy <= 1e6:
        raise wrong_usage(
            "--copy is not a speed", why="it is not a number from 0.001 to 1e6", hint="for example --copy 20"
        )
    if options.html is not None:
        if options.json and options.html == PIPE:
            raise wrong_usage("--json with a page on standard output", hint="name a file for one of them")
        check_output("restride verbose", options.html, (".html", ".htm"), options.force)
        if options.html != PIPE:
            Replacement(options.html)
    with input_file(options.log, ".log") as name, open(name, "rb") as file:
        try:
            log = read_verbose_log(gzip.GzipFile(fileobj=file) if file.peek(2)[:2] == _GZIP else file)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise refuse("RS-F01:damaged-gzip", path=shown(options.log), why=str(error)) from None
    title = "standard input" if options.log == PIPE else shown(options.log)
    if not (log.executions or log.created or log.partitions or log.refused):
        raise refuse("RS-F01:no-verbose-lines", path=title)
    copy = options.copy or _copy_speed()
    values = report(log, copy, options.framework or "", is_copy_of_cpu=options.copy is None)
    text = report_text(title, values)
    if options.replay:
        values["replay"] = replay(log)
        text += "\n\n" + replay_text(values["replay"])
    if options.html is not None:
        write_output(options.html, verbose_page(title, log, text).encode())
        text = "" if options.html == PIPE else f"{text}\n\nwrote {shown(options.html)}"
    return CommandResult(text, values)


def _copy_speed() -> float:
    """Return the speed of a copy in GB/s, counting bytes read and bytes written."""
    src, dst = np.ones(_COPIED, np.uint8), np.empty(_COPIED, np.uint8)
    return 2 * _COPIED / min(time_call(lambda: np.copyto(dst, src), _ROUNDS)) / 1e9
