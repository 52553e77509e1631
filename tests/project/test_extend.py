"""The steps of `docs/how-to/extend.md`: add a type and a primitive to a copy, in the files it lists."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.util import cache_from_source
from pathlib import Path
from typing import NamedTuple

import pytest

_ROOT = Path(__file__).parents[2]
_PAGE = _ROOT / "docs" / "how-to" / "extend.md"
_ADDITIONS = _ROOT / "tests" / "additions"
_COPIED = ("src", "tests/support", "docs", "examples")
_COPIED_FILES = (
    *("pyproject.toml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
    *(
        "tests/conftest.py",
        "tests/desc/test_dtypes.py",
        "tests/project/test_docs_reference.py",
        "tests/ir/test_conversion.py",
        "tests/project/test_typing.py",
        "tests/desc/test_accessors.py",
        "tests/project/test_docs.py",
        "tests/ops/test_model.py",
    ),
)


class _Edit(NamedTuple):
    """Text to write behind a line that stands in a file once."""

    file: str
    line: str
    added: str


_F8_E3M4 = (
    _Edit(
        "src/restride/dtypes.py",
        '    "nf4": _Row(21, 4, "float", None),\n',
        '    "f8_e3m4": _Row(22, 8, "float", _twin(ml_dtypes.float8_e3m4)),\n',
    ),
    _Edit("src/restride/dtypes.py", '    "int32": "s32",\n', '    "float8_e3m4": "f8_e3m4",\n'),
    _Edit("src/restride/dtypes.py", "    nf4 = 21\n", "    f8_e3m4 = 22\n"),
    _Edit("src/restride/desc/literals.py", "TypeName = Literal[\n", '    "f8_e3m4", "float8_e3m4",\n'),
    _Edit(
        "src/restride/ir/conversion.py",
        "PROVIDED = (DataType.f64, DataType.f32, DataType.bf16, DataType.f16, *_TINY_FLOATS, *_INT_TYPES)\n",
        "PROVIDED += (DataType.f8_e3m4,)\n",
    ),
    _Edit(
        "src/restride/emit/small_float.py",
        "    DataType.f8_e4m3: _Format(8, 3, 7, 0x7F, 0x7F, 0x7F),\n",
        "    DataType.f8_e3m4: _Format(8, 4, 3, 0x70, 0x78, 0x70),\n",
    ),
    _Edit("src/restride/ir/ranges.py", "    DataType.f8_e4m3: 0x7F,\n", "    DataType.f8_e3m4: 0x70,\n"),
    _Edit(
        "tests/desc/test_dtypes.py",
        '    "u16": (20, 16, np.uint16),\n',
        '    "f8_e3m4": (22, 8, ml_dtypes.float8_e3m4),\n',
    ),
    _Edit("tests/ir/test_conversion.py", "    _E4M3: (4, -6, 480),\n", "    _E3M4: (5, -2, 16),\n"),
    _Edit(
        "tests/ir/test_conversion.py", "_S4, _U4 = DataType.s4, DataType.u4\n", "_E3M4 = DataType.f8_e3m4\n"
    ),
    _Edit("tests/support/rounding.py", "    DataType.f8_e4m3: 0x7F,\n", "    DataType.f8_e3m4: 0x78,\n"),
    _Edit("tests/support/rounding.py", "    DataType.f8_e4m3: 127,\n", "    DataType.f8_e3m4: 112,\n"),
    _Edit(
        "docs/reference/descriptors.md",
        "             restride.f8_e4m3\n",
        "             restride.f8_e3m4\n",
    ),
    _Edit("docs/reference/descriptors.md", "[64, 16, 64, 32, 16]\n", ">>> rs.f8_e3m4.bits\n8\n"),
    _Edit(
        "docs/names.md",
        "| – | `rs.nf4` | 21 | none: `mem.data` holds the bytes |\n",
        "| – | `rs.f8_e3m4` | 22 | `ml_dtypes.float8_e3m4` |\n",
    ),
)
_FLIP = (
    _Edit("src/restride/model/prop_kind.py", '    concat = "concat"\n', '    flip = "flip"\n'),
    _Edit(
        "src/restride/ops/__init__.py",
        '    "eltwise": "EltwiseBackward EltwiseForward",\n',
        '    "flip": "Flip",\n',
    ),
    _Edit("docs/names.md", "| `concat` | `rs.onednn.Concat` |\n", "| – | `rs.onednn.Flip` |\n"),
    _Edit(
        "docs/reference/primitives.md",
        ">>> stream = rs.onednn.Stream(engine)\n",
        """\
