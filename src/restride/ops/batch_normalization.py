"""Batch normalization, forward and backward."""

from __future__ import annotations

from typing import ClassVar

from ..model.derived import make_primitive
from .normalization import NormalizationPrimitiveDesc, NormBackwardProblem, NormForwardProblem, trains
from .programs.normalization import NormKind


class BatchNormalizationProblem(NormForwardProblem):
    """The batch normalization primitive (`dnnl::batch_normalization_forward`).

    `dst = (src - mean) / sqrt(variance + epsilon) * scale + shift`, with the statistics of each channel.
    Executed with `ARG_SRC`, `ARG_DST` and, depending on flags and propagation kind, `ARG_SCALE`, `ARG_SHIFT`,
    `ARG_MEAN`, `ARG_VARIANCE`, `ARG_SRC_1`, `ARG_WORKSPACE`. Source and destination can share memory if their
    descriptors are equal.
    """

    operation = "batch_normalization"
    primitive = "BatchNormalizationForward"
    call = "prop_kind", "src", "dst", "epsilon", "flags"
    norm_kind = NormKind.batch
    node_reads = "src", "scale", "shift", "mean?", "variance?"
    node_values: ClassVar = {
        "flags": lambda node, dst: "use_scale|use_shift" + "|use_global_stats" * (not trains(node))
    }
    arguments = """
    Channels are axis 1. `dst`: format "any" takes that of the source. `flags`: `NormalizationFlags`,
    or words joined by `|`. `attr`: scales, post-ops and the scratchpad mode."""

    __slots__ = ()


class BatchNormalizationBackwardProblem(NormBackwardProblem):
    """The gradients of a batch normalization (`dnnl::batch_normalization_backward`).

    Executed with `ARG_SRC`, `ARG_DIFF_DST`, `ARG_DIFF_SRC`, `ARG_MEAN`, `ARG_VARIANCE` and, depending on the
    flags, `ARG_SCALE`, `ARG_DIFF_SCALE`, `ARG_DIFF_SHIFT`, `ARG_WORKSPACE`, `ARG_DIFF_SRC_1`. `ARG_DIFF_DST`
    and `ARG_DIFF_SRC` can share memory.
    """

    operation = "batch_normalization"
    primitive = "BatchNormalizationBackward"
    call = "prop_kind", "diff_src", "diff_dst", "src", "epsilon", "flags"
    norm_kind = NormKind.batch
    arguments = """
    `prop_kind`: "backward", or "backward_data" without the gradients of scale and shift. Gradients of format
    "any" take that of the source. `hint_pd`: the forward descriptor of the same problem, or None."""

    __slots__ = ()


BatchNormalizationForward = make_primitive(BatchNormalizationProblem, None, NormalizationPrimitiveDesc)
BatchNormalizationBackward = make_primitive(
    BatchNormalizationBackwardProblem, BatchNormalizationForward, desc=NormalizationPrimitiveDesc
)
