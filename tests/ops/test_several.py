"""The common parts of concat and sum: checks that a warm call skips, and checks that it does not (N10)."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import restride as rs
from restride.model.base import DEFAULT_ATTR
from restride.model.several import SeveralPrimitive
from restride.ops.concat import concat_problem
from restride.ops.sum import sum_problem
from support.errors import refused
from support.several import CPU, REF, scaled

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
    (lambda x, dst: ([x, None], dst), "source 1 is not valid"),
    (lambda x, dst: ([x, held(TWICE)], dst), "source 1 is not valid"),
    (lambda x, dst: ([x, held(MD, engine=REF)], dst), "source 1 is not valid"),
    (lambda x, dst: ([x, _mapped(held(MD))], dst), "is mapped"),
    (lambda x, dst: ([x, rs.Memory(MD, CPU, rs.NO_DATA)], dst), "no buffer"),
    (lambda x, dst: ([x, rs.Memory(MD, CPU, dst)], dst), "source 1 and the destination overlap"),
    (lambda x, dst: ([x, x], _mapped(dst)), "is mapped"),
    (lambda x, dst: ([x, x], _frozen(TWICE)), "read-only"),
    (lambda x, dst: ([x, x], held(MD)), "dst is not valid"),
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
    with refused("the stream belongs to another engine"):
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


# --- the programming model ----------------------------------------------------------------------------------

ONE, OTHER = rs.MemoryDesc((2, 3), "f32"), rs.MemoryDesc((2, 3), "s8", "ba")
# A primitive, its own argument, what it makes of two sources, and its fields of a verbose line.
KINDS = {
    "concat": (rs.Concat, "axis", 1, rs.MemoryDesc((2, 6), "f32"), "axis:1", "2x3:2x3"),
    "sum": (rs.Sum, "scales", [1, 0.1], rs.MemoryDesc((2, 3), "f32", "ba"), "scales:1:0.1", "2x3"),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def of_kind(kind: str, engine: rs.Engine = CPU) -> tuple[rs.Concat | rs.Sum, list[rs.Memory], rs.Memory]:
    """A primitive of two sources, and memories for it."""
    primitive, _, own, dst, *_ = KINDS[kind]
    pd = primitive.PrimitiveDesc(engine, own, [ONE, OTHER], dst)
    return primitive(pd), [rs.Memory(md, engine) for md in (ONE, OTHER)], rs.Memory(dst, engine)


@every_kind
def test_both_orders_of_arguments_and_queries(kind: str) -> None:
    primitive, name, own, dst, *_ = KINDS[kind]
    make = primitive.PrimitiveDesc
    for pd in (
        make(CPU, own, [ONE, OTHER], dst),
        make(CPU, dst, own, [ONE, OTHER]),
        make(engine=CPU, srcs=[ONE, OTHER], dst=dst, **{name: own}),
        make(CPU, dst, srcs=[ONE, OTHER], **{name: own}),
    ):
        assert bool(pd)
        assert (pd.src_desc(), pd.src_desc(1), pd.src_desc(2)) == (ONE, OTHER, rs.MemoryDesc())
        assert pd.query_md("src", 1) == pd.query_md("exec_arg_md", rs.ARG_MULTIPLE_SRC + 1) == OTHER
        assert pd.query_md("dst") == pd.dst_desc() == pd.query_md("exec_arg_md", rs.ARG_DST) == dst
        assert (pd.get_kind(), pd.get_engine(), pd.scratchpad_desc()) == (kind, CPU, rs.MemoryDesc())
        assert pd.impl_info_str.startswith("jit:")
        assert pd.get_axis() == pd.query_s64("axis_s32") == 1 if kind == "concat" else pd.get_scales()[0] == 1
    attr = rs.PrimitiveAttr()
    attr.set_scratchpad_mode("user")
    pd = make(CPU, own, [ONE, OTHER], None, attr)
    assert pd.get_primitive_attr().get_scratchpad_mode() == "user"


@every_kind
def test_what_is_empty_is_false_and_refuses(kind: str) -> None:
    primitive, _, own, dst, *_ = KINDS[kind]
    pd = primitive.PrimitiveDesc()
    assert not pd
    assert repr(pd) == f"restride.{primitive.__name__}.PrimitiveDesc()"
    assert pd.src_desc() == rs.MemoryDesc()
    with refused("the primitive is empty"):
        primitive().execute(STREAM, {})
    with refused("the primitive descriptor is empty"):
        primitive(pd)
    with refused("not a primitive descriptor"):
        primitive("pd")
    wrong = [ONE, rs.MemoryDesc((4, 4), "f32")]
    for args in ((CPU, own, wrong, None, None), (CPU, dst, own, wrong, None)):
        assert not primitive.PrimitiveDesc(*args, True)
        assert not primitive.PrimitiveDesc(*args, allow_empty=True)
        with refused("shape"):
            primitive.PrimitiveDesc(*args, False)


@every_kind
def test_pickling_makes_the_primitive_anew(kind: str) -> None:
    primitive, _, own, *_ = KINDS[kind]
    attr = scaled([1.0, 0.5]) if kind == "concat" else None
    pd = primitive.PrimitiveDesc(REF, own, [OTHER, ONE], None, attr)
    for again in (
        pickle.loads(pickle.dumps(pd)),
        pickle.loads(pickle.dumps(primitive(pd))).get_primitive_desc(),
    ):
        assert (again.get_engine(), again.dst_desc()) == (REF, pd.dst_desc())
        assert [again.src_desc(i) for i in range(2)] == [OTHER, ONE]
        assert again.get_primitive_attr() == pd.get_primitive_attr()
        assert again.get_axis() == 1 if kind == "concat" else again.get_scales() == pd.get_scales()
    assert not pickle.loads(pickle.dumps(primitive.PrimitiveDesc()))
    assert not pickle.loads(pickle.dumps(primitive()))


def test_scales_of_either_zero_stay_apart_in_pickles() -> None:
    pd = rs.Sum.PrimitiveDesc(REF, [2, -0.0], [ONE, OTHER])
    assert [str(scale) for scale in pickle.loads(pickle.dumps(pd)).get_scales()] == ["2.0", "-0.0"]


@every_kind
def test_arguments_of_executions_and_their_errors(kind: str) -> None:
    made, srcs, dst = of_kind(kind)
    args = {rs.ARG_MULTIPLE_SRC: srcs[0], rs.ARG_MULTIPLE_SRC + 1: srcs[1], rs.ARG_DST: dst}
    made.execute(STREAM, args)
    made.execute(STREAM, list(args.items()))
    made.execute(STREAM, {**args, rs.ARG_MULTIPLE_SRC + 2: dst})  # unknown inputs are ignored
    with refused("bad number of inputs (expected 2 got 1)", "1025 (ARG_MULTIPLE_SRC + 1) is missing"):
        made.execute(STREAM, {rs.ARG_MULTIPLE_SRC: srcs[0], rs.ARG_DST: dst})
    with refused("bad number of outputs (expected 1 got 0)"):
        made.execute(STREAM, {rs.ARG_MULTIPLE_SRC: srcs[0], rs.ARG_MULTIPLE_SRC + 1: srcs[1]})
    with refused("bad number of outputs (expected 1 got 2)"):
        made.execute(STREAM, {**args, rs.ARG_DST_1: dst})
    with refused("The same argument kind 1024 is passed multiple times"):
        made.execute(STREAM, [*args.items(), (rs.ARG_MULTIPLE_SRC, srcs[0])])
    with refused("bad number of inputs", "2 sources are expected, 1 were given"):
        made.execute(STREAM, srcs[:1], dst)
    with refused("bad number of inputs", "Memory was given"):
        made.execute(STREAM, srcs[0], dst)
    with refused("dst is not valid", "expected an rs.Memory, got ndarray"):
        made.execute(STREAM, srcs, np.zeros((2, 8)))
    with refused("not a stream"):
        made.execute(None, srcs, dst)


@every_kind
def test_verbose_lines(kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    _, _, _, _, aux, dims = KINDS[kind]
    with rs.set_verbose("profile"):
        made, srcs, dst = of_kind(kind)
        made.execute(STREAM, srcs, dst)
    lines = [line.split(",") for line in capfd.readouterr().err.splitlines() if f",{kind}," in line]
    assert [line[3] for line in lines if line[3] != "cache:evict"][-1] == "exec"
    tag = dst.desc.tag
    for line in lines:
        assert line[4:6] == ["cpu", kind]
        assert line[8] == f"src:f32::blocked:ab::f0 src:s8::blocked:ba::f0 dst:f32::blocked:{tag}::f0"
        assert line[10].startswith(f"{aux} why:")
        assert line[11] == dims
