"""The plan of a conversion: the step of every tensor, the output files, and the position of each array."""

from __future__ import annotations

import hashlib
import json
import os
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from math import lcm, prod
from typing import Any

import numpy as np

from ...arrays.calls.formats import target_desc
from ...arrays.scaling.quantization import quantize
from ...desc.memory_desc import MemoryDesc
from ...dtypes import DataType
from ...errors import Error, OutOfMemory, refuse
from ...formats import gguf
from ..formats.gguf import gguf_image, metadata_as_text, plain_metadata
from ..stored_tensors import (
    KINDS,
    FileImage,
    Scaling,
    StoredArray,
    StoredTensor,
    array_of,
    is_dense,
    is_private,
    plain_array,
)
from ..tensor_file import MakeImage, holds_metadata, image_maker, is_file_name, is_zarr_name
from ..writing.draft import DraftFile, Image, Origin
from ..writing.replacement import shown
from ..zarr.arrays import zarr_image
from . import layers
from .layers import layer_array
from .reals import as_read, group_of, in_bytes, is_direct, stored_parts, units_of
from .rules import REALS, ConversionRule, needs_scale
from .sources import ConversionSource
from .steps import (
    ConversionStep,
    CopyStep,
    DequantizeStep,
    MoveStep,
    PackStep,
    QuantizeStep,
    TensorRange,
)
from .targets import MisfitTensor, ShapeMisfit, fallback_of, parts_beside, target_of
from .tiles import Ints, TileGrid, box_bytes, box_units, is_cut_in_boxes, plan_tiles

# Suffixes of files of other programs, refused for folders.
_ENDS_OF_OTHERS = (".bin", ".ckpt", ".h5", ".msgpack", ".onnx", ".pkl", ".pt", ".pth", ".tar", ".xml", ".zip")
_HINT = "put a matching rule for this tensor before it: 'NAME=keep' copies it"


def plan_step(
    tensor: StoredTensor,
    rule: ConversionRule | None,
    most_bytes: int,
    in_boxes: bool = False,
    is_gguf: bool = False,
) -> ConversionStep:
    """Return the step of a tensor under a rule, in tiles of at most about `most_bytes`.

    `in_boxes`: its tiles are boxes of the tensor, as they always are if it is read in chunks. `is_gguf`: the
    output file has types for blocks. Raises an error that names the tensor and the rule if they do not match.
    """
    room = _TileRoom(tensor, most_bytes, in_boxes, is_gguf)
    if rule is None or rule.is_copy:
        return _copy_step(room, rule)
    try:
        step = _step_by_rule(room, rule)
    except ShapeMisfit:  # reported together with all others
        raise
    except Error as error:
        why = f"{error.what}: {error.why}" if error.why else error.what
        is_own = isinstance(error, OutOfMemory) or error.code == "RS-F07"
        hint = error.hint if is_own else _HINT
        what = f"the rule {str(rule)!r} does not match {tensor.array.name[:120]!r}"
        where = f"{tensor.stored_array.kind.word} {tensor.stored_array.shape}"
        raise type(error)(what, code=error.code, where=where, why=why, hint=hint) from None
    return room.check(step)


