"""The type stubs of `restride` and `restride.onednn`, made of their names and classes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import restride
from restride import onednn
from restride.model.base import PrimitiveDescBase
from restride.model.primitive import Primitive

from . import array_stub

_HEAD = '''"""Primitives, as tests/support/onednn_stub.py writes them (pytest --update-golden)."""

from collections.abc import Sequence
from typing import Any, Final, overload

from .model.base import PrimitiveDescBase
from .ops.shuffle import ShuffleBackwardDesc, ShuffleForwardDesc
'''
_NUMBERS = ("alpha", "beta", "k", "p", "eps", "epsilon")
_TYPES = {
    **dict.fromkeys(_NUMBERS, "float"),
    **dict.fromkeys(("axis", "groups", "group_size", "local_size"), "int"),
    **dict.fromkeys(("batch_axis", "batch_dims", "diagonal", "source"), "int"),
    **dict.fromkeys(("exclusive", "reverse", "select_last", "upper"), "bool"),
    **dict.fromkeys(("scale", "soft_cap"), "float"),
    "causal": "str",
    "window": "Sequence[int]",
    **dict.fromkeys(
        ("strides", "kernel", "dilation", "padding_l", "padding_r", "index_strides"), "Sequence[int]"
    ),
    "offset": "MemoryDesc | None",
    "reduction": "str",
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
_CONSTANTS = {
    "MAX_NDIMS": "desc.tags",
    "NO_DATA": "runtime.alloc",
    "RUNTIME_DIM": "desc.layout",
    "RUNTIME_F32_VAL": "desc.attr",
    "RUNTIME_S32_VAL": "desc.attr",
}
# Tensors that may be left out though their arguments have no default.
_MAY_BE_NONE = ("stat", "bias_desc", "_iter_desc", "_iter_c_desc")


def onednn_text() -> str:
    """The stub of `restride.onednn`."""
    arguments = [f"    {name}: Final = {value.value}" for name, value in onednn.Arg.__members__.items()]
    # To type checkers the members are integers, so that a dict of them is a dict of integers.
    arg = "\n".join(["class Arg:", f'    """{_first_line(onednn.Arg)}"""', "", *arguments])
    primitives = [_primitive(getattr(onednn, name)) for name in onednn.__all__ if _is_derived(name)]
    return (
        "\n\n".join(
            [_HEAD.rstrip() + "\n" + _imports(onednn), "PrimitiveDesc = PrimitiveDescBase", arg, *primitives]
        )
        + "\n"
    )


def package_text() -> str:
    """The stub of `restride`: its public names, then those of earlier versions."""
    names = "".join(f"{name}: DataType\n" for name in restride.__all__ if _is_data_type(name))
    earlier = "".join(f"{old} = {new}\n" for old, new in restride._EARLIER_NAMES.items())
    arguments = "".join(f"ARG_{name}: int\n" for name in onednn.Arg.__members__)
    more = "".join(
        f"from .onednn import {name} as {name}\n"
        for name in sorted(onednn.__all__)
        if name not in restride.__all__ and name != "Arg"
    )
    return (
        '"""Public names, as tests/support/onednn_stub.py writes them (pytest --update-golden)."""\n\n'
        f"{_imports(restride)}{more}\n__version__: str\n{names}\n"
        f"# Names of earlier versions, as are those from `onednn` but for itself.\n{earlier}{arguments}"
    )


def ops_text() -> str:
    """The stub of `restride.ops`: its functions, and the table of primitives, which the library reads."""
    functions = "".join(f"{_function(name)}\n" for name in restride.ops.__all__)
    return (
        '"""Operators, as tests/support/onednn_stub.py writes them (pytest --update-golden)."""\n\n'
        "from collections.abc import Mapping, Sequence\nfrom typing import Any\n\n"
        f"PRIMITIVES: Mapping[str, str]\n\n{functions}"
    )


def _function(name: str) -> str:
    """A function of `restride.ops`: the types of attributes are those of their defaults."""
    shown = inspect.signature(getattr(restride.ops, name))
    parameters = []
    for parameter in shown.parameters.values():
        kind = "Any"
        if parameter.name == "outputs":
            kind = "int | None"
        elif parameter.kind is parameter.KEYWORD_ONLY and isinstance(
            parameter.default, bool | int | float | str
        ):
            kind = type(parameter.default).__name__
        elif isinstance(parameter.default, tuple):
            kind = "Sequence[Any]"
        default = parameter.empty if parameter.default is parameter.empty else _Default()
        parameters.append(parameter.replace(annotation=_Word(kind), default=default))
    return f"def {name}{shown.replace(parameters=parameters)} -> Any: ..."


class _Word:
    """An annotation that is written as it is."""

    def __init__(self, word: str) -> None:
        self._word = word

    def __repr__(self) -> str:
        return self._word


class _Default:
    """A default value, which a stub leaves out."""

    def __repr__(self) -> str:
        return "..."


def _is_derived(name: str) -> bool:
    value = getattr(onednn, name)
    return isinstance(value, type) and issubclass(value, Primitive) and name not in ("Primitive", "Reorder")


def _is_data_type(name: str) -> bool:
    return isinstance(getattr(restride, name), restride.DataType)


def _imports(module: Any) -> str:
    """A line for each public name that is defined elsewhere."""
    lines = []
    for name in sorted(module.__all__):
        value = getattr(module, name)
        if module is onednn and (_is_derived(name) or name in ("Arg", "PrimitiveDesc")):
            continue
        if inspect.ismodule(value):
            lines.append(f"from . import {name} as {name}")
        elif name != "__version__" and not (module is restride and _is_data_type(name)):
            lines.append(f"from .{_origin(module, name)} import {name} as {name}")
    return "".join(f"{line}\n" for line in lines)


def _origin(module: Any, name: str) -> str:
    """The module that a name is imported from, below `restride`."""
    if name in array_stub.NAMES and module is restride:
        return "arrays.functions"
    value = getattr(module, name)
    where = value.__module__ if isinstance(value, type) or inspect.isfunction(value) else _CONSTANTS[name]
    return str(where).removeprefix("restride.")


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
