"""Properties that are computed once and kept.

In Python 3.11 `functools.cached_property` holds one lock for all instances while it computes: threads that
compile wait for one another, and a child of fork waits for a thread that it has not got.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class kept_property(Generic[T]):  # noqa: N801 - named as what it decorates, like property
    """A property whose first value is kept in the instance; threads may compute it twice, and keep either."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...

    def __get__(self, instance: object | None, owner: type | None = None) -> Self | T:
        if instance is None:
            return self
        value: T = instance.__dict__.setdefault(self._name, self._compute(instance))
        return value
