"""The demo: real data where it is there, generated data that is called so where not, every answer checked."""

from __future__ import annotations

import json
import struct
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import restride as rs
from restride.cli.main import main
from restride_bench import study
from restride_bench.demo import data as demo_data
from restride_bench.demo import jobs as demo_jobs
from restride_bench.demo import main as demo
from restride_bench.demo.data import Data, convolutions, photograph
from restride_bench.demo.jobs import Trip, TripRow, measure_trip, photo_trips, weight_trips
from restride_bench.peers import Restride

_ENTRY = "silero_vad/data/silero_vad_16k.safetensors"


def encoded(tensors: dict[str, Any]) -> bytes:
    """A safetensors file of arrays."""
    names = {"float32": "F32", "bfloat16": "BF16", "int8": "I8"}
    header: dict[str, Any] = {"__metadata__": {"made": "here"}}
    body = b""
    for name, x in tensors.items():
        place = [len(body), len(body) + x.nbytes]
        header[name] = {"dtype": names[str(x.dtype)], "shape": list(x.shape), "data_offsets": place}
        body += x.tobytes()
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def wheel(folder: Path, content: bytes, entry: str = _ENTRY) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "silero_vad-6.9.9-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(entry, content)
    return path


@pytest.fixture
def no_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_data, "_package", lambda name: None)


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """No waiting between samples: figures do not matter here."""
    real = study.alternate
    monkeypatch.setattr(study, "alternate", lambda calls, **o: real(calls, **{**o, "settle": 0, "rounds": 1}))


def small() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    return {
        "a": rng.normal(size=(32, 17, 3)).astype(np.float32),
        "one channel": rng.normal(size=(32, 1, 3)).astype(np.float32),
        "bias": rng.normal(size=32).astype(np.float32),
    }


# The command


