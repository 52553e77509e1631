"""The benchmark harness: restride beside memcpy, NumPy, torch and a real oneDNN in one process."""
