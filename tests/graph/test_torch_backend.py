"""`torch.compile(model, backend="restride")`: torch's answers, by networks where that saves time."""

from __future__ import annotations

import copy
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import restride as rs

torch = pytest.importorskip("torch")
rt = pytest.importorskip("restride.torch")
nn = torch.nn

pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def _leaves(x: Any) -> list[Any]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(x) if isinstance(leaf, torch.Tensor)]


def _check(compiled: Callable[..., Any], module: Callable[..., Any], *xs: Any, rtol: float = 1e-4) -> None:
    with torch.no_grad():
        expected, results = (_leaves(function(*copy.deepcopy(xs))) for function in (module, compiled))
    for result, want in zip(results, expected, strict=True):
        torch.testing.assert_close(result, want, rtol=rtol, atol=rtol)
        assert result.stride() == want.stride()


def _compiled(module: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return (
        torch.compile(module, backend="restride", options=options)
        if options
        else (torch.compile(module, backend="restride"))
    )


def _of_networks(compiled: Callable[..., Any]) -> bool:
    text = str(rt.explain(compiled))
    return ": 1 networks, 0 operators of torch" in text


def _layers() -> Any:
    layers = [nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 8)]
    return nn.Sequential(*layers).eval()


def _images() -> Any:
    front = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.PReLU(), nn.Conv2d(8, 16, 3), nn.Hardswish()]
    return nn.Sequential(
        *front, nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4)
    ).eval()


def _text() -> Any:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return nn.Sequential(nn.Embedding(10, 16), layer, nn.Linear(16, 10), nn.LogSoftmax(-1)).eval()


MODELS = {
    "layers": (_layers, lambda: torch.rand(4, 32)),
    "images": (_images, lambda: torch.rand(2, 3, 12, 12)),
    "channels last": (_images, lambda: torch.rand(2, 3, 12, 12).to(memory_format=torch.channels_last)),
    "text": (_text, lambda: torch.randint(0, 10, (2, 5))),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_one_network_with_the_results_of_torch(name: str) -> None:
    make, example = MODELS[name]
    module = make()
    compiled = _compiled(module)
    for _ in range(2):
        _check(compiled, module, example())
    assert _of_networks(compiled)


def test_channels_last_is_read_and_written_without_a_reorder() -> None:
    module = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1)).eval()
    compiled = _compiled(module.to(memory_format=torch.channels_last))
    _check(compiled, module, torch.rand(1, 16, 8, 8).to(memory_format=torch.channels_last))
    assert " 0 reorders" in str(rt.explain(compiled))


class _Broken(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x: Any) -> Any:
        x = self.first(x).relu().exp().tanh()
        torch._dynamo.graph_break()
        return self.second(x).relu().exp().tanh()


def test_graphs_break_where_dynamo_breaks_them() -> None:
    module = _Broken().eval()
    compiled = _compiled(module)
    _check(compiled, module, torch.rand(4, 32))
    assert str(rt.explain(compiled)).count("1 networks") == 2


class _Special(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x: Any) -> Any:
        x = self.first(x).relu().exp().tanh()
        x = x + torch.special.i0(x)
        return self.second(x).relu().exp().tanh()


def test_operators_that_restride_has_not_are_left_to_torch_and_told_with_their_lines() -> None:
    module = _Special().eval()
    compiled = _compiled(module)
    _check(compiled, module, torch.rand(4, 32))
    text = str(rt.explain(compiled))
    assert "2 networks, 1 operators of torch" in text
    assert "torch: aten.i0, i0 at test_torch_backend.py:" in text
    with pytest.raises(rt.explain.__globals__["Error"], match=r"aten\.i0.*test_torch_backend\.py:"):
        _check(_compiled(module, fallback=False), module, torch.rand(4, 32))


def test_a_few_operators_are_no_network() -> None:
    compiled = _compiled(lambda x: x + 1)
    _check(compiled, lambda x: x + 1, torch.rand(3))
    assert "a network of it would save less than its call costs" in str(rt.explain(compiled))


@pytest.mark.parametrize("looks_inside", [False, True])
def test_recurrent_layers_give_the_results_of_torch(looks_inside: bool) -> None:
    module = nn.LSTM(64, 64, batch_first=True).eval()
    compiled = _compiled(module)
    with torch._dynamo.config.patch(allow_rnn=looks_inside):
        _check(compiled, module, torch.rand(2, 20, 64))
    assert _of_networks(compiled) is looks_inside


