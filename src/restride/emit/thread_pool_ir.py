"""LLVM IR text of the thread pool: native workers that never need Python's lock.

One region runs kernel(src, dst, params, part, parts) for a range of parts on the calling thread and on
however many workers arrive in time. It all depends on one atomic word:

    ticket   parts of the region not yet claimed. A claim decrements it and is valid if the old value was
             above zero; then the job's fields are valid until the claim is reported in `done`.
    done     parts that workers have finished. The caller returns once its own parts and these are all.
    epoch    counts regions. Workers spin on it for a while, then sleep on it.

A worker that arrives late finds the ticket at zero or below and touches nothing else, so a region never waits
for a sleeping worker. A busy, closed or empty pool runs the region on the caller alone.

The placement of workers is in `pool_places`, system calls are in `pool_system`, and touching pages before a
region is in `pool_prefault`.

Kernels see the default floating-point mode whatever the caller's is (a library may have set flush-to-zero):
results do not depend on the thread that computes them.

Functions, all C calling convention:
    void restride_pool_open(pool, i32 spins)                  first, on zeroed memory of POOL_BYTES
    ptr  restride_pool_worker(pool)                           the body of a worker thread
    void restride_pool_join(pool, i32 workers)                set the number of workers
    void restride_pool_run(pool, fn, src, dst, params, i64 parts, i64 first, i64 count)
    i32  restride_pool_close(pool)                            1: workers are exiting; 0: busy, try again
    void restride_pool_spin(i64 n)                            n iterations of the spin loop, to time them
"""

from __future__ import annotations

import re

from restride.emit.pool_prefault import PREFAULT
from restride.emit.pool_system import PLACES, system_ir
from restride.schedule.machine import LINE

MOST_WORKERS = 1024
POOL_BYTES = 512 + 1024 + 12 * MOST_WORKERS
POOL_ALIGNMENT = LINE

# A cache line for the region, one for its end, one for opening and sleeping, then mutex and condition with
# room for any system's. Threads sleep on the i32 words `epoch` and `done`.
_TYPES = """
%line = type [64 x i8]
%place = type { i32, i32, i32 }
%region = type { i64, i32, i32, ptr, ptr, ptr, ptr, i64, i64,
               i32, i32, i32, [52 x i8],
               i32, i32, i32, i32, i32, [44 x i8],
               [2 x %line], [2 x %line], [64 x i8],
               [1024 x i8], [1024 x %place] }
"""
_NAMES = """ticket epoch stop fn src dst params end parts
            done waiting caller . lock sleepers workers spins joined . mutex condition . allowed places"""
_FIELDS = {name: index for index, name in enumerate(_NAMES.split()) if name != "."}

_DRAIN = """
define internal i32 @drain(ptr %pool) {
entry:
  @ticket@
  br label %look
look:
  %n = phi i32 [ 0, %entry ], [ %more, %work ]
  %left = load atomic i64, ptr %ticket monotonic, align 8
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %claim, label %leave
claim:
  %mine = atomicrmw sub ptr %ticket, i64 1 acq_rel, align 8
  %good = icmp sgt i64 %mine, 0
  br i1 %good, label %work, label %leave
work:
  @fn=ptr@
  @src=ptr@
  @dst=ptr@
  @params=ptr@
  @end=i64@
  @parts=i64@
  %part = sub i64 %end.v, %mine
  call void %fn.v(ptr %src.v, ptr %dst.v, ptr %params.v, i64 %part, i64 %parts.v)
  %more = add i32 %n, 1
  br label %look
leave:
  %did = phi i32 [ %n, %look ], [ %n, %claim ]
  ret i32 %did
}
"""

