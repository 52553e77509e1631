"""Each driver: its problems pass, its reproducer lines give the same test, a wrong answer is found out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import restride as rs
from restride.cli.usage import UsageError
from restride_bench.driver.expand import Test, expand
from restride_bench.driver.jobs import processes, results
from restride_bench.driver.result import Outcome
from restride_bench.driver.run import execute, run

# benchdnn's own files, where somebody has them: a folder with concat/, sum/ and so on in it.
_INPUTS = os.environ.get("BENCHDNN_INPUTS", "")

_LINES = (
    "--concat 2x3x4:2x5x4",
    "--concat --axis=0 --sdt=s8 --ddt=f32 --stag=axb --dtag=abx 2x3x4:5x3x4:1x3x4",
    "--concat --stag=abx:axb --dtag=any --sdt=bf16 --ddt=bf16 2x16x4:2x16x4",
    "--concat --attr-scales=msrc0:common:1.5+msrc1:common:2.5 2x3x4:2x5x4",
    "--sum 3x17x5x7",
    "--sum --sdt=f32:u8:s8 --ddt=s8 --stag=abx:axb:abx --dtag=axb --scales=0.25:2:0.5 2x17x5",
    "--sum --sdt=bf16:bf16 --ddt=bf16 --scales=0.25:2 --inplace=true 3x17x5x7",
    "--eltwise --alg=gelu_erf --tag=aBx16b 2x17x5x3",
    "--eltwise --alg=clip --alpha=-2 --beta=3 --dt=bf16 --inplace=true --attr-post-ops=mul:s8:per_oc 2x17x5",
    "--eltwise --dir=BWD_D --alg=mish --tag=axb --mb=3 2x17x5x3",
    "--eltwise --dir=BWD_D --alg=tanh_dst --inplace=true --dt=f16 2x17x5x3",
    "--binary --alg=SUB --sdt=s8:f32 --ddt=s8 --stag=axb:any 3x5x6:1x5x6",
    "--binary --alg=SELECT --attr-scales=src:common:0.5+src1:common:0.25 12x13:1x13",
    "--binary --alg=DIV --inplace=true --attr-post-ops=linear:2:0.125 12x13:12x13",
    "--binary --attr-post-ops=mul:s8:per_oc+sum:0.25+relu:-0.01+add:f32:per_tensor+sum:2 5x3x2x9:1x3x2x9",
    "--prelu --stag=axb:any 3x64x8:1x64x1",
    "--prelu --dir=FWD_I --sdt=u8:bf16 3x64x8:3x1x8",
    "--prelu --dir=BWD_DW --sdt=f16:f32 --stag=axb:axb 2x7x5x3:2x1x5x3",
    "--pool --tag=axb --mb=1 ic16_ih13oh14kh3sh1ph3",
    "--pool --alg=avg_np --dt=s8 --attr-post-ops=add:f32:per_oc mb2ic17_iw60ow31kw3sw2pw1",
    "--pool --dir=BWD_D --tag=aBx16b --mb=1 ic17_ih9iw8kh3kw2sh2ph1dh1",
    "--pool --dir=BWD_D --alg=avg_p --dt=bf16 mb1ic3id6kd3sd2pd1",
    "--lrn --tag=axb --mb=1 ic16_ih5_ls7beta1.0k14.2",
    "--lrn --dir=BWD_D --alg=WITHIN --dt=bf16 mb2ic5_ih6iw7",
    "--lrn --dir=BWD_D mb1ic1ih4iw7ls1alpha0.01beta1k0.5",
    "--resampling --tag=axb --mb=1 --attr-post-ops=sum+relu_dst:0.5+sum:0.25+add:f32 ic17_ih7oh6_iw14ow12",
    "--resampling --alg=linear --ddt=s8 mb2ic5_iw17ow21",
    "--resampling --dir=BWD_D --alg=linear --tag=axb --sdt=bf16 --ddt=bf16 mb1ic9_id3od2_ih8oh5_iw7ow12",
    "--softmax --stag=axb --axis=1 2x19x17x13",
    "--softmax --stag=abx --dtag=aBx16b --axis=2 2x19x5x3",
    "--softmax --dir=FWD_I --sdt=bf16 --ddt=u8 --attr-scales=src:common:64+dst:common:0.5 255x10",
    "--softmax --dir=BWD_D --alg=LOGSOFTMAX --inplace=true 2x19x5x3",
    "--softmax --dir=BWD_D --sdt=bf16 --ddt=f16 --attr-acc-mode=relaxed 2x19x5x3",
    "--softmax --dir=FWD_I --axis=0 --ddt=f16 --attr-post-ops=sum:0.5+add:f32 130x2x3",
    "--softmax --sdt=u8 --ddt=bf16 --stag=axb --attr-scales=src:common:128 "
    "--attr-post-ops=add:bf16:per_oc 5632x44",
    "--reduction --alg=norm_lp_sum --p=2 --eps=0.5 --stag=axb 5x3x2x9:1x3x2x9",
    "--reduction --sdt=s8 --ddt=s32 --attr-post-ops=sum:1:3+clip_v2_dst:-9:90+sum:2:-1 32x17x2x3:1x17x1x1",
    "--bnorm --tag=axb --flags=CHR mb2ic17ih5",
    "--bnorm --dir=BWD_DW --flags=CHA --dt=bf16 mb2ic17ih5",
    "--lnorm --stat_tag=axb --ss_dt=bf16 --flags=CH 4x3x17",
    "--lnorm --dir=BWD_DW --flags=GCH --inplace=true 30x30",
    "--gnorm --dir=FWD_I --flags=CH --attr-post-ops=relu mb2g3ic12ih5",
    "--gnorm --dir=BWD_DW --flags=CH mb2g3ic12ih5",
    "--conv --stag=axb --dtag=axb ic3oc17_iw8ow4kw3pw1sw2",
    "--conv --dir=FWD_I --dt=u8:s8:f32 --attr-scales=src:common:0.25+wei:per_oc g2ic4oc6_ih7kh3sh2dh1",
    "--conv --dt=bf16 --attr-post-ops=sum:0.5+relu:0.5+sum:2+add:f32:per_oc mb1ic5oc3_id4kd2pd1",
    "--conv --dir=BWD_D --alg=auto --wtag=abx g3ic6oc6_ih9iw8kh3kw3sh2ph1pw1",
    "--conv --dir=BWD_WB --dt=f16 ic4oc5_ih6kh3ph1",
    "--conv --dir=FWD_D --dtag=aBx16b g4ic12oc68iw8kw2",
    "--conv --dt=u8:s8:s32 --attr-zero-points=src:per_dim_1+dst:common:1 g2ic6oc4ih8kh3ph1sh2",
    "--matmul --dt=f4_e2m1:f4_e3m0:f4_e2m1 --wtag=ba 25x32:32x16",
    "--matmul --dt=s8:s4:f16 --wtag=ba --attr-scales=src:per_ocic:f16:1x32+wei:per_ocic:f16:16x1 4x64:64x20",
    "--matmul --dt=bf16:u4:f32 --attr-scales=wei:per_ocic:bf16:32x1 --attr-zero-points=wei:per_oc 5x64:64x6",
    "--matmul --dt=s8:s8:f32 --attr-zero-points=src:common:1+wei:common:-1+dst:common:2 5x16:16x6",
    "--deconv --attr-scales=wei:per_oc+dst:common:2 g2oc6ic4_oh9ih5kh3sh2ph1",
    "--deconv --dir=BWD_D --stag=axb oc5ic4_ow9iw5kw3sw2pw1",
    "--deconv --dir=BWD_WB --dt=bf16 oc5ic4_iw5kw3sw2",
    "--deconv --dir=BWD_WB --dt=f64 --stag=axb g4oc16ic16_od5id5kd3pd1",
    "--conv --dt=f8_e4m3:f8_e5m2:f8_e4m3 ic3oc17_iw5kw3pw1",
    "--conv --dir=FWD_I --dt=s8:s8:s8 --attr-post-ops=sum:0.5:0:u8 g4ic8oc8_ih5kh3ph1",
    "--lnorm --inplace=true --attr-post-ops=sum+add:f32:per_oc 6x30",
    "--conv --dt=bf16 --attr-post-ops=prelu:per_oc+relu g2ic4oc6_ih5kh3ph1",
    "--pool --alg=avg_p --attr-post-ops=prelu:per_tensor mb2ic5_iw9kw3",
    "--conv --dt=bf16 --dtag=axb --attr-post-ops=relu+dw:k3s2p1:f32+add:f32:per_oc+sum:0.5 ic5oc17_ih7kh1",
    "--conv --dt=u8:s8:u8 --attr-scales=src:common:0.25+dst:common:2+attr_post_op_dw_wei:per_oc "
    "--attr-zero-points=dst:common:3 --attr-post-ops=dw:k3s1p1:s8 g2ic4oc6_ih5kh1",
    "--ip --dt=s8:s8:s8 --attr-scales=wei:per_oc+dst:common:0.25 mb3ic7ih5oc9",
    "--ip --dir=BWD_D --dtag=axb mb4ic17oc9",
    "--ip --dir=BWD_WB --mb=5 --dt=bf16 ic3ih5oc8",
    "--matmul --stag=ba --wtag=ba --dtag=ba --bia-dt=f32 --bia_mask=3 10x30:30x20",
    "--matmul --dt=u8:s8:f32 --attr-scales=src:common:0.25+wei:per_oc 4x7x16:1x16x8",
    "--matmul --dt=bf16 --attr-fpmath=bf16:true --attr-post-ops=sum+add:u8:per_oc 4x7x16:1x16x8",
    "--matmul --dt=f64 --wtag=acb 1x26x17:5x17x65",
    "--matmul --runtime-dims-masks=3:3 --stag=ab --wtag=ba --dtag=ab --bia-dt=f32 9x20:20x5",
    "--matmul --strides=8x4x1:24x6x1:21x7x1 3x2x4:3x4x6:3x2x6",
    "--matmul --attr-post-ops=add:f32:3:ab:9x1 3x4:4x5",
    "--conv --strides=80x20x2::96x12x1 --dir=FWD_D --bia-dt=s8 --dt=u8:s8:s8 mb2ic4oc8_iw10ow8kw3",
    "--conv --dir=BWD_WB --dt=bf16 --strides=80x20x2::96x12x1 mb2ic4oc8_iw10ow8kw3",
    "--conv --dir=BWD_D --dt=f16 --strides=80x20x2:: mb2ic4oc8_iw10ow8kw3",
    "--deconv --dir=FWD_I --bia-dt=f16 --dt=f16 mb2ic4oc8_iw10kw3",
    "--ip --dir=BWD_W --bia-dt=f32 --dt=bf16 mb2ic4oc8",
    "--binary --strides=30x10x1::40x10x1 --ddt=s8 2x3x4:1x3x1",
    "--bnorm --strides=120x40x8x1: --flags=CH mb2ic3ih5iw5",
    "--bnorm --dir=BWD_DW --strides=120x40x8x1: --flags=CH mb2ic3ih5iw5",
    "--rnn --prop=FWD_I --alg=LBR_GRU --activation=UNDEF --l=2 --t=3 l1t1sic4",
    "--rnn --prop=BWD_DW --alg=VANILLA_LSTM --cfg=f16f32 l1t2sic4",
    "--rnn --prop=FWD_I --alg=VANILLA_LSTM --direction=concat l2t3mb2_sic9",
    "--rnn --activation=LOGISTIC --trivial-strides=false --mb=3 l1t4_sic8_slc5",
    "--rnn --prop=BWD_DW --alg=LBR_GRU --cfg=bf16f32 --direction=sum --tag=bac:abdec:bac t3mb2_sic8_slc5",
    "--rnn --prop=BWD_DW --alg=VANILLA_GRU --direction=right2left l2t3mb2_sic9",
    "--rnn --prop=BWD_DW --alg=LBR_GRU --flags=O t3mb2_sic9",
    "--rnn --prop=BWD_DW --cfg=f16f32 --tag=ntc:any:ntc --trivial-strides=false t3mb2_sic9",
    "--rnn --prop=BWD_DW --cfg=bf16 --direction=concat l8t3mb12_sic16",
    "--rnn --prop=FWD_I --alg=VANILLA_GRU --cfg=f32u8f32u8 --direction=sum --scaling=per_oc l2t4mb3_sic20",
)
_INVALID = {
    "--concat --axis=3 2x3x4:2x5x4": "axis 3 of 3 dims",
    "--concat 2x3x4:1x5x4": "dims that differ",
    "--concat --stag=ab:ba:ab 2x3:2x3": "3 tags for 2 sources",
    "--sum --scales=1:2:3 2x3": "3 scales for 2 sources",
    "--sum --sdt=f32:f32 --ddt=s8 --dtag=any --inplace=1 2x3": "in place with elements of two sizes",
    "--sum --stag=ab --dtag=ba --inplace=1 2x3": "in place with two tags",
    "--eltwise --alg=clip --alpha=3 --beta=-2 2x3": "a clip to an empty range",
    "--eltwise --alg=round --dir=BWD_D 2x3": "round has no gradient",
    "--eltwise --alg=relu_dst --alpha=-1 2x3": "with a slope below 0",
    "--eltwise --alg=relu --dir=BWD_D --inplace=1 2x3": "the source is needed backward",
    "--binary --inplace=1 1x3:2x3": "a source that is repeated",
    "--binary --inplace=1 --attr-post-ops=sum 2x3:2x3": "the old destination is summed",
    "--binary 2x3:2x3:2x3": "there are two sources",
    "--prelu 2x3": "there are a source and weights",
    "--softmax --axis=2 2x3": "there is no axis 2",
    "--softmax --dir=BWD_D --sdt=s8 2x3": "a gradient of integers",
    "--reduction 2x3": "there are a source and a destination",
    "--reduction 2x3:2x2": "neither that of the source nor 1",
    "--reduction --alg=norm_lp_sum --p=0.5 2x3:1x3": "a norm of p 0.5",
    "--bnorm --flags=RA ic3": "two fused functions",
    "--bnorm --dt=s8 --dir=BWD_D ic3": "a gradient of integers",
    "--gnorm g5ic12": "5 groups of 12 channels",
    "--conv --dir=BWD_D --dt=s8:s8:s32 ic3oc4_iw5kw3": "a gradient of integers",
    "--conv --alg=wino ic3oc4_iw5kw3": "--alg=wino, there is direct",
    "--matmul --attr-zero-points=dst:common:2 3x4:4x5": "zero points of dst, which is f32",
    "--matmul --dt=f64 --attr-post-ops=sum:1:0:s32 3x4:4x5": "reads f64 as a type of another size",
    "--matmul --dt=s4:s4:f32 3x4:4x5": "a source of s4",
    "--matmul 3x4:5x6": "4 columns times 5 rows",
    "--matmul 2x3x4:3x4x5": "batch dims that differ",
    "--matmul 3x4:4x5:3x5:3x5": "there are two factors and a result",
    "--matmul --encoding=csr+0.99:: 3x4:4x5": "--encoding=csr+0.99::",
    "--matmul --grouped=0:2:1+2:3 3x4:2x4x5": "--grouped=0:2:1+2:3",
    "--matmul --attr-scales=dst:mx:e8m0:1x32 32x32:32x32": "scales are not computed",
    "--matmul --attr-post-ops=add:f32:common:grouped 3x4:4x5": "post-op add:f32:common:grouped",
    "--conv --stag=axb --strides=80x20x2:: ic4oc8_iw10kw3": "strides and a tag, axb, for src",
    "--binary --stag=axb:any --strides=30x10x1:: 2x3x4:1x3x1": "strides and a tag, axb, for src0",
    "--bnorm --tag=axb --strides=120x40x8x1: ic3ih5": "strides and a tag, axb, for src",
    "--softmax --attr-rounding-mode=src:environment+dst:stochastic:7 2x3": "rounding is half to even",
    "--softmax --alg=softmax_accurate_inf_as_zero 2x3": "--alg=SOFTMAX_INF_AS_ZERO",
    "--rnn --activation=UNDEF t1mb2_sic8": "without an activation",
    "--matmul --bia-dt=f32 --bia-mask=4 3x4:4x5": "the mask 4 of the bias",
    "--matmul --runtime-dims-masks=1:0 3x4:4x5": "a tag that is any",
    "--matmul --attr-scales=wei:per_ocic:f32:3x1 3x4:4x5": "groups of wei:per_ocic:f32:3x1 do not divide",
    "--pool --alg=avg_np ic16_iw13ow14kw3sw1pw3": "windows in the padding alone",
    "--rnn l2t3mb2_sic8_slc5": "2 layers, of which the first reads 5 channels of 8",
    "--rnn --alg=VANILLA_GRU t1mb2_sic8_dhc9": "states of 9 channels, of which 8 are read",
    "--rnn --alg=VANILLA_AUGRU t1mb2_sic8": "--alg=VANILLA_AUGRU",
    "--rnn --cfg=u8u8u8u8 --prop=FWD_D t1mb2_sic8": "bytes are for inference",
    "--rnn --cfg=s8s8s8s8 --prop=FWD_I t1mb2_sic8": "bytes of a source are u8",
    "--conv --dir=BWD_D --attr-post-ops=dw:k3s1p1 ic4oc4_ih5kh1": "dw:k3s1p1 of a gradient",
    "--conv --attr-post-ops=dw:k3s1p1 ic4oc4_iw5kw1": "there is one in two spatial dims",
    "--conv --attr-post-ops=sum+dw:k3s1p1 ic4oc4_ih5kh1": "a sum in front of dw:k3s1p1",
    "--deconv --attr-post-ops=dw:k3s1p1 ic4oc4_ih5kh1": "of other than a convolution",
    "--matmul --attr-post-ops=dw:k3s1p1 2x3:3x4": "of other than a convolution",
}
_SMOKE = (
    "concat",
    "sum",
    "eltwise",
    "binary",
    "prelu",
    "pool",
    "lrn",
    "resampling",
    "softmax",
    "reduction",
    "bnorm",
    "lnorm",
    "conv",
    "deconv",
    "ip",
    "matmul",
)


def _tests(line: str) -> tuple[Test, ...]:
    return expand(line.split()).tests


@pytest.mark.parametrize("line", _LINES)
def test_a_problem_passes(line: str) -> None:
    (test,) = _tests(line)
    assert run(test).status is Outcome.PASSED, run(test)


@pytest.mark.parametrize("line", _LINES)
def test_a_reproducer_line_gives_the_same_test(line: str) -> None:
    (test,) = _tests(line)
    assert _tests(test.repro) == (test,)
    assert _tests(test.case.words(is_full=True)) == (test,)


@pytest.mark.parametrize("line", _LINES)
@pytest.mark.parametrize("mode", ["I", "R", "B", "F"])
def test_a_problem_runs_in_each_mode(line: str, mode: str) -> None:
    (test,) = _tests(f"--mode={mode} --fix-times-per-prb=1 {line}")
    assert not run(test).status.is_failure


@pytest.mark.parametrize("line", _LINES)
def test_a_wrong_answer_fails(line: str) -> None:
    def wrong(primitive: Any, stream: rs.Stream, args: dict[int, rs.Memory]) -> None:
        execute(primitive, stream, args)
        for arg, memory in args.items():
            is_gradient = rs.ARG_DIFF_SRC <= arg < rs.ARG_DIFF_DST or arg == rs.ARG_DIFF_WEIGHTS
            if rs.ARG_DST <= arg < rs.ARG_WEIGHTS or is_gradient:
                data = memory.data
                assert data is not None
                data[:1].view("u1")[-1] ^= 0x40

    (test,) = _tests(line)
    assert run(test, wrong).status is Outcome.FAILED


@pytest.mark.parametrize("line", _INVALID)
def test_a_case_that_makes_no_sense_is_skipped(line: str) -> None:
    (test,) = _tests(line)
    result = run(test)
    assert result.status is Outcome.SKIPPED
    assert _INVALID[line] in result.reason


_UNREADABLE = {
    "--conv ic3_iw5kw3": "ic, oc, a source and a kernel are needed",
    "--conv g2ic3oc4_iw5kw3": "2 groups of 3 and 4 channels",
    "--conv ic3oc4_iw5kw3sw0": "a stride of 0",
    "--ip ic3": "ic and oc are needed",
    "--matmul 3x4": "two factors",
    "--matmul 3x4:4x5x": "neither a knob nor dims",
}


@pytest.mark.parametrize("line", _UNREADABLE)
def test_a_problem_that_is_none_is_an_error_of_usage(line: str) -> None:
    with pytest.raises(UsageError, match=_UNREADABLE[line]):
        _tests(line)


@pytest.mark.parametrize(
    "name",
    [
        *(f"{each}/test_{each}_smoke" for each in _SMOKE),
        *(pytest.param(f"{each}/test_{each}_ci", marks=pytest.mark.slow) for each in _SMOKE),
    ],
)
def test_no_case_of_benchdnns_own_files_fails(name: str) -> None:
    path = Path(_INPUTS, name)
    if not _INPUTS or not path.exists():
        pytest.skip("BENCHDNN_INPUTS names no folder with this file")
    tests = _tests(f"--{name.split('/')[0]} --batch={path}")
    found = zip(tests, results(tests, processes(tests, 1)), strict=True)
    assert [test.repro for test, result in found if result.status.is_failure] == []
