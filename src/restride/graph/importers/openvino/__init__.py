"""OpenVINO's models as graphs, translated through ONNX's operators."""
