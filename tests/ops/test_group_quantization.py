"""Quantization in one pass: scales from their definitions in NumPy, elements from ml_dtypes, on every
instruction set and in any share of the work; and the tree itself, which is its meaning."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import restride as rs
from restride.desc.memory_desc import MemoryDesc
from restride.dtypes import DataType
from restride.ir.interpret_tree import interpret_tree
from restride.ir.parse import parse_tree
from restride.ir.program import TreeStep
from restride.ir.tree import LoopTree
from restride.runtime.cpu.executable import CpuExecutable
from restride.runtime.cpu.kernel import KernelWords
from restride.targets.isa import CacheSizes, Isa
from support.effort import examples
from support.group_quantizations import CASES, F4, REACH, Array, Case, cast
from support.kernels import isa_id, runnable
from support.values import patterns

_each = pytest.mark.parametrize("case", CASES, ids=str)


def _tree(case: Case) -> LoopTree:
    (step,) = case.program.steps
    assert isinstance(step, TreeStep)
    return step.tree


def _tensor_scale(case: Case) -> np.float32:
    return np.float32(0.125) if case.is_two_level else np.float32(1)


class _Results:
    """Memories of elements, scales and zero points."""

    def __init__(self, case: Case) -> None:
        self.case, self.source = case, rs.Memory(case.descs[0], rs.Engine("cpu"))
        rs.reorder(case.source(), None, out=self.source)
        kind = "s8" if case.kind[0] == "s" else "u8"
        beside = [MemoryDesc(case.counts, kind)] if case.has_zeros else []
        self.written = [rs.Memory(md, rs.Engine("cpu")) for md in (*case.descs[1:], *beside)]
        for memory in self.written:
            memory.data.view(np.uint8)[...] = 0xA5
        self.scalars = (float(_tensor_scale(case)),) if case.is_two_level else ()

    def run(self, executable: CpuExecutable) -> None:
        values, *beside = self.written
        words = KernelWords(self.scalars, [memory.get_data_handle() for memory in beside])
        executable.run(self.source.get_data_handle(), values.get_data_handle(), words.address)

    def interpret(self) -> None:
        memories = (self.source, *self.written)
        flats = [memory.data.reshape(-1).view(np.uint8) for memory in memories]
        tensors = [
            flat if memory.desc.data_type.bits < 8 else flat.view(f"u{memory.desc.data_type.bits // 8}")
            for flat, memory in zip(flats, memories, strict=True)
        ]
        interpret_tree(_tree(self.case), tensors, self.scalars)

    @property
    def bits(self) -> list[bytes]:
        return [memory.data.tobytes() for memory in self.written]

    def check(self) -> None:
        values, scale, *zero = self.written
        scales, elements, zeros = self.case.wanted(self.case.source(), _tensor_scale(self.case))
        np.testing.assert_array_equal(scale.to_numpy().astype(np.float32), scales)
        if zero:
            np.testing.assert_array_equal(zero[0].to_numpy(), zeros)
        # What has no sign has no NaN either: f8 keeps it.
        plain = rs.reorder(values, "abcd"[: elements.ndim], dtype="f32")
        np.testing.assert_array_equal(np.asarray(plain), elements)


@pytest.mark.sweep(1)
@_each
@pytest.mark.parametrize("isa", runnable(), ids=isa_id)
def test_kernels_find_scales_and_elements_by_their_definition(case: Case, isa: Isa) -> None:
    results = _Results(case)
    results.run(CpuExecutable(case.program, isa, CacheSizes()))
    results.check()


@pytest.mark.parametrize("case", CASES[::3], ids=str)
@pytest.mark.parametrize("isa", runnable()[-1:], ids=isa_id)
def test_kernels_past_the_caches_ask_ahead_and_write_the_same(case: Case, isa: Isa) -> None:
    results = _Results(case)
    results.run(CpuExecutable(case.program, isa, CacheSizes(l2=1, l3=1)))
    results.check()


@_each
def test_the_tree_is_the_definition(case: Case) -> None:
    results = _Results(case)
    results.interpret()
    results.check()


def test_elements_stream_where_they_are_whole_lines() -> None:
    def streams(case: Case) -> bool:
        (launch,) = CpuExecutable(case.program, runnable()[-1], CacheSizes(l2=1, l3=1)).launches
        assert len(launch.targets) == 1 or not launch.lowered.streams
        return launch.lowered.streams and "!nontemporal" in launch.lowered.ir()

    assert streams(Case((64, 256), (1, 32), "s8"))
    assert streams(Case((64, 256), (1, 16), "f4_e2m1", "f8_e4m3"))
    assert streams(Case((256, 384), (128, 128), "f8_e4m3"))
    assert streams(Case((64, 512), (32, 1), "s8"))
    assert not streams(Case((64, 96), (32, 32), "s8"))


def test_two_levels_run_backward_where_the_tensor_has_just_been_read() -> None:
    case = Case((400, 4096), (1, 16), "f4_e2m1", "f8_e4m3", is_two_level=True)
    assert _tree(case).backwards
    assert not _tree(Case((40, 384), (1, 16), "s8")).backwards
    (launch,) = CpuExecutable(case.program, runnable()[-1], CacheSizes(l2=1, l3=1)).launches
    # The chunk before this one is asked for.
    assert "i64 -8192" in launch.lowered.ir()


@_each
def test_quantize_does_so_in_one_pass(case: Case) -> None:
    results = _Results(case)
    if case.is_two_level:
        made = rs.quantize(case.source(), "nvfp4")
        scales, elements, _ = case.wanted(case.source(), np.float32(made.tensor_scale))
        np.testing.assert_array_equal(made.scale.to_numpy().astype(np.float32), scales)
        np.testing.assert_array_equal(np.asarray(rs.reorder(made.values, None, dtype="f32")), elements)
        return
    options = {"scale_type": case.scale_type, "symmetric": not case.has_zeros}
    made = rs.quantize(results.source, case.kind, group=case.groups, **options)
    assert made.values.desc == case.descs[1]
    results.written[:2] = made.values, made.scale
    if case.has_zeros:
        results.written[2] = made.zero_point
    results.check()


_KINDS = ("s8", "u8", "s4", "u4", "f4_e2m1", "f4_e3m0", "nf4", "f8_e4m3", "f8_e5m2")
_ODD = (0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1e-45, -1e-39, 2.0**-126, 3e38, 1.0, -2.5, 5.0)


@settings(max_examples=examples(40), deadline=None)
@given(st.data())
def test_any_groups_axes_layouts_and_values_are_what_the_tree_says(data: st.DataObject) -> None:
    ndims = data.draw(st.integers(1, 3))
    groups = tuple(data.draw(st.sampled_from((1, 2, 3, 8, 16, 32, 40))) for _ in range(ndims))
    counts = tuple(data.draw(st.integers(1, 5)) for _ in range(ndims))
    tag = data.draw(st.sampled_from({1: ("a",), 2: ("ab", "ba"), 3: ("abc", "acb", "aBc8b")}[ndims]))
    has_zeros = data.draw(st.booleans())
    kind = data.draw(st.sampled_from(_KINDS[:4] if has_zeros else _KINDS))
    scale_types = ("f32", "f16", "bf16", "f8_e4m3") + (() if has_zeros else ("e8m0",))
    dims = tuple(n * g for n, g in zip(counts, groups, strict=True))
    src_type = data.draw(st.sampled_from(("f32", "bf16", "f16", "f8_e4m3", "f64")))
    case = Case(
        dims, groups, kind, data.draw(st.sampled_from(scale_types)), src_type, tag, has_zeros=has_zeros
    )
    try:
        program = case.program
    except rs.InvalidArguments:
        return  # blocks cross the border of a group
    isa, caches = data.draw(st.sampled_from(runnable())), data.draw(st.sampled_from((1, 1 << 25)))
    found, wanted = _Results(case), _Results(case)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    x = (rng.standard_normal(dims) * np.exp2(rng.integers(-30, 30, dims))).astype(np.float32)
    x[rng.random(dims) < 0.3] = 0
    odd = rng.random(dims) < 0.2
    x[odd] = rng.choice(np.array(_ODD, np.float32), odd.sum())
    for results in (found, wanted):
        with np.errstate(all="ignore"):
            rs.reorder(x, None, out=results.source)
    found.run(CpuExecutable(program, isa, CacheSizes(l2=caches, l3=caches)))
    wanted.interpret()
    assert found.bits == wanted.bits


@pytest.mark.parametrize("scale_type", ["e8m0", "f32"])
@pytest.mark.parametrize("src", ["bf16", "f32"])
@pytest.mark.parametrize("kind", ["f4_e2m1", "f4_e3m0"])
def test_every_rounding_to_4_bits_is_right(kind: str, src: str, scale_type: str) -> None:
    """Numbers at and beside every tie, with a neighbor that makes the scale 1."""
    most = {"f4_e2m1": 7.99, "f4_e3m0": 31.9}[kind] if scale_type == "e8m0" else REACH[kind]
    if src == "bf16":
        with np.errstate(invalid="ignore"):
            real = patterns(DataType.bf16).view(ml_dtypes.bfloat16).astype(np.float32)
        most = float(np.float32(most).astype(ml_dtypes.bfloat16)) if scale_type == "f32" else REACH[kind]
    else:
        real = np.concatenate([patterns(DataType.f32), _ties(F4[kind])]).view(np.float32)
    with np.errstate(invalid="ignore"):
        real = real[~(np.abs(real) > most) | ~np.isfinite(real)]
    real = np.resize(real, (-(-real.size // 60), 60))
    x = np.concatenate([real, np.full((len(real), 4), most, np.float32)], 1)
    with np.errstate(invalid="ignore"):
        source = x if src == "f32" else x.astype(ml_dtypes.bfloat16)
    made = rs.quantize(source, kind, group=64, scale_type=scale_type)
    assert (made.scale.to_numpy().astype(np.float32) == 1).all()
    codes = made.values.data.view(np.uint8)
    found = np.stack([codes & 15, codes >> 4], -1).reshape(x.shape)
    wanted = np.abs(cast(x, kind, np.float32))
    np.testing.assert_array_equal(np.array(F4[kind])[found & 7], np.where(np.isnan(x), 0, wanted))
    np.testing.assert_array_equal(found >> 3, np.where(np.isnan(x), 1, np.signbit(x)))


def _ties(values: list[float]) -> Array:
    """The bits of the middles between neighbors, and of what lies beside them."""
    exact = np.array(values, np.float32)
    middles = np.concatenate([exact, (exact[1:] + exact[:-1]) / 2])
    beside = [np.nextafter(middles, np.float32(end)) for end in (-np.inf, np.inf)]
    found = np.concatenate([middles, *beside])
    return np.concatenate([found, -found]).view(np.uint32)


@pytest.mark.parametrize("group", [(1, 32), (32, 1), (1, 320), (32, 64)])
@pytest.mark.parametrize("size", [1.0, 2.0**-80, 2.0**-125, 2.0**100])
def test_values_of_16_and_of_32_bits_become_the_same_codes(group: tuple[int, int], size: float) -> None:
    """Some values of each group are 0, infinite or NaN."""
    x = (np.random.default_rng(3).standard_normal((64, 640)) * size).astype(ml_dtypes.bfloat16)
    x[::7, ::5], x[::9, ::11], x[1::9, ::13] = 0.0, np.inf, np.nan
    for kind in ("f4_e2m1", "f8_e4m3"):
        half, whole = (
            rs.quantize(x.astype(dtype), kind, group=group, scale_type="e8m0")
            for dtype in (ml_dtypes.bfloat16, np.float32)
        )
        np.testing.assert_array_equal(half.scale.data.view(np.uint8), whole.scale.data.view(np.uint8))
        np.testing.assert_array_equal(half.values.data.view(np.uint8), whole.values.data.view(np.uint8))


def test_scales_stay_finite_in_types_that_end_early() -> None:
    x = np.full((2, 32), 1e9, np.float32)
    made = rs.quantize(x, "s8", group=32, scale_type="f16")
    assert made.scale.to_numpy().tolist() == [[65504.0], [65504.0]]
    assert (made.values.to_numpy() == 127).all()
    assert (rs.quantize(x, "s8", group=32, scale_type="f8_e4m3").scale.to_numpy() == 448).all()


def test_a_quantization_is_a_tree_that_is_read_again() -> None:
    case = Case((4, 64), (1, 32), "s4", "f16", "bf16")
    tree = _tree(case)
    assert parse_tree(str(tree)) == tree
    assert str(tree).splitlines()[3:] == [
        "each once:",
        "  local largest[4, 2] bf16",
        "  local over[4, 2]",
        "  each d0 4, d1 2 in i16:",
        "    each d2 32:",
        "      let bits = and(src[d0, d1, d2], 32767)",
        "      largest.key = max(bits + 128)",
        "    largest[d0, d1] = max(largest.key, 128) - 128",
        "  each d0 4, d1 2:",
        "    let s = max(5.960464477539063e-08, select(gt(min(65504, largest[d0, d1] / 7), 0), "
        "min(65504, largest[d0, d1] / 7), 1))",
        "    scale[d0, d1, 0] = s",
        "    over[d0, d1] = scale[d0, d1, 0]",
        "  each d0 4, d1 2, d2 32:",
        "    dst[d0, d1, d2] = src[d0, d1, d2] / over[d0, d1]",
    ]
