"""The common parts of calls on arrays: arguments, formats, keys, cached kernels, results."""
