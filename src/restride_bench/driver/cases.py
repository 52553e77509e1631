"""One case of the driver as a frozen value, and the words that stand for it (spec 3.1)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

from .attr_text import Factors, Flags, PostOpTexts


@dataclass(frozen=True, slots=True)
class Strides:
    """Strides in elements of source and destination; empty where the tag says it."""

    src: tuple[int, ...] = ()
    dst: tuple[int, ...] = ()

    def __str__(self) -> str:
        return ":".join("x".join(map(str, side)) for side in (self.src, self.dst))


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What all cases have: dims, a name that means nothing, attributes, and which implementations will do."""

    driver: ClassVar[str] = ""

    dims: tuple[int, ...]
    name: str = ""
    attr_scales: Factors = ()
    attr_zero_points: Factors = ()
    attr_post_ops: PostOpTexts = ()
    attr_scratchpad: str = "library"
    attr_fpmath: str = "strict"
    attr_acc_mode: str = "strict"
    attr_rounding_mode: str = ""
    attr_deterministic: bool = False
    attr_dropout: str = ""
    attr_precomputed_reductions: str = ""
    impl: str = ""
    skip_impl: str = ""
    ctx_init: str = "auto"
    ctx_exe: str = "auto"

    def knobs(self, is_full: bool = False) -> list[str]:
        """The knobs as words: those that are not at their defaults, or all."""
        found = [(f.name, getattr(self, f.name), f.default) for f in fields(self) if f.name not in _DESC]
        ordered = [knob for name in self.order() for knob in found if knob[0] == name]
        return [knob_text(name, value) for name, value, default in ordered if is_full or value != default]

    @classmethod
    def order(cls) -> tuple[str, ...]:
        """Names of the knobs as a reproducer line has them."""
        return _ATTR_KNOBS

    @classmethod
    def loops(cls) -> tuple[str, ...]:
        """The same; the first is the outermost loop of an expansion."""
        return cls.order()

    def words(self, is_full: bool = False) -> str:
        """The case as benchdnn's command line has it: driver, knobs, dims."""
        return " ".join((f"--{self.driver}", *self.knobs(is_full), self.desc))

    @property
    def desc(self) -> str:
        """Dims and name: `2x64x3x3`, `48x64_n"weights"`."""
        return self.shape + (f'_n"{self.name}"' if self.name else "")

    @property
    def shape(self) -> str:
        """The dims: `2x64x3x3`."""
        return "x".join(map(str, self.dims))

    def attr_words(self) -> str:
        """The knobs of attributes, for the token %attr%."""
        return " ".join(word for word in self.knobs() if word.startswith("--attr"))


_DESC = ("dims", "name")
_ATTR_KNOBS = tuple(f.name for f in fields(Case) if f.name not in _DESC)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReorderCase(Case):
    """A reorder."""

    driver: ClassVar[str] = "reorder"

    sdt: str = "f32"
    ddt: str = "f32"
    stag: str = "abx"
    dtag: str = "abx"
    strides: Strides = Strides()
    oflag: Flags = ()
    cross_engine: str = "none"
    runtime_dim_mask: int = 0
    def_scales: tuple[float, ...] = ()

    @classmethod
    def order(cls) -> tuple[str, ...]:
        """Names of the knobs as a reproducer line has them."""
        own = ("sdt", "ddt", "stag", "dtag", "strides", "oflag", "cross_engine", "runtime_dim_mask")
        return (*own, *_ATTR_KNOBS, "def_scales")

    @classmethod
    def loops(cls) -> tuple[str, ...]:
        """The same, the outermost loop first: masks of runtime dims are the innermost one."""
        return (*(name for name in cls.order() if name != "runtime_dim_mask"), "runtime_dim_mask")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffleCase(Case):
    """A shuffle, forward or backward."""

    driver: ClassVar[str] = "shuffle"

    dir: str = "FWD_D"
    dt: str = "f32"
    tag: str = "abx"
    axis: int = 1
    group: int = 1

    @classmethod
    def order(cls) -> tuple[str, ...]:
        """Names of the knobs as a reproducer line has them."""
        return ("dir", "dt", "tag", "axis", "group", *_ATTR_KNOBS)


def knob_text(field: str, value: Any) -> str:
    """A knob as a word: `--runtime-dim-mask=63`."""
    return f"--{field.replace('_', '-')}={_value_text(value)}"


def _value_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        # Commas separate def-scales, which are numbers, and peers; the others are parts of an attribute.
        return ("," if value and isinstance(value[0], float | int | str) else "+").join(map(str, value))
    return str(value)
