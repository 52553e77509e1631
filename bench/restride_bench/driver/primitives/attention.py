"""Attention: `--sdpa`."""
# ruff: noqa: D102 (what every operation says, its base class explains)

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

import restride as rs
from restride import DataType

from .. import knobs
from ..attr_text import wrong
from ..cases import Case
from ..compare import Tolerance, epsilon
from ..fill import Array
from ..knobs import Several, caseless, parse_type, several
from ..operands import Values, arg_of
from ..problems import Dims, parse_several_dims

_F32_FOUR_TIMES = Several(("f32",) * 4)
# What `mul` and `div` multiply scores by: a factor, and one over a divisor.
_SCALES = {"library": None, "mul": 0.25, "div": 0.2}
# Of a mask's dims those that are the scores' own.
_OWN_DIMS = {"buffer": (0, 1, 2, 3), "buffer_1d": (3,), "buffer_2d": (2, 3)}
_CAUSAL = "causal_"
_SWAP = (0, 1, 3, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class SdpaCase(Case):
    """Scaled dot-product attention: `--sdpa --dt=bf16 --mask_type=causal_top_left
    2x8x384x64:2x2x64x384:2x2x384x64`, queries, keys and values. A column of the keys is a key: `--ktag=abdc`
    has each in a row.
    """

    driver: ClassVar[str] = "sdpa"
    primitive: ClassVar[str] = "ScaledDotProductAttention"
    template: ClassVar[str] = "%dt%,%stag%,%dtag%,%DESC%"
    argument_names: ClassVar[Mapping[str, str]] = {
        "src": "query", "src_1": "key", "src_2": "value", "shift": "mask"
    }  # fmt: skip

    dir: Annotated[str, knobs.direction("FWD_I", "FWD_D", "BWD_D")] = "FWD_I"
    dt: Annotated[Several, several(parse_type, least=4)] = _F32_FOUR_TIMES
    qtag: knobs.Tag = "abx"
    ktag: knobs.Tag = "abx"
    vtag: knobs.Tag = "abx"
    dtag: knobs.Tag = "abx"
    mdt: knobs.TypeName = "f32"
    mask_type: Annotated[
        str, caseless("none", *_OWN_DIMS, f"{_CAUSAL}top_left", f"{_CAUSAL}bottom_right")
    ] = "none"
    scale_type: Annotated[str, caseless(*_SCALES, also={"none": "library"})] = "library"

    @classmethod
    def parse(cls, text: str) -> dict[str, Any]:
        """The dims of queries, keys and values, and of the result."""
        problem = parse_several_dims(text)
        vdims = problem["vdims"]
        if len(vdims) != 3 or len(vdims[0]) != 4:
            why = "it has queries, keys and values of 4 dims"
            raise wrong("the problem", text, why, "2x8x384x64:2x8x64x384:2x8x384x64")
        return {**problem, "dims": (*vdims[0][:3], vdims[2][3])}

    @property
    def way(self) -> str:
        """There is one primitive for inference and training."""
        return ""

    @property
    def types(self) -> tuple[str, ...]:
        return (*self.dt, *([self.mdt] if self.mask_type in _OWN_DIMS else []))

    @property
    def stag(self) -> Several:
        """The tags of queries, keys and values."""
        return Several((self.qtag, self.ktag, self.vtag))

    @property
    def scores(self) -> Dims:
        """The dims of scores."""
        return (*self.vdims[0][:3], self.vdims[1][3])

    def tensors(self, is_forward: bool) -> dict[str, rs.MemoryDesc]:
        every = zip((*self.vdims, self.dims), self.dt, (*self.stag, self.dtag), strict=True)
        query, key, value, dst = (rs.MemoryDesc(*each) for each in every)
        found = {"src": query, "src_1": key.permute_axes(_SWAP), "src_2": value}
        if self.mask_type in _OWN_DIMS:
            own = _OWN_DIMS[self.mask_type]
            dims = tuple(n if at in own else 1 for at, n in enumerate(self.scores))
            found["shift"] = rs.MemoryDesc(dims, self.mdt, "abcd")
        return {**found, "dst": dst}

    def parameters(self, is_forward: bool) -> dict[str, Any]:
        causal = self.mask_type.removeprefix(_CAUSAL) if self.mask_type.startswith(_CAUSAL) else "none"
        return {"scale": _SCALES[self.scale_type], "causal": causal}

    def values(self, name: str) -> Array:
        """Eighths; of values and results none is negative, so that nothing cancels."""
        md, random = self.tensors(True)[name], np.random.default_rng(arg_of(name))
        low, high = (4, 12) if name in ("src_2", "dst") else (-8, 8)
        return np.asarray(random.integers(low, high, md.dims, endpoint=True) / 8)

    def formula(self, values: Values) -> Values:
        query, key, value = (values[name] for name in ("src", "src_1", "src_2"))
        scale = _SCALES[self.scale_type]
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        group = query.shape[1] // key.shape[1]
        mask = np.broadcast_to(values.get("shift", np.zeros((1,) * 4)), self.scores)
        causal, (queries, keys) = self.parameters(True)["causal"], self.scores[2:]
        seen = np.tri(queries, keys, keys - queries if causal == "bottom_right" else 0, dtype=np.bool_)
        found = np.zeros(self.dims)
        for batch, head in np.ndindex(*self.dims[:2]):
            place = batch, head // group
            scores = scale * (query[batch, head] @ key[place].T) + mask[batch, head]
            scores = scores if causal == "none" else np.where(seen, scores, -np.inf)
            powers = np.exp(scores - np.nan_to_num(scores.max(-1, keepdims=True), neginf=0.0))
            total = powers.sum(-1, keepdims=True)
            found[batch, head] = powers / np.where(total == 0, 1.0, total) @ value[place]
        return {"dst": found}

    def tolerance(self, name: str) -> Tolerance:
        return Tolerance(max(1e-5, epsilon(DataType.parse(self.dt[3]))), 50.0)

    def invalid(self) -> Iterator[str]:
        if self.dir == "BWD_D":
            yield "Case not supported: --dir=BWD_D; gradients are not run here"
        if len(self.dt) != 4:
            yield "Invalid case: there are types of queries, keys, values and the result"
        if self.attr_words():
            yield f"Case not supported: {self.attr_words()} of attention"
        if any(kind not in ("f32", "bf16", "f16", "f64") for kind in self.dt):
            yield "Case not supported: attention of other types than f32, bf16, f16 and f64"
        query, key, value = self.vdims
        if query[0] != key[0] or key[:2] != value[:2] or query[1] % max(key[1], 1):
            yield "Invalid case: batches that differ, or heads of keys that do not divide those of queries"
        if query[3] != key[2] or key[3] != value[2]:
            yield "Invalid case: queries and keys, or keys and values, that do not fit"
