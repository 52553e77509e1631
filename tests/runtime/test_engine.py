"""Engines: kinds, counts, identity, and every wrong way to open one."""

import copy
import pickle

import numpy as np
import pytest

from restride.errors import Error, InvalidArguments
from restride.runtime.engine import Engine, EngineKind


def test_kinds_carry_the_numbers_of_the_documents():
    assert [(kind.name, int(kind)) for kind in EngineKind][:3] == [("any", 0), ("cpu", 1), ("gpu", 2)]


@pytest.mark.parametrize(("kind", "count"), [("cpu", 1), ("reference", 1), ("gpu", 0), ("any", 0)])
def test_counts_of_each_kind(kind, count):
    assert Engine.get_count(kind) == count
    assert Engine.get_count(EngineKind[kind]) == count


@pytest.mark.parametrize("kind", ["cpu", "reference"])
def test_one_object_per_device(kind):
    engine = Engine(kind)
    assert engine is Engine(kind, 0)
    assert engine is Engine(EngineKind[kind], np.int64(0))
    assert engine is Engine(kind.upper())
    assert engine == Engine(kind)
    assert hash(engine) == hash(Engine(kind))
    assert (engine.kind, engine.index) == (kind, 0)


def test_engines_of_different_kind_differ():
    assert Engine("cpu") != Engine("reference")


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda engine: pickle.loads(pickle.dumps(engine))]
)
def test_copies_are_the_same_engine(again):
    assert again(Engine("reference")) is Engine("reference")


def test_text_names_the_device():
    assert str(Engine("cpu")) == "cpu:0"
    assert repr(Engine("cpu")) == "restride.Engine('cpu', 0)"


def test_an_engine_cannot_be_changed():
    engine = Engine("cpu")
    for name in ("kind", "index", "_kind", "note"):
        with pytest.raises(AttributeError):
            setattr(engine, name, "gpu")
    with pytest.raises(AttributeError):
        del engine._kind
    assert engine.kind == "cpu"


@pytest.mark.parametrize(
    ("kind", "index", "said"),
    [
        ("cpu", 1, "offers 1 engine of kind 'cpu'"),
        ("reference", 7, "offers 1 engine of kind 'reference'"),
        ("gpu", 0, "offers 0 engines of kind 'gpu'"),
        ("any", 0, "offers 0 engines of kind 'any'"),
        ("cpu", 2**70, "offers 1 engine"),
        pytest.param("cpu", 10**5000, "offers 1 engine", id="huge"),
    ],
)
def test_an_absent_engine_says_how_many_there_are_and_what_to_do(kind, index, said):
    with pytest.raises(InvalidArguments) as caught:
        Engine(kind, index)
    assert said in caught.value.why
    assert "rs.Engine(" in caught.value.hint
    assert len(caught.value.message) < 400


@pytest.mark.parametrize(
    "kind",
    [
        "",
        "tpu",
        "cpu ",
        pytest.param("c" * 10_000, id="long"),
        "🦉",
        None,
        1,
        1.0,
        b"cpu",
        ["cpu"],
        pytest.param(10**5000, id="huge"),
    ],
)
def test_an_unknown_kind_is_refused(kind):
    for call in (Engine, Engine.get_count):
        with pytest.raises(InvalidArguments, match="unknown kind") as caught:
            call(kind)
        assert '"cpu", "gpu" or "reference"' in caught.value.hint
        assert len(caught.value.message) < 400


@pytest.mark.parametrize(
    "index", [-1, pytest.param(-(10**5000), id="huge"), True, False, 0.0, "0", None, np.float32(0), [0]]
)
def test_an_index_that_is_no_device_number_is_refused(index):
    with pytest.raises(InvalidArguments, match="not a device number"):
        Engine("cpu", index)


def test_there_is_no_empty_engine():
    with pytest.raises(TypeError):
        Engine()
    assert issubclass(InvalidArguments, Error)