@pytest.mark.usefixtures("no_packages", "still")
def test_demo_without_data_says_so_and_is_right(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--quick"]) == 0
    out, err = capsys.readouterr()
    assert out.count("generated, for there ") == 3
    assert "pip install 'restride[demo]'" in out
    assert "pip download" in out
    assert "Every element of all 8 results\nwas right; it was " in out
    assert "Generated data stood in for photo, photo / 255, weights." in out
    assert out.rstrip().splitlines()[-7] == "What to try next:"
    assert err == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("no_packages", "still")
def test_demo_as_json_tells_where_data_come_from(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    wheel(tmp_path, encoded(small()))
    assert main(["demo", "--quick", "--json", "--data", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [found["data"][name]["real"] for name in ("photo", "weights")] == [False, True]
    assert "1 convolutions of silero_vad_16k.safetensors" in found["data"]["weights"]["origin"]
    assert len(found["rows"]) == 8
    for row in found["rows"]:
        assert not row["wrong"]
        assert min(row["restride"], row["numpy"], row["memcpy"], row["moved"]) > 0
    assert [row["check"] for row in found["rows"][1::2]] == [
        "same bits",
        "same bits",
        "same bits",
        "half a step",
    ]


def test_a_wrong_row_is_shouted_and_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = TripRow("bad", "1x1", 8, 1.0, 1.0, 1.0, "same bits", "3 bytes differ")
    rows = {"photo u8 nhwc → f32 nChw16c": [row]}
    monkeypatch.setattr(demo, "measure_trip", lambda trip, *_: rows.get(trip.name, []))
    assert main(["demo", "--quick"]) == 1
    out = capsys.readouterr().out
    assert "WRONG: 1 of 1 rows" in out
    assert "3 bytes differ" in out


# What is checked


def wrong(trip: Trip) -> list[str]:
    return [row.wrong for row in measure_trip(trip, rs.get_num_threads(), 1)]


def data(**arrays: Any) -> Data:
    return Data(arrays, "here", False)


@pytest.mark.usefixtures("still")
def test_photographs_come_back_bit_for_bit() -> None:
    picture = np.random.default_rng(2).integers(0, 256, (7, 9, 3), np.uint8)
    for trip in photo_trips(data(a=picture), data(b=picture[:5]), 5):
        assert wrong(trip) == ["", ""]


@pytest.mark.usefixtures("still")
def test_weights_come_back_exactly_or_within_half_a_step() -> None:
    for trip in weight_trips(data(a=small()["a"], zeros=np.zeros((16, 16, 1), np.float32))):
        assert wrong(trip) == ["", ""]


@pytest.fixture(params=[0, 1], ids=["there", "back"])
def broken(request: pytest.FixtureRequest, still: None, monkeypatch: pytest.MonkeyPatch) -> int:
    """restride damages one byte on the way there, or on the way back."""
    seen: list[int] = []

    def prepare(self: Any, problem: Any, src: Any, dst: Any) -> Any:
        seen.append(1)
        call = real(self, problem, src, dst).call
        return type("P", (), {"call": staticmethod(damaging(call, dst, len(seen) - 1 == request.param))})

    real = Restride.prepare
    monkeypatch.setattr(Restride, "prepare", prepare)
    return int(request.param)


def damaging(call: Callable[[], object], dst: Any, is_damaging: bool) -> Callable[[], None]:
    def run() -> None:
        call()
        dst[3] ^= 0x40 if is_damaging else 0

    return run


def test_a_damaged_byte_is_found_on_either_way(broken: int) -> None:
    picture = np.zeros((4, 4, 3), np.uint8)
    trip = next(photo_trips(data(a=picture), data(b=picture), 1))
    assert wrong(trip)[broken]


def test_weights_off_by_more_than_half_a_step_are_found() -> None:
    trip = list(weight_trips(data(a=small()["a"])))[1]
    (part,) = trip.parts
    step = 1 / part.problem.scale  # type: ignore[operator]
    values = part.source.view(np.float32)
    assert not demo_jobs._differs(part, (values + np.float32(0.49 * step)).view(np.uint8))
    assert "more than half a step" in demo_jobs._differs(
        part, (values + np.float32(0.6 * step)).view(np.uint8)
    )


# Where data come from


def test_a_photograph_is_read_from_scikit_image() -> None:
    pytest.importorskip("skimage")
    found = photograph("chelsea", (1, 1))
    assert found.is_real
    assert found.arrays["chelsea"].shape == (300, 451, 3)
    assert "from scikit-image" in found.origin


def test_a_missing_photograph_is_generated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(demo_data, "_package", lambda name: tmp_path)
    monkeypatch.setitem(sys.modules, "skimage", None)
    found = photograph("chelsea", (30, 45))
    assert not found.is_real
    assert found.origin.startswith("generated, for there is no photograph (")
    assert found.arrays["chelsea"].shape == (30, 45, 3)
    assert found.arrays["chelsea"].dtype == np.uint8


@pytest.mark.usefixtures("no_packages")
def test_weights_are_read_from_the_wheel(tmp_path: Path) -> None:
    wheel(tmp_path, encoded(small()))
    found = convolutions(tmp_path)
    assert found.is_real
    assert list(found.arrays) == ["a"]
    assert np.array_equal(found.arrays["a"], small()["a"])


@pytest.mark.usefixtures("no_packages")
@pytest.mark.parametrize(
    "damage",
    [
        "no wheel",
        "no zip",
        "cut zip",
        "bad sum",
        "no entry",
        "no tensors",
        "no convolutions",
        "too large",
        "a folder",
    ],
)
def test_damaged_wheels_are_told_and_replaced(
    tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = wheel(tmp_path, encoded(small()), _ENTRY if damage != "no entry" else "other")
    content = path.read_bytes()
    if damage in ("no wheel", "a folder"):
        path.unlink()
    if damage == "a folder":
        path.mkdir()
    changed = {
        "no zip": b"no zip",
        "cut zip": content[: len(content) // 2],
        "bad sum": content.replace(content[200:220], bytes(20)),
    }
    if damage in changed:
        path.write_bytes(changed[damage])
    if damage == "no tensors":
        wheel(tmp_path, b"\xff" * 100)
    if damage == "no convolutions":
        wheel(tmp_path, encoded({"a": np.zeros(3, np.float32)}))
    if damage == "too large":
        monkeypatch.setattr(demo_data, "_MOST_BYTES", 10)
    found = convolutions(tmp_path)
    assert not found.is_real
    assert found.origin.startswith("generated, for there are no ")
    assert "\n" not in found.origin
    assert all(x.ndim == 3 and x.dtype == np.float32 for x in found.arrays.values())
