"""Vectors under guards whose last lanes are behind the end of an axis: `python -m support.guarded_tails`.

Each memory ends, or begins, at a page that is not touched.
"""

from __future__ import annotations

import ctypes

import numpy as np

import restride as rs
from support.guarded import Guarded

_CPU = rs.Engine("cpu")


def _convolution() -> rs.ConvolutionForward.PrimitiveDesc:
    """Windows that are wider than vectors of the axis they move along, and reach out of it."""
    x, w = rs.MemoryDesc((1, 10, 10), "f32", "abc"), rs.MemoryDesc((5, 2, 2, 13), "f32", "abcd")
    y = rs.MemoryDesc((1, 10, 6), "f32", "acb")
    return rs.ConvolutionForward.PrimitiveDesc(
        _CPU, "forward_training", "convolution_direct", x, w, y, (1,), (4,), (4,)
    )


def main() -> None:
    """Run all of them at both ends."""
    for pd in (_convolution(), _convolution().scheduled("1.vectorize(k0/1, 8)")):
        for at_end in (True, False):
            descs = {arg: pd.query_md("exec_arg_md", arg) for arg in (rs.ARG_SRC, rs.ARG_WEIGHTS, rs.ARG_DST)}
            held = {arg: Guarded(md.size, at_end=at_end) for arg, md in descs.items()}
            arrays = {
                arg: np.ctypeslib.as_array((ctypes.c_uint8 * md.size).from_address(held[arg].address))
                for arg, md in descs.items()
            }
            memories = {arg: rs.Memory(md, _CPU, arrays[arg]) for arg, md in descs.items()}
            rs.ConvolutionForward(pd).execute(rs.Stream(_CPU), memories)
    print("done")


if __name__ == "__main__":
    main()
