"""Right and wrong uses of the functions of restride: a line that ends in `wrong` is an error to checkers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, assert_type

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import restride as rs
from restride.typing import FormatLike, TypeLike


class Tensor:
    """As torch has them, for those who do not have torch."""

    def __dlpack__(self, *, stream: int | None = None, copy: bool | None = None) -> object:
        return stream, copy

    def is_contiguous(self, memory_format: object = None) -> bool:
        return memory_format is None


class Other:
    """An array of a library that nothing is known of but DLPack."""

    def __dlpack__(self, *, stream: Any = ...) -> Any:
        return stream


def images() -> NDArray[np.float32]:
    """Arrays of no known rank, as most are."""
    return np.zeros((2, 3, 4, 5), np.float32)


x = images()
tag: str = "nhwc"
memory = rs.reorder(x, "nChw16c")
tensor, other = Tensor(), Other()

# An array gives an array, a blocked destination a memory, a tensor a tensor.
assert_type(memory, rs.Memory)
assert_type(rs.reorder(x, "nhwc"), NDArray[np.float32])
assert_type(rs.reorder(x, None), NDArray[np.float32])
assert_type(rs.reorder(x), NDArray[np.float32])
assert_type(rs.reorder(x, dtype="bf16"), NDArray[Any])
assert_type(rs.reorder(x, dtype="s4"), rs.Memory)
assert_type(rs.reorder(x, (60, 1, 15, 3), scale=0.5), NDArray[np.float32])
assert_type(rs.quantize(x), tuple[NDArray[Any], np.float32, int])
assert_type(rs.quantize(x, axis=0), tuple[NDArray[Any], NDArray[np.float32], NDArray[np.int32]])
assert_type(rs.quantize(x, "u8", 0), tuple[NDArray[Any], NDArray[np.float32], NDArray[np.int32]])
assert_type(rs.quantize(x, dst="nChw16c"), tuple[rs.Memory, np.float32, int])
assert_type(rs.reorder(x, "nhwc", dtype="s8"), NDArray[Any])
assert_type(rs.reorder(x, "nhwc", dtype="s4"), rs.Memory)
assert_type(rs.reorder(x, "OIhw4i16o4i", dtype=rs.s8), rs.Memory)
assert_type(rs.reorder(memory, "nchw"), NDArray[Any])
assert_type(rs.reorder(tensor, "nhwc"), Tensor)
assert_type(rs.reorder(tensor, "nChw8c"), rs.Memory)
assert_type(rs.reorder([[1, 2], [3, 4]], "ba"), NDArray[Any])
assert_type(rs.reorder(x, "nChw16c", out=memory), rs.Memory)
assert_type(rs.reorder(tensor, None, out=tensor), Tensor)
assert_type(rs.concat([x, x], 1), NDArray[np.float32])
assert_type(rs.concat([tensor, tensor], axis=1, dst="nhwc"), Tensor)
assert_type(rs.concat([x, x], 1, "nChw16c"), rs.Memory)
assert_type(rs.add_n([x, x], [1.0, 2.0]), NDArray[np.float32])
assert_type(rs.shuffle(x, group_size=3), NDArray[np.float32])
assert_type(rs.shuffle_channels(memory, group=3), rs.Memory)
assert_type(rs.channel_shuffle(tensor, 3), Tensor)
assert_type(rs.dequantize(memory, 0.5, dst="nchw"), NDArray[Any])
assert_type(rs.quantize(x, "s8", dst="nhwc")[0], NDArray[Any])
assert_type(rs.quantize(tensor)[0], Tensor)
assert_type(rs.quantize(x, dst="nChw16c")[0], rs.Memory)
assert_type(rs.dequantize(tensor, 0.5), Tensor)
assert_type(rs.softmax(x, 1), NDArray[np.float32])
assert_type(rs.softmax([1.0, 2.0]), NDArray[Any])
assert_type(rs.attention(x, x, x, causal=True, lengths=3), NDArray[np.float32])
assert_type(rs.layer_norm(memory, axis=1), rs.Memory)
assert_type(rs.group_norm(tensor, 3, scale=[1.0]), Tensor)
assert_type(rs.batch_norm(x, [0.0], [1.0], out=memory), rs.Memory)
assert_type(rs.pool(tensor, 2, padding=[(0, 1), (1, 0)]), Tensor)
assert_type(rs.matmul(x, x), NDArray[Any])
assert_type(rs.matmul(memory, x), rs.Memory)
assert_type(rs.convolution(tensor, x, padding=1), Tensor)
assert_type(rs.convolution(x, x, groups=3, dtype="bf16"), NDArray[Any])
assert_type(rs.plan(x, "nhwc"), rs.Plan)
assert_type(rs.empty((1, 3, 4, 4)), NDArray[Any])
assert_type(rs.empty((1, 3, 4, 4), np.float16, "nhwc"), NDArray[Any])
assert_type(rs.empty((1, 3, 4, 4), "s4"), rs.Memory)
assert_type(rs.empty((1, 3, 4, 4), format="nChw16c"), rs.Memory)
assert_type(rs.empty((1, 3, 4, 4), "bf16", "nChw16c"), rs.Memory)
assert_type(memory.to("nchw", "s8"), rs.Memory)
assert_type(memory.T, rs.Memory)
assert_type(memory.shape, tuple[int, ...])

# Networks: one output is of the kind of the input, several are a dict, which no type can know before.
loaded = rs.load("model.safetensors")
if isinstance(loaded, Mapping):
    assert_type(loaded["w"], rs.Memory | rs.QuantizedTensor | np.ndarray[Any, np.dtype[Any]])
assert_type(rs.plan(x, "nhwc").predicted.seconds, float)
net = rs.Network.load("model.net")
assert_type(net, rs.Network)
assert_type(rs.onnx.load("model.onnx"), rs.Network)
assert_type(net(x), NDArray[Any] | Any)
assert_type(net({"x": x}), NDArray[Any] | Any)
assert_type(net(memory), NDArray[Any] | Any)
assert_type(net(tensor), Tensor | Any)
assert_type(net(other), Other | Any)
assert_type(net([1.0, 2.0]), Any)
net({"x": x, "t": tensor})
assert_type(net(x, out=tensor), Tensor)
assert_type(net(x, out={"y": x}), NDArray[Any] | Any)
net.prepare()
net.prepare((1, 3, 224, 224), (5,), progress=lambda ready, steps: None)
net.prepare({"x": (1, 3, 224, 224), "size": [2]})
net.save(Path("model.net"), (1, 3, 224, 224))

# Every way to name a format or a type.
formats: list[FormatLike] = ["nhwc", "aBcd16b", tag, (60, 20, 5, 1), rs.FormatTag.nhwc, memory.desc, None]
types: list[TypeLike] = ["s8", "float16", rs.bf16, np.float16, np.dtype("f4"), ml_dtypes.bfloat16]
rs.reorder(x, tag, dtype=np.float16, axis=1, scale=[1.0, 2.0, 3.0], zero_point=np.int32(3))
rs.reorder(x, rs.FormatTag.nChw16c, post_ops=["relu", ("clip", 0, 6)], engine="reference")
rs.reorder(other, tag, beta=1.0, out=x)
rs.MemoryDesc((1, 2, 3, 4), np.float32, "nChw16c")
rs.MemoryDesc((1, 2), dtype="f32", format=(2, 1))
rs.Memory(rs.MemoryDesc([3], "f32"), rs.Engine("cpu"), x)
rs.quantize(x, "s8", axis=1, dst="nhwc")

# What is none of them.
rs.reorder("hello", "nhwc")  # wrong
rs.reorder(None, "nhwc")  # wrong
rs.reorder(x, 5)  # wrong
rs.reorder(x, 5.0)  # wrong
rs.reorder(x, "nhwc", dtype="floaty")  # wrong
rs.reorder(x, "nhwc", dtype=5)  # wrong
rs.reorder(x, "nhwc", scale="half")  # wrong
rs.reorder(x, "nhwc", axis="c")  # wrong
rs.reorder(x, "nhwc", scales=0.5)  # wrong
rs.reorder(x, "nhwc", out="here")  # wrong
rs.reorder(x, "nhwc", engine=5)  # wrong
rs.shuffle(x, 3)  # wrong
rs.shuffle("hello", group_size=3)  # wrong
rs.shuffle(x, group_size="3")  # wrong
rs.shuffle_channels(x, group=None)  # wrong
rs.concat(x, axis="c")  # wrong
rs.concat([x, x], 0, 5)  # wrong
rs.concat(["hello"])  # wrong
rs.add_n([x, x], scales=["1"])  # wrong
rs.quantize("hello")  # wrong
rs.quantize(x, "floaty")  # wrong
rs.dequantize(x, "half")  # wrong
rs.softmax("hello")  # wrong
rs.layer_norm(x, "one")  # wrong
rs.pool(x, "two")  # wrong
rs.empty((1, 2), "floaty")  # wrong
rs.empty((1, 2), "f32", 5)  # wrong
rs.matmul(x, "hello")  # wrong
rs.matmul(x, x, dtype="floaty")  # wrong
rs.convolution(x, x, padding=0.5)  # wrong
rs.plan(5, "nhwc", dtype="floaty")  # wrong
rs.MemoryDesc((1, 2), 5)  # wrong
rs.MemoryDesc((1, 2), "f32", 5)  # wrong
rs.MemoryDesc("12", "f32")  # wrong
rs.Memory(x)  # wrong
net("hello")  # wrong
net(x, x)  # wrong
net(x, out="here")  # wrong
net.prepare(8)  # wrong
net.prepare({"x": 8})  # wrong
net.prepare((1, 3), tell=print)  # wrong
rs.Network.load(5)  # wrong
memory.to(5)  # wrong
memory.to("nchw", "floaty")  # wrong
memory.sape  # noqa: B018  # wrong
rs.reoder(x, "nhwc")  # wrong
