"""Graphs of torch.fx as models: calls of ATen's functional operators as nodes, read like ONNX files."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import PurePath
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np
import torch

from ....errors import refuse
from ....runtime.alloc import Array
from ..onnx.model import OnnxInput, OnnxModel, OnnxNode
from .call import CALL, AtenCall, TensorArgument
from .operators import TORCH_OPERATORS

__all__ = [
    "ELEMENTS",
    "GraphReader",
    "array_of",
    "by_operator",
    "called",
    "element_of",
    "names_by_part",
]

_LIBRARIES = str(PurePath(torch.__file__).parent), str(PurePath(__file__).parents[3])
"""The folders of torch and of restride, whose code is not the user's."""
ELEMENTS = {
    torch.float32: 1, torch.uint8: 2, torch.int8: 3, torch.int16: 5, torch.int32: 6, torch.int64: 7,
    torch.bool: 9, torch.float16: 10, torch.float64: 11, torch.bfloat16: 16,
}  # fmt: skip
_PRODUCTS = ("addmm", "baddbmm", "bmm", "convolution", "linear", "mm")
# Calls without a result: what they check held when the module was exported.
_CHECKS = tuple(
    f"aten.{word}"
    for word in ("_assert_async", "_assert_scalar", "_assert_tensor_metadata", "sym_constrain_range_for_size")
)


def element_of(x: torch.Tensor) -> int:
    """Return ONNX's number of a tensor's type. Raises Unimplemented for types that networks lack."""
    element = ELEMENTS.get(x.dtype)
    if element is None:
        raise refuse("RS-G02:example-another-type", dtype=x.dtype)
    return element


