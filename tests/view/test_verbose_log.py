"""Logs of oneDNN's verbose mode: every version is read, sums agree, lies do no harm, primitives run again."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import math
import random
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import restride as rs
from restride.cli.main import main
from restride.cli.replay import NotReplayed, ReplayedTime, recipe, replay, replay_text
from restride.view.verbose_log import VerboseLog, read_verbose_log
from restride.view.verbose_page import verbose_page
from restride.view.verbose_report import FRAMEWORKS, report, report_text

_LOGS = {path.stem: path for path in sorted(Path(__file__).with_name("data").glob("*.log"))}
_PROBLEM = "mb2_ic16oc32_ih9oh9kh3sh1dh0ph1_iw9ow9kw3sw1dw0pw1"
_OLD = (
    "src_f32::blocked:aBcd8b:f0 wei_f32::blocked:ABcd8b8a:f0 bia_f32::blocked:a:f0 dst_f32::blocked:aBcd8b:f0"
)
_MIDDLE = _OLD.replace(":f0", "::f0")
_NEW = re.sub("(src|wei|bia|dst)_f32:", r"\1:f32:a", _MIDDLE)
_REST = f"alg:convolution_direct,{_PROBLEM},0.5"
_LINES = {
    "1.0": f"mkldnn_verbose,exec,cpu,convolution,jit:avx2,forward_training,{_OLD},{_REST}",
    "1.1": f"dnnl_verbose,exec,cpu,convolution,jit:avx2,forward_training,{_OLD},,{_REST}",
    "2.5": f"onednn_verbose,exec,cpu,convolution,jit:avx2,undef,{_OLD},attr-scratchpad:user,{_REST}",
    "3.0": f"onednn_verbose,1700000000000.5,exec,cpu,convolution,jit:avx2,forward_training,{_OLD},,{_REST}",
    "3.3": f"onednn_verbose,primitive,exec,cpu,convolution,jit:avx2,forward_training,{_MIDDLE},,{_REST}",
    "3.6": f"onednn_verbose,v1,17.5,primitive,exec,cpu,convolution,jit:avx2,forward_training,{_NEW},,{_REST}",
}


def _log(name: str) -> VerboseLog:
    with _LOGS[name].open("rb") as file:
        return read_verbose_log(file)


def _read(*lines: str) -> VerboseLog:
    return read_verbose_log([line.encode() + b"\n" for line in lines])


def _line(kind: str, tensors: str, problem: str, aux: str = "", attr: str = "", ms: str = "0.25") -> str:
    """A line of 3.6; of tensors of f32 the names and tags will do: `src ab dst ba`."""
    head = f"onednn_verbose,v1,primitive,exec,cpu,{kind},jit:any,forward_inference"
    if ":" not in tensors:
        tensors = re.sub(r"(\w+) (\w+)", r"\1:f32::blocked:\2::f0", tensors)
    return f"{head},{tensors},{attr},{aux},{problem},{ms}"


_GOOD = _line("reorder", "src ab dst ba", "4x8")

# --- reading ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", _LINES.values(), ids=_LINES)
def test_a_line_of_every_version_is_read(line: str) -> None:
    log = _read("Epoch 1", f"INFO: {line}", line.replace("exec", "create:cache_hit"))
    (primitive,) = log.primitives
    assert (log.other_lines, log.refused, log.total_ms) == (1, 0, 0.5)
    assert log.created == {"cache_hit": (1, 0.5)}
    assert [t.name for t in primitive.tensors] == ["src", "wei", "bia", "dst"]
    tags = ("aBcd8b", "ABcd8b8a", "a", "aBcd8b")
    dims = ((2, 16, 9, 9), (32, 16, 3, 3), (32,), (2, 32, 9, 9))
    expected = [rs.MemoryDesc(shape, "f32", tag) for shape, tag in zip(dims, tags, strict=True)]
    assert [t.desc for t in primitive.tensors] == expected
    assert primitive.bytes == sum(md.size for md in expected)
    assert recipe(primitive).call == "convolution_forward"


def test_a_log_of_powershell_is_read() -> None:
    text = f"Epoch 1\r\n{_LINES['3.6']}\r\n".encode("utf-16")
    log = read_verbose_log(io.BytesIO(text))
    assert (len(log.executions), log.refused) == (1, 0)


@pytest.mark.parametrize(
    ("tag", "dims"),
    [("abc", (3, 5, 7)), ("aBcd16b", (2, 17, 4, 4)), ("BA16a64b4a", (70, 80)), ((16, 1), (4, 8))],
)
def test_a_descriptor_is_read_as_restride_writes_it(tag: object, dims: tuple[int, ...]) -> None:
    md = rs.MemoryDesc(dims, "bf16", tag)
    log = _read(
        _line("reorder", f"{md.verbose_str('src')} {md.verbose_str('dst')}", "x".join(map(str, dims)))
    )
    assert [t.desc for t in log.primitives[0].tensors] == [md, md]


def test_the_lines_of_restride_are_read(capfd: pytest.CaptureFixture[str]) -> None:
    import numpy as np

    with rs.set_verbose("profile"):
        rs.reorder(np.zeros((2, 17, 4, 4), np.float32), "nChw16c")
    log = read_verbose_log(capfd.readouterr().err.encode().splitlines(True))
    kinds = {p.kind: p for p in log.primitives}
    assert kinds["reorder"].bytes == 2 * 17 * 16 * 4 + 2 * 32 * 16 * 4
    assert not log.refused


@pytest.mark.parametrize(
    ("kind", "tensors", "problem", "sizes"),
    [
        ("matmul", "src abc wei abc dst abc", "b2m3n4k5", (30, 40, 24)),
        ("matmul", "src ab wei ba dst ab", "3x5:5x4", (15, 20, 12)),
        ("matmul", "src ab wei ba bia ab dst ab", "3x5:5x4:3x4", (15, 20, 4, 12)),
        ("convolution", "src acdb wei abcde dst acdb", f"g4{_PROBLEM}", (2592, 1152, 5184)),
        ("inner_product", "src abcd wei abcd dst ab", "mb2ic3ih4iw5oc6", (120, 360, 12)),
        ("pooling", "src acb dst acb", "mb1ic2_iw8ow4kw2sw2dw0pw0", (16, 8)),
        ("binary", "src ab src ab dst ab", "4x1:1x8", (4, 8, 32)),
        ("concat", "src ab src ab dst ab", "4x1:4x8", (4, 32, 36)),
        ("concat", "src ab src ab dst ab", "4x1:4x8 4x9", (4, 32, 36)),
        ("sum", "src ab src ab dst ab", "4x8", (32, 32, 32)),
        ("batch_normalization", "data abcd diff abcd", "mb1ic2ih3iw4", (24, None)),
        ("softmax", "src ab", "4x8x2", (None,)),
    ],
)
def test_the_dims_of_problems(kind: str, tensors: str, problem: str, sizes: tuple[int | None, ...]) -> None:
    (primitive,) = _read(_line(kind, tensors, problem, "axis:1")).primitives
    assert tuple(t.desc.nelems if t.desc else None for t in primitive.tensors) == sizes


@pytest.mark.parametrize("name", _LOGS)
def test_sums_are_those_of_the_log(name: str) -> None:
    log, text = _log(name), _LOGS[name].read_text()
    values = report(log, 10.0)
    assert (values["wall_ms"] is None) == (name != "onednn")
    partitions = [float(ms) for ms in re.findall(r",graph,exec,.*,([0-9.e+-]+)$", text, re.MULTILINE)]
    assert sum(row["calls"] for row in values["partitions"]) == len(partitions)
    assert math.fsum(row["ms"] for row in values["partitions"]) == pytest.approx(math.fsum(partitions))
    lines = re.findall(r"primitive,exec,cpu,(\w+),.*,([0-9.e+-]+)$", text, re.MULTILINE)
    assert len(lines) == len(log.executions) > 0
    assert values["total_ms"] == pytest.approx(math.fsum(float(ms) for _, ms in lines), rel=1e-12)
    for table in ("by_primitive", "by_format"):
        assert sum(row["calls"] for row in values[table]) == len(lines)
        assert math.fsum(row["ms"] for row in values[table]) == pytest.approx(values["total_ms"], rel=1e-12)
    pattern = r",exec,cpu,reorder,.*src:(\w+):\w*:blocked:(\w+)::f0 dst:(\w+):\w*:blocked:(\w+)::f0,.*,(\w+),"
    nbytes = 0
    for src_type, src, dst_type, dst, problem in re.findall(pattern, text):
        dims = tuple(map(int, problem.split("x")))
        nbytes += rs.MemoryDesc(dims, src_type, src).size + rs.MemoryDesc(dims, dst_type, dst).size
    assert sum(row["bytes"] for row in values["reorders"]) == nbytes
    assert not log.refused


# --- findings -----------------------------------------------------------------------------------------------

_EXPECTED = {
    "torch-resnet50": ("torch", ["constant reorders", "undone reorders"]),
    "torch-bert": ("torch", ["copies"]),
    "torch-graph": ("torch", ["padding"]),
    "openvino": ("openvino", ["input reorders", "padding"]),
    "tensorflow": ("tensorflow", ["constant reorders"]),
    "onednn": ("onednn", ["undone reorders", "plain formats", "reference code", "padding"]),
}


@pytest.mark.parametrize("name", _LOGS)
def test_findings_and_whose_advice(name: str) -> None:
    values = report(_log(name), 10.0)
    assert (values["framework"], [each["finding"] for each in values["findings"]]) == _EXPECTED[name]
    for framework in FRAMEWORKS:
        assert report(_log(name), 10.0, framework)["framework"] == framework


def test_only_what_is_repeated_counts_as_constant() -> None:
    product = _LINES["3.6"]
    pack = _line("reorder", "src abcd dst ABcd8b8a", "32x16x3x3", ms="2")
    again = report(_read(pack, product, pack, product, pack, product), 1.0)["findings"]
    assert [(each["finding"], each["calls"], each["ms"]) for each in again] == [("constant reorders", 2, 4.0)]
    assert not report(_read(pack, product, product, product), 1.0)["findings"]


def test_weights_of_recurrent_networks_are_weights() -> None:
    pack = _line("reorder", "src abdec dst abdEc32e", "1x1x256x4x256")
    rnn = _line("rnn", "src_layer abc wei_layer abdEc32e wei_iter abdEc32e dst_layer abc", "l1t50mb1sic256")
    (finding,) = report(_read(*[pack, pack, rnn] * 3), 1.0)["findings"]
    assert (finding["finding"], finding["calls"], finding["ms"]) == ("constant reorders", 4, 1.0)


@pytest.mark.parametrize(
    "attr", ["attr-scales:src0:0:f32", "attr-zero-points:dst:0:s32", "attr-post-ops:sum"]
)
def test_reorders_that_compute_are_needed(attr: str) -> None:
    copy = _line("reorder", "src ab dst ab", "2x16", attr=attr)
    there, back = (_line("reorder", tags, "2x16", attr=attr) for tags in ("src ab dst ba", "src ba dst ab"))
    assert not report(_read(copy, there, back), 1.0)["findings"]


def test_equal_layers_at_the_end_are_not_taken_for_runs() -> None:
    first, layer, last = (_line("reorder", "src abcd dst ABcd8b8a", f"{n}x16x3x3") for n in (8, 16, 32))
    assert _read(*[first, layer, last, last] * 2).period == (4, 2)
    assert _read(*[first, layer, last, last] * 5).period == (4, 5)
    assert _read(first, *[layer, last, last] * 3).period == (3, 3)
    assert _read(first, layer, last, last).period == (1, 2)


def test_a_pair_whose_tensor_is_read_between_is_needed() -> None:
    there = _line("reorder", "src abcd dst aBcd8b", "2x16x9x9")
    back = _line("reorder", "src aBcd8b dst abcd", "2x16x9x9")
    assert [each["ms"] for each in report(_read(there, back), 1.0)["findings"]] == [0.5]
    assert not report(_read(there, _LINES["3.6"], back), 1.0)["findings"]


_TO_GATES = "src_layer abc wei_layer acbd dst_layer abc"


@pytest.mark.parametrize(
    ("formats", "problem", "between"),
    [
        (("ab", "BA16a64b"), "64x64", _line("matmul", "src ab wei BA16a64b dst ab", "64x64:64x64")),
        (("abcd", "ABcd8b8a"), "32x16x3x3", _LINES["3.6"]),
        (("abcd", "acdb"), "1x64x8x8", _line("matmul", "src ab wei AB8b8a dst ba", "64x64:64x32")),
        (("abcd", "aBcd8b"), "1x64x8x8", _line("pooling", "src acdb dst aBcd8b", "mb1ic64_ih8oh8_iw8ow8")),
        (("abcd", "acbd"), "1x4x8x8", _line("rnn", _TO_GATES, "l1t1mb2sic8slc8dhc8", "alg:vanilla_gru")),
    ],
    ids=["factor", "weights", "reshaped", "written", "rnn"],
)
def test_a_pair_whose_tensor_is_used_in_any_way_is_needed(
    formats: tuple[str, str], problem: str, between: str
) -> None:
    there, back = (_line("reorder", f"src {a} dst {b}", problem) for a, b in (formats, formats[::-1]))
    unrelated = _line("matmul", "src ab wei ab dst ab", "3x4:4x5")
    for line, count in ((between, 0), (unrelated, 1)):
        found = [each["finding"] for each in report(_read(there, line, back), 1.0)["findings"]]
        assert found.count("undone reorders") == count


def test_the_end_of_a_run_and_the_start_of_the_next_are_no_pair() -> None:
    enter = _line("reorder", "src abcd dst aBcd8b", "2x32x9x9")
    leave = _line("reorder", "src aBcd8b dst abcd", "2x32x9x9")
    product = _LINES["3.6"]
    pack = _line("reorder", "src abcd dst ABcd16b16a", "32x16x3x3")
    assert not report(_read(*[enter, product, leave] * 6), 1.0)["findings"]
    assert not report(_read(enter, pack, product, leave, *[enter, product, leave] * 6), 1.0)["findings"]
    (found,) = report(_read(*[product, leave, enter, product] * 3), 1.0)["findings"]
    assert (found["finding"], found["calls"], found["ms"]) == ("undone reorders", 6, 1.5)


def test_the_pairs_of_a_torch_log_are_those_found_by_hand() -> None:
    """Lines 15 and 16, 23 and 24, 58 and 59, 66 and 67 of the executions."""
    (found,) = (
        f for f in report(_log("torch-resnet50"), 10.0)["findings"] if f["finding"] == "undone reorders"
    )
    text = _LOGS["torch-resnet50"].read_text()
    times = [float(ms) for ms in re.findall(r",exec,cpu,.*,([0-9.e+-]+)$", text, re.MULTILINE)]
    numbers = (15, 16, 23, 24, 58, 59, 66, 67)
    assert (found["calls"], found["ms"]) == (8, pytest.approx(sum(times[number - 1] for number in numbers)))


def test_training_needs_its_reorders_of_weights() -> None:
    pack = _line("reorder", "src abcd dst ABcd8b8a", "32x16x3x3")
    unpack = _line("reorder", "src ABcd8b8a dst abcd", "32x16x3x3")
    linear = _line("matmul", "src ab wei ba dst ab", "64x32:32x48")
    forward, backward = _LINES["3.6"], _LINES["3.6"].replace("forward_training", "backward_weights")
    steps = [pack, forward, unpack, pack, linear] * 3
    found = [each["finding"] for each in report(_read(*steps), 1.0)["findings"]]
    assert found == ["constant reorders", "undone reorders", "plain formats"]
    values = report(_read(backward, *steps), 1.0)
    assert not values["findings"]
    assert "backward primitives" in report_text("log", values)


def test_transposed_weights_of_matmul_are_plain_formats() -> None:
    line = _line("matmul", "src ab wei ba dst ab", "64x32:32x48")
    log = _read(line)
    log.marks_any = True
    assert [each["finding"] for each in report(log, 1.0)["findings"]] == ["plain formats"]


def test_images_of_three_colors_have_a_finding_but_no_padding() -> None:
    image = _line("reorder", "src abcd dst acdb", "2x3x9x9")
    other = _line("reorder", "src abcd dst aBcd8b", "2x3x9x9")
    assert [each["finding"] for each in report(_read(image, image), 1.0)["findings"]] == ["input reorders"]
    assert not report(_read(other), 1.0)["findings"]


def test_a_gpu_is_not_compared_with_a_copy_of_this_cpu() -> None:
    reorder = _line("reorder", "src abcd dst acdb", "64x256x56x56").replace("exec,cpu", "exec,gpu:0")
    product = _line("matmul", "src ab wei ba dst ab", "64x32:32x48").replace("exec,cpu", "exec,gpu:0")
    log = _read(reorder, product)
    values = report(log, 10.0, is_copy_of_cpu=True)
    (row,) = values["reorders"]
    assert (row["gb_per_s"], row["of_copy"]) == (
        pytest.approx(2 * 4 * 64 * 256 * 56 * 56 / 0.25e-3 / 1e9),
        None,
    )
    text = report_text("log", values)
    assert "a copy" not in text
    assert "gpu:0" in text
    assert not values["findings"]
    (row,) = report(log, 3000.0)["reorders"]
    assert row["of_copy"] == pytest.approx(row["gb_per_s"] / 3000)


def test_speeds_that_no_memory_has_are_unknown() -> None:
    line = _line("reorder", "src abcd dst aBcd8b", "1000000x100000x9x9")
    for text in (line, line.replace("exec,cpu", "exec,gpu")):
        values = report(_read(text), 20.0, is_copy_of_cpu=True)
        assert [(row["gb_per_s"], row["of_copy"]) for row in values["reorders"]] == [(None, None)]


# --- partitions of the graph API ----------------------------------------------------------------------------

_PARTITION = (
    "onednn_verbose,v1,graph,exec,cpu,100002,fp_matmul_post_ops,matmul0;relu0,,"
    "in0_f32:0:strided:undef:16x32:32s1 out0_f32:3:strided:variable:16x64:64s1,"
    "fpm:strict,larger_partition_kernel_t,dnnl_backend,2.5"
)


def test_partitions_are_reported_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "graph.log"
    compiled = _PARTITION.replace("exec", "compile:cache_miss")
    stamped = _PARTITION.replace("v1,", "1700000000000.5,")
    older = _PARTITION.replace("larger_partition_kernel_t,", "")
    log.write_text(
        f"{compiled}\n{_PARTITION}\n{stamped}\n{_PARTITION.replace('fp_matmul_post_ops', 'sdp')}\n"
    )
    assert main(["verbose", str(log), "--copy", "10", "--html", str(tmp_path / "a.html")]) == 0
    text = capsys.readouterr().out
    assert "graph.log: 3 executions of partitions in 7.5 ms" in text
    assert "nothing found" not in text
    values = report(_read(_PARTITION, stamped, older, _GOOD), 1.0)
    rows = [(row["kind"], row["implementation"], row["calls"], row["ms"]) for row in values["partitions"]]
    kind = "fp_matmul_post_ops"
    assert rows == [(kind, "larger_partition_kernel_t", 2, 5.0), (kind, "?", 1, 2.5)]
    assert values["total_ms"] == 0.25


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (",fpm:strict,larger_partition_kernel_t", ""),
        ("2.5", "-1"),
        ("fp_matmul", "<b>"),
        ("larger", "\x1b["),
        ("fpm", ",fpm"),
    ],
)
def test_partitions_that_lie_are_refused(old: str, new: str) -> None:
    log = _read(_PARTITION.replace(old, new))
    assert (log.refused, log.partitions) == (1, {})


# --- lies ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        _line("x" * (1 << 22), "src ab", "4x8"),
        _line("re\x1b[2Jorder", "src ab", "4x8"),
        _GOOD.replace("0.25", "-1"),
        _GOOD.replace("0.25", "nan"),
        _GOOD.replace("0.25", "inf"),
        _GOOD.replace("0.25", "1e300"),
        _GOOD.replace("0.25", "0.25Epoch 2"),
        _GOOD.replace(",0.25", ""),
        _GOOD + ",1",
        _GOOD.replace("src:f32", "<script>"),
    ],
    ids=range(10),
)
def test_lines_that_lie_are_refused(line: str) -> None:
    log = _read(line, _GOOD)
    assert (log.refused, len(log.executions)) == (1, 1)
    assert report_text("log", report(log, 1.0)).replace("\n", "").isprintable()


@pytest.mark.parametrize("problem", ["4x8x2", "9" * 400 + "x8", f"{1 << 59}x{1 << 59}", "-4x8", "*x8", ""])
def test_sizes_that_lie_are_unknown(problem: str) -> None:
    log = _read(_GOOD.replace("4x8", problem))
    assert [p.bytes for p in log.primitives] == [None]
    (row,) = replay(log)
    assert "the line does not give" in row["why"]


def test_sizes_beyond_this_machine_are_not_replayed() -> None:
    (row,) = replay(_read(_GOOD.replace("4x8", f"{1 << 20}x{1 << 20}")))
    assert "more than" in row["why"]


def test_mutated_lines_do_no_harm() -> None:
    numbers = random.Random(1)
    sources = [
        line for path in _LOGS.values() for line in path.read_bytes().splitlines() if b",exec," in line
    ]
    parts = [
        b"\x1b[2J",
        b"-1",
        b"nan",
        b"1e-320",
        b"9" * 30,
        b",",
        b":",
        b"x",
        b"<b>",
        b"\xff",
        b"\x00",
        b"*",
        b"onednn_verbose,",
    ]
    lines = []
    for _ in range(20_000):
        line = bytearray(numbers.choice(sources))
        for _ in range(numbers.randint(1, 3)):
            at, to = sorted(numbers.randrange(len(line) + 1) for _ in range(2))
            match numbers.randrange(3):
                case 0:
                    del line[at : min(to, at + numbers.choice((1, 4, 400)))]
                case 1:
                    line[at:at] = numbers.choice(parts)
                case _:
                    line[at:at] = line[at:to]
        lines.append(bytes(line) + b"\n")
    log = read_verbose_log(lines)
    assert log.refused > 1000
    assert len(log.executions) > 1000
    values = report(log, 10.0)
    json.dumps(values, allow_nan=False)
    assert report_text("log", values).replace("\n", "").replace("µ", "").isascii()
    assert report_text("log", values).replace("\n", "").isprintable()
    page = verbose_page("log", log, report_text("log", values))
    assert "<b>" not in page
    assert len(page) < 4 << 20
    for primitive in log.primitives[::20]:
        with contextlib.suppress(NotReplayed):
            recipe(primitive)


# --- the page and the command -------------------------------------------------------------------------------


class _OpenTags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_nothing_else() -> None:
    log = _log("torch-resnet50")
    page = verbose_page("<b>x", log, report_text("<b>x", report(log, 10.0)))
    parser = _OpenTags()
    parser.feed(page)
    assert not parser.open
    assert page.count("<rect ") == len(log.executions)
    assert "&lt;b&gt;x" in page
    assert not re.search(r"http|<script|src=|url\(", page)
    assert "prefers-color-scheme: dark" in page


_WINDOW = "mb1_ic8oc8_ih6oh6kh3sh1dh0ph1_iw6ow6kw3sw1dw0pw1"
_POOLED = "mb1ic8_ih6oh3kh2sh2dh0ph0_iw6ow3kw2sw2dw0pw0"
_CHAIN = "attr-scratchpad:user attr-post-ops:sum+eltwise_clip:0:6"
_REPLAYED = [
    _line("reorder", "src abcd dst aBcd8b", "1x12x5x5"),
    _line("convolution", "src acdb wei abcd bia a dst acdb", _WINDOW, "alg:convolution_direct", _CHAIN),
    _line("matmul", "src ab wei ba dst ab", "4x8:8x6"),
    _line("inner_product", "src ab wei ab bia a dst ab", "mb4ic8oc6"),
    _line("pooling", "src acdb dst acdb", _POOLED, "alg:pooling_max"),
    _line("pooling", "src acdb dst acdb", _POOLED, "alg:pooling_max").replace("inference", "training"),
    _line("eltwise", "data_f32::blocked:ab:f0 diff_undef::undef::", "4x8", "alg:eltwise_relu alpha:0 beta:0"),
    _line("softmax", "src ab dst ab", "4x8", "alg:softmax_accurate axis:1"),
    _line("binary", "src ab src ab dst ab", "4x8:1x8", "alg:binary_add"),
]


@pytest.mark.parametrize(
    "attr",
    [
        "attr-scratchpad:user attr-post-ops:sum:0.5+eltwise_clip:0:6",
        "scratchpad_mode:user;post_ops:'sum:0.5;eltwise_clip:0:6;';",
    ],
)
def test_the_post_ops_of_a_line(attr: str) -> None:
    (primitive,) = _read(_line("matmul", "src ab wei ba dst ab", "4x8:8x6", "", attr)).primitives
    assert recipe(primitive).post_ops == (("sum", 0.5, 0), ("eltwise_clip", 0.0, 6.0))


def test_primitives_run_again_or_the_reason_is_said() -> None:
    other = [
        _line("rnn", "src_layer abc", "l1t1mb1"),
        _line("matmul", "src ab wei ab dst ab", "4x8:8x6", "", "attr-scales:src0:0"),
        _GOOD.replace("forward_inference", "backward_data"),
        _GOOD.replace("exec,cpu", "exec,gpu"),
    ]
    rows = replay(_read(*_REPLAYED, *other))
    done = {row["kind"]: row["restride_ms"] for row in rows if "why" not in row}
    assert sum("why" not in row for row in rows) == len(_REPLAYED)
    assert all(ms > 0 for ms in done.values())
    why = " ".join(row["why"] for row in rows if "why" in row)
    for word in ("rnn", "attr", "backward", "gpu"):
        assert word in why
    for row in rows:
        assert "why" in row or row.get("onednn_ms") or row["onednn_why"]


_OPEN = _line("convolution", "src acdb wei abcd bia a dst acdb", _WINDOW, "alg:convolution_direct").replace(
    ":f32::", ":f32:a:"
)


def test_a_replay_asks_for_what_the_program_asked_for() -> None:
    (primitive,) = _read(_OPEN.replace("inference", "training")).primitives
    made = recipe(primitive)
    assert {md.format_kind for md in made.memories.values()} == {"any"}
    assert made.arguments[0] == "forward_training"
    (primitive,) = _read(_OPEN.replace(":f32:a:", ":f32::")).primitives
    assert {md.tag for md in recipe(primitive).memories.values()} == {"acdb", "abcd", "a"}
    (row,) = replay(_read(_OPEN))
    assert row["restride_implementation"].startswith("jit")


def test_a_replay_names_another_implementation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for ran, is_said in (("ref:any", True), ("jit:any", False)):
        monkeypatch.setattr(
            "restride.cli.replay._peer", lambda ran=ran: (lambda _: ReplayedTime(0.1, ran), "")
        )
        rows = replay(_read(_OPEN))
        assert rows[0]["onednn_implementation"] == ran
        assert ("ref:any, not jit:any" in replay_text(rows)) == is_said
        assert "mean of the log, first runs included; median of warm runs here" in replay_text(rows)
    log, page = tmp_path / "a.log", tmp_path / "a.html"
    log.write_text(_OPEN)
    assert main(["verbose", str(log), "--copy", "10", "--replay", "--html", str(page)]) == 0
    assert "replay: time of one execution" in page.read_text()


@pytest.mark.peer
def test_onednn_runs_the_implementation_of_the_log() -> None:
    """Of a grouped convolution with open formats; in row-major ones oneDNN has only reference code."""
    onednn = pytest.importorskip("restride_bench.onednn")
    try:
        onednn.OneDNN()
    except rs.Error as error:
        pytest.skip(str(error))
    window = "g2mb1_ic64oc66_ih8oh8kh1sh1dh0ph0_iw8ow8kw5sw1dw0pw2"
    line = _line("convolution", "src abcd wei abcde bia a dst abcd", window, "alg:convolution_direct")
    (row,) = replay(_read(line.replace(":f32::", ":f32:a:")))
    assert "ref" not in row["onednn_implementation"]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, page = str(_LOGS["openvino"]), tmp_path / "log.html"
    assert main(["verbose", log, "--copy", "10", "--html", str(page), "--framework", "openvino"]) == 0
    assert "by format" in capsys.readouterr().out
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert main(["verbose", log, "--html", str(page)]) == 2
    assert main(["verbose", log, "--copy", "nan"]) == 2
    assert "exists" in capsys.readouterr().err
    assert main(["verbose", log, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["copy_gb_per_s"] > 0
    nothing = tmp_path / "nothing.log"
    nothing.write_bytes(bytes(range(256)) * 9)
    assert main(["verbose", str(nothing)]) == 1
    assert "no verbose lines" in capsys.readouterr().err


def test_a_gzipped_log_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed, cut = tmp_path / "a.log.gz", tmp_path / "cut.gz"
    packed.write_bytes(gzip.compress(_OPEN.encode()))
    cut.write_bytes(packed.read_bytes()[:-12])
    assert main(["verbose", str(packed), "--copy", "10"]) == 0
    assert "1 execution of 1 primitive" in capsys.readouterr().out
    assert main(["verbose", str(cut), "--copy", "10"]) != 0
    assert "cannot be unpacked" in capsys.readouterr().err
