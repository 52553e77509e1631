"""The word that was probably meant: for hints, once something is wrong anyway."""

from __future__ import annotations

from collections.abc import Iterable

from .loading import load_whole


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The one of `known` most like `word`; "" where none is like it by `cutoff`, from 0 to 1."""
    load_whole("difflib")
    import difflib

    found = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return found[0] if found else ""
