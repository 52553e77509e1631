"""The runtime: engines, streams, memory, events, the pool of threads."""
