"""Convert: the weights of a checkpoint into other formats by rules, checked, in bounded memory.

    python examples/convert.py

On the command line: restride convert model.safetensors packed.safetensors --rule '*=mxfp4' --verify
"""

import tempfile
from pathlib import Path

import numpy as np

import restride as rs

rng = np.random.default_rng(0)
checkpoint = {
    "embed.weight": rng.normal(0, 0.02, (512, 256)),
    "layers.0.q_proj.weight": rng.normal(0, 0.02, (256, 256)),
    "layers.0.up_proj.weight": rng.normal(0, 0.02, (1024, 256)),
    "layers.0.norm.weight": np.ones(256),
}
rules = [
    "*.q_proj.weight=BA16a64b4a,s8,axis=0,scale=absmax",  # blocks of a matmul kernel, a scale for each row
    "*_proj.weight=mxfp4",  # the first rule that matches a name applies
    "embed.weight=bf16",
]

with tempfile.TemporaryDirectory() as folder:
    source, target = Path(folder, "model.safetensors"), Path(folder, "packed.safetensors")
    rs.save({name: tensor.astype(np.float32) for name, tensor in checkpoint.items()}, source)
    print(f"{'before':<10}{source.stat().st_size:>10,} bytes")
    report = rs.convert(source, target, rules, verify=True, memory="128MiB")
    print(f"{'after':<10}{target.stat().st_size:>10,} bytes\n")
    for each in report.tensors:
        error = "" if each.largest_error is None else f", largest error {each.largest_error:.2%} of the range"
        print(f"{each.name:<25}{each.source} -> {each.target}{error}")

    packed = rs.load(target)  # mapped, not read
    print("\nloaded:", *packed)
    row = rs.matmul(np.ones((1, 256), np.float32), packed["layers.0.up_proj.weight"].T)
    print(f"a product by 4-bit weights, from the file: {row.dtype} {row.shape}")
