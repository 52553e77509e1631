"""Chains of reshapes and transposes, the shuffles that they form, and pads before windows.

    transpose(transpose(x))                     ->  transpose(x), or a reshape if only dims of 1 move
    reshape(reshape(x)), also with transposes
    that move nothing between them              ->  reshape(x); removed if the dims are those of x
    reshape(transpose(reshape(x)))              ->  shuffle(x), if two digits of one dim are swapped
    conv(pad(x)), pool(pad(x))                  ->  conv(x), pool(x) with wider padding
    relu(reshape(matmul(x)))                    ->  reshape(relu(matmul(x)))
    reshape(matmul(x)) + row                    ->  reshape(matmul(x) + row)
    reshape(matmul(reshape(x), reshape(y)))     ->  matmul(x, y), if batch dims were merged for it

This lets functions and sums go into the product, and interleaved heads, whose merged dim has no stride, are
read in place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, prod

from ..dims import Dims
from ..graph import Node
from ..nodes.layers import PoolingOperation
from ..nodes.moves import PadOperation, ReshapeOperation, ShuffleOperation, SliceOperation, TransposeOperation
from ..nodes.operations import BinaryOperation, EltwiseOperation
from ..nodes.products import (
    ConvolutionOperation,
    InnerProductOperation,
    MatmulOperation,
)
from .draft import GraphDraft
from .patterns import Match, Pattern, rewrite

__all__ = ["fuse_batches", "fuse_lifts", "fuse_moves", "fuse_pads", "fuse_shuffles"]

_MOVES = (ReshapeOperation, TransposeOperation)


@dataclass(frozen=True)
class Permutation:
    """Elements in row-major order of `dims`, read in the axis order `order`, with as few axes as possible.

    No dim is 1, and no two axes that were adjacent in `dims` are adjacent in `order`. With fewer than two
    axes nothing moves.
    """

    dims: Dims
    order: Dims

    @classmethod
    def of(cls, dims: Dims, order: Dims) -> Permutation:
        """Return the shortest equivalent permutation."""
        order = tuple(axis for axis in order if dims[axis] != 1)
        runs: list[list[int]] = []
        for axis in order:
            between = range(runs[-1][-1] + 1, axis) if runs and axis > runs[-1][-1] else None
            if between is not None and all(dims[i] == 1 for i in between):
                runs[-1].append(axis)
            else:
                runs.append([axis])
        places = sorted(range(len(runs)), key=lambda i: runs[i])
        sizes = [prod(dims[axis] for axis in run) for run in runs]
        return cls(tuple(sizes[i] for i in places), tuple(places.index(i) for i in range(len(runs))))

    @property
    def moves_nothing(self) -> bool:
        """True if elements stay in order."""
        return len(self.dims) < 2


def fuse_moves(draft: GraphDraft) -> None:
    """Merge two moves into one, and replace moves that move nothing by a reshape, or remove them."""
    second = Pattern(_MOVES, (Pattern(_MOVES, ("x",), name="first"),))
    moves = Pattern((*_MOVES, PadOperation, SliceOperation))
    rewrite(draft, [(moves, _idle), (second, _joint), (Pattern(TransposeOperation), _as_reshape)])


def _idle(match: Match) -> bool:
    draft, node = match.draft, match.node
    is_idle = draft.type(node.inputs[0]).dims == draft.type(node.output).dims and _is_still(draft, node)
    if is_idle:
        draft.drop(match.place)
    return is_idle


def _joint(match: Match) -> Node | None:
    """Return one move that is equivalent to two."""
    draft, first, second = match.draft, match.nodes["first"], match.node
    if _is_still(draft, first) and _is_still(draft, second):
        return match.becomes(ReshapeOperation(draft.type(second.output).dims), "x")
    one, two = first.operation, second.operation
    if isinstance(one, TransposeOperation) and isinstance(two, TransposeOperation):
        return match.becomes(TransposeOperation(tuple(one.order[axis] for axis in two.order)), "x")
    return None


def _as_reshape(match: Match) -> Node | None:
    dims = match.draft.type(match.node.output).dims
    return match.becomes(ReshapeOperation(dims)) if _is_still(match.draft, match.node) else None


def _is_still(draft: GraphDraft, node: Node) -> bool:
    """True if remaining elements stay in order."""
    operation = node.operation
    if isinstance(operation, SliceOperation):
        return min(operation.steps, default=1) > 0
    if isinstance(operation, PadOperation):
        return not any((*operation.low, *operation.high))
    if isinstance(operation, TransposeOperation):
        return Permutation.of(draft.type(node.sources[0]).dims, operation.order).moves_nothing
    return True


def fuse_batches(draft: GraphDraft) -> None:
    """Undo the merging of batch dims for products of matrices."""
    product = Pattern(MatmulOperation, ("left", "right"), name="product")
    rewrite(draft, [(Pattern(ReshapeOperation, (product,)), _apart)])


def _apart(match: Match) -> bool:
    draft, dims = match.draft, match.of().dims
    joined = draft.type(match["product"]).dims
    batch = dims[:-2]
    if dims[-2:] != joined[-2:] or len(batch) < len(joined) - 1 or len(joined) != 3:
        return False
    operands = [(match[word], (*batch, *draft.type(match[word]).dims[-2:])) for word in ("left", "right")]
    if not all(draft.can_give(name, wanted) for name, wanted in operands):
        return False
    names = tuple(draft.given(name, wanted) for name, wanted in operands)
    draft.fuse(
        match.place, replace(match.nodes["product"], inputs=names, outputs=match.node.outputs), *match.places
    )
    return True


def fuse_lifts(draft: GraphDraft) -> None:
    """Move functions and sums of a reshaped product, and functions of such sums, before the reshape."""
    kinds = InnerProductOperation, MatmulOperation
    product = Pattern(kinds, name="product", may_have_epilogues=True)
    combined = Pattern(BinaryOperation, (Pattern(kinds, may_have_epilogues=True), ...), name="product")
    for main in (product, combined):
        reshaped = Pattern(ReshapeOperation, (main,), name="reshaped")
        combination = Pattern(BinaryOperation, (reshaped, "other"), is_symmetric=True)
        rules = [(Pattern(EltwiseOperation, (reshaped,)), _lift), (combination, _lift)]
        rewrite(draft, rules, draft.is_computed_as_f32)


def _lift(match: Match) -> bool:
    draft, node, reshape = match.draft, match.node, match.places[0]
    inner, outer = match["product"], match["reshaped"]
    if draft.type(outer) != draft.type(node.output):
        return False
    names = {outer: inner}
    if "other" in match.tensors:
        other = _operand(match, reshape)
        if other is None:
            return False
        names = {match["other"]: other, **names}
    draft.swap(reshape, match.place, replace(node, inputs=tuple(names[name] for name in node.inputs)))
    return True


def _operand(match: Match, before: int) -> str | None:
    """Return the other operand reshaped for use before the reshape; None if impossible."""
    draft, name = match.draft, match["other"]
    inner, outer = (draft.type(match[word]).dims for word in ("product", "reshaped"))
    values = draft.constant(name)
    if values is not None:
        dims = _dims_before(values.shape, inner, outer)
        return None if dims is None else draft.new_constant(values.reshape(dims), name)
    maker = draft.maker(name)
    if draft.type(name).dims != outer or (maker is not None and maker[0] >= before):
        return None
    if maker is not None and isinstance(maker[1].operation, ReshapeOperation) and not maker[1].epilogues:
        source = maker[1].sources[0]
        if draft.type(source).dims == inner:
            return source
    # Adjacent elements stay adjacent: rows of a tensor of more dims.
    return draft.before(before, ReshapeOperation(inner), name) if inner[-1] == outer[-1] else None


def _dims_before(dims: Dims, inner: Dims, outer: Dims) -> Dims | None:
    """Return the dims next to `inner` of a constant that broadcasts along some dims of `outer`, or None."""
    if prod(dims) in (1, dims[-1] if dims else 1) and inner[-1] == outer[-1]:
        return (*(1,) * (len(inner) - 1), prod(dims))
    full = (*(1,) * (len(outer) - len(dims)), *dims)
    pairs = [(n, m) for n, m in zip(full, outer, strict=True) if m != 1]
    if [m for _, m in pairs] != [m for m in inner if m != 1]:
        return None
    left = iter(n for n, _ in pairs)
    return tuple(1 if m == 1 else next(left) for m in inner)


def fuse_shuffles(draft: GraphDraft) -> None:
    """Match a reshape, a transpose and a reshape that reorder channels seen as two digits."""
    split = Pattern(ReshapeOperation, ("x",), name="split")
    turn = Pattern(TransposeOperation, (split,), name="turn")
    rewrite(draft, [(Pattern(ReshapeOperation, (turn,)), _as_shuffle)])


def _as_shuffle(match: Match) -> bool:
    draft, node = match.draft, match.node
    dims = draft.type(match["x"]).dims
    permutation = Permutation.of(draft.type(match["split"]).dims, match.of("turn").order)
    shuffle = _shuffle(dims, permutation) if dims == match.of().dims else None
    if shuffle is not None:
        draft.fuse(match.place, Node(node.name, shuffle, (match["x"],), node.outputs), *match.places[::-1])
    return shuffle is not None


def _shuffle(dims: Dims, permutation: Permutation) -> ShuffleOperation | None:
    """Return the axis whose two digits are swapped while the other dims stay."""
    for axis, extent in enumerate(dims):
        before, behind = prod(dims[:axis]), prod(dims[axis + 1 :])
        for groups in (n for n in permutation.dims if n < extent and extent % n == 0):
            if Permutation.of((before, groups, extent // groups, behind), (0, 2, 1, 3)) == permutation:
                return ShuffleOperation(axis, groups)
    return None


def fuse_pads(draft: GraphDraft) -> None:
    """Fold pads into padding: zeros for convolutions and averages that count them, minima for maxima."""
    windows = (ConvolutionOperation, PoolingOperation)
    padded = (Pattern(PadOperation, ("x",), name="pad"), ...)
    rewrite(draft, [(Pattern(windows, padded, may_have_epilogues=True), _widened)])


# The value that a pad must have for its reader.
_NEUTRAL = {"convolution": 0.0, "pooling_avg_include_padding": 0.0, "pooling_max": -inf}


def _widened(match: Match) -> Node | None:
    operation, pad = match.of(), match.of("pad")
    value = _NEUTRAL.get(getattr(operation, "algorithm", operation.kind))
    if pad.value != value or any((*pad.low[:2], *pad.high[:2])):
        return None
    wider = {
        name: tuple(a + b for a, b in zip(getattr(operation, name), more[2:], strict=True))
        for name, more in (("padding_l", pad.low), ("padding_r", pad.high))
    }
    node = match.node
    return replace(node, operation=replace(operation, **wider), inputs=(match["x"], *node.inputs[1:]))
