"""Explain a layout, or an error code.

A layout: strides, blocks, padding, size, and the offset formula, a Python expression of the axes' names.
Strides and offsets count elements. A code: what it means, an example that causes it, and what to do. Without
arguments: all codes.

  restride explain nChw16c 1x17x2x2
  restride explain OIhw4i16o4i 64x64x3x3 --dtype s8
  restride explain blocked.npy
  restride explain nvfp4
  restride explain RS-M11
  restride explain
"""

from __future__ import annotations

import argparse
import re
from dataclasses import asdict

from ..view.explain import explain, fields
from ..view.names import axis_names
from ..view.stored import stored_text
from . import described
from .output import CommandResult, width
from .refusals import Refusal, is_like_a_code, listed, refusals, spelled_out
from .usage import Parser, UsageError, wrong_usage

__all__ = ["add_arguments", "run"]

_MOST_SHOWN = 40


def add_arguments(parser: Parser) -> None:
    """Add FORMAT DIMS, FILE, or CODE, all optional."""
    described.add_arguments(parser, "; or an error code, such as RS-M11; or nothing, for a list of codes")


def run(options: argparse.Namespace) -> CommandResult:
    """Return the explanation; as values the fields of the layout, or those of the code."""
    if options.format is None:
        _refuse_type(options)
        return CommandResult(listed(), {"codes": {code: entry.title for code, entry in refusals().items()}})
    if options.dims is None and is_like_a_code(options.format) and not options.format.endswith(".npy"):
        _refuse_type(options)
        entry = _entry(spelled_out(options.format))
        return CommandResult(entry.text(width()), {**asdict(entry), "example": entry.script()})
    tensor_format = described.stored_format(options)
    if tensor_format is not None:
        parts = {name: fields(md, axis_names(md.ndims)) for name, md in tensor_format.parts.items()}
        values = {"name": tensor_format.name, "about": tensor_format.about, "parts": parts}
        return CommandResult(stored_text(tensor_format), values)
    desc, tag = described.described(options)
    return CommandResult(explain(desc, tag=tag), fields(desc, axis_names(desc.ndims, tag)))


def _refuse_type(options: argparse.Namespace) -> None:
    if options.dtype is not None:
        raise wrong_usage("--dtype without a layout", why="an error code has no data type", hint="omit it")


def _entry(code: str) -> Refusal:
    refusal = refusals().get(code)
    if refusal is None:
        raise _unknown(code[:_MOST_SHOWN])
    return refusal


def _unknown(code: str) -> UsageError:
    near = min(refusals(), key=lambda candidate: _distance(candidate, code))
    # Nothing is close to a code with an unknown letter.
    is_near = near[:4] == code[:4]
    hint = f"did you mean {near}: {refusals()[near].title}?" if is_near else "a code looks like RS-M11"
    return wrong_usage(f"unknown code {code!r}", why="restride explain lists all codes", hint=hint)


def _distance(candidate: str, code: str) -> tuple[bool, int]:
    """Return the distance of a code from the one typed: first by letter, then by number."""
    digits = re.search(r"\d+", code)
    return candidate[:4] != code[:4], abs(int(candidate[4:]) - int(digits[0] if digits else 0))
