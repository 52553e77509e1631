"""From an ONNX model to a graph, for inputs of certain dims: what is known is computed, the rest translated.

A tensor is known where it is in the file, and where it follows from known ones or from dims alone: what
computes shapes leaves nothing in the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ....dtypes import DataType
from ....errors import Error, InvalidArguments, refuse
from ....runtime.alloc import Array
from ...build import GraphBuilder
from ...dims import Dims
from ...graph import Graph
from ...nodes.moves import ReshapeOperation
from ..extent_decisions import EXTENTS, Note, are_alike, note_of
from ..operator_call import ONNX, Made, OperatorCall, Value
from .model import OnnxBranch, OnnxModel, OnnxNode, listed
from .operators import CONDITIONAL, OPERATORS
from .tensors import ELEMENTS

_MOST_SHOWN = 32
Translator = Callable[[OperatorCall], Made]


def check_operators(model: OnnxModel) -> None:
    """Raise Unimplemented for operators that there are not: all at once, with the names of their nodes.

    Of branches only those are looked at that are taken, when they are.
    """
    _check_operators(model.nodes)


def _check_operators(nodes: Sequence[OnnxNode]) -> None:
    missing: dict[str, list[str]] = {}
    for node in nodes:
        if node.operator not in OPERATORS:
            missing.setdefault(node.operator, []).append(node.name)
    refuse_missing("the ONNX model", missing)


def refuse_missing(what: str, missing: Mapping[str, Sequence[str]]) -> None:
    """Raise Unimplemented for operators that restride has not: the names of their nodes, by operator."""
    if not missing:
        return
    texts = [
        f"{operator}: {listed(names[:_MOST_SHOWN])}{', ...' if len(names) > _MOST_SHOWN else ''}"
        for operator, names in missing.items()
    ]
    raise refuse("RS-G02:operators-restride-not", what=what, texts="; ".join(texts), count=len(missing))


def check_order(model: OnnxModel) -> None:
    """Raise InvalidArguments, which names the node, for what is read before it is made, and made twice."""
    _check_nodes(model, {"", *model.tensors, *(model_input.name for model_input in model.inputs)})
    if not model.outputs:
        raise refuse("RS-G01:no-node-makes", where=listed([]))


def _check_nodes(graph: OnnxModel | OnnxBranch, available: set[str]) -> None:
    own: set[str] = set(graph.tensors)
    if isinstance(graph, OnnxModel):
        names = [model_input.name for model_input in graph.inputs]
        twice = [name for at, name in enumerate(names) if name in names[:at]]
        if twice:
            raise refuse("RS-G01:input-tensor-already", twice=listed(twice))
        own.update(names)
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
                _check_nodes(branch, available | set(branch.tensors))
        own.update(node.outputs)
        available.update(node.outputs)
    unmade = [name for name in graph.outputs if name not in available]
    if unmade:
        raise refuse("RS-G01:no-node-makes", where=listed(unmade))


def translated(model: OnnxModel, dims: Mapping[str, Dims], translate: Translator = ONNX.translate) -> Graph:
    """The graph of the model for inputs of these dims, by name; `translate` says what each node becomes.

    Raises InvalidArguments, which names the node, for what does not fit; Unimplemented for what is not there.
    """
    return _write_graph(model, dims, _GraphWriter(GraphBuilder(), model.opset, translate))


def follows_batch(
    model: OnnxModel, input_dims: Sequence[Mapping[str, Dims]], translate: Translator = ONNX.translate
) -> bool:
    """True where the model decides the same for all these dims, which differ in the batch alone."""
    batches = []
    for dims in input_dims:
        batches.append(list[Note]())
        _write_graph(model, dims, _GraphWriter(GraphBuilder(), model.opset, translate, notes=batches[-1]))
    return are_alike(batches)


def _write_graph(model: OnnxModel, dims: Mapping[str, Dims], writer: _GraphWriter) -> Graph:
    values: dict[str, Value] = dict(model.tensors)
    for model_input in model.inputs:
        kind = data_type_of(model_input.name, model_input.element)
        values[model_input.name] = writer.builder.input(model_input.name, dims[model_input.name], kind)
        writer.origins[model_input.name] = frozenset((model_input.name,))
    writer.run(model.nodes, values)
    writer.name_outputs(model.outputs, values)
    return writer.builder.graph(*model.outputs)


@dataclass(frozen=True)
class _GraphWriter:
    """Translates nodes in their order. `origins`: of each tensor that only a run knows, the inputs of the
    model that it follows from. `notes`: takes what is decided on the numbers of `of_extents`.
    """

    builder: GraphBuilder
    opset: int
    translate: Translator
    origins: dict[str, frozenset[str]] = field(default_factory=dict)
    notes: list[Note] | None = None
    of_extents: set[str] = field(default_factory=set)

    def run(self, nodes: Sequence[OnnxNode], values: dict[str, Value]) -> None:
        """Add what the nodes make to `values`."""
        for node in nodes:
            run = self._branch if node.operator == CONDITIONAL else self._translate
            results = run(node, values)
            inputs = self._origins(node)
            if self.notes is not None:
                self._note(self.notes, node, values, results)
            for name, value in zip(node.outputs, results, strict=False):
                if name:
                    values[name] = value
                    self.origins.setdefault(name, inputs)

    def _translate(self, node: OnnxNode, values: Mapping[str, Value]) -> tuple[Value, ...]:
        read = [_value_of(values, name) if name else None for name in node.inputs]
        call = OperatorCall(node, read, self.builder, self.opset, self._origins(node))
        return _translated(call, self.translate)

    def _note(
        self, notes: list[Note], node: OnnxNode, values: Mapping[str, Value], results: Sequence[Value]
    ) -> None:
        """Keep what a node decides on numbers that follow from extents; its results follow from them too."""
        if node.operator in EXTENTS:
            self.of_extents.update(node.outputs)
        if self.of_extents.isdisjoint(node.inputs):
            return
        read = [value for name in node.inputs if isinstance(value := values.get(name), np.ndarray)]
        arrays = [value for value in results if isinstance(value, np.ndarray)]
        if arrays:
            note = note_of(node.operator, read, arrays[0])
            notes += [] if note is None else [note]
            self.of_extents.update(node.outputs)

    def _origins(self, node: OnnxNode) -> frozenset[str]:
        return frozenset(name for source in node.inputs for name in self.origins.get(source, ()))

    def _branch(self, node: OnnxNode, values: Mapping[str, Value]) -> tuple[Value, ...]:
        """The results of the branch that a known condition takes; the other one leaves nothing."""
        condition = _value_of(values, node.inputs[0]) if node.inputs else None
        if not isinstance(condition, np.ndarray):
            call = OperatorCall(node, [condition], self.builder, self.opset, self._origins(node))
            raise call.known_later("which branch is taken is known only in a run, and a graph has one way")
        branch = node.attributes.get("then_branch" if condition.any() else "else_branch")
        if condition.size != 1 or not isinstance(branch, OnnxBranch):
            raise refuse("RS-G01:condition-values-branch", node=node, size=condition.size)
        _check_operators(branch.nodes)
        inner: dict[str, Value] = {**values, **branch.tensors}
        self.run(branch.nodes, inner)
        results = tuple(_value_of(inner, name) for name in branch.outputs)
        for outer, name in zip(node.outputs, branch.outputs, strict=False):
            self.origins[outer] = self.origins.get(name, frozenset())
            if name in self.of_extents:
                self.of_extents.add(outer)
        return results

    def name_outputs(self, names: Sequence[str], values: Mapping[str, Value]) -> None:
        """Make tensors of the graph that are called as the outputs of the model are."""
        new_names: dict[str, str] = {}
        for name in names:
            value = _value_of(values, name)
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


def _value_of(values: Mapping[str, Value], name: str) -> Value:
    if name in values:
        return values[name]
    raise refuse("RS-G01:output-node-not", name=name)


def data_type_of(name: str, element: int) -> DataType:
    """The type of an input, by its number in ONNX. Raises Unimplemented, which names the input."""
    twin = ELEMENTS.get(element)
    try:
        return DataType.parse(twin)
    except Error:
        raise refuse(
            "RS-G02:input-type-restride", name=name, twin=twin or f"element type {element}"
        ) from None


def _translated(call: OperatorCall, translate: Translator) -> tuple[Value, ...]:
    node = call.node
    try:
        # What NumPy warns of is as the operator says: infinities, and numbers that are none.
        with np.errstate(all="ignore"):
            result = translate(call)
    except MemoryError:
        raise refuse("RS-D01:node-makes-more", node=node) from None
    except InvalidArguments as error:
        raise error.with_context(f"node {node}: {error.what}") from None
    except Error:
        raise
    except Exception as error:
        raise refuse(
            "RS-G01:node-cannot-translated",
            node=node,
            inputs=listed(node.inputs),
            type=type(error).__name__,
            reason=str(error)[:200],
        ) from None
    return result if isinstance(result, tuple) else (result,)
