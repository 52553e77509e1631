"""Patterns of nodes, and tables of rewrites: a rule is a pattern, and a function of its match.

    Pattern(BinaryOperation, ("x", Pattern(EltwiseOperation, ("x",), {"algorithm": "eltwise_logistic"})))

is the product of a tensor and its sigmoid. A source is a pattern of the node that makes it, or a name, which
stands for the same tensor wherever it occurs; a final `...` stands for any number of further sources. The
producer of a source must have no other reader, unless it `is_shared`, and no epilogues; only a root can allow
those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import EllipsisType
from typing import Any

from ..graph import Node
from ..nodes.operations import BinaryOperation, EltwiseOperation, Operation
from .draft import GraphDraft

__all__ = ["Match", "Pattern", "Rule", "binary", "function", "rewrite"]


@dataclass(frozen=True, eq=False)
class Match:
    """Nodes that a pattern has matched: the root, and below it tensors and their producers by name.

    `places`: of all nodes except the root, from the root downwards. `is_reversed`: the sources of the root
    are in reverse order.
    """

    draft: GraphDraft
    place: int
    node: Node
    tensors: Mapping[str, str] = field(default_factory=dict)
    nodes: Mapping[str, Node] = field(default_factory=dict)
    places: tuple[int, ...] = ()
    is_reversed: bool = False

    def __getitem__(self, name: str) -> str:
        return self.tensors[name]

    def of(self, name: str = "") -> Any:
        """Return the operation of the node of this name, by default the root."""
        return (self.nodes[name] if name else self.node).operation

    def becomes(self, operation: Operation, *names: str) -> Node:
        """Return the root with another operation, on the named tensors; by default on all its inputs."""
        inputs = tuple(self.tensors[name] for name in names) or self.node.inputs
        return replace(self.node, operation=operation, inputs=inputs)


@dataclass(frozen=True)
class Pattern:
    """A node with an operation of `kinds`, these sources, and attributes equal to, or satisfying, `where`."""

    kinds: type[Operation] | tuple[type[Operation], ...]
    sources: tuple[Pattern | str | EllipsisType, ...] = (...,)
    where: Mapping[str, object] = field(default_factory=dict)
    name: str = ""
    is_symmetric: bool = False
    is_shared: bool = False
    may_have_epilogues: bool = False

    def matches(self, draft: GraphDraft, place: int) -> Iterator[Match]:
        """Yield all ways in which the node at a place matches as the root."""
        node = draft.at(place)
        if node is not None and self.fits(node):
            yield from self._at(Match(draft, place, node), node)

    def fits(self, node: Node) -> bool:
        """True if the operation of a node matches, whatever it reads."""
        operation = node.operation
        if not isinstance(operation, self.kinds) or (node.epilogues and not self.may_have_epilogues):
            return False
        for key, condition in self.where.items():
            value = getattr(operation, key)
            if not (condition(value) if callable(condition) else value == condition):
                return False
        return True

    def _at(self, match: Match, node: Node) -> Iterator[Match]:
        if self.name:
            tensors = {**match.tensors, self.name: node.output}
            match = replace(match, tensors=tensors, nodes={**match.nodes, self.name: node})
        yield from self._of_sources(match, node.sources)
        if self.is_symmetric and len(node.sources) == 2:
            is_reversed = match.is_reversed or node is match.node
            yield from self._of_sources(replace(match, is_reversed=is_reversed), node.sources[::-1])

    def _of_sources(self, match: Match, names: Sequence[str]) -> Iterator[Match]:
        is_open = self.sources[-1:] == (...,)
        patterns = [pattern for pattern in self.sources if not isinstance(pattern, EllipsisType)]
        if len(patterns) == len(names) or (is_open and len(patterns) < len(names)):
            yield from _matched(match, list(zip(patterns, names, strict=False)))


def _matched(match: Match, pairs: Sequence[tuple[Pattern | str, str]]) -> Iterator[Match]:
    """Match a tensor to each of the patterns."""
    if not pairs:
        yield match
        return
    (pattern, name), *others = pairs
    if isinstance(pattern, str):
        if match.tensors.get(pattern, name) == name:
            yield from _matched(replace(match, tensors={**match.tensors, pattern: name}), others)
        return
    maker = match.draft.maker(name) if pattern.is_shared else match.draft.private_maker(name)
    if maker is not None and pattern.fits(maker[1]):
        below = replace(match, places=(*match.places, maker[0]))
        for submatch in pattern._at(below, maker[1]):
            yield from _matched(submatch, others)


def function(word: str, source: Pattern | str, name: str = "", **where: object) -> Pattern:
    """Return a pattern of an elementwise function, named by its word: `function("clip", "x", alpha=0.0)`."""
    return Pattern(EltwiseOperation, (source,), {"algorithm": f"eltwise_{word}", **where}, name or word)


def binary(word: str, *sources: Pattern | str, name: str = "", is_shared: bool = False) -> Pattern:
    """Return a pattern of a combination of two tensors; for sums and products in either order."""
    return Pattern(
        BinaryOperation,
        sources,
        {"algorithm": f"binary_{word}"},
        name,
        is_symmetric=word in ("add", "mul"),
        is_shared=is_shared,
    )


Rule = tuple[Pattern, Callable[[Match], Node | bool | None]]
"""Pattern and replacement: the function returns the node that replaces the root and everything below it; True
if it has rewritten the draft itself; None or False if it does nothing.
"""


def rewrite(
    draft: GraphDraft,
    rules: Sequence[Rule],
    where: Callable[[Node], bool] = lambda node: True,
    *,
    tries_all: bool = False,
) -> None:
    """Apply to every node for which `where` holds the first rule that changes something, or all rules."""
    kinds = tuple(kind for pattern, _ in rules for kind in _tuple(pattern.kinds))
    for place, root in draft:
        for pattern, change in rules if isinstance(root.operation, kinds) else ():
            node = draft.at(place)
            if node is None:
                break
            may_match = pattern.fits(node) and where(node)
            if may_match and _applied(draft, place, pattern, change) and not tries_all:
                break


def _tuple(kinds: type[Operation] | tuple[type[Operation], ...]) -> tuple[type[Operation], ...]:
    return kinds if isinstance(kinds, tuple) else (kinds,)


def _applied(
    draft: GraphDraft, place: int, pattern: Pattern, change: Callable[[Match], Node | bool | None]
) -> bool:
    for match in pattern.matches(draft, place):
        result = change(match)
        if isinstance(result, Node):
            draft.fuse(place, result, *match.places)
        if result:
            return True
    return False
