"""Problems whose kernels are held by hashes, in groups: between them they reach all that plans and emits.

Plain values, which stay as they are when the library's modules move.
"""

from __future__ import annotations

from itertools import product

from support.ir_problem import (
    COMMON,
    DST,
    SMALL,
    SRC,
    SRC_0,
    TINY,
    Problem,
    Step,
    Tensor,
    add,
    concat,
    found_range,
    reorder,
    shuffle,
    window,
)

TYPES = ("f64", "f32", "bf16", "f16", "f8_e5m2", "f8_e4m3", "s32", "s8", "u8", "s4", "u4", "boolean")
_FEW = ("f32", "bf16", "u8")
_PAIRS = tuple(product(TYPES, repeat=2))
# Each is handled in a way of its own.
_WAYS = tuple(product(("f64", "f32", "bf16", "f8_e4m3", "s32", "u8", "s4"), repeat=2))

# --- types --------------------------------------------------------------------------------------------------

_TYPES_PLAIN = tuple(reorder((517,), f"{a} {b}", "a", "a") for a, b in _PAIRS)
_TYPES_TURNED = tuple(reorder((35, 70), f"{a} {b}", "ab", "ba") for a, b in _WAYS)
_TYPES_BLOCKED = tuple(reorder((2, 17, 3, 5), f"{a} {b}", "abcd", "aBcd16b") for a, b in _WAYS)

# Bytes to bytes by tables: whole registers, and tails.
_TABLES = tuple(
    reorder((64, 67), f"{a} {b}", *tags)
    for a, b in product(("f8_e5m2", "f8_e4m3", "s8", "u8", "s4", "u4", "boolean"), repeat=2)
    if a != b and ("f8" in a or "f8" in b)
    for tags in (("ab", "ab"), ("ab", "AB4b16a4b"))
)

# --- layouts ------------------------------------------------------------------------------------------------

_TAGS = (
    ((64, 64), "ab ab"),
    ((64, 128), "ab ba"),
    ((47, 65), "ab ba"),
    ((2, 35, 9, 5), "abcd acdb"),
    ((2, 35, 9, 5), "acdb abcd"),
    ((2, 3, 7, 19), "acdb abcd"),
    ((2, 3, 7, 19), "abcd acdb"),
    ((1, 5, 6, 11), "abcd acdb"),
    ((2, 17, 3, 11), "abcd aBcd16b"),
    ((2, 17, 3, 11), "aBcd16b abcd"),
    ((2, 21, 3, 11), "abcd aBcd8b"),
    ((2, 40, 3, 5), "aBcd16b acdb"),
    ((2, 40, 3, 5), "aBcd8b aBcd16b"),
    ((70, 65), "ab BA16a64b4a"),
    ((33, 35, 3, 1), "abcd ABcd16b16a"),
    ((33, 20, 3, 3), "abcd ABcd4b16a4b"),
    ((33, 20, 3, 3), "ABcd4b16a4b cdba"),
    ((3, 20, 18, 3, 3), "abcde aBCde4c16b4c"),
    ((2, 5, 6, 7, 8), "abcde ecadb"),
    ((12, 21, 19, 5), "abcd aBcd8b8c"),
)
_LAYOUTS = tuple(reorder(dims, kind, *tags.split()) for dims, tags in _TAGS for kind in _FEW)

_STRIDED = (
    *(reorder((21, 34), types, (100, 3), (1, 45)) for types in ("f32", "u8", "s8 f64")),
    *(reorder((21, 34), types, (34, 1), (77, 2)) for types in ("f32 bf16", "f16", "s32 u8")),
    *(reorder((5, 6, 7), types, (99, 14, 2), (3, 20, 121)) for types in ("u8", "f32")),
    *(reorder((9, 50), types, (64, 1), (53, 1)) for types in ("f32", "bf16 f32")),
    reorder((37, 41), "s8", (50, 1), (1, 43)),
    reorder((13, 29), "u8 f32", (-29, -1), (29, 1)),
    reorder((7, 66), "f32", (1, 0), (66, 1)),
    reorder((7, 66), "bf16 f32", (0, 1), (66, 1)),
    reorder((30, 9), "s8", (1, 1), (9, 1)),
    *(window(types, tags) for types in ("f32 f32", "u8 s8") for tags in ("abc aBc8b", "aBc16b acb")),
    *(reorder((2, 35, 9, 5), kind, "abcd", "acdb") for kind in ("f64", "s4")),
    *(reorder((2, 40, 3, 5), kind, "aBcd8b", "aBcd16b") for kind in ("f64", "s4")),
    reorder((1, 1), "f32", "ab", "ba"),
    reorder((3, 1, 3, 3, 2, 2, 3, 3, 1, 3, 3, 3), "bf16", "kaebdglchjif", "djBlAekCihfg2a2b2c"),
)

