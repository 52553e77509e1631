"""Training by `torch.compile(backend="restride")`: both graphs are networks, and steps are those of torch."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
rt = pytest.importorskip("restride.torch")
nn, functional = torch.nn, torch.nn.functional

pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


class _Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
        self.inner = nn.Sequential(
            *(nn.Conv2d(16, 16, 3, 1, 1, groups=16, bias=False), nn.BatchNorm2d(16), nn.Hardswish()),
            *(nn.Conv2d(16, 16, 1), nn.GroupNorm(4, 16), nn.SiLU()),
        )
        self.last = nn.Linear(16, 5)

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        x = functional.max_pool2d(x + self.inner(x), 2)
        return self.last(functional.avg_pool2d(x, 2).mean((2, 3)))


class _Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, 0.0, "gelu", batch_first=True)
        self.layers, self.last = nn.TransformerEncoder(layer, 2), nn.Linear(32, 5)

    def forward(self, ids: Any) -> Any:
        return self.last(self.layers(self.table(ids)).mean(1))


MODELS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "images": (_Residual, lambda: torch.randn(4, 3, 16, 16)),
    "channels last": (_Residual, lambda: torch.randn(4, 3, 16, 16).to(memory_format=torch.channels_last)),
    "text": (_Encoder, lambda: torch.randint(0, 11, (4, 6))),
    "layers": (
        lambda: nn.Sequential(nn.Linear(8, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 5)),
        lambda: torch.randn(4, 8),
    ),
}


def _steps(module: Any, call: Any, data: list[Any], how: Any) -> list[float]:
    optimizer, losses = how(module.parameters()), []
    for x, y in data:
        optimizer.zero_grad()
        loss = functional.cross_entropy(call(x), y)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


@pytest.mark.parametrize("name", MODELS)
def test_losses_weights_and_statistics_are_those_of_torch(name: str) -> None:
    make, example = MODELS[name]
    module = make()
    own = copy.deepcopy(module)
    data = [(example(), torch.randint(0, 5, (4,))) for _ in range(3)] * 4
    compiled = torch.compile(own, backend="restride")

    def how(parameters: Any) -> Any:
        return torch.optim.SGD(parameters, 0.05, momentum=0.9, fused=True)

    found, expected = (_steps(m, call, data, how) for m, call in ((own, compiled), (module, module)))
    torch.testing.assert_close(torch.tensor(found), torch.tensor(expected), rtol=1e-4, atol=1e-4)
    for (key, one), other in zip(own.state_dict().items(), module.state_dict().values(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-3, msg=key)
    told = [line.split(",")[0] for line in str(rt.explain(compiled)).splitlines() if line[:1] == "g"]
    assert told == ["graph 0: 1 networks", "graph 1: 1 networks"]


class _Deep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 32, 3, 1, 1), nn.Conv2d(32, 32, 3, 1, 1)
        self.norms = nn.ModuleList(nn.BatchNorm2d(32) for _ in range(2))
        self.last = nn.Linear(32, 5)

    def forward(self, x: Any) -> Any:
        x = functional.relu(self.norms[0](self.first(x)))
        x = functional.relu(x + self.norms[1](self.second(x)))
        return self.last(functional.avg_pool2d(x, 2).mean((2, 3)))


@pytest.fixture
def read_by_backward(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The formats of images that graphs read as they were saved, and the reorders of these."""
    from restride.graph.importers.torch import backend

    found, partitioned = list[Any](), backend.partitioned

    def noted(*args: Any) -> Any:
        plan = partitioned(*args)
        for part in plan.parts:
            images = {name for name, md in part.plan.inputs.items() if md.inner_blks}
            found.append((images, [each for each in part.plan.formats.reorders if each.tensor in images]))
        return plan

    monkeypatch.setattr(backend, "partitioned", noted)
    return found


