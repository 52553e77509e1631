"""LLVM IR text of a handler that XLA calls: runs a kernel from input arrays to one output array.

XLA's foreign function interface is a C interface with structures that state their size and grow only at the
end; a handler states the version it was written for, and XLA rejects those that it no longer supports.
Offsets here are of version 0.3, in bytes, on machines of 64 bits.

The text is the same for all kernels: the differences are words in `restride_facts`, written at load time.
"""

from __future__ import annotations

from restride.emit.pool_system import mode_ir

HANDLER, FACTS = "restride_xla", "restride_facts"
MOST_SOURCES = 6
"""The most arrays that a handler can receive."""
_SOURCES = (f"src{i}_{word}" for i in range(MOST_SOURCES) for word in ("type", "elements"))
FACT_NAMES = ("whole", "callback", "params", "sources", "dst_type", "dst_elements", *_SOURCES)
"""The words: a kernel void(src, dst, params) of one source or 0, else a function i32(addresses of sources,
dst) that returns 0 on success; then the expected arguments: the number of sources, XLA's numbers of types,
and the numbers of elements."""
MAJOR, MINOR = 0, 3

_FIELD = """define internal ptr @field_ptr(ptr %at, i64 %offset) {
  %p = getelementptr i8, ptr %at, i64 %offset
  %v = load ptr, ptr %p, align 8
  ret ptr %v
}

define internal i64 @field(ptr %at, i64 %offset) {
  %p = getelementptr i8, ptr %at, i64 %offset
  %v = load i64, ptr %p, align 8
  ret i64 %v
}

define internal i32 @field_int(ptr %at, i64 %offset) {
  %p = getelementptr i8, ptr %at, i64 %offset
  %v = load i32, ptr %p, align 4
  ret i32 %v
}

define internal i64 @fact(i64 %index) {
  %p = getelementptr i64, ptr @restride_facts, i64 %index
  %v = load i64, ptr %p, align 8
  ret i64 %v
}

define internal ptr @fact_ptr(i64 %index) {
  %p = getelementptr i64, ptr @restride_facts, i64 %index
  %v = load ptr, ptr %p, align 8
  ret ptr %v
}
"""

# XLA_FFI_Args and XLA_FFI_Rets have equal layouts: size at 16, types at 24, pointers at 32.
# XLA_FFI_Buffer: type at 16, data at 24, rank at 32, dims at 40.
_BUFFER_AT = """
define internal ptr @buffer_at(ptr %list, i64 %count, i64 %index) {
  %n = call i64 @field(ptr %list, i64 16)
  %as_many = icmp eq i64 %n, %count
  br i1 %as_many, label %typed, label %none
typed:
  %types = call ptr @field_ptr(ptr %list, i64 24)
  %p_type = getelementptr i32, ptr %types, i64 %index
  %type = load i32, ptr %p_type, align 4
  %right = icmp eq i32 %type, 1
  br i1 %right, label %sized, label %none
sized:
  %all = call ptr @field_ptr(ptr %list, i64 32)
  %p_buffer = getelementptr ptr, ptr %all, i64 %index
  %buffer = load ptr, ptr %p_buffer, align 8
  %size = call i64 @field(ptr %buffer, i64 0)
  %whole = icmp uge i64 %size, 48
  br i1 %whole, label %found, label %none
found:
  ret ptr %buffer
none:
  ret ptr null
}

define internal i1 @is_as_told(ptr %buffer, i64 %index) {
entry:
  %is_none = icmp eq ptr %buffer, null
  br i1 %is_none, label %no, label %typed
typed:
  %type = call i32 @field_int(ptr %buffer, i64 16)
  %wide = zext i32 %type to i64
  %wanted = call i64 @fact(i64 %index)
  %same = icmp eq i64 %wide, %wanted
  br i1 %same, label %shaped, label %no
shaped:
  %rank = call i64 @field(ptr %buffer, i64 32)
  %dims = call ptr @field_ptr(ptr %buffer, i64 40)
  br label %look
look:
  %d = phi i64 [ 0, %shaped ], [ %next, %more ]
  %count = phi i64 [ 1, %shaped ], [ %product, %more ]
  %over = icmp sge i64 %d, %rank
  br i1 %over, label %counted, label %more
more:
  %place = getelementptr i64, ptr %dims, i64 %d
  %dim = load i64, ptr %place, align 8
  %product = mul i64 %count, %dim
  %next = add i64 %d, 1
  br label %look
counted:
  %after = add i64 %index, 1
  %elements = call i64 @fact(i64 %after)
  %fits = icmp eq i64 %count, %elements
  ret i1 %fits
no:
  ret i1 false
}
"""

# XLA_FFI_Error_Create_Args: message at 16, code at 24. XLA_FFI_Api: the function at 48.
_ERROR = """
define internal ptr @failed(ptr %frame, ptr %message, i32 %code) {
  %api = call ptr @field_ptr(ptr %frame, i64 16)
  %create = call ptr @field_ptr(ptr %api, i64 48)
  %args = alloca [32 x i8], align 8
  store i64 28, ptr %args, align 8
  %extension = getelementptr i8, ptr %args, i64 8
  store ptr null, ptr %extension, align 8
  %text = getelementptr i8, ptr %args, i64 16
  store ptr %message, ptr %text, align 8
  %kind = getelementptr i8, ptr %args, i64 24
  store i32 %code, ptr %kind, align 8
  %error = call ptr %create(ptr %args)
  ret ptr %error
}
"""

