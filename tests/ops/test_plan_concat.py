"""The plan of a concat: every place once, padding alone where bits are there, few nests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product

import pytest

from restride.desc.memory_desc import MemoryDesc
from restride.ir.nest import LoopNest
from restride.ir.nest_rewrites import peel
from restride.ops.programs.concat import Window, window_moves

_LAYOUTS = ("ab", "ba", "aB16b", "aB8b", "AB4b4a", "aB2b8b")
_STARTS = (0, 1, 5, 8, 16, 19, 32)


def _desc(n: int, tag: str) -> MemoryDesc:
    return MemoryDesc((3, n), "f32", tag)


def _places(nest: LoopNest) -> Iterator[tuple[int, int | None]]:
    """Return the offsets that each position of a nest writes and reads; None for zero."""
    for box in peel(nest):
        for index in product(*(range(axis.extent) for axis in box.axes)):
            pairs = list(zip(box.axes, index, strict=True))
            src = box.src_base + sum(axis.src_offset(i) for axis, i in pairs)
            dst = box.dst_base + sum(axis.dst_offset(i) for axis, i in pairs)
            yield dst, src if all(i < axis.valid for axis, i in pairs) else None


@pytest.mark.sweep(1)
@pytest.mark.parametrize("src_tag", _LAYOUTS)
@pytest.mark.parametrize("dst_tag", _LAYOUTS)
def test_every_place_of_a_window_is_written_once(src_tag, dst_tag):
    for start, n, is_last in product(_STARTS, (1, 7, 40), (False, True)):
        src, dst = _desc(n, src_tag), _desc(start + n + (0 if is_last else 9), dst_tag)
        until = dst.padded_dims[1] if is_last else start + n
        moves = window_moves(src, Window(dst, 1, start, until))
        found = [place for move in moves for place in _places(move.nest)]
        wanted = {
            dst.offset(i, start + j): src.offset(i, j) if i < 3 and j < n else None
            for i, j in product(range(dst.padded_dims[0]), range(until - start))
        }
        assert dict(found) == wanted
        assert max(Counter(at for at, _ in found).values()) == 1
        _check_spans(moves)
        zeros = [place for move in moves for each in move.padding() for place in _places(each.nest)]
        # Strips of two dims cross each other.
        assert {at for at, _ in zeros} == {at for at, read in wanted.items() if read is None}
        assert all(read is None for _, read in zeros)


def _check_spans(moves) -> None:
    for move in moves:
        places = list(_places(move.nest))
        reads = [read for _, read in places if read is not None]
        assert all(move.written[0] <= at < move.written[1] for at, _ in places)
        assert all(move.read[0] <= read < move.read[1] for read in reads)


@pytest.mark.parametrize(
    ("tags", "start", "pieces"),
    [
        ("ab ab", 5, 1),
        ("ab aB16b", 5, 2),
        ("aB16b aB16b", 16, 1),
        ("aB16b aB16b", 5, 3),
        ("aB8b aB16b", 5, 5),
    ],
)
def test_pieces_that_repeat_are_one_nest(tags, start, pieces):
    src, dst = tags.split()
    moves = window_moves(_desc(400 + 7, src), Window(_desc(start + 407 + 9, dst), 1, start, start + 407))
    assert len(moves) <= pieces + (pieces > 2)


def test_a_window_is_like_its_submemory():
    for tag, start in product(("ab", "ba", "aB16b", "AB4b4a"), (0, 16, 32)):
        dst = _desc(53, tag)
        window = Window(dst, 1, start, start + 16)
        part = dst.submemory_desc((3, 16), (0, start))
        assert window.origin == part.offset0
        assert window.is_like(part)
        assert not window.is_like(part.as_type("f16"))
        assert not window.is_like(_desc(16, "ba" if tag == "ab" else "ab"))
        assert window.is_like(part.as_type("s32"))


def test_padding_of_many_dims_is_a_strip_for_each():
    dims = (3,) * 6
    dst = MemoryDesc(dims, "f32", "ABCDEF2a2b2c2d2e2f")
    (move,) = window_moves(dst, Window(dst, 0, 0, 4))
    strips = list(move.padding())
    assert len(strips) == len(dims)
    places = [place for strip in strips for place in _places(strip.nest)]
    elements = {dst.offset(*index) for index in product(*map(range, dims))}
    assert {at for at, _ in places} == set(range(4**6)) - elements
    assert {read for _, read in places} == {None}
