"""restride.torch: operators under autograd, compiler and transforms; tensors in and out of the functions."""

from __future__ import annotations

import copy
import doctest
import io
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import restride as rs
from support.errors import refused

pytestmark = [
    pytest.mark.peer,
    # torch tells of what it does itself, once in a process: whichever test is the first to make it do so.
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated"),
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning"),
]
torch = pytest.importorskip("torch")
rt = pytest.importorskip("restride.torch")
is_plain = pytest.importorskip("restride.arrays.torch.modes").is_plain

FakeTensorMode = pytest.importorskip("torch._subclasses.fake_tensor").FakeTensorMode
_OPS = torch.ops.restride


def image(dtype=torch.float32, last=False):
    x = torch.arange(2 * 12 * 5 * 3).remainder(100).reshape(2, 12, 5, 3).to(dtype)
    return x.to(memory_format=torch.channels_last) if last else x


# --- arrays in and out of the functions of restride ---------------------------------------------------------


@pytest.mark.parametrize(
    "kind", ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "bool"]
)
def test_reorder_of_a_tensor_is_a_tensor_with_the_strides_of_channels_last(kind):
    x = image(getattr(torch, kind))
    made = rs.reorder(x, "nhwc")
    assert made.dtype is x.dtype
    assert made.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(made, x)
    assert rs.reorder(made, "nchw").is_contiguous()
    assert isinstance(rs.reorder(x, "nChw16c"), rs.Memory)


def test_tensors_are_sources_and_outputs():
    x, out = image(), torch.empty(2, 12, 5, 3, dtype=torch.int8)
    assert rs.reorder(x, None, scale=0.5, out=out) is out
    assert torch.equal(out, (x * 0.5).round().to(torch.int8))
    assert torch.equal(rs.shuffle_channels(x, group=3), torch.nn.functional.channel_shuffle(x, 3))
    assert rs.shuffle(x, group_size=4, out=(other := torch.empty_like(x))) is other
    assert torch.equal(other, torch.nn.functional.channel_shuffle(x, 3))


def test_a_memory_is_read_by_torch():
    memory = rs.reorder(image().numpy(), "nChw16c").to("nhwc")
    read = torch.from_dlpack(memory)
    assert torch.equal(read, image())
    assert read.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: torch.ones(2, 4).to_sparse(), "x.to_dense()"),
        (lambda: torch.quantize_per_tensor(torch.ones(2, 4), 0.1, 0, torch.qint8), "x.dequantize()"),
        (lambda: torch.ones(2, 4, device="meta"), "torch.zeros_like(x, device"),
        (lambda: torch.ones(2, 4, requires_grad=True), "x.detach()"),
        (lambda: torch.nested.nested_tensor([torch.ones(3, 4), torch.ones(2, 4)]), "x.unbind()"),
        (lambda: torch._neg_view(torch.ones(2, 4)), "x.resolve_neg()"),
        (lambda: torch.ones(2, 4, dtype=torch.complex64).conj(), "x.resolve_conj()"),
        (lambda: torch._efficientzerotensor((2, 4)), "ZeroTensor"),
        (lambda: FakeTensorMode().from_tensor(torch.ones(2, 4)), "restride.torch"),
    ],
    ids=["sparse", "quantized", "meta", "gradient", "nested", "negated", "conjugate", "zero", "fake"],
)
@pytest.mark.filterwarnings("ignore")
def test_tensors_that_are_no_plain_memory_say_what_to_do(make, text):
    x = make()
    for call in (lambda: rs.reorder(x, "ba"), lambda: rs.shuffle(x, group_size=2)):
        with refused("x cannot be read", text):
            call()


@pytest.mark.filterwarnings("ignore")
def test_functions_of_restride_inside_torch_func_say_what_to_do():
    x = torch.rand(3, 2, 4)
    for transform in (torch.func.vmap, lambda f: torch.func.grad(lambda y: f(y).sum())):
        with refused("shuffle: x cannot be read", "restride.torch"):
            transform(lambda y: rs.shuffle(y, group_size=2, axis=y.ndim - 1))(x)


