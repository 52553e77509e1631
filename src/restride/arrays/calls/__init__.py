"""What calls on arrays have in common: arguments, formats, keys, kernels that are found again, results."""
