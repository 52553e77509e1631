"""The CPU target makes object code for any machine on any machine, and only what that machine has."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from restride import emit
from restride.desc.memory_desc import MemoryDesc
from restride.dtypes import DataType
from restride.emit import entry
from restride.ir.digits import reorder_nest
from restride.ir.expression import TreeAxis, apply
from restride.ir.nest import Compute, linear
from restride.ir.tree import Each, LoopTree, TreeTensor
from restride.targets import compile_pool, cpu, jit, objects
from restride.targets.cpu_kernels import lower_tree
from restride.targets.isa import CacheSizes, Isa
from support.cases import CASES, Case, named
from support.kernels import COMMON, TINY

_X86, _AARCH64, _RISCV, _POWER, _S390 = 62, 183, 243, 21, 22
_FOREIGN = {
    "riscv64": (Isa("generic", 16, "riscv64-unknown-linux-gnu", "generic-rv64", "+m,+a,+f,+d,+c"), _RISCV),
    "riscv64 vectors": (
        Isa("generic", 16, "riscv64-unknown-linux-gnu", "generic-rv64", "+m,+f,+d,+v"),
        _RISCV,
    ),
    "powerpc64le": (Isa("generic", 16, "powerpc64le-unknown-linux-gnu", "pwr8", ""), _POWER),
    "s390x": (Isa("generic", 16, "s390x-unknown-linux-gnu", "z13", ""), _S390),
}
_SOME = [named(n) for n in ("convert up", "into blocks of bytes", "three channels of floats", "guarded sum")]
_BY_NAME = {"ids": lambda case: case.name}


def _object(case: Case, isa: Isa, caches: CacheSizes = COMMON) -> bytes:
    return jit.compile_ir(cpu.lower_nest(case.nest, isa, caches).ir(), isa)


# --- object files, read by hand ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Symbol:
    name: str
    section: int
    is_global: bool


def _machine(code: bytes) -> int:
    assert code[:5] == b"\x7fELF\x02", "not a 64-bit ELF file"
    order = "<" if code[5] == 1 else ">"
    return int(struct.unpack_from(order + "H", code, 18)[0])


def _symbols(code: bytes) -> Iterator[_Symbol]:
    order = "<" if code[5] == 1 else ">"
    (table,) = struct.unpack_from(order + "Q", code, 40)
    size, count = struct.unpack_from(order + "HH", code, 58)
    headers = [struct.unpack_from(order + "IIQQQQIIQQ", code, table + i * size) for i in range(count)]
    for header in headers:
        if header[1] != 2:  # SHT_SYMTAB
            continue
        names, start, nbytes = headers[header[6]][4], header[4], header[5]
        for at in range(start, start + nbytes, 24):
            name, info, _, section = struct.unpack_from(order + "IBBH", code, at)
            text = code[names + name : code.index(b"\0", names + name)].decode()
            yield _Symbol(text, section, info >> 4 == 1)


@pytest.mark.parametrize("case", _SOME, **_BY_NAME)
def test_an_aarch64_object_comes_out_of_any_machine(case: Case) -> None:
    assert _machine(_object(case, Isa.for_name("neon"))) == _AARCH64


@pytest.mark.parametrize("name", _FOREIGN)
def test_machines_that_nobody_tuned_for_get_kernels_too(name: str) -> None:
    isa, machine = _FOREIGN[name]
    for case in _SOME:
        assert _machine(_object(case, isa)) == machine


@pytest.mark.parametrize("level", ["generic", "sse41", "avx2", "avx512", "neon"])
def test_kernels_call_nothing_outside(level: str) -> None:
    """No libm, no memcpy, no compiler run time: those may round otherwise, or not be there."""
    for case in CASES[:: 1 if level == "generic" else 4]:
        symbols = list(_symbols(_object(case, Isa.for_name(level))))
        assert not [s.name for s in symbols if s.is_global and s.section == 0]
        assert {s.name for s in symbols if s.is_global} == {entry.ENTRY, entry.WHOLE}


# --- instructions ------------------------------------------------------------------------------------------

_BEYOND = {
    "generic": r"\b(pshufb|pmaxs[bd]|pmins[bd]|roundps|pinsr[bdq]|pextr[bdq]|pmov[sz]x\w+|v[a-z]+ps)\b",
    "sse41": r"%ymm|%zmm|\bvmov|\bvpshufb|\bvcvtph2ps",
    "avx2": r"%zmm|%k[1-7]\b|%xmm(1[6-9]|2\d|3[01])|vcvtneps2bf16",
    "avx512": r"vcvtneps2bf16|\bvpermi2b|\bvpermt2b|\bvpermb\b|vcvtps2phx|vgf2p8",
}


@pytest.mark.parametrize("level", _BEYOND)
def test_a_level_uses_only_its_own_instructions(level: str) -> None:
    isa = Isa.for_name(level)
    for case in CASES[::3]:
        text = jit.assembly(cpu.lower_nest(case.nest, isa, COMMON).ir(), isa)
        assert not re.search(_BEYOND[level], text), case.name


@pytest.mark.parametrize(("level", "register"), [("sse41", "%xmm"), ("avx2", "%ymm"), ("avx512", "%zmm")])
def test_a_level_uses_its_full_registers(level: str, register: str) -> None:
    isa = Isa.for_name(level)
    for name in ("copy", "transpose", "into blocks"):
        assert register in jit.assembly(cpu.lower_nest(named(name).nest, isa, COMMON).ir(), isa), name


@pytest.mark.parametrize("level", ["generic", "sse41", "avx2", "avx512", "neon"])
def test_no_step_is_fused(level: str) -> None:
    """N1: a fused multiply-add would round once where the contract rounds twice."""
    isa = Isa.for_name(level)
    text = jit.assembly(cpu.lower_nest(named("scaled sum into bytes").nest, isa, COMMON).ir(), isa)
    assert not re.search(r"\bvf(n?m)(add|sub)|\bfml[as]\b|\bfn?m(add|sub)\b", text)


@pytest.mark.parametrize("level", ["generic", "sse41", "avx2", "avx512"])
def test_streaming_stores_are_instructions(level: str) -> None:
    desc = MemoryDesc((64, 64), "f32", "ab")
    nest, isa = reorder_nest(desc, desc, Compute()), Isa.for_name(level)
    streaming = cpu.lower_nest(nest, isa, TINY)
    assert streaming.streams
    assert re.search(r"\bv?movnt(ps|dq|pd)\b", jit.assembly(streaming.ir(), isa))
    ordinary = cpu.lower_nest(nest, isa, TINY, may_stream=False)
    assert not re.search(r"\bv?movnt", jit.assembly(ordinary.ir(), isa))


_FAR_ROWS = [
    ("f32", (8, 16), (1 << 32) + 8),
    ("f32", (16, 4), (1 << 31) + 8),
    ("bf16", (16, 16), (1 << 32) + 16),
    # Four rows further, where a loop goes on, it is 16 bytes to the lower 32 bits.
    ("f32", (8, 16), (1 << 30) + 4),
    ("f32", (24, 32), (1 << 32) + 4),
]


@pytest.mark.parametrize(("data_type", "dims", "stride"), _FAR_ROWS, ids=str)
def test_interleaved_stores_on_aarch64_do_not_advance_to_rows_2_to_the_32_further(
    data_type: str, dims: tuple[int, int], stride: int
) -> None:
    """Of some rows the lower 32 bits of the distance are the bytes that `st2` may add to its address."""
    kind = DataType[data_type]
    far = MemoryDesc.from_strides(dims, kind, (stride * 8 // kind.bits, 1))
    nest, isa = reorder_nest(MemoryDesc(dims, kind, "ba"), far, Compute()), Isa.for_name("neon")
    text = jit.assembly(cpu.lower_nest(nest, isa, COMMON, may_stream=False).ir(), isa)
    stores = re.findall(r"\bst2\b.*", text)
    assert stores
    assert not [store for store in stores if not store.endswith("]")]


def test_lanes_of_trees_on_aarch64_are_not_loaded_from_addresses_cut_to_32_bits() -> None:
    """Of 2**32 + 1 the lower 32 bits are the byte that `ld1` may add to its address."""
    descs = (
        MemoryDesc.from_strides((2,), "s8", ((1 << 32) + 1,)),
        MemoryDesc((2,), "f32", "a"),
        MemoryDesc.from_strides((2,), "bf16", ((1 << 31) + 4,)),
    )
    x, z, y = (TreeTensor.of_desc(name, md) for name, md in zip("xzy", descs, strict=True))
    axis, isa = TreeAxis("d0", 2), Isa.for_name("neon")
    value = apply("add", x.load(axis), z.load(axis)) * 0.5
    tree = LoopTree((x, z, y), (Each((axis,), (y.store((axis,), value),)),)).verify()
    texts = [jit.assembly(loop.ir(), isa) for loop in lower_tree(tree, isa, COMMON).loops]
    assert [text for text in texts if "ld1" in text or "ldrb" in text or "ldrsb" in text]
    assert not [line for text in texts for line in re.findall(r"\bld1\b.*\], #1$", text, re.MULTILINE)]


def test_emitters_move_pointers_by_steps() -> None:
    """`Builder.step` hides what is far, and a product written beside it would not."""
    folder = Path(emit.__path__[0])
    product = re.compile(r"\badvance\((?:[^()]|\([^()]*\))*\bop\(\s*\"mul\"")
    found = [path.name for path in sorted(folder.glob("*.py")) if product.search(path.read_text("utf-8"))]
    assert found == ["builder.py"]


# --- what is told ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, **_BY_NAME)
def test_a_lowered_nest_tells_what_it_is_and_why(case: Case) -> None:
    low = cpu.lower_nest(case.nest, Isa.for_name("avx2"), COMMON)
    assert low.nests == (case.nest,)
    assert low.kind in ("copy", "transpose", "strided", "zero", "guarded")
    assert low.why
    assert low.kind in str(low)
    assert low.steps >= 1
    assert not low.streams


def test_lowering_is_a_function_of_its_arguments() -> None:
    for case in CASES[::5]:
        one, two = (cpu.lower_nest(case.nest, Isa.for_name("avx2"), COMMON) for _ in range(2))
        assert one == two
        assert hash(one) == hash(two)


def test_the_machine_is_that_of_the_instruction_set() -> None:
    caches = CacheSizes(l2=123, l3=456, line=128)
    for level, registers in (("generic", 16), ("sse41", 16), ("avx2", 16), ("avx512", 32), ("neon", 32)):
        machine = cpu.machine_of(Isa.for_name(level), caches)
        assert machine.registers == registers
        assert machine.vector_bytes == Isa.for_name(level).vector_bytes
        assert (machine.l2, machine.l3, machine.line) == (123, 456, 128)


def test_masks_are_for_machines_that_have_them() -> None:
    tail = named("convert down").nest
    assert "llvm.masked" in cpu.lower_nest(tail, Isa.for_name("avx512"), COMMON).ir()
    for level in ("generic", "sse41", "avx2", "neon"):
        assert "llvm.masked" not in cpu.lower_nest(tail, Isa.for_name(level), COMMON).ir()


def test_too_many_partial_blocks_are_told_not_peeled() -> None:
    low = cpu.lower_nest(named("guarded").nest, Isa.for_name("avx2"), COMMON)
    assert low.kind == "guarded"
    assert "peel" in low.why
    assert low.plan == ()
    assert low.steps == low.nests[0].axes[0].extent


# --- the store ---------------------------------------------------------------------------------------------


def test_a_kernel_is_made_once_and_then_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESTRIDE_CACHE_DIR", str(tmp_path / "cache"))
    low = cpu.lower_nest(named("transpose").nest, Isa.for_name("avx2"), COMMON)
    made = objects.object_code(low)
    with monkeypatch.context() as patch:
        patch.setattr(compile_pool, "compile_ir", _never)
        again = cpu.lower_nest(named("transpose").nest, Isa.for_name("avx2"), COMMON)
        assert objects.object_code(again) == made
    monkeypatch.setenv("RESTRIDE_CACHE_DIR", "")
    assert objects.object_code(low) == made


def _never(*_: object) -> bytes:
    raise AssertionError("compiled again")


def test_kernels_of_other_facts_are_kept_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESTRIDE_CACHE_DIR", str(tmp_path / "cache"))
    desc = MemoryDesc((64, 64), "f32", "ab")
    nest = reorder_nest(desc, desc, Compute())
    avx2 = Isa.for_name("avx2")
    different = [
        cpu.lower_nest(nest, avx2, COMMON),
        cpu.lower_nest(nest, avx2, TINY),
        cpu.lower_nest(nest, avx2, TINY, may_stream=False),
        cpu.lower_nest(nest, Isa.for_name("avx512"), COMMON),
        cpu.lower_nest(replace(nest, compute=linear(scaled=True)), avx2, COMMON),
        cpu.lower_nest(replace(nest, dst_base=1), avx2, COMMON),
        cpu.lower_nest(replace(nest, src_type=DataType.s32), avx2, COMMON),
    ]
    for low in (*different, *different):
        assert objects.object_code(low) == jit.compile_ir(low.ir(), low.isa)


def test_another_revision_of_the_compiler_finds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESTRIDE_CACHE_DIR", str(tmp_path / "cache"))
    low = cpu.lower_nest(named("copy").nest, Isa.for_name("avx2"), COMMON)
    objects.object_code(low)
    monkeypatch.setattr(objects, "_revision", lambda: "another")
    monkeypatch.setattr(compile_pool, "compile_ir", lambda *_: b"new")
    assert objects.object_code(low) == b"new"
