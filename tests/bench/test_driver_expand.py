"""From words to tests: state, order, lists, reset, match, nested files, reproducer lines."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from restride.cli.usage import UsageError
from restride_bench.driver.attr_text import FactorText, FlagText, PostOpText
from restride_bench.driver.cases import table_of
from restride_bench.driver.common import COMMON_KNOBS
from restride_bench.driver.expand import Test, expand
from restride_bench.driver.operations import OPERATIONS
from restride_bench.driver.primitives.moves import ReorderCase, ShuffleCase

# benchdnn's own files, where somebody has them: a folder with reorder/ and shuffle/ in it.
_INPUTS = os.environ.get("BENCHDNN_INPUTS", "")
_COUNTS = {
    "reorder/test_reorder_smoke": 1152,
    "reorder/harness_reorder_saturation": 850,
    "reorder/test_reorder_bfloat16": 220,
    "shuffle/test_shuffle_ci": 96,
    "shuffle/perf_shuffle_cpu": 510,
    "shuffle/test_shuffle_smoke": 20,
}


def _tests(line: str) -> tuple[Test, ...]:
    return expand(line.split()).tests


def _shown(line: str) -> list[str]:
    return [test.repro for test in _tests(line)]


@pytest.mark.parametrize("name", _COUNTS)
def test_benchdnns_own_files_expand_to_as_many_tests(name: str) -> None:
    path = Path(_INPUTS, name)
    if not _INPUTS or not path.exists():
        pytest.skip("BENCHDNN_INPUTS names no folder with this file")
    tests = _tests(f"--{name.split('/')[0]} --batch={path}")
    assert len(tests) == _COUNTS[name]
    assert [again for test in tests for again in _tests(test.repro)] == list(tests)


@pytest.mark.parametrize("driver", OPERATIONS)
def test_benchdnns_own_files_are_all_read(driver: str) -> None:
    """Also those that name problems alone: each problem is a test."""
    files = [path for path in Path(_INPUTS, driver).rglob("*") if path.is_file()] if _INPUTS else []
    if not files:
        pytest.skip(f"BENCHDNN_INPUTS names no folder with {driver}/")
    for path in files:
        expand([f"--{driver}", f"--batch={path}"])


# --- state ---------------------------------------------------------------------------------------------


def test_a_knob_holds_for_what_is_behind_it() -> None:
    assert _shown("--reorder 2x3 --ddt=s8 2x3 4x5") == [
        "--reorder 2x3",
        "--reorder --ddt=s8 2x3",
        "--reorder --ddt=s8 4x5",
    ]


def test_lists_multiply_and_the_first_knob_turns_slowest() -> None:
    assert _shown("--reorder --dtag=ab,ba --sdt=f32,s8 2x3") == [
        "--reorder --dtag=ab 2x3",
        "--reorder --dtag=ba 2x3",
        "--reorder --sdt=s8 --dtag=ab 2x3",
        "--reorder --sdt=s8 --dtag=ba 2x3",
    ]


def test_reset_takes_back_the_knobs_of_the_driver_and_no_others() -> None:
    line = "--mode=L --reorder --ddt=s8 --perf-template=csv --reset 2x3"
    (test,) = _tests(line)
    assert test.case == ReorderCase(dims=(2, 3))
    assert (test.common.mode, test.common.perf_template) == ("L", "csv")


def test_drivers_have_settings_of_their_own() -> None:
    assert _shown("--reorder --ddt=s8 --shuffle --dt=u8 2x4 --reorder 2x3") == [
        "--shuffle --dt=u8 2x4",
        "--reorder --ddt=s8 2x3",
    ]


def test_repeats_run_a_test_again() -> None:
    assert len(_tests("--repeats-per-prb=3 --reorder 2x3 4x5")) == 6


def test_mode_f_is_performance_in_little_time() -> None:
    (test,) = _tests("--mode=F --reorder 2x3")
    assert (test.common.mode, test.common.mode_modifier, test.common.max_ms_per_prb) == ("P", "PM", 10)


@pytest.mark.parametrize(("text", "ms"), [("5", 10), ("100", 100), ("6e4", 60000), ("99999", 60000)])
def test_the_time_of_a_problem_is_kept_within_limits(text: str, ms: int) -> None:
    (test,) = _tests(f"--max-ms-per-prb={text} --reorder 2x3")
    assert test.common.max_ms_per_prb == ms


# --- match ---------------------------------------------------------------------------------------------


def test_match_keeps_what_the_expression_finds() -> None:
    assert _shown("--reorder --match=s8.*2x --sdt=s8,u8 2x3 3x2") == ["--reorder --sdt=s8 2x3"]


def test_a_typed_match_outlives_the_reset_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("--reset --sdt=s8,u8 2x3")
    assert _shown(f"--reorder --match=u8 --batch={tmp_path / 'file'}") == ["--reorder --sdt=u8 2x3"]


def test_a_match_in_a_file_ends_with_its_reset(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("--match=s8 --sdt=s8,u8 2x3 --reset 4x5")
    assert _shown(f"--reorder --batch={tmp_path / 'file'}") == ["--reorder --sdt=s8 2x3", "--reorder 4x5"]


# --- files ---------------------------------------------------------------------------------------------


def test_files_nest_and_share_the_state(tmp_path: Path) -> None:
    (tmp_path / "outer").write_text("--sdt=s8\n--batch=inner # from here\n2x3")
    (tmp_path / "inner").write_text("1x1\n--ddt=u8")
    assert _shown(f"--reorder --batch={tmp_path / 'outer'}") == [
        "--reorder --sdt=s8 1x1",
        "--reorder --sdt=s8 --ddt=u8 2x3",
    ]


def test_files_that_include_each_other_are_refused(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("--batch=two")
    (tmp_path / "two").write_text("--batch=one")
    with pytest.raises(UsageError, match="include each other"):
        _tests(f"--reorder --batch={tmp_path / 'one'}")


# --- values --------------------------------------------------------------------------------------------


def _case(line: str) -> ReorderCase:
    (test,) = _tests(f"--reorder {line}")
    assert isinstance(test.case, ReorderCase)
    return test.case


def test_scales_and_zero_points_are_read() -> None:
    case = _case("--attr-scales=src:common:0.25+dst:per_dim_01 --attr-zero-points=src0:per_tensor:s8:8x1 2x3")
    assert case.attr_scales == (FactorText("src", "common", 0.25), FactorText("dst", "per_dim_01"))
    assert case.attr_zero_points == (FactorText("src", "per_tensor", None, "s8", (8, 1)),)


def test_one_value_that_the_host_holds_is_a_common_one() -> None:
    assert _case("--attr-scales=src:host_scalar:2 2x3").attr_scales == (FactorText("src", "host_scalar", 2),)
    assert FactorText("src", "host_scalar", 2).mask(3) == 0


@pytest.mark.parametrize(
    ("knob", "pairs"),
    [
        ("--dt=f32:s8", [("f32", "s8")]),
        ("--dt=bf16", [("bf16", "bf16")]),
        ("--dt=f32:s8,f32:u8", [("f32", "s8"), ("f32", "u8")]),
    ],
)
def test_types_of_source_and_destination_may_come_in_pairs(knob: str, pairs: list[tuple[str, str]]) -> None:
    cases = [test.case for test in _tests(f"--reorder {knob} 2x3")]
    assert [(case.sdt, case.ddt) for case in cases if isinstance(case, ReorderCase)] == pairs


def test_the_asterisk_and_the_unused_value_of_version_2_are_read_over() -> None:
    case = _case("--attr-scales=src:common:2*+dst:per_dim_1:0.5*:bf16 2x3")
    assert case.attr_scales == (FactorText("src", "common", 2), FactorText("dst", "per_dim_1", None, "bf16"))


def test_output_scales_of_version_2_are_scales_of_the_source() -> None:
    assert _case("--attr-oscale=per_dim_1:0* 2x3").attr_scales == (FactorText("src", "per_dim_1"),)


@pytest.mark.parametrize(
    ("policy", "mask"),
    [
        ("common", 0),
        ("per_dim_0", 1),
        ("per_dim_1", 2),
        ("per_dim_01", 3),
        ("per_dim_023", 13),
        ("per_tensor", 15),
    ],
)
def test_a_policy_is_a_mask(policy: str, mask: int) -> None:
    assert FactorText("src", policy).mask(4) == mask


def test_post_ops_are_read() -> None:
    case = _case("--attr-post-ops=sum:0.5:1:u8+relu:0.1+add:f32:per_dim_1:axb 2x3")
    assert case.attr_post_ops == (
        PostOpText("sum", ("0.5", "1", "u8")),
        PostOpText("relu", ("0.1",)),
        PostOpText("add", ("f32", "per_dim_1", "axb")),
    )


def test_an_empty_entry_of_a_list_is_the_default() -> None:
    assert _shown("--reorder --attr-post-ops=,sum 2x3") == [
        "--reorder 2x3",
        "--reorder --attr-post-ops=sum 2x3",
    ]


@pytest.mark.parametrize("name", sorted({*table_of(ReorderCase).knobs, *COMMON_KNOBS}))
def test_an_empty_value_is_the_default(name: str) -> None:
    assert _tests(f"--reorder --{name}= 2x3") == _tests("--reorder 2x3")


@pytest.mark.parametrize("name", sorted(table_of(ShuffleCase).knobs))
def test_an_empty_value_is_the_default_of_a_shuffle_too(name: str) -> None:
    assert _tests(f"--shuffle --{name}= 2x3") == _tests("--shuffle 2x3")


def test_an_empty_value_takes_back_what_was_set() -> None:
    set_before = "--reorder --canonical=1 --mode=P --dt=s8:u8 --runtime-dim-mask=3 --attr-scales=src:common:2"
    taken_back = "--canonical= --mode= --dt= --runtime-dim-mask= --attr-scales= 2x3"
    assert _tests(f"{set_before} {taken_back}") == _tests("--reorder 2x3")


def test_masks_of_runtime_dims_turn_fastest() -> None:
    cases = [test.case for test in _tests("--reorder --runtime-dim-mask=0,3 --attr-scales=,src:common:2 2x3")]
    found = [(bool(case.attr_scales), getattr(case, "runtime_dim_mask", None)) for case in cases]
    assert found == [(False, 0), (False, 3), (True, 0), (True, 3)]


def test_there_is_one_filter_of_implementations_and_its_names_may_be_quoted() -> None:
    (case,) = (test.case for test in _tests("--reorder --skip-impl='jit' --impl=\"ref,copy\" 2x3"))
    assert (case.impl, case.skip_impl) == ("ref,copy", "")
    (test,) = _tests("--global-impl=jit --global-skip-impl='ref' --reorder 2x3")
    assert (test.common.global_impl, test.common.global_skip_impl) == ("", "ref")


_PER_DIM = "--reorder --attr_scales=src:per_dim_1 2x3"


def test_policies_are_read_in_any_case_and_knobs_with_either_dash() -> None:
    assert _tests("--reorder --attr-scales=src:PER_DIM_1 2x3") == _tests(
        "--reorder --attr_scales=src:per_dim_1 2x3"
    )


@pytest.mark.parametrize(
    ("knob", "field", "value"),
    [
        ("--execution-mode=NATIVE_GRAPH", "execution_mode", "native_graph"),
        ("--memory-kind=USM_shared", "memory_kind", "usm_shared"),
        ("--cold-cache=all+tlb:1.5g", "cold_cache", "all+tlb:1.5g"),
        ("--summary=no-failures+impl-csv", "summary", "no-failures+impl-csv"),
        ("--repeats-per-prb=0", "repeats_per_prb", 1),
        ("--fix-times-per-prb=-1", "fix_times_per_prb", 0),
        ("--max-ms-per-prb=0.5", "max_ms_per_prb", 10),
    ],
)
def test_words_are_read_in_any_case_and_numbers_kept_within_limits(knob: str, field: str, value: Any) -> None:
    assert getattr(_tests(f"{knob} --reorder 2x3")[0].common, field) == value


def test_compensation_strides_and_names_are_read() -> None:
    case = _case('--oflag=s8s8_comp:1+zp_comp:1 --strides=6x1: 2x3_n"some:0"')
    assert case.oflag == (FlagText("s8s8_comp", 1), FlagText("zp_comp", 1))
    assert case.strides == ((6, 1), ())
    assert (case.dims, case.name) == ((2, 3), "some:0")


def test_the_shuffle_is_read() -> None:
    (test,) = _tests("--shuffle --dir=bwd_d --dt=s8 --tag=axb --group=4 --axis=2 1x2x8")
    assert test.case == ShuffleCase(dims=(1, 2, 8), dir="BWD_D", dt="s8", tag="axb", group=4, axis=2)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("2x3", "before a driver"),
        ("", "no driver"),
        ("--reorder --sdtt=f32 2x3", "did you mean --sdt"),
        ("--reorder --sdt=f33 2x3", "no such data type"),
        ("--reorder --stag=abq 2x3", "abq"),
        ("--reorder 2x3y", "neither a knob nor dims"),
        ("--reorder 1x1x1x1x1x1x1x1x1x1x1x1x1", "at most 12"),
        ("--reorder --attr-scales=src:per_oc 2x3", "please use per_dim_0 or per_dim_1"),
        ("--reorder --attr-scales=src:twice 2x3", "no argument and policy"),
        ("--reorder --sdt=s8 --attr-zero-points=src:mx:s8 2x4", "no argument and policy"),
        ("--reorder --attr-zero-points=src:common:0.5 2x3", "no whole number"),
        ("--reorder --attr-post-ops=summ 2x3", "no post-op"),
        ("--reorder --attr-post-ops=add 2x3", "add:TYPE"),
        ("--reorder --attr-post-ops=dw:k0s1p1 2x3", "dw:kKERNELsSTRIDEpPADDING"),
        ("--reorder --attr-post-ops=dw:k3s1p1:f33 2x3", "dw:kKERNELsSTRIDEpPADDING"),
        ("--reorder --attr-post-ops=dw_k3s1p1:s8:per_oc:2 2x3", "attr_post_op_dw_wei"),
        ("--reorder --dt=f32:s8,s8:f32 2x3", "not all combinations"),
        ("--reorder --oflag=comp:1 2x3", "s8s8_comp"),
        ("--reorder --strides=3x1 2x3", "SRC:DST"),
        ("--reorder --mode=X 2x3", "there are C, P"),
        ("--reorder --engine=tpu 2x3", "cpu, gpu, reference"),
        ("--reorder --peers=cublas 2x3", "no peer"),
        ("--reorder --match=( 2x3", "regular expression"),
        ("--shuffle --dir=FWD 2x4", "FWD_D"),
        ("--shuffle --group=-1 2x4", "whole number"),
        ("--rnn l1t3mb2_sic4_sid5", "'sid5' is no part of it"),
        ("--conv ic3oc4_iw2kw3", "no window fits into it"),
        ("--matmul --encoding=cs::: 2x3:3x4", "csr, coo or packed"),
        ("--matmul --grouped=2:1:8 8x3:1x3x4", "DIM:COUNT:SIZE"),
        ("--matmul --strides=3x1: 2x3:3x4", "it is SRC:WEI:DST"),
        ("--eltwise --alg=eltwise_add 2x3", "there are abs"),
        ("--reorder --attr-post-ops=eltwise_add:f32 2x3", "no post-op"),
        ("--reorder --attr-post-ops=add:f32:common:ab:3x 2x3", "TAG[:STRIDES]"),
        ("--softmax --dir=BWD_X 2x3", "FWD_D"),
        ("--graph --case=mha.json", "--case: there is no file 'mha.json'"),
        ("--brgemm 2x3:3x4", "there is no driver --brgemm"),
        ("--reorder --attr-rounding-mode=dst:stochastic:7+nothing:environment 2x4", "ARG:MODE"),
        ("--reorder --summary=no-impls 2x3", "impl-csv"),
        ("--rnn --scaling-proj=per_tensor l1t3mb2_sic4", "common and per_oc"),
        ("--reorder --start=-1 2x4", "whole number"),
        ("--reorder --ddt=f33 2x3", "--ddt: 'f33' cannot be read"),
        ("--shuffle --dt=f33 2x4", "--dt: 'f33' cannot be read"),
        ("--reorder --dtag=zzz 2x3", "--dtag: bad format tag 'zzz'"),
        ("--shuffle --fmt=zzz 2x4", "--fmt: bad format tag 'zzz'"),
        ("--reorder --ctx-exe=x 2x3", "--ctx-exe: 'x' cannot be read"),
        ("--reorder --fast-ref-gpu=x 2x3", "--fast-ref-gpu: 'x' cannot be read"),
        ("--reorder --engine=foo 2x3", "sycl and sycl:BACKEND:KIND, with or without an index"),
        ("--reorder --cold-cache=x 2x3", "none, wei, all and custom, with or without +tlb"),
        ("--reorder --memory-kind=x 2x3", "there are usm, buffer, usm_device, usm_shared"),
        ("--sdt=f32 --reorder 2x3", "it comes behind --reorder"),
        ("--shuffle --sdt=f32 2x4", "it comes behind --reorder"),
        ("--dt=f32 --reorder 2x3", "it comes behind --reorder or --shuffle"),
        ("--reorder --perf-template=%foo%", "--perf-template: there is no token %foo%"),
        ("--reorder --perf-template=%-Gbw", "--perf-template: a percent sign that begins no token"),
        ("--reorder --sdt=s8 --attr-zero-points=src:common:inf 2x4", "no whole number"),
        ("--reorder --sdt=s8 --attr-zero-points=src:common:nan 2x4", "no whole number"),
        ("--reorder --attr-post-ops=sum:1:inf 2x4", "no whole number"),
        ("--reorder --attr-post-ops=sum:1:1.5 2x4", "no whole number"),
        ("--reorder --attr-post-ops=sum:1:0:undef 2x4", "TYPE"),
        ("--reorder --attr-rounding-mode=garbage:environment 2x4", "MODE"),
        ("--reorder --attr-dropout=nonsense 2x4", "PROBABILITY"),
    ],
)
def test_what_cannot_be_read_is_refused_before_anything_runs(line: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        _tests(line)
    assert message in str(caught.value)


def test_an_error_in_a_batch_file_names_the_file_and_the_line(tmp_path: Path) -> None:
    (tmp_path / "top").write_text("--reset\n--batch=deep\n")
    (tmp_path / "deep").write_text("--sdt=f32 # all\n\n--dtag=ab, \\\n  ba --ddt=f33\n2x3\n")
    with pytest.raises(UsageError) as caught:
        _tests(f"--reorder --batch={tmp_path / 'top'}")
    assert caught.value.error.what == "--ddt: 'f33' cannot be read"
    assert caught.value.error.where == f"{tmp_path / 'deep'}:4"


def test_a_word_in_several_lines_is_found_where_it_begins(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("--dtag=ab, \\\n  zzz\n2x3\n")
    with pytest.raises(UsageError) as caught:
        _tests(f"--reorder --batch={tmp_path / 'file'}")
    place, *caret = caught.value.error.where.splitlines()
    assert place == f"{tmp_path / 'file'}:1"
    assert [line.strip() for line in caret] == ["zzz", "^"]


def test_a_batch_file_that_is_missing_is_looked_up_where_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "top").write_text("2x3\n--batch=none\n")
    with pytest.raises(UsageError) as caught:
        _tests(f"--reorder --batch={tmp_path / 'top'}")
    assert caught.value.error.where == f"{tmp_path / 'top'}:2"


# --- spellings -----------------------------------------------------------------------------------------


_SPELLINGS = {
    "--pool mb2ic4_iw60_ow31_kw3_sw2_pw7pw1": "--pool mb2ic4_iw60_ow31_kw3_sw2_pw1",
    "--pool mb2ic4_iw9ow1_kw9_ih1oh1kh1_iw8ow1_kw8": "--pool mb2ic4_ih1oh1kh1_iw8ow1_kw8",
    "--rnn l1t3mb2_sic4_sic5": "--rnn l1t3mb2_sic5",
    '--deconv mb1ic4oc2_iw25kw5pd0n"ic%4!=0"': '--deconv mb1ic4oc2_iw25kw5pd0_n"ic%4!=0"',
    "--deconv mb1ic4oc2_iw25kw5pd0": "--deconv mb1ic4oc2_iw25kw5",
    "--conv ic3oc4_ih5iw6kh3kw3ph1": "--conv ic3oc4_ih5iw6kh3kw3ph1pw0",
    "--conv ic3oc4_ih5iw6kh3kw3oh5": "--conv ic3oc4_ih5iw6kh3kw3ph1pw0",
    "--conv ic3oc4_iw2kw3sw2ow1": "--conv ic3oc4_iw2kw3sw2",
    "--bnorm ic8ih4eps.25": "--bnorm ic8ih4eps2.5e-1",
    "--conv --alg=CONVOLUTION_auto ic3oc4_iw5kw3": "--conv --alg=auto ic3oc4_iw5kw3",
    "--deconv --alg=deconvolution_direct ic3oc4_iw5kw3": "--deconv ic3oc4_iw5kw3",
    "--pool --alg=pooling_avg_exclude_padding ic3_iw5kw3": "--pool --alg=avg_np ic3_iw5kw3",
    "--pool --alg=pooling_avg_include_padding ic3_iw5kw3": "--pool --alg=avg_p ic3_iw5kw3",
    "--softmax --alg=softmax_log 2x3": "--softmax --alg=LOGSOFTMAX 2x3",
    "--softmax --dir=FWD_B 2x3": "--softmax --dir=FWD_D 2x3",
    "--softmax --dir=BWD_W 2x3": "--softmax --dir=BWD_D 2x3",
    "--bnorm --dir=BWD_W ic3": "--bnorm --dir=BWD_DW ic3",
    "--bnorm --dir=BWD_D ic3": "--bnorm --dir=bwd_d ic3",
    "--reduction --alg=reduction_norm_lp_sum 2x3:1x3": "--reduction --alg=norm_lp_sum 2x3:1x3",
    "--resampling --alg=resampling_linear ic3_iw5ow3": "--resampling --alg=linear ic3_iw5ow3",
    "--eltwise --alg=ELTWISE_Relu 2x3": "--eltwise --alg=relu 2x3",
    "--eltwise --alg=srelu 2x3": "--eltwise --alg=soft_relu 2x3",
    "--eltwise --alg=eltwise_elu_use_dst_for_bwd 2x3": "--eltwise --alg=elu_dst 2x3",
    "--binary --alg=binary_mul 2x3:1x3": "--binary --alg=MUL 2x3:1x3",
    "--sum --attr-post-ops=Eltwise_relu:1+SUM 2x3": "--sum --attr-post-ops=relu:1+sum 2x3",
    "--sum --attr-post-ops=binary_sub:f32:6 2x3": "--sum --attr-post-ops=sub:f32:6 2x3",
    "--sum --attr-post-ops=eltwise_relu_use_dst_for_bwd 2x3": "--sum --attr-post-ops=relu_dst 2x3",
    "--reorder --attr-scales=src:common:2+src:common:3 2x3": "--reorder --attr-scales=src:common:3 2x3",
    "--reorder --attr-scales=src:0:1e+2+dst:0:2 2x3": "--reorder --attr-scales=src:0:100+dst:0:2 2x3",
    "--reorder --attr-scales=src:common 2x3": "--reorder --attr-scales=src:common:1 2x3",
    "--reorder --attr-zero-points=src:common 2x3": "--reorder --attr-zero-points=src:common:0 2x3",
    "--reorder --attr-scratchpad=User --attr-acc-mode=STRICT --attr-fpmath=Bf16:true 2x3": "--reorder "
    "--attr-scratchpad=user --attr-fpmath=bf16:true 2x3",
    "--matmul --strides= --encoding= --grouped= 2x3:3x4": "--matmul --strides=:: 2x3:3x4",
}


@pytest.mark.parametrize("line", _SPELLINGS)
def test_what_benchdnn_takes_as_the_same_is_the_same(line: str) -> None:
    (first,), (second,) = _tests(line), _tests(_SPELLINGS[line])
    # How a problem in letters was written is part of the case.
    assert replace(first.case, problem="") == replace(second.case, problem="")


# --- reproducer lines ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "--reorder 2x3",
        "--reorder --sdt=s8 --ddt=f32 --strides=:1x2 --runtime-dim-mask=63 2x3",
        "--reorder --attr-scales=src:common:0.1+dst:per_tensor:bf16:8x1 --attr-post-ops=sum+relu:1e-3 8x8",
        "--reorder --attr-scales=src:common:1e20+dst:common:1e-20 --attr-post-ops=sum:1e20 2x3",
        "--reorder --attr-scales=src:common:4294967295 --oflag=s8s8_comp:1+zp_comp:1 --ddt=s8 2x3",
        "--reorder --attr-deterministic=true --attr-scratchpad=user --def-scales=0.5,2 --skip-impl=a,b 2x3",
        '--mode=P --fix-times-per-prb=3 --engine=reference --reorder 2x3_n"name"',
        "--shuffle --dir=BWD_D --axis=0 --group=2 4x3",
        "--conv --bia-dt=bf16 --dir=FWD_D --strides=40x10x1::30x6x1 ic4oc5_iw10kw5",
        "--matmul --strides=8x1:: --attr-post-ops=add:f32:3:ab:9x1 --attr-scales=src:0:2 2x3:3x4:2x4",
        "--matmul --encoding=csr+0.99:: 2x3:3x4",
        "--matmul --grouped=0:2:1+1:4 2x3:2x3x4",
        "--rnn --l=2 --t=3 --activation=UNDEF --cfg=f16f32 --scaling-proj=per_oc --alg=LBR_GRU l1t1sic4",
        "--bnorm --strides=99x20x1: --check-alg=ALG_1 --debug-check-ws=true ic4iw10",
    ],
)
@pytest.mark.parametrize("canonical", [False, True])
def test_a_reproducer_line_gives_the_same_test_again(line: str, canonical: bool) -> None:
    knob = "--canonical=1 " if canonical else ""
    (test,) = _tests(knob + line)
    assert _tests(knob + test.repro) == (test,)


def test_a_canonical_line_says_everything() -> None:
    (short,), (full,) = _shown("--reorder 2x3"), _shown("--canonical=true --reorder 2x3")
    assert short == "--reorder 2x3"
    assert "--sdt=f32 --ddt=f32 --stag=abx --dtag=abx" in full