def test_strides_of_what_does_not_lie_in_rows_are_left_to_torch() -> None:
    def part(x: Any) -> Any:
        return (x.exp() + 1).as_strided((2, 3), (3, 1)).tanh()

    _check(_compiled(part), part, torch.rand(2, 3, 4, 4).to(memory_format=torch.channels_last))


def test_verbose_lines_tell_of_networks_and_their_steps(capfd: Any) -> None:
    module, x = _layers(), torch.rand(4, 32)
    compiled = _compiled(module)
    with rs.set_verbose("profile"):
        _check(compiled, module, x)
    lines = [line for line in capfd.readouterr().err.splitlines() if ",info," not in line]
    assert sum(",create,cpu:0,network," in line for line in lines) == 1
    assert sum(",exec,cpu,inner_product," in line for line in lines) == 3


# --- weights ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trains", [False, True])
def test_steps_have_the_names_of_modules(trains: bool) -> None:
    parts = {"stem": nn.Conv2d(3, 16, 3), "head": nn.Sequential(nn.Flatten(), nn.Linear(16 * 196, 4))}
    model, names = nn.Sequential(OrderedDict(parts)).train(trains), list[str]()
    compiled, x = _compiled(lambda x: model(x)), torch.rand(2, 3, 16, 16)
    with torch.set_grad_enabled(trains), rs.add_hook("after_step", lambda step: names.append(step.node)):
        result = compiled(x)
        if trains:
            result.sum().backward()
    assert "stem" in names, names
    assert any(name.startswith("stem." if trains else "head.1") for name in names), names


def test_changes_of_weights_are_noticed() -> None:
    module, x = _layers(), torch.rand(4, 32)
    compiled = _compiled(module)
    _check(compiled, module, x)
    with torch.no_grad():
        module[0].weight.mul_(1.5)
    _check(compiled, module, x)
    module.load_state_dict(_layers().state_dict())
    _check(compiled, module, x)
    module[2].weight.data = module[2].weight.data.clone().mul_(2)
    _check(compiled, module, x)
    module[4] = nn.Linear(64, 8).eval()
    _check(compiled, module, x)
    module[0].bias.data.numpy()[:] = 3  # which nothing counts
    rt.refresh(compiled)
    _check(compiled, module, x)


def test_layers_of_one_code_have_their_constants_each() -> None:
    first, second = _layers(), _layers()
    compiled = [_compiled(module) for module in (first, second)]
    for _ in range(2):
        for each, module in zip(compiled, (first, second), strict=True):
            _check(each, module, torch.rand(4, 32))


def test_weights_that_change_before_each_call_are_inputs() -> None:
    module, x = _layers(), torch.rand(4, 32)
    compiled = _compiled(module)
    for _ in range(7):
        _check(compiled, module, x)
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.mul_(1.1)
    weights = sum(parameter.numel() for parameter in module.parameters())
    assert f"{4 * (weights + x.numel())} bytes in" in str(rt.explain(compiled))


def test_weights_of_inference_mode_are_inputs() -> None:
    with torch.inference_mode():
        module = _layers()
        compiled, x = _compiled(module), torch.rand(4, 32)
        torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-4)
        module[0].weight.mul_(2)
        torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-4)


# --- sizes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dynamic", [None, True])
def test_each_size_has_a_plan_of_which_sixteen_are_kept(dynamic: bool | None) -> None:
    module = _layers()
    compiled = torch.compile(module, backend="restride", dynamic=dynamic)
    for rows in (*range(2, 21), 2, 1):
        _check(compiled, module, torch.rand(rows, 32))
    assert str(rt.explain(compiled)).count("graph 0 for " if dynamic else "graph 1 for ") <= 16


