"""Networks: graphs that are called with arrays (G6)."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike, fspath
from typing import Any

from ..desc.parse import one_of, short_repr
from ..desc.viewer import Explanation
from ..errors import Error, InvalidArguments
from ..frontend.results import maker_of
from ..runtime.alloc import address_of
from ..runtime.engine import Engine
from .explaining import explain_plan
from .fusions import parse_fusions
from .graph import Graph
from .network_input import NetworkInput, check_dims, dense_input, fixed_dims, returned, wrong_inputs
from .network_plan import INPUT, OUTPUT, NetworkPlan, PlannedGraph, Storage, plan_network
from .network_writer import SavedPlan, write_network
from .operations import Dims
from .prepacking import PrepackedConstants
from .propagation import RULES
from .running import Runner, StepTime
from .saved_network import read_network

__all__ = ["Network", "NetworkInput", "StepTime"]

_MOST_PLANS = 8

GraphSource = Callable[[Mapping[str, Dims]], Graph | PlannedGraph]
"""What makes the graph for inputs of these dims, by name."""


class Network:
    """A graph that is called with arrays: `Network(graph)`; `rs.onnx.load` makes one of a model.

    `net(x)` where there is one input, `net({"name": x, ...})` else: arrays of NumPy, of torch, or of what has
    `__dlpack__`. One output comes as an array, several as a dict; of the kind of the first input.

    `rule`: how formats are chosen, "plain", "greedy" or "optimal". `without`: names of fusions that are off,
    of `rs.graph.FUSIONS`. For each dims of the inputs a plan is made
    at the first call, and kept; the eight used last stay. Threads may call one network at the same time.

    >>> import numpy as np
    >>> import restride as rs
    >>> builder = rs.graph.GraphBuilder()
    >>> x = builder.input("x", (1, 4))
    >>> net = rs.Network(builder.graph(builder.add(rs.graph.EltwiseOperation("eltwise_square"), x)))
    >>> net(np.array([[-1, 2, -3, 4]], np.float32))
    array([[ 1.,  4.,  9., 16.]], dtype=float32)
    """

    def __init__(self, graph: Graph, *, rule: str = "optimal", without: Iterable[str] = ()) -> None:
        if not isinstance(graph, Graph):
            raise InvalidArguments(
                "Network: there is no graph",
                code="RS-V08",
                why=f"{type(graph).__name__} is no rs.graph.Graph",
                hint="build one with rs.graph.GraphBuilder, or load a model with rs.onnx.load",
            )
        types = [(name, graph.tensors[name]) for name in graph.inputs]
        inputs = [NetworkInput(name, kind.dims, kind.data_type) for name, kind in types]
        self._start(inputs, graph.outputs, lambda dims: graph, rule, without)

    @classmethod
    def of_source(
        cls,
        inputs: Sequence[NetworkInput],
        outputs: Sequence[str],
        source: GraphSource,
        rule: str = "optimal",
        without: Iterable[str] = (),
    ) -> Network:
        """A network whose graph depends on the dims of its inputs: `source` makes it of them."""
        made = cls.__new__(cls)
        made._start(inputs, outputs, source, rule, without)
        return made

    def _start(
        self,
        inputs: Sequence[NetworkInput],
        outputs: Sequence[str],
        source: GraphSource,
        rule: str,
        without: Iterable[str],
    ) -> None:
        if rule not in RULES:
            raise InvalidArguments(
                f"Network: rule is {short_repr(rule)}",
                code="RS-V04",
                why="no rule of propagation has this name",
                hint=one_of(RULES, rule),
            )
        self._inputs, self._outputs = tuple(inputs), tuple(outputs)
        self._source, self._rule, self._engine = source, rule, Engine("cpu")
        self._without = parse_fusions(without)
        self._runners: OrderedDict[tuple[Dims, ...], Runner] = OrderedDict()
        self._prepacked = PrepackedConstants()
        self._lock = threading.Lock()

    @property
    def inputs(self) -> tuple[NetworkInput, ...]:
        """What a call brings."""
        return self._inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of what a call gives."""
        return self._outputs

    @property
    def rule(self) -> str:
        """How formats are chosen."""
        return self._rule

    def with_rule(self, rule: str) -> Network:
        """The same network, whose formats are chosen by another rule."""
        made = self.of_source(self._inputs, self._outputs, self._source, rule, self._without)
        made._prepacked = self._prepacked
        return made

    # --- files ----------------------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str], *dims: Sequence[int]) -> None:
        """Write the network to a file: what it computes, its constants, and these as its kernels read them.

        `dims`: of each input in order, as in `plan`; without them all that have a plan are saved, and those
        that the network fixes. Kernels are no part of the file: they lie in the store on disk. The file
        appears whole under its name or not at all. Raises RuntimeFailure where the system refuses.
        """
        known = [] if dims else list(self._runners)
        wanted = known or [self._dims(dims)]
        runners = [(each, self._runner(each)) for each in wanted]
        saved = [SavedPlan(each, runner.plan, runner.prepare().constants) for each, runner in runners]
        write_network(fspath(path), self._inputs, self._outputs, self._rule, saved)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Network:
        """The network of a file that `save` wrote, for the dims that it was saved for.

        Constants are mapped, and read when a run first wants them; a machine that wants them in other formats
        makes these of the plain ones. The file must not be changed while the network lives. Raises
        InvalidArguments for another or a damaged file, RuntimeFailure where the system refuses.
        """
        try:
            stored = read_network(fspath(path))
            made = cls.of_source(stored.inputs, stored.outputs, stored.graph, stored.rule)
        except Error as error:
            error.drop_frames()
            raise
        made._prepacked = PrepackedConstants(stored)
        return made

    def __repr__(self) -> str:
        inputs = ", ".join(map(str, self._inputs))
        return f"<Network ({inputs}) -> {', '.join(self._outputs)}>"

    # --- calls ----------------------------------------------------------------------------------------------

    def __call__(self, x: Any) -> Any:
        """Run on `x`, one array or a dict of them: the output, or a dict of them, in new memory.

        Raises InvalidArguments for inputs that are missing, and of other dims or types than the network
        takes; what primitives raise, with the name of the node, where a plan has to be made.
        """
        try:
            return self._run(x)[0]
        except Error as error:
            error.drop_frames()
            raise

    def profile(self, x: Any) -> tuple[StepTime, ...]:
        """Run on `x`, and tell how long each step took."""
        times: list[StepTime] = []
        self._run(x, times)
        return tuple(times)

    def plan(self, *dims: Sequence[int]) -> NetworkPlan:
        """What runs for inputs of these dims, one for each input in order; none where the network fixes them.

        Raises as a call does.
        """
        return self._runner(self._dims(dims)).plan

    def explain(self, *dims: Sequence[int]) -> Explanation:
        """The plan for inputs of these dims in words, as `plan` has it.

        What was fused, the format of every tensor, every reorder with its reason and cost, and the memory of
        a run.
        """
        return explain_plan(self.plan(*dims))

    def _run(self, x: Any, times: list[StepTime] | None = None) -> tuple[Any]:
        brought = self._brought(x)
        arrays = [dense_input(each, array) for each, array in zip(self._inputs, brought, strict=True)]
        runner = self._runner(tuple(array.shape for array in arrays))
        addresses = {
            Storage(INPUT, each.name): address_of(array)
            for each, array in zip(self._inputs, arrays, strict=True)
        }
        results = {}
        for name, make in runner.makers.items():
            address, results[name] = make()
            addresses[Storage(OUTPUT, name)] = address
        if times is None:
            runner.run(addresses)
        else:
            times += runner.timed(addresses)
        made = {name: returned(brought[0], array) if brought else array for name, array in results.items()}
        return (made if len(made) > 1 else next(iter(made.values())),)

    def _brought(self, x: Any) -> list[Any]:
        """The inputs in order, as they came."""
        names = [each.name for each in self._inputs]
        if not isinstance(x, Mapping):
            if len(names) != 1:
                raise wrong_inputs(names, [f"one {type(x).__name__}"])
            return [x]
        if set(x) != set(names):
            raise wrong_inputs(names, list(x))
        return [x[name] for name in names]

    # --- plans ----------------------------------------------------------------------------------------------

    def _dims(self, dims: Sequence[Sequence[int]]) -> tuple[Dims, ...]:
        """Dims of all inputs: those that the network fixes where there are none."""
        dims = dims or [fixed_dims(each) for each in self._inputs]
        return tuple(tuple(int(n) for n in each) for each in dims)

    def _runner(self, dims: tuple[Dims, ...]) -> Runner:
        found = self._runners.get(dims)
        if found is not None:
            return found
        with self._lock:
            found = self._runners.get(dims) or self._new_runner(dims)
            others = [(key, each) for key, each in self._runners.items() if key != dims]
            # Replaced as a whole: other threads look into it without the lock.
            self._runners = OrderedDict([*others[-(_MOST_PLANS - 1) :], (dims, found)])
        return found

    def _new_runner(self, dims: tuple[Dims, ...]) -> Runner:
        if len(dims) != len(self._inputs):
            raise wrong_inputs([each.name for each in self._inputs], [f"dims of {len(dims)}"])
        for each, extents in zip(self._inputs, dims, strict=True):
            check_dims(each, extents)
        named = {each.name: extents for each, extents in zip(self._inputs, dims, strict=True)}
        plan = plan_network(self._source(named), self._rule, self._engine, self._without)
        makers = {name: maker_of(place.md) for name, place in plan.outputs.items()}
        return Runner(plan, self._engine, self._prepacked, makers)
