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
        torch.testing.assert_close(other, one, rtol=2e-5, atol=2e-5, equal_nan=True)


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
    "a batch of batches": (
        lambda x, m: F.scaled_dot_product_attention(x[None], x[None], x[None], m), (HEADS, HEADS[..., :6] > 0)
    ),
    "no batch": (lambda x: F.scaled_dot_product_attention(x[0], x[0], x[0, :, :4]), (HEADS,)),
    "no heads": (
        lambda x: F.scaled_dot_product_attention(x[0, 0], x[0, 1], x[0, 1], x[0, 0, 0, :6]), (HEADS,)
    ),
    "for the CPU": (
        lambda x: torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            x, x, x, 0.0, True, scale=0.3
        )[0],
        (HEADS,),
    ),
    "a mask for the CPU": (
        lambda x, m: torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            x, x, x, attn_mask=m
        )[0],
        (HEADS, HEADS[..., :6].contiguous()),
    ),
    "as a formula": (
        lambda x: torch.ops.aten._scaled_dot_product_attention_math(x, x, x, is_causal=True)[0], (HEADS,)
    ),
}  # fmt: skip
FLOATS = torch.tensor([[3.0, -1.0, torch.nan, 3.0], [2.0, 0.5, 2.0, -7.0]])
BOUNDS = torch.tensor([-1.0, 0.0, 0.5])


def written(at: Any, accumulate: bool = False) -> Callable[..., Any]:
    """`x[at(x, more)] = value`, or what is added to it."""
    put = torch.ops.aten.index_put
    return lambda x, value, *more: put(x, at(x, *more), value, accumulate=accumulate)


