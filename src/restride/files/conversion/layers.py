"""Linear layers of AWQ and GPTQ checkpoints: names and shapes of their tensors, and the model configuration.

For a layer `X` whose weight is (out, in), a checkpoint has packed 32-bit words `X.qweight`, zero points
`X.qzeros`, `X.scales`, and for GPTQ the group of each row, `X.g_idx`; all of them as (in, out).
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ... import formats
from ...desc.memory_desc import MemoryDesc
from ...dtypes import DataType
from ...errors import refuse
from ...formats.tensor_format import TensorFormat
from ..plain_file import opened, read_at, state_of
from ..stored_tensors import KIND_OF_TYPE, StoredArray, parse_object
from ..writing.replacement import shown
from .tiles import Ints

ENDS = {"values": ".qweight", "scale": ".scales", "zero_point": ".qzeros"}
"""The suffixes of the names of a layer's tensors."""

ORDER = ".g_idx"
"""The suffix of the tensor that specifies the group of each row of a layer."""

WEIGHT = ".weight"
"""The suffix of a layer's weight."""

CONFIG = "config.json"
"""The configuration file of a model, which includes that of its quantization."""

_MAKERS = {"awq": formats.awq, "gptq": formats.gptq}
NAMES = tuple(_MAKERS)
"""The formats of layers."""

NO_LAYERS = ("embed", "lm_head")
"""Parts of the names of weights that programs do not read as quantized layers."""

_KEY = "quantization_config"
_OWN_CONFIGS = ("quantize_config.json", "quant_config.json")
_METHOD, _KEPT, _QUANTIZED = "quant_method", "modules_to_not_convert", "modules_in_block_to_quantize"
_SETTINGS: dict[str, dict[str, Any]] = {
    "awq": {"zero_point": True, "version": "gemm"},
    # Zero points are stored unchanged: the first version subtracts 1, and cannot store 0.
    "gptq": {"desc_act": False, "sym": False, "checkpoint_format": "gptq_v2"},
}
_MOST_CONFIG = 16 << 20


def layer_form(name: str, dims: Ints, group: int) -> TensorFormat:
    """Return the format of an (out, in) weight in which `group` inputs of an output share a scale."""
    form = _MAKERS[name](dims[::-1], group)
    assert form.scale is not None
    assert isinstance(form.zero_point, MemoryDesc)
    return replace(form, values=form.values.T, scale=form.scale.T, zero_point=form.zero_point.T)


def layer_array(weight: str, part: str, desc: MemoryDesc) -> StoredArray:
    """Return the array of a part of a layer, with its (out, in) descriptor.

    Raises InvalidArguments if the name is not that of a layer's weight.
    """
    if not weight.endswith(WEIGHT):
        raise refuse("RS-F07:no-weight-of-layer", name=weight[:120])
    kind, rows = KIND_OF_TYPE[desc.data_type if part == "scale" else DataType.s32], desc.physical_shape[0]
    shape = rows, desc.size * 8 // kind.bits // max(rows, 1)
    return StoredArray(weight.removesuffix(WEIGHT) + ENDS[part], kind, shape, desc.size, desc)


def row_groups(arrays: Mapping[str, StoredArray], gptq_layers: Iterable[str]) -> dict[str, bytes]:
    """Return the groups of the rows of GPTQ layers, by the names of their tensors."""
    found = {}
    for layer in gptq_layers:
        desc = arrays[layer + ENDS["values"]].desc
        assert desc is not None
        rows, groups = desc.dims[1], arrays[layer + ENDS["scale"]].shape[0]
        found[layer + ORDER] = (np.arange(rows, dtype=np.int32) // (rows // groups)).tobytes()
    return found


# --- the configuration of a model ----------------------------------------------------------------------


def gptq_version(folder: str) -> str:
    """Return the version in the configuration of a folder; "" if there is none."""
    for name in (_OWN_CONFIGS[0], CONFIG):
        path = os.path.join(folder, name)
        if not os.path.isfile(path):
            continue
        config = _quantization(name, read_config(path))
        if isinstance(config, dict) and config.get(_METHOD, "gptq") == "gptq":
            return str(config.get("checkpoint_format", "gptq"))
    return ""


def is_config(name: str) -> bool:
    """Return True for the name of a file that can contain the quantization of layers."""
    return os.path.basename(name) in (CONFIG, *_OWN_CONFIGS)


def read_config(path: str) -> dict[str, Any]:
    """Return the object in a JSON file. Raises InvalidArguments if it does not contain one."""
    with opened(path) as file:
        return parse_object(path, read_at(file, path, 0, min(state_of(file).nbytes, _MOST_CONFIG)))


def _quantization(name: str, whole: dict[str, Any]) -> object:
    return whole.get(_KEY) if name == CONFIG else whole.get(_KEY, whole)


def config_text(
    path: str, made: Collection[tuple[str, int]], made_names: list[str], left: list[str], plain: list[str]
) -> bytes | None:
    """Return the content of a configuration for the layers that are now next to it; b"" if the file is to be
    removed, None if it stays unchanged.

    `made`: formats and groups of the layers that were created, `made_names`; `left`: names of layers that are
    copied; `plain`: names of weights that are not layers, or no longer.

    Raises InvalidArguments for layers of several formats or groups: a configuration can have only one.
    """
    name, whole = os.path.basename(path), read_config(path)
    if made:
        if len(made) > 1 or left:
            several = sorted({f"{method},group={group}" for method, group in made})
            raise refuse("RS-F07:layers-differ", path=shown(path), several=", ".join(several), left=len(left))
        ((method, group),) = made
        config = {_METHOD: method, "bits": 4, "group_size": group, **_SETTINGS[method]}
    else:
        old = _quantization(name, whole)
        if not isinstance(old, dict) or old.get(_METHOD, "gptq") not in NAMES:
            return None
        if not left:
            if name != CONFIG:
                return b""
            del whole[_KEY]
            return _as_text(whole)
        config, method = dict(old), str(old.get(_METHOD, "gptq"))
    if method == "awq":
        config |= {_KEPT: sorted({*(config.get(_KEPT) or ()), *plain})} if plain else {}
    elif any(any(word.isdecimal() for word in one.split(".")) for one in plain):
        config[_QUANTIZED] = [sorted([*made_names, *left])]
    return _as_text(config if name != CONFIG else {**whole, _KEY: config})


def _as_text(values: dict[str, Any]) -> bytes:
    return json.dumps(values, indent=2, ensure_ascii=False).encode() + b"\n"
