"""A network in torch, for `network_runner.py`: torch's functions, called in the order of the model.

What follows from constants and dims is computed in the first run, and not again. Eager, in inference mode; no
compiler of torch's own. Operators that no network of the benchmark has are refused.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Inputs = Mapping[str, Any]
Call = Callable[[], list[Any]]
_Function = Callable[..., Any]


def load(path: str, inputs: Inputs, settings: Mapping[str, Any]) -> tuple[Call, Callable[[], Any]]:
    """Return a function that runs the network once, and no notices."""
    torch, onnx = (importlib.import_module(name) for name in ("torch", "onnx"))
    torch.set_num_threads(settings["threads"])
    model = _TorchNetwork(torch, onnx, onnx.load(path).graph)
    brought = {name: torch.from_numpy(array) for name, array in inputs.items()}
    with torch.inference_mode():
        model.first(brought)

    def call() -> list[Any]:
        with torch.inference_mode():
            return [each.numpy() for each in model(brought)]

    return call, dict


class _TorchNetwork:
    """The nodes of a graph as calls of torch's functions on tensors by name."""

    def __init__(self, torch: Any, onnx: Any, graph: Any) -> None:
        self._torch, self._onnx = torch, onnx
        self._known = {
            each.name: torch.from_numpy(onnx.numpy_helper.to_array(each).copy()) for each in graph.initializer
        }
        self._outputs = [each.name for each in graph.output]
        self._nodes = list(graph.node)
        self._calls: list[tuple[_Function, list[str], str]] = []

    def first(self, inputs: Mapping[str, Any]) -> None:
        """Run once, and note the calls whose results change with the inputs."""
        values, moving, helper = {**self._known, **inputs, "": None}, set(inputs), self._onnx.helper
        for node in self._nodes:
            attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
            function = _FUNCTIONS[node.op_type](self._torch, attributes)
            made = function(*(values[name] for name in node.input))
            values[node.output[0]] = made
            # Dims are the same in every run, whatever comes.
            if node.op_type != "Shape" and moving.intersection(node.input):
                moving.add(node.output[0])
                self._calls.append((function, list(node.input), node.output[0]))
        read = {name for _, names, _ in self._calls for name in names} - moving
        self._known = {name: values[name] for name in read}

    def __call__(self, inputs: Mapping[str, Any]) -> list[Any]:
        values = {**self._known, **inputs}
        for function, names, output in self._calls:
            values[output] = function(*(values[name] for name in names))
        return [values[name] for name in self._outputs]


# --- operators ----------------------------------------------------------------------------------------------

_Make = Callable[[Any, Mapping[str, Any]], _Function]


def _padded(torch: Any, pads: Sequence[int], value: float = 0.0) -> tuple[Any, _Function]:
    """The padding that torch's windows take, and what pads before where the two sides differ."""
    half = len(pads) // 2
    low, high = list(pads[:half]), list(pads[half:])
    if low == high:
        return low, lambda x: x
    order = [n for pair in zip(reversed(low), reversed(high), strict=True) for n in pair]
    return [0] * half, lambda x: torch.nn.functional.pad(x, order, value=value)


def _convolution(torch: Any, a: Mapping[str, Any]) -> _Function:
    padding, pad = _padded(torch, a.get("pads", [0] * 2 * len(a["kernel_shape"])))
    window = a.get("strides", 1), padding, a.get("dilations", 1), a.get("group", 1)
    return lambda x, w, b=None: torch.nn.functional.conv2d(pad(x), w, b, *window)


def _transposed(torch: Any, a: Mapping[str, Any]) -> _Function:
    padding, _ = _padded(torch, a.get("pads", [0] * 4))
    window = a.get("strides", 1), padding, 0, a.get("group", 1)
    return lambda x, w, b=None: torch.nn.functional.conv_transpose2d(x, w, b, *window)


def _max_pool(torch: Any, a: Mapping[str, Any]) -> _Function:
    padding, pad = _padded(torch, a.get("pads", [0] * 4), float("-inf"))
    window = a["kernel_shape"], a.get("strides", 1), padding, 1, bool(a.get("ceil_mode", 0))
    return lambda x: torch.nn.functional.max_pool2d(pad(x), *window)


def _average_pool(torch: Any, a: Mapping[str, Any]) -> _Function:
    counts = bool(a.get("count_include_pad", 0))
    padding, pad = _padded(torch, a.get("pads", [0] * 4))
    ceil, pool = bool(a.get("ceil_mode", 0)), torch.nn.functional.avg_pool2d
    kernel, strides = a["kernel_shape"], a.get("strides", 1)

    def run(x: Any) -> Any:
        made = pool(pad(x), kernel, strides, padding, ceil, counts)
        if counts or not any(a.get("pads", [])) or any(padding):
            return made
        return made / pool(pad(torch.ones_like(x[:1, :1])), kernel, strides)

    return run