# Blocks that do not nest, and boxes that are too many to peel.
_GUARDED = (
    *(reorder((100, 6), types, "Ab32a", "Ab48a") for types in ("f32", "u8", "f32 s8", "s4")),
    *(reorder((53, 36), types, "Ab12a", "BA10a7b") for types in ("s32 u8", "bf16")),
    *(reorder((3,) * 6, types, "fedcba", "ABCDEF2a2b2c2d2e2f") for types in ("f32 s8", "u8", "f64", "s4")),
    reorder((3,) * 6, "s8 f32", "abcdef", "FEDCBA2f2e2d2c2b2a", ("output_scales", 0, 0.5), ("sum", 0.5)),
    reorder((3,) * 8, "f32", "abcdefgh", "ABCDEFgh2a2b2c2d2e2f"),
    reorder((3, 3, 3, 1, 3, 1, 3, 1, 3, 1, 2, 1), "u8", "abcdefghijkl", "ABCdEfGhIjkl2a2b2c2e2g2i"),
    reorder((3,) * 6, "f32 s8", "abcdef", "ABCDEF2a2b2c2d2e2f", ("scales", SRC, 5), ("eltwise", "relu")),
)

# --- past the caches ----------------------------------------------------------------------------------------

_STREAMED = (
    *(
        reorder(dims, types, *tags.split(), caches=SMALL)
        for dims, types, tags in (
            ((1024, 64), "f32", "ab ab"),
            ((256, 256), "f32", "ab ba"),
            ((512, 384), "u8", "ab ba"),
            ((128, 512), "f32 bf16", "ab ba"),
            ((65536,), "f32 u8", "a a"),
            ((70001,), "f32", "a a"),
            ((70001,), "u8 f32", "a a"),
            ((8, 64, 16, 16), "f32", "abcd aBcd16b"),
            ((8, 60, 16, 16), "f32", "abcd aBcd16b"),
            ((8, 64, 16, 16), "bf16", "abcd acdb"),
            ((8, 64, 16, 16), "f32 s8", "acdb abcd"),
            ((64, 36, 7, 7), "f32", "abcd acdb"),
            ((16, 3, 64, 64), "u8", "acdb abcd"),
            ((16, 3, 64, 64), "u8 f32", "acdb abcd"),
            ((64, 32, 3, 3), "f32", "abcd ABcd16b16a"),
            ((320, 300), "f32 s8", "ab BA16a64b4a"),
        )
    ),
    reorder((512, 48), "f32", "ab", (64, 1), caches=SMALL),
    reorder((512, 16), "f32", "ab", (20, 1), caches=TINY),
    reorder((100, 8, 16), "f32", "abc", (160, 20, 1), caches=TINY),
    reorder((2**20, 16), "f32", "ab", "ab"),
    reorder((64, 64, 112, 112), "f32", "abcd", "acdb"),
    reorder((64, 64, 56, 56), "f32 s8", "abcd", "aBcd16b", ("output_scales", 0, 0.5)),
    reorder((1024, 64), "f32", "ab", "ab", ("sum", 1.0), caches=SMALL),
    # A transpose whose rows share the sets of a cache, and one that strides alone can do.
    reorder((4096, 64), "f32", "ab", "ba", caches=SMALL),
    reorder((200, 200), "f32", (300, 3), (2, 512), caches=SMALL),
)

