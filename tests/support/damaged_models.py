"""ONNX models that are damaged at random: bytes of the file, or fields of its messages.

    python -m support.damaged_models FIRST COUNT

tries the models of so many seeds, and writes a line for each that does anything but run or be refused with
an error of restride, in the time and memory that it may take. Where onnxruntime runs the same model, the
results must be alike.
"""

from __future__ import annotations

import faulthandler
import resource
import signal
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from math import prod
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

import restride as rs

Array = np.ndarray[Any, Any]
Rng = np.random.Generator

# Of a busy machine.
MOST_SECONDS = 60
_MOST_BYTES, _MOST_ELEMENTS = 3 << 30, 1 << 16
_RNG = np.random.default_rng(1)


class ValidModel(NamedTuple):
    """A model before it is damaged, and inputs for it."""

    name: str
    content: bytes
    feed: dict[str, Array]


# --- valid models -------------------------------------------------------------------------------------------


def f32(*dims: int) -> Array:
    return _RNG.standard_normal(dims).astype(np.float32)


def s64(*values: Any) -> Array:
    return np.array(values)


def of_nodes(
    name: str,
    nodes: list[Any],
    outputs: list[str],
    feed: dict[str, Array],
    known: dict[str, Array],
    **more: Any,
) -> ValidModel:
    info = [
        helper.make_tensor_value_info(each, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for each, x in feed.items()
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        info,
        [onnx.ValueInfoProto(name=each) for each in outputs],
        [numpy_helper.from_array(x, each) for each, x in known.items()],
    )
    domains = {"": more.pop("opset", 20), "com.microsoft": 1, "local": 1}
    opsets = [helper.make_opsetid(*each) for each in domains.items()]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10, **more)
    return ValidModel(name, model.SerializeToString(), feed)


def one(operator: str, *xs: Any, known: tuple[int, ...] = (), **options: Any) -> ValidModel:
    """A model of one node; `known`: which of its inputs are constants."""
    outputs = [f"y{i}" for i in range(options.pop("outputs", 1))]
    opset = options.pop("opset", 20)
    names = ["" if x is None else f"x{i}" for i, x in enumerate(xs)]
    node = helper.make_node(operator, names, outputs, **options)
    there = {f"x{i}": x for i, x in enumerate(xs) if x is not None}
    constants = {f"x{i}": xs[i] for i in known}
    feed = {name: x for name, x in there.items() if name not in constants}
    return of_nodes(operator, [node], outputs, feed, constants, opset=opset)


