"""Translation of an ONNX model to a graph, for inputs of given dims.

A tensor is known if it is in the file, or if it follows from known ones or from dims alone. Known values are
computed during translation, so shape computations leave nothing in the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from ....dtypes import DataType
from ....errors import Error, InvalidArguments, Unimplemented, refuse
from ....model.result_dims import Misfit
from ....runtime.alloc import Array
from ...build import GraphBuilder
from ...dims import Dims
from ...graph import Graph
from ...nodes.moves import ReshapeOperation
from ..extent_decisions import EXTENTS, Note, are_alike, note_of
from ..operator_call import ONNX, KnownInRun, Made, OperatorCall, Value
from .functions import body_of, check_functions, count_nodes, has_bodies, missing_operators
from .gradients import GRADIENT, gradients
from .loops import Loop
from .model import OnnxBranch, OnnxFunction, OnnxInput, OnnxModel, OnnxNode, listed
from .operators import CONDITIONAL, CONTROLS, OPERATORS
from .tensors import ELEMENTS
from .versions import version_errors

_MOST_SHOWN = 32
# Loops with more steps, or with more nodes when unrolled, run step by step.
_MOST_STEPS, _MOST_NODES = 64, 4096
Translator = Callable[[OperatorCall], Made]
T = TypeVar("T")


def check_operators(model: OnnxModel) -> None:
    """Raise Unimplemented for unsupported operators: all at once, with the names of their nodes.

    Branches are checked only when they are taken. Raises InvalidArguments for recursive functions.
    """
    check_functions(model)
    if missing := missing_operators(model, model.nodes, OPERATORS):
        raise missing_error("the ONNX model", missing)


def missing_error(what: str, missing: Mapping[str, Sequence[str]]) -> Error:
    """Return the error of unsupported operators; `missing`: the names of their nodes, by operator."""
    texts = [
        f"{operator}: {listed(names[:_MOST_SHOWN])}{', ...' if len(names) > _MOST_SHOWN else ''}"
        for operator, names in missing.items()
    ]
    where = "; ".join(texts)
    count = f"{len(missing)} operator{'s are' if len(missing) > 1 else ' is'}"
    if what == "the module":
        return refuse("RS-G02:module-operators", texts=where, count=count)
    if not has_bodies():
        return refuse("RS-G02:operators-without-onnx", what=what, texts=where, count=count)
    return refuse("RS-G02:operators-restride-not", what=what, texts=where, count=count)


def check_order(model: OnnxModel) -> None:
    """Raise InvalidArguments, naming the node, for tensors that are read before they are made or made twice,
    and for operators or attributes that the opset does not have; Unimplemented for unsupported opsets.
    """
    for _, error in version_errors(model):
        raise error
    check_tensors(model)


def check_tensors(model: OnnxModel) -> None:
    """Do the same for the tensors alone."""
    available = {"", *model.tensors, *model.packed, *(model_input.name for model_input in model.inputs)}
    _check_nodes(model, available)
    nameless = [name for name in model.outputs if not name]
    if nameless or not model.outputs:
        raise refuse("RS-G01:no-node-makes", where=listed(nameless))


def _check_nodes(graph: OnnxModel | OnnxBranch, available: set[str]) -> None:
    own: set[str] = set(graph.tensors)
    if isinstance(graph, OnnxModel):
        names = [model_input.name for model_input in graph.inputs]
        twice = [name for at, name in enumerate(names) if name in names[:at]]
        if twice:
            raise refuse("RS-G01:input-tensor-already", twice=listed(twice))
        own.update(names)
    for function in (graph.functions or {}).values() if isinstance(graph, OnnxModel) else ():
        _check_nodes(OnnxBranch(function.nodes, {}, function.outputs), {"", *function.inputs})
    for node in graph.nodes:
        missing = [name for name in node.inputs if name not in available]
        if missing:
            raise refuse("RS-G01:onnx-no-origin", node=node, missing=listed(missing))
        outputs = [name for name in node.outputs if name]
        twice = [name for at, name in enumerate(outputs) if name in own or name in outputs[:at]]
        if twice:
            raise refuse("RS-G01:node-makes-tensor-already", node=node, twice=listed(twice))
        for branch in node.attributes.values():
            if isinstance(branch, OnnxBranch):
                _check_nodes(branch, available | {*branch.tensors, *branch.inputs})
        own.update(node.outputs)
        available.update(node.outputs)
    unmade = [name for name in graph.outputs if name not in available]
    if unmade:
        raise refuse("RS-G01:no-node-makes", where=listed(unmade))


def translated(model: OnnxModel, dims: Mapping[str, Dims], translate: Translator = ONNX.translate) -> Graph:
    """Return the graph of the model for inputs of these dims, by name; `translate` translates each node.

    Raises InvalidArguments, naming the node, for what does not fit, and Unimplemented for what is not
    supported.
    """
    return _write_graph(model, dims, GraphWriter(GraphBuilder(), model, model.opset, translate))[0]


def translated_tensors(model: OnnxModel, dims: Mapping[str, Dims]) -> tuple[Graph, Mapping[str, Value]]:
    """Return the graph, and for each tensor of the model its name there, or its values."""
    graph, values = _write_graph(model, dims, GraphWriter(GraphBuilder(), model, model.opset, ONNX.translate))
    # Outputs have the model's names, not those given by their producers.
    current = {name: x for name, x in values.items() if not isinstance(x, str) or x in graph.tensors}
    return graph, current | {name: name for name in model.outputs}


def follows_batch(
    model: OnnxModel, input_dims: Sequence[Mapping[str, Dims]], translate: Translator = ONNX.translate
) -> bool:
    """True if the model makes the same decisions for all these dims, which differ only in the batch."""
    batches = []
    for dims in input_dims:
        batches.append(list[Note]())
        writer = GraphWriter(GraphBuilder(), model, model.opset, translate, notes=batches[-1])
        _write_graph(model, dims, writer)
    return are_alike(batches)


def _write_graph(
    model: OnnxModel, dims: Mapping[str, Dims], writer: GraphWriter
) -> tuple[Graph, dict[str, Value]]:
    values = writer.known_tensors()
    for model_input in model.inputs:
        writer.add_input(model_input, dims[model_input.name], values)
    writer.run(model.nodes, values)
    writer.name_outputs(model.outputs, values)
    return writer.builder.graph(*model.outputs), values


@dataclass(frozen=True)
class GraphWriter:
    """Translates nodes of a model, or of a function in it, in order. `origins`: of each tensor known only in
    a run, the model inputs it depends on. `notes`: collects decisions based on the numbers of `of_extents`.
    `around`: the functions that contain the nodes. `assumes`: for branches and loops decided in a run,
    translate all branches, and one step.
    """

    builder: GraphBuilder
    model: OnnxModel
    opset: int
    translate: Translator
    origins: dict[str, frozenset[str]] = field(default_factory=dict)
    notes: list[Note] | None = None
    of_extents: set[str] = field(default_factory=set)
    around: tuple[str, ...] = ()
    assumes: bool = False

    def known_tensors(self) -> dict[str, Value]:
        """Return the known values of the model; packed ones are constants of the graph."""
        packed = {name: self.builder.constant(tensor) for name, tensor in self.model.packed.items()}
        return {**self.model.tensors, **packed}

    def add_input(self, model_input: OnnxInput, dims: Dims, values: dict[str, Value]) -> None:
        """Add an input of the model to `values`. Raises Unimplemented for an unsupported type."""
        name, kind = model_input.name, data_type_of(model_input.name, model_input.element)
        values[name] = self.builder.input(name, dims, kind)
        self.origins[name] = frozenset((name,))

    def run(self, nodes: Sequence[OnnxNode], values: dict[str, Value]) -> None:
        """Add the results of the nodes to `values`."""
        for at, node in enumerate(nodes):
            read = [_value_of(values, name) if name else None for name in node.inputs]
            call = OperatorCall(node, read, self.builder, self.opset, self._origins(node))
            if node.operator == GRADIENT:
                results = _guarded(call, partial(gradients, nodes=nodes[:at], values=values))
            else:
                results = self._decided(call, values) if node.operator in CONTROLS else self._made(call)
            for name, value in zip(node.outputs, results, strict=False):
                if name:
                    values[name] = value
                    self.origins.setdefault(name, call.origins)

    def _origins(self, node: OnnxNode) -> frozenset[str]:
        return frozenset(name for source in node.inputs for name in self.origins.get(source, ()))

    def _made(self, call: OperatorCall) -> tuple[Value, ...]:
        """Translate a node; if its operator, or its form, is unsupported, translate the operator's body."""
        operator, functions = call.node.operator, self.model.functions
        reason: Error | None = None
        if operator in OPERATORS or functions is None:
            try:
                return self._noted(call, _translated(call, self.translate))
            except Unimplemented as error:
                reason = error
        body = None
        if functions is not None and operator not in self.around:
            body = functions.get(operator) or _guarded(call, body_of)
        if body is None:
            raise reason or missing_error("the ONNX model", {operator: [call.node.name]})
        try:
            return self._expanded(body, call)
        except Error as error:
            raise reason or error from None

    def _expanded(self, function: OnnxFunction, call: OperatorCall) -> tuple[Value, ...]:
        """Translate the nodes of a function in place of a node, and return their results."""
        graph = function.graph_for(call.node)
        pairs = zip(call.node.inputs, call.values, strict=True)
        inner = {name: value for name, value in pairs if value is not None}
        around = (*self.around, call.node.operator)
        replace(self, opset=function.opset, around=around).run(graph.nodes, inner)
        return self._results(graph, inner, call.node)

    def _decided(self, call: OperatorCall, values: Mapping[str, Value]) -> tuple[Value, ...]:
        try:
            return (self._branch if call.node.operator == CONDITIONAL else self._unrolled)(call, values)
        except KnownInRun:
            if not self.assumes:
                raise
            return self.assumed(call.node, values)

    def assumed(self, node: OnnxNode, values: Mapping[str, Value]) -> tuple[Value, ...]:
        """Return results of the types of a node that a run decides, from all of its branches or one step."""
        writer = replace(self, assumes=True, notes=None)
        read = [_value_of(values, name) if name else None for name in node.inputs]
        call = OperatorCall(node, read, self.builder, self.opset, self._origins(node))
        results: tuple[Value, ...] = ()
        if node.operator == CONDITIONAL:
            branches = [each for each in node.attributes.values() if isinstance(each, OnnxBranch)]
            for branch in branches:
                inner: dict[str, Value] = {**values, **branch.tensors}
                writer.run(branch.nodes, inner)
                results = writer._results(branch, inner, node)
        else:
            loop = _guarded(call, lambda call: Loop.of(call.node, self.opset))
            if loop.is_batched:
                raise call.known_in_run("how many steps it takes")
            steps = _UnrolledSteps(writer, call, loop.body, values)
            results = _guarded(call, lambda call: loop.once(call.values, steps))
        return tuple(call.placed(x) if isinstance(x, np.ndarray) else x for x in results)

    def _branch(self, call: OperatorCall, values: Mapping[str, Value]) -> tuple[Value, ...]:
        """Translate the branch taken by a known condition; the other leaves no nodes."""
        node, condition = call.node, next(iter(call.values), None)
        if not isinstance(condition, np.ndarray):
            raise call.known_later(
                "which branch is taken is known only in a run, but a graph has no branches"
            )
        branch = node.attributes.get("then_branch" if condition.any() else "else_branch")
        if condition.size != 1 or not isinstance(branch, OnnxBranch):
            raise refuse("RS-G01:condition-values-branch", node=node, size=condition.size)
        if missing := missing_operators(self.model, branch.nodes, OPERATORS):
            raise missing_error("the ONNX model", missing)
        inner: dict[str, Value] = {**values, **branch.tensors}
        self.run(branch.nodes, inner)
        return self._noted(call, self._results(branch, inner, node))

    def _unrolled(self, call: OperatorCall, values: Mapping[str, Value]) -> tuple[Value, ...]:
        """Unroll a loop with few, known steps into nodes of the graph."""
        loop = _guarded(call, lambda call: Loop.of(call.node, self.opset))
        if missing := missing_operators(self.model, loop.body.nodes, OPERATORS):
            raise missing_error("the ONNX model", missing)
        self.origins.update(dict.fromkeys(loop.body.inputs, call.origins))
        steps = _UnrolledSteps(self, call, loop.body, values)
        results = _guarded(call, lambda call: loop.run(call.values, steps))
        if self.notes is not None:
            self.notes.append({"steps": repr(steps.count).encode()})
        return results

    def _noted(self, call: OperatorCall, results: tuple[Value, ...]) -> tuple[Value, ...]:
        """Return the results of a node, after noting its decisions on numbers that follow from extents."""
        node = call.node
        if self.notes is None:
            return results
        if node.operator in EXTENTS:
            self.of_extents.update(node.outputs)
        arrays = [value for value in results if isinstance(value, np.ndarray)]
        if arrays and not self.of_extents.isdisjoint(node.inputs):
            read = [value for value in call.values if isinstance(value, np.ndarray)]
            note = note_of(node.operator, read, arrays[0])
            self.notes.extend([] if note is None else [note])
            self.of_extents.update(node.outputs)
        return results

    def _results(self, graph: OnnxBranch, values: Mapping[str, Value], node: OnnxNode) -> tuple[Value, ...]:
        """Translate a graph in place of a node, and return the node's outputs."""
        pairs = list(zip(node.outputs, graph.outputs, strict=False))
        # Omitted outputs are not needed.
        results = tuple(_value_of(values, name) if outer else "" for outer, name in pairs)
        for outer, name in pairs:
            self.origins[outer] = self.origins.get(name, frozenset())
            if name in self.of_extents:
                self.of_extents.add(outer)
        return results

    def name_outputs(self, names: Sequence[str], values: Mapping[str, Value]) -> None:
        """Make tensors of the graph with the names of the model's outputs."""
        new_names: dict[str, str] = {}
        for name in dict.fromkeys(names):
            value = _value_of(values, name)
            if not isinstance(value, str | np.ndarray):
                raise refuse("RS-G02:output-no-tensor", name=name)
            tensor = value if isinstance(value, str) else self._constant(name, value)
            if tensor == name:
                continue
            if tensor in new_names or tensor in names or not self.builder.is_made(tensor):
                # Another output, an input or a constant keeps its name: the output is a copy.
                tensor = self.builder.add(ReshapeOperation(self.builder.type(tensor).dims), tensor)
            new_names[tensor] = name
        self.builder.rename(new_names)

    def _constant(self, name: str, value: Array) -> str:
        try:
            return self.builder.constant(value)
        except InvalidArguments as error:
            raise error.with_context(f"output {name!r}: {error.what}") from None


