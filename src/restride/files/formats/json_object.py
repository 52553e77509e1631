"""Objects of JSON in headers of files, read as if a stranger wrote them."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from ...errors import InvalidArguments, refuse
from ..plain_file import GET_AGAIN, bad_file
from ..writing.replacement import shown

# An entry has three brackets and some sixty bytes: far more of them describe no tensors, and take memory.
_BYTES_PER_BRACKET = 8


def parse_object(path: str, text: bytes) -> dict[str, Any]:
    """A JSON object in which no key stands twice. Raises InvalidArguments, naming the file."""
    if (text.count(b"{") + text.count(b"[")) * _BYTES_PER_BRACKET > len(text) + 1024:
        raise refuse("RS-F01:header-nested-full", path=shown(path))
    try:
        parsed_object = json.loads(text.decode(), object_pairs_hook=_unique, parse_constant=_refuse)
        if b"\\ud" in text or b"\\uD" in text:
            # Halves of characters, which no file can be written with.
            json.dumps(parsed_object, ensure_ascii=False).encode()
    except _TwiceError as error:
        raise refuse("RS-F01:name-stands-twice", path=shown(path), reason=str(error)[:60]) from None
    except (ValueError, RecursionError):
        raise refuse("RS-F01:header-no-json-text", path=shown(path)) from None
    if not isinstance(parsed_object, dict):
        raise refuse("RS-F01:header-no-json", path=shown(path))
    return parsed_object


class _TwiceError(Exception):
    """A key of a JSON object stands there twice."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise _TwiceError(name)
        values[name] = value
    return values


def _refuse(text: str) -> NoReturn:
    raise ValueError(text)


def damaged(path: str, why: str) -> InvalidArguments:
    """The error for a file whose header cannot be."""
    return bad_file(path, why, GET_AGAIN)
