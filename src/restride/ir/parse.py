"""Parser from the text of a loop tree to the tree: the inverse of `str`. It never executes its input.

Recursive descent, with a line for each tensor, loop, guard, local tensor and item; the body of a loop is
indented by two spaces. Beyond the output of `str`, it accepts empty lines, comments from `#` to the end of a
line, operators without parentheses (`*` and `/` before `+` and `-`), and tensors without places, which are
dense and row-major.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import isinf
from string import ascii_letters, digits
from typing import TypeVar

from ..dtypes import DataType
from ..errors import Error, refuse
from .digits import IndexDigit
from .expression import Affine, Apply, Const, Coordinate, Expr, Index, Load, Ref, Scalar, TreeAxis
from .numbers import Number
from .tree import Each, Fold, Guard, Item, Let, LoopTree, Store, TreeTensor

# The limits of a text: characters, nested loops and operations, digits of a number.
_MOST_TEXT, _MOST_LOOPS, _MOST_DEPTH, _MOST_DIGITS = 1 << 18, 32, 100, 19
# The characters of a line that a message shows.
_SHOWN = 90
_TOO_DEEP = f"no more than {_MOST_DEPTH} nested operations", "name parts of it with let"
_OPERATORS = {"+": "add", "-": "sub", "*": "mul", "/": "div"}

# The same as in `is_name`.
_BEGIN_NAMES = frozenset(f"{ascii_letters}_")
_IN_NAMES = _BEGIN_NAMES.union(f"{digits}.")

T = TypeVar("T")


def parse_tree(text: str) -> LoopTree:
    """Parse a text into a verified tree: `parse_tree(str(tree)) == tree`.

    Raises InvalidArguments (RS-T01, RS-T02) with the offending line.
    """
    if not isinstance(text, str):
        raise refuse("RS-T01:no-text", type=type(text).__name__)
    if len(text) > _MOST_TEXT:
        raise refuse("RS-T01:too-long", count=len(text), most=_MOST_TEXT)
    parser = _TreeParser(list(_lines_of(text)))
    return parser.tree().verify([(line.number, line.text) for line in parser.lines])


def _lines_of(text: str) -> Iterator[_TreeLine]:
    first = None
    for number, raw in enumerate(text.split("\n"), 1):
        whole = raw.partition("#")[0].rstrip()
        line = whole.lstrip(" ")
        if line:
            indent = len(whole) - len(line)
            first = indent if first is None else first
            yield _TreeLine(number, line, indent - first)


@dataclass
class _TreeLine:
    """A line, read from left to right: everything before `at` has been read."""

    number: int
    text: str
    indent: int
    at: int = 0

    def fault(self, expected: str, hint: str = "str(tree) shows how a tree is written") -> Error:
        first = max(0, min(self.at - _SHOWN // 2, len(self.text) - _SHOWN))
        dots = "... " if first else "", " ..." if first + _SHOWN < len(self.text) else ""
        shown = f"{dots[0]}{self.text[first : first + _SHOWN]}{dots[1]}"
        column = self.indent + self.at + 1
        return refuse(
            "RS-T01:line", line=self.number, column=column, text=shown, expected=expected, hint=hint
        )

    def peek(self, symbol: str) -> bool:
        """Return whether a symbol is next."""
        while self.text[self.at : self.at + 1] == " ":
            self.at += 1
        return self.text.startswith(symbol, self.at)

    def take(self, symbol: str) -> bool:
        """Return whether a symbol was next, and read it."""
        found = self.peek(symbol)
        self.at += len(symbol) if found else 0
        return found

    def expect(self, symbol: str) -> None:
        if not self.take(symbol):
            raise self.fault(repr(symbol))

    def word(self) -> str:
        """Return the next word without reading it; empty if there is none."""
        self.peek("")
        end = self.at
        while end < len(self.text) and self.text[end] in (_IN_NAMES if end > self.at else _BEGIN_NAMES):
            end += 1
        return self.text[self.at : end]

    def take_word(self, word: str) -> bool:
        return self.word() == word and self.take(word)

    def name(self, of: str) -> str:
        word = self.word()
        if not word:
            raise self.fault(
                f"the name of {of}", "names begin with a letter, and contain letters, digits, _ and ."
            )
        self.at += len(word)
        return word

    def data_type(self) -> DataType:
        if self.word() not in DataType.__members__:
            raise self.fault("a data type", f"the data types are {', '.join(list(DataType.__members__)[1:])}")
        return DataType[self.name("a type")]

    def digits(self) -> str:
        end = self.at
        while "0" <= self.text[end : end + 1] <= "9":
            end += 1
        start, self.at = self.at, end
        return self.text[start:end]

    def integer(self, of: str = "an integer") -> int:
        """Read a 64-bit integer."""
        sign = "-" if self.take("-") else ""
        self.peek("")
        start, digits = self.at, self.digits()
        if not 0 < len(digits) <= _MOST_DIGITS or int(digits) >= 1 << 63:
            self.at = start
            raise self.fault(of, "it is written in decimal digits, and has less than 64 bits")
        return int(sign + digits)

    def real(self) -> float:
        """Read a real number in Python syntax; integers that are not exact as f64 stay integers."""
        sign = -1 if self.take("-") else 1
        for word in ("inf", "nan"):
            if self.take_word(word):
                return sign * float(word)
        self.peek("")
        start, digits = self.at, self.digits()
        is_whole = self.text[self.at : self.at + 1] not in (".", "e")
        if self.text[self.at : self.at + 1] == ".":
            self.at += 1
            digits += self.digits()
        if digits and self.text[self.at : self.at + 1] == "e":
            self.at += 1 + (self.text[self.at + 1 : self.at + 2] in ("+", "-"))
            digits = digits if self.digits() else ""
        text, end = self.text[start : self.at], self.at
        self.at = start
        if not digits or len(text) > 400 or isinf(number := float(text)):
            raise self.fault("a number", "it is a decimal one such as -1.5 or 2e-08, inf or nan")
        self.at = end
        return sign * (int(text) if is_whole and int(text) != number else number)

    def several(self, read: Callable[[], T], end: str) -> tuple[T, ...]:
        """Read items separated by commas, up to and including a final symbol."""
        found: list[T] = []
        while not self.take(end):
            if found:
                self.expect(",")
            found.append(read())
        return tuple(found)

    def end(self) -> None:
        """Require the end of the line."""
        self.peek("")
        if self.at < len(self.text):
            raise self.fault("the end of the line")


class _TreeParser:
    """One text. Each method reads the construct it is named after, from the current line."""

    def __init__(self, lines: list[_TreeLine]) -> None:
        self.lines, self.next = lines, 0

    @property
    def line(self) -> _TreeLine:
        """The current line."""
        return self.lines[self.next - 1]

    def new_line(self, level: int) -> bool:
        """Advance to the next line if it is at this loop level; return whether it is."""
        if self.next == len(self.lines) or self.lines[self.next].indent < 2 * level:
            return False
        self.next += 1
        if self.line.indent != 2 * level:
            raise self.line.fault(
                f"{2 * level} spaces before it", "each loop indents what is in it by 2 spaces"
            )
        return True

    def is_at(self, word: str) -> bool:
        """Return whether the next line begins with a word."""
        return self.next < len(self.lines) and self.lines[self.next].word() == word

    def tree(self) -> LoopTree:
        tree = LoopTree((), ())
        if self.is_at("tree") and self.new_line(0):
            tree = self.head(tree)
        tensors, items = list[TreeTensor](), list[Each]()
        while not self.is_at("each") and self.new_line(0):
            tensors.append(self.tensor())
        while self.new_line(0):
            items.append(self.each(0))
        return replace(tree, tensors=tuple(tensors), items=tuple(items))

    def head(self, tree: LoopTree) -> LoopTree:
        self.line.take("tree")
        while True:
            if self.line.take_word("in"):
                tree = replace(tree, number=self.number())
            elif self.line.take_word("backwards"):
                tree = replace(tree, backwards=True)
            else:
                tree = replace(tree, scalars=self.line.integer("in NUMBER, a count of scalars, or backwards"))
                self.line.expect("scalars")
            if not self.line.take(","):
                break
        self.line.end()
        return tree

    def number(self) -> Number:
        word = self.line.word()
        if word not in Number.__members__ or not self.line.take(word):
            hint = f"in order: sequentially; in {', in '.join(Number.__members__)}: computed in that type"
            raise self.line.fault("a number, or order", hint)
        return Number[word]

    # --- tensors

    def tensor(self) -> TreeTensor:
        line = self.line
        name, data_type, sizes = line.name("a tensor"), line.data_type(), self.sizes()
        padded = self.sizes() if line.take_word("in") else sizes
        if not line.take("+"):
            line.end()
            return replace(TreeTensor.row_major(name, sizes, data_type), padded=padded)
        base = line.integer()
        line.expect(":")
        digits: list[tuple[IndexDigit, ...]] = []
        while sizes and (not digits or line.take(",")):
            digits.append(self.digits())
        line.end()
        return TreeTensor(name, data_type, sizes, padded, tuple(digits), base)

    def sizes(self) -> tuple[int, ...]:
        line = self.line
        if line.take_word("one"):
            return ()
        found = [line.integer("sizes such as 2x17, or one")]
        while line.text[line.at : line.at + 1] == "x":
            line.at += 1
            found.append(line.integer("a size"))
        return tuple(found)

    def digits(self) -> tuple[IndexDigit, ...]:
        line = self.line
        found: list[IndexDigit] = []
        while not found or not (line.peek(",") or line.at == len(line.text)):
            stride = line.integer("STRIDE/STEP")
            line.expect("/")
            found.append(IndexDigit(line.integer("a step"), stride))
        return tuple(reversed(found))

    # --- items

    def each(self, level: int) -> Each:
        line = self.line
        if not line.take_word("each"):
            raise line.fault("each", "a tree has tensors, followed by loops that begin with each")
        if level == _MOST_LOOPS:
            raise line.fault(f"no more than {_MOST_LOOPS} nested loops")
        axes: tuple[TreeAxis, ...] = ()
        if not line.take_word("once"):
            axes = (self.axis(), *self.more_axes())
        number, in_order = None, False
        while line.take_word("in") and not in_order:
            in_order = line.take_word("order")
            number = number if in_order else self.number()
        line.expect(":")
        line.end()
        guards, rows, items = list[Guard](), list[TreeTensor](), list[Item]()
        while self.is_at("where") and self.new_line(level + 1):
            guards.append(self.guard())
        while self.is_at("local") and self.new_line(level + 1):
            rows.append(self.local())
        while self.new_line(level + 1):
            items.append(self.item(level + 1))
        return Each(axes, tuple(items), tuple(guards), tuple(rows), in_order, number)

    def more_axes(self) -> Iterator[TreeAxis]:
        while self.line.take(","):
            yield self.axis()

    def axis(self) -> TreeAxis:
        return TreeAxis(self.line.name("an axis"), self.line.integer("an extent"))

    def guard(self) -> Guard:
        line = self.line
        line.take("where")
        for symbol in ("0", "<="):
            line.expect(symbol)
        index = self.affine()
        line.expect("<")
        guard = Guard(index, line.integer("a size"))
        line.end()
        return guard

    def local(self) -> TreeTensor:
        line = self.line
        line.take("local")
        name = line.name("a local tensor")
        line.expect("[")
        sizes = line.several(line.integer, "]")
        row = TreeTensor.row_major(name, sizes, line.data_type() if line.word() else DataType.f32)
        line.end()
        return row

    def item(self, level: int) -> Item:
        line = self.line
        if line.word() == "each":
            return self.each(level)
        if line.take_word("let"):
            name = line.name("a value")
            line.expect("=")
            item: Item = Let(name, self.expr())
        else:
            item = self.fold_or_store(line.name("a result, each or let"))
        line.end()
        return item

    def fold_or_store(self, name: str) -> Item:
        line, names = self.line, [name]
        if line.take("["):
            index = line.several(self.index, "]")
            line.expect("=")
            return Store(name, index, self.expr())
        while line.take(","):
            names.append(line.name("a result"))
        line.expect("=")
        op = line.name("a fold")
        line.expect("(")
        return Fold(op, tuple(names), line.several(self.expr, ")"))

    # --- indices

    def index(self) -> Index:
        line = self.line
        start, word = line.at, line.word()
        if word and line.take(word) and line.take("["):
            return Load(word, line.several(self.affine, "]"))
        line.at = start
        return self.affine()

    def affine(self) -> Affine:
        line = self.line
        if not line.take("("):
            return self.sum_of_axes()
        index = self.sum_of_axes()
        line.expect(")")
        return replace(index, divisor=line.integer("a divisor")) if line.take("/") else index

    def sum_of_axes(self) -> Affine:
        line, total = self.line, Affine()
        sign = -1 if line.take("-") else 1
        for _ in range(_MOST_DEPTH):
            factor, is_term = sign, True
            if not line.word():
                factor *= line.integer("an axis or an integer")
                is_term = line.take("*")
            added = Affine(((line.name("an axis"), factor),)) if is_term else Affine((), factor)
            total = total + added
            sign = 1 if line.take("+") else -1 if line.take("-") else 0
            if not sign:
                return total
        raise line.fault(f"no more than {_MOST_DEPTH} terms in an index")

    # --- expressions

    def expr(self) -> Expr:
        """Read an expression, limited in depth so that traversing it does not overflow the stack."""
        value = self.sum(0)
        level: list[Expr] = [value]
        for _ in range(_MOST_DEPTH):
            level = [arg for part in level if isinstance(part, Apply) for arg in part.args]
        if level:
            raise self.line.fault(*_TOO_DEEP)
        return value

    def sum(self, depth: int) -> Expr:
        """Read operands with operators between them."""
        total, op, value = None, "add", self.operand(depth)
        for _ in range(_MOST_DEPTH):
            if name := self.operator("*", "/"):
                value = Apply(name, (value, self.operand(depth)))
                continue
            total = value if total is None else Apply(op, (total, value))
            op = self.operator("+", "-")
            if not op:
                return total
            value = self.operand(depth)
        raise self.line.fault(*_TOO_DEEP)

    def operator(self, *symbols: str) -> str:
        """Read one of these symbols, if it is next, and return its operation."""
        return next((_OPERATORS[symbol] for symbol in symbols if self.line.take(symbol)), "")

    def operand(self, depth: int) -> Expr:
        line = self.line
        if depth == _MOST_DEPTH:
            raise line.fault(*_TOO_DEEP)
        if line.take("("):
            value = self.sum(depth + 1)
            line.expect(")")
            return value
        word = line.word()
        if not word or word in ("inf", "nan"):
            return Const(line.real())
        line.take(word)
        if word == "scalar":
            return Scalar(line.integer("the number of a scalar"))
        if line.take("["):
            return Load(word, line.several(self.index, "]"))
        if not line.take("("):
            return Ref(word)
        if word != "index":
            return Apply(word, line.several(lambda: self.sum(depth + 1), ")"))
        coordinate = Coordinate(self.affine())
        line.expect(")")
        return coordinate
