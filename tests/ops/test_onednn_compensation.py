"""Sums beside the weights, byte for byte those of a real oneDNN, and good enough for its convolutions (2.4).

oneDNN keeps them behind the weights where its descriptor has flags for them: -128 times the sum of each
output channel for s8 sources, then -1 times it for a zero point of the source; s32, one for each padded
channel.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest

import restride as rs
from restride_bench.onednn import OneDNN, OneDNNDesc
from restride_bench.onednn_library import OneDNNError
from support.onednn_api import Convolution, OneDNNAttributes, bits_of_desc, desc_of_bits, reorder

pytestmark = pytest.mark.peer

_S8S8, _ADJUST, _ZERO_POINT = 1, 2, 8
_LETTERS = "abcde"
ENGINE = rs.Engine("cpu")


@pytest.fixture(scope="module")
def library() -> OneDNN:
    try:
        return OneDNN()
    except OneDNNError as error:
        pytest.skip(str(error))


@dataclass(frozen=True)
class Extra:
    """The fields of oneDNN's descriptor besides the layout, located by comparing descriptors."""

    flags: int = 160
    mask: int = 162
    adjust: int = 163
    zero_mask: int = 164

    def with_sums(self, library: OneDNN, desc: OneDNNDesc, mask: int, kinds: int) -> OneDNNDesc:
        """`desc` with sums behind it."""
        bits = bits_of_desc(desc)
        assert not bits[self.flags]
        bits[self.flags] = kinds
        bits[self.mask], bits[self.zero_mask] = (mask if kinds & flag else 0 for flag in (_S8S8, _ZERO_POINT))
        return desc_of_bits(library, bits)


EXTRA = Extra()


@dataclass(frozen=True)
class Weights:
    """Weights as oneDNN wants them, and the same bytes made here."""

    desc: OneDNNDesc

    @cached_property
    def _bits(self) -> np.ndarray:
        return bits_of_desc(self.desc)

    @property
    def flags(self) -> int:
        return int(self._bits[EXTRA.flags])

    @property
    def mask(self) -> int:
        return int(self._bits[EXTRA.mask] | self._bits[EXTRA.zero_mask])

    @property
    def adjusted(self) -> float:
        """Return oneDNN's factor of weights that makes sums of two products fit 16 bits without VNNI."""
        return (
            float(self._bits[EXTRA.adjust : EXTRA.adjust + 1].view(np.float32)[0])
            if self.flags & _ADJUST
            else 1.0
        )

    @property
    def md(self) -> rs.MemoryDesc:
        """Our descriptor of the same layout."""
        found = self.desc.blocking
        order = sorted(range(len(found.dims)), key=lambda d: -found.strides[d])
        outer = "".join(_LETTERS[d].upper() if d in found.inner_idxs else _LETTERS[d] for d in order)
        inner = "".join(f"{n}{_LETTERS[d]}" for n, d in zip(found.inner_blks, found.inner_idxs, strict=True))
        return rs.MemoryDesc(found.dims, "s8", outer + inner)

    def by_restride(self, plain: np.ndarray) -> np.ndarray:
        """All bytes, sums behind the weights in the order of their arguments."""
        md, attr = self.md, rs.PrimitiveAttr()
        whole = np.full(self.desc.size, 0xAA, np.uint8)
        wanted = {rs.ARG_DST_1: bool(self.flags & _S8S8), rs.ARG_DST_2: bool(self.flags & _ZERO_POINT)}
        attr.set_compensation(self.mask, *wanted.values())
        attr.set_output_scales(0, self.adjusted)
        source, target = rs.Memory.from_numpy(plain), rs.Memory(md, ENGINE, whole[: md.size])
        pd = rs.Reorder.PrimitiveDesc(source, target, attr)
        held, end = {rs.ARG_SRC: source, rs.ARG_DST: target}, md.size
        for arg in (arg for arg, is_wanted in wanted.items() if is_wanted):
            sums = pd.query_md("exec_arg_md", arg)
            held[arg] = rs.Memory(sums, ENGINE, whole[end : end + sums.size])
            end += sums.size
        assert end == whole.size
        rs.Reorder(pd).execute(rs.Stream(ENGINE), held)
        return whole

    def by_onednn(self, library: OneDNN, plain: np.ndarray) -> np.ndarray:
        """All bytes, as oneDNN's own reorder makes them."""
        kind = {"i1": "s8", "f4": "f32"}[plain.dtype.str[1:]]
        source = library.desc(plain.shape, kind, _LETTERS[: plain.ndim])
        whole = np.full(self.desc.size, 0x55, np.uint8)
        primitive = reorder(library, source, self.desc, OneDNNAttributes.new(library))
        primitive.run({1: library.memory(source, plain), 17: library.memory(self.desc, whole)})
        return whole


def random_weights(dims: tuple[int, ...], kind: str) -> np.ndarray:
    rng = np.random.default_rng(len(dims))
    return rng.integers(-128, 128, dims).astype(kind)


DIMS = {
    "whole blocks": (64, 64, 3, 3),
    "padded": (40, 32, 3, 3),
    "an image": (20, 3, 5, 3),
    "one": (16, 16, 1, 1),
    "groups": (4, 20, 16, 3, 3),
    "small groups": (4, 5, 3, 3, 3),
    "depthwise": (17, 1, 1, 3, 3),
}
SOURCES = {"s8": ("s8", False), "u8 with zero point": ("u8", True), "s8 with zero point": ("s8", True)}