_BLOCKS = tuple(
    reorder(dims, types, *tags.split(), *steps, caches=TINY)
    for dims, types, tags in (
        ((40, 17, 7, 7), "u8", "abcd aBcd16b"),
        ((40, 17, 7, 7), "bf16", "abcd aBcd16b"),
        ((40, 17, 7, 7), "f32 s8", "abcd aBcd16b"),
        ((12, 21, 19, 5), "bf16", "abcd aBcd8b8c"),
        ((24, 24, 40), "u8", "aBc16b aBc32b"),
        ((40, 17, 7, 7), "f32", "acdb aBcd16b"),
        ((8, 40), "u8 s8", "aB8b AB32b12b24a"),
    )
    for steps in ((), (("output_scales", 0, 0.5),))
)

# --- 4 bits -------------------------------------------------------------------------------------------------

_NIBBLES = (
    *(
        reorder(dims, types, *tags.split())
        for dims, tags in (
            ((130,), "a a"),
            ((33, 21), "ab ab"),
            ((34, 20), "ab ba"),
            ((33, 21), "ab ba"),
            ((2, 17, 3, 4), "abcd acdb"),
            ((2, 17, 3, 5), "acdb aBcd16b"),
            ((36, 40), "ab BA16a64b4a"),
        )
        for types in ("s4", "u4 s8", "f32 s4", "u4 f32", "s8 u4")
    ),
    reorder((16, 30), "u4", (41, 1), (1, 16)),
    reorder((16, 30), "s4 f32", (1, 17), (30, 1)),
    reorder((7, 9), "f32 s4", "ab", "ba", ("sum", 0.5)),
    reorder((7, 9), "s4", "ab", "ab", ("sum", 0.5, 0, "u4")),
    reorder((33, 64), "s4 bf16", "ab", "ab", ("scales", SRC, 3, None, (1, 32), "f16")),
    reorder(
        (64, 32),
        "u4 f32",
        "ab",
        "ba",
        ("zero_points", SRC, 3, None, (32, 1), "u4"),
        ("scales", SRC, 3, None, (32, 1)),
    ),
    Problem(
        "reorder",
        (Tensor((5, 6), "s4", "ab", (8, 11), (1, 2)), Tensor((5, 6), "u4", "ab", (9, 9), (1, 3))),
    ),
)

# --- attributes ---------------------------------------------------------------------------------------------

_QUANTIZED = ((2, 17, 3, 5), "abcd", "aBcd16b")


def _attributed(types: str, *steps: Step) -> Problem:
    dims, src, dst = _QUANTIZED
    return reorder(dims, types, src, dst, *steps)


_FACTORS = (
    *(_attributed(types, ("output_scales", 0, 0.5)) for types in ("f32 s8", "bf16", "s8 f64", "u8 s4")),
    *(_attributed("f32 s8", ("scales", arg, mask)) for arg in (SRC, DST) for mask in (0, 1, 2, 5, 15)),
    *(_attributed("f32 u8", ("zero_points", DST, mask)) for mask in (0, 2)),
    *(_attributed("u8 f32", ("zero_points", SRC, mask)) for mask in (0, 2, 8)),
    *(_attributed("f32 s8", ("scales", SRC, 2, None, (), kind)) for kind in ("bf16", "f16", "e8m0")),
    *(_attributed("f32 s8", ("scales", DST, 0, None, (), kind)) for kind in ("f8_e4m3", "f8_e5m2")),
    *(_attributed("s8 f32", ("zero_points", SRC, 2, None, (), kind)) for kind in ("s8", "u8", "s4", "u4")),
    _attributed("f32 s8", ("scales", SRC, 4, (0.5, 1.5, 2.0))),
    _attributed("f32 s8", ("scales", DST, 4, (0.5, 1.5, 2.0)), ("zero_points", DST, 4, (1, 2, 3))),
    _attributed("u8 s8", ("scales", SRC, 0, 0.25), ("zero_points", SRC, 0, 3), ("scales", DST, 0, 0.5)),
    _attributed("s32 u8", ("scales", SRC, 2), ("scales", DST, 0), ("zero_points", DST, 0)),
    _attributed("f64 f32", ("scales", SRC, 2), ("scales", DST, 2)),
    *(
        reorder((64, 96), types, "ab", tag, ("scales", SRC, 3, None, groups), *more)
        for types in ("s8 f32", "f32 s8")
        for tag in ("ab", "BA16a64b4a")
        for groups in ((32, 1), (1, 32), (16, 8))
        for more in ((),)
    ),
    reorder((517,), "f32 u8", "a", "a", ("scales", SRC, 1), ("zero_points", DST, 1)),
    reorder((35, 70), "f32 s8", "ab", "ba", ("scales", SRC, 1)),
    reorder((35, 70), "f32 s8", "ab", "ba", ("scales", SRC, 2)),
    reorder((64, 17, 28, 28), "f32 s8", "abcd", "aBcd16b", ("scales", SRC, 2), caches=SMALL),
)

