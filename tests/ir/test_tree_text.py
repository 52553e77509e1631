"""The text of loop trees: what `str` writes is read back as the same tree, and nothing else gets through."""

from __future__ import annotations

import math
import textwrap
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restride.desc.memory_desc import MemoryDesc
from restride.errors import InvalidArguments
from restride.ir import tree as module
from restride.ir.expression import (
    Affine,
    Const,
    Load,
    Ref,
    Scalar,
    TreeAxis,
)
from restride.ir.numbers import Number
from restride.ir.parse import parse_tree
from restride.ir.tree import Each, Let, LoopTree, TreeTensor
from support.gathers import CASES
from support.random_trees import trees
from support.trees import pointwise_trees, reduction_trees, softmax_tree, window_tree

_IMAGE = MemoryDesc((2, 17, 5, 3), "f32", "nChw16c")
_TREES = [
    softmax_tree(_IMAGE, MemoryDesc((2, 17, 5, 3), "bf16", "nhwc"), 1),
    window_tree(_IMAGE, MemoryDesc((2, 17, 3, 2), "u8", "nchw"), 3, 2, 1),
    *(case.tree() for case in CASES.values()),
]
_TEXTS = [str(tree) for tree in _TREES]


# --- there and back -----------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(trees())
def test_any_tree_is_read_back_as_it_is(tree: LoopTree) -> None:
    assert tree.verify() is tree
    assert parse_tree(str(tree)) == tree
    assert str(parse_tree(str(tree))) == str(tree)


@settings(max_examples=30, deadline=None)
@given(st.one_of(pointwise_trees(), reduction_trees()))
def test_trees_of_descriptors_are_read_back_as_they_are(case: tuple[LoopTree, list[MemoryDesc]]) -> None:
    assert parse_tree(str(case[0])) == case[0]


@pytest.mark.parametrize("tree", _TREES, ids=range(len(_TREES)))
def test_known_trees_are_read_back_as_they_are(tree: LoopTree) -> None:
    assert parse_tree(str(tree)) == tree


def test_the_grammar_and_its_examples_are_a_page_that_is_read() -> None:
    page = module.__doc__ or ""
    assert page.count("\n") < 60
    examples = [block for block in page.split("\n\n") if block.startswith("    src f32")]
    assert len(examples) == 2
    for text in examples:
        assert str(parse_tree(text)) == textwrap.dedent(text).rstrip()


@settings(max_examples=300)
@given(st.floats() | st.integers(-(2**63) + 1, 2**63 - 1))
def test_every_number_keeps_its_bits(number: float) -> None:
    (store,) = parse_tree(f"y f32 1\neach once:\n  y[0] = {Const(number)}").stores
    found = store.value.number
    assert found == number or (math.isnan(number) and math.isnan(found))
    assert math.copysign(1, found) == math.copysign(1, number) or math.isnan(number)


def test_what_is_written_by_hand_may_be_shorter() -> None:
    short = """
        # A running mean.
        tree 1 scalars

        x f32 3x4
        y f32 3x4                  # dense, row-major
        each r 3, c 4:
          y[r, c] = 1 - x[r, c] * 2 + scalar 0 / 4 / 2
    """
    (store,) = parse_tree(short).stores
    x = Load("x", (Affine((("r", 1),)), Affine((("c", 1),))))
    assert store.value == (1 - x * 2) + Scalar(0) / 4 / 2
    assert parse_tree(short).tensors[0] == TreeTensor.row_major("x", (3, 4))


# --- what is refused ----------------------------------------------------------------------------------------

