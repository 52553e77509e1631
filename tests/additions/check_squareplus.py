"""The activation squareplus: primitives, a post-op, a node, an operator of ONNX and a function on arrays."""

from __future__ import annotations

import numpy as np

import restride as rs
from support.engines import allocated, memory_over, storage

X = np.linspace(-4, 4, 77, dtype=np.float32).reshape(7, 11)
CPU = rs.Engine("cpu")


def squareplus(x: np.ndarray, b: float) -> np.ndarray:
    return (x + np.sqrt(x.astype(np.float64) ** 2 + b)) / 2


def on(engine: rs.Engine, x: np.ndarray) -> rs.Memory:
    held = rs.Memory(rs.MemoryDesc(x.shape, "f32"), CPU, x.copy())
    return memory_over(held.desc, engine, storage(held.data, engine))


def test_it_is_a_primitive_with_a_gradient(engine: rs.Engine) -> None:
    md = rs.MemoryDesc(X.shape, "f32")
    x, diff_dst, stream = on(engine, X), on(engine, X + 1), rs.onednn.Stream(engine)
    dst, diff_src = allocated(md, engine), allocated(md, engine)
    algorithm = rs.onednn.Algorithm.eltwise_squareplus
    pd = rs.onednn.EltwiseForward.PrimitiveDesc(engine, "forward_training", algorithm, md, md, 2.0)
    rs.onednn.EltwiseForward(pd).execute(stream, {rs.onednn.Arg.SRC: x, rs.onednn.Arg.DST: dst})
    back = rs.onednn.EltwiseBackward.PrimitiveDesc(engine, algorithm, md, md, md, 2.0, hint_pd=pd)
    names = rs.onednn.Arg
    args = {names.SRC: x, names.DIFF_DST: diff_dst, names.DIFF_SRC: diff_src}
    rs.onednn.EltwiseBackward(back).execute(stream, args)
    stream.wait()
    np.testing.assert_allclose(dst.to_numpy(), squareplus(X, 2), rtol=1e-5, atol=1e-6)
    step = 1e-4
    slope = (squareplus(X.astype(np.float64) + step, 2) - squareplus(X.astype(np.float64) - step, 2)) / (
        2 * step
    )
    np.testing.assert_allclose(diff_src.to_numpy(), slope * (X + 1), rtol=1e-4, atol=1e-4)


def test_it_is_a_post_op_a_node_and_a_function_of_onnx() -> None:
    np.testing.assert_allclose(
        rs.reorder(X, "ba", post_ops="squareplus"), squareplus(X, 4), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(rs.ops.Squareplus(X), squareplus(X, 4), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(rs.ops.Squareplus(X, b=1.0), squareplus(X, 1), rtol=1e-5, atol=1e-6)
    builder = rs.graph.GraphBuilder()
    x = builder.input("x", X.shape)
    network = rs.Network(builder.graph(builder.add(rs.graph.EltwiseOperation("eltwise_squareplus", 1.0), x)))
    np.testing.assert_array_equal(network(X), rs.ops.Squareplus(X, b=1.0))