@cache
def valid_models() -> tuple[ValidModel, ...]:
    """One of each kind of operator, and some of several nodes, branches, loops and functions."""
    u8, s8, half = np.ones((2, 3), np.uint8), np.ones((3, 2), np.int8), np.array(0.5, np.float32)
    byte, microsoft = np.array(1, np.uint8), {"domain": "com.microsoft"}
    image, sizes, scales = f32(1, 2, 4, 4), s64(1, 2, 7, 3), np.array([1, 1, 2, 1.5], np.float32)
    single = [
        one("Gather", f32(3, 4), s64(0, 2, -1), known=(1,)),
        one("Gather", f32(3, 4), s64(0, 2, -1)),
        one("GatherElements", f32(3, 4), s64([0, 1], [2, -1]), axis=1),
        one("GatherND", f32(2, 3, 4), s64([[0], [2]], [[1], [0]]), batch_dims=1),
        one("GatherND", f32(2, 3), s64([0, 1], [1, -1]), known=(1,)),
        one("ScatterElements", f32(3, 4), s64([0, 1], [2, -1]), f32(2, 2), axis=1, reduction="add"),
        one("ScatterElements", f32(3, 4), s64([0, 1], [2, -1]), f32(2, 2), known=(1,)),
        one("ScatterND", f32(3, 4), s64([0], [2]), f32(2, 4), reduction="max", known=(1,)),
        one("TopK", f32(3, 5), s64(2), outputs=2, known=(1,), axis=1),
        one("ArgMax", f32(3, 5), axis=1),
        one("OneHot", s64(0, 2, -1), s64(4), np.array([0, 1], np.float32), known=(1, 2), axis=-1),
        one("CumSum", f32(3, 5), np.array(1), known=(1,)),
        one("Tile", f32(2, 3), s64(2, 2), known=(1,)),
        one("Expand", f32(2, 1), s64(2, 3), known=(1,)),
        one("Trilu", f32(3, 3), np.array(1), known=(1,)),
        one("Einsum", f32(2, 3, 4), f32(2, 4, 5), equation="bij,bjk->bik"),
        one("Pad", f32(2, 3), s64(1, 1, 1, 1), known=(1,), mode="reflect"),
        one("Pad", f32(2, 3), s64(1, 1, 1, 1), known=(1,), mode="wrap"),
        one("Pad", f32(2, 3), s64(1, 0, 2, 1), known=(1,)),
        one("Resize", image, None, scales, known=(2,), mode="cubic", antialias=1),
        one("Resize", image, None, None, sizes, known=(3,), mode="linear"),
        one("Resize", image, None, None, sizes, known=(3,), mode="nearest", nearest_mode="floor"),
        one("GridSample", image, f32(1, 3, 3, 2), mode="cubic"),
        one("LayerNormalization", f32(2, 3, 4), f32(4), f32(4), outputs=3, axis=-1),
        one("GroupNormalization", f32(2, 4, 3), f32(4), f32(4), num_groups=2, opset=21),
        one("InstanceNormalization", f32(2, 3, 5), f32(3), f32(3)),
        one("LpNormalization", f32(2, 3), p=1),
        one("BatchNormalization", image, f32(2), f32(2), f32(2), f32(2) ** 2, known=(1, 2, 3, 4)),
        one("MaxPool", f32(1, 2, 5, 5), outputs=2, kernel_shape=[2, 2]),
        one("AveragePool", f32(1, 2, 5, 5), kernel_shape=[2, 2], pads=[1, 1, 0, 0], strides=[2, 2]),
        one("LpPool", f32(1, 2, 5, 5), kernel_shape=[2, 2]),
        one("Conv", image, f32(3, 2, 2, 2), f32(3), known=(1, 2), pads=[0, 1, 1, 0], strides=[1, 2]),
        one("ConvTranspose", image, f32(2, 3, 2, 2), known=(1,), strides=[2, 2]),
        one("Gemm", f32(2, 3), f32(4, 3), f32(4), known=(1, 2), transB=1, alpha=0.5),
        one(
            "QLinearMatMul",
            u8,
            half,
            byte,
            s8.view(np.uint8),
            half,
            byte,
            half,
            byte,
            known=(1, 2, 4, 5, 6, 7),
        ),
        one("MatMulInteger", u8, s8),
        one("ConvInteger", np.ones((1, 1, 4, 4), np.uint8), np.ones((1, 1, 2, 2), np.uint8), known=(1,)),
        one("DynamicQuantizeLinear", f32(3, 4), outputs=3),
        one("QuantizeLinear", f32(2, 4), half, byte, known=(1, 2)),
        one("DepthToSpace", f32(1, 4, 2, 2), blocksize=2),
        one("ReverseSequence", f32(4, 2, 2), s64(1, 3)),
        one("Mod", s64(5, 6), s64(3, 4)),
        one("BitShift", np.array([5, 6], np.uint32), np.array([1, 2], np.uint32), direction="LEFT"),
        one("Where", np.array([True, False]), f32(3, 2), f32(2)),
        one("Clip", f32(3, 2), half, np.array(1, np.float32), known=(1, 2)),
        one("Concat", f32(3, 2), f32(3, 1), axis=1),
        one("Split", f32(4, 3), s64(1, 3), outputs=2, known=(1,), axis=0),
        one("Slice", f32(4, 5), s64(0, 1), s64(3, 5), s64(0, 1), s64(1, 2), known=(1, 2, 3, 4)),
        one("Reshape", f32(4, 6), s64(2, -1, 4), known=(1,)),
        one("Transpose", f32(2, 3, 4), perm=[2, 0, 1]),
        one("Squeeze", f32(2, 1, 3), s64(1), known=(1,)),
        one("ReduceMean", f32(2, 3, 4), s64(1), known=(1,), keepdims=0),
        one("Softmax", f32(2, 3), axis=1),
        one("Cast", f32(2, 3), to=7),
        one("LSTM", f32(3, 1, 2), f32(1, 8, 2), f32(1, 8, 2), known=(1, 2), hidden_size=2, outputs=3),
        one("SkipLayerNormalization", f32(1, 3, 4), f32(1, 3, 4), f32(4), f32(4), **microsoft),
        one("FusedMatMul", f32(2, 3), f32(4, 3), transB=1, alpha=0.5, **microsoft),
        one("MultiHeadAttention", f32(1, 3, 8), f32(1, 3, 8), f32(1, 3, 8), num_heads=2, **microsoft),
    ]
    return (*single, *_of_several_nodes())


