"""Weights of torch's recurrent modules in primitives, which then compute what the modules do."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import restride as rs
from support.computed import elements, memory_of
from support.errors import refused

pytestmark = pytest.mark.peer
torch = pytest.importorskip("torch")
rt = pytest.importorskip("restride.torch")

CPU = rs.Engine("cpu")
_KINDS = {"LSTM": "LSTM", "GRU": "LBRGRU", "RNN": "VanillaRNN"}
_STEPS, _BATCH, _INPUTS, _CHANNELS = 6, 3, 5, 9


def _module(kind, **options):
    torch.manual_seed(0)
    return getattr(torch.nn, kind)(_INPUTS, _CHANNELS, **options)


def _descs(kind, weights, x):
    runs = weights.weights_layer.shape[1]
    steps, batch, _ = x.shape
    state = rs.MemoryDesc((1, runs, batch, _CHANNELS), "f32")
    bias = None if weights.bias is None else rs.MemoryDesc(tuple(weights.bias.shape), "f32")
    found = {
        "src_layer_desc": rs.MemoryDesc(x.shape, "f32"),
        "src_iter_desc": None,
        "weights_layer_desc": rs.MemoryDesc(tuple(weights.weights_layer.shape), "f32"),
        "weights_iter_desc": rs.MemoryDesc(tuple(weights.weights_iter.shape), "f32"),
        "bias_desc": bias,
        "dst_layer_desc": rs.MemoryDesc((steps, batch, runs * _CHANNELS), "f32"),
        "dst_iter_desc": state,
    }
    if kind == "LSTM":
        found |= {"src_iter_c_desc": None, "dst_iter_c_desc": state}
    direction = "bidirectional_concat" if runs == 2 else "unidirectional_left2right"
    return {**({"activation": "eltwise_tanh"} if kind == "RNN" else {}), "direction": direction, **found}


def _forward(kind, weights, x, prop_kind="forward_inference"):
    cls = getattr(rs, f"{_KINDS[kind]}Forward")
    pd = cls.PrimitiveDesc(CPU, prop_kind=prop_kind, **_descs(kind, weights, x))
    values = {1: x, 33: weights.weights_layer.numpy(), 34: weights.weights_iter.numpy()}
    if weights.bias is not None:
        values[41] = weights.bias.numpy()
    memories = {arg: memory_of(pd.query_md("exec_arg_md", arg), each, CPU) for arg, each in values.items()}
    for arg in pd._exec_args():
        memories.setdefault(arg, rs.Memory(pd.query_md("exec_arg_md", arg), CPU))
    cls(pd).execute(rs.Stream(CPU), memories)
    return pd, memories


@pytest.mark.parametrize(
    "options", [{}, {"bidirectional": True}, {"bias": False}, {"num_layers": 3}], ids=str
)
@pytest.mark.parametrize("kind", _KINDS)
def test_primitives_with_the_weights_of_a_module_compute_what_it_does(kind, options):
    module = _module(kind, **options)
    x = torch.randn(_STEPS, _BATCH, _INPUTS)
    with torch.no_grad():
        wanted, _ = module(x)
    result = x.numpy()
    for weights in rt.rnn_weights(module):
        result = elements(_forward(kind, weights, result)[1][rs.ARG_DST_LAYER])
    np.testing.assert_allclose(result, wanted.numpy(), atol=2e-6)


@pytest.mark.parametrize("kind", _KINDS)
def test_gradients_are_those_of_autograd(kind):
    module = _module(kind, bidirectional=True)
    x = torch.randn(_STEPS, _BATCH, _INPUTS, requires_grad=True)
    y, _ = module(x)
    above = torch.randn_like(y)
    y.backward(above)
    (weights,) = rt.rnn_weights(module)
    pd, memories = _forward(kind, weights, x.detach().numpy(), "forward_training")
    descs = _descs(kind, weights, x.detach().numpy())
    gradients = {f"diff_{name}": md for name, md in descs.items() if name.endswith("_desc")}
    cls = getattr(rs, f"{_KINDS[kind]}Backward")
    back = cls.PrimitiveDesc(CPU, prop_kind="backward", hint_pd=pd, **descs, **gradients)
    for arg in back._exec_args():
        if arg not in memories:
            memories[arg] = rs.Memory(
                md := back.query_md("exec_arg_md", arg), CPU, np.zeros(md.size, np.uint8)
            )
    memories[145] = memory_of(back.query_md("exec_arg_md", 145), above.numpy(), CPU)
    cls(back).execute(rs.Stream(CPU), memories)
    np.testing.assert_allclose(elements(memories[129]), x.grad.numpy(), atol=1e-5)
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        for end in ("l0", "l0_reverse"):
            parameter = getattr(module, f"{name}_{end}")
            parameter.data.copy_(parameter.grad)
    (wanted,) = rt.rnn_weights(module)
    np.testing.assert_allclose(elements(memories[161]), wanted.weights_layer.numpy(), atol=2e-5)
    np.testing.assert_allclose(elements(memories[162]), wanted.weights_iter.numpy(), atol=2e-5)
    # The gradient of each of the biases that are added is the gradient of their sum.
    shared = 2 if kind == "GRU" else wanted.bias.shape[2]
    halved = wanted.bias.numpy().copy()
    halved[:, :, :shared] /= 2
    np.testing.assert_allclose(elements(memories[169]), halved, atol=2e-5)


@pytest.mark.parametrize("kind", _KINDS)
def test_weights_go_back_into_a_module(kind):
    module = _module(kind, num_layers=2, bidirectional=True)
    other = _module(kind, num_layers=2, bidirectional=True)
    for parameter in other.parameters():
        parameter.data.zero_()
    rt.set_rnn_weights(other, rt.rnn_weights(module))
    x = torch.randn(_STEPS, _BATCH, _INPUTS)
    with torch.no_grad():
        assert torch.allclose(module(x)[0], other(x)[0], atol=1e-6)


def test_other_modules_and_weights_of_others_are_refused():
    with refused("Linear is not a recurrent module"):
        rt.rnn_weights(torch.nn.Linear(2, 3))
    with refused("projections", kind=rs.Unimplemented):
        rt.rnn_weights(torch.nn.LSTM(4, 6, proj_size=2))
    module = _module("LSTM")
    before = [parameter.clone() for parameter in module.parameters()]
    with refused("the module has 1"):
        rt.set_rnn_weights(module, rt.rnn_weights(_module("LSTM", num_layers=2)))
    with refused("weights_layer of layer 0"):
        rt.set_rnn_weights(module, rt.rnn_weights(_module("GRU")))
    with refused("bias of layer 0 is None"):
        rt.set_rnn_weights(module, rt.rnn_weights(_module("LSTM", bias=False)))
    assert all(torch.equal(*pair) for pair in zip(before, module.parameters(), strict=True))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda each: each.to("meta"), "on meta"),
        (lambda each: each.to_sparse(), "torch.sparse_coo"),
        (lambda each: each.to(torch.complex64), "is torch.complex64"),
        (lambda each: each > 0, "is torch.bool"),
        (lambda each: each.to(torch.int64), "is torch.int64"),
        (lambda each: each.double() * 1e300, "cannot hold"),
        (lambda each: torch.nested.nested_tensor([each]), "not a dense tensor"),
    ],
)
def test_tensors_that_cannot_be_weights_change_nothing(change, said):
    module, other = (_module("LSTM", num_layers=2) for _ in range(2))
    before = [parameter.detach().clone() for parameter in module.parameters()]
    first, second = rt.rnn_weights(other)
    changed = second._replace(weights_iter=change(second.weights_iter))
    with refused("weights_iter of layer 1", said):
        rt.set_rnn_weights(module, [first._replace(weights_layer=first.weights_layer + 1), changed])
    assert all(torch.equal(*pair) for pair in zip(before, module.parameters(), strict=True))


def test_weights_that_are_not_finite_and_of_other_floats_are_written():
    module = _module("RNN")
    (weights,) = rt.rnn_weights(module)
    weights.weights_layer[0, 0, 0, 0, :2] = torch.tensor([float("nan"), float("inf")])
    rt.set_rnn_weights(module, [weights._replace(weights_layer=weights.weights_layer.double())])
    first = module.weight_ih_l0[:, 0]
    assert first[0].isnan()
    assert first[1].isinf()
    assert torch.equal(rt.rnn_weights(module)[0].weights_iter, weights.weights_iter)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_modules_whose_parameters_cannot_be_written_are_refused():
    computed = [
        torch.nn.utils.parametrizations.weight_norm(_module("LSTM"), "weight_hh_l0"),
        torch.nn.utils.weight_norm(_module("LSTM"), "weight_hh_l0"),
        importlib.import_module("torch.nn.utils.prune").identity(_module("LSTM"), "weight_hh_l0"),
    ]
    weights = rt.rnn_weights(_module("LSTM"))
    for module in computed:
        with refused("weight_hh_l0 is not a parameter of the module", "remove"):
            rt.set_rnn_weights(module, weights)
    with refused("no data", "to_empty"):
        rt.set_rnn_weights(_module("LSTM", device="meta"), weights)


def test_tensors_whose_storage_was_freed_are_refused():
    module = _module("GRU")
    (weights,) = rt.rnn_weights(module)
    weights.weights_iter.untyped_storage().resize_(0)
    with refused("weights_iter of layer 0 cannot be read", "its storage has been resized"):
        rt.set_rnn_weights(module, [weights])
    module.weight_hh_l0.untyped_storage().resize_(0)
    for call in (rt.rnn_weights, lambda each: rt.set_rnn_weights(each, [weights])):
        with refused("weight_hh_l0 of the module cannot be read"):
            call(module)


def test_modules_of_inference_mode_are_written_in_that_mode():
    with torch.inference_mode():
        module = _module("RNN")
    weights = rt.rnn_weights(_module("RNN"))
    with refused("cannot be written here", "torch.inference_mode"):
        rt.set_rnn_weights(module, weights)
    with torch.inference_mode():
        rt.set_rnn_weights(module, weights)
