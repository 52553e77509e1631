"""The commands: where each lives, and what it is for."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

from ..errors import RuntimeFailure


class Command(NamedTuple):
    """Where a command lives. One that `speaks` for itself has a `main(arguments) -> status` of its own."""

    module: str
    help: str
    speaks: bool = False


# Modules are imported when their command is called: `restride info` need not load what `demo` needs. What
# measures lives in a package above this one, which therefore knows it by name only.
COMMANDS = {
    "demo": Command(
        "restride_bench.demo.main", "the main job on real data, checked, beside NumPy and memcpy"
    ),
    "demo-network": Command(
        "restride_bench.reading.main",
        "trained networks read the text in a photograph; what formats saved",
    ),
    "reorder": Command("restride.cli.reorder", "a .npy file into another memory format or data type"),
    "convert": Command(
        "restride.cli.convert", "checkpoints and arrays of any size into other formats and types, by rules"
    ),
    "show": Command("restride.cli.show", "a layout drawn, in text, as a picture or as a page"),
    "explain": Command(
        "restride.cli.explain", "a layout in words, with its offset formula; or the code of an error"
    ),
    "bench": Command("restride_bench.__main__", "speed beside memcpy, NumPy, torch and oneDNN", speaks=True),
    "run": Command("restride.cli.run", "a network on an array or a picture, with the time of each step"),
    "propagate": Command(
        "restride.cli.propagate", "the formats of a network: its reorders, by three rules, as a picture"
    ),
    "info": Command("restride.cli.info", "versions, engines, instruction sets, caches"),
    "check": Command("restride.cli.check", "whether restride works here: a few results against NumPy's"),
    "completion": Command("restride.cli.completion", "a script by which bash, zsh or fish complete all this"),
}


def load(name: str) -> Any:
    """Import the module of a command. Raises RuntimeFailure where its package is not installed."""
    module = COMMANDS[name].module
    package = module.partition(".")[0]
    try:
        importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise RuntimeFailure(
            f"restride {name}: the package {package} is missing",
            code="RS-C04",
            why=f"{name} lives in {package}, which a whole installation of restride has beside it",
            hint="install all of restride: pip install --force-reinstall restride",
        ) from None
    return importlib.import_module(module)
