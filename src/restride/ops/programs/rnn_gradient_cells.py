"""The cells of recurrent networks, backward: the gradients of a step's gates and states.

`d` before a name marks the gradient of the loss with respect to it. `dh` comes from the layer above and from
the following step, as sums of that step's gate gradients with weights. Derivatives use function results:

| cell | |
| --- | --- |
| `vanilla_rnn` | dg = dh * f' |
| `vanilla_lstm` | dc += dh * o * (1 - tanh(c)**2); di = dc * c', df = dc * (c before), dc' = dc * i |
| | do = dh * tanh(c); then dc = dc * f |
| `vanilla_gru` | du = dh * (h before - o), do = dh * (1 - u), dr = (sums of do) * (h before) |
| | dh before = dh * u + (sums of do) * r + sums of du and dr |
| `lbr_gru` | dr = do * inner; the sums for the preceding step are over du, dr and do * r |

each of a gate times the derivative of its function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...ir.expression import Const, Expr, Load, Ref, TreeAxis, apply
from ...ir.tree import Each, Item, Let, TreeTensor, fold_over
from .rnn_cells import RnnCell


@dataclass(frozen=True, slots=True)
class GradientLoops:
    """Writes the loops of one step. `is_last`: no step follows, so that there are no sums from it.

    `tensors`, by name, for a batch of N and C channels: `gates`, `diff_gates` (N, G, C), and `next_gates` of
    the following step; `weights` (C, G, C); `above` (N, C), the gradient from the layer above; `last_h` and
    `last_c`, gradients of the last states; `h_before`; of an LSTM `c_before`, `c` and `diff_c`; of GRUs
    `carry`, the direct part of the preceding state's gradient; `reset_h`; `sums`; `inner` and `next_inner`
    (N, G, C), the gradients of the sums of an `lbr_gru`.
    """

    cell: RnnCell
    tensors: Mapping[str, TreeTensor]
    is_last: bool

    def loops(self) -> tuple[Each, ...]:
        """The loops of a step, in order."""
        return {
            "vanilla_rnn": self._vanilla,
            "vanilla_lstm": self._lstm,
            "vanilla_gru": self._gru,
            "lbr_gru": self._lbr_gru,
        }[self.cell.kind]()

    def first_state(self) -> Each:
        """Return the loop that writes the gradient of the first states, `first_h`, from the first gates."""
        n, i = self._axes_of("first_h")
        value = self._with_carry(Ref("total"), n, i)
        return Each((n, i), (self._total(n, i), self.tensors["first_h"].store((n, i), value)))

    # --- cells ----------------------------------------------------------------------------------------------

    def _vanilla(self) -> tuple[Each, ...]:
        result = self._at("gates", 0)
        slope: Expr = {
            "tanh": 1.0 - result * result,
            "logistic": result * (1.0 - result),
            "relu": apply("select", apply("gt", result, 0.0), Const(1.0), Const(self.cell.alpha)),
        }[self.cell.activation]
        return (self._loop([], {0: Ref("dh") * slope}),)

    def _lstm(self) -> tuple[Each, ...]:
        i, f, new, o = (self._at("gates", gate) for gate in range(4))
        lets = [Let("tc", apply("tanh_single", self._at("c")))]
        through = Ref("dh") * o * (1.0 - Ref("tc") * Ref("tc"))
        after = "last_c" if self.is_last else "diff_c"
        lets.append(Let("dc", through + self._at(after) if after in self.tensors else through))
        gates = {
            0: Ref("dc") * new * self._logistic(i),
            1: Ref("dc") * self._at("c_before") * self._logistic(f),
            2: Ref("dc") * i * (1.0 - new * new),
            3: Ref("dh") * Ref("tc") * self._logistic(o),
        }
        return (self._loop(lets, gates, {"diff_c": Ref("dc") * f}),)

    def _gru(self) -> tuple[Each, ...]:
        u, r, o = (self._at("gates", gate) for gate in range(3))
        before = self._at("h_before")
        gates = {
            0: Ref("dh") * (before - o) * self._logistic(u),
            2: Ref("dh") * (1.0 - u) * (1.0 - o * o),
        }
        first = self._loop([], gates, {"carry": Ref("dh") * u}, summed=(0, 1))
        n, c = self._axes_of("above")
        k = TreeAxis("k", self.tensors["weights"].sizes[2])
        product = self.tensors["diff_gates"].load(n, 2, k) * self.tensors["weights"].load(c, 2, k)
        items: tuple[Item, ...] = (
            Each((k,), (fold_over("sum", "total", product),)),
            self.tensors["diff_gates"].store((n, 1, c), Ref("total") * before * self._logistic(r)),
            self.tensors["carry"].store((n, c), self._at("carry") + Ref("total") * r),
            self.tensors["reset_h"].store((n, c), r * before),
        )
        return first, Each((n, c), items)

    def _lbr_gru(self) -> tuple[Each, ...]:
        u, r, o = (self._at("gates", gate) for gate in range(3))
        lets = [Let("do", Ref("dh") * (1.0 - u) * (1.0 - o * o))]
        gates = {
            0: Ref("dh") * (self._at("h_before") - o) * self._logistic(u),
            1: Ref("do") * self._at("sums") * self._logistic(r),
            2: Ref("do"),
        }
        n, c = self._axes_of("above")
        loop = self._loop(lets, gates, {"carry": Ref("dh") * u})
        inner = {**gates, 2: Ref("do") * r}
        stores = tuple(self.tensors["inner"].store((n, gate, c), value) for gate, value in inner.items())
        return (Each(loop.axes, (*loop.items, *stores)),)

    @staticmethod
    def _logistic(result: Expr) -> Expr:
        """Return the derivative of a logistic function, from its result."""
        return result * (Const(1.0) - result)

    # --- their parts ----------------------------------------------------------------------------------------

    def _axes_of(self, name: str) -> tuple[TreeAxis, TreeAxis]:
        batch, channels = self.tensors[name].sizes
        return TreeAxis("n", batch), TreeAxis("c", channels)

    def _at(self, name: str, gate: int | None = None) -> Load:
        n, c = self._axes_of("above")
        return self.tensors[name].load(*((n, c) if gate is None else (n, gate, c)))

    def _loop(
        self,
        lets: Sequence[Let],
        gates: Mapping[int, Expr],
        stores: Mapping[str, Expr] | None = None,
        summed: Sequence[int] = (),
    ) -> Each:
        """Return the loop over a batch and its channels: dh first; gate gradients and other stores last."""
        n, c = self._axes_of("above")
        dh: Expr = self._at("above")
        items: list[Item] = []
        if not self.is_last:
            items.append(self._total(n, c, summed))
            dh = self._with_carry(dh + Ref("total"), n, c)
        elif "last_h" in self.tensors:
            dh = dh + self._at("last_h")
        items += [Let("dh", dh), *lets]
        items += [self.tensors["diff_gates"].store((n, gate, c), value) for gate, value in gates.items()]
        items += [self.tensors[name].store((n, c), value) for name, value in (stores or {}).items()]
        return Each((n, c), tuple(items))

    def _with_carry(self, value: Expr, n: TreeAxis, c: TreeAxis) -> Expr:
        return value + self.tensors["carry"].load(n, c) if "carry" in self.tensors else value

    def _total(self, n: TreeAxis, c: TreeAxis, summed: Sequence[int] = ()) -> Each:
        """Return the next step's gradients summed with weights: of the first `summed` gates, or of all."""
        weights = self.tensors["weights"]
        later = self.tensors["next_inner" if self.cell.kind == "lbr_gru" else "next_gates"]
        gates = len(summed) or (2 if self.cell.kind == "vanilla_gru" else self.cell.gates)
        g, k = TreeAxis("g", gates), TreeAxis("k", weights.sizes[2])
        return Each((g, k), (fold_over("sum", "total", later.load(n, g, k) * weights.load(c, g, k)),))