@dataclass(frozen=True, slots=True)
class _TileRoom:
    """Limits for the tiles of a tensor: their bytes, and whether they are `written_in_boxes` to chunks."""

    tensor: StoredTensor
    most_bytes: int
    written_in_boxes: bool
    is_gguf: bool = False

    @property
    def in_boxes(self) -> bool:
        """True if the tensor is chunked on either side."""
        return self.written_in_boxes or bool(self.tensor.chunks)

    def grid(self, src: MemoryDesc, dst: MemoryDesc, result: StoredArray, units: Ints = ()) -> TileGrid:
        """Return tiles of the tensor, made of whole source chunks if they fit into the memory limit."""
        units = units or (1,) * src.ndims
        if self.tensor.units:
            # Unless that exceeds the limit: then some numbers are computed more than once.
            together = tuple(map(lcm, units, self.tensor.units))
            fits = box_bytes((src, dst), tuple(map(min, together, src.dims))) <= self.most_bytes
            units = together if fits else units
        if not self.in_boxes:
            return plan_tiles((src, dst), self.most_bytes, units)
        is_cut = not self.tensor.chunks or is_cut_in_boxes(self.tensor.array, src)
        if not is_cut or (self.written_in_boxes and not is_cut_in_boxes(result, dst)):
            return TileGrid.of_one(src.dims)
        whole = tuple(map(lcm, units, box_units(self.tensor, src)))
        chunk = tuple(map(min, whole, src.dims))
        fits = box_bytes((src, dst), chunk) <= self.most_bytes
        return plan_tiles((src, dst), self.most_bytes, whole if fits else units)

    def whole(
        self, src: MemoryDesc, dst: MemoryDesc, result: StoredArray, units: Ints
    ) -> tuple[TileGrid, TensorRange | None]:
        """Return tiles of a tensor with a single scale: one tile, or, if that exceeds the limit, several made
        of `units`, together with the search for the largest values.
        """
        if box_bytes((src, src, dst, dst), src.dims) <= self.most_bytes:
            return TileGrid.of_one(src.dims), None
        grid = self.grid(src, dst, result, units)
        return grid, TensorRange(src, grid) if len(grid) > 1 else None

    def check(self, step: ConversionStep) -> ConversionStep:
        """Return the step. Raises OutOfMemory if its tiles, or the source's chunks, exceed the limit."""
        most, chunk = 2 * self.most_bytes, self.tensor.chunk_bytes
        if max(step.tile_bytes, chunk) <= most:
            return step
        raise refuse(
            "RS-D01:cannot-cut-into",
            name=self.tensor.array.name[:120],
            rule=step.rule or "copied",
            chunk=f"a chunk takes {chunk}" if chunk > most else f"a tile takes {step.tile_bytes}",
            most=most,
        )


def _copy_step(room: _TileRoom, rule: ConversionRule | None) -> ConversionStep:
    """Return the step that copies a tensor: its bytes, or boxes of them if it is chunked."""
    array = room.tensor.array
    src = array.moved_as
    if src is None or not (array.is_fortran or (room.in_boxes and array.shape)):
        return CopyStep.of(room.tensor, rule)
    result, dst = array, src
    if array.is_fortran:
        # Other formats cannot express this order: the array becomes row-major, which all readers see the same
        # way.
        result, dst = plain_array(array.name, array.kind, array.shape), MemoryDesc(src.dims, src.data_type)
    return room.check(MoveStep(room.tensor, (result,), rule, src, dst, room.grid(src, dst, result)))


def _target_desc(
    array: StoredArray, src: MemoryDesc, format: str | None, data_type: DataType | None
) -> MemoryDesc:
    """Return the elements' descriptor in another format and type; without a format, as readers see them."""
    return target_desc(MemoryDesc(src.dims, src.data_type) if array.is_fortran else src, format, data_type)