def test_numbers_of_a_size_that_is_symbolic_leave_nothing_to_torch() -> None:
    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(32, 32), nn.Linear(32, 32)

        def forward(self, x: Any) -> Any:
            rows, places = x.shape[0], torch.arange(x.shape[1])
            y = self.first(x + places[:, None]).view(rows, x.shape[1], 4, 8).transpose(1, 2)
            return self.second(y.softmax(-1).transpose(1, 2).reshape(rows, x.shape[1], 32))

    module = Heads().eval()
    compiled = torch.compile(module, backend="restride", dynamic=True)
    for count in (5, 9):
        _check(compiled, module, torch.rand(3, count, 32))
    lines = str(rt.explain(compiled)).splitlines()
    firsts = [line for line in lines if line.startswith("graph")]
    assert firsts == [f"graph 0 for 3x{n}x32: 1 networks, 0 operators of torch" for n in (5, 9)]


def test_explain_tells_nothing_of_another_module_of_the_class() -> None:
    class Layers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(32, 64), nn.Linear(64, 32)

        def forward(self, x: Any) -> Any:
            return self.second(self.first(x).relu())

    called, other = (torch.compile(Layers().train(), backend="restride") for _ in range(2))
    called(torch.rand(4, 32)).sum().backward()
    assert "graph 1" in str(rt.explain(called))
    assert str(rt.explain(other)).startswith("no graphs")


def test_explain_says_which_tensor_no_network_has() -> None:
    compiled = torch.compile(lambda x: (x.double().exp().sin(), x.exp().sin()), backend="restride")
    compiled(torch.rand(64, 64))
    assert "elements of torch.float64" in str(rt.explain(compiled))


def test_graphs_of_symbolic_sizes_may_be_left_to_torch() -> None:
    module = _layers()
    compiled = torch.compile(module, backend="restride", dynamic=True, options={"dynamic": False})
    _check(compiled, module, torch.rand(3, 32))
    assert "left to torch: its sizes are symbolic" in str(rt.explain(compiled))


# --- views, writes, types -----------------------------------------------------------------------------------


class _Writer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(32, 32)
        self.register_buffer("total", torch.zeros(4, 32))

    def forward(self, x: Any) -> Any:
        y = self.layer(x).relu().exp().tanh()
        self.total.add_(y)
        x.mul_(2)
        return y.t()[1:], y, x.sum(), self.total * 3, x.expand(2, 4, 32), None, 7


def test_views_and_writes_are_those_of_torch() -> None:
    module = _Writer().eval()
    own = copy.deepcopy(module)
    compiled = _compiled(own)
    for _ in range(3):
        x = torch.rand(4, 32)
        written = x.clone()
        with torch.no_grad():
            expected, results = module(x), compiled(written)
        for result, want in zip(_leaves(results), _leaves(expected), strict=True):
            torch.testing.assert_close(result, want, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(written, x)
        torch.testing.assert_close(own.total, module.total, rtol=1e-4, atol=1e-4)
        results[1].zero_()
        assert not results[0].any()


@pytest.mark.parametrize("dynamic", [False, True])
def test_parts_of_an_input_are_those_of_torch(dynamic: bool) -> None:
    def parts(x: Any) -> Any:
        return (*x.chunk(3, 1), x[1:], (x.exp().tanh() + 1).sigmoid())

    compiled = torch.compile(parts, backend="restride", dynamic=dynamic)
    _check(compiled, parts, torch.rand(4, 6, 2).transpose(0, 1))


def test_inputs_may_lie_as_they_like() -> None:
    module = _layers()
    compiled = _compiled(module)
    x = torch.rand(32, 8)
    for each in (x.t(), x.t()[::2], torch.rand(1, 32).expand(4, 32), torch.rand(5, 40)[1:, 8:]):
        _check(compiled, module, each)


def test_autocast_to_bf16_is_obeyed() -> None:
    module, x = _layers(), torch.rand(4, 32)
    compiled = _compiled(module)
    with torch.autocast("cpu", torch.bfloat16):
        _check(compiled, module, x, rtol=3e-2)
        with torch.no_grad():
            assert compiled(x).dtype is torch.bfloat16


def test_random_numbers_are_those_of_torch() -> None:
    module = nn.Sequential(
        nn.Linear(32, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 32), nn.Tanh()
    ).train()
    compiled, x = _compiled(module), torch.rand(4, 32)
    with torch.no_grad():
        torch.manual_seed(3)
        expected = module(x)
        torch.manual_seed(3)
        result = compiled(x)
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)


def test_running_statistics_are_written_without_gradients() -> None:
    module = _images().train()
    own = copy.deepcopy(module)
    _check(_compiled(own), module, torch.rand(2, 3, 12, 12))
    torch.testing.assert_close(own[1].running_var, module[1].running_var)


