"""Checks of the arguments of primitive descriptors, each with an error that states the rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import one_of, short_repr
from ..errors import refuse
from ..foreign import plain_text
from ..ir.conversion import PROVIDED
from .base import PrimitiveDescBase
from .parse import WrongHint, check_described


def parse_algorithm(
    what: str, alg: object, prefix: str, algorithms: Sequence[str], field: str = "algorithm"
) -> str:
    """Return the algorithm that a word names, with or without oneDNN's prefix, under its name here."""
    word = plain_text(alg)
    name = word.removeprefix(prefix) if isinstance(word, str) else ""
    if name in algorithms:
        return name
    raise refuse(
        "RS-V04:algorithm",
        what=what,
        field=field,
        alg=short_repr(alg),
        advice=one_of([prefix + algorithm for algorithm in algorithms], word),
    )


def check_known(what: str, name: str, md: object) -> MemoryDesc:
    """Return the descriptor of a tensor whose format must be known, and whose type must be supported."""
    desc = check_open(what, name, md)
    if desc.format_kind != "any":
        return desc
    raise refuse("RS-N15:no-format", what=what, name=name, found=desc)


def check_open(what: str, name: str, md: object, *, is_known: bool = True) -> MemoryDesc:
    """Return the descriptor of a tensor of any format and a supported type. `is_known`: its dims must be."""
    desc = check_described(what, name, md, is_known=is_known)
    if desc.data_type not in PROVIDED:
        raise refuse(
            "RS-L02:type-not-provided",
            what=what,
            found=desc,
            name=name,
            provided=", ".join(t.name for t in PROVIDED),
        )
    return desc


def check_same_dims(what: str, pairs: Sequence[tuple[str, MemoryDesc]]) -> None:
    """Raise InvalidArguments for tensors of different dims."""
    (first, expected), *others = pairs
    for name, md in others:
        if md.dims != expected.dims:
            raise refuse("RS-R10:different-dims", what=what, first=first, wanted=expected, name=name, md=md)


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
    raise refuse(
        "RS-R26:attribute",
        what=what,
        wrong=wrong.replace("_", " "),
        attr=attr.verbose_str(),
        own=own.replace("_", " "),
    )


def parse_hint(what: str, hint: object, kind: type[PrimitiveDescBase]) -> PrimitiveDescBase | None:
    """Return the forward primitive descriptor, if it is of this kind; None if there is none."""
    if hint is None:
        return None
    if isinstance(hint, kind) and hint:
        return hint
    raise refuse(
        "RS-S16:hint-pd-no",
        error=WrongHint,
        what=what,
        which="empty" if isinstance(hint, kind) else type(hint).__name__,
        kind=kind.kind,
    )


def check_hint(what: str, pairs: Mapping[str, tuple[object, object]]) -> None:
    """Raise InvalidArguments for a hint of another problem. `pairs`: actual and expected values."""
    for name, (theirs, own) in pairs.items():
        if theirs != own:
            raise refuse("RS-S16:hint-another-problem", what=what, name=name, theirs=theirs, own=own)


def check_hint_workspace(what: str, theirs: MemoryDesc, own: MemoryDesc) -> None:
    """Raise InvalidArguments unless the workspace of a hint is the one to be read."""
    if theirs == own:
        return
    is_inference = theirs.is_zero()
    raise refuse(
        "RS-S16:forward-inference-leaves" if is_inference else "RS-S16:diff-dst-another",
        what=what,
        theirs=theirs,
        own=own,
    )
