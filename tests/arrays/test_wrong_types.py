"""Values of wrong types in each place of each public call: it runs, or an error says what is wrong.

A call that is right is made again and again, each time with another value in the place of one argument.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import restride as rs

pytestmark = pytest.mark.filterwarnings("ignore")
Call = tuple[str, Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class Hostile:
    """A value that raises whatever it is asked."""

    def _raise(self, *_: object) -> Any:
        raise RuntimeError("asked")

    __getattr__ = __repr__ = __eq__ = __bool__ = __iter__ = __len__ = __index__ = __float__ = _raise
    __hash__ = None  # type: ignore[assignment]


WRONG: dict[str, Any] = {
    "None": None,
    "a word": "nonsense",
    "bytes": b"x",
    "an object": object(),
    "an array": np.ones(2),
    "a dict": {"a": 1},
    "-1": -1,
    "2.5": 2.5,
    "NaN": float("nan"),
    "a large number": 10**400,
    "a ragged list": [1, [2]],
    "a class": int,
    "a hostile value": Hostile(),
}
DIMS = (2, 4, 6, 6)
X, V = np.ones(DIMS, np.float32), np.ones(4, np.float32)
MD, HALF = rs.MemoryDesc(DIMS, "f32", "abcd"), rs.MemoryDesc((2, 4, 3, 3), "f32", "abcd")
CPU = rs.Engine("cpu")
TRAIN = "forward_training"


def call(function: Callable[..., Any], /, *args: Any, **named: Any) -> Call:
    return getattr(function, "__qualname__", repr(function)), function, args, named


def of(make: Callable[[], Any], name: str, /, *args: Any, **named: Any) -> Call:
    """A method of a new object for each call."""

    def run(*args: Any, **named: Any) -> Any:
        return getattr(make(), name)(*args, **named)

    run.__signature__ = inspect.signature(getattr(make(), name))  # type: ignore[attr-defined]
    return f"{type(make()).__name__}.{name}", run, args, named


def arrays() -> Iterator[Call]:
    matrix = np.ones((4, 6), np.float32)
    yield call(rs.reorder, X, "nhwc", dtype="s8", scale=0.5)
    yield call(rs.reorder, X, out=np.empty_like(X))
    yield call(rs.shuffle, X, group_size=2, axis=1)
    yield call(rs.shuffle_channels, X, group=2, axis=1)
    yield call(rs.channel_shuffle, X, 2)
    yield call(rs.concat, [X, X], 1)
    yield call(rs.add_n, [X, X])
    yield call(rs.quantize, matrix, "s8")
    yield call(rs.dequantize, matrix.astype(np.int8), np.float32(0.5))
    yield call(rs.softmax, X, 1, log=True)
    yield call(rs.attention, X, X, X, lengths=3, sinks=V, causal=True, window=(2, -1), soft_cap=2.0)
    yield call(rs.layer_norm, X, np.ones(6, np.float32), np.ones(6, np.float32), axis=-1)
    yield call(rs.batch_norm, X, V, V, V, V)
    yield call(rs.group_norm, X, 2, V, V)
    yield call(rs.pool, X, 2, alg="max", stride=2, padding=0, dilation=1)
    yield call(rs.normalize, X, np.ones(6), np.ones(6))
    yield call(rs.matmul, matrix, matrix.T.copy())
    yield call(rs.convolution, X, np.ones((4, 4, 3, 3), np.float32), V, stride=1, padding=1)
    yield call(rs.pack_weights, matrix, "matmul")
    yield call(rs.empty, (2, 3), "f32")
    yield call(rs.plan, X, "nhwc")
    yield call(rs.recommended_desc, MD, "convolution", "src")
    yield call(rs.formats.nvfp4, (64, 128))
    yield call(rs.formats.named, "mxfp4", (64, 128))
    yield call(rs.formats.quantize_blocks, np.ones((4, 64), np.float32), "q4_0")
    yield call(rs.formats.unpack_nf4, np.zeros(128, np.uint8), np.ones(4, np.float32), (4, 64))


def files() -> Iterator[Call]:
    rs.save({"a": X}, "a.safetensors")
    net = rs.Network(relu())
    net.save("a.net")
    yield call(rs.save, {"a": X}, "a.npz")
    yield call(rs.load, "a.safetensors")
    yield call(rs.convert, "a.safetensors", "b.safetensors")
    yield call(rs.Network.load, "a.net")
    yield of(lambda: net, "save", "b.net", DIMS)
    yield call(rs.onnx.load, "a.onnx")
    yield call(rs.openvino.load, "a.xml")
    yield call(rs.openvino.read_ir, "a.xml")


def descriptors() -> Iterator[Call]:
    yield call(rs.MemoryDesc, DIMS, "f32", "nchw")
    yield call(rs.MemoryDesc.from_strides, (2, 3), "f32", (3, 1), 0, ())
    yield call(rs.MemoryDesc.from_dict, MD.to_dict())
    yield call(rs.MemoryDesc.from_json, MD.to_json())
    yield of(lambda: MD, "offset", 0, 1, 2, 3)
    yield of(lambda: MD, "index", 0)
    yield of(lambda: MD, "submemory_desc", (1, 2, 3, 3), (0, 0, 0, 0))
    yield of(lambda: MD, "reshape", (8, 6, 6))
    yield of(lambda: MD, "permute_axes", (1, 0, 2, 3))
    yield of(lambda: MD, "as_type", "s8")
    yield of(lambda: MD, "verbose_str", "src")
    yield call(rs.DataType.parse, "f32")
    attr, ops = rs.PrimitiveAttr, rs.PostOps
    yield of(attr, "set_compensation", 1, True, False)
    yield of(attr, "set_fpmath_mode", "bf16", False)
    yield of(attr, "set_output_scales", 0, [0.5])
    yield of(attr, "set_post_ops", rs.PostOps())
    yield of(attr, "set_rnn_data_qparams", 1.0, 0.0)
    yield of(attr, "set_rnn_weights_qparams", 0, [1.0])
    yield of(attr, "set_rounding_mode", rs.ARG_DST, "environment")
    yield of(attr, "set_scales", rs.ARG_SRC, 0, None, (), "f32")
    yield of(attr, "set_zero_points", rs.ARG_SRC, 0, None, (), "s32")
    yield of(attr, "set_scratchpad_mode", "user")
    yield of(ops, "append_binary", "binary_add", MD)
    yield of(ops, "append_dw", "f32", "f32", "f32", 3, 1, 1)
    yield of(ops, "append_eltwise", "eltwise_relu", 0.0, 0.0, 1.0)
    yield of(ops, "append_prelu", 2)
    yield of(ops, "append_sum", 1.0, 0, None)


def running() -> Iterator[Call]:
    memory, other = rs.Memory(MD, CPU), rs.Memory(MD, CPU)
    yield call(rs.Engine, "cpu", 0)
    yield call(rs.Engine.get_count, "cpu")
    yield call(rs.Engine.of_device, CPU.device)
    yield call(rs.Stream, CPU, "default_flags")
    yield call(rs.Stream.of_queue, CPU, 1)
    yield call(rs.Memory, MD, CPU, X)
    yield call(rs.Memory.from_numpy, X, "nchw", CPU)
    yield call(rs.Memory.from_dlpack, X, CPU)
    yield call(rs.Memory.from_pointer, X.ctypes.data, X.nbytes, MD, CPU, owner=X)
    yield of(lambda: memory, "to", "nhwc", "s8")
    yield of(lambda: rs.Memory(MD, CPU), "set_data_handle", X)
    yield call(rs.Reorder, memory, other)
    reorder = rs.Reorder(memory, other)
    yield of(lambda: reorder, "execute", rs.Stream(CPU), {rs.ARG_FROM: memory, rs.ARG_TO: other})
    for name in ("Error", "InvalidArguments", "Unimplemented", "OutOfMemory", "RuntimeFailure"):
        yield call(getattr(rs, name), "what", code="", where="a", why="b", hint="c")
    yield of(lambda: rs.Error("what"), "with_context", "what", where="a", hint="b")
    yield call(rs.empty_cache)
    yield call(rs.set_num_threads, rs.get_num_threads())
    yield call(rs.set_primitive_cache_capacity, rs.get_primitive_cache_capacity())
    yield call(rs.arg_attr_multiple_post_op, 0)


def primitives() -> Iterator[Call]:
    windows, flags = ((2, 2), (2, 2), (0, 0), (0, 0), (0, 0)), "use_scale|use_shift"
    slopes, sums = rs.MemoryDesc((1, 4, 1, 1), "f32", "abcd"), rs.MemoryDesc((2, 1, 6, 6), "f32", "abcd")
    large, conv = rs.MemoryDesc((2, 4, 12, 12), "f32", "abcd"), ((1, 1), (0, 0), (1, 1), (1, 1))
    weights, bias = rs.MemoryDesc((4, 4, 3, 3), "f32", "any"), rs.MemoryDesc((4,), "f32", "a")
    rows, dst = rs.MemoryDesc((3, 4), "f32", "ab"), rs.MemoryDesc((3, 5), "f32", "ab")
    by, five = rs.MemoryDesc((5, 4), "f32", "any"), rs.MemoryDesc((5,), "f32", "a")
    norm, direct = (MD, MD, MD, 1e-3, flags), ("convolution_direct", "deconvolution_direct")
    pairs: dict[str, tuple[tuple[Any, ...], dict[str, tuple[Any, ...]]]] = {
        "Eltwise": (("eltwise_relu", MD, MD, 0.0, 0.0), {"": ("eltwise_relu", MD, MD, MD, 0.0, 0.0)}),
        "Softmax": (("softmax_accurate", MD, MD, 1), {"": ("softmax_accurate", MD, MD, MD, 1)}),
        "Pooling": (("pooling_max", MD, HALF, *windows), {"": ("pooling_max", MD, HALF, *windows)}),
        "BatchNormalization": (norm[1:], {"": ("backward", *norm)}),
        "LayerNormalization": (norm[1:], {"": ("backward", *norm)}),
        "GroupNormalization": ((MD, MD, 2, *norm[3:]), {"": ("backward", MD, MD, MD, 2, *norm[3:])}),
        "LRN": (
            ("lrn_across_channels", MD, MD, 3, 0.1, 0.75, 1.0),
            {"": ("lrn_across_channels", MD, MD, MD, 3, 0.1, 0.75, 1.0)},
        ),
        "PReLU": ((MD, slopes, MD), {"": (MD, slopes, MD, slopes, MD)}),
        "Resampling": (
            ("resampling_linear", (2.0, 2.0), MD, large),
            {"": ("resampling_linear", (2.0, 2.0), MD, large)},
        ),
        **{
            word.partition("_")[0].capitalize(): (
                (word, MD, weights, bias, MD, *conv),
                {"Data": (word, MD, weights, MD, *conv), "Weights": (word, MD, weights, bias, MD, *conv)},
            )
            for word in direct
        },
        "InnerProduct": ((rows, by, five, dst), {"Data": (rows, by, dst), "Weights": (rows, by, five, dst)}),
    }
    for name, (forward, backward) in pairs.items():
        make = getattr(rs, f"{name}Forward").PrimitiveDesc
        yield call(make, CPU, TRAIN, *forward, rs.PrimitiveAttr())
        for back, args in backward.items():
            kind = getattr(rs, f"{name}Backward{back}").PrimitiveDesc
            yield call(kind, CPU, *args, hint_pd=make(CPU, TRAIN, *forward))
    yield call(rs.Reorder.PrimitiveDesc, CPU, MD, CPU, MD, rs.PrimitiveAttr())
    yield call(rs.Binary.PrimitiveDesc, CPU, "binary_add", MD, MD, MD)
    yield call(rs.Reduction.PrimitiveDesc, CPU, "reduction_sum", MD, sums, 0.0, 0.0)
    yield call(rs.ShuffleForward.PrimitiveDesc, CPU, TRAIN, MD, MD, 1, 2)
    yield call(rs.Concat.PrimitiveDesc, CPU, 1, [MD, MD])
    yield call(rs.Sum.PrimitiveDesc, CPU, [1.0, 2.0], [MD, MD])
    yield call(rs.Matmul.PrimitiveDesc, CPU, rows, rs.MemoryDesc((4, 5), "f32", "ab"), None, dst)

    def states(*dims: int) -> rs.MemoryDesc:
        return rs.MemoryDesc(dims, "f32", "any")

    for name, gates, biases in (("VanillaRNN", 1, 1), ("LSTM", 4, 4), ("GRU", 3, 3), ("LBRGRU", 3, 4)):
        words = ("eltwise_tanh",) * (name == "VanillaRNN") + ("unidirectional_left2right",)
        kept = (states(1, 1, 2, 4),) * (1 + (name == "LSTM"))
        weights, bias = states(1, 1, 4, gates, 4), states(1, 1, biases, 4)
        args = (*words, states(5, 2, 4), *kept, weights, weights, bias, states(5, 2, 4), *kept)
        yield call(getattr(rs, f"{name}Forward").PrimitiveDesc, CPU, TRAIN, *args)


def builder() -> rs.graph.GraphBuilder:
    made = rs.graph.GraphBuilder()
    made.input("x", DIMS)
    made.constant(np.ones((4, 4, 3, 3), np.float32), "w")
    made.constant(np.ones((1, 4, 1, 1), np.float32), "v")
    made.constant(V, "s")
    return made


def relu() -> rs.graph.Graph:
    made = rs.graph.GraphBuilder()
    return made.graph(made.add(rs.graph.EltwiseOperation("eltwise_relu"), made.input("x", DIMS)))


OPERATIONS: dict[str, tuple[tuple[str, ...], tuple[Any, ...]]] = {
    "Eltwise": (("x",), ("eltwise_relu", 0.0, 0.0)),
    "Binary": (("x", "v"), ("binary_add",)),
    "Concat": (("x", "x"), (1,)),
    "Convolution": (("x", "w"), ((1, 1), (0, 0), (1, 1), (1, 1), 1)),
    "Deconvolution": (("x", "w"), ((1, 1), (0, 0), (1, 1), (1, 1), 1)),
    "BatchNormalization": (("x", "s", "s", "s", "s"), (1e-3,)),
    "Lrn": (("x",), ("lrn_across_channels", 3, 0.1, 0.75, 1.0)),
    "Pad": (("x",), ((0, 0, 1, 1), (0, 0, 1, 1), 0.0)),
    "Pooling": (("x",), ("pooling_max", (2, 2), (2, 2), (0, 0), (0, 0), (0, 0))),
    "Recurrent": (("x",), ("vanilla_lstm", "left2right", "")),
    "Reduction": (("x",), ("reduction_sum", (1,), 0.0, 0.0)),
    "Reorder": (("x",), ("s8",)),
    "Resampling": (("x",), ("resampling_linear", (12, 12))),
    "Reshape": (("x",), ((8, 6, 6),)),
    "Shuffle": (("x",), (1, 2)),
    "Slice": (("x",), ((0, 0, 0, 0), (1, 1, 1, 1), (1, 1, 1, 1))),
    "Softmax": (("x",), ("softmax_accurate", 1)),
    "Sum": (("x", "x"), ((1.0, 2.0),)),
    "Transpose": (("x",), ((1, 0, 2, 3),)),
}


def graphs() -> Iterator[Call]:
    graph, operation, made = rs.graph, rs.graph.EltwiseOperation("eltwise_relu"), relu()

    def adding(name: str, inputs: tuple[str, ...]) -> Callable[..., str]:
        return lambda *args: builder().add(getattr(graph, f"{name}Operation")(*args), *inputs)

    for name, (inputs, args) in OPERATIONS.items():
        yield f"{name}Operation", adding(name, inputs), args, {}
    yield of(builder, "input", "y", (1, 2), "f32")
    yield of(builder, "constant", V, "c")
    yield of(builder, "add", operation, "x", name="z", epilogues=())
    yield of(builder, "add_all", operation, "x", name="z")
    for name, args in (
        ("rename", ({},)),
        ("type", ("x",)),
        ("is_free", ("x",)),
        ("is_made", ("x",)),
        ("graph", ("x",)),
    ):
        yield of(builder, name, *args)
    yield call(graph.Constant, V)
    yield call(graph.TensorType, (1, 2), rs.f32)
    yield call(graph.Epilogue, operation)
    yield call(graph.Node, "n", operation, ("x",), ("y",), (), None)
    yield call(graph.Graph, made.inputs, made.outputs, made.tensors, made.constants, made.nodes)
    yield call(graph.fuse, made)
    yield call(graph.FusedGraph, made, ())
    yield call(graph.AppliedFusion, "a", ("b",), "c")
    net = rs.Network(made)
    yield call(rs.Network, made)
    yield call(rs.Network.of_source, net.inputs, net.outputs, lambda dims: made)
    yield call(type(net.inputs[0]), "x", (1, None), rs.f32)
    for name in ("prepare", "plan", "explain"):
        yield of(lambda: net, name, DIMS)
    yield of(lambda: net, "profile", X)
    yield of(lambda: net, "with_rule", "plain")
    yield of(lambda: net, "__call__", X)
    yield "a dict of inputs", lambda x: net({"x": x}), (X,), {}


def places(function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Iterator[int | str]:
    """Positions and names of arguments, given or left out."""
    yield from range(len(args))
    yield from named
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    known = [each for each in inspect.signature(function).parameters.values() if each.kind in kinds]
    for at, each in enumerate(known):
        is_free = each.name not in named and each.default is not each.empty
        if is_free and (at >= len(args) or each.kind is kinds[0]) and each.name != "progress":
            yield each.name


# These need a model, an operation's inputs, or a device that is not here.
NOT_HERE = {"load", "read_ir", "Stream.of_queue", "RecurrentOperation", "PrimitiveAttr.set_rounding_mode"}
GROUPS = (arrays, files, descriptors, running, primitives, graphs)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.__name__)
def test_a_value_of_a_wrong_type_is_refused_by_name_or_runs(
    group: Callable[[], Iterator[Call]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    raw, refused = [], set()
    for name, function, args, named in group():
        try:
            function(*args, **named)
        except rs.Error:
            refused.add(name)
        for place in places(function, args, named):
            for word, value in WRONG.items():
                changed, keywords = list(args), dict(named)
                if isinstance(place, int):
                    changed[place] = value
                else:
                    keywords[place] = value
                try:
                    function(*changed, **keywords)
                except rs.Error:
                    pass
                except Exception as error:
                    raw.append(f"{name}: {word} for {place!r}: {type(error).__name__}: {error}")
    assert raw == []
    assert refused <= NOT_HERE


def test_an_error_is_made_of_whatever_it_is_told() -> None:
    error = rs.Unimplemented("a", why=np.ones(2), hint=None, where=Hostile())  # type: ignore[arg-type]
    assert str(error) == "a\n  where: <Hostile>\n  why: [1. 1.]"


@pytest.mark.parametrize(
    "kind", [rs.FormatTag, rs.DataType, rs.Algorithm, rs.Status, rs.PropKind, rs.Query, rs.StreamFlags]
)
def test_a_value_that_no_member_has_is_a_wrong_argument(kind: Any) -> None:
    for value in ("nonsense", None, 2.5, {}, np.ones(2), Hostile()):
        with pytest.raises(rs.InvalidArguments, match=f"{kind.__name__}: there is no member"):
            kind(value)
    assert rs.StreamFlags(3) == rs.StreamFlags.in_order | rs.StreamFlags.out_of_order
