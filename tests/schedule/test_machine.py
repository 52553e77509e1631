"""The model of the machine: what stands in it, that each number tells its reason, and what may not ask it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import fields
from pathlib import Path

import pytest

import restride
from restride.schedule.machine import (
    HUGE_PAGE,
    LIMITS,
    LINE,
    NOMINAL,
    RATES,
    Cache,
    CodeLimits,
    DeviceFacts,
    Machine,
    Rates,
)
from restride.targets.cpu import machine_of
from restride.targets.isa import CacheSizes, Isa

_ROOT = Path(restride.__file__).parent
_LEVELS = ("generic", "sse41", "avx2", "avx512", "neon")
_UNITS = {
    *("bytes", "bits", "elements", "types", "true or false", "ways", "registers", "instructions"),
    *("multiply-adds", "streams", "steps", "parts", "microseconds", "seconds", "bytes per second"),
    *("boxes", "schedules", "positions", "kinds", "taps", "pieces", "items"),
}


# --- each number tells its unit and its reason --------------------------------------------------------------


@pytest.mark.parametrize("kind", [Machine, CodeLimits, Rates, DeviceFacts])
def test_every_field_has_a_line_with_its_unit_and_its_reason(kind: type) -> None:
    text = " ".join((kind.__doc__ or "").split())
    lines = re.findall(r"- `(\w+)` \(([a-z -]+)\): (.*?)(?= - `|$)", text)
    names = kind._fields if issubclass(kind, tuple) else [field.name for field in fields(kind)]
    assert sorted(name for name, _, _ in lines) == sorted(names)
    assert {unit for _, unit, _ in lines} <= _UNITS
    assert all(len(reason) > 8 for _, _, reason in lines)


def test_what_follows_from_fields_says_why() -> None:
    rules = {name: rule for name, rule in vars(Machine).items() if isinstance(rule, property)}
    assert {"block", "far_ahead", "multiply_adds"} < rules.keys()
    assert all(rule.__doc__ for rule in rules.values())


# --- machines of instruction sets ---------------------------------------------------------------------------


@pytest.mark.parametrize("level", _LEVELS)
def test_the_machine_of_an_instruction_set_is_sane(level: str) -> None:
    isa = Isa.for_name(level)
    machine = machine_of(isa, CacheSizes())
    assert machine.vector_bytes == isa.vector_bytes <= machine.line
    assert machine.registers in (16, 32)
    assert machine.line % LINE == 0 == machine.page % machine.line == HUGE_PAGE % machine.page
    assert machine.l1 < machine.l2 < machine.l3
    assert machine.short_run_bytes < machine.run_bytes < machine.page
    assert machine.ahead_bytes < machine.ahead_in_run_bytes < machine.l1
    assert 0 < machine.near_load < machine.far_load < machine.lone_load
    assert machine.held_sums < 32
    assert machine.step_bytes < machine.alone_bytes < machine.part_bytes
    assert machine.block * 2 == machine.l1
    assert machine.far_ahead < machine.l2


def test_what_is_told_is_filled_in_and_the_rest_is_nominal() -> None:
    machine = machine_of(Isa.for_name("neon"), CacheSizes(l2=3 << 20, l3=5 << 20, line=128))
    assert (machine.registers, machine.l2, machine.l3, machine.line) == (32, 3 << 20, 5 << 20, 128)
    told = {"vector_bytes", "registers", "l2", "l3", "line", "adds_pairs", "dots"}
    others = {field.name for field in fields(Machine)} - told
    assert all(getattr(machine, name) == getattr(NOMINAL, name) for name in others)


def test_wide_vectors_have_one_port() -> None:
    found = {level: machine_of(Isa.for_name(level), CacheSizes()).multiply_adds for level in _LEVELS}
    assert found == {"generic": 2, "sse41": 2, "avx2": 2, "avx512": 1, "neon": 2}


def test_limits_of_a_part_are_within_those_of_all() -> None:
    assert LIMITS.tile <= LIMITS.copied
    assert LIMITS.tiled_boxes_of_items <= LIMITS.boxes_of_items <= LIMITS.boxes_in_blocks <= LIMITS.boxes
    assert LIMITS.masked <= LIMITS.window
    assert LIMITS.unrolled_loads <= LIMITS.unrolled


def test_wider_vectors_make_faster_tiles_and_no_faster_ones_than_copies() -> None:
    assert RATES.tile(16) < RATES.tile(32) < RATES.tile(64) < RATES.copy
    assert RATES.memory < RATES.memory_limit < RATES.cache < RATES.copy


# --- the order of sums knows no machine ---------------------------------------------------------------------


def _names_by_module(path: Path) -> dict[str, set[str]]:
    """Return the imports of a module, by the last part of their names."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            found.setdefault((node.module or "").rpartition(".")[2], set()).update(
                alias.name for alias in node.names
            )
    return found


def test_the_numbers_of_the_order_of_sums_are_of_no_machine() -> None:
    assert set(_names_by_module(_ROOT / "schedule/fold_order.py")) == {"__future__"}


def test_what_decides_the_order_of_sums_asks_no_machine_that_was_detected() -> None:
    every = {path: _names_by_module(path) for path in _ROOT.rglob("*.py")}
    deciding = {path: names for path, names in every.items() if "fold_order" in names}
    assert len(deciding) > 4
    deciding |= {path: names for path, names in every.items() if path.parent.name == "trees"}
    for path, names in deciding.items():
        assert names.get("machine", set()) <= {"NOMINAL", "LIMITS", "LINE", "SHORTEST_VECTOR"}, path
        assert not names.keys() & {"isa", "cpu", "rates", "reorder_plan", "timing"}, path


def test_measured_rates_reach_printed_predictions_alone() -> None:
    asking = {path.name for path in _ROOT.rglob("*.py") if "rates" in _names_by_module(path)}
    assert asking == {"reorder_plan.py", "roof.py"}


# --- caches -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cache", [Cache(512, 4), Cache(768, 12), Cache(640, 8)], ids=str)
@pytest.mark.parametrize("step", [1, 24, 64, 96, 128, 160, 1024])
def test_rows_overflow_a_cache_where_more_of_them_share_a_place_in_its_ways_than_there_are_ways(
    cache: Cache, step: int
) -> None:
    way = cache.size // cache.ways
    for rows in range(1, 200):
        shared = Counter(row * step % way for row in range(rows))
        assert cache.overflows(rows, step) == (max(shared.values()) > cache.ways)


def test_a_way_of_the_first_cache_is_a_page() -> None:
    machine = Machine()
    assert machine.first_cache.size // machine.first_cache.ways == machine.page


def test_the_second_cache_has_the_size_that_was_told() -> None:
    assert Machine(l2=3 << 20).second_cache.size == 3 << 20


def test_rows_of_no_distance_are_one_row() -> None:
    assert not Cache(512, 4).overflows(1 << 20, 0)
