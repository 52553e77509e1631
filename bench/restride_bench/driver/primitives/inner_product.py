"""Inner product: `--ip --dir=FWD_B --dt=bf16 mb16ic240oc4096`, with spatial dims `ic64ih7oc1000`."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from ..attr_text import wrong
from ..fill import Array
from ..problems import Dims, parse_lettered
from ..products import ProductCase


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerProductCase(ProductCase):
    """An inner product. `inputs` are the channels and the spatial dims of the source."""

    driver: ClassVar[str] = "ip"
    primitive: ClassVar[str] = "InnerProduct"
    template: ClassVar[str] = "%dir%,%dt%,%stag%,%dtag%,%DESC%"

    inputs: Dims = ()

    @classmethod
    def parse(cls, text: str) -> dict[str, Any]:
        """Batch, inputs and outputs."""
        problem = parse_lettered(text, ("mb", "ic", "oc", "id", "ih", "iw"))
        inputs, outputs = problem.whole("ic"), problem.whole("oc")
        if not inputs or not outputs:
            raise wrong("the problem", text, "ic and oc are needed", "mb16ic240oc4096")
        dims = problem.whole("mb", 2), outputs
        return {**problem.written, "dims": dims, "inputs": (inputs, *problem.each("i"))}

    @property
    def src_dims(self) -> Dims:
        """The dims of the source."""
        return (self.dims[0], *self.inputs)

    @property
    def weight_dims(self) -> Dims:
        """The dims of the weights."""
        return (self.dims[1], *self.inputs)

    @property
    def terms(self) -> int:
        """How many products a sum has."""
        every = {"forward": prod(self.inputs), "backward_data": self.dims[1]}
        return every.get(self.propagation, self.dims[0])

    def product(self, first: Array, second: Array) -> Array:
        """Products of matrices: inputs are one dim."""
        a, b = (x.reshape(len(x), -1) for x in (first, second))
        if self.is_forward:
            return a @ b.T
        if self.propagation == "backward_data":
            return (a @ b).reshape(self.src_dims)
        return (b.T @ a).reshape(self.weight_dims)
