"""Programs of attention: products of queries and keys, a softmax, products with the values.

Computed whole, these are three steps, with all scores in memory between them. On a grid, each grid position
handles a block of queries of one head and iterates over the keys in blocks, in order; scores, powers and
partial results stay in cache. With several key blocks, partial results are rescaled when a larger score
appears::

    top' = max(top, scores of the block)        old = e**(top - top')
    sum' = sum * old + sum of e**(scores - top')
    partial' = partial * old + sum of e**(scores - top') * value

| queries of a head | grid | scores and results |
| --- | --- | --- |
| many | batch, heads, blocks of queries | matrix products: keys as columns, values in f32 |
| few | batch, heads of keys | keys and values read once, in place, in any type |

Positions hide keys through causality, a window, lengths and offsets. They become two tables: the first key a
query sees, and the end of its keys. A key block is skipped if no query of a block sees any of its keys, and
tested key by key if only some are hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf, prod
from typing import TYPE_CHECKING

from ...desc.memory_desc import MemoryDesc
from ...dtypes import DataType
from ...ir.attribute_chain import move_step
from ...ir.digits import IndexDigit, index_digits, offset_at
from ...ir.expression import Affine, Apply, Const, Coordinate, Expr, Ref, TreeAxis, apply
from ...ir.numbers import Number
from ...ir.program import (
    OWN,
    GridCall,
    GridCondition,
    GridStep,
    Place,
    Program,
    Slot,
    Step,
    TreeStep,
)
from ...ir.tree import Each, Item, Let, LoopTree, TreeTensor, fold_over
from ..product import kernel_block

if TYPE_CHECKING:
    from ..attention import AttentionProblem

# The least finite f32: no score is smaller, so no difference of two scores is NaN.
LEAST = -3.4028234663852886e38
# The most keys in a block, and the block size if no number up to that divides all; where positions hide keys,
# smaller blocks skip more of them.
_KEYS, _KEYS_OF_UNEVEN, _KEYS_OF_BAND = 512, 256, 128
# The most queries in a block.
_ROWS = 96
# A position's own memory is on the stack of its thread, which some systems limit to half a megabyte.
_MOST_OWN_BYTES = 3 << 17
# With up to this many queries for a head of keys, keys and values are read in place.
_FEW = 8
# The tensors of where sequences begin and end.
_PLACES = "lengths", "offsets", "key_offsets"
# The tensors that can hide keys.
_HIDING = "first", "end", "base"
_NARROW = (DataType.boolean, DataType.u8, DataType.s8)
Dims = tuple[int, ...]
Index = tuple[Affine | TreeAxis | int, ...]


@dataclass(frozen=True, slots=True)
class AttentionView:
    """The tensors of trees by name, and the indices before those of rows, keys and width."""

    tensors: Mapping[str, TreeTensor]
    outer: Mapping[str, Index] = field(default_factory=dict)

    def load(self, name: str, *index: Affine | TreeAxis | int) -> Expr:
        return self.tensors[name].load(*self.outer.get(name, ()), *index)

    def store(self, name: str, index: Index, value: Expr) -> Item:
        return self.tensors[name].store((*self.outer.get(name, ()), *index), value)

    def __contains__(self, name: str) -> bool:
        return name in self.tensors


@dataclass(frozen=True, slots=True)
class AttentionAxes:
    """The axes of trees: the outer ones, queries of a block, keys, and the two widths."""

    around: tuple[TreeAxis, ...]
    rows: tuple[TreeAxis, ...]
    keys: TreeAxis
    width: TreeAxis
    values: TreeAxis


class AttentionProgram:
    """The program of a problem, as whole steps or on a grid."""

    def __init__(self, problem: AttentionProblem) -> None:
        self.problem = problem
        self.batch, self.heads, self.queries, self.width = problem.query.dims
        self.key_heads, self.keys, self.values = *problem.key.dims[1:3], problem.value.dims[3]
        self.group = self.heads // self.key_heads if self.key_heads else 1
        self.number = Number.real(is_wide=problem.is_wide)

    def program(self) -> Program:
        """Build the program, on a grid if that suits the problem, else in whole steps."""
        if not prod(self.problem.query.dims[:3]):
            return Program(self.slots, (), ()).verify()
        whole = self._whole()
        is_empty = 0 in (*self.problem.dst.dims, self.keys, self.width)
        if is_empty or self.problem.is_wide:
            return whole
        return _GridWriter(self, whole).program()

    @property
    def names(self) -> dict[str, MemoryDesc]:
        """The tensors that are present, in the order of slots."""
        problem = self.problem
        names = ("query", "dst", *problem.call[1:3], *problem.call[4:8], *problem.call[12:])
        return {name: md for name in names if not (md := getattr(problem, name)).is_zero()}

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The arguments."""
        problem = self.problem
        numbers = {name: arg for arg, name in problem.reads.items()}
        numbers |= {name: arg for arg, name in problem.also_writes.items()} | {"dst": problem.writes}
        return tuple(
            Slot(numbers[name], is_written=name in ("dst", "stats"), span=md.extent_range())
            for name, md in self.names.items()
        )

    @property
    def places(self) -> dict[str, Place]:
        """The place of each tensor."""
        return {name: Place(slot) for slot, name in enumerate(self.names)}

    # --- hiding keys ----------------------------------------------------------------------------------------

    @property
    def band(self) -> tuple[float, float]:
        """The range of visible keys, relative to the position of a query."""
        before, behind = (inf if n < 0 else float(n) for n in self.problem.window)
        return -before, min(behind, inf if self.problem.causal == "none" else 0.0)

    @property
    def bounds(self) -> tuple[str, ...]:
        """The tables that bound the visible keys of a query: from its `first` to before its `end`."""
        (low, high), is_packed = self.band, "offsets" in self.names
        if is_packed or low > -inf:
            return "first", "end"
        return ("end",) if high < inf or "lengths" in self.names else ()

    @property
    def bound_rows(self) -> int:
        """The number of batch elements with separate bounds."""
        return self.batch if "lengths" in self.names else 1

    def bounds_step(self, queries: int, to: Mapping[str, Place], at: Mapping[str, Place]) -> TreeStep:
        """Return the step that computes the tables for the queries; both increase along them."""
        b, i = TreeAxis("b", self.bound_rows), TreeAxis("i", queries)
        given = {name: TreeTensor.of_desc(name, self.names[name]) for name in _PLACES if name in self.names}
        tables = {name: TreeTensor.row_major(name, (b.extent, queries), DataType.s64) for name in to}
        items: list[Item] = []
        begin: dict[str, Expr] = {"query": Const(0.0), "key": Const(0.0)}
        end: dict[str, Expr] = {"query": Const(float(self.queries)), "key": Const(float(self.keys))}
        if "lengths" in given:
            end["key"] = _within(given["lengths"].load(b), self.keys)
        elif "offsets" in given:
            # A query before or after all sequences sees no key.
            last = given["offsets"].sizes[0] - 1
            s = TreeAxis("s", last + 1)
            of_keys = given.get("key_offsets", given["offsets"])
            sides = (("query", given["offsets"], self.queries), ("key", of_keys, self.keys))
            first = given["offsets"].load(s)
            folds: list[Item] = []
            for name, offsets, most in sides:
                own = _within(offsets.load(s), most)
                outside = _within(offsets.load(0), most), _within(offsets.load(last), most)
                is_before = apply("le", first, Coordinate(i + 0))
                folds.append(fold_over("max", f"{name}_begin", apply("select", is_before, own, outside[0])))
                folds.append(fold_over("min", f"{name}_end", apply("select", is_before, outside[1], own)))
                begin[name], end[name] = Ref(f"{name}_begin"), Ref(f"{name}_end")
            items.append(Each((s,), tuple(folds)))
        place = Coordinate(i + 0) - begin["query"] + begin["key"]
        if self.problem.causal == "bottom_right":
            place = place + (end["key"] - begin["key"]) - (end["query"] - begin["query"])
        (low, high), found = self.band, {"first": begin["key"], "end": end["key"]}
        for name, distance in (("first", low), ("end", high + 1.0)):
            if abs(distance) < inf:
                found[name] = apply("max", apply("min", place + distance, end["key"]), begin["key"])
        items += [table.store((b, i), found[name]) for name, table in tables.items()]
        tree = LoopTree((*given.values(), *tables.values()), (Each((b, i), tuple(items)),), number=Number.i64)
        places = (*(at[name] for name in given), *to.values())
        return TreeStep(tree.verify(), places, 8 * prod((b.extent, queries)), is_named=False)

    def values_step(self, md: MemoryDesc, to: Place) -> TreeStep:
        """Return the step that copies values; those past a length become 0, even NaN."""
        b, h, j = TreeAxis("b", self.batch), TreeAxis("h", self.key_heads), TreeAxis("j", self.keys)
        at = b, h, j, TreeAxis("v", self.values)
        given = {name: TreeTensor.of_desc(name, self.names[name]) for name in ("lengths", "value")}
        copied = TreeTensor.of_desc("values", md)
        is_seen = apply("lt", Coordinate(j + 0), given["lengths"].load(b))
        value = apply("select", is_seen, given["value"].load(*at), Const(0.0))
        tree = LoopTree((*given.values(), copied), (Each(at, (copied.store(at, value),)),)).verify()
        places = *(self.places[name] for name in given), to
        return TreeStep(tree, places, 8 * md.nelems, is_named=False)

    def hide(
        self,
        tensors: dict[str, TreeTensor],
        places: dict[str, Place],
        steps: list[Step],
        temporaries: list[int],
    ) -> None:
        """Add the tables for all queries of a problem, in further temporaries."""
        for name in self.bounds:
            places[name] = Place(~len(temporaries))
            sizes = self.bound_rows, self.queries
            temporaries.append(8 * prod(sizes))
            tensors[name] = TreeTensor.row_major(name, sizes, DataType.s64)
        if self.bounds:
            to = {name: places[name] for name in self.bounds}
            steps.append(self.bounds_step(self.queries, to, places))

    # --- trees ----------------------------------------------------------------------------------------------

    def scores(self, view: AttentionView, axes: AttentionAxes) -> Each:
        """Return the loop over products of queries and keys."""
        product = view.load("query", *axes.rows, axes.width) * view.load("key", axes.width, axes.keys)
        summed = Each((axes.width,), (fold_over("sum", "total", product),))
        stored = view.store("scores", (*axes.rows, axes.keys), Ref("total"))
        return Each((*axes.around, *axes.rows, axes.keys), (summed, stored))

    def score(self, view: AttentionView, axes: AttentionAxes) -> Expr:
        """Return a score with scale, cap, mask and hiding applied."""
        problem, at = self.problem, (*axes.rows, axes.keys)
        value = self.scaled(view, axes)
        if problem.soft_cap:
            value = self.capped(value)
        if "mask" in view and problem.mask.data_type not in _NARROW:
            value = value + view.load("mask", *at)
        elif "mask" in view:
            value = apply("select", view.load("mask", *at), value, Const(-inf))
        if "end" in view:
            place: Expr = Coordinate(axes.keys + 0)
            if "first" in view:
                place = apply("abs", place - Ref("middle"))
            value = apply("select", apply("lt", place, Ref("end")), value, Const(-inf))
        return value

    def capped(self, product: Expr) -> Expr:
        """Return a scaled product limited by the soft cap."""
        cap, word = self.problem.soft_cap, "tanh" if self.problem.is_wide else "tanh_single"
        return apply(word, product / cap) * cap

    def bounded(self, view: AttentionView, axes: AttentionAxes) -> list[Item]:
        """Return the items for where a row's keys end within a block, or how far keys are from its middle."""
        if "end" not in view:
            return []
        row = axes.rows[-1]
        end: Expr = view.load("end", row)
        middle = (view.load("first", row) + end - 1.0) * 0.5 if "first" in view else end
        if "base" in view:
            middle = middle - view.load("base")
        if "first" not in view:
            return [Let("end", middle)]
        return [Let("end", (end - view.load("first", row)) * 0.5), Let("middle", middle)]

    def scaled(self, view: AttentionView, axes: AttentionAxes) -> Expr:
        """Return a product of a query and a key, with their scales."""
        product: Expr = view.load("scores", *axes.rows, axes.keys)
        if "key_scales" in view:
            product = product * view.load("key_scales", axes.keys)
        return product * self.problem.scale if self.problem.scale != 1.0 else product

    def powers(self, view: AttentionView, axes: AttentionAxes) -> Each:
        """Replace scores by their powers, and `scales` by one over the row sum, for all keys at once."""
        rows, j = axes.rows, axes.keys
        top: Expr = apply("max", Ref("found"), LEAST)
        if "sinks" in view:
            top = apply("max", view.load("sinks", *self._sink(axes)), top)
        total: Expr = Ref("s")
        if "sinks" in view:
            total = total + self.power(view.load("sinks", *self._sink(axes)) - Ref("m"))
        items: list[Item] = [
            *self.bounded(view, axes),
            Each((j,), self._changed(view, axes)),
            Let("m", top),
            self._row_of_powers(view, axes),
            Let("total", total),
            view.store("scales", rows, _inverse(Ref("total"))),
        ]
        if "stats" in view:
            held = "logs" if "logs" in view else "stats"
            items.append(view.store(held, rows, Ref("m") + apply("log", Ref("total"))))
        return Each((*axes.around, *rows), tuple(items))

    def _row_of_powers(self, view: AttentionView, axes: AttentionAxes) -> Each:
        """Replace a row's scores by their powers relative to the top `m`, and compute their sum `s`."""
        share: Expr = Ref("e")
        if "value_scales" in view:
            share = share * view.load("value_scales", axes.keys)
            if "end" in view:
                # Values past a length are not valid scales.
                share = apply("select", Ref("e"), share, Const(0.0))
        stored = view.store("scores", (*axes.rows, axes.keys), share)
        power = self.power(self._kept(view, axes) - Ref("m"))
        return Each((axes.keys,), (Let("e", power), stored, fold_over("sum", "s", Ref("e"))))

    def logs(self, view: AttentionView, axes: AttentionAxes) -> Each:
        """Write the statistics, once all rows of a block have them."""
        return Each(axes.rows, (view.store("stats", axes.rows, view.load("logs", *axes.rows)),))

    def _changed(self, view: AttentionView, axes: AttentionAxes) -> tuple[Item, ...]:
        """Return items for the final scores and their row maximum. A scale alone is recomputed instead."""
        value = self.score(view, axes)
        if value == self._kept(view, axes):
            return (fold_over("max", "found", value),)
        stored = view.store("scores", (*axes.rows, axes.keys), Ref("y"))
        return (Let("y", value), stored, fold_over("max", "found", Ref("y")))

    def _kept(self, view: AttentionView, axes: AttentionAxes) -> Expr:
        """Return the score from memory that is exponentiated next."""
        loaded: Expr = view.load("scores", *axes.rows, axes.keys)
        if self.problem.soft_cap or "mask" in view or "end" in view:
            return loaded
        return self.scaled(view, axes)

    def begin(self, view: AttentionView, axes: AttentionAxes) -> tuple[Each, Each]:
        """Return the initial state before the first key block."""
        rows, sinks = axes.rows, "sinks" in view
        top: Expr = view.load("sinks", *self._sink(axes)) if sinks else Const(-inf)
        states = (view.store("top", rows, top), view.store("sum", rows, Const(1.0 if sinks else 0.0)))
        zeros = view.store("found", (*rows, axes.values), Const(0.0))
        return Each(rows, states), Each((*rows, axes.values), (zeros,))

    def block_powers(self, view: AttentionView, axes: AttentionAxes) -> Each:
        """Replace the scores of one of several blocks by powers; `old` rescales the partial results."""
        rows, j = axes.rows, axes.keys
        items: tuple[Item, ...] = (
            *self.bounded(view, axes),
            Each((j,), self._changed(view, axes)),
            Let("m", apply("max", apply("max", Ref("found"), view.load("top", *rows)), LEAST)),
            Let("less", self.power(view.load("top", *rows) - Ref("m"))),
            self._row_of_powers(view, axes),
            view.store("old", rows, Ref("less")),
            view.store("sum", rows, view.load("sum", *rows) * Ref("less") + Ref("s")),
            view.store("top", rows, Ref("m")),
        )
        return Each(rows, items)

    def found(self, view: AttentionView, axes: AttentionAxes, *, skips: bool = False) -> Each:
        """Return the loop over products of powers and values: added to partial results, or the result itself.

        `skips`: a value whose power is 0 is ignored, even if NaN.
        """
        rows, v, name = axes.rows, axes.values, "found" if "old" in view else "dst"
        power, value = view.load("scores", *rows, axes.keys), view.load("value", axes.keys, v)
        if skips:
            value = apply("select", power, value, Const(0.0))
        summed = Each((axes.keys,), (fold_over("sum", "total", power * value),))
        if name == "found":
            result: Expr = view.load("found", *rows, v) * view.load("old", *rows) + Ref("total")
        else:
            result = Ref("total") * view.load("scales", *rows)
        return Each((*axes.around, *rows, v), (summed, view.store(name, (*rows, v), result)))

    def finish(self, view: AttentionView, axes: AttentionAxes) -> Each:
        """Return the loop from the partial results to the result."""
        rows, v = axes.rows, axes.values
        result = view.store("dst", (*rows, v), view.load("found", *rows, v) * Ref("scale"))
        items: list[Item] = [
            Let("total", view.load("sum", *rows)),
            Let("scale", _inverse(Ref("total"))),
            Each((v,), (result,)),
        ]
        if "stats" in view:
            items.append(view.store("stats", rows, view.load("top", *rows) + apply("log", Ref("total"))))
        return Each(rows, tuple(items))

    def power(self, value: Expr) -> Apply:
        """Return e**value for a value that is at most 0."""
        return apply("exp" if self.problem.is_wide else "exp_down", value)

    def _sink(self, axes: AttentionAxes) -> Index:
        """Return the index of the head after the leading indices of a view."""
        return axes.rows[:-1]

    # --- whole steps ----------------------------------------------------------------------------------------

    def _whole(self) -> Program:
        problem, queries, keys = self.problem, self.queries, self.keys
        b, hk, g = TreeAxis("b", self.batch), TreeAxis("h", self.key_heads), TreeAxis("g", self.group)
        axes = AttentionAxes(
            (b, hk, g),
            (TreeAxis("i", queries),),
            TreeAxis("j", keys),
            TreeAxis("d", self.width),
            TreeAxis("v", self.values),
        )
        mds = {**self.names, "key": problem.key.permute_axes((0, 1, 3, 2))}
        tensors = {name: TreeTensor.of_desc(name, md) for name, md in mds.items()}
        rows = (self.batch, self.key_heads, self.group, queries)
        tensors["scores"] = TreeTensor.row_major("scores", (*rows, keys), self._held)
        tensors["scales"] = TreeTensor.row_major("scales", rows, self._held)
        steps, temporaries = list[Step](), list[int]()
        places = {**self.places}
        for name in ("scores", "scales"):
            places[name] = Place(~len(temporaries))
            temporaries.append(self._held.nbytes(prod(tensors[name].sizes)))
        self.hide(tensors, places, steps, temporaries)
        head = hk * self.group + g
        outer: dict[str, Index] = {
            **dict.fromkeys(("query", "mask", "dst", "stats"), (b, head)),
            **dict.fromkeys(("key", "value", "key_scales", "value_scales"), (b, hk)),
            **dict.fromkeys(("scores", "scales"), (b, hk, g)),
            **dict.fromkeys(("first", "end"), (b,)),
            "sinks": (head,),
        }
        view = AttentionView({name: t for name, t in tensors.items() if name not in _PLACES}, outer)
        skips = "lengths" in self.names
        for each in (self.scores(view, axes), self.powers(view, axes), self.found(view, axes, skips=skips)):
            steps.append(self._step(view, (each,), places))
        return Program(self.slots, tuple(steps), tuple(temporaries)).verify()

    @property
    def _held(self) -> DataType:
        return DataType.f64 if self.problem.is_wide else DataType.f32

    def _step(self, view: AttentionView, items: tuple[Each, ...], places: Mapping[str, Place]) -> TreeStep:
        tree = self.tree(view, items)
        at = tuple(places[tensor.name] for tensor in tree.tensors)
        return TreeStep(tree, at, self.problem.work_bytes // 3)

    def tree(self, view: AttentionView, items: tuple[Each, ...]) -> LoopTree:
        """Return the loop tree, with the tensors that the loops name."""
        every = LoopTree(tuple(view.tensors.values()), items, number=self.number)
        used = {*(load.tensor for load in every.loads), *(store.tensor for store in every.stores)}
        return replace(every, tensors=tuple(t for t in every.tensors if t.name in used)).verify()


def _within(number: Expr, most: int) -> Expr:
    """Clamp a number passed at execution to between 0 and `most`."""
    return apply("max", apply("min", number, float(most)), 0.0)


def _inverse(total: Expr) -> Expr:
    """Return one over a sum of powers; 0 for rows that see no key."""
    return apply("select", apply("gt", total, 0.0), 1.0 / total, Const(0.0))


# --- on a grid ----------------------------------------------------------------------------------------------


class _GridWriter:
    """Builds the steps before a grid, the memory of its positions, and its calls."""

    def __init__(self, maker: AttentionProgram, whole: Program) -> None:
        self.maker, self.problem, self.whole = maker, maker.problem, whole
        self.is_few = maker.group * maker.queries <= _FEW
        self.block = kernel_block()
        self.rows = maker.queries if self.is_few else _rows_of_block(maker.queries)
        # Executions skip whole blocks.
        is_banded = "lengths" in maker.names if self.is_few else maker.band != (-inf, inf)
        self.keys = _keys_of_block(maker.keys, self.block, is_banded=is_banded)
        self.row_blocks = -(-maker.queries // self.rows)
        self.key_blocks = -(-maker.keys // self.keys)
        self.all_rows = self.row_blocks * self.rows
        # With few queries, keys are read in place: the last block has only the remaining keys.
        self.all_keys = maker.keys if self.is_few else self.key_blocks * self.keys
        self.steps: list[Step] = []
        self.after: list[Step] = []
        self.temporaries: list[int] = []
        self.own_bytes = 0
        self.tensors: dict[str, TreeTensor] = {}
        self.at: dict[str, tuple[Place, tuple[int, ...]]] = {}
        names = ("b", "h", "j") if self.is_few else ("b", "h", "g", "i", "j")
        extents = {"b": maker.batch, "h": maker.key_heads, "g": maker.group, "i": self.row_blocks}
        self.grid = {name: extents.get(name, self.key_blocks) for name in names}

    def program(self) -> Program:
        """Return the program, with the grid as its last step."""
        maker = self.maker
        if self.is_few:
            self._few()
        else:
            self._many()
        self._hiding()
        self._states()
        if self.own_bytes > _MOST_OWN_BYTES:
            return self.whole
        grid = GridStep(
            *(tuple(self.grid.values()), self.own_bytes, tuple(self._calls()), self.problem.work_bytes),
            *(self.whole, "attention", self._told()),
        )
        steps = *self.steps, grid, *self.after
        return Program(maker.slots, steps, tuple(self.temporaries)).verify()

    def _told(self) -> str:
        of = f"{self.rows} queries" if not self.is_few else f"the queries of {self.maker.group} heads"
        return f"{of} at a time, and {self.keys} of {self.maker.keys} keys, in the caches"

    # --- tensors --------------------------------------------------------------------------------------------

    def _tile(
        self, name: str, md: MemoryDesc, place: Place, along: Mapping[int, int], **moves: tuple[int, int]
    ) -> None:
        """Add a part of a tensor, of the given extents in some dims. `moves`: for each axis of the grid, the
        dim along which the part moves, and by how many indices.
        """
        digits = {dim: index_digits(md, dim) for dim in range(md.ndims)}
        sizes = tuple(1 if md.dims[dim] == 1 else n for dim, n in along.items())
        own = tuple(digits[dim] for dim in along)
        nbytes = md.data_type.nbytes(1)
        strides = {
            axis: 0 if md.dims[dim] == 1 else offset_at(digits[dim], n) * nbytes
            for axis, (dim, n) in moves.items()
        }
        self.tensors[name] = TreeTensor(name, md.data_type, sizes, sizes, own)
        self._lie(name, place._replace(offset=place.offset + md.offset0 * nbytes), strides)

    def _lie(self, name: str, place: Place, strides: Mapping[str, int]) -> None:
        self.at[name] = place, tuple(strides.get(axis, 0) for axis in self.grid)

    def _own(self, name: str, *sizes: int) -> None:
        """Allocate memory of each position."""
        self.tensors[name] = TreeTensor.row_major(name, sizes)
        self._lie(name, Place(OWN, self.own_bytes), {})
        self.own_bytes += -(-4 * prod(sizes) // 64) * 64

    def _temporary(self, nbytes: int) -> Place:
        self.temporaries.append(max(nbytes, 1))
        return Place(-len(self.temporaries))

    def _copied(self, name: str, md: MemoryDesc, elements: int) -> Place:
        """Allocate a temporary of `elements`, and add a step that moves a tensor into it."""
        place = self._temporary(md.data_type.nbytes(elements))
        own = self.maker.names[name]
        source = own.permute_axes((0, 1, 3, 2)) if name == "key" else own
        self.steps.append(replace(move_step(source, md, self.maker.places[name], place), is_named=False))
        return place

    def _held(
        self, name: str, moves: Mapping[str, tuple[int, int]], padded: Dims
    ) -> tuple[MemoryDesc, Place]:
        """Return a tensor in place if its parts are evenly spaced and `padded` indices exist; else a copy."""
        own = self.maker.names[name]
        md = own.permute_axes((0, 1, 3, 2)) if name == "key" else own
        if all(n == 1 or n >= m for n, m in zip(md.dims, padded, strict=True)) and _is_even(md, moves):
            return md, self.maker.places[name]
        sizes = tuple(n if n == 1 else max(n, m) for n, m in zip(md.dims, padded, strict=True))
        strides = tuple(prod(sizes[dim + 1 :]) for dim in range(md.ndims))
        md = MemoryDesc.from_strides(md.dims, md.data_type, strides)
        return md, self._copied(name, md, prod(sizes))

    def _read(self, name: str, along: Mapping[int, int], padded: Dims, **moves: tuple[int, int]) -> None:
        if name in self.maker.names:
            md, place = self._held(name, moves, padded)
            self._tile(name, md, place, along, **moves)

    def _written(self, name: str, along: Mapping[int, int], **moves: tuple[int, int]) -> None:
        """Add a tensor that is written in place, or in a temporary and moved at the end."""
        if name not in self.maker.names:
            return
        md, place = self.maker.names[name], self.maker.places[name]
        if md.padded_dims != md.dims or not _is_even(md, moves):
            plain = MemoryDesc(md.dims, md.data_type)
            held = self._temporary(plain.size)
            self.after.append(replace(move_step(plain, md, held, place), is_named=False))
            md, place = plain, held
        self._tile(name, md, place, along, **moves)

    def _many(self) -> None:
        """Set up keys as adjacent columns, and f32 values and queries, all in whole blocks."""
        maker, problem = self.maker, self.problem
        b, hk, d, block = maker.batch, maker.key_heads, maker.width, self.block
        of_head, group = {"b": (0, 1), "h": (1, 1)}, maker.group
        packed = MemoryDesc((b, hk, d, maker.keys), DataType.f32, f"abDc{block}d")
        # Clear columns past the last key, as many as the last block has.
        columns = -(-self.all_keys // block) * block
        strides = (hk * d * columns, d * columns, block, block * d)
        packed = _with_strides(packed, strides)
        if problem.key.permute_axes((0, 1, 3, 2)) == packed and self.all_keys == maker.keys:
            place = maker.places["key"]
        else:
            place = self._copied("key", packed, b * hk * d * columns)
        self._tile("key", packed, place, {2: d, 3: self.keys}, **of_head, j=(3, self.keys))
        v = -(-maker.values // block) * block
        strides = (hk * self.all_keys * v, self.all_keys * v, block, self.all_keys * block)
        md = MemoryDesc((b, hk, maker.keys, maker.values), DataType.f32, f"abDc{block}d")
        md = _with_strides(md, strides)
        is_short = maker.keys <= _KEYS and self._is_plain(problem.value) and _is_even(problem.value, of_head)
        has_lengths = "lengths" in maker.names
        is_whole = self.all_keys == maker.keys and not has_lengths
        if is_whole and (is_short or problem.value == md):
            md, place = problem.value, maker.places["value"]
        else:
            elements = b * hk * self.all_keys * v
            if has_lengths:
                place = self._temporary(4 * elements)
                self.steps.append(maker.values_step(md, place))
            else:
                place = self._copied("value", md, elements)
            self._clear_rows(place, b * hk * v // block, (maker.keys, self.all_keys), block)
        self._tile("value", md, place, {2: self.keys, 3: maker.values}, **of_head, j=(2, self.keys))
        of_row = {"b": (0, 1), "h": (1, group), "g": (1, 1), "i": (2, self.rows)}
        if (
            self._is_plain(problem.query)
            and self.all_rows == maker.queries
            and _is_even(problem.query, of_row)
        ):
            md, place = problem.query, maker.places["query"]
        else:
            strides = (maker.heads * self.all_rows * d, self.all_rows * d, d, 1)
            md = MemoryDesc.from_strides(problem.query.dims, DataType.f32, strides)
            place = self._copied("query", md, b * maker.heads * self.all_rows * d)
            # Padding must not contain denormals, which take a hundred times as long to multiply.
            self._clear_rows(place, b * maker.heads, (maker.queries, self.all_rows), d)
        self._tile("query", md, place, {2: self.rows, 3: d}, **of_row)
        self._written("dst", {2: self.rows, 3: maker.values}, **of_row)
        self._written("stats", {2: self.rows}, **of_row)
        padded = (0, 0, self.all_rows, self.all_keys)
        self._read("mask", {2: self.rows, 3: self.keys}, padded, **of_row, j=(3, self.keys))
        self._read("sinks", {}, (0,), h=(0, group), g=(0, 1))
        self._scales((0, 0, self.all_keys))

    def _few(self) -> None:
        """Set up keys and values in place."""
        maker, group, rows = self.maker, self.maker.group, {1: self.maker.group, 2: self.rows}
        of_head, of_row, four = {"b": (0, 1), "h": (1, 1)}, {"b": (0, 1), "h": (1, group)}, (0,) * 4
        self._read("key", {2: maker.width, 3: self.keys}, four, **of_head, j=(3, self.keys))
        self._read("value", {2: self.keys, 3: maker.values}, four, **of_head, j=(2, self.keys))
        self._read("query", {**rows, 3: maker.width}, four, **of_row)
        self._written("dst", {**rows, 3: maker.values}, **of_row)
        self._written("stats", rows, **of_row)
        self._read("mask", {**rows, 3: self.keys}, four, **of_row, j=(3, self.keys))
        self._read("sinks", {0: group}, (0,), h=(0, group))
        self._scales((0, 0, 0))

    def _scales(self, padded: Dims) -> None:
        for name in ("key_scales", "value_scales"):
            self._read(name, {2: self.keys}, padded, b=(0, 1), h=(1, 1), j=(2, self.keys))

    @staticmethod
    def _is_plain(md: MemoryDesc) -> bool:
        """Return whether rows are f32 with adjacent elements."""
        return md.data_type is DataType.f32 and not md.inner_blks and md.strides[-1] == 1

    def _clear_rows(self, place: Place, heads: int, rows: tuple[int, int], width: int) -> None:
        """Zero the padding rows in a range."""
        first, end = rows
        if first < end:
            h, j, v = TreeAxis("h", heads), TreeAxis("j", end - first), TreeAxis("v", width)
            sizes = h.extent, j.extent, width
            digits = tuple((IndexDigit(1, n),) for n in (end * width, width, 1))
            tensor = TreeTensor("rows", DataType.f32, sizes, sizes, digits, first * width)
            tree = LoopTree((tensor,), (Each((h, j, v), (tensor.store((h, j, v), Const(0.0)),)),)).verify()
            self.steps.append(TreeStep(tree, (place,), 4 * prod(sizes), is_named=False))

    def _hiding(self) -> None:
        """Set up the tables that hide keys."""
        maker, count = self.maker, self.maker.bound_rows
        bounds = maker.bounds
        if self.all_keys > maker.keys and "end" not in bounds:
            bounds = *bounds, "end"
        if not bounds:
            return
        places = {name: self._temporary(8 * count * self.all_rows) for name in bounds}
        self.steps.append(maker.bounds_step(self.all_rows, places, maker.places))
        for name, place in places.items():
            self.tensors[name] = TreeTensor.row_major(name, (self.rows,), DataType.s64)
            strides = {"b": 8 * self.all_rows * (count > 1), "i": 8 * self.rows}
            self._lie(name, place, strides)
        if self.key_blocks > 1:
            # The start of each key block.
            j, table = TreeAxis("j", self.key_blocks), TreeTensor.row_major("base", (self.key_blocks,))
            place, first = self._temporary(4 * j.extent), Coordinate(j * self.keys)
            tree = LoopTree((table,), (Each((j,), (table.store((j,), first),)),)).verify()
            self.steps.append(TreeStep(tree, (place,), 4 * j.extent, is_named=False))
            self.tensors["base"] = TreeTensor.row_major("base", ())
            self._lie("base", place, {"j": 4})

    def _states(self) -> None:
        """Set up the memory of a position."""
        rows = tuple(axis.extent for axis in self._axes.rows)
        self._own("scores", *rows, self.keys)
        if self.key_blocks == 1:
            self._own("scales", *rows)
            if "stats" in self.maker.names:
                self._own("logs", *rows)
            return
        for name in ("top", "sum", "old"):
            self._own(name, *rows)
        self._own("found", *rows, self.maker.values)

    @property
    def _axes(self) -> AttentionAxes:
        i = TreeAxis("i", self.rows)
        rows = (TreeAxis("g", self.maker.group), i) if self.is_few else (i,)
        d, v = TreeAxis("d", self.maker.width), TreeAxis("v", self.maker.values)
        return AttentionAxes((), rows, TreeAxis("j", self.keys), d, v)

    # --- calls ----------------------------------------------------------------------------------------------

    def _calls(self) -> Iterator[GridCall]:
        maker, axes, last = self.maker, self._axes, self.key_blocks - 1
        view, skips = AttentionView(self.tensors), self.is_few
        # A single key block writes the result directly, even without keys.
        seen, rest = self._seen() if last else [], maker.keys - last * self.keys
        if last:
            for each in maker.begin(view, axes):
                yield self._call(view, each, [self._where(0, j=-1)])
        if self.is_few and rest < self.keys:
            before = self._where(last - 1, j=-1)
            yield from self._block(axes, [*seen, before], skips=skips)
            part = replace(axes, keys=TreeAxis("j", rest))
            yield from self._block(part, [*seen, _not(before)], skips=skips)
        else:
            yield from self._block(axes, seen, skips=skips)
        if last:
            yield from self._ends(view, maker.finish, axes, [self._where(-last, j=1)])

    def _block(self, axes: AttentionAxes, seen: list[GridCondition], *, skips: bool) -> Iterator[GridCall]:
        """Yield the calls for a key block; the one without hidden keys does not test for them."""
        maker, is_only, view = self.maker, self.key_blocks == 1, AttentionView(self.tensors)
        powers, inside = maker.powers if is_only else maker.block_powers, self._inside(axes.keys.extent)
        plain = AttentionView({name: t for name, t in self.tensors.items() if name not in _HIDING})
        hidden = [[*inside[:number], _not(condition)] for number, condition in enumerate(inside)]
        yield self._call(view, maker.scores(view, axes), seen)
        yield self._call(plain, powers(plain, axes), [*seen, *inside])
        for conditions in hidden:
            yield self._call(view, powers(view, axes), [*seen, *conditions])
        found = [(inside, False), *((conditions, True) for conditions in hidden)]
        for conditions, may_skip in found if skips and inside else [([], skips)]:
            make = partial(maker.found, skips=may_skip)
            if is_only:
                yield from self._ends(view, make, axes, conditions)
            else:
                yield self._call(view, make(view, axes), [*seen, *conditions])
        if is_only and "stats" in maker.names:
            yield from self._ends(view, maker.logs, axes, [])

    def _ends(
        self,
        view: AttentionView,
        make: Callable[[AttentionView, AttentionAxes], Each],
        axes: AttentionAxes,
        conditions: list[GridCondition],
    ) -> Iterator[GridCall]:
        """Yield the calls that write the result; the last block of queries has fewer rows."""
        rest = self.maker.queries - (self.row_blocks - 1) * self.rows
        if rest == self.rows:
            yield self._call(view, make(view, axes), conditions)
            return
        before = self._where(self.row_blocks - 2, i=-1)
        yield self._call(view, make(view, axes), [*conditions, before])
        part = replace(axes, rows=(TreeAxis("i", rest),))
        yield self._call(view, make(view, part), [*conditions, _not(before)])

    def _call(self, view: AttentionView, each: Each, conditions: Sequence[GridCondition]) -> GridCall:
        tree = self.maker.tree(view, (each,))
        places, strides = zip(*(self.at[tensor.name] for tensor in tree.tensors), strict=True)
        return GridCall(TreeStep(tree, places, 0), strides, tuple(conditions))

    def _where(self, constant: int, **factors: int) -> GridCondition:
        return GridCondition(constant, tuple(factors.get(axis, 0) for axis in self.grid))

    def _seen(self) -> list[GridCondition]:
        """Return the conditions under which a block has keys that one of its queries can see."""
        found = []
        if "end" in self.maker.bounds:
            found.append(self._bound("end", self.rows - 1, 1, -1, j=-self.keys))
        if "first" in self.maker.bounds:
            found.append(self._bound("first", 0, -1, self.keys - 1, j=self.keys))
        return found

    def _inside(self, keys: int) -> list[GridCondition]:
        """Return the conditions under which a block of keys hides nothing; each of them can be negated."""
        found = []
        if "end" in self.tensors:
            found.append(self._bound("end", 0, 1, -keys, j=-self.keys))
        if "first" in self.tensors:
            found.append(self._bound("first", self.rows - 1, -1, 0, j=self.keys))
        return found

    def _bound(self, name: str, row: int, sign: int, constant: int, **factors: int) -> GridCondition:
        """Return a condition on the bound of a block's row, which is added or subtracted."""
        place, strides = self.at[name]
        condition = self._where(constant, **factors)
        return replace(
            condition, added=place._replace(offset=place.offset + 8 * row), strides=strides, sign=sign
        )


def _is_even(md: MemoryDesc, moves: Mapping[str, tuple[int, int]]) -> bool:
    """Return whether parts at these index distances are evenly spaced in memory."""
    tops = ((index_digits(md, dim)[-1].step, n, md.dims[dim]) for dim, n in moves.values())
    return all(step == 1 or n % step == 0 or size == 1 for step, n, size in tops)


def _not(condition: GridCondition) -> GridCondition:
    """Return the negation of a condition."""
    factors = tuple(-factor for factor in condition.factors)
    constant, sign = -condition.constant - 1, -condition.sign
    return replace(condition, constant=constant, factors=factors, sign=sign)


def _with_strides(md: MemoryDesc, strides: tuple[int, ...]) -> MemoryDesc:
    """Return a blocked descriptor with other strides."""
    return MemoryDesc.from_dict({**md.to_dict(), "strides": list(strides)})


def _rows_of_block(queries: int) -> int:
    """Return the queries of a block: of the sizes that waste the fewest rows, the largest."""
    blocks = range(-(-queries // _ROWS), -(-3 * queries // _ROWS) + 1)
    return min((-(-queries // n) for n in blocks), key=lambda rows: -(-queries // rows) * rows - queries)


def _keys_of_block(keys: int, block: int, *, is_banded: bool) -> int:
    """Return the keys of a block: all, a divisor of all, or a number that leaves a shorter block."""
    if is_banded:
        return min(keys, _KEYS_OF_BAND)
    if keys <= _KEYS:
        return keys
    return next((n for n in range(_KEYS, _KEYS_OF_UNEVEN // 2, -block) if keys % n == 0), _KEYS_OF_UNEVEN)
