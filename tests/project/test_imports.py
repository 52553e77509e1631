"""Modules that importing restride loads, that a first reorder loads, and names that load on first use."""

from __future__ import annotations

import inspect
import os
import pickle
import platform
import pydoc
import subprocess
import sys
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

import restride as rs
from support.errors import refused

# Modules that nobody asked for: neither they, nor what begins with their name and a dot, may be loaded.
_FRAMEWORKS = (
    "torch",
    "jax",
    "matplotlib",
    "dpctl",
    "skimage",
    "cupy",
    "tensorflow",
    "onednn",
    "dnnl",
    "openvino",
)
_STANDARD = ("difflib", "email", "importlib.metadata", "json", "multiprocessing", "signal", "xml")
_OURS = (
    "about",
    "cli",
    "emit.tree",
    "emit.blocks",
    "emit.work_items",
    "files",
    "layouts",
    "emit.work_items",
    "arrays.groups",
    "arrays.openvino.ir",
    "jax",
    "arrays.concat_and_sum",
    "openvino",
    "ops.programs.compensation",
    "ir.interpret_nest",
    "ops.programs.concat",
    "schedule.cost",
    "schedule.moves.interleaved",
    "schedule.passes",
    "ir.ranges",
    "ops.programs.shuffle",
    "schedule.moves.blocks",
    "schedule.moves.transforms",
    "schedule.work_items",
    "arrays.reorder_plan",
    "ops.concat",
    "model.several",
    "ops.shuffle",
    "ops.sum",
    "arrays.scaling.dequantization",
    "arrays.scaling.quantization",
    "runtime.cpu.launch_list",
    "runtime.cpu.ranges",
    "runtime.reference",
    "runtime.sycl.device",
    "runtime.sycl.executable",
    "runtime.sycl.sdk",
    "runtime.cpu.workers",
    "arrays.shuffles",
    "sycl_interop",
    "targets.cpu_kernels",
    "targets.spirv",
    "torch",
    "view",
)
_NEVER = (*_FRAMEWORKS, "restride_bench", *(f"restride.{name}" for name in _OURS))
# Loaded with the first kernel: scheduling, LLVM, the store; what writes IR, where the store has no kernel.
_LATER = (
    "hashlib",
    "llvmlite.binding",
    *(f"restride.targets.{name}" for name in ("cpu", "objects", "store")),
)
_WRITERS = tuple(
    f"restride.{name}"
    for name in ("emit.kernel", "emit.tile", "ir.conversion", "ir.eltwise", "targets.cpu_ir")
)
_IMPORT = "import sys, numpy as np; before = set(sys.modules); import restride as rs"
_REORDER = f"{_IMPORT}; rs.reorder(np.zeros((2, 3, 4, 5), 'f4'), 'nhwc', dtype='s8', scale=0.5)"


def _loaded_by(code: str, **environment: str) -> set[str]:
    """The modules that `code` loads in a process of its own, beyond those of its `before`."""
    script = f"{code}; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def _unwanted(loaded: set[str], names: tuple[str, ...]) -> list[str]:
    return sorted(m for m in loaded if any(m == name or m.startswith(f"{name}.") for name in names))


@pytest.mark.parametrize("name", _OURS)
def test_what_nobody_asked_for_is_a_module(name: str) -> None:
    """A name that stands for none any more would be found unloaded for ever."""
    path = Path(rs.__file__).parent.joinpath(*name.split("."))
    assert path.with_suffix(".py").exists() or path.is_dir()


