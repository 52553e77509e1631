"""Primitive descriptors of shuffles: both directions, in the form of version 0.9 and of version 3 (S03)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from ..desc.memory_desc import MemoryDesc
from ..errors import InvalidArguments
from ..runtime.engine import Engine
from .args import ARG_DIFF_DST, ARG_DIFF_SRC, ARG_DST, ARG_SRC
from .base import PrimitiveDescBase, find_implementation
from .calls import Form, signature
from .given import check_described, parse_engine
from .prop_kind import PropKind
from .query import Query
from .shuffle_checks import check_formats, checked_attr, no_desc, resolved
from .shuffle_desc import (
    ShuffleBackwardDesc,
    ShuffleForwardDesc,
    check_concrete,
    check_split,
    parse_forward,
)
from .shuffle_problem import ShuffleProblem, check_shuffle, shuffle_fields, solve_shuffle

_NO_DESC = MemoryDesc()


class _Move(NamedTuple):
    """What a descriptor stands for: `reads` becomes `writes`, its axis shuffled by `group_size`."""

    prop_kind: PropKind
    reads: MemoryDesc
    writes: MemoryDesc
    axis: int
    group_size: int


class _Given(NamedTuple):
    """The arguments of a primitive descriptor; `move` checks those of the shuffle itself."""

    engine: Any
    attr: Any
    allow_empty: bool
    move: Callable[[], _Move]


class ShufflePrimitiveDesc(PrimitiveDescBase):
    """What both directions share: `_src` is what is read, `_dst` what is written."""

    of_desc: ClassVar[Form[_Given]]
    of_mds: ClassVar[Form[_Given]]
    _word_of_v3: ClassVar[str]

    __slots__ = ("_move",)
    _move: _Move

    def _given(self, args: tuple[Any, ...], named: dict[str, Any]) -> _Given:
        is_v3 = bool(args and isinstance(args[0], Engine)) or self._word_of_v3 in named
        return (self.of_mds if is_v3 else self.of_desc).of(args, named)

    def _empty(self) -> None:
        super()._empty()
        self._move = _Move(PropKind.undef, _NO_DESC, _NO_DESC, 0, 0)

    def _create(self, given: _Given) -> None:
        engine = parse_engine(f"{self.kind}.PrimitiveDesc", given.engine)
        move = self._move = given.move()
        self._src, self._dst, self._attr = move.reads, move.writes, checked_attr(self.kind, given.attr)
        self._src_engine = self._dst_engine = self._engine = engine
        problem = ShuffleProblem(move.reads, move.writes, move.axis, self._forward_size(move))
        self._impl = find_implementation(
            (ShuffleProblem, problem, engine),
            lambda: solve_shuffle(check_shuffle(self.kind, problem), engine),
            self._verbose_fields,
        )

    def _forward_size(self, move: _Move) -> int:
        """The group size of the forward shuffle that moves the same way."""
        raise NotImplementedError

    def get_kind(self) -> str:
        """The primitive kind: "shuffle"."""
        return "shuffle"

    def get_prop_kind(self) -> PropKind:
        """The propagation kind; `PropKind.backward` for every backward shuffle."""
        self._solved()
        return self._move.prop_kind

    def get_axis(self) -> int:
        """The axis along which channels are shuffled."""
        self._solved()
        return self._move.axis

    def get_group_size(self) -> int:
        """The group size, as it was given."""
        self._solved()
        return self._move.group_size

    def _integers(self) -> dict[Query, int]:
        own = {Query.axis_s32: self._move.axis, Query.group_size_s64: self._move.group_size}
        return super()._integers() | (own if self else {})

    def _verbose_fields(self, op: str, impl: Any, ms: float) -> list[object]:
        move, engine = self._move, self._engine
        how = f"axis:{move.axis} group:{move.group_size}"
        kind = "" if engine is None else engine.kind
        return shuffle_fields((op, kind, move.prop_kind), impl, move.reads, (self._attr, how), ms)


_FORWARD = "ShuffleForward"


def _forward_of_desc(desc: Any, engine: Any, attr: Any = None, allow_empty: bool = False) -> _Given:
    def move() -> _Move:
        if not isinstance(desc, ShuffleForwardDesc):
            raise no_desc(_FORWARD, desc)
        return _Move(desc.prop_kind, desc.data_desc, desc.data_desc, desc.axis, desc.group_size)

    return _Given(engine, attr, allow_empty, move)


def _forward_of_mds(
    engine: Any,
    prop_kind: Any,
    src_md: Any,
    dst_md: Any,
    axis: Any,
    group_size: Any,
    attr: Any = None,
    allow_empty: bool = False,
) -> _Given:
    def move() -> _Move:
        what = f"{_FORWARD}.PrimitiveDesc"
        kind, src = parse_forward(what, prop_kind), check_concrete(what, "src_md", src_md)
        split = check_split(what, src.dims, axis, group_size)
        dst = resolved(check_described(what, "dst_md", dst_md), src)
        check_formats(_FORWARD, src, dst)
        return _Move(kind, src, dst, *split)

    return _Given(engine, attr, allow_empty, move)


class ShuffleForwardPrimitiveDesc(ShufflePrimitiveDesc):
    """Primitive descriptor of a forward shuffle (`dnnl::shuffle_forward::primitive_desc`).

    `PrimitiveDesc(desc, engine, attr=None, allow_empty=False)`, or as version 3 has it
    `PrimitiveDesc(engine, prop_kind, src_md, dst_md, axis, group_size, attr=None, allow_empty=False)`, where
    `dst_md` may be "any": it becomes that of the source. Without arguments it is empty and False. With
    `allow_empty`, a failure gives an empty descriptor, not an error (R04).

    Raises InvalidArguments for what cannot be shuffled, Unimplemented for attributes (S14), and for source
    and destination of different types or formats (S11).
    """

    kind = _FORWARD
    of_desc = Form(
        "ShuffleForward.PrimitiveDesc",
        signature("desc", "engine", attr=None, allow_empty=False),
        _forward_of_desc,
    )
    __signature__ = of_desc.shown
    of_mds = Form(
        "ShuffleForward.PrimitiveDesc",
        signature(
            *("engine", "prop_kind", "src_md", "dst_md", "axis", "group_size"), attr=None, allow_empty=False
        ),
        _forward_of_mds,
    )
    _word_of_v3 = "src_md"

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        if not self:
            return ShuffleForwardPrimitiveDesc, ()
        move = self._move
        args = (move.prop_kind, move.reads, move.writes, move.axis, move.group_size)
        return ShuffleForwardPrimitiveDesc, (self._engine, *args, self.get_primitive_attr())

    def _forward_size(self, move: _Move) -> int:
        return move.group_size

    def _named(self) -> dict[str, MemoryDesc]:
        return {"src": self._src, "dst": self._dst}

    def _exec_args(self) -> dict[int, MemoryDesc]:
        return {ARG_SRC: self._src, ARG_DST: self._dst}


_BACKWARD = "ShuffleBackward"


def _backward_of_desc(
    desc: Any, engine: Any, hint_fwd_pd: Any, attr: Any = None, allow_empty: bool = False
) -> _Given:
    def move() -> _Move:
        if not isinstance(desc, ShuffleBackwardDesc):
            raise no_desc(_BACKWARD, desc)
        data = desc.diff_data_desc
        return _backward((data, data), (desc.axis, desc.group_size), hint_fwd_pd)

    return _Given(engine, attr, allow_empty, move)


def _backward_of_mds(
    engine: Any,
    diff_src_md: Any,
    diff_dst_md: Any,
    axis: Any,
    group_size: Any,
    hint_fwd_pd: Any,
    attr: Any = None,
    allow_empty: bool = False,
) -> _Given:
    def move() -> _Move:
        what = f"{_BACKWARD}.PrimitiveDesc"
        diff_src = check_described(what, "diff_src_md", diff_src_md)
        split = check_split(what, diff_src.dims, axis, group_size)
        return _backward((diff_src, check_described(what, "diff_dst_md", diff_dst_md)), split, hint_fwd_pd)

    return _Given(engine, attr, allow_empty, move)


def _backward(mds: tuple[MemoryDesc, MemoryDesc], split: tuple[int, int], hint: object) -> _Move:
    like = _checked_hint(hint)
    known = next((md for md in mds if md.format_kind != "any"), None)
    diff_src, diff_dst = (resolved(md, known or like or MemoryDesc(md.dims, md.data_type)) for md in mds)
    check_formats(_BACKWARD, diff_dst, diff_src)
    return _Move(PropKind.backward, diff_dst, diff_src, *split)


class ShuffleBackwardPrimitiveDesc(ShufflePrimitiveDesc):
    """Primitive descriptor of a backward shuffle (`dnnl::shuffle_backward::primitive_desc`).

    `PrimitiveDesc(desc, engine, hint_fwd_pd, attr=None, allow_empty=False)`, or as version 3 has it
    `PrimitiveDesc(engine, diff_src_md, diff_dst_md, axis, group_size, hint_fwd_pd, attr=None,
    allow_empty=False)`. Where the gradients are "any", they get the format of the hint, a forward primitive
    descriptor; row-major where it is empty or None (M30). Without arguments it is empty and False.

    Raises InvalidArguments (a TypeError too, for a hint of another kind: S16) and Unimplemented as
    `ShuffleForward.PrimitiveDesc` does.
    """

    kind = _BACKWARD
    of_desc = Form(
        "ShuffleBackward.PrimitiveDesc",
        signature("desc", "engine", "hint_fwd_pd", attr=None, allow_empty=False),
        _backward_of_desc,
    )
    __signature__ = of_desc.shown
    of_mds = Form(
        "ShuffleBackward.PrimitiveDesc",
        signature(
            *("engine", "diff_src_md", "diff_dst_md", "axis", "group_size", "hint_fwd_pd"),
            attr=None,
            allow_empty=False,
        ),
        _backward_of_mds,
    )
    _word_of_v3 = "diff_src_md"

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        if not self:
            return ShuffleBackwardPrimitiveDesc, ()
        move = self._move
        args = (move.writes, move.reads, move.axis, move.group_size, None)
        return ShuffleBackwardPrimitiveDesc, (self._engine, *args, self.get_primitive_attr())

    def _forward_size(self, move: _Move) -> int:
        return move.reads.dims[move.axis] // move.group_size

    def _named(self) -> dict[str, MemoryDesc]:
        return {"diff_src": self._dst, "diff_dst": self._src}

    def _exec_args(self) -> dict[int, MemoryDesc]:
        return {ARG_DIFF_SRC: self._dst, ARG_DIFF_DST: self._src}


class _WrongHint(InvalidArguments, TypeError):
    """A hint of another kind (S16)."""


def _checked_hint(hint: object) -> MemoryDesc | None:
    """The descriptor that a hint gives, None where it gives none."""
    if hint is None:
        return None
    if isinstance(hint, ShuffleForwardPrimitiveDesc):
        return hint.dst_desc() or None
    raise _WrongHint(
        "ShuffleBackward: hint_fwd_pd is no hint",
        code="RS-S16",
        why=f"it is {type(hint).__name__}, not rs.ShuffleForward.PrimitiveDesc (S16)",
        hint="pass the forward primitive descriptor, or None for row-major",
    )
