"""Attention that is written as its formula becomes one node.

    softmax(factor * (q * s) @ transpose(k * t) + mask + ...) @ v   ->   attention(q, k, v, mask)
    v @ transpose(softmax(...))                                     ->   its transpose

| what may be there | as |
| --- | --- |
| factors of the queries, the keys, the scores | one scale; those of heads are factors of queries |
| sums with tensors of a run or constants, selects of very small numbers | one mask; a triangle is causal |
| reshapes of scores, with masks before and behind | joint batch dims, or heads |
| `where(isnan(p), 0, p)` behind the softmax | rows that see no key are zeros |
| keys and values that are repeated for several heads | fewer heads of keys |

Where nothing else reads scores and powers. Rows whose mask hides all are
zeros, which are NaN in the formula.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf, prod

import numpy as np

from ..dims import Dims
from ..graph import Node
from ..nodes.layers import SoftmaxOperation
from ..nodes.moves import ReshapeOperation, TransposeOperation
from ..nodes.operations import AS_F32, BinaryOperation, Operation, PrimitiveOperation
from ..nodes.products import MatmulOperation
from .draft import Array, GraphDraft
from .moves import Permutation
from .patterns import Match, Pattern, binary, function, rewrite

__all__ = ["fuse_attention"]

# A score beside numbers so small is nothing; and such hide keys of rows that have others.
_ABSORBS, _HIDES = -1e9, -1e4
# Wider heads are channels that attend to each other.
_WIDEST = 512


def fuse_attention(draft: GraphDraft) -> None:
    """The formula, from the product of powers and values on."""
    turned = Pattern(TransposeOperation, ("powers",), name="turn")
    products = (("powers", "value"), ("value", turned))
    rewrite(draft, [(Pattern(MatmulOperation, pair), _attention) for pair in products])


@dataclass(frozen=True)
class _Mask:
    """What is added to scores of these dims: a tensor, or where its `condition` is `is_seen` nothing, else
    `hides`.
    """

    name: str
    dims: Dims
    is_condition: bool = False
    is_seen: bool = True
    hides: float = -inf


@dataclass(frozen=True)
class _Formula:
    """What is found of a formula: places of nodes, and of factors in front of moves, the factor, factors of
    heads, masks, the dims that scores have in turn, and what the scores are the product of.
    """

    places: tuple[int, ...] = ()
    scales: tuple[int, ...] = ()
    of_heads: tuple[str, ...] = ()
    factor: float = 1.0
    masks: tuple[_Mask, ...] = ()
    dims: tuple[Dims, ...] = ()
    query: str = ""
    key: str = ""

    def with_place(self, place: int, dims: Dims) -> _Formula:
        return replace(self, places=(*self.places, place), dims=(*self.dims, dims))


def _attention(match: Match) -> bool:
    draft, value = match.draft, match["value"]
    rank, is_turned = len(draft.type(value).dims), "turn" in match.nodes
    if is_turned and match.of("turn").order != _swap(rank):
        return False
    found = _softmax(draft, match["powers"], _Formula(match.places))
    if found is None:
        return False
    kinds = [draft.type(name) for name in (found.query, found.key, value)]
    if any(kind.data_type not in AS_F32 for kind in kinds) or len({len(kind.dims) for kind in kinds}) > 1:
        return False
    if max(kinds[0].dims[-1], kinds[2].dims[-2 if is_turned else -1]) > _WIDEST or not all(
        kind.elements for kind in kinds
    ):
        return False
    ranks = {len(draft.type(name).dims) for name in found.of_heads}
    if ranks and ranks != {len(kinds[0].dims)}:
        return False
    outer = _outer(found.dims, [kind.dims[:-2] for kind in kinds])
    masks = None if outer is None else [_of_scores(draft, mask, outer) for mask in found.masks]
    if outer is None or masks is None or None in masks:
        return False
    _write(match, found, outer, [mask for mask in masks if mask is not None])
    return True


def _swap(rank: int) -> Dims:
    """The order of dims with the last two in each other's place."""
    return (*range(rank - 2), rank - 1, rank - 2)


# --- what there is ------------------------------------------------------------------------------------------


def _softmax(draft: GraphDraft, name: str, found: _Formula) -> _Formula | None:
    """From the powers down: reshapes, what makes zeros of NaN, and the softmax of the last dim."""
    maker, dims = draft.private_maker(name), draft.type(name).dims
    if maker is None or maker[1].epilogues:
        return None
    place, node = maker
    found = found.with_place(place, dims)
    if _keeps_matrices(draft, node):
        return _softmax(draft, node.sources[0], found)
    guarded = next(_GUARDED.matches(draft, place), None)
    if guarded is not None:
        name = guarded["softmax"]
        zeros, places = draft.constant(guarded["zero"]), {*guarded.places}
        readers = {*draft.readers(name)} | {place}
        is_private = readers <= {place, *places} and name not in draft.graph.outputs
        if zeros is None or zeros.any() or not is_private:
            return None
        found = replace(found, places=tuple(dict.fromkeys((*found.places, *guarded.places))))
        node = guarded.nodes["softmax"]
    operation = node.operation
    if not isinstance(operation, SoftmaxOperation) or operation.axis != len(dims) - 1:
        return None
    if operation.algorithm != "softmax_accurate":
        return None
    return _scores(draft, node.sources[0], found)


