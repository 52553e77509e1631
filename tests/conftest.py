"""Options and settings that hold for all tests."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import signal
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import restride as rs
from restride.runtime.cpu.program_launches import look_for_schedules
from restride.targets.store import ObjectStore
from restride.targets.store_files import make_private
from support.engines import KINDS, open_engine
from support.golden import Golden
from support.machine_code import keep_by_text
from support.sweeps import beside_sweeps

# Machines that run the tests are shared: no deadlines. The fast tests try the same examples everywhere.
_CALM = (HealthCheck.too_slow, HealthCheck.data_too_large)
settings.register_profile(
    "same", deadline=None, derandomize=True, database=None, print_blob=True, suppress_health_check=_CALM
)
settings.register_profile("explore", deadline=None, print_blob=True, suppress_health_check=_CALM)
settings.load_profile("same")


_CACHE = Path(__file__).parents[1] / ".pytest_cache"


def _kernels_folder() -> str:
    """The kernel cache of all processes of all runs in this checkout, so that each is compiled once.

    It is not the user's own folder, which the kernels of the tests would fill.
    """
    folder = _CACHE / "kernels"
    with contextlib.suppress(OSError):
        make_private(str(folder))
    is_usable = ObjectStore(folder).info().enabled and os.access(folder, os.W_OK)
    return str(folder) if is_usable else tempfile.mkdtemp(prefix="restride-tests-")


# Processes that begin later, the workers of xdist among them, take it from here.
if "RESTRIDE_CACHE_DIR" not in os.environ:
    os.environ["RESTRIDE_CACHE_DIR"] = _kernels_folder()

keep_by_text(os.environ["RESTRIDE_CACHE_DIR"])

# Where Python may leave no bytecode beside sources, each of the many processes would compile all of them, and
# this one would write the asserts of all tests anew in each run.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", "") or sys.dont_write_bytecode:
    sys.pycache_prefix = os.environ.setdefault("PYTHONPYCACHEPREFIX", str(_CACHE / "bytecode"))
    sys.dont_write_bytecode = False


# What a shell starts in the background, or `nohup`, ignores these, and so would all programs of the tests.
for _name in ("SIGINT", "SIGHUP"):
    if (_number := getattr(signal, _name, None)) and signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _name == "SIGINT" else signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the texts in tests/golden anew instead of comparing",
    )


_BESIDE_PEER = re.compile(r"^pytestmark = \[?\s*pytest\.mark\.peer\b", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A module of tests beside peers imports one, which takes a second: not where no such test will run."""
    if "not peer" not in config.option.markexpr or collection_path.suffix != ".py":
        return None
    is_beside_peer = _BESIDE_PEER.search(collection_path.read_text("utf-8"))
    return True if is_beside_peer else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Tens of thousands of tests are made, and none of them goes: the collector need not look at them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the rest of a wide sweep, beyond the part that every change runs, as slow."""
    for item in beside_sweeps(items):
        item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def _schedules_of_no_other_test() -> Generator[None, None, None]:
    """Reset the schedules that a test's search has found in its own store."""
    yield
    look_for_schedules()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compares a text with the file of that name in tests/golden."""
    return Golden(Path(__file__).parent / "golden", bool(request.config.getoption("--update-golden")))


@pytest.fixture(scope="session", params=KINDS)
def engine(request: pytest.FixtureRequest) -> rs.Engine:
    """Every engine in turn: what an engine does, all must do."""
    return open_engine(request.param)
