"""Schedules: the machine model, and the choices based on it."""
