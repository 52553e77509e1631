"""Gradients of gathers, scatters, scans, tiles, interpolations, reductions, elements: beside torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import restride as rs
from restride.ops.elementwise import SLOPES
from support.errors import refused
from support.executions import executed, inside

torch = pytest.importorskip("torch")

Arg = rs.onednn.Arg
DIMS = (3, 17, 6)
TAGS = "abc", "cab", "aBc16b", "Abc4a"
RNG = np.random.default_rng(1)


def reals(dims: tuple[int, ...], kind: str = "f32") -> np.ndarray:
    return RNG.standard_normal(dims).astype(rs.DataType[kind].numpy)


def by_torch(function: Callable[..., Any], diff_dst: np.ndarray, *sources: np.ndarray) -> list[np.ndarray]:
    """The gradients of sources, in f64."""
    leaves = [torch.tensor(x.astype(np.float64), requires_grad=True) for x in sources]
    function(*leaves).backward(torch.tensor(diff_dst.astype(np.float64)))
    return [np.zeros(x.shape) if x.grad is None else x.grad.numpy() for x in leaves]


def is_close(found: np.ndarray, wanted: np.ndarray) -> None:
    bits = np.finfo(found.dtype).nmant if found.dtype.kind == "f" else 7
    most = 2.0 ** (4 - bits) * max(1.0, float(np.abs(wanted).max(initial=0)))
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=2.0 ** (2 - bits), atol=most)


# --- gathers ------------------------------------------------------------------------------------------------


def gather_gradient(
    engine: rs.Engine, algorithm: str, dims: tuple[int, ...], at: np.ndarray, d: np.ndarray, **more: Any
) -> np.ndarray:
    tag = more.get("tag", "abc")
    diff_src = rs.MemoryDesc(dims, more.get("kind", d.dtype), tag)
    diff_dst = rs.MemoryDesc(d.shape, d.dtype, tag if d.ndim == 3 else "abcd"[: d.ndim])
    arguments = algorithm, diff_src, rs.MemoryDesc(at.shape, at.dtype), diff_dst
    inputs = {Arg.DIFF_DST: d, Arg.SRC_1: at}
    last = more.get("axis", 0), more.get("batch_dims", 0)
    return executed(engine, "GatherBackward", inputs, *arguments, *last)[Arg.DIFF_SRC]


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("tag", TAGS)
def test_gathers_along_an_axis(engine: rs.Engine, axis: int, tag: str) -> None:
    at = np.array([0, -1, 2, 1, 1, 40], np.int32)
    places, d = torch.tensor(inside(at, DIMS[axis])), reals((*DIMS[:axis], 6, *DIMS[axis + 1 :]))
    (wanted,) = by_torch(lambda x: x.index_select(axis, places), d, reals(DIMS))
    is_close(gather_gradient(engine, "axis", DIMS, at, d, axis=axis, tag=tag), wanted)


@pytest.mark.parametrize("kind", ["f64", "f16", "bf16"])
def test_embeddings_add_up_in_more_than_16_bits(engine: rs.Engine, kind: str) -> None:
    at, d = RNG.integers(0, 4, (9, 40)), reals((9, 40, 8), kind)
    places = torch.tensor(at)
    (wanted,) = by_torch(lambda x: torch.nn.functional.embedding(places, x), d, reals((5, 8)))
    diff_src, diff_dst = rs.MemoryDesc((5, 8), kind), rs.MemoryDesc(d.shape, kind)
    mds = diff_src, rs.MemoryDesc(at.shape, "s64"), diff_dst
    found = executed(engine, "GatherBackward", {Arg.DIFF_DST: d, Arg.SRC_1: at}, "gather_axis", *mds)
    is_close(found[Arg.DIFF_SRC], wanted)


def test_gathers_of_batches(engine: rs.Engine) -> None:
    at, d = RNG.integers(-6, 6, (3, 4)), reals((3, 17, 4))
    places = torch.tensor(inside(at, 6))
    wanted = np.stack(
        [
            by_torch(lambda x, row=row: x.index_select(1, row), each, reals((17, 6)))[0]
            for row, each in zip(places, d, strict=True)
        ]
    )
    is_close(gather_gradient(engine, "axis", DIMS, at, d, axis=2, batch_dims=1), wanted)


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("tag", TAGS)
def test_gathers_of_elements(engine: rs.Engine, axis: int, tag: str) -> None:
    dims = tuple(9 if i == axis else n - 1 for i, n in enumerate(DIMS))
    at, d = RNG.integers(-DIMS[axis], DIMS[axis], dims), reals(dims)
    places = torch.tensor(inside(at, DIMS[axis]))
    (wanted,) = by_torch(lambda x: x.gather(axis, places), d, reals(DIMS))
    is_close(gather_gradient(engine, "elements", DIMS, at, d, axis=axis, tag=tag), wanted)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("tag", TAGS)
def test_gathers_of_several_dims(engine: rs.Engine, count: int, tag: str) -> None:
    at, d = RNG.integers(-40, 40, (50, 2, count)).astype(np.int32), reals((50, 2, *DIMS[count:]))
    places = tuple(torch.tensor(inside(at[..., i], DIMS[i])) for i in range(count))
    (wanted,) = by_torch(lambda x: x[places], d, reals(DIMS))
    is_close(gather_gradient(engine, "nd", DIMS, at, d, tag=tag), wanted)


def test_gathers_of_several_dims_of_each_element_of_a_batch(engine: rs.Engine) -> None:
    at, d = RNG.integers(-6, 6, (3, 40, 2)), reals((3, 40))
    places = (torch.arange(3)[:, None], *(torch.tensor(inside(at[..., i], DIMS[1 + i])) for i in range(2)))
    (wanted,) = by_torch(lambda x: x[places], d, reals(DIMS))
    is_close(gather_gradient(engine, "nd", DIMS, at, d, batch_dims=1), wanted)


@pytest.mark.parametrize("first", [0, 3, 100, -17, -3])
def test_parts(engine: rs.Engine, first: int) -> None:
    start, d = min(max(first + 17 if first < 0 else first, 0), 12), reals((3, 5, 6))
    (wanted,) = by_torch(lambda x: x[:, start : start + 5], d, reals(DIMS))
    is_close(gather_gradient(engine, "window", DIMS, np.array([first]), d, axis=1), wanted)


@pytest.mark.parametrize("largest", [True, False])
def test_the_largest_by_their_indices(engine: rs.Engine, largest: bool) -> None:
    x, d = reals(DIMS), reals((3, 4, 6))
    at = torch.tensor(x).topk(4, 1, largest).indices.numpy()
    (wanted,) = by_torch(lambda x: x.topk(4, 1, largest)[0], d, x)
    is_close(gather_gradient(engine, "elements", DIMS, at, d, axis=1), wanted)


def test_gradients_of_another_gather_are_refused() -> None:
    cpu, at = rs.Engine("cpu"), rs.MemoryDesc((5,), "s32")
    with refused("diff_dst"):
        rs.onednn.GatherBackward.PrimitiveDesc(
            cpu, "axis", rs.MemoryDesc((4, 3), "f32"), at, rs.MemoryDesc((4, 3), "f32")
        )


# --- scatters -----------------------------------------------------------------------------------------------


def scatter_gradients(
    engine: rs.Engine, algorithm: str, at: np.ndarray, dims: tuple[int, ...], d: np.ndarray, **more: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return the gradients of the source and of the updates, which have `dims`."""
    tag = more.get("tag", "abc")
    whole, part = (
        rs.MemoryDesc(d.shape, d.dtype, tag),
        rs.MemoryDesc(dims, d.dtype, tag if len(dims) == 3 else "abcd"[: len(dims)]),
    )
    arguments = algorithm, whole, rs.MemoryDesc(at.shape, at.dtype), part, whole
    inputs, last = {Arg.DIFF_DST: d, Arg.SRC_1: at}, (more.get("axis", 0), more.get("reduction", "none"))
    found = executed(engine, "ScatterBackward", inputs, *arguments, *last)
    return found[Arg.DIFF_SRC], found[Arg.DIFF_SRC_1]


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("reduction", ["none", "add"])
def test_scatters_of_elements(engine: rs.Engine, axis: int, tag: str, reduction: str) -> None:
    dims = tuple(n - 1 for n in DIMS)
    at = np.argsort(RNG.random(dims), axis) if reduction == "none" else RNG.integers(0, dims[axis], dims)
    d, places = reals(DIMS), torch.tensor(at)
    write = torch.scatter if reduction == "none" else torch.scatter_add
    wanted = by_torch(lambda x, u: write(x, axis, places, u), d, reals(DIMS), reals(dims))
    found = scatter_gradients(engine, "elements", at, dims, d, axis=axis, tag=tag, reduction=reduction)
    for mine, theirs in zip(found, wanted, strict=True):
        is_close(mine, theirs)


