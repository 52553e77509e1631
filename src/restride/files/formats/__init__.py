"""File formats: headers, written, and read as untrusted input."""
