"""Object code in memory without LLVM: the same functions, and what is left to LLVM."""

from __future__ import annotations

import ctypes
import platform
import random
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from restride.targets import jit
from restride.targets.isa import host_isa
from restride.targets.mapped_code import mapped_code

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or sys.platform != "linux", reason="elsewhere LLVM links"
)

# A table of constants, a call inside, a call of the C library.
TEXT = """
@table = internal constant [4 x i32] [i32 3, i32 1, i32 4, i32 15]
declare i64 @strlen(ptr)
@word = internal constant [6 x i8] c"abcde\\00"
define internal i32 @inner(i32 %i) noinline {
  %at = getelementptr [4 x i32], ptr @table, i32 0, i32 %i
  %value = load i32, ptr %at
  ret i32 %value
}
define i32 @outer(i32 %i) {
  %value = call i32 @inner(i32 %i)
  %long = call i64 @strlen(ptr @word)
  %short = trunc i64 %long to i32
  %sum = add i32 %value, %short
  ret i32 %sum
}
define double @scaled(double %x) {
  %y = fmul double %x, 0.1
  ret double %y
}
"""


def compiled(text: str) -> bytes:
    return jit.compile_ir(text, host_isa())


def test_constants_calls_and_functions_of_the_system_are_reached() -> None:
    code = mapped_code(compiled(TEXT))
    assert code is not None
    outer = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(code.symbols["outer"])
    assert [outer(i) for i in range(4)] == [8, 6, 9, 20]
    scaled = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(code.symbols["scaled"])
    assert scaled(7.0) == 7.0 * 0.1
    code.close()
    code.close()


def test_no_page_is_written_and_executed() -> None:
    code = mapped_code(compiled(TEXT))
    assert code is not None
    for line in Path("/proc/self/maps").read_text().splitlines():
        ends, rights = line.split()[:2]
        low, high = (int(end, 16) for end in ends.split("-"))
        if low <= code.symbols["outer"] < high:
            assert rights.startswith("r-x")
            return
    pytest.fail("the code is nowhere")


@pytest.mark.parametrize(
    "text",
    [
        "@x = global i32 3\ndefine ptr @f() {\n ret ptr @x\n}",
        "@x = thread_local global i32 3\ndefine i32 @f() {\n %v = load i32, ptr @x\n ret i32 %v\n}",
        "declare void @restride_no_such()\ndefine void @f() {\n call void @restride_no_such()\n ret void\n}",
        "@x = external global i32\ndefine i32 @f() {\n %v = load i32, ptr @x\n ret i32 %v\n}",
    ],
    ids=["data that is written", "data of threads", "a function that is nowhere", "data of others"],
)
def test_what_kernels_have_not_is_left_to_llvm(text: str) -> None:
    assert mapped_code(compiled(text)) is None


def test_damaged_objects_are_left_to_llvm() -> None:
    data, rng = compiled(TEXT), random.Random(0)
    for length in range(0, len(data), 17):
        code = mapped_code(data[:length])
        if code is not None:
            code.close()
    for _ in range(200):
        changed = bytearray(data)
        changed[rng.randrange(len(data))] = rng.randrange(256)
        code = mapped_code(bytes(changed))
        if code is not None:
            code.close()


def test_other_machines_objects_are_left_to_llvm() -> None:
    data = bytearray(compiled(TEXT))
    struct.pack_into("<H", data, 18, 183)
    assert mapped_code(bytes(data)) is None


def test_libraries_are_loaded_and_looked_up_without_llvm() -> None:
    path = "import sys; from restride.targets import jit; code = bytes.fromhex(sys.stdin.read());"
    code = f"{path} library = jit.load(code); print(library.address('outer') > 0, 'llvmlite' in sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, input=compiled(TEXT).hex(), capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["True", "False"], done.stderr
