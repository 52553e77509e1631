"""Networks: graphs that are called with arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from os import PathLike
from typing import TYPE_CHECKING, Any, Never, overload

from ...desc.parse import check_function, parse_dims, parse_int, renamed
from ...desc.viewer import viewer
from ...errors import Error, refuse
from ...files.plain_file import path_text
from ...loading import load_whole
from ...runtime.alloc import address_of
from ...verbose import attach_logger, flags
from ...watching import tell_error, watch_network
from ..dims import Dims, by
from ..fields import parse_field
from .file import NetworkFile, read_network_file
from .inputs import NetworkInput, as_stored, dense_input, fixed_dims, in_order, returned, wrong_inputs
from .outputs import targets_by_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ...desc.viewer import Explanation
    from ...runtime.memory import Memory
    from ...typing import ArrayLike, Owned
    from ..batch_form import IsLinear
    from ..graph import Graph
    from .plan import NetworkPlan
    from .planned_runs import GraphSource, PlannedRuns
    from .recorded_run import RecordedRun
    from .run_program import StepTime
    from .running import Runner

__all__ = ["InputDims", "Network", "NetworkParts", "parts_of"]

InputDims = Sequence[int] | Mapping[str, Sequence[int]]
"""The dims of an input, or of all inputs by name."""

ProgressCallback = Callable[[int, int], None]
"""Called with the number of steps that are ready, and their total number."""

_NO_INPUT: Any = object()
# As many as plans: each keeps the memory of its runs.
_MOST_RECORDED = 8


class Network:
    """A graph that is called with arrays: `Network(graph)`; `rs.onnx.load` makes one from a model.

    `net(x)` with a single input, otherwise `net({"name": x, ...})`: arrays of NumPy, of torch, or objects
    with `__dlpack__`. A single output is returned as an array, several as a dict; of the library of the first
    input.

    `rule`: how formats are chosen, "plain", "greedy" or "optimal". `without`: names of disabled fusions, of
    `rs.graph.FUSIONS`. `precision`: "f32"; "bf16" or "f16" allow tensors of that type where that is faster,
    with f32 sums. For each set of input dims a plan is made at the first call, and kept; the eight made last
    are kept. Threads can call one network at the same time.

    >>> import numpy as np
    >>> import restride as rs
    >>> builder = rs.graph.GraphBuilder()
    >>> x = builder.input("x", (1, 4))
    >>> net = rs.Network(builder.graph(builder.add(rs.graph.EltwiseOperation("eltwise_square"), x)))
    >>> net(np.array([[-1, 2, -3, 4]], np.float32))
    array([[ 1.,  4.,  9., 16.]], dtype=float32)
    """

    def __init__(
        self, graph: Graph, *, rule: str = "optimal", without: Iterable[str] = (), precision: str = "f32"
    ) -> None:
        load_whole("restride.graph.network.planned_runs")
        from .planned_runs import FixedGraph, PlannedRuns, graph_inputs

        inputs = graph_inputs(graph)
        plans = PlannedRuns(inputs, graph.outputs, FixedGraph(graph), rule, without, precision=precision)
        self._start(plans, inputs, graph.outputs, rule, precision)

    @classmethod
    def of_source(
        cls,
        inputs: Sequence[NetworkInput],
        outputs: Sequence[str],
        source: GraphSource,
        rule: str = "optimal",
        without: Iterable[str] = (),
        dims: Sequence[Dims] = (),
        is_linear: IsLinear | None = None,
        largest: int = 1024,
        precision: str = "f32",
    ) -> Network:
        """Return a network whose graph depends on the dims of its inputs: `source` makes it for given dims.

        `dims`: of all inputs, planned if a caller names none and the inputs leave them open. `is_linear`:
        called with dims by name for several batches, the smallest first; True means that the graphs of these
        and all batches between them differ only in extents, so that a file can serve them all, up to the
        batch `largest`.
        """
        load_whole("restride.graph.network.planned_runs")
        from .planned_runs import PlannedRuns

        what, network = "Network.of_source", cls.__new__(cls)
        inputs = parse_field(f"{what}: inputs", tuple[NetworkInput, ...], inputs)
        outputs = parse_field(f"{what}: outputs", tuple[str, ...], outputs)
        check_function(f"{what}: source", 0 if source is None else source)
        check_function(f"{what}: is_linear", is_linear)
        largest = parse_int(largest, f"{what}: largest")
        plans = PlannedRuns(
            *(inputs, outputs, source, rule, without),
            is_linear=is_linear,
            largest=largest,
            precision=precision,
        )
        network._start(plans, inputs, outputs, rule, precision)
        usual: tuple[Dims, ...] = parse_field(f"{what}: dims", tuple[Dims, ...], dims)
        network._usual = (usual,) if usual else ()
        return network

    def _start(
        self,
        plans: PlannedRuns | None,
        inputs: Sequence[NetworkInput],
        outputs: Sequence[str],
        rule: str,
        precision: str = "f32",
        file: NetworkFile | None = None,
    ) -> None:
        attach_logger()  # a recorded run does not create primitives, which would attach it
        self._inputs, self._outputs, self._rule = tuple(inputs), tuple(outputs), rule
        self._precision = precision
        self._planned, self._file, self._usual = plans, file, file.dims if file else ()
        self._recorded: dict[tuple[Dims, ...], RecordedRun | None] = {}

    @property
    def inputs(self) -> tuple[NetworkInput, ...]:
        """The inputs of a call."""
        return self._inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the results of a call."""
        return self._outputs

    @property
    def rule(self) -> str:
        """The rule that chooses formats."""
        return self._rule

    @property
    def precision(self) -> str:
        """The precision allowed for computation: "f32", "bf16" or "f16". `explain` lists where it is used."""
        return self._precision

    def with_rule(self, rule: str) -> Network:
        """Return the same network with formats chosen by another rule."""
        network = type(self).__new__(type(self))
        plans = self._plans.with_rule(rule)
        network._start(plans, self._inputs, self._outputs, rule, self._precision)
        network._usual = self._usual
        return network

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle its graph, or the source of it, without plans and kernels; or the path of its file if it was
        loaded.

        Raises Unimplemented for a network of a torch module.
        """
        if self._file is not None:
            return type(self).load, (os.path.abspath(self._file.path),)
        self._plans.check_pickle()
        return type(self).of_source, parts_of(self).arguments

    def __copy__(self) -> Network:
        """Return another network that shares the plans."""
        network = type(self).__new__(type(self))
        vars(network).update(vars(self))
        return network

    # --- files ----------------------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str], *dims: InputDims) -> None:
        """Write the network to a file: graphs, constants, and copies of these in the formats of its kernels.

        `dims`: of each input in order, or one dict of them by name; without them all dims that have a plan
        are saved, or else those of a module's example, or those that the network fixes. If the inputs leave
        the batch open, and the graph is the same for all batches, the file supports other batches too, up to
        1024 or the maximum that a program of torch.export accepts. Kernels are not part of the file: they are
        in the cache on disk. The file is written atomically: it appears complete or not at all. Raises
        RuntimeFailure if the system refuses.
        """
        own_dims = (*(self._file.dims if self._file else ()), *self._plans.dims)
        name = path_text(path, "Network.save: path", "the name of the file to write")
        self._plans.save(name, (not dims and list(dict.fromkeys(own_dims))) or self._all_dims(dims))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Network:
        """Load the network of a file that `save` wrote, for the dims that it was saved for, and other
        batches.

        Constants are mapped, and read at their first use; a machine that needs them in other formats converts
        the plain ones. The file must not be changed while the network exists. Raises RuntimeFailure for
        another or a damaged file, and if the system refuses; a damaged tensor is found at its first use.
        """
        try:
            file = read_network_file(
                path_text(path, "Network.load: path", "the name of a file that save wrote")
            )
        except Error as error:
            error.drop_frames()
            raise
        network = cls.__new__(cls)
        network._start(None, file.inputs, file.outputs, file.rule, file.precision, file)
        return network

    def __repr__(self) -> str:
        inputs = ", ".join(map(str, self._inputs))
        saved = "; ".join(", ".join(map(by, dims)) for dims in self._file.dims) if self._file else ""
        is_open = any(each.dims is None or None in each.dims for each in self._inputs)
        more = ", and other batches" if self._file and self._file.header["batches"] else ""
        limits = f", saved for {saved}{more}" if saved and is_open else ""
        return f"<{type(self).__name__} ({inputs}) -> {', '.join(self._outputs)}{limits}>"

    def _repr_html_(self) -> str:
        return str(viewer().watched().html_of(self))

    @property
    def _last_plan(self) -> NetworkPlan | None:
        """The plan that was made last, or None."""
        dims = self._planned.dims if self._planned is not None else ()
        return self._planned.plan(dims[-1]) if self._planned is not None and dims else None

    # --- calls ----------------------------------------------------------------------------------------------

    @overload
    def __call__(self, x: Any, /, *, out: Owned) -> Owned: ...
    @overload
    def __call__(
        self,
        x: NDArray[Any] | Memory | Mapping[str, NDArray[Any] | Memory],
        /,
        *,
        out: Mapping[str, Any] | None = None,
    ) -> NDArray[Any] | Any: ...
    @overload
    def __call__(
        self, x: Owned | Mapping[str, Owned], /, *, out: Mapping[str, Any] | None = None
    ) -> Owned | Any: ...
    @overload
    def __call__(
        self, x: ArrayLike | Mapping[str, Any], /, *, out: Mapping[str, Any] | None = None
    ) -> Any: ...
    def __call__(self, x: Any = _NO_INPUT, /, *more: Any, out: Any = None, **named: Any) -> Any:
        """Run on `x`, one array or a dict of them; return the output, or a dict of outputs, in new memory.

        `out`: an array into which the output is written, or a dict of arrays for some of the outputs; it is
        returned. If it is row-major and begins at a multiple of 64 bytes, like arrays of `rs.empty`, it is
        written without a copy.

        Raises InvalidArguments for missing inputs, and for inputs or `out` whose dims or types differ from
        the network's; if a plan has to be made, what primitives raise, with the name of the node.
        """
        try:
            if x is _NO_INPUT or more or named:
                brought = [f"{len(more) + 1} by position"] if x is not _NO_INPUT else []
                brought += [f"{name!r} by name" for name in named]
                raise wrong_inputs([each.name for each in self._inputs], brought)
            return self._run(x, out=out)[0]
        except Error as error:
            error.drop_frames()
            tell_error(self._rule, error, x)
            raise
        except MemoryError:
            full = refuse("RS-D01:network")
            tell_error(self._rule, full, x)
            raise full from None

    def prepare(
        self,
        *dims: InputDims,
        progress: ProgressCallback | None = None,
        told: ProgressCallback | None = None,
        **named: Never,
    ) -> None:
        """Do the preparations of a first call with inputs of these dims: plan, compile, pack weights.

        `dims`: as in `plan`; by default, all that a file was saved for. `progress`: called during
        preparation with the number of steps that are ready, and their total number; `told` is its earlier
        name. Raises as a call does.
        """
        try:
            if named:
                inputs = [each.name for each in self._inputs]
                raise wrong_inputs(inputs, [f"{name!r} as a keyword" for name in named])
            progress = renamed("Network.prepare: progress", progress, told=told)
            check_function("Network.prepare: progress", progress)
            for input_dims in self._all_dims(dims):
                self._runner(input_dims, progress or (lambda ready, steps: None))
        except Error as error:
            error.drop_frames()
            raise

    def profile(self, x: Any) -> tuple[StepTime, ...]:
        """Run on `x`, and return how long each step took."""
        times: list[StepTime] = []
        self._run(x, times)
        return tuple(times)

    def plan(self, *dims: InputDims) -> NetworkPlan:
        """Return the plan for inputs of these dims, one for each input in order or a dict of them by name;
        none if the network fixes them, or for the first that a file was saved for.

        Raises as a call does.
        """
        return self._plans.plan(self._all_dims(dims)[0])

    def explain(self, *dims: InputDims) -> Explanation:
        """Describe the plan for inputs of these dims, which are as in `plan`.

        It lists fusions, the format of every tensor, every reorder with its reason and cost, and the memory
        of a run.
        """
        return self._plans.explain(self._all_dims(dims)[0])

    def _run(self, x: Any, times: list[StepTime] | None = None, out: Any = None) -> tuple[Any]:
        inputs = self._in_order(x)
        arrays = [dense_input(tensor, array) for tensor, array in zip(self._inputs, inputs, strict=True)]
        dims = tuple(array.shape for array in arrays)
        if times is None and flags.profile_exec:
            times = []
        runner = self._runner(dims) if times is None else self._plans.runner(dims)
        by_name = {each.name: as_stored(each, x) for each, x in zip(self._inputs, arrays, strict=True)}
        for indices in runner.indices:
            indices.check(by_name[indices.name])
        targets = {} if out is None else targets_by_name(out, self._outputs)
        places = [output.place(targets.get(output.name), arrays) for output in runner.outputs]
        addresses = [address_of(by_name[name]) for name in runner.inputs]
        addresses += [place.address for place in places]
        if times is None and not flags.profile:
            runner.run(addresses)
        else:
            with watch_network(self._rule, dims):
                if times is None:
                    runner.run(addresses)
                else:
                    times += self._plans.runner(dims).timed(addresses)
        results = {}
        for output, place in zip(runner.outputs, places, strict=True):
            is_new = inputs and targets.get(output.name) is None
            results[output.name] = returned(inputs[0], place.array) if is_new else place.finished()
        return (results if len(results) > 1 else next(iter(results.values())),)

    def _in_order(self, x: Any) -> list[Any]:
        """Return the inputs in order, unconverted."""
        return in_order(self._inputs, x)

    # --- plans ----------------------------------------------------------------------------------------------

    @property
    def _plans(self) -> PlannedRuns:
        """The planner of the network; for a file it is created only when a plan is needed."""
        if self._planned is None:
            load_whole("restride.graph.network.planned_runs")
            from .planned_runs import planned_file

            assert self._file is not None
            # Threads that plan for the first time may each make one: all of them use the last.
            self._planned = planned_file(self._file)
        return self._planned

    def _all_dims(self, dims: Sequence[InputDims]) -> list[tuple[Dims, ...]]:
        """Return the dims of all inputs: by default those of the file or the example, or fixed ones."""
        if len(dims) == 1 and isinstance(dims[0], Mapping):
            dims = self._in_order(dims[0])
        if dims:
            return [tuple(parse_dims(extents, f"Network: dims[{i}]") for i, extents in enumerate(dims))]
        return list(self._usual) or [tuple(map(fixed_dims, self._inputs))]

    def _runner(self, dims: tuple[Dims, ...], report: ProgressCallback | None = None) -> Runner | RecordedRun:
        """Return the runner for inputs of these dims: for a file, preferably the run recorded on this
        machine.

        `report`: called with the progress of preparation; without it kernels may be compiled later.
        """
        is_first = self._file is not None and dims not in self._recorded
        if self._file is not None:
            if is_first:
                load_whole("restride.graph.network.recorded_run")
                from .recorded_run import find_record

                self._recorded[dims] = find_record(self._file, dims)
                for key in list(self._recorded)[:-_MOST_RECORDED]:
                    self._recorded.pop(key, None)
            run = self._recorded.get(dims)
            if run is not None and run.is_current:
                return run
        runner = self._plans.runner(dims)
        if report is not None:
            runner.prepare(report)
        if self._file is not None and is_first:
            self._plans.keep_record(self._file, dims)
        return runner


@dataclass(frozen=True, slots=True, eq=False)
class NetworkParts:
    """The parts of a network: the arguments of `Network.of_source`."""

    inputs: tuple[NetworkInput, ...]
    outputs: tuple[str, ...]
    source: GraphSource
    rule: str
    without: tuple[str, ...]
    dims: tuple[Dims, ...]
    is_linear: IsLinear | None
    largest: int
    precision: str

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Return the parts in order."""
        return tuple(getattr(self, each.name) for each in fields(self))


def parts_of(net: Network) -> NetworkParts:
    """Return the parts of a network.

    Raises Unimplemented for one that was loaded from a file, or that a run divides: it has no graph.
    """
    if net._planned is None:
        raise refuse("RS-G08:no-graph")
    source, without, is_linear, largest = net._planned.made_of
    usual = net._usual[0] if net._usual else ()
    return NetworkParts(
        inputs=net._inputs,
        outputs=net._outputs,
        source=source,
        rule=net._rule,
        without=without,
        dims=usual,
        is_linear=is_linear,
        largest=largest,
        precision=net._precision,
    )
