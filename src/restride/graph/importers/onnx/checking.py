"""What of an ONNX model runs, node by node, and what is missing: `rs.onnx.check`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....errors import Error
from ...build import GraphBuilder
from ...dims import Dims
from ..operator_call import ONNX, Value
from .functions import missing_operators
from .model import OnnxModel
from .operators import OPERATORS
from .reader import GraphWriter

_MOST_NAMES = 8


@dataclass(frozen=True, slots=True)
class RefusedNode:
    """A node that does not run: its operator, its name, and why."""

    operator: str
    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.operator} {self.name!r}: {self.why}"


@dataclass(frozen=True, slots=True)
class ModelCheck:
    """What of a model runs; `print` tells all of it.

    runs     how many nodes run, by operator
    missing  the names of the nodes of operators that there are not, by operator; those in functions too
    refused  nodes of operators that there are, in a form that there is not
    behind   the names of the nodes that read what these make, which were not looked at
    """

    runs: Mapping[str, int]
    missing: Mapping[str, tuple[str, ...]]
    refused: tuple[RefusedNode, ...]
    behind: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        """True where all of the model runs."""
        return not (self.missing or self.refused or self.behind)

    def __str__(self) -> str:
        runs = ", ".join(f"{name} {count}" for name, count in sorted(self.runs.items()))
        lines = [f"{sum(self.runs.values())} nodes run: {runs or 'none'}"]
        for operator, names in sorted(self.missing.items(), key=lambda item: -len(item[1])):
            lines.append(f"missing: {operator} {len(names)}: {_listed(names)}")
        lines += [f"refused: {node}" for node in self.refused]
        if self.behind:
            lines.append(f"behind these: {len(self.behind)} nodes: {_listed(self.behind)}")
        return "\n".join(lines)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:_MOST_NAMES])) + ", ..." * (len(names) > _MOST_NAMES)


def check_model(model: OnnxModel, dims: Mapping[str, Dims]) -> ModelCheck:
    """The nodes of a model one by one, for inputs of these dims."""
    missing = missing_operators(model, model.nodes, OPERATORS)
    writer = GraphWriter(GraphBuilder(), model, model.opset, ONNX.translate)
    values: dict[str, Value] = dict(model.tensors)
    refused, behind, runs = list[RefusedNode](), list[str](), Counter[str]()
    for model_input in model.inputs:
        try:
            writer.add_input(model_input, dims[model_input.name], values)
        except Error as error:
            refused.append(RefusedNode("input", model_input.name, _reason(error)))
    for node in model.nodes:
        if any(name and name not in values for name in node.inputs):
            behind.append(node.name)
            continue
        try:
            writer.run([node], values)
            runs[node.operator] += 1
        except Error as error:
            if not missing_operators(model, [node], OPERATORS):
                refused.append(RefusedNode(node.operator, node.name, _reason(error)))
    names = {name: tuple(nodes) for name, nodes in missing.items()}
    return ModelCheck(runs, names, tuple(refused), tuple(behind))


def _reason(error: Error) -> str:
    """What an error says of its reason, in a line."""
    return " ".join(f"{error.why or error.what}".split())
