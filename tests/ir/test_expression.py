"""Operations of expressions that are computed in f32: to their last two places, with limits and NaN."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from restride.ir.arithmetic import NumpyArithmetic
from restride.ir.expression import evaluate

_FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "logistic_single": lambda x: 1 / (1 + np.exp(-x)),
    "tanh_single": np.tanh,
}


@pytest.mark.parametrize("name", _FUNCTIONS)
def test_functions_of_gates_are_right_to_their_last_places(name: str) -> None:
    x = np.concatenate([np.linspace(-20, 20, 100001), [-86.0, 86.0, 1e-6, -1e-6, 0.55, -0.55]])
    x = x.astype(np.float32)
    found = evaluate(name, NumpyArithmetic(), [x])
    exact = _FUNCTIONS[name](x.astype(np.float64))
    ulps = np.abs(found - exact) / np.spacing(np.abs(exact).astype(np.float32))
    assert found.dtype == np.float32
    assert ulps.max() < 3


@pytest.mark.parametrize(("name", "low"), [("logistic_single", 0.0), ("tanh_single", -1.0)])
def test_functions_of_gates_have_limits_and_keep_nan(name: str, low: float) -> None:
    x = np.array([-np.inf, -1e30, 1e30, np.inf, np.nan], np.float32)
    found = evaluate(name, NumpyArithmetic(), [x])
    np.testing.assert_allclose(found, np.array([low, low, 1, 1, np.nan], np.float32), rtol=0, atol=2e-38)
