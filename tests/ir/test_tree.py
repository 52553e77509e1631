"""Loop trees as values: equal where they are written alike, told as text, and checked."""

from __future__ import annotations

import pytest

from restride.desc.memory_desc import MemoryDesc
from restride.ir.expression import Affine, Const, Load, Ref, Scalar, TreeAxis, apply
from restride.ir.tree import Each, Fold, Let, LoopTree, Store, TreeTensor, fold_over
from support.trees import softmax_tree

MD = MemoryDesc((2, 17, 5, 3), "f32", "nChw16c")
ROW, COL = TreeAxis("i", 4), TreeAxis("j", 5)
X, Y = TreeTensor.row_major("x", (4, 5)), TreeTensor.row_major("y", (4,))


def test_equal_trees_are_equal_values() -> None:
    one, other = softmax_tree(MD, MD, 1), softmax_tree(MD, MD, 1)
    assert one == other
    assert hash(one) == hash(other)
    assert one != softmax_tree(MD, MD, 2)


def test_a_tree_reads_as_its_grammar() -> None:
    plain = MemoryDesc((2, 17), "f32", "ab")
    assert str(softmax_tree(plain, MemoryDesc((2, 17), "bf16", "aB16b"), 1)).splitlines() == [
        "src f32 2x17 + 0: 17/1, 1/1",
        "dst bf16 2x17 in 2x32 + 0: 32/1, 16/16 1/1",
        "each d0 2:",
        "  local row[17]",
        "  each c 17:",
        "    m = max(src[d0, c])",
        "  each c 17:",
        "    let e = exp_down(src[d0, c] - m)",
        "    row[c] = e",
        "    s = sum(e)",
        "  each c 17:",
        "    dst[d0, c] = row[c] / s",
    ]


def test_indices_are_sums() -> None:
    index = (ROW * 2 + COL - 3) // 2
    assert str(index) == "(2 * i + j - 3) / 2"
    assert (ROW + 0).axis == "i"
    assert index.axis is None
    assert str(ROW - ROW) == "0"
    assert X.load(0, COL) == Load("x", (Affine(), Affine((("j", 1),))))


def test_written_and_read_tensors() -> None:
    tree = softmax_tree(MD, MD, 1)
    assert tree.written == ("dst",)
    assert {load.tensor for load in tree.loads} == {"src", "row"}
    assert not tree.is_empty


_SUM = Each((COL,), (fold_over("sum", "s", X.load(ROW, COL)),))
_BAD = {
    "a fold in the outermost loop": LoopTree((X, Y), (Each((ROW, COL), _SUM.items),)),
    "is not defined": LoopTree((X, Y), (Each((ROW,), (Y.store((ROW,), Ref("s")), _SUM)),)),
    "known in its loop alone": LoopTree(
        (X, Y), (Each((ROW,), (Each((COL,), (Let("t", Const(1)),)), Y.store((ROW,), Ref("t")))),)
    ),
    "unknown axes": LoopTree((X, Y), (Each((ROW,), (Store("y", (Affine((("k", 1),)),), Const(0)),)),)),
    "exists already": LoopTree((X, Y), (Each((ROW,), (Each((ROW,), ()),)),)),
    "does not have 2 dims": LoopTree(
        (Y,), (Each((ROW, COL), (Store("y", X.load(ROW, COL).index, Const(0)),)),)
    ),
    "two tensors named": LoopTree((X, X), ()),
    "is not an operation": LoopTree((Y,), (Each((ROW,), (Y.store((ROW,), apply("halve", 1.0)),)),)),
    "has 1 operands": LoopTree((Y,), (Each((ROW,), (Y.store((ROW,), apply("add", 1.0)),)),)),
    "a different number of states": LoopTree(
        (X, Y), (Each((ROW,), (Each((COL,), (Fold("argmax", ("a",), (Const(1),)),)),)),)
    ),
    "scalar 0 does not exist": LoopTree((Y,), (Each((ROW,), (Y.store((ROW,), Scalar(0)),)),)),
}


@pytest.mark.parametrize("what", _BAD)
def test_faults_of_planners_are_found(what: str) -> None:
    with pytest.raises(ValueError, match="is not defined" if what == "known in its loop alone" else what):
        _BAD[what].verify()
