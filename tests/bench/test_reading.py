"""Reading a picture: lines are found and cut upright, classes become text, what is missing is told."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import restride as rs
from restride.cli.main import main
from restride_bench.reading import models
from restride_bench.reading.pictures import TextLine, resized, runs_of, sampled
from restride_bench.reading.reader import PageReader, as_batch


def _connected(mask):
    """The parts of a mask, one point after the other."""
    left, parts = {tuple(p) for p in np.argwhere(mask).tolist()}, []
    while left:
        part, front = set(), [left.pop()]
        while front:
            y, x = front.pop()
            part.add((y, x))
            near = {(y + i, x + j) for i in (-1, 0, 1) for j in (-1, 0, 1)} & left
            left -= near
            front += near
        parts.append(part)
    return parts


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_connected_points_are_one_part(height, width, seed):
    mask = np.random.default_rng(seed).random((height, width)) < 0.5
    found = [{tuple(p) for p in part.astype(int).tolist()} for part in runs_of(mask)]
    assert sorted(map(sorted, found)) == sorted(map(sorted, _connected(mask)))
    rows = [part[:, 0].mean() for part in runs_of(mask)]
    assert rows == sorted(rows)


def test_a_picture_between_its_pixels_is_linear():
    y, x = np.mgrid[:5, :7]
    picture = np.stack([10 * y + x, y, x], -1).astype(np.uint8)
    places = np.array([[0.0, 0.0], [1.25, 2.5], [4.0, 6.0], [-3.0, 9.0]])
    inside = np.clip(places, 0, (4, 6))
    wanted = np.stack([10 * inside[:, 0] + inside[:, 1], inside[:, 0], inside[:, 1]], -1) / 255
    np.testing.assert_allclose(sampled(picture, places), wanted, rtol=1e-6)
    np.testing.assert_array_equal(resized(picture, (5, 7)), (picture / 255).astype(np.float32))
    assert resized(picture[:1, :1], (3, 2)).shape == (3, 2, 3)


@pytest.mark.parametrize("angle", [0.0, 0.2, -0.3])
def test_a_tilted_line_is_cut_out_upright(angle):
    """Points of a tilted rectangle: its center, direction and half sizes, with the margin."""
    along, across = np.array([np.sin(angle), np.cos(angle)]), np.array([np.cos(angle), -np.sin(angle)])
    a, b = np.meshgrid(np.arange(-20, 21), np.arange(-4, 5))
    points = 50 + a.reshape(-1, 1) * along + b.reshape(-1, 1) * across
    line = TextLine.around(points)
    margin = 1.6 * 20.5 * 4.5 / 25
    np.testing.assert_allclose(line.center, [50, 50], atol=1e-9)
    np.testing.assert_allclose(line.along, along, atol=1e-9)
    np.testing.assert_allclose((line.width, line.height), (20.5 + margin, 4.5 + margin))
    picture = np.zeros((100, 100, 3), np.uint8)
    picture[..., 0] = np.clip(np.round(128 + 2 * ((np.indices((100, 100)) - 50).T @ along).T), 0, 255)
    upright = line.cut(picture, (1.0, 1.0), 16)[..., 0]
    assert (np.diff(upright[8]) > 0).all()
    assert np.ptp(upright, axis=0).max() < 0.02
    assert line.cut(picture, (1.0, 1.0), 16, 10).shape == (16, 10, 3)
    np.testing.assert_allclose(line.turned().cut(picture, (1.0, 1.0), 16)[::-1, ::-1, 0], upright, atol=1e-6)


def _reader(turned=0.0):
    """Networks that see one line where the picture is dark, and read its columns as classes."""

    def detect(x):
        return (x[:, :1] < 0).astype(np.float32)

    def direct(x):
        return np.array([[1 - turned, turned]] * len(x), np.float32)

    def recognize(x):
        classes = np.array([0, 1, 1, 0, 1, 2, 3, 0])
        return np.stack([np.eye(4, dtype=np.float32)[classes] * 0.5] * len(x))

    return PageReader(("", "a", "b", " "), detect, direct, recognize)


def test_repeated_classes_count_once_and_class_0_is_nothing():
    picture = np.full((200, 400, 3), 255, np.uint8)
    picture[80:120, 50:350] = 0
    (line,) = _reader()(picture)
    assert (line.text, line.score) == ("aab ", 0.5)
    assert _reader()(np.full((64, 64, 3), 255, np.uint8)) == []


def test_a_batch_is_blue_first_from_minus_one_to_one():
    picture = np.zeros((2, 3, 3), np.float32)
    picture[0, 1] = 1.0, 0.5, 0.0
    batch = as_batch([picture, picture[:, :2]], 4)
    assert batch.shape == (2, 3, 2, 4)
    np.testing.assert_array_equal(batch[0, :, 0, 1], [-1.0, 0.0, 1.0])
    assert (batch[0, :, :, 3] == 0).all()
    assert (batch[1, :, :, 2:] == 0).all()


def test_missing_and_broken_wheels_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo-network", "--data", str(tmp_path)]) == 1
    assert "pip download --no-deps rapidocr-onnxruntime" in capsys.readouterr().err
    with zipfile.ZipFile(tmp_path / "rapidocr_onnxruntime-9-py3-none-any.whl", "w") as wheel:
        wheel.writestr("other", b"")
    assert main(["demo-network", "--data", str(tmp_path)]) == 1
    assert "download the wheel anew" in capsys.readouterr().err


def test_characters_are_the_notes_of_the_model_and_no_package_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def field(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2, len(content)]) + content

    notes = field(14, field(1, b"character") + field(2, b"a\nb\n\xc3\xa9"))
    with zipfile.ZipFile(tmp_path / "rapidocr_onnxruntime-9-py3-none-any.whl", "w") as wheel:
        for name in models._FILES.values():
            wheel.writestr(f"{models._FOLDER}/{name}", notes)
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert models.models_in(tmp_path).characters == ("", "a", "b", "é", " ")


@pytest.mark.parametrize("content", [b"", b"\x72\x05a", b"\xff\xff\xff"])
def test_models_without_notes_are_told(content: bytes, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "rapidocr_onnxruntime-9-py3-none-any.whl", "w") as wheel:
        for name in models._FILES.values():
            wheel.writestr(f"{models._FOLDER}/{name}", content)
    with pytest.raises(rs.RuntimeFailure, match="cannot be read"):
        models.models_in(tmp_path)
