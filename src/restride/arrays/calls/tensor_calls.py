"""Calls for framework tensors, which pass addresses and describe their layout: bound without a first call."""

from __future__ import annotations

from ...desc.attr import Attr
from ...ops.reorder import ReorderProblem, find_reorder
from ...ops.shuffle import ShuffleProblem, find_shuffle
from ...runtime.engine import Engine
from ..groups import Rule
from .array_kinds import Kind, described
from .binder import CompiledCall, ParamPacker
from .signature import scale_values

_CPU = Engine("cpu")


def bind_reorder(src: Kind, dst: Kind, is_scaled: bool) -> CompiledCall:
    """Return the call that reorders arrays of one kind into another; `scale_values` are its values."""
    source, target = described(src), described(dst)
    attr = Attr.common(0.5 if is_scaled else None)
    impl = find_reorder(ReorderProblem(source.desc, target.desc, attr), _CPU)
    words = ParamPacker.of_values(impl.computation, scale_values(0.5), attr, {}) if is_scaled else None
    return CompiledCall(impl, (source.desc,), target.desc, (source.below,), target.below, words=words)


def bind_shuffle(rule: Rule, src: Kind, dst: Kind, axis: int, number: int) -> CompiledCall:
    """Return the call that shuffles arrays of one kind into another of the same type."""
    source, target = described(src), described(dst)
    problem = ShuffleProblem(source.desc, target.desc, *rule.split(source.desc.dims, axis, number))
    impl = find_shuffle(rule.call, problem, _CPU)
    return CompiledCall(impl, (source.desc,), target.desc, (source.below,), target.below)