@pytest.mark.parametrize("axis", range(3))
def test_scatters_along_an_axis(engine: rs.Engine, axis: int) -> None:
    at, dims = np.array([1, 0, 1, 2]), (*DIMS[:axis], 4, *DIMS[axis + 1 :])
    d, places = reals(DIMS, "f16"), torch.tensor(at)
    wanted = by_torch(lambda x, u: x.index_add(axis, places, u), d, reals(DIMS), reals(dims))
    found = scatter_gradients(engine, "axis", at, dims, d, axis=axis, reduction="add")
    for mine, theirs in zip(found, wanted, strict=True):
        is_close(mine, theirs)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("tag", TAGS)
def test_the_last_update_of_an_element_has_its_gradient(engine: rs.Engine, count: int, tag: str) -> None:
    at, d = RNG.integers(0, 3, (5, 4, count)), reals(DIMS)
    dims = (5, 4, *DIMS[count:])
    of_source, of_updates = d.copy(), np.zeros(dims, np.float32)
    last = {tuple(at[i, j]): (i, j) for i in range(5) for j in range(4)}
    for place, update in last.items():
        of_source[place], of_updates[update] = 0, d[place]
    found = scatter_gradients(engine, "nd", at, dims, d, tag=tag)
    np.testing.assert_array_equal(found[0], of_source)
    np.testing.assert_array_equal(found[1], of_updates)


