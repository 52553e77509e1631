"""The documentation: examples run, links lead somewhere, names, numbers and variables are in their tables."""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import importlib.util
import io
import json
import os
import re
import shlex
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import restride as rs
import restride_bench
from restride.cli.commands import COMMANDS, load
from restride.cli.usage import Parser
from restride.desc.tags import FormatTag, parse_tag

_ROOT = Path(__file__).parents[2]
_SOURCES = Path(rs.__file__).parent
_PACKAGES = (_SOURCES, Path(restride_bench.__file__).parent)
_DOCS = _ROOT / "docs"
_CODES = _ROOT / "src" / "restride" / "refusals.md"
_OF_ROOT = tuple(
    _ROOT / name
    for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md")
)
_PAGES = (*_OF_ROOT, *sorted(_DOCS.rglob("*.md")), _CODES)
_FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```[ ]*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
# These need minutes, a network or a toolchain: make runs them.
_DEAR = {"demo", "bench"}
# Their examples need settings of their own, which the tests of what they are about make.
_RUN_ELSEWHERE = {"torch.md", "jax.md"}
_LIBRARY = re.compile(
    r"^>>> (?:import|from) (dpctl|torch|jax|einops|zarr|dask|cubed|ray|onnx|onnxruntime|opentelemetry"
    r"|prometheus_client)\b",
    re.MULTILINE,
)
_FLAGS = doctest.ELLIPSIS

each_page = pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.relative_to(_ROOT)))


class Block(NamedTuple):
    """A fenced block: its language, its text, and the line of its first character, from 1."""

    language: str
    text: str
    line: int


class Rows(NamedTuple):
    """The body of one table of a page, as cells without their backticks."""

    header: tuple[str, ...]
    cells: list[tuple[str, ...]]


@cache
def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def _blocks(page: Path) -> Iterator[Block]:
    text = _text(page)
    for found in _FENCE.finditer(text):
        yield Block(found[2], textwrap.dedent(found[3]), text.count("\n", 0, found.start(3)) + 1)


def _prose(page: Path) -> str:
    """The page without its blocks."""
    return _FENCE.sub("", _text(page))


def _tables(page: Path) -> Iterator[Rows]:
    for table in re.findall(r"(?:^\|.*\|[ ]*\n)+", _prose(page) + "\n", re.MULTILINE):
        lines = [tuple(cell.strip() for cell in line.strip()[1:-1].split("|")) for line in table.splitlines()]
        yield Rows(lines[0], [tuple(cell.replace("`", "") for cell in line) for line in lines[2:]])


# --- examples ------------------------------------------------------------------------------------------


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder, a kernel cache and settings of its own, whatever the example changes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RESTRIDE_CACHE_DIR", str(tmp_path / "cache"))
    before = dict(os.environ)
    threads, capacity = rs.get_num_threads(), rs.get_primitive_cache_capacity()
    yield
    os.environ.clear()
    os.environ.update(before)
    rs.set_num_threads(threads)
    rs.set_primitive_cache_capacity(capacity)


@each_page
def test_examples_run(page: Path, workplace: None) -> None:
    """All blocks of a page in order, as one reader would type them."""
    names: dict[str, Any] = {}
    for block in _blocks(page):
        if block.language == "python":
            _run_python(page, block, names)
        if block.language == "console":
            _run_console(page, block)


def _with_other_libraries() -> list[Path]:
    pages = [page for page in _PAGES if page.name not in _RUN_ELSEWHERE]
    return [page for page in pages if any(block.language == "pycon" for block in _blocks(page))]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", _with_other_libraries(), ids=lambda page: str(page.relative_to(_ROOT)))
def test_examples_with_other_libraries_run(page: Path, workplace: None) -> None:
    """Blocks marked pycon need libraries that not everyone has: those of one that is missing are left out."""
    names: dict[str, Any] = {}
    missing: dict[str, None] = {}
    is_left_out = False
    for block in _blocks(page):
        if block.language == "pycon" and (needed := _LIBRARY.findall(block.text)):
            absent = [library for library in needed if importlib.util.find_spec(library) is None]
            missing |= dict.fromkeys(absent)
            is_left_out = bool(absent)
        if block.language == "python" or (block.language == "pycon" and not is_left_out):
            _run_python(page, block, names)
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}; the other examples ran")


def _run_python(page: Path, block: Block, names: dict[str, Any]) -> None:
    if ">>> " not in block.text:
        exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), names)
        return
    test = doctest.DocTestParser().get_doctest(block.text, names, page.name, str(page), block.line - 1)
    # The parser copies the names: later blocks see what this one defines.
    test.globs = names
    _check(test, clear=False)


