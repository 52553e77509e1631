"""Conversions of files beside cp, torch, safetensors, gguf and Dask: time, processor time, peak of memory.

    python benchmarks/files.py --out benchmarks/results    512 MB each, into files.md and files.json there
    python benchmarks/files.py --mb 64 --rounds 1          a quick look, nothing written
    python benchmarks/files.py --rows s8 --out ...         only some rows; the others stay as they were there

Every job is a process of its own, which begins with the source in the cache of the system and no result on
the disk; the jobs of a row take turns, round after round. Times are the least of all rounds, of the work
without imports and the first small conversion; processor times are those of the process and of its children
meanwhile. Everything that is written is forced to the disk within the time, by who writes it, as a conversion
does, or by `sync` of its files. A peer that is not installed is left out, one that takes more than five
seconds runs once; rechunker needs Zarr 2, and is not here.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

_SYNC = """
def synced(path):
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)
"""
_TORCH = "import os, torch\nfrom safetensors.torch import load_file, save_file\n" + _SYNC
_OURS = "import restride as rs\n"
# What a program loads with its first conversion is loaded before.
_FIRST = 'rs.convert("small.safetensors", "out-small.safetensors", {rules!r})\n'
_GGUF = "import os, gguf, ml_dtypes, numpy as np\nfrom gguf import quants, GGMLQuantizationType as T\n"


class Job(NamedTuple):
    """One way to do the work of a row: who does it, the imports, and the work."""

    who: str
    imports: str
    work: str
    needs: tuple[str, ...] = ()


def ours(rule: str) -> Job:
    """A conversion by one rule."""
    rules = [rule] if rule else []
    work = f'rs.convert("a.safetensors", "out.safetensors", {rules!r})'
    return Job("restride", _OURS + _FIRST.format(rules=rules), work)


def torch_script(change: str) -> Job:
    """The usual script: load, change, save."""
    work = f"""
made = {{}}
for name, x in load_file("a.safetensors").items():
    {change}
save_file(made, "out.safetensors")
synced("out.safetensors")
"""
    return Job("torch", _TORCH, work, ("torch", "safetensors"))


def gguf_writer(kind: str) -> Job:
    """The way of converters in Python: each tensor as f32, quantized by the package, written."""
    work = f"""
from safetensors import safe_open
writer = gguf.GGUFWriter("out.gguf", "llama")
with safe_open("a.safetensors", "numpy") as file:
    for name in file.keys():
        x = file.get_tensor(name).astype(np.float32)
        writer.add_tensor(name, quants.quantize(x, T.{kind}), raw_dtype=T.{kind})
writer.write_header_to_file(); writer.write_kv_data_to_file(); writer.write_tensors_to_file()
writer.fout[0].flush(); os.fsync(writer.fout[0].fileno())
writer.close()
"""
    return Job("gguf package", _GGUF, work, ("gguf", "safetensors"))


_MAKE_ZARR = 'zarr.create_array("%s", shape=%s, dtype="u2", chunks=%s, compressors=None)'
_OUT_ZARR = _MAKE_ZARR % ("out.zarr", "_SHAPE", "_CHUNKS")
_OUR_RECHUNK = f'{_OUT_ZARR}\nrs.rechunk("a.zarr", "out.zarr", memory="256MiB")'
_DASK_RECHUNK = f'x = da.from_zarr("a.zarr").rechunk(_CHUNKS)\nda.store(x, {_OUT_ZARR}, lock=False)'
_FIRST_RECHUNK = f"""
{_MAKE_ZARR % ("out-from.zarr", "(64, 64)", "(64, 8)")}
{_MAKE_ZARR % ("out-to.zarr", "(64, 64)", "(8, 64)")}
rs.rechunk("out-from.zarr", "out-to.zarr")
"""
_FIRST_DASK = f'da.store(da.ones((8, 8), dtype="u2"), {_MAKE_ZARR % ("out-to.zarr", "(8, 8)", "(8, 8)")})\n'
_SYNC_CHUNKS = '\nsubprocess.run("sync out.zarr/c/*/*", shell=True)'
_CP = 'subprocess.run(["cp", "a.safetensors", "out.safetensors"])'
_SYNC_FILE = '\nsubprocess.run(["sync", "out.safetensors"])'
_CODEC = (
    'zarr.config.set({"codecs.transpose": "restride.files.zarr_codecs.ReorderTransposeCodec"})\n'
    "import restride.files.zarr_codecs\n"
)
_PIPELINE = (
    'zarr.config.set({"codec_pipeline.path": "restride.files.zarr_pipeline.ReorderPipeline"})\n'
    "import restride.files.zarr_pipeline\n"
)
_READ = 'zarr.open_array("%s.zarr", mode="r")[:]'
_FIRST_READ = 'zarr.open_array("%s.zarr", mode="r")[:512]\n'
_WRITE = 'zarr.open_array("out-%s.zarr", mode="r+")[:] = x'
_FIRST_WRITE = """
import numpy as np
x = zarr.open_array("a.zarr", mode="r")[:]
turned = {"a": "auto", "t": [zarr.codecs.TransposeCodec(order=(1, 0))]}["%s"]
chunks = 512, x.shape[1]
for name in ("out-first.zarr", "out-%s.zarr"):
    zarr.create_array(name, shape=x.shape, dtype=x.dtype, chunks=chunks, compressors=None, filters=turned)
