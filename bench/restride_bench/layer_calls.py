"""A layer of a network as calls of restride, oneDNN and torch, each in the formats that it likes best."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

import restride as rs

from .array_peers import Torch
from .measure import Call
from .onednn import OneDNN
from .peer import nothing

TYPES = {"f32": ("f32",) * 3, "bf16": ("bf16",) * 3, "u8·s8": ("u8", "s8", "u8"), "s8·s8": ("s8",) * 3}
TORCH_TYPES = {"f32": "float32", "bf16": "bfloat16"}
_ROW_MAJOR = "abcd"
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


def convolution(
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
    """A convolution of square images, padded so that a stride of 1 keeps their size."""
    padding = kernel // 2
    points = (size + 2 * padding - kernel) // stride + 1
    weights = (outputs // groups, channels // groups, kernel, kernel)
    dims = (
        (batch, channels, size, size),
        weights if groups == 1 else (groups, *weights),
        (batch, outputs, points, points),
    )
    return Layer(name, dims, (stride,) * 2, (padding,) * 2)


def matmul(name: str, m: int, k: int, n: int) -> Layer:
    """A product of matrices of m x k and k x n."""
    return Layer(name, ((m, k), (k, n), (m, n)))


class LayerCalls(NamedTuple):
    """A layer alone, and between a source and a result that are row-major."""

    alone: Call
    reordered: Call


def primitive_of(layer: Layer, types: str) -> rs.ConvolutionForward | rs.Matmul:
    """The primitive in the formats that it likes."""
    engine = rs.Engine("cpu")
    mds = [rs.MemoryDesc(*each, "any") for each in zip(layer.dims, TYPES[types], strict=True)]
    if not layer.strides:
        return rs.Matmul(rs.Matmul.PrimitiveDesc(engine, *mds))
    window = [list(each) for each in (layer.strides, layer.padding, layer.padding)]
    head = engine, "forward_inference", "convolution_direct"
    return rs.ConvolutionForward(rs.ConvolutionForward.PrimitiveDesc(*head, *mds, *window))


def restride_calls(layer: Layer, types: str) -> tuple[LayerCalls, int]:
    """The calls in those formats, and how many bytes it must move."""
    engine, primitive = rs.Engine("cpu"), primitive_of(layer, types)
    pd = primitive.get_primitive_desc()
    descs = {rs.ARG_SRC: pd.src_desc(), rs.ARG_WEIGHTS: pd.weights_desc(), rs.ARG_DST: pd.dst_desc()}
    memories = {arg: rs.Memory(md, engine) for arg, md in descs.items()}
    for number, arg in enumerate((rs.ARG_SRC, rs.ARG_WEIGHTS)):
        _fill(np.asarray(memories[arg].data).view(np.uint8), str(descs[arg].data_type), number)
    stream = rs.Stream(engine)

    def alone() -> None:
        primitive.execute(stream, memories)

    moves = [_moves(memories[arg], stream) for arg in (rs.ARG_SRC, rs.ARG_DST)]

    def reordered() -> None:
        moves[0].into()
        primitive.execute(stream, memories)
        moves[1].out()

    return LayerCalls(alone, reordered), sum(md.size for md in descs.values())


class _Moves(NamedTuple):
    """From a row-major memory, and back to it; nothing where the format is row-major already."""

    into: Call
    out: Call


def _moves(memory: rs.Memory, stream: rs.Stream) -> _Moves:
    engine, md = rs.Engine("cpu"), memory.desc
    plain = rs.MemoryDesc(md.dims, md.data_type)
    if plain == md:
        return _Moves(nothing, nothing)
    other = rs.Memory(plain, engine)
    np.asarray(other.data).view(np.uint8)[:] = 1
    into = rs.Reorder(rs.Reorder.PrimitiveDesc(engine, plain, engine, md))
    out = rs.Reorder(rs.Reorder.PrimitiveDesc(engine, md, engine, plain))
    return _Moves(partial(into.execute, stream, other, memory), partial(out.execute, stream, memory, other))


def onednn_calls(library: OneDNN, layer: Layer, types: str) -> LayerCalls:
    """The calls in the formats that oneDNN chooses."""
    kinds = TYPES[types]
    mds = [library.desc(*each, "any") for each in zip(layer.dims, kinds, strict=True)]
    window = layer.strides, layer.padding
    primitive, descs = library.convolution(mds, *window) if layer.strides else library.matmul(mds)
    memories = [library.memory(md) for md in descs]
    for number, (memory, kind) in enumerate(zip(memories[:2], kinds, strict=False)):
        _fill(memory.bytes, kind, number)
    alone = primitive.bind_all(dict(zip((rs.ARG_SRC, rs.ARG_WEIGHTS, rs.ARG_DST), memories, strict=True)))
    steps = [alone]
    for place, held, is_read in ((0, memories[0], True), (2, memories[2], False)):
        plain = library.desc(layer.dims[place], kinds[place], _ROW_MAJOR[: len(layer.dims[place])])
        if plain.blocking == descs[place].blocking:
            continue
        other = library.memory(plain)
        _fill(other.bytes, kinds[place], place)
        if is_read:
            steps.insert(0, library.reorder(plain, descs[place]).bind(other, held))
        else:
            steps.append(library.reorder(descs[place], plain).bind(held, other))

    def reordered() -> None:
        for step in steps:
            step()

    return LayerCalls(alone, reordered)


def torch_call(peer: Torch, layer: Layer, types: str) -> Call:
    """The layer on tensors that are channels last; a product of matrices on row-major ones."""
    torch = peer.torch
    kinds = [getattr(torch, TORCH_TYPES[kind]) for kind in TYPES[types][:2]]
    random = np.random.default_rng(0)
    x, w = (
        torch.from_numpy(random.standard_normal(dims).astype(np.float32)).to(kind)
        for dims, kind in zip(layer.dims, kinds, strict=False)
    )
    if not layer.strides:
        return _inferring(torch, partial(torch.mm, x, w))
    groups = w.shape[0] if w.ndim > x.ndim else 1
    w = w.reshape(-1, *w.shape[-3:]).to(memory_format=torch.channels_last)
    x = x.to(memory_format=torch.channels_last)
    window = {"stride": layer.strides, "padding": layer.padding, "groups": groups}
    return _inferring(torch, partial(torch.nn.functional.conv2d, x, w, **window))


def _inferring(torch: Any, call: Call) -> Call:
    """The call without records for gradients."""

    def run() -> None:
        with torch.inference_mode():
            call()

    return run


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
