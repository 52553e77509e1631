"""How loop trees run: digits of axes, their order, vectors, pieces for threads."""
