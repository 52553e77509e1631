"""Loop trees that sum products: convolutions and matrix products of descriptors, compiled and run."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from restride.desc.memory_desc import MemoryDesc
from restride.dtypes import DataType
from restride.emit import entry
from restride.ir.expression import Affine, Expr, Ref, TreeAxis, apply, index_of
from restride.ir.interpret_tree import interpret_tree
from restride.ir.numbers import Number
from restride.ir.tree import Each, Guard, LoopTree, TreeTensor, fold_over
from restride.targets.cpu_kernels import lower_contraction
from restride.targets.isa import CacheSizes, Isa
from restride.targets.lowered import Lowered

from .guarded import Guarded
from .kernels import POISON
from .machine_code import loaded
from .trees import flat_of

_BYTES = {DataType.u8: (0, 255, 254), DataType.s8: (-128, 127, -127)}


class ConvolutionShape(NamedTuple):
    """A convolution: batch, groups, channels of a group in and out, height and width; then its window."""

    batch: int
    groups: int
    inputs: int
    outputs: int
    height: int
    width: int
    kernel: tuple[int, int] = (3, 3)
    stride: int = 1
    padding: int = 1
    dilation: int = 1

    def out_size(self, size: int, kernel: int) -> int:
        """The extent of the destination along a dim."""
        return (size + 2 * self.padding - (kernel - 1) * self.dilation - 1) // self.stride + 1

    def descs(
        self, src: str, weights: str, dst: str, data_type: str = "f32", weights_type: str = ""
    ) -> tuple[MemoryDesc, ...]:
        """Source, weights, destination and bias; weights have the source's type, or one of their own."""
        n, g, ic, oc, h, w, (kh, kw), *_ = self
        out = (n, g * oc, self.out_size(h, kh), self.out_size(w, kw))
        dims = (g, oc, ic, kh, kw) if g > 1 else (oc, ic, kh, kw)
        return (
            MemoryDesc((n, g * ic, h, w), data_type, src),
            MemoryDesc(dims, weights_type or data_type, weights),
            MemoryDesc(out, "f32", dst),
            MemoryDesc((g * oc,), "f32", "a"),
        )


def convolution_tree(
    window: ConvolutionShape, descs: Sequence[MemoryDesc], *, is_relu: bool = False
) -> LoopTree:
    """`dst = src * weights + bias`, or no less than 0."""
    names = ("src", "weights", "dst", "bias")
    src, weights, dst, bias = map(TreeTensor.of_desc, names, descs)
    n, g, oc, oh, ow = map(TreeAxis, ("n", "g", "oc", "oh", "ow"), (*_outer(window), *dst.sizes[2:]))
    ic, kh, kw = map(TreeAxis, ("ic", "kh", "kw"), (window.inputs, *window.kernel))
    ih, iw = (
        out * window.stride + tap * window.dilation - window.padding for out, tap in ((oh, kh), (ow, kw))
    )
    first, last = _channels(window, g, ic, oc)
    taps = (oc, ic, kh, kw) if window.groups == 1 else (g, oc, ic, kh, kw)
    factor = src.load(n, first, ih, iw) * weights.load(*taps)
    guards = Guard(ih, window.height), Guard(iw, window.width)
    summed = Each((ic, kh, kw), (fold_over("sum", "total", factor),), guards)
    value: Expr = Ref("total") + bias.load(last)
    value = apply("max", value, 0.0) if is_relu else value
    axes = (n, oc, oh, ow) if window.groups == 1 else (n, g, oc, oh, ow)
    loops = Each(axes, (summed, dst.store((n, last, oh, ow), value)))
    return LoopTree(
        (src, weights, dst, bias), (loops,), number=Number.real(is_wide=_is_wide(src, weights))
    ).verify()


def _is_wide(*factors: TreeTensor) -> bool:
    return all(tensor.data_type.is_integral for tensor in factors)


def _outer(window: ConvolutionShape) -> tuple[int, int, int]:
    return window.batch, window.groups, window.outputs


def _channels(window: ConvolutionShape, g: TreeAxis, ic: TreeAxis, oc: TreeAxis) -> tuple[Affine, Affine]:
    if window.groups == 1:
        return index_of(ic)[0], index_of(oc)[0]
    if window.inputs == window.outputs == 1:
        return index_of(g)[0], index_of(g)[0]
    return g * window.inputs + ic, g * window.outputs + oc


