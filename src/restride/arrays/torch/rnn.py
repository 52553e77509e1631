"""Converts weights of torch's recurrent modules to tensors for the primitives, and back.

For each layer and direction torch has `weight_ih` (gates * C, I), `weight_hh` (gates * C, C) and two biases.
LSTM gates have the same order as in the primitives; in a GRU the reset gate comes first. An LSTM and a
vanilla RNN add both biases at once. A GRU is linear before its reset: its last gate has a separate bias for
the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from ...errors import refuse
from ..calls.tensors import is_whole

_GATES = {"RNN": 1, "LSTM": 4, "GRU": 3}
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class RNNWeights(NamedTuple):
    """The weights of one layer: `weights_layer` (1, D, I, gates, C), `weights_iter` (1, D, C, gates, C) and
    `bias` (1, D, gates, C), with one gate more for a GRU; None without biases.
    """

    weights_layer: Any
    weights_iter: Any
    bias: Any


def rnn_weights(module: Any) -> list[RNNWeights]:
    """Return the weights of a `torch.nn.RNN`, `LSTM` or `GRU`: new tensors, for one primitive per layer.

    A GRU is an `LBRGRUForward`. Layers of a primitive do not mix directions, but torch's do: a module of
    several layers needs one primitive for each, and the destination of one is the source of the next.

    Raises InvalidArguments for other modules and for a module whose storage has been freed, Unimplemented for
    projections.
    """
    what = "restride.torch.rnn_weights"
    gates = _gates_of(what, module)
    for name, parameter in module.named_parameters():
        _check_whole(f"{what}: {name} of the module", parameter)
    with torch.no_grad():
        return [_layer(module, layer, gates) for layer in range(module.num_layers)]


def set_rnn_weights(module: Any, weights: Sequence[RNNWeights]) -> None:
    """Write weights as returned by `rnn_weights` to a module of the same kind and shape.

    torch adds two biases: the first gets their sum, the second zeros. Weights are dense tensors of f16, bf16,
    f32 or f64, whose finite values must fit the module's type. Nothing is written unless everything is valid.

    Raises InvalidArguments for weights that do not match, and for a module whose parameters are computed from
    others (weight_norm, pruning) or have no data; Unimplemented for projections.
    """
    what = "restride.torch.set_rnn_weights"
    gates = _gates_of(what, module)
    _check_parameters(what, module)
    own_weights = rnn_weights(module)
    is_list = isinstance(weights, Sequence) and all(isinstance(entry, RNNWeights) for entry in weights)
    if not is_list or not all(
        one is None or isinstance(one, torch.Tensor) for entry in weights for one in entry
    ):
        raise refuse("RS-A17:weights-list-rnnweights", what=what)
    if len(weights) != len(own_weights):
        raise refuse("RS-A17:layers-module", what=what, count=len(weights), count2=len(own_weights))
    for layer, (entry, own) in enumerate(zip(weights, own_weights, strict=True)):
        for name, one, other in zip(RNNWeights._fields, entry, own, strict=True):
            _check_tensor(what, f"{name} of layer {layer}", one, other)
    with torch.no_grad():
        for layer, entry in enumerate(weights):
            _set_layer(module, layer, gates, entry)


def _check_parameters(what: str, module: Any) -> None:
    """Raise InvalidArguments unless the module has its own parameters, with data that can be written."""
    own = dict(module.named_parameters(recurse=False, remove_duplicate=False))
    kinds = ("weight_ih", "weight_hh", *(("bias_ih", "bias_hh") if module.bias else ()))
    names = [
        f"{kind}_{end}"
        for layer in range(module.num_layers)
        for end in _directions(module, layer)
        for kind in kinds
    ]
    computed = next((name for name in names if name not in own), None)
    if computed:
        raise refuse("RS-A17:no-parameter-module", what=what, computed=computed, module=module)
    absent = next((name for name in names if own[name].is_meta), None)
    if absent:
        raise refuse("RS-A17:module-no-data", what=what, absent=absent, module=module)
    fixed = next((name for name in names if own[name].is_inference()), None)
    if fixed and not torch.is_inference_mode_enabled():
        raise refuse("RS-A17:module-cannot-written", what=what, fixed=fixed, module=module)


def _check_whole(what: str, tensor: Any) -> None:
    """Raise InvalidArguments for a tensor with storage shorter than its shape: torch reads past the end."""
    try:
        has_bytes = tensor.layout is not torch.strided or is_whole(tensor)
    except (TypeError, RuntimeError):
        return  # a tensor without storage, as in torch.func
    if not has_bytes:
        raise refuse("RS-A04:resized", name=what)


def _check_tensor(what: str, name: str, tensor: Any, own: Any) -> None:
    """Raise InvalidArguments unless a tensor can be written in place of `own` of the module."""
    if tensor is not None and (tensor.layout is not torch.strided or tensor.is_nested or tensor.is_meta):
        raise refuse("RS-A17:no-dense-tensor", what=what, name=name, given=tensor)
    shapes = [None if x is None else tuple(x.shape) for x in (tensor, own)]
    if shapes[0] != shapes[1]:
        raise refuse("RS-A17:module", what=what, name=name, shapes=shapes[0], shapes2=shapes[1])
    if tensor is None:
        return
    _check_whole(f"{what}: {name}", tensor)
    if tensor.dtype not in _FLOATS:
        raise refuse("RS-A17:weights-f16-bf16", what=what, name=name, dtype=tensor.dtype)
    try:
        is_held = torch.equal(torch.isfinite(tensor), torch.isfinite(tensor.to(own.dtype)))
    except RuntimeError as error:
        raise refuse("RS-A17:weights", what=what, name=name, reason=str(error)[:200]) from None
    if not is_held:
        raise refuse("RS-A17:finite-values-module", what=what, name=name, dtype=own.dtype)


def _gates_of(what: str, module: Any) -> int:
    """Return the number of gates of a module. Raises InvalidArguments unless it is recurrent."""
    if not isinstance(module, torch.nn.RNNBase):
        raise refuse("RS-A17:no-recurrent-module", what=what, type=type(module).__name__)
    if getattr(module, "proj_size", 0):
        raise refuse("RS-A17:module-projections", what=what, module=module)
    return _GATES["RNN" if module.mode.startswith("RNN") else module.mode]


def _directions(module: Any, layer: int) -> list[str]:
    """Return the suffixes of the names of a layer's parameters, for each direction."""
    return [f"l{layer}{end}" for end in ("", "_reverse")[: 2 if module.bidirectional else 1]]