_ELTWISE = (
    *("abs", "clip", "clip_v2", "elu", "exp", "gelu_erf", "gelu_tanh", "hardsigmoid", "hardswish", "linear"),
    *("log", "logistic", "mish", "nan_to_zero", "pow", "relu", "round", "soft_relu", "sqrt", "square"),
    *("swish", "tanh"),
)
_BINARY = ("add", "sub", "mul", "div", "min", "max", "ge", "gt", "le", "lt", "eq", "ne")
_OPERANDS = (
    Tensor((2, 17, 3, 5), "f32", "abcd"),
    Tensor((2, 17, 3, 5), "s8", "aBcd16b"),
    Tensor((1, 17, 1, 1), "f32", "abcd"),
    Tensor((2, 1, 3, 1), "bf16", "acdb"),
    Tensor((1, 1, 1, 1), "f32", "abcd"),
    Tensor((2, 17, 3, 5), "s4", "abcd"),
    Tensor((1, 17, 3, 5), "f64", "abcd"),
)
_POST_OPS = (
    *(_attributed("f32", ("eltwise", alg, 0.5, 1.5, 1.0)) for alg in _ELTWISE),
    *(_attributed("f32 s8", ("eltwise", alg, 0.5, 1.5, 2.0)) for alg in ("relu", "clip", "tanh")),
    *(reorder((67,), "f64", "a", "a", ("eltwise", alg, 0.5, 1.5, 1.0)) for alg in ("relu", "exp", "pow")),
    *(_attributed("f32", ("binary", alg, _OPERANDS[0])) for alg in _BINARY),
    *(_attributed("bf16 s8", ("binary", "mul", operand)) for operand in _OPERANDS),
    *(_attributed(types, ("sum", 1.0)) for types in ("f32", "s8 f32", "f32 u8", "f64", "f32 bf16")),
    _attributed("f32 s8", ("sum", 0.5)),
    _attributed("f32 s8", ("sum", 0.5, 3)),
    _attributed("f32 s8", ("sum", 0.5, 3, "u8")),
    _attributed("f32 s8", ("sum", 0.0)),
    _attributed(
        "u8 s8",
        ("scales", SRC, 2),
        ("zero_points", SRC, 0),
        ("sum", 0.5),
        ("eltwise", "relu", 0.1),
        ("binary", "add", _OPERANDS[2]),
        ("scales", DST, 0),
        ("zero_points", DST, 2),
    ),
    reorder((35, 70), "f32 s8", "ab", "ba", ("sum", 0.5), ("eltwise", "relu")),
    reorder((517,), "f32 u8", "a", "a", ("eltwise", "linear", 2.0, 1.0), ("sum", 1.0)),
)

# --- sums of the destination --------------------------------------------------------------------------------