# --- scans --------------------------------------------------------------------------------------------------

SCANS = {"sum": torch.cumsum, "mul": torch.cumprod}
SCANS |= {"max": lambda x, axis: x.cummax(axis)[0], "min": lambda x, axis: x.cummin(axis)[0]}


def scan_of_torch(algorithm: str, x: Any, axis: int, *, exclusive: bool, reverse: bool) -> Any:
    x = x.flip(axis) if reverse else x
    if exclusive:  # nothing has a constant result, which has no gradient
        nothing = {"sum": 0.0, "mul": 1.0, "max": -100.0, "min": 100.0}[algorithm]
        first = torch.full_like(x.narrow(axis, 0, 1), nothing)
        x = torch.cat([first, x.narrow(axis, 0, x.shape[axis] - 1)], axis)
    found = SCANS[algorithm](x, axis)
    return found.flip(axis) if reverse else found


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("tag", ["abc", "aBc16b"])
@pytest.mark.parametrize("algorithm", SCANS)
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_scans(
    engine: rs.Engine, axis: int, tag: str, algorithm: str, exclusive: bool, reverse: bool, kind: str
) -> None:
    x, d = np.rint(2 * reals(DIMS)).astype(rs.DataType[kind].numpy), reals(DIMS, kind)  # zeros, equal ones
    md = rs.MemoryDesc(DIMS, kind, tag)
    inputs = {Arg.DIFF_DST: d} | ({} if algorithm == "sum" else {Arg.SRC: x})
    found = executed(engine, "ScanBackward", inputs, algorithm, md, md, md, axis, exclusive, reverse)[
        Arg.DIFF_SRC
    ]
    (wanted,) = by_torch(
        lambda x: scan_of_torch(algorithm, x, axis, exclusive=exclusive, reverse=reverse), d, x
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5 * max(1, abs(wanted).max()))