def _step_by_rule(room: _TileRoom, rule: ConversionRule) -> ConversionStep:
    array = room.tensor.array
    src = array.moved_as
    if array.kind.word in gguf.BLOCK_FORMATS and is_direct(rule):
        # Bytes represent elements of blocks: none is split.
        src = MemoryDesc(array.shape, DataType.s8)
        dst = _target_desc(array, src, rule.format, rule.data_type)
        result = replace(array_of(array.name, dst), unknown=array.unknown)
        units = (*(1,) * (src.ndims - 1), array.kind.block)
        return DequantizeStep(room.tensor, (result,), rule, src, dst, room.grid(src, dst, result, units))
    # What is a layer already as the rule makes it.
    is_layer = rule.named in layers.NAMES and array.name.endswith(layers.ENDS["values"]) and not room.is_gguf
    if is_layer or (
        array.kind.word in gguf.BLOCK_FORMATS and array.kind.word == rule.block_word(room.is_gguf)
    ):
        return _copy_step(room, rule)
    if src is None and array.kind.block > 1:
        is_read = array.kind.word in gguf.BLOCK_FORMATS
        why = "they have no other layout" if is_read else "restride does not know the layout of their bits"
        raise refuse("RS-F07:only-copied-blocks", word=array.kind.word, why=why)
    if src is None:
        raise refuse(
            "RS-F07:only-copied",
            word=f"{array.kind.word} of {len(array.shape)} axes" if array.shape else "a tensor with no axes",
        )
    if (rule.data_type, rule.named, rule.scale, rule.zero_point) != (None,) * 4:
        if array.desc is None or array.kind.data_type is None:
            raise refuse("RS-F07:elements-moved-never", word=array.kind.word)
        src = array.desc
    if rule.is_found:
        return _quantization(room, src, rule)
    dst = _target_desc(array, src, rule.format, rule.data_type)
    scaling = (rule.scale, rule.zero_point)
    is_same_layout = dst.layout == src.layout
    is_read_as_it_is = not array.is_fortran and not room.tensor.parts
    if dst == src and is_same_layout and scaling == (None, None) and is_read_as_it_is:
        return _copy_step(room, rule)
    result = replace(array_of(array.name, dst, array.scaling), unknown=array.unknown)
    if array.kind.data_type is None:
        result = replace(result, kind=array.kind)
    is_line = is_same_layout and not room.in_boxes and not room.tensor.parts and 0 not in src.dims
    if is_line and is_dense(src) and is_dense(dst):
        # As a single axis if only the type changes: then all such tensors share their kernels.
        line = (prod(src.physical_shape),)
        src, dst = MemoryDesc(line, src.data_type), MemoryDesc(line, dst.data_type)
    return MoveStep(room.tensor, (result,), rule, src, dst, room.grid(src, dst, result))


def _quantization(room: _TileRoom, src: MemoryDesc, rule: ConversionRule) -> ConversionStep:
    """Return the step for a tensor with separate scales: one, or one for each index of an axis or group."""
    array, is_symmetric = room.tensor.array, rule.scale == "absmax"
    if src.data_type not in REALS:
        raise refuse("RS-A15:scales-found-floats", data_type=src.data_type)
    target, axis = target_of(rule, src.dims, room.is_gguf, group_of(room.tensor)), None
    scaling, form = target.scaling, target.form
    if target.block is not None:
        units = (*(1,) * (src.ndims - 1), target.block.block)
        result = plain_array(array.name, target.block, src.dims)
        dst = MemoryDesc(in_bytes(target.block, src.dims), DataType.u8)
        return PackStep(room.tensor, (result,), rule, src, dst, room.grid(src, src, result, units))
    if scaling is None:
        axis, data_type = _axis_of(rule, src), rule.data_type
        assert data_type is not None
        extents: Ints = (1,) if axis is None else (src.dims[axis],)
        descs = {"scale": MemoryDesc(extents, DataType.f32)}
        if not is_symmetric or data_type.kind == "uint":
            descs["zero_point"] = MemoryDesc(extents, DataType.s32)
        # A tile contains all elements that share a scale.
        units = () if axis is None else tuple(max(n, 1) if d != axis else 1 for d, n in enumerate(src.dims))
    else:
        data_type, descs = scaling.data_type, parts_beside(target, src.dims)
        units = units_of(src.dims, scaling.groups, descs)
    dst = _target_desc(array, src, rule.format, data_type) if form is None else form.values
    names = {part: f"{array.name}_{part}" for part in descs}
    note = Scaling(**names, axis=axis, groups=() if scaling is None else scaling.groups)
    if rule.named in layers.NAMES:
        if room.written_in_boxes:
            raise refuse("RS-F07:layers-in-files", name=rule.named)
        values, *parts = (
            layer_array(array.name, part, desc) for part, desc in {"values": dst, **descs}.items()
        )
    else:
        values = replace(array_of(array.name, dst, note), unknown=array.unknown)
        parts = [array_of(names[part], desc) for part, desc in descs.items()]
    if axis is None if scaling is None else scaling.is_two_level:
        grid, value_range = room.whole(src, dst, values, units)
    else:
        grid, value_range = room.grid(src, dst, values, units), None
    if scaling is None:
        _try_type(data_type, is_symmetric)
    results, beside = (values, *parts), tuple(descs)
    return QuantizeStep(room.tensor, results, rule, src, dst, grid, value_range, axis, scaling, beside)


