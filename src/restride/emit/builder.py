"""A minimal LLVM IR writer: typed values, fresh names, blocks. It outputs text; LLVM is not imported."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import NamedTuple

ANYWHERE = 1 << 63
"""A distance in bytes larger than any constant."""


class Value(NamedTuple):
    """An SSA value or constant: its IR type and its reference."""

    type: str
    ref: str

    def __str__(self) -> str:
        return f"{self.type} {self.ref}"


def i64(number: int) -> Value:
    """Return a 64-bit constant."""
    return Value("i64", str(number))


def vector(element: str, lanes: int) -> str:
    """Return the IR type of `lanes` elements; a vector even for one."""
    return f"<{lanes} x {element}>"


def lanes_of(value: Value) -> int:
    """Return the number of lanes of a vector value."""
    return int(value.type[1:].split(" ", 1)[0])


def element_of(value: Value) -> str:
    """Return the element type of a vector value."""
    return value.type[1:-1].split(" x ", 1)[1]


@lru_cache(maxsize=1024)
def _mask_text(mask: tuple[int, ...]) -> str:
    return f"<{len(mask)} x i32> <" + ", ".join("i32 poison" if m < 0 else f"i32 {m}" for m in mask) + ">"


@lru_cache(maxsize=1024)
def _moves_together(mask: tuple[int, ...], size: int) -> bool:
    """Return whether lanes are moved in aligned groups of `size`."""
    groups = (mask[i : i + size] for i in range(0, len(mask), size))
    return len(mask) % size == 0 and all(
        group == (-1,) * size or (group[0] % size == 0 and group == tuple(range(group[0], group[0] + size)))
        for group in groups
    )


class Builder:
    """Writes one function body; also collects the functions and constants that it needs.

    `reach`: larger constant distances, in bytes, are hidden from LLVM.
    """

    def __init__(self, table_pointer: str = "ptr", reach: int = ANYWHERE) -> None:
        self._lines: list[str] = []
        self._slots: list[str] = []
        self._table_pointer = table_pointer
        self._reach = reach
        self._count = 0
        self.block = "entry"
        self.declared: dict[str, str] = {}
        self.defined: dict[str, str] = {}
        self.constants: list[str] = []
        self.cuts: list[str] = []
        # The conditions from which values of 1 or 0 were made.
        self.conditions: dict[str, Value] = {}
        self.has_seldom = False

    def fresh(self) -> str:
        """Return an unused name."""
        self._count += 1
        return f"v{self._count}"

    def line(self, text: str) -> None:
        """Append one instruction."""
        self._lines.append("  " + text)

    def value(self, type_: str, text: str) -> Value:
        """Append an instruction with a result of `type_`."""
        name = self.fresh()
        self._lines.append(f"  %{name} = {text}")
        return Value(type_, f"%{name}")

    def slot(self, type_: str, count: int = 1) -> Value:
        """Return memory of the function for `count` values of a type, valid until it returns."""
        name = self.fresh()
        self._slots.append(f"  %{name} = alloca {type_}, i64 {count}, align 64")
        return Value("ptr", f"%{name}")

    def op(self, name: str, a: Value, b: Value) -> Value:
        """Append a binary operation on equal types."""
        return self.value(a.type, f"{name} {a}, {b.ref}")

    def cast(self, name: str, a: Value, element: str) -> Value:
        """Append a conversion of each lane to `element`."""
        to = vector(element, lanes_of(a))
        return self.value(to, f"{name} {a} to {to}")

    def bitcast(self, a: Value, element: str) -> Value:
        """Reinterpret the bits as lanes of another element type of the same width."""
        return a if element_of(a) == element else self.cast("bitcast", a, element)

    def compare(self, name: str, a: Value, b: Value) -> Value:
        """Append a lane-wise comparison: `icmp ult`, `fcmp ogt`, ..."""
        return self.value(vector("i1", lanes_of(a)), f"{name} {a}, {b.ref}")

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """Select lanes of `a` where the condition holds, else of `b`."""
        return self.value(a.type, f"select {condition}, {a}, {b}")

    def splat(self, element: str, lanes: int, constant: str) -> Value:
        """Return a constant in every lane."""
        return Value(vector(element, lanes), f"splat ({element} {constant})")

    def broadcast(self, scalar: Value, lanes: int) -> Value:
        """Return a scalar value in every lane."""
        kind = vector(scalar.type, lanes)
        first = self.value(kind, f"insertelement {kind} poison, {scalar}, i64 0")
        return self.shuffle(first, first, (0,) * lanes)

    def shuffle(self, a: Value, b: Value, mask: Sequence[int]) -> Value:
        """Pick lanes of `a` then `b` by `mask`; -1 is undefined."""
        kind = vector(element_of(a), len(mask))
        return self.value(kind, f"shufflevector {a}, {b}, {_mask_text(tuple(mask))}")

    def lanes(self, a: Value, first: int, count: int) -> Value:
        """Return `count` lanes of `a` from `first` on; undefined past the last one."""
        size = lanes_of(a)
        if first == 0 and count == size:
            return a
        return self.shuffle(a, a, [i if i < size else -1 for i in range(first, first + count)])

    def join(self, parts: Sequence[Value]) -> Value:
        """Concatenate the lanes of equal parts."""
        count = len(parts) * lanes_of(parts[0])
        while len(parts) > 1:
            # The last of an odd number also pads the end.
            pairs = zip(parts[::2], [*parts[1::2], parts[-1]], strict=False)
            parts = [self.shuffle(a, b, range(2 * lanes_of(a))) for a, b in pairs]
        return self.lanes(parts[0], 0, count)

    def shuffle_wide(self, a: Value, b: Value, mask: Sequence[int]) -> Value:
        """Shuffle in the widest lanes that the mask moves together, up to 64 bits: LLVM is faster with few
        lanes, and does not find them by itself.
        """
        bits = int(element_of(a)[1:])
        ratio = next(n for n in (64 // bits, 32 // bits, 16 // bits, 1) if n <= 1 or _moves_together(mask, n))
        if ratio <= 1:
            return self.shuffle(a, b, mask)
        kind = vector(f"i{bits * ratio}", lanes_of(a) // ratio)
        first, second = (self.value(kind, f"bitcast {v} to {kind}") for v in (a, b))
        moved = self.shuffle(first, second, [i // ratio if i >= 0 else i for i in mask[::ratio]])
        back = vector(f"i{bits}", len(mask))
        return self.value(back, f"bitcast {moved} to {back}")

    def multiply_add(self, a: Value, b: Value, total: Value, *, fused: bool) -> Value:
        """Return `a * b + total`, rounded once if `fused`."""
        if fused:
            return self.intrinsic("fma", a, b, total)
        return self.op("fadd", total, self.op("fmul", a, b))

    def intrinsic(self, name: str, *args: Value) -> Value:
        """Call `llvm.<name>` overloaded on the (equal) types of its arguments."""
        kind = args[0].type
        element = element_of(args[0]).replace("float", "f32").replace("double", "f64")
        full = f"llvm.{name}.v{lanes_of(args[0])}{element}"
        self.declared[full] = f"declare {kind} @{full}({', '.join(a.type for a in args)})"
        return self.value(kind, f"call {kind} @{full}({', '.join(map(str, args))})")

    def scalar_intrinsic(self, name: str, *args: Value) -> Value:
        """Call `llvm.<name>` on equal types that are not vectors."""
        kind = args[0].type
        full = f"llvm.{name}.{kind}"
        self.declared[full] = f"declare {kind} @{full}({', '.join(a.type for a in args)})"
        return self.value(kind, f"call {kind} @{full}({', '.join(map(str, args))})")

    def call(self, result: str, name: str, args: str, types: str) -> Value:
        """Call a declared function that returns `result`."""
        self.declared[name] = f"declare {result} @{name}({types})"
        return self.value(result, f"call {result} @{name}({args})")

    def call_void(self, name: str, args: str, types: str) -> None:
        """Call a declared function without a result."""
        self.declared[name] = f"declare void @{name}({types})"
        self.line(f"call void @{name}({args})")

    def prefetch(self, pointer: Value, nearness: int = 2) -> None:
        """Prefetch a cache line for reading: 3 into the L1 cache, 2 into the L2 cache. It never faults."""
        self.call_void("llvm.prefetch.p0", f"{pointer}, i32 0, i32 {nearness}, i32 1", "ptr, i32, i32, i32")

    def call_own(
        self, name: str, args: Sequence[Value], write: Callable[[Builder, list[Value]], Value]
    ) -> Value:
        """Call a function written by `write`, once for each name, into this module."""
        kind = args[0].type
        if name not in self.defined:
            self.defined[name] = ""
            inner, named = (
                Builder(self._table_pointer, self._reach),
                [Value(a.type, f"%a{i}") for i, a in enumerate(args)],
            )
            inner.declared, inner.defined, inner.constants = self.declared, self.defined, self.constants
            result = write(inner, named)
            head = f"define internal fastcc {kind} @{name}({', '.join(map(str, named))}) noinline {{"
            self.defined[name] = f"{head}\nentry:\n{inner.body()}\n  ret {result}\n}}"
        return self.value(kind, f"call fastcc {kind} @{name}({', '.join(map(str, args))})")

    def advance(self, pointer: Value, nbytes: Value | int) -> Value:
        """Return a pointer moved by bytes; a count of halves is moved correspondingly."""
        if nbytes == 0:
            return pointer
        amount = self._distance(nbytes) if isinstance(nbytes, int) else nbytes
        if not pointer.type.startswith("ptr"):
            return self.op("add", pointer, amount)
        return self.value(pointer.type, f"getelementptr i8, {pointer}, {amount}")

    def step(self, pointer: Value, position: Value, nbytes: int | Value) -> Value:
        """Return a pointer moved by `nbytes` for each position of a loop."""
        if isinstance(nbytes, Value):
            return self.advance(pointer, self.op("mul", position, nbytes))
        if position.ref.isdigit():
            return self.advance(pointer, int(position.ref) * nbytes)
        return self.advance(pointer, self.op("mul", position, self._distance(nbytes))) if nbytes else pointer

    def step_by_table(self, pointer: Value, position: Value, offsets: Sequence[int]) -> Value:
        """Return a pointer moved by a table's offset for each position of a loop."""
        table = self._table(offsets)
        slot = self.value(table.type, f"getelementptr i64, {table}, {position}")
        amount = self.value("i64", f"load i64, {slot}, align 8")
        return self.advance(pointer, self.hidden(amount) if max(map(abs, offsets)) > self._reach else amount)

    def _distance(self, nbytes: int) -> Value:
        """Return a constant, or past `reach` a number hidden from LLVM, which it cannot sum over loops."""
        if abs(nbytes) <= self._reach:
            return i64(nbytes)
        return self.hidden(i64(nbytes))

    def hidden(self, number: Value) -> Value:
        """Return the same number or address, with its origin hidden from LLVM."""
        return self.value(number.type, f'call {number.type} asm "", "=r,0"({number})')

    def _table(self, offsets: Sequence[int]) -> Value:
        """Return a pointer to a private constant array of 64-bit offsets, in the constants' address space."""
        name = f"@table.{len(self.constants)}"
        body = ", ".join(f"i64 {o}" for o in offsets)
        where = f"private unnamed_addr{self._table_pointer.removeprefix('ptr')} constant"
        self.constants.append(f"{name} = {where} [{len(offsets)} x i64] [{body}]")
        return Value(self._table_pointer, name)

    def start_block(self, *, kept: bool = True) -> None:
        """Start a new block: short blocks compile much faster than one long one.

        Unless it is `kept`, LLVM may merge it with the previous one.
        """
        name = self.fresh()
        if kept:
            self.cuts.append(name)
        self.line(f"br label %{name}")
        self.start(name)

    def zeros(self, nbytes: int) -> Value:
        """Return a pointer to a private constant of `nbytes` zeros."""
        name = f"@zeros.{len(self.constants)}"
        self.constants.append(f"{name} = private constant [{nbytes} x i8] zeroinitializer, align 64")
        return Value("ptr", name)

    def block_table(self, function: str) -> list[str]:
        """Return a table of the cut blocks of `function`, which never reaches object code: LLVM merges blocks
        in a row, but none whose address is taken. Measured: merged, a tile takes up to three times as long.
        """
        if not self.cuts:
            return []
        blocks = ", ".join(f"ptr blockaddress(@{function}, %{name})" for name in self.cuts)
        return [f'@cuts = private constant [{len(self.cuts)} x ptr] [{blocks}], section "llvm.metadata"']

    def start(self, block: str) -> None:
        """Continue in a new block of this name."""
        self._lines.append(f"{block}:")
        self.block = block

    @contextmanager
    def loop(self, start: Value, stop: Value) -> Iterator[Value]:
        """Write `for i in range(start, stop)`; the body can be skipped entirely."""
        head, after = self.fresh(), self.fresh()
        counter = Value("i64", f"%{self.fresh()}")
        following = Value("i64", f"%{self.fresh()}")
        before = self.block
        self._branch("slt", start, stop, head, after)
        self.start(head)
        mark = len(self._lines)
        yield counter
        self._lines.insert(
            mark, f"  {counter.ref} = phi i64 [ {start.ref}, %{before} ], [ {following.ref}, %{self.block} ]"
        )
        self.line(f"{following.ref} = add nuw nsw i64 {counter.ref}, 1")
        self._branch("slt", following, stop, head, after)
        self.start(after)

    @contextmanager
    def carried_loop(
        self, start: Value, stop: Value, values: Sequence[Value], *, may_be_empty: bool = False
    ) -> Iterator[tuple[Value, list[Value]]]:
        """Write `for i in range(start, stop)` with values carried from one iteration to the next in
        registers.

        The body puts new values into the list; after the loop, the list has the last ones.
        """
        head, after, before = self.fresh(), self.fresh(), self.block
        counter, following = (Value("i64", f"%{self.fresh()}") for _ in range(2))
        if may_be_empty:
            self._branch("slt", start, stop, head, after)
        else:
            self.line(f"br label %{head}")
        self.start(head)
        mark = len(self._lines)
        inside = [Value(value.type, f"%{self.fresh()}") for value in values]
        names = list(inside)
        yield counter, inside
        heads = [f"  {counter.ref} = phi i64 [ {start.ref}, %{before} ], [ {following.ref}, %{self.block} ]"]
        for name, first, last in zip(names, values, inside, strict=True):
            heads.append(
                f"  {name.ref} = phi {name.type} [ {first.ref}, %{before} ], [ {last.ref}, %{self.block} ]"
            )
        self._lines[mark:mark] = heads
        latch = self.block
        self.line(f"{following.ref} = add nuw nsw i64 {counter.ref}, 1")
        self._branch("slt", following, stop, head, after)
        self.start(after)
        if may_be_empty:
            for i, (first, last) in enumerate(zip(values, list(inside), strict=True)):
                inside[i] = self.value(
                    first.type, f"phi {first.type} [ {first.ref}, %{before} ], [ {last.ref}, %{latch} ]"
                )

    @contextmanager
    def when(self, name: str, a: Value, b: Value) -> Iterator[None]:
        """Write `if a <name> b:` on integers."""
        inside, after = self.fresh(), self.fresh()
        self._branch(name, a, b, inside, after)
        self.start(inside)
        yield
        self.line(f"br label %{after}")
        self.start(after)

    def one_of(self, condition: Value, usual: Callable[[], Value], seldom: Callable[[], Value]) -> Value:
        """Write `usual` where the condition holds, as it mostly does; else `seldom`."""
        names = [self.fresh() for _ in range(3)]
        self.has_seldom = True
        self.line(f"br {condition}, label %{names[0]}, label %{names[1]}, !prof !1")
        incoming: list[tuple[Value, str]] = []
        for name, write in zip(names, (usual, seldom), strict=False):
            self.start(name)
            incoming.append((write(), self.block))
            self.line(f"br label %{names[2]}")
        self.start(names[2])
        kind = incoming[0][0].type
        return self.value(kind, f"phi {kind} " + ", ".join(f"[ {v.ref}, %{block} ]" for v, block in incoming))

    def _branch(self, name: str, a: Value, b: Value, yes: str, no: str) -> None:
        condition = self.value("i1", f"icmp {name} {a}, {b.ref}")
        self.line(f"br {condition}, label %{yes}, label %{no}")

    def body(self) -> str:
        """Return the instructions so far."""
        return "\n".join([*self._slots, *self._lines])
