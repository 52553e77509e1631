"""One root of errors, a status each, and one form of message."""

import copy
import pickle

import pytest

import restride as rs

STATUS = {
    "success": 0,
    "out_of_memory": 1,
    "invalid_arguments": 2,
    "unimplemented": 3,
    "last_impl_reached": 4,
    "runtime_error": 5,
    "not_required": 6,
    "invalid_graph": 7,
    "invalid_graph_op": 8,
    "invalid_shape": 9,
    "invalid_data_type": 10,
}
KINDS = [
    (rs.InvalidArguments, rs.Status.invalid_arguments, ValueError),
    (rs.Unimplemented, rs.Status.unimplemented, NotImplementedError),
    (rs.OutOfMemory, rs.Status.out_of_memory, MemoryError),
    (rs.RuntimeFailure, rs.Status.runtime_error, RuntimeError),
]


def test_status_values_are_those_of_the_documents():
    assert {status.name: status.value for status in rs.Status} == STATUS


@pytest.mark.parametrize(("kind", "status", "builtin"), KINDS)
def test_each_error_has_its_status_and_its_builtin_kind(kind, status, builtin):
    error = kind("something failed")
    assert isinstance(error, rs.Error)
    assert isinstance(error, builtin)
    assert error.status is status


def test_the_message_says_what_where_why_and_the_way_out():
    parts = {"where": "src f32 3 a", "why": "too short", "hint": "make it longer"}
    error = rs.InvalidArguments("it failed", code="RS-M16", **parts)
    said = "it failed\n  where: src f32 3 a\n  why: too short\n  hint: make it longer"
    assert error.message == f"{said}\n  more: restride explain RS-M16"
    assert rs.InvalidArguments("it failed", **parts).message == said
    assert str(error) == error.message


def test_what_is_not_known_is_left_out_of_the_message():
    assert rs.Error("it failed", why="too short").message == "it failed\n  why: too short"
    assert rs.Error("it failed").message == "it failed"


@pytest.mark.parametrize("kind", [rs.Error, *(kind for kind, _, _ in KINDS)])
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_errors_travel_between_processes(kind, again):
    error = kind("it failed", code="RS-V05", where="here", why="so", hint="do that")
    made = again(error)
    assert type(made) is kind
    assert (made.what, made.where, made.why, made.hint) == ("it failed", "here", "so", "do that")
    assert (made.code, made.message) == ("RS-V05", error.message)
    assert made.status is error.status


def test_an_error_is_retold_in_the_words_of_the_caller():
    error = rs.Unimplemented("step: it failed", code="RS-L01", where="here", why="so", hint="do that")
    made = error.with_context("call: it failed", where="there")
    assert type(made) is rs.Unimplemented
    assert (made.what, made.where, made.why, made.hint) == ("call: it failed", "there", "so", "do that")
    assert made.code == "RS-L01"
    assert error.with_context().message == error.message


def test_a_real_error_carries_all_of_its_parts_through_pickle():
    with pytest.raises(rs.Error) as caught:
        rs.MemoryDesc((2, 3), "f32", "nchw")
    made = pickle.loads(pickle.dumps(caught.value))
    assert made.message == caught.value.message


class _NoIndex:
    """Says that it is an integer, and fails to be one."""

    def __index__(self):
        raise KeyError("no index")

    def __float__(self):
        raise KeyError("no number")


