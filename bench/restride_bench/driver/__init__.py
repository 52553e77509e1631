"""The driver: oneDNN benchdnn's grammar for reorders and shuffles, on restride's engines."""
