"""Post-ops: what is done to a result before it is stored (P06; R29–R32)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..dtypes import DataType
from ..errors import InvalidArguments, Unimplemented
from .memory_desc import MemoryDesc
from .parse import is_scalar, parse_int, short_repr

_NAN_BITS = 0x7FC00000
_TOO_LARGE = "it must be one real number that a float can hold"

ELTWISE = frozenset(
    (
        *(
            "relu",
            "tanh",
            "elu",
            "square",
            "abs",
            "sqrt",
            "linear",
            "soft_relu",
            "logistic",
            "exp",
            "gelu_tanh",
        ),
        *("gelu_erf", "swish", "log", "clip", "clip_v2", "pow", "round", "mish", "hardswish", "hardsigmoid"),
    )
)
"""The eltwise algorithms of oneDNN, by name."""

BINARY = frozenset(("add", "mul", "max", "min", "div", "sub", "ge", "gt", "le", "lt", "eq", "ne", "select"))
"""The binary algorithms of oneDNN, by name."""


def missing(what: str) -> Unimplemented:
    """The one form of "not yet": names exactly what is missing."""
    return Unimplemented(
        f"{what} not provided by this version",
        why="reorder takes one common output scale and one sum",
        hint="drop it, or apply it as a separate step",
    )


def to_f32(value: Any, name: str) -> float:
    """`value` rounded to f32, as a Python float; inf and NaN are values. Errors name `name`."""
    if isinstance(value, bool | np.bool_ | str | bytes | complex | np.complexfloating) or not is_scalar(
        value
    ):
        raise _no_number(value, name)
    try:
        wide = float(value)
    except OverflowError:
        raise _no_number(value, name, _TOO_LARGE, "pass math.inf, or less") from None
    except Exception:
        raise _no_number(value, name) from None  # __float__ may raise anything
    with np.errstate(all="ignore"):
        return float(np.float32(wide))


def _no_number(
    value: object, name: str, why: str = "it must be one real number", hint: str = "pass a number, as 0.5"
) -> InvalidArguments:
    return InvalidArguments(f"{name} is {short_repr(value)}", why=why, hint=hint)


def f32_bits(value: float) -> int:
    """The bits of an f32 value, all NaNs alike: tells -0.0 from 0.0, and NaN equals itself."""
    return _NAN_BITS if value != value else int(np.float32(value).view(np.uint32))


@dataclass(frozen=True, slots=True)
class SumOp:
    """The sum post-op: dst = result + scale * (old dst - zero_point), old dst read as `data_type` (R29, R30).

    `scale` is an f32 value. Equality compares its bits, so that -0.0 is not 0.0 and NaN is itself.
    """

    scale: float = field(default=1.0, compare=False)
    zero_point: int = 0
    data_type: DataType | None = None
    scale_bits: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale_bits", f32_bits(self.scale))


class PostOps:
    """A chain of post-ops in order of execution (`dnnl::post_ops`). Mutable; attributes copy it (R08)."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: tuple[SumOp, ...] = ()

    def __len__(self) -> int:
        return len(self._entries)

    def __eq__(self, other: object) -> bool:
        return self._entries == other._entries if isinstance(other, PostOps) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<PostOps {', '.join(f'sum {entry.scale}' for entry in self._entries) or 'none'}>"

    def copy(self) -> PostOps:
        """A chain of its own with the same entries."""
        made = PostOps()
        made._entries = self._entries
        return made

    def append_sum(self, scale: float = 1.0, zero_point: int = 0, data_type: Any = None) -> None:
        """Add `scale * old dst` to the result (R29); scale 0 does not read dst.

        Raises Unimplemented for a second sum, a zero point, or another data type of dst.
        """
        factor = to_f32(scale, "append_sum: scale")
        shift = parse_int(zero_point, "append_sum: zero_point")
        dtype = None if data_type is None else DataType.parse(data_type)
        if shift:
            raise missing("a zero point of the sum post-op is")
        if dtype not in (None, DataType.undef):
            raise missing("a data type of the sum post-op is")
        if self._entries:
            raise missing("more than one sum post-op is")
        self._entries = (SumOp(factor),)

    def append_eltwise(self, alg: str, alpha: float = 0.0, beta: float = 0.0, scale: float = 1.0) -> None:
        """Apply an elementwise function to the result (P06). Raises Unimplemented: not provided yet."""
        _parse_alg("append_eltwise", alg, "eltwise_", ELTWISE)
        for value, name in ((alpha, "alpha"), (beta, "beta"), (scale, "scale")):
            to_f32(value, f"append_eltwise: {name}")
        raise missing("eltwise post-ops are")

    def append_binary(self, alg: str, desc: MemoryDesc) -> None:
        """Combine the result with another tensor (P06). Raises Unimplemented: not provided yet."""
        _parse_alg("append_binary", alg, "binary_", BINARY)
        if not isinstance(desc, MemoryDesc) or desc.is_zero():
            why = "it must be a MemoryDesc of the other operand"
            hint = "pass the .desc of the memory that holds it"
            raise InvalidArguments(f"append_binary: desc is {short_repr(desc)}", why=why, hint=hint)
        raise missing("binary post-ops are")

    def kind(self, index: int) -> str:
        """`"sum"`: the kind of entry `index`. Raises InvalidArguments beyond the chain."""
        self._entry(index)
        return "sum"

    def get_params_sum(self, index: int) -> tuple[float, int, DataType | None]:
        """Scale, zero point and data type of the sum at `index` (R32)."""
        entry = self._entry(index)
        return entry.scale, entry.zero_point, entry.data_type

    def get_params_eltwise(self, index: int) -> tuple[str, float, float, float]:
        """Algorithm, alpha, beta, scale of the eltwise at `index`. Raises InvalidArguments: there is none."""
        raise self._other_kind(index, "eltwise")

    def get_params_binary(self, index: int) -> tuple[str, MemoryDesc]:
        """Algorithm and descriptor of the binary at `index`. Raises InvalidArguments: there is none."""
        raise self._other_kind(index, "binary")

    def _entry(self, index: int) -> SumOp:
        at = parse_int(index, "post-op index")
        if not 0 <= at < len(self._entries):
            raise InvalidArguments(
                f"post-op index is {short_repr(at)}",
                why=f"the chain has {len(self._entries)} entries",
                hint="indices count from 0; len(post_ops) tells how many there are",
            )
        return self._entries[at]

    def _other_kind(self, index: int, wanted: str) -> InvalidArguments:
        self._entry(index)
        return InvalidArguments(
            f"post-op {index} is no {wanted}", why=f"its kind is '{self.kind(index)}'", hint="see kind()"
        )


def _parse_alg(call: str, alg: object, prefix: str, known: frozenset[str]) -> str:
    name = alg.removeprefix(prefix) if isinstance(alg, str) else ""
    if name not in known:
        hint = f"use one of {', '.join(sorted(known))}"
        raise InvalidArguments(
            f"{call}: alg is {short_repr(alg)}", why="there is no such algorithm", hint=hint
        )
    return name
