"""Bad inputs and faults of attributes, numbered as in the list of thirty."""

import numpy as np
import pytest

import restride as rs
from support.engines import from_numpy, run
from support.errors import refused

CPU, REF = rs.Engine("cpu"), rs.Engine("reference")
DIMS = (2, 17, 3)
X = np.arange(102, dtype=np.float32).reshape(DIMS)
F32, S8 = rs.MemoryDesc(DIMS, "f32"), rs.MemoryDesc(DIMS, "s8")
SCALE = rs.ARG_ATTR_SCALES | rs.ARG_SRC
POISON = 0xFF


def attr_of(*calls, ops=()):
    """Attributes after calls of (name, *arguments), and a chain of (kind, *arguments)."""
    attr, chain = rs.PrimitiveAttr(), rs.PostOps()
    for name, *arguments in calls:
        getattr(attr, name)(*arguments)
    for name, *arguments in ops:
        getattr(chain, f"append_{name}")(*arguments)
    attr.set_post_ops(chain)
    return attr


def made(attr, dst=S8, src=F32, engine=CPU):
    return rs.Reorder(rs.Reorder.PrimitiveDesc(engine, src, engine, dst, attr))


def values_of(memory):
    return memory.to_numpy().astype(np.int64).reshape(-1).tolist()


# 13: values

VALUES = [np.nan, np.inf, -np.inf, 1e30, -1e30, -0.0, 1e-45, -1e-40, 16777217.0, 2147483648.0, -2147483648.0]
LARGEST = 2147483520
BECOME = {
    "s32": [0, LARGEST, -(2**31), LARGEST, -(2**31), 0, 0, 0, 16777216, LARGEST, -(2**31)],
    "s8": [0, 127, -128, 127, -128, 0, 0, 0, 127, 127, -128],
    "u8": [0, 255, 0, 255, 0, 0, 0, 0, 255, 255, 0],
    "s4": [0, 7, -8, 7, -8, 0, 0, 0, 7, 7, -8],
    "u4": [0, 15, 0, 15, 0, 0, 0, 0, 15, 15, 0],
}


@pytest.mark.parametrize("dtype", BECOME)
def test_13_strange_values_become_the_integers_of_the_contract_after_any_attribute(dtype, engine):
    x = np.array([VALUES] * 9, np.float32)
    one = rs.MemoryDesc((1, 11), "f32", "ab")
    for attr, extra in (
        (attr_of(("set_scales", rs.ARG_SRC, 2, np.ones(11))), {}),
        (attr_of(("set_scales", rs.ARG_DST, 1, np.ones(9))), {}),
        (attr_of(("set_zero_points", rs.ARG_DST, 2, [0] * 11)), {}),
        (attr_of(ops=[("eltwise", "linear", 1.0)]), {}),
        (attr_of(ops=[("binary", "mul", one)]), {rs.arg_attr_multiple_post_op(0) | rs.ARG_SRC_1: np.ones}),
    ):
        source, target = (
            from_numpy(x, engine),
            rs.Memory(rs.MemoryDesc((9, 11), dtype, "ba"), engine),
        )
        held = {arg: from_numpy(fill((1, 11), np.float32), engine) for arg, fill in extra.items()}
        primitive = rs.Reorder(rs.Reorder.PrimitiveDesc(source, target, attr))
        run(primitive, engine, {rs.ARG_FROM: source, rs.ARG_TO: target, **held})
        assert values_of(target) == BECOME[dtype] * 9


# 14: scales

ROWS = np.float32([[1, -1, 0, np.inf], [1, -1, 0, np.inf], [1, -1, 0, np.inf], [3, -3, 100, -200]])


