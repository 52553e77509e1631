"""The functions of a kernel, by name: what whoever loads one looks for, and whoever writes one defines."""

from __future__ import annotations

ENTRY = "restride"
"""One part of several: `void restride(ptr src, ptr dst, ptr params, i64 part, i64 parts)`."""
WHOLE = "restride_whole"
"""All of it: `void restride_whole(ptr src, ptr dst, ptr params)`."""
OPTIMISE = "; optimise"
"""The first line of a module whose values are in memory until LLVM brings them into registers; with the name
of a function behind it, of those of that function alone.
"""
