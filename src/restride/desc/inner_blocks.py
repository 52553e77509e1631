"""Inner blocks as digits of an index: `index // step % size`, each of one axis, from the outermost in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .tag_names import LETTERS

Blocks = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Sizes, axes and steps of inner blocks, from the outer to the inner."""


def usual_steps(blks: Sequence[int], idxs: Sequence[int]) -> tuple[int, ...]:
    """Return the default steps: for each block, the product of the blocks of the same axis inside it."""
    steps, products = [0] * len(blks), dict.fromkeys(idxs, 1)
    for at in reversed(range(len(blks))):
        steps[at] = products[idxs[at]]
        products[idxs[at]] *= blks[at]
    return tuple(steps)


def canonical_blocks(blks: Sequence[int], idxs: Sequence[int], steps: Sequence[int] = ()) -> Blocks:
    """Return sizes, axes and steps of the blocks in canonical form: equal layouts have equal ones.

    Blocks of 1 are dropped. If digits are not in their usual order, a block that continues the one outside it
    is merged with it; otherwise the blocks are oneDNN's and stay unchanged: `4b4b` is not `16b`.
    """
    blocks = [
        block for block in zip(blks, idxs, steps or usual_steps(blks, idxs), strict=True) if block[0] > 1
    ]
    sizes, axes, own_steps = (tuple(block[i] for block in blocks) for i in range(3))
    if own_steps == usual_steps(sizes, axes):
        return sizes, axes, own_steps
    triples: list[tuple[int, int, int]] = []
    for size, axis, step in blocks:
        if triples and triples[-1][1:] == (axis, step * size):
            size *= triples.pop()[0]
        triples.append((size, axis, step))
    sizes, axes, own_steps = (tuple(block[i] for block in triples) for i in range(3))
    return sizes, axes, own_steps


def block_texts(blks: Sequence[int], idxs: Sequence[int], steps: Sequence[int]) -> Iterator[str]:
    """Yield the spelling of each block, with a step only if it is not the default."""
    for blk, i, step, usual in zip(blks, idxs, steps, usual_steps(blks, idxs), strict=True):
        yield f"{blk}{LETTERS[i]}" if step == usual else f"{blk}@{step}{LETTERS[i]}"


def clash_of_steps(blks: Sequence[int], idxs: Sequence[int], steps: Sequence[int]) -> str:
    """Return why blocks are not a permutation of the digits of their axes, or an empty string."""
    for axis in sorted(set(idxs)):
        axis_blocks = sorted(
            (step, blk) for blk, i, step in zip(blks, idxs, steps, strict=True) if i == axis and blk > 1
        )
        reached = 1
        for step, blk in axis_blocks:
            if step != reached:
                name, how = LETTERS[axis], "overlap" if step < reached else "leave a gap"
                return (
                    f"the steps of axis '{name}' {how}: a block has step {step} where {reached} is expected"
                )
            reached *= blk
    return ""
