"""`torch.compile(model, backend="restride")`: graphs of functional operators, of which networks run parts.

AOTAutograd makes the graphs, of training one forward and one backward. Where no gradients are wanted,
parameters and buffers are constants of networks, which are packed once; a change of them, as torch counts it,
is noticed at the next call.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.eval_frame import innermost_fn
from torch._functorch.aot_autograd import make_boxed_func
from torch._subclasses.fake_tensor import FakeTensorMode

from ....desc.parse import parse_bool, parse_word
from ....foreign import text_of
from ...network.prepacking import PrepackedConstants
from ..onnx.reader import missing_error
from .export import decompositions, undivided
from .partition import CHOICES, Partitioned, Run, partitioned
from .reader import by_operator, called

__all__ = ["GRAPHS", "CompiledGraph", "compile_graph"]

_MOST_PLANS, _MOST_CHANGES = 16, 4
GRAPHS = "restride_graphs"
"""The attribute of a function that torch made which has its graphs."""


def compile_graph(
    module: fx.GraphModule,
    example: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Any:
    """The backend that torch.compile calls with a graph of Dynamo's, and what its inputs are like.

    `options`: "precision", of which there is "f32"; "fallback", False refuses graphs of which torch would run
    a part; "dynamic", False leaves graphs of symbolic sizes to torch. Raises InvalidArguments for others.
    """
    own, graphs = _Options.of(options, mode), list[CompiledGraph]()

    def compiler(freezes: bool) -> Callable[[fx.GraphModule, Sequence[Any]], CompiledGraph]:
        def compiled(graph: fx.GraphModule, example: Sequence[Any]) -> CompiledGraph:
            graphs.append(CompiledGraph(graph, own, freezes=freezes))
            return graphs[-1]

        return compiled

    tensors = [*example, *module.parameters()]
    trains = torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in tensors)
    backend = aot_autograd(
        fw_compiler=compiler(False),
        bw_compiler=compiler(False),
        inference_compiler=compiler(True),
        decompositions=decompositions(torch._decomp.core_aten_decompositions()),
    )
    with nullcontext() if trains else undivided():
        compiled = backend(module, example)
    setattr(innermost_fn(compiled), GRAPHS, graphs)
    return compiled


@dataclass(frozen=True, slots=True)
class _Options:
    """The options of a compilation."""

    precision: str = "f32"
    fallback: bool = True
    dynamic: bool = True

    @classmethod
    def of(cls, options: Mapping[str, Any] | None, mode: str | None) -> _Options:
        parse_word("torch.compile: mode", mode or "default", ["default"], "the backend has one mode")
        names = [each.name for each in fields(cls)]
        own = cls(
            **{parse_word("torch.compile: option", name, names): x for name, x in (options or {}).items()}
        )
        parse_word("torch.compile: precision", own.precision, ["f32"])
        for name in ("fallback", "dynamic"):
            parse_bool(f"torch.compile: {name}", getattr(own, name))
        return own


class CompiledGraph:
    """A graph of functional operators, called with a list of its inputs. Threads may share it.

    `left_to_torch`: why torch runs it, "" where networks do.
    """

    def __init__(self, module: fx.GraphModule, options: _Options, *, freezes: bool = True) -> None:
        self._module, self._options = module, options
        self._boxed_call = True  # torch passes a list then; it copies attributes of objects, not of classes
        self._states: dict[int, _State] = {}
        self._lock, self._changes = threading.RLock(), 0
        self._frozen: list[int] = []
        metadata = torch._guards.TracingContext.get().fw_metadata
        values = [node.meta.get("val") for node in module.graph.nodes if node.op == "placeholder"]
        self._sizes = [at for at, value in enumerate(values) if not isinstance(value, torch.Tensor)]
        if freezes:
            others = {*self._sizes, *metadata.mutated_inp_runtime_indices}
            self._frozen = [at for at in metadata.static_input_indices if at not in others]
        self.left_to_torch, self._dropped = "", 0
        self._run: Run | None = None
        if self._sizes and not options.dynamic:
            self._leave("its sizes are symbolic, which options exclude")

    def __call__(self, args: list[Any]) -> Sequence[Any]:
        """The outputs of the graph."""
        if self._run is not None:
            return self._run(args)
        frozen = [args[at] for at in self._frozen]
        state = self._states.get(frozen[0].data_ptr() if frozen else 0)
        if state is None or not state.is_of(frozen):
            with self._lock:
                state = self._new_state(args)
        state.calls += 1
        key = tuple([args[at] for at in self._sizes])
        plan = state.plans.get(key)
        if plan is None or self._sizes:
            with self._lock:
                plan = state.plans.pop(key, None) or self._plan(state, args)
                # The one that is used goes to the end.
                state.plans[key] = plan
                while len(state.plans) > _MOST_PLANS:
                    state.plans.popitem(last=False)
                    self._dropped += 1
                if self._dropped > _MOST_PLANS:
                    self._leave("it is called with more sizes in turn than plans are kept")
        return plan.run(args)

    def plans(self) -> list[tuple[tuple[Any, ...], Partitioned]]:
        """What runs the graph now, and for which sizes."""
        return [item for state in list(self._states.values()) for item in list(state.plans.items())]

    def is_of(self, pointers: set[int]) -> bool:
        """True for a graph without constants, and one of which a constant lies at one of these addresses."""
        constants = {pointer for state in list(self._states.values()) for pointer in state.pointers}
        return not constants or not constants.isdisjoint(pointers)

    def refresh(self) -> None:
        """Forget all constants."""
        self._states.clear()

    def _leave(self, why: str) -> Run:
        """Let torch run the graph from now on."""
        self.left_to_torch = why
        run: Run = make_boxed_func(self._module.forward)
        self._run = run
        self._states.clear()
        return run

    def _new_state(self, args: Sequence[Any]) -> _State:
        frozen = [args[at] for at in self._frozen]
        before = self._states.get(frozen[0].data_ptr() if frozen else 0)
        if before is not None and before.is_of(frozen):
            return before  # of another thread
        self._changes = self._changes + 1 if before is not None and before.calls == 1 else 0
        # Weights that are written before each call are no constants, nor those whose writes are not counted.
        is_constant = self._changes < _MOST_CHANGES
        self._frozen = [at for at in self._frozen if is_constant and not args[at].is_inference()]
        frozen = [args[at] for at in self._frozen]
        for pointer, state in list(self._states.items()):
            if not state.is_alive(pointer):
                del self._states[pointer]
        state = self._states[frozen[0].data_ptr() if frozen else 0] = _State(self._frozen, frozen)
        return state

    def _plan(self, state: _State, args: Sequence[Any]) -> Partitioned:
        module = self._module
        if self._sizes:
            try:
                module = _of_numbers(module, args)
            except Exception as error:  # torch says in errors of its own that values decide on sizes
                run = self._leave(f"its sizes are not known before a run: {text_of(error)[:200]}")
                return Partitioned(run, module.graph, (), {})
        places = [node for node in module.graph.nodes if node.op == "placeholder"]
        known = {places[at]: args[at] for at in state.frozen}
        for node in module.graph.nodes:
            if node.op == "get_attr" and isinstance(x := getattr(module, node.target), torch.Tensor):
                known[node], node.meta["val"] = x, x
        with torch.no_grad():
            plan = partitioned(module, known, state.prepacked)
        refused = [(why, called(node)) for node, why in plan.eager.items() if why not in CHOICES]
        if refused and not self._options.fallback:
            raise missing_error("the graph", by_operator(refused))
        return plan


class _State:
    """The constants of a graph as they were packed, and what was planned with them.

    `places`: theirs among the inputs.
    """

    def __init__(self, places: Sequence[int], frozen: Sequence[torch.Tensor]) -> None:
        self.frozen = places
        self.pointers = list(map(_POINTER, frozen))
        self._versions = list(map(_VERSION, frozen))
        self._first = weakref.ref(frozen[0]) if frozen else None
        self.prepacked, self.calls = PrepackedConstants(), 0
        self.plans: OrderedDict[tuple[Any, ...], Partitioned] = OrderedDict()

    def is_of(self, frozen: Sequence[torch.Tensor]) -> bool:
        """True where tensors are those, and were not written since."""
        return list(map(_VERSION, frozen)) == self._versions and list(map(_POINTER, frozen)) == self.pointers

    def is_alive(self, pointer: int) -> bool:
        """False where the first tensor is gone, or lies elsewhere now."""
        first = None if self._first is None else self._first()
        return self._first is None or (first is not None and first.data_ptr() == pointer)


_POINTER, _VERSION = torch.Tensor.data_ptr, torch.Tensor._version.__get__


def _of_numbers(module: fx.GraphModule, args: Sequence[Any]) -> fx.GraphModule:
    """A graph of symbolic sizes for the numbers of a call: what follows from these alone is no node of it."""
    graph, new = fx.Graph(), dict[fx.Node, Any]()
    values = iter(args)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad():

        def value_of(node: fx.Node) -> Any:
            return new[node].meta["val"] if isinstance(new[node], fx.Node) else new[node]

        for node in module.graph.nodes:
            if node.op == "placeholder":
                value = next(values)
                value = mode.from_tensor(value) if isinstance(value, torch.Tensor) else value
            elif node.op == "get_attr":
                value = getattr(module, node.target)
            elif node.op == "output":
                graph.output(fx.map_arg(node.args[0], new.__getitem__))
                break
            else:
                value = node.target(*fx.map_arg(node.args, value_of), **fx.map_arg(node.kwargs, value_of))
            if node.op == "call_function" and not isinstance(value, torch.Tensor | tuple | list):
                new[node] = value
                continue
            new[node] = graph.node_copy(node, new.__getitem__)
            new[node].meta["val"] = value
    return fx.GraphModule(module, graph)
