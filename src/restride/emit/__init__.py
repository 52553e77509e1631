"""Emission: a scheduled nest as LLVM IR text."""
