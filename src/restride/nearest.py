"""Spelling suggestions for error messages."""

from __future__ import annotations

from collections.abc import Iterable

from .loading import load_whole


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the word of `known` most similar to `word`; "" if none reaches `cutoff`, from 0 to 1."""
    load_whole("difflib")
    import difflib

    matches = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return matches[0] if matches else ""


def equally_near(word: str, known: Iterable[str], cutoff: float = 0.6) -> list[str]:
    """Return all words of `known` tied for most similar to `word`; none if none reaches `cutoff`."""
    load_whole("difflib")
    import difflib

    matcher, best, matches = difflib.SequenceMatcher(b=word), cutoff, list[str]()
    for name in known:
        matcher.set_seq1(name)
        # Cheap upper bounds of the ratio.
        if matcher.real_quick_ratio() < best or matcher.quick_ratio() < best:
            continue
        ratio = matcher.ratio()
        if ratio > best:
            best, matches = ratio, []
        if ratio == best:
            matches.append(name)
    return matches
