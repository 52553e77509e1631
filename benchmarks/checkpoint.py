"""A checkpoint of a transformer's shapes: made, converted by rules, read back by safetensors, torch and gguf.

    python benchmarks/checkpoint.py                  8 GB in four shards, in the folder for temporary files
    python benchmarks/checkpoint.py --gb 1 --verify  a smaller one, compared before it gets its name

Prints what `restride convert` says, the time from start to end, processor time and the peak of memory, the
same of `cp -r` and a sync of the same files, and what the readers that are installed find in the result.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import restride as rs

RULES = (
    "*.conv?.weight=OIhw4i16o4i,s8,axis=0,scale=absmax",
    "*.self_attn.*_proj.weight=BA16a64b4a,s8,axis=0,scale=absmax",
    "*.mlp.*_proj.weight=mxfp4",
    "*embed_tokens.weight=f8_e4m3,axis=0,scale=absmax",
)
_WIDTH, _INNER, _WORDS = 4096, 14336, 32000
_SHARDS = 4
_LAYER_BYTES = 2 * (4 * _WIDTH * _WIDTH + 3 * _WIDTH * _INNER)
# Elements that are drawn; tensors repeat them, each from another place on.
_DRAWN = 1 << 24


def shapes(layers: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes of all tensors, in order."""
    yield "model.embed_tokens.weight", (_WORDS, _WIDTH)
    for i in range(4):
        yield f"model.vision.conv{i}.weight", (128, 64, 3, 3)
    for i in range(layers):
        name = f"model.layers.{i}"
        for part in "qkvo":
            yield f"{name}.self_attn.{part}_proj.weight", (_WIDTH, _WIDTH)
        for part, shape in (("gate", (_INNER, _WIDTH)), ("up", (_INNER, _WIDTH)), ("down", (_WIDTH, _INNER))):
            yield f"{name}.mlp.{part}_proj.weight", shape
        for part in ("input", "post_attention"):
            yield f"{name}.{part}_layernorm.weight", (_WIDTH,)
    yield "model.norm.weight", (_WIDTH,)


def make(folder: Path, gb: float) -> None:
    """Write the checkpoint, a shard after the other."""
    tensors = list(shapes(max(round(gb * 1e9 / _LAYER_BYTES), 1)))
    rng = np.random.default_rng(0)
    drawn = (rng.standard_normal(_DRAWN, np.float32) * 0.02).astype(ml_dtypes.bfloat16)
    folder.mkdir()
    per_shard = -(-len(tensors) // _SHARDS)
    where: dict[str, str] = {}
    for number in range(_SHARDS):
        shard: dict[str, Any] = {}
        for name, shape in tensors[number * per_shard : (number + 1) * per_shard]:
            shard[name] = np.resize(np.roll(drawn, 4099 * len(where) + len(shard)), shape)
        file = f"model-{number + 1:05d}-of-{_SHARDS:05d}.safetensors"
        rs.save(shard, folder / file, metadata={"format": "pt"})
        where |= dict.fromkeys(shard, file)
    text = json.dumps({"metadata": {}, "weight_map": where})
    (folder / "model.safetensors.index.json").write_text(text)


def timed(command: list[str]) -> None:
    """Run a command, and say what it took."""
    started = time.perf_counter()
    process = subprocess.Popen(command)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command[0]} failed")
    took = time.perf_counter() - started
    peak = used.ru_maxrss * 1024 / 1e6
    print(f"  {took:.1f} s, {used.ru_utime:.1f} s user, {used.ru_stime:.1f} s system, peak {peak:.0f} MB")


def size_of(folder: Path) -> int:
    """Bytes of all files."""
    return sum(path.stat().st_size for path in folder.iterdir())


def is_there(*packages: str) -> bool:
    """Whether all of them are installed."""
    return all(importlib.util.find_spec(package) for package in packages)


def readers(folder: Path, scratch: Path) -> None:
    """What other programs find in the result."""
    shards = sorted(folder.glob("*.safetensors"))
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    if is_there("safetensors", "torch"):
        from safetensors.torch import load_file

        found: Counter[str] = Counter()
        for shard in shards:
            tensors = load_file(shard)
            assert all(index["weight_map"][name] == shard.name for name in tensors)
            found.update(str(tensor.dtype) for tensor in tensors.values())
        print(f"safetensors and torch: {sum(found.values())} tensors, {dict(found)}")
    if is_there("gguf"):
        from gguf import GGUFReader

        path = scratch / "shard.gguf"
        rs.convert(shards[0], path)
        kinds = Counter(tensor.tensor_type.name for tensor in GGUFReader(path).tensors)
        print(f"gguf: {sum(kinds.values())} tensors of the first shard as {path.suffix}, {dict(kinds)}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gb", type=float, default=8.0)
    parser.add_argument("--memory", default="1GiB")
    parser.add_argument("--verify", action="store_true")
    options = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="restride-checkpoint-", dir=os.environ.get("TMPDIR")))
    source, packed, copy = (scratch / name for name in ("model", "packed", "copy"))
    try:
        # In a process of its own: those that follow begin with the peak of this one.
        making = multiprocessing.get_context("spawn").Process(target=make, args=(source, options.gb))
        making.start()
        making.join()
        os.sync()
        words = [word for rule in RULES for word in ("--rule", rule)]
        words += ["--memory", options.memory, *(["--verify"] if options.verify else [])]
        command = [sys.executable, "-m", "restride", "convert", str(source), str(packed), *words]
        print(f"{size_of(source) / 1e9:.2f} GB")
        for words in (["--dry-run"], []):
            timed([*command, *words])
        print(f"{size_of(packed) / 1e9:.2f} GB")
        print("cp -r, then sync")
        timed(["sh", "-c", f"cp -r {source} {copy} && sync {copy}/*"])
        shutil.rmtree(copy)
        readers(packed, scratch)
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
