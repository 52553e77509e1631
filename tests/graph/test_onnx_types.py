"""Types in ONNX models: constants keep their own, and results have the model's.

Random models with constants in all places are compared with ONNX Runtime, and where that has no kernel of
the type with the reference of the package onnx.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

import restride as rs

onnx = pytest.importorskip("onnx")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")

Array = np.ndarray
NUMBERS = {"f16": 10, "f32": 1, "f64": 11, "s32": 6}
TWINS = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "s32": np.int32}


class ModelWriter:
    """A model of one input "x" that grows node by node; `dims` are those of the last result."""

    def __init__(self, seed: int, kind: str, most: float) -> None:
        self.random = np.random.default_rng((seed, list(NUMBERS).index(kind)))
        self.kind, self.most, self.nodes, self.constants = kind, most, [], {}
        self.dims = tuple(int(n) for n in self.random.integers(1, 5, self.random.integers(1, 5)))
        self.x = self.values(self.dims)
        self.last = "x"

    def values(self, dims: Sequence[int]) -> Array:
        """Numbers with all places of the type; of some the exponents are far apart."""
        if self.kind == "s32":
            return self.random.integers(-(2**31), 2**31, dims).astype(np.int32)
        made = np.asarray(self.random.standard_normal(dims)) * self.most ** self.random.uniform(-1, 1, dims)
        return made.astype(TWINS[self.kind])

    def constant(self, values: Any, name: str = "c") -> str:
        name = f"{name}{len(self.constants)}"
        self.constants[name] = np.asarray(values)
        return name

    def operand(self) -> str:
        """A constant that broadcasts with the last result, or what a node makes of one."""
        dims = self.dims
        forms = [
            (),
            (1,),
            dims,
            [n if self.random.integers(2) else 1 for n in dims],
            dims[1:],
            (2, *dims),
            (1, *dims),
        ]
        made = self.constant(self.values(forms[self.random.integers(len(forms))]))
        if self.random.integers(8):
            return made
        self.node(str(self.random.choice(["Neg", "Abs", "Identity"])), made, to=f"k{len(self.nodes)}")
        return f"k{len(self.nodes) - 1}"

    def ints(self, *numbers: int) -> str:
        return self.constant(np.array(numbers, np.int64), "n")

    def pick(self, *choices: Any) -> Any:
        return choices[self.random.integers(len(choices))]

    def node(self, operator: str, *inputs: str, to: str = "", **attributes: Any) -> None:
        name = to or f"t{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(operator, list(inputs), [name], **attributes))
        self.last = self.last if to else name

    def model(self, kind: str = "", outputs: Sequence[str] = ()) -> Any:
        """The model; of another type where `kind` says so."""
        twin, number = TWINS[kind or self.kind], NUMBERS[kind or self.kind]
        own = TWINS[self.kind]
        known = {
            name: each.astype(twin) if each.dtype == own else each for name, each in self.constants.items()
        }
        graph = onnx.helper.make_graph(
            self.nodes,
            "graph",
            [onnx.helper.make_tensor_value_info("x", number, self.x.shape)],
            [onnx.helper.make_tensor_value_info(name, number, None) for name in outputs or (self.last,)],
            [onnx.numpy_helper.from_array(value, name) for name, value in known.items()],
        )
        return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)


# --- what a node may be -------------------------------------------------------------------------------------

Step = Callable[[ModelWriter], None]


def _binary(w: ModelWriter) -> None:
    operator = w.pick("Add", "Sub", "Mul", "Div", "Max", "Min")
    read = [w.last, w.operand()][:: w.pick(1, -1)]
    w.node(operator, *read)


def _several(w: ModelWriter) -> None:
    read = [w.operand(), w.last, w.operand()]
    w.random.shuffle(read)
    w.node(w.pick("Max", "Min", "Sum"), *read)


def _power(w: ModelWriter) -> None:
    w.node("Abs", w.last)
    w.node("Pow", w.last, w.constant(np.array(w.pick(2, 3, 0.5, -1, 1.5, 0.1), TWINS[w.kind])))


def _clip(w: ModelWriter) -> None:
    low, high = (w.pick("", w.constant(w.values(()))) for _ in range(2))
    w.node("Clip", w.last, low, high)


def _where(w: ModelWriter) -> None:
    condition = w.constant(w.random.integers(0, 2, w.dims).astype(np.bool_))
    w.node("Where", condition, *[w.last, w.operand()][:: w.pick(1, -1)])


def _concat(w: ModelWriter) -> None:
    axis = int(w.random.integers(len(w.dims)))
    dims = tuple(int(w.random.integers(1, 4)) if i == axis else n for i, n in enumerate(w.dims))
    read = [w.constant(w.values(dims)), w.last, w.constant(w.values(dims))][: w.pick(2, 3)][:: w.pick(1, -1)]
    w.node("Concat", *read, axis=axis)


def _matmul(w: ModelWriter) -> None:
    n = int(w.random.integers(1, 5))
    if w.pick(True, False):
        dims = w.pick((), w.dims[:-2])
        w.node("MatMul", w.last, w.constant(w.values((*dims, w.dims[-1], n))))
    else:
        w.node("MatMul", w.constant(w.values((n, w.dims[-2] if len(w.dims) > 1 else w.dims[-1]))), w.last)


def _gemm(w: ModelWriter) -> None:
    w.node("Flatten", w.last, axis=1)
    rows, columns = w.dims[0], int(np.prod(w.dims[1:]))
    turned, n = (w.pick(0, 1), w.pick(0, 1)), int(w.random.integers(1, 5))
    left = columns if turned[0] else rows
    inner = rows if turned[0] else columns
    weights = w.values((n, inner) if turned[1] else (inner, n))
    added = w.pick(None, (), (1,), (n,), (1, n), (left, 1), (left, n))
    bias = [] if added is None else [w.constant(w.values(added))]
    alpha, beta = w.pick(1.0, 0.5, 0.3), w.pick(1.0, 2.0, 0.7)
    w.node(
        "Gemm", w.last, w.constant(weights), *bias, transA=turned[0], transB=turned[1], alpha=alpha, beta=beta
    )


def _image(w: ModelWriter) -> int:
    """Make the last result an image; the number of its channels."""
    dims = (1,) * (4 - len(w.dims)) + w.dims
    w.node("Reshape", w.last, w.ints(*dims))
    return dims[1]


def _convolution(w: ModelWriter) -> None:
    channels, n = _image(w), int(w.random.integers(1, 4))
    operator = w.pick("Conv", "ConvTranspose")
    weights = (n, channels, 2, 1) if operator == "Conv" else (channels, n, 2, 1)
    bias = w.pick([], [w.constant(w.values((n,)))])
    w.node(operator, w.last, w.constant(w.values(weights)), *bias, pads=[1, 0, 1, 0])


def _normalization(w: ModelWriter) -> None:
    if w.pick(True, False):
        channels = _image(w)
        values = [w.values((channels,)) for _ in range(4)]
        values[3] = np.abs(values[3])
        w.node("BatchNormalization", w.last, *map(w.constant, values))
    else:
        values = [w.values(w.dims[-1:]) for _ in range(w.pick(1, 2))]
        w.node("LayerNormalization", w.last, *map(w.constant, values), axis=-1)


def _slopes(w: ModelWriter) -> None:
    dims = w.pick((1,), w.dims[-1:], w.dims)
    w.node("PRelu", w.last, w.constant(w.values(dims)))


def _function(w: ModelWriter) -> None:
    w.node(
        w.pick("Relu", "HardSwish", "Abs", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "Softplus", "Elu"),
        w.last,
    )


def _pad(w: ModelWriter) -> None:
    pads = [int(w.random.integers(1 - n, 3)) for n in w.dims]
    pads += [
        int(w.random.integers(max(1 - n, 1 - n - before), 3)) for n, before in zip(w.dims, pads, strict=True)
    ]
    value = w.pick([], [w.constant(w.values(()))])
    w.node("Pad", w.last, w.ints(*pads), *value)


def _slice(w: ModelWriter) -> None:
    axis = int(w.random.integers(len(w.dims)))
    start, end = (int(n) for n in w.random.integers(-9, 10, 2))
    w.node("Slice", w.last, *map(w.ints, (start, end, axis, w.pick(-3, -2, -1, 1, 2, 3))))


def _reduction(w: ModelWriter) -> None:
    words = ("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean")
    # ONNX leaves open what the mean of no elements is.
    words = words[:-1] if 0 in w.dims else words
    axes = w.pick(None, (), tuple(range(len(w.dims)))[:1], (-1,))
    read = [] if axes is None else [w.ints(*axes)]
    w.node(w.pick(*words), w.last, *read, noop_with_empty_axes=w.pick(0, 1), keepdims=1)


def _move(w: ModelWriter) -> None:
    order = [int(n) for n in w.random.permutation(len(w.dims))]
    w.node("Transpose", w.last, perm=order)


FLOATS: tuple[Step, ...] = (
    *(_binary, _binary, _binary, _several, _power, _clip, _where, _concat, _matmul, _gemm, _convolution),
    *(_normalization, _slopes, _function, _pad, _slice, _reduction, _move),
)
INTEGERS: tuple[Step, ...] = (_concat, _concat, _pad, _pad, _slice, _slice, _move, _where, _binary)
ELEMENTS: tuple[Step, ...] = (
    _binary,
    _binary,
    _several,
    _clip,
    _where,
    _concat,
    _slopes,
    _pad,
    _slice,
    _move,
)


# --- comparing ----------------------------------------------------------------------------------------------


def _reference(model: Any, x: Array) -> list[Array] | None:
    """All outputs, by ONNX Runtime, else by the package onnx; None for a model that neither takes."""
    runtime = pytest.importorskip("onnxruntime")
    runtime.set_default_logger_severity(4)
    try:
        session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        return list(session.run(None, {"x": x}))
    except Exception as error:
        if "NOT_IMPLEMENTED" not in str(error):
            return None
    try:
        return list(pytest.importorskip("onnx.reference").ReferenceEvaluator(model).run(None, {"x": x}))
    except Exception:
        return None


def written(
    seed: int, kind: str, steps: Sequence[Step], most: float
) -> tuple[ModelWriter, list[Array]] | None:
    """A random model, and the results of all its nodes; None where a step has made one that does not hold.

    Of numbers far apart there is one step: what is rounded before it would be seen behind it.
    """
    writer = ModelWriter(seed, kind, most)
    found: list[Array] | None = None
    for _ in range(1 if most > 2 else int(writer.random.integers(1, 5))):
        writer.pick(*steps)(writer)
        names = [name for node in writer.nodes for name in node.output]
        found = _reference(writer.model(outputs=names), writer.x)
        if found is None:
            return None
        writer.dims = found[names.index(writer.last)].shape
    assert found is not None
    return writer, found


def difference(writer: ModelWriter, wanted: Sequence[Array], found: Array) -> str:
    """Return the differences beyond rounding to the type; "" for none."""
    last = wanted[[name for node in writer.nodes for name in node.output].index(writer.last)]
    if (found.dtype, found.shape) != (last.dtype, last.shape):
        return f"{found.dtype} {found.shape}, not {last.dtype} {last.shape}"
    if writer.kind == "s32":
        return "" if np.array_equal(found, last) else "other integers"
    is_same = (found == last) | (np.isnan(found) & np.isnan(last))
    eps, largest = float(np.finfo(last.dtype).eps), [np.abs(each).max(initial=0) for each in wanted]
    if writer.most > 2:
        ulp = 2 * np.spacing(np.abs(last))
        return "" if np.all(is_same | (np.abs(found - last) <= ulp)) else f"{found} is not {last}"
    # What earlier nodes round goes through those behind them.
    bound = 32 * eps * max(map(float, largest))
    if writer.kind != "f64":
        exact = _reference(writer.model("f64"), writer.x.astype(np.float64))
        if exact is not None:
            bound += 8 * float(np.abs(exact[0] - last.astype(np.float64)).max(initial=0))
    apart = np.abs(found.astype(np.float64) - last.astype(np.float64))
    return (
        "" if np.all(is_same | (apart <= bound)) else f"{found} is not {last}, by {apart.max()} over {bound}"
    )


@pytest.mark.peer
@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("most", [2.0, 1e4])
@pytest.mark.parametrize("part", range(2))
def test_random_models_give_what_onnx_runtime_does_or_are_refused(kind: str, most: float, part: int) -> None:
    steps, most = (FLOATS, most) if most == 2 else (ELEMENTS, {"f32": 1e38, "f64": 1e150}.get(kind, most))
    count = 0
    for seed in range(25 * part, 25 * part + 25):
        made = written(seed, kind, INTEGERS if kind == "s32" else steps, most)
        if made is not None:
            writer, wanted = made
            try:
                found = rs.onnx.load(writer.model())(writer.x)
            except rs.Unimplemented:
                continue
            assert difference(writer, wanted, found) == "", seed
            count += 1
    assert count > 4


# --- one node, by NumPy -------------------------------------------------------------------------------------

C = np.array([1e300, 1e-60, 1 / 3])


def single(operator: str, read: str, x: Array, constants: dict[str, Array], **attributes: Any) -> Array:
    """Run a model of one node on x."""
    number = onnx.helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(operator, read.split(), ["y"], "this one", **attributes)],
        "graph",
        [onnx.helper.make_tensor_value_info("x", number, x.shape)],
        [onnx.helper.make_tensor_value_info("y", number, None)],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opset = onnx.helper.make_opsetid("", 18)
    return rs.onnx.load(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8))(x)


X = np.array([1.0, 2.0, 3.0])
T = np.array([True, False, True])
EXACT: dict[str, tuple[str, str, dict[str, Array], Array]] = {
    "sum": ("Add", "x c", {"c": C}, X + C),
    "sum with one number": ("Add", "c x", {"c": C[2]}, C[2] + X),
    "difference": ("Sub", "c x", {"c": C}, C - X),
    "product": ("Mul", "x c", {"c": C[1:2]}, X * C[1]),
    "quotient": ("Div", "x c", {"c": C[2]}, X / C[2]),
    "quotient of a number": ("Div", "c x", {"c": C[2]}, C[2] / X),
    "maximum": ("Max", "c x", {"c": C[2] * 4}, np.maximum(C[2] * 4, X)),
    "minimum": ("Min", "x c", {"c": C}, np.minimum(X, C)),
    "choice": ("Where", "t c x", {"c": C, "t": T}, np.where(T, C, X)),
    "limits": ("Clip", "x c d", {"c": 4 * C[2], "d": 8 * C[2]}, X.clip(4 * C[2], 8 * C[2])),
    "lower limit": ("Clip", "x c", {"c": 4 * C[2]}, np.maximum(X, 4 * C[2])),
    "slopes": ("PRelu", "x c", {"c": C}, X),
    "join": ("Concat", "c x", {"c": C}, np.concatenate([C, X])),
    "border": ("Pad", "x n c", {"c": C[2], "n": np.array([1, 0])}, np.concatenate([C[2:], X])),
    "matrices": ("MatMul", "x c", {"c": np.diag(C)}, X * C),
    "integers beyond f32": ("MatMul", "x c", {"c": np.array([16777217.0, 0, 0])}, np.array(16777217.0)),
}


@pytest.mark.parametrize("name", EXACT)
def test_doubles_are_not_rounded(name: str) -> None:
    operator, read, constants, wanted = EXACT[name]
    found = single(operator, read, X, constants, **{"axis": 0} if operator == "Concat" else {})
    assert found.dtype == np.float64
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize("alpha", [1.0, 0.5])
@pytest.mark.parametrize("added", [C[2:], C[2:].reshape(1, 1), np.full((2, 1), C[2])])
def test_products_of_doubles_have_weights_and_biases_of_doubles(alpha: float, added: Array) -> None:
    x, weights = np.array([[1.0, 2], [3, 4]]), np.array([[1 / 3], [1e-20]])
    found = single("Gemm", "x w c", x, {"w": weights, "c": added}, alpha=alpha)
    assert found.dtype == np.float64
    assert np.allclose(found, alpha * (x @ weights) + added, rtol=1e-15, atol=0)


def test_windows_of_doubles_have_weights_and_biases_of_doubles() -> None:
    x, weights = X.reshape(1, 1, 3), np.array([[[1 / 3, 1e-20]]])
    found = single("Conv", "x w c", x, {"w": weights, "c": C[2:]})
    assert np.allclose(found.ravel(), X[:2] / 3 + X[1:] * 1e-20 + 1 / 3, rtol=1e-15, atol=0)


@pytest.mark.parametrize("dtype", [np.float16, bfloat16])
def test_halves_before_a_tensor_give_halves(dtype: Any) -> None:
    x, c = np.array([0.5, 1, 1.5]).astype(dtype), np.array([1, 2, 3]).astype(dtype)
    for operator, wanted in (("Sub", c - x), ("Div", c / x), ("Max", np.maximum(c, x))):
        found = single(operator, "c x", x, {"c": c})
        assert found.dtype == dtype
        assert np.array_equal(found, wanted)


@pytest.mark.parametrize("dtype", [np.float16, bfloat16])
def test_halves_are_normalized_by_halves(dtype: Any) -> None:
    x = np.arange(12).reshape(2, 2, 3).astype(dtype)
    scale, shift, mean, variance = (
        np.array(each).astype(dtype) for each in ([1, 2], [3, -1], [4, 5], [4, 0.25])
    )
    known = {"s": scale, "b": shift, "m": mean, "v": variance}
    found = single("BatchNormalization", "x s b m v", x, known, epsilon=0.0)
    assert found.dtype == dtype
    columns = [each.astype(np.float64).reshape(2, 1) for each in (scale, shift, mean, variance)]
    assert np.array_equal(
        found, ((x - columns[2]) / np.sqrt(columns[3]) * columns[0] + columns[1]).astype(dtype)
    )


def test_scales_of_halves_that_a_run_brings_are_not_read_as_f32() -> None:
    x = np.array([-1, 0, 3, 4], np.float16)
    normal = (x.astype(np.float64) - 1.5) / np.sqrt(x.astype(np.float64).var())
    found = single("LayerNormalization", "x x x", x, {}, epsilon=0.0)
    assert found.dtype == np.float16
    assert np.allclose(found, normal * x + x, rtol=1e-3)


@pytest.mark.parametrize(
    ("operator", "read", "constants", "why"),
    [
        ("Mul", "x c", {"c": np.float32([1, 2, 3])}, "it mixes f64 and f32"),
        ("Where", "t x c", {"t": T, "c": np.float32([1, 2, 3])}, "it mixes f64 and f32"),
    ],
)
def test_what_would_round_doubles_is_named(
    operator: str, read: str, constants: dict[str, Array], why: str
) -> None:
    with pytest.raises(rs.Unimplemented, match="'this one'") as caught:
        single(operator, read, X, constants)
    assert caught.value.why == why


def test_integers_of_32_bits_are_chosen_exactly() -> None:
    large = np.array([2**24 + 1, 2**31 - 1], np.int32)
    found = single("Where", "x c d", np.array([True, False]), {"c": large, "d": large - 1})
    assert np.array_equal(found, [2**24 + 1, 2**31 - 2])