def test_arguments_that_restride_has_not_are_left_to_torch() -> None:
    def resized(x: Any) -> Any:
        sizes = {"size": (5, 4), "mode": "bilinear", "align_corners": True, "antialias": True}
        return nn.functional.interpolate(x.exp().tanh(), **sizes).exp().tanh()

    compiled = _compiled(resized)
    _check(compiled, resized, torch.rand(2, 3, 8, 8))
    assert "antialias with align_corners" in str(rt.explain(compiled))


def test_gradients_are_those_of_torch() -> None:
    module = _images().train()
    own = copy.deepcopy(module)
    compiled, x = _compiled(own), torch.rand(2, 3, 12, 12)
    for function in (module, compiled):
        function(x).sum().backward()
    for mine, its in zip(own.parameters(), module.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, its.grad, rtol=1e-4, atol=1e-4)
    _check(compiled.eval(), module.eval(), x)


def test_winograd_is_forbidden_by_a_word() -> None:
    module, x, results = nn.Conv2d(64, 64, 3, padding=1).eval(), torch.rand(1, 64, 28, 28), []
    for exact in (False, True):
        compiled = rt.compile_module(module, x, exact=exact)
        assert ("winograd" in str(compiled.network.explain())) is not exact
        with torch.no_grad():
            results.append(compiled(x))
            assert torch.equal(_compiled(module, exact=exact)(x), results[-1])
    assert not torch.equal(*results)


# --- what may be wrong --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precison": "f32"}, "precision"),
        ({"precision": "f8"}, "bf16"),
        ({"fallback": 1}, "fallback"),
        ({"exact": "yes"}, "exact"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with torch.no_grad(), pytest.raises(Exception, match=message):
        _compiled(_layers(), **options)(torch.rand(4, 32))


def test_what_was_not_compiled_is_not_explained() -> None:
    with pytest.raises(ValueError, match="not a compiled module"):
        rt.explain(_layers())


# --- processes and copies -----------------------------------------------------------------------------------


def test_threads_may_share_a_compiled_module() -> None:
    module, xs = _layers(), [torch.rand(4, 32) for _ in range(4)]
    compiled = _compiled(module)
    _check(compiled, module, xs[0])
    errors: list[BaseException] = []

    def run(x: Any) -> None:
        try:
            for _ in range(20):
                _check(compiled, module, x)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(x,)) for x in xs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_a_child_of_fork_runs_what_was_compiled() -> None:
    torch.set_num_threads(1)
    module, x = _layers(), torch.rand(4, 32)
    compiled = _compiled(module)
    _check(compiled, module, x)
    child = os.fork()
    if child == 0:
        try:
            _check(compiled, module, x)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def test_copies_of_a_compiled_module_compile_for_themselves() -> None:
    module = _layers()
    compiled = _compiled(module)
    _check(compiled, module, torch.rand(4, 32))
    twin = copy.deepcopy(compiled)
    with torch.no_grad():
        twin._orig_mod[0].weight.zero_()
    _check(twin, twin._orig_mod, torch.rand(4, 32))
    _check(compiled, module, torch.rand(4, 32))


def test_indices_out_of_range_raise_the_errors_of_torch() -> None:
    table, line = nn.Embedding(10, 4), nn.Linear(4, 3)
    calls = {
        (1, 10): lambda i: table(i.view(2, 1)).sum(),
        (0, 3): lambda i: nn.functional.cross_entropy(line(torch.ones(2, 4)), i),
        (-7, 5): lambda i: torch.arange(6.0)[i] * 2 + torch.ones(6).index_select(0, i),
        (0, 6): lambda i: torch.gather(torch.ones(6), 0, i) * 2,
    }
    for wrong, call in calls.items():
        compiled = torch.compile(call, backend="restride")
        torch.testing.assert_close(compiled(torch.tensor([0, 1])), call(torch.tensor([0, 1])))
        for run in (call, compiled):
            with pytest.raises((IndexError, RuntimeError), match="out of"):
                run(torch.tensor(wrong))
    loss = torch.compile(calls[0, 3], backend="restride")
    torch.testing.assert_close(loss(torch.tensor([0, -100])), calls[0, 3](torch.tensor([0, -100])))