_GUARDED = Pattern(
    BinaryOperation,
    (
        "zero",
        Pattern(SoftmaxOperation, name="softmax", is_shared=True),
        Pattern(
            PrimitiveOperation,
            (Pattern(SoftmaxOperation, name="softmax", is_shared=True),),
            {"primitive": "Elementwise", "algorithm": "elementwise_is_nan"},
        ),
    ),
    {"algorithm": "binary_select"},
)


def _keeps_matrices(draft: GraphDraft, node: Node) -> bool:
    """True for a reshape of the dims in front of matrices."""
    dims = draft.type(node.output).dims
    is_reshape = isinstance(node.operation, ReshapeOperation)
    return is_reshape and len(dims) > 1 and draft.type(node.sources[0]).dims[-2:] == dims[-2:]


_SCALED = function("linear", "x", beta=0.0)


def _scores(draft: GraphDraft, name: str, found: _Formula) -> _Formula | None:
    """From the scores down to the product that they are made of: factors, masks, reshapes."""
    maker, dims = draft.private_maker(name), draft.type(name).dims
    if maker is None or maker[1].epilogues:
        return None
    place, node = maker
    found = found.with_place(place, dims)
    if isinstance(node.operation, MatmulOperation):
        if len(node.sources) != 2:
            return None
        found, query = _unscaled(draft, node.sources[0], found)
        found, key = _unscaled(draft, node.sources[1], found)
        return replace(found, query=query, key=key)
    for scaled in _SCALED.matches(draft, place):
        return _scores(draft, scaled["x"], replace(found, factor=found.factor * scaled.of().alpha))
    if _keeps_matrices(draft, node):
        return _scores(draft, node.sources[0], found)
    for scaled in binary("mul", "x", "factors").matches(draft, place):
        own = draft.type(scaled["factors"]).dims
        if draft.known(scaled["factors"]) is not None and own[-2:] == (1, 1):
            with_factors = replace(found, of_heads=(*found.of_heads, scaled["factors"]))
            return _scores(draft, scaled["x"], with_factors)
    for inner, mask in _masked(draft, place, dims):
        # A factor behind a mask would change that too.
        if found.factor == 1.0 and not found.of_heads and draft.type(inner).dims == dims:
            whole = _scores(draft, inner, replace(found, masks=(*found.masks, mask)))
            if whole is not None:
                return whole
    return None


def _masked(draft: GraphDraft, place: int, dims: Dims) -> Iterator[tuple[str, _Mask]]:
    """The ways in which a node hides scores, and what it hides them with."""
    for match in binary("add", "scores", "mask").matches(draft, place):
        yield match["scores"], _Mask(match["mask"], dims)
    for match in _CHOICE.matches(draft, place):
        for scores, other, is_seen in (("left", "right", True), ("right", "left", False)):
            values, condition = draft.constant(match[other]), draft.constant(match["condition"])
            low = None if values is None or values.size != 1 else float(values.reshape(()))
            # Where each row has a key that is seen, others have no share.
            is_clear = condition is not None and bool(((condition != 0) == is_seen).any(-1).all())
            if low is not None and low <= (_HIDES if is_clear else _ABSORBS):
                hides = -inf if is_clear else low
                yield match[scores], _Mask(match["condition"], dims, True, is_seen, hides)


_CHOICE = Pattern(BinaryOperation, ("left", "right", "condition"), {"algorithm": "binary_select"})


def _unscaled(draft: GraphDraft, name: str, found: _Formula) -> tuple[_Formula, str]:
    """An operand of the product without factors of its own, which may stand in front of its moves too."""
    maker = draft.private_maker(name)
    for scaled in _SCALED.matches(draft, maker[0]) if maker is not None else ():
        factor = found.factor * scaled.of().alpha
        found = replace(found, factor=factor, places=(*found.places, scaled.place))
        return _unscaled(draft, scaled["x"], found)
    at = name
    while (maker := draft.private_maker(at)) is not None:
        place, node = maker
        factors = [each.of().alpha for each in _SCALED.matches(draft, place)]
        if factors:
            factor = found.factor * factors[0]
            found = replace(found, factor=factor, scales=(*found.scales, place))
        elif not isinstance(node.operation, _MOVES):
            break
        at = node.sources[0]
    return found, name


