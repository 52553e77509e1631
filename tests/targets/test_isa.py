"""Instruction sets: levels, caps by oneDNN's names, and what the host has."""

import dataclasses
import os
import re
import subprocess
import sys

import pytest

from restride.errors import InvalidArguments
from restride.targets import isa, jit
from restride.targets.isa import CacheSizes, Isa

V2 = dict.fromkeys(("cx16", "popcnt", "sse4.1", "sse4.2", "ssse3"), True)
V3 = V2 | dict.fromkeys(("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"), True)
V4 = V3 | dict.fromkeys(("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"), True)
SAPPHIRE = V4 | dict.fromkeys(
    ("avx512vbmi", "avx512vbmi2", "gfni", "avx512vnni", "avx512bf16", "avxvnni", "amx-int8"), True
)
TRIPLE = "x86_64-unknown-linux-gnu"

SHUFFLE = """
define void @kernel(ptr %src, ptr %dst) {
  %x = load <64 x i8>, ptr %src, align 1
  %y = shufflevector <64 x i8> %x, <64 x i8> poison, <64 x i32> <MASK>
  %f = load <16 x float>, ptr %src, align 1
  %g = fmul <16 x float> %f, %f
  %h = fadd <16 x float> %g, %f
  store <64 x i8> %y, ptr %dst, align 1
  %d = getelementptr i8, ptr %dst, i64 64
  store <16 x float> %h, ptr %d, align 1
  ret void
}
""".replace("MASK", ", ".join(f"i32 {(7 * lane + 3) % 64}" for lane in range(64)))


@pytest.mark.parametrize(
    ("features", "level"),
    [({}, "generic"), (V2, "sse41"), (V3, "avx2"), (V4, "avx512"), (SAPPHIRE, "avx512")],
)
def test_best_level_that_the_host_has(features, level):
    assert isa.choose("x86_64", TRIPLE, features).name == level


@pytest.mark.parametrize("missing", sorted(V4))
def test_a_level_needs_all_of_its_parts_and_of_the_levels_below(missing):
    features = V4 | {missing: False}
    chosen = isa.choose("x86_64", TRIPLE, features)
    assert chosen.name != "avx512"


def test_extras_only_where_the_host_has_them():
    assert not isa.choose("x86_64", TRIPLE, V4).has("avx512vbmi")
    chosen = isa.choose("x86_64", TRIPLE, SAPPHIRE)
    assert all(chosen.has(extra) for extra in ("avx512vbmi", "avx512vnni", "avx512bf16"))
    assert not chosen.has("amx-int8")
    assert not isa.choose("x86_64", TRIPLE, SAPPHIRE, extras=()).has("gfni")
    assert isa.choose("x86_64", TRIPLE, V3 | {"avxvnni": True}).features == "+avxvnni"


@pytest.mark.parametrize(
    ("cap", "extras"),
    [
        ("avx2", set()),
        ("AVX2_VNNI", {"avxvnni"}),
        ("AVX512_CORE", set()),
        ("AVX512_CORE_VNNI", {"avx512vnni"}),
        ("AVX512_CORE_BF16", {"avx512vnni", "avx512bf16"}),
        ("ALL", {"avx512vbmi", "avx512vbmi2", "gfni", "avx512vnni", "avx512bf16"}),
    ],
)
def test_a_cap_says_which_extras_may_be_used(cap, extras):
    level, allowed = isa._parse_cap("", cap)
    chosen = isa.choose("x86_64", TRIPLE, SAPPHIRE, level, allowed)
    added = {each[1:] for each in chosen.features.split(",") if each.startswith("+")} - {"fast-dpwssd"}
    assert added == extras


def test_an_aarch64_has_bf16_where_it_says_so():
    chosen = isa.choose("aarch64", "aarch64-unknown-linux-gnu", {"bf16": True})
    assert chosen.has("bf16")
    assert not isa.choose("aarch64", "", {"bf16": True}, extras=()).has("bf16")
    assert isa.choose("aarch64", chosen.triple, {"bf16": False}) == Isa.for_name("neon")


@pytest.mark.parametrize(
    ("machine", "level"), [("aarch64", "neon"), ("arm64", "neon"), ("riscv64", "generic")]
)
def test_other_machines(machine, level):
    chosen = isa.choose(machine, f"{machine}-unknown-linux-gnu", {})
    assert (chosen.name, chosen.vector_bytes) == (level, 16)


@pytest.mark.parametrize("name", ["avx512", "avx2", "sse41", "neon", "generic"])
def test_every_level_compiles_on_any_host(name):
    level = Isa.for_name(name)
    assert level.name == name
    assert jit.compile_ir(SHUFFLE, level).startswith(b"\x7fELF")


def test_unknown_level_lists_the_known_ones():
    with pytest.raises(InvalidArguments, match="avx2, avx512"):
        Isa.for_name("avx9")


