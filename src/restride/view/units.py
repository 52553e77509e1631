"""Formats amounts: a duration as `5.6 s`, an amount of data as `1.3 GB`."""

from __future__ import annotations

from math import isfinite

__all__ = ["data_size", "duration"]

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_SMALL = ((1e-6, 1e9, "ns"), (1e-3, 1e6, "µs"), (1.0, 1e3, "ms"))
_SIZES = ("bytes", "KB", "MB", "GB", "TB", "PB", "EB")


def duration(seconds: float) -> str:
    """Format a time in two or three digits: `26 ms`, `5.6 s`, `3 min 20 s`, `2 h 5 min`."""
    if not isfinite(seconds):
        return "?"
    if seconds < 0:
        return "-" + duration(-seconds)
    for below, factor, unit in _SMALL:
        # A value that rounds to a thousand of a unit is shown as one of the next.
        if seconds < below * 0.9995:
            return f"{_digits(seconds * factor, 3)} {unit}"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return _two(whole, _MINUTE, "min", 1, "s")
    whole = round(whole / _MINUTE) * _MINUTE
    if whole < _DAY:
        return _two(whole, _HOUR, "h", _MINUTE, "min")
    return _two(round(whole / _HOUR) * _HOUR, _DAY, "d", _HOUR, "h")


def data_size(nbytes: float) -> str:
    """Format an amount of data in three digits, in units of a thousand: `512 bytes`, `12.8 MB`, `1.34 GB`."""
    if nbytes == 1:
        return "1 byte"
    value, unit = float(nbytes), 0
    while abs(value) >= 999.5 and unit < len(_SIZES) - 1:
        value, unit = value / 1000, unit + 1
    return f"{_digits(value, 3) if unit else round(value)} {_SIZES[unit]}"


def _digits(value: float, count: int) -> str:
    """Format a number from 0 to a thousand in `count` digits, without an exponent: `0.44`, `2.5`, `560`."""
    text = f"{value:.{count}g}"
    return f"{value:.0f}" if "e+" in text else f"{value:f}".rstrip("0").rstrip(".") if "e-" in text else text


def _two(whole: int, unit: int, name: str, smaller: int, smaller_name: str) -> str:
    rest = whole % unit // smaller
    return f"{whole // unit} {name}" + (f" {rest} {smaller_name}" if rest else "")
