"""Convolutions and products of matrices of networks beside oneDNN, each in the formats that it likes best.

Every layer is a point of a roofline: operations in a second, over operations for each byte that it must move.
The roof is what a loop of multiply-adds does in the same run; twice that for bf16, four times for bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

import restride as rs

from .figures import BenchSetup
from .measure import Call, Quartiles, alternate, batch_size
from .multiply_adds import peak
from .onednn import OneDNN
from .peers import OneDNNPeer

TYPES = {"f32": ("f32",) * 3, "bf16": ("bf16",) * 3, "u8·s8": ("u8", "s8", "u8"), "s8·s8": ("s8",) * 3}
_FACTORS = {"f32": 1, "bf16": 2, "u8·s8": 4, "s8·s8": 4}
Dims = tuple[int, ...]


@dataclass(frozen=True)
class Layer:
    """The dims of source, weights and result; with strides it is a convolution, else a matmul."""

    name: str
    dims: tuple[Dims, Dims, Dims]
    strides: Dims = ()
    padding: Dims = ()

    @property
    def operations(self) -> int:
        """Two for each product that is added."""
        source, weights, result = self.dims
        # Weights of groups have a dim more in front: every output sums the inputs of its own.
        return (
            2
            * prod(result)
            * (prod(weights[len(weights) - len(source) + 1 :]) if self.strides else weights[0])
        )


def _conv(
    name: str,
    channels: int,
    outputs: int,
    size: int,
    kernel: int,
    stride: int = 1,
    *,
    batch: int = 1,
    groups: int = 1,
) -> Layer:
    padding = kernel // 2
    points = (size + 2 * padding - kernel) // stride + 1
    weights = (outputs // groups, channels // groups, kernel, kernel)
    dims = (
        (batch, channels, size, size),
        weights if groups == 1 else (groups, *weights),
        (batch, outputs, points, points),
    )
    return Layer(name, dims, (stride,) * 2, (padding,) * 2)


def _matmul(name: str, m: int, k: int, n: int) -> Layer:
    return Layer(name, ((m, k), (k, n), (m, n)))


LAYERS = (
    _conv("ResNet-50 3x3, 64→64 at 56", 64, 64, 56, 3),
    _conv("ResNet-50 3x3, 256→256 at 14", 256, 256, 14, 3),
    _conv("ResNet-50 3x3, 512→512 at 7", 512, 512, 7, 3),
    _conv("ResNet-50 1x1, 64→256 at 56", 64, 256, 56, 1),
    _conv("ResNet-50 1x1, 1024→256 at 14", 1024, 256, 14, 1),
    _conv("ResNet-50 1x1, 2048→512 at 7", 2048, 512, 7, 1),
    _conv("ResNet-50 1x1 by 2, 256→512 at 56", 256, 512, 56, 1, 2),
    _conv("VGG 3x3, 128→128 at 112", 128, 128, 112, 3),
    _conv("VGG-19 3x3, 3→64 at 224", 3, 64, 224, 3),
    _conv("Inception 3x3, 64→96 at 35", 64, 96, 35, 3),
    _conv("DenseNet 3x3, 128→32 at 28", 128, 32, 28, 3),
    _conv("ShuffleNet 1x1 of 3 groups, 240→240 at 28", 240, 240, 28, 1, groups=3),
    _conv("MobileNet 1x1, 512→512 at 14", 512, 512, 14, 1),
    _conv("MobileNet depthwise 3x3, 128 at 56, batch 16", 128, 128, 56, 3, batch=16, groups=128),
    _conv("ResNet-50 3x3, 64→64 at 56, batch 16", 64, 64, 56, 3, batch=16),
    _conv("ResNet-50 3x3, 512→512 at 7, batch 16", 512, 512, 7, 3, batch=16),
    _conv("ResNet-50 1x1, 1024→256 at 14, batch 16", 1024, 256, 14, 1, batch=16),
    _matmul("ResNet-50 inner product 16x2048x1000", 16, 2048, 1000),
    _matmul("BERT 128x768x768", 128, 768, 768),
    _matmul("BERT 128x768x3072", 128, 768, 3072),
    _matmul("BERT large 384x1024x1024", 384, 1024, 1024),
)


@dataclass(frozen=True)
class LayerTime:
    """A layer of some types on so many threads: seconds of restride and of oneDNN, and the peak."""

    name: str
    types: str
    threads: int
    operations: int
    moved: int
    peak: float
    seconds: Quartiles
    onednn: Quartiles | None = None

    @property
    def rate(self) -> float:
        """Operations in a second, by the median time."""
        return self.operations / self.seconds.median

    @property
    def of_peak(self) -> float:
        """The part of what a loop of multiply-adds would do."""
        return self.rate / self.peak

    @property
    def over_onednn(self) -> float | None:
        """How many times faster than oneDNN."""
        return None if self.onednn is None else self.onednn.median / self.seconds.median


def measure(setting: BenchSetup) -> list[LayerTime]:
    """All layers of all types, on one thread and on all."""
    library = next((peer.library for peer in setting.peers if isinstance(peer, OneDNNPeer)), None)
    before, found = rs.get_num_threads(), list[LayerTime]()
    try:
        for threads in sorted({1, setting.threads}):
            rs.set_num_threads(threads)
            if library is not None:
                library.set_num_threads(threads)
            roof = peak(threads)
            for types in TYPES:
                found += [_measured(layer, types, threads, roof, library, setting) for layer in LAYERS]
    finally:
        rs.set_num_threads(before)
    return found


def _measured(
    layer: Layer, types: str, threads: int, roof: float, library: OneDNN | None, setting: BenchSetup
) -> LayerTime:
    own, moved = _restride(layer, types)
    calls = {"restride": own}
    if library is not None:
        calls["oneDNN"] = _onednn(library, layer, types)
    times = alternate(calls, rounds=setting.rounds, number=batch_size(own))
    theirs = times["oneDNN"].spread if library is not None else None
    return LayerTime(
        *(layer.name, types, threads, layer.operations, moved),
        *(roof * _FACTORS[types], times["restride"].spread, theirs),
    )


def _restride(layer: Layer, types: str) -> tuple[Call, int]:
    """The call in the formats that the primitive likes, and how many bytes it must move."""
    engine = rs.Engine("cpu")
    mds = [rs.MemoryDesc(*each, "any") for each in zip(layer.dims, TYPES[types], strict=True)]
    primitive: rs.ConvolutionForward | rs.Matmul
    if layer.strides:
        window = [list(each) for each in (layer.strides, layer.padding, layer.padding)]
        head = engine, "forward_inference", "convolution_direct"
        primitive = rs.ConvolutionForward(rs.ConvolutionForward.PrimitiveDesc(*head, *mds, *window))
    else:
        primitive = rs.Matmul(rs.Matmul.PrimitiveDesc(engine, *mds))
    pd = primitive.get_primitive_desc()
    descs = {rs.ARG_SRC: pd.src_desc(), rs.ARG_WEIGHTS: pd.weights_desc(), rs.ARG_DST: pd.dst_desc()}
    memories = {arg: rs.Memory(md, engine) for arg, md in descs.items()}
    for number, arg in enumerate((rs.ARG_SRC, rs.ARG_WEIGHTS)):
        _fill(np.asarray(memories[arg].data).view(np.uint8), str(descs[arg].data_type), number)
    stream = rs.Stream(engine)
    return lambda: primitive.execute(stream, memories), sum(md.size for md in descs.values())


def _onednn(library: OneDNN, layer: Layer, types: str) -> Call:
    kinds = TYPES[types]
    mds = [library.desc(*each, "any") for each in zip(layer.dims, kinds, strict=True)]
    window = layer.strides, layer.padding
    primitive, descs = library.convolution(mds, *window) if layer.strides else library.matmul(mds)
    memories = [library.memory(md) for md in descs]
    for number, (memory, kind) in enumerate(zip(memories[:2], kinds, strict=False)):
        _fill(memory.bytes, kind, number)
    return primitive.bind_all(dict(zip((rs.ARG_SRC, rs.ARG_WEIGHTS, rs.ARG_DST), memories, strict=True)))


def _fill(held: np.ndarray[tuple[int], np.dtype[np.uint8]], kind: str, seed: int) -> None:
    """Numbers that are neither infinite nor below the normal ones."""
    rng = np.random.default_rng(seed)
    if kind == "f32":
        held.view(np.float32)[:] = rng.standard_normal(held.size // 4)
    elif kind == "bf16":
        wide = rng.standard_normal(held.size // 2).astype(np.float32)
        held.view(np.uint16)[:] = (wide.view(np.uint32) >> 16).astype(np.uint16)
    else:
        held[:] = rng.integers(0, 256, held.size, dtype=np.uint8)


def means(times: Sequence[LayerTime]) -> list[tuple[str, int, float, float, float | None, float | None]]:
    """By types and threads: geometric mean and least of the part of the peak, and of the ratio to oneDNN."""
    found = []
    for types, threads in dict.fromkeys((each.types, each.threads) for each in times):
        same = [each for each in times if (each.types, each.threads) == (types, threads)]
        parts = [each.of_peak for each in same]
        ratios = [each.over_onednn for each in same if each.over_onednn is not None]
        over = (_mean(ratios), min(ratios)) if ratios else (None, None)
        found.append((types, threads, _mean(parts), min(parts), *over))
    return found


def _mean(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))
