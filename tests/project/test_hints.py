"""Messages of refusals: hints for the caller, and the caller's own line in the traceback."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import restride as rs
from support.errors import refused

_OURS = str(Path(rs.__file__).parent)
_X = np.zeros((1, 2, 3, 4), np.float32)
_MD = rs.MemoryDesc((1, 2, 3, 4), "f32", "nchw")

_WRONG: dict[str, Callable[[], Any]] = {
    "reorder": lambda: rs.reorder(_X, "nchww"),
    "reorder to another rank": lambda: rs.reorder(_X, "hwc"),
    "reorder with a wrong src": lambda: rs.reorder(_X, "nhwc", src="nhww"),
    "reorder with a wrong type": lambda: rs.reorder(_X, "nhwc", dtype="floaty"),
    "concat": lambda: rs.concat([_X, _X], 1, "nchww"),
    "plan": lambda: rs.plan(_X, "nchww"),
    "quantize": lambda: rs.quantize(_X, dst="nchww"),
    "quantize to a wrong type": lambda: rs.quantize(_X, "floaty"),
    "dequantize": lambda: rs.dequantize(_X, 1.0, dst="nchww"),
    "convert": lambda: rs.convert("x.npy", "y.npy", ["*=nchww"]),
    "show": lambda: _MD.show(tag="nchww"),
    "a primitive descriptor": lambda: rs.Reorder.PrimitiveDesc(
        rs.Engine("cpu"), _MD, rs.Engine("cpu"), rs.MemoryDesc((3,), "f32", "a")
    ),
    "shuffle": lambda: rs.shuffle(_X, group_size=3),
    "MemoryDesc": lambda: rs.MemoryDesc((1, 2, 3, 4), "f32", "nchww"),
    "FormatTag.parse": lambda: rs.FormatTag.parse("nchww"),
    "DataType.parse": lambda: rs.DataType.parse("floaty"),
    "Memory.to": lambda: rs.Memory(_MD, rs.Engine("cpu")).to("nchww"),
    "Memory.from_numpy": lambda: rs.Memory.from_numpy(_X, "nchww"),
    "empty": lambda: rs.empty((1, 2, 3, 4), "f32", "nchww"),
    "empty of a wrong type": lambda: rs.empty((1, 2), "floaty"),  # type: ignore[call-overload]
}


@pytest.mark.parametrize("name", _WRONG)
def test_a_refusal_shows_the_callers_line_and_at_most_three_frames_of_ours(name: str) -> None:
    with pytest.raises(rs.InvalidArguments) as caught:
        _WRONG[name]()
    frames = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    ours = [file for file in frames if file.startswith(_OURS)]
    assert frames[-len(ours) - 1] == __file__
    assert len(ours) <= 3


def test_a_format_in_place_of_a_type_is_told_where_it_goes() -> None:
    with refused("unknown data type 'nchw'", "'nchw' is a format: pass it as format, after the data type"):
        rs.MemoryDesc((1, 2, 3, 4), "nchw")
    with refused("unknown data type 'nChw16c'", "'nChw16c' is a format: pass it as dst"):
        rs.reorder(_X, dtype="nChw16c")


def test_names_that_a_memory_has_not_lead_to_its_descriptor_or_to_an_array() -> None:
    memory = rs.Memory.from_numpy(_X)
    for name, way in {
        "show": "m.desc.show",
        "dims": "m.desc.dims",
        "strides": "m.to_numpy().strides",
        "tobytes": "physical().tobytes()",
        "ctypes": "get_data_handle()",
        "data_ptr": "get_data_handle()",
        "from_bytes": "np.frombuffer",
        "byte_offset": "m.desc.offset",
    }.items():
        with pytest.raises(AttributeError, match=re.escape(way)):
            getattr(memory, name)
        assert name not in dir(memory)


def test_an_index_in_one_piece_is_told_how_to_pass_it() -> None:
    with refused("index[0] is (0, 1, 0, 0)", "md.offset(*index)"):
        _MD.offset((0, 1, 0, 0))  # type: ignore[arg-type]


def test_an_out_of_the_shape_of_memory_is_told_how_to_turn_it() -> None:
    for dst in ("nhwc", None):
        out = np.empty((1, 3, 4, 2), np.float32)
        with refused("its shape is (1, 3, 4, 2)", "pass out.transpose(0, 3, 1, 2)"):
            rs.reorder(_X, dst, out=out)
        assert rs.reorder(_X, dst, out=out.transpose(0, 3, 1, 2)).shape == _X.shape
    with refused("pass out.transpose(3, 0, 1, 2)"):
        rs.reorder(_X, "chwn", out=np.empty((2, 3, 4, 1), np.float32))
    with refused("pass dst=None"):
        rs.reorder(_X, "nhwc", out=np.empty((3, 1, 4, 2), np.float32))


@pytest.mark.parametrize(
    ("word", "meant"),
    [("silu", "swish"), ("gelu", "gelu_erf"), ("sigmoid", "logistic"), ("softplus", "soft_relu")],
)
def test_functions_by_the_words_of_other_libraries_are_named(word: str, meant: str) -> None:
    for call in (
        lambda: rs.PostOps().append_eltwise(word),
        lambda: rs.reorder(_X, None, post_ops=word),
    ):
        with refused(f"did you mean {meant!r}?"):
            call()


@pytest.mark.parametrize("kind", ["bf16", "float16", np.float16, rs.s8, np.dtype("f4")], ids=str)
def test_a_data_type_in_place_of_a_format_is_told_where_it_goes(kind: Any) -> None:
    with refused("data type", "dtype"):
        rs.reorder(_X, kind)


def test_short_names_of_types_are_answered_with_the_types_that_they_may_mean() -> None:
    for call in (
        lambda: rs.reorder(_X, None, dtype="fp8"),
        lambda: rs.convert("x.npy", "y.npy", ["*=nhwc,fp8"]),
    ):
        with refused("did you mean 'f8_e4m3' or 'f8_e5m2'?"):
            call()


def test_a_parameter_goes_by_its_older_name_too() -> None:
    made = rs.concat([_X, _X], layout="nhwc")
    assert made.strides == rs.concat([_X, _X], dst="nhwc").strides
    memory = rs.Memory.from_numpy(_X)
    assert memory.to(format="nhwc", data_type="s8").desc == memory.to("nhwc", dtype="s8").desc
    for call in (
        lambda: rs.concat([_X], dst="nhwc", layout="nchw"),
        lambda: memory.to("nhwc", format="nchw"),
        lambda: memory.to(dtype="s8", data_type="u8"),
    ):
        with refused("is given twice"):
            call()
