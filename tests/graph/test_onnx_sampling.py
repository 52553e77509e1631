"""GridSample and AffineGrid beside onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from test_onnx_contrib import Case, check, model, reals

import restride as rs

X = reals(2, 3, 5, 6)
# Places inside, beside, and on both ends.
GRID = np.concatenate(
    [reals(2, 4, 7, 2, size=1.5), np.ones((2, 4, 1, 2), "f4"), -np.ones((2, 4, 1, 2), "f4")], 2
)


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_images_are_sampled(mode: str, padding: str, align: int) -> None:
    attributes = {"mode": mode, "padding_mode": padding, "align_corners": align}
    check(Case("GridSample", {"x": X, "g": GRID}, attributes, domain="", opset=20), tolerance=1e-4)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_volumes_are_sampled(mode: str, padding: str) -> None:
    attributes = {"mode": mode, "padding_mode": padding}
    inputs = {"x": reals(2, 3, 4, 5, 6), "g": reals(2, 3, 2, 4, 3)}
    check(Case("GridSample", inputs, attributes, domain="", opset=20), tolerance=1e-4)


@pytest.mark.parametrize("extent", [1, 2])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_few_elements_are_sampled(padding: str, extent: int) -> None:
    attributes = {"mode": "bilinear", "padding_mode": padding, "align_corners": 1}
    inputs = {"x": reals(2, 3, extent, extent), "g": GRID}
    check(Case("GridSample", inputs, attributes, known=("g",), domain="", opset=16))


def test_what_is_infinitely_far_is_zero() -> None:
    grid = np.array([[[[np.inf, 0], [0, -np.inf], [np.nan, 0], [3e38, -3e38]]]], np.float32)
    made = model(Case("GridSample", {"x": X[:1], "g": grid}, {}, domain="", opset=20))
    assert not rs.onnx.load(made)({"x": X[:1], "g": grid}).any()


def test_a_grid_of_other_dims_is_refused() -> None:
    inputs = {"x": X, "g": GRID[..., :1]}
    made = model(Case("GridSample", inputs, {}, domain="", opset=20))
    with pytest.raises(rs.InvalidArguments, match="a grid of"):
        rs.onnx.load(made)(inputs)


@pytest.mark.parametrize("align", [0, 1])
def test_grids_of_affine_maps(align: int) -> None:
    inputs = {"t": reals(2, 2, 3), "n": np.array([2, 3, 4, 5])}
    check(Case("AffineGrid", inputs, {"align_corners": align}, known=("n",), domain="", opset=20))
