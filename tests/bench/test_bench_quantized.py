"""Products by quantized weights as the benchmark measures them."""

from __future__ import annotations

import pytest

from restride_bench import quantized
from restride_bench.peers import open_peers
from restride_bench.quantized import QuantizedRow, measure_row, page, rows
from restride_bench.read_stream import read_rate
from restride_bench.study import BenchSetup

_FORMATS = sorted({row.stored for row in rows()} - {""})


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantized, "_PAUSE", 0)


def test_rows_have_names_of_their_own() -> None:
    names = [row.name for row in rows()]
    assert len(names) == len({*names}) == 18 + 13


def test_a_loop_reads_all_of_its_bytes() -> None:
    assert read_rate(1 << 20, 2) > 0


@pytest.mark.parametrize("name", _FORMATS)
def test_products_by_stored_formats_are_measured(name: str) -> None:
    row = measure_row(BenchSetup([], [], 1, 3, 0), QuantizedRow(1, 512, 64, stored=name))
    assert not row.wrong
    assert row.rate() > 0
    assert f"| {row.name} |" in page([row])


@pytest.mark.peer
@pytest.mark.parametrize("count", [1, 5])
def test_products_are_measured_against_peers(count: int) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    peers, missing = open_peers(["restride", "torch"], 1)
    if missing:
        pytest.skip(f"missing: {missing}")
    row = measure_row(BenchSetup(peers, peers, 1, 3, 0), QuantizedRow(count, 512, 256, "f16"))
    assert not row.wrong
    assert {"any", "MatMulNBits 0", "MatMulNBits 4", "torch bf16", "f32", "u8·s8"} < {*row.times}
    assert f"| geometric mean, rows: {count} |" in page([row])