WRITES: dict[str, tuple[Callable[..., Any], Any]] = {
    "where a mask is true": (written(lambda x: (x > 0,)), (ROWS, torch.tensor(7.0))),
    "rows where a mask is true": (
        written(lambda x, m: (m,)), (ROWS, ROWS[0], torch.tensor([True, False, True]))
    ),
    "columns where a mask is true": (
        written(lambda x: (None, x[0] > 0), accumulate=True), (ROWS, torch.ones(3, 1))
    ),
    "a known mask": (written(lambda x: (None, torch.tensor([True, False] * 2))), (SQUARE, SQUARE[:, :2])),
    "several indices": (
        written(lambda x, i: (i, i + 1), accumulate=True), (ROWS, ROWS[0, :3], torch.tensor([0, 1, 0]))
    ),
    "indices of an inner dim": (
        written(lambda x, i: (None, i)), (SQUARE, SQUARE[:, :2], torch.tensor([3, 0]))
    ),
    "indices apart": (
        written(lambda x, i: (None, i, None, i)), (SQUARE, SQUARE[0, 0, :2, None], torch.tensor([3, 0]))
    ),
    "indices that stand beside each other": (
        written(lambda x, i: (None, i[:, None], i)), (SQUARE, torch.ones(2, 1, 2, 1), torch.tensor([3, 0]))
    ),
    "reductions": (
        lambda x, i: tuple(
            x.scatter_reduce(0, i, x.flip(1), how, include_self=own)
            for how in ("sum", "prod", "mean", "amax", "amin")
            for own in (True, False)
        ),
        (ROWS, torch.randint(0, 3, (3, 8), generator=torch.Generator().manual_seed(6))),
    ),
    "reductions of integers": (
        lambda x, i: (
            x.scatter_reduce(0, i, x, "amin", include_self=False), x.scatter_reduce(0, i, x.flip(0), "mean")
        ),
        (IDS - 3, torch.zeros_like(IDS)),
    ),
    "reductions of rows": (
        lambda x, i: (x.index_reduce(0, i, x[:2], "amax"), x.index_add(1, i, x[:, :2], alpha=2)),
        (ROWS, torch.tensor([2, 0])),
    ),
    "one number at indices": (lambda x, i: x.index_fill(1, i, 3), (IDS, torch.tensor([0, 2]))),
    "diagonals": (
        lambda x: (x.diagonal(), x.diagonal(-1, 1, -1), x.diagonal(2, 2, 3), x.diagonal(9), x[0, 0].trace()),
        (SQUARE,),
    ),
    "other diagonals": (
        lambda x: (x.diagonal_scatter(x[0, :3], 1), x.clone().fill_diagonal_(2.0), torch.diag_embed(x)),
        (ROWS,),
    ),
}  # fmt: skip
SELECTIONS: dict[str, tuple[Callable[..., Any], Any]] = {
    "places of all": (lambda x: (x.argmax(), x.argmin(), x.argmax(keepdim=True)), (ROWS,)),
    "extremes so far": (lambda x: (*x.cummax(1), *x.cummin(0), *x.cummax(0)), (FLOATS,)),
    "extremes of integers so far": (lambda x: (*x.cummax(1), *x.cummin(1)), (IDS,)),
    "in the middle": (
        lambda x: (x.median(), *x.median(1), *x.median(0, keepdim=True), *x[0].median(0)), (ROWS,)
    ),
    "in the middle of what is no number": (
        lambda x: (x.median(), x.median(1)[0], x.nanmedian(), x.nanmedian(1)[0], x[1:].median(0)[0]),
        (FLOATS,),
    ),
    "the k-th": (lambda x, i: (*x.kthvalue(3), *x.kthvalue(2, 0, True), i.kthvalue(2)[0]), (ROWS, IDS)),
    "places in tables": (
        lambda x, b: (
            torch.bucketize(x, b), torch.bucketize(x, b, right=True, out_int32=True),
            torch.searchsorted(b, x), torch.searchsorted(x.sort(1)[0], x, side="right"),
        ),
        (FLOATS.nan_to_num(torch.inf), BOUNDS),
    ),
    "places of what is no number": (torch.bucketize, (FLOATS, BOUNDS)),
    "bags": (
        lambda i, t: tuple(F.embedding_bag(i, t, mode=mode) for mode in ("sum", "mean", "max")), (IDS, TABLE)
    ),
    "bags of a run": (
        lambda i, o, t: (
            *(F.embedding_bag(i, t, o, mode=mode, padding_idx=2) for mode in ("sum", "mean", "max")),
            F.embedding_bag(i, t, o, mode="sum", per_sample_weights=t[0, :6], include_last_offset=True),
        ),
        (torch.tensor([3, 2, 2, 0, 4, 1]), torch.tensor([0, 1, 3, 3]), TABLE),
    ),
}  # fmt: skip
PRODUCTS: dict[str, tuple[Callable[..., Any], Any]] = {
    "distances": (
        lambda x, y: (
            *(torch.cdist(x, y, p) for p in (1.0, 2.0, 3.0, torch.inf, 0.0)), F.pdist(x), x.dist(y[:3])
        ),
        (ROWS, TABLE),
    ),
    "norms of any order": (
        lambda x: tuple(torch.linalg.vector_norm(x, p, 1) for p in (0, 0.5, 3, -torch.inf)), (ROWS,)
    ),
    "products of integers": (
        lambda x: (x @ x.T, x.to(torch.int8) @ x.T.to(torch.int8), x.int()[None] @ x.int().T[None]),
        (IDS * 60,),
    ),
    "added products": (
        lambda x, y: (
            torch.addbmm(x[0], x, y, beta=0.5, alpha=2), torch.addmv(x[0, 0], x[1], y[0, 0]),
            F.bilinear(x, y, y),
        ),
        (HEADS[0, :, :, :6], HEADS[1, :, :, :6].contiguous()),
    ),
    "types of sums": (
        lambda x: (x.sum(dtype=torch.float64), x.cumsum(0, dtype=torch.float64), x.norm(dtype=torch.float64)),
        (ROWS,),
    ),
    "functions with numbers": (
        lambda x: (F.softplus(x, 2.0, 1.0), x.round(decimals=2), F.rrelu(x), F.avg_pool1d(x, 2)), (ROWS,)
    ),
    "functions of integers": (lambda x: (x.log2(), x.rsqrt(), x.exp2(), x.round()), (IDS + 1,)),
    "of a number and none": (lambda x: (torch.fmax(x, x.flip(1)), torch.fmin(x, x.flip(1))), (FLOATS,)),
    "of no elements": (
        lambda x: (x.all(), x.any(1), (x > 0).all(2), x.sum(), x.prod(1)), (torch.ones(2, 0, 3),)
    ),
}  # fmt: skip
POOLS: dict[str, tuple[Callable[..., Any], Any]] = {
    "where the largest are": (
        lambda x: (
            *F.max_pool2d(x, 3, 2, 1, ceil_mode=True, return_indices=True),
            *F.max_pool2d(x[0], 2, dilation=2, return_indices=True),
            *F.max_pool1d(x[0], 2, return_indices=True),
        ),
        (IMAGE,),
    ),
    "where the largest of windows are": (
        lambda x: tuple(
            each for size in (1, 3, (2, 5)) for each in F.adaptive_max_pool2d(x, size, return_indices=True)
        ),
        (IMAGE,),
    ),
    "there and back": (lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), (IMAGE,)),
    "uneven windows of volumes": (lambda x: F.adaptive_max_pool3d(x, (2, 3, 5)), (IMAGE[None],)),
    "another divisor": (lambda x: F.avg_pool2d(x, 2, divisor_override=3), (IMAGE,)),
    "columns of images": (
        lambda x: F.fold(F.unfold(x, 3, padding=1, stride=2), 8, 3, padding=1, stride=2), (IMAGE,)
    ),
}  # fmt: skip
NEW = {**ELEMENTS, **MOVES, **ATTENTIONS, **WRITES, **SELECTIONS, **PRODUCTS, **POOLS}


