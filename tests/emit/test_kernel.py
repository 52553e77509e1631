"""Kernels run: every family on every instruction set, in shares, unaligned, past the caches, far apart."""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import subprocess
import sys

import numpy as np
import pytest

from restride.desc.memory_desc import MemoryDesc
from restride.dtypes import DataType
from restride.emit import entry
from restride.ir.digits import reorder_nest
from restride.ir.nest import Axis, Compute, LoopNest, linear
from restride.schedule.moves.blocks import Blocks
from restride.targets import cpu, jit
from restride.targets.isa import Isa, host_isa
from support.cases import CASES, Case, named
from support.golden import Golden
from support.kernels import (
    COMMON,
    TINY,
    Bytes,
    Kernel,
    check,
    compiled,
    compute_of,
    destination,
    difference,
    expected,
    isa_id,
    random_source,
    room,
    runnable,
    tame,
)

_every_case = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


def _source(case: Case, start: int = 0) -> Bytes:
    data = random_source(case.src, 1, start)
    tame(data, case.src.data_type, 2)
    return data


def _destination(case: Case, start: int = 0) -> Bytes:
    return destination(case.dst, 3 if case.beta else None, start)


@_every_case
def test_kernels_equal_the_interpreter(case: Case) -> None:
    check(case.nest, _source(case), _destination(case), runnable(), factors=case.factors)


@_every_case
def test_kernels_are_of_the_family_that_the_case_is_meant_for(case: Case) -> None:
    kinds = {
        cpu.lower_nest(case.nest, isa, COMMON).kind for isa in map(Isa.for_name, ("avx512", "avx2", "neon"))
    }
    assert kinds == {case.kind} or not case.kind


@pytest.mark.parametrize("shift", [(1, 0), (0, 1), (3, 7), (61, 2)])
@pytest.mark.parametrize("name", ["copy", "transpose", "three channels of floats", "strided", "guarded sum"])
def test_buffers_may_begin_at_any_byte(name: str, shift: tuple[int, int]) -> None:
    case = named(name)
    src, dst = _source(case, shift[0]), _destination(case, shift[1])
    check(case.nest, src, dst, runnable(), factors=case.factors)


_IN_PLACE = [
    (MemoryDesc((1003,), "f32", "a"), "s32", 1.0, 0.0),
    (MemoryDesc((1003,), "f32", "a"), "f32", 0.5, 0.25),
    (MemoryDesc((9, 37), "f16", (50, 1)), "bf16", 1.0, 0.0),
    (MemoryDesc((9, 37), "u8", (3, 40)), "s8", 1.0, 0.0),
    (MemoryDesc((2, 17, 5), "f32", "aBc16b"), "s32", 1.0, 0.0),
    (MemoryDesc((70, 65), "s8", "BA16a64b4a"), "u8", 3.0, 0.0),
    (MemoryDesc((3,) * 6, "f32", "ABCDEF2a2b2c2d2e2f"), "s32", 1.0, 0.0),
]


@pytest.mark.parametrize("case", _IN_PLACE, ids=[str(case[0]) for case in _IN_PLACE])
def test_a_tensor_can_be_converted_where_it_lies(case: tuple[MemoryDesc, str, float, float]) -> None:
    """N9: one buffer for both sides, where layouts and element sizes agree."""
    src, dst_type, alpha, beta = case
    dst = MemoryDesc.from_dict({**src.to_dict(), "data_type": dst_type})
    nest = reorder_nest(src, dst, compute_of(alpha, beta))
    start = random_source(src, 1)
    tame(start, src.data_type, 2)
    wanted = expected(nest, start, start, alpha, beta)
    for isa in runnable():
        data = room(start.size)
        data[:] = start
        compiled(nest, isa)(data.ctypes.data, data.ctypes.data, alpha, beta, parts=3)
        assert not difference(data, wanted, nest.dst_type), isa_id(isa)


# --- shares ------------------------------------------------------------------------------------------------

