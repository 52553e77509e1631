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


def test_layer_norm_of_doubles_a_row_alone_and_nothing():
    wide = [tensor(*dims, dtype=torch.float64) for dims in ((20, 33), (33,), (33,))]
    check(rt.layer_norm, lambda x, *more: functional.layer_norm(x, (33,), *more), *wide, rtol=1e-9, atol=1e-9)
    assert torch.autograd.gradcheck(rt.layer_norm, [each[..., :5].detach().requires_grad_() for each in wide])
    row = [tensor(17, seed=i) for i in range(3)]
    check(rt.layer_norm, lambda x, *more: functional.layer_norm(x, (17,), *more), *row)
    check(lambda x: rt.layer_norm(x, axis=0), lambda x: functional.layer_norm(x, (17,)), row[0])
    for dims in ((0, 17), (2, 0, 17)):
        check(rt.layer_norm, lambda x, *more: functional.layer_norm(x, (17,), *more), tensor(*dims), *row[1:])


def test_gradients_that_lie_otherwise():
    """Gradients of sums, whose strides are 0, and of tensors with gaps or overlapping elements."""
    wide = tensor(2, 6, 10, 14).detach()
    for x in (wide[:, ::2, ::2, ::2], wide[:1, :3, :5, :1].expand(2, 3, 5, 7), wide.permute(3, 0, 2, 1)):
        x = x.detach().requires_grad_()
        for ours, theirs in (
            (lambda x: rt.layer_norm(x, axis=2), lambda x: functional.layer_norm(x.mT, x.shape[2:3]).mT),
            (lambda x: rt.pool(x, 3, stride=2, padding=1), lambda x: functional.max_pool2d(x, 3, 2, 1)),
            (lambda x: rt.pool(x, 2, alg="avg"), lambda x: functional.avg_pool2d(x, 2)),
            (lambda x: rt.softmax(x, 1), lambda x: x.softmax(1)),
        ):
            found = [torch.autograd.grad(f(x).sum(), x)[0] for f in (ours, theirs)]
            torch.testing.assert_close(*found, rtol=2e-4, atol=2e-4)


def test_layer_norm_of_rows():
    check(rt.layer_norm, lambda x: functional.layer_norm(x, (33,)), tensor(20, 33))
    half = [tensor(*dims, dtype=torch.bfloat16) for dims in ((20, 33), (33,), (33,))]
    check(rt.layer_norm, lambda x, *more: functional.layer_norm(x, (33,), *more), *half, rtol=0.05, atol=0.1)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("how", [(3, 2, 1), ((2, 3), (1, 2), 0), (2, None, 0)], ids=str)
def test_pooling(how, last):
    kernel, strides, padding = how
    x = tensor(2, 12, 7, 9, last=last)
    ours = lambda x, alg: rt.pool(x, kernel, alg=alg, stride=strides, padding=padding)  # noqa: E731
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
    return rt.softmax(rt.pool(normal, 3, stride=2, padding=1), 1)


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


