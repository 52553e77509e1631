"""LLVM IR text of the thread pool's system and processor operations (see `pool`), per target triple.

    park(pool, word, i32 seen)      sleep on an i32 word of the pool while it equals `seen`; may wake early
    unpark(pool, word, i32 n)       wake at least n of those who sleep on the word
    processor() -> i32              the processor that the thread is on, plus one; 0 if unknown
    keep_off(pool, place, i32 p)    let the worker of a place run on any allowed processor but p
    bring(place, i32 p)             move it to the processor p, and pin it there
    allow(pool, place)              let it run on any allowed processor
    relax()                         one iteration of a spin loop
    default_mode() -> i64           set the default floating-point mode, return the previous one
    restore_mode(i64)

In the text, @field@ is the address of a field of the pool.

A worker on the caller's processor is moved off it (Linux), by itself or by the caller: some schedulers put
threads that wake each other on one processor, where they only wait for each other. It can run on all others.
A caller that goes to sleep waiting for a worker, which another program might keep off its processor for
milliseconds, moves it to its own, which becomes idle.

    take_place(pool) -> place       a new worker's place: its thread number and its processor, none yet
    note_place(pool, place)         note the processor that the worker is on, and move it off the caller's
    scatter(pool)                   note the caller's processor, and move workers that are on it away
    gather(pool)                    move a worker that has work to the caller's processor
    released(pool, place)           note that the worker has no work; it can move away again

In the text, @field@ is the address of a field of the pool, @field=type@ its value.
"""

from __future__ import annotations

# --- pool system -------------------------------------------------------------

# The numbers of Linux's system calls.
_CALLS = {"x86_64": {"futex": 202, "gettid": 186}, "aarch64": {"futex": 98, "gettid": 178}}

_SYSCALL = """
declare i64 @syscall(i64, ...)
"""

_FUTEX = """
define internal void @park(ptr %pool, ptr %word, i32 %seen) {
  %r = call i64 (i64, ...) @syscall(i64 <futex>, ptr %word, i32 128, i32 %seen, ptr null)
  ret void
}

define internal void @unpark(ptr %pool, ptr %word, i32 %n) {
  %r = call i64 (i64, ...) @syscall(i64 <futex>, ptr %word, i32 129, i32 %n)
  ret void
}

define internal void @open_parking(ptr %pool) {
  ret void
}
"""

_CONDITION = """
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)

define internal void @park(ptr %pool, ptr %word, i32 %seen) {
  @mutex@
  @condition@
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  br label %check
check:
  %now = load atomic i32, ptr %word seq_cst, align 4
  %same = icmp eq i32 %now, %seen
  br i1 %same, label %sleep, label %leave
sleep:
  %slept = call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %check
leave:
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}

define internal void @unpark(ptr %pool, ptr %word, i32 %n) {
  @mutex@
  @condition@
  %locked = call i32 @pthread_mutex_lock(ptr %mutex)
  %woken = call i32 @pthread_cond_broadcast(ptr %condition)
  %unlocked = call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}

define internal void @open_parking(ptr %pool) {
  @mutex@
  @condition@
  %m = call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  %c = call i32 @pthread_cond_init(ptr %condition, ptr null)
  ret void
}
"""

# The byte and the bit of a processor in a mask; if there is none, nothing is done.
_BIT_OF_HERE = """\
  %mask = alloca [1024 x i8], align 8
  %cpu = sub i32 %here, 1
  %index = lshr i32 %cpu, 3
  %fits = icmp ult i32 %index, 1024
  br i1 %fits, label %set, label %leave
set:"""
_RUN_ON_MASK = """\
  %number = load atomic i32, ptr %place monotonic, align 4
  %moved = call i32 @sched_setaffinity(i32 %number, i64 1024, ptr %mask)
  br label %leave
leave:
  ret void
}"""

