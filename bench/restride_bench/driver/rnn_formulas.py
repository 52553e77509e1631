"""Recurrent networks in f64: states, and gradients found by going back through the same steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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

    def order(self, d: int) -> slice:
        """The steps in the order in which direction `d` reads them."""
        return slice(None, None, -1 if self.direction == "unidirectional_right2left" or d == 1 else 1)


class _LayerRun(NamedTuple):
    """The steps of one layer and direction: what it read, its states before and after, its gates."""

    x: Array
    h: Array
    c: Array
    gates: Array


def _logistic(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


Function = Callable[[Array], Array]
_FUNCTIONS: dict[str, Function] = {
    "relu": lambda x: np.maximum(x, 0.0),
    "tanh": np.tanh,
    "logistic": _logistic,
}
# Their derivatives, of their results.
_SLOPES: dict[str, Function] = {
    "relu": lambda y: (y > 0) * 1.0,
    "tanh": lambda y: 1 - y**2,
    "logistic": lambda y: y * (1 - y),
}


# --- forward ------------------------------------------------------------------------------------------------


def _gates(network: RnnNetwork, given: Array, h: Array, u: Array, bias: Array) -> Array:
    sums = np.einsum("ni,igo->ngo", h, u)
    if network.cell == "VanillaRNN":
        return _FUNCTIONS[network.activation](given + sums)
    gates = _logistic(given + sums)
    inner = sums[:, 2]
    if network.cell == "GRU":
        inner = network.stored(gates[:, 1] * h) @ u[:, 2]
    elif network.cell == "LBRGRU":
        inner = gates[:, 1] * (inner + bias[3])
    gates[:, 2] = np.tanh(given[:, 2] + inner)
    return gates


def _layer(network: RnnNetwork, x: Array, at: tuple[int, int], values: Named, c: Array) -> _LayerRun:
    w, u, bias = (values[name][at] for name in ("weights_layer", "weights_iter", "bias"))
    hs, cs, every = [network.stored(values["src_iter"][at])], [c], []
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
    hs[0] = hs[0] if hs[0].shape == hs[-1].shape else np.zeros_like(hs[-1])
    return _LayerRun(x, np.stack(hs), np.stack(cs), np.stack(every))


def _runs(network: RnnNetwork, values: Named) -> list[list[_LayerRun]]:
    """The runs of each direction, layer by layer."""
    layers, directions, _, _, channels = values["weights_layer"].shape
    batch = values["src_layer"].shape[1]
    cells = values.get("src_iter_c", np.zeros((layers, directions, batch, channels)))
    found = []
    for d in range(directions):
        x, runs = values["src_layer"][network.order(d)], list[_LayerRun]()
        for k in range(layers):
            runs.append(_layer(network, x, (k, d), values, cells[k, d]))
            x = runs[-1].h[1:]
        found.append(runs)
    return found


def states_of(network: RnnNetwork, values: Named) -> dict[str, Array]:
    """Return the results of a forward step, by name. A sum of byte states is of bytes, and saturates."""
    found = _runs(network, values)
    last = [runs[-1].h[1:][network.order(d)] for d, runs in enumerate(found)]
    if network.direction == "bidirectional_concat":
        whole = np.concatenate(last, -1)
    elif network.scale:
        total = np.minimum(np.sum([network.byte(each) for each in last], 0), 255)
        whole = np.asarray((total - len(last) * network.shift) / network.scale)
    else:
        whole = np.asarray(np.sum(last, 0))
    by_layer = list(zip(*found, strict=True))
    results = {"dst_layer": whole, "dst_iter": np.stack([[run.h[-1] for run in runs] for runs in by_layer])}
    if network.cell == "LSTM":
        results["dst_iter_c"] = np.stack([[run.c[-1] for run in runs] for runs in by_layer])
    return results


# --- backward -----------------------------------------------------------------------------------------------


class _StepGradients(NamedTuple):
    """The gradients that one step finds: of its gates, of the sums behind them, and of the states."""

    gates: Array
    inner: Array
    h: Array
    c: Array


def _step_back(
    network: RnnNetwork, run: _LayerRun, at: int, weights: tuple[Array, Array], dh: Array, dc: Array
) -> _StepGradients:
    gates, before, (u, bias) = run.gates[at], run.h[at], weights
    if network.cell == "VanillaRNN":
        d = (dh * _SLOPES[network.activation](gates[:, 0]))[:, None]
        return _StepGradients(d, d, np.einsum("ngo,igo->ni", d, u), dc)
    if network.cell == "LSTM":
        i, f, new, o = (gates[:, gate] for gate in range(4))
        tc = np.tanh(run.c[at + 1])
        dc = dc + dh * o * (1 - tc**2)
        parts = (dc * new * i * (1 - i), dc * run.c[at] * f * (1 - f), dc * i * (1 - new**2))
        d = np.stack([*parts, dh * tc * o * (1 - o)], 1)
        return _StepGradients(d, d, np.einsum("ngo,igo->ni", d, u), dc * f)
    update, reset, new = (gates[:, gate] for gate in range(3))
    d_update = dh * (before - new) * update * (1 - update)
    d_new = dh * (1 - update) * (1 - new**2)
    if network.cell == "GRU":
        through = d_new @ u[:, 2].T
        d_reset = through * before * reset * (1 - reset)
        d = np.stack([d_update, d_reset, d_new], 1)
        back = dh * update + through * reset + np.einsum("ngo,igo->ni", d[:, :2], u[:, :2])
        return _StepGradients(d, d, back, dc)
    inner = before @ u[:, 2] + bias[3]
    d_reset = d_new * inner * reset * (1 - reset)
    seen = np.stack([d_update, d_reset, d_new * reset], 1)
    back = dh * update + np.einsum("ngo,igo->ni", seen, u)
    return _StepGradients(np.stack([d_update, d_reset, d_new], 1), seen, back, dc)


def gradients_of(network: RnnNetwork, values: Named, given: Named) -> dict[str, Array]:
    """The gradients of all that is read; `given` are those of what is written, by its name."""
    found = {name: np.zeros(value.shape) for name, value in values.items() if not name.startswith("dst")}
    channels = values["weights_layer"].shape[4]
    for d, runs in enumerate(_runs(network, values)):
        start = d * channels if network.direction == "bidirectional_concat" else 0
        above = given["dst_layer"][network.order(d), :, start : start + channels]
        for k in reversed(range(len(runs))):
            weights, at = (values["weights_iter"][k, d], values["bias"][k, d]), (k, d)
            below, dh = np.zeros(runs[k].x.shape), given["dst_iter"][at]
            dc = given["dst_iter_c"][at] if network.cell == "LSTM" else np.zeros(dh.shape)
            for t in reversed(range(len(runs[k].x))):
                before = values["src_iter"][at] if t == 0 else runs[k].h[t]
                step = _step_back(network, runs[k], t, weights, dh + above[t], dc)
                dh, dc = step.h, step.c
                below[t] = np.einsum("ngo,igo->ni", step.gates, values["weights_layer"][at])
                found["weights_layer"][at] += np.einsum("ni,ngo->igo", runs[k].x[t], step.gates)
                found["weights_iter"][at] += np.einsum("ni,ngo->igo", before, step.inner)
                if network.cell == "GRU":
                    reset = before * (runs[k].gates[t][:, 1] - 1)
                    found["weights_iter"][at][:, 2] += np.einsum("ni,no->io", reset, step.gates[:, 2])
                found["bias"][at][: step.gates.shape[1]] += step.gates.sum(0)
                if network.cell == "LBRGRU":
                    found["bias"][at][3] += step.inner[:, 2].sum(0)
            found["src_iter"][at] = dh
            if network.cell == "LSTM":
                found["src_iter_c"][at] = dc
            above = below
        found["src_layer"] += above[network.order(d)]
    return found
