"""Models by both exporters of torch: one load, then several batches, sizes and lengths."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import restride as rs

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peer, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
nn, F = torch.nn, torch.nn.functional

OPSETS = range(17, 24)
IMAGES = [(2, 4, 8, 8), (3, 4, 12, 6), (1, 4, 9, 11)]
SEQUENCES = [(2, 5, 8), (1, 7, 8), (3, 4, 8)]


class Function(nn.Module):
    """A module of a function of its input and of other modules."""

    def __init__(self, function: Callable[..., Any], *parts: Any) -> None:
        super().__init__()
        self.function, self.parts = function, nn.ModuleList(parts)

    def forward(self, x: Any) -> Any:
        return self.function(x, *self.parts)


def heads(x: Any) -> Any:
    apart = x.view(x.shape[0], x.shape[1], 2, 4).transpose(1, 2)
    return F.scaled_dot_product_attention(apart, apart, apart).transpose(1, 2).reshape(x.shape)


def seen(x: Any) -> Any:
    mask = torch.ones(x.shape[1], x.shape[1]).tril().bool()
    return torch.where(mask, x @ x.transpose(1, 2), -1e9).softmax(-1)


def resized(x: Any, half: Any) -> Any:
    return F.interpolate(half(x), size=x.shape[2:], mode="nearest") + x


def same(channels: int = 4) -> Any:
    return nn.Conv2d(4, channels, 3, padding=1)


OF_IMAGES: dict[str, Callable[[], Any]] = {
    "convolutions": lambda: nn.Sequential(same(), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), same(3)),
    "gates": lambda: Function(
        lambda x, conv, gate: conv(x) * gate(x.mean((2, 3))).sigmoid()[:, :, None, None],
        same(),
        nn.Linear(4, 4),
    ),
    "larger": lambda: Function(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear")),
    "as large as another": lambda: Function(resized, nn.Conv2d(4, 4, 3, stride=2, padding=1)),
    "classes": lambda: nn.Sequential(same(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5)),
    "groups": lambda: nn.Sequential(nn.GroupNorm(2, 4), nn.SiLU(), nn.ConvTranspose2d(4, 3, 2, stride=2)),
    "tokens": lambda: Function(lambda x, norm: norm(x.flatten(2).transpose(1, 2)), nn.LayerNorm(4)),
}
OF_SEQUENCES: dict[str, Callable[[], Any]] = {
    "attention": lambda: Function(heads),
    "layers": lambda: nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8), nn.LayerNorm(8)),
    "an LSTM": lambda: Function(
        lambda x, lstm: lstm(x)[0], nn.LSTM(8, 4, batch_first=True, bidirectional=True)
    ),
    "a GRU": lambda: Function(lambda x, gru: gru(x)[0], nn.GRU(8, 4, batch_first=True)),
    "indices": lambda: Function(lambda x: x[:, 1:].cumsum(1).gather(2, x[:, :-1].argsort(-1))),
    "masks": lambda: Function(seen),
}
MODELS = {
    **{name: (make, IMAGES, {0: "batch", 2: "height", 3: "width"}) for name, make in OF_IMAGES.items()},
    **{name: (make, SEQUENCES, {0: "batch", 1: "steps"}) for name, make in OF_SEQUENCES.items()},
}


def exported(module: Any, x: Any, axes: dict[int, str], exporter: str, opset: int, path: Path) -> str:
    """Writes a model. What torch says where its exporter has not this one."""
    options: dict[str, Any] = {"dynamic_axes": {"x": axes}}
    if exporter == "dynamo":
        options = {"dynamic_shapes": (dict.fromkeys(axes, torch.export.Dim.DYNAMIC),)}
    try:
        with torch.no_grad(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            torch.onnx.export(
                module,
                (x,),
                str(path),
                opset_version=opset,
                dynamo=exporter == "dynamo",
                input_names=["x"],
                **options,
            )
    except Exception as error:  # torch raises its own errors
        return f"{type(error).__name__}: {error}"[:300]
    return ""


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("exporter", ["TorchScript", "dynamo"])
def test_one_model_runs_for_all_dims(exporter: str, name: str, tmp_path: Path) -> None:
    if exporter == "dynamo":
        pytest.importorskip("onnxscript")
    make, shapes, axes = MODELS[name]
    generator = torch.Generator().manual_seed(1)
    torch.manual_seed(0)
    module, refusals = make().eval(), {}
    for opset in OPSETS:
        path = tmp_path / f"{opset}.onnx"
        first = torch.randn(shapes[0], generator=generator)
        if refusal := exported(module, first, axes, exporter, opset, path):
            refusals[opset] = refusal
            continue
        network = rs.onnx.load(path)
        for shape in shapes:
            x = torch.randn(shape, generator=generator)
            with torch.no_grad():
                wanted = module(x)
            found = torch.from_numpy(np.asarray(network(x.numpy())))
            torch.testing.assert_close(found, wanted, rtol=2e-4, atol=2e-5)
    if len(refusals) == len(OPSETS):
        pytest.skip(f"torch exports it in no version: {refusals}")
