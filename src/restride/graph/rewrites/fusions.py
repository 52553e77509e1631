"""The fusions of graphs: each a pure rewrite with a name, listed in what it did, and switched off by name.

| name | what it does |
| --- | --- |
| `dead` | nodes that no output needs go |
| `integers` | nodes between quantized tensors compute with the integers; quantized weights stay integers |
| `constants` | nodes of constants alone are computed once |
| `moves` | chains of reshapes and transposes become one, or none |
| `shuffles` | reshape, transpose, reshape become a shuffle of channels |
| `layer_norm` | layer normalizations that are written as their formula become one node |
| `attention` | products, a softmax and products become one node, with scales and masks between them |
| `batches` | products of matrices keep the batch dims that were joined for them |
| `lifts` | functions and sums of a reshaped product move in front of the reshape |
| `functions` | hard swish and its like, and arithmetic with a number, become one function |
| `pads` | pads go into the padding of windows |
| `batch_norm` | batch normalizations go into weights and biases |
| `scale` | products with constants go into weights and biases |
| `bias` | sums with constants go into biases |
| `gathers` | rolls, windows of them, and other rows that moves copy more than once are copied once |
| `epilogues` | functions and sums go into the node before them, as post-ops |
| `winograd` | convolutions take Winograd's algorithm where that is faster |

They run until none has anything left to do. What is left of a transpose is a view, whose format propagation
finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from ...desc.parse import parse_bool, parse_word
from ..fields import check_fields, parse_field
from ..graph import Graph
from .attention import fuse_attention
from .constants import fold_constants
from .draft import AppliedFusion, GraphDraft
from .epilogues import fuse_epilogues
from .expansions import as_arithmetic
from .functions import fuse_functions
from .gathers import fuse_gathers
from .integers import fuse_integers
from .moves import fuse_batches, fuse_lifts, fuse_moves, fuse_pads, fuse_shuffles
from .norms import fuse_layer_norm
from .weights import fuse_batch_norm, fuse_bias, fuse_scale
from .winograd import choose_winograd

__all__ = ["FUSIONS", "AppliedFusion", "FusedGraph", "fuse", "parse_fusions"]

_REWRITES: dict[str, Callable[[GraphDraft], None]] = {
    "constants": fold_constants,
    "shuffles": fuse_shuffles,
    "moves": fuse_moves,
    "layer_norm": fuse_layer_norm,
    "functions": fuse_functions,
    "attention": fuse_attention,
    "batches": fuse_batches,
    "lifts": fuse_lifts,
    "pads": fuse_pads,
    "batch_norm": fuse_batch_norm,
    "scale": fuse_scale,
    "bias": fuse_bias,
}
# Last: what has epilogues takes no other weights any more.
_LAST = {"gathers": fuse_gathers, "epilogues": fuse_epilogues, "winograd": choose_winograd}
FUSIONS = ("dead", "integers", *_REWRITES, *_LAST)
_MOST_ROUNDS = 8


@dataclass(frozen=True)
class FusedGraph:
    """A graph, and what was done to make it, in order."""

    graph: Graph
    applied: tuple[AppliedFusion, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)


def fuse(graph: Graph, without: Iterable[str] = ()) -> FusedGraph:
    """The graph with all fusions that `without` does not name; outputs are equal, but for rounding.

    Raises InvalidArguments for a name that no fusion has.
    """
    off = parse_fusions(without)
    graph = parse_field("fuse: graph", Graph, graph)
    result = FusedGraph(graph) if "dead" in off else _without_dead(graph)
    if "integers" not in off:
        whole, applied = fuse_integers(result.graph)
        result = FusedGraph(whole, (*result.applied, *applied))
    # What is still quantized or dequantized is arithmetic.
    result = FusedGraph(as_arithmetic(result.graph), result.applied)
    for rewrites in (_REWRITES, _LAST):
        result = _until_stable(result, {name: rule for name, rule in rewrites.items() if name not in off})
    return result


def _until_stable(result: FusedGraph, rewrites: dict[str, Callable[[GraphDraft], None]]) -> FusedGraph:
    for _ in range(_MOST_ROUNDS):
        before = result
        for name, rewrite in rewrites.items():
            draft = GraphDraft(result.graph, name)
            rewrite(draft)
            if draft.applied:
                result = FusedGraph(draft.finished(), (*result.applied, *draft.applied))
        if result is before:
            break
    return result


def _without_dead(graph: Graph) -> FusedGraph:
    live = graph.replaced(graph.nodes)
    dead = {node.name for node in graph.nodes} - {node.name for node in live.nodes}
    names = (node.name for node in graph.nodes if node.name in dead)
    return FusedGraph(live if dead else graph, tuple(AppliedFusion("dead", (name,)) for name in names))


def fusions_off(what: str, without: Iterable[str], exact: bool) -> Iterable[str]:
    """The fusions that are switched off by name, and where results are to be exact Winograd's algorithm."""
    if not parse_bool(f"{what}: exact", exact):
        return without
    return [*([without] if isinstance(without, str) else without), "winograd"]


def parse_fusions(without: Iterable[str]) -> frozenset[str]:
    """Names of fusions. Raises InvalidArguments for a name that none has."""
    with suppress(Exception):  # what iterates may raise anything
        without = [without] if isinstance(without, str) else list(without)
    names, why = parse_field("fuse: without", tuple[str, ...], without), "no fusion has this name"
    return frozenset(parse_word("fuse: without names", name, FUSIONS, why) for name in sorted(names))
