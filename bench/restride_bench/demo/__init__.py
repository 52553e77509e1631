"""`restride demo`: the main job on real data, checked, and timed beside NumPy and memcpy."""
