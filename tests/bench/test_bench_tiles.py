"""Tiles of products: what the benchmark finds, and that none changes an answer."""

from __future__ import annotations

import pytest

from restride_bench import tiles
from restride_bench.layers import convolution, matmul
from restride_bench.measure import Timing
from restride_bench.study import BenchRow, BenchSetup


def test_layers_are_run_with_every_tile_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "_SETUP", BenchSetup((), (), 1, 1, 0))
    monkeypatch.setattr(tiles, "_MOST_TILES", 4)
    for layer in (convolution("a convolution", 16, 32, 9, 3), matmul("a product", 9, 16, 48)):
        found = tiles.measure(layer, "f32")
        assert found is not None
        assert len(found.times) == 4
        assert all(seconds > 0 for seconds in map(found.seconds, found.times))


def test_a_line_is_printed_for_each_layer(monkeypatch, capsys) -> None:
    monkeypatch.setattr(tiles, "LAYERS", (matmul("a product", 9, 16, 48), matmul("another", 9, 16, 48)))
    times = {"9 x 2": Timing((3.0, 4.0)), "9 x 3": Timing((2.0, 5.0))}
    times = BenchRow("a product", 0, times, is_by_least=True)
    monkeypatch.setattr(tiles, "measure", lambda layer, kind: times if kind == "f32" else None)
    tiles.main(["f32", "a product"])
    assert capsys.readouterr().out.splitlines() == [
        "f32     1.50  9 x 2 of 2, best 9 x 3  a product",
        "f32: mean 1.500, most 1.50",
    ]