def test_operators_refuse_numbers_and_tensors_that_do_not_fit():
    x, ops, bytes_ = tensor(1, 3, 8).detach(), torch.ops.restride, torch.zeros(1, 3, 4, dtype=torch.uint8)
    ones = torch.ones(1, 3)
    for alg, windows, text in (
        ("mean", ([2], [2], [0], [0], [0]), "algorithm is 'mean'"),
        ("max", ([0], [2], [0], [0], [0]), "kernel is"),
        ("max", ([2], [0], [0], [0], [0]), "stride is"),
        ("max", ([2], [2], [-5], [0], [0]), "dilation is"),
        ("max", ([2], [2], [0], [-3], [3]), "padding is"),
        ("max", ([2], [2], [0], [0], [0, 0]), "padding is"),
        ("max", ([2, 2], [2, 2], [0, 0], [0, 0], [0, 0]), "kernel is"),
        ("max", ([20], [2], [0], [0], [0]), "larger than the image"),
    ):
        with refused(text):
            ops.pool(x, alg, *windows)
    windows = ([2], [2], [0], [0], [0])
    for grad, workspace, dims, text in (
        (x[..., :4], bytes_[..., :3], [1, 3, 8], "the workspace does not fit"),
        (x[..., :4], bytes_.float(), [1, 3, 8], "the workspace does not fit"),
        (x[..., :3], bytes_[..., :3], [1, 3, 8], "the gradient does not fit"),
        (x[..., :4], bytes_, [1, 3, -8], "dims[2] is -8"),
    ):
        with refused(text):
            ops.pool_backward(grad, workspace, dims, "max", *windows)
    with refused("epsilon is -1"):
        ops.layer_norm(x, None, None, -1, -1.0)
    for grad, mean, variance, axis, text in (
        (x[:, :2], ones, ones, -1, "the gradient does not fit"),
        (x, ones[:, :2], ones, -1, "mean does not fit"),
        (x, ones, ones.double(), -1, "variance does not fit"),
        (x, ones, ones, 5, "axis is 5"),
    ):
        with refused(text):
            ops.layer_norm_backward(grad, x, mean, variance, None, False, axis, 1e-5)


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
        with refused("epsilon is -1"):
            rt.layer_norm(each, epsilon=-1)
        with refused("epsilon is nan"):
            rt.layer_norm(each, epsilon=float("nan"))
        with refused("epsilon is 'small'"):
            rt.layer_norm(each, epsilon="small")
        with refused("axis is '1'"):
            rt.layer_norm(each, axis="1")
        with refused("axis is True"):
            rt.softmax(each, True)
        with refused("log is 1"):
            rt.softmax(each, 1, log=1)
        with refused("scale is"):
            rt.layer_norm(each, torch.ones(5, dtype=torch.complex64))
        with refused("ndarray is not a tensor"):
            rt.layer_norm(each, torch.ones(5).numpy())
    with refused("is not a tensor"):
        rt.softmax(x.detach().numpy())


@pytest.mark.filterwarnings("ignore:.*padding=.same.")
@pytest.mark.parametrize("padding", ["same", "valid", 1])
@pytest.mark.parametrize("size", [2, 3])
def test_functions_take_what_those_of_torch_take(padding, size):
    functional = torch.nn.functional
    x, w = torch.rand(3, 9, 8), torch.rand(4, 3, size, size)
    wanted = functional.conv2d(x, w, padding=padding)
    torch.testing.assert_close(rt.conv2d(x, w, padding=padding), wanted)
    torch.testing.assert_close(rt.conv2d(x[None], w, padding=padding)[0], wanted)
    row, layer = torch.rand(8), rt.Linear(8, 4)
    with torch.set_grad_enabled(size == 2):
        torch.testing.assert_close(layer(row), functional.linear(row, layer.weight, layer.bias))
    point = torch.tensor(3.0)
    assert torch.equal(rt.softmax(point), torch.tensor(1.0))
    assert torch.equal(rt.reorder(point, dtype="bf16"), point.bfloat16())


def test_words_for_padding_that_torch_refuses_are_refused():
    x, w = torch.rand(1, 3, 8, 8), torch.rand(4, 3, 3, 3)
    for how in ({"padding": "full"}, {"padding": "same", "stride": 2}):
        with pytest.raises(rs.InvalidArguments, match="padding"):
            rt.conv2d(x, w, **how)


def test_parameters_are_read_where_no_gradient_is_recorded():
    parameter = torch.nn.Parameter(torch.rand(2, 3, 4, 4))
    with torch.no_grad():
        assert torch.equal(rs.reorder(parameter, "nhwc"), parameter)
    with pytest.raises(rs.InvalidArguments, match="gradients"):
        rs.reorder(parameter, "nhwc")
    for x, hint in ((parameter, "x.detach()"), (torch.empty(2, device="meta"), "with values")):
        with pytest.raises(rs.InvalidArguments) as refusal:
            rs.Memory.from_dlpack(x)
        assert hint in refusal.value.hint
    with pytest.raises(rs.InvalidArguments, match=r"Memory\.from_dlpack"):
        rs.Memory.from_dlpack(torch.tensor(1.0))
    with pytest.raises(rs.InvalidArguments, match=r"rs\.Memory\.from_dlpack"):
        rs.Memory.from_numpy(torch.rand(2))
    with pytest.raises(AttributeError, match=r"torch\.from_dlpack"):
        rs.Memory.from_dlpack(torch.rand(2)).to_torch()
