"""One case of the driver as a frozen value, and the words that stand for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from .attr_text import Factors, FactorText, PostOpTexts


class Several(tuple[Any, ...]):
    """One value for each of several tensors, with colons between them: `abx:any`."""

    __slots__ = ()

    def __str__(self) -> str:
        return ":".join(map(str, self))


class Strides(Several):
    """The strides of each of several tensors in elements; empty where a tag says it."""

    __slots__ = ()

    def __str__(self) -> str:
        return ":".join("x".join(map(str, side)) for side in self)

    def formats(self, *tags: str) -> tuple[Any, ...]:
        """What each tensor is described by: strides, or else the tag."""
        return tuple(side or tag for side, tag in zip(self, tags, strict=True))

    def why_invalid(self, **tags: str) -> Iterator[str]:
        """Why strides make no sense beside the tags of the same tensors, which are any or abx by default."""
        for side, (name, tag) in zip(self, tags.items(), strict=True):
            if side and tag not in ("any", "abx"):
                yield f"Invalid case: strides and a tag, {tag}, for {name}"


ROW_MAJOR, F32_TWICE = Several(("abx",)), Several(("f32", "f32"))
NO_STRIDES, NO_STRIDES_OF_THREE = Strides(((), ())), Strides(((), (), ()))
"""What most knobs of several tensors are by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What all cases have: dims, a name that means nothing, attributes, and which implementations will do."""

    driver: ClassVar[str] = ""
    # True for what may have a depthwise convolution as a post-op.
    takes_depthwise: ClassVar[bool] = False

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
        return ATTR_KNOB_NAMES

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

    def attr_dims(self, arg: str) -> tuple[int, ...]:
        """The dims of the tensor that scales and zero points of an argument are of."""
        return self.dims

    def attr_mask(self, factor: FactorText) -> int:
        """Bit i where dim i of that tensor has values of its own."""
        return factor.mask(len(self.attr_dims(factor.arg)))

    def post_op_dims(self, index: int) -> tuple[int, ...]:
        """The dims of what a post-op is done to."""
        return self.dims

    def attr_words(self) -> str:
        """The knobs of attributes, for the token %attr%."""
        return " ".join(word for word in self.knobs() if word.startswith("--attr"))


_DESC = ("dims", "name", "vdims")
ATTR_KNOB_NAMES = tuple(f.name for f in fields(Case) if f.name not in _DESC)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeveralCase(Case):
    """A case of several tensors, with dims of each: `3x5x6:1x5x6`. `dims` are those of the result.

    `vdims` are as many as the longest has; those that a tensor leaves out are 1.
    """

    vdims: tuple[tuple[int, ...], ...] = ()

    @property
    def shape(self) -> str:
        """The dims of each tensor."""
        return ":".join("x".join(map(str, dims)) for dims in self.vdims)


def knob_text(field: str, value: Any) -> str:
    """A knob as a word: `--runtime-dim-mask=63`."""
    return f"--{field.replace('_', '-')}={_value_text(value)}"


def _value_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple) and not isinstance(value, Several):
        # Commas separate def-scales, which are numbers, and peers; the others are parts of an attribute.
        return ("," if value and isinstance(value[0], float | int | str) else "+").join(map(str, value))
    return str(value)
