"""Products of memories: primitives for their descriptors, found again at the next call, and executed."""

from __future__ import annotations

from collections.abc import Callable
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
from ...desc.memory_desc import MemoryDesc
from ...model.primitive import Primitive
from ...onednn import ConvolutionBackwardData, ConvolutionBackwardWeights, ConvolutionForward, Matmul
from ...runtime.cache import calls
from ...runtime.engine import Engine
from ...runtime.memory import Memory
from ...runtime.stream import Stream
from ...runtime.transfer import synchronize

_PrimitiveT = TypeVar("_PrimitiveT", bound=Primitive)
_ALGORITHM = "convolution_direct"


class SlidingWindow(NamedTuple):
    """How a window moves: a number for each spatial dim. `dilates`: 0 is dense."""

    strides: tuple[int, ...]
    dilates: tuple[int, ...]
    padding: tuple[int, ...]

    @property
    def arguments(self) -> tuple[list[int], ...]:
        """What primitive descriptors take: strides, dilates, and the padding in front and behind."""
        return tuple(map(list, (self.strides, self.dilates, self.padding, self.padding)))

    def points(self, sizes: tuple[int, ...], kernel: tuple[int, ...]) -> tuple[int, ...]:
        """The extents of a result; 0 where no window fits."""
        rows = zip(sizes, kernel, *self, strict=True)
        return tuple(max((n + 2 * p - (k - 1) * (d + 1) - 1) // max(s, 1) + 1, 0) for n, k, s, d, p in rows)


def matmul_primitive(
    engine: Engine, src: MemoryDesc, weights: MemoryDesc, bias: MemoryDesc | None, dst: MemoryDesc
) -> Matmul:
    """The product of matrices of these descriptors."""

    def made() -> Matmul:
        return Matmul(Matmul.PrimitiveDesc(engine, src, weights, bias, dst))

    return _found((Matmul, engine, src, weights, bias, dst), made)


def convolution_primitive(
    engine: Engine,
    src: MemoryDesc,
    weights: MemoryDesc,
    bias: MemoryDesc | None,
    dst: MemoryDesc,
    window: SlidingWindow,
) -> ConvolutionForward:
    """The convolution of these descriptors."""

    def made() -> ConvolutionForward:
        head = engine, "forward_inference", _ALGORITHM, src, weights, bias, dst
        return ConvolutionForward(ConvolutionForward.PrimitiveDesc(*head, *window.arguments))

    return _found((ConvolutionForward, engine, src, weights, bias, dst, window), made)


def source_gradient(diff_src: Memory, weights: Memory, diff_dst: Memory, window: SlidingWindow) -> None:
    """Write the gradient of a convolution's source."""
    engine, descs = diff_dst.engine, (diff_src.desc, weights.desc, diff_dst.desc)

    def made() -> ConvolutionBackwardData:
        pd = ConvolutionBackwardData.PrimitiveDesc(engine, _ALGORITHM, *descs, *window.arguments)
        return ConvolutionBackwardData(pd)

    primitive = _found((ConvolutionBackwardData, engine, descs, window), made)
    execute(primitive, {ARG_WEIGHTS: weights, ARG_DIFF_DST: diff_dst, ARG_DIFF_SRC: diff_src})


def weights_gradient(
    src: Memory, diff_weights: Memory, diff_bias: Memory | None, diff_dst: Memory, window: SlidingWindow
) -> None:
    """Write the gradients of a convolution's weights and bias."""
    engine, bias = diff_dst.engine, None if diff_bias is None else diff_bias.desc
    descs = src.desc, diff_weights.desc, bias, diff_dst.desc

    def made() -> ConvolutionBackwardWeights:
        pd = ConvolutionBackwardWeights.PrimitiveDesc(engine, _ALGORITHM, *descs, *window.arguments)
        return ConvolutionBackwardWeights(pd)

    primitive = _found((ConvolutionBackwardWeights, engine, descs, window), made)
    written = {ARG_DIFF_WEIGHTS: diff_weights, **({} if diff_bias is None else {ARG_DIFF_BIAS: diff_bias})}
    execute(primitive, {ARG_SRC: src, ARG_DIFF_DST: diff_dst, **written})


def execute_product(
    primitive: Primitive, src: Memory, weights: Memory, bias: Memory | None, dst: Memory
) -> None:
    """Run a forward product to its end."""
    more = {} if bias is None else {ARG_BIAS: bias}
    execute(primitive, {ARG_SRC: src, ARG_WEIGHTS: weights, **more, ARG_DST: dst})


def execute(primitive: Primitive, memories: dict[int, Memory]) -> None:
    """Run a primitive to its end."""
    synchronize(*memories.values())
    stream = Stream(primitive.get_primitive_desc().get_engine())
    primitive.execute(stream, memories)
    stream.wait()


def _found(key: tuple[object, ...], make: Callable[[], _PrimitiveT]) -> _PrimitiveT:
    """The primitive of a key, made at the first call."""
    found: _PrimitiveT | None = calls.find(key)
    if found is None:
        return calls.keep(key, make())
    calls.count_hit()
    return found
