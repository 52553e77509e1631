"""The picture of losses: training by the backend compared with eager."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from restride_bench.chart import saved
from restride_bench.losses import losses, picture

pytestmark = pytest.mark.peer


def test_losses_are_those_of_eager_and_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("matplotlib")
    curves = {"eager": losses("eager", 4), "restride": losses("restride", 4)}
    assert curves["restride"] == pytest.approx(curves["eager"], rel=1e-5)
    curves["last"] = losses("eager", 4, is_channels_last=True)
    (_, path) = saved(partial(picture, curves), tmp_path / "losses", {})
    assert "<svg" in path.read_text("utf-8")
