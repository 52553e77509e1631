"""The operations of a graph's nodes: frozen values, and the dims of their results."""
