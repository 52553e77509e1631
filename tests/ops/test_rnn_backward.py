"""Gradients of recurrent networks, beside differences of the formula in doubles; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import restride as rs
from support.computed import elements, memory_of
from support.engines import run
from support.errors import refused
from support.rnn import CELLS, DIRECTIONS, Shape, arguments, backward, dims_of, forward, reference

CPU = rs.Engine("cpu")
_SHAPE = Shape(4, 3, 6, 6, 2)
_WRITTEN = (rs.ARG_DST_LAYER, rs.ARG_DST_ITER, rs.ARG_DST_ITER_C)
_GRADIENT = {1: 129, 2: 130, 3: 131, 33: 161, 34: 162, 41: 169, 17: 145, 18: 146, 19: 147}


def _gradients(engine: rs.Engine, shape: Shape, cell: str, direction: str, **options: Any) -> Any:
    """The inputs, the gradients of outputs, and the computed gradients."""
    values = arguments(shape, cell, direction, 1)
    without = options.pop("without", ())
    for arg in without:
        values.pop(arg, None)
    flags = options.pop("flags", "undef")
    changes = {"states": None} if rs.ARG_SRC_ITER in without else {}
    changes |= {"bias": None} if rs.ARG_BIAS in without else {}
    hint = forward(engine, shape, cell, direction, "forward_training", **options, **changes)
    back = backward(engine, hint, shape, cell, direction, flags=flags)
    memories = {
        arg: memory_of(hint.query_md("exec_arg_md", arg), each, engine) for arg, each in values.items()
    }
    for arg in (*_WRITTEN, rs.ARG_WORKSPACE):
        if arg in hint._exec_args():
            memories[arg] = rs.Memory(hint.query_md("exec_arg_md", arg), engine)
    run(getattr(rs, f"{cell}Forward")(hint), engine, memories)
    rng, given = np.random.default_rng(2), {}
    for arg in _WRITTEN:
        if arg in memories:
            md = back.query_md("exec_arg_md", _GRADIENT[arg])
            given[arg] = rng.standard_normal(md.dims).astype(np.float32)
            memories[_GRADIENT[arg]] = memory_of(md, given[arg], engine)
    for arg in values:
        md = back.query_md("exec_arg_md", _GRADIENT[arg])
        start = np.ones(md.dims) if arg in (33, 34, 41) else np.full(md.dims, np.nan)
        memories[_GRADIENT[arg]] = memory_of(md, start.astype(np.float32), engine)
    run(getattr(rs, f"{cell}Backward")(back), engine, memories)
    found = {arg: elements(memories[_GRADIENT[arg]]) - (arg in (33, 34, 41)) for arg in values}
    return values, given, found


def _check(cell: str, direction: str, values: Any, given: Any, found: Any, tolerance: float = 2e-4) -> None:
    """Along random directions, and along single elements, gradients are differences of the formula."""
    rng = np.random.default_rng(3)
    wide = {arg: each.astype(np.float64) for arg, each in values.items()}

    def loss(arg: int, moved: Any) -> float:
        results = reference(cell, direction, {**wide, arg: wide[arg] + moved})
        return float(sum((results[each] * weights).sum() for each, weights in given.items()))

    for arg in values:
        ways = [rng.standard_normal(wide[arg].shape) for _ in range(2)]
        for _ in range(3):
            one = np.zeros(wide[arg].size)
            one[rng.integers(one.size)] = 1
            ways.append(one.reshape(wide[arg].shape))
        for way in ways:
            difference = (loss(arg, 1e-5 * way) - loss(arg, -1e-5 * way)) / 2e-5
            along = float((found[arg].astype(np.float64) * way).sum())
            assert abs(along - difference) < tolerance * (1 + abs(difference)), (arg, along, difference)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("cell", CELLS)
def test_gradients_are_the_differences_of_the_formula(cell, direction):
    _check(cell, direction, *_gradients(CPU, _SHAPE, cell, direction))


@pytest.mark.parametrize("cell", CELLS)
def test_networks_without_states_and_bias_have_gradients_too(cell):
    without = (rs.ARG_SRC_ITER, rs.ARG_SRC_ITER_C, rs.ARG_BIAS)
    found = _gradients(CPU, Shape(1, 2, 5, 17, 1), cell, "unidirectional_left2right", without=without)
    _check(cell, "unidirectional_left2right", *found)


def test_flags_that_are_not_there_are_refused():
    hint = forward(CPU, _SHAPE, "GRU", "unidirectional_left2right", "forward_training")
    for flags in ("overwrite", 1, None):
        with refused("flags are"):
            backward(CPU, hint, _SHAPE, "GRU", "unidirectional_left2right", flags=flags)


@pytest.mark.parametrize("cell", CELLS)
def test_gradients_have_the_bits_of_one_thread(cell):
    found, before = [], rs.get_num_threads()
    try:
        for threads in (1, 2, 5):
            rs.set_num_threads(threads)
            found.append(_gradients(CPU, Shape(4, 16, 64, 96, 1), cell, "unidirectional_left2right")[2])
    finally:
        rs.set_num_threads(before)
    for arg, value in found[0].items():
        assert {each[arg].tobytes() for each in found} == {value.tobytes()}


def test_descriptors_tell_their_gradients():
    hint = forward(CPU, _SHAPE, "LSTM", "bidirectional_sum", "forward_training")
    back = backward(CPU, hint, _SHAPE, "LSTM", "bidirectional_sum")
    assert back.get_prop_kind() == "backward"
    assert back.workspace_desc() == hint.workspace_desc()
    for name in dims_of(_SHAPE, "LSTM", "bidirectional_sum"):
        assert getattr(back, f"diff_{name}_desc")().dims == getattr(hint, f"{name}_desc")().dims
    assert back.diff_src_desc(2) == back.diff_src_iter_c_desc()
    assert back.diff_weights_desc(1) == back.diff_weights_iter_desc()


@pytest.mark.parametrize(
    ("changes", "texts"),
    [
        ({"prop_kind": "backward_data"}, ("prop_kind is backward_data",)),
        ({"diff_src_layer_desc": None}, ("diff_src_layer_desc is missing",)),
        ({"diff_bias_desc": rs.MemoryDesc((2, 1, 3, 6), "f32")}, ("diff_bias_desc is",)),
        ({"diff_dst_iter_c_desc": None}, ("diff_dst_iter_desc without",)),
        ({"bias_desc": None}, ("its tensor is missing",)),
        ({"direction": "unidirectional_right2left"}, ("its direction is left2right",)),
        ({"diff_src_layer_desc": rs.MemoryDesc((4, 3, 6), "f32", (0, 6, 1))}, ("share memory",)),
    ],
)
def test_gradients_that_do_not_fit_are_refused(changes, texts):
    direction = "unidirectional_left2right"
    hint = forward(CPU, _SHAPE, "LSTM", direction, "forward_training")
    with refused(*texts):
        backward(CPU, hint, _SHAPE, "LSTM", direction, **changes)


def test_hints_of_inference_and_of_other_problems_are_refused():
    direction = "unidirectional_left2right"
    with refused("prop_kind is forward_inference"):
        backward(CPU, forward(CPU, _SHAPE, "GRU", direction), _SHAPE, "GRU", direction)
    other = forward(CPU, _SHAPE._replace(steps=5), "GRU", direction, "forward_training")
    own = forward(CPU, _SHAPE, "GRU", direction, "forward_training")
    with refused("its workspace is"):
        backward(CPU, own, _SHAPE, "GRU", direction, hint_pd=other)


def test_a_workspace_of_another_problem_is_refused():
    direction = "unidirectional_left2right"
    hint = forward(CPU, _SHAPE, "GRU", direction, "forward_training")
    back = backward(CPU, hint, _SHAPE, "GRU", direction)
    memories = {arg: rs.Memory(back.query_md("exec_arg_md", arg), CPU) for arg in back._exec_args()}
    size = hint.workspace_desc().size
    memories[rs.ARG_WORKSPACE] = rs.Memory(rs.MemoryDesc((size - 64,), "u8"), CPU)
    with refused("workspace"):
        rs.GRUBackward(back).execute(rs.Stream(CPU), memories)
