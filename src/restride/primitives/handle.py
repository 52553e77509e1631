"""What every primitive is: a handle of a descriptor and of its solution, without a state of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from ..errors import InvalidArguments
from ..runtime.memory import Memory
from ..runtime.stream import Stream
from .base import PrimitiveDescBase
from .calls import own
from .submitting import check_sycl, checked_deps


class PrimitiveHandle:
    """Truth, text, copies and descriptor of a primitive; empty ones are False."""

    kind: ClassVar[str]
    # How one makes it, for errors.
    usage: ClassVar[str] = ""

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

    def execute_sycl(
        self, stream: Stream, src: Any, dst: Memory | None = None, deps: Iterable[Any] = ()
    ) -> Any:
        """As `execute`, on a SYCL stream, after the events `deps`; the event of the execution (P05, P09).

        `deps` and the event are dpctl's `SyclEvent`. Waiting for the event is enough to read the destination.
        Raises InvalidArguments on every other engine, and for what is no event (P08).
        """
        check_sycl(self.kind, self._check_usable(), self._pd.get_engine())
        return self._execute_checked(stream, src, dst, checked_deps(self.kind, deps))

    def _execute_checked(self, stream: Stream, src: Any, dst: Any, deps: Sequence[Any] = ()) -> Any:
        """Check everything, run, and give the event; `src` and `dst` as `execute` takes them."""
        raise NotImplementedError

    def _check_usable(self) -> Any:
        if self._impl is None:
            raise InvalidArguments(
                f"{self.kind}.execute: the primitive is empty",
                code="RS-R04",
                why="it was made without a primitive descriptor (R05)",
                hint=f"make it with {self.usage or f'rs.{self.kind}(pd)'}",
            )
        return self._impl

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
