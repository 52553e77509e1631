"""The benchmark of levels of instruction sets: which there are, and that each has kernels of its own."""

from __future__ import annotations

import os

import pytest

import restride as rs
from restride.targets.isa import host_isa
from restride_bench import memory_bound, studies
from restride_bench.array_peers import NumPy
from restride_bench.study import BenchSetup


def test_the_levels_of_a_machine_end_with_its_own() -> None:
    assert memory_bound.levels()[-1] == host_isa().name


def test_each_level_has_its_kernels_and_settings_are_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_bound, "_OF_LEVELS", ("eltwise relu",))
    monkeypatch.setenv("RESTRIDE_MAX_CPU_ISA", "ALL")
    kept, found = rs.get_primitive_cache_capacity(), []
    execute = rs.EltwiseForward.execute

    def noted(self: rs.EltwiseForward, *args: object) -> None:
        found.append(self.get_primitive_desc().impl_info_str)
        execute(self, *args)

    monkeypatch.setattr(rs.EltwiseForward, "execute", noted)
    (row,) = memory_bound.measure_levels(BenchSetup([], [NumPy(1)], 1, 2, 1000))
    assert {name.split(":")[1].split("+")[0] for name in found} == set(memory_bound.levels())
    assert tuple(row.times) == memory_bound.levels()
    assert row.rate(memory_bound.levels()[-1]) > 0
    assert (os.environ["RESTRIDE_MAX_CPU_ISA"], rs.get_primitive_cache_capacity()) == ("ALL", kept)
    page = studies.as_markdown(studies.Studies(rows={"levels": [row]}))
    assert "## Levels of instruction sets" in page
    assert "eltwise relu" in page