@pytest.mark.parametrize("algorithm", SCANS)
@pytest.mark.parametrize("shared", [Arg.DIFF_DST, Arg.SRC])
def test_gradients_of_scans_in_place(algorithm: str, shared: int) -> None:
    cpu, md, x, d = rs.Engine("cpu"), rs.MemoryDesc(DIMS, "f32"), reals(DIMS), reals(DIMS)
    (wanted,) = by_torch(lambda x: SCANS[algorithm](x, 1), d, x)
    pd = rs.onednn.ScanBackward.PrimitiveDesc(cpu, algorithm, md, md, md, 1)
    memories = {Arg.DIFF_DST: rs.Memory.from_numpy(d), Arg.SRC: rs.Memory.from_numpy(x)}
    out = memories[shared]
    if algorithm == "sum":
        memories, out = {Arg.DIFF_DST: memories[Arg.DIFF_DST]}, memories[Arg.DIFF_DST]
    rs.onednn.ScanBackward(pd).execute(rs.onednn.Stream(cpu), {**memories, Arg.DIFF_SRC: out})
    np.testing.assert_allclose(out.to_numpy(), wanted, rtol=1e-4, atol=1e-4)


# --- tiles and interpolations -------------------------------------------------------------------------------


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("repeats", [(1, 1, 1), (2, 1, 3), (1, 4, 1)])
@pytest.mark.parametrize("kind", ["f32", "f64", "bf16"])
def test_tiles(engine: rs.Engine, tag: str, repeats: tuple[int, ...], kind: str) -> None:
    d = reals(tuple(n * m for n, m in zip(DIMS, repeats, strict=True)), kind)
    mds = rs.MemoryDesc(DIMS, kind, tag), rs.MemoryDesc(d.shape, kind, tag)
    (wanted,) = by_torch(lambda x: x.repeat(repeats), d, reals(DIMS))
    is_close(executed(engine, "TileBackward", {Arg.DIFF_DST: d}, *mds)[Arg.DIFF_SRC], wanted)


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("kind", ["f32", "f16"])
def test_interpolations(engine: rs.Engine, tag: str, axis: int, kind: str) -> None:
    at, weights = RNG.integers(-2, DIMS[axis] + 2, (9, 4)), reals((9, 4))
    d = reals((*DIMS[:axis], 9, *DIMS[axis + 1 :]), kind)
    places, factors = torch.tensor(inside(at, DIMS[axis])), torch.tensor(weights.astype(np.float64))

    def forward(x: Any) -> Any:
        return (x.movedim(axis, -1)[..., places] * factors).sum(-1).movedim(-1, axis)

    (wanted,) = by_torch(forward, d, reals(DIMS))
    tables = rs.MemoryDesc(at.shape, "s64"), rs.MemoryDesc(weights.shape, "f32")
    mds = rs.MemoryDesc(DIMS, kind, tag), *tables, rs.MemoryDesc(d.shape, kind, tag)
    inputs = {Arg.DIFF_DST: d, Arg.SRC_1: at, Arg.WEIGHTS: weights}
    is_close(executed(engine, "InterpolationBackward", inputs, *mds, axis)[Arg.DIFF_SRC], wanted)


# --- functions of elements ----------------------------------------------------------------------------------

