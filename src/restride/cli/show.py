"""Draw a layout in text.

Lines run through memory from low offsets to high ones. Each cell holds the index of the element that lies
there, along the axis that the heading names; padding is hatched, blocks are set apart by rules.

  restride show nChw16c 1x17x2x2
  restride show OIhw4i16o4i 20x9x1x1 --dtype s8
  restride show blocked.npy
"""

from __future__ import annotations

import argparse

from ..view.explain import fields
from ..view.names import axis_names
from ..view.text import show
from .described import add_arguments, described
from .output import Answer, ink, width

__all__ = ["add_arguments", "run"]


def run(options: argparse.Namespace) -> Answer:
    """The picture; as values the fields of the layout and the picture's lines."""
    desc, tag = described(options)
    if options.json:
        values = fields(desc, axis_names(desc.ndims, tag))
        return Answer("", {**values, "picture": show(desc, tag=tag).splitlines()})
    return Answer(show(desc, tag=tag, ink=ink(), width=width()))
