"""`torch.compile(model, backend="restride")` after interrupts and errors, in workers, with new weights."""

from __future__ import annotations

import _thread
import copy
import io
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

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


def _compiled(module: Any, **options: Any) -> Any:
    return torch.compile(module, backend="restride", **options)


def _layers() -> Any:
    layers = [nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 8)]
    return nn.Sequential(*layers).eval()


def _images() -> Any:
    front = [nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU()]
    return nn.Sequential(*front, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4))


def _check(compiled: Any, module: Any, x: Any) -> None:
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-4)


def _check_step(compiled: Any, module: Any, x: Any) -> None:
    """Gradients and statistics of one step, beside those of a copy."""
    twin = copy.deepcopy(module)
    for each, call in ((twin, twin), (module, compiled)):
        each.zero_grad()
        call(x).square().sum().backward()
    for one, other in zip(module.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-3, atol=1e-3)
    for one, other in zip(module.buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(one, other)


class _Computed(torch.utils.data.Dataset):
    """Results of a function that workers call."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def __len__(self) -> int:
        return 4

    def __getitem__(self, at: int) -> Any:
        with torch.no_grad():
            return self._function(torch.full((1, 32), float(at)))[0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("is_called_before", [True, False])
def test_workers_of_a_data_loader_call_what_is_compiled(is_called_before: bool) -> None:
    module = _layers()
    compiled, xs = _compiled(module), torch.arange(4.0)[:, None].expand(4, 32)
    if is_called_before:
        _check(compiled, module, xs[:1])
    # Without threads of torch, which a child of fork would wait for.
    torch.set_num_threads(1)
    loader = torch.utils.data.DataLoader(
        *(_Computed(compiled), 2), num_workers=2, multiprocessing_context="fork", timeout=100
    )
    for batch in loader:
        _check(compiled, module, xs)
        assert batch.shape == (2, 8)
    with torch.no_grad():
        torch.testing.assert_close(torch.cat(list(loader)), module(xs), rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_of_fork_trains_what_was_compiled() -> None:
    torch.set_num_threads(1)
    module = _images().train()
    compiled = _compiled(module)
    _check_step(compiled, module, torch.rand(4, 3, 12, 12))
    child = os.fork()
    if child == 0:
        try:
            for rows in (4, 5):
                _check_step(compiled, module, torch.rand(rows, 3, 12, 12))
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("dynamic", [None, True])
def test_threads_call_one_module_with_sizes_of_their_own(dynamic: bool | None) -> None:
    module, errors = _layers(), list[BaseException]()
    compiled = _compiled(module, dynamic=dynamic)

    def run(rows: int) -> None:
        try:
            for more in range(6):
                _check(compiled, module, torch.rand(rows + more % 2, 32))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(rows,)) for rows in (2, 5, 11)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers of signals")
@pytest.mark.parametrize("trains", [False, True])
def test_an_interrupt_leaves_a_module_that_the_next_call_runs(trains: bool) -> None:
    module = _images().train(trains)
    compiled, check = _compiled(module, dynamic=not trains), _check_step if trains else _check
    check(compiled, module, torch.rand(2, 3, 12, 12))
    before = [
        signal.signal(signal.SIGALRM, lambda *_: _thread.interrupt_main()),
        signal.signal(signal.SIGINT, signal.default_int_handler),
    ]
    interrupts = 0
    try:
        for at in range(12):
            x = torch.rand(2 if trains else 2 + at % 4, 3, 12, 12)
            signal.setitimer(signal.ITIMER_REAL, 0.0007 + 0.0011 * at)
            try:
                end = time.monotonic() + 0.3  # torch itself loses an interrupt at times
                while time.monotonic() < end:
                    with torch.set_grad_enabled(trains):
                        y = compiled(x)
                    if trains:
                        y.sum().backward()
            except KeyboardInterrupt:
                interrupts += 1
                # One that comes while torch leaves `no_grad` leaves it on.
                torch.set_grad_enabled(True)
            check(compiled, module, x)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in zip((signal.SIGALRM, signal.SIGINT), before, strict=True):
            signal.signal(number, handler)
    assert interrupts


def test_errors_of_calls_are_those_of_torch_and_the_next_call_is_right() -> None:
    module = _layers()
    compiled = _compiled(module)
    for wrong in (torch.rand(4, 31), torch.rand(4, 32).double(), torch.ones(4, 32, dtype=torch.int64), None):
        _check(compiled, module, torch.rand(4, 32))
        kinds = []
        for function in (module, compiled):
            with pytest.raises((RuntimeError, TypeError)) as caught, torch.no_grad():
                function(wrong)
            kinds.append(isinstance(caught.value, TypeError))
        assert kinds[0] == kinds[1]
    _check(compiled, module, torch.rand(4, 32))


def test_an_error_in_a_hook_leaves_the_gradients_of_the_next_step_right() -> None:
    module = _images().train()
    compiled, x = _compiled(module), torch.rand(4, 3, 12, 12)

    def hook(_: Any) -> None:
        raise LookupError("mine")

    handle = module[0].weight.register_hook(hook)
    with pytest.raises(LookupError, match="mine"):
        compiled(x).sum().backward()
    handle.remove()
    _check_step(compiled, module, x)


@pytest.mark.parametrize("is_called_before", [True, False])
def test_pickles_and_files_of_a_compiled_module_compile_for_themselves(is_called_before: bool) -> None:
    module, x = _layers(), torch.rand(4, 32)
    compiled = _compiled(module)
    if is_called_before:
        _check(compiled, module, x)
    file = io.BytesIO()
    torch.save(compiled, file)
    file.seek(0)
    twins = pickle.loads(pickle.dumps(compiled)), torch.load(file, weights_only=False)
    for twin in twins:
        _check(twin, module, x)
        with torch.no_grad():
            twin._orig_mod[0].weight.zero_()
        _check(twin, twin._orig_mod, x)
    _check(compiled, module, x)
    other = _compiled(_layers())
    other.load_state_dict(compiled.state_dict())
    _check(other, module, x)


def test_new_tensors_of_parameters_are_noticed() -> None:
    module, x = _layers(), torch.rand(4, 32)
    compiled = _compiled(module)
    for _ in range(2):
        _check(compiled, module, x)
        module[0].weight = nn.Parameter(torch.rand(64, 32))
        _check(compiled, module, x)
        module.load_state_dict(_layers().state_dict(), assign=True)
        _check(compiled, module, x)
    values = {f"_orig_mod.{name}": torch.rand_like(value) for name, value in module.named_parameters()}
    with torch.no_grad():
        found = torch.func.functional_call(compiled, values, (x,))
        want = torch.func.functional_call(module, {name[10:]: value for name, value in values.items()}, (x,))
    torch.testing.assert_close(found, want, rtol=1e-4, atol=1e-4)
    rt.refresh(compiled)
    for one, other in zip(module.parameters(), _layers().parameters(), strict=True):
        torch.utils.swap_tensors(one, other)
    _check(compiled, module, x)


def test_a_module_goes_from_evaluation_to_training_and_back() -> None:
    module, x = _images(), torch.rand(4, 3, 12, 12)
    compiled = _compiled(module)
    for trains in (False, True, False, True):
        module.train(trains)
        _check(compiled, copy.deepcopy(module), x)
        _check_step(compiled, module, x)
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.sub_(parameter.grad, alpha=0.01)
