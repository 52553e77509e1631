"""Random graphs beside onnxruntime: some dozens at every change, thousands where more is asked for."""

from __future__ import annotations

import pytest

from support.effort import examples

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.filterwarnings("ignore")

_FAST = 40


def _wrong(seeds: range) -> dict[int, str]:
    from support.random_graphs import trial

    found = {seed: trial(seed) for seed in seeds}
    assert sum(each == "same" for each in found.values()) > 0.9 * len(seeds)
    return {seed: text for seed, text in found.items() if not text.startswith(("same", "left out"))}


def test_some_graphs() -> None:
    assert not _wrong(range(_FAST))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_many_graphs(part: int) -> None:
    count = examples(2000) // 4
    assert not _wrong(range(_FAST + part * count, _FAST + (part + 1) * count))
