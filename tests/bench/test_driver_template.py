"""The tokens of performance templates."""

from __future__ import annotations

import platform

import pytest

from restride.cli.usage import UsageError
from restride_bench.driver import clock, tokens
from restride_bench.driver.expand import Test, expand
from restride_bench.driver.operations import OPERATIONS
from restride_bench.driver.result import Outcome, Perf, Result
from restride_bench.driver.template import RATES, VALUES, render
from restride_bench.driver.tokens import PLAIN, check, full

# 4 MB in 0.5 ms at best, 1 ms in the mean, 2 ms at worst.
_RESULT = Result(
    Outcome.EXECUTED, impl="jit:copy", perf=Perf(0.5, 1.0, 2.0, 5, 0.25, 0.5, 1_000_000, 3_000_000)
)


def _test(line: str) -> Test:
    (test,) = expand(line.split()).tests
    return test


_REORDER = _test(
    '--mode=P --reorder --sdt=s8 --dtag=ba --oflag=zp_comp:1 --attr-scales=src:common:2 2x3_n"w"'
)
_SHUFFLE = _test("--mode=P --shuffle --dir=BWD_D --dt=u8 --tag=axb --axis=0 --group=2 2x3")


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("%idx%,%driver%,%engine%,%impl%", "7,reorder,cpu,jit:copy"),
        ("%name%,%desc%,%DESC%", 'w,2x3_n"w",2x3'),
        ("%sdt%/%ddt%/%stag%/%dtag%/%idt%/%otag%", "s8/f32/abx/ba/s8/ba"),
        ("%flags%;%attr%", "zp_comp:1;--attr-scales=src:common:2"),
        ("%time%,%-time%,%0time%,%+time%", "0.5,0.5,1,2"),
        ("%-Gbw%,%0Gbw%,%-Mbw%,%-Kbw%,%bw%", "8,4,8000,8e+06,8e+09"),
        ("%ibytes%,%obytes%,%iobytes%,%Mobytes%", "1e+06,3e+06,4e+06,3"),
        ("%ctime%,%cpdtime%,%+cptime%", "0.75,0.25,0.5"),
        ("%Gops%,%-Gflops%,%0Gflops%", "0,0,0"),
        ("plain text, 100 percent", "plain text, 100 percent"),
    ],
)
def test_tokens_stand_for_values_of_a_reorder(template: str, text: str) -> None:
    assert render(full(template, OPERATIONS["reorder"].template), 7, _REORDER, _RESULT) == text


def test_clocks_are_ticks_of_a_counter_of_constant_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "rate", lambda: 3e9)
    line = render("%Gfreq%,%clocks%,%0Mclocks%,%+clocks%", 0, _REORDER, _RESULT)
    assert line == "3,1.5e+06,3,6e+06"


def test_the_rate_of_the_counter_is_measured_where_there_is_one() -> None:
    is_x86 = platform.machine().lower() in ("x86_64", "amd64")
    assert (0.1e9 < clock.rate() < 10e9) if is_x86 else clock.rate() == 0


def test_elsewhere_no_counter_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock.platform, "machine", lambda: "aarch64")
    assert clock.rate.__wrapped__() == 0


def test_tokens_stand_for_values_of_a_shuffle() -> None:
    line = render(full("%dir%,%dt%,%tag%,%axis%,%group%,%sdt%", "shuffle"), 0, _SHUFFLE, _RESULT)
    assert line == "BWD_D,u8,axb,0,2,"


def test_the_default_line_is_benchdnns() -> None:
    line = render(full("def", OPERATIONS["shuffle"].template), 0, _SHUFFLE, _RESULT)
    problem = "--mode=P --shuffle --dir=BWD_D --dt=u8 --tag=axb --axis=0 --group=2 2x3"
    assert line == f"perf,cpu,jit:copy,,{problem},0,0.75,0.5,0,1,0"


def test_the_csv_line_has_a_column_for_each_knob() -> None:
    line = render(full("csv", OPERATIONS["reorder"].template), 0, _REORDER, _RESULT)
    assert (
        line == "perf,cpu,jit:copy,w,s8,f32,abx,ba,zp_comp:1,--attr-scales=src:common:2,2x3,0,0.75,0.5,0,1,0"
    )


@pytest.mark.parametrize("token", ["%times%", "%-sdt%", "%Gsdt%"])
def test_an_unknown_token_is_refused(token: str) -> None:
    with pytest.raises(UsageError, match="no token"):
        check(f"%idx%,{token}")


@pytest.mark.parametrize("template", ["%-Gbw", "%idx%,%", "100 %,%idx%", "%idx%%", "% idx%"])
def test_a_percent_sign_of_no_token_is_refused(template: str) -> None:
    with pytest.raises(UsageError, match="begins no token"):
        check(template)


@pytest.mark.parametrize("template", ["def", "csv", "%idx%%-Gbw%", "plain"])
def test_other_templates_are_taken(template: str) -> None:
    check(template)


def test_tokens_stand_for_what_other_drivers_have() -> None:
    line = "--conv --mb=3 --dir=FWD_D --bia-dt=bf16 --wtag=xab ic3oc4_iw5kw3"
    (conv,) = expand(line.split()).tests
    (rnn,) = expand(["--rnn", "--activation=TANH", "--flags=O", "l1t1mb2sic4"]).tests
    assert render("%mb%,%bia_dt%,%wtag%", 0, conv, _RESULT) == "3,bf16,xab"
    assert render("%prop%,%activation%,%direction%,%flags%", 0, rnn, _RESULT) == "FWD_I,TANH,left2right,O"


def test_every_token_has_a_value() -> None:
    assert tuple(VALUES) == PLAIN
    assert tuple(RATES) == tokens.RATES
