"""Node-by-node check of an ONNX model, `rs.onnx.check`: what runs, and what is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeVar

import numpy as np

from ....errors import Error
from ....runtime.engine import Engine
from ...build import GraphBuilder
from ...dims import Dims
from ...network.plan import plan_network
from ...nodes.operations import TensorType
from ..operator_call import ONNX, KnownInRun, Value
from .functions import missing_operators
from .loops import LOOPS
from .model import OnnxInput, OnnxModel, OnnxNode
from .operators import CONTROLS, OPERATORS
from .reader import GraphWriter, translated
from .tensors import NUMBERS
from .versions import version_errors

_MOST_NAMES, _MOST_DECIDING = 8, 64
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RefusedNode:
    """A node that does not run: its operator, its name, and the reason."""

    operator: str
    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.operator} {self.name!r}: {self.why}"


@dataclass(frozen=True, slots=True)
class ModelCheck:
    """The result of `rs.onnx.check`; `print` shows all of it.

    runs       number of nodes that run, by operator
    missing    names of nodes of unsupported operators, by operator; including those in functions
    refused    nodes of supported operators in an unsupported form, or that the model's opset does not have;
               "opset" for an unsupported opset
    dependent  names of nodes that read the results of missing or refused ones, and were not checked
    assumed    names of inputs with extents that neither the model nor the caller gives; taken as 1
    """

    runs: Mapping[str, int]
    missing: Mapping[str, tuple[str, ...]]
    refused: tuple[RefusedNode, ...]
    dependent: tuple[str, ...]
    assumed: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """True if the whole model runs."""
        return not (self.missing or self.refused or self.dependent)

    def __str__(self) -> str:
        runs = ", ".join(f"{count} {name}" for name, count in sorted(self.runs.items()))
        count = sum(self.runs.values())
        lines = [f"{counted(count, 'node')} run{'s' * (count == 1)}: {runs or 'none'}"]
        for operator, names in sorted(self.missing.items(), key=lambda item: -len(item[1])):
            lines.append(f"missing: {operator} {len(names)}: {_listed(names)}")
        lines += [f"refused: {node}" for node in self.refused]
        if self.dependent:
            lines.append(
                f"not checked, because they depend on these: {counted(len(self.dependent), 'node')}: "
                f"{_listed(self.dependent)}"
            )
        if self.assumed:
            lines.append(f"unknown extents taken as 1, of {_listed(self.assumed)}; pass dims to set them")
        return "\n".join(lines)


def counted(count: int, word: str) -> str:
    """Format a count: `1 node`, `2 nodes`."""
    return f"{count} {word}{'s' * (count != 1)}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:_MOST_NAMES])) + ", ..." * (len(names) > _MOST_NAMES)


@dataclass(frozen=True, slots=True)
class SortedNodes:
    """The nodes of a model: those that run, those refused with the reasons, and those that follow the latter.

    `values`: known tensors, and the names of those computed in a run, which have their `types`. `inputs`: why
    inputs are refused, by name. `undecided`: the outputs of nodes that read values which must be known before
    a run.
    """

    model: OnnxModel
    runs: tuple[OnnxNode, ...]
    refused: tuple[tuple[OnnxNode, str], ...]
    dependent: tuple[OnnxNode, ...]
    values: Mapping[str, Value]
    types: Mapping[str, TensorType]
    inputs: Mapping[str, str]
    undecided: Set[tuple[str, ...]]

    @property
    def lists(self) -> frozenset[str]:
        """Return the names of computed values that are lists, not tensors."""
        return frozenset(name for name, x in self.values.items() if not isinstance(x, np.ndarray | str))

    @property
    def part(self) -> OnnxModel:
        """Return the model of the nodes that run, with the outputs that the model or other nodes read."""
        rest = [*(node for node, _ in self.refused), *self.dependent]
        wanted = {*self.model.outputs}.union(*(node.reads() for node in rest))
        for node in reversed(self.runs):
            if wanted.intersection(node.outputs) & self.lists:
                wanted |= node.reads()  # a list read elsewhere is rebuilt from its tensors
        return self._part(self.runs, wanted)

    def deciding(self, node: OnnxNode) -> Iterator[str]:
        """Yield the inputs of an undecided node that may decide dims: short lists of numbers."""
        is_loop = node.operator in CONTROLS
        for name in node.inputs if node.outputs in self.undecided and not is_loop else ():
            kind = self.types.get(name)
            if kind is not None and len(kind.dims) <= 1 and kind.elements <= _MOST_DECIDING:
                yield name

    def alone(self, node: OnnxNode) -> OnnxModel:
        """Return the model of a single node that runs."""
        return self._part((node,), {*node.outputs})

    def _part(self, nodes: Sequence[OnnxNode], wanted: set[str]) -> OnnxModel:
        made = [name for node in nodes for name in node.outputs if name in self.types]
        read = {name for node in nodes for name in node.reads() if name in self.types} - {*made}
        known = {name: value for name, value in self.values.items() if isinstance(value, np.ndarray)}
        numbers = {name: NUMBERS.get(self.types[name].data_type.numpy, 0) for name in sorted(read)}
        inputs = tuple(OnnxInput(name, self.types[name].dims, number) for name, number in numbers.items())
        outputs = tuple(name for name in made if name in wanted)
        return replace(self.model, nodes=tuple(nodes), tensors=known, inputs=inputs, outputs=outputs)


def translate_nodes(
    model: OnnxModel,
    dims: Mapping[str, Dims],
    refusals: Mapping[tuple[str, ...], str] = MappingProxyType({}),
    *,
    assumes: bool = False,
) -> SortedNodes:
    """Translate the nodes of a model one at a time, for inputs of these dims, without planning. `refusals`:
    reasons of nodes known not to run, by their outputs. `assumes`: translate what follows branches and loops
    decided in a run, for the types of one branch or one step.
    """
    writer = GraphWriter(GraphBuilder(), model, model.opset, ONNX.translate)
    values = writer.known_tensors()
    inputs, runs, dependent = dict[str, str](), list[OnnxNode](), list[OnnxNode]()
    undecided = set[tuple[str, ...]]()
    refused = list[tuple[OnnxNode, str]]()
    for model_input in model.inputs:
        try:
            writer.add_input(model_input, dims[model_input.name], values)
        except Error as error:
            inputs[model_input.name] = _reason(error)
    for node in model.nodes:
        if any(name not in values for name in node.reads()):
            dependent.append(node)
        elif node.outputs in refusals:
            refused.append((node, refusals[node.outputs]))
        else:
            try:
                writer.run([node], values)
                runs.append(node)
            except KnownInRun as error:
                why = _reason(error)
                if not (assumes and node.operator in CONTROLS and (late := _assume(writer, node, values))):
                    undecided.add(node.outputs)
                else:
                    why = late
                refused.append((node, why))
            except Error as error:
                refused.append((node, _reason(error)))
    types = {name: writer.builder.type(value) for name, value in values.items() if isinstance(value, str)}
    return SortedNodes(model, tuple(runs), tuple(refused), tuple(dependent), values, types, inputs, undecided)


def _assume(writer: GraphWriter, node: OnnxNode, values: dict[str, Value]) -> str:
    """Add the results of a branch or a step; return why that does not run, or "" if it does."""
    try:
        results = writer.assumed(node, values)
    except KnownInRun:
        return ""  # the rest depends on values known only in a run
    except Error as error:
        return _reason(error)
    values.update((name, x) for name, x in zip(node.outputs, results, strict=False) if name)
    return ""


def sort_nodes(
    model: OnnxModel,
    dims: Mapping[str, Dims],
    plan: Callable[[OnnxModel], T],
    *,
    assumes: bool = False,
) -> tuple[SortedNodes, T | None]:
    """Sort the nodes of a model for inputs of these dims, and return `plan` of those that run too.

    The latter is None if nobody reads their results. Nodes that cannot be planned are refused too.
    """
    refusals: dict[tuple[str, ...], str] = {}
    while True:
        found = translate_nodes(model, dims, refusals, assumes=assumes)
        if not found.part.outputs:
            return found, None
        try:
            return found, plan(found.part)
        except Error as error:
            late = {node.outputs: why for node in found.runs if (why := _why_not(found.alone(node), plan))}
            # If each can be planned alone, but not all together, none of them runs.
            refusals |= late or {node.outputs: _reason(error) for node in found.runs}


def _why_not(part: OnnxModel, plan: Callable[[OnnxModel], object]) -> str:
    """Return why a part cannot be planned, or "" if it can."""
    try:
        if part.outputs:
            plan(part)
    except Error as error:
        return _reason(error)
    return ""


def check_model(model: OnnxModel, dims: Mapping[str, Dims], named: Container[str] = ()) -> ModelCheck:
    """Check the nodes of a model for inputs of these dims; for inputs in `named` the caller gave them."""
    is_open = {
        each.name: each.dims is None or not all(isinstance(n, int) for n in each.dims)
        for each in model.inputs
    }
    assumed = [name for name, opens in is_open.items() if opens and name not in named]
    engine = Engine("cpu")
    found, _ = sort_nodes(
        model,
        dims,
        lambda part: plan_network(translated(part, fixed_inputs(part)), "plain", engine),
        assumes=True,
    )
    missing = missing_operators(model, model.nodes, OPERATORS)
    names = {name: tuple(nodes) for name, nodes in missing.items()}
    refused = [RefusedNode("input", name, why) for name, why in found.inputs.items()]
    lists = found.lists.intersection(model.outputs)
    refused += [RefusedNode("output", name, "it is not a tensor") for name in sorted(lists)]
    # What follows a node that its opset does not have is checked all the same.
    wrong = list(version_errors(model))
    refused += [
        RefusedNode(*(("opset", error.what) if node is None else (node.operator, node.name)), _reason(error))
        for node, error in wrong
    ]
    outputs = {node.outputs for node, _ in wrong if node is not None}
    runs = Counter(node.operator for node in found.runs if node.outputs not in outputs)
    for node, why in found.refused:
        inner = missing_operators(model, node.inner_nodes(), OPERATORS)
        for operator, nodes in inner.items():
            names[operator] = (*names.get(operator, ()), *nodes)
        if node.operator in CONTROLS and node.outputs in found.undecided and not inner:
            runs[node.operator] += 1
        elif not inner and not missing_operators(model, [node], OPERATORS):
            refused.append(RefusedNode(node.operator, node.name, why))
    dependent = tuple(node.name for node in found.dependent)
    return ModelCheck(runs, names, tuple(refused), dependent, tuple(assumed))


def takes_steps(model: OnnxModel, dims: Mapping[str, Dims], is_open: bool) -> bool:
    """True if a run decides which graphs run, how often, or on which dims; `is_open`: or other dims do."""
    operators = {node.operator for node in model.nodes}
    if is_open and operators & LOOPS:
        return True
    # Most models have neither; translating them can wait until they are planned.
    if not operators & CONTROLS and all(each.dims is None or len(each.dims) > 1 for each in model.inputs):
        return False
    found = translate_nodes(model, dims)
    refused = (node for node, _ in found.refused if node.outputs in found.undecided)
    return any(node.operator in CONTROLS or any(found.deciding(node)) for node in refused)


def fixed_inputs(part: OnnxModel) -> dict[str, Dims]:
    """Return the dims of the inputs of a part, all of which are known."""
    return {each.name: tuple(n for n in each.dims or () if isinstance(n, int)) for each in part.inputs}


def _reason(error: Error) -> str:
    """Return the reason of an error in one line."""
    return " ".join(f"{error.why or error.what}".split())
