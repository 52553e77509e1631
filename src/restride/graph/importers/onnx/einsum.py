"""ONNX's Einsum: repeated and unused labels are removed, then tensors are joined in pairs.

ii, ij...     ->  the diagonal: every (n + 1)th element of a row of n * n
ij -> i       ->  a sum over labels that neither another tensor nor the result has
bij, bjk      ->  a matrix product, batched over shared labels that remain; else elementwise
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import NamedTuple

from ....model.result_dims import Misfit
from ..operator_call import ONNX, OperatorCall, Value


class _LabeledTensor(NamedTuple):
    """A tensor with a label for each dim: a letter, or `.2` for the dim before the last of `...`."""

    value: Value
    labels: tuple[str, ...]


@ONNX("Einsum")
def _einsum(call: OperatorCall, *xs: Value, equation: str) -> Value:
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    texts = inputs.split(",")
    if len(texts) != len(xs):
        raise Misfit(f"{equation!r} has {len(texts)} tensors, but {len(xs)} are given")
    apart = call.with_outputs(0)
    terms = [_LabeledTensor(x, _labels(text, len(call.dims(x)))) for text, x in zip(texts, xs, strict=True)]
    dotted = max((_dots(term.labels) for term in terms), key=len)
    if arrow:
        wanted = _labels(output, len(output.replace("...", "")) + ("..." in output) * len(dotted))
    else:
        all_labels = [label for term in terms for label in dict.fromkeys(term.labels)]
        letters = (name for name in all_labels if "." not in name and inputs.count(name) == 1)
        wanted = (*dotted, *sorted(letters))
    known = {label for term in terms for label in term.labels}
    if len(set(wanted)) < len(wanted) or not known.issuperset(wanted):
        raise Misfit(f"{equation!r} does not describe this result")
    terms = [_diagonal(apart, term) for term in terms]
    while len(terms) > 1:
        left, right, *terms = terms
        later = {*wanted, *(label for term in terms for label in term.labels)}
        terms.insert(0, _joined(apart, left, right, later))
    (last,) = (_summed(apart, term, wanted) for term in terms)
    return call.transposed(last.value, [last.labels.index(label) for label in wanted])


def _labels(text: str, rank: int) -> tuple[str, ...]:
    before, dots, behind = text.partition("...")
    count, letters = rank - len(before) - len(behind), before + behind
    if count < 0 or (count and not dots) or not (letters.isalpha() or not letters):
        raise Misfit(f"{text!r} does not have {rank} dims")
    return (*before, *(f".{count - i}" for i in range(count)), *behind)


def _dots(labels: Iterable[str]) -> tuple[str, ...]:
    return tuple(label for label in labels if "." in label)


def _diagonal(call: OperatorCall, term: _LabeledTensor) -> _LabeledTensor:
    """Return the term with each label once."""
    value, labels = term
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            rest = [axis for axis in range(len(labels)) if axis not in (first, second)]
            dims = call.dims(value)
            n = dims[first]
            if dims[second] != n:
                raise Misfit(f"{label!r} has both {n} and {dims[second]} elements")
            turned = call.transposed(value, [*rest, first, second])
            flat = call.reshaped(turned, (*(dims[axis] for axis in rest), n * n))
            value = call.onnx("Slice", flat, (0,), (n * n,), (len(rest),), (n + 1,))
            labels = (*(labels[axis] for axis in rest), label)
    return _LabeledTensor(value, labels)


def _summed(call: OperatorCall, term: _LabeledTensor, needed: Iterable[str]) -> _LabeledTensor:
    kept = {*needed}
    axes = tuple(axis for axis, label in enumerate(term.labels) if label not in kept)
    if not axes:
        return term
    value = call.onnx("ReduceSum", term.value, axes, keepdims=False)
    return _LabeledTensor(value, tuple(label for label in term.labels if label in kept))


def _joined(
    call: OperatorCall, left: _LabeledTensor, right: _LabeledTensor, later: set[str]
) -> _LabeledTensor:
    """Join two terms into one that has the labels needed later."""
    left = _summed(call, left, later | {*right.labels})
    right = _summed(call, right, later | {*left.labels})
    both = [label for label in left.labels if label in right.labels]
    batch, inner = ([each for each in both if (each in later) is is_kept] for is_kept in (True, False))
    own = [[label for label in term.labels if label not in both] for term in (left, right)]
    labels = (*batch, *own[0], *own[1])
    first, second = (dict(zip(term.labels, call.dims(term.value), strict=True)) for term in (left, right))
    for label in both:
        if first[label] != second[label] and ("." not in label or 1 not in (first[label], second[label])):
            raise Misfit(f"{label!r} has both {first[label]} and {second[label]} elements")
    is_repeated = any(first[label] != second[label] for label in inner)
    if not inner or is_repeated:
        # Elementwise: each has extents of 1 for the labels of the other.
        spread = [_ordered(call, term, [*batch, *inner, *own[0], *own[1]]) for term in (left, right)]
        product = _LabeledTensor(call.onnx("Mul", *spread), (*batch, *inner, *own[0], *own[1]))
        return _summed(call, product, labels)
    extents = {**second, **first}
    rows, columns, depth = (prod(extents[each] for each in part) for part in (own[0], own[1], inner))
    a = call.reshaped(_ordered(call, left, [*batch, *own[0], *inner]), (*_of(first, batch), rows, depth))
    b = call.reshaped(_ordered(call, right, [*batch, *inner, *own[1]]), (*_of(second, batch), depth, columns))
    matrices = call.onnx("MatMul", a, b)
    joint = tuple(max(first[label], second[label]) for label in batch)
    dims = (*joint, *_of(first, own[0]), *_of(second, own[1]))
    return _LabeledTensor(call.reshaped(matrices, dims), labels)


def _of(extents: dict[str, int], labels: Sequence[str]) -> tuple[int, ...]:
    return tuple(extents[label] for label in labels)


def _ordered(call: OperatorCall, term: _LabeledTensor, labels: Sequence[str]) -> Value:
    """Return a term with its dims in the order of `labels`, of extent 1 where it lacks one."""
    own = [label for label in labels if label in term.labels]
    value = call.transposed(term.value, [term.labels.index(label) for label in own])
    extents = dict(zip(own, call.dims(value), strict=True))
    return call.reshaped(value, tuple(extents.get(label, 1) for label in labels))
