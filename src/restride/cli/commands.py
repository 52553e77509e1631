"""The commands: where each lives, and what it is for."""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """Where a command lives. One that `speaks` for itself has a `main(arguments) -> status` of its own."""

    module: str
    help: str
    speaks: bool = False


# Modules are imported when their command is called: `restride info` need not load what `demo` needs.
COMMANDS = {
    "demo": Command("restride.cli.demo", "the main job on real data, checked, beside NumPy and memcpy"),
    "reorder": Command("restride.cli.reorder", "a .npy file into another memory format or data type"),
    "show": Command("restride.cli.show", "a layout drawn, in text, as a picture or as a page"),
    "explain": Command(
        "restride.cli.explain", "a layout in words, with its offset formula; or the code of an error"
    ),
    "bench": Command("restride.bench.__main__", "speed beside memcpy, NumPy, torch and oneDNN", speaks=True),
    "info": Command("restride.cli.info", "versions, engines, instruction sets, caches"),
    "check": Command("restride.cli.check", "whether restride works here: a few results against NumPy's"),
    "completion": Command("restride.cli.completion", "a script by which bash, zsh or fish complete all this"),
}