def test_scales_and_zero_points_are_tensors_too():
    x, scale = image(), torch.arange(1, 13) / 8
    wanted = rs.reorder(x.numpy(), None, dtype="s8", scale=scale.numpy(), zero_point=[3] * 12, axis=1)
    for given in (scale, scale.bfloat16()):
        made = rs.reorder(x, None, dtype="s8", scale=given, zero_point=torch.full((12,), 3), axis=1)
        np.testing.assert_array_equal(made.numpy(), wanted)
    q, found, zero = rs.quantize(x, axis=1)
    assert all(isinstance(part, torch.Tensor) for part in (q, found, zero))
    back = rs.dequantize(q, found, zero, axis=1)
    assert torch.equal(back, q * found[:, None, None])


# --- the operators ------------------------------------------------------------------------------------------

_CALLS = {
    "reorder": (lambda: _OPS.reorder.default, ("nhwc",), {}),
    "reorder to bf16": (lambda: _OPS.reorder.default, ("nhwc",), {"dtype": torch.bfloat16, "scale": 2.0}),
    "reorder by order": (lambda: _OPS.reorder.order, ([0, 3, 2, 1],), {}),
    "shuffle": (lambda: _OPS.shuffle.default, (3,), {}),
    "shuffle of axis 2": (lambda: _OPS.shuffle.default, (5, 2), {}),
    "shuffle_channels": (lambda: _OPS.shuffle_channels.default, (3, 1), {}),
    "shuffle_channels from the end": (lambda: _OPS.shuffle_channels.default, (3, -3), {}),
}


@pytest.mark.parametrize("last", [False, True], ids=["nchw", "nhwc"])
@pytest.mark.parametrize("name", _CALLS)
@pytest.mark.filterwarnings("ignore")
def test_operators_pass_opcheck(name, last):
    op, args, named = _CALLS[name]
    x = image(last=last).requires_grad_()
    found = torch.library.opcheck(op(), (x, *args), named)
    assert set(found.values()) == {"SUCCESS"}


@pytest.mark.parametrize("name", _CALLS)
def test_the_gradient_goes_back_the_same_way(name):
    op, args, named = _CALLS[name]
    if "bf16" in name:
        pytest.skip("bf16 is too coarse for numerical gradients")
    x = torch.rand(2, 12, 5, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: op()(x, *args, **named), (x,))
    op()(x, *args, **named).sum().backward()
    assert x.grad.stride() == x.stride()


def test_the_gradient_of_a_conversion_has_the_type_and_scale_of_the_source():
    x = image(last=True).requires_grad_()
    rt.reorder(x, "nchw", dtype="bf16", scale=2.0).sum().backward()
    assert x.grad.dtype is torch.float32
    assert x.grad.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(x.grad, torch.full_like(x, 2.0))


def test_gradients_of_shuffles_undo_them():
    x, weight = torch.rand(2, 12, 5, 3, requires_grad=True), torch.rand(2, 12, 5, 3)
    (rt.channel_shuffle(x, 3) * weight).sum().backward()
    assert torch.equal(rt.channel_shuffle(x.grad, 3), weight)


