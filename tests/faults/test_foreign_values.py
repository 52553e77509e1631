"""Whatever is passed: the call works, or raises an `rs.Error` that says what, why, a way out and a code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import restride as rs

_MOST_TEXT = 1000


class _NoIndex:
    """Says that it is a number, and fails to be one."""

    def __index__(self) -> int:
        raise KeyError("no index")

    def __float__(self) -> float:
        raise KeyError("no number")


class _NoRepr:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


class _NoIterator:
    def __iter__(self) -> Iterator[int]:
        raise OSError("gone")

    def __len__(self) -> int:
        return -1


class _NoEquality:
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise ZeroDivisionError


class _NoCapsule:
    def __dlpack__(self, **_: object) -> object:
        raise KeyError("no capsule")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def _endless() -> Iterator[int]:
    while True:
        yield 1


_X = np.ones((2, 16, 4, 4), np.float32)


def _raise(*_: object, **__: object) -> Any:
    raise KeyError("foreign")


def _raising(base: type, *names: str, args: tuple[Any, ...] = ()) -> Any:
    """A value of a class that raises KeyError in these methods."""
    return type("Raising", (base,), dict.fromkeys(names, _raise))(*args)


def _raising_property(name: str, base: type = object, args: tuple[Any, ...] = ()) -> Any:
    return type("Raising", (base,), {name: property(_raise)})(*args)


def _raising_array(*names: str) -> Any:
    """An array of a subclass that raises in these methods."""
    return np.ones((2, 16, 4, 4), np.float32).view(
        type("Raising", (np.ndarray,), dict.fromkeys(names, _raise))
    )


# Of objects that are nothing else. Not `__class__`: where that raises, so does every `isinstance`.
_METHODS = (
    *("__getattr__", "__eq__", "__hash__", "__len__", "__iter__", "__getitem__", "__contains__", "__bool__"),
    *("__index__", "__int__", "__float__", "__str__", "__repr__", "__format__", "__array__", "__buffer__"),
    *("__dlpack__", "__dlpack_device__", "__fspath__", "__array_function__", "__array_ufunc__", "__lt__"),
)
_PROPERTIES = (
    *("__array_interface__", "__array_struct__", "__sycl_usm_array_interface__"),
    *(
        "__cuda_array_interface__",
        "__dlpack__",
        "shape",
        "dtype",
        "ndim",
        "device",
        "strides",
        "items",
        "keys",
    ),
)
_RAISING: dict[str, Any] = {
    **{f"raising {name}": _raising(object, name) for name in _METHODS},
    **{f"raising property {name}": _raising_property(name) for name in _PROPERTIES},
    "raising in everything": _raising(object, *_METHODS),
    "raising capsule": _raising(_NoCapsule, "__getattr__", "__eq__", "__dlpack__", "__dlpack_device__"),
    "text raising": _raising(str, "__eq__", "__hash__", "__iter__", "__len__", "__str__", args=("nhwc",)),
    "integer raising": _raising(int, "__eq__", "__hash__", "__index__", "__int__", "__lt__", args=(1,)),
    "float raising": _raising(float, "__eq__", "__hash__", "__float__", "__lt__", "__bool__", args=(1.5,)),
    "list raising": _raising(list, "__eq__", "__iter__", "__len__", "__getitem__", "__bool__", args=([1],)),
    "list raising __iter__": _raising(list, "__iter__", args=([_X, _X],)),
    "list raising __len__": _raising(list, "__len__", args=([_X, _X],)),
    "list raising __eq__": _raising(list, "__eq__", args=([1, 2],)),
    "tuple raising": _raising(tuple, "__eq__", "__hash__", "__iter__", "__len__", args=((1, 2),)),
    "dict raising": _raising(dict, "__eq__", "__iter__", "__len__", "items", "keys", "get", args=({},)),
    "dict raising __getitem__": _raising(dict, "__getitem__", "items", args=({rs.ARG_SRC: 1},)),
    "list of raising": [_raising(object, *_METHODS)],
    "tuple of raising": (_raising(object, "__index__"), _raising(object, "__eq__", "__hash__")),
    "dict of raising": {rs.ARG_SRC: _raising(object, "__getattr__", "__eq__")},
    "array raising": _raising_array("__array__", "__eq__", "__getitem__", "__len__", "__iter__", "__bool__"),
    "array raising __getattr__": _raising_array("__getattr__"),
    "array of raising": np.array([_raising(object, "__index__", "__float__", "__eq__", "__str__")], object),
    "ragged list of raising": [[_raising(object, "__float__")], [_raising(object, "__len__", "__getitem__")]],
    "raising stack": [_raising(object, "__array__"), _raising(object, "__len__")],
}


_MD = rs.MemoryDesc(_X.shape, "f32", "nchw")
_BLOCKED = rs.MemoryDesc(_X.shape, "f32", "nChw16c")
_CPU, _REFERENCE = rs.Engine("cpu"), rs.Engine("reference")
_STREAM = rs.Stream(_CPU)
_PD = rs.Reorder.PrimitiveDesc(_CPU, _MD, _CPU, _BLOCKED)
_SHUFFLE = rs.ShuffleForward.Desc("forward_inference", _MD, 1, 4)

_VALUES: dict[str, Any] = {
    "None": None,
    "True": True,
    "text": "abc",
    "empty text": "",
    "long text": "a" * 10_000,
    "half a character": "\ud800",
    "NUL": "a\0b",
    "bytes": b"ab",
    "a huge integer": 10**400,
    "2**63": 2**63,
    "-1": -1,
    "0": 0,
    "3": 3,
    "1.5": 1.5,
    "NaN": float("nan"),
    "infinity": float("inf"),
    "complex": 1j,
    "np.int64": np.int64(2),
    "np.float32": np.float32(1.5),
    "np.bool": np.bool_(True),
    "0-d array": np.array(3),
    "1-D array": np.arange(3),
    "array of objects": np.array([None, "a"], object),
    "array of text": np.array(["a"]),
    "array of dates": np.array(["2020-01-01"], "M8[D]"),
    "array of structures": np.zeros(2, [("a", "i4")]),
    "masked array": np.ma.masked_array([1.0, 2.0], [False, True]),
    "array of 13 axes": np.zeros((1,) * 13, np.float32),
    "big-endian array": np.ones((2, 3), ">f4"),
    "int64 array": np.ones((2, 3), np.int64),
    "4-bit array": np.ones((2, 4), ml_dtypes.int4),
    "empty array": np.zeros((0, 3), np.float32),
    "array": _X,
    "reversed array": _X[::-1],
    "read-only array": np.frombuffer(bytes(_X.nbytes), np.float32).reshape(_X.shape),
    "list": [1, 2],
    "ragged list": [[1], [2, 3]],
    "mixed list": [1, "a", None],
    "empty list": [],
    "dict": {},
    "dict of text": {"a": 1},
    "set": {1, 2},
    "endless generator": _endless,
    "range": range(4),
    "object": object(),
    "class": int,
    "no index": _NoIndex(),
    "no repr": _NoRepr(),
    "no iterator": _NoIterator(),
    "no equality": _NoEquality(),
    "no capsule": _NoCapsule(),
    "tag": "nhwc",
    "any": "any",
    "FormatTag": rs.FormatTag.any,
    "undef": rs.undef,
    "np type": np.float32,
    "descriptor": _MD,
    "zero descriptor": rs.MemoryDesc(),
    "descriptor any": rs.MemoryDesc((2, 3), "f32", "any"),
    "descriptor of open dims": rs.MemoryDesc((rs.RUNTIME_DIM, 3), "f32", "ab"),
    "descriptor of s4": rs.MemoryDesc(_X.shape, "s4", "nchw"),
    "engine": _CPU,
    "other engine": _REFERENCE,
    "stream": _STREAM,
    "memory": rs.Memory(_MD, _CPU),
    "blocked memory": rs.Memory(_BLOCKED, _CPU),
    "empty memory": rs.Memory(),
    "memory without data": rs.Memory(_MD, _CPU, rs.NO_DATA),
    "mixed arrays": [_X, rs.Memory(_MD, _CPU)],
    "attributes": rs.PrimitiveAttr(),
    "post-ops": rs.PostOps(),
    "primitive descriptor": _PD,
    "RUNTIME_DIM": rs.RUNTIME_DIM,
    "RUNTIME_F32_VAL": rs.RUNTIME_F32_VAL,
    "NO_DATA": rs.NO_DATA,
    "bad chain": [("add",)],
    "chain of raising": [("add", _raising(object, *_METHODS))],
    **_RAISING,
}


def _memory(md: rs.MemoryDesc = _MD) -> rs.Memory:
    return rs.Memory(md, _CPU)


def _attr(name: str) -> Callable[..., object]:
    return lambda *args: getattr(rs.PrimitiveAttr(), name)(*args)


def _post_ops(name: str) -> Callable[..., object]:
    return lambda *args: getattr(rs.PostOps(), name)(*args)


def _unmap(array: object) -> None:
    memory = _memory()
    memory.map_data()
    memory.unmap_data(array)  # type: ignore[arg-type]


_FORWARD = rs.ShuffleForward.PrimitiveDesc(_SHUFFLE, _CPU)
_CONCAT = rs.Concat.PrimitiveDesc(_CPU, 1, [_MD, _MD])
_SUM = rs.Sum.PrimitiveDesc(_CPU, [1.0, 1.0], [_MD, _MD])
# Each call with good arguments; one of them at a time is replaced. Lists are by place, dicts by name.
_CALLS: dict[str, tuple[Callable[..., object], list[Any] | dict[str, Any]]] = {
    "reorder": (
        rs.reorder,
        {"x": _X, "dst": "nhwc", "src": None, "dtype": None, "scale": None, "zero_point": None}
        | {"axis": None, "beta": 0.0, "post_ops": None, "out": None, "engine": None},
    ),
    "reorder to s8": (
        rs.reorder,
        {"x": _X, "dst": "nhwc", "dtype": "s8", "scale": [0.5] * 16, "axis": 1, "out": None},
    ),
    "reorder of a memory": (
        rs.reorder,
        {"x": _memory(), "dst": "nChw16c", "dtype": "s8", "out": None, "engine": None},
    ),
    "reorder with one scale": (
        rs.reorder,
        {"x": _X, "dst": None, "scale": 0.5, "zero_point": 3, "dtype": "u8", "src": "nchw"},
    ),
    "reorder with post-ops": (
        rs.reorder,
        {"x": _X, "dst": None, "post_ops": [("add", _X), "relu"], "beta": 0.0},
    ),
    "quantize": (rs.quantize, {"x": _X, "dtype": "s8", "axis": 1, "symmetric": True, "dst": None}),
    "dequantize": (
        rs.dequantize,
        {"q": _X, "scale": 0.5, "zero_point": None, "axis": None, "dtype": "f32", "out": None},
    ),
    "shuffle": (rs.shuffle, {"x": _X, "group_size": 4, "axis": 1, "out": None}),
    "shuffle_channels": (rs.shuffle_channels, {"x": _X, "group": 4, "axis": 1, "out": None}),
    "channel_shuffle": (rs.channel_shuffle, [_X, 4]),
    "concat": (rs.concat, {"arrays": [_X, _X], "axis": 1, "layout": None, "dtype": None, "out": None}),
    "add_n": (rs.add_n, {"arrays": [_X, _X], "scales": None, "dtype": None, "out": None}),
    "plan": (rs.plan, {"x": _X, "dst": "nhwc", "src": None, "dtype": None, "scale": None, "out": None}),
    "plan.measure": (lambda rounds: rs.plan(_X, "nhwc").measure(rounds=rounds), [1]),
    "recommended_desc": (rs.recommended_desc, [_MD]),
    "set_num_threads": (rs.set_num_threads, [1]),
    "set_verbose": (rs.set_verbose, [0]),
    "set_primitive_cache_capacity": (rs.set_primitive_cache_capacity, [100]),
    "arg_attr_multiple_post_op": (rs.arg_attr_multiple_post_op, [0]),
    "MemoryDesc": (
        rs.MemoryDesc,
        {"dims": _X.shape, "data_type": "f32", "format": "nchw", "allow_empty": False, "strict": False},
    ),
    "from_strides": (rs.MemoryDesc.from_strides, [(2, 3), "f32", (3, 1), 0]),
    "from_json": (rs.MemoryDesc.from_json, [_MD.to_json()]),
    "from_dict": (rs.MemoryDesc.from_dict, [_MD.to_dict()]),
    "offset": (_MD.offset, [0, 1, 2, 3]),
    "index": (_MD.index, [3]),
    "submemory_desc": (_BLOCKED.submemory_desc, [(1, 16, 1, 1), (0, 0, 0, 0)]),
    "reshape": (_MD.reshape, [(32, 16)]),
    "permute_axes": (_MD.permute_axes, [(1, 0, 2, 3)]),
    "explain": (_MD.explain, {"tag": ""}),
    "DataType": (rs.DataType.parse, ["f32"]),
    "FormatTag": (rs.FormatTag.parse, ["nchw"]),
    "Engine": (rs.Engine, ["cpu", 0]),
    "get_count": (rs.Engine.get_count, ["cpu"]),
    "Stream": (rs.Stream, [_CPU, "in_order"]),
    "Memory": (rs.Memory, [_MD, _CPU, _X]),
    "from_numpy": (rs.Memory.from_numpy, [_X, None, None]),
    "from_dlpack": (lambda x, copy: rs.Memory.from_dlpack(x, copy=copy), [_X, None]),
    "from_dlpack to an engine": (lambda engine: rs.Memory.from_dlpack(_X, engine), [None]),
    "from_pointer": (
        lambda address, nbytes, md, engine: rs.Memory.from_pointer(address, nbytes, md, engine, owner=_X),
        [_X.ctypes.data, _X.nbytes, _MD, _CPU],
    ),
    "set_data_handle": (lambda data: _memory().set_data_handle(data), [_X]),
    "unmap_data": (_unmap, [None]),
    "Memory.to": (_memory().to, ["nhwc", None]),
    "set_output_scales": (_attr("set_output_scales"), [0, [1.0]]),
    "set_scales": (_attr("set_scales"), [1, 0, [1.0], (), "f32"]),
    "set_zero_points": (_attr("set_zero_points"), [1, 0, [1]]),
    "set_post_ops": (_attr("set_post_ops"), [rs.PostOps()]),
    "set_scratchpad_mode": (_attr("set_scratchpad_mode"), ["user"]),
    "set_compensation": (_attr("set_compensation"), [1, True, False]),
    "set_rounding_mode": (_attr("set_rounding_mode"), [1, "environment"]),
    "set_fpmath_mode": (_attr("set_fpmath_mode"), ["strict"]),
    "set_deterministic": (_attr("set_deterministic"), [True]),
    "append_sum": (_post_ops("append_sum"), [1.0, 0, None]),
    "append_eltwise": (_post_ops("append_eltwise"), ["relu", 0, 0, 1]),
    "append_binary": (_post_ops("append_binary"), ["add", _MD]),
    "kind": (_post_ops("kind"), [0]),
    "Reorder.PrimitiveDesc": (rs.Reorder.PrimitiveDesc, [_CPU, _MD, _CPU, _BLOCKED, None, False]),
    "Reorder.PrimitiveDesc of memories": (rs.Reorder.PrimitiveDesc, [_memory(), _memory(_BLOCKED), None]),
    "Reorder": (rs.Reorder, [_PD]),
    "Reorder.execute": (rs.Reorder(_PD).execute, [_STREAM, _memory(), _memory(_BLOCKED)]),
    "Reorder.execute of a map": (
        rs.Reorder(_PD).execute,
        [_STREAM, {rs.ARG_SRC: _memory(), rs.ARG_DST: _memory(_BLOCKED)}],
    ),
    "Reorder.execute of pairs": (
        lambda arg, memory: rs.Reorder(_PD).execute(_STREAM, [(arg, memory), (17, _memory(_BLOCKED))]),
        [rs.ARG_SRC, _memory()],
    ),
    "query_md": (_PD.query_md, [rs.Query.src_md, 0]),
    "ShuffleForward.Desc": (rs.ShuffleForward.Desc, ["forward_inference", _MD, 1, 4]),
    "ShuffleForward.PrimitiveDesc": (rs.ShuffleForward.PrimitiveDesc, [_SHUFFLE, _CPU, None, False]),
    "ShuffleForward.from_json": (rs.ShuffleForward.Desc.from_json, [_SHUFFLE.to_json()]),
    "ShuffleForward.execute": (
        rs.ShuffleForward(_FORWARD).execute,
        [_STREAM, {rs.ARG_SRC: _memory(), rs.ARG_DST: _memory()}],
    ),
    "ShuffleBackward.PrimitiveDesc": (
        rs.ShuffleBackward.PrimitiveDesc,
        [rs.ShuffleBackward.Desc(_MD, 1, 4), _CPU, None, None],
    ),
    "Concat.PrimitiveDesc": (rs.Concat.PrimitiveDesc, [_CPU, 1, [_MD, _MD], None, None, False]),
    "Concat.execute": (
        rs.Concat(_CONCAT).execute,
        [_STREAM, [_memory(), _memory()], _memory(_CONCAT.dst_desc())],
    ),
    "Sum.PrimitiveDesc": (rs.Sum.PrimitiveDesc, [_CPU, [1.0, 1.0], [_MD, _MD], None, None, False]),
    "Sum.execute": (rs.Sum(_SUM).execute, [_STREAM, [_memory(), _memory()], _memory(_SUM.dst_desc())]),
    "ShuffleChannels": (rs.openvino.ShuffleChannels, {"shape": (2, 16, 4, 4), "axis": 1, "group": 4}),
    "ShuffleChannels called": (rs.openvino.ShuffleChannels(shape=(2, 16, 4, 4), axis=1, group=4), [_X]),
    "read_ir": (rs.openvino.read_ir, ["nowhere.xml"]),
    "sycl_interop.get_queue": (rs.sycl_interop.get_queue, [_STREAM]),
    "sycl_interop.make_memory": (rs.sycl_interop.make_memory, [_MD, _CPU, None]),
}


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    threads, capacity = rs.get_num_threads(), rs.get_primitive_cache_capacity()
    yield
    rs.set_verbose(0)
    rs.set_num_threads(threads)
    rs.set_primitive_cache_capacity(capacity)


def _changed(good: list[Any] | dict[str, Any]) -> Iterator[tuple[str, list[Any] | dict[str, Any]]]:
    """The arguments with each one in turn replaced by each value."""
    for name, value in _VALUES.items():
        bad = value() if value is _endless else value
        for at in good if isinstance(good, Mapping) else range(len(good)):
            args = good.copy()
            args[at] = bad  # type: ignore[index]
            yield f"{at} = {name}", args


def _fault(call: Callable[..., object], args: list[Any] | dict[str, Any]) -> str:
    """Return the error in how a call ended; "" if it succeeded, or refused properly."""
    try:
        call(**args) if isinstance(args, dict) else call(*args)
    except rs.Error as error:
        is_told = error.code and error.why and error.hint and len(error.message) < _MOST_TEXT
        return "" if is_told else error.message[:300]
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]
    return ""


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("name", _CALLS)
def test_a_foreign_value_is_refused_in_one_form_or_works(name: str) -> None:
    call, good = _CALLS[name]
    faults = {where: _fault(call, args) for where, args in _changed(good)}
    assert {where: fault for where, fault in faults.items() if fault} == {}


class _Stops:
    """Raises an exception at every question."""

    def __init__(self, error: type[BaseException]) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        raise self._error

    def __dlpack__(self, **_: object) -> Any:
        raise self._error


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_stops_a_program_passes(error: type[BaseException]) -> None:
    for call in (
        lambda x: rs.Memory.from_dlpack(x),
        lambda x: rs.reorder(_X, None, scale=x),
        lambda x: rs.openvino.read_ir(x),
    ):
        with pytest.raises(error):
            call(_Stops(error))


def test_a_failing_producer_is_the_cause() -> None:
    for call in (rs.Memory.from_dlpack, rs.quantize):
        with pytest.raises(rs.InvalidArguments) as refusal:
            call(_NoCapsule())
        assert isinstance(refusal.value.__cause__, KeyError)
