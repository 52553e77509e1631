"""The line that tells how far long work is: its words, the time left, and that it leaves nothing behind."""

from __future__ import annotations

import io
import threading

import pytest

from restride.cli.progress import Progress


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    encoding = "utf-8"  # type: ignore[assignment]

    def isatty(self) -> bool:
        return True


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def shown(stream: io.StringIO) -> str:
    """Return the final text of a terminal, where a carriage return overwrites the line."""
    line: list[str] = []
    at = 0
    for char in stream.getvalue():
        if char == "\r":
            at = 0
            continue
        line[at : at + 1] = [char]
        at += 1
    return "".join(line).rstrip()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(autouse=True)
def _a_plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


def test_the_line_says_how_much_is_done_and_the_time_left(clock: Clock) -> None:
    stream = Terminal()
    bar = Progress("converting", 4_000_000_000, stream=stream, clock=clock)
    clock.now += 5
    bar.advance(1_000_000_000)
    assert shown(stream) == "converting ███████▌······················  25 %  1 GB of 4 GB  15 s left"


def test_things_are_counted_in_their_noun(clock: Clock) -> None:
    stream = Terminal()
    bar = Progress("measuring", 80, "rows", stream=stream, clock=clock)
    bar.label = "f32 nchw->nhwc\n"
    clock.now += 1
    bar.advance(79)
    assert shown(stream).endswith("█▋  98 %  79 of 80 rows  1 s left  f32 nchw->nhwc?")


def test_nothing_is_written_where_no_terminal_is(clock: Clock) -> None:
    stream = io.StringIO()
    with Progress("converting", 10, stream=stream, clock=clock) as bar:
        clock.now += 100
        bar.advance(5)
    assert stream.getvalue() == ""
    assert bar.done == 5


def test_a_dumb_terminal_gets_nothing(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()
    bar = Progress("converting", 10, stream=stream, clock=clock)
    clock.now += 100
    bar.advance(5)
    assert stream.getvalue() == ""


def test_short_work_shows_nothing(clock: Clock) -> None:
    stream = Terminal()
    with Progress("converting", 10, stream=stream, clock=clock) as bar:
        for _ in range(10):
            clock.now += 0.04
            bar.advance()
    assert stream.getvalue() == ""


def test_the_line_is_drawn_ten_times_a_second_at_most(clock: Clock) -> None:
    stream = Terminal()
    bar = Progress("converting", 100_000, stream=stream, clock=clock)
    for _ in range(10_000):
        clock.now += 0.001
        bar.advance()
    assert 90 <= stream.getvalue().count("\r") <= 100


def test_the_line_is_gone_at_the_end_and_after_an_error(clock: Clock) -> None:
    stream = Terminal()

    def fail() -> None:
        with Progress("converting", 10, stream=stream, clock=clock) as bar:
            clock.now += 1
            bar.advance(5)
            assert shown(stream)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert shown(stream) == ""
    assert stream.getvalue().endswith("\r")


def test_other_words_may_be_printed_between(clock: Clock) -> None:
    stream = Terminal()
    bar = Progress("converting", 10, stream=stream, clock=clock)
    clock.now += 1
    bar.advance(5)
    bar.clear()
    assert shown(stream) == ""
    clock.now += 1
    bar.advance()
    assert shown(stream).startswith("converting")


def test_the_time_left_follows_a_change_of_speed(clock: Clock) -> None:
    bar = Progress("converting", 10_000, stream=Terminal(), clock=clock)
    for _ in range(10):
        clock.now += 1
        bar.advance(500)
    for _ in range(100):
        clock.now += 1
        bar.advance(10)
    # 4000 are left, and come at 10 a second.
    assert bar.seconds_left() == pytest.approx(400, rel=0.05)


def test_work_that_was_done_before_is_no_speed(clock: Clock) -> None:
    bar = Progress("converting", 1000, done=900, stream=Terminal(), clock=clock)
    clock.now += 1
    bar.advance(10)
    assert bar.seconds_left() == pytest.approx(9)


def test_before_anything_is_known_no_time_is_said(clock: Clock) -> None:
    bar = Progress("converting", 1000, stream=Terminal(), clock=clock)
    assert bar.seconds_left() is None
    assert "left" not in bar.line()


@pytest.mark.parametrize(("total", "done"), [(0, 0), (0, 5), (10, 20)])
def test_totals_that_were_wrong_end_at_the_whole(clock: Clock, total: int, done: int) -> None:
    bar = Progress("converting", total, stream=Terminal(), clock=clock)
    clock.now += 1
    bar.advance(done)
    assert " 100 %" in bar.line()


@pytest.mark.parametrize("columns", [0, 1, 5, 20, 40, 200])
def test_the_line_fits_into_the_terminal(clock: Clock, columns: int) -> None:
    bar = Progress("converting", 4_000_000_000, stream=Terminal(), clock=clock)
    bar.label = "a.very.long.name" * 9
    clock.now += 1
    bar.advance(1_000_000_000)
    assert len(bar.line(columns)) <= max(0, columns - 1)


def test_terminals_that_take_ascii_only_get_that(clock: Clock) -> None:
    stream = Terminal()
    stream.encoding = "ascii"  # type: ignore[misc]
    bar = Progress("converting", 100, stream=stream, clock=clock)
    clock.now += 1
    bar.advance(50)
    assert shown(stream).startswith("converting ##############...............  50 %")


def test_a_terminal_that_goes_away_is_no_error(clock: Clock) -> None:
    stream = Terminal()
    with Progress("converting", 100, stream=stream, clock=clock) as bar:
        clock.now += 1
        bar.advance(10)
        stream.close()
        clock.now += 1
        bar.advance(10)
    assert bar.done == 20


def test_threads_may_advance_at_once() -> None:
    bar = Progress("converting", 40_000, stream=Terminal())
    workers = [threading.Thread(target=lambda: [bar.advance() for _ in range(10_000)]) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert bar.done == 40_000
