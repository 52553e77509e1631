"""A conversion as it is planned: every tensor's step, the files of the result, and where each array goes."""

from __future__ import annotations

import hashlib
import json
import os
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from ...errors import refuse
from ..formats.endings import MakeImage, holds_metadata, image_maker, is_file_name, is_zarr_name
from ..formats.gguf import gguf_image
from ..formats.gguf_values import metadata_as_text, plain_metadata
from ..stored_tensors import StoredArray
from ..writing.draft import DraftFile, Origin
from ..writing.draft_parts import Image
from ..writing.file_image import FileImage
from ..writing.replacement import shown
from ..zarr.arrays import ZarrFolder
from ..zarr.image import zarr_image
from .rules import ConversionRule, rule_for
from .sources import ConversionSource, SourceFile, raw_image
from .steps import ConversionStep, plan_step


@dataclass(frozen=True, slots=True)
class PlacedStep:
    """A step, the file that it reads, and of each of its results the file of the draft and the start."""

    step: ConversionStep
    source: int
    targets: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Conversion:
    """All of the work: tiles are numbered through all steps, `firsts` has the number of each step's first.

    `lost_metadata`: keys of the source that the files have no place for.
    """

    steps: tuple[PlacedStep, ...]
    firsts: tuple[int, ...]
    files: tuple[DraftFile, ...]
    origin: Origin
    is_folder: bool
    lost_metadata: tuple[str, ...] = ()

    @property
    def tiles(self) -> int:
        """The number of tiles."""
        return self.firsts[-1]

    @property
    def nbytes_read(self) -> int:
        """Bytes of all tensors that are read."""
        return sum(placed.step.source.array.nbytes for placed in self.steps)

    @property
    def nbytes_written(self) -> int:
        """Bytes of all files that are written."""
        return sum(file.image.nbytes for file in self.files)

    @property
    def tile_bytes(self) -> int:
        """The memory that the largest tile takes."""
        return max((placed.step.tile_bytes for placed in self.steps), default=0)

    def at(self, tile: int) -> tuple[int, int]:
        """The number of a tile's step, and the tile's number in it."""
        number = bisect_right(self.firsts, tile) - 1
        return number, tile - self.firsts[number]

    def weight_before(self, tile: int) -> int:
        """What the tiles before this one weigh."""
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
) -> Conversion:
    """Plan all steps, and lay out the files, which `make` makes unless their names say how.

    Raises InvalidArguments where rules do not fit, or names would stand in a file twice; Unimplemented for
    what the files cannot hold.
    """
    is_folder = source.is_folder and not is_file_name(dst)
    in_boxes = is_zarr_name(dst)
    groups = _groups(source, dst, is_folder)
    planned: list[PlacedStep] = []
    files: list[DraftFile] = []
    for number, (name, members) in enumerate(groups):
        steps = [
            (at, plan_step(tensor, _rule(source.files[at], tensor.array.name, rules), most_bytes, in_boxes))
            for at in members
            for tensor in source.files[at].tensors
        ]
        _check_names(name, [step for _, step in steps])
        arrays = [result for _, step in steps for result in step.results]
        if in_boxes:
            boxes = [box for _, step in steps for box in step.result_boxes]
            image: Image = zarr_image(
                arrays, plain_metadata(_metadata(source, members)), boxes, _groups_within(source, members)
            )
            files.append(DraftFile(".", image))
        else:
            image = _image(name, source, members, arrays, make)
            files.append(DraftFile(name, image))
        places = iter(image.starts)
        planned += [
            PlacedStep(step, at, tuple((number, next(places)) for _ in step.results)) for at, step in steps
        ]
    files = _with_indexes(source, files, planned, groups) if is_folder else files
    firsts = tuple(accumulate((placed.step.tiles for placed in planned), initial=0))
    origin = Origin(_source_hash(source), _plan_hash(files, planned, rules))
    lost = [key for name, members in groups if not holds_metadata(name) for key in _metadata(source, members)]
    return Conversion(tuple(planned), firsts, tuple(files), origin, is_folder or in_boxes, tuple(lost))


def _groups(source: ConversionSource, dst: str, is_folder: bool) -> list[tuple[str, list[int]]]:
    """The files of the result, each with the numbers of the files that go into it."""
    if is_folder:
        return [(source_file.name, [at]) for at, source_file in enumerate(source.files)]
    members = [at for at, source_file in enumerate(source.files) if source_file.contents is not None]
    if not members:
        raise refuse("RS-F01:nothing-convert", path=shown(source.path))
    return [(dst, members)]


