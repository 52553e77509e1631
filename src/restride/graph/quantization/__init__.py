"""Quantization of f32 networks to bytes: which layers, which scales, and the loss of accuracy."""
