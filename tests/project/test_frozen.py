"""Frozen dataclasses beside those of the standard library, which are made of the same class bodies."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
import pickle
from typing import Any

import pytest

from restride import frozen


class _Values:
    """Two numbers, a list that each has for itself, a text that is not compared, and what is derived."""

    first: int
    second: float = 0.5
    third: tuple[int, ...] = dataclasses.field(default_factory=tuple, repr=False)
    note: str = dataclasses.field(default="", compare=False)
    total: float = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", self.first + self.second)

    def doubled(self) -> float:
        """A method of the class."""
        return 2 * self.total


def _body(cls: type, name: str) -> type:
    """The same class once more, under a name by which `pickle` finds it."""
    body = {key: value for key, value in vars(cls).items() if key not in ("__dict__", "__weakref__")}
    return type(cls)(name, cls.__bases__, {**body, "__qualname__": name})


Ours = frozen.dataclass(frozen=True, slots=True)(_body(_Values, "Ours"))
Theirs = dataclasses.dataclass(frozen=True, slots=True)(_body(_Values, "Theirs"))
BOTH: Any = pytest.mark.parametrize("cls", [Ours, Theirs], ids=["ours", "the standard library's"])
ARGUMENTS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((1,), {}),
    ((1, 2.5), {"note": "seen"}),
    ((), {"first": -0.0, "third": (4, 5)}),
    ((-math.inf, 1e-300, (1,), "x"), {}),
]


@pytest.mark.parametrize(("args", "named"), ARGUMENTS)
def test_values_have_the_same_fields_and_text(args: Any, named: Any) -> None:
    ours, theirs = Ours(*args, **named), Theirs(*args, **named)
    assert repr(ours) == repr(theirs).replace("Theirs", "Ours")
    assert repr(dataclasses.astuple(ours)) == repr(dataclasses.astuple(theirs))
    assert hash(ours) == hash(theirs)
    assert ours != theirs
    assert repr(ours.doubled()) == repr(theirs.doubled())


@BOTH
def test_values_are_equal_by_the_fields_that_are_compared(cls: Any) -> None:
    assert cls(1) == cls(1, note="another")
    assert hash(cls(1)) == hash(cls(1, note="another"))
    assert cls(1) != cls(2)
    assert cls(1) != (1, 0.5, (), 1.5)
    assert cls(1, third=(math.nan,)) == cls(1, third=(math.nan,))  # one object, as in tuples
    assert cls(1).__eq__(1) is NotImplemented


@BOTH
def test_nothing_is_set_or_deleted(cls: Any) -> None:
    value = cls(1)
    for name in ("first", "total"):
        with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot assign to field '{name}'"):
            setattr(value, name, 2)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'first'"):
        del value.first
    assert not hasattr(value, "__dict__")


@BOTH
def test_values_are_copied_pickled_replaced_and_matched(cls: Any) -> None:
    value = cls(1, 2.0, (3,), "note")
    for other in (
        copy.copy(value),
        copy.deepcopy(value),
        *(pickle.loads(pickle.dumps(value, p)) for p in (2, 5)),
    ):
        assert (other, other.note, other.total) == (value, "note", 3.0)
    changed = dataclasses.replace(value, first=5)
    assert (changed.first, changed.second, changed.total) == (5, 2.0, 7.0)
    match value:
        case cls(first, second):
            assert (first, second) == (1, 2.0)
        case _:
            pytest.fail("no match")


@BOTH
def test_wrong_arguments_are_type_errors_that_name_the_class(cls: Any) -> None:
    for args, named in (((), {}), ((1, 2, 3, 4, 5), {}), ((1,), {"total": 2}), ((1,), {"first": 1})):
        with pytest.raises(TypeError, match=rf"{cls.__name__}.__init__\(\)"):
            cls(*args, **named)


def test_signatures_and_docstrings_say_the_same() -> None:
    parameters = inspect.signature(Ours).parameters
    assert list(parameters) == list(inspect.signature(Theirs).parameters)
    assert [p.annotation for p in parameters.values()] == ["int", "float", "tuple[int, ...]", "str"]
    assert parameters["second"].default == 0.5
    assert (Ours.__doc__, Ours.__module__, Ours.__init__.__module__) == (_Values.__doc__, __name__, __name__)


def test_own_methods_are_kept() -> None:
    def made(decorated: Any) -> Any:
        @decorated(frozen=True, slots=True)
        class Odd:
            """Equal where both are odd or even."""

            value: int

            def __eq__(self, other: object) -> bool:
                return isinstance(other, type(self)) and self.value % 2 == other.value % 2

            def __hash__(self) -> int:
                return self.value % 2

            def __repr__(self) -> str:
                return f"<{self.value}>"

        return Odd

    for cls in map(made, (frozen.dataclass, dataclasses.dataclass)):
        assert cls(1) == cls(3) != cls(2)
        assert (hash(cls(7)), repr(cls(7))) == (1, "<7>")


def test_values_without_equality_are_equal_to_themselves_alone() -> None:
    for decorated in (frozen.dataclass, dataclasses.dataclass):
        cls: Any = decorated(frozen=True, slots=True, eq=False)(_body(_Values, "Itself"))
        value = cls(1)
        assert value == value != cls(1)
        assert hash(value) == object.__hash__(value)


@BOTH
def test_heirs_are_frozen_too_whoever_makes_them(cls: Any) -> None:
    class Named(cls):  # type: ignore[misc]
        name: str = "x"

    for decorated in (frozen.dataclass, dataclasses.dataclass):
        heir: Any = decorated(frozen=True, slots=True)(_body(Named, "Heir"))
        value = heir(1, name="y")
        assert (value.total, value.name) == (1.5, "y")
        assert value == dataclasses.replace(heir(1), name="y") != heir(1)
        with pytest.raises(dataclasses.FrozenInstanceError, match="field 'name'"):
            value.name = "z"
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):
        dataclasses.dataclass(_body(Named, "Open"))


def test_classes_say_what_they_are() -> None:
    assert repr(Ours.__dataclass_params__) == repr(Theirs.__dataclass_params__)


def test_classes_that_are_not_frozen_are_the_standard_library_s() -> None:
    cls: Any = frozen.dataclass(slots=True)(_body(_Values, "Open"))
    value = cls(1)
    value.first = 2
    assert (value.first, cls.__hash__) == (2, None)