def test_importing_restride_compiles_few_texts() -> None:
    """A dataclass of the standard library compiles one for each of its methods, which takes a millisecond."""
    script = (
        "import sys, numpy; seen = []; hook = lambda event, args: event == 'compile' and seen.append(args);"
        "sys.addaudithook(hook); import restride; print(sum(name == '<string>' for _, name in seen))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 120


def test_importing_restride_loads_descriptors_and_memories_alone() -> None:
    loaded = _loaded_by(_IMPORT)
    assert {"restride.desc.memory_desc", "restride.runtime.memory"} <= loaded
    work = tuple(f"restride.{name}" for name in ("ir", "emit", "targets", "model", "ops", "arrays"))
    assert not _unwanted(loaded, (*_NEVER, *_STANDARD, *_LATER, *_WRITERS, *work))


def test_a_first_reorder_on_the_cpu_loads_nothing_that_is_not_for_it(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    loaded = _loaded_by(_REORDER, RESTRIDE_CACHE_DIR=str(folder))
    assert set(_LATER) <= loaded
    assert set(_WRITERS) <= loaded
    assert not _unwanted(loaded, _NEVER)


def test_a_kernel_from_the_store_is_run_without_what_writes_kernels(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    for _ in range(2):
        loaded = _loaded_by(_REORDER, RESTRIDE_CACHE_DIR=str(folder))
    assert not _unwanted(loaded, (*_NEVER, *_WRITERS))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="elsewhere LLVM links what it has compiled")
def test_with_all_kernels_in_the_store_llvm_is_not_loaded(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    for _ in range(2):
        loaded = _loaded_by(_REORDER, RESTRIDE_CACHE_DIR=str(folder))
    assert not _unwanted(loaded, ("llvmlite.binding",))


@pytest.mark.parametrize(
    ("use", "module"),
    [
        ("rs.Memory.from_numpy(np.ones((2, 3))).to('ba')", "arrays.reorders"),
        ("rs.concat", "arrays.concat_and_sum"),
        ("rs.onednn.Concat", "ops.concat"),
        ("rs.shuffle", "arrays.shuffles"),
        ("rs.plan", "arrays.reorder_plan"),
        ("rs.quantize", "arrays.scaling.quantization"),
        ("rs.openvino.read_ir", "openvino"),
        ("rs.load", "files.load"),
        ("rs.sycl_interop.make_engine", "sycl_interop"),
        ("from restride import add_n", "arrays.concat_and_sum"),
        ("import restride.openvino", "openvino"),
    ],
)
def test_a_name_loads_its_module_when_it_is_first_asked_for(use: str, module: str) -> None:
    assert f"restride.{module}" in _loaded_by(f"{_IMPORT}; {use}")


# --- names that are loaded late are names like all others --------------------------------------------------


@pytest.mark.parametrize("name", sorted(rs._LAZY_NAMES))
def test_a_late_name_is_that_of_its_module(name: str) -> None:
    found = getattr(rs, name)
    assert getattr(rs, name) is found
    if isinstance(found, ModuleType):
        assert found.__name__ == f"restride.{name}"
    else:
        assert pickle.loads(pickle.dumps(found)) is found


def test_completion_and_help_know_every_name() -> None:
    code = "import restride as rs; assert set(rs.__all__) == set(dir(rs)); import pydoc;"
    code = f"{code} print(pydoc.render_doc(rs))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    text = pydoc.plain(done.stdout)
    missing = [name for name in rs._LAZY_NAMES if name not in text]
    assert not missing


def test_all_names_come_with_a_star() -> None:
    code = "from restride import *; import restride; print(all(n in globals() for n in restride.__all__))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.stdout.strip() == "True", done.stderr


def test_an_unknown_name_is_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match=r"module 'restride' has no attribute 'recorder'"):
        _ = rs.recorder  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"module 'restride' has no attribute 'ARG_FOO'"):
        _ = rs.ARG_FOO  # type: ignore[attr-defined]
    assert not hasattr(rs, "__wrapped__")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("rs.reoder", "has no attribute 'reoder': did you mean rs.reorder?"),
        ("rs.graph.GraphBuidler", "Did you mean: 'GraphBuilder'?"),
        ("rs.onednn.Reordr", "has no attribute 'Reordr': did you mean rs.onednn.Reorder?"),
        ("rs.torch", "import restride.torch first"),
        ("rs.jax", "import restride.jax first"),
    ],
)
def test_a_name_that_is_not_there_is_told_with_the_one_that_was_meant(line: str, told: str) -> None:
    code = f"import restride as rs; {line}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    last = done.stderr.splitlines()[-1]
    assert told in last, done.stderr
    assert last.lower().count("did you mean") <= 1


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_a_module_for_a_framework_that_is_missing_names_the_extra(name: str) -> None:
    code = f"import sys; sys.modules[{name!r}] = None; import restride.{name}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert f"pip install 'restride[{name}]'" in done.stderr.splitlines()[-1], done.stderr


def test_plan_shows_its_own_signature() -> None:
    assert isinstance(rs.plan, FunctionType)
    assert list(inspect.signature(rs.plan).parameters)[:2] == ["x", "dst"]


def test_names_may_be_asked_for_first_by_many_threads() -> None:
    code = (
        "import restride as rs; from concurrent.futures import ThreadPoolExecutor as Pool\n"
        "names = [name for name in rs._LAZY_NAMES] * 8\n"
        "with Pool(16) as pool: found = list(pool.map(lambda name: getattr(rs, name), names))\n"
        "print(all(getattr(rs, name) is one for name, one in zip(names, found)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.stdout.strip() == "True", done.stderr


def test_the_package_can_be_loaded_again():
    again = "importlib.reload(restride); del sys.modules['restride']; import restride"
    subprocess.run(
        [sys.executable, "-c", f"import importlib, sys, restride; {again}"], check=True, timeout=600
    )


def test_a_call_that_needs_dask_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "dask"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "dask", None)  # type: ignore[arg-type]
    with refused("Dask is not installed", "RS-C04", "pip install 'restride[dask]'", kind=rs.RuntimeFailure):
        rs.dask.reorder(object(), "nhwc")
