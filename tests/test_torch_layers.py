"""Softmax, layer normalization and pooling of torch's tensors: values and gradients beside torch's own."""

from __future__ import annotations

import pytest

import restride as rs
from support.errors import refused

torch = pytest.importorskip("torch")
rt = pytest.importorskip("restride.torch")
functional = torch.nn.functional
pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("default")]


def tensor(*dims, last=False, seed=0, dtype=torch.float32):
    made = torch.randn(dims, generator=torch.Generator().manual_seed(seed)).to(dtype)
    made = made.to(memory_format=torch.channels_last) if last else made
    return made.requires_grad_()


def check(ours, theirs, *leaves, rtol=2e-4, atol=2e-5):
    """Values, with and without gradients, layouts and gradients of all leaves."""
    made, wanted = ours(*leaves), theirs(*leaves)
    torch.testing.assert_close(made, wanted, rtol=rtol, atol=atol)
    assert made.dtype is leaves[0].dtype
    with torch.no_grad():
        plain = ours(*leaves)
        torch.testing.assert_close(plain, wanted, rtol=rtol, atol=atol)
    if (
        made.dim() == 4
        and made[0, 0].numel() > 1
        and leaves[0].is_contiguous(memory_format=torch.channels_last)
    ):
        assert made.is_contiguous(memory_format=torch.channels_last)
        assert plain.stride() == made.stride()
    weight = torch.randn_like(wanted)
    gradients = [torch.autograd.grad((each * weight).sum(), leaves) for each in (made, wanted)]
    for got, right in zip(*gradients, strict=True):
        torch.testing.assert_close(got, right, rtol=rtol, atol=atol)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax(axis, last):
    x = tensor(2, 12, 7, 9, last=last)
    check(lambda x: rt.softmax(x, axis), lambda x: x.softmax(axis), x)
    check(lambda x: rt.softmax(x, axis, log=True), lambda x: x.log_softmax(axis), x)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("weights", [(), (1,), (1, 1)], ids=len)
def test_layer_norm_of_channels(weights, last):
    given = [tensor(12, seed=i + 1) for i, _ in enumerate(weights)]

    def theirs(x, *weights):
        return functional.layer_norm(x.movedim(1, -1), (12,), *weights).movedim(-1, 1)

    check(lambda x, *more: rt.layer_norm(x, *more, axis=1), theirs, tensor(2, 12, 7, 9, last=last), *given)


def test_layer_norm_of_rows():
    check(rt.layer_norm, lambda x: functional.layer_norm(x, (33,)), tensor(20, 33))
    half = [tensor(*dims, dtype=torch.bfloat16) for dims in ((20, 33), (33,), (33,))]
    check(rt.layer_norm, lambda x, *more: functional.layer_norm(x, (33,), *more), *half, rtol=0.05, atol=0.1)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("how", [(3, 2, 1), ((2, 3), (1, 2), 0), (2, None, 0)], ids=str)
def test_pooling(how, last):
    kernel, strides, padding = how
    x = tensor(2, 12, 7, 9, last=last)
    ours = lambda x, alg: rt.pool(x, kernel, alg=alg, strides=strides, padding=padding)  # noqa: E731
    check(lambda x: ours(x, "max"), lambda x: functional.max_pool2d(x, kernel, strides, padding), x)
    check(lambda x: ours(x, "avg"), lambda x: functional.avg_pool2d(x, kernel, strides, padding), x)
    within = lambda x: functional.avg_pool2d(x, kernel, strides, padding, count_include_pad=False)  # noqa: E731
    check(lambda x: ours(x, "avg_exclude_padding"), within, x)


def test_pooling_of_everything_and_of_large_windows():
    x = tensor(2, 3, 17, 19)
    check(lambda x: rt.pool(x, alg="avg"), lambda x: functional.adaptive_avg_pool2d(x, 1), x)
    check(rt.pool, lambda x: functional.adaptive_max_pool2d(x, 1), x)
    check(lambda x: rt.pool(x, 2), lambda x: functional.max_pool1d(x, 2), tensor(2, 3, 10))
    check(lambda x: rt.pool(x, 2), lambda x: functional.max_pool3d(x, 2), tensor(2, 3, 4, 5, 6))


def _net(x, scale, shift):
    normal = rt.layer_norm(x, scale, shift, axis=1)
    return rt.softmax(rt.pool(normal, 3, strides=2, padding=1), 1)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_compiler_makes_one_graph_of_them(dynamic):
    compiled = torch.compile(_net, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    weights = tensor(12, seed=1), tensor(12, seed=2)
    for size in (7, 5):
        check(compiled, _net, tensor(2, 12, size, 9), *weights)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("softmax", (1, False)),
        ("layer_norm", (None, None, 1, 1e-5)),
        ("pool", ("max", [2, 2], [2, 2], [0, 0], [0, 0], [0, 0])),
        ("pool", ("avg_include_padding", [2, 2], [2, 2], [0, 0], [0, 0], [0, 0])),
    ],
)
def test_operators_keep_the_rules_of_torch(name, args):
    torch.library.opcheck(getattr(torch.ops.restride, name).default, (tensor(2, 4, 6, 6), *args))


def test_softmax_has_second_derivatives_and_the_others_say_that_they_have_none():
    x = tensor(3, 5)
    found = []
    for f in (rt.softmax, lambda x: x.softmax(-1)):
        (first,) = torch.autograd.grad(f(x).square().sum(), x, create_graph=True)
        found.append(torch.autograd.grad(first.square().sum(), x)[0])
    torch.testing.assert_close(*found)
    for f in (rt.layer_norm, lambda x: rt.pool(x[None], 2)):
        with refused("a second derivative", kind=rs.Unimplemented):
            torch.autograd.grad(f(x).square().sum(), x, create_graph=True)


def test_transforms_of_torch_func():
    x = tensor(3, 4, 5).detach()
    torch.testing.assert_close(torch.vmap(lambda x: rt.softmax(x, 0))(x), x.softmax(1))
    for f in (rt.softmax, rt.layer_norm, lambda x: rt.pool(x, 2)):
        with refused("inside a derivative of torch.func", kind=rs.Unimplemented):
            torch.func.grad(lambda x, f=f: f(x).sum())(x)


def test_what_does_not_fit_is_refused():
    x = tensor(2, 3, 4, 5)
    for each in (x, x.detach()):
        with refused("axis is 4"):
            rt.softmax(each, 4)
        with refused("axis is 4"):
            rt.layer_norm(each, axis=4)
        with refused("scale is"):
            rt.layer_norm(each, torch.ones(3))
        with refused("larger than the image"):
            rt.pool(each, 9)
        with refused("no such algorithm"):
            rt.pool(each, 2, alg="mean")
        with refused("kernel"):
            rt.pool(each, (2, 2, 2))
    with refused("is no tensor"):
        rt.softmax(x.detach().numpy())
