"""Networks that run in several parts: networks, bodies of loops, and islands that run elsewhere."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import WeakValueDictionary

import numpy as np

from ....desc.viewer import Explanation
from ....dtypes import DataType
from ....errors import Error, refuse
from ....runtime.alloc import Array
from ....runtime.free_memory import check_room
from ...dims import Dims, by
from ...network.inputs import NetworkInput, check_dims, dense_input, returned, wrong_inputs
from ...network.network import InputDims, Network, ProgressCallback
from ...network.run_program import StepTime
from .checking import SortedNodes, counted, fixed_inputs, sort_nodes, translate_nodes
from .functions import missing_operators
from .inputs import network_inputs
from .islands import Island, IslandInput
from .loops import LOOPS, Loop
from .model import OnnxBranch, OnnxInput, OnnxModel, OnnxNode
from .operators import CONDITIONAL, OPERATORS
from .reader import data_type_of, node_error, translated
from .tensors import NUMBERS

if TYPE_CHECKING:
    from ...network.planned_runs import PlannedRuns

__all__ = ["DividedNetwork"]

_MOST_KEPT = 8
_OWN, _OTHER = "restride", "onnxruntime"
_Key = tuple[object, ...]
_Tensors = Mapping[str, Any]


@dataclass(frozen=True)
class _PlacedNodes:
    """Nodes that run in one place; `place` is "" after the last. `whys`: why each node does not run here.

    `reads`, `makes`: names of tensors; `types`: of values that are not arrays, in words or bytes.
    """

    place: str = ""
    nodes: tuple[OnnxNode, ...] = ()
    whys: tuple[str, ...] = ()
    run: Callable[[_Tensors], _Tensors] = dict
    reads: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()
    types: Mapping[str, str | bytes | memoryview] = field(default_factory=dict)


@dataclass(frozen=True)
class _CrossingTensor:
    """A tensor from another place: its name, its type as text, its bytes, and the bytes that are copied."""

    text: str
    nbytes: int
    copied: int


@dataclass(frozen=True)
class _DividedStep:
    """A piece of work of a run and the state after it: the remaining nodes, known tensors, and where the
    others were made. `keeps`: tensors needed later. `followers`: the next steps, by what this one makes.
    """

    work: _PlacedNodes
    rest: tuple[OnnxNode, ...]
    known: Mapping[str, Array]
    places: Mapping[str, str]
    types: Mapping[str, str | bytes | memoryview]
    keeps: frozenset[str] = frozenset()
    edges: tuple[_CrossingTensor, ...] = ()
    followers: OrderedDict[_Key, _DividedStep] = field(default_factory=OrderedDict)


class DividedNetwork(Network):
    """An ONNX model without a single plan; `rs.onnx.load` returns it if branches or the number of steps of
    loops are decided in a run, and if some nodes run elsewhere.

    It is called like any `Network`, with one array or a dict of inputs. Its parts, the taken branches and the
    bodies of loops, are networks, planned at the first call with inputs of given dims, and kept for eight
    sets of dims; the same holds for results of bodies and islands, whose dims can depend on values. Short
    lists of numbers that decide dims, such as a shape or scales passed to a call, are known to the plan:
    there is a plan for each of their values, listed by `explain`. Threads can call it concurrently.
    """

    def __init__(
        self,
        model: OnnxModel,
        dims: Mapping[str, Sequence[int]],
        rule: str,
        without: Iterable[str],
        precision: str = "f32",
        *,
        has_islands: bool = False,
    ) -> None:
        model = model.unpacked
        self._model, self._without, self._has_islands = model, tuple(without), has_islands
        self._dims = {name: tuple(own) for name, own in dims.items()}
        self._start(None, network_inputs(model, dims, _undef_or_type), model.outputs, rule, precision)
        self._is_fixed = all(each.dims is not None and None not in each.dims for each in self._inputs)
        # What decides a branch is a part of what steps are kept by, as dims are: the branch is what follows.
        self._conditions = _conditions(model.nodes)
        types = {each.name: each.content for each in model.inputs}
        self._first = _DividedStep(_PlacedNodes(), model.nodes, model.tensors, {}, types)
        # Steps keep them alive: steps of other dims can share them.
        self._islands: WeakValueDictionary[_Key, Island] = WeakValueDictionary()
        self._runs: OrderedDict[_Key, tuple[_DividedStep, ...]] = OrderedDict()
        self._lock = threading.RLock()

    @property
    def _plans(self) -> PlannedRuns:
        raise refuse("RS-G07:divided", what="plan", hint="net.explain() shows what runs where")

    def _runner(self, dims: tuple[Dims, ...], report: ProgressCallback | None = None) -> Any:
        self._steps(dims)
        (report or (lambda ready, steps: None))(1, 1)

    def with_rule(self, rule: str) -> DividedNetwork:
        """Return the same network with the formats of its parts chosen by another rule."""
        how = rule, self._without, self._precision
        return DividedNetwork(self._model, self._dims, *how, has_islands=self._has_islands)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the model only: parts and islands are rebuilt when it is loaded."""
        values = self._model, self._dims, self._rule, self._without, self._precision
        return partial(DividedNetwork, *values, has_islands=self._has_islands), ()

    def save(self, path: object, *dims: InputDims) -> NoReturn:
        """Raise Unimplemented: only networks with a single plan can be saved."""
        raise refuse("RS-G07:divided", what="file", hint="keep the model, and reload it")

    def explain(self, *dims: InputDims) -> Explanation:
        """Explain which nodes run where and why, the bodies of loops, and the bytes that cross.

        `dims`: of each input in order, or one dict by name; omitted, those of the last call, or those that
        the model fixes. Dims that depend on values are as in the last call with these dims; if there was
        none, the network runs on zeros.
        """
        try:
            return self._explanation(self._steps(dims))
        except Error as error:
            error.drop_frames()
            raise

    @property
    def _last_steps(self) -> tuple[_DividedStep, ...]:
        return next(reversed(self._runs.values()), ())

    def _explanation(self, steps: Sequence[_DividedStep]) -> Explanation:
        counts = Counter[str]()
        for step in steps:
            counts[step.work.place] += len(step.work.nodes)
        places = [f"{place} runs {counted(n, 'node')}" for place, n in counts.items()]
        lines = [", ".join(places) or "everything is constant"]
        for number, step in enumerate(steps, 1):
            work = step.work
            lines.append(f"{number}. {work.place}: {_operators(work)}")
            lines += [f"  {node}: {why}" for node, why in zip(work.nodes, work.whys, strict=False)]
            if isinstance(work.run, _LoopRun):
                body = work.run.body
                lines += [f"  {line}" for line in body._explanation(body._last_steps).splitlines()]
            lines += [f"  gets {edge.text}, {edge.nbytes:,} bytes" for edge in step.edges]
        edges = [edge for step in steps for edge in step.edges]
        nbytes, copied = sum(edge.nbytes for edge in edges), sum(edge.copied for edge in edges)
        crossing = counted(len(edges), "tensor")
        lines.append(f"between them: {crossing}, {nbytes:,} bytes, of which {copied:,} are copied")
        if self._conditions:
            lines.append(f"one plan for each value of {', '.join(map(repr, sorted(self._conditions)))}")
        return Explanation("\n".join(lines))

    def _steps(self, dims: Sequence[InputDims]) -> tuple[_DividedStep, ...]:
        """Return the steps for inputs of these dims, from a run on zeros if there was none."""
        if not dims and self._runs:
            return self._last_steps
        (key,) = self._all_dims(dims)
        if key not in self._runs:
            self._results(self._zeros(key))
        return self._runs[key]

    def _zeros(self, shapes: Sequence[tuple[int, ...]]) -> dict[str, Array]:
        if len(shapes) != len(self._inputs):
            raise wrong_inputs([each.name for each in self._inputs], [f"dims of {len(shapes)}"])
        other = [each.name for each in self._inputs if each.data_type is DataType.undef]
        if other:
            raise refuse("RS-G06:no-zeros", name=other[0])
        pairs = zip(self._inputs, shapes, strict=True)
        return {each.name: np.zeros(dims, each.data_type.numpy) for each, dims in pairs}

    def _run(self, x: Any, times: list[StepTime] | None = None, out: Any = None) -> tuple[Any]:
        if out is not None:
            raise refuse("RS-G07:divided", what="out=", hint="copy what a call returns")
        results = self._results(x, times)
        return (results if len(results) > 1 else next(iter(results.values())),)

    def _results(self, x: Any, times: list[StepTime] | None = None) -> dict[str, Any]:
        names = [each.name for each in self._inputs]
        inputs = x if isinstance(x, Mapping) else {names[0]: x} if len(names) == 1 else None
        if inputs is None or set(inputs) != set(names):
            raise wrong_inputs(names, [f"one {type(x).__name__}"] if inputs is None else list(inputs))
        tensors: dict[str, Any] = {each.name: _input_value(each, inputs[each.name]) for each in self._inputs}
        dims, steps = tuple(getattr(each, "shape", ()) for each in tensors.values()), list[_DividedStep]()
        step = self._following(self._first, tensors, tensors)
        while step.work.place:
            steps.append(step)
            begin = perf_counter()
            made = step.work.run({name: tensors[name] for name in step.work.reads})
            if times is not None:
                times.append(_step_time(len(steps), step.work, perf_counter() - begin))
            tensors = {name: value for name, value in {**tensors, **made}.items() if name in step.keeps}
            step = self._following(step, tensors, made)
        self._runs.pop(dims, None)
        self._runs[dims] = tuple(steps)
        _drop_oldest(self._runs)
        results = {name: tensors[name] if name in tensors else step.known[name] for name in self.outputs}
        for name, y in results.items():
            if isinstance(y, np.ndarray):
                # Tensors that no step made belong to the caller or are shared by all calls.
                own = y if name in step.places else y.copy()
                results[name] = returned(inputs[names[0]], own) if names else own
        return results

    # --- steps ----------------------------------------------------------------------------------------------

    def _following(self, last: _DividedStep, tensors: _Tensors, made: _Tensors) -> _DividedStep:
        """Return the step after another, recomputed if dims made by that one differ from before."""
        known = [(name, np.asarray(tensors[name]).tobytes()) for name in self._conditions if name in tensors]
        key = (*((name, _kind(value)) for name, value in made.items()), *known)
        found = last.followers.get(key)
        if found is not None:
            return found
        with self._lock:
            found = last.followers.get(key) or self._new_step(last, tensors)
            last.followers[key] = found
            _drop_oldest(last.followers)
        return found

    def _new_step(self, last: _DividedStep, tensors: _Tensors) -> _DividedStep:
        """Return the next step: all remaining nodes that run here, or else a loop or an island."""
        self._model.check_files()
        found = self._sorted(last, tensors)
        nodes = found.model.nodes
        found, network = sort_nodes(found.model, fixed_inputs(found.model), self._network)
        known = {name: value for name, value in found.values.items() if isinstance(value, np.ndarray)}
        # A list is not a tensor: its producer is translated again where the list is read.
        ran = tuple(node for node in found.runs if found.lists.isdisjoint(node.outputs))
        work = _PlacedNodes()
        if network is not None:
            reads = tuple(each.name for each in network.inputs)
            work = _PlacedNodes(_OWN, ran, (), _by_name(network), reads, network.outputs)
        elif nodes:
            work = self._loop_work(found, {**known, **tensors}) or work
            if not work.place and self._has_islands:
                work = self._island_work(found, {**known, **tensors}, last)
            elif not work.place and not {*self.outputs} <= {*known, *tensors}:
                self._network(found.model)  # which raises the error
        done = {node.outputs for node in (*ran, *work.nodes)}
        rest = tuple(node for node in nodes if node.outputs not in done)
        pairs = ((name, last.places.get(name, work.place)) for name in work.reads)
        edges = tuple(_edge(name, tensors[name]) for name, place in pairs if place != work.place)
        places = {**last.places, **dict.fromkeys(work.makes, work.place)}
        keeps = _reads(rest).union(self.outputs)
        return _DividedStep(work, rest, known, places, {**last.types, **work.types}, keeps, edges)

    def _sorted(self, last: _DividedStep, tensors: _Tensors) -> SortedNodes:
        """Sort the remaining nodes, with taken branches in place of their nodes."""
        nodes, constants = last.rest, dict(last.known)
        while True:
            nodes = _needed(nodes, self.outputs, {*tensors, *constants})
            constants |= {name: np.array(tensors[name]) for name in self._conditions if name in tensors}
            read = _reads(nodes) - {*constants}
            inputs = tuple(_model_input(name, x) for name, x in tensors.items() if name in read)
            model = replace(self._model, nodes=nodes, tensors=constants, inputs=inputs)
            found = translate_nodes(model, fixed_inputs(model))
            branches = {
                node.outputs: taken for node, _ in found.refused if (taken := _taken(node, found.values))
            }
            new = set[str]()
            if branches:
                nodes = tuple(
                    inner
                    for node in nodes
                    for inner in (branches[node.outputs].nodes if node.outputs in branches else (node,))
                )
                for branch in branches.values():
                    constants |= branch.tensors
                new = _conditions(nodes)
            elif not self._has_islands:
                new = {name for node, _ in found.refused for name in found.deciding(node) if name in tensors}
            if not branches and new <= self._conditions:
                return found
            self._conditions |= new

    def _network(self, part: OnnxModel) -> Network:
        """Return a part as a planned network."""
        dims = fixed_inputs(part)
        inputs = [
            NetworkInput(each.name, dims[each.name], data_type_of(each.name, each.element))
            for each in part.inputs
        ]
        network = Network.of_source(
            *(inputs, part.outputs, lambda dims: translated(part, dims), self._rule, self._without),
            precision=self._precision,
        )
        network.plan()
        return network

    def _loop_work(self, found: SortedNodes, tensors: _Tensors) -> _PlacedNodes | None:
        """Return the first loop whose inputs all exist; its body is a network itself."""
        for node, _ in found.refused:
            reads = sorted(node.reads() & {*tensors})
            is_loop = node.operator in LOOPS and node.outputs in found.undecided
            if not is_loop or len(reads) < len(node.reads()):
                continue
            if not all(isinstance(tensors[name], np.ndarray) for name in reads):
                continue  # bodies do not accept lists of tensors
            loop = Loop.of(node, self._model.opset)
            own = tuple(name for name in reads if name not in found.values or name in found.types)
            run = _LoopRun(loop, self._body(loop, tensors, own), {name: tensors[name] for name in reads})
            return _PlacedNodes(_OWN, (node,), (), run, own, tuple(filter(None, node.outputs)))
        return None

    def _body(self, loop: Loop, tensors: _Tensors, own: Iterable[str]) -> DividedNetwork:
        body = loop.body
        kinds = [np.dtype(np.int64), np.dtype(np.bool_)] if loop.is_counted else []
        kinds += [tensors[name].dtype for name in loop.sources]
        inputs = [
            OnnxInput(name, None, NUMBERS.get(kind, 0)) for name, kind in zip(body.inputs, kinds, strict=True)
        ]
        seen = OnnxNode("", "", (), (), {"": body}).reads()
        inputs += [OnnxInput(name, None, NUMBERS.get(tensors[name].dtype, 0)) for name in own if name in seen]
        constants = {name: tensors[name] for name in seen if name not in own}
        model = replace(
            self._model,
            nodes=body.nodes,
            tensors={**constants, **body.tensors},
            inputs=tuple(inputs),
            outputs=tuple(dict.fromkeys(body.outputs)),
        )
        how = self._rule, self._without, self._precision
        return DividedNetwork(model, {}, *how, has_islands=self._has_islands)

    def _island_work(self, found: SortedNodes, tensors: _Tensors, last: _DividedStep) -> _PlacedNodes:
        """Return the refused nodes that can run now, and later nodes that would also be refused."""
        whys = {node.outputs: why for node, why in found.refused}
        ran = {node.outputs for node in found.runs if found.lists.isdisjoint(node.outputs)}
        whys |= {node.outputs: "it outputs a list" for node in found.runs if node.outputs not in ran}
        chosen, available = list[OnnxNode](), {*tensors}
        rest = [node for node in found.model.nodes if node.outputs not in ran]
        for node in rest:
            foreign = [
                f"input {name!r}: {found.inputs[name]}" for name in node.inputs if name in found.inputs
            ]
            if foreign:
                whys.setdefault(node.outputs, foreign[0])
            elif missing_operators(found.model, [node], OPERATORS):
                whys[node.outputs] = "restride has no such operator"
            if node.outputs in whys and node.reads() <= available:
                chosen.append(node)
                available.update(node.outputs)
        if not chosen:
            return _PlacedNodes()
        done = {node.outputs for node in chosen}
        wanted = {*self.outputs} | _reads(node for node in rest if node.outputs not in done)
        makes = tuple(name for node in chosen for name in node.outputs if name and name in wanted)
        inner = {name for node in chosen for name in node.outputs}
        names = sorted(_reads(chosen) - inner)
        constants = {name: tensors[name] for name in names if isinstance(found.values.get(name), np.ndarray)}
        feeds = {name: tensors[name] for name in names if name not in constants}
        # Known values are constants there too: some operators require it. They may follow from dims.
        folded = ((name, x.tobytes()) for name, x in constants.items() if name not in self._model.tensors)
        key = (
            *(node.outputs for node in chosen),
            *((name, _rank(x)) for name, x in feeds.items()),
            *folded,
        )
        island = self._islands.get(key)
        if island is None:
            is_fixed = self._is_fixed and _OTHER not in last.places.values()
            inputs = {
                name: IslandInput.of(x, last.types.get(name, ""), is_fixed) for name, x in feeds.items()
            }
            model = replace(self._model, nodes=tuple(chosen), tensors=constants, outputs=makes)
            island = self._islands[key] = Island(model, inputs)
        reasons = tuple(whys[node.outputs] for node in chosen)
        return _PlacedNodes(_OTHER, tuple(chosen), reasons, island, tuple(feeds), makes, island.types)