# A worker's place is its thread number and, once known, its processor plus one. `allowed` is a bit mask.
_LINUX_PLACES = """
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal i32 @processor() {
  %cpu = call i32 @sched_getcpu()
  %one_up = add i32 %cpu, 1
  ret i32 %one_up
}

define internal i32 @thread_number() {
  %r = call i64 (i64, ...) @syscall(i64 <gettid>)
  %number = trunc i64 %r to i32
  ret i32 %number
}

define internal void @open_places(ptr %pool) {
  @allowed@
  %got = call i32 @sched_getaffinity(i32 0, i64 1024, ptr %allowed)
  ret void
}

define internal void @allow(ptr %pool, ptr %place) {
  @allowed@
  %number = load atomic i32, ptr %place monotonic, align 4
  %moved = call i32 @sched_setaffinity(i32 %number, i64 1024, ptr %allowed)
  ret void
}

define internal void @bring(ptr %place, i32 %here) {
<bit of here>
  call void @llvm.memset.p0.i64(ptr %mask, i8 0, i64 1024, i1 false)
  %byte = getelementptr inbounds i8, ptr %mask, i32 %index
  %in_byte = and i32 %cpu, 7
  %bit = shl i32 1, %in_byte
  %bit8 = trunc i32 %bit to i8
  store i8 %bit8, ptr %byte
<run on mask>

define internal void @keep_off(ptr %pool, ptr %place, i32 %here) {
  @allowed@
<bit of here>
  call void @llvm.memcpy.p0.p0.i64(ptr %mask, ptr %allowed, i64 1024, i1 false)
  %byte = getelementptr inbounds i8, ptr %mask, i32 %index
  %bits = load i8, ptr %byte
  %in_byte = and i32 %cpu, 7
  %bit = shl i32 1, %in_byte
  %bit8 = trunc i32 %bit to i8
  %others = xor i8 %bit8, -1
  %rest = and i8 %bits, %others
  store i8 %rest, ptr %byte
<run on mask>
""".replace("<bit of here>", _BIT_OF_HERE).replace("<run on mask>", _RUN_ON_MASK)

_NO_PLACES = """
define internal i32 @processor() {
  ret i32 0
}

define internal i32 @thread_number() {
  ret i32 0
}

define internal void @open_places(ptr %pool) {
  ret void
}

define internal void @keep_off(ptr %pool, ptr %place, i32 %here) {
  ret void
}

define internal void @bring(ptr %place, i32 %here) {
  ret void
}

define internal void @allow(ptr %pool, ptr %place) {
  ret void
}
"""

_RELAX = {
    "x86_64": """
declare void @llvm.x86.sse2.pause()

define internal void @relax() alwaysinline {
  call void @llvm.x86.sse2.pause()
  ret void
}
""",
    "aarch64": """
declare void @llvm.aarch64.isb(i32)

define internal void @relax() alwaysinline {
  call void @llvm.aarch64.isb(i32 15)
  ret void
}
""",
}
_RELAX_PLAIN = """
define internal void @relax() alwaysinline {
  fence acq_rel
  ret void
}
"""

# 0x1F80: all exceptions masked, round to nearest even, subnormals kept. On AArch64 all of that is 0.
_MODE = {
    "x86_64": """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)

define internal i64 @default_mode() {
  %old = alloca i32, align 4
  %new = alloca i32, align 4
  call void @llvm.x86.sse.stmxcsr(ptr %old)
  store i32 8064, ptr %new, align 4
  call void @llvm.x86.sse.ldmxcsr(ptr %new)
  %value = load i32, ptr %old, align 4
  %mode = zext i32 %value to i64
  ret i64 %mode
}

define internal void @restore_mode(i64 %mode) {
  %slot = alloca i32, align 4
  %value = trunc i64 %mode to i32
  store i32 %value, ptr %slot, align 4
  call void @llvm.x86.sse.ldmxcsr(ptr %slot)
  ret void
}
""",
    "aarch64": """
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)

define internal i64 @default_mode() {
  %mode = call i64 @llvm.aarch64.get.fpcr()
  call void @llvm.aarch64.set.fpcr(i64 0)
  ret i64 %mode
}

define internal void @restore_mode(i64 %mode) {
  call void @llvm.aarch64.set.fpcr(i64 %mode)
  ret void
}
""",
}
_MODE_PLAIN = """
define internal i64 @default_mode() {
  ret i64 0
}

define internal void @restore_mode(i64 %mode) {
  ret void
}
"""


def system_ir(triple: str, *, futex: bool = True) -> str:
    """Return the functions above for a target triple; `futex` off uses POSIX conditions on Linux as well."""
    arch = _arch(triple)
    calls = _CALLS.get(arch) if "linux" in triple else None
    parking = _FUTEX if calls and futex else _CONDITION
    places = _SYSCALL + _LINUX_PLACES if calls else _NO_PLACES
    text = places + parking + _RELAX.get(arch, _RELAX_PLAIN) + mode_ir(triple)
    for name, number in (calls or {}).items():
        text = text.replace(f"<{name}>", str(number))
    return text


