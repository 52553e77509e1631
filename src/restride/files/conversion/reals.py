"""Tensors of files that represent real numbers: ggml's blocks, elements with separate scales, layers of AWQ
and GPTQ.

A conversion reads such a tensor as f32, box by box, and treats it like any floats.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import lcm
from typing import Any

import numpy as np

from ...arrays.scaling.quantized_tensor import QuantizedTensor
from ...desc.memory_desc import MemoryDesc
from ...dtypes import DataType
from ...errors import refuse
from ...formats import gguf
from ...runtime.alloc import Array
from ...runtime.engine import Engine
from ...runtime.memory import Memory
from ..places import FilePlace, TensorPlace, bytes_of
from ..stored_tensors import KINDS, ElementKind, StoredArray, StoredTensor
from ..writing.replacement import shown
from ..zarr.arrays import ZarrFolder, ZarrPlace
from .layers import ENDS, NAMES, NO_LAYERS, ORDER, WEIGHT, gptq_version, layer_kind
from .rules import REALS, WIDE_REALS, ConversionRule, rule_for
from .sources import SourceFile
from .tiles import Ints, compact, least_box
from .value_errors import as_f64

_CPU = Engine("cpu")
_BLOCKS, _ROW_GROUPS = "blocks", "row_groups"
_AWQ_TAG = "bA2@1a4@2a"
# The constants that GPTQ versions subtracted from zero points.
_ZERO_SHIFTS = {"gptq": 1, "gptq_v2": 0}


def as_read(
    file: SourceFile | ZarrFolder, rules: Sequence[ConversionRule]
) -> list[tuple[StoredTensor, ConversionRule | None]]:
    """Return the tensors of a file as their rules read them, each with its rule.

    Tensors whose numbers a rule converts are f32; their scales are omitted.
    """
    by_name = {tensor.array.name: tensor for tensor in file.tensors}
    chosen: list[tuple[StoredTensor, ConversionRule | None]] = []
    as_made: set[str] = set()
    for tensor in file.tensors:
        array = tensor.array
        rule, read = rule_for(array.name, rules), tensor
        if array.kind.word in gguf.BLOCK_FORMATS:
            # Blocks become floats directly.
            if rule is not None and rule.is_of_numbers and not is_direct(rule):
                read = _of_blocks(tensor)
        elif array.scaling is not None and array.desc is not None and array.kind.data_type is not None:
            if rule is not None and (rule.is_found or rule.data_type in WIDE_REALS):
                read = _of_scaled(tensor, by_name)
        elif (layer := _of_layer(tensor, by_name)) is not None:
            own = rule_for(layer.array.name, rules, array.name)
            if own is not None and _is_made_by(own, layer):
                # Scales and zero points are selected along with the words.
                as_made |= {layer.array.name.removesuffix(WEIGHT) + end for end in (*ENDS.values(), ORDER)}
                as_made.remove(array.name)
                rule = own
            elif own is not None and own.is_of_numbers:
                read, rule = _as_gptq_has_it(layer, file), own
        chosen.append((read, rule))
    absorbed = {part.array.name for read, _ in chosen for part in read.parts.values()}
    needed = {name for read, _ in chosen if (note := read.array.scaling) is not None for name in note.parts}
    absorbed -= needed | {read.array.name for read, _ in chosen if read.parts}
    return [
        (read, None if read.array.name in as_made or _stays(read, rule) else rule)
        for read, rule in chosen
        if read.parts or read.array.name not in absorbed
    ]


def stored_parts(
    tensor: StoredTensor,
    file: SourceFile | ZarrFolder,
    reads: Sequence[tuple[StoredTensor, ConversionRule | None]],
) -> list[StoredTensor]:
    """Return a tensor as stored in the file, including those of its parts that are not read separately."""
    if not tensor.parts:
        return [tensor]
    names = {part.array.name for part in tensor.parts.values()}
    names -= {read.array.name for read, _ in reads if not read.parts}
    return [one for one in file.tensors if one.array.name in names]


def is_direct(rule: ConversionRule) -> bool:
    """Return True if numbers are only converted to a floating-point type."""
    return rule.data_type in REALS and rule.scale is rule.zero_point is None


def place_of(file: SourceFile | ZarrFolder, tensor: StoredTensor) -> TensorPlace:
    """Return the place of a tensor of a file, or of the numbers that its parts represent."""
    if not tensor.parts:
        return file.place(tensor)
    return RealPlace(tensor, {name: file.place(part) for name, part in tensor.parts.items()})


def _view(
    name: str, dims: Ints, units: Ints, parts: Mapping[str, StoredTensor], unknown: Mapping[str, object]
) -> StoredTensor:
    """Return real numbers computed from these parts. `units`: boxes begin and end at multiples of these."""
    nbytes, first = sum(part.array.nbytes for part in parts.values()), next(iter(parts.values()))
    desc = MemoryDesc(dims, DataType.f32)
    array = StoredArray(name, KINDS["F32"], dims, nbytes, desc, unknown=unknown)
    chunk_bytes = max(part.chunk_bytes for part in parts.values())
    return StoredTensor(array, first.path, first.start, chunk_bytes=chunk_bytes, parts=parts, units=units)


def _of_blocks(tensor: StoredTensor) -> StoredTensor:
    array = tensor.array
    units = (*(1,) * (len(array.shape) - 1), array.kind.block)
    return _view(array.name, array.shape, units, {_BLOCKS: tensor}, array.unknown)


def _of_scaled(tensor: StoredTensor, by_name: Mapping[str, StoredTensor]) -> StoredTensor:
    """Return elements with scales for all, for each index of an axis, or for groups, as the metadata say."""
    array = tensor.array
    note, values = array.scaling, array.desc
    assert note is not None
    assert values is not None
    names = {part: getattr(note, part) for part in ("scale", "zero_point", "minimum", "tensor_scale")}
    beside = {part: by_name[name] for part, name in names.items() if name}
    descs = {part: beside[part].array.desc for part in beside}
    wanted = _extents(values.dims, note.axis, note.groups)
    for part, desc in descs.items():
        is_whole = desc is not None and set(desc.dims) == {1}
        if is_whole or (desc is not None and desc.dims == wanted and part != "tensor_scale"):
            continue
        raise refuse("RS-F01:scales-other-groups", path=shown(tensor.path), name=array.name[:60])
    return _view(array.name, values.dims, _units(values, descs), {"values": tensor, **beside}, array.unknown)


def _extents(dims: Ints, axis: int | None, groups: Ints) -> Ints | None:
    """Return the extents of the scales; None if they match no tensor of these dims."""
    if groups:
        is_whole = len(groups) == len(dims) and not any(n % g for n, g in zip(dims, groups, strict=True))
        return tuple(n // g for n, g in zip(dims, groups, strict=True)) if is_whole else None
    if axis is None:
        return (1,)
    return (dims[axis],) if axis < len(dims) else None


def _of_layer(tensor: StoredTensor, by_name: Mapping[str, StoredTensor]) -> StoredTensor | None:
    """Return the weight of an AWQ or GPTQ layer, given its packed elements."""
    array = tensor.array
    if not array.name.endswith(ENDS["values"]) or tensor.chunks:
        return None
    layer = array.name.removesuffix(ENDS["values"])
    parts = {part: by_name[layer + end] for part, end in ENDS.items() if layer + end in by_name}
    if len(parts) < len(ENDS) or layer + WEIGHT in by_name:
        return None
    kinds = [one.array.kind.word for one in parts.values()]
    are_words = {kinds[0], kinds[2]} <= {"I32", "U32"} and kinds[1] in ("F16", "BF16", "F32")
    if not are_words or any(len(one.array.shape) != 2 for one in parts.values()):
        return None
    (rows, columns), (groups, outputs), zeros = (one.array.shape for one in parts.values())
    is_gptq = columns == outputs
    rows, columns = (rows * 8, columns) if is_gptq else (rows, columns * 8)
    if (groups, columns) != (zeros[0], zeros[1] * 8) or columns != outputs or not groups or rows % groups:
        return None
    scale_type = parts["scale"].array.kind.data_type
    assert scale_type is not None
    words, beside = ("Ba8b", "ba") if is_gptq else (_AWQ_TAG, _AWQ_TAG)
    descs = {
        "values": MemoryDesc((columns, rows), DataType.u4, words),
        "scale": MemoryDesc((columns, groups), scale_type, "ba"),
        "zero_point": MemoryDesc((columns, groups), DataType.u4, beside),
    }
    described = {
        name: replace(one, array=replace(one.array, desc=descs[name])) for name, one in parts.items()
    }
    if is_gptq and (order := by_name.get(layer + ORDER)) is not None:
        # It makes no numbers where groups follow each other, and is the part `_ROW_GROUPS` where they do not.
        described[ORDER] = order
    return _view(layer + WEIGHT, (columns, rows), _units(descs["values"], descs), described, {})


def _stays(tensor: StoredTensor, rule: ConversionRule | None) -> bool:
    """True for a tensor that a glob does not select: floats of one axis, such as norms and biases, under a
    stored format; tensors other than weights of a linear layer under a format of layers; integers under a
    floating-point type.

    The array of a .npy file has no name: every glob selects it, even integers.
    """
    array = tensor.array
    named = None if rule is None else rule.named
    if rule is None or tensor.parts or rule.glob == array.name:
        return False
    if (data_type := array.kind.data_type) is None or (
        named in NAMES and array.name.endswith(ENDS["values"])
    ):
        return False
    if data_type in REALS:
        is_layer = len(array.shape) == 2 and not NO_LAYERS.search(array.name)
        return named is not None and (not is_layer if named in NAMES else len(array.shape) < 2)
    is_named = not tensor.path.lower().endswith(".npy")
    return data_type.kind != "float" and is_named and (named is not None or is_direct(rule))


def _kind_of(layer: StoredTensor) -> tuple[str, int]:
    """Return the format of a layer and the number of inputs that share a scale."""
    return layer_kind(layer.parts["values"].array.shape, layer.parts["scale"].array.shape)


def group_of(tensor: StoredTensor) -> int | None:
    """Of a layer how many inputs share a scale; None of other tensors."""
    if not tensor.parts or not tensor.stored_array.name.endswith(ENDS["values"]):
        return None
    return _kind_of(tensor)[1]


def _is_made_by(rule: ConversionRule, layer: StoredTensor) -> bool:
    """True where a rule makes of the layer what it is."""
    method, group = _kind_of(layer)
    is_same = rule.named == method and rule.group in (None, (group,))
    return is_same and layer.parts["scale"].array.kind.word == "F16"


def _as_gptq_has_it(tensor: StoredTensor, file: SourceFile | ZarrFolder) -> StoredTensor:
    """Return the layer with its zero-point shift, which only the configuration next to the file specifies.

    AWQ has no shift. Raises InvalidArguments if the version is unknown, or if rows refer to groups that do
    not exist.
    """
    rows, groups = tensor.array.shape[1], tensor.parts["scale"].array.shape[0]
    if _kind_of(tensor)[0] == "awq":
        return tensor
    name, path = tensor.array.name[:60], shown(tensor.path)
    version = gptq_version(os.path.dirname(file.path))
    if version not in _ZERO_SHIFTS:
        raise refuse("RS-F07:gptq-version", name=name, path=path)
    parts = {**tensor.parts}
    if (order := parts.get(ORDER)) is not None:
        found, array = np.zeros(rows, np.int32), order.array
        is_whole = (array.kind.word, array.shape) == ("I32", (rows,))
        if is_whole:
            desc = MemoryDesc((rows,), DataType.s32)
            file.place(order).read(desc, (0,), desc.dims, found.view(np.uint8))
        if not is_whole or np.any((found < 0) | (found >= groups)):
            raise refuse("RS-F07:gptq-groups", name=name, path=path, rows=rows, groups=groups)
        if np.any(found != np.arange(rows) // (rows // groups)):
            parts[_ROW_GROUPS] = parts.pop(ORDER)
    return replace(tensor, zero_shift=_ZERO_SHIFTS[version], parts=parts)


def _units(values: MemoryDesc, beside: Mapping[str, MemoryDesc | None]) -> Ints:
    return units_of(values.dims, least_box([values], (1,) * values.ndims) or values.dims, beside)


def units_of(dims: Ints, units: Ints, beside: Mapping[str, MemoryDesc | None]) -> Ints:
    """Return multiples, also of `units`, at which boxes can begin so that those of all parts are whole."""
    for desc in beside.values():
        if desc is not None and desc.ndims == len(dims) and 0 not in dims and set(desc.dims) != {1}:
            least = least_box([desc], (1,) * len(dims)) or desc.dims
            groups = (n // m * unit for n, m, unit in zip(dims, desc.dims, least, strict=True))
            units = tuple(map(lcm, units, groups))
    return tuple(max(n, 1) for n in units)


@dataclass(frozen=True, slots=True)
class RealPlace:
    """The place of real numbers, in f32, computed from parts that have their own places."""

    tensor: StoredTensor
    places: Mapping[str, FilePlace | ZarrPlace]

    def read(self, desc: MemoryDesc, start: Ints, size: Ints, into: Array) -> None:
        """Fill `into` with a box. Raises InvalidArguments for non-finite scales."""
        ends = [at + n for at, n in zip(start, size, strict=True)]
        units = self.tensor.units
        first = tuple(at // unit * unit for at, unit in zip(start, units, strict=True))
        last = tuple(min(-(-end // u) * u, n) for end, u, n in zip(ends, units, desc.dims, strict=True))
        extents = tuple(end - at for at, end in zip(first, last, strict=True))
        make = self._of_blocks if _BLOCKS in self.places else self._of_parts
        content = into.view(np.float32).reshape(size)
        if extents == size:
            make(first, extents).dequantize(out=Memory(MemoryDesc(size, DataType.f32), _CPU, into))
            return
        box = tuple(slice(at - f, end - f) for at, end, f in zip(start, ends, first, strict=True))
        content[...] = make(first, extents).dequantize().to_numpy()[box]

    def write(self, desc: MemoryDesc, start: Ints, size: Ints, content: Array) -> None:
        """Raise: sources are only read."""
        raise NotImplementedError

    def _of_blocks(self, start: Ints, size: Ints) -> QuantizedTensor:
        array = self.tensor.parts[_BLOCKS].array
        kind = array.kind
        dims, first, extents = (in_bytes(kind, box) for box in (array.shape, start, size))
        content = self._read(_BLOCKS, MemoryDesc(dims, DataType.u8), first, extents)
        check_scales(self.tensor, bytes_of(content))
        return gguf.BLOCK_FORMATS[kind.word](size).wrap(bytes_of(content))

    def _of_parts(self, start: Ints, size: Ints) -> QuantizedTensor:
        read: dict[str, Any] = {}
        order = self._row_groups(start, size)
        for name, part in self.tensor.parts.items():
            desc = part.array.desc
            if name in (ORDER, _ROW_GROUPS):
                continue
            assert desc is not None
            if name == "values":
                read[name] = self._read(name, desc, start, size)
                continue
            first, extents = self._box_beside(desc, start, size)
            if order is not None:
                # All groups of the rows, which may be anywhere.
                low, high = int(order.min()), int(order.max()) + 1
                first, extents = (first[0], low), (extents[0], high - low)
            memory = read[name] = self._read(name, desc, first, extents)
            if desc.data_type.kind == "float" and not np.isfinite(as_f64(memory)).all():
                raise _not_finite(self.tensor)
            if desc.ndims != len(size):
                read[name] = self._shaped(memory, len(size))
        if self.tensor.zero_shift or order is not None:
            zeros = read["zero_point"].to(None, DataType.s8).to_numpy() + np.int8(self.tensor.zero_shift)
            read["zero_point"] = Memory.from_numpy(zeros)
        if order is not None:
            for name in ("scale", "zero_point"):
                read[name] = Memory.from_numpy(read[name].to_numpy()[:, order - order.min()])
        whole = read.pop("tensor_scale", None)
        factor = 1.0 if whole is None else float(as_f64(whole).reshape(-1)[0])
        return QuantizedTensor(**read, tensor_scale=factor)

    def _row_groups(self, start: Ints, size: Ints) -> Array | None:
        """Return the group of each row of a layer's box; None if groups are contiguous."""
        if _ROW_GROUPS not in self.places:
            return None
        desc = MemoryDesc(self.tensor.array.shape[1:], DataType.s32)
        return self._read(_ROW_GROUPS, desc, start[1:], size[1:]).to_numpy()

    def _shaped(self, memory: Memory, ndims: int) -> Memory:
        """Return scales for the tensor, or for each index of an axis, with the axes of the tensor."""
        note = self.tensor.parts["values"].array.scaling
        axis = None if note is None else note.axis
        shape = tuple(-1 if d == (axis or 0) else 1 for d in range(ndims))
        return Memory.from_numpy(memory.to_numpy().reshape(shape))

    def _box_beside(self, desc: MemoryDesc, start: Ints, size: Ints) -> tuple[Ints, Ints]:
        """Return the box of scales that corresponds to one of elements."""
        dims = self.tensor.array.shape
        if set(desc.dims) <= {1}:
            return (0,) * desc.ndims, desc.dims
        if desc.ndims != len(dims):
            note = self.tensor.parts["values"].array.scaling
            assert note is not None
            assert note.axis is not None
            return (start[note.axis],), (size[note.axis],)
        groups = [n // m for n, m in zip(dims, desc.dims, strict=True)]
        first = tuple(at // g for at, g in zip(start, groups, strict=True))
        return first, tuple(-(-n // g) for n, g in zip(size, groups, strict=True))

    def _read(self, name: str, desc: MemoryDesc, start: Ints, size: Ints) -> Memory:
        box = compact(desc, size)
        content = np.empty(box.size, np.uint8)
        if content.size:
            self.places[name].read(desc, start, size, content)
        return Memory(box, _CPU, content)


# --- ggml blocks ---------------------------------------------------------------------------------------


def in_bytes(kind: ElementKind, box: Ints) -> Ints:
    """Convert a position among elements of blocks, or extents, to bytes along the last axis."""
    return (*box[:-1], box[-1] // kind.block * kind.bits // 8)


def check_scales(tensor: StoredTensor, blocks: Array) -> None:
    """Raise InvalidArguments if the scale or the minimum of any block of the tensor is not finite."""
    kind = (tensor.parts[_BLOCKS] if tensor.parts else tensor).array.kind
    if not are_finite(kind, blocks):
        raise _not_finite(tensor)


def are_finite(kind: ElementKind, blocks: Array) -> bool:
    """Return True if scales and minima of all blocks are finite."""
    rows = blocks.reshape(-1, kind.bits // 8)
    return all(
        bool(np.isfinite(np.ascontiguousarray(rows[:, at : at + n]).view(number).astype(np.float32)).all())
        for at, n, number in _scale_places(kind.word)
    )


@lru_cache(maxsize=64)
def _scale_places(word: str) -> tuple[tuple[int, int, Any], ...]:
    """Return, for scales and minima in a block, the first byte, their number, and NumPy's type."""
    form = gguf.BLOCK_FORMATS[word]((256,))
    if form.blocks is not None:
        places = [(form.blocks.scale_at, form.blocks.scale_type), (form.blocks.minimum_at, DataType.f16)]
    else:
        descs = [desc for desc in (form.scale, form.minimum) if desc is not None]
        places = [(desc.offset0 * desc.data_type.bits // 8, desc.data_type) for desc in descs]
    return tuple((at, kind.bits // 8, kind.numpy) for at, kind in places if at is not None)


def _not_finite(tensor: StoredTensor) -> Exception:
    return refuse("RS-F01:scales-not-finite", path=shown(tensor.path), name=tensor.array.name[:60])
