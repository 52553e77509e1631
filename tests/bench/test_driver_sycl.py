"""The driver on a SYCL engine: USM between canaries, engines by filter and number, crossing, out of order."""

from __future__ import annotations

import pytest

import restride as rs
from restride_bench.driver.check import GuardedStorage
from restride_bench.driver.expand import expand
from restride_bench.driver.placed import Engines, PlacedMemory
from restride_bench.driver.result import Outcome, Result
from restride_bench.driver.run import Execute, execute, run
from restride_bench.driver.work import CaseWork
from support.sycl import sycl_engine

pytestmark = pytest.mark.sycl


@pytest.fixture(scope="module", autouse=True)
def engine():
    return sycl_engine()


def _run(line: str, how: Execute = execute) -> Result:
    (test,) = expand(line.split()).tests
    return run(test, how)


@pytest.mark.parametrize(
    "line",
    [
        "--engine=sycl --reorder --dtag=aBx16b 2x17x3",
        "--engine=sycl:0 --reorder --ddt=s8 --attr-scales=src:per_dim_1+dst:common:2 --dtag=axb 2x5x3",
        "--engine=sycl --reorder --ddt=u8 --attr-zero-points=dst:common:3 --attr-post-ops=sum:0.5 2x5",
        "--engine=sycl --reorder --attr-post-ops=relu:0.5+add:f32:per_dim_0+mul:bf16:per_tensor:axb 2x5x3",
        "--engine=sycl --reorder --ddt=s8 --dtag=AB4b4a --oflag=s8s8_comp:1+zp_comp:1 5x6",
        "--engine=sycl --reorder --sdt=s4 --attr-zero-points=src:3:u4:1x4 4x8",
        "--engine=sycl --reorder --strides=7x1:1x5 3x4",
        "--engine=sycl --reorder --runtime-dim-mask=63 --dtag=ba 3x4",
        "--engine=sycl --reorder 0x4",
        "--engine=sycl --reorder --sdt=s4 --ddt=s4 --dtag=ba --attr-scratchpad=user 65x65",
        "--engine=sycl --memory-kind=usm_shared --reorder --sdt=u4 --ddt=s4 6x4",
        "--engine=sycl --stream-kind=out_of_order --mode=B --reorder --dtag=ba 6x4",
        "--engine=sycl --reorder --cross-engine=cpu2gpu --ddt=s8 --oflag=zp_comp:1 5x6",
        "--engine=sycl --reorder --cross-engine=gpu2cpu --ddt=s8 --dtag=aB16b 5x6",
        "--engine=sycl --shuffle --dir=BWD_D --dt=bf16 --tag=axb --group=4 2x8x3",
    ],
)
def test_what_restride_does_passes(line: str) -> None:
    assert _run(line).status in (Outcome.PASSED, Outcome.MISTRUSTED), _run(line)


@pytest.mark.parametrize("mode", ["P", "CP", "F"])
def test_speed_is_measured(mode: str) -> None:
    result = _run(f"--engine=sycl --mode={mode} --max-ms-per-prb=10 --reorder --dtag=ba 8x16")
    assert result.perf is not None
    assert result.perf.least > 0
    assert result.impl.startswith("jit:spirv:")


def test_buffers_of_sycl_are_skipped() -> None:
    result = _run("--engine=sycl --memory-kind=buffer --reorder 2x3")
    assert (result.status, result.reason) == (
        Outcome.SKIPPED,
        "Case not supported: --memory-kind=buffer, memory of SYCL is USM",
    )


def _too_far(primitive, stream, args) -> None:
    """Run, and write a byte behind the destination's last."""
    execute(primitive, stream, args)
    stream.wait()
    dst = args[rs.ARG_TO]
    beside = rs.Memory(rs.MemoryDesc((dst.desc.size + 1,), "u8", "a"), dst.engine, _Longer(dst))
    mapped = beside.map_data()
    mapped[-1] = 1
    beside.unmap_data(mapped)


class _Longer:
    """A memory's USM, and one byte more."""

    def __init__(self, memory: rs.Memory) -> None:
        held = memory.__sycl_usm_array_interface__
        self.__sycl_usm_array_interface__ = {**held, "shape": (memory.desc.size + 1,), "typestr": "|u1"}


def test_a_byte_behind_the_destination_is_found() -> None:
    result = _run("--engine=sycl --reorder --sdt=u8 --ddt=u8 12", _too_far)
    assert (result.status, result.reason) == (
        Outcome.FAILED,
        "canaries: bytes outside the destination were written",
    )


def test_nothing_written_is_found() -> None:
    assert _run("--engine=sycl --reorder 12", lambda *_: None).status is Outcome.FAILED


def test_a_placed_memory_has_the_bytes_of_its_storage(engine) -> None:
    (test,) = expand(["--engine=sycl", "--reorder", "--sdt=u8", "5"]).tests
    operand, wanted = CaseWork.of(test.case).src, [3, 1, 4, 1, 5]
    stored = GuardedStorage(5)
    stored.bytes[...] = wanted
    placed = PlacedMemory.at(operand, Engines.of(engine).src, stored, "shared")
    assert placed.memory.to_numpy().tolist() == wanted
    stored.bytes[...] = 0
    placed.fetch()
    assert stored.bytes.tolist() == wanted
