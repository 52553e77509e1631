"""One root of errors, a status each (P13), and one form of message."""

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
    error = rs.InvalidArguments("it failed", where="src f32 3 a", why="too short", hint="make it longer")
    assert error.message == "it failed\n  where: src f32 3 a\n  why: too short\n  hint: make it longer"
    assert str(error) == error.message


def test_what_is_not_known_is_left_out_of_the_message():
    assert rs.Error("it failed", why="too short").message == "it failed\n  why: too short"
    assert rs.Error("it failed").message == "it failed"


@pytest.mark.parametrize("kind", [rs.Error, *(kind for kind, _, _ in KINDS)])
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_errors_travel_between_processes(kind, again):
    error = kind("it failed", where="here", why="so", hint="do that")
    made = again(error)
    assert type(made) is kind
    assert (made.what, made.where, made.why, made.hint) == ("it failed", "here", "so", "do that")
    assert made.status is error.status


def test_a_real_error_carries_all_of_its_parts_through_pickle():
    with pytest.raises(rs.Error) as caught:
        rs.MemoryDesc((2, 3), "f32", "nchw")
    made = pickle.loads(pickle.dumps(caught.value))
    assert made.message == caught.value.message
