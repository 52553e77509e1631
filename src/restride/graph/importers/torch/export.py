"""Modules of torch as models: exported by torch.export for certain dims, then read like ONNX files."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Any

import ml_dtypes
import numpy as np
import torch

from ....errors import Error, refuse
from ....foreign import text_of
from ....runtime.alloc import Array
from ...dims import Dims
from ...graph import Graph
from ..onnx.model import OnnxInput, OnnxModel, OnnxNode
from ..onnx.reader import missing_error, translated
from .call import CALL, AtenCall, TensorArgument, translate_aten
from .layers import RESIZES
from .operators import TORCH_OPERATORS

__all__ = ["ExportedModule", "element_of", "exported"]

# Operators that torch would take apart, and restride has whole; but for multilabel_margin_loss_forward, of
# which torch's parts give another value.
_WHOLE = (
    "channel_shuffle", "gru", "hardsigmoid", "hardswish", "linear", "lstm", "mish",
    "multilabel_margin_loss_forward", "nll_loss_forward", "nll_loss2d_forward", "pixel_shuffle",
    "pixel_unshuffle", "prelu", "relu6", "rnn_relu", "_safe_softmax",
    "_scaled_dot_product_flash_attention_for_cpu",
    "rnn_tanh", "roll", "scaled_dot_product_attention", "silu", "softplus",
    *(f"{word}_pad{rank}d" for word in ("reflection", "replication") for rank in (1, 2, 3)), *RESIZES,
    *(word.removeprefix("aten.") for word in TORCH_OPERATORS if "_backward" in word),
)  # fmt: skip
_OF_TORCH = str(PurePath(torch.__file__).parent)
_ELEMENTS = {
    torch.float32: 1, torch.uint8: 2, torch.int8: 3, torch.int16: 5, torch.int32: 6, torch.int64: 7,
    torch.bool: 9, torch.float16: 10, torch.float64: 11, torch.bfloat16: 16,
}  # fmt: skip
# Calls without a result: what they check was true when the module was exported.
_CHECKS = ("_assert_async", "_assert_scalar", "_assert_tensor_metadata", "sym_constrain_range_for_size")


@dataclass(frozen=True)
class ExportedModule:
    """A program of torch as a model, and the tree whose leaves are the model's outputs."""

    model: OnnxModel
    tree: Any

    def graph(self, dims: Mapping[str, Dims]) -> Graph:
        """The graph, for the dims that it was exported for."""
        return translated(self.model, dims, translate_aten)


def element_of(x: torch.Tensor) -> int:
    """The number that ONNX has for the type of a tensor. Raises Unimplemented for types of no network."""
    element = _ELEMENTS.get(x.dtype)
    if element is None:
        raise refuse("RS-G02:example-another-type", dtype=x.dtype)
    return element


def exported(module: torch.nn.Module, example: Sequence[torch.Tensor]) -> ExportedModule:
    """The operations of a module for tensors like these. Nothing of it is run on their values.

    Raises InvalidArguments where torch cannot export it, Unimplemented for operators that restride has not,
    all at once.
    """
    default = getattr(torch.export, "default_decompositions", None)
    if default is None:
        raise refuse("RS-G04:torch-too-old", version=torch.__version__)
    try:
        with torch.no_grad():
            program = torch.export.export(module, tuple(example))
            program = program.run_decompositions(_decompositions(default()))
    except Exception as error:  # torch raises its own errors, and those of the module's code
        raise refuse(
            "RS-G05:torch-export-cannot",
            type=type(module).__name__,
            type_type=type(error).__name__,
            text_of=text_of(error).strip().splitlines()[0][:300],
        ) from error
    try:
        return _ProgramReader(program, example).read()
    except Error:
        raise
    except Exception as error:
        raise refuse(
            "RS-G02:program-no-network",
            type=type(module).__name__,
            type_type=type(error).__name__,
            text_of=text_of(error)[:300],
        ) from error


