"""ShuffleChannels layers of OpenVINO IRs: read, looked up, called, and refused."""

import copy
import dataclasses
import doctest
import io
import pickle

import ml_dtypes
import numpy as np
import pytest

import restride as rs
from restride import openvino
from restride.arrays.openvino import xml_source
from restride.openvino import Layers, ShuffleChannels, read_ir
from support.errors import refused
from support.ir import EXAMPLE, PARAMETER, layer, net, port


def read(text):
    return read_ir(io.BytesIO(text.encode()))


def shuffled(x, group, axis):
    """Element by element: channel j * group + i of the result is channel i * (C / group) + j of x."""
    channels = x.shape[axis]
    each = channels // group
    order = [i * each + j for j in range(each) for i in range(group)]
    return np.take(x, order, axis)


# --- reading --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", ["{}", "<layers>{}</layers>", '<net version="11"><layers>{}</layers></net>'])
@pytest.mark.parametrize("kind", ["path", "PathLike", "binary file", "text file", "BytesIO", "StringIO"])
def test_the_example_of_the_documents_is_read_as_it_stands(tmp_path, wrap, kind):
    path, text = tmp_path / "model.xml", wrap.format(EXAMPLE.strip())
    path.write_text(text)
    if kind == "binary file":
        with path.open("rb") as file:
            found = read_ir(file)
    elif kind == "text file":
        with path.open() as file:
            found = read_ir(file)
    else:
        source = {"path": str(path), "PathLike": path, "BytesIO": io.BytesIO(text.encode())}
        found = read_ir(source.get(kind) or io.StringIO(text))
    assert found == (ShuffleChannels((5, 12, 200, 400), axis=1, group=3),)
    assert found[0].group_size == 4


def test_the_example_of_the_documents_can_be_called():
    (found,) = read(EXAMPLE.replace("200", "2").replace("400", "3"))
    x = np.arange(5 * 12 * 2 * 3, dtype=np.float32).reshape(5, 12, 2, 3)
    y = found(x)
    assert (y[0, :, 0, 0] / 6).tolist() == [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]
    np.testing.assert_array_equal(y, shuffled(x, 3, 1))


def test_only_shuffle_channels_layers_are_read_in_the_order_of_the_file():
    other = PARAMETER.replace("Parameter", "ShuffleChannelsV2")
    late = layer((2, 4), 'axis="-1" group="2"', 'id="9" name="late" version="opset14"')
    found = read(net(PARAMETER, late, other, layer()))
    assert [(each.id, each.name, each.axis, each.group, each.shape, each.version) for each in found] == [
        (9, "late", -1, 2, (2, 4), "opset14"),
        (3, "shuffle", 1, 3, (1, 6, 2), "opset3"),
    ]


@pytest.mark.parametrize("text", ["<net/>", "<layers/>", '<layer type="Add"/>', net(PARAMETER), net()])
def test_a_model_without_such_layers_gives_an_empty_result(text):
    assert read(text) == ()


def test_layers_in_the_bodies_of_others_are_read():
    inner = layer(attributes='id="1" name="inner" version="opset3"')
    loop = f'<layer id="4" name="loop" type="Loop"><body><layers>{PARAMETER}{inner}</layers></body></layer>'
    branch = f'<layer id="2" name="if" type="If"><then_body><layers>{loop}</layers></then_body></layer>'
    found = read(net(branch, layer(attributes='id="1" name="outer" version="opset3"')))
    assert [each.name for each in found] == ["inner", "outer"]


def test_attributes_have_defaults_and_notes_of_other_programs_are_ignored():
    (found,) = read(layer((2, 3), 'originalLayersNames="a,b"', ""))
    assert (found.axis, found.group, found.group_size) == (1, 1, 3)
    assert (found.id, found.name, found.element_type, found.version) == (None, "", None, None)
    (found,) = read(
        layer((2, 3)).replace('<data axis="1" group="3"/>', "<rt_info><attribute name='x'/></rt_info>")
    )
    assert (found.axis, found.group) == (1, 1)


