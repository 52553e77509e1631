"""The flip primitive on every engine."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import restride as rs
import restride.onnx
from support.engines import allocated, memory_over, storage
from support.errors import refused

DIMS = (2, 19, 3, 5)
CPU = rs.Engine("cpu")


def filled(md: rs.MemoryDesc, x: np.ndarray, engine: rs.Engine) -> rs.Memory:
    """A memory of an engine that holds an array."""
    on_host = rs.Memory(md, CPU)
    rs.reorder(x, None, out=on_host)
    return memory_over(md, engine, storage(on_host.data, engine))


@pytest.mark.parametrize("tags", [("nchw", "nchw"), ("nchw", "nhwc"), ("nhwc", "nChw16c")], ids=str)
@pytest.mark.parametrize("axis", range(4))
def test_an_axis_is_reversed(engine: rs.Engine, tags: tuple[str, str], axis: int) -> None:
    x = np.arange(np.prod(DIMS), dtype=np.float32).reshape(DIMS)
    src_md, dst_md = (rs.MemoryDesc(DIMS, "f32", tag) for tag in tags)
    src, dst, stream = filled(src_md, x, engine), allocated(dst_md, engine), rs.Stream(engine)
    pd = rs.Flip.PrimitiveDesc(engine, src_md, dst_md, axis)
    for made in (rs.Flip(pd), rs.Flip(pickle.loads(pickle.dumps(pd)))):
        for _ in range(2):
            made.execute(stream, src, dst)
            stream.wait()
            np.testing.assert_array_equal(dst.to_numpy(), np.flip(x, axis))


def test_what_is_wrong_is_refused() -> None:
    md = rs.MemoryDesc(DIMS, "f32", "nchw")
    held, pd = rs.Memory(md, CPU), rs.Flip.PrimitiveDesc(CPU, md, md, 1)
    with refused("source and destination overlap"):
        rs.Flip(pd).execute(rs.Stream(CPU), held, held)
    with refused("wrong arguments", "'axis'"):
        rs.Flip.PrimitiveDesc(CPU, md, md)
    with refused("axis is 4"):
        rs.Flip.PrimitiveDesc(CPU, md, md, 4)
    with refused("what cannot be flipped"):
        rs.Flip.PrimitiveDesc(CPU, md, rs.MemoryDesc(DIMS, "s8", "nchw"), 1)
    assert not rs.Flip.PrimitiveDesc(CPU, md, md, 4, allow_empty=True)
    assert (pd.get_axis(), pd.get_kind(), pd.src_desc()) == (1, "flip", md)


def test_models_have_it() -> None:
    """ONNX has no operator of this name, so the model is made of what a file would hold."""
    onnx = pytest.importorskip("onnx")
    node = onnx.helper.make_node("Flip", ["x"], ["y"], axis=2)
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, DIMS) for name in "xy")
    network = restride.onnx.load(onnx.helper.make_model(onnx.helper.make_graph([node], "g", [x], [y])))
    values = np.arange(np.prod(DIMS), dtype=np.float32).reshape(DIMS)
    np.testing.assert_array_equal(network(values), np.flip(values, 2))


def test_it_is_a_function_on_arrays() -> None:
    values = np.arange(np.prod(DIMS), dtype=np.float32).reshape(DIMS)
    np.testing.assert_array_equal(rs.ops.Flip(values, axis=2), np.flip(values, 2))
    blocked = rs.ops.Flip(rs.reorder(values, "nChw16c"), axis=1)
    np.testing.assert_array_equal(blocked.to_numpy(), np.flip(values, 1))