_MOVES = (ReshapeOperation, TransposeOperation)


# --- dims ---------------------------------------------------------------------------------------------------


def _outer(scores: tuple[Dims, ...], operands: list[Dims]) -> tuple[int, int] | None:
    """Batch and heads of dims in front of matrices; None where operands are repeated along a batch."""
    query, key, value = operands
    whole = next((dims[:2] for dims in scores if len(dims) == 4), None)
    batch, heads = (prod(query[:-1]), prod(query[-1:])) if len(query) != 1 else (1, query[0])
    if whole is not None and prod(whole) == prod(query):
        batch, heads = whole
    if key != value or prod(scores[-1][:-2]) != batch * heads:
        return None
    is_grouped = len(query) == 4 - 2 and key[:-1] == query[:-1] and key[-1] and not heads % key[-1]
    return (batch, heads) if key == query or is_grouped else None


def _of_scores(draft: GraphDraft, mask: _Mask, outer: tuple[int, int]) -> tuple[_Mask, Dims] | None:
    """A mask, and its dims beside scores of four dims; None where none say it."""
    dims = draft.type(mask.name).dims
    dims = (*(1,) * (len(mask.dims) - len(dims)), *dims)
    (batch, heads), own, whole = outer, dims[:-2], mask.dims[:-2]
    front: Dims | None = None
    if prod(own) == 1:
        front = 1, 1
    elif own == whole:
        front = outer
    elif own[-1] == whole[-1] == heads and prod(own[:-1]) == 1:
        front = 1, heads
    elif own[-1] == 1 and own[:-1] == whole[:-1] and whole[-1] == heads:
        front = batch, 1
    elif draft.known(mask.name) is not None:
        front = outer
    return None if front is None else (mask, (*front, *dims[-2:]))


# --- what becomes of it -------------------------------------------------------------------------------------


def _write(match: Match, found: _Formula, outer: tuple[int, int], masks: list[tuple[_Mask, Dims]]) -> None:
    draft, place, (batch, heads) = match.draft, match.place, outer
    scales = [node.name for at in found.scales if (node := draft.at(at)) is not None and draft.drop(at)]
    del draft.applied[len(draft.applied) - len(scales) :]
    is_turned, value = "turn" in match.nodes, match["value"]
    queries, width = draft.type(found.query).dims[-2:]
    keys, values = draft.type(value).dims[-2:]
    if is_turned:
        keys, values, value = values, keys, _turned(draft, place, value)
    key_heads = prod(draft.type(found.key).dims[:-2]) // batch
    key = _turned(draft, place, found.key)
    matrices = (keys, width), (keys, values)
    fewer = [
        _ungrouped(draft, name, (batch, key_heads, *matrix))
        for name, matrix in zip((key, value), matrices, strict=True)
    ]
    sources = [each[0] for each in fewer if each is not None]
    counts = {each and each[1] for each in fewer}
    if len(sources) == 2 and len(counts) == 1:
        (key, value), key_heads = sources, next(iter(counts)) or 1
    query = found.query
    for factors in found.of_heads:
        query = draft.before(place, BinaryOperation("binary_mul"), query, factors)
    wanted = [(query, (batch, heads, queries, width))]
    wanted += [(x, (batch, key_heads, *own)) for x, own in zip((key, value), matrices, strict=True)]
    inputs = [
        name if draft.type(name).dims == dims else draft.before(place, ReshapeOperation(dims), name)
        for name, dims in wanted
    ]
    mask, causal = _joint(draft, place, masks, (queries, keys))
    inputs += [] if mask is None else [mask]
    parameters = ("scale", found.factor), ("causal", causal)
    node, result = match.node, draft.type(match.node.output).dims
    steps: list[Operation] = [PrimitiveOperation("ScaledDotProductAttention", parameters)]
    steps += [TransposeOperation((0, 1, 3, 2))] * is_turned
    last = (batch, heads, values, queries) if is_turned else (batch, heads, queries, values)
    steps += [ReshapeOperation(result)] * (result != last)
    for step in steps[:-1]:
        inputs = [draft.before(place, step, *inputs)]
    places = dict.fromkeys(found.places)
    draft.fuse(place, replace(node, operation=steps[-1], inputs=tuple(inputs)), *places)
    draft.applied[-1] = replace(draft.applied[-1], nodes=(*scales, *draft.applied[-1].nodes))


def _turned(draft: GraphDraft, place: int, name: str) -> str:
    """Matrices with rows and columns in each other's place: what they were made of, in any dims."""
    *front, rows, columns = draft.type(name).dims
    dims, order = (*front, columns, rows), _swap(len(front) + 2)
    at = _unreshaped(draft, name)
    maker = draft.maker(at)
    if maker is not None and isinstance(maker[1].operation, TransposeOperation):
        source = maker[1].sources[0]
        if Permutation.of(draft.type(source).dims, maker[1].operation.order) == Permutation.of(dims, order):
            return source
    return draft.before(place, TransposeOperation(order), name)


