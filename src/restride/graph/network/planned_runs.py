"""Planner and runners of a network, for inputs of any dims: loaded when a network is first planned."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType

from ...desc.parse import parse_word
from ...desc.viewer import Explanation
from ...errors import refuse
from ...runtime.engine import Engine
from ..batch_form import LARGEST, BatchForm, IsLinear, batch_forms
from ..dims import Dims
from ..formats.propagation import RULES
from ..graph import Graph
from ..rewrites.fusions import fuse, parse_fusions
from ..rewrites.precision import PRECISIONS
from .file import NetworkFile
from .inputs import NetworkInput, check_dims, wrong_inputs
from .plan import NetworkPlan, PlannedGraph, explain_plan, plan_network
from .prepacking import PrepackedConstants
from .recorded_run import keep_record
from .running import Runner
from .saved import SavedNetwork, SavedPlan, write_network

__all__ = ["FixedGraph", "GraphSource", "PlannedRuns", "graph_inputs", "planned_file"]

_MOST_PLANS = 8

GraphSource = Callable[[Mapping[str, Dims]], Graph | PlannedGraph]
"""Makes the graph for inputs of given dims, by name."""


def graph_inputs(graph: object) -> list[NetworkInput]:
    """Return the inputs of a graph. Raises InvalidArguments for anything else."""
    if not isinstance(graph, Graph):
        raise refuse("RS-V08:no-graph", type=type(graph).__name__)
    types = [(name, graph.tensors[name]) for name in graph.inputs]
    return [NetworkInput(name, kind.dims, kind.data_type) for name, kind in types]


@dataclass(frozen=True, slots=True)
class FixedGraph:
    """A source that always returns the same graph."""

    graph: Graph

    def __call__(self, dims: Mapping[str, Dims]) -> Graph:
        """The graph."""
        return self.graph


class PlannedRuns:
    """The plans of a network by the dims of its inputs; those made last are kept. Threads can share it.

    `saved`: the file that it comes from. `forms`: those of other batches; without `is_linear` none are made,
    and none beyond `largest`. Raises InvalidArguments for an unknown rule or fusion.
    """

    def __init__(
        self,
        inputs: Sequence[NetworkInput],
        outputs: Sequence[str],
        source: GraphSource,
        rule: str,
        without: Iterable[str] = (),
        saved: SavedNetwork | None = None,
        prepacked: PrepackedConstants | None = None,
        forms: Sequence[BatchForm] = (),
        is_linear: IsLinear | None = None,
        largest: int = LARGEST,
        precision: str = "f32",
    ) -> None:
        self._precision = parse_word("Network: precision", precision, PRECISIONS)
        self._rule = parse_word("Network: rule", rule, RULES, "no rule of propagation has this name")
        self._inputs, self._outputs, self._source = inputs, outputs, source
        self._without, self._saved, self._forms = parse_fusions(without), saved, tuple(forms)
        self._is_linear, self._largest = is_linear, largest
        self._prepacked = PrepackedConstants(saved) if prepacked is None else prepacked
        self._engine = Engine("cpu")
        self._runners: OrderedDict[tuple[Dims, ...], Runner] = OrderedDict()
        # Reentrant: a signal handler may need the plan that the interrupted code is making.
        self._lock = threading.RLock()

    def with_rule(self, rule: str) -> PlannedRuns:
        """Return the same network, planned by another rule; constants are shared."""
        shared = self._prepacked, self._forms, self._is_linear, self._largest, self._precision
        return PlannedRuns(self._inputs, self._outputs, self._source, rule, self._without, None, *shared)

    @property
    def made_of(self) -> tuple[GraphSource, tuple[str, ...], IsLinear | None, int]:
        """The source, the disabled fusions, `is_linear` and `largest`."""
        return self._source, tuple(self._without), self._is_linear, self._largest

    def check_pickle(self) -> None:
        """Raise Unimplemented if the graphs are made by a function that only exists in this process."""
        owner = getattr(self._source, "__self__", None)
        if isinstance(self._source, FunctionType) or isinstance(owner, SavedNetwork):
            raise refuse("RS-G07:pickle")

    @property
    def dims(self) -> tuple[tuple[Dims, ...], ...]:
        """The dims of inputs for which there is a plan."""
        return tuple(self._runners)

    def explain(self, dims: tuple[Dims, ...]) -> Explanation:
        """Describe the plan for inputs of these dims."""
        return explain_plan(self.runner(dims).plan)

    def plan(self, dims: tuple[Dims, ...]) -> NetworkPlan:
        """Return the plan for inputs of these dims."""
        return self.runner(dims).plan

    def runner(self, dims: tuple[Dims, ...]) -> Runner:
        """Return the runner for inputs of these dims, planning it if necessary."""
        runner = self._runners.get(dims)
        if runner is not None:
            return runner
        with self._lock:
            runner = self._runners.get(dims) or self._new_runner(dims)
            # Others read it without the lock: every intermediate state is complete.
            self._runners[dims] = runner
            for key in list(self._runners)[:-_MOST_PLANS]:
                self._runners.pop(key, None)
        return runner

    def save(self, path: str, dims: Sequence[tuple[Dims, ...]]) -> None:
        """Write the network with the plans for these dims, and store records of their runs."""
        runners = [self.runner(input_dims) for input_dims in dims]
        pairs = list(zip(dims, runners, strict=True))
        saved = [SavedPlan(own, runner.plan, runner.prepare().constants) for own, runner in pairs]
        forms = list(self._forms)
        for input_dims in dims:
            if self._is_linear is not None and not any(form.covers(input_dims) for form in forms):
                forms += batch_forms(self._inputs, input_dims, self._fused, self._is_linear, self._largest)
        how = self._rule, self._precision
        file = write_network(path, self._inputs, self._outputs, *how, saved, forms)
        for (input_dims, runner), tensors in zip(pairs, file.tensors, strict=True):
            record = runner.record(tensors)
            if record is not None:
                keep_record(file.digest, input_dims, record)

    def keep_record(self, file: NetworkFile, dims: tuple[Dims, ...]) -> None:
        """Store the record of a run for inputs of these dims, if all its constants are in the file."""
        runner = self._runners.get(dims)
        if runner is None or self._saved is None:
            return
        numbers = {name: self._saved.tensor(*kind) for name, kind in runner.plan.constants.items()}
        tensors = {name: number for name, number in numbers.items() if number is not None}
        record = runner.record(tensors) if len(tensors) == len(numbers) else None
        if record is not None:
            keep_record(file.digest, dims, record)

    def _new_runner(self, dims: tuple[Dims, ...]) -> Runner:
        if len(dims) != len(self._inputs):
            raise wrong_inputs([tensor.name for tensor in self._inputs], [f"dims of {len(dims)}"])
        for tensor, extents in zip(self._inputs, dims, strict=True):
            check_dims(tensor, extents)
        graph, rule, without = self._graph(dims), self._rule, self._without
        plan = plan_network(graph, rule, self._engine, without, precision=self._precision)
        return Runner(plan, self._engine, self._prepacked)

    def _graph(self, dims: tuple[Dims, ...]) -> Graph | PlannedGraph:
        return self._source({tensor.name: own for tensor, own in zip(self._inputs, dims, strict=True)})

    def _fused(self, dims: tuple[Dims, ...]) -> Graph:
        graph = self._graph(dims)
        return (graph.fused if isinstance(graph, PlannedGraph) else fuse(graph, self._without)).graph


def planned_file(file: NetworkFile) -> PlannedRuns:
    """Return the plans of a saved network. Raises InvalidArguments if its header is invalid."""
    saved = SavedNetwork(file)
    source = file.inputs, file.outputs, saved.graph, file.rule, ()
    return PlannedRuns(*source, saved, forms=saved.forms, precision=file.precision)
