"""NumPy's .npz: a zip archive of .npy files, each read as in npy.py, and written uncompressed.

Members are stored at multiples of 64 bytes, so that they can be mapped in place. Their checksums are known
only once they are written, and are inserted last.
"""

from __future__ import annotations

import hashlib
import os
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, BinaryIO, NamedTuple

from ...errors import Error, refuse
from ..plain_file import read_at, state_of
from ..stored_tensors import PIECE, Contents, FileImage, StoredArray, StoredTensor, annotate, name_bytes
from ..writing.replacement import shown, system_error
from .npy import encode_header, npy_form, parse_header, tensor_array

_ALIGN = 64
# Of a compressed member as much is expanded where its header alone is read.
_MOST_HEAD = 1 << 20
_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_CRC_AT = 14
_VERSION = 45
_UTF8 = 1 << 11
# The first day that zip can express, so that the same tensors always give the same file.
_DATE = (1 << 5) | 1
_MAX32 = 0xFFFFFFFF
_PAD_TAG, _ZIP64_TAG = 0xD935, 0x0001
_MOST_MEMBERS = 1 << 20
# Not LZMA: a small file can require a dictionary of gigabytes.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)
# Exceptions from reading damaged members; an OSError without errno comes from bzip2.
_DAMAGED = (
    *(OSError, zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError, RuntimeError),
    OverflowError,
)

# Suffixes of files that torch.save writes, which are zip archives of pickles.
_PICKLE_ENDS = (".pt", ".pth", ".ckpt", ".bin")

HOLDS_PICKLES = "it holds pickled Python objects, which are never loaded"
"""The error for a file written by torch.save."""

OUT_OF_PICKLES = "save its tensors: rs.save(torch.load(path, weights_only=True), 'x.safetensors')"
"""The hint for it."""


def plain_archive(file: BinaryIO, path: str, folder: str | None) -> BinaryIO:
    """Return the open archive itself, or, if members are compressed, an uncompressed copy.

    `folder`: the place for the copy. Raises InvalidArguments for a damaged archive, RuntimeFailure if the
    system refuses access.
    """
    return _expand(file, path, _members(file, path), folder) if is_compressed(file, path) else file


def is_compressed(file: BinaryIO, path: str) -> bool:
    """True where a member of the open archive is compressed."""
    return any(member.compress_type != zipfile.ZIP_STORED for member in _members(file, path))


def _members(file: BinaryIO, path: str) -> list[zipfile.ZipInfo]:
    """Return the members of an archive from its directory. Raises InvalidArguments if damaged."""
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, struct.error, OverflowError):
        is_pickle = path.lower().endswith(_PICKLE_ENDS)
        hint = f"get it again, and {OUT_OF_PICKLES}" if is_pickle else "save it again: np.savez(file, name=x)"
        raise refuse("RS-F01:no-zip-archive", path=shown(path), hint=hint) from None
    if any(member.filename.endswith("/data.pkl") for member in members):
        raise refuse("RS-F01:holds-pickled-python-objects", path=shown(path))
    if len(members) > _MOST_MEMBERS:
        raise refuse("RS-F01:members", path=shown(path), count=len(members))
    if len({member.filename.removesuffix(".npy") for member in members}) < len(members):
        raise refuse("RS-F01:two-members-name", path=shown(path))
    return members