@pytest.mark.parametrize("known", [True, False], ids=["known", "at execution"])
def test_14_scales_of_0_infinity_and_nan_follow_f32_arithmetic(engine, known):
    scales = np.float32([0, np.inf, np.nan, -1])
    multiplied = [[0, 0, 0, 0], [127, -128, 0, 127], [0, 0, 0, 0], [-3, 3, -100, 127]]
    divided = [[127, -128, 0, 127], [0, 0, 0, 0], [0, 0, 0, 0], [-3, 3, -100, 127]]
    for arg, wanted in ((rs.ARG_SRC, multiplied), (rs.ARG_DST, divided)):
        attr = attr_of(("set_scales", arg, 1, scales if known else None))
        source, target = (
            from_numpy(ROWS, engine),
            rs.Memory(rs.MemoryDesc((4, 4), "s8"), engine),
        )
        held = {} if known else {rs.ARG_ATTR_SCALES | arg: from_numpy(scales, engine)}
        primitive = rs.Reorder(rs.Reorder.PrimitiveDesc(source, target, attr))
        run(primitive, engine, {rs.ARG_FROM: source, rs.ARG_TO: target, **held})
        assert target.to_numpy().tolist() == wanted


def test_14_scales_of_an_axis_follow_f32_arithmetic_too():
    found = rs.reorder(ROWS, None, dtype="s8", scale=np.float32([0, np.inf, np.nan, -1]), axis=0)
    assert found.tolist() == [[0, 0, 0, 0], [127, -128, 0, 127], [0, 0, 0, 0], [-3, 3, -100, 127]]


WRONG_COUNTS = {
    "too few": (2, np.ones(16), "mask 2 needs 17 values (dim 1 is 17), there are 16"),
    "too many": (2, np.ones(18), "mask 2 needs 17 values (dim 1 is 17), there are 18"),
    "none": (1, [], "mask 1 needs 2 values (dim 0 is 2), there are 0"),
    "of two dims": (
        3,
        np.ones(17),
        "mask 3 needs 2 x 17 = 34 values (dim 0 is 2, dim 1 is 17), there are 17",
    ),
    "of dims that are not neighbors": (
        5,
        np.ones(5),
        "mask 5 needs 2 x 3 = 6 values (dim 0 is 2, dim 2 is 3)",
    ),
    "a mask beyond the dims": (8, np.ones(3), "bit 3 stands for dim 3, the tensor has dims 0 to 2 (N10)"),
}


@pytest.mark.parametrize("name", WRONG_COUNTS)
@pytest.mark.parametrize("arg", [rs.ARG_SRC, rs.ARG_DST])
def test_14_wrong_counts_and_masks_name_what_was_expected_and_the_dims(arg, name):
    mask, values, why = WRONG_COUNTS[name]
    with refused(why, where=(F32, S8)):
        made(attr_of(("set_scales", arg, mask, values)))
    with refused(why, where=(S8, S8)):
        made(attr_of(("set_zero_points", arg, mask, np.asarray(values, np.int32))), src=S8)


@pytest.mark.parametrize(("length", "axis"), [(16, 1), (18, 1), (0, 1), (17, 0), (17, -1)])
def test_14_a_wrong_length_for_an_axis_names_the_right_one(length, axis):
    with refused(str(DIMS[axis])):
        rs.reorder(X, None, scale=np.ones(length, np.float32), axis=axis)
    with refused(str(DIMS[axis])):
        rs.reorder(X, None, dtype="s8", zero_point=np.zeros(length, np.int32), axis=axis)


def test_14_scales_of_float64_are_rounded_to_f32():
    scales = np.linspace(0.1, 3.7, 17)
    attr = attr_of(("set_scales", rs.ARG_SRC, 2, scales))
    assert attr.get_scales(rs.ARG_SRC)[1] == scales.astype(np.float32).tolist()
    wanted = X * scales.astype(np.float32)[:, None]
    np.testing.assert_array_equal(rs.reorder(X, None, scale=scales, axis=1), wanted)
    np.testing.assert_array_equal(rs.reorder(X, "cab", scale=scales.astype(np.float32), axis=1), wanted)


# 25: arguments


def with_scales():
    primitive = made(attr_of(("set_scales", rs.ARG_SRC, 2)))
    source, target = rs.Memory(F32, CPU), rs.Memory(S8, CPU)
    target.data.view(np.uint8)[:] = POISON
    scale = rs.Memory.from_numpy(np.ones(17, np.float32))
    return primitive, {rs.ARG_FROM: source, rs.ARG_TO: target, SCALE: scale}