def _moved(step: ConversionStep, most_bytes: int, in_boxes: bool) -> list[ConversionStep]:
    """Return steps that move elements, scales and zero points unchanged, if they already have the rule's
    types; nothing is rounded again. Otherwise return the step.
    """
    source, parts = step.source, {k: v for k, v in step.source.parts.items() if k != layers.ORDER}
    if not isinstance(step, QuantizeStep) or source.zero_shift:
        return [step]
    results = dict(zip(("values", *step.parts), step.results, strict=True))
    note, own = step.results[0].scaling, parts["values"].array.scaling if "values" in parts else None
    # With rows of groups in another order there is an additional part, so these are never the same.
    is_same = parts.keys() == results.keys() and (own is None or own.axis == (note and note.axis))
    if "zero_point" in results:
        # Zero points of a symmetric range are constants of the type or the format.
        has_any = step.rule.scale == "minmax" if step.scaling is None else step.scaling.zero_type is not None
        is_same &= has_any or (step.scaling is not None and step.rule.named is None)
    moved: list[ConversionStep] = []
    for name, result in results.items() if is_same else ():
        was, now, room = parts[name].array.desc, result.desc, _TileRoom(parts[name], most_bytes, in_boxes)
        assert now is not None
        if was is None or was.dims != now.dims or not _holds_all(now.data_type, was.data_type, name):
            return [step]
        grid = room.grid(was, now, result)
        moved.append(room.check(MoveStep(parts[name], (result,), step.rule, was, now, grid)))
    return moved or [step]


def _holds_all(data_type: DataType, stored: DataType, part: str) -> bool:
    """Return True if a part has the same type, or is an integer part of a type without alternatives."""
    is_wider = stored.kind == data_type.kind and stored.bits <= data_type.bits
    return stored is data_type or (part == "zero_point" and is_wider)


@lru_cache(maxsize=64)
def _try_type(data_type: DataType, is_symmetric: bool) -> None:
    """Find errors in the type before anything is written."""
    quantize(np.zeros((1, 1), np.float32), data_type, 0, is_symmetric)


def _axis_of(rule: ConversionRule, src: MemoryDesc) -> int | None:
    """Return the axis of the scales, from 0; None for one scale."""
    if rule.axis is None:
        return None
    if -src.ndims <= rule.axis < src.ndims:
        return rule.axis % src.ndims
    raise refuse("RS-A10:rule", axis=rule.axis, ndims=src.ndims)


def check_scaled(step: ConversionStep) -> None:
    """Reject a rule that rounds floats without a scale: they may all become 0."""
    rule, src, dst = step.rule, step.source.array.moved_as, step.results[0].desc
    if rule is None or rule.data_type is None or (rule.scale, rule.named) != (None, None):
        return
    if src is None or dst is None or not needs_scale(src.data_type, dst.data_type):
        return
    is_tiny = rule.data_type.kind == "float" and rule.data_type.bits < 8
    group = ",group=32" if is_tiny and rule.group is None else ""
    raise refuse(
        "RS-F07:rule-not-fit",
        rule=str(rule),
        name=step.source.array.name[:120],
        word=step.source.array.kind.word,
        shape=step.source.array.shape,
        data_type=rule.data_type,
        rule2=f"{rule}{group},scale=absmax",
    )