def _of_several_nodes() -> list[ValidModel]:
    node, info = helper.make_node, helper.make_tensor_value_info
    leaky = node("LeakyRelu", ["t"], ["o"])
    leaky.attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="alpha", type=1))
    function = helper.make_function(
        *("local", "F", ["a", "b"], ["o"], [node("Add", ["a", "b"], ["t"]), leaky]),
        [helper.make_opsetid("", 20)],
        ["alpha"],
    )
    branches = {
        f"{word}_branch": helper.make_graph([node(op, ["x"], [op])], op, [], [info(op, 1, (2, 3))])
        for word, op in (("then", "Relu"), ("else", "Neg"))
    }
    step = helper.make_graph(
        [node("Add", ["s", "e"], ["so"]), node("Identity", ["so"], ["k"])],
        "b",
        [info("s", 1, (3,)), info("e", 1, (3,))],
        [info("so", 1, (3,)), info("k", 1, (3,))],
    )
    body = helper.make_graph(
        [node("Add", ["s", "s"], ["so"]), node("Identity", ["c"], ["co"])],
        "b",
        [info("i", 7, ()), info("c", 9, ()), info("s", 1, (3,))],
        [info("co", 9, ()), info("so", 1, (3,))],
    )
    shaped = [
        node("Shape", ["x"], ["d"]),
        node("Gather", ["d", "one"], ["n"]),
        node("Unsqueeze", ["n", "zero"], ["u"]),
        node("Concat", ["rest", "u"], ["dims"], axis=0),
        node("Reshape", ["x", "dims"], ["r"]),
        node("MatMul", ["r", "w"], ["m"]),
        node("Add", ["m", "b"], ["a"]),
        node("Relu", ["a"], ["y"]),
    ]
    known = {"one": np.array(1), "zero": s64(0), "rest": s64(-1), "w": f32(3, 4), "b": f32(4)}
    pair = {"x": f32(2, 3), "y": f32(2, 3)}
    return [
        of_nodes(
            "F",
            [node("F", ["x", "y"], ["z"], domain="local", alpha=0.3)],
            ["z"],
            pair,
            {},
            functions=[function],
        ),
        of_nodes(
            "If", [node("If", ["c"], ["z"], **branches)], ["z"], {"c": np.array(True), "x": f32(2, 3)}, {}
        ),
        of_nodes(
            "Scan",
            [node("Scan", ["i", "x"], ["f", "y"], body=step, num_scan_inputs=1)],
            ["f", "y"],
            {"i": f32(3), "x": f32(4, 3)},
            {},
        ),
        of_nodes(
            "Loop",
            [node("Loop", ["n", "", "s0"], ["z"], body=body)],
            ["z"],
            {"s0": f32(3)},
            {"n": np.array(3)},
        ),
        of_nodes("shapes", shaped, ["y"], {"x": f32(2, 3)}, known),
    ]


# --- damage -------------------------------------------------------------------------------------------------

