"""Stored formats of models: quantized, dequantized and repacked, compared with their owners' own code.

Every side does the same work on the same numbers, on as many threads, compared with a copy of as many bytes.
Peers are the installed ones of gguf, torch, torchao, ml_dtypes and compressed-tensors.
"""

from __future__ import annotations

import ctypes
import importlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import restride as rs

from .array_peers import NumPy
from .pages import ratio, sides, table
from .peer import PreparedCall
from .problem import storage
from .study import MEMCPY, OWN, BenchRow, BenchSetup, RowPlan, Study, race

Bits = np.ndarray[Any, np.dtype[Any]]
Dequantize = Callable[[], Any]


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


def dequantizers(made: rs.QuantizedTensor) -> dict[str, Dequantize]:
    """The calls of all libraries that are there."""
    torch, found = module("torch"), {"ml_dtypes": _with_ml_dtypes(made)}
    if torch is not None:
        found["torch"] = _with_torch(torch, made)
    if torch is not None and module("compressed_tensors") is not None:
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


def _with_ml_dtypes(made: rs.QuantizedTensor) -> Dequantize | None:
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


def _with_torch(torch: Any, made: rs.QuantizedTensor) -> Dequantize | None:
    """Return the formula in common use: the elements as f32, in groups, times scales."""
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


def _with_compressed_tensors(torch: Any, made: rs.QuantizedTensor) -> Dequantize | None:
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


_ROWS, _COLUMNS = 4096, 8192
_api: Any = rs  # whose overloads a partial call does not choose


def measure(setting: BenchSetup) -> list[BenchRow]:
    """All rows."""
    rows, columns, before = _ROWS, _COLUMNS, rs.get_num_threads()
    while rows * columns * 8 > setting.largest and rows > 256:
        rows //= 2
    setting = replace(setting, copiers=[*setting.copiers, NumPy(setting.threads)])
    rs.set_num_threads(setting.threads)
    torch = module("torch")
    if torch is not None:
        torch.set_num_threads(setting.threads)
    try:
        return [race(work, setting) for work in _works(rows, columns)]
    finally:
        rs.set_num_threads(before)


def _work(
    name: str, moved: int, calls: Mapping[str, Dequantize], answer: Callable[[Any], Bits] | None = None
) -> RowPlan:
    """A row of the calls that return; `answer` reads what they return, where it is to be the same."""
    sides, refused, wrong = dict[str, PreparedCall](), dict[str, str](), dict[str, str]()
    wanted = None
    for side, call in calls.items():
        try:
            made = call()
        except Exception as error:  # a peer may refuse in any way
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            (wrong if side == OWN else refused)[side] = f"refused: {why}"
            continue
        sides[side] = PreparedCall(call)
        found = None if answer is None else answer(made)
        wanted = found if side == OWN else wanted
        if found is not None and wanted is not None and not np.array_equal(found, wanted):
            refused[side] = f"{int((found != wanted).sum())} of {wanted.size} differ from restride's"
    return RowPlan(name, moved, sides, lambda: wrong, refused=refused)


# --- the rows -----------------------------------------------------------------------------------------------


def _works(rows: int, columns: int) -> Iterator[RowPlan]:
    x = np.random.default_rng(0).standard_normal((rows, columns), dtype=np.float32)
    yield from _gguf_works(x)
    yield from _mx_works(x)
    yield from _group_works(x)
    # Of 4 bits there are four times as many, so that no copy of them stays in the caches.
    yield from _repacks(2 * rows, 2 * columns)
    yield _swizzle(rows, columns)


def _room(like: Bits) -> Bits:
    """An array of the same kind that begins at a cache line, as results do: others are not written past the
    caches.
    """
    return storage(like.nbytes).view(like.dtype).reshape(like.shape)


def _flat(result: Any) -> Bits:
    """The elements of an array of any library, as f32."""
    if isinstance(result, rs.Memory):
        result = result.to_numpy()
    if hasattr(result, "float"):
        result = result.float().numpy()
    return np.asarray(result).astype(np.float32).reshape(-1)


def _gguf_works(x: Bits) -> Iterator[RowPlan]:
    gguf, out = module("gguf.quants"), _room(x)
    kinds = getattr(module("gguf"), "GGMLQuantizationType", None)
    for name in ("q4_0", "q8_0", "mxfp4"):
        form = getattr(rs.formats.gguf, name)(x.shape)
        held = form.pack(_like(form, x))
        calls = {OWN: partial(_api.dequantize, held, out=out)}
        if gguf is not None and kinds is not None:
            start = held.scale.get_data_handle()
            raw = np.ctypeslib.as_array((ctypes.c_uint8 * form.nbytes).from_address(start))
            calls["gguf"] = partial(gguf.dequantize, raw.reshape(x.shape[0], -1).copy(), kinds[name.upper()])
        yield _work(f"dequantize gguf.{name} → f32", form.nbytes + x.nbytes, calls, _flat)


def _like(form: Any, x: Bits) -> Any:
    """A tensor of the groups and types of a format of blocks of 32."""
    if form.name == "gguf.mxfp4":
        return _api.quantize(x, "mxfp4")
    return _api.quantize(x, "u4" if form.name == "gguf.q4_0" else "s8", group=32, scale_type="f16")


def _quantizing(x: Any, kind: Any, **options: Any) -> Dequantize:
    return lambda: _api.quantize(x, kind, **options).values


