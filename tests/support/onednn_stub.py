"""The type stub of `restride.onednn`, made of its classes: what editors and type checkers see."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from restride import onednn
from restride.model.base import PrimitiveDescBase

_HEAD = '''"""Primitives, as tests/support/onednn_stub.py writes them (pytest --update-golden)."""

from collections.abc import Sequence
from typing import Any, overload

from .desc.algorithm import Algorithm
from .desc.attr import PrimitiveAttr
from .desc.memory_desc import MemoryDesc
from .dtypes import DataType
from .model.base import PrimitiveDescBase
from .model.primitive import Primitive
from .model.prop_kind import PropKind
from .ops.normalization import NormalizationFlags
from .ops.rnn_checks import RNNDirection, RNNFlags
from .ops.shuffle import ShuffleBackwardDesc, ShuffleForwardDesc
from .runtime.engine import Engine
'''
_NUMBERS = ("alpha", "beta", "k", "p", "eps", "epsilon")
_TYPES = {
    **dict.fromkeys(_NUMBERS, "float"),
    **dict.fromkeys(("axis", "groups", "group_size", "local_size"), "int"),
    **dict.fromkeys(("strides", "kernel", "dilation", "padding_l", "padding_r"), "Sequence[int]"),
    **dict.fromkeys(("scale_shift_data_type", "diff_scale_shift_data_type"), "DataType | str"),
    **dict.fromkeys(("algorithm", "activation"), "Algorithm | str"),
    **dict.fromkeys(("hint_pd", "hint_fwd_pd"), "PrimitiveDescBase | None"),
    "dilates": "Sequence[int] | None",
    "factors": "Sequence[float] | None",
    "scales": "Sequence[float] | None",
    "srcs": "Sequence[MemoryDesc]",
    "engine": "Engine",
    "prop_kind": "PropKind | str",
    "direction": "RNNDirection | str",
    "flags": "NormalizationFlags | int | str",
    "attr": "PrimitiveAttr | None",
    "allow_empty": "bool",
}
# Tensors that may be left out though their arguments have no default.
_MAY_BE_NONE = ("stat", "bias_desc", "_iter_desc", "_iter_c_desc")


def text() -> str:
    """The stub."""
    return (
        "\n\n".join([_HEAD.rstrip(), *(_primitive(getattr(onednn, name)) for name in onednn.__all__)]) + "\n"
    )


def _primitive(kind: Any) -> str:
    lines = [f"class {kind.kind}(Primitive):", f'    """{_first_line(kind)}"""', ""]
    lines += ["    class PrimitiveDesc(PrimitiveDescBase):"]
    lines += [f'        """{_first_line(kind.PrimitiveDesc)}"""', ""]
    lines += [f"        {line}" if line else "" for line in _descriptor(kind.PrimitiveDesc)]
    if hasattr(kind, "Desc"):
        lines += [f"    Desc = {kind.Desc.__name__}"]
    return "\n".join([*lines, "    def __init__(self, pd: PrimitiveDesc | None = None) -> None: ..."])


def _descriptor(kind: Any) -> Iterator[str]:
    for arguments in ("", _arguments(kind), ", *args: Any, **named: Any"):
        yield from ("@overload", f"def __init__(self{arguments}) -> None: ...")
    methods: dict[str, Any] = {}
    for owner in reversed(kind.__mro__[: kind.__mro__.index(PrimitiveDescBase)]):
        methods |= {name: value for name, value in vars(owner).items() if inspect.isfunction(value)}
    for name in sorted(name for name in methods if not name.startswith("_")):
        yield f"def {name}(self) -> {methods[name].__annotations__['return']}: ..."


def _arguments(kind: Any) -> str:
    is_rnn = kind().get_kind() == "rnn"
    found = []
    for name, parameter in kind.form.shown.parameters.items():
        written = "RNNFlags | str" if is_rnn and name == "flags" else _TYPES.get(name, "MemoryDesc")
        has_default = parameter.default is not inspect.Parameter.empty
        may_be_none = has_default and parameter.default is None
        may_be_none |= written == "MemoryDesc" and name.endswith(_MAY_BE_NONE)
        if may_be_none and not written.endswith("None"):
            written += " | None"
        found.append(f"{name}: {written}{f' = {parameter.default!r}' if has_default else ''}")
    return "".join(f", {each}" for each in found)


def _first_line(kind: Any) -> str:
    return (kind.__doc__ or "").strip().split("\n")[0]
