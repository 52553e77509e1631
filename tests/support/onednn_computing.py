"""The computing primitives of a real oneDNN, for cases of the driver: every tensor row-major."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

import restride as rs
from restride.dtypes import DataType
from restride_bench.driver.cases import Case
from restride_bench.driver.fill import Array, rounded
from restride_bench.driver.operands import CaseOperand
from restride_bench.driver.work import CaseWork
from restride_bench.onednn import Handle, OneDNN, OneDNNDesc, OneDNNMemory, OneDNNPrimitive, int64s

_QUERY_WORKSPACE = 135
_FORWARD_TRAINING, _FORWARD_INFERENCE, _BACKWARD, _BACKWARD_DATA = 64, 96, 128, 160
_DIRECT = {"conv": 1, "deconv": 10}
_ELTWISE = (
    *("relu", "tanh", "elu", "square", "abs", "sqrt", "linear", "soft_relu", "hardsigmoid", "logistic"),
    *("exp", "gelu_tanh", "swish", "log", "clip", "clip_v2", "pow", "gelu_erf", "round", "mish", "hardswish"),
)
_ELTWISE_DST = ("relu", "tanh", "elu", "sqrt", "logistic", "exp", "clip_v2")
_BINARY = ("add", "mul", "max", "min", "div", "sub", "ge", "gt", "le", "lt", "eq", "ne", "select")
_REDUCTION = (
    *("max", "min", "sum", "mul", "mean", "norm_lp_max", "norm_lp_sum"),
    *("norm_lp_power_p_max", "norm_lp_power_p_sum"),
)
_OTHERS = {
    "max": 0x1FF,
    "avg_p": 0x2FF,
    "avg_np": 0x3FF,
    "ACROSS": 0xAFF,
    "WITHIN": 0xBFF,
    "nearest": 0x2FFF0,
    "linear": 0x2FFF1,
    "SOFTMAX": 0x30000,
    "LOGSOFTMAX": 0x30001,
}
_FLAGS = {"G": 1, "C": 2, "H": 4, "R": 8, "A": 16, "M": 32}
_PAIRS = ((rs.ARG_SRC, rs.ARG_DIFF_SRC), (rs.ARG_DST, rs.ARG_DIFF_DST))
_TENSORS = (_PAIRS[0], (rs.ARG_WEIGHTS, rs.ARG_DIFF_WEIGHTS), _PAIRS[1])


def eltwise_number(alg: str) -> int:
    """oneDNN's number of an eltwise algorithm."""
    if alg.endswith("_dst"):
        return 0x100 + _ELTWISE_DST.index(alg.removesuffix("_dst"))
    return 0x20 + _ELTWISE.index(alg)