_INTS = (0, 1, -1, 2, 3, 4, -2, 7, -7, 16, 255, 100_000, 2**31 - 1, 2**31, -(2**31), 2**40, 2**62, -(2**63))
_FLOATS = (0.0, 1.0, -1.0, 0.5, 2.0, float("nan"), float("inf"), -float("inf"), 1e30, 1e-30)
_WORDS = (
    *(b"", b"x", b"linear", b"cubic", b"nearest", b"reflect", b"wrap", b"edge", b"constant", b"add", b"mul"),
    *(b"min", b"max", b"none", b"floor", b"ceil", b"align_corners", b"asymmetric", b"tf_crop_and_resize"),
    *(b"SAME_UPPER", b"VALID", b"NOTSET", b"LEFT", b"RIGHT", b"CRD", b"ij,jk->ik", b"\xff\xfe", b"x0"),
)
_OPERATORS = (
    *("Relu", "Add", "Mul", "Equal", "Not", "Where", "Gather", "Reshape", "Shape", "Range", "Expand", "Tile"),
    *(
        "ConstantOfShape",
        "Slice",
        "Concat",
        "MatMul",
        "Pad",
        "Resize",
        "Cast",
        "NonZero",
        "OneHot",
        "EyeLike",
    ),
)


def _pick(rng: Rng, options: Any) -> Any:
    return options[int(rng.integers(len(options)))]


def _damage_bytes(rng: Rng, content: bytes) -> bytes:
    damaged = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(damaged)))
        way = int(rng.integers(5))
        if way == 0:
            damaged[at] ^= 1 << int(rng.integers(8))
        elif way == 1:
            damaged[at] = _pick(rng, (0, 1, 127, 128, 255))
        elif way == 2:
            damaged[at] = (damaged[at] + _pick(rng, (1, 255))) % 256
        elif way == 3:
            damaged[at] = int(rng.integers(256))
        else:
            del damaged[at : at + int(rng.integers(1, 4))]
            damaged += b"\0" * (not damaged)
    return bytes(damaged)


def _damage_list(rng: Rng, values: Any, options: Any) -> None:
    way = int(rng.integers(4))
    if not len(values) or way == 0:
        values.append(_pick(rng, options))
    elif way == 1:
        del values[int(rng.integers(len(values)))]
    else:
        values[int(rng.integers(len(values)))] = _pick(rng, options)


def _damage_attribute(rng: Rng, graph: Any) -> None:
    node = _pick(rng, graph.node)
    if not node.attribute:
        node.attribute.append(helper.make_attribute(_pick(rng, ("axis", "mode", "to", "alpha")), 1))
    attribute = _pick(rng, node.attribute)
    way = int(rng.integers(8))
    if way == 0:
        attribute.type = int(rng.integers(0, 15))
    elif way == 1:
        node.attribute.remove(attribute)
    elif attribute.type == onnx.AttributeProto.INT:
        attribute.i = _pick(rng, _INTS)
    elif attribute.type == onnx.AttributeProto.FLOAT:
        attribute.f = _pick(rng, _FLOATS)
    elif attribute.type == onnx.AttributeProto.STRING:
        attribute.s = _pick(rng, _WORDS)
    elif attribute.type == onnx.AttributeProto.INTS:
        _damage_list(rng, attribute.ints, _INTS)
    elif attribute.type == onnx.AttributeProto.GRAPH and attribute.g.node:
        _pick(rng, _DAMAGES[:4])(rng, attribute.g)


def _damage_names(rng: Rng, graph: Any) -> None:
    node = _pick(rng, graph.node)
    names = ["", "nowhere", *(x.name for x in graph.input), *(x.name for x in graph.initializer)]
    names += [name for each in graph.node for name in each.output]
    _damage_list(rng, _pick(rng, (node.input, node.input, node.output)), names)


def _damage_operator(rng: Rng, graph: Any) -> None:
    node = _pick(rng, graph.node)
    node.op_type = _pick(rng, _OPERATORS)
    node.domain = ""


def _damage_nodes(rng: Rng, graph: Any) -> None:
    if rng.random() < 0.5:
        graph.node.append(_pick(rng, graph.node))
    elif len(graph.node) > 1:
        graph.node.remove(_pick(rng, graph.node))


