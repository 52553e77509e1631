"""Networks of which some nodes run elsewhere: parts, which are networks, and islands, in turn."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, NoReturn
from weakref import WeakValueDictionary

import numpy as np

from ....desc.parse import parse_dims
from ....desc.viewer import Explanation
from ....dtypes import DataType
from ....errors import Error, refuse
from ....runtime.alloc import Array
from ...dims import by
from ...network.inputs import NetworkInput, check_dims, dense_input, fixed_dims, returned, wrong_inputs
from ...network.network import Network
from ...network.run_program import StepTime
from .checking import SortedNodes, counted, fixed_inputs, sort_nodes
from .functions import missing_operators
from .inputs import network_inputs
from .islands import Island, IslandInput
from .model import OnnxInput, OnnxModel, OnnxNode
from .operators import CONDITIONAL, OPERATORS
from .reader import data_type_of, translated
from .tensors import NUMBERS

__all__ = ["DividedNetwork"]

_MOST_KEPT = 8
_OWN, _OTHER = "restride", "onnxruntime"
_Key = tuple[object, ...]
_Tensors = Mapping[str, Any]


@dataclass(frozen=True)
class _PlacedNodes:
    """Nodes that run in one place; `place` is "" behind the last. `whys`: why each node does not run here.

    `reads`, `makes`: names of tensors; `types`: of what is no array, in words or bytes.
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
    """A tensor that comes from another place: its name, its type in words, its bytes, and those copied."""

    text: str
    nbytes: int
    copied: int


@dataclass(frozen=True)
class _DividedStep:
    """A work of a run, and what is behind it: the nodes that are left, tensors that are known, and where the
    others were made. `keeps`: the tensors that are needed later. `followers`: the next steps, by what this
    one makes.
    """

    work: _PlacedNodes
    rest: tuple[OnnxNode, ...]
    known: Mapping[str, Array]
    places: Mapping[str, str]
    types: Mapping[str, str | bytes | memoryview]
    keeps: frozenset[str] = frozenset()
    edges: tuple[_CrossingTensor, ...] = ()
    followers: OrderedDict[_Key, _DividedStep] = field(default_factory=OrderedDict)


