"""ATen's gradients, as graphs of training call them: each gives what torch gives, at random sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("ignore")]
if not hasattr(torch.export, "default_decompositions"):
    pytest.skip("programs are exported from torch 2.6 on", allow_module_level=True)

import restride.torch as rt  # noqa: E402

nn, aten = torch.nn, torch.ops.aten


class Function(nn.Module):
    """A module of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.eval()

    def forward(self, *x: Any) -> Any:
        results = self.function(*x)
        return tuple(x for x in results if x is not None) if isinstance(results, tuple) else results


def check(function: Callable[..., Any], *inputs: Any, bound: float = 2e-5) -> None:
    """Results of any type: equal but for the rounding of floats, which grows with what is summed up."""
    module = Function(function)
    compiled = rt.compile_module(module, inputs)
    with torch.no_grad():
        wanted = module(*inputs)
    found = compiled(*inputs)
    for one, other in zip(*(x if isinstance(x, tuple) else (x,) for x in (wanted, found)), strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        scale = float(one.abs().max()) if one.numel() and one.dtype.is_floating_point else 1.0
        torch.testing.assert_close(other, one, rtol=bound, atol=bound * max(scale, 1e-3), equal_nan=True)


def drawn(*dims: int, dtype: Any = torch.float32, seed: int = 1) -> Any:
    """Random numbers."""
    return torch.randn(*dims, generator=torch.Generator().manual_seed(seed + sum(dims))).to(dtype)


ALL = [True, True, True]
CONVOLUTIONS: dict[str, tuple[Any, ...]] = {
    # source, weights, strides, padding, dilation, transposed, output padding, groups, which are read
    "square": ((2, 19, 13, 11), (21, 19, 3, 3), [1], [1], [1], False, [0], 1, ALL),
    "strides": ((2, 16, 15, 14), (32, 16, 3, 3), [2], [1], [1], False, [0], 1, ALL),
    "a window of 7": ((1, 3, 20, 20), (8, 3, 7, 7), [2], [3], [1], False, [0], 1, ALL),
    "points": ((2, 24, 9, 9), (16, 24, 1, 1), [1], [0], [1], False, [0], 1, [True, True, False]),
    "points apart": ((2, 24, 9, 9), (16, 24, 1, 1), [2], [0], [1], False, [0], 1, [True, True, False]),
    "dilation": ((2, 8, 14, 14), (8, 8, 3, 3), [1], [2], [2], False, [0], 1, ALL),
    "oblong": ((2, 6, 11, 17), (7, 6, 3, 5), [1, 2], [0, 2], [2, 1], False, [0, 0], 1, ALL),
    "groups": ((2, 12, 10, 10), (18, 4, 3, 3), [1], [1], [1], False, [0], 3, ALL),
    "depthwise": ((2, 20, 12, 12), (20, 1, 3, 3), [1], [1], [1], False, [0], 20, [True, True, False]),
    "depthwise strides": ((2, 32, 12, 12), (32, 1, 5, 5), [2], [2], [1], False, [0], 32, ALL),
    "a row": ((3, 10, 33), (12, 10, 5), [2], [2], [1], False, [0], 1, ALL),
    "a volume": ((2, 5, 6, 7, 8), (4, 5, 3, 3, 3), [1], [1], [1], False, [0], 1, ALL),
    "transposed": ((2, 10, 7, 7), (10, 12, 3, 3), [2], [1], [1], True, [1], 1, ALL),
    "transposed groups": ((2, 8, 7, 7), (8, 3, 4, 4), [2], [1], [1], True, [0], 2, ALL),
    "weights alone": ((2, 8, 7, 7), (9, 8, 3, 3), [1], [1], [1], False, [0], 1, [False, True, False]),
    "source alone": ((2, 8, 7, 7), (9, 8, 3, 3), [1], [1], [1], False, [0], 1, [True, False, False]),
    "bias alone": ((2, 8, 7, 7), (9, 8, 3, 3), [1], [1], [1], False, [0], 1, [False, False, True]),
}  # fmt: skip


def convolution(case: tuple[Any, ...], dtype: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The gradients of a convolution, and what they read."""
    source, weights, *numbers, is_read = case
    x, w = drawn(*source, dtype=dtype), drawn(*weights, dtype=dtype, seed=2)
    y = aten.convolution(x, w, None, *numbers)

    def step(g: Any, x: Any, w: Any) -> Any:
        results = aten.convolution_backward(g, x, w, [y.shape[1]], *numbers, is_read)
        return tuple(x for x, read in zip(results, is_read, strict=True) if read)

    return step, (drawn(*y.shape, dtype=dtype, seed=3), x, w)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_gradients_of_a_convolution(name: str) -> None:
    function, inputs = convolution(CONVOLUTIONS[name], torch.float32)
    check(function, *inputs)


@pytest.mark.parametrize("name", ["square", "groups", "depthwise strides", "transposed"])
def test_gradients_of_a_convolution_of_bf16(name: str) -> None:
    function, inputs = convolution(CONVOLUTIONS[name], torch.bfloat16)
    check(function, *inputs, bound=2e-2)


# --- normalizations -----------------------------------------------------------------------------------------


def normalized(*dims: int, groups: int = 1, dtype: Any = torch.float32) -> tuple[Any, ...]:
    """A source and its gradient, scale and shift of channels."""
    channels = dims[1]
    x = drawn(*dims, dtype=dtype) * 2 + 0.5
    return drawn(*dims, dtype=dtype, seed=2), x, drawn(channels, seed=3) + 1, drawn(channels, seed=4)


IMAGES = [(4, 19, 7, 5), (3, 32, 8, 8), (8, 6, 10), (9, 12), (2, 5, 3, 4, 4)]


@pytest.mark.parametrize("dims", IMAGES)
@pytest.mark.parametrize("training", [True, False])
def test_batch_normalization_and_its_gradients(dims: tuple[int, ...], training: bool) -> None:
    g, x, scale, shift = normalized(*dims)
    mean, variance = drawn(dims[1], seed=5), drawn(dims[1], seed=6).abs() + 0.5

    def step(g: Any, x: Any, scale: Any, shift: Any, mean: Any, variance: Any) -> Any:
        y, own, inverse, *running = aten._native_batch_norm_legit_functional(
            x, scale, shift, mean, variance, training, 0.1, 1e-5
        )
        changes = aten.native_batch_norm_backward(
            g, x, scale, mean, variance, own, inverse, training, 1e-5, ALL
        )
        return (y, own, inverse, *running, *changes)

    check(step, g, x, scale, shift, mean, variance)


def test_a_step_may_give_one_result_twice() -> None:
    _, x, scale, shift = normalized(4, 6, 5, 5)

    def step(x: Any, scale: Any, shift: Any, mean: Any) -> Any:
        y, _, _, new, *_ = aten._native_batch_norm_legit_functional(
            x, scale, shift, mean, scale, True, 0.1, 1e-5
        )
        return new, y, new, y

    check(step, x, scale, shift, shift * 2)


def test_gradients_of_a_batch_normalization_without_scale() -> None:
    g, x, *_ = normalized(4, 6, 5, 5)

    def step(g: Any, x: Any) -> Any:
        y, own, inverse = aten._native_batch_norm_legit.no_stats(x, None, None, True, 0.1, 1e-5)
        is_read = [True, False, False]
        return y, *aten.native_batch_norm_backward(g, x, None, None, None, own, inverse, True, 1e-5, is_read)

    check(step, g, x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("dims", "count"), [((3, 7, 24), 1), ((5, 33), 1), ((2, 3, 4, 6), 2)])
def test_layer_normalization_and_its_gradients(dims: tuple[int, ...], count: int, dtype: Any) -> None:
    g, x, shape = drawn(*dims, dtype=dtype), drawn(*dims, dtype=dtype, seed=2), dims[-count:]
    scale, shift = (drawn(*shape, dtype=dtype, seed=seed) for seed in (3, 4))

    def step(g: Any, x: Any, scale: Any, shift: Any) -> Any:
        y, mean, inverse = aten.native_layer_norm(x, shape, scale, shift, 1e-5)
        return (
            y,
            mean,
            inverse,
            *aten.native_layer_norm_backward(g, x, shape, mean, inverse, scale, shift, ALL),
        )

    check(step, g, x, scale, shift, bound=2e-5 if dtype is torch.float32 else 2e-2)


@pytest.mark.parametrize(("dims", "groups"), [((3, 12, 5, 7), 4), ((2, 32, 8), 8), ((2, 6, 4, 4), 1)])
def test_group_normalization_and_its_gradients(dims: tuple[int, ...], groups: int) -> None:
    sizes = dims[0], dims[1], x_size(dims), groups

    def step(g: Any, x: Any, scale: Any, shift: Any) -> Any:
        y, mean, inverse = aten.native_group_norm(x, scale, shift, *sizes, 1e-5)
        return y, mean, inverse, *aten.native_group_norm_backward(g, x, mean, inverse, scale, *sizes, ALL)

    check(step, *normalized(*dims))


def x_size(dims: tuple[int, ...]) -> int:
    """The number of elements of a channel."""
    return int(torch.Size(dims[2:]).numel())


# --- windows ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dims", "window"),
    [
        ((2, 19, 13, 12), ([3, 3], [2, 2], [1, 1], [1, 1], False)),
        ((2, 16, 8, 8), ([2, 2], [], [0, 0], [1, 1], False)),
        ((2, 5, 11, 10), ([3, 2], [2, 2], [1, 1], [2, 1], True)),
        ((6, 9, 9), ([3, 3], [1, 1], [0, 0], [1, 1], False)),
    ],
)
def test_maxima_and_their_gradients(dims: tuple[int, ...], window: tuple[Any, ...]) -> None:
    x = drawn(*dims)

    def step(g: Any, x: Any) -> Any:
        y, indices = aten.max_pool2d_with_indices(x, *window)
        return y, indices, aten.max_pool2d_with_indices_backward(g, x, *window, indices)

    check(step, drawn(*aten.max_pool2d_with_indices(x, *window)[0].shape), x)


@pytest.mark.parametrize(
    "window",
    [
        ([3, 3], [2, 2], [1, 1], False, True, None),
        ([3, 3], [2, 2], [1, 1], True, True, None),
        ([3, 2], [2, 2], [1, 0], True, False, None),
        ([2, 2], [], [0, 0], False, True, 3),
    ],
)
def test_gradients_of_averages(window: tuple[Any, ...]) -> None:
    x = drawn(2, 7, 12, 13)
    g = drawn(*aten.avg_pool2d(x, *window).shape)
    check(lambda g, x: aten.avg_pool2d_backward(g, x, *window), g, x)


@pytest.mark.parametrize("sizes", [(1, 1), (4, 3), (5, 7)])
def test_gradients_of_averages_of_a_number(sizes: tuple[int, int]) -> None:
    check(aten._adaptive_avg_pool2d_backward, drawn(2, 5, *sizes), drawn(2, 5, 12, 12))


@pytest.mark.parametrize("sizes", [(10, 14), (8, 9)])
def test_gradients_of_resizing(sizes: tuple[int, int]) -> None:
    dims, g = [2, 6, 5, 7], drawn(2, 6, *sizes)
    check(lambda g: aten.upsample_nearest2d_backward(g, sizes, dims), g)
    for corners in (False, True):
        check(lambda g, corners=corners: aten.upsample_bilinear2d_backward(g, sizes, dims, corners), g)
    factors = 2.0, 2.0
    if sizes == (10, 14):
        check(lambda g: aten.upsample_bilinear2d_backward(g, sizes, dims, False, *factors), g)


# --- elements -----------------------------------------------------------------------------------------------

G, X = drawn(5, 13), drawn(5, 13, seed=2) * 3
TARGET = torch.tensor([3, 0, -100, 12, 7])
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "threshold": lambda g, x: (aten.threshold_backward(g, x, 0), aten.threshold_backward(g, x, 0.5)),
    "gelu": lambda g, x: (aten.gelu_backward(g, x), aten.gelu_backward(g, x, approximate="tanh")),
    "silu and mish": lambda g, x: (aten.silu_backward(g, x), aten.mish_backward(g, x)),
    "hard": lambda g, x: (aten.hardswish_backward(g, x), aten.hardsigmoid_backward(g, x)),
    "hardtanh": lambda g, x: aten.hardtanh_backward(g, x, -1.0, 2.0),
    "leaky": lambda g, x: aten.leaky_relu_backward(g, x, 0.1, False),
    "elu": lambda g, x: (
        *(aten.elu_backward(g, 1.5, 1, 1, False, x), aten.elu_backward(g, 1.67, 1.05, 1, False, x)),
        *(aten.elu_backward(g, 1.0, 1, 1, True, x), aten.elu_backward(g, 1.0, 1.0, 0.5, False, x)),
    ),
    "sigmoid and tanh": lambda g, x: (
        *(aten.sigmoid_backward(g, x.sigmoid()), aten.tanh_backward(g, x.tanh())),
        *(aten.softplus_backward(g, x, 1.0, 20.0), aten.softplus_backward(g, x, 2.0, 20.0)),
    ),
    "log sigmoid": lambda g, x: aten.log_sigmoid_backward(g, x, aten.log_sigmoid_forward(x)[1]),
    "dropout": lambda g, x: aten.native_dropout_backward(g, x > 0, 1.25),
    "softmax": lambda g, x: (
        *(aten._softmax_backward_data(g, x.softmax(-1), -1, torch.float32),),
        *(aten._log_softmax_backward_data(g, x.log_softmax(0), 0, torch.float32),),
    ),
    "mean of squares": lambda g, x: (
        *(aten.mse_loss_backward(g[0, 0], x, g, 1), aten.mse_loss_backward(g, x, g * 2, 0)),
    ),
    "parts": lambda g, x: (
        *(aten.select_backward(g, [5, 4, 13], 1, 2), aten.select_backward(g, [5, 13, 3], -1, -1)),
        *(aten.slice_backward(g, [5, 20], 1, 3, 16, 1), aten.slice_backward(g, [12, 13], 0, 1, 11, 2)),
        *(aten.slice_backward(g, [5, 25], 1, 0, 25, 2), aten.slice_backward(g, [5, 30], 1, 2, 28, 2)),
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_elements(name: str) -> None:
    check(FUNCTIONS[name], G, X)


@pytest.mark.parametrize("name", ["threshold", "gelu", "hardtanh", "elu", "dropout", "mean of squares"])
@pytest.mark.parametrize(("dtype", "bound"), [(torch.bfloat16, 2e-2), (torch.float64, 1e-6)])
def test_gradients_of_elements_of_other_types(name: str, dtype: Any, bound: float) -> None:
    check(FUNCTIONS[name], G.to(dtype), X.to(dtype), bound=bound)


def test_a_softmax_of_hidden_rows() -> None:
    x = X.clone()
    x[1], x[2, 3:] = -torch.inf, -torch.inf
    check(lambda x: aten._safe_softmax(x, -1), x)


@pytest.mark.parametrize("ignored", [-100, 3])
@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("has_weight", [False, True])
def test_losses_of_classes(reduction: int, has_weight: bool, ignored: int) -> None:
    target = TARGET.clamp(min=0) if ignored != -100 else TARGET
    weight = drawn(13).abs() if has_weight else None

    def step(x: Any, target: Any) -> Any:
        loss, total = aten.nll_loss_forward(x, target, weight, reduction, ignored)
        g = loss * 2
        return loss, total, aten.nll_loss_backward(g, x, target, weight, reduction, ignored, total)

    check(step, X, target)


def test_a_loss_of_images() -> None:
    x, target = drawn(2, 5, 4, 3), torch.arange(24).reshape(2, 4, 3) % 5

    def step(x: Any, target: Any) -> Any:
        loss, total = aten.nll_loss2d_forward(x, target, None, 1, 2)
        return loss, total, aten.nll_loss2d_backward(loss, x, target, None, 1, 2, total)

    check(step, x, target)


@pytest.mark.parametrize("ignored", [-1, 0, 4])
def test_gradients_of_an_embedding(ignored: int) -> None:
    indices = torch.tensor([[3, 0, 2, 2], [4, 4, 0, 3]])
    check(lambda g, i: aten.embedding_dense_backward(g, i, 6, ignored, False), drawn(2, 4, 12), indices)


@pytest.mark.parametrize(("is_causal", "has_mask"), [(False, False), (True, False), (False, True)])
def test_attention_and_its_gradients(is_causal: bool, has_mask: bool) -> None:
    g, q, k, v = (drawn(2, 3, 10, 8, seed=seed) for seed in range(4))
    mask = drawn(2, 1, 10, 10) if has_mask else None

    def step(g: Any, q: Any, k: Any, v: Any) -> Any:
        y, sums = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, is_causal, attn_mask=mask)
        return (
            y,
            sums,
            *aten._scaled_dot_product_flash_attention_for_cpu_backward(
                g, q, k, v, y, sums, 0.0, is_causal, attn_mask=mask
            ),
        )

    check(step, g, q, k, v)