_LARGE = {
    "copy": (MemoryDesc((70_001,), "f32", "a"), MemoryDesc((70_001,), "bf16", "a")),
    "transpose": (MemoryDesc((3, 70, 9, 31), "f32", "abcd"), MemoryDesc((3, 70, 9, 31), "f32", "acdb")),
    "blocks": (MemoryDesc((2, 70, 9, 31), "f32", "abcd"), MemoryDesc((2, 70, 9, 31), "u8", "aBcd16b")),
    "tables": (MemoryDesc((997, 13), "f32", "Ab32a"), MemoryDesc((997, 13), "f32", "Ab48a")),
    "strided": (MemoryDesc((520, 97), "s32", (300, 3)), MemoryDesc((520, 97), "s32", (2, 1041))),
    "guarded": (MemoryDesc((3,) * 8, "f32", "abcdefgh"), MemoryDesc((3,) * 8, "f32", "ABCDEFgh2a2b2c2d2e2f")),
}
_ISA = runnable()[0]


@pytest.mark.parametrize("parts", [2, 3, 7, 1000])
@pytest.mark.parametrize("name", _LARGE)
def test_each_element_is_written_in_exactly_one_share(name: str, parts: int) -> None:
    """Threads need no order: shares write disjoint places, and together all of them."""
    src, dst = _LARGE[name]
    nest = reorder_nest(src, dst, Compute())
    kernel = compiled(nest, _ISA)
    data = random_source(src, 4)
    clean, times = destination(dst), np.zeros(destination(dst).size, np.int64)
    for part in range(parts):
        zeros, ones = room(clean.size), room(clean.size)
        ones[:] = 0xFF
        for target in (zeros, ones):
            kernel.part(data.ctypes.data, target.ctypes.data, part, parts)
        times += (zeros == ones).astype(np.int64)
        if parts > 16 and part == 40:
            break
    everything = room(clean.size)
    written = expected(nest, data, everything) == expected(nest, data, clean)
    assert times.max() <= 1
    if parts <= 16:
        assert (times == written).all()


@pytest.mark.parametrize("name", _LARGE)
def test_all_shares_together_equal_the_interpreter(name: str) -> None:
    src, dst = _LARGE[name]
    nest = reorder_nest(src, dst, Compute())
    for parts in (1, 5, 1000):
        check(nest, random_source(src, 4), destination(dst), [_ISA], parts=parts)


def test_large_work_can_be_shared_by_many_threads() -> None:
    for name, (src, dst) in _LARGE.items():
        low = cpu.lower_nest(reorder_nest(src, dst, Compute()), host_isa(), COMMON)
        assert low.steps >= 2, name


def test_one_call_runs_the_whole() -> None:
    case = named("transpose")
    library = jit.load(jit.compile_ir(cpu.lower_nest(case.nest, _ISA, COMMON).ir(), _ISA))
    whole = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(library.address(entry.WHOLE))
    src, dst, factors = _source(case), _destination(case), (ctypes.c_float * 2)(1.0, 0.0)
    wanted = expected(case.nest, src, dst)
    whole(src.ctypes.data, dst.ctypes.data, ctypes.addressof(factors))
    assert (dst == wanted).all()


# --- past the caches ---------------------------------------------------------------------------------------

_STREAMED = {
    "rows": (MemoryDesc((64, 64), "f32", "ab"), MemoryDesc((64, 64), "f32", "ab")),
    "transpose": (MemoryDesc((64, 128), "f32", "ab"), MemoryDesc((64, 128), "f32", "ba")),
    "bytes": (MemoryDesc((128, 192), "u8", "ab"), MemoryDesc((128, 192), "u8", "ba")),
    "conversion": (MemoryDesc((4096,), "f32", "a"), MemoryDesc((4096,), "u8", "a")),
    "blocks": (MemoryDesc((2, 64, 4, 8), "f32", "abcd"), MemoryDesc((2, 64, 4, 8), "f32", "aBcd16b")),
    "padding": (MemoryDesc((2, 60, 4, 8), "f32", "abcd"), MemoryDesc((2, 60, 4, 8), "f32", "aBcd16b")),
    "rows with gaps": (MemoryDesc((32, 48), "f32", "ab"), MemoryDesc((32, 48), "f32", (64, 1))),
    "rows at odd places": (MemoryDesc((32, 16), "f32", "ab"), MemoryDesc((32, 16), "f32", (20, 1))),
    "short rows": (MemoryDesc((8, 40), "u8", "aB8b"), MemoryDesc((8, 40), "s8", "AB32b12b24a")),
    "three rows": (MemoryDesc((100, 8, 16), "f32", "abc"), MemoryDesc((100, 8, 16), "f32", (160, 20, 1))),
    "tails of short runs": (
        MemoryDesc((3, 1, 3, 3, 2, 2, 3, 3, 1, 3, 3, 3), "bf16", "kaebdglchjif"),
        MemoryDesc((3, 1, 3, 3, 2, 2, 3, 3, 1, 3, 3, 3), "bf16", "djBlAekCihfg2a2b2c"),
    ),
    "a tail": (MemoryDesc((1001,), "f32", "a"), MemoryDesc((1001,), "f32", "a")),
}


