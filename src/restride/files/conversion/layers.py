"""Linear layers of AWQ and GPTQ checkpoints: names and shapes of their tensors, and the model configuration.

For a layer `X` whose weight is (out, in), a checkpoint has packed 32-bit words `X.qweight`, zero points
`X.qzeros`, `X.scales`, and for GPTQ the group of each row, `X.g_idx`; all of them as (in, out).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

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

NO_LAYERS = re.compile(
    r"embe?d|(^|\.)(wte|wpe|emb|shared|lm_head|head|score|classifier)\.weight$|^output\.weight$"
)
"""The names of embeddings and heads, which programs do not read as quantized layers."""

_KEY = "quantization_config"
# Files for the quantization alone, with the method that they mean unless they specify it.
_OWN_CONFIGS = {"quantize_config.json": "gptq", "quant_config.json": "awq"}
_METHOD, _KEPT, _QUANTIZED = "quant_method", "modules_to_not_convert", "modules_in_block_to_quantize"
_VERSIONS = {"awq": "version", "gptq": "checkpoint_format"}
# Where this is, there is no method: transformers and vLLM then refuse to load the folder.
_MARK = "restride"
_MARK_TEXT = "some weights are in formats that only restride reads: convert them to f32, bf16 or f16"
# Models whose linear layers have weights of (in, out).
_TRANSPOSED = ("decision_transformer", "gpt2", "imagegpt", "openai-gpt")
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


def layer_kind(words: Ints, scales: Ints) -> tuple[str, int]:
    """Return the format of a layer, and how many inputs share a scale, from the shapes of its packed words
    and its scales; ("unknown", 0) if these are not those of a layer.
    """
    if len(words) != 2 or len(scales) != 2 or not scales[0]:
        return "unknown", 0
    method, rows = ("gptq", words[0] * 8) if words[1] == scales[1] else ("awq", words[0])
    return method, rows // scales[0]


# --- the configuration of a model ----------------------------------------------------------------------


def gptq_version(folder: str) -> str:
    """Return the version in the configuration of a folder; "" if there is none."""
    for name in ("quantize_config.json", CONFIG):
        path = os.path.join(folder, name)
        if not os.path.isfile(path):
            continue
        config = _quantization(name, read_config(path))
        if (config or name != CONFIG) and config.get(_METHOD, "gptq") == "gptq":
            return str(config.get(_VERSIONS["gptq"], "gptq"))
    return ""


def is_config(name: str) -> bool:
    """Return True for the name of a file that can contain the quantization of layers."""
    return os.path.basename(name) in (CONFIG, *_OWN_CONFIGS)


def is_marked(text: bytes) -> bool:
    """Return True for a configuration with which other programs refuse to load the weights."""
    return json.dumps({"note": _MARK_TEXT})[1:-1].encode() in text


def read_config(path: str) -> dict[str, Any]:
    """Return the object in a JSON file. Raises InvalidArguments if it does not contain one."""
    with opened(path) as file:
        return parse_object(path, read_at(file, path, 0, min(state_of(file).nbytes, _MOST_CONFIG)))


def _quantization(name: str, whole: dict[str, Any]) -> dict[str, Any]:
    """Return the quantization in a configuration, as it is without the mark; {} if there is none."""
    config = whole.get(_KEY) if name == CONFIG else whole.get(_KEY, whole)
    config = dict(config) if isinstance(config, dict) else {}
    if not isinstance(mark := config.get(_MARK), dict):
        return config
    marked = mark.get(_KEY)
    return dict(marked) if isinstance(marked, dict) else {}


class FolderWeights(NamedTuple):
    """The weights that are now in a folder.

    made, copied  format and group of the layers, by name
    plain         names of weights of two axes that are not layers, or no longer
    is_private    True if only restride reads some of them correctly
    has_integers  True if some of them are integers
    was_read      True if layers of the source have become something else
    """

    made: Mapping[str, tuple[str, int]]
    copied: Mapping[str, tuple[str, int]]
    plain: Sequence[str]
    is_private: bool
    has_integers: bool
    was_read: bool


def config_text(path: str, weights: FolderWeights) -> bytes | None:
    """Return the content of a configuration for the weights that are now next to it; b"" if the file is to be
    removed, None if it stays unchanged.

    Raises InvalidArguments for layers of several formats or groups: a configuration can have only one.
    """
    name, whole = os.path.basename(path), read_config(path)
    config = old = _quantization(name, whole)
    method = str(old.get(_METHOD, _OWN_CONFIGS.get(name, "gptq"))) if old else ""
    if weights.made:
        if method not in ("", *NAMES):
            raise refuse("RS-F07:layers-foreign", path=shown(path), method=method)
        method, group = _kind_of_all(path, weights, old)
        if name == CONFIG and whole.get("model_type") in _TRANSPOSED:
            raise refuse(
                "RS-F07:layers-transposed", path=shown(path), model=whole["model_type"], method=method
            )
        config = {_METHOD: method, "bits": 4, "group_size": group, **_SETTINGS[method]}
        if weights.copied:
            config = {**old, **config, **{key: True for key in ("desc_act",) if old.get(key)}}
    elif weights.was_read and method in NAMES and not weights.copied:
        config = {}
    if config and method in NAMES and (weights.made or weights.was_read):
        names = sorted([*weights.made, *weights.copied])
        config = {key: value for key, value in config.items() if key not in (_KEPT, _QUANTIZED)}
        # Parts of names of layers that have become some are not kept any more.
        parts = old.get(_KEPT)
        parts = parts if isinstance(parts, list) else [parts] if isinstance(parts, str) else []
        kept = [str(part) for part in parts if not any(str(part) in layer for layer in names)]
        if method == "awq" and (kept or weights.plain):
            config[_KEPT] = sorted({*kept, *weights.plain})
        elif method == "gptq" and any(word.isdecimal() for one in weights.plain for word in one.split(".")):
            config[_QUANTIZED] = [names]
    if name != CONFIG:
        return None if config == old else _as_text(config) if config else b""
    is_wrong = weights.is_private or (weights.has_integers and not config)
    if is_wrong and whole.keys() & {"architectures", "model_type"}:
        config = {_MARK: {"note": _MARK_TEXT, **({_KEY: config} if config else {})}}
    if config == (whole.get(_KEY) or {}):
        return None
    whole.pop(_KEY, None)
    return _as_text({**whole, _KEY: config} if config else whole)


def _kind_of_all(path: str, weights: FolderWeights, old: Mapping[str, Any]) -> tuple[str, int]:
    """Return the format and the group of all layers. Raises InvalidArguments if they differ."""
    kinds = {*weights.made.values(), *weights.copied.values()}
    if len(kinds) > 1:
        several = ", ".join(sorted(f"{method},group={group}" for method, group in kinds))
        raise refuse("RS-F07:layers-differ", path=shown(path), several=several, copied=len(weights.copied))
    ((method, group),) = kinds
    if weights.copied:
        key, bits = _VERSIONS[method], old.get("bits", old.get("w_bit", 4))
        found = gptq_version(os.path.dirname(path)) if method == "gptq" else str(old.get(key, "gemm")).lower()
        if found != _SETTINGS[method][key] or bits != 4:
            raise refuse(
                "RS-F07:layers-of-version",
                path=shown(path),
                found=f"{bits} bits, {key} {found or 'unknown'}",
                needed=f"4 bits, {key} {_SETTINGS[method][key]}",
            )
    return method, group


def _as_text(values: dict[str, Any]) -> bytes:
    return json.dumps(values, indent=2, ensure_ascii=False).encode() + b"\n"
