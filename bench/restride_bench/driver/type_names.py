"""The data types that batch files name, restride's own or not."""

from __future__ import annotations

TYPES = (
    *("f64", "f32", "bf16", "f16", "f8_e5m2", "f8_e4m3", "e8m0", "f4_e2m1", "f4_e3m0"),
    *("s64", "s32", "s8", "u8", "s4", "u4", "s2", "u2", "boolean", "undef"),
)