_COMPENSATED = (
    *(
        reorder(dims, types, *tags.split(), ("compensation", mask), *more, caches=caches)
        for dims, types, tags, mask in (
            ((64, 32, 3, 3), "f32 s8", "abcd ABcd4b16a4b", 1),
            ((41, 19, 3, 3), "f32 s8", "abcd ABcd4b16a4b", 1),
            ((7, 300, 3, 3), "f32 s8", "abcd ABcd4b16a4b", 1),
            ((3, 20, 18, 3, 3), "f32 s8", "abcde aBCde4c16b4c", 3),
            ((24, 40, 3, 3), "f32 s8", "abcd acdb", 1),
            ((24, 96, 3, 3), "f32 s8", "abcd cdba", 1),
            ((190, 150), "f32 s8", "ab BA16a64b4a", 2),
            ((64, 32, 5), "s8 s8", "abc ABc16b16a4b", 1),
            ((64, 64, 9), "f32 s8", "abc acb", 0),
            ((7, 1024), "f32 s8", "ab AB16a1024b", 1),
        )
        for more, caches in (((), COMMON), ((("scales", SRC, 0, 0.37),), TINY))
    ),
    reorder((64, 32, 3, 3), "f32 s8", "abcd", "ABcd4b16a4b", ("compensation", 1, True, True)),
    reorder((64, 32, 3, 3), "f32 s8", "abcd", "ABcd4b16a4b", ("scales", SRC, 1), ("compensation", 1)),
    reorder((64, 32, 3, 3), "f32 s4", "abcd", "ABcd4b16a4b", ("compensation", 1)),
    # Sums that lie in another order than the destination: products, and turned ones.
    *(reorder((72, 70, 3, 3), "f32 s8", "abcd", tag, ("compensation", 15)) for tag in ("dcba", "cdba")),
    *(reorder((72, 70, 3, 3), "f32 s8", "abcd", tag, ("compensation", 3)) for tag in ("dcba", "bacd")),
)

_RANGES = tuple(
    found_range(kind, dims, data_type, tag, mask)
    for kind in ("amax", "min_max")
    for dims, data_type, tag, mask in (
        ((1003,), "f32", "a", 0),
        ((4099,), "f8_e4m3", "a", 0),
        ((261,), "f16", "a", 1),
        ((19, 333), "bf16", "ab", 1),
        ((19, 333), "f64", "ab", 2),
        ((83, 600), "f32", "ab", 2),
        ((83, 3), "f32", "ab", 2),
        ((130, 9), "f32", "ab", 1),
        ((3, 21, 7, 7), "f32", "abcd", 2),
        ((2, 17, 28, 19), "bf16", "abcd", 2),
        ((3, 21, 7, 7), "f16", "acdb", 2),
        ((2, 17, 5, 7), "f32", "aBcd16b", 2),
        ((3, 40, 3, 3), "f8_e5m2", "aBcd16b", 5),
        ((33, 21, 3, 3), "f32", "ABcd4b16a4b", 1),
        ((5, 6, 7, 8), "f32", "abcd", 0b1001),
        ((53, 36), "bf16", "BA10a7b", 2),
        ((21, 34), "f32", (100, 3), 1),
    )
)

# --- shuffles, concats, sums --------------------------------------------------------------------------------

