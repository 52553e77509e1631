"""Quantisation: scales for a tensor, an axis or groups of elements, found, applied and kept."""
