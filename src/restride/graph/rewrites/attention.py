"""Attention written as its formula becomes one node.

    softmax(factor * (q * s) @ transpose(k * t) + mask + ...) @ v   ->   attention(q, k, v, mask)
    v @ transpose(softmax(...))                                     ->   its transpose

| accepted in the formula | becomes |
| --- | --- |
| factors of the queries, the keys, the scores | one scale, if they are numbers |
| factors and divisors computed in a run, or per head, row or column | factors of queries or keys |
| sums with computed or constant tensors, selects of very small numbers | one mask; a triangle is causal |
| selects of a computed number, the same for all queries | zeroed keys, and a mask |
| casts between floats | nothing |
| reshapes of scores, with masks before and after | joint batch dims, or heads |
| `where(isnan(p), 0, p)` after the softmax | rows that see no key are zeros |
| keys and values that are repeated for several heads | fewer heads of keys |

Scores and probabilities must have no other reader. Fully masked rows become zeros, which are NaN in the
formula.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf, prod

import numpy as np

from ...dtypes import DataType
from ..dims import Dims
from ..graph import Node
from ..nodes.layers import SoftmaxOperation
from ..nodes.moves import ReorderOperation, ReshapeOperation, TransposeOperation
from ..nodes.operations import AS_F32, BinaryOperation, Operation, PrimitiveOperation
from ..nodes.products import MatmulOperation
from .draft import Array, GraphDraft
from .moves import Permutation
from .patterns import Match, Pattern, binary, function, rewrite

__all__ = ["fuse_attention"]

# A score is negligible next to numbers this small; and they hide keys of rows that have other keys.
_ABSORBS, _HIDES = -1e9, -1e4
# Wider heads are channels that attend to each other.
_WIDEST = 512


def fuse_attention(draft: GraphDraft) -> None:
    """Match the formula, from the product of probabilities and values backwards."""
    turned = Pattern(TransposeOperation, ("powers",), name="turn")
    products = (("powers", "value"), ("value", turned))
    rewrite(draft, [(Pattern(MatmulOperation, pair), _attention) for pair in products])


@dataclass(frozen=True)
class _Mask:
    """A mask for scores of these dims: a tensor to add, or a condition: where it differs from `is_seen`,
    `hides` is added, a number or the name of a tensor.
    """

    name: str
    dims: Dims
    is_condition: bool = False
    is_seen: bool = True
    hides: float | str = -inf


@dataclass(frozen=True)
class _ScoreFactor:
    """A factor or divisor of scores of these dims that also applies to their queries, or keys: a tensor that
    is the same for all keys, or all queries. A select keeps what `is_seen`, and sets the rest to zero.
    """

    algorithm: str
    name: str
    dims: Dims
    of_keys: bool
    is_seen: bool = True


@dataclass(frozen=True)
class _Formula:
    """The matched parts of a formula: positions of nodes, and of numbers before moves, their product, other
    factors, masks, the successive dims of scores, and the operands of their product.
    """

    places: tuple[int, ...] = ()
    scales: tuple[int, ...] = ()
    factor: float = 1.0
    factors: tuple[_ScoreFactor, ...] = ()
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
    if not all(_is_of_operands(draft, factor, kinds[0].dims, kinds[1].dims) for factor in found.factors):
        return False
    outer = _outer(found.dims, [kind.dims[:-2] for kind in kinds])
    masks = None if outer is None else [_of_scores(draft, mask, outer) for mask in found.masks]
    if outer is None or masks is None or None in masks:
        return False
    _write(match, found, outer, [mask for mask in masks if mask is not None])
    return True


def _swap(rank: int) -> Dims:
    return (*range(rank - 2), rank - 1, rank - 2)


# --- matching -----------------------------------------------------------------------------------------------


def _softmax(draft: GraphDraft, name: str, found: _Formula) -> _Formula | None:
    """Match backwards from the probabilities: reshapes, NaN replacement, and the softmax of the last dim."""
    maker, dims = draft.private_maker(name), draft.type(name).dims
    if maker is None or maker[1].epilogues:
        return None
    place, node = maker
    found = found.with_place(place, dims)
    if _keeps_matrices(draft, node) or _is_cast(draft, node):
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
    """True for a reshape of only the dims before matrices."""
    dims = draft.type(node.output).dims
    is_reshape = isinstance(node.operation, ReshapeOperation)
    return is_reshape and len(dims) > 1 and draft.type(node.sources[0]).dims[-2:] == dims[-2:]


def _is_cast(draft: GraphDraft, node: Node) -> bool:
    """True for a cast between floating-point types, all of which are computed as f32."""
    return isinstance(node.operation, ReorderOperation) and draft.is_computed_as_f32(node)


_SCALED = function("linear", "x", beta=0.0)


def _scores(draft: GraphDraft, name: str, found: _Formula) -> _Formula | None:
    """Match backwards from the scores to the product that they are made of: factors, masks, reshapes."""
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
    if _keeps_matrices(draft, node) or _is_cast(draft, node):
        return _scores(draft, node.sources[0], found)
    for inner, factor in _multiplied(draft, place, dims):
        whole = _scores(draft, inner, replace(found, factors=(*found.factors, factor)))
        if whole is not None:
            return whole
    # A factor after a mask would scale the mask too.
    for inner, mask in _masked(draft, place, dims) if found.factor == 1.0 and not found.factors else ():
        if draft.type(inner).dims == dims:
            with_mask = replace(found, masks=(*found.masks, mask))
            if isinstance(mask.hides, str):
                zeros = _ScoreFactor("binary_select", mask.name, dims, of_keys=True, is_seen=mask.is_seen)
                with_mask = replace(with_mask, factors=(zeros,))
            whole = _scores(draft, inner, with_mask)
            if whole is not None:
                return whole
    return None


def _multiplied(draft: GraphDraft, place: int, dims: Dims) -> Iterator[tuple[str, _ScoreFactor]]:
    """Yield the ways in which a node multiplies or divides scores by a factor per row or column."""
    for word in ("mul", "div"):
        for match in binary(word, "x", "factor").matches(draft, place):
            kind = draft.type(match["factor"])
            if draft.type(match["x"]).dims == dims and 1 in kind.dims[-2:] and kind.data_type in AS_F32:
                of_keys = kind.dims[-1] != 1
                yield match["x"], _ScoreFactor(f"binary_{word}", match["factor"], dims, of_keys)


def _masked(draft: GraphDraft, place: int, dims: Dims) -> Iterator[tuple[str, _Mask]]:
    """Yield the ways in which a node masks scores, with the mask."""
    for match in binary("add", "scores", "mask").matches(draft, place):
        yield match["scores"], _Mask(match["mask"], dims)
    for match in _CHOICE.matches(draft, place):
        for scores, other, is_seen in (("left", "right", True), ("right", "left", False)):
            values, condition = draft.constant(match[other]), draft.constant(match["condition"])
            low = None if values is None or values.size != 1 else float(values.reshape(()))
            # If each row sees a key, hidden ones have no weight.
            is_clear = condition is not None and bool(((condition != 0) == is_seen).any(-1).all())
            number = draft.type(match[other])
            is_of_keys = draft.type(match["condition"]).dims[-2] == 1 == number.elements
            if values is None and is_of_keys and number.data_type in AS_F32:
                yield match[scores], _Mask(match["condition"], dims, True, is_seen, match[other])
            if low is not None and low <= (_HIDES if is_clear else _ABSORBS):
                hides = -inf if is_clear else low
                yield match[scores], _Mask(match["condition"], dims, True, is_seen, hides)


_CHOICE = Pattern(BinaryOperation, ("left", "right", "condition"), {"algorithm": "binary_select"})


def _unscaled(draft: GraphDraft, name: str, found: _Formula) -> tuple[_Formula, str]:
    """Return an operand of the product without its own factors, which can also precede its moves."""
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
    """Return batch and heads of the dims before matrices; None if operands are broadcast along a batch."""
    query, key, value = operands
    whole = next((dims[:2] for dims in scores if len(dims) == 4), None)
    batch, heads = (prod(query[:-1]), prod(query[-1:])) if len(query) != 1 else (1, query[0])
    if whole is not None and prod(whole) == prod(query):
        batch, heads = whole
    if key != value or prod(scores[-1][:-2]) != batch * heads:
        return None
    if key == query:
        return batch, heads
    if len(query) < 2 or key[:-1] != query[:-1] or not key[-1] or query[-1] % key[-1]:
        return None
    return query[0], prod(query[1:])


def _of_scores(draft: GraphDraft, mask: _Mask, outer: Dims) -> tuple[_Mask, Dims] | None:
    """Return a mask, and its dims next to scores of four dims; None if that is impossible."""
    dims = draft.type(mask.name).dims
    dims = (*(1,) * (len(mask.dims) - len(dims)), *dims)
    own, whole = dims[:-2], mask.dims[:-2]
    ones: Dims = (1, 1)
    fronts = [ones] * (prod(own) == 1) + [outer] * (own == whole)
    for at in range(len(whole)):
        parts = (own[:at], whole[:at]), (own[at:], whole[at:])
        if outer == (prod(whole[:at]), prod(whole[at:])) and all(
            part == all_of_it or prod(part) == 1 for part, all_of_it in parts
        ):
            fronts.append((prod(own[:at]), prod(own[at:])))
    fronts += [outer] * (draft.known(mask.name) is not None)
    return (mask, (*fronts[0], *dims[-2:])) if fronts else None


def _is_of_operands(draft: GraphDraft, factor: _ScoreFactor, query: Dims, key: Dims) -> bool:
    """True if a factor of scores can be one of their queries, or keys, broadcast along dims of 1."""
    operand, own = key if factor.of_keys else query, draft.type(factor.name).dims
    if prod(own) == 1:
        return True
    pairs = zip(own, operand, strict=False)
    return factor.dims[:-2] == query[:-2] and all(n in (1, extent) for n, extent in pairs)


# --- writing ------------------------------------------------------------------------------------------------


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
    query, key = found.query, found.key
    for factor in found.factors:
        if factor.of_keys:
            key = _times(draft, place, factor, key)
        else:
            query = _times(draft, place, factor, query)
    key = _turned(draft, place, key)
    matrices = (keys, width), (keys, values)
    fewer = [
        _ungrouped(draft, name, (batch, key_heads, *matrix))
        for name, matrix in zip((key, value), matrices, strict=True)
    ]
    sources = [each[0] for each in fewer if each is not None]
    counts = {each and each[1] for each in fewer}
    if len(sources) == 2 and len(counts) == 1:
        (key, value), key_heads = sources, next(iter(counts)) or 1
    wanted = [(query, (batch, heads, queries, width))]
    wanted += [(x, (batch, key_heads, *own)) for x, own in zip((key, value), matrices, strict=True)]
    inputs = [
        name if draft.type(name).dims == dims else draft.before(place, ReshapeOperation(dims), name)
        for name, dims in wanted
    ]
    mask, causal = _joint(draft, place, masks, (queries, keys))
    inputs += [] if mask is None else [mask]
    parameters = ("scale", found.factor), ("causal", causal)
    node, result = match.node, draft.type(match.node.output)
    steps: list[Operation] = [PrimitiveOperation("ScaledDotProductAttention", parameters)]
    steps += [TransposeOperation((0, 1, 3, 2))] * is_turned
    last = (batch, heads, values, queries) if is_turned else (batch, heads, queries, values)
    steps += [ReshapeOperation(result.dims)] * (result.dims != last)
    steps += [ReorderOperation(result.data_type)] * (result.data_type != draft.type(query).data_type)
    for step in steps[:-1]:
        inputs = [draft.before(place, step, *inputs)]
    places = dict.fromkeys(found.places)
    draft.fuse(place, replace(node, operation=steps[-1], inputs=tuple(inputs)), *places)
    draft.applied[-1] = replace(draft.applied[-1], nodes=(*scales, *draft.applied[-1].nodes))


def _times(draft: GraphDraft, place: int, factor: _ScoreFactor, operand: str) -> str:
    name, rank, near = factor.name, len(draft.type(operand).dims), draft.at(place).output  # type: ignore[union-attr]
    if len(draft.type(name).dims) != rank:
        name = draft.before(place, ReshapeOperation((1,) * rank), name)
    inputs: tuple[str, ...] = operand, name
    if factor.algorithm == "binary_select":
        zero = draft.new_constant(np.zeros((1,) * rank, np.float32), near)
        inputs = (operand, zero, name) if factor.is_seen else (zero, operand, name)
    return draft.before(place, BinaryOperation(factor.algorithm), *inputs)


def _turned(draft: GraphDraft, place: int, name: str) -> str:
    """Transpose matrices, or return what they were transposed from, in any dims."""
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
    """Return the source of a reshape, or the tensor itself if there is none."""
    maker = draft.maker(name)
    is_reshape = maker is not None and isinstance(maker[1].operation, ReshapeOperation)
    return maker[1].sources[0] if maker is not None and is_reshape else name


def _ungrouped(draft: GraphDraft, name: str, dims: Dims) -> tuple[str, int] | None:
    """Return heads of keys before they were repeated, each consecutively, and their number; else None."""
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
    """Combine all masks into one, and use the word of a causal mask in place of constants."""
    known = [
        (mask, dims)
        for mask, dims in masks
        if draft.known(mask.name) is not None and not isinstance(mask.hides, str)
    ]
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
        # A dim merged with another has no separate dim along which to broadcast.
        values = np.broadcast_to(values, (*mask.dims[:-2], *values.shape[-2:]))
    return values.reshape(dims).astype(np.float32)


def _repeated_once(values: Array) -> Array:
    """Return values without leading dims along which they are constant."""
    for axis in (0, 1):
        first = values.take([0], axis)
        values = (
            first
            if values.shape[axis] > 1 and np.array_equal(np.broadcast_to(first, values.shape), values)
            else values
        )
    return np.ascontiguousarray(values)


def _causal(values: Array, matrix: tuple[int, int]) -> str:
    """Return the word of a mask that hides exactly the keys after each query."""
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
    """Return a computed mask in four dims; the condition itself if hidden scores are negligible."""
    name = mask.name
    if draft.type(name).dims != dims:
        name = draft.before(place, ReshapeOperation(dims), name)
    if not mask.is_condition or (is_alone and mask.is_seen and mask.hides == -inf):
        return name
    seen, hidden = (
        draft.before(
            place, ReorderOperation(DataType.f32), draft.before(place, ReshapeOperation((1,) * 4), x)
        )
        if isinstance(x, str)
        else draft.new_constant(np.full((1, 1, 1, 1), x, np.float32), mask.name)
        for x in (0.0, mask.hides)
    )
    pair = (seen, hidden) if mask.is_seen else (hidden, seen)
    return draft.before(place, BinaryOperation("binary_select"), *pair, name)
