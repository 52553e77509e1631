"""Layers: a module imports only from its own row or a lower one, only what it may, and never in a circle."""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import restride
import restride_bench
from restride.desc import viewer

_ROOT = Path(restride.__file__).parent
_BENCH = Path(restride_bench.__file__).parent
_CORE = {"numpy", "llvmlite", "ml_dtypes"}
# These import torch, or jax: whoever imports them has it.
_TORCH_PARTS = (
    "attention",
    "kernels",
    "layers",
    "modes",
    "modules",
    "operators",
    "products",
    "quantized",
    "rnn",
)
_IMPORTER_PARTS = (
    *("backend", "explaining", "export", "index_ranges", "module", "network_part", "partition"),
    "reader",
)
_FOR_TORCH = {"torch", *(f"arrays.torch.{name}" for name in _TORCH_PARTS)}
_FOR_TORCH |= {f"graph.importers.torch.{name}" for name in _IMPORTER_PARTS}
_FOR_JAX = {"jax", "arrays.jax.attention", "arrays.jax.kernels", "arrays.jax.products"}
_FOR_ZARR = {"files.zarr_codecs", "files.zarr_pipeline"}
# Imported only inside a function that cannot do without them.
_OPTIONAL = {
    "torch",
    "jax",
    "matplotlib",
    "dpctl",
    "skimage",
    "dnnl",
    "onednn",
    "onnx",
    "onnxruntime",
    "tokenizers",
    "openvino",
    "zarr",
    "dask",
    "cupy",
    "tensorflow",
}
_ROWS = (
    (
        "deprecation",
        "errors",
        "foreign",
        "nearest",
        "forks",
        "frozen",
        "loading",
        "moved_modules",
        "dtypes",
        "settings",
        "verbose",
        "version",
    ),
    ("desc", "watching"),
    ("ir",),
    ("schedule",),
    ("emit",),
    ("targets",),
    ("runtime",),
    ("model",),
    ("ops",),
    ("onednn",),
    (
        "arrays",
        "sycl_interop",
        "jax",
        "typing",
        "about",
        "formats",
        "layouts",
        "files",
        "dask",
        "profiling",
    ),
    ("graph", "onednn_graph", "onnx", "openvino", "torch"),
    ("",),  # restride/__init__.py, which gathers the public names
    ("cli", "view", "__main__"),
    ("restride_bench",),  # a package of its own: the library knows its name, and imports nothing of it
)