def _check(test: doctest.DocTest, *, clear: bool) -> None:
    said = io.StringIO()
    result = doctest.DocTestRunner(optionflags=_FLAGS).run(test, out=said.write, clear_globs=clear)
    if result.failed:
        pytest.fail(said.getvalue(), pytrace=False)


def _run_console(page: Path, block: Block) -> None:
    """Commands follow `$ `; the lines below one, if any, are what it prints."""
    for command in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        line, _, wanted = command.partition("\n")
        words = shlex.split(line, comments=True)
        if words[0] == "restride" and words[1:2] and not _is_dear(words[1:]):
            _check_command(f"{page.name}, line {block.line}: {line}", words[1:], wanted)


def _is_dear(words: list[str]) -> bool:
    """The driver of bench is cheap, the suite of bench is not."""
    return words[0] in _DEAR and not {"--reorder", "--shuffle"} & set(words)


def _check_command(where: str, arguments: list[str], wanted: str) -> None:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        status = _main()(arguments)
    # That of `diff` is 1 where something differs.
    assert not status or (arguments[0], status) == ("diff", 1), f"{where}: exit code {status}"
    if wanted.strip() and not doctest.OutputChecker().check_output(wanted, said.getvalue(), _FLAGS):
        pytest.fail(f"{where}\nexpected:\n{wanted}\ngot:\n{said.getvalue()}", pytrace=False)


def _main() -> Callable[[list[str]], int | None]:
    main: Callable[[list[str]], int | None] = importlib.import_module("restride.cli.main").main
    return main


def _docstring_examples() -> list[doctest.DocTest]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    public = ((name, getattr(rs, name)) for name in (*rs.__all__, *rs.onednn.__all__) if name != "Arg")
    objects = {value: name for name, value in public if callable(value)}
    found = (finder.find(value, f"rs.{name}", module=False) for value, name in objects.items())
    return [test for tests in found for test in tests if test.examples]


@pytest.mark.parametrize("test", _docstring_examples(), ids=lambda test: test.name)
def test_docstring_examples_run(test: doctest.DocTest, workplace: None) -> None:
    _check(test, clear=True)


# --- links and paths -----------------------------------------------------------------------------------


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    local = [link for link in _LINK.findall(_prose(page)) if not link.startswith(("http://", "https://"))]
    assert [link for link in local if not _leads(page, link)] == []


