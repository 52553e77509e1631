"""The commands: their modules and descriptions."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

from ..errors import refuse


class Command(NamedTuple):
    """The module of a command. One that `speaks` for itself has its own `main(arguments) -> status`."""

    module: str
    help: str
    speaks: bool = False


# Modules are imported when their command is called: `restride info` does not need what `demo` needs.
# Benchmarks are a separate distribution that uses this one; here only its name is known.
COMMANDS = {
    "demo": Command(
        "restride_bench.demo.main",
        "reorders photographs and weights to other formats and back, checked and timed",
    ),
    "demo-network": Command(
        "restride_bench.reading.main",
        "runs trained networks that read the text in a photograph",
    ),
    "demo-language": Command(
        "restride_bench.language.main",
        "runs a trained encoder that finds the paragraphs which answer a question",
    ),
    "reorder": Command("restride.cli.reorder", "converts a .npy file to another memory format or data type"),
    "convert": Command("restride.cli.convert", "converts checkpoints and arrays of any size by rules"),
    "show": Command(
        "restride.cli.show", "draws a layout as text, picture or page, or lists the tensors of a file"
    ),
    "diff": Command("restride.cli.diff", "compares the tensors of two files of any format"),
    "explain": Command(
        "restride.cli.explain", "explains a layout and its offset formula, or the code of an error"
    ),
    "verbose": Command(
        "restride.cli.verbose", "reads a log of ONEDNN_VERBOSE: where time goes, and what can be saved"
    ),
    "bench": Command(
        "restride_bench.__main__", "measures the speed next to memcpy, NumPy, torch and oneDNN", speaks=True
    ),
    "run": Command("restride.cli.run", "runs a network on an array or a picture, and times each step"),
    "propagate": Command("restride.cli.propagate", "shows the reorders that a network needs, by three rules"),
    "quantize": Command("restride.cli.quantize", "quantizes a model of f32 to bytes, with samples"),
    "info": Command("restride.cli.info", "prints versions, engines, instruction sets, caches"),
    "check": Command(
        "restride.cli.check",
        "checks in a second that restride works here, or which parts of an ONNX model run",
    ),
    "completion": Command("restride.cli.completion", "prints a script for completion in bash, zsh or fish"),
}

# The module with which `restride verbose --replay` runs oneDNN.
REPLAY_OF_PEER = "restride_bench.replay"


def load(name: str) -> Any:
    """Import the module of a command. Raises RuntimeFailure if its package is not installed."""
    module = COMMANDS[name].module
    package = module.partition(".")[0]
    try:
        importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise refuse("RS-C04:package-missing", name=name, package=package) from None
    return importlib.import_module(module)
