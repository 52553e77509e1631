"""OpenVINO's models as graphs, by way of ONNX's operators."""
