"""What concat and sum share: what a warm call skips, and what it never skips (N10)."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from restride.model.base import DEFAULT_ATTR
from restride.model.several import SeveralPrimitive
from restride.ops.concat import concat_problem
from restride.ops.sum import sum_problem
from support.errors import refused
from support.several import CPU, REF

MD = rs.MemoryDesc((2, 3, 5), "f32")
TWICE = rs.MemoryDesc((2, 6, 5), "f32")
STREAM = rs.Stream(CPU)


def held(md: rs.MemoryDesc, seed: int = 0, engine: rs.Engine = CPU) -> rs.Memory:
    memory = rs.Memory(md, engine)
    memory.data[:] = np.random.default_rng(seed).integers(-9, 9, memory.data.shape)
    return memory


def joined() -> rs.Concat:
    return rs.Concat(rs.Concat.PrimitiveDesc(CPU, 1, [MD, MD], TWICE))


def added(count: int = 2, md: rs.MemoryDesc = MD, dst: rs.MemoryDesc = MD) -> rs.Sum:
    return rs.Sum(rs.Sum.PrimitiveDesc(CPU, [1.0] * count, [md] * count, dst))


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Executions that have to check everything fail."""

    def check(*args: object) -> None:
        raise AssertionError("everything was checked")

    monkeypatch.setattr(SeveralPrimitive, "_execute_checked", check)


@pytest.mark.usefixtures("unchecked")
def test_memories_that_surely_fit_are_not_checked_one_by_one() -> None:
    x, y, dst, total = held(MD, 1), held(MD, 2), held(TWICE), held(rs.MemoryDesc(MD.dims, "f32"))
    joined().execute(STREAM, [x, y], dst)
    np.testing.assert_array_equal(dst.to_numpy(), np.concatenate([x.to_numpy(), y.to_numpy()], 1))
    added().execute(STREAM, (x, y), total)
    np.testing.assert_array_equal(total.to_numpy(), x.to_numpy() + y.to_numpy())


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("dst_type", ["f32", "s32"])
def test_nor_are_those_of_several_passes(dst_type: str) -> None:
    md, dst_md = rs.MemoryDesc((7, 11), "s8"), rs.MemoryDesc((7, 11), dst_type)
    sources, dst = [held(md, i) for i in range(40)], held(dst_md)
    added(40, md, dst_md).execute(STREAM, sources, dst)
    np.testing.assert_array_equal(dst.to_numpy(), sum(x.to_numpy().astype(np.int64) for x in sources))


@pytest.mark.usefixtures("unchecked")
def test_nor_are_those_of_4_bits() -> None:
    md, dst_md = rs.MemoryDesc((3, 8), "u4"), rs.MemoryDesc((3, 8), "s32")
    sources, dst = [held(md, i) for i in range(2)], held(dst_md)
    added(2, md, dst_md).execute(STREAM, sources, dst)
    wanted = sum(x.to_numpy().astype(np.int32) for x in sources)
    np.testing.assert_array_equal(dst.to_numpy(), wanted)


def _mapped(memory: rs.Memory) -> rs.Memory:
    memory.map_data()
    return memory


def _frozen(md: rs.MemoryDesc) -> rs.Memory:
    data = np.zeros(md.size, np.uint8)
    data.flags.writeable = False
    return rs.Memory(md, CPU, data)


REFUSED = [
    (lambda x, dst: ([x, x, x], dst), "bad number of inputs"),
    (lambda x, dst: ([x, None], dst), "source 1 will not do"),
    (lambda x, dst: ([x, held(TWICE)], dst), "source 1 will not do"),
    (lambda x, dst: ([x, held(MD, engine=REF)], dst), "source 1 will not do"),
    (lambda x, dst: ([x, _mapped(held(MD))], dst), "is mapped"),
    (lambda x, dst: ([x, rs.Memory(MD, CPU, rs.NO_DATA)], dst), "no buffer"),
    (lambda x, dst: ([x, rs.Memory(MD, CPU, dst)], dst), "source 1 and the destination overlap"),
    (lambda x, dst: ([x, x], _mapped(dst)), "is mapped"),
    (lambda x, dst: ([x, x], _frozen(TWICE)), "read-only"),
    (lambda x, dst: ([x, x], held(MD)), "dst will not do"),
    (lambda x, dst: ([x, x], rs.Memory(TWICE, CPU, rs.NO_DATA)), "no buffer"),
]


@pytest.mark.parametrize(("made", "text"), REFUSED, ids=range(len(REFUSED)))
def test_what_does_not_fit_is_refused_as_ever(made: object, text: str) -> None:
    srcs, dst = made(held(MD, 1), held(TWICE, 2))  # type: ignore[operator]
    before = None if dst.data is None else dst.data.copy()
    with refused(text):
        joined().execute(STREAM, srcs, dst)
    assert before is None or (dst.data == before).all()


def test_another_engines_stream_is_refused_as_ever() -> None:
    x = held(MD)
    with refused("the stream is another engine's"):
        joined().execute(rs.Stream(REF), [x, x], held(TWICE))


def test_a_checked_problem_is_not_checked_again() -> None:
    one, other = (rs.MemoryDesc((2, 3, 5), "f32") for _ in range(2))
    assert concat_problem(1, (one, one), None, DEFAULT_ATTR) is concat_problem(
        1, (other, other), None, DEFAULT_ATTR
    )
    assert sum_problem((1.0, 2.0), (one, one), None, DEFAULT_ATTR) is sum_problem(
        (1.0, 2.0), (other, other), None, DEFAULT_ATTR
    )
    signed = [sum_problem((zero,), (one,), None, DEFAULT_ATTR) for zero in (0.0, -0.0)]
    assert signed[0] != signed[1]


def test_a_primitive_descriptor_holds_its_callers_descriptors() -> None:
    for _ in range(2):
        one, dst = rs.MemoryDesc((2, 3, 5), "f32"), rs.MemoryDesc((2, 6, 5), "f32")
        pd = rs.Concat.PrimitiveDesc(CPU, 1, [one, one], dst)
        assert pd.src_desc(0) is one
        assert pd.dst_desc() is dst
        pd = rs.Sum.PrimitiveDesc(CPU, [1, 1], [one, one], one)
        assert pd.src_desc(1) is one
        assert pd.dst_desc() is one
