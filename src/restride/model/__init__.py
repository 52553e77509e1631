"""Primitives: the oneDNN programming model, a descriptor solved once and executed often."""
