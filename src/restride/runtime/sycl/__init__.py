"""SYCL devices: memory, kernels, launches."""