@pytest.mark.parametrize(
    ("precision", "twin"),
    [
        ("FP64", np.float64),
        ("FP32", np.float32),
        ("FP16", np.float16),
        ("BF16", ml_dtypes.bfloat16),
        ("I64", np.int64),
        ("U16", np.uint16),
        ("BOOL", np.bool_),
        ("MIXED", None),
    ],
)
def test_the_element_type_is_that_of_the_port(precision, twin):
    (found,) = read(layer().replace('<port id="0">', f'<port id="0" precision="{precision}" names="x">'))
    assert found.element_type == precision
    assert found.dtype == (None if twin is None else np.dtype(twin))


def test_old_files_name_the_element_type_on_the_layer_or_the_output():
    (found,) = read(net(layer(attributes='id="1" name="a" precision="FP16"'), version='version="2"'))
    assert found.element_type == "FP16"
    text = layer().replace('<output><port id="0"', '<output><port id="1" precision="I8"')
    assert read(text)[0].element_type == "I8"


def test_extents_that_are_not_known_are_minus_one():
    (found,) = read(layer((-1, 6, -1)))
    assert (found.shape, found.channels, found.group_size) == ((-1, 6, -1), 6, 2)
    (found,) = read(layer((1, -1, 2), out=(-1, 6, 2)))
    assert (found.channels, found.group_size) == (-1, None)


def test_white_space_comments_and_cdata_are_xml():
    text = (
        layer()
        .replace("<dim>6</dim>", "<dim>\n <!-- six --> 6\n</dim>")
        .replace("<dim>2</dim>", "<dim><![CDATA[2]]></dim>")
    )
    assert read(f"<!-- a layer -->{text}<!-- end -->")[0].shape == (1, 6, 2)


# --- look-up --------------------------------------------------------------------------------------------


def test_layers_are_found_by_place_by_name_and_by_id():
    names = [layer(attributes=f'id="{i}" name="shuffle{i}"') for i in range(12)]
    found = read(net(*names))
    assert len(found) == 12
    assert found[2] is found.by_id(2) is found.by_name("shuffle2")
    assert [each.id for each in found[1:3]] == [1, 2]
    for ask in (lambda: found.by_id(99), lambda: found.by_name("shuffle99")):
        with refused("no layers of", "there are 12 ShuffleChannels layers"):
            ask()


def test_an_id_that_two_bodies_use_is_refused():
    found = read(net(layer(), layer()))
    with refused("2 layers of id 3"):
        found.by_id(3)


def test_looking_up_in_nothing_is_refused():
    with refused("no layers of id 1", "there are 0"):
        Layers().by_id(1)


@pytest.mark.parametrize("layers", [5, None, "ab", [5], [ShuffleChannels((1, 6)), "ab"]])
def test_layers_are_of_layers(layers):
    with refused("ShuffleChannels", "read_ir"):
        Layers(layers)
    made = Layers(iter([ShuffleChannels((1, 6), id=3)]))
    assert made.by_id(3) is made[0]
    assert pickle.loads(pickle.dumps(made)) == made


# --- calling --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "axis", "group"),
    [
        ((15,), 0, 5),
        ((6, 1, 1, 1), 0, 2),
        ((1, 15, 2, 2), 1, 5),
        ((15, 2, 1, 2), -4, 5),
        ((15, 4), 0, 5),
        ((15, 2, 2), 0, 5),
        ((2, 2, 15, 2, 2), 2, 5),
        ((3, 4), -1, 4),
        ((3, 0, 2), 1, 5),
        ((0, 4), 1, 2),
    ],
)
@pytest.mark.parametrize("dtype", ["int8", "uint16", "float32", "int64"])
def test_a_call_shuffles_the_channels(shape, axis, group, dtype):
    (found,) = read(layer(shape, f'axis="{axis}" group="{group}"'))
    x = np.arange(int(np.prod(shape))).astype(dtype).reshape(shape)
    np.testing.assert_array_equal(found(x), shuffled(x, group, axis % len(shape)))


def test_the_reference_values_of_the_operation():
    assert ShuffleChannels((15,), 0, 5)(np.arange(15)).tolist() == [
        *(0, 3, 6, 9, 12, 1, 4, 7, 10, 13, 2, 5, 8, 11, 14),
    ]
    assert ShuffleChannels((6, 1, 1, 1), 0, 2)(np.arange(6).reshape(6, 1, 1, 1)).ravel().tolist() == [
        *(0, 3, 1, 4, 2, 5),
    ]