@dataclass(frozen=True)
class _LoopRun:
    """A loop in a run; carried values are passed on without copying. `constants`: values by name."""

    loop: Loop
    body: DividedNetwork
    constants: _Tensors

    def __call__(self, tensors: _Tensors) -> _Tensors:
        """Run the loop on these tensors."""
        values = {**self.constants, **tensors}
        node, own = self.loop.node, [each.name for each in self.body.inputs]
        captured = {name: values[name] for name in own if name not in self.loop.body.inputs}
        try:
            made = self.loop.run(
                [values[name] if name else None for name in node.inputs],
                _StepsOfRun(self.loop, self.body, captured),
            )
        except MemoryError:
            raise refuse("RS-D01:node-makes-more", node=node) from None
        except (ValueError, TypeError, IndexError, OverflowError) as error:
            raise error if isinstance(error, Error) else node_error(node, error) from None
        return {name: x for name, x in zip(node.outputs, made, strict=False) if name}


@dataclass
class _StepsOfRun:
    """The steps of a loop in a run. `nbytes`: of the parts made so far."""

    loop: Loop
    body: DividedNetwork
    captured: _Tensors
    nbytes: int = 0

    def step(self, at: int, values: Sequence[Array]) -> Sequence[Array]:
        pairs = zip(self.loop.body.inputs, values, strict=True)
        results = self.body._results({**self.captured, **dict(pairs)})
        outputs = [results[name] for name in self.loop.body.outputs]
        parts = outputs[len(outputs) - len(self.loop.makes) :]
        self.nbytes += sum(each.nbytes for each in parts)
        if not at & (at + 1):
            check_room(self.nbytes)  # the next check follows after as many bytes again
        return outputs

    def constant(self, x: Array) -> Array:
        return x

    def known(self, x: Array) -> Array:
        return x

    def kind(self, x: Array) -> tuple[Dims, np.dtype[Any]]:
        return x.shape, x.dtype

    def part(self, x: Array, axis: int, at: int) -> Array:
        return np.asarray(np.moveaxis(x, axis, 0)[at])

    def stacked(self, parts: Sequence[Array], axis: int) -> Array:
        if len({each.shape for each in parts}) > 1:
            raise self.loop.error(
                f"its steps make parts of different dims: {parts[0].shape}, {parts[-1].shape}"
            )
        return np.stack(parts, axis)


