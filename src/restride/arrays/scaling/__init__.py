"""Quantization: finding, applying and storing scales for a tensor, an axis or groups of elements."""
