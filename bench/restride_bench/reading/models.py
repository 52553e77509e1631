"""The networks of the rapidocr-onnxruntime wheel, and a scanned page of scikit-image: trained, and real."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import restride as rs
from restride.errors import RuntimeFailure
from restride.graph.importers.onnx.wire import read_message
from restride.runtime.alloc import Array

from ..wheels import file_name, member, open_wheel

_FOLDER = "rapidocr_onnxruntime/models"
_FILES = {
    "detection": "ch_PP-OCRv4_det_infer.onnx",
    "direction": "ch_ppocr_mobile_v2.0_cls_infer.onnx",
    "recognition": "ch_PP-OCRv4_rec_infer.onnx",
}


@dataclass(frozen=True, slots=True)
class Models:
    """The three models as bytes, the characters that recognition knows, and where they come from."""

    detection: bytes
    direction: bytes
    recognition: bytes
    characters: tuple[str, ...]
    origin: str

    def network(self, name: str, rule: str) -> rs.Network:
        """One of them as a network whose formats a rule has chosen."""
        return rs.onnx.load(getattr(self, name), rule=rule)


def models_in(folder: Path) -> Models:
    """The models of the newest rapidocr_onnxruntime wheel in a folder. Raises RuntimeFailure for none."""
    with open_wheel(folder, "rapidocr_onnxruntime", "demo-network", "networks") as wheel:
        found = {name: member(wheel, f"{_FOLDER}/{file}") for name, file in _FILES.items()}
        characters = _characters(found["recognition"])
        return Models(**found, characters=characters, origin=file_name(wheel))


def _characters(model: bytes) -> tuple[str, ...]:
    """The meaning of the classes of recognition: nothing, the characters of the model's notes, a space."""
    notes = {each.key: each.value for each in read_message("model", memoryview(model)).metadata_props}
    return ("", *notes["character"].splitlines(), " ")


def page() -> tuple[Array, str]:
    """The scanned page of scikit-image as (h, w, 3) u8, and where it comes from.

    Raises RuntimeFailure where scikit-image is missing.
    """
    spec = importlib.util.find_spec("skimage")
    if spec is None or spec.origin is None:
        raise RuntimeFailure(
            "demo-network: there is no photograph",
            code="RS-C04",
            why="scikit-image, which contains one, is not installed",
            hint="pip install 'restride[demo]', or name a picture: --picture photo.npy",
        )
    found: Array = importlib.import_module("skimage.io").imread(
        Path(spec.origin).parent / "data" / "page.png"
    )
    return as_colors(found), "page.png of scikit-image"


def as_colors(picture: Array) -> Array:
    """A picture as (h, w, 3) u8. Raises RuntimeFailure for what is none."""
    if picture.dtype == np.uint8 and picture.ndim == 2:
        picture = np.stack([picture] * 3, -1)
    if picture.dtype == np.uint8 and picture.ndim == 3 and picture.shape[2] >= 3 and picture.size:
        return np.ascontiguousarray(picture[:, :, :3])
    raise RuntimeFailure(
        "demo-network: this is no picture",
        code="RS-C04",
        where=f"{picture.dtype} {picture.shape}",
        why="a picture is (height, width), or (height, width, 3), of u8",
        hint="convert it first",
    )