def _conditions(nodes: Iterable[OnnxNode]) -> set[str]:
    return {name for node in nodes if node.operator == CONDITIONAL for name in node.inputs[:1]}


def _taken(node: OnnxNode, values: Mapping[str, object]) -> OnnxBranch | None:
    """Return the branch of a node whose condition is known, as nodes in its place."""
    condition = values.get(next(iter(node.inputs), ""))
    if node.operator != CONDITIONAL or not isinstance(condition, np.ndarray) or condition.size != 1:
        return None
    branch = node.attributes.get("then_branch" if condition.any() else "else_branch")
    return branch.in_place_of(node) if isinstance(branch, OnnxBranch) else None


def _needed(nodes: Sequence[OnnxNode], outputs: Iterable[str], available: set[str]) -> tuple[OnnxNode, ...]:
    """Return the nodes that these outputs depend on, given the available tensors."""
    wanted, found = {*outputs} - available, list[OnnxNode]()
    for node in reversed(nodes):
        if not wanted.isdisjoint(node.outputs):
            found.append(node)
            wanted |= node.reads() - available
    return tuple(reversed(found))


def _reads(nodes: Iterable[OnnxNode]) -> frozenset[str]:
    return frozenset[str]().union(*(node.reads() for node in nodes))


def _by_name(network: Network) -> Callable[[_Tensors], _Tensors]:
    """Return the network as a function from tensors by name to tensors by name."""
    outputs = network.outputs
    return network if len(outputs) > 1 else lambda tensors: {outputs[0]: network(tensors)}


