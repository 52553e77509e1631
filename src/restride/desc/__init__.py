"""Descriptors: the type of a tensor's elements and their layout in memory, as frozen values."""
