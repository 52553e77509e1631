"""Attributes of a real oneDNN (`dnnl_primitive_attr_t`)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from restride import DataType

from .onednn import Handle, OneDNN, int64s


class OneDNNAttributes(Handle):
    """Primitive attributes (`dnnl_primitive_attr_t`)."""

    @classmethod
    def new(cls, library: OneDNN) -> OneDNNAttributes:
        """Attributes that change nothing."""
        made = ctypes.c_void_p()
        library.library.check("dnnl_primitive_attr_create", ctypes.byref(made))
        return cls(library.library, "primitive_attr", made)

    def set(self, what: str, arg: int, mask: int, groups: Sequence[int], data_type: DataType) -> None:
        """`what` is "scales" or "zero_points"."""
        shared = len(groups), int64s(groups) if groups else None
        self.library.check(
            f"dnnl_primitive_attr_set_{what}", self.pointer, arg, mask, *shared, data_type.value
        )

    def set_sum(self, scale: float, zero_point: int, data_type: DataType | None) -> None:
        """A chain of one sum."""
        made = ctypes.c_void_p()
        self.library.check("dnnl_post_ops_create", ctypes.byref(made))
        chain = Handle(self.library, "post_ops", made)
        kind = 0 if data_type is None else data_type.value
        self.library.check("dnnl_post_ops_append_sum", made, ctypes.c_float(scale), zero_point, kind)
        self.library.check("dnnl_primitive_attr_set_post_ops", self.pointer, chain.pointer)

    def append(self, *ops: tuple[str, Any]) -> int:
        """The status of a chain with these: ("eltwise", number) or ("binary", desc)."""
        made = ctypes.c_void_p()
        self.library.check("dnnl_post_ops_create", ctypes.byref(made))
        chain = Handle(self.library, "post_ops", made)
        for kind, what in ops:
            if kind == "eltwise":
                numbers = ctypes.c_float(0.0), ctypes.c_float(0.0)
                self.library.check("dnnl_post_ops_append_eltwise", made, what, *numbers)
            else:
                self.library.check("dnnl_post_ops_append_binary", made, what[0], what[1].pointer)
        return int(self.library.dnnl.dnnl_primitive_attr_set_post_ops(self.pointer, chain.pointer))
