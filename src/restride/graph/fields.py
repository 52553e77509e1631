"""Validation of the fields of frozen classes against their declared types.

Graphs are built by calls, read from files and made by rewrites. The fields of a node have their declared
types from its creation on, so no later code has to check them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from itertools import chain
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from ..desc.parse import parse_bool, parse_int, short_repr, to_f32
from ..dtypes import DataType
from ..errors import refuse

__all__ = ["check_fields", "parse_field"]


def check_fields(instance: Any) -> None:
    """Convert each field of a frozen value to its declared type: lists to tuples, words to types.

    Raises InvalidArguments, naming the field.
    """
    for name, hint in _hints(type(instance)).items():  # type: ignore[arg-type]
        value = getattr(instance, name)
        if type(value) is not hint:
            object.__setattr__(instance, name, parse_field(f"{type(instance).__name__}: {name}", hint, value))


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


@cache
def _origin(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    return get_origin(hint), get_args(hint)


def parse_field(what: str, hint: Any, value: Any) -> Any:
    """Convert a value to a declared type. Raises InvalidArguments naming `what`."""
    origin, parts = _origin(hint)
    if origin is tuple and type(value) is tuple and parts[-1] is ... and {*map(type, value)} <= {parts[0]}:
        return value  # most values are right already, and there are many in a graph
    if origin is Mapping and type(value) is dict and {*map(type, chain(*value.items()))} <= {*parts}:
        return dict(value)
    if origin in (Union, UnionType):
        if value is None and NoneType in parts:
            return None
        parts = tuple(part for part in parts if part is not NoneType)
        if len(parts) > 1:
            return _checked(what, parts, value)
        return parse_field(what, parts[0], value)
    if origin is tuple:
        _checked(what, (tuple, list), value)
        kinds = (parts[0],) * len(value) if parts[-1] is ... else parts
        if len(kinds) != len(value):
            raise refuse(
                "RS-V08:not-values",
                what=what,
                value=short_repr(value),
                type=type(value).__name__,
                count=len(kinds),
            )
        return tuple(
            parse_field(f"{what}[{i}]", *pair) for i, pair in enumerate(zip(kinds, value, strict=True))
        )
    if origin is Mapping:
        _checked(what, (Mapping,), value)
        return {
            parse_field(f"{what}: a key", parts[0], key): parse_field(what, parts[1], item)
            for key, item in value.items()
        }
    if hint is Any:
        return value
    if hint is int:
        return parse_int(value, what)
    if hint is bool:
        return parse_bool(what, value)
    if hint is float:
        to_f32(value, what)
        return float(value)
    return DataType.parse(value) if hint is DataType else _checked(what, (hint,), value)


def _checked(what: str, kinds: tuple[type, ...], value: Any) -> Any:
    if isinstance(value, kinds):
        return value
    raise refuse(
        "RS-V08:not",
        what=what,
        value=short_repr(value),
        type=type(value).__name__,
        kinds=" or ".join(_NAMES.get(kind, f"a {kind.__name__}") for kind in kinds),
    )


_NAMES: dict[type, str] = {str: "text", tuple: "a tuple", list: "a list", Mapping: "a dict"}
