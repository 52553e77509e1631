"""The fusions of graphs: pure rewrites with names, by which they are reported and disabled.

| name | what it does |
| --- | --- |
| `dead` | removes nodes that no output needs |
| `integers` | nodes between quantized tensors compute with the integers; quantized weights stay integers |
| `constants` | nodes that read only constants are computed once |
| `moves` | chains of reshapes and transposes become one, or none |
| `shuffles` | reshape, transpose, reshape become a shuffle of channels |
| `layer_norm` | layer normalizations written as their formula become one node |
| `attention` | products, a softmax and products become one node, with scales and masks between them |
| `batches` | products of matrices keep the batch dims that were merged for them |
| `lifts` | functions and sums of a reshaped product move before the reshape |
| `functions` | hard swish and similar, and arithmetic with a number, become one function |
| `pads` | pads go into the padding of windows |
| `batch_norm` | batch normalizations go into weights and biases |
| `scale` | products with constants go into weights and biases |
| `bias` | sums with constants go into biases |
| `gathers` | rolls, windows of them, and other rows that moves copy more than once are copied once |
| `epilogues` | functions and sums go into the node before them, as post-ops |
| `winograd` | convolutions use Winograd's algorithm where that is faster |

They run until none changes the graph. A remaining transpose is a view, for which propagation finds a format.
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
# Last: nodes with epilogues accept no other weights.
_LAST = {"gathers": fuse_gathers, "epilogues": fuse_epilogues, "winograd": choose_winograd}
FUSIONS = ("dead", "integers", *_REWRITES, *_LAST)
_MOST_ROUNDS = 8


@dataclass(frozen=True)
class FusedGraph:
    """A graph, and the fusions that made it, in order."""

    graph: Graph
    applied: tuple[AppliedFusion, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)


def fuse(graph: Graph, without: Iterable[str] = ()) -> FusedGraph:
    """Apply all fusions that are not in `without`; outputs are equal up to rounding.

    Raises InvalidArguments for an unknown fusion.
    """
    off = parse_fusions(without)
    graph = parse_field("fuse: graph", Graph, graph)
    result = FusedGraph(graph) if "dead" in off else _without_dead(graph)
    if "integers" not in off:
        whole, applied = fuse_integers(result.graph)
        result = FusedGraph(whole, (*result.applied, *applied))
    # Remaining quantize and dequantize nodes become arithmetic.
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
    """Return the fusions disabled by name, with Winograd's algorithm added if results are to be exact."""
    if not parse_bool(f"{what}: exact", exact):
        return without
    return [*([without] if isinstance(without, str) else without), "winograd"]


def parse_fusions(without: Iterable[str]) -> frozenset[str]:
    """Parse names of fusions. Raises InvalidArguments for an unknown one."""
    with suppress(Exception):  # an iterator can raise anything
        without = [without] if isinstance(without, str) else list(without)
    names, why = parse_field("fuse: without", tuple[str, ...], without), "no fusion has this name"
    return frozenset(parse_word("fuse: without names", name, FUSIONS, why) for name in sorted(names))
