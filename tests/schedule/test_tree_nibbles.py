"""Loop trees on tensors of 4 bits: bytes as they are where vectors take whole ones, floats in between else;
and loops that compute in other numbers than their tree."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from restride.desc.memory_desc import MemoryDesc
from restride.dtypes import DataType
from restride.errors import InvalidArguments
from restride.ir.expression import TreeAxis, apply
from restride.ir.interpret_tree import interpret_tree
from restride.ir.parse import parse_tree
from restride.ir.program import DST, SRC, Place, Program, Slot, TreeStep
from restride.ir.tree import Each, LoopTree, TreeTensor
from restride.runtime.cpu.executable import CpuExecutable
from restride.schedule.language import Transform
from restride.schedule.trees.transforms import apply as applied
from restride.targets.isa import CacheSizes, Isa
from support.kernels import isa_id, runnable

_KINDS = ("s4", "u4", "f4_e2m1", "f4_e3m0", "nf4")
_PAIRS = (*(("f32", kind) for kind in _KINDS), *((kind, "f32") for kind in _KINDS), ("s4", "u4"))
_each_isa = pytest.mark.parametrize("isa", runnable(), ids=isa_id)


def _tree(src: MemoryDesc, dst: MemoryDesc) -> LoopTree:
    x, y = TreeTensor.of_desc("src", src), TreeTensor.of_desc("dst", dst)
    axes = tuple(TreeAxis(f"d{dim}", n) for dim, n in enumerate(src.dims))
    value = apply("max", x.load(*axes) * 1.5, -3.0)
    return LoopTree((x, y), (Each(axes, (y.store(axes, value),)),)).verify()


def _program(tree: LoopTree) -> Program:
    places = Place(SRC), Place(DST)
    return Program((Slot(SRC), Slot(DST, is_written=True)), (TreeStep(tree, places, 1 << 10),)).verify()


@_each_isa
@pytest.mark.parametrize("tag", ["ab", "ba"])
@pytest.mark.parametrize("dims", [(6, 64), (3, 46), (4, 33), (5, 7)])
@pytest.mark.parametrize(
    "kinds", [("f32", k) for k in _KINDS] + [(k, "f32") for k in _KINDS] + [("s4", "u4")]
)
def test_elements_of_4_bits_are_what_the_tree_says(
    kinds: tuple[str, str], dims: tuple[int, int], tag: str, isa: Isa
) -> None:
    src, dst = (MemoryDesc(dims, kind, tag) for kind in kinds)
    x = rs.Memory(src, rs.Engine("cpu"))
    rs.reorder(5 * np.random.default_rng(1).standard_normal(dims).astype(np.float32), None, out=x)
    found, wanted = (np.full(dst.size + 1, 0x5A, np.uint8) for _ in range(2))
    tree = _tree(src, dst)
    executable = CpuExecutable(_program(tree), isa, CacheSizes())
    executable.run(x.get_data_handle(), found.ctypes.data, 0)
    flats = (x.data.reshape(-1).view(np.uint8), wanted[: dst.size])
    views = [
        flat if md.data_type.bits < 8 else flat.view(np.uint32)
        for flat, md in zip(flats, (src, dst), strict=True)
    ]
    interpret_tree(tree, views)
    np.testing.assert_array_equal(found, wanted)
    # Rows of an odd number of elements tear bytes, but where all of them are one run.
    assert bool(executable.program.temporaries) == (dims == (5, 7))


def test_schedules_that_tear_bytes_are_refused() -> None:
    tree = _tree(MemoryDesc((6, 64), "f32"), MemoryDesc((6, 64), DataType.s4))
    with pytest.raises(InvalidArguments, match="would be split"):
        applied(tree, (Transform("vectorize", ("d0/1", 4)),))


_NUMBERS = """x f32 8x16
y f32 8
each once:
  local bits[8]
  each r 8 in i32:
    each c 16:
      m = max(and(x[r, c], 2147483647))
    bits[r] = m
  each r 8:
    y[r] = bits[r] * 2"""


@_each_isa
def test_a_loop_of_other_numbers_passes_them_on_through_tensors(isa: Isa) -> None:
    tree = parse_tree(_NUMBERS)
    assert parse_tree(str(tree)) == tree
    x = np.random.default_rng(2).standard_normal((8, 16)).astype(np.float32)
    found, wanted = np.zeros(8, np.float32), np.zeros(8, np.float32)
    CpuExecutable(_program(tree), isa, CacheSizes()).run(x.ctypes.data, found.ctypes.data, 0)
    interpret_tree(tree, (x.reshape(-1).view(np.uint32), wanted.view(np.uint32)))
    np.testing.assert_array_equal(found, 2 * np.abs(x).max(1))
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("    bits[r] = m", "    bits[r] = sqrt(m)", "sqrt needs real numbers"),
        (
            "each r 8 in i32:\n    each c 16:",
            "each r 8:\n    each c 16 in i32:",
            "its results are numbers of i32",
        ),
        ("    y[r] = bits[r] * 2", "    y[r] = and(bits[r], 1)", "and needs integers"),
    ],
)
def test_values_do_not_go_from_one_number_to_another(old: str, new: str, why: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        parse_tree(_NUMBERS.replace(old, new))
    assert why in str(caught.value)
