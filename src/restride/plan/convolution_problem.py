"""The problem of a convolution or deconvolution, forward or backward.

`plan/convolution.py` has the loops, one relation of the three tensors; `plan/convolution_formats.py` the
formats that kernels want.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from ..desc.arguments import ARG_SRC, ARG_WEIGHTS
from ..desc.memory_desc import MemoryDesc
from .convolution import (
    Index,
    Relation,
    ResultOf,
    Taps,
    points_tree,
    weights_tree,
    windows_tree,
)
from .convolution_formats import preferred_formats
from .expression import Expr, Load
from .product_chain import ProductChain
from .product_problem import ProductProblem
from .tree import Each, TreeTensor


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionProblem(ProductProblem):
    """What to convolve. `dilations`: 1 is dense. `block`: the channels of a block, `pack`: those that are
    multiplied at once.
    """

    is_transposed: bool
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: tuple[int, ...]

    @property
    def relation(self) -> Relation:
        """The extents, as `plan/convolution.py` names them."""
        source, weights, result = self.tensors
        x, y = (result, source) if self.is_transposed else (source, result)
        has_groups = weights.ndims == source.ndims + 1
        groups = weights.dims[0] if has_groups else 1
        dims = tuple(
            Taps(*each)
            for each in zip(
                *(x.dims[2:], y.dims[2:], weights.dims[2 + has_groups :]),
                *(self.strides, self.dilations, self.padding),
                strict=True,
            )
        )
        # Channels of the result come first in weights: of y in a convolution, of x in a deconvolution.
        channels = x.dims[1] // max(groups, 1), y.dims[1] // max(groups, 1)
        return Relation(x.dims[0], groups, *channels, dims, has_groups, not self.is_transposed)

    @property
    def names(self) -> tuple[str, str, str]:
        """The names of source, weights and result in the relation."""
        return ("y", "w", "x") if self.is_transposed else ("x", "w", "y")

    @property
    def named(self) -> dict[str, MemoryDesc]:
        """The tensors by the names of the relation."""
        found = dict(zip(self.names, self.tensors, strict=True))
        return {name: found[name] for name in ("x", "w", "y")}

    @property
    def written(self) -> str:
        """The name of what is written."""
        return dict(zip(("backward_data", "backward_weights", "forward"), self.names, strict=True))[
            self.direction
        ]

    def preferred(self) -> dict[str, MemoryDesc]:
        """The descriptors that kernels want, by the names of the relation."""
        pack = 1 if self.written == "w" else self.pack
        return preferred_formats(self.relation, self.named, self.written, self.block, pack)

    @property
    def terms(self) -> int:
        """How many products are added up in all."""
        relation = self.relation
        taps = prod(dim.kernel * dim.points for dim in relation.dims)
        channels = relation.groups * relation.window_channels * relation.point_channels
        return relation.batch * channels * taps

    def loops(self, chain: ProductChain, written: str, tensors: Mapping[str, TreeTensor]) -> tuple[Each, ...]:
        """The loops that write the tensor of a name."""
        build = {"x": windows_tree, "w": weights_tree, "y": points_tree}[written]

        def source(load: Load, index: Index) -> Expr:
            return chain.shifted(load, ARG_SRC, index)

        def weights(load: Load, index: Index) -> Expr:
            return chain.shifted(load, ARG_WEIGHTS, index)

        def result(total: Expr, index: Index) -> Expr:
            return chain.result(total, tensors[written], index)

        made = ResultOf(source, weights, result)
        return build(self.relation, tensors["x"], tensors["w"], tensors["y"], made)
