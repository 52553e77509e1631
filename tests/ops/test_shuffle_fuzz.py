"""Random shuffles: primitives on both engines, and kernels of every instruction set that runs here."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

import restride as rs
from restride.desc.memory_desc import MemoryDesc
from restride.dtypes import DataType
from restride.plan.conversion import storage_dtype
from restride.targets.isa import Isa
from support.descriptors import destinations, sources
from support.effort import examples
from support.kernels import COMMON, TINY, destination, random_source, runnable
from support.shuffles import ChosenKernel, ShuffleCase, by_offset, check_both

# Many divisors, primes, and what leaves a part of a block.
_CHANNELS = (1, 2, 6, 8, 12, 15, 16, 17, 24, 30, 32, 36, 39, 48, 60, 64, 72, 96, 100, 120, 128, 130)
_OTHERS = (1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 33)
_MOST = 20_000
_TYPES = tuple(kind for kind in DataType if kind.bits >= 8)
_ALL_TYPES = tuple(kind for kind in DataType if kind.bits >= 4)


@dataclass(frozen=True)
class Shape:
    """Dims, which of them is shuffled, and by what."""

    dims: tuple[int, ...]
    axis: int
    group_size: int


@st.composite
def _shapes(draw: st.DrawFn) -> Shape:
    channels = draw(st.sampled_from(_CHANNELS))
    room, others = _MOST // channels, list[int]()
    for _ in range(draw(st.integers(0, 5))):
        others.append(draw(st.sampled_from([n for n in _OTHERS if n <= room])))
        room //= others[-1]
    axis = draw(st.integers(0, len(others)))
    divisors = [n for n in range(1, channels + 1) if channels % n == 0]
    dims = (*others[:axis], channels, *others[axis:])
    return Shape(dims, axis, draw(st.sampled_from(divisors)))


@st.composite
def _same(draw: st.DrawFn) -> tuple[MemoryDesc, Shape]:
    shape = draw(_shapes())
    return draw(destinations(shape.dims, draw(st.sampled_from(_ALL_TYPES)))), shape


@st.composite
def _pairs(draw: st.DrawFn) -> tuple[MemoryDesc, MemoryDesc, Shape]:
    shape, kind = draw(_shapes()), draw(st.sampled_from(_TYPES))
    return draw(sources(shape.dims, kind)), draw(destinations(shape.dims, kind)), shape


_starts = st.sampled_from((0, 1, 4, 63))
_engines = st.sampled_from((rs.Engine("cpu"), rs.Engine("cpu"), rs.Engine("reference")))


@settings(max_examples=examples(120))
@given(_same(), _engines, _starts, _starts)
def test_random_shuffles_write_what_offsets_say(
    what: tuple[MemoryDesc, Shape], engine: rs.Engine, start: int, other: int
) -> None:
    md, shape = what
    check_both(md, shape.axis, shape.group_size, engine, (start, other))


@dataclass(frozen=True)
class Kind:
    """How a kernel is made and run."""

    isa: Isa
    parts: int
    streams: bool
    is_large: bool
    shift: int


@st.composite
def _kinds(draw: st.DrawFn) -> Kind:
    streams = draw(st.booleans())
    return Kind(
        draw(st.sampled_from(runnable())),
        draw(st.sampled_from((1, 2, 5, 64))),
        streams,
        streams or draw(st.booleans()),
        0 if streams else draw(st.sampled_from((0, 1, 3, 64))),
    )


def _try(what: tuple[MemoryDesc, MemoryDesc, Shape], kind: Kind) -> None:
    src_md, dst_md, shape = what
    src, dst = random_source(src_md, 1), destination(dst_md, start=kind.shift)
    word = storage_dtype(dst_md.data_type)
    wanted = by_offset(src.view(word), src_md, dst.view(word), dst_md, shape.axis, shape.group_size)
    case = ShuffleCase("", src_md, dst_md, shape.axis, shape.group_size)
    kernel = ChosenKernel(case, kind.isa, TINY if kind.is_large else COMMON, may_stream=kind.streams)
    kernel(src.ctypes.data, dst.ctypes.data, parts=kind.parts)
    assert (dst.view(word) == wanted).all(), str(kernel.lowered)


@settings(max_examples=examples(60))
@given(_pairs(), _kinds())
def test_random_kernels_write_what_offsets_say(
    what: tuple[MemoryDesc, MemoryDesc, Shape], kind: Kind
) -> None:
    _try(what, kind)


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(10))
def test_many_random_shuffles(shard: int) -> None:
    @seed(shard)
    @settings(max_examples=600, derandomize=False)
    @given(_same(), _pairs(), _kinds(), _engines, _starts)
    def run(
        same: tuple[MemoryDesc, Shape],
        pair: tuple[MemoryDesc, MemoryDesc, Shape],
        kind: Kind,
        engine: rs.Engine,
        start: int,
    ) -> None:
        check_both(same[0], same[1].axis, same[1].group_size, engine, (start, 0))
        _try(pair, kind)

    run()