class Net(torch.nn.Module):
    def __init__(self, shuffle):
        super().__init__()
        self.first, self.shuffle = torch.nn.Conv2d(12, 12, 1), shuffle

    def forward(self, x):
        return rt.reorder(self.shuffle(self.first(x)), "nhwc").relu()


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.filterwarnings("ignore")
def test_compile_keeps_one_graph(dynamic):
    torch._dynamo.reset()
    net = Net(rt.ChannelShuffle(3))
    compiled = torch.compile(net, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for n in (2, 3):
        x = torch.rand(n, 12, 5, 3)
        wanted, made = net(x), compiled(x)
        assert torch.allclose(made, wanted)
        assert made.stride() == wanted.stride()
        made.sum().backward()
    explained = torch._dynamo.explain(net)(torch.rand(2, 12, 5, 3))
    assert (explained.graph_count, explained.graph_break_count) == (1, 0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_inductor_compiles_it():
    torch._dynamo.reset()
    net = Net(rt.ChannelShuffle(3))
    x = torch.rand(2, 12, 5, 3)
    assert torch.allclose(torch.compile(net, fullgraph=True)(x), net(x), atol=1e-6)


# --- functions and the module -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "int64", "complex64", "bool", "uint8"])
@pytest.mark.parametrize("last", [False, True], ids=["nchw", "nhwc"])
def test_the_module_is_a_drop_in(kind, last):
    x = image(getattr(torch, kind), last)
    ours, theirs = rt.ChannelShuffle(3), torch.nn.ChannelShuffle(3)
    assert torch.equal(ours(x), theirs(x))
    assert ours(x).stride() == x.stride()
    assert str(ours) == str(theirs)
    assert ours.state_dict() == theirs.state_dict()
    assert ours.groups == 3


_COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda net: pickle.loads(pickle.dumps(net)),
    "script": lambda net: torch.jit.script(net),
    "trace": lambda net: torch.jit.trace(net, image()),
    "fx": lambda net: torch.fx.symbolic_trace(torch.nn.Sequential(net)),
    "export": lambda net: torch.export.export(net, (image(),)).module(),
    "export of any batch": lambda net: torch.export.export(
        net, (image(),), dynamic_shapes={"x": {0: torch.export.Dim("n")}}
    ).module(),
    "export saved": lambda net: _saved(torch.export.export(net, (image(),)), torch.export).module(),
    "script saved": lambda net: _saved(torch.jit.script(net), torch.jit),
}


def _saved(made, how):
    file = io.BytesIO()
    how.save(made, file)
    file.seek(0)
    return how.load(file)


@pytest.mark.parametrize("name", _COPIES)
@pytest.mark.filterwarnings("ignore")
def test_the_module_goes_where_modules_go(name):
    torch._dynamo.reset()
    made = _COPIES[name](rt.ChannelShuffle(3))
    assert torch.equal(made(image()), torch.nn.functional.channel_shuffle(image(), 3))


@pytest.mark.parametrize("nbytes", [0, 100])
def test_storage_that_was_cut_short_is_not_read(nbytes):
    x = image()
    x.untyped_storage().resize_(nbytes)
    calls = (*_LINEAR.values(), *_OPERATORS.values(), lambda y: rs.reorder(y, "nhwc"))
    for call in (*calls, lambda y: rs.shuffle(y, group_size=3)):
        with refused("x cannot be read", "storage has been resized"):
            call(x)


@pytest.mark.filterwarnings("ignore")
def test_tensors_without_strides_say_what_to_do():
    quantized = torch.quantize_per_tensor(torch.ones(2, 4), 0.1, 0, torch.qint8)
    for x, hint in ((torch.ones(2, 4).to_sparse(), "x.to_dense()"), (quantized, "x.dequantize()")):
        for call in (lambda x: rt.shuffle(x, group_size=2), lambda x: rt.reorder(x, "ba")):
            with refused("restride.torch: x cannot be read", hint):
                call(x)


def test_functions_take_strided_views_and_empty_tensors():
    x = torch.arange(2 * 24 * 5 * 6.0).reshape(2, 24, 5, 6)[:, ::2, :, 1::2]
    assert torch.equal(rt.reorder(x, "nhwc"), x)
    assert torch.equal(rt.channel_shuffle(x, 3), torch.nn.functional.channel_shuffle(x, 3))
    wide = torch.rand(1, 12, 1, 1).expand(2, 12, 4, 4)
    assert torch.equal(rt.reorder(wide, "nchw"), wide)
    assert torch.equal(rt.shuffle(wide, group_size=4), torch.nn.functional.channel_shuffle(wide, 3))
    empty = torch.empty(0, 12, 5, 3)
    assert rt.reorder(empty, "nhwc").shape == rt.channel_shuffle(empty, 3).shape == (0, 12, 5, 3)
    conjugate = torch.rand(1, 4, 2, 2, dtype=torch.complex64).conj()
    assert torch.equal(
        rt.channel_shuffle(conjugate, 2), torch.nn.functional.channel_shuffle(conjugate.resolve_conj(), 2)
    )


def test_nothing_is_called_directly_where_more_than_the_result_is_wanted():
    x = torch.rand(2, 12, 5, 3)
    assert is_plain(x)
    assert not is_plain(x.clone().requires_grad_())
    assert not is_plain(torch.nn.Parameter(x))
    assert not is_plain(x.to("meta"))
    seen = []
    torch.func.grad(lambda y: (seen.append(is_plain(y)), y.sum())[1])(x)
    torch.func.vmap(lambda y: (seen.append(is_plain(y)), y)[1])(x)
    with torch.autograd.forward_ad.dual_level():
        seen.append(is_plain(x))
    with torch.no_grad():
        assert is_plain(x.clone().requires_grad_())
    assert seen == [False, False, False]


_LINEAR = {
    "shuffle": lambda x: rt.shuffle(x, group_size=4),
    "shuffle_channels": lambda x: rt.shuffle_channels(x, group=2, axis=-3),
    "module": lambda x: rt.ChannelShuffle(3)(x),
    "reorder": lambda x: rt.reorder(x, "nhwc", scale=2.0),
}
_BY_TORCH = {
    "shuffle": lambda x: torch.nn.functional.channel_shuffle(x, 3),
    "shuffle_channels": lambda x: torch.nn.functional.channel_shuffle(x, 2),
    "module": lambda x: torch.nn.functional.channel_shuffle(x, 3),
    "reorder": lambda x: 2.0 * x,
}
_OPERATORS = {
    "shuffle": lambda x: _OPS.shuffle(x, 4),
    "shuffle_channels": lambda x: _OPS.shuffle_channels(x, 2, -3),
    "reorder": lambda x: _OPS.reorder(x, "nhwc", scale=2.0),
    "reorder by order": lambda x: _OPS.reorder.order(x, [0, 2, 3, 1], scale=2.0),
}


def _cube(call):
    return lambda x: (call(x) ** 3).sum()


_TRANSFORMS = {
    "grad": lambda f, x: torch.func.grad(_cube(f))(x),
    "jvp": lambda f, x: torch.func.jvp(f, (x,), (x + 1,))[1],
    "vjp": lambda f, x: torch.func.vjp(f, x)[1](x + 1)[0],
    "vmap": lambda f, x: torch.func.vmap(f)(torch.stack([x, x + 1])),
    "vmap of axis 2": lambda f, x: torch.func.vmap(f, 2, 2)(torch.stack([x, x + 1], 2)),
    "vmap of grad": lambda f, x: torch.func.vmap(torch.func.grad(_cube(f)))(torch.stack([x, x + 1])),
    "grad of vmap": lambda f, x: torch.func.grad(_cube(torch.func.vmap(f)))(torch.stack([x, x + 1])),
    "grad of grad": lambda f, x: torch.func.grad(lambda y: torch.func.grad(_cube(f))(y).sum())(x),
    "jvp of grad": lambda f, x: torch.func.jvp(torch.func.grad(_cube(f)), (x,), (x + 1,))[1],
    "hessian": lambda f, x: torch.func.hessian(_cube(f))(x),
    "jacrev twice": lambda f, x: torch.func.jacrev(torch.func.jacrev(_cube(f)))(x),
    "functionalize": lambda f, x: torch.func.functionalize(f)(x),
}


@pytest.mark.parametrize("transform", _TRANSFORMS)
@pytest.mark.parametrize("name", _LINEAR)
@pytest.mark.filterwarnings("ignore")
def test_functions_go_through_the_transforms_of_torch_func(name, transform):
    x = torch.rand(1, 12, 1, 2)
    made, wanted = (_TRANSFORMS[transform](calls[name], x) for calls in (_LINEAR, _BY_TORCH))
    assert torch.allclose(made, wanted)


@pytest.mark.parametrize("name", _OPERATORS)
@pytest.mark.filterwarnings("ignore")
def test_operators_called_as_such_are_refused_in_derivatives_of_torch_func(name):
    """Torch hides the derivatives of operators from its transforms: zeros would come out."""
    x, call = torch.rand(1, 12, 1, 2), _OPERATORS[name]
    for transform in ("grad", "jvp", "vjp", "vmap of grad", "grad of vmap", "hessian"):
        with refused("inside a derivative of torch.func", "call restride.torch.", kind=rs.Unimplemented):
            _TRANSFORMS[transform](call, x)
    by_torch = _BY_TORCH[name.split(" ")[0]]
    for transform in ("vmap", "vmap of axis 2", "functionalize"):
        assert torch.equal(_TRANSFORMS[transform](call, x), _TRANSFORMS[transform](by_torch, x))


@pytest.mark.parametrize("calls", [_LINEAR, _OPERATORS], ids=["functions", "operators"])
def test_forward_mode_gives_tangents(calls):
    x, tangent = torch.rand(2, 1, 12, 1, 2).unbind()
    for name, call in calls.items():
        with torch.autograd.forward_ad.dual_level():
            dual = call(torch.autograd.forward_ad.make_dual(x, tangent))
            found = torch.autograd.forward_ad.unpack_dual(dual).tangent
        assert torch.equal(found, _BY_TORCH[name.split(" ")[0]](tangent))
    x = torch.rand(1, 12, 1, 2, dtype=torch.float64, requires_grad=True)
    for call in calls.values():
        assert torch.autograd.gradcheck(call, (x,), check_forward_ad=True, check_batched_grad=True)


@pytest.mark.filterwarnings("ignore")
def test_defaults_of_torch_are_not_about_results():
    x = torch.rand(2, 12, 4, 4)
    for call in (*_LINEAR.values(), *_OPERATORS.values(), lambda y: rs.reorder(y, "nhwc")):
        wanted = call(x)
        torch.set_default_dtype(torch.float64)
        try:
            with torch.device("meta"):
                made = call(x)
        finally:
            torch.set_default_dtype(torch.float32)
        assert made.device.type == "cpu"
        assert torch.equal(made, wanted)


def test_integers_have_no_derivatives():
    x = torch.rand(1, 12, 1, 2, requires_grad=True)
    for made in (rt.reorder(x, "nhwc", dtype="s8"), _OPS.reorder(x, "nhwc", dtype=torch.int8)):
        assert not made.requires_grad
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x.detach(), torch.ones_like(x))
        made = rt.reorder(dual, "nhwc", dtype="s8")
        assert torch.autograd.forward_ad.unpack_dual(made).tangent is None


