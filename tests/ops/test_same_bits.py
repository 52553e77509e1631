"""One numeric contract: the same bits for any number of threads, any instruction set, any engine, any run."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import restride as rs

# The narrowest and the machine's own at every change.
LEVELS = (
    "GENERIC",
    *(pytest.param(level, marks=pytest.mark.slow) for level in ("SSE41", "AVX2", "AVX512_CORE")),
    "DEFAULT",
)

# Large enough for many threads, of sizes that no vector, tile or share divides.
PROBLEMS = [
    ("f32", "f32", (3, 33, 71, 41), "nchw", "nhwc", 1.0, 0.0),
    ("f32", "u8", (3, 33, 71, 41), "nhwc", "nChw16c", 0.37, 0.0),
    ("u8", "f32", (5, 3, 201, 67), "nhwc", "nchw", 1.0, 0.0),
    ("bf16", "s8", (3, 33, 71, 41), "nChw8c", "nchw", -3.0, 0.0),
    ("s32", "f16", (601, 407), "ab", "ba", 1.0, 0.0),
    ("f32", "s32", (601, 407), "ab", "ab", 1.5, -0.5),
    ("f16", "bf16", (601, 407), "ba", "BA16a16b", 1.0, 0.25),
    ("f64", "bf16", (601, 407), "ab", "ba", -0.75, 0.0),
    ("f8_e5m2", "f8_e4m3", (3, 33, 71, 41), "nchw", "nChw16c", 1.5, 0.5),
    ("f32", "boolean", (3, 33, 71, 41), "nhwc", "nchw", 1.0, 0.0),
]

SHUFFLES = [
    ("f32", (3, 36, 71, 41), "nchw", 4),
    ("u8", (3, 36, 71, 41), "nhwc", 9),
    ("f32", (3, 36, 71, 41), "nChw16c", 4),
    ("bf16", (3, 244, 31, 41), "nChw8c", 2),
    ("u8", (3, 64, 71, 41), "nChw16c", 16),
]

SCRIPT = """
import hashlib, json, sys
import numpy as np
import restride as rs

engine = rs.Engine(sys.argv[2])
found = []
problems, shuffles = json.loads(sys.argv[1])
for src_type, dst_type, dims, src, dst, alpha, beta in problems:
    src_md, dst_md = rs.MemoryDesc(dims, src_type, src), rs.MemoryDesc(dims, dst_type, dst)
    x, out = rs.Memory(src_md, engine), rs.Memory(dst_md, engine)
    for held, seed in ((x, 1), (out, 2)):
        view = held.data.view(np.uint8)
        view[:] = np.random.default_rng(seed).integers(0, 256, view.size, np.uint8)
    rs.reorder(x, None, scale=alpha, beta=beta, out=out)
    found.append(hashlib.sha256(out.data.view(np.uint8)).hexdigest())
for data_type, dims, tag, group_size in shuffles:
    x = rs.Memory(rs.MemoryDesc(dims, data_type, tag), engine)
    view = x.data.view(np.uint8)
    view[:] = np.random.default_rng(1).integers(0, 256, view.size, np.uint8)
    made = rs.shuffle(x, group_size=group_size)
    found.append(hashlib.sha256(made.data.view(np.uint8)).hexdigest())
impl = rs.plan(np.zeros((3, 4), "f4"), "ba", engine=engine).impl
print(json.dumps([impl, found]))
"""


def run(level="DEFAULT", threads=2, engine="cpu", seed="0"):
    """The hash of each result, in a process of its own."""
    env = dict(os.environ, RESTRIDE_MAX_CPU_ISA=level, RESTRIDE_NUM_THREADS=str(threads))
    env |= {"PYTHONHASHSEED": seed}
    command = [sys.executable, "-W", "error", "-c", SCRIPT, json.dumps([PROBLEMS, SHUFFLES]), engine]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def wanted():
    impl, hashes = run(threads=1, seed="7")
    assert impl.startswith("jit:")
    return hashes


@pytest.mark.parametrize("level", LEVELS)
def test_every_instruction_set_gives_the_same_bits(level, wanted):
    impl, hashes = run(level, threads=3)
    assert hashes == wanted
    if level in ("GENERIC", "SSE41"):
        assert impl.split(":")[1] in ("generic", "sse41", "neon")


def test_the_reference_engine_gives_the_same_bits(wanted):
    impl, hashes = run(engine="reference")
    assert impl == "ref:any"
    assert hashes == wanted


@pytest.fixture
def threads():
    before = rs.get_num_threads()
    yield
    rs.set_num_threads(before)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: f"{p[0]}-{p[1]}")
def test_every_number_of_threads_gives_the_same_bits(problem, threads):
    src_type, dst_type, dims, src, dst, alpha, beta = problem
    x = rs.Memory(rs.MemoryDesc(dims, src_type, src), rs.Engine("cpu"))
    bits = x.data.view(np.uint8)
    bits[:] = np.random.default_rng(3).integers(0, 256, bits.size, np.uint8)
    results = []
    for count in (1, 2, 5, 2, 64):
        rs.set_num_threads(count)
        out = rs.Memory(rs.MemoryDesc(dims, dst_type, dst), rs.Engine("cpu"))
        out.data.view(np.uint8)[:] = 0x3C
        rs.reorder(x, None, scale=alpha, beta=beta, out=out)
        results.append(out.data.view(np.uint8))
    for got in results[1:]:
        np.testing.assert_array_equal(got, results[0])
