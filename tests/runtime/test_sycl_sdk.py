"""Without dpctl: every way to a SYCL device says what to install, and nothing else changes."""

from __future__ import annotations

import importlib

import pytest

import restride as rs
from restride import sycl_interop as interop
from restride.errors import InvalidArguments
from restride.runtime.sycl import sdk as sycl_sdk


@pytest.fixture
def without_dpctl(monkeypatch):
    """dpctl as if it were not installed."""
    real = importlib.import_module

    def refuse(name, package=None):
        if name.split(".")[0] == "dpctl":
            raise ImportError(name)
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", refuse)
    sycl_sdk.find_sdk.cache_clear()
    yield
    sycl_sdk.find_sdk.cache_clear()


@pytest.mark.parametrize("kind", ["gpu", "sycl", "sycl:opencl:cpu"])
def test_an_engine_says_what_to_install(without_dpctl, kind):
    assert rs.Engine.get_count(kind) == 0
    with pytest.raises(InvalidArguments, match=r"dpctl is not installed") as caught:
        rs.Engine(kind)
    assert "pip install 'restride[sycl]'" in caught.value.hint


def test_interop_says_what_to_install(without_dpctl):
    with pytest.raises(InvalidArguments, match="SYCL is not available") as caught:
        interop.make_engine(object(), object())
    assert "restride[sycl]" in caught.value.hint


def test_engines_of_the_host_are_no_sycl_devices():
    engine = rs.Engine("cpu")
    md = rs.MemoryDesc((2,), "f32", "a")
    for call in (
        lambda: interop.get_device(engine),
        lambda: interop.get_context(engine),
        lambda: interop.make_stream(engine, None),
        lambda: interop.get_queue(rs.Stream(engine)),
        lambda: interop.make_memory(md, engine),
        lambda: interop.get_memory_kind(rs.Memory(md, engine)),
    ):
        with pytest.raises(InvalidArguments, match="the engine is not a SYCL device"):
            call()
    assert not engine.is_sycl


def test_a_host_primitive_has_no_event():
    a = rs.Memory(rs.MemoryDesc((2, 3), "f32", "ab"), rs.Engine("cpu"))
    b = rs.Memory(rs.MemoryDesc((2, 3), "f32", "ba"), rs.Engine("cpu"))
    with pytest.raises(InvalidArguments, match="the engine is not a SYCL device"):
        rs.Reorder(a, b).execute_sycl(rs.Stream(rs.Engine("cpu")), a, b)
