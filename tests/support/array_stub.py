"""The type stub of the functions on arrays, made of their signatures: what editors and type checkers see.

Each has a few cases: types of some parameters, None for one that is left out, and what is returned then.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from itertools import takewhile

import restride as rs

_HEAD = '''"""Functions on arrays, as tests/support/array_stub.py writes them (pytest --update-golden)."""

from collections.abc import Iterable, Sequence
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray

from ..desc.build import Format
from ..desc.literals import TorchType
from ..dtypes import DataType
from ..runtime.memory import Memory
from ..typing import (
    ArrayLike,
    BlockedTag,
    Extents,
    Factor,
    FormatLike,
    Host,
    NibbleName,
    OtherArray,
    Owned,
    PlainFormat,
    PlainTag,
    PostOpsLike,
    Scalar,
    Tensor,
    TypeLike,
    TypeName,
    Vector,
    WayName,
    WholeType,
)
from .scaling.quantized_tensor import QuantizedTensor
'''
_ANY_ARRAY = "OtherArray | ArrayLike"
# What parameters take; those of one function where they differ there.
_TYPES = {
    **dict.fromkeys(("x", "weights", "mean", "variance"), _ANY_ARRAY),
    **dict.fromkeys(("scale", "shift", "bias"), "Vector"),
    **dict.fromkeys(("dst", "src", "layout"), "FormatLike"),
    **dict.fromkeys(("kernel", "stride", "dilation"), "Extents"),
    "arrays": f"Iterable[{_ANY_ARRAY}]",
    "dtype": "TypeLike",
    "out": "OtherArray",
    "engine": "Host",
    **dict.fromkeys((f"attention.{name}" for name in ("q", "mask", "sinks")), _ANY_ARRAY),
    **dict.fromkeys(("attention.k", "attention.v", "matmul.weights"), f"QuantizedTensor | {_ANY_ARRAY}"),
    **dict.fromkeys(("attention.offsets", "attention.key_offsets"), _ANY_ARRAY),
    **dict.fromkeys(("attention.key_scales", "attention.value_scales"), _ANY_ARRAY),
    "matmul.fpmath_mode": "str",
    "attention.lengths": f"{_ANY_ARRAY} | int",
    **dict.fromkeys(("attention.scale", "attention.soft_cap"), "float"),
    "attention.causal": "bool | str",
    "attention.window": "Sequence[int]",
    "pool.padding": "Extents | Sequence[Sequence[int]]",
    "convolution.padding": "Extents",
    "add_n.scales": "Iterable[float]",
    **dict.fromkeys(("normalize.mean", "normalize.std"), "ArrayLike"),
    "normalize.x": f"{_ANY_ARRAY} | Memory",
    "normalize.out": "Any",
    "reorder.axis": "int",
    "reorder.beta": "float",
    "reorder.post_ops": "PostOpsLike",
    **dict.fromkeys(("reorder.scale", "reorder.zero_point"), "Factor"),
    "dequantize.q": f"QuantizedTensor | {_ANY_ARRAY}",
    **dict.fromkeys(("dequantize.scale", "dequantize.zero_point"), "Factor"),
    "quantize.dtype": "TypeLike | WayName",
    "quantize.group": "int | Sequence[int]",
    "quantize.scale": "str | OtherArray",
    "quantize.scale_type": "TypeLike",
    "quantize.format": "WayName",
}
_HOLD_NONE = {
    "Vector",
    "Format",
    "FormatLike",
    "Factor",
    "Host",
    "PostOpsLike",
    "PlainFormat",
    "WholeType",
    "None",
    "Any",
}
_NAMED_TYPE = "TypeName | DataType | np.dtype[Any] | type[Any] | TorchType"
_OF_TORCH = "PlainFormat | torch.memory_format"
# What holds the default of every parameter that may have it: elsewhere a case needs the argument.
_HOLD_DEFAULTS = ("PlainFormat", _OF_TORCH, "WholeType", "None", "TypeLike", _NAMED_TYPE)

_Case = tuple[dict[str, str | None], str]
_INTO_OUT: _Case = {"out": "Owned"}, "Owned"
_OF_OWNED: _Case = {"x": "Owned", "out": None}, "Owned"
_OF_LISTS: _Case = {"x": "ArrayLike", "out": None}, "NDArray[Any]"
_OF_NUMPY: _Case = {"x": "NDArray[Any]", "out": None}, "NDArray[Any]"
_ALL: _Case = {}, "Any"
_IN_BLOCKS: dict[str, str | None] = {"dst": "BlockedTag", "out": None}
_PLAIN: dict[str, str | None] = {"dst": "PlainFormat", "dtype": "WholeType", "out": None}
_IN_GROUPS = dict.fromkeys(("group", "scale", "scale_type", "format"))
_HERE = {**_PLAIN, "engine": "None"}
# Of quantize: one scale and zero point, or one for each index of an axis.
_ONE: dict[str, str | None] = {"axis": "None"}
_EACH: dict[str, str | None] = {"axis": "int"}
_NUMBERS, _OF_HOST = "np.float32, int", "NDArray[Any] | ArrayLike"
_CASES: dict[str, tuple[_Case, ...]] = {
    "add_n": (_INTO_OUT, ({**_PLAIN, "arrays": "Iterable[Owned]"}, "Owned"), _ALL),
    "attention": (
        _INTO_OUT,
        ({"q": "Owned", "out": None}, "Owned"),
        ({"q": "ArrayLike", "out": None}, "NDArray[Any]"),
    ),
    "channel_shuffle": (_OF_OWNED, _OF_LISTS),
    "concat": (
        _INTO_OUT,
        ({**_IN_BLOCKS, "layout": None}, "Memory"),
        ({**_PLAIN, "arrays": "Iterable[Owned]", "layout": "PlainFormat"}, "Owned"),
        ({**_PLAIN, "arrays": "Iterable[ArrayLike]", "layout": None}, "NDArray[Any]"),
        _ALL,
    ),
    "convolution": (_INTO_OUT, _OF_NUMPY, _OF_OWNED, _OF_LISTS),
    "dequantize": (
        _INTO_OUT,
        (_IN_BLOCKS, "Memory"),
        ({**_PLAIN, "q": "Memory", "dst": "PlainTag | Sequence[int]"}, "NDArray[Any]"),
        ({**_PLAIN, "q": "Tensor"}, "Tensor"),
        ({**_PLAIN, "q": "NDArray[Any] | ArrayLike"}, "NDArray[Any]"),
        ({"out": None}, "Any"),
    ),
    "empty": (
        ({"format": "BlockedTag", "dtype": "TypeLike"}, "Memory"),
        ({"dtype": "NibbleName"}, "Memory"),
        ({"dtype": _NAMED_TYPE, "format": "PlainFormat"}, "NDArray[Any]"),
        _ALL,
    ),
    **dict.fromkeys(("layer_norm", "group_norm", "batch_norm"), (_INTO_OUT, _OF_OWNED, _OF_LISTS)),
    "matmul": (_INTO_OUT, _OF_NUMPY, _OF_OWNED, _OF_LISTS),
    "normalize": (
        (_IN_BLOCKS, "Memory"),
        ({**_PLAIN, "x": "Tensor"}, "Tensor"),
        ({**_PLAIN, "x": "ArrayLike | Memory"}, "NDArray[Any]"),
        _ALL,
    ),
    "pool": (_INTO_OUT, _OF_OWNED, _OF_LISTS),
    "quantize": (
        ({"dtype": "WayName", "format": None}, "QuantizedTensor"),
        ({"group": "int | Sequence[int]"}, "QuantizedTensor"),
        ({**_IN_BLOCKS, **_IN_GROUPS, **_ONE, "dtype": "TypeLike"}, f"tuple[Memory, {_NUMBERS}]"),
        ({**_IN_BLOCKS, **_IN_GROUPS, "dtype": "TypeLike"}, "tuple[Memory, Any, Any]"),
        ({**_PLAIN, **_IN_GROUPS, **_ONE, "x": "Tensor"}, f"tuple[Tensor, {_NUMBERS}]"),
        ({**_PLAIN, **_IN_GROUPS, **_EACH, "x": "Tensor"}, "tuple[Tensor, Tensor, Tensor]"),
        ({**_PLAIN, **_IN_GROUPS, **_ONE, "x": _OF_HOST}, f"tuple[NDArray[Any], {_NUMBERS}]"),
        (
            {**_PLAIN, **_IN_GROUPS, **_EACH, "x": _OF_HOST},
            "tuple[NDArray[Any], NDArray[np.float32], NDArray[np.int32]]",
        ),
        _ALL,
    ),
    "reorder": (
        _INTO_OUT,
        (_IN_BLOCKS, "Memory"),
        ({"dtype": "NibbleName", "out": None}, "Memory"),
        ({**_HERE, "x": "NDArray[Scalar]", "dtype": "None"}, "NDArray[Scalar]"),
        ({**_HERE, "x": "NDArray[Any]"}, "NDArray[Any]"),
        ({**_HERE, "x": "Memory", "dst": "PlainTag | Sequence[int]", "src": None}, "NDArray[Any]"),
        ({**_HERE, "x": "Tensor", "dst": _OF_TORCH}, "Tensor"),
        ({**_HERE, "x": "ArrayLike"}, "NDArray[Any]"),
        ({"out": None}, "Any"),
    ),
    **dict.fromkeys(("shuffle", "shuffle_channels", "softmax"), (_INTO_OUT, _OF_OWNED, _OF_LISTS)),
}
NAMES = tuple(_CASES)
"""The functions that the stub is of."""


def text() -> str:
    """The stub."""
    return "\n\n".join([_HEAD.rstrip(), *(_function(name) for name in NAMES)]) + "\n"


def _function(name: str) -> str:
    function = getattr(rs, name)
    signature, doc = inspect.signature(function), inspect.getdoc(function) or ""
    lines = doc.replace("\\", "\\\\").splitlines()
    shown = ["", *(f"    {line}".rstrip() for line in [f'"""{lines[0]}', *lines[1:], '"""'])]
    parts = []
    for changes, result in _CASES[name]:
        for arguments in _argument_lists(name, signature, changes):
            # Editors show the text of the first.
            body = " ..." if parts else "\n".join(shown)
            parts.append(f"@overload\ndef {name}({', '.join(arguments)}) -> {result}:{body}")
    return "\n".join(parts)


def _argument_lists(
    name: str, signature: inspect.Signature, changes: Mapping[str, str | None]
) -> Iterator[list[str]]:
    """The parameters of a case; twice where one without its default stands behind some that have theirs."""
    left = [p for p in signature.parameters.values() if changes.get(p.name, "") is not None]
    by_place = [p for p in left if p.kind is p.POSITIONAL_OR_KEYWORD]
    by_name = [_written(name, p, changes) for p in left if p.kind is p.KEYWORD_ONLY]
    written = [_written(name, p, changes) for p in by_place]
    needed = [i for i, each in enumerate(written) if " = " not in each]
    last = needed[-1] + 1 if needed else 0
    star = ["*"] if by_name else []
    first = len(list(takewhile(lambda each: " = " not in each, written)))
    if first < last:  # all before it by place, or it by name
        yield [*(each.partition(" = ")[0] for each in written[:last]), *written[last:], *star, *by_name]
        yield [*written[: last - 1], "*", *written[last - 1 :], *by_name]
    else:
        yield [*written, *star, *by_name]


def _written(name: str, parameter: inspect.Parameter, changes: Mapping[str, str | None]) -> str:
    own, default = parameter.name, parameter.default
    changed = changes.get(own)
    kind = changed or _TYPES.get(f"{name}.{own}") or _TYPES.get(own) or parameter.annotation
    is_needed = default is parameter.empty or (changed is not None and changed not in _HOLD_DEFAULTS)
    if is_needed:
        return f"{own}: {kind}"
    if default is None and not kind.endswith("| None") and not set(kind.split(" | ")) & _HOLD_NONE:
        kind += " | None"
    return f"{own}: {kind} = {default!r}"