# Each function by torch, with the sources for which it is defined.
_REALS, _POSITIVE, _SMALL, _BEYOND = (
    lambda: reals((3, 40)),
    lambda: np.abs(reals((3, 40))) + np.float32(0.1),
    lambda: RNG.uniform(-0.9, 0.9, (3, 40)).astype(np.float32),
    lambda: np.abs(reals((3, 40))) + np.float32(1.1),
)
_OF_REALS = "sin", "cos", "tan", "atan", "sinh", "cosh", "asinh", "erf", "expm1", "neg", "abs", "sign"
FUNCTIONS: dict[str, tuple[Callable[..., Any], Any]] = {
    **{name: (getattr(torch, name), (_REALS,)) for name in (*_OF_REALS, "floor", "ceil", "trunc")},
    **{name: (getattr(torch, name), (_SMALL,)) for name in ("asin", "acos", "atanh")},
    **{name: (getattr(torch, name), (_REALS, _REALS)) for name in ("add", "sub", "mul", "div", "atan2")},
    "log1p": (torch.log1p, (_POSITIVE,)),
    "acosh": (torch.acosh, (_BEYOND,)),
    "softsign": (torch.nn.functional.softsign, (_REALS,)),
    "celu": (lambda x: torch.nn.functional.celu(x, 0.5), (_REALS,)),
    "thresholded_relu": (lambda x: torch.nn.functional.threshold(x, 0.5, 0.0), (_REALS,)),
    "shrink": (lambda x: torch.nn.functional.softshrink(x, 0.5), (_REALS,)),
    "fmod": (torch.fmod, (_REALS, _POSITIVE)),
    "mod": (torch.remainder, (_REALS, _POSITIVE)),
    "pow": (torch.pow, (_POSITIVE, _REALS)),
    "min": (torch.minimum, (_REALS, _REALS)),
    "max": (torch.maximum, (_REALS, _REALS)),
    "clip": (torch.clamp, (_REALS, _SMALL, _SMALL)),
    "lerp": (torch.lerp, (_REALS, _REALS, _SMALL)),
}
ALPHA, BETA = 0.5, 0.5


def element_gradient(
    engine: rs.Engine, name: str, source: int, sources: list[np.ndarray], d: np.ndarray, tag: str = "ab"
) -> np.ndarray:
    mds = [rs.MemoryDesc(x.shape, x.dtype, tag) for x in (*sources, d)]
    inputs = {Arg.SRC_0 + i: x for i, x in enumerate(sources)} | {Arg.DIFF_DST: d}
    more = *mds[:-1], *[None] * (3 - len(sources)), source, ALPHA, BETA
    return executed(engine, "ElementwiseBackward", inputs, name, mds[source], mds[-1], *more)[Arg.DIFF_SRC]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_functions_of_elements(engine: rs.Engine, name: str, kind: str) -> None:
    function, makers = FUNCTIONS[name]
    sources, d = [make().astype(rs.DataType[kind].numpy) for make in makers], reals((3, 40), kind)
    for source, wanted in enumerate(by_torch(function, d, *sources)):
        found = element_gradient(engine, name, source, sources, d)
        rtol = 1e-5 if kind == "f32" else 1e-12
        np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol * max(1, np.abs(wanted).max()))


def test_every_function_with_a_derivative_is_beside_that_of_torch() -> None:
    assert {*SLOPES} - {*FUNCTIONS} == {"where"}


@pytest.mark.parametrize("name", ["min", "max", "abs", "clip", "pow"])
def test_gradients_where_a_function_bends(engine: rs.Engine, name: str) -> None:
    function, makers = FUNCTIONS[name]
    values = np.array([-1, 0, 0, 1, 1, 2], np.float32)
    sources = [np.roll(values, 2 * i)[None] for i in range(len(makers))]
    if name == "pow":
        sources = [np.array([[0, 0, 2, 3, -2, -3]], np.float32), np.array([[0, 2, 0, 1, 2, 3]], np.float32)]
    for source, wanted in enumerate(by_torch(function, np.ones_like(sources[0]), *sources)):
        is_close(element_gradient(engine, name, source, sources, np.ones_like(sources[0])), wanted)