def by_operator(missing: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Group pairs of operator and node by operator."""
    nodes: dict[str, list[str]] = {}
    for word, name in missing:
        nodes.setdefault(word, []).append(name)
    return nodes


class GraphReader:
    """Reads nodes of a graph in sequence. `inputs`: names of the inputs of a run. `names`: names of the
    results of nodes, where they are not those of the nodes.

    `missing`: for each node that no network supports, its operator, and the node with the line that calls it.
    """

    def __init__(self, inputs: Iterable[str], names: Mapping[str, str] = MappingProxyType({})) -> None:
        self.missing: dict[str, tuple[str, str]] = {}
        self._nodes: list[OnnxNode] = []
        self._parts: dict[str, tuple[str, ...]] = {}
        self._names = dict(names)
        self._of_inputs, self._of_values = set(inputs), set[str]()

    def model(
        self, inputs: Sequence[tuple[str, torch.Tensor]], tensors: Mapping[str, Array], outputs: Iterable[Any]
    ) -> OnnxModel:
        """Return what was read as a model: names and tensors of inputs, known tensors, and output nodes."""
        own = tuple(OnnxInput(name, tuple(x.shape), element_of(x)) for name, x in inputs)
        names = tuple(self._names.get(output.name, output.name) for output in outputs)
        return OnnxModel(tuple(self._nodes), tensors, own, names, opset=18)

    def read(self, node: Any) -> None:
        """Add the call of a node."""
        # What depends on an input is known only in a run.
        if self._of_inputs & {x.name for x in node.all_input_nodes}:
            self._of_inputs.add(node.name)
        if node.target is operator.getitem:
            self._names[node.name] = self._parts[node.args[0].name][node.args[1]]
        else:
            self._add(node)

    def _add(self, node: Any) -> None:
        value, name = node.meta.get("val"), called(node)
        results = value if isinstance(value, tuple | list) else (value,)
        own = self._names.get(node.name, node.name)
        outputs = [own, *(f"{own}.{i}" for i in range(1, len(results)))]
        self._parts[node.name] = tuple(outputs)
        if isinstance(value, tuple | list):
            read = {user.args[1] for user in node.users if user.target is operator.getitem}
            outputs = [output if at in read else "" for at, output in enumerate(outputs)]
        namespace = getattr(node.target, "namespace", "")
        is_aten = namespace == "aten"
        word = f"{namespace}.{node.target.__name__.split('.')[0]}" if namespace else str(node.target)
        if word in _CHECKS:
            return
        if not all(map(_has_dims, results)):
            if not self._of_values & {each.name for each in node.all_input_nodes}:
                if word in TORCH_OPERATORS:
                    word += ", whose result dims depend on values"
                self.missing[node.name] = word, name
            self._of_values.add(node.name)
            return
        # Gradients that are not requested are None.
        are_tensors = all(x is None or isinstance(x, torch.Tensor) for x in results)
        is_known = (
            is_aten and are_tensors and node.name not in self._of_inputs and _is_of_arguments(node.target)
        )
        if not (is_known or (word in TORCH_OPERATORS and are_tensors)):
            self.missing[node.name] = word, name
            return
        schema = node.target._schema.arguments
        passed = {**{argument.name: x for argument, x in zip(schema, node.args, strict=False)}, **node.kwargs}
        inputs: list[str] = []
        attributes = {
            arg.name: self._argument(passed.get(arg.name, arg.default_value), inputs) for arg in schema
        }
        marked = {
            argument.name
            for argument in schema
            if (x := passed.get(argument.name)) not in (None, False)
            and not (argument.has_default_value() and x == argument.default_value)
        }
        attributes[CALL] = AtenCall(
            tuple(argument.name for argument in schema if not argument.kwarg_only),
            frozenset(marked),
            tuple(
                ((), "") if x is None else (tuple(x.shape), str(x.dtype).removeprefix("torch."))
                for x in results
            ),
            partial(_computed, node.target) if is_known else None,
            any(outputs[1:]),
        )
        self._nodes.append(OnnxNode(word, name, tuple(inputs), tuple(outputs), attributes))

    def _argument(self, value: Any, inputs: list[str]) -> Any:
        if isinstance(value, torch.fx.Node):
            inputs.append(self._names.get(value.name, value.name))
            return TensorArgument(len(inputs) - 1)
        if isinstance(value, list | tuple):
            return tuple(self._argument(item, inputs) for item in value)
        return value


def names_by_part(nodes: Iterable[Any]) -> dict[str, str]:
    """Name results after the submodule that computes them, as "blocks.1.conv".

    The path alone for the only kind of product, or the only operator of a submodule without children; else
    the operator follows, as in "blocks.1.attn.bmm". Repeated names are numbered. What the module itself
    computes keeps its name.
    """
    nodes = list(nodes)
    parts: dict[str, list[Any]] = {}
    for node in nodes:
        if node.op == "call_function" and node.target is not operator.getitem:
            parts.setdefault(_path(node), []).append(node)
    taken, names = {node.name for node in nodes}, dict[str, str]()
    for path, own in parts.items():
        products = [node for node in own if _word(node) in _PRODUCTS]
        if not products and not any(other.startswith(f"{path}.") for other in parts):
            products = own
        has_path = products if len({*map(_word, products)}) == 1 else []
        for node in own if path else ():
            name = path if node in has_path else f"{path}.{_word(node)}"
            name = next(each for i in count() if (each := f"{name}_{i}" if i else name) not in taken)
            value = node.meta.get("val")
            results = len(value) if isinstance(value, tuple | list) else 1
            taken.update((name, *(f"{name}.{i}" for i in range(1, results))))
            names[node.name] = name
    return names


def _path(node: Any) -> str:
    """Return the path of the submodule that calls an operator, or whose gradient it is part of; "" for the
    module itself. Dynamo's paths begin with the variable of the module, as in "L['self'].blocks.1".
    """
    stacks = (node.meta.get(key) or {} for key in ("nn_module_stack", "fwd_nn_module_stack"))
    paths = [path for stack in stacks for path, _ in stack.values()]
    return re.sub(r"^[LG]\['\w*'\]\.?", "", paths[-1]) if paths else ""


def _word(node: Any) -> str:
    return str(getattr(node.target, "overloadpacket", node.target)).removeprefix("aten.").strip("_")


def _has_dims(result: Any) -> bool:
    """False for numbers, and for tensors whose extents are decided in a run."""
    numbers = result.shape if isinstance(result, torch.Tensor) else (result,)
    return not any(isinstance(number, torch.SymInt | torch.SymFloat | torch.SymBool) for number in numbers)


def _is_of_arguments(target: Any) -> bool:
    """True for an operator whose result depends only on its arguments."""
    return torch.Tag.nondeterministic_seeded not in target.tags


def _computed(target: Any, arguments: Mapping[str, Any]) -> tuple[Array, ...]:
    """Return torch's results for constants, on the CPU."""
    schema = target._schema.arguments
    values = {name: _as_torch(value) for name, value in arguments.items()}
    if values.get("device") is not None:
        values["device"] = "cpu"
    positional = [values.pop(argument.name) for argument in schema if not argument.kwarg_only]
    with torch.no_grad():
        results = target(*positional, **values)
    return tuple(map(array_of, results if isinstance(results, tuple | list) else (results,)))


def _as_torch(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_as_torch(item) for item in value]
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(value.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(value if value.flags.writeable else value.copy())


def called(node: Any) -> str:
    """Return the name of a node, with the line of user code that it comes from, or else the submodule."""
    frames = re.findall(r'File "(.*?)", line (\d+)', node.meta.get("stack_trace") or "")
    own = [frame for frame in frames if not frame[0].startswith(_LIBRARIES)]
    if own:
        return f"{node.name} at {PurePath(own[-1][0]).name}:{own[-1][1]}"
    return f"{node.name} of {path}" if (path := _path(node)) else str(node.name)


def array_of(x: torch.Tensor) -> Array:
    """Return a tensor as an array over the same bytes."""
    x = x.detach().cpu()
    if x.dtype is torch.bfloat16:
        return np.asarray(x.view(torch.int16).numpy().view(ml_dtypes.bfloat16))
    return np.asarray(x.numpy())
