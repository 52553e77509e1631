"""Modules of torch as networks: what torch gives, other sizes, weights that change, what is refused."""

from __future__ import annotations

import copy
import pickle
import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import restride as rs

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("ignore")]
if not hasattr(torch.export, "default_decompositions"):
    pytest.skip("programs are exported from torch 2.6 on", allow_module_level=True)

import restride.torch as rt  # noqa: E402
from support.errors import refused  # noqa: E402

nn, F = torch.nn, torch.nn.functional


class Function(nn.Module):
    """A module of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.eval()

    def forward(self, *x: Any) -> Any:
        return self.function(*x)


def small_network() -> Any:
    """Convolutions, groups, a norm, poolings, a shuffle and a product."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1),
        nn.BatchNorm2d(16),
        nn.Hardswish(),
        nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False),
        nn.ChannelShuffle(4),
        nn.MaxPool2d(3, 2, 1, ceil_mode=True),
        nn.PReLU(16),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    ).eval()


X = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def check(module: Any, *inputs: Any, rule: str = "greedy") -> None:
    compiled = rt.compile_module(module, inputs, rule=rule)
    with torch.no_grad():
        wanted = module(*inputs)
    found = compiled(*inputs)
    pairs = zip(wanted, found, strict=True) if isinstance(wanted, tuple) else [(wanted, found)]
    for one, other in pairs:
        assert one.shape == other.shape
        assert (one - other).abs().max() <= 2e-5 * one.abs().max()


IMAGE = torch.randn(2, 6, 8, 8, generator=torch.Generator().manual_seed(1))
ROWS = torch.randn(3, 8, generator=torch.Generator().manual_seed(2))
FUNCTIONS: dict[str, tuple[Callable[..., Any], Any]] = {
    **{
        word: (getattr(F, word), ROWS)
        for word in ("elu", "gelu", "hardsigmoid", "hardswish", "leaky_relu", "mish", "relu6", "silu")
    },
    "softplus": (F.softplus, ROWS),
    **{word: (getattr(torch, word), ROWS) for word in ("abs", "exp", "neg", "sigmoid", "tanh")},
    "gelu by tanh": (lambda x: F.gelu(x, approximate="tanh"), ROWS),
    "arithmetic": (lambda x: torch.add(x, x, alpha=2) * 3 - x / 2 + 1 - (2 - x), ROWS),
    "powers": (lambda x: x**2 + (x * x + 1).sqrt() + (x * x + 1).rsqrt(), ROWS),
    "clamp": (lambda x: (x.clamp(-1, 0.5), x.clamp(min=0), x.clamp(max=0.2), x.clamp_min(0.1)), ROWS),
    "reductions": (lambda x: (x.mean(1), x.sum(0, keepdim=True), x.amax(1), x.amin(0), x.var(1)), ROWS),
    "softmax": (lambda x: (x.softmax(-1), x.log_softmax(0)), ROWS),
    "moves": (lambda x: (x.view(3, 2, 4).permute(2, 0, 1).contiguous(), x[:, 1:7:2], x[1], x[:, None]), ROWS),
    "parts": (lambda x: torch.cat(x.chunk(2, 1)[::-1], 1), IMAGE),
    "twice": (lambda x: (x + 1, x + 1, x), ROWS),
    "pad": (lambda x: F.pad(x, (1, 2, 0, 1), value=3.0), IMAGE),
    "pad that cuts off": (lambda x: F.pad(x, (-1, 2, 3, -2), value=3.0), IMAGE),
    "poolings": (lambda x: (F.avg_pool2d(x, 3, 2, 1), F.max_pool2d(x, 2)), IMAGE),
    "adaptive poolings": (lambda x: F.adaptive_avg_pool2d(x, 4), IMAGE),
    "resizing": (lambda x: F.interpolate(x, scale_factor=2), IMAGE),
    "resizing by lines": (lambda x: F.interpolate(x, (5, 9), mode="bilinear"), IMAGE),
    "matmul": (lambda x: x @ x.transpose(1, 0), ROWS),
    "group norm": (lambda x: F.group_norm(x, 3, x[0, :, 0, 0]), IMAGE),
    "group norm of rows": (lambda x: F.group_norm(x, 2, bias=x[0]), ROWS),
    "instance norm": (nn.InstanceNorm2d(6, affine=True).eval(), IMAGE),
    "norm of a batch": (nn.BatchNorm2d(6, track_running_stats=False).eval(), IMAGE),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x), IMAGE),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_gives_what_torch_gives(name: str) -> None:
    function, x = FUNCTIONS[name]
    check(Function(function), x)


