"""Handlers of XLA, called as XLA calls them, without XLA: structures of version 0.3 of its interface."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from restride.emit.xla_handler import FACT_NAMES, MAJOR, MINOR, xla_handler_ir
from restride.runtime.cpu.xla_handlers import XlaOperand, XlaWork, make_handler
from restride.targets import jit
from restride.targets.isa import Isa

_F32 = 11
_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_CREATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_HANDLER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


class Version(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("next", ctypes.c_void_p),
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
    ]


class Api(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("next", ctypes.c_void_p),
        ("version", Version),
        ("internal", ctypes.c_void_p),
        ("create_error", _CREATE),
    ]


class Buffer(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("next", ctypes.c_void_p),
        ("type", ctypes.c_int),
        ("data", ctypes.c_void_p),
        ("rank", ctypes.c_int64),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
    ]


class List(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("next", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("types", ctypes.POINTER(ctypes.c_int)),
        ("all", ctypes.POINTER(ctypes.c_void_p)),
    ]


class Frame(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("next", ctypes.c_void_p),
        ("api", ctypes.POINTER(Api)),
        ("context", ctypes.c_void_p),
        ("stage", ctypes.c_int),
        ("args", List),
        ("rets", List),
        ("attrs", ctypes.c_size_t * 6),
    ]


class Metadata(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("version", Version),
        ("traits", ctypes.c_uint32),
        ("state", ctypes.c_int64),
    ]


class Question(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("type", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("metadata", ctypes.POINTER(Metadata)),
    ]


class Caller:
    """A stand-in for XLA: it creates frames for a handler, and records the errors requested."""

    def __init__(self, minor=MINOR):
        self.errors = []
        self.api = Api(ctypes.sizeof(Api), None, Version(24, None, MAJOR, minor), None, _CREATE(self._create))

    def _create(self, args):
        message = ctypes.c_char_p.from_address(args + 16).value.decode()
        self.errors.append((message, ctypes.c_int.from_address(args + 24).value))
        return len(self.errors)

    def frame(self, args, rets, **fields):
        self.held = [_list(args), _list(rets)]
        frame = Frame(
            ctypes.sizeof(Frame), None, ctypes.pointer(self.api), None, 3, *(made[0] for made in self.held)
        )
        for name, value in fields.items():
            setattr(frame, name, value)
        return frame


def _list(arrays):
    buffers = []
    for array, kind in arrays:
        dims = (ctypes.c_int64 * array.ndim)(*array.shape)
        buffers.append(Buffer(ctypes.sizeof(Buffer), None, kind, array.ctypes.data, array.ndim, dims))
    types = (ctypes.c_int * max(len(arrays), 1))(*[1] * len(arrays))
    pointers = (ctypes.c_void_p * max(len(arrays), 1))(*map(ctypes.addressof, buffers))
    return List(ctypes.sizeof(List), None, len(arrays), types, pointers), buffers


class Doubled:
    """A handler that doubles six numbers, by a kernel or by Python."""

    def __init__(self, *, by_kernel, fails=False):
        self.calls = []
        self.fails = fails
        self.kernel = _KERNEL(self._kernel)
        whole = ctypes.cast(self.kernel, ctypes.c_void_p).value if by_kernel else 0
        operand = XlaOperand(_F32, 6)
        self.handler = _HANDLER(make_handler(XlaWork(whole, 77, self._run, self), [operand], operand))

    def _kernel(self, src, dst, params):
        self.calls.append(params)
        _floats(dst)[:] = [2 * value for value in _floats(src)]

    def _run(self, src, dst):
        if self.fails:
            raise RuntimeError("no room")
        self._kernel(src, dst, None)


def _floats(address):
    return (ctypes.c_float * 6).from_address(address)


def x_and_out(shape=(2, 3)):
    return np.arange(6, dtype=np.float32).reshape(shape), np.full(shape, -1, np.float32)


@pytest.mark.parametrize("shape", [(2, 3), (6,), (1, 6, 1)], ids=str)
@pytest.mark.parametrize("by_kernel", [True, False], ids=["kernel", "python"])
def test_a_call_runs_the_work_once(by_kernel, shape):
    doubled, caller, (x, out) = Doubled(by_kernel=by_kernel), Caller(), x_and_out(shape)
    assert doubled.handler(ctypes.addressof(caller.frame([(x, _F32)], [(out, _F32)]))) is None
    np.testing.assert_array_equal(out, 2 * x)
    assert doubled.calls == [77 if by_kernel else None]
    assert caller.errors == []


@pytest.mark.parametrize("count", [2, 3])
def test_work_of_several_sources_gets_the_address_of_each(count):
    calls, caller = [], Caller()
    arrays = [np.full(i + 1, i, np.float32) for i in range(count)]
    out = np.zeros(4, np.float32)
    operands = [XlaOperand(_F32, array.size) for array in arrays]
    work = XlaWork(0, 0, lambda *addresses: calls.append(addresses), None)
    handler = _HANDLER(make_handler(work, operands, XlaOperand(_F32, 4)))
    sources = [(array, _F32) for array in arrays]
    assert handler(ctypes.addressof(caller.frame(sources, [(out, _F32)]))) is None
    assert calls == [(*(array.ctypes.data for array in arrays), out.ctypes.data)]
    for wrong in (sources[:-1], sources[::-1], [*sources[:-1], (arrays[-1], 12)], [*sources, (out, _F32)]):
        assert handler(ctypes.addressof(caller.frame(wrong, [(out, _F32)]))) is not None
    assert len(calls) == 1


_WRONG = {
    "another type": lambda x, out: ([(x, 12)], [(out, _F32)], {}),
    "another type out": lambda x, out: ([(x, _F32)], [(out, 12)], {}),
    "fewer elements": lambda x, out: ([(x[:1], _F32)], [(out, _F32)], {}),
    "fewer elements out": lambda x, out: ([(x, _F32)], [(out[:1], _F32)], {}),
    "no arguments": lambda x, out: ([], [(out, _F32)], {}),
    "two arguments": lambda x, out: ([(x, _F32)] * 2, [(out, _F32)], {}),
    "two results": lambda x, out: ([(x, _F32)], [(out, _F32)] * 2, {}),
    "no results": lambda x, out: ([(x, _F32)], [], {}),
    "another stage": lambda x, out: ([(x, _F32)], [(out, _F32)], {"stage": 1}),
    "a shorter frame": lambda x, out: ([(x, _F32)], [(out, _F32)], {"size": 80}),
}


@pytest.mark.parametrize("name", _WRONG)
def test_a_call_of_another_kind_is_an_error_and_nothing_is_written(name):
    doubled, caller, (x, out) = Doubled(by_kernel=True), Caller(), x_and_out()
    args, rets, fields = _WRONG[name](x, out)
    assert doubled.handler(ctypes.addressof(caller.frame(args, rets, **fields))) == 1
    assert caller.errors == [("restride: XLA calls this handler otherwise than it was made for", 3)]
    assert doubled.calls == []
    assert (out == -1).all()


def test_an_exception_of_python_is_an_error_of_xla(capfd):
    doubled, caller, (x, out) = Doubled(by_kernel=False, fails=True), Caller(), x_and_out()
    assert doubled.handler(ctypes.addressof(caller.frame([(x, _F32)], [(out, _F32)]))) == 1
    assert caller.errors == [("restride: the kernel failed, and Python wrote its error to stderr", 13)]
    assert "RuntimeError: no room" in capfd.readouterr().err


@pytest.mark.parametrize(("theirs", "told"), [(MINOR, MINOR), (MINOR + 4, MINOR), (1, 1)])
def test_a_handler_tells_the_version_that_it_was_written_for(theirs, told):
    doubled, caller = Doubled(by_kernel=True), Caller(theirs)
    metadata = Metadata(ctypes.sizeof(Metadata), Version(24, None, -1, -1), 99, 0)
    question = Question(ctypes.sizeof(Question), 1, None, ctypes.pointer(metadata))
    frame = caller.frame([], [], next=ctypes.addressof(question))
    assert doubled.handler(ctypes.addressof(frame)) is None
    assert (metadata.version.major, metadata.version.minor, metadata.traits) == (MAJOR, told, 0)
    assert doubled.calls == []


@pytest.mark.parametrize("name", ["avx512", "sse41", "neon"])
def test_the_text_compiles_for_every_machine(name):
    isa = Isa.for_name(name)
    assert jit.compile_ir(xla_handler_ir(isa.triple), isa)
    assert f"[{len(FACT_NAMES)} x i64]" in xla_handler_ir(isa.triple)
