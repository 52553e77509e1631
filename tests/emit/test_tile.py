"""Register tiles: LLVM comes to an end with their code."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from restride.ir.conversion import PROVIDED
from support.compiling import Move, overdue

_LEVELS = ("avx512", "avx512+vbmi", "avx2", "sse41", "generic", "neon")
_FOUR = ("s4", "u4")
_PLANE = (("ab", "ba"), ("ba", "ab"), ("ab", "aB2b"), ("ab", "Ab2a"), ("ab", "aB4b"), ("aB8b", "ab"))
_ROOM = (
    ("abc", "cba"),
    ("cba", "cab"),
    ("abc", "bca"),
    ("abc", "abc2a"),
    ("abc", "aBc2b"),
    ("acb", "aBc4b"),
    ("abc", "ABc2b2a"),
)
# One in so many is compiled, another of each pair of types.
_EACH = 3
# What once never ended, by the dims and both sides.
_ENDLESS = [
    Move((18, 2), ("s4", "ba"), ("s8", "ab")),
    Move((18, 2), ("s8", "ba"), ("u8", "ab")),
    Move((9, 2), ("u8", "ab"), ("s8", "aB4b")),
    Move((17, 1), ("s4", "ab"), ("s8", "aB2b")),
    Move((25, 1), ("u8", "ab"), ("s8", "aB2b")),
    Move((20, 2, 3), ("s8", "cba"), ("s4", "cab")),
    Move((25, 20, 17), ("s4", "abc"), ("s8", "abc2a")),
    Move((17, 1, 3, 3), ("s4", "abcd"), ("bf16", "aBcd2b")),
]


def test_what_once_never_ended_compiles_in_time() -> None:
    assert overdue(_ENDLESS, "avx512") == []


@pytest.mark.parametrize("level", _LEVELS)
def test_four_bits_added_from_places_apart_compile_in_time(level: str) -> None:
    pairs = itertools.product((*_FOUR, "f4_e2m1", "f4_e3m0"), [((5, 4, 1, 5), "f32"), ((3, 17, 2, 5), "s8")])
    moves = [Move(dims, (src, "bcad"), (dst, "abcd"), "apart") for src, (dims, dst) in pairs]
    assert overdue(moves, level) == []


@pytest.mark.slow
@pytest.mark.parametrize("level", _LEVELS)
@pytest.mark.parametrize("four", _FOUR)
def test_four_bits_to_and_from_every_type_compile_in_time(four: str, level: str) -> None:
    others = map(str, PROVIDED)
    pairs = {pair for other in others for pair in ((four, other), (other, four))}
    assert overdue(_moves(sorted(pairs), sparse=True)[::_EACH], level) == []


@pytest.mark.slow
@pytest.mark.parametrize("level", _LEVELS)
def test_small_tiles_of_bytes_compile_in_time(level: str) -> None:
    pairs = [("s4", "s8"), ("s8", "s4"), ("s8", "u8"), ("u8", "s8"), ("u4", "s4")]
    assert overdue(_moves(pairs, sparse=False)[::_EACH], level) == []


@pytest.mark.slow
@pytest.mark.parametrize("level", _LEVELS)
@pytest.mark.parametrize("how", ["scaled", "added"])
def test_small_tiles_of_what_is_computed_compile_in_time(how: str, level: str) -> None:
    kinds = ("f32", "bf16", "s8", "u8", "s32", "f8_e4m3", "s4")
    pairs = list(itertools.product(kinds, kinds))
    moves = [replace(move, how=how) for move in _moves(pairs, sparse=True)]
    assert overdue(moves[::_EACH], level) == []


def _moves(types: list[tuple[str, str]], *, sparse: bool) -> list[Move]:
    """Every pair of types in small tiles, those at the edges of registers and their parts above all."""
    rows = (1, 7, 9, 17, 20, 25) if sparse else (*range(1, 34), 40, 48, 63, 65)
    columns = (1, 2, 3) if sparse else (1, 2, 3, 4, 5, 8)
    planes = [(dims, tags) for dims in itertools.product(rows, columns) for tags in _PLANE]
    rooms = [(dims, tags) for dims in ((20, 2, 3), (17, 1, 3), (3, 17, 5), (5, 3, 18)) for tags in _ROOM]
    return [
        Move(dims, (src, source), (dst, target))
        for src, dst in types
        for dims, (source, target) in [*planes, *rooms]
    ]