def test_a_call_takes_a_memory_and_an_out():
    found = ShuffleChannels((1, 6), group=3)
    x = np.arange(6, dtype=np.float32).reshape(1, 6)
    assert np.asarray(found(rs.Memory.from_numpy(x))).tolist() == [[0, 2, 4, 1, 3, 5]]
    out = np.empty_like(x)
    assert found(x, out=out) is out
    assert out.tolist() == [[0, 2, 4, 1, 3, 5]]


def test_an_extent_that_is_not_known_takes_any():
    found = ShuffleChannels((-1, -1), group=2)
    for shape in ((1, 4), (3, 2)):
        x = np.arange(int(np.prod(shape))).reshape(shape)
        np.testing.assert_array_equal(found(x), shuffled(x, 2, 1))


@pytest.mark.parametrize(
    "x",
    [
        np.zeros((1, 6)),
        np.zeros((1, 6, 3)),
        np.zeros((1, 6, 2, 1)),
        np.zeros((6, 1, 2)),
        np.zeros((2, 6, 0)),
        rs.Memory.from_numpy(np.zeros((2, 6), np.float32)),
        rs.Memory(),
        np.float32(3),
    ],
    ids=range(8),
)
def test_another_shape_is_refused(x):
    with refused("ShuffleChannels 'shuffle': x has another shape", "layer *x6x2", "shuffle_channels"):
        read(layer((-1, 6, 2)))[0](x)


class Odd:
    shape = ("a", None)


@pytest.mark.parametrize("x", [None, 3, "x", [1, 2], Odd()], ids=range(5))
def test_what_has_no_shape_is_refused(x):
    with refused("x is not an array", "has no shape"):
        read(layer())[0](x)


# --- the layer as a value -------------------------------------------------------------------------------


def test_layers_are_frozen_values():
    one, other = ShuffleChannels([2, 4], group=np.int64(2)), ShuffleChannels((2, 4), 1, 2)
    assert one == other
    assert hash(one) == hash(other)
    assert type(one.group) is int
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.group = 3
    found = read(net(layer(), layer(attributes='id="4"')))
    for again in (pickle.loads(pickle.dumps(found)), copy.copy(found), copy.deepcopy(found)):
        assert again == found
        assert again.by_id(4) == found[1]
    assert [str(each) for each in (*found, one)] == [
        "ShuffleChannels 'shuffle'",
        "ShuffleChannels 4",
        "ShuffleChannels",
    ]


@pytest.mark.parametrize(
    ("shape", "axis", "group", "said"),
    [
        ((15,), 1, 1, "axis 1 is out of the range of a tensor of 1 axes, [-1, 0]"),
        ((1, 2, 3, 4), -5, 1, "axis -5 is out of the range of a tensor of 4 axes, [-4, 3]"),
        ((1, 2, 3, 4), 4, 1, "[-4, 3]"),
        pytest.param((2, 4), 10**4400, 1, "an integer of 14617 bits", id="huge"),
        ((2, 4), 1, 0, "group must be 1 or more"),
        ((2, 4), 1, -2, "group must be 1 or more"),
        ((2, 0), 1, 0, "greater than or equal to 1"),
        ((2, -1), 1, 0, "greater than or equal to 1"),
        ((2, -1), 1, 2**70, "below 2**63"),
        ((2, 0), 1, 2**63, "below 2**63"),
        ((2, 4), 1, 3, "C = 4 (axis 1), group = 3, group_size = C / group = 4 / 3"),
        ((2, 4), -2, 4, "C = 2 (axis 0), group = 4"),
        ((2, 4), 1, 8, "valid values of group: 1, 2, 4"),
        ((), 0, 1, "has 0 axes"),
        ((1,) * 64 + (1,), 0, 1, "more than 64 entries"),
        ((2, -2), 0, 1, "shape[1] is -2"),
        ((2, 2**63), 0, 1, "shape[1] is"),
        ((2, True), 0, 1, "shape[1] is True"),
        ("24", 0, 1, "shape is '24'"),
        ((2, 4), 1.0, 1, "axis is 1.0"),
        ((2, 4), 1, "2", "group is '2'"),
        ((2, 4), True, 1, "axis is True"),
    ],
)
def test_what_the_operation_does_not_allow_is_refused(shape, axis, group, said):
    with refused(said) as _:
        ShuffleChannels(shape, axis, group)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"id": "x"}, "id is 'x'"),
        ({"id": True}, "id is True"),
        ({"id": 2.0}, "id is 2.0"),
        ({"name": [1]}, "name is [1]"),
        ({"name": None}, "name is None"),
        ({"element_type": 7}, "precision is 7"),
        ({"element_type": "F P"}, "precision is 'F P'"),
        ({"element_type": "STRING"}, "requires a numeric type"),
        ({"version": 3}, "version is 3"),
        ({"version": "opset0"}, "version is 'opset0'"),
    ],
    ids=range(10),
)
def test_every_field_of_a_layer_is_checked(wrong, said):
    with refused(said):
        ShuffleChannels((2, 4), 1, 2, **wrong)


