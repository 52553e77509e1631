"""Patterns of nodes, and tables of rewrites: a rule is a pattern, and a function of what matches it.

    Pattern(BinaryOperation, ("x", Pattern(EltwiseOperation, ("x",), {"algorithm": "eltwise_logistic"})))

is the product of a tensor and its sigmoid. A source is a pattern of the node that makes it, or a name, which
stands for one tensor wherever it is; `...` at the end stands for any more of them. What makes a source is to
have no other reader, unless it `is_shared`; and no epilogues, which only a root may have that says so.
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
    """Nodes that a pattern has matched: the root, and below it by name tensors and what makes them.

    `places`: the places of all but the root, from the root on. `is_reversed`: the sources of the root are the
    other way round.
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
        """The operation of the node of this name; without one, of the root."""
        return (self.nodes[name] if name else self.node).operation

    def becomes(self, operation: Operation, *names: str) -> Node:
        """The root with another operation, of these tensors; of all that it has read where none is named."""
        inputs = tuple(self.tensors[name] for name in names) or self.node.inputs
        return replace(self.node, operation=operation, inputs=inputs)


@dataclass(frozen=True)
class Pattern:
    """A node whose operation is of `kinds`, with these sources, and attributes `where`: each is a value, or a
    function that is true of it.
    """

    kinds: type[Operation] | tuple[type[Operation], ...]
    sources: tuple[Pattern | str | EllipsisType, ...] = (...,)
    where: Mapping[str, object] = field(default_factory=dict)
    name: str = ""
    is_symmetric: bool = False
    is_shared: bool = False
    may_have_epilogues: bool = False

    def matches(self, draft: GraphDraft, place: int) -> Iterator[Match]:
        """All ways in which the node at a place is the root of this."""
        node = draft.at(place)
        if node is not None and self.fits(node):
            yield from self._at(Match(draft, place, node), node)

    def fits(self, node: Node) -> bool:
        """True where the operation of a node is of this, whatever it reads."""
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
    """The match with a tensor for each of the patterns."""
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
    """A function of elements: `function("clip", "x", alpha=0.0)`. It has its word for a name."""
    return Pattern(EltwiseOperation, (source,), {"algorithm": f"eltwise_{word}", **where}, name or word)


def binary(word: str, *sources: Pattern | str, name: str = "", is_shared: bool = False) -> Pattern:
    """A combination of two tensors; of sums and products in either order."""
    return Pattern(
        BinaryOperation,
        sources,
        {"algorithm": f"binary_{word}"},
        name,
        is_symmetric=word in ("add", "mul"),
        is_shared=is_shared,
    )


Rule = tuple[Pattern, Callable[[Match], Node | bool | None]]
"""What matches, and what becomes of it: the node that stands in the place of the root and of all below it;
True where the function has rewritten the draft itself; None or False where nothing is done."""


def rewrite(
    draft: GraphDraft,
    rules: Sequence[Rule],
    where: Callable[[Node], bool] = lambda node: True,
    *,
    tries_all: bool = False,
) -> None:
    """Every node in turn, `where` that holds, by the first rule that does something; or by all in turn."""
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