@pytest.mark.parametrize("name", ["max", "clip", "thresholded_relu", "shrink", "sign", "floor"])
def test_what_is_not_passed_on_has_no_gradient_even_of_nan(engine: rs.Engine, name: str) -> None:
    function, makers = FUNCTIONS[name]
    first = np.array([[-2, 0, 0.25, 2, np.nan, 3]], np.float32)
    sources = [first, *(np.full_like(first, n) for n in (0.3, 1.0)[: len(makers) - 1])]
    for d in (np.full_like(first, np.nan), np.full_like(first, np.inf)):
        for source, wanted in enumerate(by_torch(function, d, *sources)):
            found = element_gradient(engine, name, source, sources, d)
            np.testing.assert_array_equal(found, wanted.astype(np.float32))


def test_there_is_no_angle_at_zero(engine: rs.Engine) -> None:
    sources = [np.array([[0, 0, 1]], np.float32), np.array([[0, 2, 0]], np.float32)]
    for source, wanted in enumerate(by_torch(torch.atan2, np.ones_like(sources[0]), *sources)):
        is_close(element_gradient(engine, "atan2", source, sources, np.ones_like(sources[0])), wanted)


def test_choices(engine: rs.Engine) -> None:
    condition, d = RNG.integers(0, 2, (3, 40)).astype(bool), reals((3, 40))
    sources = [condition, reals((3, 40)), reals((3, 40))]
    for source, kept in ((1, condition), (2, ~condition)):
        found = element_gradient(engine, "where", source, sources, d)
        np.testing.assert_array_equal(found, np.where(kept, d, 0))


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("repeated", [(1, 17, 6), (3, 1, 6), (1, 17, 1), (1, 1, 1)])
def test_sources_that_are_repeated_have_sums(engine: rs.Engine, tag: str, repeated: tuple[int, ...]) -> None:
    sources, d = [reals(repeated), reals(DIMS)], reals(DIMS)
    for source, wanted in enumerate(by_torch(torch.mul, d, *sources)):
        found = element_gradient(engine, "mul", source, sources, d, tag)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shared", [Arg.DIFF_DST, Arg.SRC_0, Arg.SRC_1])
def test_gradients_of_elements_in_place(shared: int) -> None:
    cpu, md = rs.Engine("cpu"), rs.MemoryDesc(DIMS, "f32")
    arrays = {arg: reals(DIMS) for arg in (Arg.SRC_0, Arg.SRC_1, Arg.DIFF_DST)}
    memories = {arg: rs.Memory.from_numpy(array.copy()) for arg, array in arrays.items()}
    pd = rs.onednn.ElementwiseBackward.PrimitiveDesc(cpu, "mul", *[md] * 4)
    out = {Arg.DIFF_SRC: memories[shared]}
    rs.onednn.ElementwiseBackward(pd).execute(rs.onednn.Stream(cpu), {**memories, **out})
    wanted = arrays[Arg.DIFF_DST] * arrays[Arg.SRC_1]
    np.testing.assert_array_equal(memories[shared].to_numpy(), wanted)


def test_sources_that_are_not_there_are_refused() -> None:
    md, make = rs.MemoryDesc((4, 5), "f32"), rs.onednn.ElementwiseBackward.PrimitiveDesc
    with refused("there is no source 1"):
        make(rs.Engine("cpu"), "sin", md, md, md, source=1)
    with refused("wrong number of sources"):
        make(rs.Engine("cpu"), "mul", md, md, md)
    with refused("algorithm"):
        make(rs.Engine("cpu"), "floor_divide", md, md, md, md)


# --- reductions ---------------------------------------------------------------------------------------------

