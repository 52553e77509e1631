"""Resize of ONNX in all its modes, beside the package's reference; pads, reflections, windows and sums."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import restride as rs
from restride.graph.importers.onnx import resizing
from support.errors import refused

onnx = pytest.importorskip("onnx")
reference = pytest.importorskip("onnx.reference")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

X = np.random.default_rng(3).standard_normal((1, 2, 7, 6)).astype(np.float32)
_MODES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "asymmetric", "align_corners")


def check(
    operator: str, constants: Mapping[str, Any], inputs: tuple[str, ...], opset: int = 20, **attributes: Any
) -> None:
    """The result for X is that of the reference."""
    node = onnx.helper.make_node(operator, ["x", *inputs], ["y"], **attributes)
    info = onnx.helper.make_tensor_value_info
    known = [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = onnx.helper.make_graph([node], "g", [info("x", 1, X.shape)], [info("y", 1, None)], known)
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=9)
    (wanted,) = reference.ReferenceEvaluator(made).run(None, {"x": X})
    found = rs.onnx.load(made)(X)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("word", _MODES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("scales", [(1.0, 1.0, 1.6, 0.6), (1.0, 2.0, 2.0, 0.5)])
def test_modes_and_places(mode: str, word: str, scales: tuple[float, ...]) -> None:
    constants = {"s": np.array(scales, np.float32)}
    check("Resize", constants, ("", "s"), mode=mode, coordinate_transformation_mode=word)


@pytest.mark.parametrize("nearest", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_roundings(nearest: str) -> None:
    constants = {"n": np.array([1, 2, 10, 4])}
    check("Resize", constants, ("", "", "n"), mode="nearest", nearest_mode=nearest)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize(
    "options", [{"antialias": 1}, {"exclude_outside": 1}, {"antialias": 1, "exclude_outside": 1}]
)
def test_smooth_and_within_the_source(mode: str, options: dict[str, int]) -> None:
    check("Resize", {"n": np.array([1, 2, 3, 9])}, ("", "", "n"), mode=mode, **options)
    check("Resize", {"n": np.array([1, 2, 4, 4])}, ("", "", "n"), mode=mode, cubic_coeff_a=-0.5, **options)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_regions_and_what_is_outside(mode: str) -> None:
    constants = {
        "r": np.array([0, 0, 0.2, -0.3, 1, 1, 0.7, 1.2], np.float32),
        "n": np.array([1, 2, 5, 9]),
    }
    crop = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.0}
    check("Resize", constants, ("r", "", "n"), mode=mode, **crop)


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
def test_axes_and_aspects(policy: str) -> None:
    options = {"axes": [3, 2], "keep_aspect_ratio_policy": policy, "mode": "linear"}
    check("Resize", {"n": np.array([9, 4])}, ("", "", "n"), **options)


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap", "constant"])
def test_pads(mode: str) -> None:
    pads = {"p": np.array([0, 1, 3, 0, 0, 0, 2, 5])}
    check("Pad", pads, ("p",), mode=mode)
    check("Pad", {"p": np.array([2, 3, 1, 4]), "a": np.array([-1, 2])}, ("p", "", "a"), mode=mode)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_becomes_space(mode: str) -> None:
    x = np.arange(2 * 18 * 2 * 5, dtype=np.float32).reshape(2, 18, 2, 5)
    found = rs.ops.DepthToSpace(x, blocksize=3, mode=mode)
    order = (0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3)
    digits = (2, 3, 3, 2, 2, 5) if mode == "DCR" else (2, 2, 3, 3, 2, 5)
    assert np.array_equal(found, x.reshape(digits).transpose(order).reshape(2, 2, 6, 15))
    assert np.array_equal(rs.ops.SpaceToDepth(found, blocksize=3, mode=mode), x)


EQUATIONS = [
    "ij->ji", "ij->", "ij->i", "ii->i", "ii", "iij->ij", "ij,jk->ik", "ij,jk", "bij,bjk->bik", "bij,bkj->bik",
    "i,j->ij", "i,i->", "ij,ij->ij", "ij,kj->", "...ij,...jk->...ik", "...i,...i->...", "ij,jk,kl->il",
    "bhqd,bhkd->bhqk", "b...i,ij->b...j", "ab,bc,ab->c", "i...->...i", "aij,ajk,b->abik",
]  # fmt: skip


@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum(equation: str) -> None:
    sizes = dict(zip("abcdhijklq", (2, 3, 4, 2, 3, 5, 4, 6, 2, 3), strict=True))
    rng = np.random.default_rng(5)
    inputs = equation.partition("->")[0].split(",")
    shapes = [
        tuple(
            n
            for part in text.replace("...", ".").strip()
            for n in ((2, 3) if part == "." else (sizes[part],))
        )
        for text in inputs
    ]
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    wanted = np.einsum(equation, *arrays)
    found = rs.ops.Einsum(*arrays, equation=equation)
    assert np.shape(found) in (wanted.shape, wanted.shape or (1,))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_einsum_repeats_dims_of_one_and_refuses_what_does_not_fit() -> None:
    a, b = np.ones((1, 2, 3), np.float32), np.ones((4, 3, 5), np.float32)
    assert np.array_equal(
        rs.ops.Einsum(a, b, equation="...ij,...jk->...ik"), np.full((4, 2, 5), 3, np.float32)
    )
    for equation in ("ij,jk->ik", "bij,bjk->bii", "bij,bjk->bz", "bij", "b?j,bjk"):
        with pytest.raises(rs.Error):
            rs.ops.Einsum(a, b, equation=equation)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("ceil", [0, 1])
def test_powers_of_windows(p: int, ceil: int) -> None:
    torch = pytest.importorskip("torch")
    wanted = torch.nn.functional.lp_pool2d(
        torch.from_numpy(np.abs(X)), float(p), (3, 2), 2, bool(ceil)
    ).numpy()
    found = rs.ops.LpPool(X, kernel_shape=(3, 2), strides=(2, 2), p=p, ceil_mode=ceil)
    assert found.shape == wanted.shape
    if not ceil:  # torch gives windows that leave the source another number of elements
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_averages_count_padding_and_nothing_behind_it() -> None:
    torch = pytest.importorskip("torch")
    options = {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}
    pool = torch.nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=True)
    found = rs.ops.AveragePool(X, ceil_mode=True, count_include_pad=True, **options)
    np.testing.assert_allclose(found, pool(torch.from_numpy(X)).numpy(), rtol=1e-5, atol=1e-6)


def loaded(operator: str, constants: Mapping[str, Any], inputs: tuple[str, ...], **attributes: Any) -> Any:
    node = onnx.helper.make_node(operator, ["x", *inputs], ["y"], **attributes)
    known = [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph([node], "g", [info("x", 1, X.shape)], [info("y", 1, None)], known)
    opsets = [onnx.helper.make_opsetid("", 20)]
    return rs.onnx.load(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9))


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_tables_are_found_in_parts(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    options = {"mode": mode, "coordinate_transformation_mode": "asymmetric"}
    whole = loaded("Resize", {"n": np.array([1, 2, 23, 4])}, ("", "", "n"), **options)(X)
    monkeypatch.setattr(resizing, "_BLOCK", 16)
    monkeypatch.setattr(resizing, "_LONGEST_LOOK", 8)
    parts = loaded("Resize", {"n": np.array([1, 2, 23, 4])}, ("", "", "n"), **options)(X)
    np.testing.assert_array_equal(whole, parts)


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
def test_scales_that_make_no_size_are_refused(scale: float) -> None:
    with refused("Resize", f"its scale is {scale:g}", "not positive"):
        loaded("Resize", {"s": np.array([1, 1, scale, 1], np.float32)}, ("", "s"))(X)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_results_that_no_memory_holds_are_refused_at_once(mode: str) -> None:
    for size, kind in ((1 << 41, rs.OutOfMemory), (1 << 62, rs.InvalidArguments)):
        net = loaded("Resize", {"n": np.array([1, 2, size, 3])}, ("", "", "n"), mode=mode)
        with pytest.raises(rs.Error) as caught:
            net(X)
        assert isinstance(caught.value, kind)
    for mode in ("wrap", "edge", "constant"):
        net = loaded("Pad", {"p": np.array([0, 0, 1 << 62, 0, 0, 0, 0, 0])}, ("p",), mode=mode)
        with refused("Pad", "the size exceeds 64 bits"):
            net(X)


def test_refusals_are_in_words() -> None:
    row = X[0, :, 0, 0]
    cases: tuple[tuple[str, dict[str, Any], tuple[str, ...], dict[str, Any], str], ...] = (
        (
            "Resize",
            {"n": np.array([1, 2, 3, 4])},
            ("", "", "n"),
            {"nearest_mode": "up"},
            "is 'up'",
        ),
        ("Transpose", {}, (), {"perm": [0, 1, 2, 9]}, "not a permutation of the dims"),
        ("Softmax", {}, (), {"axis": 7}, "axis 7 is out of range: there are 4"),
        ("ReduceSum", {}, (), {"keepdims": 7}, "7 is neither 0 nor 1"),
        ("Where", {"a": X, "b": X}, ("a", "b"), {}, "its condition is f32"),
        ("GroupNormalization", {"s": row, "b": row}, ("s", "b"), {"num_groups": 0}, "num_groups is 0"),
    )
    for operator, constants, inputs, attributes, words in cases:
        with refused(operator, words) as _:
            loaded(operator, constants, inputs, **attributes)(X)
        with pytest.raises(rs.Error) as caught:
            loaded(operator, constants, inputs, **attributes)(X)
        assert not re.search(r"\b(Misfit|\w+Error)\b", caught.value.message), caught.value.message
