"""The head of every page in HTML, and the files of the package that are written into pages."""

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
"""A template of `title` and `style`; the body follows."""


@cache
def asset(name: str) -> str:
    """The text of a style or a script."""
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")