# --- files that are wrong -------------------------------------------------------------------------------


def typed(source, target):
    """A layer whose ports are of these types."""
    one, other = (f'<port precision="{precision}" id' for precision in (source, target))
    return layer().replace("<port id", one, 1).replace("<output><port id", f"<output>{other}")


@pytest.mark.parametrize(
    ("source", "target"), [("FP32", "fp32"), ("I4", "I4"), ("F8E8M0", "F8E8M0"), ("FP16", "UNSPECIFIED")]
)
def test_ports_of_one_numeric_type_are_read(source, target):
    assert read(typed(source, target))[0].element_type == source


_WRONG = {
    "axis beyond": (layer(data='axis="3"'), "axis 3 is out of the range"),
    "axis below": (layer(data='axis="-4"'), "axis -4 is out of the range"),
    "default axis of a vector": (layer((15,), 'group="5"'), "axis 1 is out of the range"),
    "axis is a word": (layer(data='axis="channels"'), "axis is 'channels'"),
    "axis is a float": (layer(data='axis="1.0"'), "axis is '1.0'"),
    "axis is empty": (layer(data='axis=""'), "axis is ''"),
    "axis is huge": (layer(data=f'axis="{"9" * 5000}"'), "axis is '999"),
    "axis is of 64 bits and more": (layer(data='axis="9223372036854775808"'), "64-bit integer"),
    "axis in other digits": (layer(data='axis="١"'), "64-bit integer"),
    "group 0": (layer(data='group="0"'), "group must be 1 or more"),
    "group negative": (layer(data='group="-3"'), "group must be 1 or more"),
    "group does not divide": (layer(data='group="4"'), "must be a multiple"),
    "group 0 of channels not known": (layer((1, -1), data='group="0"'), "greater than or equal to 1"),
    "group larger": (layer(data='group="12"'), "C = 6 (axis 1), group = 12"),
    "group is NaN": (layer(data='group="nan"'), "group is 'nan'"),
    "two data": (layer().replace("<data", "<data/><data"), "two <data>"),
    "dim negative": (layer((1, -6, 2)), "shape[1] is -6"),
    "dim is a float": (layer((1, 6.0, 2)), "a <dim> is '6.0'"),
    "dim is empty": (layer((1, "", 2)), "a <dim> is ''"),
    "dim is a range": (layer((1, "1..6", 2)), "a <dim> is '1..6'"),
    "dim is huge": (layer((1, 2**63, 2)), "a <dim> is '9223372036854775808'"),
    "dim is very long": (layer((1, "1" * 100_000, 2)), "a <dim> is '111"),
    "no dims": (layer(()), "has 0 axes"),
    "65 dims": (layer((1,) * 65), "too many dims"),
    "dim in a dim": (layer(("<dim>1</dim>", 2)), "<dim> does not belong inside <dim>"),
    "a layer inside": (layer().replace("<data", "<layer type='Add'/><data"), "<layer> does not belong"),
    "output of another shape": (layer(out=(1, 6, 3)), "the one is 1x6x2, the other 1x6x3"),
    "output of another rank": (layer(out=(1, 6)), "differ in shape"),
    "no input": (layer().replace("input>", "inputs>"), "there are 0 ports in <input>"),
    "no output": (layer().replace("output>", "rt_info>"), "there are 0 ports in <output>"),
    "two inputs": (layer().replace("<input>", f"<input>{port((1, 6, 2))}"), "there are 2 ports in <input>"),
    "id is a word": (layer(attributes='id="three"'), "id is 'three'"),
    "version of another program": (layer(attributes='version="extension"'), "version is 'extension'"),
    "version 0": (layer(attributes='version="opset0"'), "version is 'opset0'"),
    "version empty": (layer(attributes='version=""'), "version is ''"),
    "precision is no word": (layer().replace("<port id", "<port precision='F P' id"), "precision is 'F P'"),
    "an output of another type": (typed("FP32", "I8"), "the one is 'FP32', the other 'I8'"),
    "text": (typed("STRING", "STRING"), "precision is 'STRING'"),
    "a type of no numbers": (typed("CUSTOM", "CUSTOM"), "requires a numeric type"),
    "no type": ('<net><layers><layer id="1"/></layers></net>', "a <layer> has no type"),
    "net of version 12": (net(layer(), version='version="12"'), "versions up to 11 are supported"),
    "net of version 0": (net(layer(), version='version="0"'), "versions up to 11 are supported"),
    "net of no version": (net(layer(), version='version="new"'), "the version of <net> is 'new'"),
    "another root": (f"<model>{layer()}</model>", "outermost element is <model>"),
    "a web page": ("<html><body/></html>", "outermost element is <html>"),
}


