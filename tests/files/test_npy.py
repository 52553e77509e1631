"""Files: what is written is read back, NumPy reads it too, and nothing a file claims is believed."""

from __future__ import annotations

import json
import os
import resource
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import restride as rs
from restride.cli.main import main
from restride.files.formats import npy
from restride.files.stored_tensors import array_of
from support.descriptors import shapes, tags

_SHAPE = (2, 17, 3, 5)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ramp(dtype: Any = np.float32, shape: tuple[int, ...] = _SHAPE) -> Any:
    return (np.arange(np.prod(shape)) % 100).reshape(shape).astype(dtype)


def run(*arguments: str) -> None:
    assert main(["reorder", *arguments, "--force"]) == 0


def head_of(desc: rs.MemoryDesc) -> bytes:
    """The bytes before the data."""
    ((_, head),) = npy.npy_image([array_of("x", desc)], {}).pieces
    return head


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The error of a reorder that fails for what the file holds; it names the file first."""
    capsys.readouterr()
    assert main(["reorder", *arguments, "--force"]) == 1
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("error: cannot ")
    assert "Traceback" not in err
    return err


# There and back


@pytest.mark.parametrize("dst", ["nchw", "nhwc", "nChw16c", "nChw8c", "ABcd4a16b2a", "chwn"])
def test_a_file_goes_into_any_format_and_back(dst: str) -> None:
    np.save("a.npy", ramp())
    run("a.npy", "b.npy", "--dst", dst)
    run("b.npy", "c.npy", "--dst", "nchw")
    assert Path("c.npy").read_bytes() == Path("a.npy").read_bytes()
    expected = rs.MemoryDesc(_SHAPE, "f32", dst)
    assert npy.read_desc("b.npy") == expected
    assert np.load("b.npy").shape == expected.physical_shape


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.int8, np.uint8, ml_dtypes.bfloat16])
def test_every_type_survives_a_blocked_file(dtype: Any) -> None:
    np.save("a.npy", ramp())
    name = str(rs.DataType.parse(dtype))
    run("a.npy", "b.npy", "--dst", "nChw16c", "--dtype", name)
    run("b.npy", "c.npy", "--dst", "nhwc")
    run("c.npy", "d.npy", "--dst", "nchw", "--dtype", "f32")
    assert np.array_equal(np.load("d.npy"), ramp())


def test_files_hold_the_physical_array() -> None:
    np.save("a.npy", ramp())
    run("a.npy", "b.npy", "--dst", "nhwc")
    assert np.array_equal(np.load("b.npy"), ramp().transpose(0, 2, 3, 1))
    run("a.npy", "c.npy", "--dst", "nChw16c")
    assert np.array_equal(np.load("c.npy"), rs.reorder(ramp(), "nChw16c").physical())
    mapped = np.load("c.npy", mmap_mode="r")
    assert mapped.shape == (2, 2, 3, 5, 16)
    assert mapped.offset % 64 == 0


def test_row_major_files_are_those_of_numpy() -> None:
    np.save("a.npy", ramp(np.int8))
    run("a.npy", "b.npy", "--dst", "nchw")
    assert Path("b.npy").read_bytes() == Path("a.npy").read_bytes()


def test_bf16_is_written_as_ml_dtypes_writes_it_and_known_again() -> None:
    np.save("a.npy", ramp())
    run("a.npy", "b.npy", "--dtype", "bf16")
    loaded = np.load("b.npy").view(ml_dtypes.bfloat16)
    assert np.array_equal(loaded, ramp(ml_dtypes.bfloat16))
    run("b.npy", "c.npy", "--dtype", "f32")
    assert np.array_equal(np.load("c.npy"), ramp())


def test_bf16_from_elsewhere_needs_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    np.save("a.npy", ramp(ml_dtypes.bfloat16))
    assert "--src-dtype bf16" in refused(capsys, "a.npy", "b.npy", "--dtype", "f32")
    run("a.npy", "b.npy", "--dtype", "f32", "--src-dtype", "bf16")
    assert np.array_equal(np.load("b.npy"), ramp())
    np.save("u.npy", ramp(ml_dtypes.bfloat16).view(np.uint16))
    run("u.npy", "b.npy", "--dtype", "f32", "--src-dtype", "bf16")
    assert np.array_equal(np.load("b.npy"), ramp())
    assert "not f32" in refused(capsys, "u.npy", "b.npy", "--dst", "nhwc", "--src-dtype", "f32")


def test_fortran_order_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    x = np.asfortranarray(ramp())
    np.save("a.npy", x)
    assert npy.read_desc("a.npy").tag == "dcba"
    run("a.npy", "b.npy", "--dst", "nchw")
    assert np.array_equal(np.load("b.npy"), x)
    run("a.npy", "c.npy", "--src", "nhwc", "--dst", "nchw")
    assert np.array_equal(np.load("c.npy"), x.transpose(0, 3, 1, 2))
    assert "in C order" in refused(
        capsys, "a.npy", "c.npy", "--dims", "2x17x3x5", "--src", "nchw", "--dst", "nhwc"
    )


def test_src_says_how_a_plain_file_lies() -> None:
    photos = ramp(np.uint8, (2, 4, 5, 3))
    np.save("photos.npy", photos)
    run("photos.npy", "a.npy", "--src", "nhwc", "--dst", "nchw")
    assert np.array_equal(np.load("a.npy"), photos.transpose(0, 3, 1, 2))
    run("photos.npy", "b.npy", "--src", "axb", "--dst", "nChw16c", "--dtype", "f32", "--scale", "0.5")
    run("b.npy", "c.npy", "--dst", "nhwc", "--dtype", "u8", "--scale", "2")
    assert np.array_equal(np.load("c.npy"), photos)


def test_src_and_dims_say_what_a_blocked_file_from_elsewhere_is(capsys: pytest.CaptureFixture[str]) -> None:
    np.save("whole.npy", rs.reorder(ramp(), "nChw16c").physical())
    run("whole.npy", "a.npy", "--src", "nChw16c", "--dst", "nchw")
    assert np.load("a.npy").shape == (2, 32, 3, 5)
    run("whole.npy", "a.npy", "--src", "nChw16c", "--dims", "2x17x3x5", "--dst", "nchw")
    assert np.array_equal(np.load("a.npy"), ramp())
    other = refused(capsys, "whole.npy", "a.npy", "--src", "nChw8c", "--dst", "nchw")
    assert "not those of aBcd8b in memory order, the last of them the blocks (8,)" in other
    wrong = refused(capsys, "whole.npy", "a.npy", "--src", "nChw16c", "--dims", "2x33x3x5", "--dst", "nchw")
    assert "array must have shape (2, 3, 3, 5, 16)" in wrong
    assert "4 axes" in refused(capsys, "whole.npy", "a.npy", "--dims", "2x17", "--src", "nchw", "--dst", "ab")


def test_options_that_contradict_the_file_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    np.save("a.npy", ramp())
    run("a.npy", "b.npy", "--dst", "nChw16c")
    run("b.npy", "c.npy", "--src", "nChw16c", "--dims", "2x17x3x5", "--dst", "nchw")
    for options in (["--src", "nChw8c"], ["--dims", "2x18x3x5"], ["--src-dtype", "s32"]):
        assert "contradicts the options" in refused(capsys, "b.npy", "c.npy", *options, "--dst", "nchw")


def test_the_layout_is_kept_where_only_the_type_is_named() -> None:
    np.save("a.npy", ramp())
    run("a.npy", "b.npy", "--dst", "nChw16c")
    run("b.npy", "c.npy", "--dtype", "s8")
    assert npy.read_desc("c.npy") == rs.MemoryDesc(_SHAPE, "s8", "nChw16c")


def test_scale_saturates_and_a_zero_point_of_zero_is_none() -> None:
    np.save("a.npy", ramp())
    run("a.npy", "b.npy", "--dst", "nchw", "--dtype", "s8", "--scale", "-3", "--zero-point", "0")
    assert np.array_equal(np.load("b.npy"), np.maximum(-3 * ramp(), -128).astype(np.int8))


@pytest.mark.parametrize("shape", [(2, 0, 3), (0,), (1,), (1, 1, 1)])
def test_empty_and_single_elements(shape: tuple[int, ...]) -> None:
    np.save("a.npy", ramp(shape=shape))
    run("a.npy", "b.npy", "--dst", "xba"[: len(shape)] if len(shape) == 3 else "a")
    run("b.npy", "c.npy", "--dst", "abx")
    assert Path("c.npy").read_bytes() == Path("a.npy").read_bytes()


def test_out_may_be_in() -> None:
    np.save("a.npy", ramp())
    run("a.npy", "a.npy", "--dst", "nChw16c")
    run("a.npy", "./a.npy", "--dst", "nchw")
    assert np.array_equal(np.load("a.npy"), ramp())


@given(st.data())
def test_headers_of_random_layouts_read_back(data: st.DataObject) -> None:
    dims = data.draw(shapes(max_ndims=12, most=2000))
    dtype = data.draw(st.sampled_from(("f32", "bf16", "s8", "f8_e5m2")))
    desc = rs.MemoryDesc(dims, dtype, data.draw(tags(dims)))
    Path("h.npy").write_bytes(head_of(desc) + bytes(desc.size))
    assert npy.read_desc("h.npy") == desc
    assert rs.load("h.npy").desc == desc
    assert np.load("h.npy").shape == desc.physical_shape


def test_axes_of_one_element_keep_their_place() -> None:
    np.save("a.npy", ramp(shape=(2, 3, 1, 1)))
    run("a.npy", "b.npy", "--dst", "nhwc")
    assert np.load("b.npy").shape == (2, 1, 1, 3)
    run("b.npy", "c.npy", "--dst", "nchw")
    assert Path("c.npy").read_bytes() == Path("a.npy").read_bytes()


# What a hostile file claims (reliability row 29)


def header(text: str, version: tuple[int, int] = (1, 0)) -> bytes:
    width = 2 if version[0] == 1 else 4
    content = text.encode("latin1") + b"\n"
    return b"\x93NUMPY" + bytes(version) + len(content).to_bytes(width, "little") + content


def fields(descr: str = "'<f4'", shape: object = (2, 3), order: object = False) -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"


def stored(shape: tuple[int, ...] = (1, 2, 16), **changes: Any) -> bytes:
    """A file of 32 f32 whose descriptor is that of 1x17 aB16b, but for `changes`."""
    desc = rs.MemoryDesc((1, 17), "f32", "aB16b").to_dict() | changes
    return header(f"{fields(shape=shape)} # restride: {json.dumps(desc)}") + bytes(128)


_DAMAGED = {
    "empty": b"",
    "one byte": b"\x93",
    "magic only": b"\x93NUMPY",
    "no length": b"\x93NUMPY\x01\x00v",
    "text": b"hello, this is no array",
    "zip": b"PK\x03\x04 and more",
    "version 9": header(fields(), (9, 0)) + bytes(24),
    "version 1.1": header(fields(), (1, 1)) + bytes(24),
    "cut header": header(fields())[:40],
    "huge header": b"\x93NUMPY\x02\x00\xff\xff\xff\x7f" + bytes(100),
    "no dict": header("[1, 2]"),
    "no python": header("{'descr': "),
    "no UTF-8": header("{'descr': '\xff\xfe'}"),
    "nested": header("(" * 3000 + ")" * 3000),
    "unhashable": header("{[]: 1}"),
    "a call": header("__import__('os').system('true')"),
    "a key more": header("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}") + bytes(8),
    "a key less": header("{'descr': '<f4', 'shape': (2,)}") + bytes(8),
    "order is text": header(fields(order="'no'")) + bytes(24),
    "shape is text": header(fields(shape="'23'")) + bytes(24),
    "negative": header(fields(shape=(-2, -3))) + bytes(24),
    "bool": header(fields(shape=(True, 6))) + bytes(24),
    "float": header(fields(shape=(2.0, 3))) + bytes(24),
    "huge": header(fields(shape=(2**40, 2**40))) + bytes(24),
    "very huge": header(fields(shape=(10**4000,))) + bytes(24),
    "empty but huge": header(fields(shape=(0, 2**70))),
    "13 axes": header(fields(shape=(1,) * 13)) + bytes(4),
    "no axes": header(fields(shape=())) + bytes(4),
    "unknown type": header(fields("'<q9'")) + bytes(24),
    "object": header(fields("'|O'")) + bytes(48),
    "structure": header(fields("[('a', '<f4'), ('b', '<i4')]")) + bytes(48),
    "structure of objects": header(fields("[('a', '|O')]")) + bytes(48),
    "array elements": header(fields("('<f4', (2,))")) + bytes(48),
    "huge elements": header(fields("'|S2000000000'", (1,))) + bytes(24),
    "huge void": header(fields("'|V2000000000'", (1,))) + bytes(24),
    "no width": header(fields("'|V0'", (1,))),
    "text elements": header(fields("'<U2'")) + bytes(48),
    "dates": header(fields("'<M8[s]'")) + bytes(48),
    "complex": header(fields("'<c8'")) + bytes(48),
    "big endian": header(fields("'>f4'")) + bytes(24),
    "big endian integers": header(fields("'>i8'")) + bytes(48),
    "one byte short": header(fields()) + bytes(23),
    "descriptor is no JSON": header(fields() + " # restride: {") + bytes(24),
    "descriptor is a list": header(fields() + " # restride: [1]") + bytes(24),
    "descriptor nested": header(fields() + " # restride: " + "[" * 4000) + bytes(24),
    "descriptor with a huge number": header(fields() + " # restride: " + "9" * 5000) + bytes(24),
    "descriptor is any": stored(format_kind="any"),
    "descriptor is zero": stored(format_kind="undef"),
    "descriptor of other dims": stored(dims=[1, 15]),
    "descriptor of a negative dim": stored(dims=[1, -17]),
    "descriptor of runtime dims": stored(dims=[1, -(2**63)], padded_dims=[1, -(2**63)]),
    "descriptor of another type": stored(data_type="s8"),
    "descriptor of no type": stored(data_type="f33"),
    "descriptor of overlaps": stored(strides=[32, 1]),
    "descriptor beyond the data": stored(strides=[32, 2**40]),
    "descriptor from afar": stored(offset0=1),
    "descriptor before the start": stored(offset0=-1),
    "descriptor of a huge block": stored(inner_blks=[2**40]),
    "descriptor that is backwards": stored(shape=(32,), dims=[32], padded_dims=[32], strides=[-1], offset0=31)
    .replace(b'"inner_blks": [16]', b'"inner_blks": []  ')
    .replace(b'"inner_idxs": [1]', b'"inner_idxs": [] '),
    "descriptor of another shape": stored(shape=(2, 16)),
}


@pytest.mark.parametrize("content", _DAMAGED.values(), ids=_DAMAGED)
def test_damaged_and_hostile_files_are_refused(capsys: pytest.CaptureFixture[str], content: bytes) -> None:
    Path("bad.npy").write_bytes(content)
    text = refused(capsys, "bad.npy", "out.npy", "--dtype", "f32")
    assert text.startswith("error: cannot read bad.npy\n")
    assert "\n  why: " in text
    assert "\n  hint: " in text
    assert len(text) < 2000
    assert os.listdir() == ["bad.npy"]
    assert main(["show", "bad.npy", "--svg", "bad.svg"]) == 1


def test_a_whole_descriptor_is_accepted() -> None:
    Path("good.npy").write_bytes(stored())
    assert npy.read_desc("good.npy") == rs.MemoryDesc((1, 17), "f32", "aB16b")


def test_a_small_file_that_claims_much_allocates_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    content = header(fields(shape=(300_000_000,)).ljust(117))
    Path("bad.npy").write_bytes(content + bytes(136 - len(content)))
    assert os.path.getsize("bad.npy") == 136
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    text = refused(capsys, "bad.npy", "out.npy", "--dst", "a")
    assert "the header declares 300000000 elements of 4 bytes, 1200000000 bytes; the file has 8" in text
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_object_arrays_are_never_unpickled(capsys: pytest.CaptureFixture[str]) -> None:
    np.save("bad.npy", np.array([Trap()], dtype=object), allow_pickle=True)
    assert "never loaded" in refused(capsys, "bad.npy", "out.npy", "--dst", "a")
    assert not Path("sprung").exists()


class Trap:
    def __reduce__(self) -> tuple[Any, ...]:
        return open, ("sprung", "w")


def test_files_that_numpy_takes_in_odd_versions_are_read() -> None:
    data = ramp(shape=(2, 3))
    for version in ((1, 0), (2, 0), (3, 0)):
        Path("a.npy").write_bytes(header(fields(), version) + data.tobytes() + b"trailing bytes")
        run("a.npy", "b.npy", "--dst", "ba")
        assert np.array_equal(np.load("b.npy"), data.T)


@pytest.mark.parametrize(
    "name", ["nowhere/a.npy", "folder", "pipe", "/dev/zero", "/dev/null", "zero\0byte", ""]
)
def test_what_is_no_file_is_refused(capsys: pytest.CaptureFixture[str], here: Path, name: str) -> None:
    Path("folder").mkdir()
    os.mkfifo("pipe")
    assert "error: cannot read " in refused(capsys, name, "out.npy", "--dst", "a")
    assert not Path("out.npy").exists()


def test_rank_and_type_errors_name_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    np.save("a.npy", ramp())
    Path("a.npy").chmod(0o600)
    assert main(["reorder", "a.npy", "b.npy", "--dst", "ncw", "--force"]) == 1
    assert "3 axes, the dims have 4" in capsys.readouterr().err
    assert not Path("b.npy").exists()


def test_results_that_no_machine_holds_are_refused_before_allocation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    np.save("a.npy", ramp())
    assert main(["reorder", "a.npy", "b.npy", "--dst", "nChw1000000000000c", "--force"]) in (1, 2)
    assert main(["reorder", "a.npy", "b.npy", "--dst", "NChw2000000000n2000000000c", "--force"]) == 1
    err = capsys.readouterr().err
    assert "memory" in err or "below 2**63 bytes" in err
    assert os.listdir() == ["a.npy"]


def test_headers_are_small_and_aligned_for_the_widest_descriptor() -> None:
    desc = rs.MemoryDesc((2,) * 12, "bf16", "ABCDEFGHIJKL2a2b2c2d2e2f2g2h2i2j2k2l")
    encoded = head_of(desc)
    assert len(encoded) % 64 == 0
    Path("wide.npy").write_bytes(encoded + bytes(desc.size))
    assert npy.read_desc("wide.npy") == desc
    assert np.load("wide.npy").ndim == 24


@pytest.mark.parametrize("data_type", ["f8_e5m2", "f8_e4m3", "bf16"])
def test_types_that_numpy_cannot_name_are_refused_with_a_way_that_works(
    data_type: str, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.arange(24.0).reshape(1, 2, 3, 4).astype(rs.DataType[data_type].numpy)
    np.save("x.npy", x)
    assert f"--src-dtype {data_type}" in refused(capsys, "x.npy", "y.npy", "--dst", "nhwc")
    np.save("x.npy", x.view(f"u{x.itemsize}"))
    assert main(["reorder", "x.npy", "y.npy", "--dst", "nhwc", "--src-dtype", data_type, "--force"]) == 0
