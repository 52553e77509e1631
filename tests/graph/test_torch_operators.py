"""Operators of ATen in modules of torch: each gives what torch gives, of every type that it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import restride as rs

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("ignore")]
if not hasattr(torch.export, "default_decompositions"):
    pytest.skip("programs are exported from torch 2.6 on", allow_module_level=True)

import restride.torch as rt  # noqa: E402

nn, F = torch.nn, torch.nn.functional


class Function(nn.Module):
    """A module of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.eval()

    def forward(self, *x: Any) -> Any:
        return self.function(*x)


ROWS = torch.randn(3, 8, generator=torch.Generator().manual_seed(2))
IMAGE = torch.randn(2, 6, 8, 8, generator=torch.Generator().manual_seed(1))


def check(module: Any, *inputs: Any) -> None:
    """Results of any type: equal but for the rounding of floats."""
    compiled = rt.compile_module(module, inputs)
    with torch.no_grad():
        wanted = module(*inputs)
    found = compiled(*inputs)
    for one, other in zip(*(x if isinstance(x, tuple) else (x,) for x in (wanted, found)), strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        torch.testing.assert_close(other, one, rtol=2e-5, atol=2e-5)


IDS = torch.tensor([[3, 0, 2, 2], [1, 4, 0, 3]])
TRUTH = torch.tensor([[True, False, True, True], [True, True, False, False]])
SQUARE = torch.randn(2, 4, 5, 5, generator=torch.Generator().manual_seed(3))
TABLE = torch.randn(5, 8, generator=torch.Generator().manual_seed(4))
HEADS = torch.randn(2, 4, 6, 8, generator=torch.Generator().manual_seed(5))
FEW_HEADS = HEADS[:, :2]

ELEMENTS: dict[str, tuple[Callable[..., Any], Any]] = {
    "comparisons": (lambda x: (x == 0, x != x[0], x < 0.5, x <= 0, x > x[:, :1], x >= 1), (ROWS,)),
    "comparisons of integers": (lambda x: (x == 2, x != 2, x < 3, x > x[0]), (IDS,)),
    "truth values": (lambda x: (x & x[0], x | x[1], x ^ x[1], ~x, x.logical_and(x[0])), (TRUTH,)),
    "all and any": (lambda x: ((x > 0).all(1), (x > 1).any(0, keepdim=True), x.all(), x.any()), (ROWS,)),
    "where": (lambda x: (torch.where(x > 0, x, 0), torch.where(x > 0, 1.0, x[0])), (ROWS,)),
    "masked fill": (lambda x, m: x.masked_fill(m, -torch.inf), (ROWS[:2, :4], TRUTH)),
    "casts": (lambda x: (x.to(torch.int64), (x > 0).to(torch.float32), x.bool(), x.half()), (ROWS,)),
    "integers to floats": (lambda x: (x.float(), x.to(torch.int32), x * 0.5, x + ROWS[:2, :4]), (IDS,)),
    "arithmetic of integers": (lambda x: (x + 1, x * x, 3 - x, x // 2, x % 3, -x), (IDS,)),
    "division of integers": (lambda x: (x / 2, 1 / (x + 1), x.exp(), x.sin()), (IDS,)),
    "sums of integers": (lambda x, m: (x.sum(1), m.sum(), x.prod(0)), (IDS, TRUTH)),
    "limits": (lambda x: (x.clamp(max=0.5), x.clamp(x[0], x[1].abs() + x[0]), x.clamp_max(0.1)), (ROWS,)),
    "functions": (lambda x: (x.sin(), x.cos(), x.erf(), x.floor(), x.ceil(), x.sign(), x.trunc()), (ROWS,)),
    "logarithms": (lambda x: (x.log2(), x.log10(), x.exp2(), x.square()), (ROWS.abs() + 0.5,)),
    "selu and celu": (lambda x: (F.selu(x), F.celu(x, 2.0), F.glu(x), F.hardshrink(x)), (ROWS,)),
    "norms": (lambda x: (F.normalize(x), x.norm(1, 1), x.norm(torch.inf, 0), x.norm()), (ROWS,)),
    "statistics": (lambda x: (*torch.var_mean(x, 1), x.std(0), x.logsumexp(1)), (ROWS,)),
}  # fmt: skip
MOVES: dict[str, tuple[Callable[..., Any], Any]] = {
    "embedding": (lambda i: F.embedding(i, TABLE), (IDS,)),
    "parts at indices": (lambda x: (x[:, [2, 0, 1]], x[[1, 0], [2, 3]], x[..., [1, -1]]), (SQUARE,)),
    "parts at indices of a run": (lambda x, i: (x[i], x.index_select(0, i[0])), (TABLE, IDS)),
    "gather and scatter": (
        lambda x, i: (x.gather(1, i), x.scatter(1, i, 2.0), x.scatter_add(1, i, x[:, :4])), (TABLE[:2], IDS)
    ),
    "order": (lambda x: (*x.topk(3), *x.sort(1), x.argsort(0), x.argmax(1), *x.max(0)), (ROWS,)),
    "sums along an axis": (lambda x, i: (x.cumsum(1), i.cumsum(0)), (ROWS, IDS)),
    "expansions": (lambda x: (x[:, None].expand(3, 2, 8), x.expand(2, 3, 8)), (ROWS,)),
    "repetitions": (lambda x: (x.repeat(2, 1), x.repeat_interleave(2, 1)), (ROWS,)),
    "repetitions of truth values": (lambda m: (m[:, None, None].expand(2, 3, 4, 4),), (TRUTH,)),
    "numbers everywhere": (
        lambda x: (x + torch.full_like(x, 2), torch.zeros_like(x), x.new_ones(2), x.new_full((2, 2), 3)),
        (ROWS,),
    ),
    "numbers in a row": (lambda x: x + torch.arange(8) * torch.linspace(0, 1, 8) + torch.eye(3, 8), (ROWS,)),
    "halves of matrices": (lambda x: (x.tril(), x.triu(1)), (SQUARE,)),
    "rolls": (lambda x: (x.roll(1), x.roll((2, -1), (2, 3)), x.roll(-9, 3), x.flip((1, 3))), (SQUARE,)),
    "pixels": (lambda x: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(x[..., :4, :4], 2)), (SQUARE,)),
    "reflections": (lambda x: F.pad(x, (1, 2, 0, 3), "reflect"), (SQUARE,)),
    "paddings with edges": (lambda x: F.pad(x, (2, 0, 1, 1), "replicate"), (SQUARE,)),
    "windows of an axis": (lambda x: (x.unfold(2, 3, 2), F.unfold(x, 3, padding=1)), (SQUARE,)),
    "views by strides": (lambda x: (x.as_strided((3, 2), (1, 3), 2), x.as_strided((2, 3), (3, 1))), (ROWS,)),
    "other strides": (lambda x: (x.as_strided((4, 3), (2, 1)), x.as_strided((2, 3), (12, 4))), (SQUARE,)),
    "pieces": (lambda x: (*x.unbind(1), *x.split(2, 2), *x.chunk(3, 3), torch.stack((x, x), 1)), (SQUARE,)),
    "parts of others": (
        lambda x: (x.slice_scatter(x[:, :2] + 1, 1, 1, 3), x.select_scatter(x[:, 0], 1, 2)), (SQUARE,)
    ),
    "sums of products": (lambda x: torch.einsum("bchw,bdhw->bcd", x, x), (SQUARE,)),
    "uneven windows": (lambda x: (F.adaptive_avg_pool2d(x, (2, 3)), F.adaptive_max_pool2d(x, 1)), (SQUARE,)),
    "cubic": (lambda x: F.interpolate(x, (7, 9), mode="bicubic"), (SQUARE,)),
    "by factors": (lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear"), (SQUARE,)),
    "nearest": (lambda x: (F.interpolate(x, 8, mode="nearest-exact"), F.interpolate(x, (3, 7))), (SQUARE,)),
    "nearest by factors": (
        lambda x: tuple(
            F.interpolate(x[:, :, :rows], scale_factor=(1.0, 1.7), mode=mode)
            for mode in ("nearest", "nearest-exact")
            for rows in (2, 5)
        ),
        (torch.arange(60.0).reshape(1, 2, 5, 6),),
    ),
    "without aliases": (lambda x: F.interpolate(x, (3, 4), mode="bilinear", antialias=True), (SQUARE,)),
    "at corners": (lambda x: F.interpolate(x, (9, 4), mode="bilinear", align_corners=True), (SQUARE,)),
    "norms of images": (lambda x: F.layer_norm(x, (5, 5), x[0, 0], x[0, 1]), (SQUARE,)),
}  # fmt: skip
ATTENTIONS: dict[str, tuple[Callable[..., Any], Any]] = {
    "causal": (lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), (HEADS,)),
    "fewer keys": (
        lambda x, y: F.scaled_dot_product_attention(x, y, y, is_causal=True, enable_gqa=True),
        (HEADS, FEW_HEADS),
    ),
    "a mask of numbers": (
        lambda x, m: F.scaled_dot_product_attention(x, x, x, m, scale=0.3), (HEADS, HEADS[0, 0, :, :6])
    ),
    "a mask of truth values": (
        lambda x, m: F.scaled_dot_product_attention(x, x, x, m[:, None, None]),
        (HEADS, torch.tensor([[True] * 4 + [False] * 2, [False] * 6])),
    ),
    "a known mask that hides all": (
        lambda x: F.scaled_dot_product_attention(x, x, x, torch.ones(6, 6).triu(1).bool()), (HEADS,)
    ),
    "a mask of each head": (
        lambda x, y, m: F.scaled_dot_product_attention(x, y, y, m, enable_gqa=True),
        (HEADS, FEW_HEADS, HEADS[..., :6] > 0),
    ),
}  # fmt: skip
NEW = {**ELEMENTS, **MOVES, **ATTENTIONS}


@pytest.mark.parametrize("name", NEW)
def test_an_operator_gives_what_torch_gives(name: str) -> None:
    function, inputs = NEW[name]
    check(Function(function), *inputs)


def test_what_follows_from_weights_alone_is_computed_once() -> None:
    """Standardized weights, tables at indices, and any operator that no graph has."""

    class Standardized(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 6, 3, 3))
            self.table = nn.Parameter(torch.randn(9))
            self.register_buffer("places", torch.arange(8).flip(0))

        def forward(self, x: Any) -> Any:
            weight = F.batch_norm(self.weight.reshape(1, 4, -1), None, None, training=True).reshape(
                4, 6, 3, 3
            )
            return F.conv2d(x, weight, padding=1) + self.table[self.places] + torch.special.i0(self.table[0])

    module = Standardized().eval()
    check(module, IMAGE)
    kinds = [node.kind for node in rt.compile_module(module, IMAGE).network.plan().graph.nodes]
    assert [kind for kind in kinds if kind not in ("reorder", "reshape", "binary")] == ["convolution"]


def test_checks_of_a_module_are_of_its_export() -> None:
    def checked(x: Any) -> Any:
        torch._assert(x.shape[0] == 3, "three rows")
        torch.ops.aten._assert_tensor_metadata(x, dtype=torch.float32)
        return x * 2

    check(Function(checked), ROWS)


def test_a_result_that_no_function_gives_is_refused_by_name() -> None:
    with pytest.raises(rs.Unimplemented, match=r"(?s)aten\.adaptive_max_pool2d.*more of its results"):
        rt.compile_module(Function(lambda x: F.adaptive_max_pool2d(x, 2, return_indices=True)), IMAGE)