def _values_of(mx: Any, x: Any, kind: Any) -> Any:
    return mx.to_mx(x, kind, 32)[1]


def _mx_works(x: Bits) -> Iterator[RowPlan]:
    torch, mx = module("torch"), module("torchao.prototype.mx_formats.mx_tensor")
    half = rs.reorder(x, None, dtype="bf16")
    out = _room(half)
    for name in ("mxfp4", "mxfp8", "nvfp4"):
        made = _api.quantize(half, name)
        moved = half.nbytes + made.nbytes
        there: dict[str, Dequantize] = {OWN: _quantizing(half, name)}
        back: dict[str, Dequantize] = {OWN: partial(_api.dequantize, made, out=out)}
        if torch is not None and mx is not None and name != "nvfp4":
            held = torch.from_numpy(half.view(np.int16)).view(torch.bfloat16)
            kind = torch.float8_e4m3fn if name == "mxfp8" else torch.float4_e2m1fn_x2
            scale, values = mx.to_mx(held, kind, 32)
            there["torchao"] = partial(_values_of, mx, held, kind)
            back["torchao"] = partial(mx.to_dtype, values, scale, kind, 32, torch.bfloat16)
        yield _work(f"quantize bf16 → {name}", moved, there, raw_bytes)
        back |= dequantizers(made)
        yield _work(f"dequantize {name} → bf16", moved, back, _flat)


def _group_works(x: Bits) -> Iterator[RowPlan]:
    half = rs.reorder(x, None, dtype="bf16")
    out = _room(half)
    for kind, group, scale_type in (("s8", 128, "f32"), ("u4", 128, "f16"), ("f8_e4m3", (128, 128), "f32")):
        options: dict[str, Any] = {"group": group, "scale_type": scale_type}
        made = _api.quantize(half, kind, **options)
        moved = half.nbytes + made.nbytes
        shown = "x".join(map(str, group)) if isinstance(group, tuple) else group
        words = f"{kind}/{scale_type}/{shown}"
        yield _work(f"quantize bf16 → {words}", moved, {OWN: _quantizing(half, kind, **options)})
        back: dict[str, Dequantize] = {OWN: partial(_api.dequantize, made, out=out)}
        back |= dequantizers(made)
        yield _work(f"dequantize {words} → bf16", moved, back, _flat)


def _repacks(rows: int, columns: int) -> Iterator[RowPlan]:
    """From each of the 4-bit formats of one type to each other."""
    shape = rows, columns
    codes = np.random.default_rng(1).integers(0, 256, rows * columns // 2, np.uint8)
    plain = rs.Memory(rs.MemoryDesc((rows, columns), "u4"), rs.Engine("cpu"), codes)
    forms = rs.formats
    ways = {
        name: getattr(forms, name)(shape).values for name in ("gptq", "awq", "marlin", "torchao_int4_cpu")
    }
    pairs = tuple(itertools.permutations(ways, 2))
    for source, target in pairs:
        made, written = rs.reorder(plain, ways[source]), rs.Memory(ways[target], rs.Engine("cpu"))
        calls = {OWN: partial(_api.reorder, made, None, out=written)}
        if (source, target) == pairs[0]:
            calls["NumPy"] = partial(
                _gptq_to_awq, raw_bytes(made).view(np.uint32).reshape(rows // 8, columns)
            )
        yield _work(f"repack {source} → {target}", 2 * codes.nbytes, calls, raw_bytes)


def _gptq_to_awq(words: Bits) -> Bits:
    """As scripts do it: unpack the rows of a word, pack columns in AWQ's order."""
    shifts = np.arange(0, 32, 4, dtype=np.uint32)
    codes = (words[:, None, :] >> shifts[:, None] & 15).reshape(-1, words.shape[1])
    made = np.zeros((len(codes), words.shape[1] // 8), np.uint32)
    for place, column in enumerate((0, 2, 4, 6, 1, 3, 5, 7)):
        made |= codes[:, column::8] << np.uint32(4 * place)
    return made


def _swizzle(rows: int, columns: int) -> RowPlan:
    torch, utils = module("torch"), module("torchao.prototype.mx_formats.utils")
    scales = np.random.default_rng(2).integers(0, 127, (rows, columns), np.uint8)
    written = rs.Memory(rs.formats.nvfp4_scales_128x4((rows, columns), "u8"), rs.Engine("cpu"))
    calls = {OWN: partial(_api.reorder, scales, None, out=written)}
    if torch is not None and utils is not None:
        calls["torchao"] = partial(utils.to_blocked, torch.from_numpy(scales))
    return _work("swizzle scales of nvfp4, 128x4", 2 * scales.nbytes, calls, raw_bytes)


def page(rows: Sequence[BenchRow]) -> str:
    """A line for each row: every side in GB/s, and what is no comparison."""
    others = sides(rows)
    lines = [
        [
            *(row.name, f"{row.rate() / 1e9:.1f}", ratio(row.over(MEMCPY))),
            *(f"{row.rate(side) / 1e9:.2f}" if side in row.times else "" for side in others),
        ]
        for row in rows
        if OWN in row.times
    ]
    notes = [f"- {row.name}, {side}: {why}" for row in rows for side, why in row.refused.items()]
    parts = [table(["GB/s", "restride", "of a copy", *others], lines), "\n".join(notes)]
    return "\n\n".join(part for part in parts if part)


STUDY = Study("Stored formats", measure, page)
