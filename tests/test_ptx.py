"""PTX of plans for devices: NVIDIA's own assembler takes it, and nothing in it is fused or flushed."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

import restride as rs
from restride.plan.machine import DeviceFacts
from restride.plan.nest import Compute, Step, linear
from restride.plan.reduction import Op, reduction_of
from restride.plan.reorder import reorder_nest
from restride.targets.ptx import lower, ptx_text

GPU = DeviceFacts(group=256, sub_group=32, local_bytes=48 << 10)
DIMS = (2, 34, 33, 40)
CASES = {
    "copy": ("f32", "nchw", "bf16", "nchw", Compute()),
    "transpose": ("f32", "nchw", "s8", "nhwc", linear(scaled=True)),
    "blocks": ("bf16", "nchw", "f32", "nChw16c", linear(scaled=True, summed=True)),
    "halves": ("s4", "nchw", "u4", "nchw", Compute()),
    "doubles": ("f64", "nchw", "f16", "nhwc", linear(shifted=True)),
    "function": ("f32", "nchw", "f32", "nhwc", Compute((Step("gelu_erf"),))),
}


def text_of(case):
    src, src_format, dst, dst_format, compute = CASES[case]
    mds = rs.MemoryDesc(DIMS, src, src_format), rs.MemoryDesc(DIMS, dst, dst_format)
    return ptx_text(lower(reorder_nest(*mds, compute), GPU))


def sums_text():
    return ptx_text(lower(reduction_of(rs.MemoryDesc(DIMS, "s8", "nhwc"), 2, Op.total), GPU))


@pytest.mark.parametrize("case", [*CASES, "sums"])
def test_the_assembler_takes_it(case, tmp_path):
    if shutil.which("ptxas") is None:
        pytest.skip("there is no ptxas")
    source = tmp_path / "kernel.ptx"
    source.write_text(sums_text() if case == "sums" else text_of(case))
    command = ["ptxas", "-arch=sm_90", str(source), "-o", str(tmp_path / "kernel.cubin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("case", CASES)
def test_every_operation_rounds_by_itself(case):
    text = text_of(case)
    assert not re.search(r"\bfma\.|\.ftz|\.approx", text)
    assert not re.search(r"\b(add|sub|mul|div|sqrt)\.f(32|64)", text)


def test_a_transpose_goes_through_shared_memory():
    assert ".shared" in text_of("transpose")
    assert "bar.sync" in text_of("transpose") or "barrier" in text_of("transpose")
    assert ".shared" not in text_of("copy")
