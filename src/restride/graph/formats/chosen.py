"""Formats that were chosen before: as values of JSON, and back as the problem of a graph that has no others.

    values      := {"formats": [descriptor], "steps": [[inputs, outputs, seconds]]}
    inputs      := [number of a format]

So a network that is loaded looks for no alternatives. What is read is checked: every format is of the dims
and the type of its tensor, and what is a view of another tensor lies where the view says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Any

from ...desc.memory_desc import MemoryDesc
from ...desc.parse import short_repr
from ...errors import refuse
from ...runtime.engine import Engine
from ..graph import Graph, Node
from .node_formats import VIEWS, edge_costs, view_of
from .problem import Alternative, FormatProblem, FormatStep

__all__ = ["chosen_problem", "chosen_values", "chosen_ways"]


def chosen_values(ways: Sequence[Alternative]) -> dict[str, Any]:
    """The alternatives of steps; each format stands there once."""
    formats = list(dict.fromkeys(md for way in ways for md in (*way.inputs, *way.outputs)))
    numbers = {md: number for number, md in enumerate(formats)}
    steps = [
        [[numbers[md] for md in way.inputs], [numbers[md] for md in way.outputs], way.seconds] for way in ways
    ]
    return {"formats": [md.to_dict() for md in formats], "steps": steps}


def chosen_ways(values: Mapping[str, Any]) -> tuple[Alternative, ...]:
    """The same, back. Raises ValueError for a time that is none."""
    if not all(type(seconds) is float and 0 <= seconds < inf for *_, seconds in values["steps"]):
        raise ValueError("a time is 0 or more")
    formats = [MemoryDesc.from_dict(each) for each in values["formats"]]
    return tuple(
        Alternative(
            tuple(formats[number] for number in reads), tuple(formats[number] for number in writes), seconds
        )
        for reads, writes, seconds in values["steps"]
    )


def chosen_problem(graph: Graph, engine: Engine, ways: Sequence[Alternative]) -> FormatProblem:
    """The problem of a graph whose steps have one alternative each.

    Raises InvalidArguments where these are not of its nodes.
    """
    if len(ways) != len(graph.nodes):
        raise refuse("RS-F10:graph-nodes", count=short_repr(f"{len(ways)} steps"), count2=len(graph.nodes))
    known = {name: _plain(graph, name) for name in (*graph.inputs, *graph.constants)}
    return FormatProblem(
        tuple(_steps(graph, ways)),
        tuple(known.items()),
        tuple((name, _plain(graph, name)) for name in dict.fromkeys(graph.outputs)),
        edge_costs(engine),
        frozenset(graph.constants),
    )


def _steps(graph: Graph, ways: Sequence[Alternative]) -> Iterator[FormatStep]:
    for node, way in zip(graph.nodes, ways, strict=True):
        pairs = [*zip(node.inputs, way.inputs, strict=False), *zip(node.outputs, way.outputs, strict=False)]
        for name, md in pairs:
            kind = graph.tensors[name]
            if (md.dims, md.data_type, md.format_kind) != (kind.desc_dims, kind.data_type, "blocked"):
                raise refuse("RS-F10:formats-were-chosen", name=short_repr(f"{name!r} as {md}"), kind=kind)
        if isinstance(node.operation, VIEWS) and not _is_view(graph, node, way):
            raise refuse("RS-F10:view-another-tensor", output=short_repr(f"{node.output!r} as {way.outputs}"))
        yield FormatStep(node.name, node.inputs, node.outputs, (way,))


def _is_view(graph: Graph, node: Node, way: Alternative) -> bool:
    """True where the result lies as the view of the source does."""
    return way.outputs == (view_of(node.operation, way.inputs[0], graph.tensors[node.output]),)


def _plain(graph: Graph, name: str) -> MemoryDesc:
    return MemoryDesc(graph.tensors[name].desc_dims, graph.tensors[name].data_type)
