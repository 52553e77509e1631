"""Formats that models are stored in: quantised, dequantised and repacked beside their owners' own code.

Every side does the same work on the same numbers, on as many threads; a copy of as many bytes stands beside.
Peers are what is installed of gguf, torch, torchao, ml_dtypes and compressed-tensors.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import restride as rs

from .array_peers import NumPy
from .figures import BenchSetup
from .measure import Call, Timing, alternate
from .problem import storage

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


_ROWS, _COLUMNS = 4096, 8192
_api: Any = rs  # whose overloads a partial call does not choose
_RESTRIDE, _COPY = "restride", "copy"


@dataclass(frozen=True)
class FormatRow:
    """What was done, bytes read and written, the times of each side, and what is wrong with an answer."""

    name: str
    moved: int
    times: dict[str, Timing]
    wrong: dict[str, str] = field(default_factory=dict)

    def rate(self, side: str) -> float:
        """Bytes read and written per second."""
        return self.moved / self.times[side].spread.median

    def of_copy(self) -> float:
        """Part of a copy's bytes per second."""
        return self.times[_RESTRIDE].times_faster_than(self.times[_COPY]).median


@dataclass(frozen=True)
class _FormatWork:
    """One row: bytes moved, what each side calls, and how its answer is read, where answers compare."""

    name: str
    moved: int
    calls: Mapping[str, Callable[[], Any]]
    answer: Callable[[Any], Bits] | None = None


def measure(setting: BenchSetup) -> list[FormatRow]:
    """All rows."""
    rows, columns = _ROWS, _COLUMNS
    while rows * columns * 8 > setting.largest and rows > 256:
        rows //= 2
    with _threads(setting.threads):
        return [_row(work, setting) for work in _works(rows, columns)]


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    """restride and torch on so many threads."""
    before = rs.get_num_threads()
    rs.set_num_threads(count)
    torch = module("torch")
    if torch is not None:
        torch.set_num_threads(count)
    yield
    rs.set_num_threads(before)


def _row(work: _FormatWork, setting: BenchSetup) -> FormatRow:
    half = work.moved // 2
    src, dst = storage(half), storage(half)
    src[...], dst[...] = 1, 2
    copiers = [*setting.copiers, NumPy(setting.threads)]
    copies = {f"{_COPY} {name}": call for peer in copiers for name, call in peer.copies(src, dst).items()}
    calls: dict[str, Call] = {}
    wrong: dict[str, str] = {}
    wanted = None
    for side, call in work.calls.items():
        try:
            made = call()
        except Exception as error:  # a peer may refuse in any way
            wrong[side] = f"refused: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
            continue
        calls[side] = call
        if work.answer is None:
            continue
        found = work.answer(made)
        if side == _RESTRIDE:
            wanted = found
        elif wanted is not None and not np.array_equal(found, wanted):
            wrong[side] = f"{int((found != wanted).sum())} of {wanted.size} differ from restride's"
    times = alternate({**calls, **copies}, rounds=setting.rounds)
    best = min(copies, key=lambda name: times[name].spread.median)
    kept = {side: times[side] for side in calls}
    return FormatRow(work.name, work.moved, {**kept, _COPY: times[best]}, wrong)


# --- the rows -----------------------------------------------------------------------------------------------


def _works(rows: int, columns: int) -> Iterator[_FormatWork]:
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


def _gguf_works(x: Bits) -> Iterator[_FormatWork]:
    gguf, out = module("gguf.quants"), _room(x)
    kinds = getattr(module("gguf"), "GGMLQuantizationType", None)
    for name in ("q4_0", "q8_0", "mxfp4"):
        form = getattr(rs.formats.gguf, name)(x.shape)
        held = form.pack(_like(form, x))
        calls = {_RESTRIDE: partial(_api.dequantize, held, out=out)}
        if gguf is not None and kinds is not None:
            start = held.scale.get_data_handle()
            raw = np.ctypeslib.as_array((ctypes.c_uint8 * form.nbytes).from_address(start))
            calls["gguf"] = partial(gguf.dequantize, raw.reshape(x.shape[0], -1).copy(), kinds[name.upper()])
        yield _FormatWork(f"dequantise gguf.{name} → f32", form.nbytes + x.nbytes, calls, _flat)


def _like(form: Any, x: Bits) -> Any:
    """A tensor of the groups and types of a format of blocks of 32."""
    if form.name == "gguf.mxfp4":
        return _api.quantize(x, "mxfp4")
    return _api.quantize(x, "u4" if form.name == "gguf.q4_0" else "s8", group=32, scale_type="f16")


