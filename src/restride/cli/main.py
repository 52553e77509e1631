"""The entry point: finds the command, runs it, and turns every outcome into an exit status.

0 done, 1 failed, 2 wrong usage, 130 interrupted, 141 the reader of stdout exited, 143 terminated, 129 the
terminal was closed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from .. import __version__
from ..errors import Error, refuse
from ..nearest import nearest
from .commands import COMMANDS, load
from .output import CommandResult, drop_stdout, print_error, print_result, print_stderr
from .termination import Terminated, ended_by_signals
from .usage import Parser, UsageError, wrong_usage

_INTERRUPTED, _NO_READER, _BY_SIGNAL = 130, 141, 128


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line, by default `sys.argv`; return its exit status. Never raises for invalid input."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with ended_by_signals():
            return _guarded(argv)
    except BrokenPipeError:
        drop_stdout()
        return _NO_READER
    except KeyboardInterrupt:
        print_stderr("interrupted")
        return _INTERRUPTED
    except Terminated as ending:
        print_stderr("terminated")
        return _BY_SIGNAL + ending.number


def _guarded(argv: list[str]) -> int:
    as_json = "--json" in argv
    try:
        return _run(argv)
    except UsageError as usage:
        print_error(usage.error, as_json)
        return 2
    except Error as error:
        print_error(error, as_json)
    except BrokenPipeError:
        raise
    except MemoryError:
        print_error(
            refuse("RS-D01:out-memory"),
            as_json,
        )
    except OSError as error:
        print_error(
            refuse("RS-F02:system-refused", file=_file(error), reason=_reason(error)),
            as_json,
        )
    return 1


def _file(error: OSError) -> str:
    return "" if error.filename is None else os.fsdecode(error.filename)


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)


def _run(argv: list[str]) -> int:
    if argv[:1] in ([], ["-h"], ["--help"]):
        print_result(CommandResult(_help()), as_json=False)
        return 0
    if argv[:1] in (["-V"], ["--version"]):
        print_result(CommandResult(f"restride {__version__}"), as_json=False)
        return 0
    if argv[0] not in COMMANDS:
        raise _no_command(argv)
    module = load(argv[0])
    if COMMANDS[argv[0]].speaks:
        return _left(module.main, argv[1:])
    return _left(_answered, module, argv)


def _answered(module: Any, argv: list[str]) -> int:
    parser = Parser(f"restride {argv[0]}", module.__doc__)
    module.add_arguments(parser)
    options = parser.parse_args(argv[1:])
    answer: CommandResult = module.run(options)
    print_result(answer, options.json)
    return answer.status


def _left(function: Any, *args: Any) -> int:
    """Return the result of `function`, or its exit status: argparse exits after --help."""
    try:
        return int(function(*args))
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {command.help}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "usage: restride COMMAND ...",
            "",
            "Convert tensors between memory formats and data types.",
            "",
            *lines,
            "",
            "restride COMMAND --help explains a command, restride --version prints the version.",
            "Every command has --json.",
            "Exit status: 0 done, 1 failed, 2 wrong usage.",
        ]
    )


def _no_command(argv: list[str]) -> UsageError:
    names = ", ".join(COMMANDS)
    near = nearest(argv[0][:40], COMMANDS)
    hint = f"did you mean restride {near}?" if near else "see restride --help"
    return wrong_usage(
        f"restride: unknown command {argv[0][:40]!r}", why=f"the commands are {names}", hint=hint
    )