zarr.open_array("out-first.zarr", mode="r+")[:512] = x[:512]
"""


def zarr_job(who: str, chosen: str, name: str, is_read: bool) -> Job:
    """A whole array of Zarr that is read, or written: `t` has its chunks transposed."""
    first = _FIRST_READ % name if is_read else _FIRST_WRITE % (name, name)
    return Job(who, f"import zarr\n{chosen}{first}", (_READ if is_read else _WRITE) % name, ("zarr",))


_ROW_SCALES = (
    "x = x.float(); s = x.abs().amax(1, keepdim=True) / 127; "
    "made[name] = (x / s).round().to(torch.int8); made[name + '_scale'] = s"
)
_BLOCKS = (
    "m, n = x.shape; x = x.reshape(m // 64, 16, 4, n // 64, 64); "
    "made[name] = x.permute(3, 0, 1, 4, 2).contiguous()"
)
_COPY = Job("cp, then sync", "import subprocess\n", _CP + _SYNC_FILE)
_ROWS: dict[str, list[Job]] = {
    "copy": [ours(""), _COPY, torch_script("made[name] = x")],
    "bf16 to f16": [ours("*=f16"), _COPY, torch_script("made[name] = x.to(torch.float16)")],
    "transpose bf16": [ours("*=ba"), _COPY, torch_script("made[name] = x.T.contiguous()")],
    "blocks BA16a64b4a": [ours("*=BA16a64b4a"), _COPY, torch_script(_BLOCKS)],
    "s8, a scale for each row": [ours("*=s8,axis=0,scale=absmax"), _COPY, torch_script(_ROW_SCALES)],
    "MXFP4": [ours("*=mxfp4"), _COPY, gguf_writer("MXFP4")],
    "s8 in groups of 32": [
        ours("*=s8,group=32,scale=absmax,scale_type=f16"),
        _COPY,
        gguf_writer("Q8_0"),
    ],
    "rechunk Zarr": [
        Job(
            "restride",
            f"{_OURS}import subprocess, zarr\n{_FIRST_RECHUNK}",
            _OUR_RECHUNK + _SYNC_CHUNKS,
            ("zarr",),
        ),
        Job(
            "cp -r, then sync",
            "import subprocess\n",
            'subprocess.run(["cp", "-r", "a.zarr", "out.zarr"])' + _SYNC_CHUNKS,
            ("zarr",),
        ),
        Job(
            "Dask",
            f"import subprocess, dask.array as da, zarr\n{_FIRST_DASK}",
            _DASK_RECHUNK + _SYNC_CHUNKS,
            ("zarr", "dask"),
        ),
    ],
    **{
        f"{verb} Zarr, transposed chunks": [
            zarr_job("restride", _PIPELINE, "t", verb == "read"),
            zarr_job("restride, the codec alone", _CODEC, "t", verb == "read"),
            zarr_job("zarr", "", "t", verb == "read"),
            zarr_job("zarr, not transposed", "", "a", verb == "read"),
        ]
        for verb in ("read", "write")
    },
}


_MAKE = """
import importlib.util, sys
import ml_dtypes, numpy as np, restride as rs
side, folder = int(sys.argv[1]), sys.argv[2]
def made(n):
    rng = np.random.default_rng(0)
    return {f"layer{i}.weight": rng.normal(0, 0.02, (n, n)).astype(ml_dtypes.bfloat16) for i in range(4)}
rs.save(made(128), f"{folder}/small.safetensors")
tensors = made(side)
rs.save(tensors, f"{folder}/a.safetensors", metadata={"format": "pt"})
if importlib.util.find_spec("zarr"):
    import zarr
    x = np.concatenate([t.view(np.uint16) for t in tensors.values()])
    zarr.create_array(f"{folder}/a.zarr", data=x, chunks=(512, side), compressors=None)
    turned = zarr.codecs.TransposeCodec(order=(1, 0))
    zarr.create_array(f"{folder}/t.zarr", data=x, chunks=(512, side), filters=[turned], compressors=None)
