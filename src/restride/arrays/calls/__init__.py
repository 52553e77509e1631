"""The common parts of functions on arrays: arguments, formats, cache keys, cached kernels, results."""
