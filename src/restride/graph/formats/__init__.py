"""Formats for the tensors of a graph: what each node can do, what it costs, and the choice."""
