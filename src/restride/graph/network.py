"""Networks: graphs that are called with arrays (G6)."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..desc.parse import one_of, short_repr
from ..desc.viewer import Explanation
from ..dtypes import DataType
from ..errors import Error, InvalidArguments
from ..frontend.results import maker_of
from ..frontend.tensors import as_array, as_numpy, back_to, is_foreign
from ..runtime.alloc import address_of
from ..runtime.engine import Engine
from .explaining import explain_plan
from .fusions import parse_fusions
from .graph import Graph
from .network_plan import INPUT, OUTPUT, NetworkPlan, Storage, plan_network
from .onnx_model import Array
from .operations import Dims, by
from .propagation import RULES
from .running import PrepackedConstants, Runner, StepTime

__all__ = ["Network", "NetworkInput", "StepTime"]

_MOST_PLANS = 8

GraphSource = Callable[[Mapping[str, Dims]], Graph]
"""What makes the graph for inputs of these dims, by name."""


@dataclass(frozen=True, slots=True)
class NetworkInput:
    """An input of a network: its name, its extents, None for one that a run brings, and its type.

    `dims` is None where any number of them may come.
    """

    name: str
    dims: tuple[int | None, ...] | None
    data_type: DataType

    def __str__(self) -> str:
        shown = "any dims" if self.dims is None else _shown(self.dims)
        return f"{self.name}: {self.data_type} {shown}"


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
        self._prepacked: PrepackedConstants = {}
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
        return self.of_source(self._inputs, self._outputs, self._source, rule, self._without)

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
        if not dims:
            dims = tuple(_fixed(each) for each in self._inputs)
        return self._runner(tuple(tuple(int(n) for n in each) for each in dims)).plan

    def explain(self, *dims: Sequence[int]) -> Explanation:
        """The plan for inputs of these dims in words, as `plan` has it.

        What was fused, the format of every tensor, every reorder with its reason and cost, and the memory of
        a run.
        """
        return explain_plan(self.plan(*dims))

    def _run(self, x: Any, times: list[StepTime] | None = None) -> tuple[Any]:
        brought = self._brought(x)
        arrays = [_dense(each, array) for each, array in zip(self._inputs, brought, strict=True)]
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
        made = {name: _returned(brought[0], array) if brought else array for name, array in results.items()}
        return (made if len(made) > 1 else next(iter(made.values())),)

    def _brought(self, x: Any) -> list[Any]:
        """The inputs in order, as they came."""
        names = [each.name for each in self._inputs]
        if not isinstance(x, Mapping):
            if len(names) != 1:
                raise _wrong_inputs(names, [f"one {type(x).__name__}"])
            return [x]
        if set(x) != set(names):
            raise _wrong_inputs(names, list(x))
        return [x[name] for name in names]

    # --- plans ----------------------------------------------------------------------------------------------

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
            raise _wrong_inputs([each.name for each in self._inputs], [f"dims of {len(dims)}"])
        for each, extents in zip(self._inputs, dims, strict=True):
            _check_dims(each, extents)
        named = {each.name: extents for each, extents in zip(self._inputs, dims, strict=True)}
        plan = plan_network(self._source(named), self._rule, self._engine, self._without)
        makers = {name: maker_of(place.md) for name, place in plan.outputs.items()}
        return Runner(plan, self._engine, self._prepacked, makers)


# --- what calls bring and get -------------------------------------------------------------------------------


def _dense(wanted: NetworkInput, x: Any) -> Array:
    """An input as a row-major array of NumPy, of the type that the network takes."""
    name = f"Network: input {wanted.name!r}"
    found = as_numpy(x, name) if is_foreign(x) else np.asarray(as_array(x, name))
    if found.dtype != wanted.data_type.numpy:
        raise InvalidArguments(
            f"{name} is of another type",
            code="RS-G03",
            why=f"it is {found.dtype}, the network takes {wanted.data_type}",
            hint=f"convert it first: x.astype({str(wanted.data_type.numpy)!r})",
        )
    return np.asarray(found, order="C")


def _returned(x: Any, made: Array) -> Any:
    return back_to(x, made) if is_foreign(x) else made


def _check_dims(wanted: NetworkInput, dims: Dims) -> None:
    shape = wanted.dims
    if shape is None:
        return
    if len(shape) == len(dims) and all(n in (None, m) for n, m in zip(shape, dims, strict=True)):
        return
    raise InvalidArguments(
        f"Network: input {wanted.name!r} is of another shape",
        code="RS-G03",
        where=f"it is {by(dims)}; the network takes {_shown(shape)}",
        why="the network fixes these extents; * is any",
        hint="bring the network's own, or save the model with dynamic dims",
    )


def _fixed(wanted: NetworkInput) -> Dims:
    dims = wanted.dims
    if dims is not None and all(n is not None for n in dims):
        return tuple(n for n in dims if n is not None)
    raise InvalidArguments(
        f"Network: input {wanted.name!r} has extents that a run brings",
        code="RS-G03",
        where=str(wanted),
        why="a plan is made for known extents",
        hint="pass the dims of each input: net.plan((1, 3, 224, 224))",
    )


def _shown(dims: Sequence[int | None]) -> str:
    return "x".join("*" if n is None else str(n) for n in dims) or "scalar"


def _wrong_inputs(names: Sequence[str], brought: Sequence[object]) -> InvalidArguments:
    return InvalidArguments(
        "Network: other inputs than the network has",
        code="RS-G03",
        where=f"brought {', '.join(map(str, brought)) or 'none'}",
        why=f"the inputs are {', '.join(map(repr, names)) or 'none'}",
        hint="pass one array where there is one input, else a dict with an array for each name",
    )
