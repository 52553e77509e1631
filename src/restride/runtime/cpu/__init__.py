"""The CPU: programs as kernels, launches, and the threads that run them."""
