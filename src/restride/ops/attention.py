"""Scaled dot-product attention: sums of values, weighted by how well each query matches the keys.

    scores[i, j] = cap(scale * sum over d of query[i, d] * key[j, d]) + mask[i, j]
    dst[i, v]    = sum over j of e**(scores[i, j] - m[i]) * value[j, v] / s[i]
    m[i] = max over j of scores[i, j],  s[i] = sum over j of e**(scores[i, j] - m[i])

for each batch element and head. A head of keys and values can serve several heads of queries. Keys hidden by
a mask, causality, a window or a length contribute nothing. Rows that see no key are zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import isfinite, sqrt
from typing import Any, ClassVar

from ..desc.arguments import (
    ARG_ATTR_SCALES,
    ARG_BIAS,
    ARG_DIFF_DST,
    ARG_DIFF_SRC,
    ARG_DIFF_SRC_1,
    ARG_DIFF_SRC_ITER_C,
    ARG_DST,
    ARG_DST_1,
    ARG_MULTIPLE_SRC,
    ARG_SHIFT,
    ARG_SRC,
    ARG_SRC_1,
    ARG_SRC_2,
    ARG_SRC_3,
)
from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_ints, short_repr
from ..dtypes import DataType
from ..errors import refuse
from ..ir.program import Program
from ..model.derived import make_primitive
from ..model.operation import OperationProblem, is_computed_wide
from ..model.prop_kind import PropKind
from ..model.reader import ArgumentReader
from ..model.result_dims import Misfit, Shaped
from ..schedule.machine import NOMINAL
from .programs.attention import AttentionProgram
from .programs.attention_gradient import AttentionGradient

_NO_DESC = MemoryDesc()
_FLOATS = (DataType.f32, DataType.bf16, DataType.f16, DataType.f64)
# Types in which keys and values can be stored when queries are floats.
_STORED = (*_FLOATS, DataType.s8, DataType.f8_e4m3, DataType.f8_e5m2)
_INTEGERS = (DataType.s64, DataType.s32)
_CAUSAL = "none", "top_left", "bottom_right"
PARAMETERS = "scale", "causal", "window", "soft_cap"
"""The parameters that are not tensors."""
# Tensors added to the scores, or that determine which keys are visible.
_MASKS = (*_FLOATS, DataType.boolean, DataType.u8, DataType.s8)


@dataclass(frozen=True, slots=True)
class AttentionProblem(OperationProblem):
    """Scaled dot-product attention over queries, keys and values with several heads.

    Executed with `ARG_SRC` (queries), `ARG_SRC_1` (keys), `ARG_SRC_2` (values) and `ARG_DST`. Optional:
    `ARG_SHIFT` (mask), `ARG_SRC_3` (lengths), `ARG_BIAS` (sinks), and the output `ARG_DST_1` (statistics).
    """

    operation = "attention"
    primitive = "ScaledDotProductAttention"
    call = (
        *("query", "key", "value", "dst", "mask", "lengths", "sinks", "stats"),
        *("scale", "causal", "window", "soft_cap", "offsets", "key_offsets", "key_scales", "value_scales"),
    )
    defaults: ClassVar = {
        **dict.fromkeys(call[4:]),
        "causal": "none",
        "window": None,
        "soft_cap": 0.0,
    }
    prop_kinds = (PropKind.undef,)
    reads: ClassVar = {
        ARG_SRC: "query",
        ARG_SRC_1: "key",
        ARG_SRC_2: "value",
        ARG_SHIFT: "mask",
        ARG_SRC_3: "lengths",
        ARG_BIAS: "sinks",
        ARG_MULTIPLE_SRC: "offsets",
        ARG_MULTIPLE_SRC + 1: "key_offsets",
        ARG_ATTR_SCALES | ARG_SRC_1: "key_scales",
        ARG_ATTR_SCALES | ARG_SRC_2: "value_scales",
    }
    also_writes: ClassVar = {ARG_DST_1: "stats"}
    is_strided = True
    in_place = False
    node_reads = "query", "key", "value", *(f"{name}?" for name in (*call[4:7], *call[12:]))
    node_writes = "dst", "stats"
    arguments = """
    `query` (batch, heads, queries, width), `key` (batch, key heads, keys, width), `value` (batch, key heads,
    keys, value width), `dst` (batch, heads, queries, value width): floats in any format, so that heads can
    be interleaved. The number of key heads divides the number of heads; each key head serves a group of
    adjacent heads. `mask`: four dims, each that of the scores or 1; floats are added to the scores; in
    booleans and bytes, 0 hides a key. `lengths` (batch): s32 or s64, the number of keys; keys past it are
    not read. `sinks` (heads): an f32 score without a value. `stats` (batch, heads, queries): f32, the
    log-sum-exp of the scores. `scale`: 1 / sqrt(width) if None. `causal`: "top_left" hides keys after the
    query of the same index, "bottom_right" aligns the last query with the last key. `window`: how many keys
    before and after that position are visible, -1 for all. `soft_cap`: c replaces scores x by
    c * tanh(x / c); 0 means none. `offsets` (sequences + 1): s32 or s64, where each packed sequence begins
    and where the last one ends; a query sees only keys of its own sequence, and the other parameters apply
    within it. `key_offsets`: the same for keys, where their number differs. `key_scales`, `value_scales`
    (batch, key heads, keys): float factors of keys and values, which can then be s8 or f8.
    """

    query: MemoryDesc
    key: MemoryDesc
    value: MemoryDesc
    dst: MemoryDesc
    mask: MemoryDesc
    lengths: MemoryDesc
    sinks: MemoryDesc
    stats: MemoryDesc
    scale: float
    causal: str
    window: tuple[int, int]
    soft_cap: float
    offsets: MemoryDesc
    key_offsets: MemoryDesc
    key_scales: MemoryDesc
    value_scales: MemoryDesc
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def read(cls, call: ArgumentReader) -> AttentionProblem:
        query, key, value = (call.open(name) for name in ("query", "key", "value"))
        query, key, value = (_row_major(md) for md in (query, key, value))
        dst = call.written("dst", MemoryDesc(_dims(call, query, key, value), query.data_type))
        call.check_dims(dst, lambda: _result_dims(query, key, value), query, key, value)
        more = {
            name: _row_major(call.open(name)) if getattr(call, name, None) is not None else _NO_DESC
            for name in (*cls.call[4:8], *cls.call[12:])
        }
        batch, heads, queries, width = query.dims
        key_heads, keys = key.dims[1:3]
        _check_offsets(call, more, queries, keys)
        sequences = more["offsets"].dims
        for name, dims, types in (
            ("mask", (batch, heads, queries, keys), _MASKS),
            ("lengths", (batch,), _INTEGERS),
            ("sinks", (heads,), (DataType.f32,)),
            ("stats", (batch, heads, queries), (DataType.f32,)),
            ("offsets", (max(*sequences, 1),) if sequences else (1,), _INTEGERS),
            ("key_offsets", sequences, _INTEGERS),
            ("key_scales", (batch, key_heads, keys), _FLOATS[:3]),
            ("value_scales", (batch, key_heads, keys), _FLOATS[:3]),
        ):
            _check(call, name, more[name], dims, types, may_repeat=name == "mask")
        for name, md in (("query", query), ("key", key), ("value", value), ("dst", dst)):
            if md.data_type not in (_STORED if name in ("key", "value") else _FLOATS):
                raise refuse("RS-X02:attention-type", what=call.what, name=name, md=md)
        is_wide = is_computed_wide(query, key, value, dst)
        scale = 1.0 / sqrt(max(width, 1)) if call.scale is None else call.number("scale", is_wide=is_wide)
        causal = call.word("causal", *_CAUSAL)
        window = _window(call)
        soft_cap = call.number("soft_cap", is_wide=is_wide)
        if not isfinite(soft_cap):
            raise refuse("RS-V02:not-finite", name=f"{call.what}: soft_cap", number=soft_cap)
        return cls(
            *(query, key, value, dst),
            scale=scale,
            causal=causal,
            window=window,
            soft_cap=soft_cap,
            **more,
            attr=call.attr(),
        )

    @classmethod
    def results_dims(cls, node: Any, *tensors: Shaped) -> tuple[tuple[int, ...], ...]:
        dims = _result_dims(*tensors[:3])
        return (dims, dims[:3])[: cls.count_of_results(node)]

    @classmethod
    def results_types(cls, node: Any, *tensors: Shaped) -> tuple[DataType, ...]:
        return (tensors[0].data_type, DataType.f32)[: cls.count_of_results(node)]

    @classmethod
    def count_of_results(cls, node: Any) -> int:
        """Return the number of results: 2 with statistics (`node.has_stats`), else 1."""
        return 1 + bool(getattr(node, "has_stats", False))

    def sources(self) -> dict[int, MemoryDesc]:
        return {arg: md for arg, name in self.reads.items() if not (md := getattr(self, name)).is_zero()}

    def outputs(self) -> dict[int, MemoryDesc]:
        return {} if self.stats.is_zero() else {ARG_DST_1: self.stats}

    @property
    def verbose_aux(self) -> str:
        words = [f"scale:{self.scale:g}"]
        words += [f"causal:{self.causal}"] * (self.causal != "none")
        words += [f"window:{self.window[0]}:{self.window[1]}"] * (self.window != (-1, -1))
        words += [f"soft_cap:{self.soft_cap:g}"] * bool(self.soft_cap)
        return " ".join(words)

    @property
    def is_wide(self) -> bool:
        """True if everything is computed in f64."""
        return is_computed_wide(self.query, self.key, self.value, self.dst)

    @property
    def terms(self) -> int:
        """The number of products summed over all keys."""
        batch, heads, queries, width = self.query.dims
        return batch * heads * queries * self.key.dims[2] * (width + self.value.dims[3])

    @property
    def work_bytes(self) -> int:
        return self.moved_bytes + self.terms // NOMINAL.terms_per_byte

    def program(self) -> Program:
        return AttentionProgram(self).program()


@dataclass(frozen=True, slots=True)
class AttentionBackwardProblem(OperationProblem):
    """The gradients of queries, keys and values.

    Executed with `ARG_SRC`, `ARG_SRC_1`, `ARG_SRC_2`, `ARG_DST` and `ARG_DST_1` (the results of the forward
    step and their statistics), `ARG_DIFF_DST`, and the optional arguments of the forward step. Writes
    `ARG_DIFF_SRC`, `ARG_DIFF_SRC_1` and `ARG_DIFF_SRC_ITER_C`, the gradients of queries, keys and values.
    """

    operation = "attention"
    primitive = "ScaledDotProductAttentionBackward"
    call = (
        *("query", "key", "value", "dst", "stats", "diff_query", "diff_key", "diff_value", "diff_dst"),
        *("mask", "lengths", "sinks", "scale", "causal", "window", "soft_cap", "offsets", "key_offsets"),
    )
    defaults: ClassVar = {name: AttentionProblem.defaults[name] for name in call[9:]}
    prop_kinds = (PropKind.backward,)
    reads: ClassVar = {
        **{arg: name for arg, name in AttentionProblem.reads.items() if arg < ARG_ATTR_SCALES},
        ARG_DST: "result",
        ARG_DST_1: "stats",
        ARG_DIFF_DST: "diff_dst",
    }
    writes = ARG_DIFF_SRC
    also_writes: ClassVar = {ARG_DIFF_SRC_1: "diff_key", ARG_DIFF_SRC_ITER_C: "diff_value"}
    is_strided = True
    in_place = False
    node_reads = "query", "key", "value", "dst", "stats", "diff_dst", "mask?"
    node_writes = "diff_query", "diff_key", "diff_value"
    arguments = """
    Tensors and parameters are as in the forward step, which has written `stats`. A gradient of format "any"
    takes the format of its tensor. A mask gets no gradient. `hint_pd`: the forward descriptor, or None.
    """

    query: MemoryDesc
    key: MemoryDesc
    value: MemoryDesc
    result: MemoryDesc
    stats: MemoryDesc
    diff_query: MemoryDesc
    diff_key: MemoryDesc
    diff_value: MemoryDesc
    diff_dst: MemoryDesc
    mask: MemoryDesc
    lengths: MemoryDesc
    sinks: MemoryDesc
    scale: float
    causal: str
    window: tuple[int, int]
    soft_cap: float
    offsets: MemoryDesc
    key_offsets: MemoryDesc
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def results_dims(cls, node: Any, *tensors: Shaped) -> tuple[tuple[int, ...], ...]:
        return tuple(tensor.dims for tensor in tensors[:3])

    @classmethod
    def results_types(cls, node: Any, *tensors: Shaped) -> tuple[DataType, ...]:
        return tuple(tensor.data_type for tensor in tensors[:3])

    @classmethod
    def read(cls, call: ArgumentReader) -> AttentionBackwardProblem:
        forward = AttentionProblem.read(call)
        if forward.stats.is_zero():
            raise refuse("RS-R10:attention-stats", what=call.what)
        if hint := call.hint(AttentionProblem):
            pairs = {name: (getattr(hint, name), getattr(forward, name)) for name in PARAMETERS}
            call.check_hint(dims=(hint.query.dims, forward.query.dims), **pairs)
        gradients = []
        for name, md in (
            ("diff_query", forward.query),
            ("diff_key", forward.key),
            ("diff_value", forward.value),
        ):
            gradients.append(call.written(name, md))
            call.same_dims(**{name.removeprefix("diff_"): md, name: gradients[-1]})
        diff_dst = call.open("diff_dst", forward.dst)
        call.same_dims(dst=forward.dst, diff_dst=diff_dst)
        for name, md in zip((*cls.call[5:8], "diff_dst"), (*gradients, diff_dst), strict=True):
            if md.data_type not in _FLOATS:
                raise refuse("RS-X02:attention-type", what=call.what, name=name, md=md)
        names = {f.name for f in fields(forward)} & {f.name for f in fields(cls)}
        own = {name: getattr(forward, name) for name in names}
        of_query, of_key, of_value = gradients
        more = {"diff_query": of_query, "diff_key": of_key, "diff_value": of_value, "diff_dst": diff_dst}
        return cls(**{**own, **more, "result": forward.dst})

    def forward(self) -> AttentionProblem:
        """The forward step."""
        names = (f.name for f in fields(AttentionProblem) if f.name not in ("dst", "attr"))
        own: dict[str, Any] = {name: getattr(self, name, _NO_DESC) for name in names}
        return AttentionProblem(dst=self.result, **own)

    @property
    def dst(self) -> MemoryDesc:
        return self.diff_query

    @property
    def verbose_dims(self) -> str:
        return "x".join(map(str, self.result.dims))

    def sources(self) -> dict[int, MemoryDesc]:
        return {arg: md for arg, name in self.reads.items() if not (md := getattr(self, name)).is_zero()}

    @property
    def verbose_aux(self) -> str:
        return self.forward().verbose_aux

    @property
    def terms(self) -> int:
        """The number of products summed over all keys: five products of matrices, where forward has two."""
        return 5 * self.forward().terms // 2

    @property
    def work_bytes(self) -> int:
        return self.moved_bytes + self.terms // NOMINAL.terms_per_byte

    def program(self) -> Program:
        return AttentionGradient(self).program()


def _row_major(md: MemoryDesc) -> MemoryDesc:
    return MemoryDesc(md.dims, md.data_type) if md.format_kind == "any" else md


def _dims(call: ArgumentReader, *tensors: MemoryDesc) -> tuple[int, ...]:
    try:
        return _result_dims(*tensors)
    except Misfit as misfit:
        where = ", ".join(map(str, tensors))
        hint = misfit.hint or "pass (batch, heads, positions, width) for each"
        raise refuse("RS-R10:misfit", what=call.what, where=where, why=misfit.why, hint=hint) from None


def _result_dims(query: Shaped, key: Shaped, value: Shaped) -> tuple[int, ...]:
    """Return the dims of the result. Raises Misfit."""
    if not len(query.dims) == len(key.dims) == len(value.dims) == 4:
        raise Misfit("queries, keys and values must have four dims: batch, heads, positions, width")
    (batch, heads, queries, width), keys, values = query.dims, key.dims, value.dims
    if keys[:3] != values[:3] or keys[0] != batch:
        raise Misfit("keys and values must match in number and heads, and share the batch of the queries")
    if keys[3] != width:
        raise Misfit(f"queries have width {width}, but keys have width {keys[3]}")
    if heads and (not keys[1] or heads % keys[1]):
        raise Misfit(f"{heads} heads of queries are not a multiple of {keys[1]} heads of keys")
    return batch, heads, queries, values[3]


def _check(
    call: ArgumentReader,
    name: str,
    md: MemoryDesc,
    dims: tuple[int, ...],
    types: tuple[DataType, ...],
    *,
    may_repeat: bool = False,
) -> None:
    """Check an optional tensor. Raises InvalidArguments if it does not fit."""
    if md.is_zero():
        return
    pairs = zip(md.dims, dims, strict=False)
    fits = md.ndims == len(dims) and all(n == m or (may_repeat and n == 1) for n, m in pairs)
    if not fits or md.data_type not in types:
        kinds = ", ".join(map(str, types))
        raise refuse("RS-R10:attention-operand", what=call.what, name=name, md=md, dims=dims, types=kinds)


def _check_offsets(call: ArgumentReader, more: Mapping[str, MemoryDesc], queries: int, keys: int) -> None:
    """Raise InvalidArguments if sequence lengths are given twice, or where the keys begin is missing."""
    has = {name for name, md in more.items() if not md.is_zero()}
    if "key_offsets" in has and "offsets" not in has:
        why, hint = "key_offsets are given without offsets", "pass offsets too"
    elif {"offsets", "lengths"} <= has:
        why, hint = "offsets and lengths both give the number of keys", "leave one of them out"
    elif "offsets" in has and "key_offsets" not in has and queries != keys:
        why = f"offsets cover {queries} queries, but there are {keys} keys"
        hint = "pass key_offsets, where the keys of each sequence begin"
    else:
        return
    raise refuse("RS-R10:misfit", what=call.what, where=str(more["offsets"]), why=why, hint=hint)


def _window(call: ArgumentReader) -> tuple[int, int]:
    """Return how many keys before and after its position a query sees; -1 for all."""
    window: Any = call.window
    if window is None:
        return -1, -1
    try:
        before, behind = parse_ints(window, "window")
    except Exception:  # a value that is not a pair of numbers can raise anything
        before = behind = -2
    if min(before, behind) < -1 or max(before, behind) >= 1 << 31:
        raise refuse("RS-V05:window", what=call.what, window=short_repr(window))
    return before, behind


ScaledDotProductAttention = make_primitive(AttentionProblem)
ScaledDotProductAttentionBackward = make_primitive(AttentionBackwardProblem, ScaledDotProductAttention)
