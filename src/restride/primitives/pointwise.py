"""What primitives share whose descriptor is made in one step, and that keep to the format of their source.

A descriptor knows its tensors by argument: those that are read in the order of the chain, then the one that
is written. `any` is for what is written, and for operands; the formats of the others must be known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from ..desc.arguments import (
    ARG_DIFF_DST,
    ARG_DIFF_SRC,
    ARG_DIFF_WEIGHTS,
    ARG_DST,
    ARG_MULTIPLE_DST,
    ARG_MULTIPLE_SRC,
    ARG_SRC_0,
    ARG_SRC_1,
    ARG_SRC_2,
    ARG_WEIGHTS,
    ARG_WORKSPACE,
    told_name,
)
from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import one_of, short_repr
from ..errors import InvalidArguments, Unimplemented
from ..foreign import plain_text
from ..plan.conversion import PROVIDED
from ..runtime.arguments import Executable
from ..runtime.engine import Engine
from .any_format import resolved
from .base import PrimitiveDescBase
from .forms import Args, CallArguments, NamedArgs
from .implementation import Implementation, Problem, compiled, find_implementation, named_descs
from .parse import WrongHint, check_described, check_written, parse_engine
from .primitive import Primitive
from .prop_kind import PropKind

_SEVERAL = range(ARG_MULTIPLE_SRC, ARG_MULTIPLE_DST)
# The names of arguments in queries; sources are numbered.
_QUERIES = {
    ARG_SRC_0: "src",
    ARG_SRC_1: "src",
    ARG_SRC_2: "src",
    ARG_WEIGHTS: "weights",
    ARG_DST: "dst",
    ARG_DIFF_SRC: "diff_src",
    ARG_DIFF_WEIGHTS: "diff_weights",
    ARG_DIFF_DST: "diff_dst",
    ARG_WORKSPACE: "workspace",
}


class ProblemWithAttr(Problem, Protocol):
    """A problem that has attributes."""

    @property
    def attr(self) -> Attr:
        """The attributes."""


class OneStepPrimitiveDesc(PrimitiveDescBase):
    """A primitive descriptor of named tensors. `_arguments_made` are those of the call, for copies."""

    __slots__ = ("_by_arg", "_made_of", "_prop_kind")
    _by_arg: dict[int, MemoryDesc]
    _made_of: CallArguments | None
    _prop_kind: PropKind

    def _arguments(self, args: Args, named: NamedArgs) -> CallArguments:
        args, named = self._placed(args, named)
        names = list(self.form.shown.parameters)
        if "hint_pd" in names:
            args, named = hint_moved(args, named, names.index("hint_pd"))
        return self.form.of(args, named)

    def _placed(self, args: Args, named: NamedArgs) -> tuple[Args, NamedArgs]:
        """The arguments in the order of the form."""
        return args, named

    def _create(self, arguments: CallArguments) -> None:
        engine = parse_engine(self.form.what, arguments.engine)
        self._made_of, self._prop_kind = arguments, self._parsed_kind(arguments)
        problem, tensors = self._problem(self.form.what, arguments)
        self._by_arg = tensors
        self._attr = problem.attr
        impl = find_implementation(problem, engine, self._describe, lambda: self._executable(problem, engine))
        reads, written = tuple(tensors.values())[:-1], tuple(tensors.values())[-1]
        self._set(impl, reads[0], written, problem.attr)

    def _executable(self, problem: ProblemWithAttr, engine: Engine) -> Executable:
        """What runs a problem."""
        return compiled(problem, engine)

    def _problem(self, what: str, arguments: CallArguments) -> tuple[ProblemWithAttr, dict[int, MemoryDesc]]:
        """The checked problem, and its tensors by argument, the one that is written last."""
        raise NotImplementedError

    def _parsed_kind(self, arguments: CallArguments) -> PropKind:
        """The propagation kind: the one that the arguments name, of a gradient that of data."""
        if "prop_kind" in self.form.shown.parameters:
            return parse_forward_kind(self.form.what, arguments.prop_kind)
        return PropKind.backward_data if "diff_dst" in self.form.shown.parameters else PropKind.undef

    def _empty(self) -> None:
        super()._empty()
        self._by_arg, self._made_of, self._prop_kind = {}, None, PropKind.undef

    def __reduce__(self) -> tuple[object, Args]:
        # Attributes may have changed since, descriptors of format any have been chosen: both as they are.
        return (type(self), self._copied()) if self else (type(self), ())

    def _copied(self, **chosen: object) -> Args:
        """The arguments that make a copy; `chosen` are those that a hint has decided."""
        assert self._made_of is not None
        without_hint = {"hint_pd": None} if "hint_pd" in self.form.shown.parameters else {}
        changes = {"attr": self.get_primitive_attr(), **without_hint, **chosen}
        return tuple(self._made_of._replace(**changes))

    def get_kind(self) -> str:
        """The primitive kind, in small letters."""
        return self.kind.removesuffix("Forward").removesuffix("Backward").lower()

    def get_prop_kind(self) -> PropKind:
        """The propagation kind."""
        self._implementation()
        return self._prop_kind

    def _tensors(self) -> dict[int, MemoryDesc]:
        return self._by_arg

    def _named(self) -> Mapping[str, MemoryDesc | tuple[MemoryDesc, ...]]:
        found: dict[str, tuple[MemoryDesc, ...]] = {}
        others = self._impl.outputs() if self._impl else {}
        for arg, md in (*self._by_arg.items(), *others.items()):
            name = "src" if arg in _SEVERAL else _QUERIES.get(arg, "")
            found[name] = (*found.get(name, ()), md)
        return found

    def _how(self) -> str:
        """The parameters in a verbose line."""
        return ""

    def _describe(self, op: str, impl: Implementation, ms: float) -> list[object]:
        tensors = {**self._by_arg, **impl.outputs()}
        names = [told_name(arg, self._arg_names) for arg in tensors]
        mds = named_descs(names, tuple(tensors.values()))
        head = [op, impl.engine.kind, self.get_kind(), impl.name, self._prop_kind]
        aux = " ".join(filter(None, (self._how(), f"why:{impl.why}")))
        dims = "x".join(map(str, impl.problem.dst.dims))
        return [*head, mds, self._attr.verbose_str(), aux, dims, ms]


class OneStepPrimitive(Primitive):
    """A primitive that may be done in place where source and destination lie alike."""

    _may_be_in_place = True

    __slots__ = ()


# --- checks -------------------------------------------------------------------------------------------------


def parse_algorithm(what: str, alg: object, prefix: str, known: Sequence[str]) -> str:
    """The algorithm that a word names, with oneDNN's prefix or without, as it is called here."""
    word = plain_text(alg)
    name = word.removeprefix(prefix) if isinstance(word, str) else ""
    if name in known:
        return name
    raise InvalidArguments(
        f"{what}: algorithm is {short_repr(alg)}",
        code="RS-V04",
        why="there is no such algorithm",
        hint=one_of([prefix + each for each in known], word),
    )


