"""Primitive descriptors of shuffles: both directions, in the form of version 0.9 and of version 3."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple

from ..desc.arguments import ARG_DIFF_DST, ARG_DIFF_SRC, ARG_DST, ARG_SRC
from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..errors import InvalidArguments, Unimplemented
from ..plan.shuffle_problem import ShuffleProblem
from ..runtime.engine import Engine
from .any_format import resolved
from .base import DEFAULT_ATTR, PrimitiveDescBase
from .forms import Form, signature
from .implementation import Describe, Implementation, compiled, find_implementation
from .parse import WrongHint, check_described, parse_engine, shared_elements
from .prop_kind import PrimitiveKind, PropKind
from .query import Query
from .shuffle_desc import (
    ShuffleBackwardDesc,
    ShuffleForwardDesc,
    check_concrete,
    check_formats,
    check_split,
    checked_attr,
    no_desc,
    parse_forward,
)

_NO_DESC = MemoryDesc()


class _ShuffleMove(NamedTuple):
    """What a descriptor stands for: `reads` becomes `writes`, its axis shuffled by `group_size`."""

    prop_kind: PropKind
    reads: MemoryDesc
    writes: MemoryDesc
    axis: int
    group_size: int


class _ShuffleArguments(NamedTuple):
    """The arguments of a primitive descriptor; `move` checks those of the shuffle itself."""

    engine: object
    attr: object
    allow_empty: bool
    move: Callable[[], _ShuffleMove]


class ShufflePrimitiveDesc(PrimitiveDescBase):
    """What both directions share: `_src` is what is read, `_dst` what is written."""

    of_desc: ClassVar[Form[_ShuffleArguments]]
    of_mds: ClassVar[Form[_ShuffleArguments]]
    _word_of_v3: ClassVar[str]

    __slots__ = ("_move",)
    _move: _ShuffleMove

    def _arguments(self, args: tuple[object, ...], named: dict[str, object]) -> _ShuffleArguments:
        is_v3 = bool(args and isinstance(args[0], Engine)) or self._word_of_v3 in named
        return (self.of_mds if is_v3 else self.of_desc).of(args, named)

    def _empty(self) -> None:
        super()._empty()
        self._move = _ShuffleMove(PropKind.undef, _NO_DESC, _NO_DESC, 0, 0)

    def _create(self, arguments: _ShuffleArguments) -> None:
        engine = parse_engine(f"{self.kind}.PrimitiveDesc", arguments.engine)
        move = self._move = arguments.move()
        self._src, self._dst, self._attr = move.reads, move.writes, checked_attr(self.kind, arguments.attr)
        self._src_engine = self._dst_engine = self._engine = engine
        problem = ShuffleProblem(move.reads, move.writes, move.axis, self._forward_size(move))
        found = find_shuffle(self.kind, problem, engine, self._describe)
        reads, writes = self._tensors()
        self._impl = found if reads == ARG_SRC else found.renamed({ARG_SRC: reads, ARG_DST: writes})

    def _forward_size(self, move: _ShuffleMove) -> int:
        """The group size of the forward shuffle that moves the same way."""
        raise NotImplementedError

    def get_kind(self) -> PrimitiveKind:
        """The primitive kind, `PrimitiveKind.shuffle`."""
        return PrimitiveKind.shuffle

    def get_prop_kind(self) -> PropKind:
        """The propagation kind; `PropKind.backward` for every backward shuffle."""
        self._implementation()
        return self._move.prop_kind

    def get_axis(self) -> int:
        """The axis along which channels are shuffled."""
        self._implementation()
        return self._move.axis

    def get_group_size(self) -> int:
        """The group size, as it was given."""
        self._implementation()
        return self._move.group_size

    def _integers(self) -> dict[Query, int]:
        own = {Query.axis_s32: self._move.axis, Query.group_size_s64: self._move.group_size}
        return super()._integers() | (own if self else {})

    def _describe(self, op: str, impl: Implementation, ms: float) -> list[object]:
        move = self._move
        how = f"axis:{move.axis} group:{move.group_size}"
        return shuffle_line(op, impl, move.prop_kind, (self._attr, how), ms)


def find_shuffle(what: str, problem: ShuffleProblem, engine: Engine, describe: Describe) -> Implementation:
    """The implementation of a problem, from the cache or made now; `what` is for messages.

    Raises InvalidArguments, Unimplemented for problems that have no answer.
    """
    return find_implementation(
        problem, engine, describe, lambda: compiled(check_shuffle(what, problem), engine)
    )


def check_shuffle(what: str, problem: ShuffleProblem) -> ShuffleProblem:
    """Return the problem; raise InvalidArguments, Unimplemented where its descriptors have no answer."""
    src, dst = problem.src, problem.dst
    if src.dims != dst.dims:
        why = f"their dims are {src.dims} and {dst.dims}"
        hint = "a shuffle keeps the dims"
        raise InvalidArguments(
            f"{what}: inconsistent src and dst mds", code="RS-S11", where=problem.where(), why=why, hint=hint
        )
    if src.data_type is not dst.data_type:
        why, hint = "a shuffle moves bits, and converts nothing", "reorder into the other type first"
        raise Unimplemented(
            f"{what}: two data types", code="RS-S11", where=problem.where(), why=why, hint=hint
        )
    if not dst.is_injective():
        raise shared_elements(what, "the destination", problem.where())
    return problem


def describe_shuffle(op: str, impl: Implementation, ms: float) -> list[object]:
    """The fields of one verbose line about a shuffle of arrays."""
    problem = impl.problem
    assert isinstance(problem, ShuffleProblem)
    how = f"axis:{problem.axis} group:{problem.group_size}"
    return shuffle_line(op, impl, PropKind.forward_inference, (DEFAULT_ATTR, how), ms)


def shuffle_line(
    op: str, impl: Implementation, prop_kind: str, how: tuple[Attr, str], ms: float
) -> list[object]:
    """The fields of one verbose line; `how`: attributes, and axis and group size in words."""
    problem, (attr, factors) = impl.problem, how
    assert isinstance(problem, ShuffleProblem)
    dims = "x".join(map(str, problem.src.dims))
    head = [op, impl.engine.kind, "shuffle", impl.name, prop_kind]
    aux = f"{factors} why:{impl.why}"
    return [*head, problem.src.verbose_str("data"), attr.verbose_str(), aux, dims, ms]


_FORWARD = "ShuffleForward"


def _forward_of_desc(
    desc: object, engine: object, attr: object = None, allow_empty: bool = False
) -> _ShuffleArguments:
    def move() -> _ShuffleMove:
        if not isinstance(desc, ShuffleForwardDesc):
            raise no_desc(_FORWARD, desc)
        return _ShuffleMove(desc.prop_kind, desc.data_desc, desc.data_desc, desc.axis, desc.group_size)

    return _ShuffleArguments(engine, attr, allow_empty, move)


def _forward_of_mds(
    engine: object,
    prop_kind: object,
    src_md: object,
    dst_md: object,
    axis: object,
    group_size: object,
    attr: object = None,
    allow_empty: bool = False,
) -> _ShuffleArguments:
    def move() -> _ShuffleMove:
        what = f"{_FORWARD}.PrimitiveDesc"
        kind, src = parse_forward(what, prop_kind), check_concrete(what, "src_md", src_md)
        split = check_split(what, src.dims, axis, group_size)
        dst = resolved(check_described(what, "dst_md", dst_md), src)
        check_formats(_FORWARD, src, dst)
        return _ShuffleMove(kind, src, dst, *split)

    return _ShuffleArguments(engine, attr, allow_empty, move)


class ShuffleForwardPrimitiveDesc(ShufflePrimitiveDesc):
    """Primitive descriptor of a forward shuffle (`dnnl::shuffle_forward::primitive_desc`).

    `PrimitiveDesc(desc, engine, attr=None, allow_empty=False)`, or as version 3 has it
    `PrimitiveDesc(engine, prop_kind, src_md, dst_md, axis, group_size, attr=None, allow_empty=False)`, where
    `dst_md` may be "any": it becomes that of the source. Without arguments it is empty and False. With
    `allow_empty`, a failure gives an empty descriptor, not an error.

    Raises InvalidArguments for what cannot be shuffled, Unimplemented for attributes, and for source
    and destination of different types or formats.
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

    def __reduce__(self) -> tuple[object, ...]:
        if not self:
            return ShuffleForwardPrimitiveDesc, ()
        move = self._move
        args = (move.prop_kind, move.reads, move.writes, move.axis, move.group_size)
        return ShuffleForwardPrimitiveDesc, (self._engine, *args, self.get_primitive_attr())

    def _forward_size(self, move: _ShuffleMove) -> int:
        return move.group_size


