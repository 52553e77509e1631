"""ONNX models as graphs: no model is executed as code, and no package is required."""
