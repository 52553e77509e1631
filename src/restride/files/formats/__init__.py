"""The formats of files: headers, read as if a stranger wrote them, and written."""
