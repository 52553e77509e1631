"""What runs and where: engines, streams, memory, events, the pool of threads."""
