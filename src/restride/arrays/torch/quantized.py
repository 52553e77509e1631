"""Linear layers with quantized weights, and their in-place substitution in a model.

Only `restride.torch` may import this module, because it imports torch. Weights are byte buffers, unaffected
by a change of the module's type: the elements and the scales of their groups, in the order of the kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import torch

from ...desc.ggml_blocks import GGML_BLOCKS
from ...desc.parse import short_repr
from ...errors import refuse
from ...foreign import plain_text
from ...runtime.engine import Engine
from ...runtime.memory import Memory
from ..calls.tensors import to_torch
from ..products import matmul as matmul_arrays
from ..products import pack_weights
from ..scaling.group import NAMED
from ..scaling.packed_form import descs_of_form, form_of_descs, mode_of_form
from ..scaling.quantization import WHOLE_BLOCKS, quantize
from ..scaling.quantized_tensor import QuantizedTensor
from .kernels import array_of
from .modes import check_device, is_plain, refuse_transforms
from .modules import Linear
from .operators import Operator, tensor_of

_CPU = Engine("cpu")
_PREFIX, _MATRIX = "weight_", 2
_OF_TORCHAO = {
    f"{kind}{word}" for kind in ("int4", "int8", "uint4", "fp8", "float8") for word in ("wo", "_weight_only")
}
_FLOATS = (torch.float32, torch.bfloat16, torch.float16)


# --- the parts of weights -----------------------------------------------------------------------------------


def _parts_of(q: QuantizedTensor, mode: str) -> dict[str, Memory]:
    """Return the parts of weights (outputs, inputs) in the order of the kernels."""
    packed = pack_weights(q.T, fpmath_mode=mode)
    named = (("values", packed.values), ("scale", packed.scale), ("zero_point", packed.zero_point))
    parts = {name: part for name, part in named if part is not None}
    if q.tensor_scale != 1.0:
        parts["tensor_scale"] = Memory.from_numpy(np.array([q.tensor_scale], np.float32))
    return parts


@lru_cache(maxsize=1024)
def _view(form: str, addresses: tuple[int, ...], tensor_scale: float, owner: Any = None) -> QuantizedTensor:
    """Return weights (inputs, outputs) over the bytes at some addresses, valid while their owner exists."""
    memories = {
        name: Memory.from_pointer(address, md.size, md, _CPU, owner=owner, readonly=True)
        for address, (name, md) in zip(addresses, descs_of_form(form).items(), strict=True)
        if name != "tensor_scale"
    }
    return QuantizedTensor(**memories, tensor_scale=tensor_scale)


def _weights(parts: Any, form: str, *, keeps: bool = False) -> QuantizedTensor:
    """Return weights (inputs, outputs) over the bytes of tensors, which are kept alive if `keeps`.

    Raises InvalidArguments for tensors of other sizes.
    """
    whole = 1.0
    for part, (name, md) in zip(parts, descs_of_form(form).items(), strict=True):
        _check_part(name, part)
        if part.numel() != md.size or part.dtype is not torch.uint8 or not part.is_contiguous():
            found = f"{part.dtype} of shape {tuple(part.shape)}"
            raise refuse("RS-A17:no-such-bytes", name=name, nbytes=md.size, found=found)
        if name == "tensor_scale":
            whole = part.numpy().view(np.float32).item()
    addresses = tuple([part.data_ptr() for part in parts])
    return _view.__wrapped__(form, addresses, whole, parts) if keeps else _view(form, addresses, whole)


def _check_part(name: str, part: Any) -> None:
    """Raise InvalidArguments for a part of weights that is not in CPU memory."""
    if not part.is_cpu:
        which = "a module on the CPU whose weights are loaded: module.to('cpu')"
        raise refuse("RS-A04:tensor", name=f"QuantizedLinear: {name}", device=part.device, which=which)


# --- operators ----------------------------------------------------------------------------------------------


def _linear(x: Any, parts: Any, form: str, bias: Any) -> Any:
    """Return `x @ weights + bias`, in the type of `x`."""
    if x.dtype not in _FLOATS:
        raise refuse("RS-A17:activations", dtype=x.dtype)
    q = _weights(parts, form)
    rows = x.detach().reshape(prod(x.shape[:-1]), x.shape[-1:].numel())
    shift = None if bias is None else array_of(bias)
    mode = mode_of_form(form)
    return _tensor(matmul_arrays(array_of(rows), q, shift, fpmath_mode=mode), x)


def _linear_gradient(grad: Any, parts: Any, form: str) -> Any:
    """Return the gradient of the source: the product with dequantized weights, which exist only meanwhile."""
    rows = grad.detach().reshape(prod(grad.shape[:-1]), grad.shape[-1])
    weights = _weights(parts, form).dequantize(dst="ba").T
    return _tensor(matmul_arrays(array_of(rows.float()), weights), grad)


def _tensor(product: Any, like: Any) -> Any:
    result = to_torch(np.ascontiguousarray(product)).to(like.dtype)
    return result.reshape(*like.shape[:-1], result.shape[-1])


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    _, parts, ctx.form, *bias = inputs
    ctx.save_for_backward(*parts)
    ctx.bias = bias[0].dtype if bias and bias[0] is not None else None


def _gradient(ctx: Any, grad: Any) -> Any:
    (to_x, *_, to_bias), parts = ctx.needs_input_grad, list(ctx.saved_tensors)
    of_x = torch.ops.restride.quantized_linear_gradient(grad, parts, ctx.form) if to_x else None
    of_bias = grad.reshape(-1, grad.shape[-1]).sum(0, dtype=ctx.bias) if ctx.bias and to_bias else None
    return of_x, [None] * len(parts), None, of_bias


def _second_gradient(ctx: Any, grad: Any) -> Any:
    parts = list(ctx.saved_tensors)
    return torch.ops.restride.quantized_linear(grad, parts, ctx.form, None), [None] * len(parts), None


def _new(axis: int) -> Callable[..., Any]:
    def new(x: Any, parts: Any, form: str, bias: Any = None) -> Any:
        return x.new_empty((*x.shape[:-1], descs_of_form(form)["values"].dims[axis]))

    return new


for _operator in (
    Operator(
        "quantized_linear",
        "(Tensor x, Tensor[] parts, str form, Tensor? bias) -> Tensor",
        *(_linear, _new(1), _keep, _gradient),
    ),
    Operator(
        "quantized_linear_gradient",
        "(Tensor grad, Tensor[] parts, str form) -> Tensor",
        *(_linear_gradient, _new(0), _keep, _second_gradient),
    ),
):
    _operator.register()


# --- modules ------------------------------------------------------------------------------------------------


class QuantizedLinear(torch.nn.Module):  # type: ignore[misc]
    """A linear layer with quantized weights: `x @ weight.T + bias`, with gradients of `x` and the bias.

    weight  a `rs.QuantizedTensor` (outputs, inputs), as `rs.quantize` or a GGUF file provides it
    bias    (outputs), or None
    fpmath_mode  as in `rs.matmul`

    Accepts f32, bf16 and f16, and returns the type of `x`. Weights are byte buffers: they have no gradient,
    and `module.to(dtype)` affects only the bias. `form` lists them, with the dims of the product.
    """

    in_features: int
    out_features: int
    form: str

    def __init__(
        self, weight: QuantizedTensor, bias: torch.Tensor | None = None, fpmath_mode: str = "strict"
    ) -> None:
        super().__init__()
        if not isinstance(weight, QuantizedTensor) or len(weight.dims) != _MATRIX:
            raise refuse("RS-A17:no-quantized-matrix", weight=short_repr(weight))
        is_parameter = bias is None or isinstance(bias, torch.nn.Parameter)
        self.register_parameter("bias", bias if is_parameter else torch.nn.Parameter(bias))
        self.out_features, self.in_features = weight.dims
        like = torch.empty(0) if bias is None else bias
        _hold(self, _parts_of(weight, fpmath_mode), fpmath_mode, like)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the product plus bias."""
        x = tensor_of(x)
        parts, bias = [self._buffers[name] for name in self._names], self.bias
        product = torch.ops.restride.quantized_linear
        if is_plain(x) and not (bias is not None and bias.requires_grad and torch.is_grad_enabled()):
            product = _linear  # avoids torch's dispatch
        else:
            refuse_transforms("QuantizedLinear", x, bias)
            for name, part in zip(self._names, () if x.is_meta else parts, strict=False):
                _check_part(name, part)
        result: torch.Tensor = product(x, parts, self.form, bias)
        return result

    @property
    def quantized(self) -> QuantizedTensor:
        """The weights (inputs, outputs) over the bytes of the buffers."""
        return _weights([self._buffers[name] for name in self._names], self.form, keeps=True)

    @property
    def weight(self) -> torch.Tensor:
        """The real numbers (outputs, inputs) that the weights represent, computed on each access."""
        return to_torch(self.quantized.dequantize(dst="ba").T.to_numpy()).to(self._like.dtype)

    def get_extra_state(self) -> torch.Tensor:
        """Return the form as bytes, for the state dict."""
        return torch.tensor(list(self.form.encode()), dtype=torch.uint8, device="cpu")

    def set_extra_state(self, state: torch.Tensor) -> None:
        """Check the form, and copy bytes whose offset in a file is not aligned to four bytes.

        Raises InvalidArguments for the state of weights with another quantization.
        """
        found = bytes(state.tolist()).decode(errors="replace")
        if found != self.form:
            raise refuse("RS-A17:quantized-otherwise", found=short_repr(found), form=self.form)
        for name in self._names:
            part = self._buffers[name]
            self._buffers[name] = part.clone() if part.data_ptr() % 4 else part

    def extra_repr(self) -> str:
        """Return the text in the module's repr."""
        sizes = f"in_features={self.in_features}, out_features={self.out_features}"
        return f"{sizes}, bias={self.bias is not None}, {self.form.removeprefix('strict: ')}"