>>> rs.onednn.Flip.PrimitiveDesc(engine, *[rs.MemoryDesc((2, 3), "f32")] * 2, axis=1).get_axis()
1
""",
    ),
    _Edit(
        "docs/reference/primitives.md",
        ".. autoclass:: restride.onednn.Concat\n",
        ".. autoclass:: restride.onednn.Flip\n",
    ),
)
_SQUAREPLUS = (
    _Edit(
        "src/restride/ir/eltwise_formulas.py",
        f"# --- exponential, in f64 {'-' * 84}\n",
        "\n\ndef _squareplus(s: Term[V], alpha: Term[V]) -> Term[V]:\n"
        "    return (s + (s * s + alpha).sqrt()) * 0.5\n\n\n",
    ),
    _Edit(
        "src/restride/ir/eltwise_formulas.py",
        "FUNCTIONS = {\n",
        '    "squareplus": EltwiseFunction(_squareplus, 2),\n',
    ),
    _Edit(
        "src/restride/ir/eltwise_gradients.py",
        "_BELL_HEIGHT = 1 / math.sqrt(2 * math.pi)\n",
        "\n\ndef _squareplus(s: Term[V], alpha: Term[V]) -> Term[V]:\n"
        "    return s / (s * s + alpha).sqrt() * 0.5 + 0.5\n",
    ),
    _Edit(
        "src/restride/ir/eltwise_gradients.py",
        "GRADIENTS = {\n",
        '    "squareplus_gradient": EltwiseFunction(_squareplus, 2),\n',
    ),
    _Edit("src/restride/desc/post_op_values.py", '    "sqrt": (),\n', '    "squareplus": (4.0,),\n'),
    _Edit(
        "src/restride/desc/algorithm.py",
        '    eltwise_sqrt = "eltwise_sqrt"\n',
        '    eltwise_squareplus = "eltwise_squareplus"\n',
    ),
    _Edit(
        "src/restride/ops/eltwise.py",
        '        "Softplus": ("soft_relu", 1.0),\n',
        '        "Squareplus": lambda b=4.0: ("squareplus", b),\n',
    ),
)
_FLIP_FILES = {
    "src/restride/ops/flip.py": "flip.py",
    "tests/ops/test_flip.py": "check_flip.py",
}
_NEW = re.compile(r"<\w+>")


def _files(heading: str) -> list[str]:
    """The files of the first table under a heading of the page."""
    section = _PAGE.read_text("utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    table = section.split("| --- | --- |\n")[1].split("\n\n")[0]
    return re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what the additions touch, and of what checks them, with the bytecode that there is of it."""
    for folder in _COPIED:
        shutil.copytree(_ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in _COPIED_FILES:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(_ROOT / file, tmp_path / file)
    for module in (tmp_path / "src").rglob("*.py"):
        bytecode = Path(cache_from_source(str(_ROOT / module.relative_to(tmp_path))))
        if bytecode.exists():
            beside = module.parent / "__pycache__" / bytecode.name
            beside.parent.mkdir(exist_ok=True)
            shutil.copy(bytecode, beside)
    return tmp_path


def _apply(tree: Path, edits: tuple[_Edit, ...]) -> set[str]:
    """Make small changes to files that are there; their names."""
    for file, line, added in edits:
        text = (tree / file).read_text("utf-8")
        assert text.count(line) == 1, f"{line!r} is not there once in {file}"
        (tree / file).write_text(text.replace(line, line + added), "utf-8")
    return {edit.file for edit in edits}


def _test(tree: Path, tests: tuple[str, ...]) -> None:
    """Run tests in the copy, in a process of its own, with the library of the copy: one process for all."""
    paths = os.pathsep.join(str(tree / folder) for folder in ("src", "tests"))
    elsewhere = ("PYTHONPYCACHEPREFIX", "PYTHONDONTWRITEBYTECODE")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests],
        cwd=tree,
        env={name: value for name, value in os.environ.items() if name not in elsewhere}
        | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stdout + run.stderr


_OF_PUBLIC_NAMES = (
    "tests/project/test_docs.py::test_every_public_name_is_in_the_table_of_names",
    "tests/project/test_docs_reference.py::test_every_public_name_has_an_example",
    "tests/project/test_docs_reference.py::test_every_public_name_is_described",
)
_OF_F8_E3M4 = (
    *("-k", "f8_e3m4 or other_types or words_of_types or numbered or public_name"),
    *("tests/desc/test_f8_e3m4.py", "tests/ir/test_conversion.py"),
    "tests/desc/test_dtypes.py::test_there_are_no_other_types",
    "tests/project/test_typing.py::test_the_words_of_types_are_all_there_are",
    "tests/ops/test_model.py::test_status_values_and_types_are_numbered_from_0_as_in_the_documents",
)
_OF_FLIP = (
    "tests/ops/test_flip.py",
    "tests/desc/test_accessors.py::test_primitives_and_their_descriptors_have_public_bases",
)


def test_a_data_type_takes_the_files_that_the_page_lists(tree: Path) -> None:
    assert _apply(tree, _F8_E3M4) == set(_files("A data type"))
    shutil.copy(_ADDITIONS / "check_f8_e3m4.py", tree / "tests" / "desc" / "test_f8_e3m4.py")
    _test(tree, (*_OF_F8_E3M4, *_OF_PUBLIC_NAMES))


def test_a_primitive_takes_the_files_that_the_page_lists(tree: Path) -> None:
    touched = _apply(tree, _FLIP)
    for file, source in _FLIP_FILES.items():
        assert not (tree / file).exists()
        shutil.copy(_ADDITIONS / source, tree / file)
    assert touched | _FLIP_FILES.keys() == {_NEW.sub("flip", file) for file in _files("A primitive")}
    _test(tree, (*_OF_FLIP, *_OF_PUBLIC_NAMES))


def test_an_activation_takes_the_files_that_the_page_lists(tree: Path) -> None:
    assert _apply(tree, _SQUAREPLUS) == set(_files("An activation"))
    shutil.copy(_ADDITIONS / "check_squareplus.py", tree / "tests" / "ops" / "test_squareplus.py")
    _test(tree, ("tests/ops/test_squareplus.py",))


@pytest.mark.parametrize(
    "heading", ["A data type", "A primitive", "An activation", "An attribute", "An engine"]
)
def test_files_that_the_page_lists_are_there(heading: str) -> None:
    found = _files(heading)
    assert len(set(found)) == len(found) > 0
    assert not [file for file in found if not (_ROOT / file).exists() and not _NEW.search(file)]
