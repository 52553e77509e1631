"""The word that was probably meant: for hints, once something is wrong anyway."""

from __future__ import annotations

from collections.abc import Iterable

from .loading import load_whole


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The one of `known` most like `word`; "" where none is like it by `cutoff`, from 0 to 1."""
    load_whole("difflib")
    import difflib

    matches = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return matches[0] if matches else ""


def equally_near(word: str, known: Iterable[str], cutoff: float = 0.6) -> list[str]:
    """Those of `known` that are most like `word`, all alike; none where none is like it by `cutoff`."""
    load_whole("difflib")
    import difflib

    matcher, best, matches = difflib.SequenceMatcher(b=word), cutoff, list[str]()
    for name in known:
        matcher.set_seq1(name)
        # Bounds of the ratio, which cost little.
        if matcher.real_quick_ratio() < best or matcher.quick_ratio() < best:
            continue
        ratio = matcher.ratio()
        if ratio > best:
            best, matches = ratio, []
        if ratio == best:
            matches.append(name)
    return matches