@pytest.mark.parametrize("rule", ["plain", "greedy", "optimal"])
def test_a_network_gives_what_torch_gives(rule: str) -> None:
    check(small_network(), X, rule=rule)


def test_transposed_convolutions_and_norms_give_what_torch_gives() -> None:
    torch.manual_seed(0)
    check(nn.Sequential(nn.ConvTranspose2d(6, 4, 3, 2, 1, output_padding=1), nn.LayerNorm(16)).eval(), IMAGE)


def test_a_transformer_gives_what_torch_gives() -> None:
    torch.manual_seed(0)
    check(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval(), torch.randn(2, 5, 16))


def test_several_inputs_come_by_position() -> None:
    check(Function(lambda x, y: x * 2 + y), ROWS, ROWS + 1)


def test_other_sizes_make_a_plan_of_their_own() -> None:
    module = small_network()
    compiled = rt.compile_module(module, X)
    for dims in ((4, 3, 32, 32), (1, 3, 40, 48)):
        x = torch.randn(dims)
        with torch.no_grad():
            wanted = module(x)
        assert torch.allclose(compiled(x), wanted, atol=1e-5)


def test_weights_that_change_in_place_are_noticed() -> None:
    module = small_network()
    compiled = rt.compile_module(module, X)
    before = compiled(X)
    with torch.no_grad():
        module[9].bias += 1
    assert torch.allclose(compiled(X), before + 1, atol=1e-5)
    module.load_state_dict({name: value * 0 for name, value in module.state_dict().items()})
    assert not compiled(X).any()
    assert not compiled.network(X).any()


def test_a_module_that_trains_again_is_refused() -> None:
    module = small_network()
    compiled = rt.compile_module(module, X)
    module.train()
    for call in (lambda: compiled(X), lambda: rt.compile_module(module, X)):
        with pytest.raises(rs.InvalidArguments, match="training mode") as caught:
            call()
        assert caught.value.code == "RS-G05"


BY_SIZE: dict[str, Callable[[Any], Any]] = {
    "text": lambda x: x * {"8": 2.0, "7": 3.0}.get(str(x.shape[1]), 5.0),
    "a type": lambda x: x * (1.0 if isinstance(x.shape[1], int) else 100.0),
    "a table": lambda x: x * {8: 2.0, 7: 3.0}.get(x.shape[1], 5.0),
    "equal": lambda x: x * 2 if x.shape[1] == 9 else x + 1,
    "multiple": lambda x: x * 2 if x.shape[1] % 4 == 0 else x + 1,
    "half": lambda x: x * 2 if float(x.shape[1]) / 2 > 4.2 else x + 1,
    "positions": lambda x: x + torch.arange(12.0)[: x.shape[1], None],
    "ones": lambda x: x * (torch.ones(x.shape[1]).sum() == 9).float(),
    "causal": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True),
}


@pytest.mark.parametrize("name", BY_SIZE)
def test_what_a_size_decides_is_decided_for_each_size(name: str) -> None:
    module = Function(BY_SIZE[name])
    compiled = rt.compile_module(module, torch.rand(2, 6, 8))
    for size in (7, 8, 9, 2, 1, 12):
        x = torch.rand(2, size, 8)
        torch.testing.assert_close(compiled(x), module(x))


def test_an_input_of_another_rank_is_told_how_many_dims_there_are() -> None:
    compiled = rt.compile_module(small_network(), X)
    with refused("3x32x32", "it has 3", "takes 4", "x[None]"):
        compiled(X[0])


def test_a_loaded_network_shows_its_dims(tmp_path: Path) -> None:
    rt.compile_module(nn.Linear(4, 2).eval(), torch.rand(3, 4)).save(tmp_path / "network")
    assert "saved for 3x4, and other batches" in repr(rs.Network.load(tmp_path / "network"))


