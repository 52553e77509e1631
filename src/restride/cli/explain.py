"""Explain a layout: strides, blocks, padding, size, and the offset formula.

  restride explain nChw16c 1x17x2x2
  restride explain OIhw4i16o4i 64x64x3x3 --dtype s8
  restride explain blocked.npy

The formula is a Python expression of the axes' names. Strides and offsets count elements.
"""

from __future__ import annotations

import argparse

from ..view.explain import explain, fields
from ..view.names import axis_names
from .described import add_arguments, described
from .output import Answer

__all__ = ["add_arguments", "run"]


def run(options: argparse.Namespace) -> Answer:
    """The explanation; as values the fields of the layout."""
    desc, tag = described(options)
    return Answer(explain(desc, tag=tag), fields(desc, axis_names(desc.ndims, tag)))
