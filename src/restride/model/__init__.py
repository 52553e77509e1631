"""Primitives: oneDNN's programming model, in which a descriptor is solved once and executed many times."""