def _undef_or_type(name: str, element: int) -> DataType:
    """Return the type of an input; undef for types that networks lack."""
    try:
        return data_type_of(name, element)
    except Error:
        return DataType.undef


def _input_value(kind: NetworkInput, x: Any) -> Any:
    """Return an input as a NumPy array; types that networks lack pass unchanged."""
    if kind.data_type is DataType.undef:
        return x
    array = dense_input(kind, x)
    check_dims(kind, array.shape)
    return array


def _model_input(name: str, x: Any) -> OnnxInput:
    """Return a value as an input of a model of the remaining nodes."""
    is_array = isinstance(x, np.ndarray)
    return OnnxInput(name, x.shape, NUMBERS.get(x.dtype, 0)) if is_array else OnnxInput(name, None, 0)


def _kind(value: Any) -> object:
    """Return what steps depend on: dims and type of an array, otherwise the class."""
    return (value.shape, value.dtype) if isinstance(value, np.ndarray) else type(value)


def _rank(value: Any) -> object:
    return (value.ndim, value.dtype) if isinstance(value, np.ndarray) else type(value)


def _edge(name: str, x: Any) -> _CrossingTensor:
    arrays = [each for each in (x if isinstance(x, list) else [x]) if isinstance(each, np.ndarray)]
    nbytes = sum(each.nbytes for each in arrays)
    is_one = isinstance(x, np.ndarray)
    kind = f"{x.dtype} {by(x.shape)}" if is_one else f"{type(x).__name__} of {len(arrays)}"
    # The other library copies elements of lists and text; it reads dense arrays in place.
    is_copied = not is_one or x.dtype.hasobject or not x.flags.c_contiguous
    return _CrossingTensor(f"{name}: {kind}", nbytes, nbytes if is_copied else 0)


def _step_time(number: int, work: _PlacedNodes, seconds: float) -> StepTime:
    return StepTime(f"{number}", _operators(work), seconds, "", work.place, is_inserted=False)


def _operators(work: _PlacedNodes) -> str:
    """List the operators of nodes with their counts."""
    operators = Counter(node.operator for node in work.nodes)
    return ", ".join(f"{name} {n}" for name, n in sorted(operators.items()))


def _drop_oldest(kept: OrderedDict[_Key, Any]) -> None:
    for key in list(kept)[:-_MOST_KEPT]:
        kept.pop(key, None)
