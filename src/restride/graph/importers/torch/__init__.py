"""Modules of torch as graphs, translated through ONNX's operators."""
