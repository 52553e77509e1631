"""Numbers are those of oneDNN's own headers, where they are installed."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import restride as rs

pytestmark = pytest.mark.peer

_PLACES = (Path("/usr/include"), Path("/usr/local/include"))


def _folders() -> list[Path]:
    """Find the headers of wheels, relative to the site-packages on the path."""
    prefixes = {Path(sys.prefix), *(Path(place).parents[2] for place in sys.path if "site-packages" in place)}
    return [*(prefix / "include" for prefix in prefixes), *_PLACES]


@pytest.fixture(scope="module")
def header() -> str:
    names = ("dnnl_common_types.h", "dnnl_types.h")
    for folder in _folders():
        paths = [folder / "oneapi" / "dnnl" / name for name in names]
        if all(path.exists() for path in paths):
            text = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in paths)
            return re.sub(r"//[^\n]*|/\*.*?\*/", "", text.replace("\\\n", " "), flags=re.DOTALL)
    pytest.skip("oneDNN's headers are not installed")


def macros(header: str) -> dict[str, int]:
    """The numbers of the macros, aliases followed."""
    texts = dict(re.findall(r"^\s*#define (DNNL_\w+)\s+(\w+)\s*$", header, re.MULTILINE))

    def value(text: str) -> int | None:
        if text in texts:
            return value(texts[text])
        return int(text) if text.isdecimal() else None

    found = {name: value(text) for name, text in texts.items()}
    return {name: number for name, number in found.items() if number is not None}


def enumerators(header: str, name: str) -> dict[str, int]:
    """The numbers of one enumeration, in C's way of counting."""
    body = re.search(r"typedef enum (?:\w+ )?\{([^}]*)\}\s*" + name, header)
    assert body is not None
    numbers: dict[str, int] = {}
    following = 0
    for entry in re.sub(r"#.*", "", body[1]).split(","):
        word, _, text = (part.strip() for part in entry.partition("="))
        if word:
            known = numbers.get(text)
            number = following if not text else known if known is not None else int(text.rstrip("uU"), 0)
            numbers[word], following = number, number + 1
    return numbers


def test_arguments_have_their_numbers(header: str) -> None:
    theirs = macros(header)
    ours = {f"ARG_{name}": int(value) for name, value in rs.onednn.Arg.__members__.items()}
    assert len(ours) >= 30
    assert {name: theirs[f"DNNL_{name}"] for name in ours} == ours
    assert theirs["DNNL_ARG_ATTR_MULTIPLE_POST_OP_BASE"] == rs.arg_attr_multiple_post_op(0)
    assert theirs["DNNL_MAX_NDIMS"] == rs.MAX_NDIMS


# Data types that oneDNN does not have.
_OWN = ("u64", "u32", "s16", "u16", "nf4")


@pytest.mark.parametrize(
    ("kind", "name", "prefix"),
    [
        (rs.Status, "dnnl_status_t", "dnnl_"),
        (rs.DataType, "dnnl_data_type_t", "dnnl_"),
        (rs.Query, "dnnl_query_t", "dnnl_query_"),
        (rs.StreamFlags, "dnnl_stream_flags_t", "dnnl_stream_"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_members_have_their_numbers(header: str, kind: type, name: str, prefix: str) -> None:
    theirs = enumerators(header, name)
    undef = {"dnnl_undef": "dnnl_data_type_undef", "dnnl_boolean": "dnnl_boolean"}
    members = [member for member in kind if member.name not in _OWN]  # type: ignore[attr-defined]
    ours = {f"{prefix}{member.name}": member.value for member in members}
    assert {word: theirs[undef.get(word, word)] for word in ours} == ours


def test_kinds_of_engines_have_their_numbers(header: str) -> None:
    theirs = enumerators(header, "dnnl_engine_kind_t")
    assert theirs == {"dnnl_any_engine": 0, "dnnl_cpu": 1, "dnnl_gpu": 2}
    assert [int(rs.EngineKind[word]) for word in ("any", "cpu", "gpu")] == [0, 1, 2]
