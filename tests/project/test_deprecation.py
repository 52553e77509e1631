"""Old names: silent in 0.2, warnings at the line that uses them from 0.3 on; pickles never warn."""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import restride as rs
from restride import deprecation

_PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"


def _memory() -> rs.Memory:
    return rs.Memory.from_numpy(np.ones((2, 3), np.float32))


def _network() -> rs.Network:
    builder = rs.graph.GraphBuilder()
    y = builder.add(rs.graph.EltwiseOperation("eltwise_relu"), builder.input("x", (2, 3)))
    return rs.Network(builder.graph(y))


_USES: dict[str, Callable[[], object]] = {
    "rs.trim": lambda: rs.trim,
    "rs.verbose": lambda: rs.verbose,
    "rs.ARG_SRC": lambda: rs.ARG_SRC,
    "rs.Stream": lambda: rs.Stream,
    "Error.retold": lambda: rs.Error("what").retold("other"),
    "concat: layout": lambda: rs.concat([np.ones((2, 3), np.float32)], 0, layout="ba"),
    "Memory.to: format": lambda: _memory().to(format="ba"),
    "Network.prepare: told": lambda: _network().prepare(told=lambda ready, steps: None),
    "Memory.to: data_type": lambda: _memory().to(None, data_type="f16"),
}


@pytest.fixture(autouse=True)
def first_use(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Names of `rs` warn when they are first used in a process."""
    monkeypatch.setattr(rs, "_earlier", {})
    yield
    vars(rs).pop("verbose", None)


@pytest.mark.parametrize("name", _USES)
def test_an_old_name_warns_from_the_next_minor_version_on(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = _USES[name]()
    monkeypatch.setattr(deprecation, "VERSION", "0.3.0")
    monkeypatch.setattr(rs, "_earlier", {})
    with pytest.warns(DeprecationWarning, match=re.escape(f"{name} is now ")) as warned:
        after = _USES[name]()
    assert [each.filename for each in warned] == [__file__]
    assert type(after) is type(before)


def test_modules_that_pickles_name_never_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deprecation, "VERSION", "0.3.0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        moved = importlib.import_module("restride.primitives.softmax")
        assert moved.SoftmaxForward is rs.onednn.SoftmaxForward
        from restride.runtime.result_pool import trim

        assert trim is rs.empty_cache


def test_current_names_do_not_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deprecation, "VERSION", "0.3.0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in dir(rs):
            if name not in ("dask",):
                getattr(rs, name)
        assert rs.MemoryDesc((2, 3), dtype="f16").data_type == rs.f16
        assert _memory().to("ba", "f16").shape == (2, 3)


def test_the_page_lists_every_old_name() -> None:
    page = _PAGE.read_text("utf-8")
    assert [name for name in rs._EARLIER_NAMES if f"`rs.{name}`" not in page] == []
    assert [name for name in _USES if f"`{name.split(': ')[-1]}" not in page and "Stream" not in name] == []
