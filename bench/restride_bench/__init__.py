"""The benchmark: restride compared with memcpy, NumPy, torch and a real oneDNN in one process; and the demo.

A package of its own above `restride`, which imports nothing of it: `restride bench` and `restride demo` find
it by name.
"""
