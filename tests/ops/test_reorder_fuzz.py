"""Random reorders, compiled for every instruction set that runs here: bit for bit what is interpreted."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, reject, seed, settings
from hypothesis import strategies as st

from restride.desc.memory_desc import MemoryDesc
from restride.errors import Unimplemented
from restride.ir.digits import reorder_nest
from restride.targets.isa import Isa
from support.descriptors import crowded, pairs
from support.effort import examples
from support.kernels import (
    COMMON,
    TINY,
    check,
    compute_of,
    destination,
    isa_id,
    random_source,
    runnable,
    tame,
)

_FACTORS = (1.0, 1.0, 1.0, 0.5, -3.7, 0.0, -0.0, 4294967295.0, 1e-30, float("inf"), float("nan"))
_BETAS = (0.0, 0.0, 0.0, 1.0, -0.25, 3e38, float("-inf"), float("nan"))


@dataclass(frozen=True)
class Case:
    """One random reorder and how to run it: factors, shares, where buffers begin, tiny caches."""

    src: MemoryDesc
    dst: MemoryDesc
    isa: Isa
    alpha: float = 1.0
    beta: float = 0.0
    parts: int = 1
    shift: tuple[int, int] = (0, 0)
    streams: bool = False
    is_large: bool = False

    def __repr__(self) -> str:
        kind = " streaming" * self.streams + " past the caches" * self.is_large
        return (
            f"{self.src} to {self.dst} alpha {self.alpha} beta {self.beta} for {isa_id(self.isa)}{kind}, "
            f"{self.parts} parts, {self.shift} bytes past a page"
        )


@st.composite
def _cases(draw: st.DrawFn, ends: st.SearchStrategy[tuple[MemoryDesc, MemoryDesc]]) -> Case:
    # Kernels move whole bytes; tests/ir/test_rewrites.py has what becomes of 4-bit types.
    src, dst = draw(ends.filter(lambda pair: all(md.data_type.bits >= 8 for md in pair)))
    streams = draw(st.booleans())
    return Case(
        src,
        dst,
        isa=draw(st.sampled_from(runnable())),
        alpha=draw(st.sampled_from(_FACTORS)),
        beta=draw(st.sampled_from(_BETAS)),
        parts=draw(st.sampled_from((1, 1, 2, 5, 64))),
        # Streaming stores are promised a destination on a cache line; nothing else is promised anything.
        shift=(draw(st.sampled_from((0, 1, 4))), 0 if streams else draw(st.sampled_from((0, 0, 1, 3, 64)))),
        streams=streams,
        is_large=streams or draw(st.booleans()),
    )


def _try(case: Case) -> None:
    try:
        nest = reorder_nest(case.src, case.dst, compute_of(case.alpha, case.beta))
    except Unimplemented as error:
        # Blocks that meet again only after a million steps are refused, as documented; nothing else is.
        if error.code != "RS-L01":
            raise
        reject()
    src = random_source(case.src, 1, case.shift[0])
    tame(src, case.src.data_type, 2)
    dst = destination(case.dst, 3, case.shift[1])
    check(
        nest,
        src,
        dst,
        [case.isa],
        factors=(case.alpha, case.beta),
        parts=case.parts,
        may_stream=case.streams,
        caches=TINY if case.is_large else COMMON,
    )


@settings(max_examples=examples(100))
@given(_cases(pairs()))
def test_random_reorders_equal_the_interpreter(case: Case) -> None:
    _try(case)


@settings(max_examples=8)
@given(_cases(crowded()))
def test_random_reorders_of_many_blocked_axes_equal_the_interpreter(case: Case) -> None:
    """As many boxes as are ever peeled take a third of a second to compile."""
    _try(case)


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(20))
def test_many_random_reorders_equal_the_interpreter(shard: int) -> None:
    @seed(shard)
    @settings(max_examples=1000, derandomize=False)
    @given(_cases(st.one_of(*[pairs()] * 6, crowded())))
    def run(case: Case) -> None:
        _try(case)

    run()
