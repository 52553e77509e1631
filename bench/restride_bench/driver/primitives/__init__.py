"""The primitives that the driver runs: one file for each."""