_SHUFFLES = (
    *(
        shuffle(dims, kind, tag, axis, group)
        for dims, kind, tag, axis, group in (
            ((2, 12, 7, 5), "f32", "abcd", 1, 3),
            ((2, 30, 37), "u8", "abc", 1, 5),
            ((2, 30, 7, 5), "f32", "acdb", 1, 5),
            ((5, 39, 3), "u8", "acb", 1, 3),
            ((5, 68, 3), "bf16", "acb", 1, 17),
            ((2, 64, 7, 5), "f32", "aBcd16b", 1, 4),
            ((2, 64, 7, 5), "u8", "aBcd16b", 1, 8),
            ((2, 36, 7, 5), "f32", "aBcd16b", 1, 4),
            ((20, 36, 3), "f32", "ABc16b16a", 1, 4),
            ((3, 33, 5), "f64", "abc", 1, 11),
            ((3, 33, 100), "f32", "abc", 2, 10),
            ((2, 12, 7), "s4", "abc", 1, 3),
            ((2, 36, 6), "u4", "aBc16b", 1, 4),
        )
    ),
    shuffle((2, 36, 7, 5), "f32", "aBcd16b", 1, 4, back=True),
    shuffle((2, 30, 7, 5), "bf16", "acdb", 1, 5, back=True),
)
_STAGED = (
    *(
        shuffle(dims, kind, tags, axis, group, caches)
        for dims, kind, tags, axis, group in (
            ((700, 30), "f32", "ab", 1, 5),
            ((32, 90, 7, 7), "f32", "abcd", 1, 6),
            ((8, 18, 21, 13), "f16", "acdb", 1, 3),
            ((8, 36, 20, 9), "f32", "aBcd16b", 1, 4),
            ((8, 48, 17, 9), "f16", "aBcd16b", 1, 3),
            ((8, 39, 23, 11), "u8", "aBcd16b", 1, 3),
            ((8, 34, 7, 23), "f32", "aBcd4b", 1, 17),
            ((8, 20, 7, 23), "f64", "aBcd8b", 1, 5),
            ((8, 45, 300), "f16", "aBc4b3b", 1, 5),
            ((8, 35, 16, 20), "f32", "acdB8b", 1, 5),
            ((30002,), "f32", "A16a", 0, 7),
            ((50, 14, 61), "f32", "Abc16a", 0, 5),
            ((4, 5001, 3), "f32", "aBc16b", 1, 3),
            ((32, 36, 5, 6), "f32", "ABcd16a16b", 1, 4),
            ((32, 39, 5, 6), "f32", "ABcd4b16a4b", 1, 3),
            ((16, 35, 24), "f32", "ABC4b2a3c4b2a", 1, 5),
        )
        for caches in (COMMON, SMALL)
    ),
    shuffle((16, 36, 23, 11), "f32", "aBcd16b", 1, 4, SMALL, back=True),
    # Reorders that are too large for the caches, and have short runs.
    *(
        reorder(dims, types, *tags.split(), caches=SMALL)
        for dims, types, tags in (
            ((64, 7, 7, 36), "f32", "abcd adbc"),
            ((16, 36, 21, 13), "bf16", "abcd acdb"),
            ((16, 40, 9, 31), "u8", "aBcd8b aBcd16b"),
            ((8, 36, 31, 31), "f32", "abcd aBcd16b"),
            ((50, 60, 70), "f32", "abc cab"),
        )
    ),
)

_CONCATS = (
    concat(((2, 16, 4, 5), (2, 32, 4, 5)), "f32", "abcd", 1),
    concat(((2, 5, 4, 5), (2, 7, 4, 5), (2, 6, 4, 5)), "u8", "acdb", 1),
    concat(((2, 16, 4, 5), (2, 19, 4, 5)), "f32", "aBcd16b", 1),
    concat(((2, 5, 4, 5), (2, 7, 4, 5), (2, 6, 4, 5)), "f32", "abcd abcd abcd aBcd16b", 1),
    concat(((2, 5, 4, 5), (2, 7, 4, 5)), "f32 s32 s8", "abcd acdb aBcd16b", 1),
    concat(((2, 36, 5), (2, 9, 5)), "bf16", "aBc8b aBc8b acb", 1),
    concat(((40, 5), (5, 5)), "f32", "ab ab Ab16a", 0),
    # Padding that no source is long enough to write.
    *(concat(((2, 4, 3), (2, 1, 3)), kind, "abc abc aBc4b3b", 1) for kind in ("f32", "u8")),
    concat(((3, 4, 3, 3, 3, 3), (3, 1, 3, 3, 3, 3)), "f32", "abcdef abcdef ABCDEF2a2b2c2d2e2f", 1),
    concat(((3, 5), (3, 6), (3, 8)), "s4", "ab", 1),
    concat(((3, 5, 4), (3, 6, 4)), "u4", "abc abc aBc8b", 1),
    concat(((3, 5), (3, 6)), "s4 f32 u4", "ab", 1),
    concat(((2, 5, 9), (2, 7, 9)), "f32 f32 s8", "abc", 1, ("scales", SRC_0, 0), ("scales", SRC_0 + 1, 0)),
    concat(((2, 5, 9), (2, 7, 9)), "f32 f32 s8", "abc acb aBc16b", 1, ("scales", SRC_0 + 1, 0, 0.5)),
    *(
        concat(shapes, types, tags, 1, caches=caches)
        for shapes, types, tags in (
            (((2, 20, 31, 31), (2, 7, 31, 31), (2, 13, 31, 31)), "u8", "acdb"),
            (((3, 20, 17, 13), (3, 5, 17, 13)), "f32", "acdb"),
            (((2, 36, 14, 14),) * 3, "bf16", "abcd abcd abcd acdb"),
            (((2, 9, 1009), (2, 4, 1009)), "f32", "acb"),
            (((2, 36, 14, 14),) * 4, "f32", "aBcd16b"),
            (((4, 5, 28, 28),) * 5, "u8", "aBcd8b"),
            (((2, 20, 14, 14), (2, 9, 14, 14)), "f32", "acdB8b"),
            (((2, 20, 31, 31), (2, 7, 31, 31)), "f32 s32 f32", "acdb"),
            (((2, 99001), (2, 99001)), "u8", "ab"),
        )
        for caches in ((1 << 10, 1 << 30), TINY)
    ),
    Problem(
        "concat",
        (
            Tensor((2, 16, 4, 5), "f32", "aBcd16b", (2, 45, 4, 5), (0, 0, 0, 0)),
            Tensor((2, 29, 4, 5), "f32", "aBcd16b", (2, 45, 4, 5), (0, 16, 0, 0)),
            Tensor((2, 45, 4, 5), "f32", "aBcd16b"),
        ),
        (1,),
        in_place=True,
    ),
)