@pytest.mark.parametrize(("text", "said"), _WRONG.values(), ids=_WRONG.keys())
def test_a_wrong_file_is_refused_with_its_name_and_the_place(tmp_path, text, said):
    path = tmp_path / "model.xml"
    path.write_text(text, encoding="utf-8")
    with refused(said, f"cannot read {path}", "line ") as _:
        read_ir(path)


def test_the_message_names_the_layer_and_the_way_out():
    text = net(PARAMETER, layer(), layer(data='group="6" axis="2"', attributes='id="7" name="sh/7"'))
    with pytest.raises(rs.InvalidArguments) as caught:
        read(text)
    groups = "C = 2 (axis 2), group = 6, group_size = C / group = 2 / 6"
    assert caught.value.where == f"the layer on line 6, id '7', name 'sh/7'; {groups}"
    assert caught.value.why == "ShuffleChannels: bad group: C must be a multiple of group"
    assert caught.value.hint == "valid values of group: 1, 2"


def test_a_wrong_group_is_told_as_by_the_function_itself():
    errors = []
    for call in (
        lambda: ShuffleChannels((1, 12, 2, 2), 1, 5),
        lambda: rs.shuffle_channels(np.zeros((1, 12, 2, 2)), group=5),
    ):
        with pytest.raises(rs.InvalidArguments) as caught:
            call()
        errors.append((caught.value.where, caught.value.why, caught.value.hint))
    assert errors[0] == errors[1]


def test_hostile_names_stay_in_one_short_line():
    with pytest.raises(rs.InvalidArguments) as caught:
        read(layer((1, 5), attributes=f'id="7" name="{"&#10;x" * 5000}"'))
    assert "\n" not in caught.value.where
    assert len(caught.value.message) < 600


def test_a_file_of_too_many_layers_is_refused(monkeypatch):
    monkeypatch.setattr("restride.arrays.openvino.ir._MOST_LAYERS", 2)
    assert len(read(net(layer(), layer()))) == 2
    with refused("more than 2 ShuffleChannels layers"):
        read(net(layer(), layer(), layer()))


def test_a_stream_without_end_is_refused_before_long(monkeypatch):
    monkeypatch.setattr(xml_source, "MAX_NODES", 100_000)
    pieces = iter(["<net>", *["<a b='1'/>" * 10_000] * 20])

    class Endless:
        def read(self, size):
            return next(pieces)

    with refused("more than 100000 elements and attributes"):
        read_ir(Endless())
    assert next(pieces)


@pytest.mark.parametrize("module", [openvino, xml_source], ids=["openvino", "xml_source"])
def test_the_examples_in_the_source_run(module):
    found = doctest.testmod(module)
    assert found.attempted
    assert not found.failed
