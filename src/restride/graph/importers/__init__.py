"""Graphs from models that others wrote."""