FOLDS = {
    "sum": lambda x, axes: x.sum(axes, keepdim=True),
    "mean": lambda x, axes: x.mean(axes, keepdim=True),
    "max": lambda x, axes: x.amax(axes, keepdim=True),
    "min": lambda x, axes: x.amin(axes, keepdim=True),
    "mul": lambda x, axes: product(x, axes),
    "norm_lp_sum": lambda x, axes: ((x.abs() ** P).sum(axes, keepdim=True) + 0.5) ** (1 / P),
    "norm_lp_max": lambda x, axes: (x.abs() ** P).sum(axes, keepdim=True).clamp(min=0.5) ** (1 / P),
    "norm_lp_power_p_sum": lambda x, axes: (x.abs() ** P).sum(axes, keepdim=True) + 0.5,
    "norm_lp_power_p_max": lambda x, axes: (x.abs() ** P).sum(axes, keepdim=True).clamp(min=0.5),
}
P = 3.0


def product(x: Any, axes: tuple[int, ...]) -> Any:
    for axis in axes:
        x = x.prod(axis, keepdim=True)
    return x


def reduction_gradient(
    engine: rs.Engine, algorithm: str, x: np.ndarray, d: np.ndarray, tag: str = "abc", p: float = P
) -> np.ndarray:
    descs = rs.MemoryDesc(x.shape, x.dtype, tag), rs.MemoryDesc(x.shape, x.dtype, "any")
    numbers = (p, 0.5) if "norm" in algorithm else ()
    inputs = {Arg.DIFF_DST: d} | ({} if algorithm in ("sum", "mean") else {Arg.SRC: x})
    arguments = f"reduction_{algorithm}", *descs, rs.MemoryDesc(d.shape, d.dtype)
    return executed(engine, "ReductionBackward", inputs, *arguments, *numbers)[Arg.DIFF_SRC]


@pytest.mark.parametrize("axes", [(0,), (2,), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("algorithm", FOLDS)
def test_reductions(engine: rs.Engine, algorithm: str, tag: str, axes: tuple[int, ...]) -> None:
    x = reals(DIMS)
    # Elements that are equal, and zeros of which there may be one among those that are folded, or two.
    x.reshape(-1)[::41], x.reshape(-1)[::7] = 0, 1.25
    x = x.clip(-1.25, 1.25)
    d = reals(tuple(1 if i in axes else n for i, n in enumerate(DIMS)))
    (wanted,) = by_torch(lambda x: FOLDS[algorithm](x, axes), d, x)
    is_close(reduction_gradient(engine, algorithm, x, d, tag), wanted)


@pytest.mark.parametrize("p", [1.0, 2.0])
@pytest.mark.parametrize("kind", ["f64", "bf16"])
def test_norms_of_ones_and_squares(engine: rs.Engine, p: float, kind: str) -> None:
    x, d = reals(DIMS, kind), reals((3, 1, 6), kind)
    (wanted,) = by_torch(lambda x: ((x.abs() ** p).sum(1, keepdim=True) + 0.5) ** (1 / p), d, x)
    is_close(reduction_gradient(engine, "norm_lp_sum", x, d, p=p), wanted)


@pytest.mark.parametrize("algorithm", ["max", "min"])
def test_the_extreme_of_nan_has_gradients_of_nan(engine: rs.Engine, algorithm: str) -> None:
    x, d = np.array([[1, np.nan, 2], [1, 3, 2]], np.float32), np.ones((2, 1), np.float32)
    (wanted,) = by_torch(lambda x: FOLDS[algorithm](x, (1,)), d, x)
    np.testing.assert_array_equal(reduction_gradient(engine, algorithm, x, d, "ab"), wanted)


def test_the_gradient_of_a_norm_of_zeros_is_zero(engine: rs.Engine) -> None:
    x, d = np.zeros((4, 8), np.float32), np.ones((4, 1), np.float32)
    descs = (*[rs.MemoryDesc(x.shape, "f32")] * 2, rs.MemoryDesc(d.shape, "f32"))
    inputs = {Arg.DIFF_DST: d, Arg.SRC: x}
    found = executed(engine, "ReductionBackward", inputs, "reduction_norm_lp_sum", *descs, 2.0)
    assert not found[Arg.DIFF_SRC].any()
