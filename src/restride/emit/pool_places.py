"""LLVM IR text of where the pool's workers run (see `pool`).

A worker on the caller's processor is moved off it (Linux), by itself or by the caller: some schedulers pack
threads that wake each other, and then they only wait for each other. It may run on all other processors.

    take_place(pool) -> place       a new worker's place: its thread number and its processor, none yet
    note_place(pool, place)         note the processor that the worker is on, and move it off the caller's
    scatter(pool)                   note the caller's processor, and move the workers off that are on it

In the text, @field@ is the address of a field of the pool, @field=type@ its value.
"""

from __future__ import annotations

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
look:
  %i = phi i32 [ 0, %entry ], [ %next, %step ]
  %more = icmp ult i32 %i, %workers.v
  br i1 %more, label %check, label %leave
check:
  %place = getelementptr inbounds %place, ptr %places, i32 %i
  %cpu = getelementptr inbounds %place, ptr %place, i32 0, i32 1
  %there = load atomic i32, ptr %cpu monotonic, align 4
  %met = icmp eq i32 %there, %here
  br i1 %met, label %move, label %step
move:
  store atomic i32 0, ptr %cpu monotonic, align 4
  call void @keep_off(ptr %pool, ptr %place, i32 %here)
  br label %step
step:
  %next = add i32 %i, 1
  br label %look
leave:
  ret void
}
"""