# --- the whole conversion ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlacedStep:
    """A step, its input file, and, for each result, the draft's file and the start position."""

    step: ConversionStep
    source: int
    targets: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Conversion:
    """The whole conversion: tiles are numbered across all steps; `firsts` has the number of each step's
    first.

    `lost_metadata`: keys of the source that the output files cannot store. `misfits`: tensors that were not
    converted according to their rules.
    """

    steps: tuple[PlacedStep, ...]
    firsts: Ints
    files: tuple[DraftFile, ...]
    origin: Origin
    is_folder: bool
    lost_metadata: tuple[str, ...] = ()
    misfits: tuple[MisfitTensor, ...] = ()

    @property
    def tiles(self) -> int:
        """The number of tiles."""
        return self.firsts[-1]

    @property
    def nbytes_read(self) -> int:
        """Size of all tensors that are read, in bytes."""
        return sum(placed.step.source.array.nbytes for placed in self.steps)

    @property
    def nbytes_written(self) -> int:
        """Size of all files that are written, in bytes."""
        return sum(file.image.nbytes for file in self.files)

    @property
    def tile_bytes(self) -> int:
        """The memory of the largest tile in bytes."""
        return max((placed.step.tile_bytes for placed in self.steps), default=0)

    def at(self, tile: int) -> tuple[int, int]:
        """Return the number of a tile's step, and the tile's number in it."""
        number = bisect_right(self.firsts, tile) - 1
        return number, tile - self.firsts[number]

    def weight_before(self, tile: int) -> int:
        """Return the weight of the tiles before this one."""
        total = 0
        for placed, first, last in zip(self.steps, self.firsts, self.firsts[1:], strict=False):
            if last <= tile:
                total += placed.step.source.array.nbytes
            elif first < tile:
                total += sum(placed.step.weight(i) for i in range(tile - first))
        return total


def plan_conversion(
    source: ConversionSource,
    dst: str,
    rules: Sequence[ConversionRule],
    most_bytes: int,
    make: MakeImage | None = None,
    fallback: str | None = None,
) -> Conversion:
    """Plan all steps and the layout of the files, which `make` creates unless their names determine how.

    Tensors whose shapes do not match their rules are reported together; they get the `fallback`, or are
    copied in a dry run without one.

    Raises InvalidArguments if rules do not match, or if a name would occur twice in a file; Unimplemented for
    tensors that the files cannot store.
    """
    is_folder = source.is_folder and not is_file_name(dst)
    if is_folder and os.path.splitext(dst)[1].lower() in _ENDS_OF_OTHERS:
        image_maker(dst)
    if all(read.contents is None for read in source.files):
        raise refuse("RS-F01:nothing-convert", path=shown(source.path))
    in_boxes = is_zarr_name(dst)
    if is_folder:
        outputs = [(read.name, [at]) for at, read in enumerate(source.files)]
    else:
        outputs = [(dst, [at for at, read in enumerate(source.files) if read.contents is not None])]
    planned: list[PlacedStep] = []
    files: list[DraftFile] = []
    lost: list[str] = []
    misfits: list[MisfitTensor] = []
    for number, (name, members) in enumerate(outputs):
        steps = []
        # Output in the format of the input, as with `make`, has no additional types.
        is_gguf = name.lower().endswith(".gguf")
        for at in members:
            # Files without tensors are copied.
            fitting = () if source.files[at].contents is None else rules
            reads = as_read(source.files[at], fitting)
            for tensor, rule in reads:
                try:
                    step = plan_step(tensor, rule, most_bytes, in_boxes, is_gguf)
                    steps += [(at, each) for each in _moved(step, most_bytes, in_boxes)]
                    continue
                except ShapeMisfit as error:
                    misfit = MisfitTensor.of(tensor, rule, f"{error.what}: {error.why}", is_gguf)
                misfits.append(misfit)
                other = fallback_of(fallback, misfit, is_gguf)
                for part in [tensor] if other is not None else stored_parts(tensor, source.files[at], reads):
                    steps.append((at, plan_step(part, other, most_bytes, in_boxes, is_gguf)))
        image = _image(name, source, members, [step for _, step in steps], make)
        files.append(DraftFile("." if in_boxes else name, image))
        lost += () if holds_metadata(name) else _metadata(source, members)
        places = iter(image.starts)
        planned += [
            PlacedStep(step, at, tuple((number, next(places)) for _ in step.results)) for at, step in steps
        ]
    if is_folder:
        files, planned = _with_configs(source, _with_indexes(source, files), planned)
    firsts = tuple(accumulate((placed.step.tiles for placed in planned), initial=0))
    facts = [read.identity for read in source.files]
    origin = Origin(_hash([repr(facts)]), _plan_hash(files, planned, rules), most_bytes)
    return Conversion(
        tuple(planned), firsts, tuple(files), origin, is_folder or in_boxes, tuple(lost), tuple(misfits)
    )