@pytest.mark.parametrize("keep", ["0", "head", "head.*", "*.2"])
def test_layers_are_kept_by_globs_and_parts(keep: str) -> None:
    head = nn.Sequential(nn.ReLU(), nn.Linear(16, 16), nn.Linear(16, 2))
    module = nn.Sequential(OrderedDict({"0": nn.Linear(8, 16), "head": head})).eval()
    network = rt.compile_module(module, torch.rand(4, 8)).network
    made = rs.quantize_network(network, [torch.rand(4, 8).numpy()], keep=[keep], layer_error=10.0)
    kept = {layer.name for layer in made.report.layers if not layer.is_quantized}
    assert kept == {"0": {"0"}, "*.2": {"head.2"}}.get(keep, {"head.1", "head.2"})


@pytest.mark.parametrize("way", [{"dtype": "int4wo"}, {"dtype": "int4", "group_size": 32}], ids=str)
def test_names_of_torchao_are_answered_with_ours(way: dict[str, Any]) -> None:
    with refused("torchao", "group=64"):
        rt.quantize_(nn.Linear(64, 64), **way)


def test_parts_in_training_mode_are_named() -> None:
    module = small_network()
    module[1].train()
    with refused("1 (BatchNorm2d) of Sequential"):
        rt.compile_module(module, X)


def test_the_example_can_be_on_the_meta_device_but_weights_cannot() -> None:
    module = small_network()
    with torch.no_grad():
        torch.testing.assert_close(
            rt.compile_module(module, X.to("meta"))(X), module(X), atol=1e-5, rtol=1e-4
        )
    module[9].to("meta")
    with refused("9.weight", "9.bias", "meta device"):
        rt.compile_module(module, X)


def test_modules_that_write_into_what_they_read_are_refused() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x: Any) -> Any:
            self.count.add_(1)
            return x + self.count

    for module in (Counts().eval(), Function(lambda x: x.add_(1) * 2)):
        with pytest.raises(rs.InvalidArguments, match="modifies its inputs or buffers"):
            rt.compile_module(module, torch.ones(2, 3))


def test_modules_of_inference_mode_are_refused() -> None:
    with torch.inference_mode():
        module = nn.Linear(4, 4).eval()
    with pytest.raises(rs.InvalidArguments, match="inference_mode"):
        rt.compile_module(module, torch.ones(2, 4))


def test_parts_that_are_replaced_or_train_are_noticed() -> None:
    module, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Dropout(0.5)).eval(), torch.randn(3, 4)
    compiled = rt.compile_module(module, x)
    assert torch.allclose(compiled(x), module(x), atol=1e-6)
    module[1] = nn.Identity().eval()
    assert torch.allclose(compiled(x), module(x), atol=1e-6)
    module[2].train()
    with pytest.raises(rs.InvalidArguments, match="training"):
        compiled(x)


def test_operators_that_are_missing_are_told_at_once() -> None:
    here = r" at test_torch_module\.py:\d+"
    with pytest.raises(
        rs.Unimplemented, match=rf"aten\.i0: 'i0{here}'; aten\.multinomial: 'multinomial{here}'"
    ):
        rt.compile_module(Function(lambda x: torch.special.i0(x).multinomial(2)), ROWS)


MISSING: dict[str, Callable[[Any], Any]] = {
    "aten.mode": lambda x: x.mode()[0],
    "aten.native_dropout": lambda x: F.dropout(x),
    "aten.fractional_max_pool2d": lambda x: F.fractional_max_pool2d(x, 2, 2, _random_samples=x[..., :2, 0]),
    "aten._linalg_svd": lambda x: torch.linalg.svd(x)[1],
    "aten.nonzero": lambda x: x.nonzero(),
    "cond": lambda x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)),
    "restride.shuffle": lambda x: torch.ops.restride.shuffle(x, 2, 1),
}


