"""The runtime: engines, streams, memory, events, the thread pool."""
