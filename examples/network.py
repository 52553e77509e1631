"""Network: a small convolutional network, the formats that are chosen for it, and where its time goes.

    python examples/network.py

`rs.onnx.load("model.onnx")` reads a network from a file instead.
"""

import tempfile
from pathlib import Path

import numpy as np

import restride as rs

rng = np.random.default_rng(0)
relu = rs.graph.EltwiseOperation("eltwise_relu")
window = rs.graph.ConvolutionOperation((1, 1), (0, 0), (1, 1), (1, 1))  # strides, dilations, padding
halve = rs.graph.PoolingOperation("pooling_max", (2, 2), (2, 2), (0, 0), (0, 0), (0, 0))

builder = rs.graph.GraphBuilder()
x = builder.input("image", (1, 3, 64, 64))
channels = 3
for outputs in (32, 64, 64):
    weights = rng.normal(0, (channels * 9) ** -0.5, (outputs, channels, 3, 3)).astype(np.float32)
    x = builder.add(relu, builder.add(window, x, builder.constant(weights)))
    x = builder.add(halve, x)
    channels = outputs
x = builder.add(rs.graph.ReductionOperation("reduction_mean", (2, 3)), x)
x = builder.add(rs.graph.ReshapeOperation((1, channels)), x)
scores = builder.add(rs.graph.SoftmaxOperation("softmax_accurate", 1), x, name="scores")

net = rs.Network(builder.graph(scores))
image = rng.random((1, 3, 64, 64), np.float32)
result = net(image)
print(f"scores {result.shape}, sum {result.sum():.4f}\n")
print("\n".join(str(net.explain()).splitlines()[:18]))
print("\nmicroseconds of each step:")
for step in net.profile(image):
    print(f"  {step.seconds * 1e6:>8.1f}  {step.node:<15}{step.formats:<20}{step.kernel}")

# Planned and packed, in one file that is mapped when it is loaded.
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "model.net")
    net.save(path)
    same = np.array_equal(rs.Network.load(path)(image), result)
    print(f"\nsaved {path.stat().st_size:,} bytes; loaded again it gives the same scores: {same}")
