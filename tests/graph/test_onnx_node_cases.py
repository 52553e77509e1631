"""ONNX's own cases of single operators: as many pass as before, what is refused says why, none is wrong."""

from __future__ import annotations

import pytest

from support.onnx_node_cases import PASSES, WRONG, outcomes, report

pytest.importorskip("onnx")

# Of the cases of onnx 1.23, on a machine where all of them ran.
LEAST = 470


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_cases_of_onnx(capsys: pytest.CaptureFixture[str]) -> None:
    found = list(outcomes())
    with capsys.disabled():
        print(f"\n{report(found)}")
    assert not [each for each in found if each.verdict == WRONG]
    assert sum(each.verdict == PASSES for each in found) >= LEAST
