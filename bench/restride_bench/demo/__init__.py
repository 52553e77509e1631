"""`restride demo`: the main job on real data, checked, and timed compared with NumPy and memcpy."""
