"""Nodes of an ONNX model that another library runs: islands between the parts that are networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from ....errors import Error, refuse
from ....runtime.cpu.thread_pool import get_num_threads
from .model import OnnxModel, OnnxNode

__all__ = ["Island", "check_packages"]

_PACKAGES = ("onnx", "onnxruntime")
_FATAL_ALONE, _MOST_SHOWN = 4, 8


def check_packages() -> None:
    """Raise RuntimeFailure where a package is missing that islands need."""
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise refuse("RS-G04:fallback", missing=" and ".join(missing), packages=" ".join(missing))


class Island:
    """Nodes that onnxruntime runs on the CPU, on as many threads as restride has when it is made.

    `tensors`: examples of what it reads; others of the same types may come, of any extents.
    """

    def __init__(
        self,
        model: OnnxModel,
        nodes: Sequence[OnnxNode],
        tensors: Mapping[str, Any],
        types: Mapping[str, str | memoryview],
        outputs: Sequence[str],
    ) -> None:
        self._nodes, self._outputs = nodes, list(outputs)
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = get_num_threads(), 1
        options.log_severity_level = _FATAL_ALONE
        try:
            content = _model_of(model, nodes, tensors, types, outputs)
            self._session = onnxruntime.InferenceSession(content, options, ["CPUExecutionProvider"])
        except Exception as error:  # the errors of both packages have no root of their own
            raise self._refusal(error) from None
        self.types = {made.name: made.type for made in self._session.get_outputs()}

    def __call__(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """What the nodes make of these tensors: arrays of memory that onnxruntime holds, and lists."""
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
        return refuse("RS-G06:onnxruntime", nodes=nodes, type=type(error).__name__, reason=reason)


def _model_of(
    model: OnnxModel,
    nodes: Sequence[OnnxNode],
    tensors: Mapping[str, Any],
    types: Mapping[str, str | memoryview],
    outputs: Sequence[str],
) -> bytes:
    """The bytes of a model of these nodes, which has their constants in it."""
    import onnx
    from onnx import helper, numpy_helper

    read = frozenset[str]().union(*(node.reads() for node in nodes))
    inputs = [_info(name, x, types.get(name, "")) for name, x in tensors.items()]
    constants = [numpy_helper.from_array(x, name) for name, x in model.tensors.items() if name in read]
    protos = [onnx.NodeProto.FromString(bytes(node.content)) for node in nodes]
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(protos, "island", inputs, results, constants)
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


def _info(name: str, x: Any, kind: str | memoryview) -> Any:
    """The description of an input of an island: of an array by itself, else by its type in the model, or in
    onnxruntime's words.
    """
    import onnx
    from onnx import helper

    proto = _proto_of(kind) if isinstance(kind, str) else onnx.TypeProto.FromString(bytes(kind))
    if proto.WhichOneof("value") in (None, "tensor_type") and isinstance(x, np.ndarray):
        number = (
            helper.np_dtype_to_tensor_dtype(x.dtype) if x.dtype.kind not in "OUS" else onnx.TensorProto.STRING
        )
        return helper.make_tensor_value_info(name, number, [None] * x.ndim)
    return helper.make_value_info(name, proto)


def _proto_of(words: str) -> Any:
    """The type of words such as `seq(tensor(float))`; an empty one of ""."""
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
