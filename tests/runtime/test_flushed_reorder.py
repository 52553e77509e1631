"""Reorders too large for the caches whose runs begin between two lines: every element where it belongs."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from restride.runtime.cpu import executable as cpu
from restride.targets.isa import CacheSizes

_SMALL = CacheSizes(l1d=1 << 12, l2=1 << 13, l3=1 << 14)


@pytest.mark.parametrize("images", [96, 131])
@pytest.mark.parametrize("data_type", [np.uint8, np.float16, np.float32])
@pytest.mark.parametrize(
    ("src", "dst", "order"), [("abcd", "acdb", (0, 2, 3, 1)), ("acdb", "abcd", (0, 3, 1, 2))]
)
def test_images_of_odd_size_are_flushed(
    images: int, data_type: type, src: str, dst: str, order: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu, "host_caches", lambda: _SMALL)
    dims = (images, 17, 7, 7 if images == 96 else 5)
    engine = rs.Engine("cpu")
    name = {np.uint8: "u8", np.float16: "f16", np.float32: "f32"}[data_type]
    source, target = (rs.MemoryDesc(dims, name, tag) for tag in (src, dst))
    pd = rs.Reorder.PrimitiveDesc(engine, source, engine, target)
    assert "staged" in pd.impl_info_str
    count = int(np.prod(dims))
    held = (np.arange(count) % 251).astype(data_type)
    out = np.zeros(count, data_type)
    rs.Reorder(pd).execute(rs.Stream(engine), rs.Memory(source, engine, held), rs.Memory(target, engine, out))
    shape = dims if src == "abcd" else tuple(dims[i] for i in (0, 2, 3, 1))
    want = held.reshape(shape).transpose(order)
    assert out.tobytes() == np.ascontiguousarray(want).tobytes()