def _quantising(x: Any, kind: Any, **options: Any) -> Dequantise:
    return lambda: _api.quantize(x, kind, **options).values


def _values_of(mx: Any, x: Any, kind: Any) -> Any:
    return mx.to_mx(x, kind, 32)[1]


def _mx_works(x: Bits) -> Iterator[_FormatWork]:
    torch, mx = module("torch"), module("torchao.prototype.mx_formats.mx_tensor")
    half = rs.reorder(x, None, dtype="bf16")
    out = _room(half)
    for name in ("mxfp4", "mxfp8", "nvfp4"):
        made = _api.quantize(half, name)
        moved = half.nbytes + made.nbytes
        there: dict[str, Dequantise] = {_RESTRIDE: _quantising(half, name)}
        back: dict[str, Dequantise] = {_RESTRIDE: partial(_api.dequantize, made, out=out)}
        if torch is not None and mx is not None and name != "nvfp4":
            held = torch.from_numpy(half.view(np.int16)).view(torch.bfloat16)
            kind = torch.float8_e4m3fn if name == "mxfp8" else torch.float4_e2m1fn_x2
            scale, values = mx.to_mx(held, kind, 32)
            there["torchao"] = partial(_values_of, mx, held, kind)
            back["torchao"] = partial(mx.to_dtype, values, scale, kind, 32, torch.bfloat16)
        yield _FormatWork(f"quantise bf16 → {name}", moved, there, raw_bytes)
        back |= dequantisers(made)
        yield _FormatWork(f"dequantise {name} → bf16", moved, back, _flat)


def _group_works(x: Bits) -> Iterator[_FormatWork]:
    half = rs.reorder(x, None, dtype="bf16")
    out = _room(half)
    for kind, group, scale_type in (("s8", 128, "f32"), ("u4", 128, "f16"), ("f8_e4m3", (128, 128), "f32")):
        options: dict[str, Any] = {"group": group, "scale_type": scale_type}
        made = _api.quantize(half, kind, **options)
        moved = half.nbytes + made.nbytes
        shown = "x".join(map(str, group)) if isinstance(group, tuple) else group
        words = f"{kind}/{scale_type}/{shown}"
        yield _FormatWork(f"quantise bf16 → {words}", moved, {_RESTRIDE: _quantising(half, kind, **options)})
        back: dict[str, Dequantise] = {_RESTRIDE: partial(_api.dequantize, made, out=out)}
        back |= dequantisers(made)
        yield _FormatWork(f"dequantise {words} → bf16", moved, back, _flat)


def _repacks(rows: int, columns: int) -> Iterator[_FormatWork]:
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
        calls = {_RESTRIDE: partial(_api.reorder, made, None, out=written)}
        if (source, target) == pairs[0]:
            calls["NumPy"] = partial(
                _gptq_to_awq, raw_bytes(made).view(np.uint32).reshape(rows // 8, columns)
            )
        yield _FormatWork(f"repack {source} → {target}", 2 * codes.nbytes, calls, raw_bytes)


def _gptq_to_awq(words: Bits) -> Bits:
    """As scripts do it: unpack the rows of a word, pack columns in AWQ's order."""
    shifts = np.arange(0, 32, 4, dtype=np.uint32)
    codes = (words[:, None, :] >> shifts[:, None] & 15).reshape(-1, words.shape[1])
    made = np.zeros((len(codes), words.shape[1] // 8), np.uint32)
    for place, column in enumerate((0, 2, 4, 6, 1, 3, 5, 7)):
        made |= codes[:, column::8] << np.uint32(4 * place)
    return made


def _swizzle(rows: int, columns: int) -> _FormatWork:
    torch, utils = module("torch"), module("torchao.prototype.mx_formats.utils")
    scales = np.random.default_rng(2).integers(0, 127, (rows, columns), np.uint8)
    written = rs.Memory(rs.formats.nvfp4_scales_128x4((rows, columns), "u8"), rs.Engine("cpu"))
    calls = {_RESTRIDE: partial(_api.reorder, scales, None, out=written)}
    if torch is not None and utils is not None:
        calls["torchao"] = partial(utils.to_blocked, torch.from_numpy(scales))
    return _FormatWork("swizzle scales of nvfp4, 128x4", 2 * scales.nbytes, calls, raw_bytes)
