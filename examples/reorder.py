"""Reorder: a batch of images into other layouts and data types, and how fast.

python examples/reorder.py
"""

import time

import numpy as np

import restride as rs

images = np.random.default_rng(0).random((8, 64, 56, 56), np.float32)  # n, c, h, w


def milliseconds(call):
    """The fastest of ten calls."""
    times = []
    for _ in range(10):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


# Dims keep their order: `last` is still (n, c, h, w), but its memory is n, h, w, c.
last = rs.reorder(images, "nhwc")
print(f"nhwc      {last.shape}, strides {last.strides}")

# A blocked layout comes as a Memory: `physical()` is its storage, `to_numpy()` the tensor.
blocked = rs.reorder(images, "nChw16c", dtype="bf16")
print(f"nChw16c   {blocked}")
print(f"          stored as {blocked.physical().shape}")

# Scale, round and saturate on the way.
quantized = rs.reorder(images, "nhwc", dtype="u8", scale=255)
print(f"u8        {quantized.dtype}, from {quantized.min()} to {quantized.max()}")

back = rs.reorder(blocked, "nchw", dtype="f32")
print(f"back      largest error of bf16: {np.abs(back - images).max():.5f}")

out = rs.empty(images.shape, "f32", "nhwc")
ours = milliseconds(lambda: rs.reorder(images, out=out))
numpys = milliseconds(lambda: np.ascontiguousarray(images.transpose(0, 2, 3, 1)))
print(f"time      {ours:.2f} ms; NumPy {numpys:.2f} ms")
