"""Programs of products: what all primitives have that are contractions."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from support.computed import elements

CPU = rs.Engine("cpu")
_PRODUCTS = {
    "matmul": ((16, 3), (3, 20), (16, 20), "ba"),
    "inner product": ((16, 3), (20, 3), (16, 20), "ba"),
    "convolution": ((2, 3, 4, 2), (20, 3, 1, 1), (2, 20, 4, 2), "cdba"),
}


def _described(name, mds, attr):
    if name == "matmul":
        return rs.Matmul, rs.Matmul.PrimitiveDesc(CPU, *mds, attr)
    if name == "inner product":
        made = rs.InnerProductForward
        return made, made.PrimitiveDesc(CPU, "forward_inference", *mds, attr)
    made, none = rs.ConvolutionForward, (0, 0)
    return made, made.PrimitiveDesc(
        CPU, "forward_inference", "convolution_direct", *mds, (1, 1), none, none, none, attr
    )


@pytest.mark.parametrize("weights", ["plain", "turned", "any"])
@pytest.mark.parametrize("name", _PRODUCTS)
def test_a_sum_reads_the_old_destination_as_the_type_that_it_names(name, weights):
    attr, ops = rs.PrimitiveAttr(), rs.PostOps()
    ops.append_sum(1.0, 0, "s8")
    attr.set_post_ops(ops)
    *dims, turned = _PRODUCTS[name]
    formats = None, {"plain": None, "turned": turned, "any": "any"}[weights], None
    types = "u8", "s8", "u8"
    mds = [rs.MemoryDesc(*each) for each in zip(dims, types, formats, strict=True)]
    primitive, pd = _described(name, mds, attr)
    args = rs.ARG_SRC, rs.ARG_WEIGHTS, rs.ARG_DST
    memories = {arg: rs.Memory(pd.query_md("exec_arg_md", arg), CPU) for arg in args}
    for memory, size, value in zip(memories.values(), dims, (10, 1, 254), strict=True):
        rs.reorder(np.full(size, value, np.float32), None, out=memory)
    primitive(pd).execute(rs.Stream(CPU), memories)
    # 254 is -2 as s8.
    np.testing.assert_array_equal(elements(memories[rs.ARG_DST]), np.full(dims[2], 28))
