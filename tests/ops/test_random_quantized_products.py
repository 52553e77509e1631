"""Random products by quantized weights beside f64: every case is a function of its number.

What a result may differ by follows from the products that are summed: f32 where they are exact, the step of a
row's bytes where the source becomes integers, and the rounding of the destination.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import pytest

import restride as rs
from support.effort import examples

CPU = rs.Engine("cpu")
_ARG = rs.onednn.Arg
_THREADS = 1, 2, 5
_INTEGERS = "s8", "u8", "s4", "u4"
_WEIGHTS = (*_INTEGERS, *_INTEGERS, "f8_e4m3", "f8_e5m2", "f4_e2m1", "f4_e3m0", "nf4")
_SOURCES = "f32", "f32", "f32", "bf16", "f16"
_RESULTS = "f32", "f32", "f32", "bf16", "f16", "s8"
_SCALES = "f32", "f32", "f16", "bf16", "e8m0", "f8_e4m3", "f8_e5m2"
_ZEROS = "s8", "u8", "s32", "s4", "u4", "f32", "f16"
_WAYS = (
    *("", "tensor", "column", "group", "group", "group", "group", "blocks", "batch"),
    *("row", "each", "half", "wide"),
)
_GROUPS = 8, 16, 24, 32, 48, 64, 96, 128, 256
# Of an element that is rounded to a type: half of its last place, of the largest below one.
_ROUNDING = {"f32": 2.0**-24, "bf16": 2.0**-8, "f16": 2.0**-11, "s8": 0.0}
_SUMMED = 2e-6
# Rounded to bytes, errors of a row are as random as its elements; so many deviations are never seen.
_DEVIATIONS = 8 / 12**0.5


@dataclass(frozen=True)
class Factor:
    """Scales or zero points of the weights; `known` when the primitive is made."""

    data_type: str
    mask: int
    groups: tuple[int, ...]
    known: bool = False


@dataclass(frozen=True)
class Case:
    """A product; pytest prints it."""

    number: int
    dims: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    types: tuple[str, str, str]
    tags: tuple[str, str, str]
    scale: Factor | None
    zero: Factor | None
    mode: str
    src_scale: float = 1.0
    dst_scale: float = 1.0
    bias: str = ""
    ops: tuple[tuple[Any, ...], ...] = field(default=())


def case_of(number: int) -> Case:
    """The case of a number."""
    rng = np.random.default_rng(number)

    def one(values: Any) -> Any:
        return values[rng.integers(len(values))]

    group, wide = int(one(_GROUPS)), int(one((2, 16)))
    longest = int(one((300, 300, 2000)))
    k, n = int(rng.integers(1, longest)), int(one((1, 7, 16, 33, 64, 100, 130)))
    way = one(_WAYS)
    if way in ("group", "half", "batch", "wide"):
        k, n = (
            group * int(rng.integers(1, max(longest // group, 2))),
            n - n % wide if way == "wide" and n >= wide else n,
        )
    if way == "blocks":
        k, n = 128 * int(rng.integers(1, 4)), 128 * int(rng.integers(1, 3))
    batch = tuple(int(one((1, 2, 3))) for _ in range(int(one((0, 0, 0, 1, 1, 2)))))
    of_src, of_weights = (tuple(size if rng.random() < 0.7 else 1 for size in batch) for _ in range(2))
    batch = tuple(max(pair) for pair in zip(of_src, of_weights, strict=True))
    dims = (*of_src, int(one((1, 1, 2, 5, 16, 33))), k), (*of_weights, k, n)
    types = one(_SOURCES), one(_WEIGHTS), one(_RESULTS)
    ndims = len(dims[0])
    plain = "abcd"[:ndims]
    turned = plain[:-2] + plain[-1] + plain[-2]
    column, both, every = 1 << ndims - 1, 3 << ndims - 2, (1 << ndims) - 1
    own = {"tensor": (0, ()), "column": (column, ()), "row": (column >> 1, ()), "each": (both, ())}
    own |= {"group": (both, (group, 1)), "half": (both, (group // 2, 1)), "batch": (every, (group, 1))}
    own |= {"blocks": (both, (128, 128)), "wide": (both, (group, wide if n % wide == 0 else 1))}
    scale = zero = None
    if way:
        scale = Factor(one(_SCALES), *own[way], bool(rng.random() < 0.2))
    if types[1] in _INTEGERS and rng.random() < 0.5:
        others = (
            way or "column",
            way or "column",
            "tensor",
            "column",
            "group" if way == "half" else "column",
        )
        zero = Factor(one(_ZEROS), *own[one(others)])
    ops: list[tuple[Any, ...]] = []
    if rng.random() < 0.2:
        ops.append(("sum", float(one((1.0, 0.5)))))
    if rng.random() < 0.3:
        ops.append(("relu", float(one((0.0, 0.25)))))
    if rng.random() < 0.3:
        shape = one(((1,) * (ndims - 1) + (n,), (*batch, dims[0][-2], n), (1,) * ndims))
        ops.append(("binary", one(("add", "sub", "mul", "max")), one(("f32", "bf16", "s8")), tuple(shape)))
    rng.shuffle(ops)
    return Case(
        number,
        (*dims, (*batch, dims[0][-2], n)),
        types,
        (one((plain, plain, turned)), one(("any", "any", plain, turned)), one((plain, plain, turned, "any"))),
        *(scale, zero, one(("strict", "strict", "any"))),
        src_scale=float(one((1.0, 1.0, 0.5, 0.3))),
        dst_scale=float(one((1.0, 1.0, 1.0, 4.0))),
        bias=one(("", "", "f32", "bf16", "s8")),
        ops=tuple(ops),
    )


# --- both sides ---------------------------------------------------------------------------------------------


def primitive_of(case: Case, held: dict[int, Any]) -> rs.onednn.Matmul:
    """The primitive; values of factors that are known are in `held`."""
    attr = rs.onednn.PrimitiveAttr()
    attr.set_fpmath_mode(case.mode, apply_to_int=True)
    for factor, kind, setter in _factors(case, attr):
        values = held[kind | _ARG.WEIGHTS].ravel() if factor.known else None
        setter(_ARG.WEIGHTS, factor.mask, values, factor.groups, factor.data_type)
    for arg, scale in ((_ARG.SRC, case.src_scale), (_ARG.DST, case.dst_scale)):
        if scale != 1.0:
            attr.set_scales(arg, 0, [scale])
    ops = rs.onednn.PostOps()
    for op in case.ops:
        if op[0] == "sum":
            ops.append_sum(op[1])
        elif op[0] == "relu":
            ops.append_eltwise("relu", op[1], 0.0)
        else:
            ops.append_binary(op[1], rs.MemoryDesc(op[3], op[2]))
    attr.set_post_ops(ops)
    mds = [rs.MemoryDesc(*each) for each in zip(case.dims, case.types, case.tags, strict=True)]
    if case.bias:
        n = case.dims[2][-1]
        mds.insert(2, rs.MemoryDesc((*[1] * (len(case.dims[0]) - 1), n), case.bias))
    return rs.onednn.Matmul(rs.onednn.Matmul.PrimitiveDesc(CPU, *mds, attr))


def _factors(case: Case, attr: Any) -> list[tuple[Factor, int, Any]]:
    found = [(case.scale, _ARG.ATTR_SCALES, attr.set_scales)]
    found.append((case.zero, _ARG.ATTR_ZERO_POINTS, attr.set_zero_points))
    return [(factor, kind, setter) for factor, kind, setter in found if factor is not None]


def memory_of(values: Any, md: rs.MemoryDesc) -> rs.Memory:
    """Numbers in a memory, rounded to its type."""
    memory = rs.Memory(md, CPU)
    source = values if isinstance(values, rs.Memory) else np.ascontiguousarray(values, np.float32)
    rs.reorder(source, None, out=memory)
    return memory


def real(memory: rs.Memory) -> Any:
    """The numbers of a memory."""
    return memory_of(memory, rs.MemoryDesc(memory.desc.dims, "f32")).to_numpy().astype(np.float64)


def check(case: Case) -> None:
    """Results on any number of threads have the same bits, which are near enough to those of f64."""
    rng = np.random.default_rng(case.number)
    held, factors = _factor_values(case, rng)
    primitive = primitive_of(case, held)
    pd = primitive.get_primitive_desc()
    memories = {
        _ARG.SRC: memory_of(rng.standard_normal(case.dims[0]), pd.src_desc()),
        _ARG.WEIGHTS: memory_of(_weights(case, rng), pd.weights_desc()),
    }
    exact, limit = _product(case, real(memories[_ARG.SRC]), real(memories[_ARG.WEIGHTS]), *factors)
    if case.bias:
        md = pd.query_md("exec_arg_md", _ARG.BIAS)
        memories[_ARG.BIAS] = memory_of(rng.integers(-9, 9, md.dims), md)
        exact = exact + real(memories[_ARG.BIAS])
    limit = limit + _SUMMED * np.abs(exact)
    old = memory_of(rng.integers(-9, 9, case.dims[2]), pd.dst_desc())
    for i, op in enumerate(case.ops):
        if op[0] == "sum":
            exact = exact + op[1] * real(old)
        elif op[0] == "relu":
            exact = np.where(exact > 0, exact, op[1] * exact)
        else:
            second = memory_of(rng.integers(-3, 4, op[3]), rs.MemoryDesc(op[3], op[2]))
            memories[rs.onednn.arg_attr_multiple_post_op(i) | _ARG.SRC_1] = second
            exact = _BINARY[op[1]](exact, real(second))
            limit = limit * np.abs(real(second)) if op[1] == "mul" else limit
    exact, limit = exact / case.dst_scale, limit / case.dst_scale
    for kind, values in held.items():
        factor = case.scale if kind & _ARG.ATTR_SCALES else case.zero
        if factor is not None and not factor.known:
            md = pd.query_md("exec_arg_md", kind)
            memories[kind] = memory_of(values.reshape(md.dims), md)
    results = [_run(primitive, memories, old, threads) for threads in _THREADS]
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0], err_msg=f"threads: {case}")
    wanted, limit = _rounded(case.types[2], exact, limit)
    off = np.abs(results[0] - wanted)
    bad = ~(off <= limit)
    assert not bad.any(), (
        f"{bad.sum()} of {bad.size} off by up to {off[bad].max():.3g} of {np.abs(wanted).max():.3g}, "
        f"{(off[bad] / limit[bad]).max():.3g} times what may be: {case}, {pd.impl_info_str}"
    )


_BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum}


def _run(primitive: Any, memories: dict[int, rs.Memory], old: rs.Memory, threads: int) -> Any:
    dst, before = memory_of(old, old.desc), rs.get_num_threads()
    rs.set_num_threads(threads)
    try:
        primitive.execute(rs.onednn.Stream(CPU), {**memories, _ARG.DST: dst})
    finally:
        rs.set_num_threads(before)
    return real(dst)


def _factor_values(case: Case, rng: np.random.Generator) -> tuple[dict[int, Any], list[Any]]:
    """The values of scales and zero points by argument, and both for each element of the weights."""
    dims, found, spread = case.dims[1], dict[int, Any](), list[Any]()
    for factor, kind in ((case.scale, _ARG.ATTR_SCALES), (case.zero, _ARG.ATTR_ZERO_POINTS)):
        if factor is None:
            spread.append(float(kind == _ARG.ATTR_SCALES))
            continue
        groups = (1,) * (len(dims) - len(factor.groups)) + factor.groups
        shape = [
            size // g if factor.mask >> d & 1 else 1
            for d, (size, g) in enumerate(zip(dims, groups, strict=True))
        ]
        if kind == _ARG.ATTR_SCALES:
            values = 2.0 ** rng.integers(-4, 3, shape)
            values = values if factor.data_type == "e8m0" else values * rng.choice([1, 1.25, 1.5], shape)
        else:
            low, high = {"u8": (0, 200), "u4": (0, 16), "s4": (-8, 8)}.get(factor.data_type, (-20, 20))
            values = rng.integers(low, high, shape) + 0.5 * (factor.data_type in ("f32", "f16"))
        found[kind | _ARG.WEIGHTS] = values
        whole = values
        for d, g in enumerate(groups):
            whole = np.repeat(whole, g if factor.mask >> d & 1 else 1, d)
        spread.append(np.broadcast_to(whole, dims))
    return found, spread


def _weights(case: Case, rng: np.random.Generator) -> Any:
    """Integers of the whole range, floats near 1."""
    kind, dims = case.types[1], case.dims[1]
    if kind not in _INTEGERS:
        return 2 * rng.standard_normal(dims)
    bits = int(kind[1:])
    low = -(1 << bits - 1) if kind[0] == "s" else 0
    return rng.integers(low, low + (1 << bits), dims)


def _product(case: Case, src: Any, weights: Any, scale: Any, zero: Any) -> tuple[Any, Any]:
    """Return the sums in f64, and their tolerances."""
    real_weights = (weights - zero) * scale
    largest = (np.abs(weights) + np.abs(zero)) * np.abs(scale)
    limit = _SUMMED * (np.abs(src) @ largest)
    if case.mode == "any" and case.types[1] in (*_INTEGERS, "f4_e2m1"):
        step = np.abs(src).max(-1, keepdims=True) / 127
        limit = limit + _DEVIATIONS * step * np.sqrt((real_weights**2).sum(-2, keepdims=True))
    elif case.mode == "any":
        # Where the machine multiplies bf16, both factors are rounded to it.
        limit = limit + _DEVIATIONS * 2.0**-8 * np.sqrt((src**2) @ (real_weights**2))
    return (src @ real_weights) * case.src_scale, limit * case.src_scale


def _rounded(kind: str, exact: Any, limit: Any) -> tuple[Any, Any]:
    """The results as they are stored, and what these may be off by."""
    if kind == "s8":
        return np.clip(exact, -128, 127), limit + 0.5
    exact = np.clip(exact, -65504, 65504) if kind == "f16" else exact
    return exact, limit + _ROUNDING[kind] * (np.abs(exact) + limit)


# --- tests --------------------------------------------------------------------------------------------------


def test_cases_are_of_every_kind() -> None:
    cases = [case_of(number) for number in range(400)]
    kinds = Counter(case.types[1] for case in cases)
    assert {*kinds} == {*_WEIGHTS}
    assert {case.mode for case in cases} == {"strict", "any"}
    assert sum(prod(case.dims[2][:-2]) > 1 for case in cases) > 50


@pytest.mark.parametrize("part", range(4))
def test_products_are_those_of_f64(part: int) -> None:
    for number in range(part, examples(120), 4):
        check(case_of(number))
