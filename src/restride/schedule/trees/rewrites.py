"""The transforms that rewrite a tree: which values are computed where, before its loops are ordered.

| transform | before -> after |
| --- | --- |
| `block(c, 16)` | `each c 64: f(c)` -> `each c.block 4, c.place 16: f(16 * c.block + c.place)` |
| `split_fold(s, h)` | `each h, w: s = sum(f)` -> `each h: (each w: s.part = sum(f)), s = sum(s.part)` |
| `compute_at(s.part, n)` | `each n, w: (each k: s.part = f), g(s.part)` -> as below |
| `compute_root(s.part)` | the same before all other loops, with a tensor for all positions |

`block`: an axis is split into blocks and positions within a block. If the number does not divide the extent,
a guard excludes what is past its end.

`split_fold`: the named axes are folded last. All folds of that loop are split.

`compute_at`: the results of a fold are kept in rows, which are filled first, at each position of the named
axes; the other axes of the loops around the fold are those of the rows::

    each n, w:                                  each n:
      each k:                                     local s.part[w]
        s.part = sum(f(n, w, k))          ->      each w:
      y[n, w] = g(s.part)                           each k:
                                                      s.part = sum(f(n, w, k))
                                                    s.part[w] = s.part
                                                  each w:
                                                    y[n, w] = g(s.part[w])

If the fold depends on some of these only through their sum, as a window on `2 * w + k`, a row has an element
for each value of the sum, so that what several windows share is folded once. A guard on it becomes an
interior, and edges with the neutral element.

A row of a float fold is the same sum in another order (docs/numerics.md); for integers, and for maxima, the
bits are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, floor, gcd, inf
from typing import Any, NamedTuple, NoReturn

from ...errors import refuse
from ...ir.accesses import items_of, with_indices, with_values
from ...ir.digits import stride_at
from ...ir.expression import FOLDS, Affine, Const, Expr, Load, Ref, TreeAxis
from ...ir.tree import Each, Fold, Guard, Item, Let, LoopTree, Store, TreeTensor, loads_in, parts_in
from ..language import Schedule, Transform, check_known

NAMES = ("block", "split_fold", "compute_at", "compute_root")

_Form = tuple[tuple[str, int], ...]
"""A sum of axes with coefficients: an index without a common factor and constant."""


def rewrite(tree: LoopTree, schedule: Schedule) -> LoopTree:
    """Return the tree that transforms produce; tensors of `compute_root` follow the existing ones.

    Raises InvalidArguments for transforms that do not fit.
    """
    for transform in schedule:
        check_known(transform, NAMES)
        tree = _Rewriter(tree, transform).rewritten()
    return tree.verify() if schedule else tree


class RewrittenTree(NamedTuple):
    """The transforms that produced a tree, as text that is parsed when needed, and the original tree."""

    source: LoopTree
    rewrites: str = ""


def part_of(name: str) -> str:
    """Return the name of the partial result of a split fold."""
    return f"{name}.part"


@dataclass(frozen=True, slots=True)
class _Dim:
    """A dim of rows: `axis` runs over it. `form`: the sum of outer axes that it represents, of which
    `first` is the least value, and `among` all those axes whose indices have this sum or none of it. The fold
    has elements only at the positions `inside`.
    """

    axis: TreeAxis
    form: _Form
    first: int
    among: frozenset[str]
    inside: tuple[int, int]

    @property
    def place(self) -> Affine:
        """The position that the outer loops read."""
        return Affine(self.form, -self.first)

    @property
    def has_edges(self) -> bool:
        """True if the fold has no elements at some positions."""
        return self.inside != (0, self.axis.extent)

    def factor(self, index: Affine) -> int:
        """Return how many times an index contains the sum."""
        terms = {name: factor for name, factor in index.terms if name in self.among}
        name, own = self.form[0]
        factor = terms.get(name, 0) // own
        return factor if terms == {name: factor * own for name, own in self.form} else 0

    def with_place(self, place: Affine, index: Affine) -> Affine:
        """Return an index with the sum replaced by a position of this dim."""
        factor = self.factor(index)
        made = replace(index, divisor=1) + (place + self.first - Affine(self.form)) * factor
        return replace(made, divisor=index.divisor)

    def movement(self, tree: LoopTree, fold: Each) -> float:
        """Return how far the first tensor that moves along it does so; infinite if none does."""
        for load in loads_in(items_of((fold,))):
            for digits, at in zip(tree.tensor(load.tensor).digits, load.index, strict=True):
                factor = 0 if isinstance(at, Load) else abs(self.factor(at))
                if factor:
                    return abs(stride_at(digits, factor))
        return inf


class _Rewriter:
    """Applies one transform."""

    def __init__(self, tree: LoopTree, transform: Transform) -> None:
        self.tree, self.transform = tree, transform
        self.loops = [item for item in items_of(tree.items) if isinstance(item, Each)]
        self.axes = {axis.name: axis for each in self.loops for axis in each.axes}

    def fail(self, why: str) -> NoReturn:
        """Reject the transform."""
        raise refuse("RS-V09:no-rewrite", transform=self.transform, why=why)

    def rewritten(self) -> LoopTree:
        """Return the tree after the transform."""
        if self.transform.name == "block":
            return self._blocked(*self.transform.args)
        name, *axes = map(str, self.transform.args or ("",))
        path = next((path for item in self.tree.items for path in _paths(item, name)), [])
        if not path:
            found = [state for each in self.loops for fold in each.folds for state in fold.names]
            self.fail(f"there is no fold {name or 'without a name'}, only {', '.join(found) or 'none'}")
        if any(each.in_order for each in path):
            self.fail("the positions of the loop, or of one around it, run in order")
        if self.transform.name == "split_fold":
            return self._with_split_fold(path[-1], axes)
        return self._with_rows(path, axes)

    def _replaced(self, old: Each, *new: Item) -> LoopTree:
        """Return the tree with a loop replaced by items."""
        return replace(self.tree, items=_with_items(self.tree.items, old, new))

    # --- axes and folds

    def _blocked(self, name: object = "", size: object = 0, *more: object) -> LoopTree:
        """Split an axis into blocks and positions within them."""
        each = next((each for each in self.loops if any(axis.name == name for axis in each.axes)), None)
        if each is None or not isinstance(name, str) or more:
            self.fail(f"it takes an axis of {', '.join(self.axes)}, and a number")
        axis = self.axes[name]
        if not isinstance(size, int) or not 1 <= size <= axis.extent:
            self.fail(f"a block of {name} must have 1 to {axis.extent} positions")
        blocks, places = TreeAxis(f"{name}.block", -(-axis.extent // size)), TreeAxis(f"{name}.place", size)
        if not {blocks.name, places.name}.isdisjoint(self.axes):
            self.fail(f"an axis {blocks.name} or {places.name} exists already")
        index = blocks * size + places
        made = with_indices(each, lambda at: at.with_axes({name: index}))
        axes = tuple(part for own in each.axes for part in ((blocks, places) if own == axis else (own,)))
        rest = (Guard(index, axis.extent),) if axis.extent % size else ()
        return self._replaced(each, replace(made, axes=axes, guards=(*made.guards, *rest)))

    def _with_split_fold(self, each: Each, last: Sequence[str]) -> LoopTree:
        """Split folds in two: over the axes that stay inside, then over the last ones."""
        own = [axis.name for axis in each.axes]
        if not last or not set(last).issubset(own):
            self.fail(f"it takes axes of the fold, which are {', '.join(own)}")
        inner = {name for name in own if name not in last}
        of_last = tuple(guard for guard in each.guards if inner.isdisjoint(guard.index.axes))
        parts = (
            replace(item, names=tuple(map(part_of, item.names))) if isinstance(item, Fold) else item
            for item in each.items
        )
        first = Each(
            tuple(axis for axis in each.axes if axis.name in inner),
            tuple(parts),
            tuple(guard for guard in each.guards if guard not in of_last),
            each.locals,
        )
        folds = (
            replace(fold, values=tuple(Ref(part_of(name)) for name in fold.names)) for fold in each.folds
        )
        axes = tuple(axis for axis in each.axes if axis.name in last)
        return self._replaced(each, Each(axes, (first, *folds), of_last))

    # --- rows

    def _with_rows(self, path: Sequence[Each], around: Sequence[str]) -> LoopTree:
        """Fold the innermost loop of a path into rows, which are filled before they are read."""
        *loops, fold = path
        at = self._level(loops, around)
        outermost, reader = loops[at], loops[-1]
        self._check_free(fold, loops[at:])
        # Elements that are folded together are farthest apart.
        kept = [axis for each in (reader, *loops[at:-1]) for axis in each.axes if axis.name not in around]
        if not all(axis.extent for axis in kept):
            self.fail("an axis has no positions")
        names = {axis.name for axis in kept}
        moved = [
            guard for each in loops[at:] for guard in each.guards if not names.isdisjoint(guard.index.axes)
        ]
        producer = replace(fold, guards=(*fold.guards, *moved))
        dims = self._dims(producer, kept)
        sizes, real = tuple(dim.axis.extent for dim in dims), self.tree.number.storage
        states = [state for each in fold.folds for state in each.names]
        taken = {each.name for each in (*self.tree.tensors, *_locals(self.loops))}
        rows = {state: TreeTensor.row_major(_free_name(state, taken), sizes, real) for state in states}
        alone = {dim.form[0][0] for dim in dims if len(dim.form) == 1}
        if not alone.issuperset(axis.name for axis in kept if axis.extent > 1) and any(
            isinstance(item, Store) for item in items_of((fold,))
        ):
            self.fail(
                "the loop of the fold writes, and positions of its rows differ from those of the outer loops"
            )
        filled = _filled(producer, dims, rows)
        loads: dict[str, Expr] = {
            state: row.load(*(dim.place for dim in dims)) for state, row in rows.items()
        }
        rest = with_values(
            replace(reader, items=tuple(item for item in reader.items if item is not fold)),
            lambda leaf: loads.get(leaf.name, leaf) if isinstance(leaf, Ref) else leaf,
        )
        if _folds_alone(reader, fold):
            # Where its guards do not hold, rows have the neutral element.
            rest = replace(rest, guards=tuple(guard for guard in reader.guards if guard not in moved))
        if reader is not outermost:
            rest = replace(outermost, items=_with_items(outermost.items, reader, (rest,)))
        if self.transform.name == "compute_root":
            whole = replace(self.tree, tensors=(*self.tree.tensors, *rows.values()))
            return replace(whole, items=_with_items(whole.items, outermost, (*filled, rest)))
        outside = tuple(guard for guard in rest.guards if names.isdisjoint(guard.index.axes))
        inside = tuple(guard for guard in rest.guards if guard not in outside)
        inner = tuple(axis for axis in outermost.axes if axis.name not in around)
        # Items that belong to each position stay with it.
        own_rows, new_rows = outermost.locals, tuple(rows.values())
        last: tuple[Item, ...] = (Each(inner, rest.items, inside, own_rows),) if inner else rest.items
        own = tuple(self.axes[name] for name in around if self.axes[name] in outermost.axes)
        return self._replaced(
            outermost, Each(own, (*filled, *last), outside, new_rows if inner else (*own_rows, *new_rows))
        )

    def _level(self, loops: Sequence[Each], around: Sequence[str]) -> int:
        """Return the number of the loop in which rows are filled; 0 for rows of all positions."""
        names = [axis.name for each in loops for axis in each.axes]
        if self.transform.name == "compute_root":
            if around or not loops:
                self.fail("it takes only the result of a fold in another loop")
            return 0
        wanted = set(around)
        for number, each in enumerate(loops):
            own = {axis.name for axis in each.axes}
            if wanted <= own and wanted:
                return number
            if not own <= wanted:
                break
            wanted -= own
        return self.fail(f"it takes axes of the loops around the fold, outermost first: {', '.join(names)}")

    def _check_free(self, fold: Each, loops: Sequence[Each]) -> None:
        """Reject a fold that needs results of the outer loops before it, or writes what they read."""
        inside, outside = list(items_of((fold,))), list(items_of(loops))
        parts = list(parts_in(inside))
        found = {name for item in outside for name in _names_of(item)}
        needed = {part.name for part in parts if isinstance(part, Ref)} & found
        needed -= {name for item in inside for name in _names_of(item)}
        written = {item.tensor for item in outside if isinstance(item, Store) and item not in inside}
        needed |= {part.tensor for part in parts if isinstance(part, Load)} & written
        stored = {item.tensor for item in inside if isinstance(item, Store)}
        others = [item for item in outside if item not in inside]
        read = {load.tensor for load in loads_in(others)}
        rows = {tensor.name for tensor in _locals(item for item in others if isinstance(item, Each))}
        if stored & (read | rows):
            self.fail(f"the loop of the fold writes {', '.join(sorted(stored & (read | rows)))} for others")
        if needed:
            self.fail(f"the fold needs {', '.join(sorted(needed))}, which is computed in the same loop")

    def _dims(self, fold: Each, kept: Sequence[TreeAxis]) -> list[_Dim]:
        """Return the dims of rows: sums of axes, if the fold depends only on those; else the axes."""
        names = [axis.name for axis in kept]
        indices = [index for index in _indices(fold) if not index.axes.isdisjoint(names)]
        forms = dict.fromkeys(_form(index, names) for index in indices)
        used = [name for name in names if any(name in index.axes for index in indices)]
        is_plain = len(forms) > len(used) or any(index.divisor > 1 for index in indices)
        if is_plain:
            forms = dict.fromkeys(((name, 1),) for name in used)
        dims = [
            self._dim(fold, form, frozenset(name for name, _ in form) if is_plain else frozenset(names))
            for form in sorted(forms, key=lambda form: names.index(form[0][0]))
        ]
        if self.transform.name == "compute_root":
            return dims
        return sorted(dims, key=lambda dim: -dim.movement(self.tree, fold))

    def _dim(self, fold: Each, form: _Form, among: frozenset[str]) -> _Dim:
        reach = [factor * (self.axes[name].extent - 1) for name, factor in form]
        first, extent = sum(min(each, 0) for each in reach), sum(map(abs, reach)) + 1
        axis = self.axes[form[-1][0]]
        if len(form) > 1:
            axis = TreeAxis(f"{fold.folds[0].names[0]}.{axis.name}", extent)
        dim, low, high = _Dim(axis, form, first, among, (0, extent)), 0, extent
        for guard in fold.guards:
            factor = dim.factor(guard.index)
            if factor and len(guard.index.terms) == len(form) and guard.index.divisor == 1:
                ends = (-guard.index.constant, guard.size - 1 - guard.index.constant)
                least, most = sorted(end / factor for end in ends)
                low, high = max(low, ceil(least) - first), min(high, floor(most) - first + 1)
        return replace(dim, inside=(low, max(low, high)))


def _filled(fold: Each, dims: Sequence[_Dim], rows: dict[str, TreeTensor]) -> list[Item]:
    """Return the loops that fill rows: all positions at once, or the interior of a dim and then its edges."""
    edged = next((dim for dim in reversed(dims) if dim.has_edges), None)
    low, high = edged.inside if edged else (0, 0)
    inside = TreeAxis(f"{edged.axis.name}.inside", high - low) if edged else None
    at = [inside + low if inside and dim is edged else dim.axis + 0 for dim in dims]
    for dim, place in zip(dims, at, strict=True):
        # A whole axis runs over its dim directly.
        if dim is edged or len(dim.form) > 1:
            fold = with_indices(fold, partial(dim.with_place, place))
    stores = (row.store(tuple(at), Ref(state)) for state, row in rows.items())
    if edged is None or inside is None:
        return [Each(tuple(dim.axis for dim in dims), (fold, *stores))]
    # All positions of the interior satisfy the guards on that dim alone.
    guards = tuple(
        guard for guard in fold.guards if guard.index.axes != {inside.name} or guard.index.divisor > 1
    )
    loops: list[Item] = [Each((inside,), (replace(fold, guards=guards), *stores))] if high > low else []
    for side, first, end in (("left", 0, low), ("right", high, edged.axis.extent)):
        axis = TreeAxis(f"{edged.axis.name}.{side}", end - first)
        empty = [number for each in fold.folds for number in FOLDS[each.op].identity]
        edge = tuple(axis + first if dim is edged else dim.axis for dim in dims)
        items = (row.store(edge, Const(number)) for row, number in zip(rows.values(), empty, strict=True))
        loops += [Each((axis,), tuple(items))] if axis.extent else []
    others = tuple(dim.axis for dim in dims if dim is not edged)
    return [Each(others, tuple(loops))] if others else loops


def _form(index: Affine, names: Sequence[str]) -> _Form:
    """Return the part of an index in some axes, without a common factor."""
    terms = sorted((term for term in index.terms if term[0] in names), key=lambda term: names.index(term[0]))
    common = gcd(*(factor for _, factor in terms)) * (1 if terms[0][1] > 0 else -1)
    return tuple((name, factor // common) for name, factor in terms)


# --- items --------------------------------------------------------------------------------------------------


def _paths(item: Item, name: str) -> Iterator[list[Each]]:
    """Yield the loops from an item to one that folds into a name."""
    if isinstance(item, Each):
        if any(name in fold.names for fold in item.folds):
            yield [item]
        for inner in item.items:
            for path in _paths(inner, name):
                yield [item, *path]


def _with_items(items: Sequence[Item], old: Each, new: Sequence[Item]) -> tuple[Any, ...]:
    """Return items with a loop replaced, wherever it is nested."""
    found: list[Item] = []
    for item in items:
        if item is old:
            found += new
        elif isinstance(item, Each):
            found.append(replace(item, items=_with_items(item.items, old, new)))
        else:
            found.append(item)
    return tuple(found)


def _indices(each: Each) -> list[Affine]:
    """Return all indices in a loop, including those of its guards."""
    found: list[Affine] = []

    def noted(index: Affine) -> Affine:
        found.append(index)
        return index

    with_indices(each, noted)
    return found


def _names_of(item: Item) -> tuple[str, ...]:
    if isinstance(item, Let):
        return (item.name,)
    return item.names if isinstance(item, Fold) else ()


def _free_name(name: str, taken: set[str]) -> str:
    return name if name not in taken else _free_name(f"{name}.row", taken)


def _locals(loops: Iterable[Each]) -> Iterator[TreeTensor]:
    for each in loops:
        yield from each.locals


def _folds_alone(reader: Each, fold: Each) -> bool:
    """Return whether a loop only continues the same folds, so that neutral elements do not matter."""
    others = [item for item in reader.items if item is not fold]
    return len(others) == len(fold.folds) and all(
        isinstance(item, Fold) and (item.op, item.values) == (part.op, tuple(map(Ref, part.names)))
        for item, part in zip(others, fold.folds, strict=True)
    )
