"""LLVM IR text of the code that runs a list of launches: one native call for all kernels of a program.

    void restride_launches(ptr list, ptr run, ptr pool, ptr scratch, ptr src, ptr dst, ptr words)

`list` is a table of i64; `words` are the addresses of the slots after `src` and `dst`, and then the scalars;
`run` and `pool` are `restride_pool_run` and its first argument. The table:

    head      launches, the most words that one launch reads, the number of the first scalar among `words`
    launch    entry, whole, parts, src, dst, operands, scalars, first scalar, numbers, then `operands` places,
              then `numbers` words, then `scalars` of its own if the first one is -1
    place     buffer, byte offset, bytes per turn     buffer 0 is src, 1 dst, 2 + n word n; -1 scratch
    repeat    0, turns, launches            this many of the following launches run in turn, `turns` times

If a launch has numbers, its kernel finds them at `src`. A launch of one part calls `whole`, others are
regions of the pool. A launch begins when the previous one has ended. A repeat is not a launch, and must not
contain another one.
"""

from __future__ import annotations

HEAD_WORDS = 3
"""Words before the first launch."""

OWN_SCALARS = -1
"""Marks the first scalar if those of a launch follow it in the list."""

LAUNCHES = "restride_launches"

_IR = """
define internal i64 @place(
    ptr %at, i64 %turn, ptr %src, ptr %dst, ptr %words, ptr %scratch
) alwaysinline {
entry:
  %buffer = load i64, ptr %at, align 8
  %offset_at = getelementptr inbounds i64, ptr %at, i64 1
  %offset = load i64, ptr %offset_at, align 8
  %stride_at = getelementptr inbounds i64, ptr %at, i64 2
  %stride = load i64, ptr %stride_at, align 8
  %moved = mul i64 %turn, %stride
  switch i64 %buffer, label %word [ i64 0, label %first i64 1, label %second i64 -1, label %own ]
first:
  %a = ptrtoint ptr %src to i64
  br label %leave
second:
  %b = ptrtoint ptr %dst to i64
  br label %leave
own:
  %c = ptrtoint ptr %scratch to i64
  br label %leave
word:
  %index = sub i64 %buffer, 2
  %word_at = getelementptr inbounds i64, ptr %words, i64 %index
  %d = load i64, ptr %word_at, align 8
  br label %leave
leave:
  %base = phi i64 [ %a, %first ], [ %b, %second ], [ %c, %own ], [ %d, %word ]
  %first_turn = add i64 %base, %offset
  %sum = add i64 %first_turn, %moved
  ret i64 %sum
}

define void @restride_launches(ptr %list, ptr %run, ptr %pool, ptr %scratch, ptr %src, ptr %dst, ptr %words) {
entry:
  %count = load i64, ptr %list, align 8
  %most_at = getelementptr inbounds i64, ptr %list, i64 1
  %most = load i64, ptr %most_at, align 8
  %scalars_at = getelementptr inbounds i64, ptr %list, i64 2
  %scalars = load i64, ptr %scalars_at, align 8
  %params = alloca i64, i64 %most, align 16
  %begin = getelementptr inbounds i64, ptr %list, i64 3
  br label %look
look:
  %i = phi i64 [ 0, %entry ], [ %i, %repeat ], [ %after_i, %done ]
  %at = phi ptr [ %begin, %entry ], [ %body_at, %repeat ], [ %after_at, %done ]
  %turn = phi i64 [ 0, %entry ], [ 0, %repeat ], [ %after_turn, %done ]
  %turns = phi i64 [ 0, %entry ], [ %new_turns, %repeat ], [ %turns, %done ]
  %body = phi ptr [ %begin, %entry ], [ %body_at, %repeat ], [ %body, %done ]
  %size = phi i64 [ 0, %entry ], [ %new_size, %repeat ], [ %size, %done ]
  %left = phi i64 [ 0, %entry ], [ %new_size, %repeat ], [ %after_left, %done ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %kind, label %leave
kind:
  %entry_fn = load ptr, ptr %at, align 8
  %is_repeat = icmp eq ptr %entry_fn, null
  br i1 %is_repeat, label %repeat, label %begin_launch
repeat:
  %turns_at = getelementptr inbounds i64, ptr %at, i64 1
  %new_turns = load i64, ptr %turns_at, align 8
  %size_at = getelementptr inbounds i64, ptr %at, i64 2
  %new_size = load i64, ptr %size_at, align 8
  %body_at = getelementptr inbounds i64, ptr %at, i64 3
  br label %look
begin_launch:
  %whole_at = getelementptr inbounds i64, ptr %at, i64 1
  %parts_at = getelementptr inbounds i64, ptr %at, i64 2
  %src_at = getelementptr inbounds i64, ptr %at, i64 3
  %dst_at = getelementptr inbounds i64, ptr %at, i64 6
  %operands_at = getelementptr inbounds i64, ptr %at, i64 9
  %count_at = getelementptr inbounds i64, ptr %at, i64 10
  %first_at = getelementptr inbounds i64, ptr %at, i64 11
  %whole_fn = load ptr, ptr %whole_at, align 8
  %parts = load i64, ptr %parts_at, align 8
  %src_i = call i64 @place(ptr %src_at, i64 %turn, ptr %src, ptr %dst, ptr %words, ptr %scratch)
  %dst_i = call i64 @place(ptr %dst_at, i64 %turn, ptr %src, ptr %dst, ptr %words, ptr %scratch)
  %src_p = inttoptr i64 %src_i to ptr
  %dst_p = inttoptr i64 %dst_i to ptr
  %operands = load i64, ptr %operands_at, align 8
  %scalar_count = load i64, ptr %count_at, align 8
  %first_scalar = load i64, ptr %first_at, align 8
  %numbers_at = getelementptr inbounds i64, ptr %at, i64 12
  %numbers = load i64, ptr %numbers_at, align 8
  %places = getelementptr inbounds i64, ptr %at, i64 13
  br label %operand
operand:
  %k = phi i64 [ 0, %begin_launch ], [ %next_k, %put ]
  %place_at = phi ptr [ %places, %begin_launch ], [ %next_place, %put ]
  %has_operand = icmp ult i64 %k, %operands
  br i1 %has_operand, label %put, label %scalars_begin
put:
  %address = call i64 @place(ptr %place_at, i64 %turn, ptr %src, ptr %dst, ptr %words, ptr %scratch)
  %param = getelementptr inbounds i64, ptr %params, i64 %k
  store i64 %address, ptr %param, align 8
  %next_k = add i64 %k, 1
  %next_place = getelementptr inbounds i64, ptr %place_at, i64 3
  br label %operand
scalars_begin:
  %has_own = icmp slt i64 %first_scalar, 0
  %own_scalars = select i1 %has_own, i64 %scalar_count, i64 0
  %own_at = getelementptr inbounds i64, ptr %place_at, i64 %numbers
  %from_number = add i64 %scalars, %first_scalar
  %from_words = getelementptr inbounds i64, ptr %words, i64 %from_number
  %from = select i1 %has_own, ptr %own_at, ptr %from_words
  %to = getelementptr inbounds i64, ptr %params, i64 %operands
  br label %scalar
scalar:
  %s = phi i64 [ 0, %scalars_begin ], [ %next_s, %copy ]
  %has_scalar = icmp ult i64 %s, %scalar_count
  br i1 %has_scalar, label %copy, label %launch
copy:
  %value_at = getelementptr inbounds i64, ptr %from, i64 %s
  %value = load i64, ptr %value_at, align 8
  %to_at = getelementptr inbounds i64, ptr %to, i64 %s
  store i64 %value, ptr %to_at, align 8
  %next_s = add i64 %s, 1
  br label %scalar
launch:
  %has_numbers = icmp ne i64 %numbers, 0
  %read = select i1 %has_numbers, ptr %place_at, ptr %src_p
  %next_at = getelementptr inbounds i64, ptr %own_at, i64 %own_scalars
  %alone = icmp eq i64 %parts, 1
  br i1 %alone, label %one, label %region
one:
  call void %whole_fn(ptr %read, ptr %dst_p, ptr %params)
  br label %done
region:
  call void %run(ptr %pool, ptr %entry_fn, ptr %read, ptr %dst_p, ptr %params, i64 %parts, i64 0, i64 %parts)
  br label %done
done:
  ; The last launch of a turn goes back to the first one, unless this is the last turn.
  %next_i = add i64 %i, 1
  %next_left = sub i64 %left, 1
  %next_turn = add i64 %turn, 1
  %ends_turn = icmp eq i64 %next_left, 0
  %has_turn = icmp ult i64 %next_turn, %turns
  %goes_back = and i1 %ends_turn, %has_turn
  %first_i = sub i64 %next_i, %size
  %after_i = select i1 %goes_back, i64 %first_i, i64 %next_i
  %after_at = select i1 %goes_back, ptr %body, ptr %next_at
  %after_left = select i1 %goes_back, i64 %size, i64 %next_left
  %kept_turn = select i1 %ends_turn, i64 0, i64 %turn
  %after_turn = select i1 %goes_back, i64 %next_turn, i64 %kept_turn
  br label %look
leave:
  ret void
}
"""


def launches_ir() -> str:
    """Return the module; it is the same for every target."""
    return _IR
