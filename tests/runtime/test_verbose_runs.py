"""Verbose lines of real runs, read by the template that the header names."""

import os
import subprocess
import sys

import numpy as np
import pytest

import restride as rs

CPU, REF = rs.Engine("cpu"), rs.Engine("reference")
FIELDS = (
    *("marker", "version", "primitive", "operation", "engine", "kind", "implementation", "prop_kind"),
    *("mds", "attributes", "auxiliary", "dims", "time"),
)


@pytest.fixture
def lines(capfd):
    """The lines written since the last call, as dicts of their fields."""

    def read():
        texts = [text.split(",") for text in capfd.readouterr().err.splitlines()]
        # Other tests may have filled the cache: what leaves it then is no concern of these.
        found = [text for text in texts if "info" not in text[2:4] and text[3] != "cache:evict"]
        assert all(len(text) == len(FIELDS) for text in found), found
        told = [dict(zip(FIELDS, text, strict=True)) for text in found]
        # What tests before this one left in a full cache makes room at any time.
        return [line for line in told if line["operation"] != "cache:evict"]

    return read


def fresh(salt):
    """An array of a kind that no other test uses."""
    return np.ones((3, 1000 + salt), np.float32)


def check_line(line, operation, impl="jit:"):
    assert (line["marker"], line["version"], line["primitive"]) == ("restride_verbose", "v1", "primitive")
    assert line["operation"] == operation
    assert line["kind"] == "reorder"
    assert line["implementation"].startswith(impl)
    assert line["auxiliary"].startswith("why:")
    assert len(line["auxiliary"]) > 8
    assert 0 <= float(line["time"]) < 60_000


def test_an_array_tells_its_creation_its_reuse_and_its_execution(lines):
    x = fresh(1)
    with rs.set_verbose("profile"):
        rs.reorder(x, "ba", dtype="s8", scale=0.5)
        for _ in range(5):
            rs.reorder(x, "ba", dtype="s8", scale=0.25)
    operations = ["create:cache_miss", "exec", *["create:cache_hit", "exec"] * 5]
    found = lines()
    assert [line["operation"] for line in found] == operations
    for line, operation in zip(found, operations, strict=True):
        check_line(line, operation)
        assert line["engine"] == "cpu"
        assert line["prop_kind"] == "undef"
        assert line["mds"] == "src:f32::blocked:ab::f0 dst:s8::blocked:ba::f0"
        assert line["dims"] == "3x1001"
    assert [line["attributes"] for line in found[:4:2]] == ["attr-oscale:0:0.5", "attr-oscale:0:0.25"]
    assert float(found[0]["time"]) > min(float(line["time"]) for line in found[2::2])


def test_a_primitive_tells_the_same(lines):
    x, stream = fresh(2), rs.Stream(CPU)
    with rs.set_verbose("profile"):
        for _ in range(2):
            src = rs.Memory.from_numpy(x)
            dst = rs.Memory(rs.MemoryDesc(x.shape, "f32", "ba"), CPU)
            r = rs.Reorder(src, dst)
            r.execute(stream, src, dst)
            r.execute(stream, {rs.ARG_FROM: src, rs.ARG_TO: dst})
    found = lines()
    first = ["create:cache_miss", "exec", "exec"]
    assert [line["operation"] for line in found] == [*first, "create:cache_hit", *first[1:]]
    for line in found:
        check_line(line, line["operation"])
        assert line["mds"] == "src:f32::blocked:ab::f0 dst:f32::blocked:ba::f0"


def test_padding_gaps_offsets_and_attributes_stand_in_their_fields(lines):
    x = np.ones((2, 17, 3, 5), np.float32)
    out = np.zeros((2, 17, 3, 8), np.float32)[..., :5]
    with rs.set_verbose("profile_exec"):
        rs.reorder(x, "nChw16c")
        rs.reorder(x, None, beta=0.5, out=out)
        rs.reorder(x[::-1], "nchw")
    blocked, summed, reversed_ = lines()
    assert blocked["mds"] == "src:f32::blocked:abcd::f0 dst:f32:p:blocked:aBcd16b::f0"
    assert summed["attributes"] == "attr-post-ops:sum:0.5"
    assert summed["mds"].endswith("dst:f32::blocked:abcd:408x24x8x1:f0")
    assert reversed_["mds"].startswith("src:f32:0:blocked:abcd:")


def test_the_reference_engine_is_named(lines):
    with rs.set_verbose("profile_exec"):
        rs.reorder(fresh(3), "ba", engine=REF)
    (line,) = lines()
    check_line(line, "exec", "ref:any")
    assert line["engine"] == "reference"


