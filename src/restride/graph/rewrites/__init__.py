"""Rewrites of graphs, as functions from value to value."""