_WORKER = """
define ptr @restride_pool_worker(ptr %pool) {
entry:
  @epoch@
  @stop@
  @done@
  @waiting@
  @sleepers@
  @spins=i32@
  %place = call ptr @take_place(ptr %pool)
  %mode = call i64 @default_mode()
  br label %again
again:
  %seen = load atomic i32, ptr %epoch acquire, align 4
  call void @note_place(ptr %pool, ptr %place)
  %work = getelementptr inbounds %place, ptr %place, i32 0, i32 2
  store atomic i32 1, ptr %work monotonic, align 4
  %did = call i32 @drain(ptr %pool)
  %none = icmp eq i32 %did, 0
  br i1 %none, label %idle, label %report
report:
  %before = atomicrmw add ptr %done, i32 %did seq_cst, align 4
  %awaited = load atomic i32, ptr %waiting seq_cst, align 4
  %asleep = icmp ne i32 %awaited, 0
  br i1 %asleep, label %tell, label %idle
tell:
  call void @unpark(ptr %pool, ptr %done, i32 1)
  br label %idle
idle:
  call void @released(ptr %pool, ptr %place)
  %stopped = load atomic i32, ptr %stop acquire, align 4
  %leaving = icmp ne i32 %stopped, 0
  br i1 %leaving, label %leave, label %spin
spin:
  %turn = phi i32 [ %spins.v, %idle ], [ %turns, %relax ]
  %now = load atomic i32, ptr %epoch monotonic, align 4
  %news = icmp ne i32 %now, %seen
  br i1 %news, label %again, label %patience
patience:
  %over = icmp eq i32 %turn, 0
  br i1 %over, label %sleep, label %relax
relax:
  call void @relax()
  %turns = sub i32 %turn, 1
  br label %spin
sleep:
  %in = atomicrmw add ptr %sleepers, i32 1 seq_cst, align 4
  call void @park(ptr %pool, ptr %epoch, i32 %seen)
  %out = atomicrmw sub ptr %sleepers, i32 1 seq_cst, align 4
  br label %again
leave:
  ret ptr null
}
"""

_RUN = """
define internal void @alone(ptr %fn, ptr %src, ptr %dst, ptr %params, i64 %parts, i64 %first, i64 %count) {
entry:
  %end = add i64 %first, %count
  br label %look
look:
  %part = phi i64 [ %first, %entry ], [ %next, %work ]
  %more = icmp slt i64 %part, %end
  br i1 %more, label %work, label %leave
work:
  call void %fn(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts)
  %next = add i64 %part, 1
  br label %look
leave:
  ret void
}

define internal void @publish(ptr %pool, i64 %count) {
  @ticket@
  @epoch@
  @sleepers@
  @done@
  call void @scatter(ptr %pool)
  store atomic i32 0, ptr %done monotonic, align 4
  store atomic i64 %count, ptr %ticket release, align 8
  %bump = atomicrmw add ptr %epoch, i32 1 seq_cst, align 4
  %sleeping = load atomic i32, ptr %sleepers seq_cst, align 4
  %any = icmp ne i32 %sleeping, 0
  br i1 %any, label %wake, label %leave
wake:
  %others = sub i64 %count, 1
  %n = trunc i64 %others to i32
  call void @unpark(ptr %pool, ptr %epoch, i32 %n)
  br label %leave
leave:
  ret void
}

define internal void @await(ptr %pool, i32 %need) {
entry:
  @done@
  @waiting@
  @spins=i32@
  br label %spin
spin:
  %turn = phi i32 [ %spins.v, %entry ], [ %turns, %relax ]
  %so_far = load atomic i32, ptr %done acquire, align 4
  %all = icmp eq i32 %so_far, %need
  br i1 %all, label %leave, label %patience
patience:
  %over = icmp eq i32 %turn, 0
  br i1 %over, label %announce, label %relax
relax:
  call void @relax()
  %turns = sub i32 %turn, 1
  br label %spin
announce:
  store atomic i32 1, ptr %waiting seq_cst, align 4
  br label %check
check:
  %now = load atomic i32, ptr %done seq_cst, align 4
  %enough = icmp eq i32 %now, %need
  br i1 %enough, label %withdraw, label %sleep
sleep:
  call void @gather(ptr %pool)
  call void @park(ptr %pool, ptr %done, i32 %now)
  br label %check
withdraw:
  store atomic i32 0, ptr %waiting seq_cst, align 4
  br label %leave
leave:
  ret void
}

define void @restride_pool_run(ptr %pool, ptr %fn, ptr %src, ptr %dst, ptr %params,
                               i64 %parts, i64 %first, i64 %count) {
entry:
  @workers=i32@
  @lock@
  %mode = call i64 @default_mode()
  %none = icmp eq i32 %workers.v, 0
  %few = icmp slt i64 %count, 2
  %many = icmp sgt i64 %count, 2147483647
  %sole = or i1 %none, %few
  %by_one = or i1 %sole, %many
  br i1 %by_one, label %serial, label %try
try:
  %taken = cmpxchg ptr %lock, i32 0, i32 1 acquire monotonic, align 4
  %got = extractvalue { i32, i1 } %taken, 1
  br i1 %got, label %region, label %serial
region:
  @fn<-ptr %fn@
  @src<-ptr %src@
  @dst<-ptr %dst@
  @params<-ptr %params@
  %end = add i64 %first, %count
  @end<-i64 %end@
  @parts<-i64 %parts@
  call void @publish(ptr %pool, i64 %count)
  %own = call i32 @drain(ptr %pool)
  %total = trunc i64 %count to i32
  %need = sub i32 %total, %own
  call void @await(ptr %pool, i32 %need)
  store atomic i32 0, ptr %lock release, align 4
  br label %leave
serial:
  call void @alone(ptr %fn, ptr %src, ptr %dst, ptr %params, i64 %parts, i64 %first, i64 %count)
  br label %leave
leave:
  call void @restore_mode(i64 %mode)
  ret void
}
"""