def _hold(module: Any, parts: dict[str, Memory], mode: str, like: torch.Tensor) -> None:
    """Add the buffers of its weights to a module, on the device of a tensor.

    An empty buffer follows the module's type, starting with that of the tensor.
    """
    module.form = form_of_descs({name: part.desc for name, part in parts.items()}, mode)
    module._names = [_PREFIX + name for name in parts]
    for name, part in parts.items():
        data = np.asarray(part.data).view(np.uint8)[: part.desc.size]
        module.register_buffer(_PREFIX + name, torch.tensor(data, device=like.device))
    module.register_buffer("_like", torch.empty(0, dtype=like.dtype), persistent=False)


def quantize_layers(
    model: torch.nn.Module, dtype: Any, filter_fn: Any, how: dict[str, Any], mode: str
) -> None:
    """Replace linear layers of a model by quantized ones, all or none: the modules stay and change class.

    `how`: arguments of `rs.quantize`.
    """
    if not isinstance(model, torch.nn.Module):
        raise refuse("RS-V08:no-module", type=type(model).__name__)
    if type(dtype).__module__.startswith("torchao") or plain_text(dtype) in _OF_TORCHAO:
        raise refuse("RS-A17:torchao", name=short_repr(dtype))
    layers = []
    for name, module in model.named_modules():
        if not isinstance(module, torch.nn.Linear):
            continue
        is_right = _is_plain_linear(module)
        if is_right if filter_fn is None else filter_fn(module, name):
            if not is_right:
                raise refuse("RS-A17:no-plain-linear", name=name, type=type(module).__name__)
            layers.append((module, _parts_of(_quantized(_values(module.weight), dtype, how), mode)))
    while layers:
        module, parts = layers.pop()
        weight = module._parameters.pop("weight")
        module.__dict__.pop("_packed", None)
        module.__class__ = QuantizedLinear
        _hold(module, parts, mode, weight)


def _quantized(x: Any, dtype: Any, how: dict[str, Any]) -> QuantizedTensor:
    """Quantize as `rs.quantize` does, with a scale for each row if there is no group; also ggml's blocks."""
    name = plain_text(dtype)
    is_of_rows = how["group"] is None and name not in {*NAMED, *GGML_BLOCKS, *WHOLE_BLOCKS}
    result: QuantizedTensor = quantize(x, dtype, **how | ({"group": 0} if is_of_rows else {}))
    return result


def _is_plain_linear(module: Any) -> bool:
    """Return True for a linear layer of torch or restride whose weight is a non-empty parameter.

    Others compute with their weight differently, or share it with other code.
    """
    weight = module._parameters.get("weight")
    return type(module) in (torch.nn.Linear, Linear) and weight is not None and weight.numel() > 0


def _values(weight: torch.Tensor) -> Any:
    """Return the numbers of a weight; zeros on the meta device, whose numbers are loaded later."""
    check_device(weight)
    return array_of(torch.zeros(weight.shape, device="cpu") if weight.is_meta else weight)
