"""Networks of OpenVINO's files: layers against NumPy, files that do not hold, and OpenVINO beside."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from ml_dtypes import bfloat16

import restride as rs

Array = np.ndarray
X = np.random.default_rng(0).standard_normal((1, 4, 5, 6)).astype(np.float32)
W = np.random.default_rng(1).standard_normal((3, 4, 1, 1)).astype(np.float32)
KINDS = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int64": "i64"}
KINDS |= {"uint8": "u8", "uint4": "u4", "int4": "i4"}
PORT = '<output><port id="0" precision="FP32"/></output>'


def layer(number: int, name: str, kind: str, data: str, reads: int = 0) -> str:
    ports = "".join(f'<port id="{at + 1}"/>' for at in range(reads))
    inside = f"<data {data}/><input>{ports}</input>{PORT}"
    return f'<layer id="{number}" name="{name}" type="{kind}">{inside}</layer>'


def saved(
    folder: Path,
    layers: Sequence[tuple[str, str, Sequence[str]]],
    constants: dict[str, Array],
    kind: str = "f32",
) -> Path:
    """A model of an input "x", constants, and layers (type, attributes, names of inputs).

    Each layer is called by its type, and the last one is the result.
    """
    blob, ids, edges = b"", {"x": 0}, []
    shape = ",".join(map(str, X.shape))
    parts = [layer(0, "x", "Parameter", f'shape="{shape}" element_type="{kind}"')]
    for name, values in constants.items():
        ids[name] = len(ids)
        kind, dims = KINDS[values.dtype.name], ",".join(map(str, values.shape))
        content = values.tobytes()
        if kind in ("u4", "i4"):
            pairs = np.append(np.frombuffer(content, np.uint8) & 15, [0] * (values.size % 2)).astype(np.uint8)
            content = (pairs[::2] | pairs[1::2] << 4).tobytes()
        data = f'element_type="{kind}" shape="{dims}" offset="{len(blob)}" size="{len(content)}"'
        parts.append(layer(ids[name], name, "Const", data))
        blob += content
    for kind, attributes, inputs in [*layers, ("Result", "", [layers[-1][0]])]:
        ids[kind] = len(ids)
        parts.append(layer(ids[kind], kind, kind, attributes, len(inputs)))
        for at, name in enumerate(inputs):
            ends = f'to-layer="{ids[kind]}" to-port="{at + 1}"'
            edges.append(f'<edge from-layer="{ids[name]}" from-port="0" {ends}/>')
    inside = f"<layers>{''.join(parts)}</layers><edges>{''.join(edges)}</edges>"
    (folder / "m.xml").write_text(f'<net name="n" version="11">{inside}</net>')
    (folder / "m.bin").write_bytes(blob)
    return folder / "m.xml"


WINDOW = 'strides="1,1" dilations="1,1" pads_begin="0,0" pads_end="0,0" auto_pad="explicit"'
RESIZE = 'mode="nearest" shape_calculation_mode="scales" coordinate_transformation_mode="asymmetric" '


def numbers(*values: int) -> Array:
    return np.array(values, np.int64)


def attended(mask: Array | float = 0.0) -> Array:
    powers = np.exp(X @ X.swapaxes(2, 3) / np.sqrt(6) + mask)
    return powers / powers.sum(-1, keepdims=True) @ X


HALF = W.reshape(3, 4)[:, :2]
GROUPS = [np.einsum("nchw,oc->nohw", X[:, i : i + 2], HALF) for i in (0, 2)]

CASES: dict[str, tuple[tuple[str, str, Sequence[str]], dict[str, Array], Array]] = {
    "convolution": (("Convolution", WINDOW, ["x", "w"]), {"w": W}, np.einsum("nchw,ocij->nohw", X, W)),
    "groups": (
        ("GroupConvolution", WINDOW, ["x", "w"]),
        {"w": HALF.reshape(1, 3, 2, 1, 1).repeat(2, 0)},
        np.concatenate(GROUPS, 1),
    ),
    "pooling": (
        ("AvgPool", 'kernel="5,6" strides="1,1" pads_begin="0,0" pads_end="0,0" exclude-pad="true"', ["x"]),
        {},
        X.mean((2, 3), keepdims=True),
    ),
    "clamp": (("Clamp", 'min="-0.5" max="1"', ["x"]), {}, X.clip(-0.5, 1)),
    "shuffle": (("ShuffleChannels", 'axis="1" group="2"', ["x"]), {}, X[:, [0, 2, 1, 3]]),
    "mean": (("ReduceMean", 'keep_dims="false"', ["x", "a"]), {"a": numbers(2, 3)}, X.mean((2, 3))),
    "product": (
        ("MatMul", 'transpose_a="false" transpose_b="true"', ["x", "w"]),
        {"w": np.ones((2, 6), np.float32)},
        X @ np.ones((6, 2), np.float32),
    ),
    "turn": (("Transpose", "", ["x", "a"]), {"a": numbers(0, 2, 3, 1)}, X.transpose(0, 2, 3, 1)),
    "reshape": (("Reshape", 'special_zero="true"', ["x", "a"]), {"a": numbers(0, -1)}, X.reshape(1, -1)),
    "swish": (("Swish", "", ["x"]), {}, X / (1 + np.exp(-X))),
    "statistics": (
        ("MVN", 'eps="0.001" normalize_variance="true" eps_mode="INSIDE_SQRT"', ["x", "a"]),
        {"a": numbers(-1)},
        (X - X.mean(-1, keepdims=True)) / np.sqrt(X.var(-1, keepdims=True) + 0.001),
    ),
    "resize": (
        ("Interpolate", f'{RESIZE} nearest_mode="floor"', ["x", "s", "a"]),
        {"s": np.array([2, 3], np.float32), "a": numbers(2, 3)},
        X.repeat(2, 2).repeat(3, 3),
    ),
    "resize of all dims": (
        ("Interpolate", f'{RESIZE} nearest_mode="floor"', ["x", "s"]),
        {"s": np.array([1, 1, 2, 2], np.float32)},
        X.repeat(2, 2).repeat(2, 3),
    ),
    "slopes of channels": (
        ("PReLU", "", ["x", "slopes"]),
        {"slopes": np.array([0.1, 0.2, 0.3, 0.4], np.float32)},
        np.where(X > 0, X, X * np.float32([0.1, 0.2, 0.3, 0.4]).reshape(4, 1, 1)),
    ),
    "part of open size": (
        ("VariadicSplit", "", ["x", "axis", "sizes"]),
        {"axis": numbers(-1), "sizes": numbers(-1)},
        X,
    ),
    "attention": (("ScaledDotProductAttention", 'causal="false"', ["x", "x", "x"]), {}, attended()),
    "causal attention": (
        ("ScaledDotProductAttention", 'causal="true"', ["x", "x", "x"]),
        {},
        attended(np.triu(np.full(X.shape[2:3] * 2, -np.inf), 1)),
    ),
    "attention with a mask": (
        ("ScaledDotProductAttention", 'causal="false"', ["x", "x", "x", "m"]),
        {"m": W[0, 0, :1, :1]},
        attended(W[0, 0, :1, :1]),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_layer_gives_what_numpy_does(tmp_path: Path, name: str) -> None:
    one, constants, wanted = CASES[name]
    made = rs.openvino.load(saved(tmp_path, [one], constants))(X)
    assert made.shape == wanted.shape
    assert np.allclose(made, wanted, atol=2e-5)


def test_integers_that_are_known_are_divided_towards_minus_infinity(tmp_path: Path) -> None:
    layers = [
        ("Divide", "", ["a", "b"]),
        ("Negative", "", ["Divide"]),
        ("Reshape", 'special_zero="false"', ["x", "Negative"]),
    ]
    constants = {"a": numbers(-119), "b": numbers(1)}
    assert rs.openvino.load(saved(tmp_path, layers, constants | {"a": numbers(-120)}))(X).shape == (120,)
    constants = {"a": numbers(-239), "b": numbers(2)}
    assert rs.openvino.load(saved(tmp_path, layers, constants))(X).shape == (120,)


def test_constants_without_elements_may_have_a_byte_in_the_file(tmp_path: Path) -> None:
    layers = [("ReduceSum", 'keep_dims="true"', ["x", "none"])]
    path = saved(tmp_path, layers, {"none": numbers()})
    path.write_text(path.read_text().replace('size="0"', 'size="1"'))
    (tmp_path / "m.bin").write_bytes(b"\0")
    assert np.array_equal(rs.openvino.load(path)(X), X)


@pytest.mark.parametrize("layer_type", ["ReduceL1", "ReduceL2"])
def test_norms_are_of_each_element_where_there_are_no_axes(tmp_path: Path, layer_type: str) -> None:
    for axes, wanted in (((), np.abs(X)), ((2,), np.linalg.norm(X, int(layer_type[-1]), 2, keepdims=True))):
        one = (layer_type, 'keep_dims="true"', ["x", "axes"])
        found = rs.openvino.load(saved(tmp_path, [one], {"axes": numbers(*axes)}))(X)
        assert np.allclose(found, wanted, rtol=1e-6)


def test_parts_begin_at_the_nearest_element_and_negative_pads_cut_off(tmp_path: Path) -> None:
    layers = [
        ("Slice", "", ["x", "begin", "begin", "back", "last"]),
        ("Pad", 'pad_mode="constant"', ["Slice", "low", "high"]),
    ]
    known = {"begin": numbers(-9), "back": numbers(-1), "last": numbers(3)}
    known |= {"low": numbers(0, -1, 0, 1), "high": numbers(0, 0, 1, 0)}
    found = rs.openvino.load(saved(tmp_path, layers, known))(X)
    assert np.array_equal(found, np.pad(X[:, 1:, :, :1], ((0, 0), (0, 0), (0, 1), (1, 0))))


@pytest.mark.parametrize("dtype", ["float64", "float16", bfloat16])
def test_constants_keep_their_types(tmp_path: Path, dtype: str) -> None:
    x, c = X.astype(dtype), np.arange(1, 7).astype(dtype) / np.array(3, dtype)
    layers = [
        ("Subtract", "", ["c", "x"]),
        ("Clamp", 'min="0.1" max="0.7"', ["Subtract"]),
        ("Concat", 'axis="3"', ["c", "Clamp"]),
    ]
    known = {"c": np.broadcast_to(c, (1, 4, 5, 6)).copy()}
    found = rs.openvino.load(saved(tmp_path, layers, known, KINDS[np.dtype(dtype).name]))(x)
    assert found.dtype == np.dtype(dtype)
    limits = (0.1, 0.7) if dtype == "float64" else np.float32([0.1, 0.7])
    assert np.array_equal(found[..., 6:], (c - x).astype("f8").clip(*limits).astype(dtype))


def test_numbers_of_functions_that_would_round_doubles_are_named(tmp_path: Path) -> None:
    path = saved(tmp_path, [("Elu", 'alpha="0.1"', ["x"])], {}, "f64")
    with pytest.raises(rs.Unimplemented, match="Elu"):
        rs.openvino.load(path)(X.astype(np.float64))


POOL = 'strides="3,3" pads_begin="1,1" pads_end="1,1" kernel="2,2" exclude-pad="true" rounding_type='


@pytest.mark.parametrize(
    "one",
    [
        ("Interpolate", f'{RESIZE} nearest_mode="floor" pads_begin="0,0,1,1" pads_end="0,0,1,1"', ["x", "s"]),
        ("MVN", 'eps_mode="outside_sqrt"', ["x", "last"]),
        ("Add", 'auto_broadcast="pdpd"', ["x", "x"]),
        ("AvgPool", f'{POOL}"ceil"', ["pair"]),
        ("MaxPool", f'{POOL}"ceil"', ["pair"]),
    ],
)
def test_forms_of_layers_that_are_not_there_are_named(
    tmp_path: Path, one: tuple[str, str, Sequence[str]]
) -> None:
    constants = {
        "s": np.array([1, 1, 2, 2], np.float32),
        "last": numbers(-1),
        "row": numbers(0),
        "first": numbers(1),
        "four": numbers(1, 4, 5, 5),
        "none": numbers(0, 0, 0, 0),
        "step": numbers(1, 1, 1, 1),
    }
    window = ("Slice", "", ["x", "none", "four", "step"])
    layers = [window, (one[0], one[1], ["Slice"])] if "pair" in one[2] else [one]
    net = rs.openvino.load(saved(tmp_path, layers, constants))
    with pytest.raises(rs.Unimplemented, match=one[0]):
        net(X)


def test_outputs_come_in_the_order_of_the_file(tmp_path: Path) -> None:
    layers = [("Tanh", "", ["x"]), ("Exp", "", ["Tanh"]), ("Abs", "", ["x"])]
    path = saved(tmp_path, layers, {})
    text = path.read_text()
    results = [layer(number, name, "Result", "", 1) for number, name in ((8, "first"), (9, "second"))]
    ends = [(2, 8), (1, 9)]
    edges = [
        f'<edge from-layer="{one}" from-port="0" to-layer="{other}" to-port="1"/>' for one, other in ends
    ]
    text = text.replace("</layers>", f"{''.join(results)}</layers>")
    path.write_text(text.replace("</edges>", f"{''.join(edges)}</edges>"))
    net = rs.openvino.load(path)
    assert net.outputs == ("Abs", "Exp", "Tanh")
    assert rs.openvino.load(path, precision="bf16").precision == "bf16"
    assert np.allclose(net(X)["Exp"], np.exp(np.tanh(X)), atol=1e-5)


def test_missing_layers_are_listed_at_once(tmp_path: Path) -> None:
    path = saved(tmp_path, [("NonZero", "", ["x"]), ("Unique", "", ["NonZero"])], {})
    with pytest.raises(rs.Unimplemented, match=r"NonZero: 'NonZero'; Unique: 'Unique'"):
        rs.openvino.load(path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('offset="0"', 'offset="9999"'),
        ('offset="0"', 'offset="-8"'),
        ('size="48"', 'size="44"'),
        ('shape="3,4,1,1"', 'shape="3,5,1,1"'),
        ('element_type="f32" shape="3', 'element_type="string" shape="3'),
        ('from-layer="1"', 'from-layer="2"'),
        ('from-layer="1"', 'from-layer="7"'),
        ('id="1" name="w"', 'id="0" name="w"'),
        ('strides="1,1"', 'strides="1,far"'),
        ('strides="1,1"', 'strides="0,1"'),
        ('strides="1,1"', 'strides="1"'),
        ("<net", '<!DOCTYPE n [<!ENTITY a "b">]><net'),
        ("</net>", ""),
        ("<layers>", "<layer>"),
    ],
)
def test_files_that_do_not_hold_are_refused(tmp_path: Path, old: str, new: str) -> None:
    one, constants, _ = CASES["convolution"]
    path = saved(tmp_path, [one], constants)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(rs.Error):
        rs.openvino.load(path)(X)


def test_weights_may_lie_apart_and_must_be_there(tmp_path: Path) -> None:
    one, constants, wanted = CASES["convolution"]
    path = saved(tmp_path, [one], constants)
    (tmp_path / "m.bin").rename(tmp_path / "other.bin")
    assert np.allclose(rs.openvino.load(path, tmp_path / "other.bin")(X), wanted, atol=2e-5)
    with pytest.raises(rs.RuntimeFailure, match=r"m\.bin"):
        rs.openvino.load(path)


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.parametrize("name", ["squeezenet", "shufflenet", "inception_v2"])
def test_light_networks_give_what_openvino_does(tmp_path: Path, name: str) -> None:
    openvino, onnx = pytest.importorskip("openvino"), pytest.importorskip("onnx")
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    model = openvino.convert_model(folder / f"light_{name}.onnx")
    openvino.save_model(model, tmp_path / "m.xml", compress_to_fp16=False)
    x = np.random.default_rng(0).standard_normal((1, 3, 224, 224)).astype(np.float32)
    config = {"INFERENCE_PRECISION_HINT": "f32"}
    wanted = openvino.Core().compile_model(tmp_path / "m.xml", "CPU", config)(x)[0]
    assert np.abs(rs.openvino.load(tmp_path / "m.xml")(x) - wanted).max() <= 1e-4 * np.abs(wanted).max()


@pytest.mark.parametrize("has_zeros", [False, True])
@pytest.mark.parametrize("kind", ["uint8", "uint4", "int4"])
@pytest.mark.parametrize("last", ["MatMul", "Gather"])
def test_compressed_weights_stay_integers(tmp_path: Path, last: str, kind: str, has_zeros: bool) -> None:
    random = np.random.default_rng(3)
    integers = random.integers(-8 * (kind == "int4"), 8, (7, 2, 3)).astype(np.dtype(kind))
    scales, zeros = random.random((7, 2, 1)).astype(np.float16), random.integers(0, 9, (7, 2, 1))
    known = {"w": integers, "s": scales, "dims": numbers(7, 6), "at": numbers(3, 6, 3), "axis": numbers(0)}
    known |= {"z": zeros.astype(np.float16)}
    layers = [("Convert", 'destination_type="f16"', ["w"])]
    layers += [("Subtract", "", ["Convert", "z"])] if has_zeros else []
    layers += [
        ("Multiply", "", [layers[-1][0], "s"]),
        ("Reshape", 'special_zero="false"', ["Multiply", "dims"]),
    ]
    reals = integers.astype(np.float32) - (zeros if has_zeros else 0)
    weights = (reals * scales.astype(np.float32)).reshape(7, 6)
    x = X
    if last == "MatMul":
        # The source of halves is multiplied as it is.
        x = X.astype(np.float16)
        layers += [(last, 'transpose_a="false" transpose_b="true"', ["x", "Reshape"])]
        wanted = x.astype(np.float32) @ weights.T
    else:
        x = (np.abs(X) * 2).astype(np.int64) % 7
        layers += [(last, 'batch_dims="0"', ["Reshape", "x", "axis"])]
        wanted = weights[x]
    net = rs.openvino.load(saved(tmp_path, layers, known, KINDS[x.dtype.name]))
    assert np.allclose(net(x), wanted, atol=2e-2)
    steps = [step.operation for step in net.plan(x.shape).steps]
    assert steps == ["quantized_matmul"] if last == "MatMul" else "gather" in steps
    assert all(md.data_type.bits <= 16 for _, md in net.plan(x.shape).constants.values())
