"""restride compared with oneDNN: bit for bit (but N4, N5), every descriptor field, every padding byte."""

from __future__ import annotations

from collections import Counter

import hypothesis
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import restride as rs
from restride.errors import Status
from restride_bench.onednn import OneDNN, OneDNNDesc
from restride_bench.onednn_library import OneDNNError
from support.onednn_oracle import (
    Case,
    Results,
    Side,
    fill,
    mismatch,
    onednn_desc,
    restride_desc,
    run_onednn,
    run_restride,
)
from support.onednn_oracle_cases import cases

pytestmark = [pytest.mark.peer, pytest.mark.slow]

_BATCHES, _PER_BATCH = 8, 250


@pytest.fixture(scope="module")
def library() -> OneDNN:
    try:
        return OneDNN()
    except OneDNNError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("batch", range(_BATCHES))
def test_reorder_equals_onednn(library: OneDNN, batch: int, capsys: pytest.CaptureFixture[str]) -> None:
    """250 cases a batch that oneDNN implements; the others are counted and replaced."""
    count: Counter[str] = Counter()

    @hypothesis.seed(batch)
    @settings(max_examples=_PER_BATCH, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(cases(library))
    def check(case: Case) -> None:
        _check(library, case, count)

    check()
    refused = count.pop("unimplemented", 0)
    with capsys.disabled():
        print(f"\noracle {batch}: {count.total()} equal, {refused} unimplemented in oneDNN; {dict(count)}")
    assert count.total() >= _PER_BATCH


def test_the_oracle_sees_one_wrong_bit_in_element_padding_and_gap(library: OneDNN) -> None:
    dims = (3, 17, 2)
    case = Case(dims, Side("f32", dims, "abc"), Side("f32", (5, 17, 2), "aBc16b", (1, 0, 0)), None, None, 1)
    where = tuple(onednn_desc(library, case, side)[1] for side in (case.src, case.dst))
    src, old = fill(case, case.src, where[0], source=True), fill(case, case.dst, where[1], source=False)
    theirs = old.copy()
    kernel = run_onednn(library, case, src, theirs)
    right = theirs.copy()
    right.view(np.uint32)[where[1].padding] = 0
    assert not mismatch(case, (src, old), where, Results(right, theirs, kernel))
    for offsets in (where[1].elements, where[1].padding, where[1].gaps):
        wrong = right.copy()
        wrong.view(np.uint32)[offsets[-1]] ^= 1
        assert mismatch(case, (src, old), where, Results(wrong, theirs, kernel))


def _check(library: OneDNN, case: Case, count: Counter[str]) -> None:
    (source, at_source), (target, at_target) = (
        onednn_desc(library, case, side) for side in (case.src, case.dst)
    )
    src = fill(case, case.src, at_source, source=True)
    old = fill(case, case.dst, at_target, source=False)
    theirs = old.copy()
    try:
        impl = run_onednn(library, case, src, theirs)
    except OneDNNError as error:
        if error.status != Status.unimplemented:
            raise
        count["unimplemented"] += 1
        hypothesis.reject()
    for side, desc in ((case.src, source), (case.dst, target)):
        _equal_fields(restride_desc(case, side), desc)
    for kind in ("reference", "cpu"):
        ours = old.copy()
        kernel = run_restride(kind, case, src, ours)
        found = mismatch(case, (src, old), (at_source, at_target), Results(ours, theirs, impl))
        assert not found, f"{kind} ({kernel}) beside oneDNN's {impl}: {found}"
    count[impl] += 1


def _equal_fields(ours: rs.MemoryDesc, theirs: OneDNNDesc) -> None:
    wanted = theirs.blocking
    fields = {name: getattr(ours, name) for name in vars(wanted)}
    assert fields == vars(wanted), str(ours)
