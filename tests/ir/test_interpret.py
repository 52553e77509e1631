"""The interpreter means what the grammar of nests says, element by element, in whatever blocks it works."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings

from restride.dtypes import DataType
from restride.ir import interpret_nest as module
from restride.ir.conversion import Array, Inputs, convert
from restride.ir.interpret_nest import interpret
from restride.ir.nest import Axis, Bound, LoopNest, linear
from support.effort import examples
from support.kernels import factors_of
from support.nests import buffers, nests

_F32, _S8, _U8 = DataType.f32, DataType.s8, DataType.u8


def _one_by_one(nest: LoopNest, src: Array, dst: Array, alpha: float, beta: float) -> None:
    """The docstring of `ir/nest.py`, literally: one position after the other."""
    for at in product(*(range(axis.extent) for axis in nest.axes)):
        axes = list(zip(nest.axes, at, strict=True))
        index = [sum(i * a.step for a, i in axes if a.bound == b) for b in range(len(nest.bounds))]
        if any(i >= bound.padded for i, bound in zip(index, nest.bounds, strict=True)):
            continue
        to = nest.dst_base + sum(axis.dst_offset(i) for axis, i in axes)
        below = all(i < bound.size for i, bound in zip(index, nest.bounds, strict=True))
        if not (below and all(i < axis.valid for axis, i in axes)):
            dst[to] = 0
            continue
        at_src = nest.src_base + sum(axis.src_offset(i) for axis, i in axes)
        value, old = src[at_src : at_src + 1], dst[to : to + 1].copy()
        inputs = Inputs(old, tuple(factors_of(nest.compute, alpha, beta)))
        dst[to] = convert(value, (nest.src_type, nest.dst_type), nest.compute, inputs)[0]


@settings(max_examples=examples(150))
@given(nests())
def test_means_what_the_grammar_says(nest: LoopNest) -> None:
    src, dst = buffers(nest)
    slow = dst.copy()
    interpret(nest, src, dst, factors_of(nest.compute, 0.75, -1.5))
    _one_by_one(nest, src, slow, 0.75, -1.5)
    assert dst.tolist() == slow.tolist()


@given(nests())
def test_large_nests_in_pieces_mean_the_same(nest: LoopNest) -> None:
    src, dst = buffers(nest)
    pieces = dst.copy()
    interpret(nest, src, dst, factors_of(nest.compute, 0.75, -1.5))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", 3)
        interpret(nest, src, pieces, factors_of(nest.compute, 0.75, -1.5))
    assert pieces.tolist() == dst.tolist()


@given(nests())
def test_source_and_nest_stay_as_they_are(nest: LoopNest) -> None:
    src, dst = buffers(nest)
    before = src.copy()
    src.flags.writeable = False
    interpret(nest, src, dst, factors_of(nest.compute, 0.75, -1.5))
    assert src.tolist() == before.tolist()


def test_a_tensor_of_many_blocks_is_copied_whole() -> None:
    n = 3 * 2**20 + 5
    src = np.arange(n, dtype=np.uint32)
    dst = np.zeros(2 * n, np.uint32)
    interpret(LoopNest(_F32, _F32, (Axis(n, 1, 2),)), src, dst)
    assert (dst[::2] == src).all()
    assert not dst[1::2].any()


def test_padding_is_zero_whatever_it_held() -> None:
    """N14: exact zero bytes, also where a sum would keep a share of the old value."""
    nest = LoopNest(
        _F32,
        _F32,
        (Axis(2, 4, 4, bound=0, step=4), Axis(4, 1, 1, bound=0, step=1)),
        compute=linear(scaled=True, summed=True),
        bounds=(Bound(5, 7),),
    )
    src = np.ones(5, np.float32)
    dst = np.full(8, np.nan, np.float32)
    dst[:5] = 10
    interpret(nest, src.view(np.uint32), dst.view(np.uint32), (2.0, 0.5))
    assert dst[:5].tolist() == [7.0] * 5
    assert dst[5:7].view(np.uint32).tolist() == [0, 0]
    assert np.isnan(dst[7])


def test_minus_zero_and_nan_payloads_survive_a_copy() -> None:
    """N6: same type and no attribute is a copy of the bits."""
    src = np.array([0x80000000, 0x7F800001, 0xFFC12345, 0x00000001], np.uint32)
    dst = np.zeros(4, np.uint32)
    interpret(LoopNest(_F32, _F32, (Axis(4, 1, 1),)), src, dst)
    assert dst.tolist() == src.tolist()


def test_each_step_of_the_arithmetic_rounds_to_f32() -> None:
    """N1: alpha * src is rounded before beta * dst is added; no fused step."""
    alpha, beta = 1.0 + 2.0**-12, 1.0
    value = np.array([1.0 + 2.0**-12], np.float32)
    old = np.array([-1.0], np.float32)
    nest = LoopNest(_F32, _F32, (Axis(1, 1, 1),), compute=linear(True, True))
    interpret(nest, value.view(np.uint32), old.view(np.uint32), (alpha, beta))
    assert old[0] == np.float32(2.0**-11)
    assert old[0] != np.float32(alpha * alpha - 1.0)


def test_no_axes_move_one_element() -> None:
    src, dst = np.array([3, 4], np.uint8), np.zeros(3, np.uint8)
    interpret(LoopNest(_U8, _S8, (), src_base=1, dst_base=2), src, dst)
    assert dst.tolist() == [0, 0, 4]


def test_empty_nests_touch_nothing() -> None:
    nothing = np.zeros(0, np.uint8)
    for nest in (
        LoopNest(_U8, _S8, (Axis(5, 1, 1), Axis(0, 1, 1))),
        LoopNest(_U8, _S8, (Axis(5, 1, 1, bound=0, step=1),), bounds=(Bound(0, 0),)),
    ):
        interpret(nest, nothing, nothing)


def test_a_gap_of_the_destination_is_untouched() -> None:
    dst = np.full(12, 0xEE, np.uint8)
    interpret(LoopNest(_U8, _U8, (Axis(3, 2, 4), Axis(2, 1, 1))), np.arange(6, dtype=np.uint8), dst)
    assert dst.tolist() == [0, 1, 0xEE, 0xEE, 2, 3, 0xEE, 0xEE, 4, 5, 0xEE, 0xEE]


def test_shares_of_a_sum_are_independent() -> None:
    """Each element takes part in a sum exactly once, in whatever pieces the nest runs."""
    whole = LoopNest(_F32, _F32, (Axis(6, 1, 1),), compute=linear(False, True))
    src, dst = np.ones(6, np.float32), np.ones(6, np.float32)
    for part in (replace(whole, axes=(Axis(3, 1, 1),), src_base=b, dst_base=b) for b in (0, 3)):
        interpret(part, src.view(np.uint32), dst.view(np.uint32), (1.0,))
    assert dst.tolist() == [2.0] * 6