# --- all steps at once --------------------------------------------------------------------------------------


def source_gradient(tensors: Mapping[str, TreeTensor], *, adds: bool) -> Each:
    """Return the gradient of a layer's input: `diff_gates` (T, N, G, C) times `weights` (I, G, C)."""
    gates, weights, target = (tensors[name] for name in ("diff_gates", "weights", "diff_x"))
    t, n, i = (TreeAxis(name, size) for name, size in zip("tni", target.sizes, strict=True))
    g, k = TreeAxis("g", weights.sizes[1]), TreeAxis("k", weights.sizes[2])
    total = fold_over("sum", "total", gates.load(t, n, g, k) * weights.load(i, g, k))
    value: Expr = Ref("total") + target.load(t, n, i) if adds else Ref("total")
    return Each((t, n, i), (Each((g, k), (total,)), target.store((t, n, i), value)))


def weight_gradient(tensors: Mapping[str, TreeTensor], *, adds: bool) -> Each:
    """Return the gradient of weights, or its summand: `x` (T, N, I) times `diff_gates` (T, N, G, C), into
    `diff_weights` (I, G, C).
    """
    x, gates, target = (tensors[name] for name in ("x", "diff_gates", "diff_weights"))
    i, g, c = (TreeAxis(name, size) for name, size in zip("igc", target.sizes, strict=True))
    t, n = TreeAxis("t", x.sizes[0]), TreeAxis("n", x.sizes[1])
    total = fold_over("sum", "total", x.load(t, n, i) * gates.load(t, n, g, c))
    value: Expr = target.load(i, g, c) + Ref("total") if adds else Ref("total")
    return Each((i, g, c), (Each((t, n), (total,)), target.store((i, g, c), value)))


def bias_gradient(tensors: Mapping[str, TreeTensor], *, adds: bool) -> Each:
    """Return the gradient of a bias, or its summand: sums of `diff_gates` (T, N, G, C), into
    `diff_bias` (G, C).
    """
    gates, target = tensors["diff_gates"], tensors["diff_bias"]
    g, c = (TreeAxis(name, size) for name, size in zip("gc", target.sizes, strict=True))
    t, n = TreeAxis("t", gates.sizes[0]), TreeAxis("n", gates.sizes[1])
    total = fold_over("sum", "total", gates.load(t, n, g, c))
    value: Expr = target.load(g, c) + Ref("total") if adds else Ref("total")
    return Each((g, c), (Each((t, n), (total,)), target.store((g, c), value)))
