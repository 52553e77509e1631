"""Linear layers and convolutions of torch on restride: results, gradients, packed weights, compilers."""

from __future__ import annotations

import copy
import io
import pickle

import pytest

import restride as rs
from support.errors import refused

pytestmark = [
    pytest.mark.peer,
    # torch tells of what it does itself, once in a process.
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated"),
]
torch = pytest.importorskip("torch")
rt = pytest.importorskip("restride.torch")

F = torch.nn.functional
WINDOWS = [(1, 1, 1, 1), (2, 1, 1, 2), ((1, 2), (0, 1), (2, 1), 1), (1, 1, 1, 8)]


def _numbers(*shape, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-4, 5, shape, generator=generator).to(dtype)


def _gradients(run, *tensors):
    leaves = [each.clone().requires_grad_() for each in tensors]
    out = run(*leaves)
    (out * _numbers(*out.shape, dtype=out.dtype, seed=9)).sum().backward()
    return [out.detach(), *(each.grad for each in leaves)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", [(5, 20), (2, 3, 20)])
def test_linear_and_its_gradients_are_those_of_torch(shape, dtype):
    tensors = _numbers(*shape, dtype=dtype), _numbers(12, 20, dtype=dtype), _numbers(12, dtype=dtype)
    ours, theirs = _gradients(rt.linear, *tensors), _gradients(F.linear, *tensors)
    for mine, wanted in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, wanted, rtol=0.02 if dtype is torch.bfloat16 else 0, atol=0)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_convolution_and_its_gradients_are_those_of_torch(window, memory_format):
    stride, padding, dilation, groups = window
    x = _numbers(2, 16, 9, 8).contiguous(memory_format=memory_format)
    tensors = x, _numbers(24, 16 // groups, 3, 3), _numbers(24)

    def run(function):
        return lambda *args: function(*args, stride, padding, dilation, groups)

    ours, theirs = _gradients(run(rt.conv2d), *tensors), _gradients(run(F.conv2d), *tensors)
    for mine, wanted in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, wanted, rtol=0, atol=0)
    assert ours[0].is_contiguous(memory_format=memory_format)


def test_second_gradients_of_linear_layers_flow():
    tensors = [_numbers(*shape, dtype=torch.float64).requires_grad_() for shape in ((3, 5), (4, 5), (4,))]
    assert torch.autograd.gradgradcheck(rt.linear, tensors)


def test_a_second_gradient_of_a_convolution_is_refused():
    x, weight = _numbers(1, 2, 5, 5).requires_grad_(), _numbers(3, 2, 3, 3).requires_grad_()
    for leaf in (x, weight):
        with refused("restride.torch.conv2d: a second derivative", kind=rs.Unimplemented):
            torch.autograd.grad(rt.conv2d(x, weight).sum(), leaf, create_graph=True)


def _layers():
    linear, conv = torch.nn.Linear(20, 12), torch.nn.Conv2d(16, 24, 3, stride=2, padding=1, groups=2)
    return [
        (linear, rt.Linear.of(linear), _numbers(3, 20)),
        (conv, rt.Conv2d.of(conv), _numbers(2, 16, 9, 8)),
    ]


@pytest.mark.parametrize("number", [0, 1])
def test_modules_pack_weights_where_no_gradient_is_wanted(number):
    theirs, ours, x = _layers()[number]
    torch.testing.assert_close(ours(x), theirs(x))  # gradients of parameters are wanted here
    assert ours._packed._packed is None
    with torch.no_grad():
        torch.testing.assert_close(ours(x), theirs(x))
        first = ours._packed._packed
        assert isinstance(first, rs.Memory)
        ours(x)
        assert ours._packed._packed is first
        theirs.weight.mul_(2)  # one parameter, which both have
        torch.testing.assert_close(ours(x), theirs(x))
    for copied in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        with torch.inference_mode():
            torch.testing.assert_close(copied(x), theirs(x))
    state = io.BytesIO()
    torch.save(ours.state_dict(), state)
    assert set(ours.state_dict()) == set(theirs.state_dict())


def test_what_conv2d_has_no_kernel_for_is_torchs_own():
    for options in ({"padding": "same"}, {"padding": 1, "padding_mode": "reflect"}):
        theirs = torch.nn.Conv2d(4, 6, 3, **options)
        x = _numbers(1, 4, 7, 7)
        torch.testing.assert_close(rt.Conv2d.of(theirs)(x), theirs(x))
    theirs = torch.nn.Conv2d(4, 6, 3)
    torch.testing.assert_close(rt.Conv2d.of(theirs)(x[0]), theirs(x[0]))


def test_types_that_differ_are_refused():
    with refused("tensors have different types"):
        rt.linear(_numbers(2, 3), _numbers(4, 3, dtype=torch.bfloat16))
    with refused("tensors have different types"), torch.no_grad():
        rt.Linear(3, 4)(_numbers(2, 3, dtype=torch.float64))


def test_derivatives_that_would_be_zeros_are_refused():
    x, w = _numbers(2, 3), _numbers(4, 3)
    with refused("inside a transform of torch.func", kind=rs.Unimplemented):
        torch.func.jvp(lambda x: rt.linear(x, w), (x,), (x,))
    with refused("inside a transform of torch.func", kind=rs.Unimplemented):
        torch.func.grad(lambda x: rt.conv2d(x[None, None], w[None, None, :2, :2]).sum())(x)
    with torch.autograd.forward_ad.dual_level(), refused("in forward mode", kind=rs.Unimplemented):
        rt.linear(torch.autograd.forward_ad.make_dual(x, x), w)


@pytest.mark.parametrize("number", [0, 1])
def test_compilers_see_one_graph(number):
    _, ours, x = _layers()[number]
    compiled = torch.compile(ours, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), ours(x))
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), ours(x))


def test_operators_have_fakes_that_are_true():
    x, w, b = _numbers(2, 16, 9, 8), _numbers(24, 8, 3, 3), _numbers(24)
    tests = "test_schema", "test_faketensor"
    for layout in (torch.contiguous_format, torch.channels_last):
        args = (x.contiguous(memory_format=layout), w, b, [2, 2], [1, 1], [1, 1], 2)
        torch.library.opcheck(torch.ops.restride.convolution, args, test_utils=tests)
    args = (_numbers(2, 3, 20), _numbers(20, 12), _numbers(12))
    torch.library.opcheck(torch.ops.restride.matmul, args, test_utils=tests)