def _rule(
    found: SourceFile | ZarrFolder, name: str, rules: Sequence[ConversionRule]
) -> ConversionRule | None:
    """The rule for a tensor; files without tensors are copied."""
    return rule_for(name, rules) if found.contents is not None else None


def _image(
    name: str, source: ConversionSource, members: list[int], arrays: list[StoredArray], make: MakeImage | None
) -> FileImage:
    """The file of these arrays, with the metadata of those they come from."""
    source_files = [source.files[at] for at in members]
    if source_files[0].index is not None:
        return FileImage((), (), (), 0)
    if source_files[0].contents is None:
        return raw_image(arrays[0])
    metadata = _metadata(source, members)
    maker = make or image_maker(name)
    return maker(arrays, metadata if maker is gguf_image else metadata_as_text(metadata))


def _metadata(source: ConversionSource, members: Sequence[int]) -> dict[str, Any]:
    """The metadata of files that become one; the first that has a key counts."""
    metadata: dict[str, Any] = {}
    for at in reversed(members):
        contents = source.files[at].contents
        metadata |= {} if contents is None else contents.metadata
    return metadata


def _groups_within(source: ConversionSource, members: Sequence[int]) -> dict[str, Mapping[str, Any]]:
    """The attributes of groups within the source."""
    contents = [source.files[at].contents for at in members]
    return {name: said for found in contents if found is not None for name, said in found.groups.items()}


def _check_names(file: str, steps: Sequence[ConversionStep]) -> None:
    """Refuse two arrays of one name: those of scales are made here."""
    seen: set[str] = set()
    for step in steps:
        for result in step.results:
            if result.name in seen:
                raise refuse(
                    "RS-F07:two-tensors-called-scales",
                    name=result.name[:120],
                    file=shown(file),
                    rule=step.rule,
                )
            seen.add(result.name)


def _with_indexes(
    source: ConversionSource,
    files: list[DraftFile],
    planned: Sequence[PlacedStep],
    groups: Sequence[tuple[str, list[int]]],
) -> list[DraftFile]:
    """The files, with the indexes of shards as they are now."""
    names: dict[int, list[tuple[str, int]]] = {}
    for placed in planned:
        for result, (number, _) in zip(placed.step.results, placed.targets, strict=True):
            names.setdefault(number, []).append((result.name, result.nbytes))
    made = list(files)
    for number, (name, members) in enumerate(groups):
        index = source.files[members[0]].index
        if index is None:
            continue
        folder, shards = os.path.dirname(name), set(index["weight_map"].values())
        parts = {
            os.path.basename(file.name): names.get(i, [])
            for i, file in enumerate(files)
            if os.path.dirname(file.name) == folder and os.path.basename(file.name) in shards
        }
        pairs = [(tensor, shard) for shard in sorted(parts) for tensor, _ in parts[shard]]
        weights = dict(pairs)
        if len(weights) < len(pairs):
            twice = next(tensor for tensor, shard in pairs if weights[tensor] != shard)
            raise refuse("RS-F07:two-tensors-called", twice=twice[:120], name=shown(name))
        total = sum(nbytes for part in parts.values() for _, nbytes in part)
        about = index.get("metadata")
        about = {**(about if isinstance(about, dict) else {}), "total_size": total}
        text = json.dumps({**index, "metadata": about, "weight_map": weights}, indent=2, ensure_ascii=False)
        piece = text.encode() + b"\n"
        made[number] = DraftFile(name, FileImage((), (), ((0, piece),), len(piece)))
    return made


def _source_hash(source: ConversionSource) -> str:
    """What tells the source from another, or from itself after a change."""
    facts = [source_file.identity for source_file in source.files]
    return hashlib.sha256(repr(facts).encode("utf-8", "surrogateescape")).hexdigest()


def _plan_hash(
    files: Sequence[DraftFile], planned: Sequence[PlacedStep], rules: Sequence[ConversionRule]
) -> str:
    """What tells this work from other work on the same source, tiles and options included."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.name}\0{file.image.digest}\n".encode("utf-8", "surrogateescape"))
    for placed in planned:
        step = placed.step
        facts = (str(step.rule), step.tiles, getattr(step, "grid", None), placed.targets)
        digest.update(repr(facts).encode("utf-8", "surrogateescape"))
    digest.update(repr([str(rule) for rule in rules]).encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
