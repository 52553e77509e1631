"""What is to be done, as values, on no engine: programs, loop trees, loop nests, and what they mean."""