def follows_batch(
    module: torch.nn.Module, example: Sequence[torch.Tensor], dims: Sequence[Sequence[Dims]]
) -> bool:
    """True where torch proves that extents follow the batch on a line, and nothing else follows it.

    `dims`: dims of the inputs for several batches, the least first.
    """
    pairs = [list(zip(least, most, strict=True)) for least, most in zip(dims[0], dims[-1], strict=True)]
    ends = next(pair for own in pairs for pair in own if pair[0] != pair[1])
    batch = torch.export.Dim("batch", min=ends[0], max=ends[1])
    shapes = [{axis: batch for axis, pair in enumerate(own) if pair == ends} for own in pairs]
    try:
        with torch.no_grad():
            program = torch.export.export(module, tuple(example), dynamic_shapes=shapes)
    except Exception:  # torch refuses in its own errors what is decided by the batch
        return False
    values = torch.utils._pytree.tree_leaves([node.meta.get("val") for node in program.graph.nodes])
    numbers = [n for value in values for n in (value.shape if isinstance(value, torch.Tensor) else (value,))]
    return all(map(_is_on_line, numbers))


def _is_on_line(number: Any) -> bool:
    """True for a constant, and an integer that is so many times the batch and so many more."""
    if not isinstance(number, torch.SymInt | torch.SymFloat | torch.SymBool):
        return True
    expression = number.node.expr
    is_sum = isinstance(number, torch.SymInt) and expression.is_polynomial(*expression.free_symbols)
    return is_sum and all(expression.diff(symbol).is_number for symbol in expression.free_symbols)


def _decompositions(table: Any) -> Any:
    for word in _WHOLE:
        packet = getattr(torch.ops.aten, word, None)
        for overload in packet.overloads() if packet is not None else ():
            table.pop(getattr(packet, overload), None)
    return table


class _ProgramReader:
    """Goes through the nodes of an exported program: names of tensors, and calls in order."""

    def __init__(self, program: Any, example: Sequence[torch.Tensor]) -> None:
        self._program, self._example = program, example
        self._nodes: list[OnnxNode] = []
        self._parts: dict[str, tuple[str, ...]] = {}
        self._names: dict[str, str] = {}
        self._missing: dict[str, list[str]] = {}
        self._of_inputs: set[str] = set(program.graph_signature.user_inputs)
        self._of_values: set[str] = set()

    def read(self) -> ExportedModule:
        outputs: tuple[Any, ...] = ()
        for node in self._program.graph.nodes:
            if node.op == "call_function":
                # What follows from an input is known only in a run.
                self._of_inputs |= (
                    {node.name} if self._of_inputs & {x.name for x in node.all_input_nodes} else set()
                )
            if node.op == "call_function" and node.target is operator.getitem:
                self._names[node.name] = self._parts[node.args[0].name][node.args[1]]
            elif node.op == "call_function":
                self._add(node)
            elif node.op == "output":
                outputs = node.args[0]
        if self._missing:
            raise missing_error("the module", self._missing)
        if any(not hasattr(output, "name") for output in outputs):
            raise refuse(
                "RS-G05:module-gives-no",
                outputs=", ".join(str(output) for output in outputs if not hasattr(output, "name")),
            )
        signature = self._program.graph_signature
        targets = {**signature.buffers_to_mutate, **signature.user_inputs_to_mutate}
        if targets:
            raise refuse("RS-G05:module-writes-into", written=", ".join(map(str, targets.values())))
        inputs = tuple(
            OnnxInput(name, tuple(x.shape), element_of(x))
            for name, x in zip(signature.user_inputs, self._example, strict=True)
        )
        tensors = dict(self._tensors(signature))
        names = tuple(self._names.get(output.name, output.name) for output in outputs)
        return ExportedModule(
            OnnxModel(tuple(self._nodes), tensors, inputs, names, opset=18), self._program.call_spec.out_spec
        )

    def _tensors(self, signature: Any) -> Any:
        """Parameters, buffers and constants by the names of their placeholders."""
        tensors = {**self._program.constants, **self._program.state_dict}
        for table in (
            signature.inputs_to_parameters,
            signature.inputs_to_buffers,
            signature.inputs_to_lifted_tensor_constants,
        ):
            for name, target in table.items():
                yield name, _array_of(tensors[target])

    def _add(self, node: Any) -> None:
        value, name = node.meta.get("val"), f"{node.name}{_line_of(node)}"
        results = value if isinstance(value, tuple | list) else (value,)
        outputs = [node.name, *(f"{node.name}.{i}" for i in range(1, len(results)))]
        self._parts[node.name] = tuple(outputs)
        if isinstance(value, tuple | list):
            read = {user.args[1] for user in node.users if user.target is operator.getitem}
            outputs = [output if at in read else "" for at, output in enumerate(outputs)]
        is_aten = getattr(node.target, "namespace", "") == "aten"
        word = node.target.__name__.split(".")[0] if is_aten else ""
        if word in _CHECKS:
            return
        if not all(map(_has_dims, results)):
            if not self._of_values & {each.name for each in node.all_input_nodes}:
                word = f"aten.{word}" if is_aten else str(node.target)
                if word in TORCH_OPERATORS:
                    word += ", whose result has dims that depend on values"
                self._missing.setdefault(word, []).append(name)
            self._of_values.add(node.name)
            return
        # Gradients that are not asked for are None.
        are_tensors = all(x is None or isinstance(x, torch.Tensor) for x in results)
        is_known = (
            is_aten and are_tensors and node.name not in self._of_inputs and _is_of_arguments(node.target)
        )
        word = f"aten.{word}" if is_aten else str(node.target)
        if not (is_known or (word in TORCH_OPERATORS and are_tensors)):
            self._missing.setdefault(word, []).append(name)
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


