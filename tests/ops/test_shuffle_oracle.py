"""Shuffles beside a real oneDNN: every tag and type it has, forward and backward, byte for byte."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

import restride as rs
from restride.errors import Status
from restride.targets.isa import host_isa
from restride_bench.onednn import OneDNN
from restride_bench.onednn_library import OneDNNError
from support.onednn_oracle import places
from support.shuffles import backward, forward

pytestmark = [pytest.mark.peer, pytest.mark.slow]

# What oneDNN's shuffle has a case for, f16 on some machines only, bf16 with AVX-512. Of f64 it copies
# nothing, and says that it succeeded.
TYPES = ("f32", "bf16", "s32", "s8", "u8", "f16")
_EXTENTS = (12, 36, 6, 4, 3, 2, 1, 2, 1, 2, 1, 2)
_SHARDS = 4
_ON_SOME_MACHINES = ("f16",) if host_isa().name == "avx512" else ("f16", "bf16")
_places = lru_cache(maxsize=4)(places)
CPU, REF = rs.Engine("cpu"), rs.Engine("reference")


@pytest.fixture(scope="module")
def library() -> OneDNN:
    try:
        return OneDNN()
    except OneDNNError as error:
        pytest.skip(str(error))


def _rank(tag: str) -> int:
    return ord(max(filter(str.isalpha, tag.lower()))) - ord("a") + 1


@pytest.mark.parametrize("shard", range(_SHARDS))
def test_every_tag_and_type_of_onednn(
    library: OneDNN, shard: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """One axis and group size for each tag and type; all interpreted, some compiled too."""
    count: Counter[str] = Counter()
    rng = random.Random(shard)
    for number, tag in enumerate(sorted(library.tags)[shard::_SHARDS]):
        dims = list(_EXTENTS[: _rank(tag)])
        rng.shuffle(dims)
        # To compile takes twenty times as long as to interpret.
        compiled = TYPES[number % (3 * len(TYPES)) // 3] if number % 3 == 0 else ""
        for kind in TYPES:
            axis = rng.choice([d for d, n in enumerate(dims) if n > 1])
            group = rng.choice([n for n in range(1, dims[axis] + 1) if dims[axis] % n == 0])
            engines = (REF, CPU) if kind == compiled else (REF,)
            count[_compare(library, (tuple(dims), kind, tag), axis, group, engines)] += 1
    with capsys.disabled():
        print(f"\nshuffle oracle {shard}: {dict(count)}")
    assert count.total() - count["unimplemented"] > 500


@pytest.mark.parametrize("tag", ["abcd", "acdb", "aBcd16b", "aBcd8b", "aBcd4b"])
@pytest.mark.parametrize("kind", TYPES)
def test_larger_ones_equal_onednn(library: OneDNN, kind: str, tag: str) -> None:
    for channels, groups in ((36, (4, 9, 12)), (64, (2, 16)), (244, (2, 61)), (39, (3, 13))):
        for group in groups:
            found = _compare(library, ((3, channels, 17, 19), kind, tag), 1, group, (CPU,))
            assert found != "unimplemented" or kind in _ON_SOME_MACHINES


def _compare(
    library: OneDNN,
    what: tuple[tuple[int, ...], str, str],
    axis: int,
    group: int,
    engines: tuple[rs.Engine, ...],
) -> str:
    """Run both directions on all engines; the name of oneDNN's kernel, or "unimplemented"."""
    desc = library.desc(*what)
    try:
        both = [library.shuffle(desc, axis, group, backward=is_backward) for is_backward in (False, True)]
    except OneDNNError as error:
        if error.status != Status.unimplemented:
            raise
        return "unimplemented"
    md = rs.MemoryDesc(*what)
    # Of every type the elements lie at the same places.
    at = _places(replace(desc.blocking, size=0), desc.size * 8 // md.data_type.bits)
    word = np.dtype(f"u{md.data_type.bits // 8}")
    src = np.random.default_rng(0).integers(0, 256, desc.size, np.uint8)
    src.view(word)[at.padding] = 0
    for primitive, args, make in zip(both, ((1, 17), (145, 129)), (forward, backward), strict=True):
        theirs = np.full(desc.size, 0xFF, np.uint8)
        memories = (library.memory(desc, held.view(word)) for held in (src, theirs))
        primitive.bind_all(dict(zip(args, memories, strict=True)))()
        # oneDNN leaves some paddings as they were; ours are zero (N14).
        theirs.view(word)[at.padding] = 0
        for engine in engines:
            ours = np.full(desc.size, 0xFF, np.uint8)
            source, target = rs.Memory(md, engine, src), rs.Memory(md, engine, ours)
            make(md, axis, group, engine).execute(rs.Stream(engine), source, target)
            bad = np.flatnonzero(ours != theirs)
            assert not bad.size, (
                f"{what} axis {axis} group {group} {make.__name__} {engine} "
                f"beside {primitive.impl}: {bad[:8]}"
            )
    return both[-1].impl
