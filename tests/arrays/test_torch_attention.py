"""Attention of torch's tensors: values and gradients beside torch's own, in compilers and transforms."""

from __future__ import annotations

import pytest

import restride as rs
from support.errors import refused

torch = pytest.importorskip("torch")
rt = pytest.importorskip("restride.torch")
theirs = torch.nn.functional.scaled_dot_product_attention
ours = rt.scaled_dot_product_attention
pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("default")]


def tensor(*dims, seed=0, dtype=torch.float32, leads=False):
    """`leads`: heads lie side by side."""
    shape = (dims[0], dims[2], dims[1], dims[3]) if leads else dims
    made = torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(dims))).to(dtype)
    return (made.transpose(1, 2) if leads else made).requires_grad_()


def problem(key_heads=4, **how):
    dims = (2, 4, 9, 16), (2, key_heads, 11, 16), (2, key_heads, 11, 24)
    return [tensor(*each, seed=seed, **how) for seed, each in enumerate(dims)]


def check(*tensors, step=2e-5, **how):
    """Values, with and without gradients, layouts and gradients of all that is of floats."""
    leaves = [x for x in (*tensors, *how.values()) if torch.is_tensor(x) and x.requires_grad]
    made, wanted = ours(*tensors, **how), theirs(*tensors, **how)
    torch.testing.assert_close(made, wanted, rtol=step, atol=step)
    with torch.no_grad():
        plain = ours(*tensors, **how)
    torch.testing.assert_close(plain, wanted, rtol=step, atol=step)
    assert plain.stride() == made.stride()
    weight = torch.randn_like(wanted)
    gradients = [torch.autograd.grad((each * weight).sum(), leaves) for each in (made, wanted)]
    for leaf, got, right in zip(leaves, *gradients, strict=True):
        torch.testing.assert_close(got, right, rtol=5 * step, atol=5 * step)
        assert got.dtype is leaf.dtype


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("leads", [False, True])
def test_values_and_gradients(is_causal, leads):
    check(*problem(leads=leads), is_causal=is_causal)
    check(*problem(leads=leads), is_causal=is_causal, scale=0.3)
    for key_heads in (1, 2):
        check(*problem(key_heads, leads=leads), is_causal=is_causal, enable_gqa=True)


@pytest.mark.parametrize("dims", [(9, 11), (2, 1, 1, 11), (4, 9, 11), (2, 4, 9, 1)], ids=str)
def test_masks(dims):
    check(*problem(), attn_mask=tensor(*dims, seed=7))
    seen = tensor(*dims, seed=8).detach() > -0.5
    check(*problem(2), attn_mask=seen, enable_gqa=True)


def test_rows_that_see_nothing_are_zeros_and_have_no_gradient():
    tensors = problem()
    seen = torch.ones(9, 11, dtype=torch.bool)
    seen[3] = False
    check(*tensors, attn_mask=seen)
    found = ours(*tensors, attn_mask=seen)
    found.sum().backward()
    assert not found[:, :, 3].any()
    assert not tensors[0].grad[:, :, 3].any()


def test_any_leading_dims():
    for lead in ((), (3,), (3, 2, 4)):
        check(
            *(tensor(*lead, n, width, seed=i) for i, (n, width) in enumerate(((9, 16), (11, 16), (11, 24))))
        )
    check(
        *(tensor(3, 2, 4, n, width) for n, width in ((9, 16), (11, 16), (11, 24))),
        attn_mask=tensor(2, 1, 9, 11),
    )
    check(tensor(1, 4, 9, 16), tensor(2, 4, 11, 16), tensor(4, 11, 24))
    check(tensor(2, 4, 9, 16), tensor(2, 1, 11, 16), tensor(2, 1, 11, 24))
    check(tensor(2, 1, 9, 16), tensor(2, 4, 11, 16), tensor(2, 1, 11, 24))


