"""Formats for the tensors of a graph: the alternatives of each node, their costs, and the choice."""