def _has_dims(result: Any) -> bool:
    """False for numbers and tensors whose extents a run decides."""
    numbers = result.shape if isinstance(result, torch.Tensor) else (result,)
    return not any(isinstance(number, torch.SymInt | torch.SymFloat | torch.SymBool) for number in numbers)


def _is_of_arguments(target: Any) -> bool:
    """True for an operator whose result follows from its arguments alone."""
    return torch.Tag.nondeterministic_seeded not in target.tags


def _computed(target: Any, arguments: Mapping[str, Any]) -> tuple[Array, ...]:
    """What torch makes of constants, in the memory of this machine."""
    schema = target._schema.arguments
    values = {name: _as_torch(value) for name, value in arguments.items()}
    if values.get("device") is not None:
        values["device"] = "cpu"
    positional = [values.pop(argument.name) for argument in schema if not argument.kwarg_only]
    with torch.no_grad():
        results = target(*positional, **values)
    return tuple(map(_array_of, results if isinstance(results, tuple | list) else (results,)))


def _as_torch(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_as_torch(item) for item in value]
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(value.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(value if value.flags.writeable else value.copy())


def _line_of(node: Any) -> str:
    """The line of the module's code that a call comes from, or the part of it: that of torch says nothing."""
    frames = re.findall(r'File "(.*?)", line (\d+)', node.meta.get("stack_trace") or "")
    own = [frame for frame in frames if not frame[0].startswith(_OF_TORCH)]
    if own:
        return f" at {PurePath(own[-1][0]).name}:{own[-1][1]}"
    parts = [part for part, _ in (node.meta.get("nn_module_stack") or {}).values() if part]
    return f" of {parts[-1]}" if parts else ""


def _array_of(x: torch.Tensor) -> Array:
    x = x.detach().cpu().contiguous()
    if x.dtype is torch.bfloat16:
        return np.asarray(x.view(torch.int16).numpy().view(ml_dtypes.bfloat16))
    return np.asarray(x.numpy())