def test_tensors_without_bytes_do_not_reach_the_kernels():
    zero = torch._efficientzerotensor((2, 12, 1, 2))
    for call in (*_LINEAR.values(), *_OPERATORS.values()):
        assert torch.equal(call(zero), torch.zeros(2, 12, 1, 2))


@pytest.mark.filterwarnings("ignore")
def test_second_derivatives():
    x = torch.rand(1, 4, 2, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: rt.channel_shuffle(x, 2) ** 2, (x,))
    assert torch.autograd.gradgradcheck(lambda x: rt.reorder(x, "nhwc", scale=2.0) ** 2, (x,))


@pytest.mark.filterwarnings("ignore")
def test_parts_are_checked_as_such_by_vmap():
    x = torch.rand(3, 1, 12, 1, 2)
    for axis in (4, -5):
        with refused("axis"):
            torch.func.vmap(lambda y, axis=axis: rt.shuffle_channels(y, group=3, axis=axis))(x)
    with refused("group_size"):
        torch.func.vmap(lambda y: rt.shuffle(y, group_size=5))(x)
    with refused("not an order of axes"):
        _OPS.reorder.order(x, [0, 0, 1, 2, 3])


def test_errors_are_those_of_restride():
    x = image()
    with refused("'nChw16c' is not a plain format of 4 axes", "rs.reorder makes an rs.Memory"):
        rt.reorder(x, "nChw16c")
    with refused("is not a plain format", kind=rs.InvalidArguments):
        rt.reorder(x, "aBcd16b")
    with refused("group_size"):
        rt.shuffle(x, group_size=5)
    with refused("elements of torch.float8_e4m3fnuz", "x.float()"):
        rt.reorder(x.to(torch.float8_e4m3fnuz), "nhwc", scale=2.0)
    with refused("torch has no s4"):
        rt.reorder(x, "nhwc", dtype="s4")
    with refused("ndarray is not a tensor"):
        rt.shuffle(np.zeros((1, 4)), group_size=2)