def test_each_level_tells_its_own(lines):
    x = fresh(4)
    for level, wanted in (
        ("profile_create", ["create:cache_miss"]),
        ("profile_exec", ["exec"]),
        ("none", []),
        ("error", []),
        ("profile", ["create:cache_hit", "exec"]),
        (1, ["exec"]),
        (2, ["create:cache_hit", "exec"]),
    ):
        with rs.set_verbose(level):
            rs.reorder(x, "ba")
        assert [line["operation"] for line in lines()] == wanted, level


def test_out_and_memories_are_told_too(lines):
    x = fresh(5)
    out = np.zeros(x.shape, np.float32)
    memory = rs.Memory(rs.MemoryDesc(x.shape, "f32", "BA16a16b"), CPU)
    with rs.set_verbose("profile_exec"):
        rs.reorder(x, None, out=out)
        rs.reorder(x, None, out=memory)
        rs.reorder(memory, "ab")
    assert [line["mds"].split(":")[4][:2] for line in lines()] == ["ab", "ab", "BA"]


def test_the_creation_of_a_primitive_is_told_with_its_parameters(lines):
    md, states = rs.MemoryDesc((3, 1007), "f32"), rs.MemoryDesc((2, 3, 5), "f32")
    weights = rs.MemoryDesc((1, 1, 5, 3, 5), "f32")
    with rs.set_verbose("profile_create"):
        rs.SoftmaxForward.PrimitiveDesc(CPU, "forward_training", "softmax_log", md, md, 1)
        rs.GRUForward.PrimitiveDesc(
            *(CPU, "forward_training", "unidirectional", states, None, weights, weights, None, states, None)
        )
    softmax, gru = lines()
    assert (softmax["kind"], gru["kind"]) == ("softmax", "rnn")
    assert softmax["auxiliary"].startswith("alg:softmax_log axis:1 why:")
    assert gru["auxiliary"].startswith("alg:vanilla_gru direction:unidirectional_left2right why:")


def test_a_refused_call_tells_nothing_of_an_execution(lines):
    x = fresh(6)
    with rs.set_verbose("profile_exec"):
        with pytest.raises(rs.InvalidArguments):
            rs.reorder(x, None, out=x[:, :-1])
        with pytest.raises(rs.InvalidArguments):
            rs.reorder(x[:, 1:], None, out=x[:, :-1])
    assert lines() == []


def test_results_are_the_same_while_lines_are_written():
    x = np.random.default_rng(0).standard_normal((5, 7)).astype("f4")
    quiet = rs.reorder(x, "ba", dtype="s8", scale=30)
    with rs.set_verbose("all"):
        told = rs.reorder(x, "ba", dtype="s8", scale=30)
        out = np.zeros((5, 7), np.int8)
        rs.reorder(x, None, scale=30, out=out)
    np.testing.assert_array_equal(told, quiet)
    np.testing.assert_array_equal(out, quiet)


def test_a_process_is_told_by_its_environment_with_a_header_first():
    code = "import numpy as np, restride as rs; rs.reorder(np.zeros((3, 4), 'f4'), 'ba')"
    env = os.environ | {"RESTRIDE_VERBOSE": "profile", "RESTRIDE_VERBOSE_TIMESTAMP": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    texts = [line.split(",") for line in done.stderr.splitlines()]
    assert all(text[:2] == ["restride_verbose", "v1"] for text in texts)
    stamps = [float(text[2]) for text in texts]
    assert stamps == sorted(stamps)
    header, found = texts[:-2], texts[-2:]
    assert [text[4] for text in found] == ["create:cache_miss", "exec"]
    assert all(len(text) == len(FIELDS) + 1 for text in found)
    assert all("info" in text[3:5] for text in header)
    told = "\n".join(",".join(text) for text in header)
    assert "template:timestamp,operation,engine,primitive,implementation,prop_kind" in told
    assert rs.__version__ in told


def test_a_network_tells_of_each_of_its_steps(lines):
    builder = rs.graph.GraphBuilder()
    x = builder.input("x", (1, 8, 4, 4))
    gate = builder.add(rs.graph.EltwiseOperation("eltwise_relu"), x, name="gate")
    network = rs.Network(
        builder.graph(builder.add(rs.graph.SoftmaxOperation("softmax_accurate", 1), gate, name="y"))
    )
    values = np.ones((1, 8, 4, 4), np.float32)
    wanted = network(values)
    lines()
    with rs.set_verbose("profile_exec"):
        np.testing.assert_array_equal(network(values), wanted)
    told = lines()
    assert [line["operation"] for line in told] == ["exec"] * len(network.plan().steps)
    assert {"eltwise", "softmax"} <= {line["kind"] for line in told}
    network(values)
    assert lines() == []