_SUMS = (
    *(
        add((70, 9), types, "ab", (1.0,) * count)
        for types in ("f32", "bf16", "u8", "s32", "f64", "boolean")
        for count in (1, 2, 5)
    ),
    add((2, 17, 3, 5), "f32", "abcd acdb aBcd16b", (1.0, 1.0, 1.0)),
    add((2, 17, 3, 5), "f32 bf16 s8", "abcd abcd aBcd16b", (0.5, 2.0)),
    add((2, 17, 3, 5), "s8 u8 s32", "abcd", (1.0, 1.0)),
    add((35, 70), "f32", "ab ba ab ba", (1.0, 0.25, 1.0)),
    add((35, 70), "f16", "ab", (0.5,)),
    add((33, 21), "s4", "ab", (1.0, 1.0, 1.0)),
    add((33, 21), "u4 s4 f32", "ab ba ab", (1.0, 0.5)),
    add((1024, 64), "f32", "ab", (1.0, 1.0), SMALL),
    add((8, 60, 16, 16), "f32", "abcd abcd aBcd16b", (1.0, 1.0), SMALL),
    *(
        add((70, 9), types, "ab", (1.0,) * count)
        for types in ("f32", "bf16", "u8 f64", "s32")
        for count in (16, 17, 40)
    ),
    add((2, 17, 3, 5), "f32 s4 u8 s8", "abcd acdb aBcd16b", (0.5,) * 35),
)

# --- all ----------------------------------------------------------------------------------------------------

ON_CPU: dict[str, tuple[Problem, ...]] = {
    "types-plain": _TYPES_PLAIN,
    "types-turned": _TYPES_TURNED,
    "types-blocked": _TYPES_BLOCKED,
    "tables": _TABLES,
    "layouts": _LAYOUTS,
    "strided": _STRIDED,
    "guarded": _GUARDED,
    "streamed": _STREAMED,
    "blocks": _BLOCKS,
    "nibbles": _NIBBLES,
    "factors": _FACTORS,
    "post-ops": _POST_OPS,
    "compensated": _COMPENSATED,
    "ranges": _RANGES,
    "shuffles": _SHUFFLES,
    "staged": _STAGED,
    "concats": _CONCATS,
    "sums": _SUMS,
}
"""Problems for every instruction set of a CPU."""

ON_DEVICE: dict[str, tuple[Problem, ...]] = {
    "device-types": _TYPES_BLOCKED,
    "device-layouts": _LAYOUTS + _STRIDED + _GUARDED + _NIBBLES,
    "device-attributes": _FACTORS + _POST_OPS + _COMPENSATED,
    "device-several": _SHUFFLES + _CONCATS + _SUMS,
}
"""Problems for devices of work-items."""
