"""Files that are damaged at random are read, or refused with an error: no crash, no hang, little memory."""

from __future__ import annotations

import contextlib
import json
import random
import resource
import time
from pathlib import Path

import numpy as np
import pytest

import restride as rs
from restride.files.conversion.sources import open_source
from support.file_contents import contents_of

# The longest that a small file may take: processor time, since the machine may have other work.
_LONGEST_S = 5.0
# Of the file that is compressed, before that.
_PLAIN_BYTES = 1024
_INTERESTING = (b"\0", b"\xff", b"-", b"9" * 30, b"[", b"{", b'"', b"\\ud800", b"1e999", b"\x80\xff", b"null")
_NUMBERS = (0, 1, 2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 1)


def _files(folder: Path) -> list[bytes]:
    """One small file of each format, with descriptors, scales and metadata in it."""
    x = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    tensors = {
        "a.weight": x,
        "b": rs.Memory.from_numpy(x).to("aBc2b"),
        "c": x.astype("f2"),
        "d": np.ones(3, "i8"),
    }
    found = []
    for end in ("safetensors", "gguf", "npz"):
        rs.save(tensors, folder / f"a.{end}")
        rs.convert(folder / f"a.{end}", folder / f"b.{end}", ["a*=u8,axis=0,scale=minmax"])
        found.append((folder / f"b.{end}").read_bytes())
    rs.save(tensors["b"], folder / "a.npy")
    np.savez_compressed(folder / "c.npz", a=x, d=np.ones(3, "i8"))
    return [*found, *((folder / name).read_bytes() for name in ("a.npy", "c.npz"))]


def _damaged(content: bytes, chance: random.Random) -> bytes:
    """Some bytes flipped, replaced, cut out, doubled or cut off; most damage is done to the header."""
    found = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 4, 8))):
        at = (
            chance.randrange(len(found) or 1)
            if chance.random() < 0.2
            else chance.randrange(min(len(found), 700) or 1)
        )
        kind = chance.randrange(6)
        if kind == 0 and found:
            found[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            piece = chance.choice(_INTERESTING)
            found[at : at + len(piece)] = piece
        elif kind == 2:
            del found[at : at + chance.randrange(1, 40)]
        elif kind == 3:
            found[at:at] = found[at : at + chance.randrange(1, 60)]
        elif kind == 4:
            found[at : at + 8] = chance.choice((0, 1, 2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 1)).to_bytes(
                8, "little"
            )
        else:
            del found[max(at, chance.randrange(len(found) or 1)) :]
    return bytes(found)


def _fuzz(folder: Path, count: int, seed: int) -> int:
    """Return the number of damaged files that can still be read."""
    chance, whole = random.Random(seed), _files(folder)
    path, read = folder / "x", 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(count):
        file = chance.choice(whole)
        content = _damaged(file, chance)
        path.write_bytes(content)
        # What is compressed lies in another file, which is longer.
        longest = len(content) if file is not whole[-1] else 2 * _PLAIN_BYTES
        started = time.process_time()
        try:
            found = contents_of(str(path))
            read += 1
        except rs.Error:
            continue
        finally:
            assert time.process_time() - started < _LONGEST_S, (seed, number)
        for tensor in found.tensors:
            assert 0 <= tensor.start <= tensor.start + tensor.array.nbytes <= longest, (seed, number)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10
    return read


def test_damaged_headers_are_read_or_refused(tmp_path: Path) -> None:
    assert 0 < _fuzz(tmp_path, 1500, 1) < 1500


@pytest.mark.slow
def test_a_hundred_thousand_damaged_headers_are_read_or_refused(tmp_path: Path) -> None:
    assert 0 < _fuzz(tmp_path, 100_000, 2) < 100_000


def test_numbers_of_damaged_files_are_converted_or_refused(tmp_path: Path) -> None:
    x, chance = np.ones((16, 256), np.float32), random.Random(4)
    words = {"l.qweight": np.ones((128, 2), "i4"), "l.qzeros": np.ones((4, 2), "i4")}
    words["l.scales"] = np.ones((4, 16), "f2")
    parts = {"v": rs.quantize(x, "u4", group=32, symmetric=False), "n": rs.quantize(x[:4], "nvfp4")}
    rs.save({"w": x, **parts, **words}, tmp_path / "a.safetensors")
    rs.convert(tmp_path / "a.safetensors", tmp_path / "b.safetensors", ["w=u8,axis=0,scale=minmax"])
    rs.save({"w": rs.quantize(x, "q4_k"), "v": rs.quantize(x, "s8", group=64)}, tmp_path / "b.gguf")
    whole = [(tmp_path / f"b.{end}").read_bytes() for end in ("safetensors", "gguf")]
    for _ in range(150):
        (tmp_path / "x").write_bytes(_damaged(chance.choice(whole), chance))
        for target, rule in (("y.npz", "*=f32"), ("y.gguf", "*=q8_0")):
            with contextlib.suppress(rs.Error), np.errstate(all="ignore"):
                rs.convert(tmp_path / "x", tmp_path / target, [rule], fallback="keep", jobs=1)


def test_damaged_indexes_of_shards_are_read_or_refused(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    rs.save({"a": np.ones(3, "f4"), "b": np.ones(2)}, folder / "m.safetensors")
    index = json.dumps({"weight_map": {"a": "m.safetensors", "b": "m.safetensors"}}).encode()
    chance = random.Random(3)
    for _ in range(200):
        (folder / "model.safetensors.index.json").write_bytes(_damaged(index, chance))
        with contextlib.suppress(rs.Error):
            open_source(str(folder)).close()