@pytest.mark.parametrize("name", NEW)
def test_an_operator_gives_what_torch_gives(name: str) -> None:
    function, inputs = NEW[name]
    check(Function(function), *inputs)


AT, ROW = torch.tensor(0), torch.tensor([0])
POINTS: dict[str, Callable[..., Any]] = {
    "softmax": lambda x: (x.softmax(0), x.log_softmax(-1)),
    "reductions": lambda x: (
        x.sum(0),
        x.mean(-1, keepdim=True),
        x.amax(0),
        x.prod(0),
        x.var(0, correction=0),
    ),
    "more reductions": lambda x: (
        x.logsumexp(0),
        (x > 0).any(0),
        (x > 0).all(0),
        torch.linalg.norm(x, 2, -1),
    ),
    "order": lambda x: (*x.topk(1), *x.sort(0), *x.max(0), *x.min(-1), *x.median(0), x.argmax(0)),
    "scans": lambda x: (x.cumsum(0), x.cumprod(-1), *x.cummax(0)),
    "indices": lambda x: (
        x.index_select(0, ROW),
        x.gather(0, AT),
        x.scatter(0, AT, 2.0),
        x.index_fill(0, ROW, 3.0),
    ),
    "moves": lambda x: (x.unsqueeze(0), x.unsqueeze(-1), x.squeeze(0), x.flip([0]), x.transpose(0, -1)),
}


@pytest.mark.parametrize("name", POINTS)
def test_an_axis_of_a_tensor_without_dims(name: str) -> None:
    check(Function(POINTS[name]), torch.tensor(0.7))


DOUBLES: dict[str, Callable[[], Any]] = {
    "layer": lambda: nn.LayerNorm([4, 4]),
    "rms": lambda: nn.RMSNorm(4),
    "groups": lambda: nn.GroupNorm(2, 6),
    "instances": lambda: nn.InstanceNorm2d(6, affine=True),
    "batch": lambda: nn.Sequential(nn.BatchNorm2d(6), nn.Conv2d(6, 4, 3, padding=1), nn.BatchNorm2d(4)),
    "transformer": lambda: Function(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)),
}


@pytest.mark.parametrize("name", DOUBLES)
def test_normalizations_of_f64(name: str) -> None:
    module = DOUBLES[name]().double().eval()
    x = IMAGE[0, :, :4, :4].double() if name == "transformer" else IMAGE[..., :4, :4].double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
        wanted, found = module(x), rt.compile_module(module, x)(x)
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)


SEQUENCES = torch.randn(5, 2, 4, generator=torch.Generator().manual_seed(7))
RECURRENT = {
    "one layer": {},
    "batch first": {"batch_first": True},
    "both ways": {"bidirectional": True},
    "layers": {"num_layers": 2, "bidirectional": True, "batch_first": True, "bias": False},
}