def _image(
    name: str,
    source: ConversionSource,
    members: Sequence[int],
    steps: Sequence[ConversionStep],
    make: MakeImage | None,
) -> Image:
    """Return the image of a file with the results of steps, and the metadata of the files that they read."""
    arrays: dict[str, StoredArray] = {}
    for step in steps:
        for result in step.results:
            if result.name in arrays:  # names of scales are generated here
                name, file, rule = result.name[:120], shown(name), step.rule
                raise refuse("RS-F07:two-tensors-called-scales", name=name, file=file, rule=rule)
            arrays[result.name] = result
    of_gptq = [layer for layer, method in _layers_made(steps).items() if method == "gptq"]
    rows, first = layers.row_groups(arrays, of_gptq), source.files[members[0]]
    for step in steps:
        if _makes_layer(step):
            # As other programs read them: these know by their names how they are packed.
            arrays |= {result.name: replace(result, desc=None) for result in step.results}
    for row_name, content in rows.items():
        arrays.setdefault(row_name, plain_array(row_name, KINDS["I32"], (len(content) // 4,)))
    results = tuple(arrays.values())
    if is_zarr_name(name):
        boxes = [box for step in steps for box in step.result_boxes]
        contents = [source.files[at].contents for at in members]
        groups = {key: words for part in contents if part is not None for key, words in part.groups.items()}
        return zarr_image(results, plain_metadata(_metadata(source, members)), boxes, groups)
    if first.index is not None:
        return FileImage((), (), (), 0)
    if first.contents is None:
        return FileImage(results, (0,), (), results[0].nbytes)
    metadata, maker = _metadata(source, members), make or image_maker(name)
    image = maker(results, metadata if maker is gguf_image else metadata_as_text(metadata))
    starts = {array.name: start for array, start in zip(image.arrays, image.starts, strict=True)}
    pieces = tuple((starts[row_name], content) for row_name, content in rows.items())
    return replace(image, pieces=image.pieces + pieces)


def _makes_layer(step: ConversionStep) -> bool:
    """True where a layer of AWQ or GPTQ is made, or moved to its place in one."""
    named = None if step.rule is None else step.rule.named
    return named in layers.NAMES and not isinstance(step, CopyStep)


def _layers_made(steps: Sequence[ConversionStep]) -> dict[str, str]:
    """Return the format of each layer that steps create, by the name of the layer."""
    packed = layers.ENDS["values"]
    return {
        step.results[0].name.removesuffix(packed): str(step.rule and step.rule.named)
        for step in steps
        if _makes_layer(step) and step.results[0].name.endswith(packed)
    }


def _with_configs(
    source: ConversionSource, files: list[DraftFile], planned: list[PlacedStep]
) -> tuple[list[DraftFile], list[PlacedStep]]:
    """The files and steps, with configurations of models that say how layers are quantized now."""
    gone: set[int] = set()
    packed, scales = layers.ENDS["values"], layers.ENDS["scale"]
    for number, (name, _) in enumerate(files):
        read, folder = source.files[number], os.path.dirname(name)
        if not layers.is_config(name) or read.contents is not None:
            continue
        beside = [
            placed.step
            for placed in planned
            if source.files[placed.source].contents is not None
            and os.path.dirname(files[placed.targets[0][0]].name) == folder
        ]
        made = _layers_made(beside)
        present = {
            array.name: array
            for file in files
            if os.path.dirname(file.name) == folder
            for array in file.image.arrays
        }
        kinds = {
            layer: layers.layer_kind(
                words.shape, () if (part := present.get(layer + scales)) is None else part.shape
            )
            for name, words in present.items()
            if name.endswith(packed) and (layer := name.removesuffix(packed))
        }
        own_weights = {name: each for name, each in present.items() if name.endswith(layers.WEIGHT)}
        weights = layers.FolderWeights(
            made={layer: kind for layer, kind in kinds.items() if layer in made},
            copied={layer: kind for layer, kind in kinds.items() if layer not in made},
            plain=[
                name.removesuffix(layers.WEIGHT) for name, each in own_weights.items() if len(each.shape) == 2
            ],
            is_private=any(map(is_private, present.values())),
            has_integers=any(
                each.kind.numpy is not None and each.kind.numpy.kind in "iu" for each in own_weights.values()
            ),
            was_read=any(
                step.source.stored_array.name.endswith(packed) and not isinstance(step, CopyStep)
                for step in beside
            ),
        )
        text = layers.config_text(read.path, weights)
        if text is None:
            continue
        planned = [placed for placed in planned if placed.source != number]
        files[number] = DraftFile(name, FileImage((), (), ((0, text),), len(text)))
        if not text:
            gone.add(number)
    if gone:
        at = {number: i for i, number in enumerate(n for n in range(len(files)) if n not in gone)}
        planned = [
            replace(placed, targets=tuple((at[number], start) for number, start in placed.targets))
            for placed in planned
        ]
        files = [files[number] for number in at]
    return files, planned


def _metadata(source: ConversionSource, members: Sequence[int]) -> dict[str, Any]:
    """Merge the metadata of files; the first file with a key takes precedence."""
    metadata: dict[str, Any] = {}
    for at in reversed(members):
        contents = source.files[at].contents
        metadata |= {} if contents is None else contents.metadata
    return metadata


def _with_indexes(source: ConversionSource, files: Sequence[DraftFile]) -> list[DraftFile]:
    """Return the files, each corresponding to one of the source, with updated indexes of shards."""
    complete = list(files)
    for number, (name, _) in enumerate(files):
        index = source.files[number].index
        if index is None:
            continue
        folder, names = os.path.dirname(name), set(index["weight_map"].values())
        shards = sorted(
            (os.path.basename(file.name), file.image.arrays)
            for file in files
            if os.path.dirname(file.name) == folder and os.path.basename(file.name) in names
        )
        weights: dict[str, str] = {}
        for shard, arrays in shards:
            for array in arrays:
                if array.name in weights:
                    raise refuse("RS-F07:two-tensors-called", twice=array.name[:120], name=shown(name))
                weights[array.name] = shard
        total = sum(array.nbytes for _, arrays in shards for array in arrays)
        about = index.get("metadata")
        about = {**(about if isinstance(about, dict) else {}), "total_size": total}
        text = json.dumps({**index, "metadata": about, "weight_map": weights}, indent=2, ensure_ascii=False)
        piece = text.encode() + b"\n"
        complete[number] = DraftFile(name, FileImage((), (), ((0, piece),), len(piece)))
    return complete


def _plan_hash(
    files: Sequence[DraftFile], planned: Sequence[PlacedStep], rules: Sequence[ConversionRule]
) -> str:
    """Return a hash that differs for other work on the same source, including tiles and options."""
    texts = [f"{file.name}\0{file.image.digest}\n" for file in files]
    for placed in planned:
        step = placed.step
        grid = None if isinstance(step, CopyStep) else step.grid
        texts.append(repr((str(step.rule), step.tiles, grid, placed.targets)))
    return _hash([*texts, repr([str(rule) for rule in rules])])


def _hash(texts: Sequence[str]) -> str:
    return hashlib.sha256("".join(texts).encode("utf-8", "surrogateescape")).hexdigest()