@pytest.mark.parametrize("hooks", [False, True])
def test_saved_images_are_read_in_the_format_in_which_they_were_computed(
    read_by_backward: list[Any], hooks: bool
) -> None:
    module, x = _Deep(), torch.randn(2, 3, 56, 56)
    own = copy.deepcopy(module)
    compiled = torch.compile(own, backend="restride")
    saved = torch.autograd.graph.saved_tensors_hooks(torch.clone, torch.clone)
    for call in (compiled, module):
        with saved if hooks else contextlib.nullcontext():
            loss = call(x).square().sum()
        loss.backward(retain_graph=call is compiled and not hooks)
    if not hooks:
        loss = compiled(x).square().sum()
        own.zero_grad()
        loss.backward()
    for one, other in zip(own.parameters(), module.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-3, atol=1e-2)
    (_, none), (images, reorders) = read_by_backward
    assert not none
    assert len(images) >= 4
    assert not reorders


_SMOOTH: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "layers": (
        lambda: nn.Sequential(nn.Linear(6, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 3)),
        (4, 6),
    ),
    "images": (
        lambda: nn.Sequential(
            *(nn.Conv2d(2, 8, 3, padding=1), nn.BatchNorm2d(8), nn.SiLU(), nn.AvgPool2d(2)),
            *(nn.ConvTranspose2d(8, 4, 2, 2), nn.GroupNorm(2, 4), nn.Tanh(), nn.Flatten(), nn.Linear(64, 3)),
        ),
        (3, 2, 4, 4),
    ),
    "text": (lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", batch_first=True), (2, 5, 8)),
}


@pytest.mark.parametrize("name", _SMOOTH)
def test_gradients_are_those_of_differences(name: str) -> None:
    make, dims = _SMOOTH[name]
    module = make()
    compiled = torch.compile(module, backend="restride")
    leaves = [torch.rand(dims, requires_grad=True), *module.parameters()]

    def loss(x: Any) -> Any:
        return compiled(x).square().mean()

    loss(leaves[0]).backward()
    assert "graph 1: 1 networks" in str(rt.explain(compiled))
    exact = copy.deepcopy(module).double()
    for _ in range(3):
        # By doubles: of floats the rounding of a difference is as large as what is looked for.
        ways = [torch.randn(x.shape, dtype=torch.float64) for x in leaves]
        found = sum(float((x.grad * way).sum()) for x, way in zip(leaves, ways, strict=True))
        values = []
        with torch.no_grad():
            for step in (1e-5, -1e-5):
                moved = [x.double() + step * way for x, way in zip(leaves, ways, strict=True)]
                names = dict(zip(dict(exact.named_parameters()), moved[1:], strict=True))
                values.append(float(torch.func.functional_call(exact, names, moved[0]).square().mean()))
        assert found == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-3, abs=1e-4)
    # Of floats too, with steps and bounds of their precision; the check goes through a graph twice.
    torch._dynamo.reset()
    x, checked = torch.rand(dims, requires_grad=True), torch.compile(module.eval(), backend="restride")
    how = {"eps": 2e-3, "atol": 2e-2, "rtol": 2e-2, "fast_mode": True}
    with torch._functorch.config.patch(donated_buffer=False):
        assert torch.autograd.gradcheck(checked, x, **how)


def test_gradients_are_added_up_and_asked_for_one_by_one() -> None:
    module = _Residual()
    module.first.requires_grad_(False)
    own, x = copy.deepcopy(module), torch.randn(2, 3, 16, 16, requires_grad=True)
    compiled = torch.compile(own, backend="restride")
    for _ in range(2):
        compiled(x).square().sum().backward()
    found, x.grad = x.grad, None
    for _ in range(2):
        module(x).square().sum().backward()
    torch.testing.assert_close(found, x.grad, rtol=1e-3, atol=1e-3)
    for one, other in zip(own.parameters(), module.parameters(), strict=True):
        assert (one.grad is None) == (other.grad is None)
        if one.grad is not None:
            torch.testing.assert_close(one.grad, other.grad, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "pack",
    [
        lambda x: x.clone(memory_format=torch.contiguous_format),
        lambda x: functional.pad(x, (1, 1))[..., 1:-1] if x.dim() > 3 else x,
        lambda x: x.movedim(0, -1).contiguous().movedim(-1, 0),
    ],
    ids=["row-major", "gaps", "other-order"],
)
def test_saved_tensors_may_come_back_in_other_memory(pack: Callable[[Any], Any]) -> None:
    module = _Residual()
    own, x = copy.deepcopy(module), torch.randn(2, 3, 16, 16)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        torch.compile(own, backend="restride")(x).square().sum().backward()
    module(x).square().sum().backward()
    for one, other in zip(own.parameters(), module.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-3, atol=1e-3)