@pytest.mark.parametrize("kind", ["i1", "f4"], ids=["of s8", "of f32"])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("dims", DIMS)
def test_weights_and_sums_are_those_of_a_convolution_of_onednn(library, dims, source, kind):
    convolution = Convolution(library, *SOURCES[source], DIMS[dims])
    weights, plain = Weights(convolution.weights), random_weights(DIMS[dims], kind)
    if not weights.flags:
        pytest.skip(f"{convolution.primitive.impl} wants no sums")
    ours, theirs = weights.by_restride(plain), weights.by_onednn(library, plain)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("dims", DIMS)
def test_onednn_convolves_with_our_weights_and_sums(library, dims, source):
    """Even weights to 64: where oneDNN halves them, they stay whole, and sums of two products fit 16 bits."""
    data_type, shifted = SOURCES[source]
    convolution = Convolution(library, data_type, shifted, DIMS[dims])
    weights, plain = Weights(convolution.weights), random_weights(DIMS[dims], "i1") // 4 * 2
    if not weights.flags:
        pytest.skip(f"{convolution.primitive.impl} wants no sums")
    rng = np.random.default_rng(1)
    x = rng.integers(-128, 128, convolution.source).astype(np.int8)
    zero = 7 if shifted else 0
    images = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).view("i1" if data_type == "s8" else "u1")
    out = library.memory(convolution.dst)
    held = {
        1: library.memory(convolution.src, images),
        33: library.memory(convolution.weights, weights.by_restride(plain)),
        17: out,
    }
    if shifted:
        held[8192 | 1] = library.memory(library.desc((1,), "s32", "a"), np.int32([zero]))
    convolution.primitive.run(held)
    read = x if data_type == "s8" else x.view(np.uint8)
    wanted = convolved(read.astype(np.float64) - zero, plain).transpose(0, 2, 3, 1)
    got = out.bytes.view(np.float32).reshape(wanted.shape)
    np.testing.assert_array_equal(got, wanted)


def convolved(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The convolution by its definition, in f64: whole numbers, so exact. Padding is 1."""
    if weights.ndim == 4:
        weights = weights[None]
    groups, out, into, height, width = weights.shape
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    n, _, high, wide = padded.shape
    split = padded.reshape(n, groups, into, high, wide)
    shape = n, groups, out, high - height + 1, wide - width + 1
    total = np.zeros(shape)
    for i in range(height):
        for j in range(width):
            moved = split[..., i : i + shape[3], j : j + shape[4]]
            total += np.einsum("ngihw,goi->ngohw", moved, weights[..., i, j].astype(np.float64))
    return total.reshape(n, groups * out, *shape[3:])


LAYOUTS = {
    "OIhw4i16o4i": ("ABcd4b16a4b", (40, 35, 3, 3), 1),
    "OIhw2i8o4i": ("ABcd2b8a4b", (20, 17, 3, 3), 1),
    "OIhw4o4i": ("ABcd4a4b", (10, 7, 3, 1), 1),
    "OIhw16i16o4i": ("ABcd16b16a4b", (33, 65, 1, 1), 1),
    "OhwI16o4i": ("AcdB16a4b", (33, 9, 2, 2), 1),
    "gOIhw4i16o4i": ("aBCde4c16b4c", (3, 20, 35, 2, 2), 3),
    "gOIhw4o4i": ("aBCde4b4c", (3, 6, 7, 2, 2), 3),
    "Goihw16g": ("Abcde16a", (35, 1, 1, 3, 3), 3),
    "oihw": ("abcd", (5, 4, 3, 2), 1),
    "hwio": ("cdba", (5, 4, 3, 2), 1),
    "hwigo": ("decab", (3, 5, 4, 3, 2), 3),
}


@pytest.mark.parametrize(
    "kinds", [_S8S8, _ZERO_POINT, _S8S8 | _ZERO_POINT], ids=["s8s8", "zero point", "both"]
)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_sums_of_any_layout_are_those_that_onednn_keeps_behind_it(library, layout, kinds):
    tag, dims, mask = LAYOUTS[layout]
    weights = Weights(EXTRA.with_sums(library, library.desc(dims, "s8", tag), mask, kinds))
    assert weights.md == rs.MemoryDesc(dims, "s8", tag)
    for kind in ("i1", "f4"):
        plain = random_weights(dims, kind)
        try:
            theirs = weights.by_onednn(library, plain)
        except OneDNNError:
            pytest.skip("oneDNN has no such reorder")
        np.testing.assert_array_equal(weights.by_restride(plain), theirs)


def test_flags_are_where_they_are_looked_for(library):
    """Descriptors of weights that differ in nothing but their source differ in these words alone."""
    without, both = (
        bits_of_desc(Convolution(library, *how, DIMS["whole blocks"]).weights)
        for how in (("u8", False), ("s8", True))
    )
    words = {EXTRA.flags, EXTRA.mask, EXTRA.adjust, EXTRA.zero_mask}
    assert set(np.flatnonzero(without != both).tolist()) <= words
    assert both[EXTRA.flags] & (_S8S8 | _ZERO_POINT) == _S8S8 | _ZERO_POINT
    assert both[EXTRA.mask] == both[EXTRA.zero_mask] == 1


@pytest.mark.slow
@pytest.mark.parametrize("isa", ["AVX512_CORE", "AVX2_VNNI", "AVX2", "SSE41"])
def test_convolutions_of_other_instruction_sets_agree_too(isa):
    """Without VNNI the weights of s8 convolutions are halved. oneDNN is capped once for a process."""
    env = {**os.environ, "ONEDNN_MAX_CPU_ISA": isa, "RESTRIDE_MAX_CPU_ISA": "DEFAULT"}
    command = [sys.executable, "-m", "pytest", "-q", "-m", "peer and not slow", __file__]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
