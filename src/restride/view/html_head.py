"""The head of every HTML page, and the package's files that are embedded in pages."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{style}
</style>
</head>
"""
"""A template with `title` and `style`; the body follows."""


@cache
def asset(name: str) -> str:
    """Return the text of a style sheet or a script."""
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")
