"""Tiles of products: what the benchmark finds, and that none changes an answer."""

from __future__ import annotations

import pytest

from restride_bench import tiles
from restride_bench.layers import convolution, matmul
from restride_bench.tiles import TileTimes


def test_the_tile_of_the_model_is_weighed_with_the_best() -> None:
    found = TileTimes("a layer", {"14 x 2": 3.0, "7 x 3": 2.0, "8 x 2": 4.0})
    assert found.over_best == 1.5
    assert found.best == "7 x 3"


def test_layers_are_run_with_every_tile_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "_ROUNDS", 1)
    monkeypatch.setattr(tiles, "_MOST_TILES", 4)
    for layer in (convolution("a convolution", 16, 32, 9, 3), matmul("a product", 9, 16, 48)):
        found = tiles.measure(layer, "f32")
        assert found is not None
        assert len(found.tiles) == 4
        assert all(seconds > 0 for seconds in found.tiles.values())


def test_a_line_is_printed_for_each_layer(monkeypatch, capsys) -> None:
    monkeypatch.setattr(tiles, "LAYERS", (matmul("a product", 9, 16, 48), matmul("another", 9, 16, 48)))
    times = TileTimes("a product", {"9 x 2": 1.0, "9 x 3": 1.0})
    monkeypatch.setattr(tiles, "measure", lambda layer, kind: times if kind == "f32" else None)
    tiles.main(["f32", "a product"])
    assert capsys.readouterr().out.splitlines() == [
        "f32     1.00  9 x 2 of 2, best 9 x 2  a product",
        "f32: mean 1.000, most 1.00",
    ]
