"""The functions of object code, as its symbol table has them."""

from __future__ import annotations

import pytest

from restride.targets.isa import Isa
from restride.targets.jit import compile_ir
from restride.targets.symbols import function_sizes

IR = """
@table = global i64 7
declare void @elsewhere()
define i64 @short(i64 %x) {
  ret i64 %x
}
define i64 @longer(i64 %x) {
  %y = load volatile i64, ptr @table
  %z = mul i64 %x, %y
  call void @elsewhere()
  ret i64 %z
}
define internal i64 @hidden(i64 %x) noinline {
  ret i64 3
}
"""


@pytest.mark.parametrize("level", ["avx2", "neon"])
def test_functions_are_found_with_their_sizes(level):
    sizes = function_sizes(compile_ir(IR, Isa.for_name(level)))
    assert set(sizes) == {"short", "longer"}
    assert 0 < sizes["short"] < sizes["longer"]


@pytest.mark.parametrize("code", [b"", b"\x7fELF", b"\xcf\xfa\xed\xfe" + bytes(60), bytes(100)])
def test_other_forms_have_no_functions_that_are_known(code):
    assert function_sizes(code) == {}
