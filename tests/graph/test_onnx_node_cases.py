"""ONNX's own cases: as many pass as before, what is refused says why, none is wrong."""

from __future__ import annotations

import pytest

from support.onnx_node_cases import PASSES, WRONG, outcomes, report

pytest.importorskip("onnx")

# Of the cases of onnx 1.23, on a machine where all of them ran.
LEAST = {("node",): 1670, ("pytorch-operator", "pytorch-converted", "simple"): 134}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kinds", LEAST, ids="-".join)
def test_cases_of_onnx(kinds: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    found = list(outcomes(kinds=kinds))
    with capsys.disabled():
        print(f"\n{report(found)}")
    assert not [each for each in found if each.verdict == WRONG]
    assert sum(each.verdict == PASSES for each in found) >= LEAST[kinds]
