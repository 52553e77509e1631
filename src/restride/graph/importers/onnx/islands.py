"""Islands: nodes of an ONNX model that another library runs, between parts that are networks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from ....errors import Error, refuse
from ....runtime.cpu.thread_pool import get_num_threads
from .functions import node_proto
from .model import OnnxModel

__all__ = ["Island", "IslandInput", "check_packages", "model_bytes"]

_PACKAGES = ("onnx", "onnxruntime")
_FATAL_ALONE, _MOST_SHOWN = 4, 8


def check_packages() -> None:
    """Raise RuntimeFailure if a package that islands need is missing."""
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise refuse("RS-G04:fallback", missing=" and ".join(missing), packages=" ".join(missing))


@dataclass(frozen=True, slots=True)
class IslandInput:
    """An input of an island: type and extents (None if open) of an array; otherwise `kind` has its type in
    onnxruntime's words or the bytes of the model.
    """

    dims: tuple[int | None, ...] | None
    dtype: np.dtype[Any] | None
    kind: str | bytes | memoryview

    @classmethod
    def of(cls, x: Any, kind: str | bytes | memoryview, is_fixed: bool) -> IslandInput:
        """Return the input that `x` is an example of; `is_fixed`: other dims never come."""
        if not isinstance(x, np.ndarray):
            return cls(None, None, kind)
        return cls(x.shape if is_fixed else (None,) * x.ndim, x.dtype, kind)


class Island:
    """Nodes of a model run by onnxruntime on the CPU, with restride's number of threads at creation. All
    tensors of the model are constants of the island.
    """

    def __init__(self, model: OnnxModel, inputs: Mapping[str, IslandInput]) -> None:
        self._nodes, self._outputs = model.nodes, list(model.outputs)
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = get_num_threads(), 1
        options.log_severity_level = _FATAL_ALONE
        try:
            content = model_bytes(model, inputs)
            self._session = onnxruntime.InferenceSession(content, options, ["CPUExecutionProvider"])
        except Exception as error:  # the packages' errors have no common base class
            raise self._refusal(error) from None
        self.types = {made.name: made.type for made in self._session.get_outputs()}

    def __call__(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """Run the nodes on these tensors; returns arrays of onnxruntime's memory, and lists."""
        try:
            results = self._session.run(self._outputs, dict(tensors))
        except Exception as error:
            raise self._refusal(error) from None
        pairs = zip(self._outputs, results, strict=True)
        return {name: np.asarray(x) if isinstance(x, np.generic) else x for name, x in pairs}

    def _refusal(self, error: Exception) -> Error:
        reason = " ".join(str(error).split())[:300]
        names = [str(node) for node in self._nodes]
        nodes = ", ".join(names[:_MOST_SHOWN]) + ", ..." * (len(names) > _MOST_SHOWN)
        return refuse("RS-G06:onnxruntime", nodes=nodes, reason=reason)


def model_bytes(model: OnnxModel, inputs: Mapping[str, IslandInput]) -> bytes:
    """Return the bytes of a model with these inputs."""
    import onnx
    from onnx import helper, numpy_helper

    infos = [_info(name, each) for name, each in inputs.items()]
    constants = [numpy_helper.from_array(x, name) for name, x in model.tensors.items()]
    protos = [onnx.NodeProto.FromString(bytes(node.content) or node_proto(node)) for node in model.nodes]
    results = [onnx.ValueInfoProto(name=name) for name in model.outputs]
    graph = helper.make_graph(protos, "island", infos, results, constants)
    versions = {domain: n for domain, n in model.versions.items() if domain != "format"}
    whole = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid(domain, version) for domain, version in versions.items()],
        functions=[
            onnx.FunctionProto.FromString(bytes(each.content)) for each in (model.functions or {}).values()
        ],
        ir_version=model.versions["format"],
    )
    return bytes(whole.SerializeToString())


def _info(name: str, each: IslandInput) -> Any:
    import onnx
    from onnx import helper

    kind, dtype = each.kind, each.dtype
    proto = _proto_of(kind) if isinstance(kind, str) else onnx.TypeProto.FromString(bytes(kind))
    if dtype is None or proto.WhichOneof("value") not in (None, "tensor_type"):
        return helper.make_value_info(name, proto)
    is_text = dtype.kind in "OUS"
    number = onnx.TensorProto.STRING if is_text else helper.np_dtype_to_tensor_dtype(dtype)
    return helper.make_tensor_value_info(name, number, each.dims)


def _proto_of(words: str) -> Any:
    """Return the type described by words such as `seq(tensor(float))`; an empty one for an empty string."""
    import onnx
    from onnx import helper

    kind, _, rest = words.partition("(")
    inner = rest[:-1]
    if not words:
        return onnx.TypeProto()
    if kind == "seq":
        return helper.make_sequence_type_proto(_proto_of(inner))
    if kind == "optional":
        return helper.make_optional_type_proto(_proto_of(inner))
    return helper.make_tensor_type_proto(onnx.TensorProto.DataType.Value(inner.upper()), None)
