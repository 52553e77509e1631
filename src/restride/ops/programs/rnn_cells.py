"""The cells of recurrent networks: the computation of a time step, as loops over the tensors of one step.

Gates are in the order of oneDNN. `s` are the sums of weights with the previous state, `x` the contribution of
the layer's input, including its bias:

| cell | gates | state |
| --- | --- | --- |
| `vanilla_rnn` | one | h = f(x + s) |
| `vanilla_lstm` | i, f, c', o | c = f * c + i * tanh(x2 + s2); h = o * tanh(c) |
| `vanilla_gru` | u, r, o | h = u * h + (1 - u) * tanh(x2 + sums of weights with r * h) |
| `lbr_gru` | u, r, o | h = u * h + (1 - u) * tanh(x2 + r * (s2 + b3)) |

i, f, u, r and o of an LSTM are logistic functions of their sums. A step of a GRU has two loops, since the
second sums values that the first has written; all others have one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...dtypes import DataType
from ...ir.expression import Affine, Const, Expr, Load, Ref, Scalar, TreeAxis, apply, in_single, index_of
from ...ir.tree import Each, Item, Let, TreeTensor, fold_over

GATES = {"vanilla_rnn": 1, "vanilla_lstm": 4, "vanilla_gru": 3, "lbr_gru": 3}
"""The cells, and the number of gates of each."""


@dataclass(frozen=True, slots=True)
class RnnCell:
    """A kind of cell; for a vanilla one, its function (an eltwise algorithm) and the slope of a `relu`."""

    kind: str
    activation: str = ""
    alpha: float = 0.0

    @property
    def gates(self) -> int:
        """The number of gates in a step."""
        return GATES[self.kind]

    @property
    def biases(self) -> int:
        """The number of biases: an `lbr_gru` has one more, for the sums of the state."""
        return self.gates + (self.kind == "lbr_gru")

    @property
    def has_cell_state(self) -> bool:
        """True if it is an LSTM."""
        return self.kind == "vanilla_lstm"

    def activated(self, value: Expr) -> Expr:
        """Apply the function of a vanilla cell."""
        if self.activation == "relu":
            # A slope of 0 omits the product: infinity times 0 is NaN.
            below: Expr = value * Const(self.alpha) if self.alpha else Const(0.0)
            return apply("select", apply("gt", value, 0.0), value, below)
        return apply(f"{self.activation}_single", value)


def real_state(value: Expr, data_type: DataType) -> Expr:
    """Dequantize a state: scalars are the scale, the shift and 1 / scale."""
    return (value - Scalar(1)) * Scalar(2) if data_type is DataType.u8 else value


def quantized_state(value: Expr, data_type: DataType) -> Expr:
    """Quantize a state for storage."""
    return value * Scalar(0) + Scalar(1) if data_type is DataType.u8 else value


@dataclass(frozen=True, slots=True)
class StepLoops:
    """Writes the loops of one step. `has_state`: there is a previous state; `trains`: gates are kept.

    Bytes are summed unconverted, in a separate loop, since their sums are integers: `offsets` (G, O) are
    added to them, `factors` (G, O) multiply them, and `totals` (N, G, O) hold them. `tensors`, by name:
    `gates_in` (N, G, O), `weights` (I, G, O), `h_before` (N, I), `h` (N, O), of an LSTM
    `c_before` and `c`, of GRUs `reset_h` (N, O), `bias` (G + 1, O), and `gates` (N, G, O), `sums` (N, O).
    """

    cell: RnnCell
    tensors: Mapping[str, TreeTensor]
    has_state: bool
    trains: bool

    def loops(self) -> tuple[Each, ...]:
        """The loops of a step, in order."""
        return {
            "vanilla_rnn": self._vanilla,
            "vanilla_lstm": self._lstm,
            "vanilla_gru": self._gru,
            "lbr_gru": self._lbr_gru,
        }[self.cell.kind]()

    # --- cells ----------------------------------------------------------------------------------------------

    def _vanilla(self) -> tuple[Each, ...]:
        value = Let("g0", self.cell.activated(self._sum_of_gate(0)))
        return self._loop("h_before", (0,), [value], {"h": Ref("g0")})

    def _lstm(self) -> tuple[Each, ...]:
        functions = ("logistic", "logistic", "tanh", "logistic")
        gates = [self._gate(number, function) for number, function in enumerate(functions)]
        c = Ref("g0") * Ref("g2")
        if self.has_state:
            c = Ref("g1") * self._at("c_before") + c
        lets = [*gates, Let("c_now", c), Let("h_now", Ref("g3") * apply("tanh_single", Ref("c_now")))]
        return self._loop("h_before", (0, 1, 2, 3), lets, {"c": Ref("c_now"), "h": Ref("h_now")})

    def _gru(self) -> tuple[Each, ...]:
        if not self.has_state:
            lets = [
                self._gate(0, "logistic"),
                self._gate(1, "logistic"),
                self._gate(2, "tanh"),
                self._mixed(),
            ]
            return self._loop("h_before", (0, 1, 2), lets, {"h": Ref("h_now")})
        n, o = self._axes
        gates = self.tensors["gates"]
        first = self._loop(
            "h_before",
            (0, 1),
            [self._gate(0, "logistic"), self._gate(1, "logistic")],
            {"reset_h": Ref("g1") * self._state_before()},
            always=(0,),
        )
        before = Let("g0", gates.load(n, 0, o))
        last = self._loop(
            "reset_h", (2,), [before, self._gate(2, "tanh"), self._mixed()], {"h": Ref("h_now")}
        )
        return *first, *last

    def _lbr_gru(self) -> tuple[Each, ...]:
        _, o = self._axes
        inner: Expr | None = self._total(2) if self.has_state else None
        if "bias" in self.tensors:
            bias = self.tensors["bias"].load(3, o)
            inner = bias if inner is None else inner + bias
        value: Expr = self._at("gates_in", 2)
        lets = [self._gate(0, "logistic"), self._gate(1, "logistic")]
        stores: dict[str, Expr] = {}
        if inner is not None:
            lets.append(Let("inner", inner))
            value = value + Ref("g1") * Ref("inner")
        if self.trains:
            stores["sums"] = Const(0.0) if inner is None else Ref("inner")
        lets += [Let("g2", apply("tanh_single", value)), self._mixed()]
        return self._loop("h_before", (0, 1, 2), lets, {**stores, "h": Ref("h_now")})

    def _mixed(self) -> Let:
        """Return the state of a GRU."""
        new = (1.0 - Ref("g0")) * Ref("g2")
        return Let("h_now", Ref("g0") * self._state_before() + new if self.has_state else new)

    # --- their parts ----------------------------------------------------------------------------------------

    @property
    def _axes(self) -> tuple[TreeAxis, TreeAxis]:
        batch, outputs = self.tensors["h"].sizes
        return TreeAxis("n", batch), TreeAxis("o", outputs)

    def _at(self, name: str, gate: int | None = None) -> Load:
        n, o = self._axes
        index = (n, o) if gate is None else (n, gate, o)
        return self.tensors[name].load(*index)

    def _sum_of_gate(self, gate: int) -> Expr:
        gate_value: Expr = self._at("gates_in", gate)
        return gate_value + self._total(gate) if self.has_state else gate_value

    def _total(self, gate: int) -> Expr:
        """Return the sums of a gate, as reals."""
        return self._at("totals", gate) if "totals" in self.tensors else Ref(f"s{gate}")

    def _state_before(self) -> Expr:
        return real_state(self._at("h_before"), self.tensors["h_before"].data_type)

    def _gate(self, gate: int, function: str) -> Let:
        return Let(f"g{gate}", apply(f"{function}_single", self._sum_of_gate(gate)))

    def _loop(
        self,
        source: str,
        gates: Sequence[int],
        lets: Sequence[Let],
        stores: Mapping[str, Expr],
        always: Sequence[int] = (),
    ) -> tuple[Each, ...]:
        """Return the loop over a batch and its outputs, with the sums of some gates. Gates in `always` are
        written, others only in training.
        """
        n, o = self._axes
        items: list[Item] = list(lets)
        sums: tuple[Each, ...] = ()
        if self.has_state and "totals" in self.tensors:
            sums = (self._byte_sums(source, gates),)
        elif self.has_state:
            items.insert(0, self._sums(source, gates))
        for name, value in stores.items():
            stored = quantized_state(value, self.tensors[name].data_type)
            items.append(self.tensors[name].store((n, o), stored))
        written = [gate for gate in gates if self.trains or gate in always]
        items += [self.tensors["gates"].store((n, gate, o), Ref(f"g{gate}")) for gate in written]
        return (*sums, Each((n, o), tuple(items)))

    def _byte_sums(self, source: str, gates: Sequence[int]) -> Each:
        """Return the loop over the sums of consecutive gates."""
        n, o = self._axes
        g = TreeAxis("g", len(gates))
        weights, written, at = self.tensors["weights"], self.tensors["totals"], g * 1 + gates[0]
        i = TreeAxis("i", weights.sizes[0])
        total = fold_over("sum", "s", self.tensors[source].load(n, i) * weights.load(i, at, o))
        value = real_sums(Ref("s"), self.tensors, at, o)
        return Each((n, g, o), (Each((i,), (total,)), written.store((*index_of(n), at, *index_of(o)), value)))

    def _sums(self, source: str, gates: Sequence[int]) -> Each:
        n, o = self._axes
        state, weights = self.tensors[source], self.tensors["weights"]
        i = TreeAxis("i", weights.sizes[0])
        products = ((gate, state.load(n, i) * weights.load(i, gate, o)) for gate in gates)
        return Each((i,), tuple(fold_over("sum", f"s{gate}", value) for gate, value in products))


def input_loop(tensors: Mapping[str, TreeTensor]) -> Each:
    """Return the input's contribution to the gates of all steps: its sums with weights, and the bias.

    `tensors`: `x` (T, N, I), `weights` (I, G, O), `gates_in` (T, N, G, O), and perhaps `bias` (G, O).
    """
    x, weights, written = tensors["x"], tensors["weights"], tensors["gates_in"]
    t, n, g, o = (TreeAxis(name, size) for name, size in zip("tngo", written.sizes, strict=True))
    i = TreeAxis("i", x.sizes[-1])
    total = fold_over("sum", "s", x.load(t, n, i) * weights.load(i, g, o))
    value: Expr = Ref("s")
    is_byte = "factors" in tensors
    if is_byte:
        value = real_sums(value, tensors, g, o)
    if "bias" in tensors:
        value = value + tensors["bias"].load(g, o)
        value = in_single(value) if is_byte else value
    return Each((t, n, g, o), (Each((i,), (total,)), written.store(index_of(t, n, g, o), value)))


def real_sums(
    total: Expr, tensors: Mapping[str, TreeTensor], gate: TreeAxis | Affine, output: TreeAxis
) -> Expr:
    """Return integer sums of bytes as f32."""
    offset, factor = (tensors[name].load(gate, output) for name in ("offsets", "factors"))
    return in_single((total + offset) * factor)


def offset_loop(tensors: Mapping[str, TreeTensor]) -> Each:
    """Return what the zero points of bytes add to their sums with `weights` (I, G, O): `offsets` (G, O).

    `ones` (I) turns it into a product, for which kernels compute many terms at once.
    """
    weights, written = tensors["weights"], tensors["offsets"]
    g, o = (TreeAxis(name, size) for name, size in zip("go", written.sizes, strict=True))
    i = TreeAxis("i", weights.sizes[0])
    total = fold_over("sum", "s", tensors["ones"].load(i) * weights.load(i, g, o))
    value = in_single(Ref("s") * (0.0 - Scalar(1)))
    return Each((g, o), (Each((i,), (total,)), written.store((g, o), value)))


def ones_loop(target: TreeTensor) -> Each:
    """Ones everywhere."""
    axes = tuple(TreeAxis(f"d{dim}", size) for dim, size in enumerate(target.sizes))
    return Each(axes, (target.store(axes, Const(1.0)),))


def copy_loop(target: TreeTensor, *sources: TreeTensor) -> Each:
    """Return the elementwise sum of tensors; zeros if there are none.

    Bytes are dequantized and reals quantized; two bytes are added as bytes, as in oneDNN, and saturate.
    """
    axes = tuple(TreeAxis(f"d{dim}", size) for dim, size in enumerate(target.sizes))
    value: Expr = sources[0].load(*axes) if sources else Const(0.0)
    for source in sources[1:]:
        value = value + source.load(*axes)
    types = {source.data_type for source in sources}
    is_byte = DataType.u8 in types
    if is_byte and len(sources) > 1:
        value = apply("min", value, 255.0)
    if is_byte and target.data_type is not DataType.u8:
        value = (value - Scalar(1) * float(len(sources))) * Scalar(2)
    elif not is_byte:
        value = quantized_state(value, target.data_type)
    return Each(axes, (target.store(axes, value),))
