"""Products of memory objects: primitives cached by their descriptors, and executed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from ...desc.arguments import (
    ARG_BIAS,
    ARG_DIFF_BIAS,
    ARG_DIFF_DST,
    ARG_DIFF_SRC,
    ARG_DIFF_WEIGHTS,
    ARG_DST,
    ARG_SRC,
    ARG_WEIGHTS,
)
from ...desc.attr import PrimitiveAttr
from ...desc.memory_desc import MemoryDesc
from ...model.primitive import Primitive
from ...onednn import ConvolutionBackwardData, ConvolutionBackwardWeights, ConvolutionForward, Matmul
from ...runtime.cache import calls
from ...runtime.engine import Engine
from ...runtime.memory import Memory
from ...runtime.stream import Stream
from ...runtime.transfer import synchronize
from .binder import CallKey
from .function import remember

_PrimitiveT = TypeVar("_PrimitiveT", bound=Primitive)
_ALGORITHM = "convolution_direct"


class SlidingWindow(NamedTuple):
    """The geometry of a window: a number for each spatial dim. `dilates`: 0 is dense."""

    strides: tuple[int, ...]
    dilates: tuple[int, ...]
    padding: tuple[int, ...]

    @property
    def arguments(self) -> tuple[list[int], ...]:
        """The arguments of primitive descriptors: strides, dilates, and the padding at both ends."""
        return tuple(map(list, (self.strides, self.dilates, self.padding, self.padding)))

    def points(self, sizes: tuple[int, ...], kernel: tuple[int, ...]) -> tuple[int, ...]:
        """Return the extents of a result; 0 if no window fits."""
        rows = zip(sizes, kernel, *self, strict=True)
        return tuple(max((n + 2 * p - (k - 1) * (d + 1) - 1) // max(s, 1) + 1, 0) for n, k, s, d, p in rows)

    def origins(
        self, points: tuple[int, ...], kernel: tuple[int, ...], rest: tuple[int, ...]
    ) -> tuple[int, ...]:
        """Return the extents of a source for these points, and the remainder that no window reaches."""
        rows = zip(points, kernel, rest, *self, strict=True)
        return tuple(max((n - 1) * s - 2 * p + (k - 1) * (d + 1) + 1 + r, 0) for n, k, r, s, d, p in rows)


def matmul_primitive(
    engine: Engine,
    src: MemoryDesc,
    weights: MemoryDesc,
    bias: MemoryDesc | None,
    dst: MemoryDesc,
    attr: PrimitiveAttr | None = None,
) -> Matmul:
    """Return the matrix product for these descriptors."""
    return _primitive(Matmul, (engine, src, weights, bias, dst), attr=attr)


def convolution_primitive(
    engine: Engine,
    src: MemoryDesc,
    weights: MemoryDesc,
    bias: MemoryDesc | None,
    dst: MemoryDesc,
    window: SlidingWindow,
) -> ConvolutionForward:
    """Return the convolution for these descriptors."""
    head = engine, "forward_inference", _ALGORITHM, src, weights, bias, dst
    return _primitive(ConvolutionForward, head, window)


def source_gradient_primitive(
    engine: Engine, diff_src: MemoryDesc, weights: MemoryDesc, diff_dst: MemoryDesc, window: SlidingWindow
) -> ConvolutionBackwardData:
    """Return the gradient of a convolution with respect to its source."""
    return _primitive(ConvolutionBackwardData, (engine, _ALGORITHM, diff_src, weights, diff_dst), window)


def weights_gradient_primitive(
    engine: Engine,
    src: MemoryDesc,
    diff_weights: MemoryDesc,
    diff_bias: MemoryDesc | None,
    diff_dst: MemoryDesc,
    window: SlidingWindow,
) -> ConvolutionBackwardWeights:
    """Return the gradients of a convolution with respect to its weights and bias."""
    head = engine, _ALGORITHM, src, diff_weights, diff_bias, diff_dst
    return _primitive(ConvolutionBackwardWeights, head, window)


def source_gradient(diff_src: Memory, weights: Memory, diff_dst: Memory, window: SlidingWindow) -> None:
    """Write the gradient of a convolution's source."""
    descs = diff_src.desc, weights.desc, diff_dst.desc
    primitive = source_gradient_primitive(diff_dst.engine, *descs, window)
    execute(primitive, {ARG_WEIGHTS: weights, ARG_DIFF_DST: diff_dst, ARG_DIFF_SRC: diff_src})


def weights_gradient(
    src: Memory, diff_weights: Memory, diff_bias: Memory | None, diff_dst: Memory, window: SlidingWindow
) -> None:
    """Write the gradients of a convolution's weights and bias."""
    descs = src.desc, diff_weights.desc, None if diff_bias is None else diff_bias.desc, diff_dst.desc
    primitive = weights_gradient_primitive(diff_dst.engine, *descs, window)
    gradients = {ARG_DIFF_WEIGHTS: diff_weights, **({} if diff_bias is None else {ARG_DIFF_BIAS: diff_bias})}
    execute(primitive, {ARG_SRC: src, ARG_DIFF_DST: diff_dst, **gradients})


def execute_product(
    primitive: Primitive,
    src: Memory,
    weights: Memory,
    bias: Memory | None,
    dst: Memory,
    signed: CallKey | None = None,
    scaling: Mapping[int, Memory] | None = None,
) -> None:
    """Run a forward product to completion. `signed`: the key under which later calls find this one;
    `scaling`: the memory objects of its attributes.
    """
    more = {} if bias is None else {ARG_BIAS: bias}
    memories = {ARG_SRC: src, ARG_WEIGHTS: weights, **more, **(scaling or {}), ARG_DST: dst}
    execute(primitive, memories)
    if signed is not None:
        remember(signed, primitive._check_usable(), memories)


def execute(primitive: Primitive, memories: dict[int, Memory]) -> None:
    """Run a primitive to completion."""
    synchronize(*memories.values())
    stream = Stream(primitive.get_primitive_desc().get_engine())
    primitive.execute(stream, memories)
    stream.wait()


def _primitive(
    kind: type[_PrimitiveT],
    head: tuple[object, ...],
    window: SlidingWindow | None = None,
    attr: PrimitiveAttr | None = None,
) -> _PrimitiveT:
    """Return the primitive for a descriptor's arguments, created on the first call."""
    key = kind, head, window, attr and attr.freeze()
    primitive: _PrimitiveT | None = calls.find(key)
    if primitive is None:
        pd = kind.PrimitiveDesc(*head, *(() if window is None else window.arguments), attr=attr)
        return calls.keep(key, kind(pd))
    calls.count_hit()
    return primitive