def _unreshaped(draft: GraphDraft, name: str) -> str:
    """What a reshape has read; the tensor itself where there is none."""
    maker = draft.maker(name)
    is_reshape = maker is not None and isinstance(maker[1].operation, ReshapeOperation)
    return maker[1].sources[0] if maker is not None and is_reshape else name


def _ungrouped(draft: GraphDraft, name: str, dims: Dims) -> tuple[str, int] | None:
    """Heads of keys that are repeated, each for as many neighbors, and how many there are; else None."""
    maker = draft.maker(_unreshaped(draft, name))
    operation = None if maker is None else maker[1].operation
    if maker is None or not isinstance(operation, PrimitiveOperation) or operation.primitive != "Tile":
        return None
    (batch, heads, *matrix), (source,) = dims, maker[1].sources
    own, repeats = draft.type(source).dims, operation.repeats
    for axis, count in enumerate(repeats):
        is_alone = own[axis] == 1 < count and prod(repeats) == count
        if is_alone and prod(own[axis:]) == prod(matrix) and prod(own[:axis]) * count == batch * heads:
            return source, heads // count
    return None


def _joint(
    draft: GraphDraft, place: int, masks: list[tuple[_Mask, Dims]], matrix: tuple[int, int]
) -> tuple[str | None, str]:
    """All masks as one, and the word of a causal one in place of constants."""
    known = [(mask, dims) for mask, dims in masks if draft.known(mask.name) is not None]
    computed = [each for each in masks if each not in known]
    values: Array = np.zeros((1, 1, 1, 1), np.float32)
    for mask, dims in known:
        values = values + _known_values(draft, mask, dims)
    causal = _causal(values, matrix)
    if causal != "none":
        values = np.zeros((1, 1, 1, 1), np.float32)
    found: str | None = None
    for mask, dims in computed:
        own = _computed_mask(draft, place, mask, dims, is_alone=len(masks) == 1)
        found = own if found is None else draft.before(place, BinaryOperation("binary_add"), found, own)
    if not values.any():
        return found, causal
    constant = draft.new_constant(_repeated_once(values), draft.at(place).output)  # type: ignore[union-attr]
    if found is None:
        return constant, causal
    return draft.before(place, BinaryOperation("binary_add"), found, constant), causal


def _known_values(draft: GraphDraft, mask: _Mask, dims: Dims) -> Array:
    values = draft.constant(mask.name)
    assert values is not None
    if mask.is_condition:
        values = np.where((values != 0) == mask.is_seen, np.float32(0), np.float32(mask.hides))
    if values.size != prod(dims):
        # Joined with another dim, it has no dim of its own along which it is repeated.
        values = np.broadcast_to(values, (*mask.dims[:-2], *values.shape[-2:]))
    return values.reshape(dims).astype(np.float32)


def _repeated_once(values: Array) -> Array:
    """Values without what is the same all along a dim in front."""
    for axis in (0, 1):
        first = values.take([0], axis)
        values = (
            first
            if values.shape[axis] > 1 and np.array_equal(np.broadcast_to(first, values.shape), values)
            else values
        )
    return np.ascontiguousarray(values)


def _causal(values: Array, matrix: tuple[int, int]) -> str:
    """The word of a mask that hides the keys behind each query, and nothing else."""
    values = _repeated_once(values)
    if values.shape != (1, 1, *matrix) or not values.any():
        return "none"
    seen, hidden = values[0, 0] == 0, values[0, 0] <= _ABSORBS
    queries, keys = matrix
    shifts = {"top_left": 0, "bottom_right": keys - queries}
    words = (
        word
        for word, shift in shifts.items()
        if shift >= 0 and np.array_equal(seen, np.tri(*matrix, shift, dtype=np.bool_))
    )
    return next(words, "none") if bool((seen | hidden).all()) else "none"


def _computed_mask(draft: GraphDraft, place: int, mask: _Mask, dims: Dims, *, is_alone: bool) -> str:
    """A mask that a run makes, in four dims: a condition itself where what it hides is nothing."""
    name = mask.name
    if draft.type(name).dims != dims:
        name = draft.before(place, ReshapeOperation(dims), name)
    if not mask.is_condition or (is_alone and mask.is_seen and mask.hides == -inf):
        return name
    near = mask.name
    seen, hidden = (
        draft.new_constant(np.full((1, 1, 1, 1), number, np.float32), near) for number in (0.0, mask.hides)
    )
    pair = (seen, hidden) if mask.is_seen else (hidden, seen)
    return draft.before(place, BinaryOperation("binary_select"), *pair, name)
