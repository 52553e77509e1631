"""The operations of the driver: knobs, tensors, values and formulas of each, by subject."""
