"""Modules of torch as graphs, by way of ONNX's operators."""
