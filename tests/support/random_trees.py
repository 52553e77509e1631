"""Random loop trees, with all that their grammar has."""

from __future__ import annotations

from math import inf, nan

from hypothesis import strategies as st

from restride.desc.memory_desc import MemoryDesc
from restride.ir.digits import IndexDigit
from restride.ir.expression import (
    FOLDS,
    Affine,
    Const,
    Coordinate,
    Expr,
    Index,
    Load,
    Ref,
    Scalar,
    TreeAxis,
    apply,
)
from restride.ir.numbers import Number
from restride.ir.tree import Each, Fold, Guard, Item, Let, LoopTree, Store, TreeTensor

_OF_INDICES = ("s64", "s32", "s16", "s8", "u32", "u16", "u8")


class _Maker:
    """Draws trees that hold: each access has a tensor of its own, as large as its indices need.

    `is_run`: tensors are dense, and all that is computed is integers, so that no order changes results.
    """

    def __init__(self, draw: st.DrawFn, *, is_run: bool) -> None:
        self.draw, self.is_run = draw, is_run
        self.tensors: list[TreeTensor] = []
        self.number = draw(st.sampled_from(Number))
        self.scalars = 0 if self.number.is_integer else draw(st.integers(0, 2))
        self.count = 0

    def name(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.draw(st.sampled_from(('', '_', '.')))}{self.count}"

    def tree(self) -> LoopTree:
        items = tuple(self.each((), [], 0) for _ in range(self.draw(st.integers(1, 2))))
        return LoopTree(tuple(self.tensors), items, self.scalars, self.number, self.draw(st.booleans()))

    def each(self, axes: tuple[TreeAxis, ...], names: list[Expr], level: int) -> Each:
        own = tuple(
            TreeAxis(self.name("a"), self.draw(st.integers(0, 3)))
            for _ in range(self.draw(st.integers(0, 2)))
        )
        inside, known = (*axes, *own), list(names)
        guards = tuple(
            Guard(self.affine(inside), self.draw(st.integers(0, 9)))
            for _ in range(self.draw(st.integers(0, 2)))
        )
        kinds = st.sampled_from(("f32", "f64"))
        rows = tuple(
            TreeTensor.row_major(
                self.name("r"), (self.draw(st.integers(1, 3)),), MemoryDesc((1,), self.draw(kinds)).data_type
            )
            for _ in range(self.draw(st.integers(0, 1)))
        )
        items: list[Item] = []
        for row in rows:
            items.append(row.store((0,), self.expr(inside, known)))
            known.append(row.load(0))
        for _ in range(self.draw(st.integers(0, 3))):
            kind = self.draw(st.sampled_from(("each", "let", "fold", "store")))
            if kind == "each" and level < 2:
                loop = self.each(inside, known, level + 1)
                items.append(loop)
                known += [Ref(name) for fold in loop.folds for name in fold.names]
            elif kind == "let":
                name = self.name("v")
                items.append(Let(name, self.expr(inside, known)))
                known.append(Ref(name))
            elif kind == "fold" and level:
                op = self.draw(
                    st.sampled_from(
                        ("sum", "max", "min", "argmax")
                        if self.is_run or self.number.is_integer
                        else list(FOLDS)
                    )
                )
                states = range(len(FOLDS[op].identity))
                items.append(
                    Fold(
                        op,
                        tuple(self.name("f") for _ in states),
                        tuple(self.expr(inside, known) for _ in states),
                    )
                )
            else:
                tensor = self.tensor(tuple(axis.extent for axis in inside), "y")
                items.append(Store(tensor.name, tuple(axis + 0 for axis in inside), self.expr(inside, known)))
        return Each(own, tuple(items), guards, rows, self.draw(st.booleans()))

    def tensor(
        self, sizes: tuple[int, ...], letter: str, kinds: tuple[str, ...] = ("f32", "s8", "bf16", "f8_e4m3")
    ) -> TreeTensor:
        """A tensor of any places."""
        draw = self.draw
        if self.is_run:
            kinds = tuple(kind for kind in kinds if kind == "f32" or kind in _OF_INDICES)
            data_type = MemoryDesc((1,), draw(st.sampled_from(kinds))).data_type
            self.tensors.append(TreeTensor.row_major(self.name(letter), sizes, data_type))
            return self.tensors[-1]
        strides = st.integers(-(2**40), 2**40)
        digits = tuple(
            tuple(
                IndexDigit(step, draw(strides))
                for step in ((1, 4, 12), (1, 16), (1,))[draw(st.integers(0, 2))]
            )
            for _ in sizes
        )
        padded = tuple(n + draw(st.integers(0, 2)) for n in sizes)
        data_type = MemoryDesc((1,), draw(st.sampled_from(kinds))).data_type
        made = TreeTensor(self.name(letter), data_type, sizes, padded, digits, draw(strides))
        self.tensors.append(made)
        return made

    def affine(self, axes: tuple[TreeAxis, ...], divisors: bool = True) -> Affine:
        total = Affine((), self.draw(st.integers(-9, 9)))
        for axis in self.draw(st.lists(st.sampled_from(axes), unique=True, max_size=3)) if axes else ():
            total = total + axis * self.draw(st.integers(-3, 3))
        return total // self.draw(st.integers(1, 3)) if divisors else total

    def access(self, axes: tuple[TreeAxis, ...], dims: int, *, is_element: bool = False) -> Load:
        index: list[Index] = []
        sizes: list[int] = []
        for _ in range(dims):
            if not is_element and self.draw(st.booleans()):
                index.append(self.access(axes, self.draw(st.integers(0, 2)), is_element=True))
                sizes.append(self.draw(st.integers(1, 9)))
                continue
            at = self.affine(axes)
            extents = {axis.name: axis.extent for axis in axes}
            ends = [factor * max(extents[name] - 1, 0) for name, factor in at.terms]
            # From 0 on, and to the last one: the ends of its axes.
            at = Affine(at.terms, at.divisor - sum(min(end, 0) for end in ends), at.divisor)
            index.append(at)
            sizes.append(1 + (at.constant + sum(max(end, 0) for end in ends)) // at.divisor)
        kinds = _OF_INDICES if is_element else ("f32", "f16", "s4", "u16", "u32", "s64")
        tensor = self.tensor(tuple(sizes), "x", kinds)
        return Load(tensor.name, tuple(index))

    def expr(self, axes: tuple[TreeAxis, ...], names: list[Expr], depth: int = 0) -> Expr:
        kind = self.draw(st.integers(0, 7 if depth < 3 else 3))
        if kind == 0 and names:
            return self.draw(st.sampled_from(names))
        if kind == 1 and self.scalars:
            return Scalar(self.draw(st.integers(0, self.scalars - 1)))
        if kind == 2:
            return Coordinate(self.affine(axes, divisors=False))
        if kind == 3:
            return self.access(axes, self.draw(st.integers(0, 2)))
        if kind < 4:
            numbers = (
                st.floats() | st.integers(-(2**62), 2**62) | st.sampled_from((inf, -inf, nan, 0.1, 1e-300))
            )
            is_small = self.is_run or self.number.is_integer
            return Const(self.draw(st.integers(-9, 9) if is_small else numbers))
        more: tuple[str, ...] = () if self.is_run else ("mul", "div", "exp_down", "relu")
        if self.number.is_integer:
            more = ("and", "mul")
        op = self.draw(st.sampled_from(("add", "sub", "max", "select", "lt", *more)))
        count = {"select": 3, "exp_down": 1, "relu": 2}.get(op, 2)
        return apply(op, *(self.expr(axes, names, depth + 1) for _ in range(count)))


@st.composite
def trees(draw: st.DrawFn, *, is_run: bool = False) -> LoopTree:
    """Trees with all that the grammar has; `is_run`: as any order of sums computes alike, for a few bytes."""
    return _Maker(draw, is_run=is_run).tree()
