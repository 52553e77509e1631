"""The formats that files are written in, by the ends of their names."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...errors import refuse
from ..stored_tensors import StoredArray
from ..writing.file_image import FileImage
from ..writing.replacement import shown
from ..zarr.image import ZARR_END
from .gguf import gguf_image
from .npy import npy_image
from .npz import npz_image
from .safetensors import safetensors_image

MakeImage = Callable[[Sequence[StoredArray], Mapping[str, Any]], FileImage]

_IMAGES: dict[str, MakeImage] = {
    ".npy": npy_image,
    ".npz": npz_image,
    ".safetensors": safetensors_image,
    ".gguf": gguf_image,
}


FILE_ENDS = tuple(_IMAGES)
"""The ends of names that files are written with."""


def is_file_name(path: str) -> bool:
    """True for a name that says a format, and is no folder's but one of Zarr."""
    is_file = os.path.splitext(path)[1].lower() in _IMAGES and not os.path.isdir(path)
    return is_file or is_zarr_name(path)


def is_zarr_name(path: str) -> bool:
    """True for the name of a folder that is to hold arrays of Zarr."""
    return path.rstrip("/").lower().endswith(ZARR_END)


def holds_metadata(path: str) -> bool:
    """True for the name of a file that has a place for metadata of its own."""
    return not path.lower().endswith((".npy", ".npz"))


def image_maker(path: str) -> MakeImage:
    """What makes the image of a file of this name. Raises InvalidArguments for a name of no known end."""
    image = _IMAGES.get(os.path.splitext(path)[1].lower())
    if image is not None:
        return image
    raise refuse("RS-F06", path=shown(path), value=", ".join((*_IMAGES, ".zarr")))
