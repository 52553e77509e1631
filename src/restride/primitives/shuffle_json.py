"""Descriptors of shuffles as plain values, as JSON has them, and back with every value checked.

    {"prop_kind": "forward_training", "data_desc": {"format_kind": ...}, "axis": 1, "group_size": 4}

The keys are the arguments of `Desc`. All of them are needed; others are passed over.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar, Self

from ..desc.json_form import bad_stored, read_text
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import short_repr
from ..errors import Error
from .prop_kind import PropKind


class JsonDesc:
    """A frozen descriptor whose fields are words, integers and descriptors of tensors."""

    __slots__ = ()
    name: ClassVar[str]
    fields: ClassVar[tuple[str, ...]]

    def to_dict(self) -> dict[str, Any]:
        """The descriptor as strings, integers, lists and a dict, named after its fields."""
        return {field: _value(getattr(self, field)) for field in self.fields}

    def to_json(self) -> str:
        """`to_dict` as JSON, in one line."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, values: object) -> Self:
        """The descriptor of a `to_dict`. Raises InvalidArguments naming the value that is wrong."""
        if not isinstance(values, dict):
            raise bad_stored(
                f"{cls.name}: a stored descriptor must be a dict",
                f"this is {type(values).__name__}",
            )
        missing = [field for field in cls.fields if field not in values]
        if missing:
            raise bad_stored(
                f"{cls.name}: a stored descriptor lacks {missing}",
                "every field of to_dict is needed",
            )
        return cls(**{field: _parsed(cls.name, field, values[field]) for field in cls.fields})

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The descriptor of a `to_json`. Raises InvalidArguments naming the value that is wrong."""
        return read_text(cls.name, text, cls.from_dict)


def _value(field: object) -> object:
    if isinstance(field, MemoryDesc):
        return field.to_dict()
    return str(field) if isinstance(field, PropKind) else field


def _parsed(name: str, field: str, value: object) -> Any:
    if not field.endswith("_desc"):
        if isinstance(value, str | int):
            return value
        raise bad_stored(f"{name}: {field} is {short_repr(value)}", "it is a word or an integer")
    try:
        return MemoryDesc.from_dict(value)
    except Error as error:
        what = f"{name}: {field}: {error.what}"
        raise error.retold(what) from None
