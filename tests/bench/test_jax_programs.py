"""Programs of JAX as the benchmark measures them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from restride_bench.jax_programs import JaxRow, measure_row, page, rows
from restride_bench.study import BenchSetup

_SMALL = [
    JaxRow("convolution 3x3", "small", ((2, 4, 6, 6), (4, 1, 3, 3)), {"groups": 4, "stride": 2}),
    JaxRow("deconvolution 4x4", "small", ((1, 4, 5, 5), (4, 3, 4, 4)), {"stride": 2, "padding": 1}),
    JaxRow("matmul", "small", ((3, 4), (4, 5))),
    JaxRow("attention causal", "small", ((1, 2, 5, 8),) * 3, {"causal": True}),
]


def test_rows_have_names_of_their_own() -> None:
    names = [row.name for row in rows()]
    assert len(names) == len({*names}) > 50


@pytest.mark.peer
@pytest.mark.parametrize("row", _SMALL, ids=lambda row: row.kind)
def test_programs_are_measured_against_those_of_jax(row: JaxRow) -> None:
    own = pytest.importorskip("restride.jax")
    variants = [replace(row, is_gradient=gradient) for gradient in (False, True)]
    if "convolution" in row.kind:
        variants += [replace(each, is_last=True) for each in variants]
    found = [measure_row(BenchSetup([], [], 1, 2, 0), each, own) for each in variants]
    assert all(row.over("JAX") for row in found), [row.wrong for row in found]
    assert f"| geometric mean, {row.kind} gradient |" in page(found)
