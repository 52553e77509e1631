"""Networks: graphs that are planned, run, and kept in files."""
