"""Forward and gradients of the computing primitives beside torch, which finds gradients by itself."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import test_computing_oracle as problems

import restride as rs
from restride_bench.driver.compare import epsilon, points_of
from restride_bench.driver.expand import expand
from restride_bench.driver.operands import arg_of
from restride_bench.driver.skips import why_skipped
from restride_bench.driver.work import CaseWork

torch = pytest.importorskip("torch")
functional = torch.nn.functional
pytestmark = [pytest.mark.peer, pytest.mark.slow, pytest.mark.filterwarnings("default")]

_COUNT = 100
Array = np.ndarray
Values = Mapping[int, Array]


def _leaf(values: Values, arg: int) -> Any:
    """A tensor of which torch finds the gradient."""
    return torch.tensor(values[arg], dtype=torch.float64, requires_grad=True)


def _answers(y: Any, values: Values, leaves: Mapping[int, Any]) -> dict[int, Array]:
    """The result, and with a gradient of it those of the leaves, by argument."""
    if rs.ARG_DIFF_DST not in values:
        return {rs.ARG_DST: y.detach().numpy()}
    y.backward(torch.tensor(values[rs.ARG_DIFF_DST]))
    return {arg: leaf.grad.numpy() for arg, leaf in leaves.items() if leaf.grad is not None}


# --- what torch calls them ----------------------------------------------------------------------------------

_ELTWISE: dict[str, Callable[[Any, float, float], Any]] = {
    "abs": lambda x, a, b: x.abs(),
    "elu": lambda x, a, b: torch.where(x > 0, x, a * torch.expm1(x.clamp(max=0))),
    "exp": lambda x, a, b: x.exp(),
    "gelu_erf": lambda x, a, b: functional.gelu(x),
    "gelu_tanh": lambda x, a, b: functional.gelu(x, approximate="tanh"),
    "linear": lambda x, a, b: a * x + b,
    "logistic": lambda x, a, b: torch.sigmoid(x),
    "mish": lambda x, a, b: functional.mish(x),
    "relu": lambda x, a, b: functional.leaky_relu(x, a),
    "square": lambda x, a, b: x * x,
    "swish": lambda x, a, b: x * torch.sigmoid(a * x),
    "tanh": lambda x, a, b: torch.tanh(x),
    "sqrt": lambda x, a, b: x.sqrt(),
    "log": lambda x, a, b: x.log(),
}


def _eltwise(case: Any, values: Values) -> dict[int, Array] | None:
    if case.alg not in _ELTWISE:
        return None
    x = _leaf(values, rs.ARG_SRC)
    return _answers(_ELTWISE[case.alg](x, case.alpha, case.beta), values, {rs.ARG_DIFF_SRC: x})


def _softmax(case: Any, values: Values) -> dict[int, Array]:
    if rs.ARG_DIFF_DST in values:
        # The result that is read need not be one of any source: what torch's own gradient makes of it.
        function = torch._log_softmax_backward_data if case.is_log else torch._softmax_backward_data
        dy, y = (torch.tensor(values[arg]) for arg in (rs.ARG_DIFF_DST, rs.ARG_DST))
        return {rs.ARG_DIFF_SRC: function(dy, y, case.axis, y.dtype).numpy()}
    function = functional.log_softmax if case.is_log else functional.softmax
    return {rs.ARG_DST: function(torch.tensor(values[rs.ARG_SRC]), case.axis).numpy()}


def _prelu(case: Any, values: Values) -> dict[int, Array]:
    x, weights = _leaf(values, rs.ARG_SRC), _leaf(values, rs.ARG_WEIGHTS)
    y = torch.where(x > 0, x, x * weights)
    return _answers(y, values, {rs.ARG_DIFF_SRC: x, rs.ARG_DIFF_WEIGHTS: weights})


def _resampling(case: Any, values: Values) -> dict[int, Array]:
    is_forward = rs.ARG_SRC in values
    start = values[rs.ARG_SRC] if is_forward else np.zeros((*case.dims[:2], *case.source))
    x = torch.tensor(start, requires_grad=True)
    linear = {1: "linear", 2: "bilinear", 3: "trilinear"}[len(case.source)]
    how = {"mode": "nearest-exact"} if case.alg == "nearest" else {"mode": linear, "align_corners": False}
    y = functional.interpolate(x, size=case.dims[2:], **how)
    return _answers(y, values, {rs.ARG_DIFF_SRC: x})


def _pool(case: Any, values: Values) -> dict[int, Array] | None:
    ndims, behind = len(case.kernel), case.windows[-1]
    is_plain = not any(case.dilation) and all(b <= a for a, b in zip(case.padding, behind, strict=True))
    if case.alg != "max" and not is_plain:
        return None
    # Backward the source is not read: it is the one that the positions of maxima are of.
    x = torch.tensor(values.get(rs.ARG_SRC, case.values("src")), requires_grad=True)
    if case.alg != "max":
        function = getattr(functional, f"avg_pool{ndims}d")
        include = case.alg == "avg_p"
        y = function(x, case.kernel, case.window_strides, case.padding, count_include_pad=include)
        return _answers(y, values, {rs.ARG_DIFF_SRC: x}) if tuple(y.shape) == case.dims else None
    pads = [
        n for pair in zip(case.padding[::-1], behind[::-1], strict=True) for n in (pair[0], max(pair[1], 0))
    ]
    function, steps = getattr(functional, f"max_pool{ndims}d"), [n + 1 for n in case.dilation]
    y = function(functional.pad(x, pads, value=-np.inf), case.kernel, case.window_strides, 0, steps)
    return _answers(y, values, {rs.ARG_DIFF_SRC: x}) if tuple(y.shape) == case.dims else None


def _lrn(case: Any, values: Values) -> dict[int, Array] | None:
    if case.alg != "ACROSS":
        return None
    x = _leaf(values, rs.ARG_SRC)
    y = functional.local_response_norm(x, case.local_size, case.alpha, case.beta, case.k)
    return _answers(y, values, {rs.ARG_DIFF_SRC: x})


def _norm(case: Any, values: Values) -> dict[int, Array] | None:
    if "G" in case.flags or "M" in case.flags:
        return None
    x, leaves, channels = _leaf(values, rs.ARG_SRC), {}, case.dims[case.channel_dim]
    given = []
    for arg, gradient in ((rs.ARG_SCALE, rs.ARG_DIFF_SCALE), (rs.ARG_SHIFT, rs.ARG_DIFF_SHIFT)):
        given.append(_leaf(values, arg) if arg in values else None)
        if given[-1] is None and arg == rs.ARG_SHIFT and "H" in case.flags:
            given[-1] = torch.zeros(channels, dtype=torch.float64, requires_grad=True)
        if given[-1] is not None:
            leaves[gradient] = given[-1]
    if given[0] is None and given[1] is not None:
        # Of a shift alone torch finds no gradients for groups.
        given[0] = torch.ones(channels, dtype=torch.float64)
    # Those of torch.nn.functional refuse one value in each channel.
    if case.driver == "bnorm":
        y = torch.batch_norm(x, *given, None, None, True, 0.0, case.eps, False)
    elif case.driver == "lnorm":
        y = functional.layer_norm(x, case.dims[-1:], *given, eps=case.eps)
    else:
        y = torch.group_norm(x, case.groups, *given, eps=case.eps)
    return _answers(y, values, {rs.ARG_DIFF_SRC: x, **leaves})


def _product_leaves(case: Any, values: Values) -> tuple[Any, Any, Any]:
    """Source, weights and bias; zeros where only their gradient is asked for."""
    found = []
    for arg, dims in ((rs.ARG_SRC, case.src_dims), (rs.ARG_WEIGHTS, case.weight_dims)):
        found.append(torch.tensor(values.get(arg, np.zeros(dims)), dtype=torch.float64, requires_grad=True))
    has_bias = case.dir in ("FWD_B", "BWD_WB")
    zeros = np.zeros(case.dims[1])
    bias = torch.tensor(values.get(rs.ARG_BIAS, zeros), requires_grad=True) if has_bias else None
    return found[0], found[1], bias


def _products(case: Any, values: Values, y: Any, leaves: tuple[Any, Any, Any]) -> dict[int, Array]:
    args = rs.ARG_DIFF_SRC, rs.ARG_DIFF_WEIGHTS, rs.ARG_DIFF_BIAS
    return _answers(
        y, values, {arg: leaf for arg, leaf in zip(args, leaves, strict=True) if leaf is not None}
    )


def _conv(case: Any, values: Values) -> dict[int, Array]:
    src, weights, bias = leaves = _product_leaves(case, values)
    strides, dilation, before, behind = case.windows
    pads = [n for pair in zip(before[::-1], behind[::-1], strict=True) for n in pair]
    whole = weights.reshape(case.dims[1], *weights.shape[1 + (case.groups > 0) :])
    function = getattr(functional, f"conv{len(case.kernel)}d")
    steps, groups = [n + 1 for n in dilation], max(case.groups, 1)
    y = function(functional.pad(src, pads), whole, bias, strides, 0, steps, groups)
    return _products(case, values, y, leaves)


def _deconv(case: Any, values: Values) -> dict[int, Array]:
    src, weights, bias = leaves = _product_leaves(case, values)
    strides, dilation, before, behind = case.windows
    groups = max(case.groups, 1)
    turned = weights.reshape(groups, case.dims[1] // groups, case.channels // groups, *case.kernel)
    turned = turned.transpose(1, 2).reshape(case.channels, -1, *case.kernel)
    function = getattr(functional, f"conv_transpose{len(case.kernel)}d")
    y = function(src, turned, bias, strides, 0, 0, groups, [n + 1 for n in dilation])
    # A padding cuts both ends off.
    cut = [-n for pair in zip(before[::-1], behind[::-1], strict=True) for n in pair]
    y = functional.pad(y, cut)
    if bias is not None and any(n < 0 for n in behind):
        y = functional.pad(function(src, turned, None, strides, 0, 0, groups, [n + 1 for n in dilation]), cut)
        y = y + bias.reshape(-1, *[1] * len(case.kernel))
    return _products(case, values, y, leaves)


def _ip(case: Any, values: Values) -> dict[int, Array]:
    src, weights, bias = leaves = _product_leaves(case, values)
    return _products(case, values, functional.linear(src.flatten(1), weights.flatten(1), bias), leaves)


def _matmul(case: Any, values: Values) -> dict[int, Array]:
    src, weights = (torch.tensor(values[arg]) for arg in (rs.ARG_SRC, rs.ARG_WEIGHTS))
    y = torch.matmul(src, weights)
    return {rs.ARG_DST: (y + torch.tensor(values.get(rs.ARG_BIAS, 0.0))).numpy()}


_OF = {
    "eltwise": _eltwise,
    "softmax": _softmax,
    "prelu": _prelu,
    "resampling": _resampling,
    "pool": _pool,
    "lrn": _lrn,
    "bnorm": _norm,
    "lnorm": _norm,
    "gnorm": _norm,
    "conv": _conv,
    "deconv": _deconv,
    "ip": _ip,
    "matmul": _matmul,
}


def _differing(driver: str, line: str) -> list[str] | None:
    """Return the difference from torch; None if torch has no such function."""
    (test,) = expand(line.split()).tests
    if why_skipped(test):
        return None
    work, ours = problems._ours(CaseWork.of(test.case))
    values = {arg_of(name): held for name, held in problems._values(work).items()}
    theirs = _OF[driver](test.case, values)
    if theirs is None:
        return None
    for op in test.case.attr_post_ops:
        y = torch.tensor(theirs[rs.ARG_DST])
        if op.kind == "sum":
            y = y + op.number(0, 1.0) * torch.tensor(values[rs.ARG_DST])
        else:
            y = _ELTWISE[op.name.removesuffix("_dst")](y, op.number(0, 0.0), op.number(1, 0.0))
        theirs[rs.ARG_DST] = y.numpy()
    found = []
    for one in work.writes:
        wanted = theirs.get(one.arg)
        if wanted is None:
            continue
        tolerance = test.case.tolerance(str(one.name))
        got, points = ours[one.arg], points_of(ours[one.arg], wanted, one.md.data_type)
        wrong = ~problems.are_near(points, one.md.data_type, tolerance)
        wrong &= points.rdiff > tolerance.threshold + epsilon(one.md.data_type) + 8e-6
        if wrong.any():
            at = points.index[wrong][:3]
            found.append(f"{test.repro}: {one.arg} at {at}, {got.reshape(-1)[at]}, {wanted.reshape(-1)[at]}")
    return found


@pytest.mark.parametrize("driver", _OF)
def test_random_problems_give_what_torch_gives(driver: str, capsys: pytest.CaptureFixture[str]) -> None:
    make, compared, seed, differing = getattr(problems, f"_{driver}"), 0, 0, list[str]()
    while compared < _COUNT and seed < 6 * _COUNT:
        found = _differing(driver, make(random.Random(seed + 10**6)))
        seed += 1
        if found is not None:
            compared, differing = compared + 1, differing + found
    with capsys.disabled():
        print(f"\n{driver}: {compared} of {seed} compared, {len(differing)} differ")
    assert not differing, "\n".join(differing[:20])
    assert compared > _COUNT // 3
