"""Draw a layout in text.

Lines run through memory from low offsets to high ones. Each cell holds the index of the element that lies
there, along the axis that the heading names; padding is hatched, blocks are set apart by rules.

  restride show nChw16c 1x17x2x2
  restride show OIhw4i16o4i 20x9x1x1 --dtype s8
  restride show blocked.npy
"""

from __future__ import annotations

import argparse

from ..errors import Unimplemented
from ..view.explain import fields
from ..view.names import axis_names
from ..view.text import show
from .described import add_arguments as add_layout
from .described import described
from .output import Answer, ink, width
from .usage import Parser, UsageError

__all__ = ["add_arguments", "run"]

_PICTURES = ("svg", "html")


def add_arguments(parser: Parser) -> None:
    """FORMAT DIMS, or FILE; and what is refused by name, as long as nothing draws it."""
    add_layout(parser)
    for kind in _PICTURES:
        parser.add_argument(f"--{kind}", nargs="?", const="", metavar="FILE", help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> Answer:
    """The picture; as values the fields of the layout and the picture's lines."""
    _refuse_pictures(options)
    desc, tag = described(options)
    if options.json:
        values = fields(desc, axis_names(desc.ndims, tag))
        return Answer("", {**values, "picture": show(desc, tag=tag).splitlines()})
    return Answer(show(desc, tag=tag, ink=ink(), width=width()))


def _refuse_pictures(options: argparse.Namespace) -> None:
    asked = [kind for kind in _PICTURES if getattr(options, kind) is not None]
    if asked:
        what = f"restride show: --{asked[0]} is not provided by this version"
        hint = f"leave --{asked[0]} out; --json gives the picture's lines as values"
        raise UsageError(Unimplemented(what, why="layouts are drawn in text only", hint=hint))
