"""LLVM IR text of the code that runs the calls of a grid: kernels of trees at positions that threads share.

It is a kernel like any other, whose numbers are a table of i64 at `src`; `params` are the addresses of
memory, by their numbers in the table::

    head       positions that threads share, axes, positions of the last one, bytes of own memory, calls,
               the most words that one call reads, then the extents of the axes but the last
    call       entry, whole, words of the record, conditions, places, then these, then the kernel's numbers
    condition  constant, how often an s64 in memory is added, a factor for each axis, the place of the s64
    place      number of a memory or -1 for own memory, byte offset, bytes along each axis

A call is made if all of its conditions are at least 0.
"""

from __future__ import annotations

HEAD_WORDS = 6
"""Words before the extents."""
CALL_WORDS = 5
"""Words of a call before its conditions."""

_IR = """
define internal i64 @moved(ptr %factors, ptr %at, i64 %axes) {
entry:
  br label %look
look:
  %i = phi i64 [ 0, %entry ], [ %next, %add ]
  %sum = phi i64 [ 0, %entry ], [ %more, %add ]
  %has = icmp ult i64 %i, %axes
  br i1 %has, label %add, label %leave
add:
  %factor_at = getelementptr inbounds i64, ptr %factors, i64 %i
  %factor = load i64, ptr %factor_at, align 8
  %position_at = getelementptr inbounds i64, ptr %at, i64 %i
  %position = load i64, ptr %position_at, align 8
  %term = mul i64 %factor, %position
  %more = add i64 %sum, %term
  %next = add i64 %i, 1
  br label %look
leave:
  ret i64 %sum
}

define internal ptr @reached(ptr %place, ptr %at, i64 %axes, ptr %own, ptr %params) {
entry:
  %number = load i64, ptr %place, align 8
  %is_own = icmp slt i64 %number, 0
  br i1 %is_own, label %leave, label %other
other:
  %param = getelementptr inbounds ptr, ptr %params, i64 %number
  %memory = load ptr, ptr %param, align 8
  br label %leave
leave:
  %base = phi ptr [ %own, %entry ], [ %memory, %other ]
  %offset_at = getelementptr inbounds i64, ptr %place, i64 1
  %offset = load i64, ptr %offset_at, align 8
  %factors = getelementptr inbounds i64, ptr %place, i64 2
  %moved = call i64 @moved(ptr %factors, ptr %at, i64 %axes)
  %distance = add i64 %offset, %moved
  %reached = getelementptr i8, ptr %base, i64 %distance
  ret ptr %reached
}

define void @restride(ptr %table, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {
entry:
  %count = load i64, ptr %table, align 8
  %axes_at = getelementptr inbounds i64, ptr %table, i64 1
  %axes = load i64, ptr %axes_at, align 8
  %turns_at = getelementptr inbounds i64, ptr %table, i64 2
  %turns = load i64, ptr %turns_at, align 8
  %bytes_at = getelementptr inbounds i64, ptr %table, i64 3
  %bytes = load i64, ptr %bytes_at, align 8
  %calls_at = getelementptr inbounds i64, ptr %table, i64 4
  %calls = load i64, ptr %calls_at, align 8
  %most_at = getelementptr inbounds i64, ptr %table, i64 5
  %most = load i64, ptr %most_at, align 8
  %extents = getelementptr inbounds i64, ptr %table, i64 6
  %outer = sub i64 %axes, 1
  %records = getelementptr inbounds i64, ptr %extents, i64 %outer
  %own = alloca i8, i64 %bytes, align 64
  %words = alloca ptr, i64 %most, align 16
  %at = alloca i64, i64 %axes, align 16
  %turn_at = getelementptr inbounds i64, ptr %at, i64 %outer
  %before = mul i64 %part, %count
  %low = udiv i64 %before, %parts
  %following = add i64 %part, 1
  %behind = mul i64 %following, %count
  %high = udiv i64 %behind, %parts
  br label %position
position:
  %p = phi i64 [ %low, %entry ], [ %next_p, %positioned ]
  %has_p = icmp ult i64 %p, %high
  br i1 %has_p, label %digit, label %leave
digit:
  %axis = phi i64 [ %outer, %position ], [ %lower, %decode ]
  %above = phi i64 [ %p, %position ], [ %rest, %decode ]
  %has_axis = icmp ne i64 %axis, 0
  br i1 %has_axis, label %decode, label %turn
decode:
  %lower = sub i64 %axis, 1
  %extent_at = getelementptr inbounds i64, ptr %extents, i64 %lower
  %extent = load i64, ptr %extent_at, align 8
  %digit_value = urem i64 %above, %extent
  %rest = udiv i64 %above, %extent
  %digit_at = getelementptr inbounds i64, ptr %at, i64 %lower
  store i64 %digit_value, ptr %digit_at, align 8
  br label %digit
turn:
  %t = phi i64 [ 0, %digit ], [ %next_t, %turned ]
  store i64 %t, ptr %turn_at, align 8
  %has_t = icmp ult i64 %t, %turns
  br i1 %has_t, label %call, label %positioned
call:
  %c = phi i64 [ 0, %turn ], [ %next_c, %called ]
  %record = phi ptr [ %records, %turn ], [ %next_record, %called ]
  %has_c = icmp ult i64 %c, %calls
  br i1 %has_c, label %begin, label %turned
begin:
  %length_at = getelementptr inbounds i64, ptr %record, i64 2
  %length = load i64, ptr %length_at, align 8
  %conditions_at = getelementptr inbounds i64, ptr %record, i64 3
  %conditions = load i64, ptr %conditions_at, align 8
  %places_at = getelementptr inbounds i64, ptr %record, i64 4
  %places = load i64, ptr %places_at, align 8
  %first_condition = getelementptr inbounds i64, ptr %record, i64 5
  %two_axes = shl i64 %axes, 1
  %condition_words = add i64 %two_axes, 4
  %place_words = add i64 %axes, 2
  br label %condition
condition:
  %k = phi i64 [ 0, %begin ], [ %next_k, %hold ]
  %condition_at = phi ptr [ %first_condition, %begin ], [ %next_condition, %hold ]
  %has_k = icmp ult i64 %k, %conditions
  br i1 %has_k, label %check, label %place
check:
  %constant = load i64, ptr %condition_at, align 8
  %sign_at = getelementptr inbounds i64, ptr %condition_at, i64 1
  %sign = load i64, ptr %sign_at, align 8
  %factors_at = getelementptr inbounds i64, ptr %condition_at, i64 2
  %sum = call i64 @moved(ptr %factors_at, ptr %at, i64 %axes)
  %known = add i64 %constant, %sum
  %is_known = icmp eq i64 %sign, 0
  br i1 %is_known, label %decide, label %read
read:
  %added_at = getelementptr inbounds i64, ptr %factors_at, i64 %axes
  %value_at = call ptr @reached(ptr %added_at, ptr %at, i64 %axes, ptr %own, ptr %params)
  %value = load i64, ptr %value_at, align 8
  %signed = mul i64 %value, %sign
  %with_value = add i64 %known, %signed
  br label %decide
decide:
  %total = phi i64 [ %known, %check ], [ %with_value, %read ]
  %holds = icmp sge i64 %total, 0
  br i1 %holds, label %hold, label %called
hold:
  %next_k = add i64 %k, 1
  %next_condition = getelementptr inbounds i64, ptr %condition_at, i64 %condition_words
  br label %condition
place:
  %j = phi i64 [ 0, %condition ], [ %next_j, %put ]
  %place_at = phi ptr [ %condition_at, %condition ], [ %next_place, %put ]
  %has_j = icmp ult i64 %j, %places
  br i1 %has_j, label %put, label %run
put:
  %address = call ptr @reached(ptr %place_at, ptr %at, i64 %axes, ptr %own, ptr %params)
  %word_at = getelementptr inbounds ptr, ptr %words, i64 %j
  store ptr %address, ptr %word_at, align 8
  %next_j = add i64 %j, 1
  %next_place = getelementptr inbounds i64, ptr %place_at, i64 %place_words
  br label %place
run:
  %whole_at = getelementptr inbounds i64, ptr %record, i64 1
  %whole = load ptr, ptr %whole_at, align 8
  call void %whole(ptr %place_at, ptr null, ptr %words)
  br label %called
called:
  %next_c = add i64 %c, 1
  %next_record = getelementptr inbounds i64, ptr %record, i64 %length
  br label %call
turned:
  %next_t = add i64 %t, 1
  br label %turn
positioned:
  %next_p = add i64 %p, 1
  br label %position
leave:
  ret void
}

define void @restride_whole(ptr %table, ptr %dst, ptr %params) nounwind {
  call void @restride(ptr %table, ptr %dst, ptr %params, i64 0, i64 1)
  ret void
}
"""


def grid_ir() -> str:
    """Return the module; it is the same for every grid and every target."""
    return _IR
