"""Losses of training by `torch.compile(backend="restride")` compared with eager, as a picture.

`python -m restride_bench.losses benchmarks/results/losses` draws the picture of the documents. It needs torch
and matplotlib.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

from .chart import saved

_STEPS, _BATCH, _CLASSES = 200, 32, 10
_STYLE = {"font.size": 9, "axes.titlesize": 10, "svg.hashsalt": "restride"}


def losses(backend: str, steps: int = _STEPS, *, is_channels_last: bool = False) -> list[float]:
    """The losses of a small network of convolutions, trained for `steps` by a backend, or by "eager".

    The images are noise with a pattern of their class, the same each time; weights begin alike.
    """
    import torch
    from torch import nn

    torch._dynamo.reset()
    torch.manual_seed(0)
    model = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 32, 3, padding=1), nn.GELU(), nn.Flatten()),
        nn.Linear(32 * 16, _CLASSES),
    )
    if is_channels_last:
        model = model.to(memory_format=torch.channels_last)
    patterns = torch.randn(_CLASSES, 3, 16, 16)
    call: Any = model if backend == "eager" else torch.compile(model, backend=backend)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, fused=True)
    found = []
    for _ in range(steps):
        labels = torch.randint(0, _CLASSES, (_BATCH,))
        images = 0.5 * patterns[labels] + torch.randn(_BATCH, 3, 16, 16)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(call(images), labels)
        loss.backward()
        optimizer.step()
        found.append(float(loss.detach()))
    return found


def picture(curves: dict[str, list[float]], pyplot: Any) -> Any:
    """The first two curves, and beneath them how far the others are from the first one."""
    figure, (above, below) = pyplot.subplots(
        2, 1, figsize=(6.5, 4.6), sharex=True, height_ratios=(3, 2), layout="constrained"
    )
    (eager, first), *others = curves.items()
    above.plot(first, color="#e08b00", linewidth=4, alpha=0.5, label=eager)
    for (name, losses), color in zip(others, ("#c1272d", "#7d8a96"), strict=True):
        apart = [max(abs(a - b), 1e-8) for a, b in zip(first, losses, strict=True)]
        below.semilogy(apart, color=color, linewidth=1, label=name)
    above.plot(others[0][1], color="#c1272d", linewidth=1, label=others[0][0])
    above.set(
        ylabel="loss", ylim=(0, None), title="A small network of convolutions, 200 steps of SGD, batch 32"
    )
    below.set(xlabel="step", ylabel="difference from eager", ylim=(1e-8, 1))
    above.legend(frameon=False, loc="upper right")
    below.legend(frameon=False, loc="upper left")
    return figure


if __name__ == "__main__":
    measured = {
        "eager": losses("eager"),
        'torch.compile(backend="restride")': losses("restride"),
        "eager, channels_last": losses("eager", is_channels_last=True),
    }
    for path in saved(partial(picture, measured), Path(sys.argv[1]), _STYLE):
        if path.suffix != ".svg":
            path.unlink()
