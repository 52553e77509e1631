"""Every public name, signature, value and error code is one of a list, so that none is lost unnoticed."""

from __future__ import annotations

import enum
import importlib
import inspect
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.golden import Golden

_ROOT = Path(__file__).parents[2]
_MODULES = {
    "rs": "restride",
    "rs.onednn": "restride.onednn",
    "rs.ops": "restride.ops",
    "rs.graph": "restride.graph",
    "rs.formats": "restride.formats",
    "rs.layouts": "restride.layouts",
    "rs.onnx": "restride.onnx",
    "rs.onednn_graph": "restride.onednn_graph",
    "rs.openvino": "restride.openvino",
    "rs.dask": "restride.dask",
    "rs.sycl_interop": "restride.sycl_interop",
    "rs.typing": "restride.typing",
    "rs.torch": "restride.torch",
    "rs.jax": "restride.jax",
}
_NEEDS = {"rs.torch": "torch", "rs.jax": "jax", "rs.dask": "dask"}


@pytest.mark.parametrize("name", _MODULES)
def test_public_names_are_those_of_the_list(name: str, golden: Golden) -> None:
    if name in _NEEDS:
        pytest.importorskip(_NEEDS[name], reason=f"{_NEEDS[name]} is not installed")
    module = importlib.import_module(_MODULES[name])
    public = getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]
    lines = [line for each in sorted(public) for line in _described(f"{name}.{each}", getattr(module, each))]
    golden.check(f"public/{name}.txt", "".join(f"{line}\n" for line in lines))


def test_error_codes_are_those_of_the_list(golden: Golden) -> None:
    sources = (path.read_text("utf-8") for path in (_ROOT / "src" / "restride").rglob("*.py"))
    codes = {code for text in sources for code in re.findall(r"RS-[A-Z]\d\d", text)}
    golden.check("public/codes.txt", "".join(f"{code}\n" for code in sorted(codes)))


def _described(name: str, value: Any) -> Iterator[str]:
    """A public name, and those of its members."""
    if isinstance(value, types.ModuleType):
        yield f"{name}: module"
    elif inspect.isclass(value):
        bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
        # Signatures of enumerations are those of the Python that runs.
        yield f"class {name}({bases}){'' if issubclass(value, enum.Enum) else _signature(value)}"
        if issubclass(value, enum.Enum):
            yield from (f"{name}.{member} = {item.value!r}" for member, item in value.__members__.items())
        yield from _members(name, value)
    elif callable(value) and not isinstance(value, enum.Enum):
        yield f"{name}{_signature(value)}"
    else:
        yield f"{name} = {value!r}" if isinstance(value, int | float | str | enum.Enum) else name


def _members(name: str, value: type) -> Iterator[str]:
    # Of Python's own base classes nothing is listed.
    owners = [base for base in value.__mro__ if base.__module__ not in ("builtins", "enum", "typing")]
    found: dict[str, Any] = {}
    for owner in reversed(owners):
        found |= {member: part for member, part in vars(owner).items() if not member.startswith("_")}
    for member, part in sorted(found.items()):
        if isinstance(value, enum.EnumMeta) and member in value.__members__:
            continue
        whole = f"{name}.{member}"
        if isinstance(part, staticmethod | classmethod):
            yield f"{whole}{_signature(getattr(value, member))}  # {type(part).__name__}"
        elif inspect.isclass(part):
            yield from _described(whole, part)
        else:
            yield f"{whole}{_signature(part)}" if callable(part) else whole


def _signature(value: Any) -> str:
    try:
        return re.sub(r" at 0x[0-9a-f]+", "", str(inspect.signature(value)))
    except (TypeError, ValueError):
        return "(...)"
