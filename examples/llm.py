"""Language model: a decoder with 4-bit weights and a cache of keys and values makes tokens.

    python examples/llm.py

The weights are random, and so are the tokens; `language_model.py` runs real checkpoints.
"""

import time

import numpy as np

import restride as rs

LAYERS, HEADS, WIDTH, HIDDEN, WORDS, CAPACITY = 4, 8, 64, 1536, 2048, 128
SIZE = HEADS * WIDTH
rng = np.random.default_rng(0)


def linear(inputs, outputs):
    """Weights in 4 bits, a scale for each 64, packed in the order in which a product reads them."""
    weights = rng.normal(0, inputs**-0.5, (outputs, inputs)).astype(np.float32)
    return rs.pack_weights(rs.quantize(weights, "s4", group=(1, 64)).T)


shapes = {"q": (SIZE, SIZE), "k": (SIZE, SIZE), "v": (SIZE, SIZE), "o": (SIZE, SIZE)}
shapes |= {"up": (SIZE, HIDDEN), "gate": (SIZE, HIDDEN), "down": (HIDDEN, SIZE)}
layers = [{name: linear(*shape) for name, shape in shapes.items()} for _ in range(LAYERS)]
embedding, head = rng.normal(size=(WORDS, SIZE)).astype(np.float32), linear(SIZE, WORDS)
caches = np.zeros((LAYERS, 2, HEADS, CAPACITY, WIDTH), np.float32)


def norm(x):
    """Root mean square normalization."""
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)


def step(token, place):
    """The token that follows `token`, whose place in the sequence is `place`."""
    x = embedding[token : token + 1]
    for layer, (keys, values) in zip(layers, caches, strict=True):
        h = norm(x)
        q, k, v = (rs.matmul(h, layer[name]).reshape(HEADS, 1, WIDTH) for name in "qkv")
        keys[:, place : place + 1], values[:, place : place + 1] = k, v
        attended = rs.attention(q, keys, values, lengths=place + 1)  # no place beyond `lengths` is read
        x = x + rs.matmul(attended.reshape(1, SIZE), layer["o"])
        h = norm(x)
        gate = rs.matmul(h, layer["gate"])
        x = x + rs.matmul(gate / (1 + np.exp(-gate)) * rs.matmul(h, layer["up"]), layer["down"])
    return int(rs.matmul(norm(x), head).argmax())


tokens, start = [step(1, 0)], time.perf_counter()  # the first step compiles
for place in range(1, 32):
    tokens.append(step(tokens[-1], place))
print("tokens:", *tokens)
print(f"{(len(tokens) - 1) / (time.perf_counter() - start):.0f} tokens a second")
matrices = [head, *(weights for layer in layers for weights in layer.values())]
packed, floats = sum(w.nbytes for w in matrices), sum(4 * np.prod(w.dims) for w in matrices)
print(f"weights: {packed / 1e6:.1f} MB, where f32 takes {floats / 1e6:.1f} MB")