# Who loads what inside a function, and when: all other imports stand at the top of a module.
_LATE = {
    ("nearest", "difflib"): "an error suggests a word",
    ("verbose", "logging"): "the first primitive is made",
    ("view.methods", "view.watched"): "a network or a profile is shown",
    ("desc.text_forms", "json"): "a descriptor is written or read as JSON",
    ("graph.quantization.quantize", "graph.quantization.qdq"): "an ONNX model is written",
    ("torch", "graph.importers.torch.backend"): "no installed package has the entry point",
    ("torch", "graph.importers.torch.explaining"): "Dynamo, which takes seconds to import, has compiled",
    ("cli.show", "cli.page_server"): "a page is served: http.server takes 30 ms to import",
    ("targets.llvm", "llvmlite.binding"): "LLVM is asked for the first time: 180 MB",
    ("targets.llvm_facts", "llvmlite"): "its version is asked for",
    ("targets.isa", "targets.llvm_facts"): "the first kernel is scheduled",
    ("targets.cpu", "targets.cpu_ir"): "a kernel is not in the store, and is written",
    ("targets.cpu", "emit.kernel"): "the same",
    ("targets.cpu", "emit.guarded"): "that kernel checks bounds",
    ("targets.cpu", "emit.staged"): "that kernel has stages",
    ("targets.cpu", "emit.blocks"): "that kernel has blocks",
    ("targets.objects", "targets.compile_pool"): "a kernel is not in the store, and is compiled",
    ("targets.compile_pool", "targets.compile_worker"): "a compile had better be in a process of its own",
    ("targets.cpu", "schedule.moves.staged"): "work may be faster in stages",
    ("targets.cpu", "schedule.moves.blocks"): "work is larger than the caches",
    ("targets.cpu", "schedule.moves.transforms"): "a person passes a schedule",
    ("targets.cpu", "schedule.moves.whole_nest"): "a person passes blocks or stages, or sees them",
    ("targets.cpu", "schedule.moves.neighbors"): "a faster schedule is looked for, or was found",
    ("runtime.cpu.program_launches", "targets.schedule_store"): "the first program is compiled",
    ("model.base", "model.scheduling"): "another schedule is wanted",
    ("ops.reorder", "ops.programs.compensation"): "a reorder has a compensation",
    ("ops.reorder", "ops.programs.winograd"): "weights become those of Winograd's algorithm",
    ("runtime.cpu.program_launches", "targets.cpu"): "the first nest is scheduled",
    (
        "runtime.cpu.program_launches",
        "targets.cpu_kernels",
    ): "a program has several nests, sums of what it writes, or loop trees",
    ("runtime.cpu.program_launches", "schedule.passes"): "a program has elements of 4 bits, or is a sum",
    ("runtime.cpu.program_launches", "schedule.moves.staged"): "work is larger than the caches",
    ("runtime.cpu.device", "runtime.cpu.executable"): "the first program is compiled",
    ("runtime.cpu.executable", "runtime.cpu.launch_list"): "a program has more than one kernel",
    ("runtime.cpu.kernel", "targets.objects"): "the first kernel is loaded",
    ("runtime.cpu.kernel", "runtime.cpu.native"): "the first kernel is loaded",
    ("runtime.result_pool", "runtime.result_block"): "the first result of 256 KB or more",
    ("runtime.cpu.thread_pool", "runtime.cpu.workers"): "the first region is opened",
    ("runtime.reference", "ir.interpret_tree"): "a program of the reference engine has loop trees",
    ("runtime.reference", "schedule.passes"): "a program of the reference engine is made",
    (
        "graph.network.network",
        "graph.network.planned_runs",
    ): "a network is planned: a saved one that ran here before is not",
    ("graph.network.network", "graph.network.recorded_run"): "a saved network runs for the first time",
    ("graph.network.recorded_run", "targets.store"): "the same",
    ("graph.network.recorded_run", "targets.objects"): "what it ran before is found",
    ("runtime.devices", "runtime.reference"): "the reference engine is opened",
    ("runtime.devices", "runtime.sycl.device"): "a SYCL device is looked for, counted, or brought",
}


@dataclass(frozen=True)
class Import:
    """The module of an import, its line, and whether only a type checker sees it."""

    target: str
    line: int
    in_function: bool
    for_types: bool


@dataclass(frozen=True)
class Module:
    """A source file: its dotted name, of the library below restride, and what it imports."""

    name: str
    imports: tuple[Import, ...]

    @property
    def top(self) -> str:
        return self.name.split(".")[0]


@functools.cache
def _modules() -> tuple[Module, ...]:
    return tuple(_read(path) for root in (_ROOT, _BENCH) for path in sorted(root.rglob("*.py")))


def _read(path: Path) -> Module:
    folder = _ROOT if path.is_relative_to(_ROOT) else _BENCH
    parts = path.relative_to(folder.parent).with_suffix("").parts
    is_package = parts[-1] == "__init__"
    package = parts[:-1]
    tree = ast.parse(path.read_bytes(), str(path))
    name = ".".join(package if is_package else parts).removeprefix("restride.")
    return Module(
        "" if name == "restride" else name, tuple(_imports(tree, package, in_function=False, for_types=False))
    )


def _imports(node: ast.AST, package: tuple[str, ...], in_function: bool, for_types: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        inside = in_function or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        typed = for_types or (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test))
        for target in _targets(child, package):
            yield Import(target, child.lineno, inside, typed)  # type: ignore[attr-defined]
        yield from _imports(child, package, inside, typed)


