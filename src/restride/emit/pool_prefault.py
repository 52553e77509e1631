"""LLVM IR text that asks the system for the pages of a destination before it is written (see `pool`).

    restride_pool_prefault(src, dst, offsets, part, parts)     one part of a region: the page at offsets[part]

The byte there is written with what it holds, in one atomic step: whoever else writes it at the same time
loses nothing. `src` must be 0; LLVM does not know that, and so does not drop the write.
"""

from __future__ import annotations

PREFAULT = """
define void @restride_pool_prefault(ptr %src, ptr %dst, ptr %offsets, i64 %part, i64 %parts) {
  %slot = getelementptr i64, ptr %offsets, i64 %part
  %offset = load i64, ptr %slot, align 8
  %byte = getelementptr i8, ptr %dst, i64 %offset
  %bits = ptrtoint ptr %src to i64
  %none = trunc i64 %bits to i8
  %old = atomicrmw or ptr %byte, i8 %none monotonic
  ret void
}
"""
