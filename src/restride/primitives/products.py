"""What convolutions, inner products and matmuls share: a product of a source and weights, or a gradient.

Bias and dilations may be left out by place: what follows them is told by its type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, NoReturn

from ..desc.arguments import (
    ARG_BIAS,
    ARG_DIFF_DST,
    ARG_DIFF_SRC,
    ARG_DIFF_WEIGHTS,
    ARG_DST,
    ARG_SRC,
    ARG_WEIGHTS,
)
from ..desc.memory_desc import MemoryDesc
from ..errors import InvalidArguments
from .forms import Args, CallArguments, NamedArgs
from .pointwise import OneStepPrimitiveDesc, check_open
from .prop_kind import PropKind

Tensors = tuple[MemoryDesc, MemoryDesc, MemoryDesc]
Refuse = Callable[[str, str], NoReturn]

_NO_DESC = MemoryDesc()
_TENSORS = {
    "forward": ("src", "weights", "dst"),
    "backward_data": ("diff_src", "weights", "diff_dst"),
    "backward_weights": ("src", "diff_weights", "diff_dst"),
}
_BIASES = "bias", "diff_bias"
_RESULTS = "dst", "diff_dst"


class ProductPrimitiveDesc(OneStepPrimitiveDesc):
    """A primitive descriptor of source, weights and result, one of which is written."""

    _direction: ClassVar[str] = "forward"
    # False where dims may be known only at execution.
    _needs_dims: ClassVar[bool] = True

    __slots__ = ()

    def _placed(self, args: Args, named: NamedArgs) -> tuple[Args, NamedArgs]:
        return _with_dilates(_with_bias(args, named, self._names()), self._names()), named

    def _names(self) -> list[str]:
        return list(self.form.shown.parameters)

    def _parsed_kind(self, arguments: CallArguments) -> PropKind:
        return super()._parsed_kind(arguments) if self._direction == "forward" else PropKind[self._direction]

    def _parsed_tensors(
        self, what: str, arguments: CallArguments
    ) -> tuple[dict[str, MemoryDesc], MemoryDesc]:
        """Source, weights and result by name, and the bias: the zero descriptor where there is none."""
        names = _TENSORS[self._direction]
        found = {name: self._described(what, name, getattr(arguments, name)) for name in names}
        name = next((name for name in _BIASES if name in self._names()), "")
        bias = getattr(arguments, name) if name else None
        md = _NO_DESC if bias is None else self._described(what, name, bias)
        return found, MemoryDesc(md.dims, md.data_type) if md.format_kind == "any" else md

    def _described(self, what: str, name: str, md: object) -> MemoryDesc:
        return check_open(what, name, md, is_known=self._needs_dims)

    def _by_argument(self, tensors: Tensors, bias: MemoryDesc) -> dict[int, MemoryDesc]:
        """The tensors of an execution by argument, the one that is written last."""
        source, weights, result = tensors
        if self._direction == "forward":
            more = {} if bias.is_zero() else {ARG_BIAS: bias}
            return {ARG_SRC: source, ARG_WEIGHTS: weights, **more, ARG_DST: result}
        if self._direction == "backward_data":
            return {ARG_WEIGHTS: weights, ARG_DIFF_DST: result, ARG_DIFF_SRC: source}
        return {ARG_SRC: source, ARG_DIFF_DST: result, ARG_DIFF_WEIGHTS: weights}

    @property
    def _written(self) -> str:
        """What is written, by its name."""
        return {"forward": "dst", "backward_data": "diff_src", "backward_weights": "diff_weights"}[
            self._direction
        ]


def chosen_tensors(tensors: Tensors, wanted: Iterable[MemoryDesc]) -> Tensors:
    """Source, weights and result; of format "any" each is as kernels want it."""
    pairs = zip(tensors, wanted, strict=True)
    source, weights, result = (best if md.format_kind == "any" else md for md, best in pairs)
    return source, weights, result


def refuse_dims(what: str, named: Mapping[str, MemoryDesc]) -> Refuse:
    """What raises InvalidArguments for tensors whose dims do not fit, with why and a hint."""
    where = "; ".join(f"{name} {md}" for name, md in named.items())

    def refuse(why: str, hint: str) -> NoReturn:
        raise InvalidArguments(f"{what}: dims do not fit", code="RS-X01", where=where, why=why, hint=hint)

    return refuse


# --- what may be left out by place --------------------------------------------------------------------------


def _with_bias(args: Args, named: NamedArgs, names: list[str]) -> Args:
    """Arguments by place with None where there is no bias: the result stands there."""
    place = next((names.index(name) for name in _BIASES if name in names), len(args))
    is_by_name = not {*_BIASES, *_RESULTS}.isdisjoint(named)
    has_both = len(args) > place + 1 and isinstance(args[place + 1], MemoryDesc)
    if len(args) <= place or is_by_name or has_both:
        return args
    return *args[:place], None, *args[place:]


def _with_dilates(args: Args, names: list[str]) -> Args:
    """Arguments by place with None where three runs of numbers stand: strides and both paddings."""
    if "dilates" not in names:
        return args
    start = names.index("strides")
    runs = [_is_run(each) for each in args[start : start + 4]]
    if runs[:3] == [True] * 3 and runs[3:] != [True]:
        return *args[: start + 1], None, *args[start + 1 :]
    return args


def _is_run(value: object) -> bool:
    """True for what may be one number for each spatial dim."""
    return isinstance(value, int | list | tuple) and not isinstance(value, bool)