@pytest.mark.parametrize("name", _STREAMED)
def test_streaming_stores_write_the_same(name: str) -> None:
    src, dst = _STREAMED[name]
    nest = reorder_nest(src, dst, Compute())
    for isa in runnable():
        lowered = compiled(nest, isa, True, TINY).lowered
        # What is flushed finds its whole lines by itself, wherever the destination begins.
        is_past = lowered.streams or isinstance(lowered.plan, Blocks)
        assert ("!nontemporal" in cpu.lower_nest(nest, isa, TINY).ir()) == is_past
    check(nest, random_source(src, 4), destination(dst), runnable(), may_stream=True, caches=TINY, parts=3)


def test_streaming_needs_leave_and_a_large_destination() -> None:
    nest = reorder_nest(*_STREAMED["rows"], Compute())
    wide = Isa.for_name("avx512")
    assert cpu.lower_nest(nest, wide, TINY).streams
    assert not cpu.lower_nest(nest, wide, COMMON).streams
    assert not cpu.lower_nest(nest, wide, TINY, may_stream=False).streams
    summed = reorder_nest(*_STREAMED["rows"], linear(summed=True))
    assert not cpu.lower_nest(summed, wide, TINY).streams


# --- far apart ---------------------------------------------------------------------------------------------


# Linux' MAP_NORESERVE, which Python names from 3.13 on.
_NO_RESERVE = 0x4000