_LIFE = """
define void @restride_pool_open(ptr %pool, i32 %spins) {
  @spins<-i32 %spins@
  call void @open_parking(ptr %pool)
  call void @open_places(ptr %pool)
  ret void
}

define void @restride_pool_join(ptr %pool, i32 %workers) {
  @workers<-i32 %workers@
  ret void
}

define i32 @restride_pool_close(ptr %pool) {
  @lock@
  @stop@
  @epoch@
  %taken = cmpxchg ptr %lock, i32 0, i32 2 acquire monotonic, align 4
  %got = extractvalue { i32, i1 } %taken, 1
  br i1 %got, label %send_away, label %busy
send_away:
  store atomic i32 1, ptr %stop release, align 4
  %bump = atomicrmw add ptr %epoch, i32 1 seq_cst, align 4
  call void @unpark(ptr %pool, ptr %epoch, i32 2147483647)
  ret i32 1
busy:
  ; Asked again after an interruption: they are leaving already.
  %held = extractvalue { i32, i1 } %taken, 0
  %closed = icmp eq i32 %held, 2
  %answer = zext i1 %closed to i32
  ret i32 %answer
}

define void @restride_pool_spin(i64 %n) {
entry:
  %word = alloca i32, align 4
  store i32 0, ptr %word, align 4
  br label %spin
spin:
  %turn = phi i64 [ %n, %entry ], [ %turns, %relax ]
  %now = load atomic i32, ptr %word monotonic, align 4
  %over = icmp eq i64 %turn, 0
  br i1 %over, label %leave, label %relax
relax:
  call void @relax()
  %turns = sub i64 %turn, 1
  br label %spin
leave:
  ret void
}
"""

# @field@ is its address, @field=type@ its value %field.v, @field<-type value@ a store to it.
_ACCESS = re.compile(r"@(\w+)(?:(=|<-)([^@]*))?@")


def pool_ir(triple: str, *, futex: bool = True) -> str:
    """Return the pool's module for a target triple.

    Workers sleep on Linux's futex if its number is known and `futex` is on, else on a POSIX condition.
    """
    text = system_ir(triple, futex=futex) + _DRAIN + PLACES + _WORKER + _RUN + _LIFE + PREFAULT
    return _TYPES + _ACCESS.sub(_access, text)


def _access(match: re.Match[str]) -> str:
    field, kind, rest = match.groups()
    pointer = f"%{field}.p" if kind else f"%{field}"
    address = f"{pointer} = getelementptr inbounds %region, ptr %pool, i32 0, i32 {_FIELDS[field]}"
    if kind == "=":
        return f"{address}\n  %{field}.v = load {rest}, ptr {pointer}, align {8 if rest != 'i32' else 4}"
    return f"{address}\n  store {rest}, ptr {pointer}" if kind else address
