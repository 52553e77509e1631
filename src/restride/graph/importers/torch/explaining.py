"""Report on a function that torch compiled with the backend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import nn
from torch._dynamo import eval_frame

from ....desc.viewer import Explanation
from ....errors import refuse
from ...dims import by
from ...network.plan import precision_text
from .backend import GRAPHS, CompiledGraph
from .partition import Partitioned, made_by
from .reader import called

__all__ = ["explained", "graphs_of"]

_MOST_NAMED = 8


def explained(compiled: Callable[..., Any]) -> Explanation:
    """Report what runs where in a compiled function; a graph has networks after its first call."""
    graphs = graphs_of(compiled)
    texts = [line for at, graph in enumerate(graphs) for line in _told(at, graph)]
    return Explanation("\n".join(texts) or "no graphs yet: call the function first")


def graphs_of(compiled: Callable[..., Any]) -> list[CompiledGraph]:
    """Return the graphs of a compiled function, in order of creation."""
    # A compiled module wraps the module, unless that compiled itself.
    module = getattr(compiled, "_orig_mod", compiled if isinstance(compiled, nn.Module) else None)
    function = getattr(module, "_compiled_call_impl", None) or getattr(compiled, "forward", compiled)
    if not hasattr(function, "_torchdynamo_orig_callable"):
        raise refuse("RS-V08:not-compiled", type=type(compiled).__name__)
    functions = [eval_frame.innermost_fn(function)]
    if module is not None:
        functions += [eval_frame.innermost_fn(type(part).forward) for part in module.modules()]
    seen: dict[Any, None] = {}
    made = [graphs for function in functions for graphs in _graphs_in(function, seen)]
    if module is not None:
        # Modules of one class share their code.
        own = {x.data_ptr() for x in (*module.parameters(), *module.buffers())}
        made = [graphs for graphs in made if graphs[0].is_of(own)]
    return list(dict.fromkeys(graph for graphs in made for graph in graphs))


def _graphs_in(function: Any, seen: dict[Any, None]) -> Iterator[Sequence[CompiledGraph]]:
    """Yield the graphs by which Dynamo replaced a function, including those after graph breaks; backward
    graphs follow their forward graph.
    """
    code = getattr(function, "__code__", None)
    if code is None or code in seen:
        return
    seen[code] = None
    for entry in eval_frame._debug_get_cache_entry_list(code):
        for name in entry.code.co_names:
            value = function.__globals__.get(name)
            if name.startswith("__compiled_fn"):
                yield from filter(None, [getattr(value, GRAPHS, ())])
            elif name.startswith("__resume_at"):
                yield from _graphs_in(eval_frame.innermost_fn(value), seen)


def _told(at: int, graph: CompiledGraph) -> Iterator[str]:
    if graph.left_to_torch:
        yield f"graph {at}: left to torch: {graph.left_to_torch}"
        return
    plans = list(graph.plans())
    if not plans:
        yield f"graph {at}: not called yet"
    for dims, plan in plans:
        of_torch = [node for node in plan.eager if made_by(node) is node]
        of_dims = f" for {', '.join(map(by, dims))}" if dims else ""
        yield f"graph {at}{of_dims}: {len(plan.parts)} networks, {len(of_torch)} operators of torch"
        yield from _networks(plan)
        yield from (f"  torch: {_word(node)}, {called(node)}: {plan.eager[node]}" for node in of_torch)


def _networks(plan: Partitioned) -> Iterator[str]:
    for number, part in enumerate(plan.parts):
        words = Counter(_word(node) for node in part.nodes if made_by(node) is node)
        named = [f"{count} {word}" if count > 1 else word for word, count in words.most_common(_MOST_NAMED)]
        more = ", ..." if len(words) > _MOST_NAMED else ""
        yield f"  network {number}: {words.total()} operators: {', '.join(named)}{more}"
        yield (
            f"    {len(part.plan.steps)} steps, {part.plan.reorders} reorders, "
            f"{_bytes(part.inputs)} bytes in, {_bytes(part.outputs)} bytes out, "
            f"{part.plan.arena.peak} bytes a run"
        )
        if part.plan.precision != "f32":
            yield f"    {precision_text(part.plan)}"


def _word(node: Any) -> str:
    return str(getattr(node.target, "overloadpacket", node.target))


def _bytes(nodes: Any) -> int:
    return sum(node.meta["val"].numel() * node.meta["val"].element_size() for node in nodes)
