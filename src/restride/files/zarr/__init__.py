"""Zarr arrays as tensors of a file, read and written."""