# XLA_FFI_Metadata_Extension: type at 8, metadata at 24. XLA_FFI_Metadata: version at 8, traits at 32, id of a
# state at 40. XLA_FFI_CallFrame: extension at 8, api at 16, stage at 32, arguments at 40, results at 80.
_HANDLER = """
{strange}
{broken}

define internal void @describe(ptr %frame, ptr %extension) {{
  %metadata = call ptr @field_ptr(ptr %extension, i64 24)
  %api = call ptr @field_ptr(ptr %frame, i64 16)
  %theirs = call i32 @field_int(ptr %api, i64 36)
  %older = icmp slt i32 %theirs, {minor}
  %minor = select i1 %older, i32 %theirs, i32 {minor}
  %p_major = getelementptr i8, ptr %metadata, i64 24
  store i32 {major}, ptr %p_major, align 4
  %p_minor = getelementptr i8, ptr %metadata, i64 28
  store i32 %minor, ptr %p_minor, align 4
  %p_traits = getelementptr i8, ptr %metadata, i64 32
  store i32 0, ptr %p_traits, align 4
  ret void
}}

define ptr @restride_xla(ptr %frame) {{
entry:
  %addresses = alloca [{most} x ptr], align 8
  %extension = call ptr @field_ptr(ptr %frame, i64 8)
  %is_call = icmp eq ptr %extension, null
  br i1 %is_call, label %call, label %extended
extended:
  %kind = call i32 @field_int(ptr %extension, i64 8)
  %is_question = icmp eq i32 %kind, 1
  br i1 %is_question, label %answer, label %call
answer:
  call void @describe(ptr %frame, ptr %extension)
  ret ptr null
call:
  %size = call i64 @field(ptr %frame, i64 0)
  %whole = icmp uge i64 %size, 120
  %stage = call i32 @field_int(ptr %frame, i64 32)
  %executes = icmp eq i32 %stage, 3
  %ready = and i1 %whole, %executes
  br i1 %ready, label %take, label %refuse
take:
  %args = getelementptr i8, ptr %frame, i64 40
  %rets = getelementptr i8, ptr %frame, i64 80
  %sources = call i64 @fact(i64 3)
  %dst_buffer = call ptr @buffer_at(ptr %rets, i64 1, i64 0)
  %dst_fits = call i1 @is_as_told(ptr %dst_buffer, i64 4)
  br i1 %dst_fits, label %source, label %refuse
source:
  %i = phi i64 [ 0, %take ], [ %next, %found ]
  %src_buffer = call ptr @buffer_at(ptr %args, i64 %sources, i64 %i)
  %twice = shl i64 %i, 1
  %place = add i64 %twice, 6
  %src_fits = call i1 @is_as_told(ptr %src_buffer, i64 %place)
  br i1 %src_fits, label %found, label %refuse
found:
  %data = call ptr @field_ptr(ptr %src_buffer, i64 24)
  %p_address = getelementptr ptr, ptr %addresses, i64 %i
  store ptr %data, ptr %p_address, align 8
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %sources
  br i1 %more, label %source, label %run
run:
  %src = load ptr, ptr %addresses, align 8
  %dst = call ptr @field_ptr(ptr %dst_buffer, i64 24)
  %kernel = call ptr @fact_ptr(i64 0)
  %is_large = icmp eq ptr %kernel, null
  br i1 %is_large, label %ask, label %direct
direct:
  %params = call ptr @fact_ptr(i64 2)
  %mode = call i64 @default_mode()
  call void %kernel(ptr %src, ptr %dst, ptr %params)
  call void @restore_mode(i64 %mode)
  ret ptr null
ask:
  %callback = call ptr @fact_ptr(i64 1)
  %status = call i32 %callback(ptr %addresses, ptr %dst)
  %well = icmp eq i32 %status, 0
  br i1 %well, label %done, label %fail
done:
  ret ptr null
refuse:
  %e0 = call ptr @failed(ptr %frame, ptr @strange, i32 3)
  ret ptr %e0
fail:
  %e1 = call ptr @failed(ptr %frame, ptr @broken, i32 13)
  ret ptr %e1
}}
"""


def xla_handler_ir(triple: str) -> str:
    """Return a module with `restride_xla`, an XLA_FFI_Handler, and the words that it reads."""
    facts = f"@restride_facts = global [{len(FACT_NAMES)} x i64] zeroinitializer, align 8\n"
    strange = _text("strange", "restride: XLA calls this handler otherwise than it was made for")
    broken = _text("broken", "restride: the kernel failed, and Python wrote its error to stderr")
    handler = _HANDLER.format(major=MAJOR, minor=MINOR, most=MOST_SOURCES, strange=strange, broken=broken)
    return mode_ir(triple) + facts + _FIELD + _BUFFER_AT + _ERROR + handler


def _text(name: str, message: str) -> str:
    return f'@{name} = private constant [{len(message) + 1} x i8] c"{message}\\00"'
