"""Schedules for loop trees: digits of axes, their order, vectors, pieces for threads."""
