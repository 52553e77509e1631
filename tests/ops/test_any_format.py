"""The format chosen for "any" when a primitive follows another tensor."""

from __future__ import annotations

import pytest

import restride as rs

CPU = rs.Engine("cpu")
DIMS = (2, 3, 4, 4)
OPEN = rs.MemoryDesc(DIMS, "f32", "any")


@pytest.mark.parametrize("strides", [(0, 16, 4, 1), (16, 0, 4, 1), (0, 0, 0, 0)])
def test_what_follows_a_tensor_that_repeats_elements_is_dense(strides):
    src = rs.MemoryDesc(DIMS, "f32", strides)
    eltwise = rs.EltwiseForward.PrimitiveDesc(CPU, "forward_inference", "relu", src, OPEN)
    binary = rs.Binary.PrimitiveDesc(CPU, "add", src, src, OPEN)
    softmax = rs.SoftmaxForward.PrimitiveDesc(CPU, "forward_inference", "accurate", src, OPEN, 1)
    for pd in (eltwise, binary, softmax):
        assert pd.dst_desc().is_injective()
        assert pd.dst_desc().nbytes == 4 * 2 * 3 * 4 * 4


def test_what_follows_a_tensor_with_gaps_has_its_strides():
    src = rs.MemoryDesc(DIMS, "f32", (100, 32, 8, 1))
    assert rs.EltwiseForward.PrimitiveDesc(CPU, "forward_inference", "relu", src, OPEN).dst_desc() == src
