"""What several test modules share: compiled kernels on plain buffers, random descriptors, special values."""