def product_tree(first: MemoryDesc, second: MemoryDesc, dst: MemoryDesc) -> LoopTree:
    """`dst[b, m, n] = sum of first[b, m, k] * second[b, k, n]`."""
    a, b, c = map(TreeTensor.of_desc, ("first", "second", "dst"), (first, second, dst))
    batch, m, n = map(TreeAxis, ("b", "m", "n"), dst.dims)
    k = TreeAxis("k", first.dims[2])
    summed = Each((k,), (fold_over("sum", "total", a.load(batch, m, k) * b.load(batch, k, n)),))
    loops = Each((batch, m, n), (summed, c.store((batch, m, n), Ref("total"))))
    return LoopTree((a, b, c), (loops,), number=Number.real(is_wide=_is_wide(a, b))).verify()


def run_contraction(lowered: Lowered, buffers: Sequence[Guarded], parts: int = 1) -> None:
    """Run the machine code on buffers in the order of the tree's tensors, in so many parts."""
    library = loaded(lowered.ir(), lowered.isa)
    kernel = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 2)(
        library.address(entry.ENTRY)
    )
    slots = (ctypes.c_uint64 * len(buffers))(*(buffer.address for buffer in buffers))
    numbers = (ctypes.c_int64 * len(lowered.numbers))(*lowered.numbers)
    for part in range(parts):
        kernel(ctypes.addressof(numbers), 0, ctypes.addressof(slots), part, parts)


def random_values(md: MemoryDesc, seed: int) -> np.ndarray:
    """All bytes of a type, or small whole numbers, whose sums of products are exact in any order."""
    limits = _BYTES.get(md.data_type)
    if limits is not None:
        return np.random.default_rng(seed).choice([*limits, 0, 1, 7], md.dims).astype(np.float32)
    return np.random.default_rng(seed).integers(-4, 5, md.dims).astype(np.float32)


def check_contraction(
    tree: LoopTree, descs: Sequence[MemoryDesc], isa: Isa, *, at_end: bool, parts: int = 1, padding: int = 0
) -> None:
    """Only destinations are written, and hold what is interpreted; nothing outside the tensors is read.

    `padding`: the bytes in the padding of all tensors.
    """
    lowered = lower_contraction(tree, isa, CacheSizes())
    assert isinstance(lowered, Lowered)
    written = tree.written
    flats = [
        flat_of(md, None if tensor.name in written else random_values(md, i), padding=padding)
        for i, (md, tensor) in enumerate(zip(descs, tree.tensors, strict=True))
    ]
    buffers = [Guarded(flat.nbytes, at_end=at_end) for flat in flats]
    for buffer, flat, tensor in zip(buffers, flats, tree.tensors, strict=True):
        buffer.write(flat.tobytes())
        if tensor.name not in written:
            buffer.lock()
    run_contraction(lowered, buffers, parts)
    interpret_tree(tree, flats)
    for tensor, buffer, flat in zip(tree.tensors, buffers, flats, strict=True):
        if tensor.name in written:
            np.testing.assert_array_equal(np.frombuffer(buffer.read(), flat.dtype), flat)
            assert buffer.around() <= {POISON}


BLOCKED = "nChw16c", "OIhw16i16o", "nChw16c"
CONVOLUTIONS = [
    (ConvolutionShape(1, 1, 16, 32, 7, 9), BLOCKED),
    (ConvolutionShape(2, 1, 20, 20, 7, 9, stride=2), BLOCKED),
    (ConvolutionShape(2, 1, 3, 20, 13, 9, stride=2), ("nchw", "Ohwi16o", "nChw16c")),
    (ConvolutionShape(1, 1, 20, 33, 7, 9, dilation=2, padding=2), ("nhwc", "hwio", "nhwc")),
    (ConvolutionShape(1, 1, 5, 33, 7, 9, (1, 1), padding=0), ("nhwc", "hwio", "nhwc")),
    (ConvolutionShape(1, 1, 48, 40, 5, 5, (1, 1), padding=0), BLOCKED),
    (ConvolutionShape(1, 32, 1, 1, 7, 9), ("nChw16c", "Goihw16g", "nChw16c")),
    (ConvolutionShape(1, 20, 1, 1, 7, 9), ("nhwc", "decab", "nhwc")),
    (ConvolutionShape(1, 2, 16, 32, 7, 9), ("nChw16c", "gOIhw16i16o", "nChw16c")),
    (ConvolutionShape(1, 1, 8, 24, 6, 40, (1, 7), padding=3), ("nChw8c", "OIhw8i8o", "nChw8c")),
    (ConvolutionShape(1, 1, 16, 16, 1, 1, padding=1), BLOCKED),
    # Of blocks of a row of the image the first and the last alone are at an edge.
    (ConvolutionShape(2, 1, 5, 16, 6, 24), ("nhwc", "cdba", "aBDc8d16b")),
    (ConvolutionShape(2, 1, 5, 16, 6, 36, (1, 3), 2, 1), ("abcd", "cdba", "aBDc6d8b")),
    (ConvolutionShape(1, 16, 1, 1, 7, 24), ("nChw16c", "Goihw16g", "aBDc8d16b")),
]