@pytest.mark.parametrize("name", MISSING)
def test_an_operator_that_is_missing_is_named_whatever_it_gives(name: str) -> None:
    module = torch.fx.symbolic_trace(MISSING[name]) if name == "aten.mode" else Function(MISSING[name])
    with pytest.raises(rs.Unimplemented, match=rf"{re.escape(name)}: "):
        rt.compile_module(module.eval(), IMAGE)


@pytest.mark.parametrize(
    ("told", "function"),
    [
        ("aten.round.*to -1 decimals", lambda x: x.long().round(decimals=-1)),
        ("aten.add.*1j is not a real number", lambda x: x + 1j),
        ("aten.clamp.*not a number", lambda x: x.clamp(float("nan"), 1)),
    ],
)  # fmt: skip
def test_arguments_that_no_network_has_are_refused_by_operator_and_line(
    told: str, function: Callable[[Any], Any]
) -> None:
    with pytest.raises(rs.Error, match="(?s)" + told.replace(".*", r".* at test_torch_module\.py:\d+.*", 1)):
        rt.compile_module(Function(function), ROWS)


def test_dims_that_the_module_refuses_are_told_with_those_of_the_example(
    capfd: pytest.CaptureFixture[str],
) -> None:
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 4)).eval()
    compiled = rt.compile_module(module, torch.ones(2, 3, 4))
    with pytest.raises(rs.InvalidArguments, match="inputs of 2x3x5; the example is of 2x3x4"):
        compiled(torch.ones(2, 3, 5))
    assert "Traceback" not in capfd.readouterr().err


def test_what_torch_cannot_export_is_told_of_the_module() -> None:
    with pytest.raises(rs.InvalidArguments, match="cannot export Function") as caught:
        rt.compile_module(Function(lambda x: x if x.sum() > 0 else -x), ROWS)
    assert caught.value.code == "RS-G05"


@pytest.mark.parametrize(
    "call",
    [
        lambda: rt.compile_module(len, X),
        lambda: rt.compile_module(small_network(), [1]),
        lambda: rt.compile_module(small_network(), 1),
        lambda: rt.compile_module(small_network(), None),
        lambda: rt.compile_module(small_network(), X, rule=[1]),
        lambda: rt.compile_module(small_network(), X.double()),
        lambda: rt.compile_module(Function(lambda x: (x, 3)), ROWS),
        lambda: rt.compile_module(small_network(), X)(X, X),
        lambda: rt.compile_module(small_network(), X)(X, other=X),
        lambda: rt.compile_module(small_network(), X)(other=X),
        lambda: rt.compile_module(small_network(), X)(X, input=X),
        lambda: rt.compile_module(torch.export.export(small_network(), (X,)).module(), X),
        lambda: rt.compile_module(torch.export.export(small_network(), (X,)), [X, X]),
        lambda: rt.compile_module(torch.export.export(Function(lambda x, n: x * n), (X, 2))),
        lambda: rt.compile_module(small_network(), X)(X.requires_grad_()),
    ],
)
def test_bad_calls_are_refused(call: Callable[[], Any]) -> None:
    with pytest.raises(rs.Error):
        call()
    X.requires_grad_(False)