class DividedNetwork:
    """An ONNX model of which some nodes run elsewhere: what `rs.onnx.load` makes where there is a fallback.

    It is called as a `Network` is, with one array or a dict of inputs. Which nodes run where is decided at
    the first call with inputs of some dims, and kept for eight of them; so it is for what islands make, whose
    dims may follow from values. Threads may call it at the same time.
    """

    def __init__(
        self, model: OnnxModel, dims: Mapping[str, Sequence[int]], rule: str, without: Iterable[str]
    ) -> None:
        self._model, self._rule, self._without = model, rule, tuple(without)
        self._dims = {name: tuple(own) for name, own in dims.items()}
        self._inputs = tuple(network_inputs(model, dims, _undef_or_type))
        self._is_fixed = all(each.dims is not None and None not in each.dims for each in self._inputs)
        # What decides a branch is a part of what steps are kept by, as dims are: the branch is what follows.
        self._conditions = {
            name for node in model.nodes if node.operator == CONDITIONAL for name in node.inputs[:1]
        }
        types = {each.name: each.content for each in model.inputs}
        self._start = _DividedStep(_PlacedNodes(), model.nodes, model.tensors, {}, types)
        # Steps hold them: those of other dims may be the same.
        self._islands: WeakValueDictionary[_Key, Island] = WeakValueDictionary()
        self._runs: OrderedDict[_Key, tuple[_DividedStep, ...]] = OrderedDict()
        self._lock = threading.RLock()

    @property
    def inputs(self) -> tuple[NetworkInput, ...]:
        """The inputs of a call; those of a type that networks have not are undef."""
        return self._inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of what a call gives."""
        return self._model.outputs

    @property
    def rule(self) -> str:
        """The rule that chooses formats in the parts that run here."""
        return self._rule

    def with_rule(self, rule: str) -> DividedNetwork:
        """The same network, in whose parts formats are chosen by another rule."""
        return DividedNetwork(self._model, self._dims, rule, self._without)

    def __reduce__(self) -> tuple[Any, ...]:
        """The model: where a pickle is read, parts and islands are made anew."""
        return DividedNetwork, (self._model, self._dims, self._rule, self._without)

    def __repr__(self) -> str:
        inputs = ", ".join(map(str, self._inputs))
        return f"<DividedNetwork ({inputs}) -> {', '.join(self.outputs)}>"

    def __call__(self, x: Any) -> Any:
        """Run on `x`, one array or a dict of them: the output, or a dict of them.

        Raises as a `Network` does, and RuntimeFailure for what onnxruntime refuses.
        """
        try:
            return self._run(x)
        except Error as error:
            error.drop_frames()
            raise

    def prepare(self, *dims: Sequence[int]) -> None:
        """Do what the first call with inputs of these dims does before it runs, as far as zeros lead.

        `dims`: as in `explain`. What follows from values may be of other dims in a call.
        """
        try:
            self._steps(dims)
        except Error as error:
            error.drop_frames()
            raise

    def profile(self, x: Any) -> tuple[StepTime, ...]:
        """Run on `x`, and tell how long each part and each island took: their operators are its operation."""
        times: list[StepTime] = []
        self._run(x, times)
        return tuple(times)

    def plan(self, *dims: Sequence[int]) -> NoReturn:
        """There is none of all its parts: each has its own, and `explain` tells of all.

        Raises Unimplemented.
        """
        raise refuse("RS-G07:divided", what="plan", hint="net.explain() tells what runs where")

    def save(self, path: object, *dims: Sequence[int]) -> NoReturn:
        """Files hold what runs here alone. Raises Unimplemented."""
        raise refuse("RS-G07:divided", what="file", hint="keep the model, and load it with fallback= again")

    def explain(self, *dims: Sequence[int]) -> Explanation:
        """Which nodes run where, and why, and the bytes that go from one place to the other.

        `dims`: of each input in order; none for those of the last call, or where the model fixes them. What
        follows from values is as in the last call with these dims; without one zeros are run.
        """
        try:
            return _explanation(self._steps(dims))
        except Error as error:
            error.drop_frames()
            raise

    def _steps(self, dims: Sequence[Sequence[int]]) -> tuple[_DividedStep, ...]:
        """The steps for inputs of these dims, of zeros where nothing was run with them."""
        if not dims and self._runs:
            return next(reversed(self._runs.values()))
        shapes = dims or tuple(map(fixed_dims, self._inputs))
        key = tuple(
            tuple(parse_dims(extents, f"DividedNetwork: dims[{i}]")) for i, extents in enumerate(shapes)
        )
        if key not in self._runs:
            self._run(self._zeros(key))
        return self._runs[key]

    def _zeros(self, shapes: Sequence[tuple[int, ...]]) -> dict[str, Array]:
        if len(shapes) != len(self._inputs):
            raise wrong_inputs([each.name for each in self._inputs], [f"dims of {len(shapes)}"])
        other = [each.name for each in self._inputs if each.data_type is DataType.undef]
        if other:
            raise refuse("RS-G06:no-zeros", name=other[0])
        pairs = zip(self._inputs, shapes, strict=True)
        return {each.name: np.zeros(dims, each.data_type.numpy) for each, dims in pairs}

    def _run(self, x: Any, times: list[StepTime] | None = None) -> Any:
        names = [each.name for each in self._inputs]
        inputs = x if isinstance(x, Mapping) else {names[0]: x} if len(names) == 1 else None
        if inputs is None or set(inputs) != set(names):
            raise wrong_inputs(names, [f"one {type(x).__name__}"] if inputs is None else list(inputs))
        tensors: dict[str, Any] = {each.name: _input_value(each, inputs[each.name]) for each in self._inputs}
        dims, steps = tuple(getattr(each, "shape", ()) for each in tensors.values()), list[_DividedStep]()
        step = self._following(self._start, tensors, tensors)
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
                # What no step has made is the caller's, or every call's.
                own = y if name in step.places else y.copy()
                results[name] = returned(inputs[names[0]], own) if names else own
        return results if len(results) > 1 else next(iter(results.values()))

    # --- steps ----------------------------------------------------------------------------------------------

    def _following(self, last: _DividedStep, tensors: _Tensors, made: _Tensors) -> _DividedStep:
        """The step after another, found now where that has made what is of other dims than before."""
        key = tuple(
            (name, _kind(value), np.asarray(value).tobytes() if name in self._conditions else b"")
            for name, value in made.items()
        )
        found = last.followers.get(key)
        if found is not None:
            return found
        with self._lock:
            found = last.followers.get(key) or self._new_step(last, tensors)
            last.followers[key] = found
            _drop_oldest(last.followers)
        return found

    def _new_step(self, last: _DividedStep, tensors: _Tensors) -> _DividedStep:
        """What runs next: of the nodes that are left all that run here, or else an island."""
        self._model.check_files()
        nodes = _needed(last.rest, self.outputs, {*tensors, *last.known})
        read = _reads(nodes) - self._conditions
        inputs = tuple(_model_input(name, x) for name, x in tensors.items() if name in read)
        conditions = {name: np.array(tensors[name]) for name in self._conditions if name in tensors}
        model = replace(self._model, nodes=nodes, tensors={**last.known, **conditions}, inputs=inputs)
        found, network = sort_nodes(model, fixed_inputs(model), self._network)
        known = {name: value for name, value in found.values.items() if not isinstance(value, str)}
        if network is None:
            work = self._island_work(found, {**known, **tensors}, last)
        else:
            reads = tuple(each.name for each in network.inputs)
            work = _PlacedNodes(_OWN, found.runs, (), _by_name(network), reads, network.outputs)
        done = {node.outputs for node in (*work.nodes, *found.runs)}
        rest = tuple(node for node in nodes if node.outputs not in done)
        pairs = ((name, last.places.get(name, work.place)) for name in work.reads)
        edges = tuple(_edge(name, tensors[name]) for name, place in pairs if place != work.place)
        places = {**last.places, **dict.fromkeys(work.makes, work.place)}
        keeps = _reads(rest).union(self.outputs)
        return _DividedStep(work, rest, known, places, {**last.types, **work.types}, keeps, edges)

    def _network(self, part: OnnxModel) -> Network:
        """A part as a network, which is planned."""
        dims = fixed_inputs(part)
        inputs = [
            NetworkInput(each.name, dims[each.name], data_type_of(each.name, each.element))
            for each in part.inputs
        ]
        network = Network.of_source(
            inputs, part.outputs, lambda dims: translated(part, dims), self._rule, self._without
        )
        network.plan()
        return network

    def _island_work(self, found: SortedNodes, tensors: _Tensors, last: _DividedStep) -> _PlacedNodes:
        """The refused nodes that can run now, and nodes behind them that would be refused as well."""
        whys = {node.outputs: why for node, why in found.refused}
        ran = {node.outputs for node in found.runs}
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
        # What is known is a constant there too: some operators want to know it. It may follow from dims.
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


def _needed(nodes: Sequence[OnnxNode], outputs: Iterable[str], available: set[str]) -> tuple[OnnxNode, ...]:
    """The nodes that these outputs follow from, where some tensors are there."""
    wanted, found = {*outputs} - available, list[OnnxNode]()
    for node in reversed(nodes):
        if not wanted.isdisjoint(node.outputs):
            found.append(node)
            wanted |= node.reads() - available
    return tuple(reversed(found))


def _reads(nodes: Iterable[OnnxNode]) -> frozenset[str]:
    return frozenset[str]().union(*(node.reads() for node in nodes))


def _by_name(network: Network) -> Callable[[_Tensors], _Tensors]:
    """The network as a function of tensors by name, to tensors by name."""
    outputs = network.outputs
    return network if len(outputs) > 1 else lambda tensors: {outputs[0]: network(tensors)}


def _undef_or_type(name: str, element: int) -> DataType:
    """The type of an input; undef where networks have none."""
    try:
        return data_type_of(name, element)
    except Error:
        return DataType.undef


def _input_value(kind: NetworkInput, x: Any) -> Any:
    """An input as an array of NumPy; what networks have no type for stays as it is."""
    if kind.data_type is DataType.undef:
        return x
    array = dense_input(kind, x)
    check_dims(kind, array.shape)
    return array


def _model_input(name: str, x: Any) -> OnnxInput:
    """What there is as an input of a model of the nodes that are left."""
    is_array = isinstance(x, np.ndarray)
    return OnnxInput(name, x.shape, NUMBERS.get(x.dtype, 0)) if is_array else OnnxInput(name, None, 0)


def _kind(value: Any) -> object:
    """What steps depend on: dims and type of an array, the class of all else."""
    return (value.shape, value.dtype) if isinstance(value, np.ndarray) else type(value)


def _rank(value: Any) -> object:
    return (value.ndim, value.dtype) if isinstance(value, np.ndarray) else type(value)


def _edge(name: str, x: Any) -> _CrossingTensor:
    arrays = [each for each in (x if isinstance(x, list) else [x]) if isinstance(each, np.ndarray)]
    nbytes = sum(each.nbytes for each in arrays)
    is_one = isinstance(x, np.ndarray)
    kind = f"{x.dtype} {by(x.shape)}" if is_one else f"{type(x).__name__} of {len(arrays)}"
    # Elements of lists and texts are copied by the other library; dense arrays are read where they lie.
    is_copied = not is_one or x.dtype.hasobject or not x.flags.c_contiguous
    return _CrossingTensor(f"{name}: {kind}", nbytes, nbytes if is_copied else 0)


def _step_time(number: int, work: _PlacedNodes, seconds: float) -> StepTime:
    return StepTime(f"{number}", _operators(work), seconds, "", work.place, is_inserted=False)


def _operators(work: _PlacedNodes) -> str:
    """The operators of nodes and how many there are of each, in words."""
    operators = Counter(node.operator for node in work.nodes)
    return ", ".join(f"{name} {n}" for name, n in sorted(operators.items()))


def _drop_oldest(kept: OrderedDict[_Key, Any]) -> None:
    for key in list(kept)[:-_MOST_KEPT]:
        kept.pop(key, None)


def _explanation(steps: Sequence[_DividedStep]) -> Explanation:
    counts = Counter[str]()
    for step in steps:
        counts[step.work.place] += len(step.work.nodes)
    lines = [", ".join(f"{place} runs {counted(n, 'node')}" for place, n in counts.items()) or "all is known"]
    for number, step in enumerate(steps, 1):
        work = step.work
        lines.append(f"{number}. {work.place}: {_operators(work)}")
        lines += [f"  {node}: {why}" for node, why in zip(work.nodes, work.whys, strict=False)]
        lines += [f"  gets {edge.text}, {edge.nbytes:,} bytes" for edge in step.edges]
    edges = [edge for step in steps for edge in step.edges]
    nbytes, copied = sum(edge.nbytes for edge in edges), sum(edge.copied for edge in edges)
    crossing = counted(len(edges), "tensor")
    lines.append(f"between them: {crossing}, {nbytes:,} bytes, of which {copied:,} are copied")
    return Explanation("\n".join(lines))