_X = "x f32 4 + 0: 1/1\ny f32 4 + 0: 1/1\n"


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("x f33 4", 1, "a data type"),
        ("x f32 4x", 1, "a size"),
        ("x f32 4 + 0", 1, "':'"),
        ("x f32 4 + 0: 1", 1, "'/'"),
        ("tree in s8", 1, "a number"),
        ("tree", 1, "in NUMBER, a count of scalars, or backwards"),
        (_X + "y[0] = 1", 3, "a data type"),
        (_X + "each i 4\n  y[i] = 1", 3, "':'"),
        (_X + "each i:\n  y[i] = 1", 3, "an extent"),
        (_X + "each i 4 in turn:\n  y[i] = 1", 3, "order"),
        (_X + "each i 4:\n   y[i] = 1", 4, "2 spaces"),
        (_X + "each i 4:\n  y[i] = 1 2", 4, "the end of the line"),
        (_X + "each i 4:\n  y[i] = ", 4, "a number"),
        (_X + "each i 4:\n  y[i] = 1e", 4, "a number"),
        (_X + "each i 4:\n  y[i] = 1e999", 4, "a number"),
        (_X + "each i 4:\n  y[i] = -x[i]", 4, "a number"),
        (_X + "each i 4:\n  y[i = 1", 4, "','"),
        (_X + "each i 4:\n  y[i * 2] = 1", 4, "','"),
        (_X + "each i 4:\n  y[x[x[i]]] = 1", 4, "','"),
        (_X + "each i 4:\n  y[99999999999999999999] = 1", 4, "an axis or an integer"),
        (_X + "each i 4:\n  y[i] = 1\n  where 0 <= i < 2", 5, "'='"),
        (_X + "each i 4:\n  where 1 <= i < 2", 4, "'0'"),
        (_X + "each i 4:\n  let = 3", 4, "the name of a value"),
        (_X + "each i 4:\n  y[i] = index(i / 2)", 4, "')'"),
        ("each f32 4 + 0: 1/1", 1, "':'"),
        (_X + "each i 4:\n  y[i] = __import__('os').system('true')", 4, "a number"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line(text: str, line: int, why: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        parse_tree(text)
    error = caught.value
    assert (error.code, error.what) == ("RS-T01", f"loop tree: line {line} cannot be read")
    assert error.where == text.split("\n")[line - 1].strip()
    assert why in error.why
    assert error.hint


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        (_X + "each i 5:\n  y[i] = 1", 4, "index 0 of y, i, ranges from 0 to 4, but its size is 4"),
        (_X + "\n\n# where\neach i 4:\n\n  y[i] = x[i - 1]", 8, "ranges from -1 to 2"),
        (_X + "each i 4:\n  y[j] = 1", 4, "has unknown axes: j"),
        (_X + "each i 4:\n  each j 2:\n    let a = 1\n  y[i] = a", 6, "a is not defined"),
        (_X + "each i 4:\n  let a = 1\n  let a = 2", 5, "two values named"),
        (_X + "each i 4:\n  y[i] = x[i, i]", 4, "does not have 2 dims"),
        (_X + "each i 4:\n  y[i] = halve(x[i])", 4, "halve is not an operation"),
        (_X + "each i 4:\n  y[i] = max(1, 2, 3)", 4, "max has 3 operands"),
        (_X + "each i 4:\n  y[i] = scalar 0", 4, "scalar 0 does not exist"),
        ("tree in i32, 1 scalars\n" + _X + "each i 4:\n  y[i] = scalar 0", 5, "cannot use scalars"),
        ("tree in i32\n" + _X + "each i 4:\n  y[i] = exp(x[i])", 5, "exp needs real numbers"),
        (_X + "each i 4:\n  y[i] = and(x[i], 1)", 4, "and needs integers"),
        (_X + "each i 4:\n  each j 4:\n    s = average(x[j])\n  y[i] = s", 5, "average is not a fold"),
        (_X + "each i 4:\n  each j 4:\n    s = argmax(x[j])\n  y[i] = s", 5, "a different number of states"),
        (_X + "each i 4:\n  s = sum(x[i])", 4, "a fold in the outermost loop"),
        (_X + "each i 4:\n  each i 4:\n    y[i] = 1", 4, "the axis i exists already"),
        (_X + "each i -4:\n  y[i] = 1", 3, "the extent of i is negative"),
        (_X + "each i 4:\n  local x[3]", 4, "two tensors named"),
        (
            _X + "each i 4:\n  each j 1:\n    local r[3]\n  each j 1:\n    local r[4]",
            7,
            "two tensors named",
        ),
        (_X + "each i 4:\n  local r[3]\n  r[i] = 1", 5, "index 0 of r"),
        (_X + "each i 4:\n  where 0 <= i < -1", 4, "size is negative"),
        (_X + "each i 4, j 2:\n  y[i] = index(j)", 4, "positions of j write different values"),
        (_X + "each i 4, j 2:\n  y[i] = index(j)\n  y[i] = 3", 4, "positions of j write different values"),
        ("let f32 4 + 0: 1/1", 1, "'let' is not a valid name"),
        ("x f32 4 in 3 + 0: 1/1", 1, "fewer places than indices"),
        ("x f32 4x4 + 0: 1/1", 1, "2 sizes"),
        ("x f32 4 + 0: 1/4 8/2", 1, "must begin at 1"),
    ],
)
def test_what_does_not_hold_is_told_with_its_line(text: str, line: int, why: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        parse_tree(text)
    assert f"line {line} " in caught.value.what
    assert why in caught.value.why
    assert caught.value.where == text.split("\n")[line - 1].strip()
    assert caught.value.hint


def test_guards_keep_an_index_inside() -> None:
    """By themselves, as parts of an index, and with a divisor."""
    for index, guard in (
        ("i - 1", "0 <= i - 1 < 4"),
        ("2 * i + 2 * j - 3", "0 <= i + j - 2 < 2"),
        ("(i - j) / 2", "0 <= (i - j) / 2 < 4"),
    ):
        text = f"{_X}z f32 9x3\neach i 9, j 3:\n  where {guard}\n  z[i, j] = x[{index}]"
        if index.startswith("2"):
            text = text.replace("2 * i + 2 * j - 3", "2 * i + 2 * j - 4")
        parse_tree(text)
        with pytest.raises(InvalidArguments, match="ranges from"):
            parse_tree(text.replace(f"  where {guard}\n", ""))


def test_a_tree_that_is_made_is_refused_with_the_line_of_its_own_text() -> None:
    i = TreeAxis("i", 4)
    y = TreeTensor.row_major("y", (4,))
    tree = LoopTree((y,), (Each((i,), (Let("a", Const(1)), y.store((i + 1,), Ref("a")))),), number=Number.f64)
    with pytest.raises(InvalidArguments) as caught:
        tree.verify()
    assert caught.value.what == "loop tree: line 5 is invalid"
    assert caught.value.where == "y[i + 1] = a"


# --- bounds -------------------------------------------------------------------------------------------------

_MANY = 1 << 18


def _refusal(text: str) -> InvalidArguments | None:
    try:
        parse_tree(text)
    except InvalidArguments as error:
        return error
    return None


@pytest.mark.parametrize(
    "text",
    [
        "(" * (1 << 20),
        f"{_X}each i 4:\n  y[i] = " + "(" * (_MANY - 99),
        f"{_X}each i 4:\n  y[i] = " + "exp(" * 64_000,
        f"{_X}each i 4:\n  y[i] = " + "x[" * 130_000,
        f"{_X}each i 4:\n  y[i] = " + "1 + " * 64_000,
        f"{_X}each i 4:\n  y[i] = " + "1 + " * 90 + "(" * 90 + "1 * " * 90 + "1",
        f"{_X}each i 4:\n  y[i] = " + "((1 + " * 80 + "1" + ") * 2)" * 80 + " * 3" * 80,
        f"{_X}each i 4:\n  y[i] = " + "9" * (_MANY - 99),
        f"{_X}each i 4:\n  y[i] = 1e" + "9" * 1000,
        f"{_X}each i 4:\n  y[" + "i + " * 64_000,
        f"{_X}each i 4:\n  y[" + " + ".join(f"i{n}" for n in range(25_000)),
        "".join(f"{'  ' * n}each a{n} 1:\n" for n in range(1000)),
        "x f32 " + "1x" * 130_000,
        "x f32 1 + 0: " + "1/1 " * 50_000,
        "x f32 1 + 0: 1/1\n" * 15_000,
        " " * (_MANY - 9) + "x",
        "\n" * _MANY,
        "each " + "a 1, " * 50_000,
    ],
    ids=range(18),
)
def test_long_texts_are_refused_or_read_quickly(text: str) -> None:
    before = time.perf_counter()
    error = _refusal(text)
    assert error is None or len(str(error)) < 2000
    assert time.perf_counter() - before < 10


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(_TEXTS), st.data())
def test_changed_texts_never_do_more_than_be_refused(text: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 4))):
        low = data.draw(st.integers(0, len(text)))
        high = min(len(text), low + data.draw(st.integers(0, 12)))
        other = data.draw(st.sampled_from(_TEXTS))
        start = data.draw(st.integers(0, len(other)))
        piece = data.draw(
            st.sampled_from(
                ("", " ", "\n", "(", "]", "-", "0", "9" * 20, "in order", "é", "\t", "each", "nan", "\x00")
            )
            | st.just(other[start : start + 20])
            | st.text(max_size=6)
        )
        text = text[:low] + piece + text[high:]
    error = _refusal(text)
    assert error is None or error.code in ("RS-T01", "RS-T02")
    assert error is not None or parse_tree(str(parse_tree(text))) == parse_tree(text)


@pytest.mark.parametrize("text", [None, 3, b"each once:", ["each once:"]])
def test_what_is_no_text_is_refused(text: object) -> None:
    with pytest.raises(InvalidArguments) as caught:
        parse_tree(text)  # type: ignore[arg-type]
    assert caught.value.code == "RS-T01"


@pytest.mark.parametrize("guard", ["", "  where 0 <= a < 9\n", "  where 0 <= a < 2\n"])
def test_a_guard_that_leaves_several_positions_tells_no_elements_apart(guard: str) -> None:
    with pytest.raises(InvalidArguments, match="positions of a write different values"):
        parse_tree(f"x f32 4 + 0: 1/1\ny f32 one + 0:\neach a 4:\n{guard}  y[] = x[a]\n")
    one = parse_tree("x f32 4 + 0: 1/1\ny f32 one + 0:\neach a 4:\n  where 0 <= a - 3 < 1\n  y[] = x[a]\n")
    assert len(one.items) == 1
