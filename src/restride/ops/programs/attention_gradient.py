"""The program of the gradients of attention: scores are recomputed, and the statistics give their powers.

    powers[i, j] = e**(scores[i, j] - stats[i])
    diff_value[j, v] = sum over i of powers[i, j] * diff_dst[i, v]
    delta[i] = sum over v of dst[i, v] * diff_dst[i, v]
    diff_scores[i, j] = powers[i, j] * (sum over v of diff_dst[i, v] * value[j, v] - delta[i])
    diff_query[i, d] = scale * sum over j of diff_scores[i, j] * key[j, d]
    diff_key[j, d] = scale * sum over i of diff_scores[i, j] * query[i, d]

A soft cap c multiplies each difference by `1 - (score / c)**2`. All scores are in memory at once.
Sums over queries also run over the heads that a head of keys serves.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ...desc.arguments import ARG_DST
from ...desc.memory_desc import MemoryDesc
from ...dtypes import DataType
from ...ir.attribute_chain import move_step
from ...ir.expression import Const, Expr, Ref, TreeAxis, apply
from ...ir.program import Place, Program, Slot, Step, TreeStep
from ...ir.tree import Each, Item, Let, TreeTensor, fold_over
from .attention import LEAST, AttentionAxes, AttentionProgram, AttentionView, Index

if TYPE_CHECKING:
    from ..attention import AttentionBackwardProblem


class AttentionGradient:
    """The steps of a problem."""

    def __init__(self, problem: AttentionBackwardProblem) -> None:
        self.problem, self.forward = problem, AttentionProgram(problem.forward())
        # Slot 0 is the first tensor read, slot 1 the first one written.
        first, *others = problem.sources()
        order = [first, problem.writes, *others, *problem.outputs()]
        mds = {**problem.by_argument(), **problem.outputs()}
        written = {problem.writes, *problem.outputs()}
        names = {**problem.reads, **problem.also_writes, problem.writes: "diff_query", ARG_DST: "dst"}
        self.program_slots = tuple(
            Slot(arg, is_written=arg in written, span=mds[arg].extent_range()) for arg in order
        )
        self.mds = {names[arg]: mds[arg] for arg in order}
        self.given = {names[arg]: Place(slot) for slot, arg in enumerate(order)}
        self.places = dict(self.given)
        self.steps: list[Step] = []
        self.temporaries: list[int] = []
        self.held = DataType.f64 if problem.forward().is_wide else DataType.f32

    def program(self) -> Program:
        """The program."""
        maker = self.forward
        b, hk, g = (
            TreeAxis(*each) for each in (("b", maker.batch), ("h", maker.key_heads), ("g", maker.group))
        )
        i, j = TreeAxis("i", maker.queries), TreeAxis("j", maker.keys)
        d, v = TreeAxis("d", maker.width), TreeAxis("v", maker.values)
        axes, around = AttentionAxes((b, hk, g), (i,), j, d, v), (b, hk, g, i)
        if not prod(self.problem.result.dims):
            return self._zeros()
        view = self._view(b, hk, g)
        self._run(view, maker.scores(view, axes))
        self._run(view, Each((*around, j), self._powers(view, axes)))
        summed = _summed((v,), view.load("dst", i, v) * view.load("diff_dst", i, v))
        self._run(view, Each(around, (summed, view.store("delta", (i,), Ref("total")))))
        summed = _summed((g, i), view.load("scores", i, j) * view.load("gradient", i, v))
        self._run(view, Each((b, hk, j, v), (summed, view.store("diff_value", (j, v), Ref("total")))))
        summed = _summed((v,), view.load("gradient", i, v) * view.load("values", v, j))
        difference: Expr = view.load("scores", i, j) * (Ref("total") - view.load("delta", i))
        if self.problem.scale != 1.0:
            difference = difference * self.problem.scale
        if "caps" in view:
            difference = difference * view.load("caps", i, j)
        # A key that contributes nothing has no gradient, even if it contains NaN.
        has_share = apply("ne", view.load("scores", i, j), 0)
        difference = apply("select", has_share, difference, 0)
        self._run(view, Each((*around, j), (summed, view.store("scores", (i, j), difference))))
        summed = _summed((j,), view.load("scores", i, j) * view.load("rows", j, d))
        self._run(view, Each((*around, d), (summed, view.store("diff_query", (i, d), Ref("total")))))
        summed = _summed((g, i), view.load("scores", i, j) * view.load("query", i, d))
        self._run(view, Each((b, hk, j, d), (summed, view.store("diff_key", (j, d), Ref("total")))))
        return Program(self.program_slots, tuple(self.steps), tuple(self.temporaries)).verify()

    def _powers(self, view: AttentionView, axes: AttentionAxes) -> tuple[Item, ...]:
        """Replace scores by their powers, and keep the slopes of a soft cap."""
        i, j, cap = axes.rows[0], axes.keys, self.problem.soft_cap
        maker = self.forward
        items: list[Item] = [*maker.bounded(view, axes), Let("y", maker.score(view, axes))]
        if cap:
            share = maker.capped(maker.scaled(view, axes)) * (1.0 / cap)
            items.append(view.store("caps", (i, j), 1.0 - share * share))
        stats = view.load("stats", i)
        # The statistic of an empty row is the least number, not a logarithm.
        power = apply(
            "select", apply("le", stats, LEAST), Const(0.0), maker.power(apply("min", Ref("y") - stats, 0.0))
        )
        items.append(view.store("scores", (i, j), power))
        return tuple(items)

    def _view(self, b: TreeAxis, hk: TreeAxis, g: TreeAxis) -> AttentionView:
        """Return all tensors: the caller's in place, factors in the layout their products read fastest."""
        maker, head = self.forward, hk * self.forward.group + g
        tensors: dict[str, TreeTensor] = {}
        for name in (
            "query",
            "dst",
            "diff_dst",
            "mask",
            "sinks",
            "stats",
            "diff_query",
            "diff_key",
            "diff_value",
        ):
            if name in self.mds:
                tensors[name] = TreeTensor.of_desc(name, self.mds[name])
        for name, source, order in (
            ("key", "key", (0, 1, 3, 2)),
            ("values", "value", (0, 1, 3, 2)),
            ("gradient", "diff_dst", (0, 1, 2, 3)),
            ("query", "query", (0, 1, 2, 3)),
        ):
            self._factor(tensors, name, source, order)
        self._finite_keys(tensors)
        rows = (maker.batch, maker.key_heads, maker.group, maker.queries)
        self._temporary(tensors, "scores", (*rows, maker.keys))
        self._temporary(tensors, "delta", rows)
        if self.problem.soft_cap:
            self._temporary(tensors, "caps", (*rows, maker.keys))
        maker.hide(tensors, self.places, self.steps, self.temporaries)
        outer: dict[str, Index] = {
            **dict.fromkeys(
                ("query", "mask", "dst", "diff_dst", "gradient", "stats", "diff_query"), (b, head)
            ),
            **dict.fromkeys(("key", "values", "rows", "diff_key", "diff_value"), (b, hk)),
            **dict.fromkeys(("scores", "delta", "caps"), (b, hk, g)),
            **dict.fromkeys(("first", "end"), (b,)),
        }
        return AttentionView(tensors, outer)

    def _factor(self, tensors: dict[str, TreeTensor], name: str, source: str, order: tuple[int, ...]) -> None:
        """Add a factor, row-major in the given order of dims and of the computed type; copied if needed."""
        md = self.mds[source].permute_axes(order)
        wanted = MemoryDesc(md.dims, self.held)
        if md == wanted:
            self.places[name] = self.given[source]
        else:
            place = self._place(wanted.size)
            self.steps.append(move_step(md, wanted, self.given[source], place))
            self.places[name] = place
        tensors[name] = TreeTensor.of_desc(name, wanted)

    def _finite_keys(self, tensors: dict[str, TreeTensor]) -> None:
        """Add the keys as `rows`, with nonfinite ones zeroed: for queries that see them, powers are NaN."""
        source = TreeTensor.of_desc("source", self.mds["key"])
        self.places["source"] = self.given["key"]
        self._temporary(tensors, "rows", self.mds["key"].dims)
        axes = tuple(TreeAxis(f"d{dim}", n) for dim, n in enumerate(self.mds["key"].dims))
        view = AttentionView({"source": source, "rows": tensors["rows"]})
        x = view.load("source", *axes)
        finite = apply("select", apply("eq", x - x, 0), x, 0)
        self._run(view, Each(axes, (view.store("rows", axes, finite),)))

    def _temporary(self, tensors: dict[str, TreeTensor], name: str, sizes: tuple[int, ...]) -> None:
        tensors[name] = TreeTensor.row_major(name, sizes, self.held)
        self.places[name] = self._place(self.held.nbytes(prod(sizes)))

    def _place(self, nbytes: int) -> Place:
        self.temporaries.append(max(nbytes, 1))
        return Place(-len(self.temporaries))

    def _run(self, view: AttentionView, each: Each) -> None:
        tree = self.forward.tree(view, (each,))
        places = tuple(self.places[tensor.name] for tensor in tree.tensors)
        self.steps.append(TreeStep(tree, places, self.problem.work_bytes // 5))

    def _zeros(self) -> Program:
        """Return the program for empty inputs: the gradients are 0."""
        steps = list[Step]()
        for name in ("diff_query", "diff_key", "diff_value"):
            tensor = TreeTensor.of_desc(name, self.mds[name])
            axes = tuple(TreeAxis(f"d{dim}", n) for dim, n in enumerate(self.mds[name].dims))
            view = AttentionView({name: tensor})
            tree = self.forward.tree(view, (Each(axes, (view.store(name, axes, Const(0.0)),)),))
            steps.append(TreeStep(tree, (self.places[name],), self.mds[name].size))
        return Program(self.program_slots, tuple(steps)).verify()


def _summed(axes: tuple[TreeAxis, ...], term: Expr) -> Each:
    """Return the sum of a term over axes, as `total`."""
    return Each(axes, (fold_over("sum", "total", term),))