def _resize(torch: Any, a: Mapping[str, Any]) -> _Function:
    function = torch.nn.functional.interpolate
    return lambda x, _=None, scales=None, sizes=None: function(
        x, None if sizes is None else sizes[2:].tolist(), None if sizes is not None else scales[2:].tolist()
    )


def _slice(torch: Any, a: Mapping[str, Any]) -> _Function:
    def run(x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
        for at, (low, high) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            axis = at if axes is None else int(axes[at])
            window = [slice(None)] * x.ndim
            window[axis] = slice(low, min(high, x.shape[axis]), None if steps is None else int(steps[at]))
            x = x[tuple(window)]
        return x

    return run


def _axes(a: Mapping[str, Any], axes: Any) -> tuple[int, ...]:
    """Axes that are an attribute, or in later versions an input."""
    return tuple(a["axes"] if axes is None else axes.tolist())


def _unsqueeze(torch: Any, a: Mapping[str, Any]) -> _Function:
    def run(x: Any, axes: Any = None) -> Any:
        for axis in sorted(_axes(a, axes)):
            x = x.unsqueeze(axis)
        return x

    return run


def _constant(torch: Any, a: Mapping[str, Any]) -> _Function:
    numpy_helper = importlib.import_module("onnx").numpy_helper
    made = torch.from_numpy(numpy_helper.to_array(a["value"]).copy())
    return lambda: made


def _of(name: str) -> _Make:
    """A function of torch that takes what the operator does."""
    return lambda torch, a: getattr(torch, name)


_FUNCTIONS: Mapping[str, _Make] = {
    "Add": _of("add"),
    "AveragePool": _average_pool,
    "BatchNormalization": lambda torch, a: (
        lambda x, scale, shift, mean, variance: torch.nn.functional.batch_norm(
            x, mean, variance, scale, shift, False, 0.0, a.get("epsilon", 1e-5)
        )
    ),
    "Cast": lambda torch, a: (
        lambda x: x.to({1: torch.float32, 6: torch.int32, 7: torch.int64, 9: torch.bool}[a["to"]])
    ),
    "Clip": lambda torch, a: lambda x, low=None, high=None: x.clamp(low, high),
    "Concat": lambda torch, a: lambda *parts: torch.cat(parts, a["axis"]),
    "Constant": _constant,
    "Conv": _convolution,
    "ConvTranspose": _transposed,
    "Div": lambda torch, a: lambda x, y: x / y if x.is_floating_point() else x // y,
    "Dropout": lambda torch, a: lambda x, *_: x,
    "Gemm": lambda torch, a: (
        lambda x, w, b=None: torch.nn.functional.linear(x, w if a.get("transB", 0) else w.t(), b)
    ),
    "GlobalAveragePool": lambda torch, a: lambda x: x.mean((2, 3), keepdim=True),
    "HardSigmoid": lambda torch, a: (
        lambda x: torch.clamp(x * a.get("alpha", 0.2) + a.get("beta", 0.5), 0.0, 1.0)
    ),
    "Identity": lambda torch, a: lambda x: x,
    "LRN": lambda torch, a: (
        lambda x: torch.nn.functional.local_response_norm(
            x, a["size"], a.get("alpha", 1e-4), a.get("beta", 0.75), a.get("bias", 1.0)
        )
    ),
    "MatMul": _of("matmul"),
    "MaxPool": _max_pool,
    "Mul": _of("mul"),
    "Pow": _of("pow"),
    "ReduceMean": lambda torch, a: lambda x, axes=None: x.mean(_axes(a, axes), bool(a.get("keepdims", 1))),
    "Relu": _of("relu"),
    "Reshape": lambda torch, a: (
        lambda x, dims: x.reshape([x.shape[i] if n == 0 else int(n) for i, n in enumerate(dims.tolist())])
    ),
    "Resize": _resize,
    "Shape": lambda torch, a: lambda x: torch.tensor(x.shape),
    "Sigmoid": _of("sigmoid"),
    "Slice": _slice,
    "Softmax": lambda torch, a: lambda x: torch.softmax(x, a.get("axis", -1)),
    "Sqrt": _of("sqrt"),
    "Squeeze": lambda torch, a: lambda x, axes=None: x.squeeze(_axes(a, axes)),
    "Sub": _of("sub"),
    "Sum": lambda torch, a: lambda x, *others: x + sum(others),
    "Transpose": lambda torch, a: lambda x: x.permute(list(a["perm"])),
    "Unsqueeze": _unsqueeze,
}
