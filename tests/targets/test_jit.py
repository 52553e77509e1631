"""LLVM IR text to machine code in this process."""

import concurrent.futures
import ctypes
import gc
import math
import mmap
import pathlib
import subprocess
import sys

import pytest

from restride.emit.builder import Builder, Value
from restride.emit.kernel import module_text
from restride.errors import RuntimeFailure
from restride.targets import jit
from restride.targets.isa import Isa, host_isa

ANSWER = "define i32 @answer() {\n  ret i32 42\n}\n"


def _function(library, symbol, result, *arguments):
    function = ctypes.CFUNCTYPE(result, *arguments)(library.address(symbol))
    function.owner = library
    return function


def _load(text):
    return jit.load(jit.compile_ir(text, host_isa()))


def test_code_runs():
    assert _function(_load(ANSWER), "answer", ctypes.c_int)() == 42


def test_all_symbols_of_a_library_live_as_long_as_it():
    library = _load(ANSWER + ANSWER.replace("42", "43").replace("answer", "other"))
    first, second = library.address("answer"), library.address("other")
    gc.collect()
    assert ctypes.CFUNCTYPE(ctypes.c_int)(first)() == 42
    assert ctypes.CFUNCTYPE(ctypes.c_int)(second)() == 43
    assert library.address("answer") == first


def test_closing_unloads_and_says_so_afterward():
    library = _load(ANSWER)
    library.address("answer")
    library.close()
    library.close()
    with pytest.raises(RuntimeFailure, match="closed"):
        library.address("answer")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_code_is_unloaded_with_its_library():
    library = _load(ANSWER)
    address = library.address("answer")
    assert _is_mapped(address)
    del library
    gc.collect()
    assert not _is_mapped(address)


def _is_mapped(address):
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(end, 16) for end in line.split()[0].split("-"))
        if first <= address < last:
            return True
    return False


def test_constants_and_tables_are_reached():
    mask = ", ".join(f"i32 {(11 * lane + 5) % 64}" for lane in range(64))
    table = ", ".join(f"i64 {index * index}" for index in range(5000))
    text = f"""
    @squares = internal constant [5000 x i64] [{table}]
    @counter = global i64 7
    define void @permute(ptr %src, ptr %dst) {{
      %x = load <64 x i8>, ptr %src, align 1
      %y = shufflevector <64 x i8> %x, <64 x i8> poison, <64 x i32> <{mask}>
      store <64 x i8> %y, ptr %dst, align 1
      ret void
    }}
    define i64 @square(i64 %i) {{
      %p = getelementptr [5000 x i64], ptr @squares, i64 0, i64 %i
      %v = load i64, ptr %p
      ret i64 %v
    }}
    define i64 @count() {{
      %v = load i64, ptr @counter
      %n = add i64 %v, 1
      store i64 %n, ptr @counter
      ret i64 %n
    }}
    """
    library = _load(text)
    source, result = ctypes.create_string_buffer(bytes(range(64)), 64), ctypes.create_string_buffer(64)
    _function(library, "permute", None, ctypes.c_char_p, ctypes.c_char_p)(source, result)
    assert list(result.raw) == [(11 * lane + 5) % 64 for lane in range(64)]
    square = _function(library, "square", ctypes.c_int64, ctypes.c_int64)
    assert [square(i) for i in (0, 3, 4999)] == [0, 9, 4999**2]
    assert _function(library, "count", ctypes.c_int64)() == 8
    assert ctypes.c_int64.from_address(library.address("counter")).value == 8


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="maps memory that is never touched")
def test_constants_stay_in_reach_when_memory_is_scattered():
    # A reservation of 4 GiB after each load drives the next object's pages apart from the last one's.
    text = "@v = constant [4 x i32] [i32 1, i32 2, i32 3, i32 4]\n" + ANSWER.replace(
        "ret i32 42", "%p = getelementptr i32, ptr @v, i32 2\n %x = load i32, ptr %p\n ret i32 %x"
    )
    kept = []
    for _ in range(6):
        library = _load(text)
        assert _function(library, "answer", ctypes.c_int)() == 3
        kept.append((library, mmap.mmap(-1, 4 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=0)))


