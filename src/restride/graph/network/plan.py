"""The plan of a network for inputs of given dims: formats, steps in order, and the location of every tensor.

1. Fusions reduce the number of nodes (`rewrites/fusions.py`), `expansions.py` rewrites the rest to those
   that primitives run; `precision.py` changes types of tensors if a precision below f32 is allowed.
2. Propagation gives every tensor its format, and inserts reorders.
3. Each node becomes a primitive, and so does each reorder, which precedes the first step that reads it.
   Parts of concats are written into the whole where possible (`concat_windows.py`). Reorders of
   constants run now, once.
4. Liveness gives every computed tensor its place in one block of memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from ...desc.memory_desc import MemoryDesc
from ...desc.viewer import Explanation, viewer
from ...runtime.alloc import extent
from ...runtime.engine import Engine
from ...verbose import Line
from ...watching import NETWORK, Watch
from ..formats.node_formats import VIEWS, chosen_problem, format_problem, is_dense, is_same_memory
from ..formats.problem import Alternative
from ..formats.propagation import Propagation, format_name, priced, propagate
from ..graph import Constant, Graph, Node
from ..lowering import LoweredNode, lower_node, lower_reorder
from ..nodes.operations import row_major
from ..rewrites.expansions import runnable
from ..rewrites.fusions import AppliedFusion, FusedGraph, fuse
from ..rewrites.precision import lowered
from .concat_windows import free_concats, part_windows
from .memory_plan import ArenaPlan, MemoryStep, lifetimes, plan_memory

INPUT, OUTPUT, CONSTANT, ARENA = "input", "output", "constant", "arena"


@dataclass(frozen=True, slots=True)
class Storage:
    """The memory of a tensor: an input or output of a run, a constant, or the block of the run.

    `name` is that of the tensor for which the memory was made: views have the name of their base.
    """

    where: str
    name: str


@dataclass(frozen=True, slots=True)
class TensorLocation:
    """A tensor as a step sees it: its memory, and the format."""

    storage: Storage
    md: MemoryDesc


@dataclass(frozen=True)
class NetworkStep:
    """A primitive that a run executes, with the tensors of its arguments.

    `node`: the name of the node; of the tensor, for an inserted reorder. `is_inserted`: true for such a
    reorder.
    """

    node: str
    operation: str
    lowered: LoweredNode
    reads: tuple[TensorLocation, ...]
    writes: tuple[TensorLocation, ...]
    is_inserted: bool = False

    def __str__(self) -> str:
        names = ", ".join(f"{place.storage.name} {format_name(place.md)}" for place in self.reads)
        results = ", ".join(format_name(place.md) for place in self.writes)
        return f"{self.node}: {self.operation} of {names} -> {results}"


@dataclass(frozen=True)
class NetworkPlan:
    """The steps of a network for inputs of given dims; `print(plan)` shows it in full.

    graph        the graph, as it runs
    fusions      the fusions that were applied
    formats      decisions of propagation: the format of every tensor, the reorders and their costs
    steps        what runs, in order
    inputs       the format in which each input is read
    outputs      the final location of each output
    constants    the format of each constant that steps read, and the source of its values
    arena        the places of tensors in the block of a run
    precision    the precision allowed for computation, "f32" or less; `graph` has the types
    """

    graph: Graph
    fusions: tuple[AppliedFusion, ...]
    formats: Propagation
    steps: tuple[NetworkStep, ...]
    inputs: Mapping[str, MemoryDesc]
    outputs: Mapping[str, TensorLocation]
    constants: Mapping[str, tuple[Constant, MemoryDesc]]
    arena: ArenaPlan = field(repr=False)
    precision: str = "f32"

    @property
    def reorders(self) -> int:
        """The number of reorders that a run executes."""
        return sum(step.is_inserted for step in self.steps)

    def __str__(self) -> str:
        head = f"{len(self.steps)} steps, {self.reorders} reorders, {self.arena.peak} bytes a run"
        return "\n".join([head, *map(str, self.steps), str(self.formats)])

    def _repr_html_(self) -> str:
        return str(viewer().watched().html_of(self))


# Why a move is copied, if a descriptor cannot express it.
_MOVES = {
    "concat": "as its parts are not written into it",
    "shuffle": "as strides cannot express its order",
    "gather": "of rows by a table",
}


@dataclass(frozen=True, slots=True)
class PlannedGraph:
    """A graph that is already fused, with the decisions of propagation: how each step runs, and whether no
    other choice costs less. `rule` is "" if unknown.
    """

    fused: FusedGraph
    rule: str = ""
    ways: tuple[Alternative, ...] = ()
    is_exact: bool = False


def plan_network(
    graph: Graph | PlannedGraph,
    rule: str,
    engine: Engine,
    without: Iterable[str] = (),
    ends: Mapping[str, MemoryDesc] = MappingProxyType({}),
    precision: str = "f32",
) -> NetworkPlan:
    """Plan a graph, with the formats of `rule`: "plain", "greedy" or "optimal".

    `without`: disabled fusions. `ends`: the formats of inputs and outputs that are not row-major; an output
    of format "any" stays as it was written, unless that has padding. `precision`: types allowed for tensors
    (`precision.py`). A graph that is already planned is used unchanged. Raises what the primitives raise,
    with the names of nodes.
    """
    nodes = (graph.fused.graph if isinstance(graph, PlannedGraph) else graph).nodes
    line = Line("plan", engine.kind, NETWORK, rule, problem_desc=f"{len(nodes)} nodes")
    with Watch("plan", line):
        planned = graph if isinstance(graph, PlannedGraph) else PlannedGraph(fuse(graph, without))
        runnable_graph = runnable(planned.fused.graph)
        if planned.rule == rule:
            problem = chosen_problem(runnable_graph, planned.ways)
            formats = priced(problem, [0] * len(problem.steps), rule, planned.is_exact)
        else:
            runnable_graph = lowered(runnable_graph, precision)
            formats = propagate(format_problem(runnable_graph, ends), rule)
        plan = _Planner(runnable_graph, planned.fused.applied, formats, engine, ends).plan()
    return replace(plan, precision=precision)


def concat_parts(graph: Graph, formats: Propagation) -> dict[str, TensorLocation]:
    """Return, by name, the tensors that are written into the result of a concat, which then need not run.

    Each must be made by one step, only for the concat, and must be a window of the whole that a descriptor
    can express: a range of channels of a tensor whose blocks it does not cut.
    """
    free, parts = free_concats(graph), dict[str, TensorLocation]()
    for node, way in zip(graph, formats.steps, strict=True):
        pairs = zip(node.inputs, way.inputs, strict=True)
        if node.output in free and all(is_same_memory(formats.formats[name], md) for name, md in pairs):
            windows = part_windows(graph, node, formats.formats[node.output])
            storage = Storage(ARENA, node.output)
            parts |= {name: TensorLocation(storage, md) for name, md in windows.items()}
    return parts


def explain_plan(plan: NetworkPlan) -> Explanation:
    """Describe everything that is decided before the first run, one decision per line."""
    return Explanation("\n".join(_explained(plan)))


def _explained(plan: NetworkPlan) -> Iterator[str]:
    kinds = Counter(fusion.fusion for fusion in plan.fusions)
    yield f"fusions: {', '.join(f'{count} {name}' for name, count in kinds.items()) or 'none'}"
    yield from (f"  {fusion}" for fusion in plan.fusions)
    formats, arena = plan.formats, plan.arena
    proof = "; no other choice has a lower total" if formats.is_exact else ""
    yield f"formats: {formats.rule}, predicted {formats.seconds * 1e3:.3g} ms in total{proof}"
    tensors = (item for item in formats.formats.items() if item[0] not in plan.graph.constants)
    yield from (f"  {name}: {format_name(md)}" for name, md in tensors)
    yield from _moves(plan)
    costs = f"{formats.bytes_moved} bytes, predicted {formats.reorder_seconds * 1e3:.3g} ms"
    for is_constant, words in ((False, costs), (True, "of constants, run once")):
        reorders = [reorder for reorder in formats.reorders if reorder.is_constant is is_constant]
        yield f"reorders: {len(reorders)}, {words}"
        yield from (f"  {reorder}" for reorder in reorders)
    in_use = f"{arena.lower_bound} are in use at once"
    yield f"memory: {arena.peak} bytes a run; {in_use}; without sharing it would be {arena.unshared}"
    is_lower = plan.precision != "f32"
    yield from [precision_text(plan)] * is_lower
    yield f"kernels of {len(plan.steps)} steps"
    for step in plan.steps:
        pd = step.lowered.pd
        types = f" of {' x '.join(_types(step)[:-1])} to {_types(step)[-1]}" * is_lower
        yield f"  {step.node}: {step.operation}{types}, {pd.impl_info_str}"
        yield from (f"    {line}" for line in pd.schedule.splitlines() if not line.startswith("#"))


def precision_text(plan: NetworkPlan) -> str:
    """Describe the precision of a network, and how much of it is reduced."""
    narrow = sum(plan.precision in _types(step) for step in plan.steps)
    return f"precision: {plan.precision}, of which {narrow} of {len(plan.steps)} steps have tensors"


def _types(step: NetworkStep) -> list[str]:
    """Return the types that a step computes with: of at most two sources, and of its result."""
    return [str(place.md.data_type) for place in (*step.reads[:2], step.writes[0])]


def _moves(plan: NetworkPlan) -> Iterator[str]:
    """Describe nodes that only move elements."""
    known = set(plan.graph.constants)
    moving = {
        node.name: node
        for node in plan.graph.nodes
        if isinstance(node.operation, VIEWS)
        or (node.kind in _MOVES and (node.kind != "gather" or known.issuperset(node.inputs[1:])))
    }
    copied = {
        step.node: step
        for step in plan.steps
        if step.operation in _MOVES and step.node in moving and not step.is_inserted
    }
    if not moving:
        return
    told = f"{len(copied)} copied" if copied else "none copied"
    yield f"moves: {len(moving) - len(copied)} as descriptors of other tensors, {told}"
    for step in copied.values():
        nbytes = sum(place.md.size for place in (*step.reads, *step.writes))
        yield f"  {step.node}: {step.operation} of {nbytes} bytes, {_MOVES[step.operation]}"


# --- steps --------------------------------------------------------------------------------------------------


class _Planner:
    """Goes through the nodes in order and determines steps and locations of tensors."""

    def __init__(
        self,
        graph: Graph,
        fusions: tuple[AppliedFusion, ...],
        formats: Propagation,
        engine: Engine,
        ends: Mapping[str, MemoryDesc],
    ) -> None:
        self._graph, self._fusions, self._formats, self._engine = graph, fusions, formats, engine
        self._ends = {name: row_major(graph.tensors[name]) for name in (*graph.inputs, *graph.outputs)}
        for name, md in ends.items():
            found = md if md.format_kind != "any" else formats.formats[name]
            # Callers hold inputs and outputs as tensors of their own, which have no room for padding.
            is_whole = is_dense(found) and found.padded_dims == found.dims
            self._ends[name] = found if is_whole else self._ends[name]
        self._steps: list[NetworkStep] = []
        self._constants: dict[str, tuple[Constant, MemoryDesc]] = {}
        self._places = {name: TensorLocation(Storage(INPUT, name), self._ends[name]) for name in graph.inputs}
        self._copies: dict[tuple[str, MemoryDesc], TensorLocation] = {}
        self._parts = concat_parts(graph, formats)
        names = {part.storage.name for part in self._parts.values()}
        self._wholes = {name: formats.formats[name] for name in names}

    def plan(self) -> NetworkPlan:
        for node, way in zip(self._graph, self._formats.steps, strict=True):
            self._plan_node(node, way.inputs)
        outputs = {name: self._read(name, self._ends[name]) for name in self._graph.outputs}
        outputs = self._output_places(outputs)
        return NetworkPlan(
            self._graph,
            self._fusions,
            self._formats,
            tuple(self._steps),
            {name: self._ends[name] for name in self._graph.inputs},
            outputs,
            self._constants,
            self._arena(),
        )

    def _plan_node(self, node: Node, formats: Sequence[MemoryDesc]) -> None:
        if node.output in self._wholes:
            self._places[node.output] = TensorLocation(Storage(ARENA, node.output), self._wholes[node.output])
            return
        reads = tuple(self._read(name, md) for name, md in zip(node.inputs, formats, strict=True))
        outs = {name: self._formats.formats[name] for name in node.outputs}
        if isinstance(node.operation, VIEWS):
            self._places[node.output] = TensorLocation(reads[0].storage, outs[node.output])
            return
        # Into separate memory, or into the whole that it is a part of.
        writes = {
            name: self._parts.get(name, TensorLocation(Storage(ARENA, name), md)) for name, md in outs.items()
        }
        self._places |= writes
        places = tuple(writes.values())
        mds = [place.md for place in reads], [place.md for place in places]
        lowered = lower_node(node, *mds, self._engine)
        self._steps.append(NetworkStep(node.name, node.kind, lowered, reads, places))

    def _read(self, name: str, md: MemoryDesc) -> TensorLocation:
        """Return a tensor in a format, inserting a reorder if necessary."""
        constant = self._graph.constants.get(name)
        if constant is not None:
            key = name if md == row_major(constant.type) else f"{name} as {format_name(md)}"
            self._constants[key] = constant, md
            return TensorLocation(Storage(CONSTANT, key), md)
        place = self._places[name]
        if place.md == md:
            return place
        if is_same_memory(place.md, md):
            return TensorLocation(place.storage, md)
        if (name, md) not in self._copies:
            copy = TensorLocation(Storage(ARENA, f"{name} as {format_name(md)}"), md)
            self._copies[name, md] = copy
            self._insert(name, place, copy)
        return self._copies[name, md]

    def _insert(self, name: str, source: TensorLocation, place: TensorLocation) -> None:
        lowered = lower_reorder(source.md, place.md, self._engine)
        self._steps.append(NetworkStep(name, "reorder", lowered, (source,), (place,), is_inserted=True))

    # --- outputs --------------------------------------------------------------------------------------------

    def _output_places(self, outputs: Mapping[str, TensorLocation]) -> dict[str, TensorLocation]:
        """Give outputs separate memory: their producers write there, or a copy does."""
        places: dict[str, TensorLocation] = {}
        targets: dict[Storage, Storage] = {}
        descs = {write.storage: write.md for step in self._steps for write in step.writes}
        for name, place in outputs.items():
            storage = Storage(OUTPUT, name)
            places[name] = TensorLocation(storage, place.md)
            md, is_free = descs.get(place.storage), place.storage not in targets
            if md is not None and is_free and _is_whole(place.md, md):
                targets[place.storage] = storage
            else:
                self._insert(name, place, places[name])
        self._steps = [_with_storages(step, targets) for step in self._steps]
        return places

    # --- memory ---------------------------------------------------------------------------------------------

    def _arena(self) -> ArenaPlan:
        steps: list[MemoryStep] = []
        sizes: dict[str, int] = {}
        for step in self._steps:
            reads = tuple(place.storage.name for place in step.reads if place.storage.where == ARENA)
            results = [place for place in step.writes if place.storage.where == ARENA]
            writes = tuple(place.storage.name for place in results)
            mds = {place.storage.name: self._wholes.get(place.storage.name, place.md) for place in results}
            # Sizes count from the start of the memory: the elements may begin after it.
            sizes |= {name: max(extent(md).needed, 1) for name, md in mds.items()}
            scratch = step.lowered.pd._scratch_bytes()
            steps.append(MemoryStep(reads, writes, _in_place(step), (), scratch))
        return plan_memory(lifetimes(steps, sizes))


def _is_whole(view: MemoryDesc, md: MemoryDesc) -> bool:
    """True if a view covers every byte of the tensor that a step writes, possibly in other dims."""
    if view == md or is_same_memory(md, view):
        return True
    both_whole = all(
        each.offset0 == 0 and each.nelems * each.data_type.bits == each.size * 8 for each in (view, md)
    )
    return both_whole and view.size == md.size


def _in_place(step: NetworkStep) -> tuple[tuple[str, str], ...]:
    """Return tensors that a step can overwrite: sources of its format, read before they are written."""
    source, result = step.reads[0], step.writes[0]
    is_safe = step.operation in ("eltwise", "batch_normalization", "softmax")
    is_arena = source.storage.where == ARENA == result.storage.where
    if not (is_safe and is_arena and source.md == result.md and len(step.lowered.reads) == len(step.reads)):
        return ()
    return ((result.storage.name, source.storage.name),)


def _with_storages(step: NetworkStep, targets: Mapping[Storage, Storage]) -> NetworkStep:
    if not targets:
        return step

    def there(place: TensorLocation) -> TensorLocation:
        return TensorLocation(targets.get(place.storage, place.storage), place.md)

    return replace(step, reads=tuple(map(there, step.reads)), writes=tuple(map(there, step.writes)))
