"""LLVM IR text that touches the pages of a destination before it is written (see `pool`).

    restride_pool_prefault(count, dst, offsets, part, parts)     one part of the `count` pages at `offsets`

The byte at each offset is rewritten atomically with its own value: concurrent writes by others are not lost.
LLVM drops a write that it knows changes nothing, so what is added is a zero that it cannot recognize: the
highest bit of the count.
"""

from __future__ import annotations

PREFAULT = """
define void @restride_pool_prefault(ptr %number, ptr %dst, ptr %offsets, i64 %part, i64 %parts) {
entry:
  %count = ptrtoint ptr %number to i64
  %sign = lshr i64 %count, 63
  %none = trunc i64 %sign to i8
  %next = add i64 %part, 1
  %before = mul i64 %part, %count
  %behind = mul i64 %next, %count
  %first = udiv i64 %before, %parts
  %end = udiv i64 %behind, %parts
  br label %look
look:
  %i = phi i64 [ %first, %entry ], [ %more, %touch ]
  %over = icmp uge i64 %i, %end
  br i1 %over, label %leave, label %touch
touch:
  %slot = getelementptr i64, ptr %offsets, i64 %i
  %offset = load i64, ptr %slot, align 8
  %byte = getelementptr i8, ptr %dst, i64 %offset
  %old = atomicrmw or ptr %byte, i8 %none monotonic
  %more = add i64 %i, 1
  br label %look
leave:
  ret void
}
"""
