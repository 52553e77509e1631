"""A conversion: rules, steps, tiles, and what it tells."""