@dataclass
class _UnrolledSteps:
    """The steps of a loop as nodes of a graph; everything that decides their number must be known."""

    writer: GraphWriter
    call: OperatorCall
    body: OnnxBranch
    values: Mapping[str, Value]
    count: int = 0

    def step(self, at: int, values: Sequence[Value]) -> Sequence[Value]:
        self.count += 1
        if self.count > min(_MOST_STEPS, max(_MOST_NODES // (1 + count_nodes(self.body.nodes)), 1)):
            raise self.call.known_in_run(f"a loop of more than {self.count - 1} steps", "taken")
        inner = {**self.values, **self.body.tensors, **dict(zip(self.body.inputs, values, strict=True))}
        self.writer.run(self.body.nodes, inner)
        return [_value_of(inner, name) for name in self.body.outputs]

    def constant(self, x: Array) -> Value:
        return x

    def known(self, x: Value) -> Array:
        if isinstance(x, np.ndarray):
            return x
        raise self.call.known_later("how many steps it takes is known only in a run")

    def kind(self, x: Value) -> tuple[Dims, np.dtype[Any]]:
        return self.call.dims(x), self.call.numpy_type(x)

    def part(self, x: Value, axis: int, at: int) -> Value:
        taken = self.call.onnx("Slice", x, (at,), (at + 1,), (axis,))
        return self.call.onnx("Squeeze", taken, (axis,))

    def stacked(self, parts: Sequence[Value], axis: int) -> Value:
        return self.call.onnx("Concat", *(self.call.onnx("Unsqueeze", x, (axis,)) for x in parts), axis=axis)


def _value_of(values: Mapping[str, Value], name: str) -> Value:
    if name in values:
        return values[name]
    raise refuse("RS-G01:output-node-not", name=name)


def data_type_of(name: str, element: int) -> DataType:
    """Return the type of an input, from its number in ONNX. Raises Unimplemented, naming the input."""
    twin = ELEMENTS.get(element)
    try:
        return DataType.parse(twin)
    except Error:
        raise refuse(
            "RS-G02:input-type-restride", name=name, twin=twin or f"element type {element}"
        ) from None


def _translated(call: OperatorCall, translate: Translator) -> tuple[Value, ...]:
    result = _guarded(call, translate)
    return result if isinstance(result, tuple) else (result,)


def _guarded(call: OperatorCall, run: Callable[[OperatorCall], T]) -> T:
    """Translate a node, turning all exceptions into errors that name it."""
    node = call.node
    try:
        # What NumPy warns of is the operator's specified behavior: infinities and NaN.
        with np.errstate(all="ignore"):
            return run(call)
    except Error as error:
        is_named = isinstance(error, Unimplemented) and str(node) in error.what
        raise error if is_named else error.with_context(f"node {node}: {error.what}") from None
    except MemoryError:
        raise refuse("RS-D01:node-makes-more", node=node) from None
    except Exception as error:
        raise node_error(node, error) from None


def node_error(node: OnnxNode, error: Exception) -> Error:
    """Wrap an error in one that names the node and describes the cause."""
    return refuse(
        "RS-G01:node-cannot-translated",
        node=node,
        inputs=listed(node.inputs),
        why=_why(error),
        hint=getattr(error, "hint", "") or "inputs and attributes must be those of the operator",
    )


def _why(error: Exception) -> str:
    """Describe in words why a node cannot be translated; adds context to errors of Python or NumPy."""
    text = str(error)[:200]
    if isinstance(error, Misfit):
        return text
    if isinstance(error, KeyError):
        return f"{text} is missing"
    return f"its inputs and attributes do not fit together: {text}" if text else "its inputs do not fit"
