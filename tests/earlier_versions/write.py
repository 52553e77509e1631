"""Writes what later versions must still read: python tests/earlier_versions/write.py FOLDER.

It was run once by each version that has a folder here, and is kept to show what the files hold.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import restride as rs

DIMS = (20, 9, 3, 3)


def weights() -> Any:
    return (np.arange(np.prod(DIMS), dtype=np.float32).reshape(DIMS) % 251 - 125) / 128


def graph() -> rs.graph.Graph:
    """A convolution, a pooling, a sum, means and a softmax."""
    builder = rs.graph.GraphBuilder()
    image = builder.input("image", (2, 9, 12, 12))
    window = rs.graph.ConvolutionOperation(strides=(1, 1), dilates=(0, 0), padding_l=(1, 1), padding_r=(1, 1))
    first = builder.add(window, image, builder.constant(weights()), name="convolution")
    relu = builder.add(rs.graph.EltwiseOperation("eltwise_relu"), first)
    pool = rs.graph.PoolingOperation("pooling_max", (2, 2), (2, 2), (0, 0), (0, 0), (0, 0))
    halved = builder.add(pool, relu)
    twice = builder.add(rs.graph.BinaryOperation("binary_add"), halved, halved)
    means = builder.add(rs.graph.ReductionOperation("reduction_mean", (2, 3)), twice)
    flat = builder.add(rs.graph.ReshapeOperation((2, 20)), means)
    return builder.graph(builder.add(rs.graph.SoftmaxOperation("softmax_accurate", 1), flat, name="scores"))


def image() -> Any:
    return (np.arange(2 * 9 * 12 * 12, dtype=np.float32).reshape(2, 9, 12, 12) % 97 - 48) / 64


def values() -> dict[str, Any]:
    """Pickled objects; each is compared by `repr`, and if possible by equality."""
    attr = rs.PrimitiveAttr()
    attr.set_scales_mask(rs.ARG_SRC, 0)
    attr.set_zero_points_mask(rs.ARG_DST, 0)
    attr.set_scratchpad_mode("user")
    ops = rs.PostOps()
    ops.append_eltwise("eltwise_relu", 0.5, 0.0)
    ops.append_sum(2.0)
    ops.append_binary("binary_add", rs.MemoryDesc((1, 17, 1, 1), "f32"))
    attr.set_post_ops(ops)
    md = rs.MemoryDesc((2, 17, 7, 7), "bf16", "nChw16c")
    window = rs.MemoryDesc((2, 40), "f32", "aB16b").submemory_desc((1, 16), (1, 16))
    engine = rs.Engine("cpu")
    pd = rs.Reorder.PrimitiveDesc(engine, rs.MemoryDesc((2, 17, 7, 7), "f32"), engine, md)
    memory = rs.Memory.from_numpy(weights()).to("OIhw4i16o4i", "s8")
    return {
        "descriptors": [rs.MemoryDesc(), md, window, rs.MemoryDesc((4, 6), "s4", "ba")],
        # The types of every version: later ones have more.
        "types and tags": [*list(rs.DataType)[:16], rs.FormatTag.nchw, rs.FormatTag.any],
        "enumerations": [rs.PropKind.forward_training, rs.Algorithm.eltwise_relu, rs.ScratchpadMode.user],
        "attributes": attr,
        "a primitive": rs.Reorder(pd),
        "a memory": memory,
        "a quantized tensor": rs.quantize(weights().reshape(20, 81)[:, :64], "mxfp4"),
        "an error": rs.InvalidArguments("what", code="RS-F07", where="where", why="why", hint="hint"),
        "a graph": graph(),
    }


def tensors() -> dict[str, Any]:
    x = weights()
    flat = x.reshape(20, 81)
    return {
        "plain": flat,
        "half": flat.astype(ml_dtypes.bfloat16),
        "blocked": rs.Memory.from_numpy(x).to("OIhw4i16o4i"),
        "turned": rs.Memory.from_numpy(x).to("hwio"),
        "nibbles": rs.reorder(flat[:, :80], "ba", dtype="s4", scale=7.0),
        "bytes": rs.reorder(x, "OIhw4i16o4i", dtype="s8", scale=127.0),
        "groups": rs.quantize(flat[:, :64], "s8", group=16),
        "mxfp4": rs.quantize(flat[:, :64], "mxfp4"),
        "steps": np.int64([7]),
    }


def main(folder: Path) -> None:
    folder.mkdir(parents=True)
    network = rs.Network(graph())
    network.save(folder / "network.net", (2, 9, 12, 12))
    np.save(folder / "result.npy", network(image()))
    for protocol in (2, 5):
        held = {name: pickle.dumps(value, protocol) for name, value in values().items()}
        (folder / f"values-{protocol}.pickle").write_bytes(pickle.dumps(held, 2))
    shown = {name: repr(value) for name, value in values().items()}
    (folder / "values.json").write_text(json.dumps(shown, indent=1))
    for end in ("safetensors", "npz", "gguf"):
        rs.save(tensors(), folder / f"tensors.{end}")
    rs.save(tensors()["blocked"], folder / "blocked.npy")
    try:
        import zarr

        from restride.files.zarr_codecs import RestrideCodec

        codec = RestrideCodec(format="aB16b", data_type="mxfp8")
        array = zarr.create_array(
            folder / "codec.zarr", shape=(20, 64), chunks=(20, 64), dtype="f4", serializer=codec,
            compressors=None,
        )  # fmt: skip
        array[:] = weights().reshape(20, 81)[:, :64]
    except ImportError:
        print("Zarr is not installed: no array is written")
    command = "import numpy, restride; restride.reorder(numpy.ones((2, 17, 4, 4), 'f4'), 'nChw16c')"
    os.makedirs(folder / "kernels", mode=0o700)
    environment = os.environ | {
        "RESTRIDE_CACHE_DIR": str(folder / "kernels"),
        "RESTRIDE_MAX_CPU_ISA": "sse41",
    }
    subprocess.run([sys.executable, "-c", command], env=environment, check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
