"""Post-ops: a chain of at most 32, in order, read back as it was appended."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest

from restride.desc.layout import RUNTIME_DIM
from restride.desc.memory_desc import MemoryDesc
from restride.desc.post_op_values import BinaryOp, EltwiseOp, SumOp
from restride.desc.post_ops import PostOps
from restride.dtypes import DataType
from restride.errors import InvalidArguments, OutOfMemory, Status, Unimplemented

ROW = MemoryDesc((1, 8, 1, 1), "f32", "nchw")
ELTWISE = (
    *("relu", "linear", "clip", "clip_v2", "abs", "sqrt", "square", "exp", "log", "tanh", "logistic", "pow"),
    *("gelu_erf", "gelu_tanh", "swish", "elu", "hardswish", "hardsigmoid", "round", "soft_relu", "mish"),
)
OF_DST = tuple(
    f"{alg}_use_dst_for_bwd" for alg in ("relu", "tanh", "elu", "sqrt", "logistic", "exp", "clip_v2")
)
BINARY = ("add", "sub", "mul", "div", "min", "max", "ge", "gt", "le", "lt", "eq", "ne")


def chain(*appends: Any) -> PostOps:
    ops = PostOps()
    for append in appends:
        append(ops)
    return ops


def add_sum(*args: Any) -> Any:
    return lambda ops: ops.append_sum(*args)


def add_eltwise(*args: Any) -> Any:
    return lambda ops: ops.append_eltwise(*args)


def add_binary(*args: Any) -> Any:
    return lambda ops: ops.append_binary(*args)


def add_prelu(*args: Any) -> Any:
    return lambda ops: ops.append_prelu(*args)


# --- what is read back -------------------------------------------------------------------------------------


def test_a_chain_is_read_back_in_order() -> None:
    ops = chain(
        add_eltwise("relu", 0.25), add_sum(0.5, 3, "u8"), add_binary("binary_max", ROW), add_eltwise("exp")
    )
    assert len(ops) == 4
    assert [ops.kind(i) for i in range(4)] == ["eltwise", "sum", "binary", "eltwise"]
    assert ops.get_params_eltwise(0) == ("relu", 0.25, 0.0, 1.0)
    assert ops.get_params_sum(1) == (0.5, 3, DataType.u8)
    assert ops.get_params_binary(2) == ("max", ROW)
    assert ops.get_params_eltwise(3) == ("exp", 0.0, 0.0, 1.0)
    assert ops.freeze() == (
        EltwiseOp("relu", 0.25, 0.0, 1.0),
        SumOp(0.5, 3, DataType.u8),
        BinaryOp("max", ROW),
        EltwiseOp("exp", 0.0, 0.0, 1.0),
    )


def test_a_prelu_is_read_back() -> None:
    ops = chain(add_eltwise("exp"), add_prelu(6))
    assert ops.kind(1) == "prelu"
    assert ops.get_params_prelu(1) == 6
    with pytest.raises(InvalidArguments, match="post-op 0 is not prelu"):
        ops.get_params_prelu(0)


def test_sums_are_read_back_each_with_its_own_numbers() -> None:
    ops = chain(add_sum(0.5, 3, "u8"), add_eltwise("relu"), add_sum(2.0, -1, "u8"))
    assert [ops.kind(i) for i in range(3)] == ["sum", "eltwise", "sum"]
    assert (ops.get_params_sum(0), ops.get_params_sum(2)) == ((0.5, 3, DataType.u8), (2.0, -1, DataType.u8))
    assert repr(ops) == "<PostOps sum:0.5:3:u8+eltwise_relu+sum:2:-1:u8>"
    assert pickle.loads(pickle.dumps(ops)) == copy.deepcopy(ops) == ops


def test_a_sum_without_arguments_adds_the_old_destination() -> None:
    assert chain(add_sum()).get_params_sum(0) == (1.0, 0, None)
    assert chain(add_sum(1.0, 0, DataType.undef)).get_params_sum(0) == (1.0, 0, None)


@pytest.mark.parametrize("alg", [*ELTWISE, *OF_DST])
def test_each_eltwise_algorithm_is_known_with_and_without_prefix(alg: str) -> None:
    bare, whole = (chain(add_eltwise(name, 1.0, 2.0, 0.5)) for name in (alg, f"eltwise_{alg}"))
    assert bare == whole
    assert bare.get_params_eltwise(0) == (alg, 1.0, 2.0, 0.5)


@pytest.mark.parametrize("alg", BINARY)
def test_each_binary_algorithm_is_known_with_and_without_prefix(alg: str) -> None:
    bare, whole = (chain(add_binary(name, ROW)) for name in (alg, f"binary_{alg}"))
    assert bare == whole
    assert bare.get_params_binary(0) == (alg, ROW)


def test_numbers_are_rounded_to_f32() -> None:
    tenth = 13421773 / 2**27
    ops = chain(add_sum(0.1), add_eltwise("linear", 0.1, np.float64(1e300), -1e300))
    assert ops.get_params_sum(0)[0] == tenth
    assert ops.get_params_eltwise(1) == ("linear", tenth, math.inf, -math.inf)


def test_beyond_the_chain_and_of_another_kind_there_is_nothing_to_read() -> None:
    ops = chain(add_sum(0.5))
    for index in (1, -1, 0.0, True, None):
        with pytest.raises(InvalidArguments, match="index"):
            ops.kind(index)  # type: ignore[arg-type]
    for getter, kind in ((ops.get_params_eltwise, "eltwise"), (ops.get_params_binary, "binary")):
        with pytest.raises(InvalidArguments, match=f"is not {kind}"):
            getter(0)
    with pytest.raises(InvalidArguments, match="post-op 0 is not sum\n  why: its kind is 'eltwise'"):
        chain(add_eltwise("relu")).get_params_sum(0)


# --- equality and copies -----------------------------------------------------------------------------------

DIFFERENT = {
    "none": chain(),
    "sum": chain(add_sum()),
    "sum of 0.5": chain(add_sum(0.5)),
    "sum of 0": chain(add_sum(0.0)),
    "sum of -0": chain(add_sum(-0.0)),
    "sum of NaN": chain(add_sum(math.nan)),
    "sum with zero point": chain(add_sum(1.0, 1)),
    "sum with type": chain(add_sum(1.0, 0, "s8")),
    "relu": chain(add_eltwise("relu")),
    "relu of -0": chain(add_eltwise("relu", -0.0)),
    "relu, beta": chain(add_eltwise("relu", 0.0, 1.0)),
    "relu, scale": chain(add_eltwise("relu", 0.0, 0.0, 2.0)),
    "relu of NaN": chain(add_eltwise("relu", math.nan)),
    "abs": chain(add_eltwise("abs")),
    "add": chain(add_binary("add", ROW)),
    "mul": chain(add_binary("mul", ROW)),
    "add another": chain(add_binary("add", MemoryDesc((1, 8, 1, 1), "f16", "nchw"))),
    "sum, abs": chain(add_sum(), add_eltwise("abs")),
    "abs, sum": chain(add_eltwise("abs"), add_sum()),
}


def test_chains_are_equal_by_their_bits() -> None:
    for name, one in DIFFERENT.items():
        assert [other for other, two in DIFFERENT.items() if one == two] == [name]
        assert PostOps.of(copy.deepcopy(one.freeze())) == one
    assert chain(add_sum(math.nan)) == chain(add_sum(-math.nan))
    assert len({ops.freeze() for ops in DIFFERENT.values()}) == len(DIFFERENT)
    assert chain() != ()


@pytest.mark.parametrize(
    "again",
    [PostOps.copy, copy.copy, copy.deepcopy, lambda ops: pickle.loads(pickle.dumps(ops))],
    ids=["method", "copy", "deepcopy", "pickle"],
)
def test_a_copy_is_equal_and_its_own(again: Any) -> None:
    for ops in DIFFERENT.values():
        made = again(ops)
        assert made == ops
        made.append_eltwise("tanh")
        assert len(made) == len(ops) + 1


def test_frozen_entries_are_frozen() -> None:
    entries = {"scale": SumOp(), "alpha": EltwiseOp("relu", 0.0, 0.0, 1.0), "alg": BinaryOp("add", ROW)}
    for name, entry in entries.items():
        with pytest.raises(AttributeError):
            setattr(entry, name, 0.0)


def test_repr_is_the_chain_as_in_a_verbose_line() -> None:
    assert repr(chain()) == "<PostOps none>"
    assert repr(chain(add_sum(0.5), add_eltwise("relu"))) == "<PostOps sum:0.5+eltwise_relu>"


@pytest.mark.parametrize(
    ("append", "text"),
    [
        (add_sum(), "sum"),
        (add_sum(0.5), "sum:0.5"),
        (add_sum(1.0, -3), "sum:1:-3"),
        (add_sum(0.5, 0, "u8"), "sum:0.5:0:u8"),
        (add_eltwise("relu"), "eltwise_relu"),
        (add_eltwise("relu", 0.1), "eltwise_relu:0.1"),
        (add_eltwise("clip", 0.0, 6.0), "eltwise_clip:0:6"),
        (add_eltwise("linear", 0.0, 0.0, 2.0), "eltwise_linear:0:0:2"),
        (add_binary("add", ROW), "binary_add:f32:2:abcd"),
        (add_binary("mul", MemoryDesc((2, 8, 3, 1), "s8", "nChw8c")), "binary_mul:s8:7:aBcd8b"),
        (add_binary("min", MemoryDesc((4,), "bf16", (3,))), "binary_min:bf16:1:a"),
        (add_prelu(2), "prelu:2"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_verbose_text(append: Any, text: str) -> None:
    (entry,) = chain(append).freeze()
    assert entry.verbose_str() == text


# --- what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "append",
    [add_sum(), add_eltwise("relu"), add_binary("add", ROW), add_prelu(2)],
    ids=["sum", "eltwise", "binary", "prelu"],
)
def test_the_33rd_post_op_is_out_of_memory(append: Any) -> None:
    ops = chain(*[add_eltwise("abs")] * 31)
    append(ops)
    with pytest.raises(OutOfMemory, match="at most 32") as caught:
        append(ops)
    assert caught.value.status is Status.out_of_memory
    assert len(ops) == 32


@pytest.mark.parametrize("alg", ["relu", "elu"])
def test_a_slope_below_0_hides_the_sign_of_the_source(alg: str) -> None:
    ops = chain(add_eltwise(alg, -1.0))
    for alpha in (-1.0, math.nan):
        with pytest.raises(InvalidArguments, match="does not determine the sign"):
            ops.append_eltwise(f"{alg}_use_dst_for_bwd", alpha)
    assert len(ops) == 1


@pytest.mark.parametrize("alg", ["clip", "clip_v2", "clip_v2_use_dst_for_bwd"])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, -1.0), (math.nan, 1.0), (0.0, math.nan), (math.inf, 1.0)])
def test_a_clip_to_an_empty_range_is_refused(alg: str, alpha: float, beta: float) -> None:
    ops = PostOps()
    with pytest.raises(
        InvalidArguments, match=f"{alg} to an empty range(?s:.*)alpha must not be greater than beta"
    ):
        ops.append_eltwise(alg, alpha, beta)
    ops.append_eltwise(alg, 1.0, 1.0)
    ops.append_eltwise(alg, -math.inf, math.inf)
    ops.append_eltwise("linear", 1.0, -1.0)
    assert len(ops) == 3


def test_select_needs_a_third_operand() -> None:
    with pytest.raises(Unimplemented, match="third operand"):
        PostOps().append_binary("binary_select", ROW)


WRONG: dict[str, Any] = {
    "fraction": (add_sum(1.0, 0.5), "zero_point"),
    "beyond 32 bits": (add_sum(1.0, 2**31), "32 bits"),
    "below 32 bits": (add_sum(1.0, -(2**31) - 1), "32 bits"),
    "no type": (add_sum(1.0, 0, "f31"), "data type"),
    "no scale": (add_sum("2"), "real number"),
    "many scales": (add_sum([1.0]), "real number"),
    "no eltwise": (add_eltwise("relu6"), "no such algorithm(?s:.*)gelu_erf"),
    "binary as eltwise": (add_eltwise("add"), "no such algorithm"),
    "another prefix": (add_eltwise("binary_relu"), "no such algorithm"),
    "upper case": (add_eltwise("ReLU"), "no such algorithm"),
    "none": (add_eltwise(None), "no such algorithm"),
    "alpha": (add_eltwise("relu", "x"), "alpha is 'x'"),
    "beta": (add_eltwise("relu", 0.0, None), "beta is None"),
    "scale": (add_eltwise("relu", 0.0, 0.0, True), "scale is True"),
    "no binary": (add_binary("plus", ROW), "no such algorithm(?s:.*)add, sub"),
    "zero descriptor": (add_binary("add", MemoryDesc()), "must be a MemoryDesc"),
    "no descriptor": (add_binary("add", "f32"), "must be a MemoryDesc"),
    "mask below 0": (add_prelu(-1), "mask is -1"),
    "mask of too many dims": (add_prelu(1 << 12), "mask is 4096"),
    "mask that is no number": (add_prelu("per_oc"), "mask"),
    "any": (add_binary("add", MemoryDesc((1, 8), "f32", "any")), "not concrete"),
    "runtime dims": (add_binary("add", MemoryDesc((1, RUNTIME_DIM), "f32", (8, 1))), "not concrete"),
}


@pytest.mark.parametrize(("append", "match"), WRONG.values(), ids=WRONG)
def test_a_wrong_post_op_is_refused_and_not_appended(append: Any, match: str) -> None:
    ops = chain(add_eltwise("abs"))
    with pytest.raises(InvalidArguments, match=match):
        append(ops)
    assert len(ops) == 1