@pytest.mark.parametrize("form", RECURRENT)
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_a_recurrent_layer_stays_whole(kind: Any, form: str) -> None:
    module = kind(4, 3, **RECURRENT[form]).eval()
    check(
        Function(lambda x: (lambda y, h: (y, *h) if isinstance(h, tuple) else (y, h))(*module(x))), SEQUENCES
    )
    nodes = rt.compile_module(module, SEQUENCES).network.plan().graph.nodes
    assert sum(node.kind == "rnn" for node in nodes) == module.num_layers


def test_recurrent_layers_take_states() -> None:
    lstm, gru = nn.LSTM(4, 3).eval(), nn.GRU(4, 3, 2).eval()
    state = SEQUENCES[:2, :, :3]
    check(Function(lambda x, h: (lstm(x, (h[:1], h[1:]))[0], gru(x, h)[1])), SEQUENCES, state)


TOKENS = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(8))
LENGTHS = torch.tensor([[False] * 5, [False, False, False, True, True]])


@pytest.mark.parametrize("options", [{}, {"batch_first": True}, {"batch_first": True, "add_zero_attn": True}])
def test_attention_of_torch_itself(options: Any) -> None:
    heads = nn.MultiheadAttention(8, 2, **options).eval()
    check(Function(lambda x: heads(x, x, x, attn_mask=torch.ones(x.shape[0], x.shape[0]).triu(1).bool())
                   if not options else heads(x, x, x)), TOKENS)  # fmt: skip
    if options:
        check(Function(lambda x, m: heads(x, x, x, key_padding_mask=m)), TOKENS, LENGTHS)


@pytest.mark.parametrize("options", [{}, {"norm_first": True, "activation": "gelu"}])
def test_layers_of_transformers(options: Any) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, **options).eval()
    check(layer, TOKENS)
    check(Function(lambda x, m: layer(x, src_key_padding_mask=m)), TOKENS, LENGTHS)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_modules_of_16_bits_have_their_weights_in_them(dtype: Any) -> None:
    modules = (
        nn.Sequential(nn.Embedding(5, 4), nn.LayerNorm(4), nn.Linear(4, 4)),
        nn.LSTM(4, 3),
        nn.Conv1d(2, 3, 2),
    )
    for module, x in zip(modules, (IDS, SEQUENCES.to(dtype), SEQUENCES.to(dtype)), strict=True):
        module = module.to(dtype).eval()
        with torch.no_grad():
            wanted, found = (f(x) for f in (module, rt.compile_module(module, x)))
        one, other = (y[0] if isinstance(y, tuple) else y for y in (wanted, found))
        assert one.dtype is other.dtype is dtype
        torch.testing.assert_close(other, one, rtol=2e-2, atol=2e-2)


REFUSED: dict[str, tuple[Callable[..., Any], Any]] = {
    "aten.index,.*depend on values": (lambda x: x[x > 0] + 1, (ROWS,)),
    "aten.nonzero": (lambda x: x.nonzero(), (ROWS,)),
    "aten.masked_scatter": (lambda x: x.masked_scatter(x > 0, x), (ROWS,)),
    "aten.mode": (lambda x: x.mode(1), (ROWS,)),
    "aten._fft_r2c": (lambda x: torch.fft.rfft(x).abs(), (ROWS,)),
    "aten.multilabel_margin_loss_forward": (F.multilabel_margin_loss, (ROWS[:2, :4], IDS)),
    "aten.index_put.*together with other indices": (
        lambda x, m: x.index_put((m, torch.tensor([0])), torch.zeros(())), (ROWS, TRUTH[0, :3])
    ),
    "aten.index_put.*an element takes depends on values": (
        lambda x, m: x.index_put((m,), x[:2]), (ROWS, torch.tensor([True, False, True]))
    ),
    "aten.lstm.*projects": (nn.LSTM(4, 5, proj_size=3).eval(), (SEQUENCES,)),
    "aten.lstm.*f64": (nn.LSTM(4, 5).double().eval(), (SEQUENCES.double(),)),
    "aten.avg_pool2d.*divisor": (lambda x: F.avg_pool2d(x, 3, ceil_mode=True, divisor_override=2), (IMAGE,)),
}  # fmt: skip


@pytest.mark.parametrize("words", REFUSED)
def test_what_there_is_not_is_refused_by_name(words: str) -> None:
    function, inputs = REFUSED[words]
    with pytest.raises(rs.Unimplemented, match=f"(?s){words}"):
        rt.compile_module(Function(function), inputs)


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
