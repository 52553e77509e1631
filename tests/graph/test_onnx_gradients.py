"""ONNX's `Gradient` beside torch's: every operator that has a rule."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from restride.graph.importers.onnx.gradients import _RULES, GRADIENT

onnx = pytest.importorskip("onnx")

A, B = (np.random.default_rng(seed).uniform(0.3, 2, (3, 4)).astype(np.float32) for seed in (1, 2))
ROW = np.array([0.5, -1.5, 2, 0.25], np.float32)


def _model(nodes: str, xs: dict[str, np.ndarray], of: str = "y", kind: str = "float"):
    inputs = ", ".join(f"{kind}[{','.join(map(str, x.shape))}] {name}" for name, x in xs.items())
    domain, _, name = GRADIENT.rpartition(".")
    outputs = [f"d_{x}" for x in xs]
    listed, made = ", ".join(f'"{x}"' for x in xs), ", ".join(outputs)
    text = f"""
        <ir_version: 8, opset_import: ["" : 18, "{domain}" : 1]>
        g ({inputs}) => ({kind}[N] y, {", ".join(f"{kind}[N] {each}" for each in outputs)}) {{
            {nodes}
            {made} = {domain}.{name} <xs: strings = [{listed}], y: string = "{of}"> ({", ".join(xs)})
        }}"""
    return onnx.parser.parse_model(text)


CASES = {
    "Add": ("y = Add(a, r)", "a + r", "ar"),
    "Sub": ("y = Sub(r, a)", "r - a", "ar"),
    "Mul": ("c = Mul(a, r) y = Mul(c, a)", "a * r * a", "ar"),
    "Div": ("y = Div(r, a)", "r / a", "ar"),
    "Sum": ("y = Sum(a, b, r, a)", "a + b + r + a", "abr"),
    "Pow": ("n = Constant <value = float {3}> () y = Pow(a, n)", "a ** 3", "a"),
    "MatMul": ("t = Transpose(b) c = MatMul(a, t) y = MatMul(c, c)", "(a @ b.T) @ (a @ b.T)", "ab"),
    "vectors": ("y = MatMul(a, r)", "a @ r", "ar"),
    "Gemm": (
        "y = Gemm <transB = 1, alpha = 0.5, beta = 2.0> (a, b, v)",
        "0.5 * a @ b.T + 2 * v",
        "abv",
    ),
    "Softmax": ("s = Softmax <axis = 0> (a) y = Mul(s, b)", "torch.softmax(a, 0) * b", "ab"),
    "ReduceSum": (
        "n = Constant <value = int64[1] {1}> () s = ReduceSum <keepdims = 0> (a, n) y = Mul(s, s)",
        "a.sum(1) ** 2",
        "a",
    ),
    "ReduceMean": ("s = ReduceMean (a) y = Mul(s, a)", "a.mean() * a", "a"),
    "moves": (
        "n = Constant <value = int64[2] {4, 3}> () c = Reshape(a, n) f = Flatten(c) t = Transpose(f)"
        " z = Constant <value = int64[1] {0}> () u = Unsqueeze(t, z) q = Squeeze(u, z) y = Mul(q, b)",
        "a.reshape(4, 3).T * b",
        "ab",
    ),
    **{
        name: (f"c = Identity(a) y = {name}(c)", f"torch.{name.lower()}(a)", "a")
        for name in ("Neg", "Exp", "Log", "Sqrt", "Sin", "Cos", "Tanh", "Sigmoid", "Erf", "Abs", "Relu")
    },
    "Softplus": ("y = Softplus(a)", "torch.nn.functional.softplus(a)", "a"),
    "nothing": ("y = Mul(a, a)", "a * a", "ab"),
}


@pytest.mark.peer
@pytest.mark.parametrize("case", CASES)
def test_gradients_are_those_of_torch(case: str):
    torch = pytest.importorskip("torch")
    nodes, expression, names = CASES[case]
    arrays = {"a": A - (1 if case in ("Abs", "Relu") else 0), "b": B, "r": ROW, "v": ROW[:3].copy()}
    xs = {name: arrays[name] for name in names}
    results = rs.onnx.load(_model(nodes, xs))(xs)
    tensors = {name: torch.tensor(x, requires_grad=True) for name, x in xs.items()}
    wanted = eval(expression, {"torch": torch, **tensors})
    wanted.sum().backward()
    np.testing.assert_allclose(results["y"], wanted.detach(), rtol=1e-5, atol=1e-6)
    for name, x in tensors.items():
        expected = torch.zeros_like(x) if x.grad is None else x.grad
        np.testing.assert_allclose(results[f"d_{name}"], expected, rtol=2e-5, atol=2e-6)


def test_every_rule_has_a_case():
    tested = " ".join(nodes for nodes, _, _ in CASES.values())
    assert [each for each in _RULES if f"{each}(" not in tested.replace(" (", "(").replace(" <", "(")] == []


@pytest.mark.parametrize(
    ("nodes", "of", "why"),
    [
        ("y = Floor(a)", "y", "an operator without a gradient"),
        ("y = Floor(a)", "c", "not made by any node before it"),
        ("y = Identity(a) s = Shape(a)", "s", "its tensor 's' is of s64"),
        ("n = Constant <value = float {3}> () b = Identity(a) y = Pow(n, b)", "y", "only in a run"),
        # A branch sees the tensors around it.
        (
            "i = Constant <value = bool {1}> () b = If (i) <then_branch = t () => (float[N] c) {c = Neg(a)},"
            " else_branch = e () => (float[N] c) {c = Exp(a)}> y = Mul(b, b)",
            "y",
            "it involves If 'b', an operator without a gradient",
        ),
    ],
)
def test_what_has_no_gradient_is_refused(nodes: str, of: str, why: str):
    with pytest.raises(rs.Unimplemented, match=why):
        rs.onnx.load(_model(nodes, {"a": A}, of))({"a": A})


def test_exponents_of_the_model_have_no_gradient():
    model = _model("y = Pow(a, b)", {"a": A, "b": B})
    model.graph.initializer.append(onnx.numpy_helper.from_array(B, "b"))
    with pytest.raises(rs.Unimplemented, match="which has no gradient for input 1"):
        rs.onnx.load(model)({"a": A})


def test_a_run_that_decides_on_nodes_refuses_gradients():
    nodes = "b = Identity(a) y = If (i) <then_branch = t () => (float[N] c) {c = Neg(b)},"
    nodes += " else_branch = e () => (float[N] c) {c = Exp(b)}>"
    model = _model(nodes, {"a": A})
    model.graph.input.append(onnx.helper.make_tensor_value_info("i", onnx.TensorProto.BOOL, ()))
    with pytest.raises(rs.Unimplemented, match="not made by any node before it"):
        rs.onnx.load(model)({"a": A, "i": np.array(True)})


@pytest.mark.parametrize("exponents", ["float[3] {0.0, 0.0, 2.0}", "int64[3] {0, 0, 2}"])
def test_powers_of_zero_are_flat(exponents: str):
    a = np.array([0, 1, 3], np.float32)
    model = _model(f"n = Constant <value = {exponents}> () y = Pow(a, n)", {"a": a})
    np.testing.assert_array_equal(rs.onnx.load(model)({"a": a})["d_a"], [0, 0, 6])


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "double"])
@pytest.mark.parametrize(
    "nodes", ["c = Erf(a) y = ReduceMean(c)", "y = Gemm <alpha = 0.5> (a, a)", "y = ReduceMean(a)"]
)
def test_gradients_have_the_type_of_what_they_are_of(nodes: str, kind: str):
    a = A[:, :3]
    dtype = rs.DataType[{"float16": "f16", "bfloat16": "bf16", "double": "f64"}[kind]].numpy
    (wanted, found) = (
        rs.onnx.load(_model(nodes, {"a": a, "b": a}, kind=of))({"a": a.astype(to), "b": a.astype(to)})
        for of, to in (("float", np.float32), (kind, dtype))
    )
    assert found["d_a"].dtype == found["d_b"].dtype == dtype
    rtol = 1e-6 if kind == "double" else 2e-2
    np.testing.assert_allclose(found["d_a"].astype(np.float64), wanted["d_a"], rtol=rtol)
