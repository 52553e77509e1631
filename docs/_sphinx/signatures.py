"""One signature for a function that type checkers see as several: every argument, with all that it may be.

Overloads say which call gives what; as a list in front of a function they fill a screen. The last one of each
is the general one. What a call gives is the union of what they give. Those of functions on arrays stand in a
stub.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

from sphinx.pycode import ModuleAnalyzer

import restride.typing

_STUB = Path(restride.typing.__file__).parent / "arrays" / "functions.pyi"
_EMPTY = inspect.Parameter.empty
# What stands for a type of the caller's own, in words that say what may be passed.
_BOUNDS = {"Owned": "OtherArray", "NDArray[Scalar]": "NDArray[Any]"}
_BOUND = re.compile("|".join(rf"\b{re.escape(name)}" for name in _BOUNDS))
_OPTIONS = re.compile(r"Unpack\[(\w+)\]")


def setup(app: Any) -> dict[str, bool]:
    """Join the overloads of each function when its module is read."""
    analyze = ModuleAnalyzer.analyze

    def analyzed(self: ModuleAnalyzer) -> None:
        is_new = not self._analyzed
        analyze(self)
        if is_new and self.modname.partition(".")[0] == "restride":
            module = importlib.import_module(self.modname)
            stub = ModuleAnalyzer.for_file(str(_STUB), "functions")
            analyze(stub)
            own = {
                name: all_
                for name, all_ in stub.overloads.items()
                if getattr(getattr(module, name, None), "__module__", "") == self.modname
            }
            found = {**self.overloads, **own}
            self.overloads = {name: [_joined(module, name, all_)] for name, all_ in found.items()}

    ModuleAnalyzer.analyze = analyzed
    return {"parallel_read_safe": True}


def _joined(module: Any, name: str, overloads: list[inspect.Signature]) -> inspect.Signature:
    function: Any = module
    for part in name.split("."):
        function = getattr(function, part)
    own = inspect.signature(function)
    parameters = [
        parameter.replace(annotation=_annotation(parameter, overloads))
        for parameter in own.parameters.values()
    ]
    given = dict.fromkeys(_told(each.return_annotation) for each in overloads)
    results = [each for each in given if each != "Any"]
    return own.replace(parameters=parameters, return_annotation=" | ".join(results) or _EMPTY)


def _annotation(parameter: inspect.Parameter, overloads: list[inspect.Signature]) -> Any:
    """What the last overload that has the argument says of it, or one that says the same and more."""
    last = overloads[-1].parameters.get(parameter.name)
    general = "" if last is None else str(last.annotation)
    found = [each for overload in overloads for each in _said_of(parameter, overload, general)]
    if not found:
        return _EMPTY
    whole = set(found[-1].split(" | "))
    return max(
        (each for each in found if whole <= set(each.split(" | "))), key=lambda each: each.count(" | ")
    )


def _said_of(parameter: inspect.Parameter, overload: inspect.Signature, general: str) -> list[str]:
    found = overload.parameters.get(parameter.name)
    if found is not None and found.annotation is not _EMPTY:
        # What only stands before a needed argument says the same in the general overload.
        is_left_out = found.default is _EMPTY and parameter.default is None
        is_left_out = is_left_out and str(found.annotation) not in general
        return [_told(found.annotation) + (" | None" if is_left_out else "")]
    for rest in overload.parameters.values():
        options = _OPTIONS.fullmatch(str(rest.annotation))
        kinds = getattr(restride.typing, options[1]).__annotations__ if options else {}
        if parameter.name in kinds:
            return [_told(kinds[parameter.name])]
    return []


def _told(annotation: Any) -> str:
    text = getattr(annotation, "__forward_arg__", annotation)
    return _BOUND.sub(lambda name: _BOUNDS[name[0]], str(text))
