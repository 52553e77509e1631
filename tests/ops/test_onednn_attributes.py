"""Attributes beside a real oneDNN, bit for bit but for what `onednn_oracle_attributes` excuses."""

from __future__ import annotations

import ctypes
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from restride.dtypes import DataType
from restride.errors import Status
from restride_bench.onednn import Handle, OneDNN
from restride_bench.onednn_library import OneDNNError
from support.attributed import Some
from support.attributes import Factor, Given, Sum
from support.onednn_api import OneDNNAttributes, reorder
from support.onednn_oracle_attributes import AttributeCase, case_of, fill, mismatch, run_onednn, run_restride

pytestmark = [pytest.mark.peer]

_BATCHES, _PER_BATCH = 8, 250
_RELU, _ADD = 32, 131056
_WEIGHTS, _REALS = ("s4", "u4", "s8", "u8"), ("f32", "bf16", "f16")


@pytest.fixture(scope="module")
def library() -> OneDNN:
    try:
        return OneDNN()
    except OneDNNError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("batch", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, _BATCHES))])
def test_attributes_do_what_onednn_does(
    library: OneDNN, batch: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """250 cases a batch; those that oneDNN refuses are counted."""
    count: Counter[str] = Counter()
    for seed in range(batch * _PER_BATCH, (batch + 1) * _PER_BATCH):
        count[_compared(library, seed)] += 1
    with capsys.disabled():
        print(f"\nattributes {batch}: {dict(count)}")
    assert sum(n for name, n in count.items() if ":" in name) >= _PER_BATCH // 3


def _compared(library: OneDNN, seed: int) -> str:
    """Compare one case; the name of oneDNN's kernel."""
    case = case_of(seed)
    if case.given.is_nothing:
        return "no attribute"
    try:
        return _equal(library, case)
    except OneDNNError as error:
        if error.status not in (Status.unimplemented, Status.invalid_arguments):
            raise
        return error.status.name


def _equal(library: OneDNN, case: AttributeCase) -> str:
    """Both give the same; the name of oneDNN's kernel. Raises OneDNNError where it provides none."""
    src, old = fill(case)
    kernel, theirs = run_onednn(library, case, src, old)
    name, ours = run_restride(case, src, old)
    found = mismatch(case, src, old, ours, theirs, kernel)
    assert not found, f"{name} beside {kernel}: {found}\n{case}"
    return kernel


@pytest.mark.parametrize("groups", [(8, 1), (1, 16), (4, 8)], ids=str)
@pytest.mark.parametrize(("src", "dst"), [(s, d) for s in _WEIGHTS for d in _REALS if s + d != "u8f16"])
def test_weights_are_decompressed_as_by_onednn(
    library: OneDNN, src: str, dst: str, groups: tuple[int, int]
) -> None:
    some = Some(5, (16, 32))
    for scale, zero in (("f32", "s32"), ("bf16", "s8"), ("f16", src), ("f16", None)):
        shift = None if zero is None else some.factor(3, zero, groups)
        given = Given(src_scale=some.factor(3, scale, groups), src_zero=shift)
        for tags in (("ab", "ab"), ("ba", "ab"), ("ab", "ba")):
            assert _equal(library, AttributeCase(some.dims, (src, dst), tags, given, 5))


def test_the_oracle_of_attributes_sees_another_scale_and_one_wrong_bit(library: OneDNN) -> None:
    seen = 0
    for seed in range(200):
        case = case_of(seed)
        scale = case.given.src_scale
        if scale is None or case.types != ("s8", "f32"):
            continue
        src, old = fill(case)
        try:
            kernel, theirs = run_onednn(library, case, src, old)
        except OneDNNError:
            continue
        ours = run_restride(case, src, old)[1]
        assert not mismatch(case, src, old, ours, theirs, kernel)
        ours[-1] ^= 1
        halved = replace(scale, bits=scale.bits[::-1].copy())
        other = run_restride(replace(case, given=replace(case.given, src_scale=halved)), src, old)[1]
        assert np.array_equal(halved.bits, scale.bits) or mismatch(case, src, old, other, theirs, kernel)
        assert mismatch(case, src, old, ours, theirs, kernel)
        seen += 1
    assert seen


def _append(attr: OneDNNAttributes, ops: list[tuple[str, Any]]) -> None:
    """Set a chain with these: ("eltwise", number) or ("binary", (number, desc))."""
    made, check = ctypes.c_void_p(), attr.library.check
    check("dnnl_post_ops_create", ctypes.byref(made))
    chain = Handle(attr.library, "post_ops", made)
    for kind, what in ops:
        if kind == "eltwise":
            check("dnnl_post_ops_append_eltwise", made, what, ctypes.c_float(0.0), ctypes.c_float(0.0))
        else:
            check("dnnl_post_ops_append_binary", made, what[0], what[1].pointer)
    attr.library.dnnl.dnnl_primitive_attr_set_post_ops(attr.pointer, chain.pointer)


def test_onednn_reorders_with_no_post_op_but_a_sum(library: OneDNN) -> None:
    """N13: what it refuses is provided here."""
    md = library.desc((4, 8), "f32", "ab")
    for ops in ([("eltwise", _RELU)], [("binary", (_ADD, md))], [("eltwise", _RELU)] * 2):
        attr = OneDNNAttributes.new(library)
        _append(attr, ops)
        with pytest.raises(OneDNNError) as caught:
            reorder(library, md, library.desc((4, 8), "f32", "ba"), attr)
        assert caught.value.status is Status.unimplemented


# --- the lines of numerics.md -----------------------------------------------------------------------------

RNG = np.random.default_rng(1)
INTS = RNG.integers(-(2**30), 2**30, (9, 33)).astype(np.int32)
REALS = RNG.standard_normal((9, 33)).astype(np.float32)
BYTES = RNG.integers(0, 256, (9, 33)).astype(np.uint8)
SQUARE = np.arange(-32, 32, dtype=np.float32).reshape(8, 8)


def constant(value, kind="f32", mask=0):
    bits = np.atleast_1d(np.asarray(value)).astype(DataType[kind].numpy)
    return Factor(mask, DataType[kind], bits.view(f"u{bits.itemsize}"))


def by_onednn(library, x, dst, given):
    """The kernel and the result of a transpose onto zeros."""
    case = AttributeCase(x.shape, (str(DataType.parse(x.dtype)), dst), ("ab", "ba"), given, 0)
    old = np.zeros(x.size * DataType[dst].bits // 8, np.uint8)
    kernel, out = run_onednn(library, case, x.view(np.uint8).reshape(-1), old)
    ours = run_restride(case, x.view(np.uint8).reshape(-1), old)[1]
    results = (data.view(DataType[dst].numpy).reshape(x.shape[::-1]).T for data in (out, ours))
    return kernel, *results


F32 = np.float32
# Name: source, type, attributes, kernel, what it gives, and what restride gives.
LINES = {
    "a scale, compiled": (
        *(REALS, "f32", Given(dst_scale=constant(0.3)), "jit:uni"),
        *(REALS * (F32(1) / F32(0.3)), REALS * (F32(1) / F32(0.3))),
    ),
    "a scale, reference": (
        *(REALS, "f32", Given(dst_scale=constant(0.3), ops=(Sum(0.5),)), "simple:any"),
        *(REALS / F32(0.3), REALS * (F32(1) / F32(0.3))),
    ),
    "s32, compiled": (
        *(INTS, "f32", Given(src_zero=constant(5, "s32")), "jit:uni"),
        *(INTS.astype(F32) - F32(5), INTS.astype(F32) - F32(5)),
    ),
    "s32, reference": (
        *(INTS, "f32", Given(src_zero=constant(5, "s32"), ops=(Sum(0.5),)), "simple:any"),
        *((INTS - 5).astype(F32), INTS.astype(F32) - F32(5)),
    ),
    "s32 to s32": (
        *(INTS, "s32", Given(src_zero=constant(5, "s32")), "jit:uni"),
        *(INTS - 5, (INTS.astype(F32) - F32(5)).astype(np.int32)),
    ),
    "a zero point for each index": (
        BYTES,
        "f32",
        Given(src_scale=constant([2] * 33, mask=2), src_zero=constant(range(33), "s32", 2)),
        "jit:uni",
        BYTES * F32(2),
        (BYTES - np.arange(33, dtype=F32)) * 2,
    ),
    "8 by 8": (SQUARE, "s8", Given(dst_zero=constant(5, "s32")), "jit:uni", SQUARE, SQUARE + 5),
    "a single scale of bf16": (
        *(REALS, "f32", Given(src_scale=constant(2, "bf16"), ops=(Sum(0.5),)), "simple:any"),
        *(REALS * np.uint32(0x4000).view(F32), REALS * 2),
    ),
}


@pytest.mark.parametrize("name", LINES)
def test_onednn_differs_as_the_numerics_page_says(library: OneDNN, name: str) -> None:
    x, dst, given, kernel, theirs, ours = LINES[name]
    found = by_onednn(library, x, dst, given)
    assert found[0] == kernel
    np.testing.assert_array_equal(found[1], theirs)
    np.testing.assert_array_equal(found[2], ours)
