"""torch.compile: a model of PyTorch by restride's kernels, with one argument.

pip install 'restride[torch]'
python examples/torch_compile.py
"""

import time

import torch
from torch import nn

import restride.torch

torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(3, 32, 3, padding=1),
    nn.BatchNorm2d(32),
    nn.ReLU(),
    nn.Conv2d(32, 64, 3, stride=2, padding=1),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(64, 10),
).eval()
images = torch.rand(4, 3, 96, 96)
compiled = torch.compile(model, backend="restride")


def milliseconds(call):
    """The fastest of ten calls."""
    times = []
    for _ in range(10):
        start = time.perf_counter()
        call(images)
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


with torch.no_grad():
    start = time.perf_counter()
    error = (compiled(images) - model(images)).abs().max().item()
    print(f"first call: {time.perf_counter() - start:.2f} s, compilation and both models")
    print(f"largest difference to eager: {error:.1e}")
    print(f"eager {milliseconds(model):.2f} ms, restride {milliseconds(compiled):.2f} ms\n")
    print(restride.torch.explain(compiled))