def _ordered(rows: Any) -> Any:
    """Return gate rows in the order of the other side: for a GRU, the first two are exchanged."""
    return rows[[1, 0, 2]] if len(rows) == _GATES["GRU"] else rows


def _layer(module: Any, layer: int, gates: int) -> RNNWeights:
    def rows(kind: str, end: str) -> Any:
        """Return a parameter as (gates, C, ...), in the order of the primitives."""
        parameter = getattr(module, f"{kind}_{end}")
        return _ordered(parameter.reshape(gates, -1, *parameter.shape[1:]))

    ends = _directions(module, layer)
    inputs, states = (
        torch.stack([rows(kind, end).permute(2, 0, 1) for end in ends])[None].contiguous()
        for kind in ("weight_ih", "weight_hh")
    )
    if not module.bias:
        return RNNWeights(inputs, states, None)
    biases = []
    for end in ends:
        first, second = rows("bias_ih", end), rows("bias_hh", end)
        is_apart = module.mode == "GRU"
        both = [first[:2] + second[:2], first[2:], second[2:]] if is_apart else [first + second]
        biases.append(torch.cat(both))
    return RNNWeights(inputs, states, torch.stack(biases)[None])


def _set_layer(module: Any, layer: int, gates: int, layer_weights: RNNWeights) -> None:
    for d, end in enumerate(_directions(module, layer)):
        for kind, weights in (("ih", layer_weights.weights_layer), ("hh", layer_weights.weights_iter)):
            target = getattr(module, f"weight_{kind}_{end}")
            target.copy_(_ordered(weights[0, d].permute(1, 2, 0)).reshape(target.shape))
        if layer_weights.bias is not None:
            first, second = (getattr(module, f"bias_{kind}_{end}") for kind in ("ih", "hh"))
            first.copy_(_ordered(layer_weights.bias[0, d, :gates]).reshape(-1))
            second.zero_()
            if layer_weights.bias.shape[2] > gates:
                second[2 * second.shape[0] // 3 :].copy_(layer_weights.bias[0, d, gates])
