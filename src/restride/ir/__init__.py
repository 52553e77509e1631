"""Engine-independent descriptions of computations: programs, loop trees, loop nests, and their meaning."""
