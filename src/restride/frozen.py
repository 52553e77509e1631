"""Frozen dataclasses that are created in a third of the time: `import restride` creates forty.

The standard library compiles every method of a class separately, six for a frozen one. Here, methods that
name the fields are compiled together, and the others are shared by all classes. To type checkers, `dataclass`
is the standard library's; `fields`, `replace`, `copy`, `pickle`, `match` and subclasses treat these classes
as they treat standard ones. Fields are positional: for `kw_only` or `InitVar`, use the standard decorator.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen=False, slots=False, eq=True):
        """The decorator; classes that are not frozen or have no slots are passed to the standard library."""
        if not (frozen and slots):
            return dataclasses.dataclass(frozen=frozen, slots=slots, eq=eq)
        return lambda cls: _made(cls, eq)


def _made(cls: Any, has_eq: bool) -> Any:
    own = {name for name, value in cls.__dict__.items() if value is not None}
    compiled = ("__init__", "__eq__", "__hash__") if has_eq else ("__init__",)
    # A subclass of a frozen class must be frozen, and its own subclasses must see that.
    is_heir = any(dataclasses.is_dataclass(base) for base in cls.__bases__)
    cls = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True, frozen=is_heir)(cls)
    for name, value in (("init", True), ("repr", True), ("eq", has_eq), ("frozen", True)):
        setattr(cls.__dataclass_params__, name, value)
    fields = dataclasses.fields(cls)
    namespace = {"__name__": cls.__module__, "_set": object.__setattr__, "_MISSING": MISSING}
    for f in fields:
        namespace |= {f"_default_{f.name}": f.default, f"_new_{f.name}": f.default_factory}
    exec("\n".join(_source(fields, hasattr(cls, "__post_init__"))), namespace)
    namespace["__init__"].__annotations__ = {f.name: f.type for f in fields if f.init} | {"return": None}
    for name in compiled:
        namespace[name].__qualname__ = f"{cls.__qualname__}.{name}"
    for name, method in ({name: namespace[name] for name in compiled} | _SHARED).items():
        if name not in own:
            setattr(cls, name, method)
    return cls


def _source(fields: Sequence[Field[Any]], has_post_init: bool) -> Iterator[str]:
    """Yield the methods that name the fields. Fields with `init=False` are set in `__post_init__`."""
    params_of_init = [f for f in fields if f.init]
    params = (f.name if f.default is f.default_factory else f"{f.name}={_default(f)}" for f in params_of_init)
    yield f"def __init__(self, {', '.join(params)}):"
    for f in params_of_init:
        value = f.name
        if f.default_factory is not MISSING:
            value = f"_new_{value}() if {value} is _MISSING else {value}"
        yield f"    _set(self, {f.name!r}, {value})"
    yield "    self.__post_init__()" if has_post_init else "    return"
    mine, theirs = (
        f"({''.join(f'{side}.{f.name}, ' for f in fields if f.compare)})" for side in ("self", "other")
    )
    yield "def __eq__(self, other):"
    yield f"    return {mine} == {theirs} if other.__class__ is self.__class__ else NotImplemented"
    yield f"def __hash__(self):\n    return hash({mine})"


def _default(field: Field[Any]) -> str:
    return f"_default_{field.name}" if field.default_factory is MISSING else "_MISSING"


# --- methods that do not depend on the fields ---------------------------------------------------------------


def _repr(self: Any) -> str:
    values = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr)
    return f"{type(self).__qualname__}({values})"


def _setattr(self: Any, name: str, value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(self: Any, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, f.name) for f in dataclasses.fields(self)]


def _setstate(self: Any, state: Sequence[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


_SHARED = {
    "__repr__": _repr,
    "__setattr__": _setattr,
    "__delattr__": _delattr,
    "__getstate__": _getstate,
    "__setstate__": _setstate,
}
