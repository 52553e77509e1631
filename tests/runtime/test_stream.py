"""Streams and events of in-order engines."""

import numpy as np
import pytest

from restride.errors import InvalidArguments
from restride.runtime.engine import Engine
from restride.runtime.event import COMPLETED, Event
from restride.runtime.stream import Stream, StreamFlags

ENGINES = [Engine("cpu"), Engine("reference")]


def test_flags_carry_the_numbers_of_the_documents():
    assert (StreamFlags.in_order, StreamFlags.out_of_order, StreamFlags.default_flags) == (1, 2, 1)


@pytest.mark.parametrize("engine", ENGINES, ids=str)
@pytest.mark.parametrize(
    "flags",
    [
        "in_order",
        "default_flags",
        "in_order | default_flags",
        StreamFlags.in_order,
        StreamFlags.default_flags,
        1,
        np.int64(1),
    ],
    ids=range(7),
)
def test_an_in_order_stream_opens_and_waits(engine, flags):
    stream = Stream(engine, flags)
    assert stream.wait() is stream
    assert stream.wait().wait() is stream
    assert stream.engine is engine
    assert stream.flags is StreamFlags.in_order


def test_streams_are_in_order_by_default():
    assert Stream(Engine("cpu")).flags is StreamFlags.in_order


@pytest.mark.parametrize("engine", ENGINES, ids=str)
@pytest.mark.parametrize(
    "flags",
    [
        "out_of_order",
        "in_order|out_of_order",
        StreamFlags.out_of_order,
        StreamFlags.in_order | StreamFlags.out_of_order,
        2,
        3,
    ],
)
def test_engines_of_the_cpu_refuse_out_of_order(engine, flags):
    with pytest.raises(InvalidArguments, match="executes in order") as caught:
        Stream(engine, flags)
    assert "in_order" in caught.value.hint


@pytest.mark.parametrize(
    "flags",
    [
        "",
        "in_order|",
        "inorder",
        "IN_ORDER",
        pytest.param("x" * 10_000, id="long"),
        None,
        1.0,
        0,
        -1,
        pytest.param(10**5000, id="huge"),
        True,
        b"in_order",
        ["in_order"],
    ],
)
def test_unknown_flags_are_refused(flags):
    with pytest.raises(InvalidArguments, match="unknown flags") as caught:
        Stream(Engine("cpu"), flags)
    assert len(caught.value.message) < 400


@pytest.mark.parametrize("bits", [0, 4, 5])
def test_flags_without_an_order_are_refused(bits):
    with pytest.raises(InvalidArguments, match="unknown flags"):
        Stream(Engine("cpu"), StreamFlags(bits))


@pytest.mark.parametrize("flags", [4, 5, 7, StreamFlags(4)], ids=range(4))
def test_bits_that_are_no_flags_are_named(flags):
    with pytest.raises(InvalidArguments) as caught:
        Stream(Engine("cpu"), flags)
    assert "of which 4 is not a flag; known are in_order (1) and out_of_order (2)" in caught.value.why


@pytest.mark.parametrize("engine", [None, "cpu", 0, Engine, Stream(Engine("cpu"))])
def test_a_stream_needs_an_engine(engine):
    with pytest.raises(InvalidArguments, match="is not an engine"):
        Stream(engine)


def test_engine_and_flags_of_a_stream_are_fixed():
    stream = Stream(Engine("cpu"))
    for name in ("engine", "flags", "note"):
        with pytest.raises(AttributeError):
            setattr(stream, name, None)


def test_text_names_engine_and_order():
    assert repr(Stream(Engine("cpu"))) == "restride.Stream(cpu:0, 'in_order')"


def test_an_event_of_an_in_order_stream_is_complete():
    assert COMPLETED.is_complete()
    assert COMPLETED.wait() is COMPLETED
    assert isinstance(COMPLETED, Event)
    assert repr(COMPLETED) == "restride.Event(complete)"