def _targets(node: ast.AST, package: tuple[str, ...]) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return _from_targets(node, package)
    if isinstance(node, ast.Call) and _name(node.func) in ("import_module", "load_whole", "__import__"):
        return [a.value for a in node.args[:1] if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    return []


def _name(function: ast.expr) -> str:
    """The last word of what is called."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _from_targets(node: ast.ImportFrom, package: tuple[str, ...]) -> list[str]:
    base = list(package[: len(package) + 1 - node.level]) if node.level else []
    origin = ".".join([*base, *((node.module or "").split(".") if node.module else [])])
    return [_resolve(origin, alias.name) for alias in node.names]


def _resolve(origin: str, name: str) -> str:
    """`from restride.plan import nest` imports a module, `from restride.ir.nest import Axis` a name."""
    if origin.split(".")[0] not in (_ROOT.name, _BENCH.name):
        return origin
    top = _ROOT if origin.split(".")[0] == _ROOT.name else _BENCH
    folder = top.parent.joinpath(*origin.split("."))
    is_module = (folder / f"{name}.py").exists() or (folder / name / "__init__.py").exists()
    return f"{origin}.{name}" if is_module else origin


def _own(target: str) -> str | None:
    """A dotted name as modules have it, or None for what is not ours."""
    parts = target.split(".")
    if parts[0] == _BENCH.name:
        return target
    return ".".join(parts[1:]) if parts[0] == _ROOT.name else None


def _row(name: str) -> int:
    return next((row for row, tops in enumerate(_ROWS) if name.split(".")[0] in tops), len(_ROWS))


def _uses(module: Module) -> Iterator[tuple[str, Import]]:
    for found in module.imports:
        yield found.target.split(".")[0], found


def test_every_module_has_a_row() -> None:
    unknown = [m.name for m in _modules() if _row(m.name) == len(_ROWS)]
    assert not unknown, "a new top-level module needs a row in the table of layers"


def test_modules_import_only_from_their_own_row_or_lower() -> None:
    own = [(m.name, i.line, _own(i.target)) for m in _modules() for i in m.imports]
    above = [f"{name}:{line} {to}" for name, line, to in own if to is not None and _row(to) > _row(name)]
    assert not above


def test_modules_need_only_the_standard_library_and_the_core_dependencies() -> None:
    known = sys.stdlib_module_names | _CORE | {"restride", "restride_bench"}
    uses = [(m, top, i) for m in _modules() for top, i in _uses(m) if not i.in_function and not i.for_types]
    strange = [(m.name, top) for m, top, _ in uses if top not in known]
    allowed = {(name, "torch") for name in _FOR_TORCH} | {(name, "jax") for name in _FOR_JAX}
    allowed |= {(name, "zarr") for name in _FOR_ZARR}
    assert set(strange) - allowed == set()


@pytest.mark.parametrize("group", [_FOR_TORCH, _FOR_JAX, _FOR_ZARR], ids=["torch", "jax", "zarr"])
def test_only_modules_for_a_framework_import_those_that_import_it(group: set[str]) -> None:
    users = {m.name for m in _modules() for i in m.imports if (_own(i.target) or "") in group}
    assert users <= group


def test_only_code_generation_knows_llvm() -> None:
    uses = [(m, top, i) for m in _modules() for top, i in _uses(m) if m.top not in ("emit", "targets")]
    assert not [f"{m.name}:{i.line}" for m, top, i in uses if top == "llvmlite"]


def test_no_property_of_the_library_holds_a_lock_while_it_is_computed() -> None:
    # As functools.cached_property does in Python 3.11; children of fork would wait for it.
    library = sorted(_ROOT.rglob("*.py"))
    assert not [path.name for path in library if "cached_property" in path.read_text("utf-8")]


def test_the_library_imports_nothing_of_the_benchmark() -> None:
    library = [m for m in _modules() if m.top != _BENCH.name]
    assert not [f"{m.name}:{i.line}" for m in library for i in m.imports if i.target.startswith(_BENCH.name)]
    # Its commands name modules that are imported when they are called: nothing else may name it.
    named = [
        path.relative_to(_ROOT).as_posix()
        for path in sorted(_ROOT.rglob("*.py"))
        if _BENCH.name in path.read_text("utf-8")
    ]
    assert named == ["cli/commands.py"]


def test_imports_inside_functions_are_of_optional_frameworks_or_in_the_table() -> None:
    late = {
        (m.name, _own(i.target) or i.target)
        for m in _modules()
        for top, i in _uses(m)
        if i.in_function and top not in _OPTIONAL
    }
    assert late == set(_LATE)


def _loaded_whole(name: str) -> set[str]:
    """The modules that a module loads by `load_whole`."""
    text = _ROOT.joinpath(*name.split(".")).with_suffix(".py").read_text("utf-8")
    return set(re.findall(r'load_whole\("([\w.]+)"\)', text))


def test_what_is_loaded_late_is_loaded_whole() -> None:
    late = list(_LATE)
    wholly = {(name, whole.removeprefix("restride.")) for name, _ in late for whole in _loaded_whole(name)}
    assert wholly == set(late)


def test_what_is_loaded_late_is_not_imported_by_the_same_module_at_once() -> None:
    late = set(_LATE)
    at_once = {
        (m.name, _own(i.target) or i.target)
        for m in _modules()
        for i in m.imports
        if not i.in_function and not i.for_types
    }
    assert not late & at_once


@pytest.mark.parametrize("top", ["emit", "targets"])
def test_code_generation_never_sees_a_descriptor(top: str) -> None:
    seen = [(m.name, i.target) for m in _modules() for i in m.imports if m.top == top]
    assert not [pair for pair in seen if (_own(pair[1]) or "").split(".")[0] == "desc"]


@pytest.mark.parametrize(
    "name", ["ir.nest", "ir.interpret_nest", "ir.conversion", "schedule.moves.schedule", "schedule.machine"]
)
def test_nests_and_schedules_never_see_a_descriptor(name: str) -> None:
    (module,) = [m for m in _modules() if m.name == name]
    assert not [i for i in module.imports if (_own(i.target) or "").split(".")[0] == "desc"]


def test_a_submodule_that_its_package_loads_is_imported_after_the_package() -> None:
    """Else two threads that import the one and the other wait for each other, as Python locks the submodule
    before the package.
    """
    for path in sorted(_ROOT.rglob("*.py")):
        package = path.relative_to(_ROOT.parent).parts[:-1]
        named: set[str] = set()
        for node in ast.parse(path.read_bytes()).body:
            if not isinstance(node, ast.ImportFrom) or not node.level:
                continue
            origin = ".".join(
                [*package[: len(package) + 1 - node.level], *([node.module] if node.module else [])]
            )
            parent = origin.rpartition(".")[0]
            if parent == "restride.formats" and ".".join(package) != parent:
                assert parent in named, f"{path}:{node.lineno}: import from {parent} first"
            named.add(origin)
            named.update(f"{origin}.{alias.name}" for alias in node.names)


def test_no_import_cycles() -> None:
    edges = {
        m.name: {_own(i.target) for i in m.imports if not i.for_types} - {None, m.name} for m in _modules()
    }
    state: dict[str, int] = {}
    for name in edges:
        assert not (cycle := _cycle(name, edges, state, [])), " -> ".join(cycle)


def _cycle(name: str, edges: dict[str, set[str]], state: dict[str, int], path: list[str]) -> list[str]:
    if state.get(name) == 2:
        return []
    if state.get(name) == 1:
        return [*path[path.index(name) :], name]
    state[name] = 1
    for other in sorted(edges.get(name, ())):
        found = _cycle(other, edges, state, [*path, name])
        if found:
            return found
    state[name] = 2
    return []


def test_the_checks_recognize_a_wrong_import(tmp_path: Path) -> None:
    """The parser sees every form of import; a check that checks nothing would pass too."""
    source = (
        "import torch\nfrom ..runtime import stream\nfrom .. import verbose\nfrom restride.cli import main\n"
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import jax\n"
        "def f():\n    import dpctl\n    import importlib\n    importlib.import_module('llvmlite.binding')\n"
    )
    found = list(_imports(ast.parse(source), ("restride", "plan"), in_function=False, for_types=False))
    by_target = {i.target: i for i in found}
    assert {
        "torch",
        "restride.runtime.stream",
        "restride.verbose",
        "jax",
        "dpctl",
        "llvmlite.binding",
    } <= by_target.keys()
    assert any(target.startswith("restride.cli") for target in by_target)
    assert by_target["jax"].for_types
    assert by_target["dpctl"].in_function
    assert by_target["llvmlite.binding"].in_function
    assert not by_target["torch"].in_function
    assert _row("runtime.cpu.thread_pool") > _row("ir.nest")
    assert _cycle("a", {"a": {"b"}, "b": {"c"}, "c": {"b"}}, {}, []) == ["b", "c", "b"]


def test_descriptors_know_the_row_that_draws_them_by_a_registered_name_only() -> None:
    above = {f"restride.{m.name}" for m in _modules() if m.top == "view"}
    (registered,) = viewer._viewer_modules
    assert registered in above
    sources = [path for path in (_ROOT / "desc").glob("*.py") if "restride.view" in path.read_text("utf-8")]
    assert not sources


# The packages whose functions, nodes and rows are of operations, and what stands for all of them.
_OF_OPERATIONS = ("ops", "arrays", "graph", "onednn", "torch", "jax", "openvino")
# Post-ops have names of primitives too: these are steps of any operation.
_STEPS = ("undef", "sum", "eltwise", "binary", "prelu")
# Where the words are no operations: the table of all kinds, titles of messages, loops in another order.
_WORDS = {"model/prop_kind.py", "runtime/describe.py"}
_WORDS |= {f"schedule/{kind}/transforms.py" for kind in ("contraction", "moves", "trees")}
_WORDS |= {f"schedule/{kind}/neighbors.py" for kind in ("contraction", "trees")}
_WORDS |= {"schedule/moves/schedule.py", "schedule/moves/tiling.py", "targets/cpu.py"}


def test_operations_are_imported_where_they_are_offered_alone() -> None:
    importers = {
        module.name.split(".")[0]
        for module in _modules()
        for found in module.imports
        if found.target.startswith("restride.ops") and not found.for_types
    }
    assert {"ops", "arrays", "graph"} <= importers <= {"", *_OF_OPERATIONS}


@pytest.mark.parametrize("package", ["ir", "schedule", "emit", "targets", "runtime", "model"])
def test_nothing_below_operations_knows_the_name_of_one(package: str) -> None:
    found = [
        f"{path.relative_to(_ROOT)}:{line}: {word}"
        for path in sorted((_ROOT / package).rglob("*.py"))
        if path.relative_to(_ROOT).as_posix() not in _WORDS
        for line, word in _operations_named(path.read_text("utf-8"))
    ]
    assert found == []


def _operations_named(source: str) -> Iterator[tuple[int, str]]:
    """The lines with a text that is the name of an operation, or with a member of `PrimitiveKind`."""
    kinds = {kind.value for kind in restride.onednn.PrimitiveKind} - set(_STEPS)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and node.value in kinds:
            yield node.lineno, node.value
        if isinstance(node, ast.Attribute) and node.attr in kinds and _name(node.value) == "PrimitiveKind":
            yield node.lineno, node.attr


@pytest.mark.parametrize(
    "line",
    [
        'if kind == "softmax": pass',
        'if kind.startswith("softmax"): pass',
        'SLOW = ("lrn", "concat")',
        'getattr(problem, "matmul")',
        '{}.get("shuffle")',
        "if kind is PrimitiveKind.pooling: pass",
        "if kind is prop_kind.PrimitiveKind.pooling: pass",
    ],
)
def test_a_name_of_an_operation_is_recognized(line: str) -> None:
    assert list(_operations_named(line))
