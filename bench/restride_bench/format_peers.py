"""How other libraries dequantise the tensors of `stored_formats.py`: row-major elements, scales of groups.

Each function gives a call that makes bf16, or None where the library has no such thing.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

import restride as rs

Bits = np.ndarray[Any, np.dtype[Any]]
Dequantise = Callable[[], Any]


def module(name: str) -> Any:
    """A module by name; None where it is not installed, or does not load on this machine."""
    try:
        return importlib.import_module(name)
    except Exception:  # whatever a library raises while it loads
        return None


def raw_bytes(result: Any) -> Bits:
    """The bytes of what was packed."""
    if isinstance(result, rs.Memory):
        return np.asarray(result.data).view(np.uint8).reshape(-1)
    if hasattr(result, "detach"):
        result = result.contiguous().view(module("torch").uint8).numpy()
    return np.ascontiguousarray(result).view(np.uint8).reshape(-1)


def dequantisers(made: rs.QuantizedTensor) -> dict[str, Dequantise]:
    """The calls of all libraries that are there."""
    torch = module("torch")
    found = {"ml_dtypes": _with_ml_dtypes(made)}
    if torch is not None:
        found["torch"] = _with_torch(torch, made)
        if module("compressed_tensors") is not None:
            found["compressed-tensors"] = _with_compressed_tensors(torch, made)
    return {name: call for name, call in found.items() if call is not None}


def _scales(made: rs.QuantizedTensor) -> Bits:
    """The scales as f32, with axes of 1 behind theirs: one for the elements of a group."""
    rows, columns = made.scale.desc.dims
    return made.scale.to_numpy().astype(np.float32).reshape(rows, 1, columns, 1)


def _grouped(made: rs.QuantizedTensor) -> tuple[int, int, int, int]:
    (rows, columns), (g, h) = made.dims, made.groups
    return rows // g, g, columns // h, h


def _zero_point(made: rs.QuantizedTensor) -> int:
    return 0 if made.zero_point is None else int(made.zero_point.to_numpy().reshape(-1)[0])


def _with_ml_dtypes(made: rs.QuantizedTensor) -> Dequantise | None:
    """NumPy: the elements in a byte each, as ml_dtypes' type, as f32, times scales."""
    ml_dtypes, kind = module("ml_dtypes"), made.values.desc.data_type
    names = {"s8": "int8", "f8_e4m3": "float8_e4m3fn", "f4_e2m1": "float4_e2m1fn", "u4": "uint4"}
    if kind.name not in names:
        return None
    element = np.dtype(np.int8 if kind.name == "s8" else getattr(ml_dtypes, names[kind.name]))
    raw, scales, shape = raw_bytes(made.values), _scales(made), _grouped(made)
    zero, whole = np.float32(_zero_point(made)), np.float32(made.tensor_scale)

    def run() -> Any:
        codes = np.stack([raw & 15, raw >> 4], -1) if kind.bits == 4 else raw
        real = codes.reshape(-1).view(element).reshape(shape).astype(np.float32)
        if zero:
            real -= zero
        real *= scales
        if whole != 1:
            real *= whole
        return real.astype(ml_dtypes.bfloat16).reshape(made.dims)

    return run


def _with_torch(torch: Any, made: rs.QuantizedTensor) -> Dequantise | None:
    """What projects write: the elements as f32, in groups, times scales."""
    kind = made.values.desc.data_type
    if kind.bits == 4 and kind.kind == "float":
        return None
    scales, raw = torch.from_numpy(_scales(made)), torch.from_numpy(raw_bytes(made.values))
    shape, zero = _grouped(made), _zero_point(made)

    def run() -> Any:
        if kind.bits == 4:
            whole = torch.stack([raw & 15, raw >> 4], -1)
        else:
            whole = raw.view(torch.float8_e4m3fn if kind.kind == "float" else torch.int8)
        wide = whole.reshape(shape).to(torch.float32)
        if zero:
            wide = wide - zero
        return (wide * scales).to(torch.bfloat16).reshape(made.dims)

    return run


def _with_compressed_tensors(torch: Any, made: rs.QuantizedTensor) -> Dequantise | None:
    quantization = module("compressed_tensors.quantization")
    forward = module("compressed_tensors.quantization.lifecycle.forward")
    kind, (g, h) = made.values.desc.data_type, made.groups
    words: dict[str, Any] = {"num_bits": kind.bits, "type": "float" if kind.kind == "float" else "int"}
    if g > 1:
        words |= {"strategy": "block", "block_structure": [g, h]}
    else:
        words |= {"strategy": "group" if made.tensor_scale == 1 else "tensor_group", "group_size": h}
    options: dict[str, Any] = {"args": quantization.QuantizationArgs(**words), "dtype": torch.bfloat16}
    if made.tensor_scale != 1:
        # Theirs is what block scales were multiplied with.
        options["global_scale"] = torch.tensor([1 / made.tensor_scale], dtype=torch.float32)
    scale = torch.from_numpy(made.scale.to_numpy().astype(np.float32))
    unpacked = _unpacked(torch, made)
    return lambda: forward.dequantize(unpacked(), scale, None, **options).to(torch.bfloat16)


def _unpacked(torch: Any, made: rs.QuantizedTensor) -> Callable[[], Any]:
    """Elements as `compressed_tensors` computes with them; those of 4 bits are unpacked at each call."""
    kind, (rows, columns) = made.values.desc.data_type, made.dims
    raw = torch.from_numpy(raw_bytes(made.values)).reshape(rows, -1)
    if kind.bits == 8:
        held = raw.view(torch.float8_e4m3fn if kind.kind == "float" else torch.int8)
        return lambda: held
    if kind.kind == "float":
        helpers = module("compressed_tensors.compressors.nvfp4.helpers")
        return lambda: helpers.unpack_fp4_from_uint8(raw, rows, columns, torch.float32)
    helpers = module("compressed_tensors.compressors.pack_quantized.helpers")
    return lambda: helpers.unpack_from_int32(raw.view(torch.int32), 4, (rows, columns))
