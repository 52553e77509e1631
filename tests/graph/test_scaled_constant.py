"""Weights times a factor that are multiplied when they are read, and held by nobody."""

from __future__ import annotations

import gc
import pickle
import weakref

import numpy as np
import pytest

import restride as rs
from restride.graph import BatchNormalizationOperation, ConvolutionOperation, GraphBuilder
from restride.graph.graph import Constant
from restride.graph.nodes.operations import TensorType
from restride.graph.rewrites import scaled_constant as module
from restride.graph.rewrites.scaled_constant import ScaledConstant

Array = np.ndarray


def values(*dims: int, seed: int = 0) -> Array:
    return np.random.default_rng((seed, *dims)).standard_normal(dims).astype(np.float32)


WEIGHTS, FACTOR = values(4, 3, 2), np.linspace(0.1, 3, 4).reshape(4, 1, 1)


def test_values_are_products_in_doubles_rounded_once() -> None:
    made = ScaledConstant(Constant(WEIGHTS), FACTOR)
    assert np.array_equal(made.values, (WEIGHTS.astype(np.float64) * FACTOR).astype(np.float32))
    assert made.type == TensorType((4, 3, 2))
    with pytest.raises(ValueError, match="read-only"):
        made.values[0] = 1
    halves = ScaledConstant(Constant(WEIGHTS.astype(np.float16)), FACTOR)
    assert np.array_equal(halves.values, (WEIGHTS.astype(np.float16) * FACTOR).astype(np.float32))
    assert halves.type == made.type


def test_values_of_another_type_are_rounded_from_f32() -> None:
    made = ScaledConstant(Constant(WEIGHTS), np.ones(()), rs.bf16)
    assert made.type == TensorType((4, 3, 2), rs.bf16)
    assert np.array_equal(made.values, WEIGHTS.astype(rs.bf16.numpy))
    assert made == Constant(made.values) == pickle.loads(pickle.dumps(made))
    assert made != ScaledConstant(Constant(WEIGHTS), np.ones(()))


def test_values_go_when_their_reader_does() -> None:
    made = ScaledConstant(Constant(WEIGHTS), FACTOR)
    alive = weakref.ref(made.values)
    gc.collect()
    assert alive() is None


def test_equal_where_the_products_are() -> None:
    made = ScaledConstant(Constant(WEIGHTS), FACTOR)
    assert made == ScaledConstant(Constant(WEIGHTS.copy()), FACTOR.copy()) == pickle.loads(pickle.dumps(made))
    assert made == Constant(made.values)
    assert Constant(made.values) == made
    assert made != ScaledConstant(Constant(WEIGHTS), FACTOR * 2)
    assert made != Constant(WEIGHTS)
    assert hash(made) == hash(Constant(made.values))


def test_folded_weights_are_made_once_for_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = GraphBuilder()
    name = builder.input("x", (1, 16, 8, 8))
    point = ConvolutionOperation((1, 1), (0, 0), (0, 0), (0, 0))
    for seed in range(3):
        norm = [builder.constant(np.abs(values(16, seed=seed + 4 * i)) + 0.5) for i in range(4)]
        name = builder.add(point, name, builder.constant(values(16, 16, 1, 1, seed=seed)))
        name = builder.add(BatchNormalizationOperation(1e-3), name, *norm)
    read: list[Array] = []
    monkeypatch.setattr(module, "release_pages", read.append)
    net = rs.Network(builder.graph(name))
    assert len(net.plan().graph.nodes) == 3
    assert read == []
    net(values(1, 16, 8, 8))
    assert len(read) == 3
