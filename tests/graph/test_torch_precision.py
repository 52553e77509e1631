"""Modules of torch that compute with bf16 or f16: by an option, or under torch's autocast."""

from __future__ import annotations

import pytest

from restride.graph.rewrites import precision as module

torch = pytest.importorskip("torch")
rt = pytest.importorskip("restride.torch")

pytestmark = pytest.mark.filterwarnings("ignore")
_MOST = {"bf16": 2e-2, "f16": 2e-3}
_TYPES = {"bf16": torch.bfloat16, "f16": torch.float16}


class Images(torch.nn.Module):
    """Convolutions with a residual, norms, a pooling, and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = torch.nn.Conv2d(3, 32, 3, 2, 1), torch.nn.BatchNorm2d(32)
        self.second, self.third = torch.nn.Conv2d(32, 32, 3, 1, 1), torch.nn.Conv2d(32, 64, 1)
        self.scores = torch.nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.first(x)))
        x = torch.nn.functional.max_pool2d(torch.relu(self.second(x) + x), 2)
        return torch.softmax(self.scores(torch.nn.functional.silu(self.third(x)).mean((2, 3))), -1)


class Words(torch.nn.Module):
    """Attention and a perceptron, each with a residual and a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = torch.nn.Linear(64, 192), torch.nn.Linear(64, 64)
        self.up, self.down = torch.nn.Linear(64, 128), torch.nn.Linear(128, 64)
        self.norms = torch.nn.ModuleList([torch.nn.LayerNorm(64), torch.nn.LayerNorm(64)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, count, _ = x.shape
        q, k, v = self.qkv(x).view(batch, count, 3, 4, 16).permute(2, 0, 3, 1, 4)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        x = self.norms[0](x + self.out(y.transpose(1, 2).reshape(batch, count, 64)))
        return self.norms[1](x + self.down(torch.nn.functional.gelu(self.up(x))))


CASES = [(Images, (2, 3, 32, 32)), (Words, (2, 17, 64))]


def _case(
    kind: type[torch.nn.Module], dims: tuple[int, ...]
) -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    """A module, what it is called with, and what doubles give."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    made, x = kind().eval(), torch.randn(dims)
    with torch.no_grad():
        exact = made.double()(x.double())
    return made.float(), x, exact


def _error(found: torch.Tensor, exact: torch.Tensor) -> float:
    return float((found.double() - exact).abs().max() / exact.abs().max())


@pytest.mark.parametrize(("kind", "dims"), CASES)
@pytest.mark.parametrize("precision", ["bf16", "f16"])
@pytest.mark.parametrize("has", [True, False])
def test_a_module_is_as_near_as_its_precision(
    kind: type[torch.nn.Module],
    dims: tuple[int, ...],
    precision: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    has: bool,
) -> None:
    monkeypatch.setattr(module, "has_dots_of_bf16", lambda: has)
    made, x, exact = _case(kind, dims)
    compiled = rt.compile_module(made, x, precision=precision)
    assert compiled.network.precision == precision
    found = compiled(x)
    assert found.dtype is torch.float32
    error = _error(found, exact)
    # Small weights are narrow only where products of bf16 are faster too.
    assert (1e-4 < error < _MOST["bf16"]) if has and precision == "bf16" else error < 1e-5


@pytest.mark.parametrize(("kind", "dims"), CASES)
def test_the_backend_takes_it_as_an_option(
    kind: type[torch.nn.Module], dims: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "has_dots_of_bf16", lambda: True)
    made, x, exact = _case(kind, dims)
    compiled = torch.compile(made, backend="restride", options={"precision": "bf16"})
    with torch.no_grad():
        assert 1e-4 < _error(compiled(x), exact) < _MOST["bf16"]
    assert "precision: bf16, of which" in str(rt.explain(compiled))
    loss = compiled(x).square().sum()
    loss.backward()
    mine = [each.grad.clone() for each in made.parameters()]
    made.zero_grad()
    made(x).square().sum().backward()
    for own, each in zip(mine, made.parameters(), strict=True):
        torch.testing.assert_close(own, each.grad, rtol=0.1, atol=float(0.05 * each.grad.abs().max()) + 1e-6)


@pytest.mark.parametrize(("kind", "dims"), CASES)
@pytest.mark.parametrize("precision", ["bf16", "f16"])
def test_graphs_of_autocast_are_as_near_as_torch(
    kind: type[torch.nn.Module], dims: tuple[int, ...], precision: str
) -> None:
    made, x, exact = _case(kind, dims)
    compiled = torch.compile(made, backend="restride", options={"fallback": False})
    with torch.no_grad(), torch.autocast("cpu", _TYPES[precision]):
        found, its = compiled(x), made(x)
    assert found.dtype is its.dtype
    assert _error(found, exact) < min(_MOST[precision], 3 * _error(its, exact) + 1e-3)


def test_training_under_autocast_has_the_gradients_of_torch() -> None:
    made, x, _ = _case(Words, (2, 17, 64))
    grads = []
    for call in (torch.compile(made, backend="restride"), made):
        with torch.autocast("cpu", torch.bfloat16):
            loss = call(x).float().pow(4).mean()
        loss.backward()
        grads.append([each.grad.clone() for each in made.parameters()])
        made.zero_grad()
    for own, its in zip(*grads, strict=True):
        torch.testing.assert_close(own, its, rtol=0.1, atol=float(0.05 * its.abs().max()) + 1e-6)


def test_other_precisions_are_refused() -> None:
    made, x, _ = _case(*CASES[1])
    with pytest.raises(ValueError, match="precision"):
        rt.compile_module(made, x, precision="f8")
