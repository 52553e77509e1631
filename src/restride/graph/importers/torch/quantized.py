"""Products by quantized weights: `torch.ops.restride.quantized_linear`, which `rt.quantize_` puts in a model.

The parts of the weights are in the order of the kernels, and stay as they are.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ....arrays.scaling.packed_form import descs_of_form, mode_of_form
from ...nodes.products import QuantizedMatmulOperation
from ...stored_constant import StoredConstant
from ..operator_call import ATEN, Made, OperatorCall

_FACTORS = "scale", "zero_point"


@ATEN("restride.quantized_linear")
def _quantized_linear(call: OperatorCall, x: Any, parts: Any, form: Any, bias: Any = None) -> Made:
    if any(isinstance(part, str) for part in parts):
        raise call.unimplemented("its weights are inputs of the graph", "compile the module for inference")
    descs, apart, dims = descs_of_form(form), call.with_outputs(0), call.dims(x)
    by_name = dict(zip(descs, parts, strict=True))
    weights, *factors = (
        call.builder.constant(StoredConstant(by_name[name], descs[name]))
        for name in ("values", *_FACTORS)
        if name in descs
    )
    rows = call.reshaped(call.placed(x), (prod(dims[:-1]), dims[-1]))
    operation = QuantizedMatmulOperation("zero_point" in descs, fpmath_mode=mode_of_form(form))
    whole = by_name["tensor_scale"].view(np.float32) if "tensor_scale" in descs else None
    shift = () if bias is None else (call.reshaped(bias, (1, *call.dims(bias))),)
    if whole is None:
        found = apart.add(operation, rows, weights, *shift, *factors)
    else:
        found = apart.binary("mul", apart.add(operation, rows, weights, *factors), whole)
        found = apart.binary("add", found, *shift) if shift else found
    return call.reshaped(found, (*dims[:-1], descs["values"].dims[1]))
