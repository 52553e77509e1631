"""Amounts as people read them."""

from __future__ import annotations

import math

import pytest

from restride.view.units import data_size, duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ns"),
        (4.4e-7, "440 ns"),
        (9.9996e-7, "1 µs"),
        (2.5e-6, "2.5 µs"),
        (0.0263, "26.3 ms"),
        (0.1, "100 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.0 s"),
        (5.63, "5.6 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (200, "3 min 20 s"),
        (3599.7, "1 h"),
        (7500, "2 h 5 min"),
        (86399, "1 d"),
        (100_000, "1 d 4 h"),
        (-5.63, "-5.6 s"),
        (math.inf, "?"),
        (math.nan, "?"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (512, "512 bytes"),
        (999, "999 bytes"),
        (1000, "1 KB"),
        (12_845_056, "12.8 MB"),
        (999_600, "1 MB"),
        (1_340_000_000, "1.34 GB"),
        (5e12, "5 TB"),
        (5e21, "5000 EB"),
    ],
)
def test_data_sizes(nbytes: float, text: str) -> None:
    assert data_size(nbytes) == text
