"""Linear layers of torch with quantized weights: results, gradients, states, copies, compilers."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest

import restride as rs
from restride.desc.ggml_blocks import GGML_BLOCKS
from support.errors import refused

pytestmark = [
    pytest.mark.peer,
    # torch tells of what it does itself, once in a process.
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated"),
]
torch = pytest.importorskip("torch")
rt = pytest.importorskip("restride.torch")

INPUTS, OUTPUTS = 512, 24
NAMES = "mxfp4", "mxfp8", "nvfp4", *GGML_BLOCKS
BLOCKS = "q4_0", "q4_1", "q8_0"
WAYS = [
    {"dtype": "int4", "group": 128},
    {"dtype": "int4"},
    {"dtype": "u4", "group": 32, "symmetric": False, "scale_type": "bf16"},
    {"dtype": "int8", "group": 64},
    {"dtype": "u8", "symmetric": False},
    {"dtype": torch.int8},
    {"dtype": "f8_e4m3", "group": 128},
    {"dtype": "f8_e4m3", "group": (8, 128)},
    {"dtype": "f4_e2m1", "group": 32, "scale_type": "f16"},
    *({"dtype": name} for name in (*NAMES, *BLOCKS)),
]
each_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(map(str, way.values())))


def _numbers(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def _model(seed=0, bias=True):
    torch.manual_seed(seed)
    sizes = (INPUTS, OUTPUTS), (OUTPUTS, OUTPUTS)
    first, last = (torch.nn.Linear(*size, bias=bias) for size in sizes)
    return torch.nn.Sequential(first, torch.nn.ReLU(), last)


def _layer(seed=0, inputs=INPUTS, outputs=OUTPUTS, bias=True, **way):
    torch.manual_seed(seed)
    layer = torch.nn.Linear(inputs, outputs, bias=bias)
    rt.quantize_(layer, **way or WAYS[0])
    return layer


def _exact(layer, x):
    """The result in f64 by the numbers that the weights stand for."""
    weight = torch.from_numpy(layer.quantized.dequantize().to_numpy()).double().T
    return torch.nn.functional.linear(x.double(), weight, None if layer.bias is None else layer.bias.double())


@each_way
def test_the_weights_are_those_that_quantize_gives(way):
    torch.manual_seed(0)
    layer = torch.nn.Linear(INPUTS, OUTPUTS)
    weight = layer.weight.detach().clone()
    rt.quantize_(layer, **way)
    if way["dtype"] in BLOCKS:
        form = rs.formats.named(f"gguf.{way['dtype']}", weight.shape)
        q = form.wrap(rs.formats.quantize_blocks(weight.numpy(), way["dtype"]))
    else:
        q = rs.quantize(weight.numpy(), **({} if way["dtype"] in NAMES else {"group": 0}) | way)
    wanted = q.dequantize().to_numpy()
    # Minima become zero points, which round.
    np.testing.assert_allclose(layer.weight.numpy(), wanted, rtol=1e-4, atol=1e-8)
    assert type(layer) is rt.QuantizedLinear
    assert [name for name, _ in layer.named_parameters()] == ["bias"]
    assert all(part.dtype is torch.uint8 for name, part in layer.state_dict().items() if name != "bias")


@each_way
@pytest.mark.parametrize("bias", [True, False])
def test_the_product_is_that_of_the_numbers(way, bias):
    layer, x = _layer(bias=bias, **way), _numbers(5, INPUTS)
    with torch.no_grad():
        torch.testing.assert_close(layer(x).double(), _exact(layer, x), rtol=1e-5, atol=1e-4)


@pytest.mark.skipif(not hasattr(torch.export, "default_decompositions"), reason="torch is too old")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize(
    "way",
    [*WAYS[:3], {"dtype": "nvfp4"}, {"dtype": "q4_k"}, {"dtype": "int8", "fpmath_mode": "any"}],
    ids=lambda way: "-".join(map(str, way.values())),
)
def test_networks_contain_the_product(way, dtype, tmp_path):
    torch._dynamo.reset()
    model, x = _model().eval(), _numbers(2, 3, INPUTS)
    rt.quantize_(model, filter_fn=lambda module, name: name == "0", **way)
    compiled = rt.compile_module(model.to(dtype), x.to(dtype))
    compiled.save(tmp_path / "network")
    fast = torch.compile(model, backend="restride", options={"fallback": False})
    with torch.no_grad():
        hidden = torch.relu(_exact(model[0], x.to(dtype)))
        wanted = torch.nn.functional.linear(hidden, model[2].weight.double(), model[2].bias.double())
        near = 0.02 if dtype is torch.bfloat16 or "fpmath_mode" in way else 1e-5
        for run in compiled, fast, rs.Network.load(tmp_path / "network"):
            found = run(x.to(dtype))
            assert found.dtype is dtype
            torch.testing.assert_close(found.double(), wanted, rtol=near, atol=near)
    assert [step.operation for step in compiled.network.plan().steps][:1] == ["quantized_matmul"]
    assert str(rt.explain(fast)).startswith("graph 0: 1 networks, 0 operators of torch")


@pytest.mark.parametrize(
    "shape", [(INPUTS,), (1, INPUTS), (2, 3, INPUTS), (2, 1, 3, INPUTS), (0, INPUTS), (3, 0, INPUTS)]
)
@pytest.mark.parametrize("way", [WAYS[0], {"dtype": "q4_k"}], ids=["int4", "q4_k"])
def test_sources_have_any_rank(way, shape):
    layer, x = _layer(**way), _numbers(*shape)
    for mode in (torch.no_grad, torch.enable_grad):
        with mode():
            found = layer(x)
        assert found.shape == (*shape[:-1], OUTPUTS)
        if found.requires_grad:
            found.sum().backward()
            rows = float(np.prod(shape[:-1]))
            torch.testing.assert_close(layer.bias.grad, torch.full((OUTPUTS,), rows))
        torch.testing.assert_close(found.detach().double(), _exact(layer, x).detach(), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("way", [WAYS[0], {"dtype": "q4_k"}], ids=["int4", "q4_k"])
def test_sources_and_biases_of_other_types(way, dtype):
    layer, x = _layer(**way), _numbers(4, INPUTS, dtype=dtype)
    before = {name: part.clone() for name, part in layer.state_dict().items()}
    precision = 4 * torch.finfo(dtype).eps
    with torch.no_grad():
        first = layer(x)  # the bias is f32
        assert layer.to(dtype) is layer
        for found in (first, layer(x)):
            assert found.dtype is dtype
            torch.testing.assert_close(
                found.double(), _exact(layer, x), rtol=precision, atol=1e-4 + precision
            )
    assert layer.bias.dtype is layer.weight.dtype is dtype
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        assert layer(x).dtype is dtype
    for name, part in layer.state_dict().items():
        assert name == "bias" or torch.equal(part, before[name])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_weights_of_other_types(dtype):
    layer, other = torch.nn.Linear(INPUTS, OUTPUTS).to(dtype), torch.nn.Linear(INPUTS, OUTPUTS)
    other.weight.data = (
        layer.weight.detach().float().T.contiguous().T
    )  # of the same numbers, column by column
    for each in (layer, other):
        rt.quantize_(each, **WAYS[0])
    assert layer.weight.dtype is dtype
    assert torch.equal(layer.weight_values, other.weight_values)


def test_sources_that_are_not_contiguous():
    layer, wide = _layer(), _numbers(INPUTS, 2, 8)
    x = wide.permute(1, 2, 0)[:, ::2]
    with torch.no_grad():
        assert torch.equal(layer(x), layer(x.contiguous()))


def test_rows_of_half_bytes():
    """Elements of 4 bits whose rows do not end at a byte."""
    layer, x = _layer(inputs=33, outputs=5, dtype="int4"), _numbers(3, 33)
    with torch.no_grad():
        torch.testing.assert_close(layer(x).double(), _exact(layer, x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("way", [WAYS[0], WAYS[2], {"dtype": "nvfp4"}, {"dtype": "q4_k"}], ids=str)
def test_gradients_of_the_source_and_the_bias(way):
    layer, x = _layer(**way), _numbers(2, 3, INPUTS).requires_grad_()
    up = _numbers(2, 3, OUTPUTS, seed=1)
    (layer(x) * up).sum().backward()
    torch.testing.assert_close(x.grad, up @ layer.weight, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(layer.bias.grad, up.sum((0, 1)))
    assert not any(buffer.requires_grad for buffer in layer.buffers())
    # The gradient is linear in what comes from above, and has a gradient of its own.
    above = _numbers(2, 3, OUTPUTS).requires_grad_()
    (grad,) = torch.autograd.grad(layer(x), x, above, create_graph=True)
    (second,) = torch.autograd.grad(grad, above, x.detach())
    torch.testing.assert_close(second, x.detach() @ layer.weight.T, rtol=1e-5, atol=1e-4)


def test_gradients_have_the_types_of_what_they_are_of():
    layer, x = _layer(), _numbers(3, INPUTS, dtype=torch.bfloat16).requires_grad_()
    layer(x).sum().backward()
    assert (x.grad.dtype, layer.bias.grad.dtype) == (torch.bfloat16, torch.float32)
    layer.requires_grad_(False)
    x.grad = None
    layer(x).sum().backward()
    torch.testing.assert_close(x.grad, layer.weight.sum(0).bfloat16().expand(3, -1), rtol=0.01, atol=1e-3)


@each_way
def test_states_go_to_other_models(way, tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    ours, x = _layer(**way), _numbers(3, INPUTS)
    buffer = io.BytesIO()
    torch.save(ours.state_dict(), buffer)
    buffer.seek(0)
    safetensors.save_file(ours.state_dict(), tmp_path / "state.safetensors")
    states = torch.load(buffer, weights_only=True), safetensors.load_file(tmp_path / "state.safetensors")
    with torch.no_grad():
        wanted = ours(x)
        for state in states:
            for assign in (False, True):
                other = _layer(seed=1, **way)
                assert not torch.equal(other(x), wanted)
                other.load_state_dict(state, assign=assign)
                assert torch.equal(other(x), wanted)


@pytest.mark.parametrize(
    "other", [{"dtype": "u4"}, {"inputs": OUTPUTS, "outputs": INPUTS, "group": 6}], ids=str
)
def test_states_of_other_ways_are_refused(other):
    """Bytes of the same number."""
    ours = _layer(dtype="int4", group=128)
    with refused("quantized differently"):
        _layer(**{"dtype": "int4", "group": 128} | other).load_state_dict(ours.state_dict())


def test_bytes_of_a_state_may_begin_anywhere():
    """As in a file that is mapped."""
    ours, x = _layer(dtype="nvfp4"), _numbers(3, INPUTS)
    state = ours.state_dict()
    for name in ("weight_values", "weight_scale", "weight_tensor_scale"):
        state[name] = torch.cat([torch.zeros(1, dtype=torch.uint8), state[name]])[1:]
    other = _layer(seed=1, dtype="nvfp4")
    other.load_state_dict(state, assign=True)
    with torch.no_grad():
        assert torch.equal(other(x), ours(x))


def test_weights_outlive_their_layer():
    layer = _layer()
    wanted, weights = layer.weight.T.numpy(), layer.quantized
    del layer
    torch.full((OUTPUTS * INPUTS // 2,), 77, dtype=torch.uint8)
    np.testing.assert_array_equal(weights.dequantize().to_numpy(), wanted)


def test_layers_without_data_take_a_state():
    ours, x = _layer(), _numbers(3, INPUTS)
    with torch.device("meta"):
        empty = torch.nn.Linear(INPUTS, OUTPUTS)
        rt.quantize_(empty, **WAYS[0])
    assert all(part.is_meta for name, part in empty.state_dict().items() if "extra" not in name)
    with refused("cannot be read"):
        empty(x)
    empty.load_state_dict(ours.state_dict(), assign=True)
    with torch.no_grad():
        assert torch.equal(empty(x), ours(x))
        assert ours.to("meta")(x.to("meta")).shape == (3, OUTPUTS)


@pytest.mark.parametrize("way", [WAYS[0], {"dtype": "nvfp4"}, {"dtype": "q4_k"}], ids=str)
def test_copies_are_layers_of_their_own(way):
    ours, x = _layer(**way), _numbers(3, INPUTS)
    with torch.no_grad():
        wanted = ours(x)
        for copied in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
            assert torch.equal(copied(x), wanted)
            copied.load_state_dict(_layer(seed=1, **way).state_dict())
            assert not torch.equal(copied(x), wanted)
        assert torch.equal(ours(x), wanted)


def test_layers_tell_how_they_are_quantized():
    assert repr(_layer()) == (
        "QuantizedLinear(in_features=512, out_features=24, bias=True, "
        "values s4 512x24 BA16b8a, scale f32 4x24 ab)"
    )


def test_no_weights_are_left_beside():
    model = _model()
    before = sum(parameter.numel() for parameter in model.parameters())
    rt.quantize_(model, "int4", group=8)
    tensors = [*model.parameters(), *model.buffers()]
    assert (
        sum(tensor.untyped_storage().nbytes() for tensor in tensors)
        < before * (0.5 + 4 / 8) * 4 / 3 + 4 * 2 * OUTPUTS  # columns in blocks of 16
    )


def test_modules_stay_where_they_are():
    model = _model()
    model.append(model[2])  # one layer in two places
    seen = []
    model[0].register_forward_hook(lambda *_: seen.append(1))
    layers, model[2].training = list(model), False
    assert rt.quantize_(model, "int8") is None
    assert list(model) == layers
    assert model[3] is model[2]
    assert not model[2].training
    with torch.no_grad():
        model(_numbers(1, INPUTS))
    assert seen
    rt.quantize_(model, "int4")  # no plain layer is left
    assert "s8" in model[0].form


def test_a_filter_chooses_layers():
    model, asked = _model(), []

    def last(module, name):
        asked.append((type(module), name))
        return name == "2"

    rt.quantize_(model, "int8", last)
    assert [type(layer) for layer in model] == [torch.nn.Linear, torch.nn.ReLU, rt.QuantizedLinear]
    assert asked == [(torch.nn.Linear, "0"), (torch.nn.Linear, "2")]
    ours = torch.nn.Sequential(rt.Linear(8, 8))
    rt.quantize_(ours, "int8", lambda module, name: True)
    assert type(ours[0]) is rt.QuantizedLinear
    assert not hasattr(ours[0], "_packed")


def test_layers_that_use_their_weight_in_their_own_way_are_left():
    attention = torch.nn.MultiheadAttention(16, 2)
    weight_norm = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(8, 8))
    for module, name in ((attention, "out_proj"), (weight_norm, "")):
        rt.quantize_(module, "int8")
        assert not any(isinstance(each, rt.QuantizedLinear) for each in module.modules())
        with refused(f"{name!r} is not a plain linear layer"):
            rt.quantize_(module, "int8", lambda module, name: True)


def test_refusals_change_nothing():
    model = _model()  # the last layer has 24 inputs
    for way, what in (
        ({"dtype": "int4", "group": 128}, "groups of 128 elements do not divide axis 1"),
        ({"dtype": "q4_k"}, "24"),
        ({"dtype": "q4_0"}, "24"),
        ({"dtype": "q4_0", "group": 8}, "q4_0"),
        ({"dtype": "int5"}, "unknown data type"),
    ):
        with refused(what):
            rt.quantize_(model, **way)
        assert [type(layer) for layer in model[::2]] == [torch.nn.Linear] * 2


def test_encoders_of_torch_run_quantized():
    """In evaluation torch has a path of its own that reads the weights of layers."""
    torch.manual_seed(0)
    encoder = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    rt.quantize_(encoder, "int8")
    x = _numbers(2, 3, 16)
    encoder.eval()
    wanted = encoder(x)
    with torch.no_grad():
        torch.testing.assert_close(encoder(x), wanted.detach())


@pytest.mark.parametrize("way", [WAYS[0], {"dtype": "nvfp4"}, {"dtype": "q4_k"}], ids=str)
def test_compilers_see_one_graph(way):
    layer = _layer(**way)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True, dynamic=True)
    for rows in (3, 5):
        x, y = (_numbers(rows, INPUTS).requires_grad_() for _ in range(2))
        compiled(x).sum().backward()
        layer(y).sum().backward()
        torch.testing.assert_close(x.grad, y.grad)
        with torch.no_grad():
            assert torch.equal(compiled(x), layer(x))


def test_operators_have_fakes_that_are_true():
    for way in (WAYS[0], {"dtype": "q4_k"}):
        layer = _layer(**way)
        parts = [part for name, part in layer.state_dict().items() if name.startswith("weight_")]
        ops = torch.ops.restride
        for x in (_numbers(2, 3, INPUTS), _numbers(INPUTS, 4).T):
            torch.library.opcheck(ops.quantized_linear, (x.requires_grad_(), parts, layer.form, layer.bias))
        grad = _numbers(3, OUTPUTS).requires_grad_()
        torch.library.opcheck(ops.quantized_linear_gradient, (grad, parts, layer.form))


def test_a_layer_is_made_of_weights():
    weight, x = rs.quantize(_numbers(OUTPUTS, INPUTS).numpy(), "q5_0"), _numbers(2, INPUTS)
    for bias in (None, _numbers(OUTPUTS), torch.nn.Parameter(_numbers(OUTPUTS))):
        layer = rt.QuantizedLinear(weight, bias)
        assert (layer.in_features, layer.out_features) == (INPUTS, OUTPUTS)
        with torch.no_grad():
            torch.testing.assert_close(layer(x).double(), _exact(layer, x), rtol=1e-5, atol=1e-4)
    with refused("not a quantized matrix"):
        rt.QuantizedLinear(_numbers(2, 3))


def test_sources_that_do_not_fit_are_refused():
    layer = _layer()
    for x in (_numbers(2, 8), torch.tensor(1.0)):
        with refused("dims do not fit"), torch.no_grad():
            layer(x)
    for dtype in (torch.float64, torch.int8):
        with refused(f"x is {dtype}"):
            layer(_numbers(2, INPUTS).to(dtype))
    with refused("the tensor is on meta"):
        layer.to("meta")(_numbers(2, INPUTS))
    with refused("is not a tensor"):
        layer([1.0])


def test_derivatives_that_would_be_zeros_are_refused():
    layer, x = _layer(), _numbers(2, INPUTS)
    with refused("inside a transform of torch.func", kind=rs.Unimplemented):
        torch.func.jvp(layer, (x,), (x,))


def test_the_operator_checks_bytes():
    layer = _layer()
    parts = [layer.weight_values[:-1], layer.weight_scale]
    with refused("values does not fit"):
        torch.ops.restride.quantized_linear(_numbers(2, INPUTS), parts, layer.form, None)
