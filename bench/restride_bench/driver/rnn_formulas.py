"""Recurrent networks in f64: states, and gradients found by going back through the same steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from restride import DataType

from .fill import Array, rounded

CELLS = {"VANILLA_RNN": "VanillaRNN", "VANILLA_LSTM": "LSTM", "VANILLA_GRU": "GRU", "LBR_GRU": "LBRGRU"}
"""Cells by their names on the command line, and as primitives are called."""
Named = Mapping[str, Array]


class RnnNetwork(NamedTuple):
    """A cell, a direction, and the function of a vanilla cell; a relu is 0 below 0.

    States are stored as bytes, value * `scale` + `shift`, unless the scale is 0: then as `data_type`. A relu
    that is rounded otherwise than the primitive's would have another slope.
    """

    cell: str
    direction: str
    activation: str
    scale: float = 0.0
    shift: float = 0.0
    data_type: DataType = DataType.f32

    def byte(self, value: Array) -> Array:
        """A state as a byte, which saturates."""
        return np.clip(np.rint(value * self.scale + self.shift), 0, 255)

    def stored(self, value: Array) -> Array:
        """A state as the next step reads it."""
        if self.scale:
            return (self.byte(value) - self.shift) / self.scale
        return value if self.data_type is DataType.f32 else rounded(value, self.data_type).astype(np.float64)

    def is_backwards(self, d: int) -> bool:
        """True where direction `d` reads from the last step."""
        return self.direction == "unidirectional_right2left" or d == 1


class _LayerRun(NamedTuple):
    """The steps of one layer and direction: what it read, its states before and after, its gates."""

    x: Array
    h: Array
    c: Array
    gates: Array


def _logistic(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _activated(network: RnnNetwork, x: Array) -> Array:
    if network.activation == "relu":
        return np.maximum(x, 0.0)
    return np.tanh(x) if network.activation == "tanh" else _logistic(x)


def _slope(network: RnnNetwork, result: Array) -> Array:
    """The derivative of the function of a vanilla cell, of its result."""
    if network.activation == "relu":
        return (result > 0) * 1.0
    return 1 - result**2 if network.activation == "tanh" else result * (1 - result)


# --- forward ------------------------------------------------------------------------------------------------


def _gates(network: RnnNetwork, given: Array, h: Array, u: Array, bias: Array) -> Array:
    sums = np.einsum("ni,igo->ngo", h, u)
    if network.cell == "VanillaRNN":
        return _activated(network, given + sums)
    gates = _logistic(given + sums)
    inner = sums[:, 2]
    if network.cell == "GRU":
        inner = network.stored(gates[:, 1] * h) @ u[:, 2]
    elif network.cell == "LBRGRU":
        inner = gates[:, 1] * (inner + bias[3])
    gates[:, 2] = np.tanh(given[:, 2] + inner)
    return gates


def _layer(network: RnnNetwork, x: Array, w: Array, u: Array, bias: Array, h: Array, c: Array) -> _LayerRun:
    hs, cs, every = [network.stored(h)], [c], []
    for step in x:
        gates = _gates(network, np.einsum("ni,igo->ngo", step, w) + bias[: w.shape[1]], hs[-1], u, bias)
        if network.cell == "LSTM":
            cs.append(gates[:, 1] * cs[-1] + gates[:, 0] * gates[:, 2])
            made = gates[:, 3] * np.tanh(cs[-1])
        elif network.cell == "VanillaRNN":
            made = gates[:, 0]
        else:
            made = gates[:, 0] * hs[-1] + (1 - gates[:, 0]) * gates[:, 2]
        hs.append(network.stored(made))
        every.append(gates)
    # With one step the first state may have other channels than the others.
    first = np.zeros_like(hs[-1])
    whole = hs if hs[0].shape == first.shape else [first, *hs[1:]]
    return _LayerRun(x, np.stack(whole), np.stack(cs), np.stack(every))


def _runs(network: RnnNetwork, values: Named) -> list[list[_LayerRun]]:
    """The runs of each direction, layer by layer."""
    w, u = values["weights_layer"], values["weights_iter"]
    cells = values.get("src_iter_c", np.zeros((*w.shape[:2], values["src_layer"].shape[1], w.shape[4])))
    found = []
    for d in range(w.shape[1]):
        x, runs = values["src_layer"][:: -1 if network.is_backwards(d) else 1], list[_LayerRun]()
        for k in range(w.shape[0]):
            states = values["src_iter"][k, d], cells[k, d]
            runs.append(_layer(network, x, w[k, d], u[k, d], values["bias"][k, d], *states))
            x = runs[-1].h[1:]
        found.append(runs)
    return found


def states_of(network: RnnNetwork, values: Named) -> dict[str, Array]:
    """What a forward step writes, by name."""
    found = _runs(network, values)
    last = [runs[-1].h[1:][:: -1 if network.is_backwards(d) else 1] for d, runs in enumerate(found)]
    is_wide = network.direction == "bidirectional_concat"
    by_layer = list(zip(*found, strict=True))
    results = {
        "dst_layer": np.concatenate(last, -1) if is_wide else _sum(network, last),
        "dst_iter": np.stack([[run.h[-1] for run in runs] for runs in by_layer]),
    }
    if network.cell == "LSTM":
        results["dst_iter_c"] = np.stack([[run.c[-1] for run in runs] for runs in by_layer])
    return results


def _sum(network: RnnNetwork, states: list[Array]) -> Array:
    """The sum of the states of directions; bytes are added as they are stored, and saturate."""
    if not network.scale:
        return np.asarray(np.sum(states, 0))
    total = np.minimum(np.sum([network.byte(each) for each in states], 0), 255)
    return np.asarray((total - len(states) * network.shift) / network.scale)


# --- backward -----------------------------------------------------------------------------------------------


class _StepGradients(NamedTuple):
    """The gradients that one step finds: of its gates, of the sums behind them, and of the states."""

    gates: Array
    inner: Array
    h: Array
    c: Array


def _step_back(
    network: RnnNetwork, run: _LayerRun, at: int, u: Array, bias: Array, dh: Array, dc: Array
) -> _StepGradients:
    gates, before = run.gates[at], run.h[at]
    if network.cell == "VanillaRNN":
        d = (dh * _slope(network, gates[:, 0]))[:, None]
        return _StepGradients(d, d, np.einsum("ngo,igo->ni", d, u), dc)
    if network.cell == "LSTM":
        i, f, new, o = (gates[:, gate] for gate in range(4))
        tc = np.tanh(run.c[at + 1])
        dc = dc + dh * o * (1 - tc**2)
        parts = (dc * new * i * (1 - i), dc * run.c[at] * f * (1 - f), dc * i * (1 - new**2))
        d = np.stack([*parts, dh * tc * o * (1 - o)], 1)
        return _StepGradients(d, d, np.einsum("ngo,igo->ni", d, u), dc * f)
    return _gru_back(network, gates, before, u, bias, dh, dc)


def _gru_back(
    network: RnnNetwork, gates: Array, before: Array, u: Array, bias: Array, dh: Array, dc: Array
) -> _StepGradients:
    update, reset, new = (gates[:, gate] for gate in range(3))
    d_update = dh * (before - new) * update * (1 - update)
    d_new = dh * (1 - update) * (1 - new**2)
    carried = dh * update
    if network.cell == "GRU":
        through = d_new @ u[:, 2].T
        d_reset = through * before * reset * (1 - reset)
        d = np.stack([d_update, d_reset, d_new], 1)
        back = carried + through * reset + np.einsum("ngo,igo->ni", d[:, :2], u[:, :2])
        return _StepGradients(d, d, back, dc)
    inner = before @ u[:, 2] + bias[3]
    d_reset = d_new * inner * reset * (1 - reset)
    seen = np.stack([d_update, d_reset, d_new * reset], 1)
    back = carried + np.einsum("ngo,igo->ni", seen, u)
    return _StepGradients(np.stack([d_update, d_reset, d_new], 1), seen, back, dc)


def gradients_of(network: RnnNetwork, values: Named, given: Named) -> dict[str, Array]:
    """The gradients of all that is read; `given` are those of what is written, by its name."""
    found = {name: np.zeros(value.shape) for name, value in values.items() if not name.startswith("dst")}
    channels = values["weights_layer"].shape[4]
    for d, runs in enumerate(_runs(network, values)):
        way = -1 if network.is_backwards(d) else 1
        start = d * channels if network.direction == "bidirectional_concat" else 0
        above = given["dst_layer"][::way, :, start : start + channels]
        for k in reversed(range(len(runs))):
            above = _layer_back(network, runs[k], (k, d), values, given, above, found)
        found["src_layer"] += above[::way]
    return found


def _layer_back(
    network: RnnNetwork,
    run: _LayerRun,
    at: tuple[int, int],
    values: Named,
    given: Named,
    above: Array,
    found: dict[str, Array],
) -> Array:
    """Go back through one layer: the gradient of what it has read."""
    u, bias, first = values["weights_iter"][at], values["bias"][at], values["src_iter"][at]
    dh = given["dst_iter"][at]
    dc = given["dst_iter_c"][at] if network.cell == "LSTM" else np.zeros(dh.shape)
    below = np.zeros(run.x.shape)
    for t in reversed(range(len(run.x))):
        before = first if t == 0 else run.h[t]
        step = _step_back(network, run, t, u, bias, dh + above[t], dc)
        dh, dc = step.h, step.c
        below[t] = np.einsum("ngo,igo->ni", step.gates, values["weights_layer"][at])
        found["weights_layer"][at] += np.einsum("ni,ngo->igo", run.x[t], step.gates)
        found["weights_iter"][at] += np.einsum("ni,ngo->igo", before, step.inner)
        if network.cell == "GRU":
            reset = np.einsum("ni,no->io", before * (run.gates[t][:, 1] - 1), step.gates[:, 2])
            found["weights_iter"][at][:, 2] += reset
        found["bias"][at][: step.gates.shape[1]] += step.gates.sum(0)
        if network.cell == "LBRGRU":
            found["bias"][at][3] += step.inner[:, 2].sum(0)
    found["src_iter"][at] = dh
    if network.cell == "LSTM":
        found["src_iter_c"][at] = dc
    return below
