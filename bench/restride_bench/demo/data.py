"""Data of the demo: photographs and a model's weights from elsewhere, else generated data."""

from __future__ import annotations

import importlib
import importlib.util
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import numpy as np

from restride import Error, Memory, load
from restride.runtime.alloc import Array

_MODEL = "silero_vad/data/silero_vad_16k.safetensors"
_MOST_BYTES = 64 << 20
_SEED = 20
# Layers of a single channel would be all padding in a blocked layout.
_LEAST_CHANNELS = 16
# The model's others, to make such of the same shapes.
_SHAPES = ((128, 129, 3), (64, 128, 3), (64, 64, 3), (128, 64, 3))


class Absent(Exception):
    """Why the data of others cannot be had; never seen but as the reason for data made here."""


_UNREADABLE = (Absent, OSError, ImportError, ValueError, KeyError, RuntimeError, EOFError)


@dataclass(frozen=True, slots=True)
class Data:
    """Arrays by name, where they come from, and whether they are real: not made by this project."""

    arrays: dict[str, Array]
    origin: str
    is_real: bool


def photograph(name: str, extents: tuple[int, int]) -> Data:
    """The photograph `name`.png of scikit-image, an (H, W, 3) u8 array; else a made one of `extents`."""
    try:
        found = _picture(f"{name}.png")
    except _UNREADABLE as error:
        why = _first_line(error)
        return Data({name: _made_picture(*extents)}, f"generated, for there is no photograph ({why})", False)
    height, width, _ = found.shape
    version = metadata.version("scikit-image")
    return Data({name: found}, f"{name}.png, {width} x {height}, from scikit-image {version}", True)


def convolutions(folder: Path) -> Data:
    """The convolution weights of silero-vad, each an (O, I, W) f32 array; else made ones of its shapes.

    They are read from the installed package, else from a wheel in `folder`.
    """
    try:
        tensors, where = _model(folder)
    except (*_UNREADABLE, Error, zlib.error, zipfile.BadZipFile) as error:
        return Data(_made_model(), f"generated, for there are no weights ({_first_line(error)})", False)
    kept = {name: x for name, x in tensors.items() if _is_convolution(x)}
    if not kept:
        return Data(_made_model(), f"generated, for there are no convolutions in {where}", False)
    return Data(kept, f"{len(kept)} convolutions of {Path(_MODEL).name}, from {where}", True)


def _is_convolution(x: Array) -> bool:
    return x.ndim == 3 and x.dtype == np.float32 and min(x.shape[:2]) >= _LEAST_CHANNELS and x.size > 0


def _picture(name: str) -> Array:
    folder = _package("skimage")
    if folder is None:
        raise Absent("scikit-image is not installed: pip install 'restride[demo]'")
    image: Array = importlib.import_module("skimage.io").imread(folder / "data" / name)
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] < 3:
        raise Absent(f"{name} is no color photograph")
    return np.ascontiguousarray(image[:, :, :3])


def _model(folder: Path) -> tuple[dict[str, Array], str]:
    """The model's tensors of floats, and where they were found."""
    installed = _package("silero_vad")
    if installed is not None:
        return _tensors(installed.parent / _MODEL), "the installed silero-vad"
    wheels = sorted(folder.glob("silero_vad-*.whl"))
    if not wheels:
        raise Absent(f"no silero_vad wheel in {folder}: pip download --no-deps silero-vad -d {folder}")
    with zipfile.ZipFile(wheels[-1]) as wheel, tempfile.TemporaryDirectory() as apart:
        if wheel.getinfo(_MODEL).file_size > _MOST_BYTES:
            raise Absent(f"{wheels[-1].name} claims too large a model")
        return _tensors(Path(wheel.extract(_MODEL, apart))), f"the wheel {wheels[-1].name}"


def _tensors(path: Path) -> dict[str, Array]:
    """The tensors of a file that restride has a type for, read into memory."""
    loaded = load(path)
    assert isinstance(loaded, dict)
    return {name: found.to_numpy() for name, found in loaded.items() if isinstance(found, Memory)}


def _package(name: str) -> Path | None:
    """The folder of an installed package, which is not imported."""
    spec = importlib.util.find_spec(name)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def _made_picture(height: int, width: int) -> Array:
    """Waves and noise in three channels."""
    y, x = np.ogrid[:height, :width]
    waves = [np.sin(x / (17 + 5 * c)) * np.cos(y / (23 + 3 * c)) for c in range(3)]
    noise = np.random.default_rng(_SEED).integers(-16, 17, (height, width, 3))
    return np.clip(110 * np.stack(waves, axis=-1) + 128 + noise, 0, 255).astype(np.uint8)


def _made_model() -> dict[str, Array]:
    rng = np.random.default_rng(_SEED)
    return {f"conv{i}": rng.normal(0, 0.1, shape).astype(np.float32) for i, shape in enumerate(_SHAPES)}


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
