"""What the arguments of primitive descriptors have to be, each with an error that says how."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import one_of, short_repr
from ..errors import InvalidArguments, Unimplemented
from ..foreign import plain_text
from ..plan.conversion import PROVIDED
from .base import PrimitiveDescBase
from .parse import WrongHint, check_described


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