class ComputingOneDNN(OneDNN):
    """The library with the primitives that compute."""

    _attr: Handle | None = None

    def answers(self, case: Case, work: CaseWork, shapes: Mapping[int, rs.MemoryDesc]) -> dict[int, Array]:
        """Return the results of the case, by argument, in logical order. `shapes`: the descriptors.

        Raises OneDNNError for what the library has not.
        """
        descs = {arg: self._plain(md) for arg, md in shapes.items()}
        self._attr = self._attributes(case)
        forward, made = self._created(case, descs)
        memories = {one.arg: self._filled(one, descs) for one in work.reads}
        if case.has_sum:
            memories[work.dst.arg] = self._filled(work.dst, descs)
        for one in work.writes:
            if one.arg != rs.ARG_WORKSPACE:
                memories.setdefault(one.arg, self.memory(descs[one.arg]))
        workspace = self._workspace(forward)
        if workspace is not None:
            memories[rs.ARG_WORKSPACE] = self.memory(workspace)
        if workspace is not None and forward is not made:
            self._run(forward, self._forward_memories(case, memories, descs))
        self._run(made, memories)
        return {
            one.arg: self._logical(memories[one.arg], shapes[one.arg])
            for one in work.writes
            if one.arg != rs.ARG_WORKSPACE
        }

    def _attributes(self, case: Case) -> Handle | None:
        """The sums and functions of a chain."""
        if not case.attr_post_ops:
            return None
        attr, ops = ctypes.c_void_p(), ctypes.c_void_p()
        self._check("dnnl_primitive_attr_create", ctypes.byref(attr))
        self._check("dnnl_post_ops_create", ctypes.byref(ops))
        made, chain = Handle(self.library, "primitive_attr", attr), Handle(self.library, "post_ops", ops)
        for op in case.attr_post_ops:
            first, second = (ctypes.c_float(op.number(i, float(op.name == "sum" and i == 0))) for i in (0, 1))
            if op.name == "sum":
                self._check("dnnl_post_ops_append_sum", ops, first, int(op.number(1, 0)), 0)
            else:
                self._check("dnnl_post_ops_append_eltwise", ops, eltwise_number(op.name), first, second)
        self._check("dnnl_primitive_attr_set_post_ops", attr, chain.pointer)
        return made

    def _chosen(self, call: str, *arguments: Any) -> Handle:
        """A primitive descriptor; the last argument stands for the attributes."""
        last = arguments[-1] if self._attr is None else self._attr.pointer
        return super()._chosen(call, *arguments[:-1], last)

    def _forward_memories(
        self, case: Any, memories: Mapping[int, OneDNNMemory], descs: Mapping[int, OneDNNDesc]
    ) -> dict[int, OneDNNMemory]:
        """The memories of the forward step that leaves a workspace: of a maximum, whose source the driver
        makes; of others the source is read backward too.
        """
        if rs.ARG_SRC in memories:
            src = memories[rs.ARG_SRC]
        else:
            md = rs.MemoryDesc(case.src_dims, case.dt[0])
            src = self.memory(self._plain(md))
            src.bytes[...] = _stored(case.values("src"), md.data_type)
        dst = self.memory(descs[rs.ARG_DIFF_DST])
        return {rs.ARG_SRC: src, rs.ARG_DST: dst, rs.ARG_WORKSPACE: memories[rs.ARG_WORKSPACE]}

    def _plain(self, md: rs.MemoryDesc) -> OneDNNDesc:
        strides = [prod(md.dims[i + 1 :]) for i in range(md.ndims)]
        return self.desc(md.dims, md.data_type.name, strides)

    def _filled(self, one: CaseOperand, descs: Mapping[int, OneDNNDesc]) -> OneDNNMemory:
        memory = self.memory(descs[one.arg])
        values = _elements(one)
        memory.bytes[...] = _stored(values, one.md.data_type)
        return memory

    def _logical(self, memory: OneDNNMemory, md: rs.MemoryDesc) -> Array:
        return np.array(memory.bytes.view(md.data_type.numpy).reshape(md.dims))

    def _workspace(self, pd: Handle) -> OneDNNDesc | None:
        query = self.library.dnnl.dnnl_primitive_desc_query_md
        query.restype = ctypes.c_void_p
        found, new = query(pd.pointer, _QUERY_WORKSPACE, 0), ctypes.c_void_p()
        if not found:
            return None
        self._check("dnnl_memory_desc_clone", ctypes.byref(new), ctypes.c_void_p(found))
        made = OneDNNDesc(self.library, "memory_desc", new)
        return made if made.size else None

    def _run(self, pd: Handle, memories: dict[int, OneDNNMemory]) -> None:
        self._primitive(OneDNNPrimitive, pd).bind_all(memories)()

    # --- one primitive descriptor each; forward, which may be a hint, and the one that is run --------------

    def _created(self, case: Any, descs: Mapping[int, OneDNNDesc]) -> tuple[Handle, Handle]:
        make = getattr(self, f"_{case.driver}", None) or self._norm
        found = make(case, {arg: desc.pointer for arg, desc in descs.items()})
        return found if isinstance(found, tuple) else (found, found)

    def _both(
        self, case: Any, name: str, forward: Sequence[Any], backward: Sequence[Any]
    ) -> tuple[Handle, Handle]:
        """The forward step, and the backward one for which it is a hint."""
        kind = _FORWARD_INFERENCE if case.dir == "FWD_I" else _FORWARD_TRAINING
        first = self._chosen(f"dnnl_{name}_forward_primitive_desc_create", self.engine, kind, *forward, None)
        if case.dir.startswith("FWD"):
            return first, first
        call = f"dnnl_{name}_backward_primitive_desc_create"
        return first, self._chosen(call, self.engine, *backward, first.pointer, None)

    def _eltwise(self, case: Any, md: Mapping[int, Any]) -> tuple[Handle, Handle]:
        alg = eltwise_number(case.alg)
        numbers = ctypes.c_float(case.alpha), ctypes.c_float(case.beta)
        data = md.get(rs.ARG_SRC) or md[rs.ARG_DST]
        dst = md.get(rs.ARG_DST) or md[rs.ARG_DIFF_DST]
        src = md.get(rs.ARG_SRC) or md[rs.ARG_DST]
        gradient = md.get(rs.ARG_DIFF_SRC), md.get(rs.ARG_DIFF_DST)
        return self._both(case, "eltwise", (alg, src, dst, *numbers), (alg, *gradient, data, *numbers))

    def _softmax(self, case: Any, md: Mapping[int, Any]) -> tuple[Handle, Handle]:
        alg = _OTHERS[case.alg]
        src, dst = md.get(rs.ARG_SRC) or md.get(rs.ARG_DIFF_SRC), md[rs.ARG_DST]
        gradients = md.get(rs.ARG_DIFF_SRC), md.get(rs.ARG_DIFF_DST)
        return self._both(case, "softmax", (alg, src, dst, case.axis), (alg, *gradients, dst, case.axis))

    def _prelu(self, case: Any, md: Mapping[int, Any]) -> tuple[Handle, Handle]:
        src, weights = md[rs.ARG_SRC], md[rs.ARG_WEIGHTS]
        dst = md.get(rs.ARG_DST) or md[rs.ARG_DIFF_DST]
        gradients = [md.get(arg) for arg in (rs.ARG_DIFF_SRC, rs.ARG_DIFF_WEIGHTS, rs.ARG_DIFF_DST)]
        return self._both(case, "prelu", (src, weights, dst), (src, weights, *gradients))

    def _resampling(self, case: Any, md: Mapping[int, Any]) -> tuple[Handle, Handle]:
        alg = _OTHERS[case.alg]
        src, dst = (md.get(arg) or md.get(other) for arg, other in _PAIRS)
        return self._both(case, "resampling", (alg, None, src, dst), (alg, None, src, dst))

    def _pool(self, case: Any, md: Mapping[int, Any]) -> tuple[Handle, Handle]:
        strides, kernel, dilation, left, right = map(int64s, case.windows)
        alg = _OTHERS[case.alg]
        src, dst = (md.get(arg) or md.get(other) for arg, other in _PAIRS)
        both = alg, src, dst, strides, kernel, dilation, left, right
        return self._both(case, "pooling", both, both)

    def _lrn(self, case: Any, md: Mapping[int, Any]) -> tuple[Handle, Handle]:
        alg, src = _OTHERS[case.alg], md[rs.ARG_SRC]
        size, *numbers = case.numbers
        last = ctypes.c_int64(size), *map(ctypes.c_float, numbers)
        gradients = md.get(rs.ARG_DIFF_SRC), md.get(rs.ARG_DIFF_DST)
        return self._both(case, "lrn", (alg, src, src, *last), (alg, *gradients, src, *last))

    def _norm(self, case: Any, md: Mapping[int, Any]) -> tuple[Handle, Handle]:
        name = {"bnorm": "batch", "lnorm": "layer", "gnorm": "group"}[case.driver] + "_normalization"
        own: tuple[Any, ...] = (ctypes.c_float(case.eps), sum(_FLAGS[each] for each in case.flags))
        if case.driver == "gnorm":
            own = (ctypes.c_int64(case.groups), *own)
        if case.driver == "lnorm":
            self._statistics = self._plain(rs.MemoryDesc(case.dims[:-1], "f32"))
            own = (self._statistics.pointer, *own)
        src = md[rs.ARG_SRC]
        dst = md.get(rs.ARG_DST) or md[rs.ARG_DIFF_DST]
        kind = _BACKWARD if case.dir == "BWD_DW" else _BACKWARD_DATA
        backward = kind, md.get(rs.ARG_DIFF_SRC), md.get(rs.ARG_DIFF_DST), src, *own
        return self._both(case, name, (src, dst, *own), backward)

    def _binary(self, case: Any, md: Mapping[int, Any]) -> Handle:
        alg = 0x1FFF0 + _BINARY.index(case.operation)
        sources = md[rs.ARG_SRC_0], md[rs.ARG_SRC_1], md[rs.ARG_DST]
        return self._chosen("dnnl_binary_primitive_desc_create", self.engine, alg, *sources, None)

    def _reduction(self, case: Any, md: Mapping[int, Any]) -> Handle:
        numbers = ctypes.c_float(case.p), ctypes.c_float(case.eps)
        both = 0x2FFF2 + _REDUCTION.index(case.alg), md[rs.ARG_SRC], md[rs.ARG_DST]
        return self._chosen("dnnl_reduction_primitive_desc_create", self.engine, *both, *numbers, None)

    def _conv(self, case: Any, md: Mapping[int, Any]) -> tuple[Handle, Handle]:
        return self._product(
            case, md, f"{case.prefix}", (_DIRECT[case.driver],), tuple(map(int64s, case.windows))
        )

    _deconv = _conv

    def _ip(self, case: Any, md: Mapping[int, Any]) -> tuple[Handle, Handle]:
        return self._product(case, md, "inner_product", (), ())

    def _product(
        self, case: Any, md: Mapping[int, Any], name: str, alg: tuple[Any, ...], last: tuple[Any, ...]
    ) -> tuple[Handle, Handle]:
        kind = _FORWARD_INFERENCE if case.dir == "FWD_I" else _FORWARD_TRAINING
        src, weights, dst = (md.get(arg) or md.get(gradient) for arg, gradient in _TENSORS)
        bias = md.get(rs.ARG_BIAS) or md.get(rs.ARG_DIFF_BIAS)
        call = f"dnnl_{name}_{{}}_primitive_desc_create"
        tensors = src, weights, bias, dst
        first = self._chosen(call.format("forward"), self.engine, kind, *alg, *tensors, *last, None)
        if case.is_forward:
            return first, first
        own = (src, weights, dst) if case.propagation == "backward_data" else tensors
        return first, self._chosen(
            call.format(case.propagation), self.engine, *alg, *own, *last, first.pointer, None
        )

    def _matmul(self, case: Any, md: Mapping[int, Any]) -> Handle:
        tensors = md[rs.ARG_SRC], md[rs.ARG_WEIGHTS], md.get(rs.ARG_BIAS), md[rs.ARG_DST]
        return self._chosen("dnnl_matmul_primitive_desc_create", self.engine, *tensors, None)


def _elements(one: CaseOperand) -> Array:
    assert one.values is not None, one.arg
    return one.values()


def _stored(values: Array, data_type: DataType) -> Array:
    return rounded(values, data_type).reshape(-1).view(np.uint8)