@pytest.mark.parametrize("recorded", [False, True], ids=["plain", "recording gradients"])
@pytest.mark.parametrize(
    "wrong", [[2], {2}, {}, None, "2", 2.0, True, (2,), object], ids=lambda wrong: type(wrong).__name__
)
def test_wrong_arguments_are_refused_alike_with_and_without_gradients(wrong, recorded):
    x = image().requires_grad_(recorded)
    for name, call in (
        ("shuffle: group_size", lambda: rt.shuffle(x, group_size=wrong)),
        ("shuffle: axis", lambda: rt.shuffle(x, group_size=2, axis=wrong)),
        ("shuffle_channels: group", lambda: rt.shuffle_channels(x, group=wrong)),
        ("channel_shuffle: groups", lambda: rt.channel_shuffle(x, wrong)),
        ("channel_shuffle: groups", lambda: rt.ChannelShuffle(wrong)(x)),
        ("format tag", lambda: rt.reorder(x, "n" if wrong is None else wrong)),
    ):
        with refused(name):
            call()
    if wrong not in (None, 2.0):
        with refused("scale is"):
            rt.reorder(x, "nhwc", scale=wrong)


def test_a_float_is_no_count_even_after_its_equal_was_one():
    x = image()
    rt.shuffle(x, group_size=4)
    with refused("group_size is 4.0"):
        rt.shuffle(x, group_size=4.0)