def _far_apart(nbytes: int) -> Bytes:
    """So much address space, of which only the touched pages take memory."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
    try:
        return np.frombuffer(mmap.mmap(-1, nbytes, flags=flags), np.uint8)
    except (OSError, ValueError) as error:
        pytest.skip(f"no address space: {error}")


@pytest.mark.skipif(sys.maxsize < 2**40 or sys.platform != "linux", reason="needs 64-bit Linux")
@pytest.mark.parametrize("strides", [(2**31 + 5, 3), (1, 2**31 + 5), (2**30, 1)])
def test_offsets_go_beyond_32_bits(strides: tuple[int, int]) -> None:
    far = MemoryDesc((4, 5), "f32", strides)
    near = MemoryDesc((4, 5), "f32", "ba")
    for src, dst in ((far, near), (near, far)):
        nest = reorder_nest(src, dst, Compute())
        read, written = (_far_apart(md.extent_range()[1] * 4) for md in (src, dst))
        numbers, result = read.view(np.uint32), written.view(np.uint32)
        places = [(i, j) for i in range(4) for j in range(5)]
        for i, j in places:
            numbers[src.offset(i, j)] = 100 + 10 * i + j
        for isa in runnable():
            compiled(nest, isa)(read.ctypes.data, written.ctypes.data)
            assert [int(result[dst.offset(i, j)]) for i, j in places] == [100 + 10 * i + j for i, j in places]


# --- nests by hand -----------------------------------------------------------------------------------------

_F32, _U8 = DataType.f32, DataType.u8
_BY_HAND = {
    "one element": LoopNest(_F32, _U8, (), src_base=2, dst_base=1),
    "all zero": LoopNest(_F32, _F32, (Axis(37, 1, 3, valid=0), Axis(2, 1, 1))),
    "half read": LoopNest(_F32, _F32, (Axis(37, 1, 1, valid=19),)),
    "read in part inside": LoopNest(_U8, _U8, (Axis(9, 12, 16), Axis(16, 1, 1, valid=12))),
    "read in part on both axes": LoopNest(_U8, _F32, (Axis(9, 1, 16, valid=5), Axis(16, 9, 1, valid=12))),
    "a table to read": LoopNest(_F32, _F32, (Axis(4, (30, 0, 20, 10), 10), Axis(10, 1, 1))),
    "a table to write": LoopNest(_U8, _F32, (Axis(4, 10, (30, 0, 20, 10)), Axis(10, 1, 1))),
    "two tables": LoopNest(_U8, _U8, (Axis(4, (0, 7, 1, 3), (8, 4, 0, 12)), Axis(3, (2, 9, 0), (1, 3, 2)))),
    "a table read in part": LoopNest(_U8, _U8, (Axis(4, (0, 7, 1, 3), (3, 1, 0, 2), valid=2),)),
    "zeros by a table": LoopNest(_U8, _U8, (Axis(4, 0, (9, 3, 0, 5), valid=0),)),
}


@pytest.mark.parametrize("name", _BY_HAND)
def test_nests_that_no_reorder_makes(name: str) -> None:
    nest = _BY_HAND[name].verify()
    src, dst = room(4096), room(4096)
    src[:] = np.random.default_rng(0).integers(0, 256, 4096, np.uint8)
    dst[:] = 0xFF
    check(nest, src, dst, runnable(), parts=2)


# --- the text ----------------------------------------------------------------------------------------------

_GOLDEN = {
    "transpose_f32": ("f32 nchw", "f32 nhwc", (2, 16, 8, 8), 1.0, 0.0),
    "three_channels_u8": ("u8 nhwc", "u8 nchw", (2, 3, 8, 8), 1.0, 0.0),
    "blocked_scaled": ("f32 nchw", "s8 nChw16c", (1, 17, 2, 2), 0.5, 0.0),
    "weights_s8": ("s8 ab", "s8 BA16a64b4a", (64, 64), 1.0, 0.0),
    "copy_bf16": ("f32 a", "bf16 a", (1000,), 1.0, 0.0),
    "streamed": ("f32 ab", "f32 ab", (2**20, 16), 1.0, 0.0),
    "guarded": ("u8 abcdef", "u8 ABCDEF2a2b2c2d2e2f", (3,) * 6, 1.0, 0.0),
    "sum": ("s8 a", "f32 a", (100,), 0.5, 0.5),
    "strided": ("f32 ab", "f32 ba", (20, 33), 1.0, 0.0),
}


def _golden_nest(name: str) -> LoopNest:
    src, dst, dims, alpha, beta = _GOLDEN[name]
    if name == "strided":
        made = MemoryDesc(dims, "f32", (100, 3)), MemoryDesc(dims, "f32", (1, 45))
    else:
        made = tuple(MemoryDesc(dims, *text.split()) for text in (src, dst))
    return reorder_nest(*made, linear(alpha != 1.0, beta != 0.0))


def _text(name: str) -> str:
    """Nest, schedules and IR for three instruction sets."""
    nest = _golden_nest(name)
    parts = [f"; {line}" for line in str(nest).split("\n")]
    for level in ("avx512", "avx2", "neon"):
        low = cpu.lower_nest(nest, Isa.for_name(level), COMMON)
        parts += [
            "",
            f"; --- {level}",
            *(f"; {line}" for line in str(low).split("\n")),
            low.ir().rstrip("\n"),
        ]
    return "\n".join(parts) + "\n"


@pytest.mark.parametrize("name", _GOLDEN)
def test_kernel_texts_change_only_on_purpose(name: str, golden: Golden) -> None:
    golden.check(f"{name}.ll", _text(name))


_PRINT_TEXTS = """
import hashlib
from test_kernel import _GOLDEN, _text
print(hashlib.sha256("".join(map(_text, _GOLDEN)).encode()).hexdigest())
"""


def test_texts_are_the_same_in_every_process() -> None:
    """A cache on disk is keyed by text: nothing may depend on the order of a set or on an address."""
    here = hashlib.sha256("".join(map(_text, _GOLDEN)).encode()).hexdigest()
    done = subprocess.run(
        [sys.executable, "-c", _PRINT_TEXTS],
        env={"PYTHONHASHSEED": "77", "PYTHONPATH": ":".join(sys.path), "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.stdout.strip() == here, done.stderr


def test_equal_nests_have_equal_texts_whatever_was_made_before() -> None:
    case = named("weights")
    first = cpu.lower_nest(case.nest, Isa.for_name("avx2"), COMMON).ir()
    for other in CASES[:6]:
        cpu.lower_nest(other.nest, Isa.for_name("avx2"), COMMON).ir()
    assert cpu.lower_nest(case.nest, Isa.for_name("avx2"), COMMON).ir() == first


@pytest.mark.parametrize("isa", runnable(), ids=isa_id)
def test_a_kernel_can_be_loaded_many_times(isa: Isa) -> None:
    case = named("copy")
    src, dst = _source(case), _destination(case)
    for _ in range(3):
        Kernel(case.nest, isa)(src.ctypes.data, dst.ctypes.data)
        assert (dst == src).all()
