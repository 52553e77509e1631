"""Steps of JAX's programs: `restride.jax` compared with XLA for the same function.

Both are compiled, take the same arrays and wait for their results; gradients are those of all operands. A
row's ratio is how many times longer JAX's own took.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pkgutil import resolve_name
from typing import Any

import numpy as np

from .pages import mean_of, ratio, table
from .peer import PreparedCall
from .study import OWN, BenchRow, BenchSetup, RowPlan, Study, race

_TOLERANCE = 1e-4  # of the largest number of a result


@dataclass(frozen=True)
class JaxRow:
    """A function by its kind, what it is like in words, dims of its operands, and numbers of it.

    Dims of convolutions have channels first; `is_last`: the arrays of the row have them last.
    """

    kind: str
    words: str
    dims: Sequence[tuple[int, ...]]
    options: Mapping[str, Any] = field(default_factory=dict)
    is_last: bool = False
    is_gradient: bool = False

    @property
    def name(self) -> str:
        """The row as the table has it."""
        return f"{self.group} {self.words}"

    @property
    def group(self) -> str:
        """The name of the group whose mean is taken."""
        more = " channels last" * self.is_last + " gradient" * self.is_gradient
        return f"{self.kind}{more}"


def _convolution(
    kind: str,
    c: int,
    o: int,
    n: int,
    kernel: int,
    batch: int = 1,
    *,
    name: str = "convolution",
    **options: int,
) -> JaxRow:
    table_dims = (c, o) if name == "deconvolution" else (o, c // options.get("groups", 1))
    words = f"{batch}x{c}x{n}x{n} to {o}" + f", stride {options.get('stride', 1)}" * ("stride" in options)
    dims = ((batch, c, n, n), (*table_dims, kernel, kernel))
    return JaxRow(f"{name} {kind}", words, dims, options)


def rows() -> Iterator[JaxRow]:
    """Every function forward and backward; windows with channels first and last."""
    deconvolution = partial(_convolution, name="deconvolution")
    windows = [
        _convolution("3x3", 64, 64, 56, 3, padding=1),
        _convolution("3x3", 256, 256, 14, 3, 8, padding=1),
        _convolution("3x3", 128, 128, 56, 3, stride=2, padding=1),
        _convolution("1x1", 256, 64, 56, 1),
        _convolution("1x1", 512, 512, 14, 1, 8),
        _convolution("depthwise 3x3", 96, 96, 56, 3, padding=1, groups=96),
        _convolution("depthwise 3x3", 384, 384, 14, 3, 8, padding=1, groups=384),
        deconvolution("2x2", 128, 64, 28, 2, stride=2),
        deconvolution("4x4", 256, 128, 16, 4, stride=2, padding=1),
        deconvolution("4x4", 64, 3, 64, 4, 4, stride=2, padding=1),
    ]
    matrices = [
        JaxRow("matmul", "1024x1024 by 1024x1024", ((1024, 1024), (1024, 1024))),
        JaxRow("matmul", "197x768 by 768x3072", ((197, 768), (768, 3072))),
        JaxRow("matmul", "16 of 128x64 by 64x128", ((16, 128, 64), (16, 64, 128))),
        JaxRow("matmul of one row", "1x4096 by 4096x4096", ((1, 4096), (4096, 4096))),
    ]
    scores = [
        JaxRow("attention", "12 heads, 197 positions", ((1, 12, 197, 64),) * 3),
        JaxRow("attention causal", "8 heads, 1024 positions", ((1, 8, 1024, 64),) * 3, {"causal": True}),
        JaxRow("attention of one query", "8 heads, 2048 keys", ((1, 8, 1, 64), *((1, 8, 2048, 64),) * 2)),
    ]
    lasting = [each for row in windows for each in (row, replace(row, is_last=True))]
    for row in (*lasting, *matrices, *scores):
        yield from (row, replace(row, is_gradient=True))


def measure(setting: BenchSetup) -> list[BenchRow]:
    """All rows, where JAX is."""
    try:
        own = resolve_name("restride.jax:")
    except ImportError:
        return []
    return [measure_row(setting, row, own) for row in rows()]


def measure_row(setting: BenchSetup, row: JaxRow, own: Any) -> BenchRow:
    """One row; `own`: the module `restride.jax`."""
    import jax

    random = np.random.default_rng(0)
    arrays = [random.standard_normal(dims, dtype=np.float32) for dims in row.dims]
    if row.is_last:
        weights = np.moveaxis(arrays[1], (0, 1), (-1, -2))
        arrays = [np.moveaxis(arrays[0], 1, -1), weights]
    operands = [jax.numpy.asarray(np.ascontiguousarray(x)) for x in arrays]

    def program(function: Callable[..., Any]) -> Callable[[], Any]:
        if row.is_gradient:

            def loss(*xs: Any) -> Any:
                return (function(*xs) ** 2).sum()

            compiled = jax.jit(jax.grad(loss, argnums=tuple(range(len(operands)))))
        else:
            compiled = jax.jit(function)
        return lambda: jax.block_until_ready(compiled(*operands))

    last = {"channels_last": True} if row.is_last else {}
    mine = partial(getattr(own, row.kind.split()[0]), **row.options, **last)
    programs = {OWN: program(mine), "JAX": program(partial(_by_jax, jax, row))}

    def check() -> dict[str, str]:
        known, found = (jax.tree.leaves(programs[side]()) for side in ("JAX", OWN))
        off = max(float(abs(x - y).max() / abs(x).max()) for x, y in zip(known, found, strict=True))
        return {OWN: f"off by {off:.3g}"} if off > _TOLERANCE else {}

    moved = 4 * sum(math.prod(dims) for dims in row.dims)
    sides = {side: PreparedCall(call) for side, call in programs.items()}
    # A copy is no roof of products.
    return race(
        RowPlan(row.name, moved, sides, check, about={"kind": row.group}), replace(setting, copiers=[])
    )


def _by_jax(j: Any, row: JaxRow, *xs: Any) -> Any:
    """The same by JAX's own functions."""
    kind, options = row.kind.split()[0], row.options
    if kind == "matmul":
        return j.numpy.matmul(*xs)
    if kind == "attention":
        q, k, v = (j.numpy.swapaxes(x, 1, 2) for x in xs)
        result = j.nn.dot_product_attention(q, k, v, is_causal=options.get("causal", False))
        return j.numpy.swapaxes(result, 1, 2)
    x, weights = xs
    stride, padding = (options.get("stride", 1),) * 2, options.get("padding", 0)
    numbers = ("NHWC", "HWIO", "NHWC") if row.is_last else ("NCHW", "OIHW", "NCHW")
    if kind == "convolution":
        how = {"dimension_numbers": numbers, "feature_group_count": options.get("groups", 1)}
        return j.lax.conv_general_dilated(x, weights, stride, [(padding, padding)] * 2, **how)
    around = row.dims[1][2] - 1 - padding
    how = {"dimension_numbers": numbers, "transpose_kernel": True}
    return j.lax.conv_transpose(x, weights, stride, [(around, around)] * 2, **how)


def page(rows: Sequence[BenchRow]) -> str:
    """Times of both, and the means of each kind."""
    lines = [
        [
            row.name,
            f"{row.seconds() * 1e3:.2f}",
            f"{row.seconds('JAX') * 1e3:.2f}",
            ratio(row.over("JAX")),
        ]
        for row in rows
    ]
    for kind in dict.fromkeys(row.about["kind"] for row in rows):
        mean = mean_of(row.over("JAX") for row in rows if row.about["kind"] == kind)
        lines.append([f"geometric mean, {kind}", "", "", ratio(mean[0]) if mean else "–"])
    return table(["program", "ms", "JAX ms", "times JAX"], lines)


STUDY = Study("Programs of JAX", measure, page)
