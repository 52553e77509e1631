"""Quantize: weights to 8, 4 and fewer bits, what each format costs in precision, and a product by them.

python examples/quantize.py
"""

import numpy as np

import restride as rs

rng = np.random.default_rng(0)
weights = rng.normal(0, 0.02, (1024, 1024)).astype(np.float32)  # outputs, inputs
x = rng.normal(size=(1, 1024)).astype(np.float32)
exact = x @ weights.T

# One scale for each output channel.
codes, scale, _ = rs.quantize(weights, "s8", axis=0)
error = np.abs(rs.dequantize(codes, scale, axis=0) - weights).max()
print(f"s8, a scale a channel: {codes.nbytes + scale.nbytes:,} bytes, largest error {error:.5f}\n")

# Scales for groups of weights: one value holds codes and scales.
print(f"{'format':<20}{'bytes':>10}{'bits':>7}{'error of x @ w.T':>20}")
print(f"{'f32':<20}{weights.nbytes:>10,}{32:>7.2f}{0:>19.2%}")
for name, words in {
    "s8, groups of 64": {"dtype": "s8", "group": (1, 64)},
    "u4, groups of 64": {"dtype": "u4", "group": (1, 64), "symmetric": False},
    "nf4, groups of 64": {"dtype": "nf4", "group": (1, 64)},
    "mxfp8": {"dtype": "mxfp8"},
    "mxfp4": {"dtype": "mxfp4"},
    "q4_k": {"dtype": "q4_k"},
}.items():
    packed = rs.quantize(weights, **words)
    y = rs.matmul(x, packed.T)
    error = np.linalg.norm(y - exact) / np.linalg.norm(exact)
    print(f"{name:<20}{packed.nbytes:>10,}{packed.nbytes * 8 / weights.size:>7.2f}{error:>19.2%}")