def head_archive(file: BinaryIO, path: str) -> tuple[BinaryIO, Contents]:
    """A compressed archive of which only the headers of members are expanded, and its tensors: what lies
    behind their headers is not there. Raises as `plain_archive` does.
    """
    members, at, tensors = _members(file, path), 0, []
    _check_methods(members, path)
    sparse, names = tempfile.TemporaryFile(), [member.filename.removesuffix(".npy") for member in members]  # noqa: SIM115
    try:
        with zipfile.ZipFile(file) as archive:
            for name, member in zip(names, members, strict=True):
                with archive.open(member) as read:
                    sparse.seek(at)
                    sparse.write(read.read(min(member.file_size, _MOST_HEAD)))
                sparse.truncate(at + member.file_size)
                header = parse_header(sparse, path, at, at + member.file_size)
                array = tensor_array(header, name)
                if header.note and "scaling" in header.note:
                    array = annotate(path, array, {"scaling": header.note["scaling"]}, frozenset(names))
                tensors.append(StoredTensor(array, path, header.start))
                at += -(-member.file_size // _ALIGN) * _ALIGN
    except BaseException as error:
        sparse.close()
        if isinstance(error, Error) or not isinstance(error, _DAMAGED):
            raise
        raise refuse("RS-F01:damaged", path=shown(path), why=f"a member is damaged: {error}"[:200]) from None
    return sparse, Contents(tuple(tensors))


def read_npz(file: BinaryIO, path: str) -> Contents:
    """Return the tensors of an open archive, in its order. Raises InvalidArguments if damaged.

    Compressed members have no place in the file: they are rejected.
    """
    members = _members(file, path)
    names = [member.filename.removesuffix(".npy") for member in members]
    all_names, size = frozenset(names), state_of(file).nbytes
    tensors, digest, spans = [], hashlib.sha256(), []
    for name, member in zip(names, members, strict=True):
        start = _data_start(file, path, member, size)
        end = start + member.file_size
        spans.append((start, end))
        header = parse_header(file, path, start, end)
        digest.update(read_at(file, path, start, header.start - start) + name.encode("utf-8", "replace"))
        array = tensor_array(header, name)
        if header.note and "scaling" in header.note:
            array = annotate(path, array, {"scaling": header.note["scaling"]}, all_names)
        tensors.append(StoredTensor(array, path, header.start))
    if any(end > begin for (_, end), (begin, _) in pairwise(sorted(spans))):
        raise refuse("RS-F01:two-members-overlap", path=shown(path))
    return Contents(tuple(tensors), {}, ((path, digest.hexdigest()),))


def _data_start(file: BinaryIO, path: str, member: zipfile.ZipInfo, size: int) -> int:
    """Return the start of the bytes of a member, after its local header."""
    name = member.filename[:60]
    if member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size:
        raise refuse("RS-F01:member-compressed", path=shown(path), name=name)
    if member.flag_bits & 1:
        raise refuse("RS-F01:member-encrypted", path=shown(path), name=name)
    at = member.header_offset
    if 0 <= at <= size - _LOCAL.size:
        fields = _LOCAL.unpack(read_at(file, path, at, _LOCAL.size))
        start: int = at + _LOCAL.size + fields[-2] + fields[-1]
        if fields[0] == b"PK\x03\x04" and start + member.file_size <= size:
            return start
    raise refuse("RS-F01:member-not-lie", path=shown(path), name=name)


def npz_image(arrays: Sequence[StoredArray], metadata: Mapping[str, Any]) -> FileImage:
    """Return the archive of these arrays. Raises InvalidArguments for names that an archive cannot have."""
    pieces: list[tuple[int, bytes]] = []
    starts: list[int] = []
    locals_: list[_Member] = []
    at = 0
    forms = tuple(npy_form(array) for array in arrays)
    for array in forms:
        head = encode_header(array)
        name = name_bytes(array.name) + b".npy"
        if not array.name or len(name) > 60000 or "\0" in array.name:
            raise refuse("RS-F03:name-no-npz", name=array.name[:60])
        member = _Member(name, at, head, len(head) + array.nbytes)
        piece = member.local_header()
        pieces.append((at, piece + head))
        start = at + len(piece) + len(head)
        starts.append(start)
        locals_.append(member)
        at = start + array.nbytes
    pieces.append((at, _directory(locals_, [0] * len(locals_), at)))
    total = at + len(pieces[-1][1])

    def finish(handle: int) -> None:
        sums: list[int] = []
        for member, start, array in zip(locals_, starts, forms, strict=True):
            sums.append(_sum_of(handle, start, array.nbytes, zlib.crc32(member.head)))
            os.pwrite(handle, sums[-1].to_bytes(4, "little"), member.at + _CRC_AT)
        os.pwrite(handle, _directory(locals_, sums, at), at)

    return FileImage(forms, tuple(starts), tuple(pieces), total, finish)


class _Member(NamedTuple):
    """A file of the archive: name, offset of its local header, the .npy header, the length of both."""

    name: bytes
    at: int
    head: bytes
    nbytes: int

    def local_header(self) -> bytes:
        """Return the bytes before the member; an extra field aligns the member to 64 bytes."""
        wide = struct.pack("<2H2Q", _ZIP64_TAG, 16, self.nbytes, self.nbytes)
        bare = self.at + _LOCAL.size + len(self.name) + len(wide) + 4
        extra = wide + struct.pack("<2H", _PAD_TAG, -bare % _ALIGN) + bytes(-bare % _ALIGN)
        fields = (b"PK\x03\x04", _VERSION, _UTF8, 0, 0, _DATE, 0, _MAX32, _MAX32)
        return _LOCAL.pack(*fields, len(self.name), len(extra)) + self.name + extra

    def central_header(self, crc: int) -> bytes:
        """Return the member's entry in the directory."""
        wide = struct.pack("<2H3Q", _ZIP64_TAG, 24, self.nbytes, self.nbytes, self.at)
        fields = (b"PK\x01\x02", _VERSION, _VERSION, _UTF8, 0, 0, _DATE, crc, _MAX32, _MAX32)
        rest = (len(self.name), len(wide), 0, 0, 0, 0, _MAX32)
        return _CENTRAL.pack(*fields, *rest) + self.name + wide


def _directory(members: Sequence[_Member], sums: Sequence[int], at: int) -> bytes:
    """Return the end of the archive, starting at byte `at`."""
    if not members:
        # Readers treat an archive without members as one whose end record is everything.
        return _END.pack(b"PK\x05\x06", 0, 0, 0, 0, 0, 0, 0)
    central = b"".join(member.central_header(crc) for member, crc in zip(members, sums, strict=True))
    count, length = len(members), len(central)
    end64 = _END64.pack(b"PK\x06\x06", 44, _VERSION, _VERSION, 0, 0, count, count, length, at)
    locator = _LOCATOR.pack(b"PK\x06\x07", 0, at + length, 1)
    short = min(count, 0xFFFF)
    end = _END.pack(b"PK\x05\x06", 0, 0, short, short, min(length, _MAX32), min(at, _MAX32), 0)
    return central + end64 + locator + end


def _sum_of(handle: int, start: int, nbytes: int, crc: int) -> int:
    """Return the checksum of bytes of the file, read in pieces, continuing from `crc`."""
    at, end = start, start + nbytes
    while at < end:
        piece = os.pread(handle, min(PIECE, end - at), at)
        if not piece:
            raise OSError(5, "the file is shorter than what was written to it")
        crc = zlib.crc32(piece, crc)
        at += len(piece)
    return crc


def _check_methods(members: Sequence[zipfile.ZipInfo], path: str) -> None:
    for member in members:
        if member.compress_type not in _METHODS or member.flag_bits & 1:
            raise refuse(
                "RS-F01:member-encrypted-compressed", path=shown(path), filename=member.filename[:60]
            )


def _expand(file: BinaryIO, path: str, members: Sequence[zipfile.ZipInfo], folder: str | None) -> BinaryIO:
    """Return an uncompressed archive of the same members, in an unnamed file in `folder`.

    Compressed data can only be read from the start. So the whole archive is expanded once, in pieces, and
    from then on read, mapped and tiled like one written by `np.savez`. The system removes the file when it is
    closed, whatever happens. If `folder` has no room or is not writable, the file is in the system's
    temporary folder.

    Raises InvalidArguments for damaged members and unknown compression methods, RuntimeFailure if there is no
    room or the system refuses access.
    """
    _check_methods(members, path)
    try:
        is_usable = folder is not None and os.access(folder, os.W_OK | os.X_OK)
        copy = tempfile.TemporaryFile(dir=folder if is_usable else None)  # noqa: SIM115
    except OSError as error:
        raise system_error("expand", path, error, "set TMPDIR to a folder with room") from None
    try:
        # A small archive can claim to expand to any size.
        space, nbytes = os.fstatvfs(copy.fileno()), sum(member.file_size for member in members)
        if nbytes > space.f_bavail * space.f_frsize:
            raise refuse("RS-F02:cannot-expand", path=shown(path), nbytes=nbytes)
        with zipfile.ZipFile(file) as archive, zipfile.ZipFile(copy, "w", allowZip64=True) as target:
            for member in members:
                plain = zipfile.ZipInfo(member.filename)
                with archive.open(member) as read, target.open(plain, "w", force_zip64=True) as output:
                    # Never expand more than the directory declares.
                    left = member.file_size
                    while left >= 0 and (piece := read.read(min(PIECE, left + 1))):
                        left -= len(piece)
                        if left >= 0:
                            output.write(piece)
                    if left:
                        name = member.filename[:60]
                        raise refuse("RS-F01:member-another-length", path=shown(path), filename=name)
        return copy
    except BaseException as error:
        copy.close()
        if isinstance(error, Error):
            raise
        if isinstance(error, OSError) and error.errno is not None:
            hint = "free space, or set TMPDIR to a folder with room"
            raise system_error("expand", path, error, hint) from None
        if isinstance(error, _DAMAGED):
            why = f"a member is damaged: {error}"[:200]
            raise refuse("RS-F01:damaged", path=shown(path), why=why) from None
        raise