def test_integers_of_numpy_and_torch_are_counts():
    x, w = image(), image().requires_grad_()
    for four in (np.int64(4), torch.tensor(4)):
        for tensor in (x, w):
            assert torch.equal(rt.shuffle(tensor, group_size=four), torch.nn.functional.channel_shuffle(x, 3))


def test_formats_are_taken_as_members_too():
    for x in (image(), image().requires_grad_()):
        assert rt.reorder(x, rs.FormatTag.nhwc).is_contiguous(memory_format=torch.channels_last)


def test_complex_numbers_are_refused_with_a_way_that_keeps_both_parts():
    with refused("elements of torch.complex64", "torch.view_as_real"):
        rt.reorder(torch.ones(2, 4, dtype=torch.complex64), "ba", dtype="f32")


@pytest.mark.parametrize("kind", ["int64", "int16", "complex64", "complex128"])
def test_tensors_of_any_numbers_are_moved(kind):
    x = torch.arange(2 * 6 * 4 * 5).reshape(2, 6, 4, 5).to(getattr(torch, kind))
    wanted = x.reshape(2, 3, 2, 4, 5).transpose(1, 2).reshape(x.shape)
    for module in (rs, rt):
        last = module.reorder(x, "nhwc")
        assert torch.equal(last, x)
        assert last.is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(module.shuffle_channels(x, group=3, axis=-3), wanted)


def test_the_words_of_torch_are_formats_and_types_everywhere():
    x, last = image(), torch.channels_last
    for module in (rs, rt):
        made = module.reorder(x, last, dtype=torch.bfloat16)
        assert made.dtype is torch.bfloat16
        assert made.is_contiguous(memory_format=last)
        assert module.reorder(made, torch.preserve_format).stride() == made.stride()
        assert module.reorder(made, None).stride() == made.stride()
        assert module.reorder(made, torch.contiguous_format).is_contiguous()
        assert module.reorder(x[:, :, None], torch.channels_last_3d).stride(1) == 1
    assert rs.DataType.parse(torch.float8_e4m3fn) is rs.f8_e4m3
    assert rs.MemoryDesc((1, 2, 3, 4), torch.float16, last) == rs.MemoryDesc((1, 2, 3, 4), "f16", "nhwc")
    assert rs.concat([x, x], 1, last).is_contiguous(memory_format=last)
    assert rs.Memory.from_dlpack(x).to(last, torch.int8).desc.tag == "acdb"
    with refused("unknown data type 'complex64'"):
        rs.DataType.parse(torch.complex64)


def test_hints_are_in_the_words_of_torch():
    with refused("reorder: x cannot be read", "x.float()"):
        rs.reorder(torch.zeros(2, 3, dtype=torch.float8_e5m2fnuz), "ba", dtype="f32")
    with refused("pass out.permute(0, 3, 1, 2)"):
        rs.reorder(torch.zeros(1, 2, 3, 4), "nhwc", out=torch.zeros(1, 3, 4, 2))
    with refused("torch.view_as_real(x)"):
        rs.quantize(torch.zeros(2, 3, dtype=torch.complex64))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "call",
    [
        lambda x: _OPS.reorder(x, "nhwc"),
        lambda x: _OPS.reorder.order(x, [0, 2, 3, 1]),
        lambda x: _OPS.shuffle(x, 2, 1),
        lambda x: _OPS.shuffle_channels(x, 2, 1),
    ],
    ids=["reorder", "reorder.order", "shuffle", "shuffle_channels"],
)
def test_operators_are_told_that_none_is_no_tensor(call):
    with refused("NoneType is not a tensor", "takes any array"):
        call(None)


def test_what_is_handed_over_in_place_of_a_type_is_refused():
    """An operator called with a number as its type gets whatever torch makes of it."""
    kernels = pytest.importorskip("restride.arrays.torch.kernels")
    with refused("dtype is torch.strided", "restride has no such type"):
        kernels.reorder_new(image(), "nhwc", torch.strided, None)


