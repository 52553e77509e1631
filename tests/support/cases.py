"""Reorders that between them reach every kernel family, tail and guard; small, as each kernel takes time."""

from __future__ import annotations

from dataclasses import dataclass

from restride.desc.memory_desc import MemoryDesc
from restride.ir.digits import reorder_nest
from restride.ir.nest import LoopNest

from .kernels import compute_of

_AXES = "abcdefghijkl"
_TWELVE = (3, 3, 3, 1, 3, 1, 3, 1, 3, 1, 2, 1)


@dataclass(frozen=True)
class Case:
    """A reorder with its factors, and the kind of kernel that it is meant for."""

    name: str
    kind: str
    src: MemoryDesc
    dst: MemoryDesc
    alpha: float = 1.0
    beta: float = 0.0

    @property
    def nest(self) -> LoopNest:
        """The loop nest."""
        return reorder_nest(self.src, self.dst, compute_of(self.alpha, self.beta))

    @property
    def factors(self) -> tuple[float, float]:
        """alpha and beta."""
        return self.alpha, self.beta


def _case(
    name: str, kind: str, dims: tuple[int, ...], tags: str, types: str, alpha: float = 1.0, beta: float = 0.0
) -> Case:
    (src_tag, dst_tag), (src_type, dst_type) = tags.split(), types.split()
    return Case(
        name, kind, MemoryDesc(dims, src_type, src_tag), MemoryDesc(dims, dst_type, dst_tag), alpha, beta
    )


def _strides(
    name: str, kind: str, dims: tuple[int, ...], src: tuple[int, ...], dst: tuple[int, ...], types: str
) -> Case:
    (src_type, dst_type) = types.split()
    start = sum((n - 1) * -s for n, s in zip(dims, src, strict=True) if s < 0)
    made = MemoryDesc.from_strides(dims, src_type, src, start)
    return Case(name, kind, made, MemoryDesc.from_strides(dims, dst_type, dst))


def _window(name: str, kind: str, tags: str, types: str) -> Case:
    (src_tag, dst_tag), (src_type, dst_type) = tags.split(), types.split()
    src = MemoryDesc((9, 70, 11), src_type, src_tag).submemory_desc((5, 22, 7), (3, 48, 2))
    dst = MemoryDesc((8, 54, 9), dst_type, dst_tag).submemory_desc((5, 22, 7), (1, 32, 1))
    return Case(name, kind, src, dst)


CASES = (
    _case("copy", "copy", (1003,), "a a", "f32 f32"),
    _case("copy of bytes", "copy", (4099,), "a a", "u8 u8"),
    _case("copy of one", "", (1,), "a a", "s8 s8"),
    _case("convert down", "copy", (517,), "a a", "f32 u8"),
    _case("convert up", "copy", (517,), "a a", "f16 f32"),
    _case("requantize", "copy", (333,), "a a", "s32 s8", 0.0625),
    _case("doubles down", "transpose", (19, 37), "ab ba", "f64 f8_e4m3"),
    _case("doubles up", "copy", (517,), "a a", "u8 f64", 0.5, 0.25),
    _case("doubles", "transpose", (2, 35, 3, 5), "abcd acdb", "f64 f64"),
    _case("tiny floats into blocks", "transpose", (2, 17, 3, 5), "abcd aBcd16b", "f8_e5m2 f64", 2.0),
    _case("flags", "transpose", (19, 37), "ab ba", "f64 boolean"),
    _case("sum", "copy", (70, 9), "ab ab", "bf16 f32", 1.0, 0.5),
    _case("scaled sum into bytes", "transpose", (19, 37), "ab ba", "f32 u8", 2.0, 0.75),
    _case("transpose", "transpose", (2, 35, 9, 5), "abcd acdb", "f32 f32"),
    _case("transpose back", "transpose", (2, 35, 9, 5), "acdb abcd", "f32 f32"),
    _case("transpose of halves", "transpose", (47, 65), "ab ba", "bf16 bf16"),
    _case("rows of whole lines", "copy", (64, 64), "ab ab", "f32 f32"),
    _case("transpose of whole lines", "transpose", (64, 128), "ab ba", "f32 f32"),
    _case("transpose of bytes", "transpose", (67, 131), "ab ba", "u8 u8"),
    _case("transpose and convert", "transpose", (33, 70), "ab ba", "f32 s8"),
    _case("three channels apart", "transpose", (2, 3, 7, 19), "acdb abcd", "u8 u8"),
    _case("three channels together", "transpose", (2, 3, 7, 19), "abcd acdb", "u8 u8"),
    _case("three channels of floats", "transpose", (1, 3, 5, 13), "acdb abcd", "u8 f32"),
    _case("five channels", "transpose", (1, 5, 6, 11), "abcd acdb", "f16 f16"),
    _case("into blocks", "transpose", (2, 17, 3, 11), "abcd aBcd16b", "f32 f32"),
    _case("into blocks of bytes", "transpose", (1, 21, 5, 5), "abcd aBcd16b", "f32 s8", 0.5),
    _case("out of blocks", "transpose", (2, 17, 3, 11), "aBcd16b abcd", "s8 f32"),
    _case("blocks to channels last", "copy", (2, 40, 3, 5), "aBcd16b acdb", "f32 f32"),
    _case("weights", "transpose", (70, 65), "ab BA16a64b4a", "s8 s8"),
    _case("weights of floats", "transpose", (33, 35, 3, 1), "abcd ABcd16b16a", "f32 bf16"),
    _case("blocks that do not nest", "", (100, 6), "Ab32a Ab48a", "f32 f32"),
    _case("odd blocks", "", (53, 36), "Ab12a BA10a7b", "s32 u8"),
    _case("guarded", "guarded", (3,) * 6, "fedcba ABCDEF2a2b2c2d2e2f", "f32 s8"),
    _case("guarded sum", "guarded", (3,) * 6, "abcdef FEDCBA2f2e2d2c2b2a", "s8 f32", 0.5, 0.5),
    _case("guarded, twelve axes", "guarded", _TWELVE, f"{_AXES} ABCdEfGhIjkl2a2b2c2e2g2i", "u8 u8"),
    _strides("strided", "strided", (21, 34), (100, 3), (1, 45), "f32 f32"),
    _strides("strided destination", "strided", (21, 34), (34, 1), (77, 2), "f32 bf16"),
    _strides("strided on both sides", "strided", (5, 6, 7), (99, 14, 2), (3, 20, 121), "u8 u8"),
    _strides("gaps between rows", "copy", (9, 50), (64, 1), (53, 1), "f32 f32"),
    _strides("transpose with gaps", "transpose", (37, 41), (50, 1), (1, 43), "s8 s8"),
    _strides("reversed", "strided", (13, 29), (-29, -1), (29, 1), "u8 f32"),
    _strides("broadcast along rows", "", (7, 66), (1, 0), (66, 1), "f32 f32"),
    _strides("broadcast rows", "copy", (7, 66), (0, 1), (66, 1), "bf16 f32"),
    _strides("sliding window", "transpose", (30, 9), (1, 1), (9, 1), "s8 s8"),
    _window("a window", "", "abc aBc8b", "f32 f32"),
    _window("a window of blocks", "", "aBc16b acb", "u8 u8"),
)  # fmt: skip


def named(name: str) -> Case:
    """The case of this name."""
    return next(case for case in CASES if case.name == name)
