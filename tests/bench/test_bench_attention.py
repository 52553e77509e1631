"""Attention as the benchmark measures it."""

from __future__ import annotations

import pytest

from restride_bench import attention
from restride_bench.attention import AttentionRow, measure_row, page, rows
from restride_bench.peers import open_peers
from restride_bench.study import BenchSetup

_SMALL = [
    AttentionRow(kind, queries, 40, 16, key_heads, causal, tag)
    for kind in ("f32", "bf16")
    for queries, key_heads, causal, tag in (
        *((40, 8, False, "abcd"), (40, 2, True, "abcd"), (40, 8, True, "acbd")),
        *((1, 2, False, "acbd"), (1, 8, False, "abcd")),
    )
]


def test_rows_have_names_of_their_own() -> None:
    names = [row.name for row in rows()]
    assert len(names) == len({*names}) > 50
    assert AttentionRow("f32", 128, 128, 64).operations == 4 * 8 * 128 * 128 * 64


def test_attention_is_measured_without_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "rows", lambda: iter(_SMALL))
    found = attention.measure(BenchSetup([], [], 1, 2, 0))
    assert all(row.rate() > 0 and row.over("torch") is None and not row.wrong for row in found)
    assert "| geometric mean, one query bf16 |" in page(found)


@pytest.mark.peer
def test_attention_is_measured_against_torch() -> None:
    peers, missing = open_peers(["restride", "torch"], 1)
    if missing:
        pytest.skip(f"missing: {missing}")
    found = [measure_row(BenchSetup(peers, peers, 1, 2, 0), row) for row in _SMALL]
    assert all(row.over("torch") for row in found), [row.wrong for row in found]
