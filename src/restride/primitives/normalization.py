"""What batch, layer and group normalization share: flags, statistics, checks."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from math import isfinite
from typing import ClassVar

from ..desc.arguments import ARG_DIFF_SRC, ARG_DST, ARG_MEAN, ARG_SRC, ARG_VARIANCE, ARG_WORKSPACE
from ..desc.attr_check import check_attr_of
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import one_of, parse_int, parse_type, short_repr, to_f32
from ..errors import InvalidArguments, Unimplemented, ValueLookup
from ..foreign import plain_text
from ..plan.normalization import NormKind, is_provided, stat_dims
from ..plan.normalization_gradient import NormBackwardProblem
from ..plan.normalization_problem import NormFlags, NormForwardProblem
from .forms import CallArguments
from .parse import parse_attr
from .pointwise import (
    OneStepPrimitiveDesc,
    check_attributes,
    check_hint,
    check_hint_workspace,
    check_known,
    forward_descs,
    gradient_descs,
    parse_hint,
)
from .prop_kind import PropKind

_NO_DESC = MemoryDesc()
_WEIGHT_TYPES = ("f32", "bf16", "f16")
# What a hint has in common with the gradient.
_HINTED = ("flags", "groups", "dims", "epsilon")


class NormalizationFlags(ValueLookup, enum.IntFlag):
    """What a normalization does besides (`dnnl::normalization_flags`); members are joined by `|`.

    Its word does as well: "use_scale".
    """

    none = 0
    use_global_stats = 1
    use_scale = 2
    use_shift = 4
    fuse_norm_relu = 8
    fuse_norm_add_relu = 16
    rms_norm = 32

    @classmethod
    def parse(cls, value: object, what: str) -> NormalizationFlags:
        """The flags of a member, a number or words joined by `|`. Raises InvalidArguments."""
        word = plain_text(value)
        if isinstance(word, str):
            names = [name.strip() for name in word.split("|")]
            if all(name in cls.__members__ for name in names):
                return cls(sum(cls[name] for name in dict.fromkeys(names)))
            hint = one_of(cls.__members__, next(name for name in names if name not in cls.__members__))
        else:
            number = parse_int(value, f"{what}: flags")
            if 0 <= number < 64:
                return cls(number)
            hint = one_of(cls.__members__)
        raise InvalidArguments(
            f"{what}: flags are {short_repr(value)}", code="RS-V04", why="there are no such flags", hint=hint
        )

    def values_of(self) -> NormFlags:
        """The flags as a plan has them."""
        return NormFlags(*(bool(self & flag) for flag in _FLAGS))


_FLAGS = tuple(flag for flag in NormalizationFlags if flag)


class NormalizationPrimitiveDesc(OneStepPrimitiveDesc):
    """What forward and backward normalizations of every kind share."""

    _norm_kind: ClassVar[NormKind]

    __slots__ = ("_norm",)
    _norm: NormForwardProblem | NormBackwardProblem | None

    def _empty(self) -> None:
        super()._empty()
        self._norm = None

    def _problem_of(self) -> NormForwardProblem | NormBackwardProblem:
        self._implementation()
        assert self._norm is not None
        return self._norm

    def get_epsilon(self) -> float:
        """What is added to the variance, as rounded to f32."""
        return self._problem_of().epsilon

    def get_flags(self) -> NormalizationFlags:
        """The flags."""
        flags = self._problem_of().flags
        return NormalizationFlags(sum(flag for flag in _FLAGS if getattr(flags, str(flag.name))))

    def mean_desc(self) -> MemoryDesc:
        """The descriptor of the means; the zero descriptor where there are none."""
        return self._exec_args().get(ARG_MEAN, _NO_DESC)

    def variance_desc(self) -> MemoryDesc:
        """The descriptor of the variances; the zero descriptor where there are none."""
        return self._exec_args().get(ARG_VARIANCE, _NO_DESC)

    def _named(self) -> Mapping[str, MemoryDesc | tuple[MemoryDesc, ...]]:
        found = {name: mds for name, mds in super()._named().items() if name}
        problem = self._norm
        if problem is not None and (problem.flags.use_scale or problem.flags.use_shift):
            found["weights"] = problem.weights
            if isinstance(problem, NormBackwardProblem) and problem.has_weights:
                found["diff_weights"] = problem.diff_weights
        return found

    def _how(self) -> str:
        problem = self._norm
        if problem is None:
            return ""
        flags = "".join(letter for letter, is_set in _letters(problem.flags) if is_set)
        groups = f" groups:{problem.groups}" if self._norm_kind is NormKind.group else ""
        return f"flags:{flags or '-'} eps:{problem.epsilon:g}{groups}"

    def get_kind(self) -> str:
        """The primitive kind: "batch_normalization", ..."""
        return f"{self._norm_kind.value}_normalization"

    def _groups(self, what: str, arguments: CallArguments, src: MemoryDesc) -> int:
        """The groups of the arguments; 1 where there are none."""
        return 1

    def _parts(self, what: str, arguments: CallArguments, src: MemoryDesc) -> tuple[NormFlags, float, int]:
        """Flags, epsilon and groups of the arguments, checked."""
        flags = NormalizationFlags.parse(arguments.flags, what)
        epsilon = to_f32(arguments.epsilon, f"{what}: epsilon")
        if not (isfinite(epsilon) and epsilon >= 0):
            why, hint = "it is added to a variance below the root", "take a small number, such as 1e-5"
            raise InvalidArguments(f"{what}: epsilon is {epsilon:g}", code="RS-P06", why=why, hint=hint)
        check_data(what, src)
        _check_flags(what, flags, self._norm_kind)
        return flags.values_of(), epsilon, self._groups(what, arguments, src)

    def _stat_desc(
        self, what: str, arguments: CallArguments, src: MemoryDesc, groups: int, like: MemoryDesc | None
    ) -> MemoryDesc:
        """The descriptor of the statistics. `like`: that of a hint."""
        dims = stat_dims(self._norm_kind, src.dims, groups)
        return MemoryDesc(dims, "f32") if dims else MemoryDesc((1,), "f32")

    def _weight_desc(self, what: str, arguments: CallArguments, src: MemoryDesc, name: str) -> MemoryDesc:
        """The descriptor of scale and shift, of the type that argument `name` has."""
        kind = parse_type(getattr(arguments, name, "f32"))
        if kind.name not in _WEIGHT_TYPES:
            raise Unimplemented(
                f"{what}: {name} is {kind}",
                code="RS-L02",
                why=f"scale and shift are {', '.join(_WEIGHT_TYPES)}",
                hint="leave it out for f32",
            )
        return MemoryDesc((src.dims[-1 if self._norm_kind is NormKind.layer else 1],), kind, "a")


class NormalizationForwardPrimitiveDesc(NormalizationPrimitiveDesc):
    """What forward normalizations share."""

    __slots__ = ()

    def _problem(
        self, what: str, arguments: CallArguments
    ) -> tuple[NormForwardProblem, dict[int, MemoryDesc]]:
        is_training = self._prop_kind is PropKind.forward_training
        src, dst = forward_descs(what, arguments)
        flags, epsilon, groups = self._parts(what, arguments, src)
        check_data(what, dst)
        attr = check_attributes(what, parse_attr(what, arguments.attr), "scales", "post_ops")
        check_attr_of(what, attr, {ARG_SRC: src, ARG_DST: dst})
        problem = self._norm = NormForwardProblem(
            self._norm_kind,
            src,
            dst,
            self._stat_desc(what, arguments, src, groups, None),
            self._weight_desc(what, arguments, src, "scale_shift_data_type"),
            flags,
            is_training,
            groups,
            epsilon,
            attr,
        )
        return problem, {**problem.reads(), ARG_DST: dst}


class NormalizationBackwardPrimitiveDesc(NormalizationPrimitiveDesc):
    """What backward normalizations share."""

    _hint_kind: ClassVar[type[NormalizationForwardPrimitiveDesc]]

    __slots__ = ()

    def _parsed_kind(self, arguments: CallArguments) -> PropKind:
        kind = PropKind.parse(arguments.prop_kind, self.form.what)
        if kind in (PropKind.backward, PropKind.backward_data):
            return kind
        raise InvalidArguments(
            f"{self.form.what}: prop_kind is {kind}",
            code="RS-S05",
            why="a backward normalization is backward or backward_data",
            hint="backward writes the gradients of scale and shift too",
        )

    def _problem(
        self, what: str, arguments: CallArguments
    ) -> tuple[NormBackwardProblem, dict[int, MemoryDesc]]:
        src = check_known(what, "src", arguments.src)
        diff_src, diff_dst = gradient_descs(what, arguments, "src", src)
        flags, epsilon, groups = self._parts(what, arguments, src)
        theirs = self._hinted(what, arguments, (flags, groups, src.dims, epsilon))
        attr = check_attributes(what, parse_attr(what, arguments.attr))
        problem = self._norm = NormBackwardProblem(
            self._norm_kind,
            src,
            diff_src,
            diff_dst,
            self._stat_desc(what, arguments, src, groups, None if theirs is None else theirs.stats),
            self._weight_desc(what, arguments, src, "scale_shift_data_type"),
            self._weight_desc(what, arguments, src, "diff_scale_shift_data_type"),
            flags,
            self._prop_kind is PropKind.backward,
            groups,
            epsilon,
            attr,
        )
        workspace = problem.reads().get(ARG_WORKSPACE)
        if theirs is not None and workspace is not None:
            check_hint_workspace(what, theirs.outputs()[ARG_WORKSPACE], workspace)
        return problem, {**problem.reads(), ARG_DIFF_SRC: diff_src}

    def _hinted(
        self, what: str, arguments: CallArguments, own: tuple[object, ...]
    ) -> NormForwardProblem | None:
        """The problem of the hint; None without one. Raises InvalidArguments for one of another problem."""
        hint = parse_hint(what, arguments.hint_pd, self._hint_kind)
        if not isinstance(hint, NormalizationForwardPrimitiveDesc):
            return None
        theirs = hint._problem_of()
        assert isinstance(theirs, NormForwardProblem)
        found = theirs.flags, theirs.groups, theirs.src.dims, theirs.epsilon
        pairs = dict(zip(_HINTED, zip(found, own, strict=True), strict=True))
        check_hint(what, {**pairs, "prop_kind": (hint._prop_kind, PropKind.forward_training)})
        return theirs


# --- checks -------------------------------------------------------------------------------------------------


def check_data(what: str, md: MemoryDesc) -> None:
    """Raise for a tensor that is not normalized: of another type, or of too few dims."""
    if not is_provided(md):
        raise Unimplemented(
            f"{what}: {md.data_type} is not normalized",
            code="RS-L02",
            where=str(md),
            why="tensors are f32, bf16, f16, s8 or u8",
            hint="reorder into one of these first",
        )
    if md.ndims < 2:
        why = f"it has {md.ndims} dims, 2 or more are needed"
        hint = "give it a batch of 1"
        raise InvalidArguments(
            f"{what}: a tensor of too few dims", code="RS-R10", where=str(md), why=why, hint=hint
        )


def _check_flags(what: str, flags: NormalizationFlags, kind: NormKind) -> None:
    fused = NormalizationFlags.fuse_norm_relu | NormalizationFlags.fuse_norm_add_relu
    if flags & fused == fused:
        why, hint = "fuse_norm_relu and fuse_norm_add_relu are two ways", "take one of them"
        raise InvalidArguments(f"{what}: two fused functions", code="RS-V04", why=why, hint=hint)
    if flags & fused and kind is not NormKind.batch:
        raise Unimplemented(
            f"{what}: a fused relu",
            code="RS-V04",
            why="batch normalization alone has one",
            hint="use a post-op: PostOps.append_eltwise('relu')",
        )
    if flags & NormalizationFlags.rms_norm and kind is NormKind.batch:
        why, hint = "layer and group normalization alone have it", "leave it out"
        raise Unimplemented(f"{what}: rms_norm", code="RS-V04", why=why, hint=hint)


def _letters(flags: NormFlags) -> tuple[tuple[str, bool], ...]:
    """The flags by benchdnn's letters."""
    return (
        ("G", flags.use_global_stats),
        ("C", flags.use_scale),
        ("H", flags.use_shift),
        ("R", flags.fuse_norm_relu),
        ("A", flags.fuse_norm_add_relu),
        ("M", flags.rms_norm),
    )