def check_known(what: str, name: str, md: object) -> MemoryDesc:
    """The descriptor of a tensor whose format must be known, and whose type is provided."""
    found = check_open(what, name, md)
    if found.format_kind != "any":
        return found
    raise InvalidArguments(
        f"{what}: {name} has no format",
        code="RS-N15",
        where=str(found),
        why="format 'any' is a placeholder, for what is written and for gradients (N15)",
        hint="pass the format that the primitive before it has chosen",
    )


def check_open(what: str, name: str, md: object, *, is_known: bool = True) -> MemoryDesc:
    """The descriptor of a tensor, of any format, whose type is provided. `is_known`: its dims are."""
    found = check_described(what, name, md, is_known=is_known)
    if found.data_type not in PROVIDED:
        raise Unimplemented(
            f"{what}: {found.data_type} is not provided by this version",
            code="RS-L02",
            where=f"{name} {found}",
            why=f"computations are provided among {', '.join(t.name for t in PROVIDED)}",
            hint="convert with NumPy or ml_dtypes first",
        )
    return found


def forward_descs(what: str, arguments: CallArguments) -> tuple[MemoryDesc, MemoryDesc]:
    """Source and destination, element by element; a destination of format "any" has that of the source."""
    src = check_known(what, "src", arguments.src)
    dst = resolved(check_open(what, "dst", arguments.dst), src)
    check_same_dims(what, [("src", src), ("dst", dst)])
    check_written(what, "dst", dst)
    return src, dst


def gradient_descs(
    what: str, arguments: CallArguments, name: str, data: MemoryDesc
) -> tuple[MemoryDesc, MemoryDesc]:
    """The gradients of source and destination; of format "any" they have that of the data called `name`."""
    diff_src = resolved(check_open(what, "diff_src", arguments.diff_src), data)
    diff_dst = resolved(check_open(what, "diff_dst", arguments.diff_dst), data)
    check_same_dims(what, [(name, data), ("diff_src", diff_src), ("diff_dst", diff_dst)])
    check_written(what, "diff_src", diff_src)
    return diff_src, diff_dst