"""


_CLOCKS = """
import resource, time
def clocks():
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return time.perf_counter(), sum(use.ru_utime + use.ru_stime for use in uses)
"""
_SAY = "print(*(b - a for a, b in zip(started, clocks())))"


_SLOW_S = 5.0


class Measured(NamedTuple):
    """Seconds, processor seconds of the system and the program, and the largest resident set in bytes."""

    seconds: float
    cpu: float
    peak: int


def measure(job: Job, folder: Path, sizes: str) -> Measured:
    """Run a job in a process of its own."""
    for name in folder.glob("out*"):
        shutil.rmtree(name) if name.is_dir() else name.unlink()
    os.sync()
    text = "\n".join((_CLOCKS, job.imports, sizes, "started = clocks()", job.work, _SAY))
    process = subprocess.Popen([sys.executable, "-c", text], cwd=folder, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{job.who} failed")
    seconds, cpu = map(float, said.split()[-2:])
    return Measured(seconds, cpu, used.ru_maxrss * 1024)


def make_sources(folder: Path, mb: int) -> str:
    """The checkpoint and the array; the words that jobs know their sizes by."""
    side = int((mb * 10**6 / 8) ** 0.5) // 64 * 64
    # Elsewhere: a process has the peak of its parent.
    subprocess.run([sys.executable, "-c", _MAKE, str(side), str(folder)], check=True)
    return f"_SHAPE, _CHUNKS = ({4 * side}, {side}), ({4 * side}, {max(side // 16, 1)})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mb", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", nargs="*", default=[""], help="only rows whose name has one of these")
    parser.add_argument("--out", type=Path, help="write files.md and files.json there")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="restride-files-", dir=os.environ.get("TMPDIR")))
    try:
        sizes = make_sources(folder, options.mb)
        found = {
            name: run_row(jobs, folder, sizes, options.rounds)
            for name, jobs in _ROWS.items()
            if any(part in name for part in options.rows)
        }
    finally:
        shutil.rmtree(folder)
    if options.out is not None:
        known = before(options.out) | found
        found = {name: known[name] for name in _ROWS if name in known}
    lines = table(found, options)
    print("\n".join(lines))
    if options.out is not None:
        (options.out / "files.md").write_text("\n".join(lines) + "\n")
        values = {name: {who: one._asdict() for who, one in row.items()} for name, row in found.items()}
        (options.out / "files.json").write_text(json.dumps(values, indent=1) + "\n")


def before(out: Path) -> dict[str, dict[str, Measured]]:
    """The rows that were measured before."""
    path = out / "files.json"
    if not path.exists():
        return {}
    rows = json.loads(path.read_text())
    return {name: {who: Measured(**one) for who, one in row.items()} for name, row in rows.items()}


def run_row(jobs: list[Job], folder: Path, sizes: str, rounds: int) -> dict[str, Measured]:
    """All jobs of a row in turns; the least of each figure."""
    there = [job for job in jobs if all(importlib.util.find_spec(need) for need in job.needs)]
    runs: dict[str, list[Measured]] = {job.who: [] for job in there}
    for number in range(rounds):
        for job in there[number % len(there) :] + there[: number % len(there)]:
            if not runs[job.who] or runs[job.who][0].seconds < _SLOW_S:
                runs[job.who].append(measure(job, folder, sizes))
    return {
        who: Measured(*(min(one[place] for one in found) for place in range(3)))
        for who, found in runs.items()
    }


def table(found: dict[str, dict[str, Measured]], options: argparse.Namespace) -> list[str]:
    versions = ", ".join(
        f"{name} {version(name)}"
        for name in ("torch", "safetensors", "gguf", "zarr", "dask")
        if importlib.util.find_spec(name)
    )
    header = (
        "work",
        "by",
        "seconds",
        "processor seconds",
        "peak MB",
        "seconds / restride's",
        "processor / restride's",
    )
    lines = [
        "# Conversions of files",
        "",
        f"{options.mb} MB of bf16 in four tensors, the least of some rounds in turns;",
        f"{os.cpu_count()} processors, {platform.machine()}, {versions}.",
        "Made by `python benchmarks/files.py`.",
        "",
        f"| {' | '.join(header)} |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, row in found.items():
        mine = row["restride"]
        for who, one in row.items():
            ratios = one.seconds / mine.seconds, one.cpu / max(mine.cpu, 0.01)
            cells = [name, who, *(f"{n:.2f}" for n in (one.seconds, one.cpu)), f"{one.peak / 1e6:.0f}"]
            lines.append(f"| {' | '.join([*cells, *(f'{n:.2f}' for n in ratios)])} |")
    return lines


if __name__ == "__main__":
    main()