def test_c_library_resolves():
    text = """
    declare ptr @memcpy(ptr, ptr, i64)
    declare ptr @memset(ptr, i32, i64)
    declare i32 @pthread_create(ptr, ptr, ptr, ptr)
    define ptr @copy(ptr %dst, ptr %src) {
      %a = call ptr @memset(ptr %dst, i32 1, i64 8)
      %b = call ptr @memcpy(ptr %dst, ptr %src, i64 4)
      ret ptr @pthread_create
    }
    """
    target = ctypes.create_string_buffer(8)
    copy = _function(_load(text), "copy", ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
    assert copy(target, b"abcd")
    assert target.raw == b"abcd\1\1\1\1"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nonsense", "expected top-level entity"),
        ("define i32 @f() {\n  ret i64 0\n}", "doesn't match"),
        ("define i32 @f() {\n  %x = add i32 %y, 1\n  %y = add i32 %x, 1\n  ret i32 %x\n}", "dominate"),
        ("define void @f(", "expected"),
        (ANSWER + "\x00", "NUL"),
    ],
)
def test_bad_text_is_an_error(text, why):
    with pytest.raises(RuntimeFailure, match=why):
        jit.compile_ir(text, host_isa())


def test_unknown_symbol_is_an_error():
    with pytest.raises(RuntimeFailure, match="absent"):
        _load(ANSWER).address("absent")


def test_unresolved_reference_is_an_error():
    library = _load(
        "declare void @restride_no_such()\ndefine void @f() {\n call void @restride_no_such()\n ret void\n}"
    )
    with pytest.raises(RuntimeFailure, match="f"):
        library.address("f")


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"garbage" * 100, b"\x7fELF" + bytes(200)])
def test_bytes_that_are_no_object_are_an_error(data):
    with pytest.raises(RuntimeFailure):
        jit.load(data).address("answer")


def test_unknown_target_is_an_error():
    with pytest.raises(RuntimeFailure):
        jit.compile_ir(ANSWER, Isa("x", 16, "nosuch-unknown-none", "", ""))


def test_same_text_gives_the_same_code():
    assert jit.compile_ir(ANSWER, host_isa()) == jit.compile_ir(ANSWER, host_isa())


def test_other_targets_compile_without_their_machine():
    neon = Isa.for_name("neon")
    assert "ret" in jit.assembly(ANSWER, neon)
    assert jit.compile_ir(ANSWER, neon)[18:20] == b"\xb7\x00"  # EM_AARCH64


def test_helpers_are_inlined():
    text = """
    define internal i32 @helper(i32 %x) alwaysinline {
      %y = mul i32 %x, 3
      ret i32 %y
    }
    define i32 @outer(i32 %x) {
      %y = call i32 @helper(i32 %x)
      ret i32 %y
    }
    """
    assert "call" not in jit.assembly(text, host_isa())


def test_multiply_and_add_round_twice():
    text = """
    define double @f(double %a, double %b, double %c) {
      %m = fmul double %a, %b
      %s = fadd double %m, %c
      ret double %s
    }
    """
    function = _function(_load(text), "f", ctypes.c_double, *[ctypes.c_double] * 3)
    a, b = 1 + 2**-30, 1 - 2**-30
    assert function(a, b, -1.0) == a * b - 1.0 == 0.0
    assert math.copysign(1, function(-1.0, 0.0, -0.0)) == -1


def test_many_threads_compile_load_and_unload():
    def work(seed):
        library = _load(ANSWER.replace("42", str(seed)))
        return ctypes.CFUNCTYPE(ctypes.c_int)(library.address("answer"))()

    with concurrent.futures.ThreadPoolExecutor(8) as executor:
        assert list(executor.map(work, range(48))) == list(range(48))


def test_code_is_kept_until_the_process_has_ended():
    code = (
        "from restride.targets import jit, isa\n"
        "import atexit\n"
        f"library = jit.load(jit.compile_ir({ANSWER!r}, isa.host_isa()))\n"
        "print(library.address('answer') != 0)\n"
        "class Last:\n"
        "    def __del__(self): self.library.address('answer')\n"
        "last = Last(); last.library = library; last.self = last\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=600
    )
    assert (done.returncode, done.stdout.strip()) == (0, "True")


def test_blocks_that_were_cut_stay_apart_and_their_table_reaches_no_object_code():
    builder = Builder()
    with builder.loop(Value("i64", "0"), Value("i64", "%part")) as step:
        # A division is what changes a function before its blocks would be merged.
        at = builder.advance(Value("ptr", "%dst"), builder.op("urem", step, Value("i64", "%parts")))
        for place in range(3):
            builder.start_block()
            builder.line(f"store i8 {place}, {builder.advance(at, 64 * place)}, align 1")
    builder.line("ret void")
    text = module_text(builder)
    isa = Isa.for_name("avx512")
    merged = "\n".join(line for line in text.splitlines() if not line.startswith("@cuts"))
    assert [jit.assembly(code, isa).count("\n.Ltmp") for code in (text, merged)] == [3, 0]
    assert b"cuts" not in jit.compile_ir(text, isa)