def check_same_dims(what: str, named: Sequence[tuple[str, MemoryDesc]]) -> None:
    """Raise InvalidArguments for tensors of different dims."""
    (first, wanted), *others = named
    for name, md in others:
        if md.dims != wanted.dims:
            raise InvalidArguments(
                f"{what}: tensors of different shapes",
                code="RS-R10",
                where=f"{first} {wanted}; {name} {md}",
                why=f"{first} is {wanted.dims}, {name} {md.dims}",
                hint="every element is computed of those at the same index",
            )


def check_attributes(what: str, attr: Attr, *allowed: str) -> Attr:
    """Return attributes; raise Unimplemented for parts of them that are not among `allowed`."""
    parts: Iterable[tuple[str, object]] = (
        ("scales", attr.scales or attr.output_scales),
        ("zero_points", attr.zero_points),
        ("post_ops", attr.post_ops),
        ("compensation", attr.compensation),
        ("rnn_qparams", attr.rnn),
    )
    wrong = next((name for name, value in parts if value and name not in allowed), None)
    if wrong is None:
        return attr
    own = " and ".join((", ".join(allowed), "the scratchpad mode") if allowed else ("the scratchpad mode",))
    raise Unimplemented(
        f"{what}: unsupported attribute, {wrong.replace('_', ' ')}",
        code="RS-R26",
        where=f"attr {attr.verbose_str()}",
        why=f"the primitive takes {own.replace('_', ' ')}, and no other attributes",
        hint="leave it out, and let a reorder or another primitive before or after have it",
    )


def parse_forward_kind(what: str, prop_kind: object) -> PropKind:
    """The propagation kind of a forward primitive. Raises InvalidArguments for any other."""
    kind = PropKind.parse(prop_kind, what)
    if kind in (PropKind.forward_training, PropKind.forward_inference):
        return kind
    raise InvalidArguments(
        f"{what}: prop_kind is {kind}",
        code="RS-S05",
        why="a forward primitive is forward_training or forward_inference",
        hint="gradients have primitives of their own, whose names end in Backward",
    )


def parse_hint(what: str, hint: object, kind: type[PrimitiveDescBase]) -> PrimitiveDescBase | None:
    """The forward primitive descriptor, if it is one of this kind; None where there is none."""
    if hint is None:
        return None
    if isinstance(hint, kind) and hint:
        return hint
    raise WrongHint(
        f"{what}: hint_pd is no hint",
        code="RS-S16",
        why=f"it is {'empty' if isinstance(hint, kind) else type(hint).__name__}",
        hint=f"pass the rs.{kind.kind}.PrimitiveDesc of the forward step",
    )


def check_hint(what: str, pairs: Mapping[str, tuple[object, object]]) -> None:
    """Raise InvalidArguments for a hint of another problem. `pairs`: what it has, and what is wanted."""
    for name, (theirs, own) in pairs.items():
        if theirs != own:
            raise InvalidArguments(
                f"{what}: the hint is of another problem",
                code="RS-S16",
                why=f"its {name} is {theirs}, here it is {own}",
                hint="pass the descriptor of the forward step that this one goes back from",
            )


def check_hint_workspace(what: str, theirs: MemoryDesc, own: MemoryDesc) -> None:
    """Raise InvalidArguments unless the workspace of a hint is the one that is read."""
    if theirs == own:
        return
    is_inference = theirs.is_zero()
    raise InvalidArguments(
        f"{what}: the workspace of the hint will not do",
        code="RS-S16",
        where=f"hint {theirs}; needed {own}",
        why="forward_inference leaves none" if is_inference else "diff_dst has another format",
        hint="make the hint for forward_training"
        if is_inference
        else "give diff_dst the format of the hint's dst",
    )


def hint_moved(args: Args, named: NamedArgs, own_place: int) -> tuple[Args, NamedArgs]:
    """Arguments of which a hint stands before the attributes, as C++ has it: the rest of them by name."""
    place = next((i for i, each in enumerate(args) if isinstance(each, PrimitiveDescBase)), own_place)
    if place == own_place or "hint_pd" in named:
        return args, named
    before, hint, behind = args[:place], args[place], args[place + 1 :]
    return before, {**named, "hint_pd": hint, **dict(zip(("attr", "allow_empty"), behind, strict=False))}