def _leads(page: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    return target.exists() and (not anchor or anchor in _anchors(target))


@cache
def _anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives a page's headings."""
    headings = re.findall(r"^#+ (.+)$", _prose(page), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.strip().lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


def test_every_page_is_reachable_from_the_index() -> None:
    indices = (_DOCS / "index.md", _DOCS / "reference" / "index.md")
    links = [(index, link.partition("#")[0]) for index in indices for link in _LINK.findall(_prose(index))]
    linked = {(index.parent / link).resolve() for index, link in links}
    assert {*_DOCS.rglob("*.md"), _CODES} - linked - set(indices) == set()
    assert "docs/index.md" in _LINK.findall(_prose(_ROOT / "README.md"))


def test_every_page_has_a_place_in_the_tree() -> None:
    """Sphinx takes its order of pages from the toctree blocks."""
    indices = (_DOCS / "index.md", _DOCS / "reference" / "index.md")
    blocks = [
        (index, block.text) for index in indices for block in _blocks(index) if ":hidden:" in block.text
    ]
    placed = [
        (index.parent / line)
        for index, text in blocks
        for line in re.findall(r"^[.\w].*", text, re.MULTILINE)
    ]
    results = (_ROOT / "benchmarks").rglob("*.md")
    pages = {page.with_suffix("").resolve() for page in (*_PAGES, *results, *_DOCS.rglob("*.ipynb"))}
    assert pages - {path.resolve() for path in placed} == {_DOCS / "index"}


def test_every_primitive_has_a_row_in_the_table_of_propagation() -> None:
    page = (_DOCS / "concepts" / "propagation.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| [")]
    for primitive in (_DOCS / "primitives").glob("*.md"):
        assert any(f"](../primitives/{primitive.name})" in row for row in rows), primitive.name


@each_page
def test_tables_are_whole(page: Path) -> None:
    """An empty line in a table would make text of its rest."""
    whole = re.sub(
        r"^\|.*\|\n\|(?: *:?-+:? *\|)+\n(?:\|.*\|\n)*", "", _prose(page) + "\n", flags=re.MULTILINE
    )
    assert re.findall(r"^\|.*", whole, re.MULTILINE) == []


@each_page
def test_files_that_are_named_exist(page: Path) -> None:
    """From the root, from a folder of packages, or, as `ir/nest.py`, from the library."""
    named = set(re.findall(r"`((?:\w+/)+[\w.]+\.(?:py|md|toml))`", _prose(page)))
    bases = (_ROOT, _ROOT / "src", _ROOT / "bench", _SOURCES)
    assert {path for path in named if not any((base / path).exists() for base in bases)} == set()


# --- completeness --------------------------------------------------------------------------------------


def _speeds(page: Path) -> dict[tuple[str, str], dict[str, str]]:
    """Row and dims to the speeds, by the names of their columns."""
    tables = [table for table in _tables(page) if table.header[:2] in (("reorder", "dims"), ("row", "dims"))]
    return {
        cells[:2]: {
            name.removesuffix(" GB/s"): cell.partition(" ")[0]
            for name, cell in zip(table.header, cells, strict=True)
        }
        for table in tables
        for cells in table.cells
    }


def test_the_speeds_of_the_readme_are_those_of_the_benchmark() -> None:
    told, measured = _speeds(_ROOT / "README.md"), _speeds(_ROOT / "benchmarks" / "results" / "short.md")
    assert len(told) > 10
    for row, cells in told.items():
        names = ("restride", "fresh result", "oneDNN", "torch", "NumPy", "memcpy")
        assert [cells[name] for name in names] == [measured[row][name] for name in names]


def test_the_page_on_speed_has_the_means_of_the_benchmark() -> None:
    report = _text(_ROOT / "benchmarks" / "results" / "short.md")
    means = report.split("## Geometric means\n\n")[1].split("\n\n")[0]
    assert means in _text(_DOCS / "performance.md")


def test_the_instructions_of_the_page_on_kernels_are_those_that_were_counted() -> None:
    results = json.loads((_ROOT / "benchmarks" / "results" / "inside.json").read_text("utf-8"))
    (told,) = (t for t in _tables(_DOCS / "how-to" / "kernels.md") if t.header[:2] == ("kernel", "level"))
    for cells, row in zip(told.cells, results["instructions"], strict=True):
        level, count = row["kernel"].split(":")[1], row["stepped"] or row["emulated"]
        moved = row["moved"]
        assert tuple(cells) == (row["name"], level, str(moved), str(count), f"{moved / count:.1f}")


def test_every_public_name_is_in_the_table_of_names() -> None:
    named = set(re.findall(r"`rs\.(?:onednn\.)?(?:Arg\.)?(\w+)", _text(_DOCS / "names.md")))
    assert {*rs.__all__, *rs.onednn.__all__, *rs.onednn.Arg.__members__} - named == set()


def test_the_page_of_the_command_line_names_every_command_and_option() -> None:
    text = _text(_DOCS / "command-line.md")
    for name, command in COMMANDS.items():
        assert f"`restride {name}`" in text
        if not command.speaks:
            parser = Parser(name, None)
            load(name).add_arguments(parser)
            options = {option for action in parser._actions for option in action.option_strings}
            assert {option for option in options if option.startswith("--") and option not in text} == set()


def test_numbers_in_the_table_of_names_are_the_values() -> None:
    checked = 0
    for table in _tables(_DOCS / "names.md"):
        for _, name, *rest in table.cells:
            if rest and rest[0].isdecimal():
                assert _value(name) == int(rest[0]), name
                checked += 1
    assert checked > 50


def _value(name: str) -> int:
    found: Any = rs
    for part in name.removeprefix("rs.").split("."):
        found = getattr(found, part)
    return int(getattr(found, "value", found))


def _source_files() -> Iterator[Path]:
    return chain.from_iterable(package.rglob("*.py") for package in _PACKAGES)


def _string_constants(pattern: re.Pattern[str]) -> Iterator[str]:
    """Texts of the files in which the pattern is found at all."""
    for path in _source_files():
        if not pattern.search(_text(path)):
            continue
        tree = ast.parse(path.read_bytes())
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        nodes = list(ast.walk(tree))
        docs = {ast.get_docstring(node, clean=False) for node in nodes if isinstance(node, documented)}
        texts = (n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str))
        yield from (text for text in texts if text not in docs)


def test_every_rule_number_in_a_message_is_explained() -> None:
    """A message may end in "(N9)": a page says what that is."""
    rule = re.compile(r"\(([A-Z]\d+)\)")
    texts = [*_string_constants(rule), (_SOURCES / "refusals.md").read_text("utf-8")]
    cited = {number for text in texts for number in rule.findall(text)}
    assert cited
    explained = {cells[0] for table in _tables(_DOCS / "errors.md") for cells in table.cells}
    assert cited - explained == set()


def test_every_environment_variable_is_described() -> None:
    calls = re.compile(r"lookup(?:_int)?\(\"(\w+)\"")
    read = {f"RESTRIDE_{name}" for path in _source_files() for name in calls.findall(_text(path))}
    described = set(re.findall(r"`(RESTRIDE_\w+)`", _text(_DOCS / "environment.md")))
    assert described == read
    assert {name for page in _PAGES for name in re.findall(r"RESTRIDE_[A-Z]\w+", _text(page))} <= read