def test_views_that_are_results_and_are_read_inside_are_those_of_torch() -> None:
    layer, x = nn.Linear(64, 64), torch.randn(16, 64)

    def parts(x: Any) -> Any:
        one, other = layer(x).chunk(2, 1)
        narrow = layer(x)[:, :5]
        wide = layer(x).mean().expand(16, 4)
        return one, other.exp() * one, narrow, narrow.abs().exp(), wide, wide * 2

    compiled = torch.compile(parts, backend="restride")
    with torch.no_grad():
        found, expected = compiled(x), parts(x)
    for one, want in zip(found, expected, strict=True):
        torch.testing.assert_close(one, want)
        assert one.stride() == want.stride()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_normalizations_of_sixteen_bits_have_the_gradients_of_torch(dtype: Any) -> None:
    module = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.Softplus(1, 1), nn.Conv2d(16, 4, 1))
    exact, x = copy.deepcopy(module).double(), torch.randn(4, 3, 8, 8)
    own = module.to(dtype)
    torch.compile(own, backend="restride")(x.to(dtype)).float().square().mean().backward()
    exact(x.double()).square().mean().backward()
    for one, other in zip(own.parameters(), exact.parameters(), strict=True):
        assert (one.grad.double() - other.grad).abs().max() < 0.1 * other.grad.abs().max() + 2e-2


def test_rows_without_a_key_have_no_gradient() -> None:
    tensors = [torch.randn(2, 2, 5, 8, requires_grad=True) for _ in "qkv"]
    mask = torch.ones(5, 5, dtype=torch.bool)
    mask[2] = False

    def attended(query: Any, key: Any, value: Any, mask: Any) -> Any:
        return functional.scaled_dot_product_attention(query, key, value, mask) * 2

    attended(*tensors, mask).sum().backward()
    expected = [x.grad for x in tensors]
    for x in tensors:
        x.grad = None
    torch.compile(attended, backend="restride")(*tensors, mask).sum().backward()
    for x, want in zip(tensors, expected, strict=True):
        torch.testing.assert_close(x.grad, want, rtol=1e-4, atol=1e-4)


def test_more_sizes_in_turn_than_plans_are_left_to_torch() -> None:
    module = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))
    compiled = torch.compile(module, backend="restride", dynamic=True)
    for n in [*range(2, 36), *range(2, 6)]:
        x = torch.randn(n, 8)
        torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-4)
    assert "alternates between more sizes" in str(rt.explain(compiled))


def test_elements_that_dropout_leaves_out_are_those_of_torch() -> None:
    module = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 8)).train()
    x, results = torch.randn(16, 8), []
    for backend in ("eager", "restride"):
        torch._dynamo.reset()
        torch.manual_seed(1)
        own = copy.deepcopy(module)
        loss = torch.compile(own, backend=backend)(x).square().sum()
        loss.backward()
        results.append([loss, *(each.grad for each in own.parameters())])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_weights_that_a_step_writes_are_read_anew_in_evaluation() -> None:
    module = _Residual()
    compiled, x = torch.compile(module, backend="restride"), torch.randn(2, 3, 16, 16)
    _steps(module, compiled, [(x, torch.tensor([0, 1]))] * 2, lambda own: torch.optim.Adam(own, 0.01))
    module.eval()
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-4)