def _damage_constant(rng: Rng, graph: Any) -> None:
    if not graph.initializer:
        return
    tensor = _pick(rng, graph.initializer)
    way = int(rng.integers(6))
    if way == 0:
        _damage_list(rng, tensor.dims, _INTS)
    elif way == 1:
        tensor.data_type = int(rng.integers(0, 26))
    elif way == 2:
        tensor.raw_data = tensor.raw_data[: int(rng.integers(len(tensor.raw_data) + 1))]
    else:
        values = numpy_helper.to_array(tensor).copy()
        flat, options = values.reshape(-1), _INTS if values.dtype.kind in "iu" else _FLOATS
        if flat.size:
            with np.errstate(all="ignore"):
                flat[int(rng.integers(flat.size))] = np.array(_pick(rng, options)).astype(values.dtype)
        if way == 3:
            values = values.reshape(-1)[: int(rng.integers(flat.size + 1))]
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def _damage_inputs(rng: Rng, graph: Any) -> None:
    if not graph.input:
        return
    kind = _pick(rng, graph.input).type.tensor_type
    way = int(rng.integers(5))
    if way == 0:
        kind.elem_type = int(rng.integers(0, 26))
    elif way == 1:
        kind.ClearField("shape")
    elif way == 2 or not kind.shape.dim:
        kind.shape.dim.add().dim_value = _pick(rng, (0, 1, 2, 3, 5))
    elif way == 3:
        _pick(rng, kind.shape.dim).dim_param = "n"
    else:
        _pick(rng, kind.shape.dim).dim_value = _pick(rng, (*range(8), 17, 64, 1000, 2**31, 2**62, -1))


_DAMAGES: tuple[Callable[[Rng, Any], None], ...] = (
    *(_damage_attribute, _damage_names, _damage_operator, _damage_nodes),
    *(_damage_attribute, _damage_constant, _damage_constant, _damage_inputs),
)


def damaged(seed: int) -> tuple[ValidModel, bytes]:
    """A valid model, and what became of it."""
    rng, models = np.random.default_rng(seed), valid_models()
    valid = models[seed % len(models)]
    if rng.random() < 0.3:
        return valid, _damage_bytes(rng, valid.content)
    model = onnx.ModelProto.FromString(valid.content)
    for _ in range(int(rng.integers(1, 4))):
        if not model.graph.node:
            break
        if rng.random() < 0.05:
            _pick(rng, model.opset_import).version = int(rng.integers(0, 27))
        elif rng.random() < 0.05:
            _pick(rng, model.graph.output).name = _pick(rng, ("x0", "", "nowhere", "y0"))
        else:
            try:
                _pick(rng, _DAMAGES)(rng, model.graph)
            except (ValueError, TypeError, OverflowError, onnx.checker.ValidationError):
                continue  # a field does not take it, or holds none any more
    return valid, model.SerializeToString()


# --- trials -------------------------------------------------------------------------------------------------


class TooSlow(BaseException):
    """A trial takes longer than it may."""


def _too_slow(*_: object) -> None:
    raise TooSlow


def _feed(seed: int, net: Any, usual: dict[str, Array]) -> dict[str, Array] | None:
    """Inputs for a network; None where they would be large."""
    rng, feed = np.random.default_rng(seed), dict[str, Array]()
    for each in net.inputs:
        dims = (
            each.dims if each.dims is not None else usual[each.name].shape if each.name in usual else (2, 3)
        )
        own = usual.get(each.name)
        known = own.shape if own is not None and own.ndim == len(dims) else (2,) * len(dims)
        dims = tuple(m if n is None else n for n, m in zip(dims, known, strict=True))
        if prod(dims) > _MOST_ELEMENTS:
            return None
        is_usual = own is not None and own.shape == dims and own.dtype == each.data_type.numpy
        made = rng.integers(0, 3, dims).astype(each.data_type.numpy)
        feed[each.name] = own if is_usual and own is not None else made
    return feed