def test_types():
    check(*problem(dtype=torch.float64), is_causal=True, step=1e-9)
    check(*problem(dtype=torch.float64), scale=0.1, step=1e-12)
    check(*problem(dtype=torch.bfloat16), step=3e-2)
    check(*problem(dtype=torch.float16), step=4e-3)


def test_gradients_are_those_of_differences():
    dims = (1, 4, 3, 5), (1, 2, 4, 5), (1, 2, 4, 3), (1, 4, 3, 4)
    leaves = [tensor(*each, seed=i, dtype=torch.float64) for i, each in enumerate(dims)]
    for is_causal in (False, True):
        assert torch.autograd.gradcheck(
            lambda *x, is_causal=is_causal: ours(*x, is_causal=is_causal, enable_gqa=True), leaves
        )


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_compiler_makes_one_graph_of_it(dynamic):
    def net(q, k, v, mask):
        return ours(q, k, v, mask, enable_gqa=True) * 2

    tensors = [*problem(2), tensor(9, 11)]
    compiled = torch.compile(net, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    wanted = 2 * theirs(*tensors, enable_gqa=True)
    found = compiled(*tensors)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    gradients = [torch.autograd.grad(each.sum(), tensors) for each in (found, wanted)]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)


def test_torch_finds_its_operators_in_order():
    tensors = problem(2)
    torch.library.opcheck(torch.ops.restride.attention.default, (*tensors, None, None, True))
    with torch.no_grad():
        results = torch.ops.restride.attention(*tensors, None, None, True)
        torch.library.opcheck(
            torch.ops.restride.attention_backward.default,
            (torch.ones_like(results[0]), *tensors, None, *results, None, True, False),
            test_utils=("test_schema", "test_faketensor"),
        )


def test_vmap_is_one_call():
    q, k, v = tensor(5, 2, 4, 9, 16).detach(), tensor(5, 2, 4, 11, 16).detach(), tensor(2, 4, 11, 24).detach()
    mask = tensor(9, 11).detach()
    for tensors, dims in (((q, k, v), (0, 0, None)), ((q, k, v, mask), (0, 0, None, None))):
        found, wanted = (torch.vmap(f, in_dims=dims)(*tensors) for f in (ours, theirs))
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def test_bad_input_is_refused():
    q, k, v = (x.detach() for x in problem())
    for texts, call in (
        (("RS-R10", "enable_gqa=True"), lambda: ours(q, k[:, :2], v[:, :2])),
        (
            ("RS-R10", "are not a multiple of 3 heads of keys"),
            lambda: ours(q, k[:, :3], v[:, :3], enable_gqa=True),
        ),
        (("RS-R10", "queries have width 16, but keys have width 3"), lambda: ours(q, k[..., :3], v)),
        (("RS-R10", "at least two dims"), lambda: ours(q[0, 0, 0], k, v)),
        (("RS-R10", "mask"), lambda: ours(q, k, v, torch.zeros(3, 3))),
        (("RS-R10", "mask"), lambda: ours(q, k, v, torch.zeros(1, 1, 1, 9, 11))),
        (("RS-R10", "mask"), lambda: ours(q[None], k[None], v[None], torch.zeros(3, 1, 1, 9, 11))),
        (("RS-A17", "is not a tensor"), lambda: ours(1, k, v)),
        (("RS-V06", "is_causal is 'top_left'"), lambda: ours(q, k, v, is_causal="top_left")),
        (("RS-V02", "scale is 'a'"), lambda: ours(q.requires_grad_(), k, v, scale="a")),
    ):
        with refused(*texts):
            call()
    with refused("RS-A17", "dropout_p is 0.1", kind=rs.Unimplemented):
        ours(q, k, v, dropout_p=0.1)
    leaf = q.clone().requires_grad_()
    with refused("RS-A04", "restride.torch.scaled_dot_product_attention"):
        rs.attention(leaf, k, v)
    with refused("RS-A17", "a second derivative", kind=rs.Unimplemented):
        torch.autograd.grad(ours(leaf, k, v).sum(), leaf, create_graph=True)
