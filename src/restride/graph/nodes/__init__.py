"""The operations of a graph's nodes: frozen values, with the dims of their results."""
