"""Files that contributors and forges expect agree with the project."""

from __future__ import annotations

import re
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import restride as rs

_ROOT = Path(__file__).parents[2]
_TARGETS = set(re.findall(r"^([a-z-]+):.*## ", (_ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


@pytest.mark.parametrize(
    "name",
    [
        "CONTRIBUTING.md",
        ".github/workflows/tests.yml",
        ".github/pull_request_template.md",
        ".pre-commit-config.yaml",
    ],
)
def test_targets_of_make_that_are_named_exist(name: str) -> None:
    path = _ROOT / name
    if not path.exists():
        pytest.skip("files of a forge are not in a distribution of the source")
    named = set(re.findall(r"(?:`|run: )make ([a-z-]+)", path.read_text("utf-8")))
    assert named - _TARGETS == set()
    assert name.startswith(".pre") or "test" in named


@pytest.mark.parametrize(
    "url", ["https://forge.example/owner/restride", "", "git@forge.example:owner/restride"]
)
def test_the_metadata_link_to_the_forge_that_builds_it(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = pytest.importorskip("hatchling.metadata.core")
    manager = pytest.importorskip("hatchling.plugin.manager").PluginManager()
    monkeypatch.setenv("PROJECT_URL", url)
    core = metadata.ProjectMetadata(str(_ROOT), manager).core
    urls = core.urls
    assert set(urls) == (
        {"Homepage", "Documentation", "Source", "Issues", "Changelog"} if "//" in url else set()
    )
    assert all(link.startswith(url) for link in urls.values())
    picture, link = ("raw/main/", "blob/main/") if urls else ("", "")
    place = f"{url}/" if urls else ""
    assert f"]({place}{picture}docs/pictures/front.svg)" in core.readme
    assert f"]({place}{link}docs/index.md)" in core.readme


def test_the_citation_names_this_version_and_license() -> None:
    citation = dict(
        line.split(": ", 1)
        for line in (_ROOT / "CITATION.cff").read_text("utf-8").splitlines()
        if not line.startswith(" ") and ": " in line
    )
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert citation["version"] == rs.__version__
    assert citation["license"] == project["license"]
    assert citation["title"] == project["name"]


def _pins() -> dict[str, str]:
    path = _ROOT / "constraints.txt"
    lines = (line for line in path.read_text("utf-8").splitlines() if not line.startswith("#"))
    return dict(line.split("==") for line in lines)


def test_all_that_make_installs_has_an_exact_version() -> None:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [project["dependencies"], *project["optional-dependencies"].values()]
    names = {re.split(r"[^\w-]", name)[0].lower().replace("_", "-") for part in wanted for name in part}
    assert names - set(_pins()) == {"restride-bench"}


def test_what_measures_has_the_version_of_the_library_and_names_it() -> None:
    project = tomllib.loads((_ROOT / "bench" / "pyproject.toml").read_text("utf-8"))["project"]
    extra = tomllib.loads((_ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert project["version"] == rs.__version__
    assert project["dependencies"] == [f"restride=={rs.__version__}"]
    assert f"restride-bench=={rs.__version__}" in extra["bench"]


@pytest.mark.parametrize("name", ["bug", "feature", "slow"])
def test_a_template_of_issues_is_a_form(name: str) -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    path = _ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml"
    if not path.exists():
        pytest.skip("files of a forge are not in a distribution of the source")
    form = yaml.safe_load(path.read_text("utf-8"))
    assert {"name", "description", "labels", "body"} == set(form)
    fields = [part for part in form["body"] if part["type"] != "markdown"]
    assert len({part["id"] for part in fields}) == len(fields)
    assert all(part["attributes"]["label"] for part in fields)
    assert any(part.get("validations", {}).get("required") for part in fields)


def test_a_wheel_and_a_source_distribution_hold_what_they_must(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = pytest.importorskip("hatchling.build", reason="hatchling is not installed")
    monkeypatch.chdir(_ROOT)
    with zipfile.ZipFile(tmp_path / build.build_wheel(str(tmp_path))) as archive:
        wheel = set(archive.namelist())
    with tarfile.open(tmp_path / build.build_sdist(str(tmp_path))) as archive:
        unpacked = {name.partition("/")[2] for name in archive.getnames()}
    library = _ROOT / "src" / "restride"
    files = {path for path in library.rglob("*.*") if "__pycache__" not in path.parts}
    data = {path.relative_to(library.parent).as_posix() for path in files if path.suffix != ".py"}
    assert {"restride/py.typed", "restride/__init__.pyi", "restride/refusals.md"} <= data
    assert {path.relative_to(library.parent).as_posix() for path in files} - wheel == set()
    assert {name.partition("/")[0] for name in wheel} == {"restride", f"restride-{rs.__version__}.dist-info"}
    assert {f"src/{name}" for name in data} - unpacked == set()
    examples = {f"examples/{path.name}" for path in (_ROOT / "examples").glob("*.*")}
    assert {"LICENSE", "CHANGELOG.md", "hatch_build.py", *examples} - unpacked == set()