def test_isa_is_a_value():
    assert Isa.for_name("avx2") == dataclasses.replace(Isa.for_name("avx2"))
    assert hash(Isa.for_name("avx2")) == hash(dataclasses.replace(Isa.for_name("avx2")))
    with pytest.raises(dataclasses.FrozenInstanceError):
        Isa.for_name("avx2").name = "x"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("level", "used", "unused"),
    [
        ("generic", "xmm", ("pshufb", "ymm", "zmm", "vmov", "fma")),
        ("sse41", "pshufb", ("ymm", "zmm", "vmov", "fma")),
        ("avx2", "ymm", ("zmm", "vfmadd")),
        ("avx512", "zmm", ("vpermb", "vfmadd")),
    ],
)
def test_code_of_a_level_stays_within_it_and_never_contracts(level, used, unused):
    text = jit.assembly(SHUFFLE, Isa.for_name(level))
    assert used in text
    assert not [word for word in unused if word in text]


CAPS = [
    ("SSE41", 16),
    ("sse41", 16),
    ("AVX", 16),
    ("AVX2", 32),
    ("Avx2_Vnni", 32),
    ("AVX512_CORE", 64),
    ("AVX512_CORE_VNNI", 64),
    ("AVX512_CORE_BF16", 64),
    ("AVX512_CORE_FP16", 64),
    ("DEFAULT", 64),
    ("ALL", 64),
    (" all ", 64),
    ("", 64),
    (" ", 64),
    ("avx512", 64),
    ("avx2", 32),
    ("generic", 16),
    ("neon", 64),
]


@pytest.mark.parametrize(("cap", "most"), CAPS)
def test_caps_lower_the_host(monkeypatch, cap, most):
    monkeypatch.delenv("RESTRIDE_MAX_CPU_ISA", raising=False)
    best = isa.host_isa()
    monkeypatch.setenv("RESTRIDE_MAX_CPU_ISA", cap)
    assert isa.host_isa().vector_bytes == (min(best.vector_bytes, most) if "x86" in best.triple else 16)


def test_avx512_core_excludes_later_extensions(monkeypatch):
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
    monkeypatch.delenv("RESTRIDE_MAX_CPU_ISA", raising=False)
    assert "vbmi" not in isa.host_isa().features


@pytest.mark.parametrize("cap", ["bogus", "AVX3", "AVX2;", "avx-2", "\x00"[:0] + "0", "x" * 10_000])
def test_unknown_cap_is_an_error_that_lists_the_legal_names(monkeypatch, cap):
    monkeypatch.setenv("RESTRIDE_MAX_CPU_ISA", cap)
    with pytest.raises(InvalidArguments, match="AVX512_CORE_BF16") as caught:
        isa.host_isa()
    assert len(caught.value.message) < 2000


@pytest.mark.parametrize("variable", ["RESTRIDE_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"])
def test_the_error_names_the_variable_that_was_set(monkeypatch, variable):
    for prefix in ("RESTRIDE", "ONEDNN", "DNNL"):
        monkeypatch.delenv(f"{prefix}_MAX_CPU_ISA", raising=False)
    monkeypatch.setenv(variable, "bogus")
    with pytest.raises(InvalidArguments, match=f"environment variable {variable} is not usable") as caught:
        isa.host_isa()
    assert caught.value.where == f"{variable}='bogus'"
    assert {"NEON", "AVX512", "AVX2", "SSE41", "GENERIC"} <= set(re.findall("[A-Z0-9_]+", caught.value.hint))


def test_llvm_is_not_loaded_by_the_import():
    code = "import sys, restride.runtime.cpu.thread_pool; sys.exit('llvmlite.binding' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


def _write_caches(folder, rows):
    for index, values in enumerate(rows):
        entry = folder / f"index{index}"
        entry.mkdir()
        for name, text in zip(("level", "type", "size", "coherency_line_size"), values, strict=True):
            (entry / name).write_text(text + "\n")


def test_cache_sizes_are_read(tmp_path):
    rows = [("1", "Data", "48K", "128"), ("1", "Instruction", "64K", "64")]
    _write_caches(tmp_path, [*rows, ("2", "Unified", "2M", "64"), ("3", "Unified", "1G", "64")])
    assert isa.read_caches(str(tmp_path)) == CacheSizes(48 << 10, 2 << 20, 1 << 30, 128)


def test_second_level_is_the_last_where_there_is_no_third(tmp_path):
    _write_caches(tmp_path, [("1", "Data", "32K", "64"), ("2", "Unified", "512K", "64")])
    assert isa.read_caches(str(tmp_path)).l3 == 512 << 10


@pytest.mark.parametrize("size", ["", "K", "lots", "-4K", "0K", "٣K"])
def test_usual_sizes_where_the_system_tells_nothing(tmp_path, size):
    _write_caches(tmp_path, [("1", "Data", size, "")])
    assert isa.read_caches(str(tmp_path)) == CacheSizes()
    assert isa.read_caches(str(tmp_path / "absent")) == CacheSizes()


def test_host_caches_are_plausible():
    caches = isa.host_caches()
    assert 4 << 10 <= caches.l1d <= caches.l2 <= caches.l3
    assert caches.line in (32, 64, 128, 256)
