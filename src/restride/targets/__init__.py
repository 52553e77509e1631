"""Targets: a nest in, object code out; no device needed."""