_BACKWARD = "ShuffleBackward"


def _backward_of_desc(
    desc: object, engine: object, hint_fwd_pd: object, attr: object = None, allow_empty: bool = False
) -> _ShuffleArguments:
    def move() -> _ShuffleMove:
        if not isinstance(desc, ShuffleBackwardDesc):
            raise no_desc(_BACKWARD, desc)
        data = desc.diff_data_desc
        return _backward((data, data), (desc.axis, desc.group_size), hint_fwd_pd)

    return _ShuffleArguments(engine, attr, allow_empty, move)


def _backward_of_mds(
    engine: object,
    diff_src_md: object,
    diff_dst_md: object,
    axis: object,
    group_size: object,
    hint_fwd_pd: object,
    attr: object = None,
    allow_empty: bool = False,
) -> _ShuffleArguments:
    def move() -> _ShuffleMove:
        what = f"{_BACKWARD}.PrimitiveDesc"
        diff_src = check_described(what, "diff_src_md", diff_src_md)
        split = check_split(what, diff_src.dims, axis, group_size)
        return _backward((diff_src, check_described(what, "diff_dst_md", diff_dst_md)), split, hint_fwd_pd)

    return _ShuffleArguments(engine, attr, allow_empty, move)


def _backward(mds: tuple[MemoryDesc, MemoryDesc], split: tuple[int, int], hint: object) -> _ShuffleMove:
    like = _checked_hint(hint)
    known = next((md for md in mds if md.format_kind != "any"), None)
    diff_src, diff_dst = (resolved(md, known or like or MemoryDesc(md.dims, md.data_type)) for md in mds)
    check_formats(_BACKWARD, diff_dst, diff_src)
    return _ShuffleMove(PropKind.backward, diff_dst, diff_src, *split)


