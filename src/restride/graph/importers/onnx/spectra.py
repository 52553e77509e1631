"""ONNX's DFT and STFT: for short transforms, products with tables of cosines and sines.

The last axis of a tensor has the real part, or both parts, of a complex number. A transform is one product:
of all parts of the points with a table of as many rows, whose columns are both parts of each frequency.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Annotated

import numpy as np

from ....model.result_dims import Misfit
from ....runtime.alloc import Array
from ..operator_call import ONNX, OperatorCall, Tensor, Value
from .known import axis_of

# A larger table costs more than it saves: such transforms are refused.
_LARGEST_TABLE = 1 << 22


@dataclass(frozen=True, slots=True)
class _FourierTransform:
    """The number of points of a signal, whether they are complex, and the attributes of the operators."""

    length: int
    is_complex: bool
    is_inverse: bool = False
    is_onesided: bool = False

    @property
    def bins(self) -> int:
        """Number of points or frequencies of the result."""
        return self.length // 2 + 1 if self.is_onesided and not self.is_inverse else self.length

    @property
    def parts(self) -> int:
        """Number of parts of a result: an inverse one-sided transform is real."""
        return 1 if self.is_onesided and self.is_inverse else 2

    def table(self, points: int, kind: np.dtype[np.floating]) -> Array:
        """Return the matrix by which the interleaved parts of `points` points are multiplied."""
        turns = np.outer(np.arange(points), np.arange(self.bins)) % self.length / self.length
        waves = np.exp((2j if self.is_inverse else -2j) * np.pi * turns)
        if self.is_inverse:
            waves /= self.length
        if self.parts == 1:
            # The other side of the spectrum is the conjugate of this one; the ends occur once.
            sides = np.full(points, 2.0)
            sides[self.length // 2 :] = 2 - (self.length + 1) % 2
            sides[0] = 1
            waves *= sides[:, np.newaxis]
        rows = np.stack([waves, 1j * waves][: 1 + self.is_complex], 1)
        columns = np.stack([rows.real, rows.imag][: self.parts], -1)
        return np.ascontiguousarray(columns.reshape(points * rows.shape[1], -1), kind)

    def of(self, call: OperatorCall, x: Value, points: int) -> Value:
        """Transform the second-to-last axis, of `points` points."""
        dims = call.dims(x)
        if prod((points, dims[-1], self.bins, self.parts)) > _LARGEST_TABLE:
            raise call.unimplemented(f"it transforms {points} points", "transform fewer points at once")
        if call.numpy_type(x).kind != "f":
            raise call.unimplemented(f"it transforms {call.type_of(x)}", "cast to f32 first")
        rows = call.reshaped(x, (*dims[:-2], dims[-2] * dims[-1]))
        made = call.with_outputs(0).onnx("MatMul", rows, self.table(points, call.numpy_type(x)))
        return call.reshaped(made, (*dims[:-2], self.bins, self.parts))


@ONNX("DFT")
def _dft(
    call: OperatorCall,
    x: Tensor,
    dft_length: Annotated[int, "the length"] | None = None,
    axis: Annotated[int, "the axis"] | None = None,
    *,
    inverse: bool = False,
    onesided: bool = False,
) -> Value:
    """Before version 20 the axis is an attribute, by default 1."""
    dims, apart = call.dims(x), call.with_outputs(0)
    axis, parts = axis_of((1 if call.opset < 20 else -2) if axis is None else axis, len(dims)), dims[-1]
    if parts not in (1, 2) or axis == len(dims) - 1:
        raise Misfit(f"dims {dims} lack the parts of complex numbers after axis {axis}")
    length = dft_length
    if length is None:
        length = 2 * (dims[axis] - 1) if inverse and onesided else dims[axis]
    form = _FourierTransform(length, parts == 2, inverse, onesided)
    points = min(dims[axis], length // 2 + 1 if form.parts == 1 else length)
    if points < 1:
        raise Misfit(f"it cannot transform {dims[axis]} points to {length}")
    order = [*(at for at in range(len(dims)) if at not in (axis, len(dims) - 1)), axis, len(dims) - 1]
    front = apart.transposed(apart.onnx("Slice", x, (0,), (points,), (axis,)), order)
    return apart.transposed(form.of(apart, front, points), np.argsort(order).tolist())


@ONNX("STFT")
def _stft(
    call: OperatorCall,
    signal: Tensor,
    frame_step: Annotated[int, "the step"],
    window: Value | None = None,
    frame_length: Annotated[int, "the length"] | None = None,
    *,
    onesided: bool = True,
) -> Value:
    """Transform each frame, multiplied by the window."""
    apart, dims = call.with_outputs(0), call.dims(signal)
    signal = signal if len(dims) == 3 else call.reshaped(signal, (*dims, 1))
    dims = call.dims(signal)
    length = frame_length or (call.dims(window)[0] if window is not None else 0)
    if len(dims) != 3 or dims[2] not in (1, 2) or not 0 < length <= dims[1] or frame_step < 1:
        raise Misfit(f"frames of {length} every {frame_step} do not fit a signal of dims {dims}")
    if window is not None and call.dims(window) != (length,):
        raise Misfit(f"a window of {call.dims(window)} does not fit frames of {length}")
    starts = np.arange(0, dims[1] - length + 1, frame_step)
    frames = apart.onnx("Gather", signal, starts[:, np.newaxis] + np.arange(length), axis=1)
    if window is not None:
        frames = apart.onnx("Mul", frames, apart.reshaped(window, (length, 1)))
    return _FourierTransform(length, dims[2] == 2, is_onesided=onesided).of(apart, frames, length)
