"""Layers of networks as the benchmark measures them."""

from __future__ import annotations

import pytest

from restride.runtime.cpu.multiply_adds import peak
from restride_bench import layers, recurrent
from restride_bench.layers import LAYERS, TYPES, convolution, matmul
from restride_bench.peers import open_peers
from restride_bench.study import BenchSetup


def test_every_layer_is_measured_with_all_types(monkeypatch: pytest.MonkeyPatch) -> None:
    small = [convolution("a convolution", 8, 16, 7, 3, 2), matmul("a product", 4, 8, 16)]
    monkeypatch.setattr(layers, "LAYERS", small)
    monkeypatch.setattr(layers, "peak", lambda threads: 1e9 * threads)
    monkeypatch.setattr(layers, "_COPIED", 1 << 16)
    found = layers.measure(BenchSetup([], [], 1, 2, 0))
    assert [(each.name, each.about["types"]) for each in found] == [
        (layer.name, types) for types in TYPES for layer in small
    ]
    assert found[0].operations == 2 * 16 * 4 * 4 * 8 * 3 * 3
    assert found[1].operations == 2 * 4 * 8 * 16
    assert all(each.rate() > 0 and each.over("oneDNN") is None for each in found)
    # A source of channels in blocks comes from row-major memory; products of matrices are row-major.
    assert all(each.seconds("restride, reordered") > 0 for each in found)
    assert list(layers.by_kind(found)) == [(types, 1) for types in TYPES]


def test_groups_sum_their_own_inputs() -> None:
    depthwise = convolution("depthwise", 32, 32, 8, 3, batch=2, groups=32)
    assert depthwise.dims == ((2, 32, 8, 8), (32, 1, 1, 3, 3), (2, 32, 8, 8))
    assert depthwise.operations == 2 * 2 * 32 * 8 * 8 * 9
    assert convolution("two groups", 8, 6, 4, 1, groups=2).operations == 2 * 6 * 4 * 4 * 4


def test_layers_fit() -> None:
    assert all(layer.operations > 10**6 for layer in LAYERS)
    assert LAYERS[0].dims == ((1, 64, 56, 56), (64, 64, 3, 3), (1, 64, 56, 56))


def test_a_processor_has_a_peak() -> None:
    assert 1e8 < peak(1) < 1e13


@pytest.mark.peer
def test_layers_and_networks_are_measured_against_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    peers, missing = open_peers(["restride", "oneDNN"], 1)
    if missing:
        pytest.skip(f"missing: {missing}")
    setting = BenchSetup(peers, peers, 1, 1, 0)
    small = [convolution("a convolution", 8, 16, 7, 3, 2, groups=2), matmul("a product", 4, 8, 16)]
    monkeypatch.setattr(layers, "LAYERS", small)
    monkeypatch.setattr(layers, "peak", lambda threads: 1e9 * threads)
    monkeypatch.setattr(layers, "_COPIED", 1 << 16)
    rows = [row for row in layers.measure(setting) if row.about["types"] == "f32"]
    assert all(row.over("oneDNN") and row.over("oneDNN, reordered") and not row.refused for row in rows)
    assert "| a product | f32 | 1 |" in layers.page(rows)
    network = recurrent.measure(recurrent.NetworkShape("LSTM", 2, 1, 16), setting)
    assert network.over("oneDNN")
    assert (network.wrong, network.refused) == ({}, {})
