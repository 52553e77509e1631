"""Recurrent networks of a real oneDNN: forward inference, by its C API."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

from .onednn import OneDNN, OneDNNDesc, OneDNNPrimitive
from .onednn_attr import OneDNNAttributes

__all__ = ["OneDNNNetworks"]

_INFERENCE, _LEFT_TO_RIGHT, _TANH, _NO_FLAGS = 96, 1, 0x21, 0
_QUERY_WEIGHTS = 131
_STATES = ("src_layer", "src_iter")
_OTHERS = ("weights_layer", "weights_iter", "bias", "dst_layer", "dst_iter")


class OneDNNNetworks(OneDNN):
    """The library, with primitives of recurrent networks."""

    def quantised(self, scale: float, shift: float, weights_scale: float) -> OneDNNAttributes:
        """Attributes of a network of bytes: how data and weights were quantised."""
        made = OneDNNAttributes.new(self)
        self._check(
            "dnnl_primitive_attr_set_rnn_data_qparams",
            made.pointer,
            ctypes.c_float(scale),
            ctypes.c_float(shift),
        )
        scales = (ctypes.c_float * 1)(weights_scale)
        count = ctypes.c_int64(1)
        self._check("dnnl_primitive_attr_set_rnn_weights_qparams", made.pointer, count, 0, scales)
        return made

    def recurrent(
        self, cell: str, descs: Mapping[str, OneDNNDesc], attr: OneDNNAttributes | None = None
    ) -> tuple[OneDNNPrimitive, dict[str, OneDNNDesc]]:
        """A network of one direction, and the formats that it has chosen for weights.

        `cell`: "vanilla_rnn", "vanilla_lstm" and so on; `descs`: of all tensors, by their names in restride.
        """
        is_lstm = cell == "vanilla_lstm"
        names = [*_STATES, *["src_iter_c"] * is_lstm, *_OTHERS[:2], *[""] * (2 * is_lstm), *_OTHERS[2:]]
        names += ["dst_iter_c"] * is_lstm
        pointers = [descs[name].pointer if name else None for name in names]
        function = [_TANH] if cell == "vanilla_rnn" else []
        slopes = [ctypes.c_float(0), ctypes.c_float(0)] if cell == "vanilla_rnn" else []
        call = f"dnnl_{cell.replace('vanilla_lstm', 'lstm').replace('vanilla_gru', 'gru')}_forward"
        how = (_INFERENCE, *function, _LEFT_TO_RIGHT)
        chosen = self._chosen(
            f"{call}_primitive_desc_create",
            self.engine,
            *how,
            *pointers,
            _NO_FLAGS,
            *slopes,
            attr and attr.pointer,
        )
        query = self.library.dnnl.dnnl_primitive_desc_query_md
        query.restype = ctypes.c_void_p
        found = {}
        for at, name in enumerate(("weights_layer", "weights_iter")):
            new = ctypes.c_void_p()
            md = ctypes.c_void_p(query(chosen.pointer, _QUERY_WEIGHTS, at))
            self._check("dnnl_memory_desc_clone", ctypes.byref(new), md)
            found[name] = OneDNNDesc(self.library, "memory_desc", new)
        return self._primitive(OneDNNPrimitive, chosen), found