def test_aliases_mean_what_the_page_says() -> None:
    pairs = re.findall(r"`(\w+)` = `(\w+)`", _prose(_DOCS / "formats.md"))
    assert [pair for pair in pairs if parse_tag(pair[0]) != parse_tag(pair[1])] == []
    aliases = set(FormatTag.__members__) - {tag.name for tag in FormatTag}
    assert aliases <= {alias for alias, _ in pairs}


# --- the table of differences --------------------------------------------------------------------------

_WORDS = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}
_COLUMNS = {"restride": 3, "oneDNN": 4, "NumPy": 5, "torch": 6}
_TORCH_TYPES = {
    "f64": "float64",
    "f32": "float32",
    "bf16": "bfloat16",
    "f16": "float16",
    "f8_e5m2": "float8_e5m2",
    "f8_e4m3": "float8_e4m3fn",
    "s32": "int32",
    "s8": "int8",
    "u8": "uint8",
    "boolean": "bool",
}
_OPEN, _REFUSED = "†", "refused"
_REFUSALS = (rs.Status.unimplemented, rs.Status.invalid_arguments)


def _differences() -> list[tuple[str, ...]]:
    page = _DOCS / "numerics.md"
    return next(table.cells for table in _tables(page) if table.header[:3] == ("from", "to", "value"))


def _operand(data_type: str, value: str) -> np.ndarray:
    """A few dozen elements, for kernels that treat whole vectors otherwise than single values."""
    twin = rs.DataType.parse(data_type).numpy
    assert twin is not None
    if value.startswith("0x"):
        return np.full(40, int(value, 16), f"u{twin.itemsize}").view(twin)
    return np.full(40, _WORDS.get(value) if value in _WORDS else float(value), np.float64).astype(twin)


def _shown(result: np.ndarray, data_type: str) -> str:
    if rs.DataType.parse(data_type).is_integral:
        return str(int(result[0]))
    return f"0x{int(result.view(f'u{result.itemsize}')[0]):0{2 * result.itemsize}x}"


@pytest.mark.parametrize("row", _differences(), ids=lambda row: " ".join(row[:3]))
def test_the_table_of_differences_says_what_restride_does(row: tuple[str, ...], workplace: None) -> None:
    result = rs.reorder(_operand(row[0], row[2]), None, dtype=row[1])
    assert len({_shown(result[i : i + 1], row[1]) for i in range(result.size)}) == 1
    assert _shown(result, row[1]) == row[_COLUMNS["restride"]]


@pytest.mark.peer
@pytest.mark.parametrize("peer", ["oneDNN", "NumPy", "torch"])
def test_the_table_of_differences_says_what_others_do(peer: str) -> None:
    """The versions that the page names; what a peer leaves open, marked there, is not checked."""
    convert = {"oneDNN": _by_onednn, "NumPy": _by_numpy, "torch": _by_torch}[peer]
    rows = [row for row in _differences() if not row[_COLUMNS[peer]].endswith(_OPEN)]
    got = [convert(_operand(row[0], row[2]), row[0], row[1]) for row in rows]
    wrong = [(row, said) for row, said in zip(rows, got, strict=True) if said != row[_COLUMNS[peer]]]
    assert wrong == []


def _by_numpy(x: np.ndarray, _: str, to: str) -> str:
    with np.errstate(all="ignore"):
        return _shown(x.astype(rs.DataType.parse(to).numpy), to)


def _by_torch(x: np.ndarray, source: str, to: str) -> str:
    torch = pytest.importorskip("torch")
    kinds = [getattr(torch, _TORCH_TYPES[name]) for name in (source, to)]
    result = torch.from_numpy(x.view(f"i{x.itemsize}")).view(kinds[0]).to(kinds[1])
    bits = getattr(torch, f"int{8 * result.element_size()}")
    return _shown(result.view(bits).numpy().view(rs.DataType.parse(to).numpy), to)


def _by_onednn(x: np.ndarray, source: str, to: str) -> str:
    onednn = importlib.import_module("restride_bench.onednn")
    failures = importlib.import_module("restride_bench.onednn_library").OneDNNError
    try:
        library = onednn.OneDNN()
    except failures as error:
        pytest.skip(str(error))
    try:
        src, dst = (library.desc(x.shape, kind, "a") for kind in (source, to))
        memories = library.memory(src, x), library.memory(dst)
        library.reorder(src, dst).bind(*memories)()
    except failures as error:
        return _REFUSED if error.status in _REFUSALS else str(error)
    return _shown(memories[1].bytes.copy().view(rs.DataType.parse(to).numpy), to)
