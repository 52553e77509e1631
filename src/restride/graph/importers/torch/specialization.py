"""Graphs of symbolic sizes, specialized to numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode

__all__ = ["are_covered", "of_numbers"]


def are_covered(values: Iterable[tuple[Any, torch.Tensor]]) -> bool:
    """True if a graph made for inputs of symbolic dims holds for tensors of other dims: pairs of an input's
    `val`, and the tensor. torch recorded as guards what it decided by sizes.
    """
    numbers: dict[Any, int] = {}
    pairs = [(n, size) for value, x in values for n, size in zip(value.shape, x.shape, strict=True)]
    open_pairs = [(n.node, size) for n, size in pairs if isinstance(n, torch.SymInt)]
    for node, size in open_pairs:
        if node.expr.is_symbol:
            numbers.setdefault(node.expr, size)
    if any(n != size for n, size in pairs if not isinstance(n, torch.SymInt)):
        return False
    if any(node.expr.subs(numbers) != size for node, size in open_pairs):
        return False
    environment = open_pairs[0][0].shape_env
    ranges = (environment.var_to_range[symbol] for symbol in numbers)
    if not all(own.lower <= size <= own.upper for own, size in zip(ranges, numbers.values(), strict=True)):
        return False
    return all(guard.expr.subs(numbers) == True for guard in environment.guards)  # noqa: E712


def of_numbers(module: fx.GraphModule, args: Sequence[Any]) -> fx.GraphModule:
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
