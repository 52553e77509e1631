"""The names of a kernel's functions, shared by the code that defines them and the code that loads them."""

from __future__ import annotations

ENTRY = "restride"
"""One part of several: `void restride(ptr src, ptr dst, ptr params, i64 part, i64 parts)`."""
WHOLE = "restride_whole"
"""All of it: `void restride_whole(ptr src, ptr dst, ptr params)`."""
OPTIMIZE = "; optimize"
"""The first line of a module whose values are in memory until LLVM promotes them to registers; with the name
of a function appended, only those of that function.
"""
