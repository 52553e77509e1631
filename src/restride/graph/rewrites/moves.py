"""Chains of reshapes and transposes, the shuffles that they say, and pads in front of windows.

transpose(transpose(x))                     ->  transpose(x), or a reshape where only dims of 1 change places
reshape(reshape(x)), also with transposes
that move nothing between them              ->  reshape(x); nothing where the dims are those of x
reshape(transpose(reshape(x)))              ->  shuffle(x), where two digits of one dim change places
conv(pad(x)), pool(pad(x))                  ->  conv(x), pool(x) with wider padding
    relu(reshape(matmul(x)))                    ->  reshape(relu(matmul(x)))
    reshape(matmul(x)) + row                    ->  reshape(matmul(x) + row)

The last two let functions and sums go into the product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isinf, prod

from ..dims import Dims
from ..graph import Node
from ..nodes.layers import PoolingOperation
from ..nodes.moves import PadOperation, ReshapeOperation, ShuffleOperation, TransposeOperation
from ..nodes.operations import BinaryOperation, EltwiseOperation
from ..nodes.products import (
    ConvolutionOperation,
    DeconvolutionOperation,
    InnerProductOperation,
    MatmulOperation,
)
from .draft import GraphDraft

__all__ = ["fuse_lifts", "fuse_moves", "fuse_pads", "fuse_shuffles"]

_MOVES = (ReshapeOperation, TransposeOperation)


@dataclass(frozen=True)
class Permutation:
    """Elements in row-major order of `dims`, read in the order of axes `order`; as few axes as say it.

    No dim is 1, and no two axes that follow each other before do so afterwards. Nothing is moved where there
    are fewer than two axes.
    """

    dims: Dims
    order: Dims

    @classmethod
    def of(cls, dims: Dims, order: Dims) -> Permutation:
        """The shortest that moves elements alike."""
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
        """True where elements stay in their order."""
        return len(self.dims) < 2


def fuse_moves(draft: GraphDraft) -> None:
    """Two moves become one, and one that moves nothing becomes a reshape, or goes."""
    for place, node in draft:
        if not isinstance(node.operation, _MOVES) or node.epilogues:
            continue
        source = node.sources[0]
        if draft.type(source).dims == node.operation.result(draft.type(source)).dims and _is_still(
            draft, node
        ):
            draft.drop(place)
            continue
        made = draft.private_maker(source)
        before = made[1] if made is not None and isinstance(made[1].operation, _MOVES) else None
        if before is not None and not before.epilogues and made is not None:
            joint = _joint(draft, before, node)
            if joint is not None:
                draft.fuse(place, replace(node, operation=joint, inputs=before.sources), made[0])
                continue
        if isinstance(node.operation, TransposeOperation) and _is_still(draft, node):
            dims = draft.type(node.output).dims
            draft.fuse(place, replace(node, operation=ReshapeOperation(dims)))


def fuse_lifts(draft: GraphDraft) -> None:
    """Functions of a reshaped product, and sums with a row or with what is reshaped alike, before that."""
    for place, node in draft:
        if not draft.is_computed_as_f32(node):
            continue
        source = node.sources[0] if node.sources else ""
        sides = [(source, "")]
        if isinstance(node.operation, BinaryOperation) and len(node.sources) == 2:
            sides = [(node.sources[0], node.sources[1]), (node.sources[1], node.sources[0])]
        elif not isinstance(node.operation, EltwiseOperation):
            continue
        for reshaped, other in sides:
            if not node.epilogues and _lift(draft, place, node, reshaped, other):
                break


def _lift(draft: GraphDraft, place: int, node: Node, reshaped: str, other: str) -> bool:
    reshape = draft.private_maker(reshaped)
    if reshape is None or not isinstance(reshape[1].operation, ReshapeOperation) or reshape[1].epilogues:
        return False
    product = draft.private_maker(reshape[1].sources[0])
    if product is None or not isinstance(product[1].operation, InnerProductOperation | MatmulOperation):
        return False
    if draft.type(reshaped) != draft.type(node.output):
        return False
    inner = reshape[1].sources[0]
    operand = _operand(draft, reshape[0], draft.type(inner).dims, draft.type(reshaped).dims, other)
    if operand is None:
        return False
    inputs = tuple(inner if name == reshaped else operand for name in node.inputs)
    draft.swap(reshape[0], place, replace(node, inputs=inputs))
    return True


def _operand(draft: GraphDraft, before: int, inner: Dims, outer: Dims, name: str) -> str | None:
    """The other operand in front of a reshape from dims `inner` to `outer`; None where there is none."""
    if not name:
        return name
    values = draft.constant(name)
    if values is not None:
        is_row = inner[-1] == outer[-1] and values.size in (1, values.shape[-1] if values.ndim else 1)
        return draft.new_constant(values.reshape([*[1] * (len(inner) - 1), -1]), name) if is_row else None
    made = draft.maker(name)
    if made is None or not isinstance(made[1].operation, ReshapeOperation) or made[1].epilogues:
        return None
    alike = draft.type(made[1].sources[0]).dims == inner and draft.type(name).dims == outer
    earlier = draft.maker(made[1].sources[0])
    return made[1].sources[0] if alike and (earlier is None or earlier[0] < before) else None


def _is_still(draft: GraphDraft, node: Node) -> bool:
    """True where elements stay in their order."""
    if isinstance(node.operation, TransposeOperation):
        return Permutation.of(draft.type(node.sources[0]).dims, node.operation.order).moves_nothing
    return True


def _joint(draft: GraphDraft, first: Node, second: Node) -> ReshapeOperation | TransposeOperation | None:
    """One move that does what two do."""
    if _is_still(draft, first) and _is_still(draft, second):
        return ReshapeOperation(draft.type(second.output).dims)
    one, two = first.operation, second.operation
    if isinstance(one, TransposeOperation) and isinstance(two, TransposeOperation):
        return TransposeOperation(tuple(one.order[axis] for axis in two.order))
    return None


def fuse_shuffles(draft: GraphDraft) -> None:
    """A reshape, a transpose and a reshape that change the order of the channels, seen as two digits."""
    for place, node in draft:
        if not isinstance(node.operation, ReshapeOperation) or node.epilogues:
            continue
        turn = draft.private_maker(node.sources[0])
        if turn is None or not isinstance(turn[1].operation, TransposeOperation) or turn[1].epilogues:
            continue
        split = draft.private_maker(turn[1].sources[0])
        if split is None or not isinstance(split[1].operation, ReshapeOperation) or split[1].epilogues:
            continue
        source = split[1].sources[0]
        dims = draft.type(source).dims
        moved = Permutation.of(draft.type(split[1].output).dims, turn[1].operation.order)
        shuffle = _shuffle(dims, moved) if dims == node.operation.dims else None
        if shuffle is not None:
            fused = Node(node.name, shuffle, (source,), node.outputs)
            draft.fuse(place, fused, split[0], turn[0])


def _shuffle(dims: Dims, moved: Permutation) -> ShuffleOperation | None:
    """The axis whose two digits change places, where the other dims stay."""
    for axis, extent in enumerate(dims):
        before, behind = prod(dims[:axis]), prod(dims[axis + 1 :])
        for groups in (n for n in moved.dims if n < extent and extent % n == 0):
            if Permutation.of((before, groups, extent // groups, behind), (0, 2, 1, 3)) == moved:
                return ShuffleOperation(axis, groups)
    return None


def fuse_pads(draft: GraphDraft) -> None:
    """Zeros in front of convolutions and averages that count them, and what is least in front of maxima."""
    for place, node in draft:
        operation = node.operation
        if not isinstance(operation, ConvolutionOperation | PoolingOperation):
            continue
        made = draft.maker(node.sources[0])
        if made is None or not isinstance(made[1].operation, PadOperation) or made[1].epilogues:
            continue
        pad = made[1].operation
        if isinstance(operation, DeconvolutionOperation) or not _fits(operation, pad):
            continue
        if draft.private_maker(node.sources[0]) is None:
            continue
        widened = replace(
            operation,
            padding_l=_sums(operation.padding_l, pad.low[2:]),
            padding_r=_sums(operation.padding_r, pad.high[2:]),
        )
        inputs = (made[1].sources[0], *node.inputs[1:])
        draft.fuse(place, replace(node, operation=widened, inputs=inputs), made[0])


def _fits(operation: ConvolutionOperation | PoolingOperation, pad: PadOperation) -> bool:
    if any((*pad.low[:2], *pad.high[:2])):
        return False
    if isinstance(operation, ConvolutionOperation):
        return pad.value == 0
    if operation.algorithm == "pooling_avg_include_padding":
        return pad.value == 0
    return operation.algorithm == "pooling_max" and isinf(pad.value) and pad.value < 0


def _sums(left: Sequence[int], right: Sequence[int]) -> Dims:
    return tuple(a + b for a, b in zip(left, right, strict=True))
