"""Networks: graphs that are planned, run, and saved to files."""
