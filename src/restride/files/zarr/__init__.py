"""Arrays of Zarr as tensors of a file, read and written."""
