"""The networks that the benchmark runs: nine of the package onnx, three of rapidocr, and silero-vad.

The nine have constants for weights, and get random ones. The others are trained, and lie in the packages
rapidocr-onnxruntime and silero-vad, where these are installed.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["ModelFile", "installed", "randomized", "with_batch"]

Dims = tuple[int, ...]
_LIGHT = "backend/test/data/light"
_IMAGE = (3, 224, 224)
_READING = {
    "detection": ("ch_PP-OCRv4_det_infer", (3, 640, 640)),
    "direction": ("ch_ppocr_mobile_v2.0_cls_infer", (3, 48, 192)),
    "recognition": ("ch_PP-OCRv4_rec_infer", (3, 48, 320)),
}


@dataclass(frozen=True)
class ModelFile:
    """A model on disk.

    `dims`: of each input without its batch, and the axis of the batch. `values`: what other inputs are.
    """

    name: str
    path: Path
    dims: Mapping[str, tuple[Dims, int]]
    values: Mapping[str, int] = field(default_factory=dict)
    is_random: bool = False

    def dims_of(self, batch: int) -> dict[str, Dims]:
        """The dims of all inputs for a batch."""
        return {name: (*dims[:axis], batch, *dims[axis:]) for name, (dims, axis) in self.dims.items()}

    def write(self, batch: int, folder: Path) -> Path:
        """The model for a batch, as a file of its own in the folder."""
        onnx = importlib.import_module("onnx")
        made = randomized(self.path) if self.is_random else onnx.load(self.path)
        path = folder / f"{self.name}-{batch}.onnx"
        onnx.save(with_batch(made, batch) if self.is_random else made, path)
        return path


def installed() -> list[ModelFile]:
    """All that the packages on this machine bring."""
    return [*_light(), *_reading(), *_speech()]


def _folder(package: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    return Path(spec.origin).parent if spec is not None and spec.origin is not None else None


def _light() -> Iterator[ModelFile]:
    folder = _folder("onnx")
    if folder is None:
        return
    onnx = importlib.import_module("onnx")
    for path in sorted((folder / _LIGHT).glob("*.onnx")):
        graph = onnx.load(path).graph
        known = {each.name for each in graph.initializer}
        (name,) = (each.name for each in graph.input if each.name not in known)
        yield ModelFile(path.stem.removeprefix("light_"), path, {name: (_IMAGE, 0)}, is_random=True)


def _reading() -> Iterator[ModelFile]:
    folder = _folder("rapidocr_onnxruntime")
    if folder is None:
        return
    for name, (stem, dims) in _READING.items():
        yield ModelFile(name, folder / "models" / f"{stem}.onnx", {"x": (dims, 0)})


def _speech() -> Iterator[ModelFile]:
    folder = _folder("silero_vad")
    if folder is not None:
        dims = {"input": ((576,), 0), "state": ((2, 128), 1)}
        yield ModelFile("silero", folder / "data" / "silero_vad.onnx", dims, {"sr": 16000})


def randomized(path: Path) -> Any:
    """A light network of the package onnx, whose constant weights have become random ones.

    A softmax at its end goes: of large numbers it gives 0 and 1, whatever came before.
    """
    onnx = importlib.import_module("onnx")
    made = onnx.load(path)
    graph, rng = made.graph, np.random.default_rng(0)
    shapes = {each.name: tuple(onnx.numpy_helper.to_array(each)) for each in graph.initializer}
    norms = [each for each in graph.node if each.op_type == "BatchNormalization"]
    positive = {each.input[at] for each in norms for at in (1, 4)}
    nodes = []
    for each in graph.node:
        if each.op_type != "ConstantOfShape":
            nodes.append(each)
            continue
        dims, name = shapes[each.input[0]], each.output[0]
        values = rng.standard_normal(dims) * (2 / max(np.prod(dims[1:]), 1)) ** 0.5
        if len(dims) == 1:
            values = rng.uniform(0.5, 1.0, dims) if name in positive else rng.standard_normal(dims) * 0.1
        graph.initializer.append(onnx.numpy_helper.from_array(values.astype(np.float32), name))
    del graph.node[:]
    graph.node.extend(nodes)
    if graph.node[-1].op_type == "Softmax":
        graph.output[0].name = graph.node[-1].input[0]
        del graph.node[-1]
    return made


def with_batch(made: Any, batch: int) -> Any:
    """The model for so many images; its weights are constants for every runtime, and not inputs too."""
    onnx = importlib.import_module("onnx")
    graph = made.graph
    read = {name for each in graph.node for name in each.input}
    known = {each.name: each for each in graph.initializer}
    shapes = {each.input[1] for each in graph.node if each.op_type == "Reshape" and each.input[1] in known}
    for name in shapes:
        dims = onnx.numpy_helper.to_array(known[name]).copy()
        # 0 is the extent that there is.
        dims[0] = 0 if dims.size > 1 and dims[0] == 1 else dims[0]
        known[name].CopyFrom(onnx.numpy_helper.from_array(dims, name))
    inputs = [each for each in graph.input if each.name not in known]
    unread = [each for each in graph.initializer if each.name not in read]
    for each in unread:
        graph.initializer.remove(each)
    del graph.input[:]
    graph.input.extend(inputs)
    for each in (*graph.input, *graph.output):
        if each.type.tensor_type.shape.dim:
            each.type.tensor_type.shape.dim[0].dim_value = batch
    return made