class ShuffleBackwardPrimitiveDesc(ShufflePrimitiveDesc):
    """Primitive descriptor of a backward shuffle (`dnnl::shuffle_backward::primitive_desc`).

    `PrimitiveDesc(desc, engine, hint_fwd_pd, attr=None, allow_empty=False)`, or as version 3 has it
    `PrimitiveDesc(engine, diff_src_md, diff_dst_md, axis, group_size, hint_fwd_pd, attr=None,
    allow_empty=False)`. Where the gradients are "any", they get the format of the hint, a forward primitive
    descriptor; row-major where it is empty or None. Without arguments it is empty and False.

    Raises InvalidArguments (a TypeError too, for a hint of another kind) and Unimplemented as
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

    def __reduce__(self) -> tuple[object, ...]:
        if not self:
            return ShuffleBackwardPrimitiveDesc, ()
        move = self._move
        args = (move.writes, move.reads, move.axis, move.group_size, None)
        return ShuffleBackwardPrimitiveDesc, (self._engine, *args, self.get_primitive_attr())

    def _forward_size(self, move: _ShuffleMove) -> int:
        return move.reads.dims[move.axis] // move.group_size

    def _named(self) -> dict[str, MemoryDesc]:
        return {"diff_src": self._dst, "diff_dst": self._src}

    def _exec_args(self) -> dict[int, MemoryDesc]:
        return {ARG_DIFF_SRC: self._dst, ARG_DIFF_DST: self._src}

    def _tensors(self) -> dict[int, MemoryDesc]:
        return {ARG_DIFF_DST: self._src, ARG_DIFF_SRC: self._dst}


def _checked_hint(hint: object) -> MemoryDesc | None:
    """The descriptor that a hint gives, None where it gives none."""
    if hint is None:
        return None
    if isinstance(hint, ShuffleForwardPrimitiveDesc):
        return hint.dst_desc() or None
    raise WrongHint(
        "ShuffleBackward: hint_fwd_pd is no hint",
        code="RS-S16",
        why=f"it is {type(hint).__name__}, not rs.ShuffleForward.PrimitiveDesc",
        hint="pass the forward primitive descriptor, or None for row-major",
    )
