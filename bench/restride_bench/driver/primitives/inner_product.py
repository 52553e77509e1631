"""Inner product: `--ip --dir=FWD_B --dt=bf16 mb16ic240oc4096`, with spatial dims `ic64ih7oc1000`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import restride as rs

from ..attr_text import wrong
from ..driver import Driver
from ..fill import Array
from ..products import PRODUCT_KNOBS, ProductCase, Products, invalid_product, product_work
from ..spatial import parse_lettered
from ..work import CaseWork

_KINDS: dict[str, Any] = {
    "forward": rs.InnerProductForward,
    "backward_data": rs.InnerProductBackwardData,
    "backward_weights": rs.InnerProductBackwardWeights,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerProductCase(ProductCase):
    """An inner product. `inputs` are the channels and the spatial dims of the source."""

    driver: ClassVar[str] = "ip"

    inputs: tuple[int, ...] = ()

    @property
    def src_dims(self) -> tuple[int, ...]:
        """The dims of the source."""
        return (self.dims[0], *self.inputs)

    @property
    def weight_dims(self) -> tuple[int, ...]:
        """The dims of the weights."""
        return (self.dims[1], *self.inputs)

    @property
    def terms(self) -> int:
        """How many products a sum has."""
        every = {"forward": prod(self.inputs), "backward_data": self.dims[1]}
        return every.get(self.direction, self.dims[0])


def _parse(text: str) -> dict[str, Any]:
    found = parse_lettered(text, ("mb", "ic", "oc", "id", "ih", "iw"))
    inputs, outputs = found.whole("ic"), found.whole("oc")
    if not inputs or not outputs:
        raise wrong("the problem", text, "ic and oc are needed", "mb16ic240oc4096")
    return {
        "problem": found.text,
        "name": found.name,
        "dims": (found.whole("mb", 2), outputs),
        "inputs": (inputs, *found.each("i")),
    }


def _work(case: InnerProductCase) -> CaseWork:
    direction, mds = case.direction, case.mds
    kind = _KINDS[direction]

    def create(engine: rs.Engine, attr: rs.PrimitiveAttr) -> Any:
        forward = (mds["src"], mds["weights"], mds.get("bias"), mds["dst"])
        way = "forward_inference" if case.dir == "FWD_I" else "forward_training"
        if direction == "forward":
            return kind.PrimitiveDesc(engine, way, *forward, attr)
        hint = rs.InnerProductForward.PrimitiveDesc(engine, way, *forward)
        tensors = forward if direction == "backward_weights" else (forward[0], forward[1], forward[3])
        return kind.PrimitiveDesc(engine, *tensors, hint_pd=hint, attr=attr)

    return product_work(case, create, kind, _products(case))


def _products(case: InnerProductCase) -> Products:
    def rows(x: Array) -> Array:
        return x.reshape(len(x), -1)

    return {
        "forward": lambda src, weights: rows(src) @ rows(weights).T,
        "backward_data": lambda dst, weights: (dst @ rows(weights)).reshape(case.src_dims),
        "backward_weights": lambda src, dst: (dst.T @ rows(src)).reshape(case.weight_dims),
    }


def _invalid(case: InnerProductCase) -> Iterator[str]:
    yield from invalid_product(case)


IP = Driver(
    InnerProductCase,
    PRODUCT_KNOBS,
    _work,
    lambda case: case.types,
    "%dir%,%dt%,%stag%,%dtag%,%DESC%",
    _invalid,
    _parse,
)