def test_threads_may_share_a_compiled_module() -> None:
    compiled = rt.compile_module(small_network(), X)
    wanted, found = compiled(X), []
    threads = [threading.Thread(target=lambda: found.append(compiled(X))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(each, wanted) for each in found)
    assert len(found) == len(threads)


def test_the_networks_of_a_module_are_saved_like_others(tmp_path: Any) -> None:
    compiled, module = rt.compile_module(small_network(), X), small_network()
    compiled.network.save(tmp_path / "module.net")
    served = rs.Network.load(tmp_path / "module.net")
    served.prepare()
    assert torch.equal(served(X), compiled(X))
    with torch.no_grad():
        many = torch.cat([X, X.flip(2), X.flip(3)])
        assert torch.allclose(served(many), module(many), atol=1e-5)


class WithToken(nn.Module):
    """A row of its own and the number of the row for each of the batch, as in models of images and texts."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.ones(1, 1, 8))

    def forward(self, x: Any) -> Any:
        n = x.shape[0]
        rows = torch.arange(n)[:, None, None]
        return torch.cat(
            [self.token.expand(n, -1, -1), x[rows, torch.arange(3)[:, None], torch.arange(8)]], 1
        )


@pytest.mark.parametrize(
    "module",
    [
        WithToken(),
        nn.LSTM(8, 5, batch_first=True),
        nn.GRU(8, 5, batch_first=True, bidirectional=True),
        nn.TransformerEncoderLayer(8, 2, batch_first=True),
    ],
    ids=lambda module: type(module).__name__,
)
def test_constants_that_have_rows_of_the_batch_serve_others(module: Any, tmp_path: Any) -> None:
    module.eval()
    images = torch.randn(5, 3, 8, generator=torch.Generator().manual_seed(3))
    rt.compile_module(module, images[:2]).network.save(tmp_path / "a.net")
    served = rs.Network.load(tmp_path / "a.net")
    for n in (1, 2, 3, 5):
        with torch.no_grad():
            wanted = torch.utils._pytree.tree_leaves(module(images[:n]))
        found = torch.utils._pytree.tree_leaves(served(images[:n]))
        for one, other in zip(wanted, found, strict=True):
            assert torch.allclose(one, other, atol=1e-5)


class Masked(nn.Module):
    """Three inputs, of which two may come by name, in any order; a dict of results."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: Any, mask: Any = None, ids: Any = None) -> dict[str, Any]:
        return {"y": self.linear(x) * mask, "next": ids + 1}


def rows(n: int) -> tuple[Any, dict[str, Any]]:
    generator = torch.Generator().manual_seed(n)
    return torch.randn(n, 4, generator=generator), {"ids": torch.arange(n), "mask": torch.ones(n, 3)}


@pytest.mark.parametrize(
    ("batch", "largest"),
    [
        (None, 0),
        (torch.export.Dim.AUTO, 1024),
        (torch.export.Dim("batch"), 1024),
        (torch.export.Dim("batch", min=2, max=64), 64),
    ],
    ids=str,
)
def test_a_program_is_a_network_of_the_extents_that_it_leaves_open(
    tmp_path: Any, batch: Any, largest: int
) -> None:
    """Read from a file of torch, saved, and run without torch's program for all batches that it takes."""
    module, (x, named) = Masked().eval(), rows(4)
    shapes = None if batch is None else {word: {0: batch} for word in ("x", "mask", "ids")}
    torch.export.save(torch.export.export(module, (x,), named, dynamic_shapes=shapes), tmp_path / "a.pt2")
    compiled = rt.compile_module(torch.export.load(tmp_path / "a.pt2"))
    assert [each.dims for each in compiled.network.inputs] == [
        (n, *own) for n in [None if batch else 4] for own in [(4,), (), (3,)]
    ]
    compiled.network.save(tmp_path / "a.net")
    served = rs.Network.load(tmp_path / "a.net")
    served.prepare()
    for n in (1, 2, 5, 64, largest) if batch else (4,):
        x, named = rows(n)
        with torch.no_grad():
            wanted = module(x, **named)
        found = compiled(x, **named)
        assert torch.allclose(found["y"], wanted["y"], atol=1e-5)
        assert torch.equal(found["next"], wanted["next"])
        assert torch.equal(compiled(x, named["ids"], named["mask"])["y"], found["y"])
        results = served({"x": x, **named})
        assert [*map(torch.equal, results.values(), wanted.values())][1:] == [True]
        assert torch.allclose(next(iter(results.values())), wanted["y"], atol=1e-5)
    x, named = rows(largest + 1)
    with pytest.raises(
        rs.InvalidArguments, match=f"batches of 1 to {largest} " if batch else "another shape"
    ):
        served({"x": x, **named})


def test_a_module_takes_its_example_by_name() -> None:
    module, (x, named) = Masked().eval(), rows(4)
    compiled = rt.compile_module(module, {"x": x, **named})
    with torch.no_grad():
        assert torch.allclose(compiled(x=x, **named)["y"], module(x, **named)["y"], atol=1e-5)


def test_weights_of_a_program_that_change_are_noticed() -> None:
    module = small_network()
    compiled = rt.compile_module(torch.export.export(module, (X,)))
    compiled(X)
    with torch.no_grad():
        module[-1].bias.add_(1)
        assert torch.allclose(compiled(X), module(X), atol=1e-5)


def test_a_program_in_training_mode_is_refused() -> None:
    for module in (nn.BatchNorm2d(3), nn.Dropout()):
        with pytest.raises(rs.Error, match=r"modifies its inputs or buffers|native_dropout"):
            rt.compile_module(torch.export.export(module, (X,)))


class _Decides(torch.nn.Module):
    """Takes another way, or another number, for batches that nobody asks for when a file is saved."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = x.shape[0]
        if self.how == "a way":
            return x * 2 if n == 7 else x * 3
        if self.how == "a tensor":
            return x * (torch.full((1,), n) != 7)
        if self.how == "a sum":
            return x * (torch.ones(n).sum() != 7)
        if self.how == "ones like":
            return x * (torch.ones_like(x).sum() != 35)
        if self.how == "rows":
            return x * (torch.arange(n) != n - 3)[:, None]
        return x * (n % 7 == 0) if self.how == "a number" else torch.nn.functional.pad(x, (0, n % 7 // 6))


@pytest.mark.parametrize("how", ["a way", "a number", "an extent", "a tensor", "a sum", "ones like", "rows"])
def test_a_module_that_decides_by_the_batch_is_saved_for_its_own_alone(how: str, tmp_path: Any) -> None:
    x = torch.ones(2, 5)
    rt.compile_module(_Decides(how).eval(), x).network.save(tmp_path / "module.net")
    served = rs.Network.load(tmp_path / "module.net")
    assert torch.equal(served(x), _Decides(how)(x))
    for n in (6, 7, 8):
        with pytest.raises(rs.InvalidArguments, match="no plan for these dims"):
            served(torch.ones(n, 5))


def test_inputs_larger_than_the_memory_are_refused_before_torch_wants_them() -> None:
    compiled = rt.compile_module(torch.nn.ReLU().eval(), torch.ones(2, 5))
    with pytest.raises(rs.OutOfMemory):
        compiled.network.prepare((1 << 40, 1 << 10))


def test_copies_and_pickles_compile_for_themselves_and_files_serve(tmp_path: Any) -> None:
    module, x = nn.Linear(8, 4).eval(), torch.rand(2, 8)
    compiled = rt.compile_module(module, x)
    for each in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        assert torch.equal(each(x), compiled(x))
    compiled.save(tmp_path / "net")
    assert torch.equal(rs.Network.load(tmp_path / "net")(x), compiled(x))
    assert str(rt.explain(compiled)) == str(compiled.network.explain())


def test_hints_are_in_the_words_of_torch() -> None:
    x = torch.rand(1, 8)
    compiled = rt.compile_module(nn.Linear(8, 4).eval(), x)
    with pytest.raises(rs.InvalidArguments, match=re.escape("x.float()")):
        compiled(x.double())
    with pytest.raises(rs.InvalidArguments, match="sample 0 has 2 parts"):
        rs.quantize_network(compiled.network, [(x, torch.tensor([1]))])
    with pytest.raises(rs.Unimplemented, match='backend="restride"'):
        rt.compile_module(Function(torch.special.i0), x)


@pytest.mark.filterwarnings("error")
def test_an_export_warns_of_nothing() -> None:
    rt.compile_module(nn.Linear(8, 4).eval(), torch.rand(2, 8))


def test_layers_have_the_names_of_the_parts_of_the_module() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm, self.head = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            return self.head(self.conv(self.norm(self.conv(x)))).softmax(-1)

    module, x = nn.Sequential(nn.Conv2d(3, 3, 3, padding="same"), Block()).eval(), torch.rand(1, 3, 4, 4)
    programs = [(module, x), (torch.export.export(module, (x,)), None)]
    for network in (rt.compile_module(*each).network for each in programs):
        names = {node.name for node in network.plan((1, 3, 4, 4)).graph.nodes}
        assert {"0", "1.conv", "1.conv_1", "1.head", "1.softmax"} <= names
        made = rs.quantize_network(network, [x] * 2, keep=["1.conv"], layer_error=1)
        assert [layer.name for layer in made.report.layers if not layer.is_quantized] == ["1.conv"]