def trial(seed: int, other: OtherProcess) -> str:
    """Return the result of a model: "refused", "runs", "same" as in onnxruntime; else the error."""
    valid, content = damaged(seed)
    signal.signal(signal.SIGALRM, _too_slow)
    signal.alarm(MOST_SECONDS)
    try:
        if seed % 8 == 0:
            str(rs.onnx.check(content))
        net = rs.onnx.load(content)
        feed = _feed(seed, net, valid.feed)
        if feed is None:
            return "large"
        made = net(feed)
    except rs.Error as error:
        words = ("Error:", "Misfit", "Errno", "object at 0x", "<class")
        return f"words: {error}" if any(word in str(error) for word in words) else "refused"
    except TooSlow:
        return f"more than {MOST_SECONDS} s"
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"raw: {type(error).__name__}: {str(error)[:150]} ({where.filename}:{where.lineno})"
    finally:
        signal.alarm(0)
    results = made if isinstance(made, dict) else {net.outputs[0]: made}
    is_large = sum(np.asarray(x).size for x in results.values()) > _MOST_ELEMENTS
    return "runs" if is_large else _difference(content, results, other.results(content, feed))


def _of_onnxruntime(content: bytes, feed: dict[str, Array]) -> dict[str, Array] | None:
    """Return onnxruntime's results of a model, by name; None if it refuses."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    try:
        session = onnxruntime.InferenceSession(content, options, ["CPUExecutionProvider"])
        names = [each.name for each in session.get_outputs()]
        return dict(zip(names, session.run(None, feed), strict=True))
    except Exception:
        return None


class OtherProcess:
    """A process in which onnxruntime runs: some damaged models end it, or hold it."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._pool = ProcessPoolExecutor(1, get_context("spawn"))

    def results(self, content: bytes, feed: dict[str, Array]) -> dict[str, Array] | None:
        """Return the results of a model; None if there are none."""
        try:
            return self._pool.submit(_of_onnxruntime, content, feed).result(MOST_SECONDS)
        except (BrokenProcessPool, TimeoutError):
            for process in list((self._pool._processes or {}).values()):
                process.kill()
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._start()
            return None

    def end(self) -> None:
        """End it."""
        self._pool.shutdown()


def _difference(content: bytes, results: dict[str, Any], wanted: dict[str, Array] | None) -> str:
    operators = {node.op_type for node in onnx.ModelProto.FromString(content).graph.node}
    # What a float below 0 is as an unsigned integer is nowhere said. An empty list of axes is no list to
    # onnxruntime, and no axis to the reference of ONNX.
    is_cast, is_squeezed = "Cast" in operators, "Squeeze" in operators
    if wanted is None or (is_cast and any(np.asarray(x).dtype.kind in "iu" for x in results.values())):
        return "runs"
    for name, other in wanted.items():
        found = np.asarray(results[name])
        if not np.isfinite(other.astype(np.float64)).all():
            return "runs"
        if is_squeezed and found.size == other.size:
            found = found.reshape(other.shape)
        if found.shape != other.shape or found.dtype != other.dtype:
            return f"differs: {found.dtype} {found.shape}, onnxruntime {other.dtype} {other.shape}"
        near = 2e-4 if other.dtype.itemsize > 2 else 1e-2
        largest = np.abs(other.astype(np.float64)).max(initial=1e-30)
        if np.abs(found.astype(np.float64) - other).max(initial=0) > near * largest:
            return f"differs: {found.reshape(-1)[:6]}, onnxruntime {other.reshape(-1)[:6]}"
    return "same"


def main(first: int, count: int) -> None:
    """Try models; write a line for what is wrong, and the counts at the end."""
    faulthandler.enable()
    warnings.simplefilter("ignore")
    with open("/proc/self/statm", encoding="ascii") as file:
        mapped = int(file.read().split()[0]) * resource.getpagesize()
    limit = mapped + _MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    counts, other = Counter[str](), OtherProcess()
    for seed in range(first, first + count):
        found = trial(seed, other)
        name = valid_models()[seed % len(valid_models())].name
        counts[found.split(":")[0]] += 1
        if found not in ("refused", "runs", "same", "large"):
            print(f"{seed} {name}: {found}", flush=True)
    other.end()
    print(dict(counts), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
