"""What every primitive is: a handle of a descriptor and of its solution, without a state of its own."""

from __future__ import annotations

from typing import Any, ClassVar

from ..errors import InvalidArguments
from .base import PrimitiveDescBase
from .calls import own


class PrimitiveHandle:
    """Truth, text, copies and descriptor of a primitive; empty ones are False."""

    kind: ClassVar[str]

    __slots__ = ("_impl", "_pd")
    _impl: Any
    _pd: Any

    def __init_subclass__(cls) -> None:
        # Python names a method by where it was written, which is a class that callers never see.
        if "kind" in vars(cls):
            own(cls, "__init__", cls.kind)
            own(cls, "execute", f"{cls.kind}.execute")

    def __bool__(self) -> bool:
        return self._impl is not None

    def __repr__(self) -> str:
        return f"restride.{self.kind}({self._pd!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Machine code does not travel: the copy is made of the descriptor, and finds or compiles its own.
        return type(self), ((self._pd,) if self else ())

    def get_primitive_desc(self) -> Any:
        """The primitive descriptor."""
        return self._pd

    def get_kind(self) -> str:
        """The primitive kind, as its descriptor has it."""
        return str(self._pd.get_kind())


def described(kind: str, of: type[PrimitiveDescBase], pd: object) -> Any:
    """A primitive descriptor of the right kind, empty for None. Raises InvalidArguments for another."""
    if pd is None:
        return of()
    if isinstance(pd, of):
        return pd
    raise InvalidArguments(
        f"{kind}: no primitive descriptor",
        code="RS-V08",
        why=f"{type(pd).__name__} is no rs.{kind}.PrimitiveDesc",
        hint=f"make one with rs.{kind}.PrimitiveDesc",
    )
