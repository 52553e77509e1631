"""Descriptors: what a tensor's elements are and where they lie, as frozen values."""
