"""Shared parts of tests: compiled kernels on plain buffers, random descriptors, special values."""
