"""Rewrites of graphs: each from one value to the next."""