def mode_ir(triple: str) -> str:
    """Return only `default_mode` and `restore_mode`."""
    return _MODE.get(_arch(triple), _MODE_PLAIN)


def _arch(triple: str) -> str:
    return triple.split("-")[0].replace("arm64", "aarch64")


# --- pool places -------------------------------------------------------------
# LLVM IR text that controls where the pool's workers run (see `pool`).

# The loop over the places of workers: the text before and after the work on %place.
_EACH_PLACE = """look:
  %i = phi i32 [ 0, %entry ], [ %next, %step ]
  %more = icmp ult i32 %i, %workers.v
  br i1 %more, label %check, label %leave
check:
  %place = getelementptr inbounds %place, ptr %places, i32 %i"""
_NEXT_PLACE = """step:
  %next = add i32 %i, 1
  br label %look
leave:
  ret void
}"""

PLACES = """
define internal ptr @take_place(ptr %pool) {
  @joined@
  @places@
  %index = atomicrmw add ptr %joined, i32 1 monotonic, align 4
  %place = getelementptr inbounds %place, ptr %places, i32 %index
  %number = call i32 @thread_number()
  store atomic i32 %number, ptr %place monotonic, align 4
  ret ptr %place
}

define internal void @note_place(ptr %pool, ptr %place) {
  @caller@
  @spins=i32@
  %cpu = getelementptr inbounds %place, ptr %place, i32 0, i32 1
  %here = call i32 @processor()
  %before = load atomic i32, ptr %cpu monotonic, align 4
  %same = icmp eq i32 %here, %before
  br i1 %same, label %look, label %note
note:
  store atomic i32 %here, ptr %cpu monotonic, align 4
  br label %look
look:
  %there = load atomic i32, ptr %caller monotonic, align 4
  %met = icmp eq i32 %here, %there
  %roams = icmp ne i32 %spins.v, 0
  %in_the_way = and i1 %met, %roams
  br i1 %in_the_way, label %move, label %leave
move:
  call void @keep_off(ptr %pool, ptr %place, i32 %here)
  br label %leave
leave:
  ret void
}

define internal void @gather(ptr %pool) {
entry:
  @places@
  @workers=i32@
  @spins=i32@
  %here = call i32 @processor()
  %known = icmp ne i32 %here, 0
  %roams = icmp ne i32 %spins.v, 0
  %moves = and i1 %known, %roams
  br i1 %moves, label %look, label %leave
<each place>
  %work = getelementptr inbounds %place, ptr %place, i32 0, i32 2
  %swap = cmpxchg ptr %work, i32 1, i32 2 monotonic monotonic, align 4
  %busy = extractvalue { i32, i1 } %swap, 1
  br i1 %busy, label %move, label %step
move:
  call void @bring(ptr %place, i32 %here)
  br label %leave
<next place>

define internal void @released(ptr %pool, ptr %place) {
  %work = getelementptr inbounds %place, ptr %place, i32 0, i32 2
  %before = atomicrmw xchg ptr %work, i32 0 monotonic, align 4
  %was_brought = icmp eq i32 %before, 2
  br i1 %was_brought, label %free, label %leave
free:
  call void @allow(ptr %pool, ptr %place)
  br label %leave
leave:
  ret void
}

define internal void @scatter(ptr %pool) {
entry:
  @caller@
  @places@
  @workers=i32@
  @spins=i32@
  %here = call i32 @processor()
  store atomic i32 %here, ptr %caller monotonic, align 4
  %roams = icmp ne i32 %spins.v, 0
  br i1 %roams, label %look, label %leave
<each place>
  %cpu = getelementptr inbounds %place, ptr %place, i32 0, i32 1
  %there = load atomic i32, ptr %cpu monotonic, align 4
  %met = icmp eq i32 %there, %here
  br i1 %met, label %move, label %step
move:
  store atomic i32 0, ptr %cpu monotonic, align 4
  call void @keep_off(ptr %pool, ptr %place, i32 %here)
  br label %step
<next place>
""".replace("<each place>", _EACH_PLACE).replace("<next place>", _NEXT_PLACE)
