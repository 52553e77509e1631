"""`torch.compile(model, backend="restride")`: graphs of functional operators, parts of which run as networks.

AOTAutograd makes the graphs, in training one forward and one backward. Without gradients, parameters and
buffers are constants of networks, packed once; a modification, detected by torch's version counters, is
noticed at the next call.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields
from string import ascii_lowercase
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.eval_frame import innermost_fn
from torch._functorch.aot_autograd import make_boxed_func
from torch._subclasses.fake_tensor import FakeTensorMode

from ....desc.memory_desc import MemoryDesc
from ....desc.parse import parse_bool, parse_word
from ....foreign import text_of
from ....ops.product import kernel_block
from ...network.prepacking import PrepackedConstants
from ...rewrites.fusions import fusions_off
from ...rewrites.precision import PRECISIONS
from ..onnx.reader import missing_error
from .export import decompositions, undivided
from .index_ranges import index_ranges
from .network_part import format_of, row_major_of
from .partition import CHOICES, Partitioned, Run, is_view, partitioned
from .reader import by_operator, called

__all__ = ["GRAPHS", "CompiledGraph", "compile_graph"]

_MOST_PLANS, _MOST_CHANGES = 16, 4
_IMAGES = torch.ops.aten.convolution, torch.ops.aten._native_batch_norm_legit_functional
GRAPHS = "restride_graphs"
"""The attribute under which a function made by torch keeps its graphs."""


def compile_graph(
    module: fx.GraphModule,
    example: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Any:
    """Compile a graph of Dynamo's for example inputs; torch.compile calls this backend.

    `options`: "precision", "f32", or "bf16" or "f16" to which tensors of f32 can be reduced; "fallback",
    False refuses graphs that torch would run partly; "dynamic", False leaves graphs with symbolic sizes to
    torch; "exact", True never uses Winograd's algorithm. Raises InvalidArguments for others.
    """
    own, graphs = _Options.of(options, mode), list[CompiledGraph]()

    def compiler(purpose: str) -> Callable[[fx.GraphModule, Sequence[Any]], CompiledGraph]:
        def compiled(graph: fx.GraphModule, example: Sequence[Any]) -> CompiledGraph:
            graphs.append(CompiledGraph(graph, own, purpose))
            return graphs[-1]

        return compiled

    tensors = [*example, *module.parameters()]
    trains = torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in tensors)
    backend = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        decompositions=decompositions(torch._decomp.core_aten_decompositions()),
    )
    with nullcontext() if trains else undivided():
        compiled = backend(module, example)
    setattr(innermost_fn(compiled), GRAPHS, graphs)
    return compiled


@dataclass(frozen=True, slots=True)
class _Options:
    precision: str = "f32"
    fallback: bool = True
    dynamic: bool = True
    exact: bool = False

    @classmethod
    def of(cls, options: Mapping[str, Any] | None, mode: str | None) -> _Options:
        parse_word("torch.compile: mode", mode or "default", ["default"], "the backend has only one mode")
        names = [each.name for each in fields(cls)]
        own = cls(
            **{parse_word("torch.compile: option", name, names): x for name, x in (options or {}).items()}
        )
        parse_word("torch.compile: precision", own.precision, PRECISIONS)
        for name in ("fallback", "dynamic", "exact"):
            parse_bool(f"torch.compile: {name}", getattr(own, name))
        return own


class CompiledGraph:
    """A graph of functional operators, called with a list of its inputs. Threads can share it.

    `purpose`: "inference", where parameters are constants, "forward" or "backward". Tensors saved by a
    forward graph keep the format in which they are computed and share its memory, possibly with one more axis
    than torch knows; the backward graph reads that (`network_part.format_of`). `left_to_torch`: why torch
    runs the graph, "" if networks do.
    """

    def __init__(self, module: fx.GraphModule, options: _Options, purpose: str = "inference") -> None:
        self._module, self._options = module, options
        self._boxed_call = True  # makes torch pass a list; it copies attributes of objects, not of classes
        self._states: dict[int, _State] = {}
        self._lock, self._changes = threading.RLock(), 0
        self._frozen: list[int] = []
        self._parameters = set[int]()
        metadata = torch._guards.TracingContext.get().fw_metadata
        values = [node.meta.get("val") for node in module.graph.nodes if node.op == "placeholder"]
        self._sizes = [at for at, value in enumerate(values) if not isinstance(value, torch.Tensor)]
        self._ranges = index_ranges(module.graph) if purpose != "backward" else []
        self._saved: list[Any] = []
        static = () if purpose == "backward" else metadata.static_input_indices
        self._static = [at for at in static if at not in self._sizes]
        if purpose == "inference":
            others = {*self._sizes, *metadata.mutated_inp_runtime_indices}
            self._frozen = [at for at in metadata.static_input_indices if at not in others]
        elif purpose == "forward" and not self._sizes:
            end = module.graph.output_node()
            given, saved = end.args[0][: metadata.num_forward], end.args[0][metadata.num_forward :]
            saved = [_whole(node) for node in saved]
            end.args = ((*given, *saved),)
            module.graph.eliminate_dead_code()
            self._saved = [node for node in saved if node not in given and node.op == "call_function"]
        # The inputs of a backward graph that the forward one has saved.
        self._read = [
            (at, node.meta["val"])
            for at, node in enumerate(module.graph.find_nodes(op="placeholder"))
            if purpose == "backward" and at not in self._sizes and not node.name.startswith("tangents_")
        ]
        self.left_to_torch, self._dropped = "", 0
        self._run: Run | None = None
        if self._sizes and not options.dynamic:
            self._leave("its sizes are symbolic, which the options exclude")

    def __call__(self, args: list[Any]) -> Sequence[Any]:
        """Return the outputs of the graph."""
        if self._run is not None:
            return self._run(args)
        if self._ranges and not all(each.has(args) for each in self._ranges):
            results: Sequence[Any] = make_boxed_func(self._module.forward)(args)  # which raises torch's error
            return results
        frozen = [args[at] for at in self._frozen]
        state = self._states.get(frozen[0].data_ptr() if frozen else 0)
        if state is None or not state.is_of(frozen):
            with self._lock:
                state = self._new_state(args)
        state.calls += 1
        key = tuple([args[at] for at in self._sizes] + [args[at].stride() for at, _ in self._read])
        plan = state.plans.get(key)
        if plan is None or self._sizes:
            with self._lock:
                plan = state.plans.pop(key, None) or self._plan(state, args)
                # The plan in use moves to the end.
                state.plans[key] = plan
                while len(state.plans) > _MOST_PLANS:
                    state.plans.popitem(last=False)
                    self._dropped += 1
                if self._dropped > _MOST_PLANS:
                    self._leave("it alternates between more sizes than plans are kept")
        return plan.run(args)

    def plans(self) -> list[tuple[list[tuple[int, ...]], Partitioned]]:
        """The current plans, with the dims of inputs of symbolic sizes that each is for."""
        plans = [plan for state in list(self._states.values()) for plan in list(state.plans.values())]
        ends = self._module.graph.find_nodes(op="placeholder")
        symbolic = [at for at, node in enumerate(ends) if _is_symbolic(node.meta.get("val"))]
        inputs = [(plan.graph.find_nodes(op="placeholder"), plan) for plan in plans]
        return [([tuple(own[at].meta["val"].shape) for at in symbolic], plan) for own, plan in inputs]

    def is_of(self, pointers: set[int]) -> bool:
        """True for a graph without parameters, and for one with a parameter at one of these addresses."""
        return not self._parameters or not self._parameters.isdisjoint(pointers)

    def refresh(self) -> None:
        """Discard all constants."""
        self._states.clear()

    def _leave(self, why: str) -> Run:
        """Let torch run the graph from now on."""
        self.left_to_torch = why
        run: Run = make_boxed_func(self._module.forward)
        if self._read:
            whole = run

            def run(args: list[Any]) -> Sequence[Any]:
                for at, value in self._read:
                    if args[at].dim() != value.dim():
                        args[at] = row_major_of(args[at], value.shape)
                return whole(args)

        self._run = run
        self._states.clear()
        return run

    def _new_state(self, args: Sequence[Any]) -> _State:
        frozen = [args[at] for at in self._frozen]
        before = self._states.get(frozen[0].data_ptr() if frozen else 0)
        if before is not None and before.is_of(frozen):
            return before  # set by another thread
        self._changes = self._changes + 1 if before is not None and before.calls == 1 else 0
        # Weights written before each call are not constants, nor are those whose writes torch does not count.
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
        self._parameters.update(args[at].data_ptr() for at in self._static)
        if self._sizes:
            try:
                module = _of_numbers(module, args)
            except Exception as error:  # torch raises its own errors if values decide sizes
                run = self._leave(f"its sizes are not known before a run: {text_of(error)[:200]}")
                return Partitioned(run, module.graph, (), {})
        places = [node for node in module.graph.nodes if node.op == "placeholder"]
        known = {places[at]: args[at] for at in state.frozen}
        for node in module.graph.nodes:
            if node.op == "get_attr" and isinstance(x := getattr(module, node.target), torch.Tensor):
                known[node], node.meta["val"] = x, x
        formats = {node: _saved_format(node) for node in self._saved if _has_format(node.meta.get("val"))}
        for at, value in self._read if not self._sizes else ():
            if _has_format(value) and args[at].stride() != value.stride():
                formats[places[at]] = format_of(args[at], value.shape)
        with torch.no_grad():
            how = self._options.precision, fusions_off("torch.compile", (), self._options.exact)
            plan = partitioned(module, known, state.prepacked, formats, *how)
        refused = [(why, called(node)) for node, why in plan.eager.items() if why not in CHOICES]
        if refused and not self._options.fallback:
            raise missing_error("the graph", by_operator(refused))
        return plan


def _has_format(x: Any) -> bool:
    """True for floats of images and the like, for which networks have several formats."""
    return isinstance(x, torch.Tensor) and x.dtype is torch.float32 and x.dim() > 3 and x.numel() > 0


def _is_symbolic(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and any(isinstance(n, torch.SymInt) for n in x.shape)


def _whole(node: fx.Node) -> fx.Node:
    """Return the base of an alias if it is the only view of that, so that it is a separate result."""
    if node.target is not torch.ops.aten.alias.default:
        return node
    source, *_ = node.all_input_nodes
    is_viewed = is_view(source) or any(is_view(each) for each in source.users if each is not node)
    return node if is_viewed else source


def _saved_format(node: fx.Node) -> MemoryDesc:
    """Return the format in which a forward graph saves a tensor: blocked channels for images, without which
    gradients of weights are slower than convolutions; otherwise as it is computed.
    """
    value, block = node.meta["val"], kernel_block()
    is_image = any(getattr(each.target, "overloadpacket", None) in _IMAGES for each in (node, *node.users))
    letters = ascii_lowercase[: value.dim()].replace("b", "B")
    tag = f"{letters}{block}b" if is_image and value.shape[1] % block == 0 else "any"
    return MemoryDesc(value.shape, value.dtype, tag)


class _State:
    """The constants of a graph as they were packed, and what was planned with them.

    `places`: their indices among the inputs.
    """

    def __init__(self, places: Sequence[int], frozen: Sequence[torch.Tensor]) -> None:
        self.frozen = places
        self.pointers = list(map(_POINTER, frozen))
        self._versions = list(map(_VERSION, frozen))
        self._first = weakref.ref(frozen[0]) if frozen else None
        self.prepacked, self.calls = PrepackedConstants(), 0
        self.plans: OrderedDict[tuple[Any, ...], Partitioned] = OrderedDict()

    def is_of(self, frozen: Sequence[torch.Tensor]) -> bool:
        """True if these are the packed tensors, unmodified since."""
        return list(map(_VERSION, frozen)) == self._versions and list(map(_POINTER, frozen)) == self.pointers

    def is_alive(self, pointer: int) -> bool:
        """False if the first tensor is gone, or has been moved."""
        first = None if self._first is None else self._first()
        return self._first is None or (first is not None and first.data_ptr() == pointer)


_POINTER, _VERSION = torch.Tensor.data_ptr, torch.Tensor._version.__get__


def _of_numbers(module: fx.GraphModule, args: Sequence[Any]) -> fx.GraphModule:
    """Specialize a graph of symbolic sizes to the numbers of a call; what depends only on them is folded."""
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
            copied = graph.node_copy(node, new.__getitem__)
            copied.meta["val"] = value
            # A size stays an input, which nothing reads.
            new[node] = value if node.op == "placeholder" and isinstance(value, int) else copied
    return fx.GraphModule(module, graph)
