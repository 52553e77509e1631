"""Each driver: its reproducer lines give the same test, a wrong answer is found out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import restride as rs
from conformance.problems import PROBLEMS
from restride.cli.usage import UsageError
from restride_bench.driver.expand import Test, expand
from restride_bench.driver.jobs import processes, results
from restride_bench.driver.result import Outcome
from restride_bench.driver.run import execute, run
from restride_bench.driver.skips import why_skipped

# benchdnn's own files, where somebody has them: a folder with concat/, sum/ and so on in it.
_INPUTS = os.environ.get("BENCHDNN_INPUTS", "")


def _line(words: str) -> str:
    """A case of a line, from the middle, as first cases are plain."""
    tests = expand(words.split()).tests
    middle = len(tests) // 2
    return next(test.repro for test in (*tests[middle:], *tests) if not why_skipped(test))


# The conformance suite runs all cases of these.
_LINES = [_line(words) for words in PROBLEMS.values()]
# One for each operation.
_FEW = list({line.split(" --")[0].split()[0]: line for line in _LINES}.values())
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
    "--conv --alg=wino g4ic4oc4_iw5kw3": "kernels are of 3 or 5 taps in one or two dims, without groups",
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
    "--rnn --cfg=u8u8u8u8 --prop=FWD_D t1mb2_sic8": "bytes are only for inference",
    "--rnn --cfg=s8s8s8s8 --prop=FWD_I t1mb2_sic8": "bytes of a source are u8",
    "--conv --dir=BWD_D --attr-post-ops=dw:k3s1p1 ic4oc4_ih5kh1": "dw:k3s1p1 of a gradient",
    "--conv --attr-post-ops=dw:k3s1p1 ic4oc4_iw5kw1": "there is one in two spatial dims",
    "--conv --attr-post-ops=sum+dw:k3s1p1 ic4oc4_ih5kh1": "a sum in front of dw:k3s1p1",
    "--sdpa --dir=BWD_D 1x2x3x4:1x2x4x5:1x2x5x6": "gradients are not run here",
    "--sdpa --dt=f32:f32 1x2x3x4:1x2x4x5:1x2x5x6": "types of queries, keys, values and the result",
    "--sdpa --dt=s8 1x2x3x4:1x2x4x5:1x2x5x6": "attention of other types",
    "--sdpa --attr-scales=src:common:2 1x2x3x4:1x2x4x5:1x2x5x6": "of attention",
    "--sdpa 1x3x3x4:1x2x4x5:1x2x5x6": "heads of keys that do not divide",
    "--sdpa 1x2x3x4:1x2x5x4:1x2x5x6": "keys and values, that do not fit",
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
def test_a_reproducer_line_gives_the_same_test(line: str) -> None:
    (test,) = _tests(line)
    assert _tests(test.repro) == (test,)
    assert _tests(test.case.words(is_full=True)) == (test,)


@pytest.mark.parametrize("line", _FEW)
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
    "--sdpa 2x3x4:2x4x5:2x5x6": "queries, keys and values of 4 dims",
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