def test_25_a_missing_scale_is_named():
    primitive, held = with_scales()
    with refused(
        "bad number of inputs (expected 2 got 1)", f"argument {SCALE} (ARG_ATTR_SCALES | ARG_SRC) is missing"
    ):
        primitive.execute(rs.Stream(CPU), {arg: held[arg] for arg in (rs.ARG_FROM, rs.ARG_TO)})
    with refused("bad number of inputs (expected 2 got 1)"):
        primitive.execute(rs.Stream(CPU), held[rs.ARG_FROM], held[rs.ARG_TO])
    assert (held[rs.ARG_TO].data.view(np.uint8) == POISON).all()


def test_25_repeated_and_extra_outputs_are_refused_and_unknown_inputs_ignored():
    primitive, held = with_scales()
    pairs = list(held.items())
    with refused(f"The same argument kind {SCALE} is passed multiple times"):
        primitive.execute(rs.Stream(CPU), [*pairs, (SCALE, held[SCALE])])
    with refused("bad number of outputs (expected 1 got 2)", "18 (ARG_DST_1)"):
        primitive.execute(rs.Stream(CPU), {**held, rs.ARG_DST_1: held[SCALE]})
    assert (held[rs.ARG_TO].data.view(np.uint8) == POISON).all()
    primitive.execute(rs.Stream(CPU), {**held, rs.ARG_ATTR_SCALES | rs.ARG_WEIGHTS: held[SCALE]})


def test_25_a_missing_operand_is_named():
    operand = rs.MemoryDesc((1, 17, 1), "f32", "abc")
    primitive = made(attr_of(ops=[("eltwise", "relu"), ("binary", "add", operand)]))
    number = rs.arg_attr_multiple_post_op(1) | rs.ARG_SRC_1
    held = {rs.ARG_FROM: rs.Memory(F32, CPU), rs.ARG_TO: rs.Memory(S8, CPU)}
    with refused(
        "expected 2 got 1", f"argument {number} (arg_attr_multiple_post_op(1) | ARG_SRC_1) is missing"
    ):
        primitive.execute(rs.Stream(CPU), held)
    other = rs.arg_attr_multiple_post_op(0) | rs.ARG_SRC_1
    with refused(
        "expected 2 got 1", f"argument {number} (arg_attr_multiple_post_op(1) | ARG_SRC_1) is missing"
    ):
        primitive.execute(rs.Stream(CPU), {**held, other: rs.Memory(operand, CPU)})


# 27: chains


@pytest.mark.parametrize("kind", ["eltwise", "binary", "sum"])
def test_27_a_33rd_post_op_is_out_of_memory_and_not_appended(kind):
    chain = rs.PostOps()
    for _ in range(32):
        chain.append_eltwise("relu")
    arguments = {"eltwise": ("relu",), "binary": ("add", F32), "sum": ()}[kind]
    with refused("the chain is full", "at most 32", kind=rs.OutOfMemory):
        getattr(chain, f"append_{kind}")(*arguments)
    assert len(chain) == 32


def test_27_sums_of_one_chain_that_read_two_types_are_named():
    ops = [("sum", 1.0, 0, "u8"), ("eltwise", "relu"), ("sum", 2.0)]
    with refused("sums that read dst as u8 and as s8", "same type", where=(F32, S8), kind=rs.Unimplemented):
        made(attr_of(ops=ops), dst=S8)


@pytest.mark.parametrize(
    ("dst", "read"), [("s8", "f32"), ("f32", "u8"), ("bf16", "f32"), ("s4", "s8"), ("f64", "f32")]
)
def test_27_a_sum_of_a_type_of_another_size_says_both_sizes(dst, read):
    md, bits = rs.MemoryDesc(DIMS, dst), rs.DataType[dst].bits
    with refused(f"reads dst as {read}", f"dst is {dst} of {bits} bits", "R30", where=(F32, md)):
        made(attr_of(ops=[("sum", 1.0, 0, read)]), dst=md)


def test_27_a_sum_of_reals_has_no_zero_point():
    with refused("has zero point 3", "it reads f32", where=(S8, F32)):
        made(attr_of(ops=[("sum", 1.0, 3)]), dst=F32, src=S8)
