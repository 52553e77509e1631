"""Write the logs in this folder: python make_logs.py [NAME...].

Needs torch and transformers, openvino, tensorflow-cpu, or onednn. Each model runs in its own process with
ONEDNN_VERBOSE=all. Of the lines about dispatch, checks and creation only the first are kept.
"""

import os
import subprocess
import sys
from pathlib import Path

MODELS = {
    "torch-resnet50": """
        import torch
        from transformers import ResNetConfig, ResNetModel
        model = ResNetModel(ResNetConfig()).eval()
        print("torch", torch.__version__)
        with torch.no_grad():
            for run in range(2):
                print("run", run, model(torch.zeros(1, 3, 64, 64)).pooler_output.shape, flush=True)
        """,
    "torch-bert": """
        import torch
        from torch.utils import mkldnn
        from transformers import BertConfig, BertModel
        sizes = dict(num_hidden_layers=2, hidden_size=256, num_attention_heads=4, intermediate_size=512)
        model = BertModel(BertConfig(**sizes)).eval()
        model.encoder = mkldnn.to_mkldnn(model.encoder)
        print("torch", torch.__version__)
        with torch.no_grad():
            for run in range(2):
                print("run", run, model(torch.zeros(1, 32, dtype=torch.long))[0].shape, flush=True)
        """,
    "torch-graph": """
        import torch
        torch.jit.enable_onednn_fusion(True)
        layers = torch.nn.Conv2d(16, 32, 3), torch.nn.ReLU(), torch.nn.Flatten(2), torch.nn.Linear(36, 8)
        model, x = torch.nn.Sequential(*layers).eval(), torch.zeros(1, 16, 8, 8)
        print("torch", torch.__version__, flush=True)
        with torch.no_grad():
            model = torch.jit.freeze(torch.jit.trace(model, x))
            for run in range(5):
                print("run", run, model(x).shape, flush=True)
        """,
    "openvino": """
        import numpy as np
        import openvino
        from openvino import opset13 as op
        numbers = np.random.default_rng(0)
        image = y = op.parameter([1, 3, 32, 32], np.float32)
        for ins, outs in ((3, 64), (64, 40), (40, 64)):
            weights = op.constant(numbers.standard_normal((outs, ins, 3, 3)).astype(np.float32))
            y = op.relu(op.convolution(y, weights, [1, 1], [1, 1], [1, 1], [1, 1]))
        y = op.max_pool(y, [2, 2], [1, 1], [0, 0], [0, 0], [2, 2]).output(0)
        y = op.softmax(op.reduce_mean(y, np.array([2, 3]), False), 1)
        print("OpenVINO", openvino.__version__)
        request = openvino.Core().compile_model(openvino.Model([y], [image]), "CPU").create_infer_request()
        for run in range(3):
            print("run", run, request.infer([np.zeros((1, 3, 32, 32), np.float32)])[0].shape, flush=True)
        """,
    "tensorflow": """
        import tensorflow as tf
        layers = tf.keras.layers
        model = tf.keras.Sequential([
            tf.keras.Input((32, 32, 3)),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.MaxPool2D(),
            layers.Conv2D(32, 3, padding="same"),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.GlobalAveragePooling2D(),
            layers.Dense(10, activation="softmax"),
        ])
        print("TensorFlow", tf.__version__, flush=True)
        call = tf.function(model, jit_compile=False)
        for run in range(3):
            print("run", run, call(tf.zeros((8, 32, 32, 3))).shape, flush=True)
        """,
    "onednn": """
        from restride_bench.onednn import OneDNN
        onednn = OneDNN()
        def execute(primitive, **descs):
            args = {"src": 1, "wei": 33, "dst": 17}
            primitive.bind_all({args[name]: onednn.memory(md) for name, md in descs.items()})()
        plain, blocked = (onednn.desc((2, 17, 14, 14), "f32", tag) for tag in ("abcd", "aBcd8b"))
        matrix = onednn.desc((64, 64), "f32", "ab")
        floats, halves = (onednn.desc((3, 5, 7), kind, "cab") for kind in ("f32", "bf16"))
        product, _ = onednn.product("matmul", matrix.pointer, matrix.pointer, None, matrix.pointer)
        for run in range(2):
            for src, dst in ((plain, blocked), (blocked, plain), (floats, halves)):
                execute(onednn.reorder(src, dst), src=src, dst=dst)
            execute(product, src=matrix, wei=matrix, dst=matrix)
        """,
}
_MOST = 12


def main() -> None:
    """Run the models named on the command line, or all."""
    for name in sys.argv[1:] or MODELS:
        program = "\n".join(line.removeprefix(" " * 8) for line in MODELS[name].splitlines())
        settings = {
            "ONEDNN_VERBOSE": "all",
            "OMP_WAIT_POLICY": "passive",
            "TF_ENABLE_ONEDNN_OPTS": "1",
            "ONEDNN_VERBOSE_TIMESTAMP": str(int(name == "onednn")),
        }
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | settings,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        kept, seen = [], {"dispatch": 0, "check": 0, "cache": 0}
        for line in done.stdout.splitlines():
            kind = next((word for word in seen if f":{word}" in line), None)
            if kind is not None:
                seen[kind] += 1
            if kind is None or seen[kind] <= _MOST:
                kept.append(line)
        Path(__file__).with_name(f"{name}.log").write_text("\n".join(kept) + "\n")


if __name__ == "__main__":
    main()