_HUGE = 10**400
_BARE = {
    "a float among strides": lambda: rs.MemoryDesc((2, 3), "f32", (1.0, 2)),
    "an index that raises": lambda: rs.MemoryDesc((2, 3), "f32", (_NoIndex(), 1)),
    "13 axes": lambda: rs.MemoryDesc((1,) * 13, "f32"),
    "65 axes": lambda: rs.MemoryDesc((1,) * 65, "f32"),
    "a negative dim": lambda: rs.MemoryDesc((2, -3), "f32"),
    "a huge dim": lambda: rs.MemoryDesc((2, 10**5000), "f32"),
    "a stride of more than 64 bits": lambda: rs.MemoryDesc((2, 3), "f32", (2**70, 1)),
    "a stride too long to write": lambda: rs.MemoryDesc((2, 3), "f32", (10**5000, 1)),
    "one stride for two axes": lambda: rs.MemoryDesc((2, 3), "f32", (1,)),
    "no sequence": lambda: rs.MemoryDesc(2.5, "f32"),
    "more bytes than 2**63": lambda: rs.MemoryDesc((2**40, 2**40), "f32"),
    "far more bytes than 2**63": lambda: rs.MemoryDesc((2**62,) * 12, "f32"),
    "a position outside": lambda: rs.MemoryDesc((2, 3), "f32").offset((0, 10**5000)),
    "a position of one axis": lambda: rs.MemoryDesc((2, 3), "f32").offset((0,)),
    "two scales": lambda: rs.PrimitiveAttr().set_output_scales(0, [1.0, 2.0]),
    "scales that are text": lambda: rs.PrimitiveAttr().set_output_scales(0, "a"),
    "a huge scale": lambda: rs.PrimitiveAttr().set_output_scales(0, _HUGE),
    "a scale that raises": lambda: rs.PostOps().append_sum(_NoIndex()),
    "a mask that is text": lambda: rs.PrimitiveAttr().set_output_scales("a", 1.0),
    "a mask of too many bits": lambda: rs.PrimitiveAttr().set_output_scales(1 << 12, 1.0),
    "an argument that is no number": lambda: rs.PrimitiveAttr().set_scales(-1, 0),
    "a scratchpad mode": lambda: rs.PrimitiveAttr().set_scratchpad_mode("mine"),
    "post-ops that are none": lambda: rs.PrimitiveAttr().set_post_ops(None),
    "a post-op that is not there": lambda: rs.PostOps().kind(10**5000),
    "a capacity that is text": lambda: rs.set_primitive_cache_capacity("x"),
    "a huge capacity": lambda: rs.set_primitive_cache_capacity(_HUGE),
}


@pytest.mark.parametrize("call", _BARE.values(), ids=_BARE)
def test_every_refusal_of_an_argument_says_why_and_hints_and_is_short(call):
    with pytest.raises(rs.InvalidArguments) as caught:
        call()
    assert caught.value.why
    assert caught.value.hint
    assert caught.value.code
    assert len(caught.value.message) < 600
    assert "0" * 40 not in caught.value.message


def test_a_huge_integer_is_told_by_its_length():
    with pytest.raises(rs.InvalidArguments, match="an integer of 1329 bits"):
        rs.PrimitiveAttr().set_output_scales(0, _HUGE)


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda: rs.MemoryDesc((2, 3), "f32", "nchw"), "dims (2, 3); tag abcd"),
        (lambda: rs.MemoryDesc((2, 3), "f32", (1,)), "dims (2, 3)"),
        (lambda: rs.MemoryDesc((2, 3), "f32").offset(0, 3), "f32 2x3 ab"),
    ],
    ids=["rank", "strides", "position"],
)
def test_a_refusal_says_of_which_descriptor(call, wanted):
    with pytest.raises(rs.InvalidArguments) as caught:
        call()
    assert caught.value.where == wanted


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_blocks_that_do_not_nest_name_both_descriptors(engine):
    src, dst = (rs.MemoryDesc((1100000,), "f32", tag) for tag in ("A1031a", "A1024a"))
    with pytest.raises(rs.Unimplemented) as caught:
        rs.Reorder.PrimitiveDesc(rs.Engine(engine), src, rs.Engine(engine), dst)
    assert caught.value.where == f"src {src}; dst {dst}"


@pytest.mark.parametrize(
    ("call", "near"),
    [
        (lambda: rs.PostOps().append_eltwise("reluu"), "relu"),
        (lambda: rs.PostOps().append_binary("Mull", rs.MemoryDesc((2,), "f32")), "mul"),
        (lambda: rs.PrimitiveAttr().set_fpmath_mode("stricht"), "strict"),
        (
            lambda: rs.ShuffleForward.Desc("forward_trainig", rs.MemoryDesc((2, 4), "f32"), 1, 2),
            "forward_training",
        ),
    ],
    ids=["eltwise", "binary", "mode", "kind"],
)
def test_the_word_nearest_to_what_was_typed_is_named(call, near):
    with pytest.raises(rs.InvalidArguments) as caught:
        call()
    assert caught.value.hint.startswith(f"did you mean {near!r}? use one of ")
