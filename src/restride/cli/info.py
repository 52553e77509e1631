"""Print what restride runs on: versions, engines, instruction sets, caches, threads, settings."""

from __future__ import annotations

import argparse

from ..about import facts, text_of
from .output import CommandResult
from .usage import Parser


def add_arguments(parser: Parser) -> None:
    """Add nothing but --json."""


def run(_: argparse.Namespace) -> CommandResult:
    """Return all facts, in groups."""
    versions = facts()
    return CommandResult(
        text_of(versions), {name.replace(" ", "_"): group for name, group in versions.items()}
    )