def test_a_type_that_is_asked_for_and_is_none_is_told_as_the_argument():
    with refused(
        "restride.torch.reorder: dtype is torch.complex64", "use one of torch.float64, torch.float32"
    ):
        rt.reorder(image(), "nhwc", dtype=torch.complex64)


def test_nested_tensors_are_refused():
    nested = torch.nested.nested_tensor([torch.ones(3, 4), torch.ones(2, 4)])
    for call in (lambda: rt.shuffle(nested, group_size=2), lambda: rt.reorder(nested, "abc")):
        with refused("the tensor is nested", "x.unbind()"):
            call()


@pytest.mark.parametrize(
    "write",
    [
        lambda x, out: rs.reorder(x, None, out=out),
        lambda x, out: rs.shuffle(x, group_size=4, out=out),
        lambda x, out: rs.concat([x], axis=1, out=out),
        lambda x, out: rs.dequantize(rs.quantize(x, "s8", group=0), out=out),
    ],
    ids=["reorder", "shuffle", "concat", "dequantize"],
)
def test_a_backward_pass_notices_that_what_it_saved_was_written(write):
    w, saved = image().requires_grad_(), image().clone()
    product = (w * saved).sum()
    assert write(torch.zeros_like(saved), saved) is saved
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_a_plan_writes_nothing_into_out():
    out = image().clone()
    rs.plan(image(), None, out=out)
    assert out._version == image().clone()._version


def test_verbose_lines_are_written_for_tensors_too(capfd):
    rs.set_verbose(2)
    try:
        rt.reorder(image(), "nhwc")
        rt.shuffle(image(), group_size=3)
    finally:
        rs.set_verbose(0)
    text = capfd.readouterr().err
    assert "exec,cpu,reorder" in text
    assert "exec,cpu,shuffle" in text


def test_restride_alone_imports_no_torch_and_registers_nothing():
    code = (
        "import sys, restride as rs, numpy as np; rs.reorder(np.zeros((1, 2, 3, 4), 'f4'), 'nhwc');"
        "assert 'torch' not in sys.modules;"
        "import torch; assert not hasattr(torch.ops.restride, 'shuffle'); import restride.torch;"
        "assert torch.ops.restride.shuffle"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)


@pytest.mark.filterwarnings("ignore")
def test_the_page_about_torch_runs():
    torch._dynamo.reset()
    text = (Path(__file__).parents[2] / "docs" / "torch.md").read_text(encoding="utf-8")
    names = {}
    for block in re.findall(r"```pycon\n(.*?)```", text, re.DOTALL):
        test = doctest.DocTestParser().get_doctest(block, names, "torch.md", None, 0)
        test.globs = names
        said = io.StringIO()
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        assert not runner.run(test, out=said.write, clear_globs=False).failed, said.getvalue()
    assert "compiled" in names


# --- large results, which lie in the pool -------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float16", "uint8", "bool", "complex64", "int64"])
def test_large_results_lie_where_dead_ones_lay(kind):
    x = torch.arange(4 * 64 * 80 * 80).remainder(50).reshape(4, 64, 80, 80).to(getattr(torch, kind))
    first = rt.shuffle_channels(x, group=4)
    assert torch.equal(first, x.view(4, 4, 16, 80, 80).transpose(1, 2).reshape(x.shape))
    address, row = first.data_ptr(), first[1]
    assert (first._is_view(), address % 4096, first.untyped_storage().nbytes()) == (False, 0, x.nbytes)
    del first
    assert rt.shuffle_channels(x, group=4).data_ptr() != address
    del row
    assert address in {rt.shuffle_channels(x, group=4).data_ptr() for _ in range(2)}


def test_large_results_are_tensors_like_any_other():
    x = torch.rand(4, 64, 80, 80)
    with torch.no_grad(), torch.device("meta"):
        y = rt.reorder(x, "nhwc", dtype="bf16")
    assert y.device.type == "cpu"
    assert y.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(y, x.to(torch.bfloat16))
    y.mul_(2).requires_grad_()
    (y * 3).sum().backward()
    assert bool((y.grad == 3).all())
    again = pickle.loads(pickle.dumps(y.detach()))
    assert torch.equal(again, y)
